"""Sweep files: what they say, and one line about what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.sweep.distributions import Discrete, Normal, Uniform
from usd_ros_bridge.sweep.run_measurement import STATISTICS
from usd_ros_bridge.sweep.run_specs import plan_runs
from usd_ros_bridge.sweep.signals import SIGNALS
from usd_ros_bridge.sweep.sweep_description import (
    FunctionDriver,
    LaunchDriver,
    Randomization,
    RunMetric,
    Sampling,
    Signal,
    StartPose,
    StopCondition,
    TopicCommand,
    resolve,
)
from usd_ros_bridge.sweep.sweep_file import load_sweep, parse_sweep, sweep_schema

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("yaml")

pytestmark = pytest.mark.app

FILE = """\
name: braking
asset: world.usda
backend: mujoco
backend_options: {dt: 1e-3, lockstep: true}
options: {controller_rate: 50.0}
duration: "${seconds}"
variants: {"/World/rover:tyres": "tyres_${size}"}
parameters:
  seconds: 2.5
  size: [small, large]
  friction: {linspace: [0.2, 0.8, 4]}
  decades: {logspace: [0.01, 1, 3]}
repeats: 2
seed: 5
poses:
  /World/rover: {position: [0, 0, "${friction}"], rpy: [0, 0, 1.5]}
joints: {arm: 0.5}
randomize:
  - {select: /World/rover, attribute: mass, add: {uniform: [0, "${friction}"]}, name: payload}
  - select: /World.collection:wheels
    attribute: friction
    set: {normal: {mean: 0.5, stddev: 0.1, low: 0}}
    each: true
  - {select: "/World/**", attribute: physics:gravityDirection, set: [0, 0, -1]}
  - {select: /World/a, attribute: physics:approximation, set: {choice: [none, convexHull]}}
driver: {function: "drive.py:brake", rate: 50, arguments: {speed: "${friction}"}}
commands:
  - {at: 0.5, topic: cmd_vel, message: {linear: {x: 1.0}}, every: 0.1, until: 2}
stop:
  still: {signal: speed, body: /World/rover, below: 0.01, for: 0.5, after: 1}
  far: {signal: distance, body: /World/rover, goal: [1, 2, 3], above: 10, outcome: failed}
metrics:
  top: {signal: speed, body: /World/rover, statistic: max}
  late: {time_to: still}
  own: {function: "drive.py:score"}
record: failed
"""


def written(folder: Path, text: str) -> Path:
    """Write a sweep file, and return its path."""
    path = folder / "braking.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_becomes_a_sweep(tmp_path: Path) -> None:
    sweep = load_sweep(written(tmp_path, FILE))
    body = "/World/rover"
    assert (sweep.name, sweep.asset, sweep.directory) == ("braking", "world.usda", str(tmp_path))
    assert sweep.backend_options == {"dt": 0.001, "lockstep": True}
    assert sweep.parameters["friction"] == pytest.approx((0.2, 0.4, 0.6, 0.8))
    assert sweep.parameters["decades"] == pytest.approx((0.01, 0.1, 1.0))
    assert sweep.randomize == (
        Randomization(
            select=body, attribute="mass", operation="add", value=Uniform(0, "${friction}"), name="payload"
        ),
        Randomization(
            select="/World.collection:wheels",
            attribute="friction",
            value=Normal(mean=0.5, stddev=0.1, low=0),
            each=True,
        ),
        Randomization(select="/World/**", attribute="physics:gravityDirection", value=(0, 0, -1)),
        Randomization(
            select="/World/a", attribute="physics:approximation", value=Discrete(("none", "convexHull"))
        ),
    )
    assert sweep.driver == FunctionDriver(
        function="drive.py:brake", rate=50, arguments={"speed": "${friction}"}
    )
    assert sweep.commands == (
        TopicCommand(at=0.5, topic="cmd_vel", message={"linear": {"x": 1.0}}, every=0.1, until=2),
    )
    assert sweep.stop == {
        "still": StopCondition(signal=Signal(kind="speed", body=body), below=0.01, hold=0.5, after=1),
        "far": StopCondition(
            signal=Signal(kind="distance", body=body, goal=[1, 2, 3]), above=10, outcome="failed"
        ),
    }
    assert sweep.metrics == {
        "top": RunMetric(signal=Signal(kind="speed", body=body), statistic="max"),
        "late": RunMetric(time_to="still"),
        "own": RunMetric(function="drive.py:score"),
    }
    assert len(plan_runs(sweep)) == 2 * 4 * 3 * 2


def test_references_stand_for_the_parameters_of_a_run(tmp_path: Path) -> None:
    sweep = load_sweep(written(tmp_path, FILE))
    run = resolve(sweep, plan_runs(sweep)[-1].parameters)
    assert run.duration == 2.5
    assert run.variants == {"/World/rover:tyres": "tyres_large"}
    assert run.poses == {"/World/rover": StartPose(position=(0, 0, 0.8), rpy=(0, 0, 1.5))}
    assert run.randomize[0].value == Uniform(0, 0.8)
    assert isinstance(run.driver, FunctionDriver)
    assert run.driver.arguments == {"speed": 0.8}


def test_other_forms_are_read_too() -> None:
    least = {"asset": "a.usda", "duration": 1}
    assert parse_sweep({**least, "driver": {"launch": "nav.launch.py"}}).driver == LaunchDriver(
        launch="nav.launch.py"
    )
    assert parse_sweep({**least, "points": [{"a": 1}]}).sampling == Sampling(method="list")
    drawn = {"parameters": {"a": {"uniform": [0, 1]}}, "sampling": {"method": "random", "count": 4}}
    assert parse_sweep({**least, **drawn}).sampling == Sampling(method="random", count=4)
    assert parse_sweep(least, source="x").name == "x"


def test_the_schema_is_one_and_knows_all_signals_and_statistics() -> None:
    schema = sweep_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in ("stop", "metrics"):
        signals = schema["properties"][part]["additionalProperties"]["properties"]["signal"]["enum"]
        assert signals == list(SIGNALS)
    statistic = schema["properties"]["metrics"]["additionalProperties"]["properties"]["statistic"]
    assert statistic["enum"] == list(STATISTICS)
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("duration:", "durtion:", 6, "durtion: there is no such key; did you mean duration?"),
        ('duration: "${seconds}"', "", 1, "missing: duration"),
        ('"${seconds}"', "long", 6, "duration: 'long' is not a number or ${parameter}"),
        ('speed: "${friction}"', 'speed: "${fiction}"', 26, "refers to no parameter; did you mean friction?"),
        ("signal: distance", "signal: distans", 31, "stop.far.signal: 'distans': did you mean distance?"),
        ("above: 10,", "above: 10, below: 3,", 31, "stop.far: give either above or below"),
        ("below: 0.01,", "", 30, "stop.still: give either above or below"),
        ("{uniform: [0,", "{uniform: [1,", 19, "randomize[0].add: uniform: 1 is above 0.2"),
        ("{uniform: [0, ", "{uniform: [0, 1, ", 19, "is not [low, high]"),
        (
            "add: {uniform",
            "set: 1, add: {uniform",
            19,
            "randomize[0]: give exactly one of set, scale and add",
        ),
        ("repeats: 2", "repeats: 0", 13, "repeats: 0 is below 1"),
        ("repeats: 2", "repeats: 2\nseed: 1", 15, "the key 'seed' occurs twice"),
        ("name: braking", "name: [braking", 2, ""),
        (
            "linspace",
            "linspce",
            11,
            "parameters.friction.linspce: there is no such key; did you mean linspace",
        ),
        ("size: [small, large]", "size: {uniform: [0, 1]}", 10, "parameters.size: grid needs values"),
        (
            "{time_to: still}",
            "{time_to: still, signal: speed}",
            34,
            "give one of signal, time_to and function",
        ),
        ("at: 0.5, ", "", 28, "commands[0]: missing: at"),
        (", rate: 50", ", rate: 50, launch: x", 26, "driver: give either function or launch"),
        ("seconds: 2.5", 'seconds: "${size}"', 9, "a parameter cannot refer to another one"),
        (
            "asset: world",
            'asset: "${size}"  # ',
            2,
            "asset: is the same for all runs: ${size} cannot be in it",
        ),
        ("0.2, 0.8, 4", "0, .inf, 3", 11, "friction.linspace: inf is no finite number"),
        ("0.2, 0.8, 4", "0, 1, .inf", 11, "linspace: inf is no number of values: 1 to 1000000"),
        ("0.2, 0.8, 4", "0, 1, 1e15", 11, "is no number of values"),
        ("0.2, 0.8, 4", "0, 1, 2.5", 11, "2.5 is no number of values"),
        (
            "repeats: 2",
            "points: [{a: 1}]\nsampling: {method: grid}",
            13,
            "points: they are of the method list",
        ),
        ("record: failed", "record: some", 36, "record: 'some': use one of none, failed, all"),
    ],
)
def test_a_fault_is_one_line_with_file_and_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    assert old in FILE
    path = written(tmp_path, FILE.replace(old, new, 1))
    with pytest.raises(OptionError) as caught:
        load_sweep(path)
    text = str(caught.value)
    assert text.startswith(f"{path}:{line}: ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize("text", ["", "- 1\n", "3\n", "{", "a: &a [*a]\n", "? [1]\n: 2\n", "\x00"])
def test_what_is_no_sweep_at_all_is_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(OptionError, match=r"braking\.yaml") as caught:
        load_sweep(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot read .*none\.yaml.*No such file"):
        load_sweep(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\n")
    with pytest.raises(OptionError, match=r"cannot read .*latin\.yaml"):
        load_sweep(tmp_path / "latin.yaml")


def test_keys_can_be_merged_and_own_ones_are_stronger(tmp_path: Path) -> None:
    text = "asset: a.usda\nduration: 1\nstop:\n  a: &a {signal: speed, body: /a, above: 1}\n  b: {<<: *a, above: 2}\n"
    sweep = load_sweep(written(tmp_path, text))
    assert (sweep.stop["a"].above, sweep.stop["b"].above) == (1, 2)
    assert sweep.stop["b"].signal.body == "/a"


def test_numbers_without_a_dot_are_numbers() -> None:
    document: dict[str, Any] = {
        "asset": "a",
        "duration": 1,
        "stop": {"a": {"signal": "time", "above": "1e-3"}},
    }
    with pytest.raises(OptionError, match=r"stop\.a\.above: '1e-3' is not a number or"):
        parse_sweep(document)
