"""The start of `run` and of the node as people see it: the phases, in order, and an error as the last line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from terminals import OnTerminal

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
ARM = ROOT / "examples" / "arm" / "arm.usda"
RUN = [sys.executable, "-m", "usd_ros_bridge", "run"]
BRIDGE = [sys.executable, "-c", "from usd_ros_bridge.entry_points import bridge; bridge()"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "TERM": "xterm",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }


ALTERNATE_SCREEN = b"\x1b[?1049h"
"""How the live view takes the screen (xterm)."""


def started(command: list[str], environment: dict[str, str]) -> list[str]:
    """Run a bridge until it is ready. Return its log, and check that nothing else was printed."""
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    lines: list[str] = []
    try:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(re.sub(r"^\[INFO\] \[[\d.]+\] \[\S+\]: ", "", line.rstrip("\n")))
            if lines[-1].endswith(": ready"):
                break
        else:
            pytest.fail(f"never ready: {lines}")
    finally:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output == ""
    return lines


@pytest.mark.parametrize("command", [RUN, BRIDGE], ids=["run", "bridge"])
def test_the_log_has_the_phases_in_order_then_their_times(
    command: list[str], environment: dict[str, str]
) -> None:
    lines = started([*command, str(ARM)], environment)
    expected = [f"opening {ARM}", "planning", "compiling the physics", "discovery"]
    assert [line for line in lines if line in expected] == expected
    names = "loading ROS 2", "starting the node", "opening", "planning", "compiling the physics", "discovery"
    times = ", ".join(rf"{name} \d+\.\d\d s" for name in names)
    assert re.fullmatch(rf"started in \d+\.\d\d s: {times}", lines[-2])


def test_the_log_says_how_rviz_is_started(environment: dict[str, str]) -> None:
    """With the remaps that it needs, as remap rules of the bridge change them; nothing where it needs none."""
    remaps = "-r /tf:=/arm/tf -r /tf_static:=/arm/tf_static"
    moved = "-r /tf:=/here/tf -r /tf_static:=/arm/tf_static"
    for arguments, expected in (
        (("--backend", "kinematic"), [f"RViz: rviz2 --ros-args {remaps}"]),
        ((), [f"RViz: rviz2 --ros-args {remaps} -p use_sim_time:=true"]),
        (("--backend", "null", "--ros-args", "-r", "/arm/tf:=/here/tf"), [f"RViz: rviz2 --ros-args {moved}"]),
        (("--backend", "null", "--tf-output", "both"), []),
    ):
        lines = started([*RUN, str(ARM), *arguments], environment)
        assert [line for line in lines if line.startswith("RViz: ")] == expected


def test_without_physics_the_backend_is_named(environment: dict[str, str]) -> None:
    assert "starting the backend null" in started([*RUN, str(ARM), "--backend", "null"], environment)


def test_an_asset_that_fails_ends_the_log(environment: dict[str, str]) -> None:
    for command in (RUN, BRIDGE):
        done = subprocess.run(
            [*command, "missing.usda"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")
        *_, phase, error = done.stderr.splitlines()
        assert phase.endswith("opening missing.usda")
        assert error.startswith("usd_ros_bridge: cannot open 'missing.usda'")


def test_a_terminal_shows_the_phases_then_the_live_view(environment: dict[str, str]) -> None:
    with OnTerminal([*RUN, str(ARM)], environment) as shown:
        shown.wait_for(ALTERNATE_SCREEN)
        shown.interrupt()
        assert shown.finish() == 0
    text = shown.written.decode()
    assert text.startswith("loading ROS 2 ...")
    places = [text.index(f"\r\x1b[K{name}") for name in ("loading ROS 2", "opening", "planning", "discovery")]
    assert places == sorted(places)
    assert places[-1] < text.index(ALTERNATE_SCREEN.decode())


def test_an_asset_that_fails_is_the_last_line_of_a_terminal(environment: dict[str, str]) -> None:
    with OnTerminal([*RUN, "missing.usda"], environment) as shown:
        assert shown.finish() == 2
    *_, error = shown.written.decode().splitlines()
    assert error.endswith("usd_ros_bridge: cannot open 'missing.usda': no such file")
    assert "opening missing.usda ...\r\x1b[K" in shown.written.decode().replace("\r\r", "\r")


def test_a_home_that_cannot_be_written_is_one_line_with_the_remedy(
    environment: dict[str, str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.touch()
    given = {**environment, "HOME": str(home)}
    given.pop("ROS_LOG_DIR", None)
    done = subprocess.run([*RUN, "--no-live", ARM], env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("usd_ros_bridge: ")]
    assert "ROS 2 refuses to start" in line
    assert line.endswith("ROS_LOG_DIR names another directory")
