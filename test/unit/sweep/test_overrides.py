"""Overrides of a sweep's runs. Oracle: the arrays of the compiled MuJoCo model, in its own units."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from override_stages import STAGE, VARIANTS, body, geom
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.sweep.distributions import Normal, Uniform
from usd_ros_bridge.sweep.run_context import RunContext
from usd_ros_bridge.sweep.run_specs import RunSpec
from usd_ros_bridge.sweep.sweep_description import FunctionDriver, Randomization, StartPose, Sweep
from usd_ros_bridge.sweep.sweep_run import RunWorker

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("pxr")
pytest.importorskip("rclpy")

pytestmark = pytest.mark.app


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., tuple[Any, Any]]:
    """Return what makes a run of no time over a stage, and returns its MuJoCo model and the drawn values."""
    (tmp_path / "world.usda").write_text(STAGE, encoding="utf-8")

    def compile_run(*randomize: Randomization, seed: int = 1, **fields: Any) -> tuple[Any, Any]:
        found: list[Any] = []

        def look(run: RunContext) -> None:
            found.append(run.backend.simulation.model)  # type: ignore[attr-defined]
            run.stop("seen")

        sweep = Sweep(
            name="s",
            asset="world.usda",
            duration=1.0,
            backend="mujoco",
            directory=str(tmp_path),
            randomize=randomize,
            driver=FunctionDriver(function=look),
            **fields,
        )
        worker = RunWorker(sweep)
        try:
            outcome = worker.run(RunSpec(index=0, id="run", parameters={"p": 3.0}, seed=seed))
        finally:
            worker.close()
        if outcome.outcome == "failed":
            raise OptionError(outcome.reason)
        assert outcome.reason == "seen"
        return found[0], outcome.drawn

    return compile_run


def change(select: str, attribute: str, value: Any, operation: Any = "set", **more: Any) -> Randomization:
    """Return a randomisation."""
    return Randomization(select=select, attribute=attribute, value=value, operation=operation, **more)


def test_values_are_parameters_and_draws(compiled: Any) -> None:
    model, drawn = compiled(
        change("/World/one", "mass", Normal(mean=2.0, stddev=0.5, low=1.0), "scale", name="payload"),
        change("/World/scene", "gravity", Uniform(100.0, 200.0)),
    )
    assert drawn.keys() == {"payload", "gravity(/World/scene)"}
    assert model.body_mass[body(model, "one")] == pytest.approx(2.0 * drawn["payload"], rel=1e-6)
    assert model.opt.gravity[2] == pytest.approx(-0.01 * drawn["gravity(/World/scene)"], rel=1e-6)


def test_each_prim_has_a_draw_of_its_own_or_all_have_one(compiled: Any) -> None:
    balls = "/World.collection:balls"
    model, drawn = compiled(change(balls, "mass", Uniform(100.0, 900.0), name="m"))
    assert list(drawn) == ["m"]
    assert model.body_mass[body(model, "one")] == model.body_mass[body(model, "two")]
    model, drawn = compiled(change(balls, "mass", Uniform(100.0, 900.0), name="m", each=True))
    assert list(drawn) == ["m[/World/one]", "m[/World/two]"]
    for name in ("one", "two"):
        assert model.body_mass[body(model, name)] == pytest.approx(
            0.001 * drawn[f"m[/World/{name}]"], rel=1e-6
        )


def test_draws_depend_on_the_seed_and_the_place_alone(compiled: Any) -> None:
    first = change("/World/one", "mass", Uniform(100.0, 900.0), name="a")
    second = change("/World/two", "mass", Uniform(100.0, 900.0), name="b")
    both = compiled(first, second)[1]
    assert compiled(first, second)[1] == both
    assert compiled(first)[1]["a"] == both["a"]
    assert compiled(first, second, seed=2)[1] != both
    rng = np.random.default_rng(np.random.SeedSequence(1, spawn_key=(1, 1)))
    assert both["b"] == pytest.approx(100.0 + 800.0 * rng.random())


def test_poses_and_joints_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "world.usda").write_text(STAGE, encoding="utf-8")
    found: list[Any] = []

    def look(run: RunContext) -> None:
        found.append(
            (run.body_pose("/World/two"), run.joint_position("hinge"), run.body_pose("/World/two/arm"))
        )

    pose = StartPose(position=(1.0, 2.0, 3.0), rpy=(0.0, 0.0, math.pi / 2))
    sweep = Sweep(
        name="s",
        asset="world.usda",
        duration=0.004,
        backend="mujoco",
        directory=str(tmp_path),
        poses={"/World/two": pose},
        joints={"hinge": 0.5},
        driver=FunctionDriver(function=look),
    )
    worker = RunWorker(sweep)
    assert worker.run(RunSpec(index=0, id="run", parameters={}, seed=1)).outcome == "completed"
    worker.close()
    for row, (body_pose, joint, arm) in enumerate(found):
        np.testing.assert_allclose(body_pose[:3], [1.0, 2.0, 3.0], atol=1e-4)
        np.testing.assert_allclose(np.abs(body_pose[3:]), [0, 0, math.sqrt(0.5), math.sqrt(0.5)], atol=1e-3)
        # The drive begins to turn the joint back to 0.
        near = 0.1 if row else 1e-6
        assert joint == pytest.approx(0.5, abs=near)
        angle = math.pi / 4 + 0.25
        np.testing.assert_allclose(np.abs(arm[3:]), [0, 0, math.sin(angle), math.cos(angle)], atol=near)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("randomization", "message"),
    [
        (change("/World/oen", "mass", 1.0), r"randomize\[0\]: there is no prim '/World/oen'; did you mean"),
        (change("/World/one", "mass", Uniform(2, 1)), r"randomize\[0\]: uniform: 2 is above 1"),
    ],
)
def test_an_impossible_change_is_one_line(compiled: Any, randomization: Randomization, message: str) -> None:
    with pytest.raises(BridgeError, match=message) as caught:
        compiled(randomization)
    assert "\n" not in str(caught.value)


def test_variants_and_overrides_of_one_worker_follow_each_run(tmp_path: Path) -> None:
    (tmp_path / "world.usda").write_text(VARIANTS, encoding="utf-8")
    found: list[float] = []

    def look(run: RunContext) -> None:
        model = run.backend.simulation.model  # type: ignore[attr-defined]
        found.append(float(model.body_mass[body(model, "ball")]))
        run.stop("seen")

    sweep = Sweep(
        name="s",
        asset="world.usda",
        duration=1.0,
        backend="mujoco",
        directory=str(tmp_path),
        variants={"/World:load": "${load}"},
        randomize=(change("/World/group/ball", "mass", "${factor}", "scale"),),
        driver=FunctionDriver(function=look),
    )
    worker = RunWorker(sweep)
    wanted = [("empty", 1.0), ("full", 2.0), ("empty", 2.0), ("empty", 1.0), ("full", 1.0)]
    for row, (load, factor) in enumerate(wanted):
        spec = RunSpec(index=row, id=str(row), parameters={"load": load, "factor": factor}, seed=1)
        assert worker.run(spec).reason == "seen"
    worker.close()
    assert found == pytest.approx([2.0, 12.0, 4.0, 2.0, 6.0])


@pytest.mark.parametrize("rpy", [None, (0.3, -0.4, 1.2)])
def test_a_pose_is_one_of_the_ros_world_whatever_the_axes_and_units_of_the_stage(
    tmp_path: Path, rpy: Any
) -> None:
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation
    (tmp_path / "world.usda").write_text(VARIANTS, encoding="utf-8")
    found: list[Any] = []

    def look(run: RunContext) -> None:
        found.append(run.body_pose("/World/group/ball"))
        run.stop("seen")

    sweep = Sweep(
        name="s",
        asset="world.usda",
        duration=1.0,
        backend="mujoco",
        directory=str(tmp_path),
        driver=FunctionDriver(function=look),
    )
    for poses in ({}, {"/World/group/ball": StartPose(position=(1.0, 2.0, 3.0), rpy=rpy)}):
        worker = RunWorker(replace(sweep, poses=poses))
        assert worker.run(RunSpec(index=0, id="run", parameters={}, seed=1)).reason == "seen"
        worker.close()
    before, after = found
    np.testing.assert_allclose(after[:3], [1.0, 2.0, 3.0], atol=1e-6)
    expected = rotation.from_quat(before[3:]) if rpy is None else rotation.from_euler("xyz", rpy)
    assert (expected.inv() * rotation.from_quat(after[3:])).magnitude() < 1e-6


def test_a_run_of_one_robot_of_a_stage_has_overrides_too(tmp_path: Path) -> None:
    del tmp_path
    world = Path(__file__).parents[3] / "examples/rover/world.usda"
    found: list[float] = []

    def look(run: RunContext) -> None:
        model = run.backend.simulation.model  # type: ignore[attr-defined]
        found.append(float(model.geom_friction[geom(model, "left_wheel/collision/tyre"), 0]))
        run.stop("seen")

    for options in ({}, {"contexts": ["/World/rover"]}):
        sweep = Sweep(
            name="s",
            asset=str(world),
            duration=1.0,
            backend="mujoco",
            options=options,
            randomize=(change("/World/rover/**", "friction", 0.123),),
            driver=FunctionDriver(function=look),
        )
        worker = RunWorker(sweep)
        assert worker.run(RunSpec(index=0, id="run", parameters={}, seed=1)).reason == "seen"
        worker.close()
    assert found == pytest.approx([0.123, 0.123])


def test_runs_that_differ_by_little_are_not_the_same(tmp_path: Path) -> None:
    (tmp_path / "world.usda").write_text(STAGE, encoding="utf-8")
    heights: list[float] = []

    def look(run: RunContext) -> None:
        heights.append(float(run.body_pose("/World/one")[2]))
        run.stop("seen")

    sweep = Sweep(
        name="s",
        asset="world.usda",
        duration=1.0,
        backend="mujoco",
        directory=str(tmp_path),
        poses={"/World/one": StartPose(position=(0, 0, "${z}"))},
        driver=FunctionDriver(function=look),
    )
    worker = RunWorker(sweep)
    for z in (1.0, 1.0 + 1e-10, 1.0):
        assert worker.run(RunSpec(index=0, id="run", parameters={"z": z}, seed=1)).reason == "seen"
    worker.close()
    assert heights[0] == heights[2] != heights[1]
