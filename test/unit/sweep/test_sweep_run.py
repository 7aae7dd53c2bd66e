"""One run of a sweep: outcome, metrics, drivers, and that a run depends on its spec alone."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.sweep.distributions import Uniform
from usd_ros_bridge.sweep.function_loader import load_function
from usd_ros_bridge.sweep.run_context import RunContext
from usd_ros_bridge.sweep.run_specs import RunSpec, plan_runs
from usd_ros_bridge.sweep.sweep_description import (
    FunctionDriver,
    LaunchDriver,
    Randomization,
    RunMetric,
    Signal,
    StopCondition,
    Sweep,
    TopicCommand,
)
from usd_ros_bridge.sweep.sweep_run import RunOutcome, RunWorker

pytest.importorskip("mujoco")
pytest.importorskip("pxr")
pytest.importorskip("rclpy")

pytestmark = pytest.mark.app

ROVER = "/World/rover"
WORLD = Path(__file__).parents[3] / "examples/rover/world.usda"
FALL = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "World"
{
    def PhysicsScene "scene" {}
    def Cube "ground" (prepend apiSchemas = ["PhysicsCollisionAPI"])
    {
        double size = 2
        double3 xformOp:translate = (0, 0, -1)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Sphere "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"])
    {
        double radius = 0.1
        float physics:mass = 1
        double3 xformOp:translate = (0, 0, 5)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
}
"""
BALL = "/World/ball"
SPEC = RunSpec(index=0, id="run_0", parameters={}, seed=3)


@pytest.fixture
def fall(tmp_path: Path) -> Sweep:
    """Return a sweep of one run: a ball falls from 5 m."""
    (tmp_path / "fall.usda").write_text(FALL, encoding="utf-8")
    return Sweep(
        name="fall",
        asset="fall.usda",
        duration=0.5,
        backend="mujoco",
        directory=str(tmp_path),
        backend_options={"dt": 0.001},
    )


@pytest.fixture
def made() -> Iterator[Any]:
    """Return what makes one run of a sweep."""
    workers: list[RunWorker] = []

    def make(sweep: Sweep, spec: RunSpec = SPEC, **more: Any) -> RunOutcome:
        workers.append(RunWorker(sweep))
        return workers[-1].run(spec, **more)

    yield make
    for worker in workers:
        worker.close()


def metric(kind: str, statistic: Any = "final", **fields: Any) -> RunMetric:
    """Return a metric of the ball."""
    after = fields.pop("after", 0.0)
    percentile = fields.pop("percentile", 50.0)
    return RunMetric(
        signal=Signal(kind=kind, **{"body": BALL, **fields}),
        statistic=statistic,
        after=after,
        percentile=percentile,
    )


# --- Metrics and stop conditions, against the law of the free fall -------------------------------------------------


def test_metrics_of_a_fall_are_those_of_physics(fall: Sweep, made: Any) -> None:
    outcome = made(
        replace(
            fall,
            metrics={
                "z": metric("position", axis="z"),
                "highest": metric("position", "max", axis="z"),
                "lowest": metric("position", "min", axis="z"),
                "first": metric("position", "initial", axis="z"),
                "late": metric("position", "initial", axis="z", after=0.25),
                "range": metric("position", "range", axis="z"),
                "vz": metric("velocity", axis="z"),
                "speed": metric("speed"),
                "mean_speed": metric("speed", "mean"),
                "median_speed": metric("speed", "percentile"),
                "rms": metric("speed", "rms"),
                "stddev": metric("speed", "stddev"),
                "travelled": metric("travelled"),
                "displacement": metric("displacement"),
                "integral": metric("speed", "integral"),
                "distance": metric("distance", goal=[3.0, 4.0, 5.0]),
                "outside": metric("outside", low=[-1, -1, 4.5], high=[1, 1, 9]),
                "time": metric("time"),
                "tilt": metric("tilt", "max"),
                "spin": metric("angular_speed", "max"),
                "contacts": metric("contacts", "max"),
            },
        )
    )
    g, t = 9.81, 0.5
    dropped = 0.5 * g * t * t
    expected = {
        "z": 5 - dropped,
        "highest": 5.0,
        "lowest": 5 - dropped,
        "first": 5.0,
        "range": dropped,
        "late": 5 - 0.5 * g * 0.25**2,
        "vz": -g * t,
        "speed": g * t,
        "mean_speed": g * t / 2,
        "median_speed": g * t / 2,
        "rms": g * t / math.sqrt(3),
        "stddev": g * t / math.sqrt(12),
        "travelled": dropped,
        "displacement": dropped,
        "integral": dropped,
        "distance": math.hypot(3, 4, dropped),
        "outside": 4.5 - (5 - dropped),
        "time": 0.5,
        "tilt": 0.0,
        "spin": 0.0,
        "contacts": 0.0,
    }
    assert (outcome.outcome, outcome.reason, outcome.steps) == ("completed", "", 500)
    assert outcome.sim_time == pytest.approx(0.5)
    assert outcome.metrics.keys() == expected.keys()
    for name, value in expected.items():
        assert outcome.metrics[name] == pytest.approx(value, rel=4e-3, abs=2e-4), name


def test_a_run_ends_when_a_condition_is_met(fall: Sweep, made: Any) -> None:
    low = StopCondition(signal=Signal(kind="position", body=BALL, axis="z"), below=4.0)
    metrics = {"t": RunMetric(time_to="low"), "never": RunMetric(time_to="high")}
    high = StopCondition(signal=Signal(kind="position", body=BALL, axis="z"), above=9.0)
    outcome = made(replace(fall, stop={"low": low, "high": high}, metrics=metrics))
    assert outcome.outcome == "stopped"
    assert outcome.reason.startswith("low: position 3.99")
    assert outcome.metrics["t"] == pytest.approx(math.sqrt(2 / 9.81), abs=2e-3)
    assert math.isnan(outcome.metrics["never"])
    assert outcome.sim_time == outcome.metrics["t"]


def test_a_condition_must_hold_for_its_time_and_counts_after_its_time(fall: Sweep, made: Any) -> None:
    moving = StopCondition(signal=Signal(kind="speed", body=BALL), above=0.0, hold=0.1, after=0.2)
    outcome = made(replace(fall, stop={"moving": moving}))
    assert outcome.sim_time == pytest.approx(0.3)
    failing = replace(moving, outcome="failed")
    assert made(replace(fall, stop={"moving": failing})).outcome == "failed"


def test_a_condition_that_goes_on_gives_the_time_of_the_first_time(fall: Sweep, made: Any) -> None:
    sweep = replace(
        fall,
        stop={
            "fast": StopCondition(signal=Signal(kind="speed", body=BALL), above=1.0, outcome="continue"),
            "faster": StopCondition(signal=Signal(kind="speed", body=BALL), above=2.0, outcome="continue"),
            "low": StopCondition(signal=Signal(kind="position", body=BALL, axis="z"), below=4.0),
        },
        metrics={name: RunMetric(time_to=name) for name in ("fast", "faster", "low")},
    )
    outcome = made(sweep)
    assert outcome.reason.startswith("low: ")
    assert outcome.metrics["fast"] == pytest.approx(1.0 / 9.81, abs=2e-3)
    assert outcome.metrics["faster"] == pytest.approx(2.0 / 9.81, abs=2e-3)
    assert outcome.metrics["low"] == pytest.approx(math.sqrt(2.0 / 9.81), abs=2e-3)


def test_contacts_are_counted_and_their_force_is_the_weight(fall: Sweep, made: Any) -> None:
    on_ground = Signal(kind="contacts", body=BALL, other="/World/gr*")
    elsewhere = Signal(kind="contacts", body=BALL, other="/World/wall")
    sweep = replace(
        fall,
        duration=3.0,
        stop={"touched": StopCondition(signal=on_ground, above=0.5, hold=1.0)},
        metrics={
            "force": metric("contact_force", after=2.0),
            "others": RunMetric(signal=elsewhere, statistic="max"),
        },
    )
    outcome = made(sweep)
    assert outcome.reason.startswith("touched: contacts 1 is above 0.5 for 1 s")
    assert outcome.metrics["force"] == pytest.approx(9.81, rel=0.02)
    assert outcome.metrics["others"] == 0.0


def test_joints_have_signals_too(made: Any) -> None:
    def spin(run: RunContext) -> Any:
        run.set_joint_velocity({"left_wheel_joint": 2.0})
        yield 0.2
        run.set_metric("seen", run.joint_velocity("left_wheel_joint"))

    signals = {
        name: RunMetric(signal=Signal(kind=name, joint=joint), statistic="max")
        for name, joint in (
            ("joint_position", "left_wheel_joint"),
            ("joint_velocity", "left_wheel_joint"),
            ("joint_effort", "left_wheel_joint"),
            ("joint_speed", ""),
            ("power", ""),
            ("absolute_power", ""),
            ("velocity_error", "left_wheel_joint"),
            ("limit_margin", ""),
        )
    }
    sweep = Sweep(
        name="s",
        asset=str(WORLD),
        duration=0.3,
        backend="mujoco",
        metrics=signals,
        driver=FunctionDriver(function=spin),
    )
    outcome = made(sweep)
    assert outcome.outcome == "completed", outcome.reason
    assert outcome.metrics["seen"] == pytest.approx(2.0, rel=0.3)
    assert outcome.metrics["velocity_error"] == pytest.approx(2.0, rel=0.3)
    assert outcome.metrics["joint_speed"] >= outcome.metrics["joint_velocity"]
    assert 0 < outcome.metrics["power"] <= outcome.metrics["absolute_power"]
    assert outcome.metrics["joint_effort"] <= 6.0 + 1e-6
    assert outcome.metrics["limit_margin"] == math.inf


# --- Drivers -------------------------------------------------------------------------------------------------------


def test_a_generator_is_a_script_that_waits(fall: Sweep, made: Any) -> None:
    times: list[float] = []

    def script(run: RunContext, pause: float) -> Any:
        times.append(run.time)
        yield pause
        times.append(run.time)
        yield
        times.append(run.time)

    made(replace(fall, driver=FunctionDriver(function=script, arguments={"pause": 0.25})))
    assert times == pytest.approx([0.0, 0.25, 0.251])


def test_a_function_is_called_at_its_rate(fall: Sweep, made: Any) -> None:
    times: list[float] = []
    driver = FunctionDriver(function=lambda run: times.append(run.time), rate=50)
    made(replace(fall, duration=0.1, driver=driver))
    assert times == pytest.approx([0.0, 0.02, 0.04, 0.06, 0.08])
    times.clear()
    made(replace(fall, duration=0.1, driver=replace(driver, rate=0.0)))
    assert len(times) == 100


@pytest.mark.parametrize(("rate", "calls"), [(30, 30), (70, 70), (100, 100), (1000, 100)])
def test_a_rate_holds_whatever_the_step(fall: Sweep, made: Any, rate: float, calls: int) -> None:
    times: list[float] = []
    driver = FunctionDriver(function=lambda run: times.append(run.time), rate=rate)
    made(replace(fall, duration=1.0, backend="kinematic", backend_options={}, step=0.01, driver=driver))
    due = np.arange(calls) / min(rate, 100)
    assert times == pytest.approx(np.ceil(due * 100 - 1e-6) / 100)


def test_a_driver_ends_the_run_and_sets_metrics(fall: Sweep, made: Any) -> None:
    def stop(run: RunContext) -> Any:
        yield 0.1
        run.set_metric("fallen", 5.0 - run.body_pose(BALL)[2])
        run.stop("enough")
        yield 0.0
        raise AssertionError("resumed after the end")

    outcome = made(replace(fall, driver=FunctionDriver(function=stop), metrics={"z": metric("speed")}))
    assert (outcome.outcome, outcome.reason) == ("stopped", "enough")
    assert outcome.metrics["fallen"] == pytest.approx(0.5 * 9.81 * 0.01, rel=0.02)
    assert outcome.metrics["z"] == pytest.approx(0.981, rel=0.02)
    failed = made(replace(fall, driver=FunctionDriver(function=lambda run: run.fail("no grip"))))
    assert (failed.outcome, failed.reason, failed.steps) == ("failed", "no grip", 0)


def test_a_driver_of_a_file_is_found_beside_the_sweep(fall: Sweep, made: Any, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("WAIT = 0.2\n", encoding="utf-8")
    (tmp_path / "drive.py").write_text(
        "from helper import WAIT\n\n\ndef go(run, reason):\n    yield WAIT\n    run.stop(reason)\n",
        encoding="utf-8",
    )
    driver = FunctionDriver(function="drive.py:go", arguments={"reason": "done"})
    outcome = made(replace(fall, driver=driver))
    assert (outcome.reason, outcome.sim_time) == ("done", pytest.approx(0.2))


def test_a_driver_whose_file_ends_the_program_is_one_line(tmp_path: Path) -> None:
    """As scripts do whose last line is `sys.exit(main())`."""
    (tmp_path / "drive.py").write_text(
        "import sys\n\n\ndef go(run):\n    yield 0.1\n\n\nsys.exit(0)\n", encoding="utf-8"
    )
    with pytest.raises(OptionError, match=r"cannot load .*drive\.py.*SystemExit"):
        load_function("drive.py:go", str(tmp_path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def go(run):\n    1 / 0\n", r"the driver raised: drive\.py:2: ZeroDivisionError: division by zero"),
        ("def go(run):\n    yield 'x'\n", r"yielded 'x': yield the seconds to wait"),
        ("def go(run):\n    import sys\n    sys.exit(3)\n", r"the driver raised: drive\.py:3: SystemExit: 3"),
        ("def go(run):\n    run.send('x', {})\n", "there is no subscription 'x'"),
        ("def go(run):\n    run.body_pose('/World/bal')\n", "there is no body '/World/bal'; did you mean"),
        ("def gone(run):\n    pass\n", "drive.py has no function 'go'; did you mean gone"),
        ("import nothing_of_the_kind\n", r"cannot load .*drive\.py.*No module named"),
        ("def go(run)\n", r"cannot load .*drive\.py.*SyntaxError"),
    ],
)
def test_what_a_driver_raises_is_a_failed_run_of_one_line(
    fall: Sweep, made: Any, tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "drive.py").write_text(text, encoding="utf-8")
    outcome = made(replace(fall, driver=FunctionDriver(function="drive.py:go")))
    assert outcome.outcome == "failed"
    assert "\n" not in outcome.reason
    assert pytest.approx(0) == outcome.steps
    assert re.search(reason, outcome.reason), outcome.reason


def test_a_worker_goes_on_after_a_failed_run(fall: Sweep) -> None:
    def sometimes(run: RunContext) -> None:
        if run.parameters["bad"]:
            raise RuntimeError("bad")

    worker = RunWorker(
        replace(fall, driver=FunctionDriver(function=sometimes), metrics={"z": metric("speed")})
    )
    runs = [
        worker.run(RunSpec(index=row, id=str(row), parameters={"bad": bad}, seed=1))
        for row, bad in enumerate((False, True, False))
    ]
    worker.close()
    assert [run.outcome for run in runs] == ["completed", "failed", "completed"]
    assert runs[0].metrics == runs[2].metrics


def test_messages_are_sent_at_their_times(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = (
        TopicCommand(at=0.1, topic="cmd_vel", message={"linear": {"x": 0.4}}, every=0.1, until=0.6),
        TopicCommand(at=0.7, topic="cmd_vel", message={"linear": {"x": 0.0}}),
    )
    speed = Signal(kind="speed", body=ROVER)
    sweep = Sweep(
        name="s",
        asset=str(WORLD),
        duration=1.2,
        backend="mujoco",
        commands=commands,
        metrics={
            "before": RunMetric(signal=speed, statistic="initial"),
            "top": RunMetric(signal=speed, statistic="max"),
            "end": RunMetric(signal=speed, statistic="mean", after=1.1),
        },
    )
    outcome = made(sweep)
    assert outcome.outcome == "completed", outcome.reason
    assert outcome.metrics["before"] < 0.05
    assert outcome.metrics["top"] == pytest.approx(0.4, rel=0.3)
    assert outcome.metrics["end"] < 0.05
    often = TopicCommand(at=0.1, topic="cmd_vel", message={}, every=0.005, until=0.15)
    steady = TopicCommand(at=0.1, topic="cmd_vel", message={}, every=0.015, until=0.19)
    sent: list[float] = []
    send = RunContext.send

    def noted(run: RunContext, *arguments: Any) -> None:
        sent.append(run.time)
        send(run, *arguments)

    monkeypatch.setattr(RunContext, "send", noted)
    made(replace(sweep, backend="kinematic", step=0.01, duration=0.5, commands=(steady,)))
    assert sent == pytest.approx([0.1, 0.12, 0.13, 0.15, 0.16, 0.18, 0.19])
    sent.clear()
    made(replace(sweep, backend="kinematic", step=0.01, duration=0.5, commands=(often,)))
    assert sent == pytest.approx([0.1, 0.11, 0.12, 0.13, 0.14, 0.15])
    wrong = replace(sweep, commands=(TopicCommand(at=0, topic="cmd_val", message={}),))
    assert "commands[0]: there is no subscription 'cmd_val'; there are: /rover/cmd_vel" in made(wrong).reason
    wrong = replace(sweep, commands=(TopicCommand(at=0, topic="cmd_vel", message={"liner": {}}),))
    assert made(wrong).reason.startswith("commands[0]: ")


# --- Faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"asset": "none.usda"}, "cannot open .*none.usda.*no such file"),
        ({"backend": "mujoko"}, "mujoko"),
        ({"backend_options": {"lockstp": 1}}, "lockstp"),
        ({"options": {"controller_rat": 1}}, "did you mean controller_rate"),
        ({"options": {"controller_rate": -1.0}}, r"options\.controller_rate: "),
        ({"options": {"record": "x.mcap"}}, r"options\.record: a sweep has a field"),
        ({"duration": 0}, "duration: give the seconds"),
        ({"duration": "${x}"}, r"\$\{x\} refers to no parameter"),
        ({"variants": {"/World:nothing": "a"}}, "no variant set 'nothing'"),
        ({"joints": {"elbow": 1.0}}, "joints: there is no joint 'elbow'"),
        ({"metrics": {"a": metric("sped")}}, "metrics.a: there is no signal 'sped'; did you mean speed"),
        ({"metrics": {"a": metric("speed", body="/World/bal")}}, "metrics.a: .*no body '/World/bal'"),
        ({"metrics": {"a": metric("position")}}, "metrics.a: signal position: axis: use one of x, y, z"),
        ({"metrics": {"a": RunMetric(time_to="b")}}, "metrics.a: there is no stop condition 'b'"),
        ({"stop": {"a": StopCondition(signal=Signal(kind="time"))}}, r"stop\.a: give either above or below"),
        ({"driver": FunctionDriver(function="nothing")}, "'nothing' is no function: write path.py:function"),
    ],
)
def test_what_is_not_there_is_a_failed_run_of_one_line(
    fall: Sweep, made: Any, fields: dict[str, Any], reason: str
) -> None:
    outcome = made(replace(fall, **fields))
    assert (outcome.outcome, outcome.steps) == ("failed", 0)
    assert re.search(reason, outcome.reason), outcome.reason
    assert "\n" not in outcome.reason


def test_check_raises_before_the_first_run(fall: Sweep) -> None:
    worker = RunWorker(fall)
    worker.check(SPEC)
    worker.close()
    worker = RunWorker(
        replace(fall, randomize=(Randomization(select="/World/x", attribute="mass", value=1.0),))
    )
    with pytest.raises(BridgeError, match=r"randomize\[0\]: there is no prim '/World/x'"):
        worker.check(SPEC)
    worker.close()


def test_a_simulation_that_diverges_is_a_failed_run(fall: Sweep, made: Any) -> None:
    def push(run: RunContext) -> None:
        run.backend.simulation.data.qvel[:] = 1e12  # type: ignore[attr-defined]

    outcome = made(replace(fall, driver=FunctionDriver(function=push)))
    assert outcome.outcome == "failed"
    assert "diverged" in outcome.reason or "not finite" in outcome.reason
    # A condition that is met, or a driver that ends the run, does not hide it.
    met = StopCondition(signal=Signal(kind="time"), above=0.0015)
    stopped = made(replace(fall, driver=FunctionDriver(function=push), stop={"early": met}))
    assert (stopped.outcome, stopped.reason) == ("failed", outcome.reason)
    assert stopped.steps < 16

    def push_and_stop(run: RunContext) -> Any:
        push(run)
        yield 0.002
        run.stop("enough")

    ended = made(replace(fall, driver=FunctionDriver(function=push_and_stop)))
    assert (ended.outcome, ended.reason) == ("failed", outcome.reason)


def test_a_metric_that_raises_costs_no_other_one(fall: Sweep, made: Any) -> None:
    def wrong(run: RunContext) -> float:
        raise KeyError("gone")

    metrics = {"bad": RunMetric(function=wrong), "time": metric("time")}
    outcome = made(replace(fall, metrics=metrics))
    assert outcome.outcome == "failed"
    assert re.fullmatch(r"metrics\.bad: test_sweep_run\.py:\d+: KeyError: 'gone'", outcome.reason)
    assert math.isnan(outcome.metrics["bad"])
    assert outcome.metrics["time"] == pytest.approx(0.5)

    def driver(run: RunContext) -> Any:
        yield 0.1
        raise RuntimeError("no grip")

    outcome = made(replace(fall, metrics=metrics, driver=FunctionDriver(function=driver)))
    assert "no grip" in outcome.reason, "what went wrong first"
    assert outcome.metrics["time"] == pytest.approx(0.1)


# --- Other backends ------------------------------------------------------------------------------------------------


def test_a_backend_without_time_of_its_own_steps_as_the_sweep_says(made: Any) -> None:
    sweep = Sweep(
        name="s",
        asset=str(WORLD),
        duration=2.0,
        step=0.02,
        backend="kinematic",
        commands=(TopicCommand(at=0, topic="cmd_vel", message={"linear": {"x": 0.5}}, every=0.1),),
        metrics={"d": RunMetric(signal=Signal(kind="displacement", body=ROVER))},
    )
    outcome = made(sweep)
    assert (outcome.outcome, outcome.steps) == ("completed", 100), outcome.reason
    assert outcome.metrics["d"] == pytest.approx(1.0, rel=0.15)


# --- Determinism ---------------------------------------------------------------------------------------------------

PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_sweep_run import rover_sweep
from usd_ros_bridge.sweep.run_specs import plan_runs
from usd_ros_bridge.sweep.sweep_run import RunWorker
runs = plan_runs(rover_sweep())
worker = RunWorker(rover_sweep())
outcomes = {}
for index in map(int, sys.argv[3].split(",")):
    done = worker.run(runs[index], record=Path(sys.argv[2], f"{index}.mcap"))
    outcomes[index] = [done.outcome, done.reason, dict(done.metrics), dict(done.drawn), done.steps]
worker.close()
print(json.dumps(outcomes))
"""


def rover_sweep() -> Sweep:
    """Return a sweep of four runs of the rover, with randomisation and a driver with noise."""
    return Sweep(
        name="rover",
        asset=str(WORLD),
        duration=0.4,
        backend="mujoco",
        repeats=2,
        parameters={"payload": (0.0, 10.0)},
        randomize=(
            Randomization(select=ROVER, attribute="mass", operation="add", value="${payload}"),
            Randomization(
                select="/World/rover/*_wheel",
                attribute="friction",
                value=Uniform(0.2, 0.9),
                each=True,
                name="mu",
            ),
        ),
        driver=FunctionDriver(function=noisy, rate=50),
        metrics={
            name: RunMetric(signal=Signal(kind=name, body=ROVER), statistic="rms")
            for name in ("speed", "travelled", "tilt")
        },
    )


def noisy(run: RunContext) -> None:
    """Drive with a speed that is random."""
    run.send("cmd_vel", {"linear": {"x": float(run.rng.normal(0.5, 0.1))}})


def test_a_run_is_the_same_in_whatever_worker_and_order(tmp_path: Path) -> None:
    pytest.importorskip("foxglove")
    results = []
    for name, order in (("a", "0,1,2,3"), ("b", "3,1,0,2"), ("c", "2")):
        folder = tmp_path / name
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(folder), order],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        results.append(json.loads(done.stdout.splitlines()[-1]))
    first, second, third = results
    assert first == second
    assert first["2"] == third["2"]
    assert len({json.dumps(each[2]) for each in first.values()}) == 4
    for index in range(4):
        recorded = (tmp_path / f"a/{index}.mcap").read_bytes()
        assert len(recorded) > 10_000
        assert recorded == (tmp_path / f"b/{index}.mcap").read_bytes()
    assert (tmp_path / "a/2.mcap").read_bytes() == (tmp_path / "c/2.mcap").read_bytes()


def test_a_worker_forgets_the_run_before(tmp_path: Path) -> None:
    del tmp_path
    sweep = rover_sweep()
    runs = plan_runs(sweep)
    worker = RunWorker(sweep)
    first = worker.run(runs[0])
    for run in (runs[3], runs[1], runs[0]):
        again = worker.run(run)
    worker.close()
    assert (again.metrics, again.drawn) == (first.metrics, first.drawn)
    assert np.isfinite(list(first.metrics.values())).all()


def test_progress_is_told(fall: Sweep, made: Any) -> None:
    told: list[float] = []
    made(replace(fall, duration=60.0), on_progress=told.append)
    assert told == sorted(told)


def test_a_launch_file_needs_a_domain(fall: Sweep, made: Any) -> None:
    outcome = made(replace(fall, driver=LaunchDriver(launch="x.launch.py")))
    assert outcome.outcome == "failed"


def test_a_recorded_run_has_the_metrics_of_one_that_is_not(tmp_path: Path) -> None:
    pytest.importorskip("foxglove")
    sweep = rover_sweep()
    run = plan_runs(sweep)[3]
    worker = RunWorker(sweep)
    plain = worker.run(run)
    recorded = worker.run(run, record=tmp_path / "run.mcap")
    there = worker.run(run, record=tmp_path / "run.mcap")
    worker.close()
    assert recorded.metrics == plain.metrics
    assert there.outcome == "failed"
    assert "run.mcap" in there.reason


def test_a_driver_reads_what_the_asset_publishes(made: Any) -> None:
    seen: list[Any] = []

    def read(run: RunContext) -> Any:
        run.send("cmd_vel", {"linear": {"x": 0.5}})
        assert run.message("odom") is None
        assert run.message("scan") is None
        yield 0.3
        seen.extend((run.message("/rover/odom"), run.message("scan"), run.body_pose(ROVER)))
        with pytest.raises(BridgeError, match="nothing publishes on the topic 'scam'"):
            run.message("scam")

    sweep = Sweep(
        name="s", asset=str(WORLD), duration=0.4, backend="mujoco", driver=FunctionDriver(function=read)
    )
    outcome = made(sweep)
    assert outcome.outcome == "completed", outcome.reason
    odometry, scan, pose = seen
    assert 0.02 < odometry.pose.pose.position.x < 0.2
    assert odometry.header.stamp.nanosec * 1e-9 == pytest.approx(0.3, abs=0.03)
    # The rover starts 2.4 m west of the middle, and the wall in the west is 4 m from it.
    assert min(scan.ranges) > 0.1
    assert max(each for each in scan.ranges if math.isfinite(each)) < 9.0
    assert pose[0] > -2.4
