"""`ros2 usd` in a real ros2cli: help, options, exit statuses, signals and completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from urllib.request import urlopen

import pytest

pytest.importorskip("ros2cli", reason="ros2cli comes with a full ROS 2 installation only")

from programs import Program

ROOT = Path(__file__).resolve().parents[2]
ROVER = "examples/rover/world.usda"
RUN_S = 100.0
ROS2 = which("ros2") or "ros2"


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S, check=False,
        env={**os.environ, "COLUMNS": "100", **variables},
    )  # fmt: skip


def usd(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(ROS2, "usd", *arguments)


def completions(line: str) -> list[str]:
    """What bash would offer at the end of a line, by the protocol of argcomplete."""
    pytest.importorskip("argcomplete", reason="argcomplete is not installed")
    variables = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SHELL": "bash",
        "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9",
    }  # fmt: skip
    done = run("bash", "-c", 'exec "$0" 8>&1 9>&2 1>/dev/null 2>/dev/null', ROS2, **variables)
    return done.stdout.replace("\v", "\n").split()


def test_ros2_lists_the_command() -> None:
    done = run(ROS2, "--help")
    assert "  usd " in done.stdout, done.stderr
    assert "Failed to" not in done.stderr


def test_help_lists_the_commands_that_ros2cli_does_not_have() -> None:
    text = usd("--help").stdout
    assert text.startswith("Usage: ros2 usd [OPTIONS] COMMAND [ARGS]...\n")
    listed = {line.split()[0] for line in text.partition("Commands:\n")[2].splitlines() if line.strip()}
    assert {"inspect", "diff", "run", "view", "urdf", "scaffold"} <= listed
    assert listed.isdisjoint({"topic", "service", "action", "param"})
    assert usd().stdout == text


@pytest.mark.parametrize("command", ["inspect", "diff", "run", "view", "urdf"])
def test_help_of_a_command_is_that_of_usd_ros_bridge(command: str) -> None:
    own = run(sys.executable, "-m", "usd_ros_bridge", command, "--help")
    done = usd(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == own.stdout.replace("Usage: usd_ros_bridge", "Usage: ros2 usd")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("inspect", ROVER), 0),
        (("inspect", "--json", ROVER, "--namespace", "/fleet"), 0),
        (("inspect", "test/assets/error_topic_name.usda", "--strict"), 1),
        (("inspect", "nothing.usda"), 2),
        (("inspect", ROVER, "--no-such-option"), 2),
        (("diff", ROVER, ROVER), 0),
        (("diff", ROVER, "examples/arm/arm.usda"), 1),
        (("urdf", "examples/arm/arm.usda"), 0),
        (("no_such_command",), 2),
    ],
)
def test_output_and_status_are_those_of_usd_ros_bridge(arguments: tuple[str, ...], status: int) -> None:
    own = run(sys.executable, "-m", "usd_ros_bridge", *arguments)
    done = usd(*arguments)
    assert done.returncode == status, done.stderr
    assert (done.returncode, done.stdout, done.stderr) == (own.returncode, own.stdout, own.stderr)


def test_run_takes_ros_arguments_and_ends_on_a_signal_with_status_0() -> None:
    arguments = ["usd", "run", ROVER, "--backend", "kinematic", "--ros-args", "-r", "__ns:=/fleet", "--"]
    with Program([ROS2, *arguments, "--no-live"], cwd=ROOT) as bridge:
        bridge.wait_for(r"fleet\.usd_ros_bridge\]: .*ready", RUN_S)
        assert bridge.interrupt() == 0, bridge.output
    assert "Traceback" not in bridge.output


def test_view_serves_its_page_and_ends_on_a_signal_with_status_0() -> None:
    pytest.importorskip("viser", reason="viser is an extra: pip install usd_ros_bridge[view]")
    with Program([ROS2, "usd", "view", "examples/arm/arm.usda", "--view-port", "0"], cwd=ROOT) as bridge:
        page = bridge.wait_for(r"page: http://127\.0\.0\.1:\d+", RUN_S).split("page: ")[1].strip()
        with urlopen(page, timeout=RUN_S) as answer:
            assert answer.status == 200
        assert bridge.interrupt() == 0, bridge.output
    assert "Traceback" not in bridge.output


def test_a_command_that_ros2cli_has_says_so() -> None:
    done = usd("topic", "list")
    assert done.returncode == 2
    assert done.stderr == "usd_ros_bridge: ros2cli is installed: use `ros2 topic list`\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ros2 us", {"usd"}),
        ("ros2 usd in", {"inspect"}),
        ("ros2 usd inspect --js", {"--json"}),
        ("ros2 usd run robot.usda --no-l", {"--no-live"}),
        # The shell completes names of files.
        ("ros2 usd inspect examples/ro", set()),
    ],
)
def test_completion(line: str, expected: set[str]) -> None:
    assert set(completions(line)) == expected


def test_completion_of_the_command() -> None:
    found = set(completions("ros2 usd "))
    assert {"inspect", "diff", "run", "view", "urdf"} <= found
    assert "topic" not in found
