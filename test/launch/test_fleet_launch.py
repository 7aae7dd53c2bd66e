"""fleet.launch.py: its arguments are those of the table of options, and it starts, restarts and ends shards."""

from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")
pytest.importorskip("ros2launch", reason="ros2 launch comes with a full ROS 2 installation only")

from launch import LaunchContext, LaunchDescription
from launch.launch_description_sources import get_launch_description_from_python_launch_file
from launch_ros.actions import Node
from launch_ros.utilities import evaluate_parameters, normalize_parameters

from fleet_runs import command_of, is_running, kill, wait_until
from programs import Program
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.options import OPTIONS

REPOSITORY = Path(__file__).resolve().parents[2]
FLEET = REPOSITORY / "examples" / "fleet" / "fleet.usda"
LAUNCH_FILE = REPOSITORY / "launch" / "fleet.launch.py"
LAUNCH = ["ros2", "launch", "usd_ros_bridge", "fleet.launch.py"]
OWN = {
    "shards",
    "namespace",
    "node_name",
    "params_file",
    "log_level",
}
SET_BY_THE_FLEET = {"shard"}
TIMEOUT_S = 120.0


@pytest.fixture
def description() -> LaunchDescription:
    """The launch file of this source tree, loaded."""
    return get_launch_description_from_python_launch_file(str(LAUNCH_FILE))


@pytest.fixture
def context(description: LaunchDescription) -> LaunchContext:
    """A context with the defaults of all arguments."""
    made = LaunchContext()
    for argument in description.get_launch_arguments():
        if argument.default_value is not None:
            argument.execute(made)
    made.launch_configurations.update({"asset": str(FLEET), "shards": "2", "backend": "kinematic"})
    return made


def test_the_arguments_are_the_options_of_the_table(description: LaunchDescription) -> None:
    arguments = description.get_launch_arguments()
    of_bridge = {name for name, row in OPTIONS.items() if row.launch} - SET_BY_THE_FLEET
    assert {each.name for each in arguments} == of_bridge | OWN
    for argument in arguments:
        assert len(argument.description.split()) > 3, argument.name
    assert {each.name for each in arguments if each.default_value is None} == {"asset", "shards"}


def test_each_shard_is_a_node_with_its_parameters(context: LaunchContext) -> None:
    given = {
        "tf_rate": "20",
        "record": "run.mcap",
        "contexts": "rover_*,arm",
        "namespace": "hall",
        "strict": "true",
    }
    context.launch_configurations.update(given)
    nodes = [
        each for each in runpy.run_path(str(LAUNCH_FILE))["fleet_actions"](context) if isinstance(each, Node)
    ]
    found = []
    for node in nodes:
        node._perform_substitutions(context)  # noqa: SLF001 - launch_ros shows the name only in a process that runs
        (parameters,) = evaluate_parameters(context, normalize_parameters(node._Node__parameters))  # noqa: SLF001
        found.append((node.node_name, parameters))
    assert [name for name, _ in found] == ["/hall/usd_ros_bridge_1", "/hall/usd_ros_bridge_2"]
    second = {**found[1][1]}
    assert second.pop("contexts") == ("rover_*", "arm") or found[1][1]["contexts"] == ["rover_*", "arm"]
    assert second == {
        "asset": str(FLEET),
        "backend": "kinematic",
        "tf_rate": 20.0,
        "record": "run_2.mcap",
        "strict": True,
        "shard": "2/2",
    }


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("shards", "x", "shards 'x' is not possible"),
        ("shards", "0", "shards 0 is not possible"),
        ("tf_rate", "abc", "tf_rate 'abc' is not possible: it takes a number"),
        ("strict", "maybe", "strict 'maybe' is not possible: it takes true or false"),
    ],
)
def test_a_mistake_names_its_argument(context: LaunchContext, name: str, text: str, says: str) -> None:
    context.launch_configurations[name] = text
    with pytest.raises(OptionError, match=re.escape(says)):
        runpy.run_path(str(LAUNCH_FILE))["fleet_actions"](context)


@pytest.fixture
def bridges() -> Iterator[list[int]]:
    """Processes of bridges; those that the test leaves behind are killed: launch that is killed ends nobody."""
    found: list[int] = []
    yield found
    for process_id in found:
        kill(process_id)


def test_shards_start_again_and_end_together(ros_domain: int, bridges: list[int], tmp_path: Path) -> None:
    command = [*LAUNCH, f"asset:={FLEET}", "shards:=2", "backend:=kinematic", "sigterm_timeout:=60"]
    with Program(command, cwd=tmp_path) as launched:
        ids = [
            int(launched.wait_for(rf"\[bridge-{n}\]: process started with pid").split()[-1].strip("[]\n"))
            for n in (1, 2)
        ]
        bridges += ids
        launched.wait_for("fleet: 2 shards ready, 3 robots", TIMEOUT_S)
        assert all("bridge" in " ".join(command_of(each)) for each in ids)
        os.kill(ids[1], signal.SIGKILL)
        again = launched.wait_for(r"\[bridge-2\]: process started with pid", TIMEOUT_S)
        bridges.append(int(again.split()[-1].strip("[]\n")))
        launched.wait_for("fleet: 2 shards ready, 3 robots", TIMEOUT_S)
        assert is_running(ids[0])
        assert launched.interrupt() == 0, launched.output
        wait_until(lambda: not any(map(is_running, bridges)), "the end of all shards")


def test_a_mistake_ends_the_launch(ros_domain: int, tmp_path: Path) -> None:
    """What the bridge refuses, it would refuse again: no restart for ever."""
    command = [*LAUNCH, f"asset:={FLEET}", "shards:=2", "backend:=kinematic", "contexts:=nobody"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert "nobody" in ended.stdout + ended.stderr
    assert ended.stdout.count("process started") <= 2
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_duration_in_a_parameter_file_ends_each_shard(ros_domain: int, tmp_path: Path) -> None:
    """Each after this much time: the end of one is not the end of all."""
    file = tmp_path / "parameters.yaml"
    file.write_text("/**:\n  ros__parameters:\n    duration: 1.0\n", encoding="utf-8")
    command = [*LAUNCH, f"asset:={FLEET}", "shards:=2", "backend:=kinematic", f"params_file:={file}"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert ended.returncode == 0
    assert ended.stdout.count("process has finished cleanly") == 2
    assert "shard 1 has finished" not in ended.stdout + ended.stderr
