"""The commands of README.md as printed, in an environment made by pip: the .venv is one."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

from markdown_docs import page_text, without_fences
from programs import Program

BIN = Path(sys.executable).parent

pytestmark = [
    pytest.mark.docs,
    pytest.mark.skipif(
        importlib.util.find_spec("ros2cli") is not None, reason="with ros2cli, `ros2` is the one to use"
    ),
    pytest.mark.skipif(
        not (BIN / "usd_ros_bridge").exists(), reason="usd_ros_bridge is not installed: make setup"
    ),
]

COMMANDS = re.findall(r"^ {4}(\S.*)$", without_fences(page_text("README.md")), re.MULTILINE)
NOT_HERE = {
    "make ": "sets up a clone: other tests call these targets",
    "pip install ": "needs the wheels of `make dist`: test/dist installs them",
}
"""Commands that are not those of this environment, by their beginnings, and the reasons."""


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the environment, and no `ros2` of another one."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(BIN), "/usr/bin", "/bin"]))


def test_every_command_is_run_here_or_has_a_reason() -> None:
    others = [command for command in COMMANDS if not command.startswith(tuple(NOT_HERE))]
    assert len(others) == 2
    assert [command for command in others if not command.startswith("usd_ros_bridge ")] == []
    assert [each for each in NOT_HERE if not any(command.startswith(each) for command in COMMANDS)] == []


def test_commands_work_as_printed(tmp_path: Path) -> None:
    """One terminal runs the rover, the other one drives it."""
    (start,) = [command for command in COMMANDS if command.startswith("usd_ros_bridge run ")]
    (drive,) = [command for command in COMMANDS if command.startswith("usd_ros_bridge topic pub ")]
    with Program(start, cwd=tmp_path) as bridge:
        bridge.wait_for(": ready$")
        with Program(drive, cwd=tmp_path) as driver:
            driver.wait_for("^publishing #3")
            assert driver.interrupt() == 0
        assert bridge.interrupt() == 0
        assert "Traceback" not in bridge.output + driver.output


def test_the_readme_is_one_screen() -> None:
    assert len(page_text("README.md").splitlines()) <= 50
