"""The benchmarks' harness: statistics, targets, the JSON, and that a benchmark that cannot run is not passed over.

No test here judges a time that it measures: what a machine under test takes says nothing.
"""

from __future__ import annotations

import gc
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

pytest.importorskip("rich", reason="rich is not installed: make setup")
import itertools

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks import __main__ as command_line
from benchmarks import harness, joint_states, live_change, motions, processes, registry, report
from benchmarks.harness import ROOT, BenchmarkError, Machine, Options, Result, Target

pytestmark = pytest.mark.project

KEYS = {"name", "value", "unit", "target", "met", "compared_with", "machine"}
MACHINE_KEYS = {
    "cpu",
    "cores",
    "memory_gib",
    "system",
    "python",
    "numpy",
    "rclpy",
    "middleware",
    "load_average",
}
FINITE = st.floats(min_value=1e-6, max_value=1e9)


def result(name: str = "some.figure", value: float = 3.0, target: Target | None = None) -> Result:
    return Result(name=name, value=value, unit="us", target=target, compared_with="something")


def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def printed(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


# --- Targets ------------------------------------------------------------------------------------------------------


@given(value=FINITE, bound=FINITE)
def test_met_follows_from_value_and_target(value: float, bound: float) -> None:
    assert result(value=value, target=Target(bound)).met is (value <= bound)
    assert result(value=value, target=Target(bound, "at least")).met is (value >= bound)
    assert result(value=value).met is None


def test_a_figure_that_is_no_number_meets_nothing() -> None:
    assert not Target(1.0).met_by(float("nan"))
    assert not Target(1.0, "at least").met_by(float("nan"))


@pytest.mark.parametrize(
    ("value", "target", "missed"),
    [
        (50.0, Target(40.0), 0.25),
        (40.0, Target(40.0), 0.0),
        (30.0, Target(40.0), 0.0),
        (1.0, Target(0.0), float("inf")),
        (200.0, Target(250.0, "at least"), 0.2),
        (300.0, Target(250.0, "at least"), 0.0),
    ],
)
def test_missed_by_is_a_part_of_the_bound(value: float, target: Target, missed: float) -> None:
    assert target.missed_by(value) == pytest.approx(missed)


# --- Statistics ---------------------------------------------------------------------------------------------------


@given(st.lists(FINITE, min_size=1, max_size=9))
def test_a_figure_is_the_median_and_the_extremes_of_its_runs(values: list[float]) -> None:
    made = harness.median_result("a", values, "us")
    assert made.value == pytest.approx(float(np.median(values)))
    assert made.spread == (min(values), max(values))


def test_no_runs_make_no_figure() -> None:
    with pytest.raises(BenchmarkError, match="no run"):
        harness.median_result("a", [], "us")


def test_full_runs_are_five_at_least() -> None:
    assert Options().repeats >= 5
    assert Options(quick=True).repeats < Options().repeats
    assert Options(quick=True, runs=4).repeats == 4


def test_timing_calls_as_often_as_it_says_with_the_collector_left_on() -> None:
    seen: list[bool] = []
    seconds = harness.seconds_per_call(lambda: seen.append(gc.isenabled()), 17)
    assert seen == [True] * 17
    assert seconds > 0.0


def test_interleaved_runs_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    # To collect what all tests before have left takes half a second, twenty times.
    monkeypatch.setattr(gc, "collect", int)

    def call(name: str) -> None:
        order.append(name)
        # It takes some time: of a call that takes none, millions would be made.
        sum(range(20_000))

    runs = list(harness.interleaved((partial(call, "a"), partial(call, "b")), Options(runs=3, quick=True)))
    assert [len(values) for values in runs] == [2, 2, 2]
    turns = re.findall(r"a+|b+", "".join(order))
    # Warm-up and finding the counts take two turns each, the three runs one each.
    assert "".join(turn[0] for turn in turns).endswith("ababab")
    assert len({len(turn) for turn in turns[-6::2]}) == 1, "the same count in every run"


# --- What is written and shown ------------------------------------------------------------------------------------


def test_results_have_exactly_the_documented_keys(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    given_results = [result(target=Target(2.0)), result("other", 1234.5678)]
    report.write_json(path, given_results, Machine.here())
    first, second = json.loads(path.read_text(encoding="utf-8"))
    assert set(first) == set(second) == KEYS
    assert set(first["machine"]) == MACHINE_KEYS
    assert (first["value"], first["target"], first["met"]) == (3.0, 2.0, False)
    assert (second["target"], second["met"]) == (None, None)
    assert second["value"] == 1235.0, "four digits: more are noise"
    assert first["machine"]["cores"] >= 1
    assert first["machine"]["numpy"] == np.__version__


def test_committed_results_are_consistent() -> None:
    entries = json.loads(report.RESULTS.read_text(encoding="utf-8"))
    assert entries
    for entry in entries:
        assert (set(entry), set(entry["machine"])) == (KEYS, MACHINE_KEYS)
        assert entry["name"].partition(".")[0] in registry.NAMES
        assert (entry["met"] is None) == (entry["target"] is None)
        if entry["target"] is not None:
            upward = (
                entry["name"].endswith(("naive_ratio", "arrived", ".steps", "throughput"))
                or entry["unit"] == "Hz"
            )
            reached = entry["value"] >= entry["target"] if upward else entry["value"] <= entry["target"]
            assert entry["met"] is reached or entry["value"] == entry["target"], entry["name"]
    assert len({(entry["name"], entry["machine"]["rclpy"]) for entry in entries}) == len(entries)


def test_the_table_says_by_how_much_a_target_is_missed() -> None:
    to = console()
    results = [result("slow", 50.0, Target(40.0)), result("fast", 30.0, Target(40.0)), result("beside")]
    report.print_table(results, {"broken": "why"}, Machine.here(), to)
    lines = {line.split()[0]: line for line in printed(to).splitlines() if line.split()}
    assert "missed by 25%" in lines["slow"]
    assert " met " in lines["fast"]
    assert not re.search(r"\bmet\b|missed", lines["beside"])
    assert "broken: why" in lines["failed"]
    assert "load average" in printed(to)


def test_a_bound_of_nothing_is_missed_by_no_part_of_it() -> None:
    to = console()
    results = [result("lost", 2.0, Target(0.0)), result("none", 0.0, Target(0.0))]
    report.print_table(results, {}, Machine.here(), to)
    lines = {line.split()[0]: line for line in printed(to).splitlines() if line.split()}
    assert re.search(r"\bmissed\b(?! by)", lines["lost"])
    assert " met " in lines["none"]


# --- Motions of controllers ---------------------------------------------------------------------------------------


def test_the_arms_motion_begins_and_ends_at_rest_and_is_what_its_derivatives_say() -> None:
    times = np.linspace(0.0, 5.0, 50_001)
    position, velocity, acceleration = motions.sample_motion(times, 5.0)
    assert position.shape == (50_001, motions.JOINTS)
    for ends in (velocity[[0, -1]], acceleration[[0, -1]]):
        assert np.abs(ends).max() < 1e-12
    step = times[1]
    for values, derivative, error in ((position, velocity, 1e-5), (velocity, acceleration, 1e-4)):
        found = np.gradient(values, step, axis=0)[1:-1]
        np.testing.assert_allclose(found, derivative[1:-1], rtol=0.0, atol=error)
    # All joints go somewhere but the middle one, which only has ripples.
    assert (np.abs(position[-1]) > 0.3).sum() == motions.JOINTS - 1


@pytest.mark.parametrize("interpolation", ["cubic", "quintic"])
def test_the_reference_passes_through_the_points_of_the_trajectory(
    interpolation: motions.Interpolation,
) -> None:
    pytest.importorskip("scipy", reason="scipy is not installed: make setup-tests")
    reference = motions.spline(20, 2.0, interpolation)
    times = motions.trajectory_times(20, 2.0)
    assert (times[0], times[-1], len(times)) == (0, 2_000_000_000, 20)
    position, velocity, acceleration = motions.sample_motion(times * 1e-9, 2.0)
    assert reference(times * 1e-9) == pytest.approx(position, abs=1e-12)
    assert reference.derivative(1)(times * 1e-9) == pytest.approx(velocity, abs=1e-9)
    if interpolation == "quintic":
        assert reference.derivative(2)(times * 1e-9) == pytest.approx(acceleration, abs=1e-8)


@pytest.mark.parametrize(
    ("way", "curvature"),
    [
        (lambda s: motions.circle(s, 0.8), lambda s: np.full_like(s, 0.8)),
        (lambda s: motions.clothoid(s, 0.1), lambda s: 0.1 * s),
    ],
)
def test_ways_have_unit_speed_and_the_curvature_that_they_are_named_by(way: Any, curvature: Any) -> None:
    pytest.importorskip("scipy", reason="scipy is not installed: make setup-tests")
    distance = np.linspace(0.0, 10.0, 100_001)
    places, step = way(distance), 1e-4
    assert places[0].tolist() == [0.0, 0.0]
    tangent = np.gradient(places, step, axis=0)[1:-1]
    assert np.linalg.norm(tangent, axis=1) == pytest.approx(1.0, abs=1e-6)
    heading = np.unwrap(np.arctan2(tangent[:, 1], tangent[:, 0]))
    assert heading[0] == pytest.approx(0.0, abs=1e-3)
    found = np.gradient(heading, step)[10:-10]
    assert found == pytest.approx(curvature(distance[1:-1])[10:-10], abs=1e-4)


# --- Running ------------------------------------------------------------------------------------------------------


def good(options: Options) -> Iterator[Result]:
    yield result("good.figure")


def failing(options: Options) -> Iterator[Result]:
    yield result("failing.first")
    raise BenchmarkError("the part it needs is missing")


def test_a_failing_benchmark_keeps_no_other_from_running() -> None:
    results, _, failures = report.run_all({"failing": failing, "good": good}, Options(), console())
    assert [each.name for each in results] == ["failing.first", "good.figure"]
    assert failures == {"failing": "BenchmarkError: the part it needs is missing"}


OTHER_PYTHON = """#!/bin/sh
test -z "$_ROS_WHEELS_BOOTSTRAP_COMPLETE$LD_LIBRARY_PATH" || exit 3
while [ "$1" != --json ]; do shift; done
echo '[{"name": "good.figure", "value": 4.0, "unit": "us", "machine": {"rclpy": "9.1.2"}}]' > "$2"
"""


def test_another_environment_runs_each_benchmark_beside(
    monkeypatch: pytest.MonkeyPatch, results_file: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/this/environment")
    python, path = tmp_path / "python", tmp_path / "both.json"
    python.write_text(OTHER_PYTHON, encoding="utf-8")
    python.chmod(0o755)
    arguments = ["--only", "frames", "--beside", str(python)]
    assert run_command(monkeypatch, {"frames": good}, *arguments) == 2
    assert run_command(monkeypatch, {"frames": good}, *arguments, "--json", str(path)) == 0
    here, there = json.loads(path.read_text(encoding="utf-8"))
    assert (here["name"], there["name"], there["machine"]) == (
        "good.figure",
        "good.figure",
        {"rclpy": "9.1.2"},
    )
    for said in ("echo no Ray >&2", "echo 'failed  good: no Ray'\necho written: it"):
        python.write_text(f"#!/bin/sh\n{said}\nexit 1\n", encoding="utf-8")
        _, others, failures = report.run_all(
            {"good": good}, Options(), console(), beside=lambda name: report.run_in(python, name, Options())
        )
        assert (others, failures) == ([], {"good": f"BenchmarkError: by {python}: no Ray"})
    assert not results_file.exists()


@pytest.fixture
def results_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the command line writes results, and no environment of this process changed by it."""
    path = tmp_path / "results.json"
    monkeypatch.setattr(command_line, "RESULTS", path)
    monkeypatch.setattr(command_line, "isolate", lambda: None)
    return path


def run_command(
    monkeypatch: pytest.MonkeyPatch, chosen: dict[str, registry.Benchmark], *arguments: str
) -> int:
    monkeypatch.setattr(command_line, "benchmarks", lambda: chosen)
    return CliRunner().invoke(command_line.main, list(arguments)).exit_code


def test_complete_runs_write_the_results(monkeypatch: pytest.MonkeyPatch, results_file: Path) -> None:
    assert run_command(monkeypatch, {"frames": good}) == 0
    assert json.loads(results_file.read_text(encoding="utf-8"))[0]["name"] == "good.figure"


@pytest.mark.parametrize("arguments", [["--quick"], ["--only", "frames"]])
def test_partial_runs_leave_them_alone(
    monkeypatch: pytest.MonkeyPatch, results_file: Path, tmp_path: Path, arguments: list[str]
) -> None:
    assert run_command(monkeypatch, {"frames": good}, *arguments) == 0
    assert not results_file.exists()
    asked_for = tmp_path / "asked_for.json"
    assert run_command(monkeypatch, {"frames": good}, *arguments, "--json", str(asked_for)) == 0
    assert asked_for.exists()


def test_benchmarks_of_fleets_have_a_file_of_their_own(
    monkeypatch: pytest.MonkeyPatch, results_file: Path, tmp_path: Path
) -> None:
    fleet_file = tmp_path / "fleet_results.json"
    monkeypatch.setattr(command_line, "FLEET_RESULTS", fleet_file)
    chosen: dict[str, registry.Benchmark] = {
        name: lambda _, name=name: iter([result(f"{name}.figure")]) for name in ("frames", *registry.FLEET)
    }
    both = [argument for name in registry.FLEET for argument in ("--only", name)]
    assert run_command(monkeypatch, chosen, *both, "--quick") == 0
    assert not fleet_file.exists()
    assert run_command(monkeypatch, chosen, *both) == 0
    assert [each["name"] for each in json.loads(fleet_file.read_text(encoding="utf-8"))] == [
        f"{name}.figure" for name in registry.FLEET
    ]
    assert not results_file.exists()
    assert run_command(monkeypatch, chosen | {registry.FLEET[0]: failing}) == 1
    assert [each["name"] for each in json.loads(results_file.read_text(encoding="utf-8"))] == [
        "frames.figure",
        "failing.first",
    ]


def test_a_failing_benchmark_gives_status_1_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, results_file: Path
) -> None:
    assert run_command(monkeypatch, {"frames": good, "step": failing}) == 1
    assert not results_file.exists()


def test_a_missed_target_is_no_failure(monkeypatch: pytest.MonkeyPatch, results_file: Path) -> None:
    def slow(options: Options) -> Iterator[Result]:
        yield result("slow.figure", 100.0, Target(1.0))

    assert run_command(monkeypatch, {"frames": slow}) == 0
    assert json.loads(results_file.read_text(encoding="utf-8"))[0]["met"] is False


def test_every_benchmark_is_a_module_with_run() -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
    for name in registry.NAMES:
        assert callable(registry.load(name))
    with pytest.raises(BenchmarkError, match="nonsense cannot be imported"):
        registry.load("nonsense")


# --- Processes ----------------------------------------------------------------------------------------------------


def test_a_child_that_dies_is_reported_with_its_last_words() -> None:
    child = processes.Child([sys.executable, "-c", "raise SystemExit('no camera')"], name="camera")
    with child, pytest.raises(BenchmarkError, match="camera ended before 'ready': no camera"):
        child.wait_for("ready")


def test_a_child_is_ended_with_its_block() -> None:
    script = "import json, signal; print(json.dumps({'event': 'ready', 'n': 3}), flush=True); signal.pause()"
    with processes.Child([sys.executable, "-c", script], name="sleeper") as child:
        assert child.wait_for("ready")["n"] == 3
        child.check_alive()
        assert child.cpu_seconds() > 0.0
        pid = child.pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_child_receives_lines_while_it_lives() -> None:
    script = "import json, sys\nfor line in sys.stdin: print(json.dumps({'event': line.strip()}), flush=True)"
    with processes.Child([sys.executable, "-c", script], name="echo") as child:
        for word in ("one", "two"):
            child.say(word)
            assert child.wait_for(word) == {"event": word}
        child.close_input()
        with pytest.raises(BenchmarkError, match="echo"):
            child.say("three")


def test_cpu_time_of_another_process_agrees_with_its_own() -> None:
    script = (
        "import json, sys, time\n"
        "while time.process_time() < 0.2: pass\n"
        "print(json.dumps({'event': 'spent', 'cpu': time.process_time()}), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with processes.Child([sys.executable, "-c", script], name="worker") as child:
        told = child.wait_for("spent")["cpu"]
        assert told <= child.cpu_seconds() <= told + 0.1


def test_children_start_without_the_mark_of_the_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "1")
    assert "_ROS_WHEELS_BOOTSTRAP_COMPLETE" not in processes.child_environment()
    assert processes.child_environment({"A": "b"})["A"] == "b"


# --- Judging ------------------------------------------------------------------------------------------------------


def rows(count: int, transforms: int = 10, latency_ns: int = 200_000) -> np.ndarray:
    stamps = np.arange(count) * 2_000_000
    return np.stack([stamps + latency_ns, stamps, np.full(count, transforms)], axis=1)


def test_joint_states_are_judged_by_what_arrived() -> None:
    run = joint_states.judge(rows(500), 60_000.0, "bridge", 10, 1.0)
    assert run.cpu_us == pytest.approx(120.0)
    assert run.latency_us == pytest.approx(200.0)


def test_joint_states_that_do_not_arrive_are_no_figure() -> None:
    with pytest.raises(BenchmarkError, match="50 of 500 messages"):
        joint_states.judge(rows(50), 60_000.0, "bridge", 10, 1.0)
    with pytest.raises(BenchmarkError, match="10 were expected"):
        joint_states.judge(rows(500, transforms=9), 60_000.0, "bridge", 10, 1.0)


def test_chains_are_the_same_robot_in_usd_and_urdf(tmp_path: Path) -> None:
    pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
    from benchmarks.robots import write_chain, write_urdf
    from usd_ros_bridge.api import load_plan

    write_chain(tmp_path / "chain.usda", 7)
    write_urdf(tmp_path / "chain.urdf", 7)
    plan = load_plan(tmp_path / "chain.usda")
    (robot,) = plan.robots
    urdf = (tmp_path / "chain.urdf").read_text(encoding="utf-8")
    joints = re.findall(
        r'<joint name="(\w+)" type="revolute"><parent link="(\w+)"/><child link="(\w+)"/>', urdf
    )
    revolute = [joint for joint in robot.joints if joint.dofs]
    assert [(joint.name, joint.parent, joint.child) for joint in revolute] == joints
    assert len(joints) == 7
    assert sum(not frame.static for frame in robot.frames) == 7
    assert [output.tf for output in robot.tf_outputs] == ["/tf"]


def test_the_help_names_the_options() -> None:
    environment = processes.child_environment({"PYTHONPATH": str(ROOT)})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    for option in ("--only", "--quick", "--runs", "--json"):
        assert option in done.stdout


# --- Live change --------------------------------------------------------------------------------------------------

MS = 1_000_000


def test_lateness_is_what_a_message_comes_later_than_a_period_after_the_one_before() -> None:
    arrivals = np.array([0, 10, 25, 30, 60]) * MS
    assert live_change.lateness(arrivals).tolist() == pytest.approx([0.0, 0.5, -0.5, 2.0])


def test_the_machine_is_late_where_the_steady_publisher_is_and_a_period_around() -> None:
    steady = np.array([0, 10, 20, 50, 60, 74]) * MS
    assert (live_change.disturbances(steady) // MS).tolist() == [[10, 60]]
    assert live_change.disturbances(np.arange(5) * 10 * MS).shape == (0, 2)


@given(
    arrivals=st.lists(st.integers(0, 1000), min_size=2, unique=True).map(sorted),
    late=st.lists(st.tuples(st.integers(0, 900), st.integers(1, 100)), max_size=8),
)
def test_messages_that_waited_while_the_machine_was_late_are_left_out(
    arrivals: list[int], late: list[tuple[int, int]]
) -> None:
    begins = sorted(begin for begin, _ in late)
    ends = sorted(begin + length for begin, length in late)
    disturbed = np.array(list(zip(begins, ends, strict=True)), dtype=np.int64).reshape(-1, 2)
    expected = [
        any(begin < after and end > before for begin, end in disturbed.tolist())
        for before, after in itertools.pairwise(arrivals)
    ]
    assert live_change.is_disturbed(np.array(arrivals, dtype=np.int64), disturbed).tolist() == expected


def test_stamps_of_steps_are_not_taken_for_losses() -> None:
    rates = pytest.importorskip("benchmarks.peers.rates", reason="ROS 2 is not sourced")
    counter = rates.Counter(stamp_offset=4)
    # 200 Hz with steps of 2 ms; one is lost.
    counter.stamps = [each * 1_000_000 for each in (0, 4, 10, 14, 20, 30, 34, 40, 44)]
    assert counter.lost(200.0) == 1
