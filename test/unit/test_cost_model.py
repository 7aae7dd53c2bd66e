"""The cost model: laws are found again in figures that follow them, and the arithmetic of larger fleets."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

pytest.importorskip("rich", reason="rich is not installed: make setup")
pytest.importorskip("scipy", reason="scipy is not installed: make setup-tests")

from hypothesis import given
from hypothesis import strategies as st

from benchmarks import cost_model, fleet_tables, shards
from benchmarks.cost_model import CostModel, Fit, Law, Machines, Shard
from benchmarks.harness import BenchmarkError

pytestmark = pytest.mark.project

COEFFICIENTS = {
    "tick_idle_cpu": (0.5, 0.006, 0.05),
    "tick_moving_cpu": (0.5, 0.008, 0.06),
    "cpu_moving": (1.0, 0.02, 0.15),
    "memory": (150.0, 0.25),
    "start_cpu": (0.5, 0.002, 1e-6, 1e-4),
    "describe_cpu": (0.7, 0.006, 2e-6),
}
"""Of the terms of each law."""


@pytest.fixture(scope="module")
def values() -> dict[str, float]:
    """Figures that follow the laws."""
    found = {}
    for fleet in (*shards.FITTED, *shards.CHECKED):
        for law in cost_model.SHARD_LAWS:
            found[f"shards.{fleet.name}.{law.figure}"] = Fit(law, COEFFICIENTS[law.figure], ()).predict(
                cost_model.shard_of(fleet)
            )
        for _, figure, _ in fleet_tables.SHARD_ROWS:
            found.setdefault(f"shards.{fleet.name}.{figure}", 3.0)
        found[f"shards.{fleet.name}.bytes_tf"] = 2500.0
        found[f"shards.{fleet.name}.bytes_joint_states"] = 900.0
    return found


@pytest.fixture(scope="module")
def model(values: dict[str, float]) -> CostModel:
    return cost_model.fit_model(values)


def test_laws_are_found_in_figures_that_follow_them(model: CostModel) -> None:
    for figure, fit in model.shard.items():
        assert fit.coefficients == pytest.approx(COEFFICIENTS[figure], rel=1e-6), figure
        assert fit.worst < 1e-9


def test_what_is_not_fitted_is_predicted(model: CostModel, values: dict[str, float]) -> None:
    for fleet in shards.CHECKED:
        for figure, fit in model.shard.items():
            predicted = fit.predict(cost_model.shard_of(fleet))
            assert predicted == pytest.approx(values[f"shards.{fleet.name}.{figure}"])


@given(
    noise=st.lists(st.floats(-0.1, 0.1), min_size=6, max_size=6),
    process=st.floats(0.1, 100.0),
    robot=st.floats(1e-3, 1.0),
)
def test_noise_of_a_tenth_moves_a_prediction_by_little_more(
    noise: list[float], process: float, robot: float
) -> None:
    law = Law("cpu", "ms", "", {"process": lambda _: 1.0, "robot": lambda shard: shard.robots})
    points = [Shard(count, 0.0) for count in (250, 500, 750, 1000, 1500, 2000)]
    exact = Fit(law, (process, robot), ())
    measured = [exact.predict(point) * (1.0 + each) for point, each in zip(points, noise, strict=True)]
    fit = cost_model.fit_law(law, points, measured)
    assert min(fit.coefficients) >= 0.0
    assert fit.worst < 0.25
    assert fit.predict(Shard(1200, 0.0)) == pytest.approx(exact.predict(Shard(1200, 0.0)), rel=0.15)


def test_residuals_are_those_of_numpy() -> None:
    law = Law("cpu", "ms", "", {"process": lambda _: 1.0, "robot": lambda shard: shard.robots})
    points = [Shard(count, 0.0) for count in (500, 1000, 2000)]
    measured = np.array([5.0, 8.0, 17.0])
    fit = cost_model.fit_law(law, points, measured.tolist())
    table = np.array([[1.0, point.robots] for point in points]) / measured[:, None]
    solution, *_ = np.linalg.lstsq(table, np.ones(3), rcond=None)
    assert fit.coefficients == pytest.approx(solution)
    assert fit.errors == pytest.approx(table @ solution - 1.0)


@pytest.mark.parametrize(("points", "message"), [(1, "do not fix"), (3, "not above zero")])
def test_figures_that_fix_no_law_are_refused(points: int, message: str) -> None:
    law = cost_model.SHARD_LAWS[0]
    with pytest.raises(BenchmarkError, match=message):
        cost_model.fit_law(law, [Shard(500, 0.0)] * points, [0.0] * points)


def test_a_missing_figure_is_named(values: dict[str, float]) -> None:
    with pytest.raises(BenchmarkError, match=r"no figure shards\.500x1\.memory"):
        cost_model.fit_model({name: each for name, each in values.items() if name != "shards.500x1.memory"})


def test_ten_thousand_robots_by_hand(model: CostModel) -> None:
    machines = Machines(robots=10_000, machines=20, cores=8, memory_mb=16_000.0, network_mb_s=125.0)
    found = cost_model.estimate(model, machines, shards_each=4, rate=40.0)
    assert (found.shard.robots, found.shard.others, found.shard.heard) == (125, 9875, 125)
    assert found.tick_ms == pytest.approx(0.5 + 0.008 * 125 + 0.06 * 125)
    # Of the CPU time at 20 Hz twice as much.
    assert found.shard_cores == pytest.approx((1.0 + 0.17 * 125) / 100 * 2)
    assert found.cores == pytest.approx(4 * found.shard_cores)
    assert found.memory_mb == pytest.approx(4 * (150 + 0.25 * 125))
    assert found.network_mb_s == pytest.approx(3400 * 500 * 40 * 1e-6)
    assert found.loads(machines)["network of a machine"] == pytest.approx(found.network_mb_s / 125)


def test_at_its_limit_a_resource_is_used_up(model: CostModel) -> None:
    machines = Machines()
    core, cores, memory, network = cost_model.robots_at_limit(model, machines, 50.0).values()
    used = model.shard["cpu_moving"].predict(Shard(core, 0.0, core)) * 50.0 / shards.RATE
    assert used == pytest.approx(100.0)
    assert cores == pytest.approx(8 * core)
    assert 8 * model.shard["memory"].predict(Shard(memory / 8, 0.0)) == pytest.approx(machines.memory_mb)
    assert network * model.robot_bytes * 50.0 == pytest.approx(machines.network_mb_s * 1e6)


def entries(values: dict[str, float]) -> list[dict[str, object]]:
    machine = {
        "cpu": "A",
        "cores": 2,
        "memory_gib": 8.0,
        "system": "Linux",
        "python": "3.11",
        "middleware": "rmw",
        "load_average": 1.5,
    }
    return [{"name": name, "value": each, "machine": machine} for name, each in values.items()]


def test_tables_have_a_cell_for_each_head_and_none_is_empty(values: dict[str, float]) -> None:
    for name, lines in fleet_tables.page_blocks(entries(values)).items():
        if name in ("machine", "summary"):
            continue
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        assert len({len(each) for each in cells}) == 1, name
        assert all(all(row[1:]) for row in cells), name
        assert len(lines) > 3, name


def test_blocks_are_put_between_their_marks() -> None:
    page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
    made = fleet_tables.with_blocks(page, {"x": ["new", "lines"]})
    assert made == "a\n<!-- begin x -->\n\nnew\nlines\n\n<!-- end x -->\nb\n"
    assert fleet_tables.with_blocks(made, {"x": ["new", "lines"]}) == made
    with pytest.raises(BenchmarkError, match="no block 'y'"):
        fleet_tables.with_blocks(page, {"y": []})


def test_quantities_have_a_unit_that_suits_them() -> None:
    texts = {
        (7.03e-6, "MB"): "7.03 B",
        (1500.0, "MB"): "1.5 GB",
        (0.0102, "ms"): "10.2 us",
        (15.0, "kB/s"): "15 kB/s",
        (0.0198, "%"): "0.0198 %",
        (0.0, "s"): "0 ns",
    }
    assert {each: fleet_tables.quantity(*each) for each in texts} == texts


def test_figures_have_three_digits() -> None:
    texts = {0.0123456: "0.0123", 12.345: "12.3", 1234.5: "1,230", 1e-7: "1e-07"}
    assert {value: fleet_tables.number(value) for value in texts} == texts
