"""What a node is given for its parameters at the start, and what the log says of the asset's mistakes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from parameter_client import ParameterClient

from authoring_mistakes import MISTAKES, Mistake, make
from programs import Program
from usd_ros_bridge.model.actuation import REPORTED_AT_RUN_TIME

ROVER = Path(__file__).parents[2] / "examples" / "rover" / "rover.usda"
DRIVE = "/rover/Controllers/diff_drive"
TIMEOUT_S = 90.0
TOGETHER = ("1", "3", "4", "5", "6", "20", "21", "23", "27", "29")
"""Mistakes that one asset can have: none hides another one."""

pytestmark = pytest.mark.process


@pytest.fixture
def run(program: Callable[..., Program]) -> Callable[..., str]:
    """`run(*arguments)`: the output of a node until it is ready."""

    def start(*arguments: str | Path) -> str:
        node = program([sys.executable, "-m", "usd_ros_bridge.cli", "run", *arguments])
        node.wait_for_line(": ready", timeout=TIMEOUT_S)
        return node.output

    return start


def test_unknown_parameters_are_warnings_with_suggestions(run: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(
        "/**:\n  ros__parameters:\n    frame_prefx: left_\n"
        "usd_ros_bridge:\n  ros__parameters:\n    base_transfrm: none\n"
        "another_node:\n  ros__parameters:\n    clock_rte: 3.0\n",
        encoding="utf-8",
    )
    given = ("-p", "tf_rat:=3.0", "-p", "enabled./rover/lidr_link:=false", "--params-file", str(file))
    output = run(ROVER, "--backend", "null", "--ros-args", *given)
    for name, meant in (
        ("tf_rat", "tf_rate"),
        ("frame_prefx", "frame_prefix"),
        ("base_transfrm", "base_transform"),
    ):
        (line,) = [each for each in output.splitlines() if f"no parameter '{name}'" in each]
        assert "WARN" in line
        assert "it is ignored" in line
        assert f"did you mean {meant}" in line
    (line,) = [each for each in output.splitlines() if "lidr_link" in each]
    assert "INFO" in line
    assert "did you mean enabled./rover/lidar_link" in line
    assert "clock_rte" not in output


def test_known_parameters_are_no_warnings(run: Callable[..., str]) -> None:
    given = ("tf_rate:=3.0", f"enabled.{DRIVE}:=false", "rate./rover/imu_link:=20.0", "use_sim_time:=false")
    arguments = [part for each in given for part in ("-p", each)]
    output = run(ROVER, "--backend", "null", "--ros-args", *arguments)
    assert "no parameter" not in output


@pytest.mark.parametrize("way", ["arguments", "file"])
def test_integers_count_as_numbers_at_the_start(
    run: Callable[..., str], ros_harness: Any, tmp_path: Path, way: str
) -> None:
    values = {"tf_rate": 3, f"{DRIVE}.cmd_vel_timeout": 2, "rate./rover/imu_link": 20}
    if way == "arguments":
        given = [part for name, value in values.items() for part in ("-p", f"{name}:={value}")]
    else:
        file = tmp_path / "parameters.yaml"
        content = "".join(f"    {name}: {value}\n" for name, value in values.items())
        file.write_text(f"/**:\n  ros__parameters:\n{content}", encoding="utf-8")
        given = ["--params-file", str(file)]
    run(ROVER, "--backend", "null", "--ros-args", *given)
    client = ParameterClient(ros_harness)
    for name, value in values.items():
        found = client.get(name)
        assert isinstance(found, float), name
        assert found == float(value)


def test_integers_count_as_numbers_while_it_runs(run: Callable[..., str], ros_harness: Any) -> None:
    run(ROVER, "--backend", "null")
    client = ParameterClient(ros_harness)
    for name, value in (("tf_rate", 7), (f"{DRIVE}.cmd_vel_timeout", 2), ("rate./rover/imu_link", 20)):
        assert client.set(name, value) == ""
        ros_harness.wait_for(lambda name=name, value=value: client.get(name) == float(value), what=name)
        assert isinstance(client.get(name), float)
    # Other types stay wrong: rclpy says so.
    assert "Wrong parameter type" in client.set("publish_tf", 1)


def test_parameters_show_what_the_command_line_gives(run: Callable[..., str], ros_harness: Any) -> None:
    options = {
        "--backend": "mujoco",
        "--real-time-factor": "0.5",
        "--tf-output": "shared",
        "--duration": "1000",
    }
    overruled = ("real_time_factor:=2.0", "backend:=null")
    arguments = [part for each in options.items() for part in each]
    parameters = [part for each in overruled for part in ("-p", each)]
    run(ROVER, *arguments, "--ros-args", *parameters)
    client = ParameterClient(ros_harness)
    assert client.get("backend") == "mujoco"
    assert client.get("real_time_factor") == 0.5
    assert client.get("tf_output") == "shared"
    assert client.get("duration") == 1000.0


def test_the_log_has_the_cause_the_remedy_and_the_place(run: Callable[..., str], tmp_path: Path) -> None:
    """Mistakes of all severities in one asset. `test_authoring_mistakes.py` checks the text of every mistake."""
    mistakes = [each for each in MISTAKES if each.number in TOGETHER]
    asset = make(mistakes, tmp_path)
    output = run(asset, "--backend", "null")
    for mistake in mistakes:
        (line,) = [
            each
            for each in output.splitlines()
            if f"[{mistake.code}] {mistake.path}" in each and mistake.says[0] in each
        ]
        assert f"{mistake.severity} [{mistake.code}]" in line, output
        assert [words for words in mistake.says if words not in line] == []
        layer = asset.parent / (mistake.at_layer or mistake.layer)
        number = int(line.rpartition(f"{layer}:")[2].split()[0])
        assert mistake.at in layer.read_text(encoding="utf-8").splitlines()[number - 1]


@pytest.mark.parametrize(
    "mistake", [each for each in MISTAKES if each.code in REPORTED_AT_RUN_TIME], ids=lambda each: each.number
)
def test_what_cannot_move_is_logged_for_the_backend_that_opens(
    mistake: Mistake, run: Callable[..., str], tmp_path: Path
) -> None:
    output = run(mistake.make(tmp_path), "--backend", "mujoco")
    (line,) = [each for each in output.splitlines() if "[WARN]" in each and "usd_ros_bridge scaffold" in each]
    assert mistake.path in line
    assert "--free-base" in line or "--drives" in line
    assert f"[{mistake.code}]" not in output
