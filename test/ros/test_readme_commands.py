"""README's shell commands as printed, in an environment made by pip: the .venv is one."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

from markdown_docs import ROOT, page_text, without_fences
from programs import Program

BIN = Path(sys.executable).parent

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ros2cli") is not None, reason="with ros2cli, `ros2` is the one to use"
    ),
    pytest.mark.skipif(
        not (BIN / "usd_ros_bridge").exists(), reason="usd_ros_bridge is not installed: make setup"
    ),
]

COMMANDS = re.findall(r"^ {4}(\S.*)$", without_fences(page_text("README.md")), re.MULTILINE)
PROGRAM = re.compile(r"(?:\.venv/bin/)?usd_ros_bridge ")
NOT_HERE = {
    "make ": "sets up a clone: other tests call these targets",
    "pip install ": "needs the wheels of `make dist`: test/dist installs them",
    "colcon build ": "needs ROS 2 installed",
    "ros2 ": "needs ros2cli, or launch",
}
"""Commands that are not those of this environment, by their beginnings, and the reasons."""
NOT_OFFLINE = "usd_ros_bridge import "
"""It installs its converters at the first use: test/unit/cli/test_import.py and test/robots run it."""

BRIDGES = {
    "/rover/": "usd_ros_bridge run --example rover",
    "/arm:": "usd_ros_bridge run examples/arm/arm.usda",
}
"""What runs beside a command that names an interface or a prim of it."""

ASSETS = {
    "plain_robot.usda": "test/assets/implicit_robot.usda",
    "converted_robot.usda": "test/assets/implicit_robot.usda",
    "old.usda": "test/assets/frame_chain.usda",
    "new.usda": "test/assets/topic_qos.usda",
}
"""Files that README's commands name as the reader's own."""

ROBOT = """#usda 1.0
(
    defaultPrim = "arm"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    upAxis = "Z"
)

def Xform "arm" (prepend references = @./examples/arm/arm.usda@)
{
}
"""

SWEEP_S = 240.0
"""200 runs take 20 s on two idle cores."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory that has what README's commands name: a clone's folders, and assets of the reader."""
    (tmp_path / ".venv").symlink_to(BIN.parent)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "robot.usda").write_text(ROBOT)
    for name, source in ASSETS.items():
        shutil.copy(ROOT / source, tmp_path / name)
    return tmp_path


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the environment, and no `ros2` of another one."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(BIN), "/usr/bin", "/bin"]))


def run_here() -> list[str]:
    others = (*NOT_HERE, f".venv/bin/{NOT_OFFLINE}", NOT_OFFLINE)
    return [command for command in COMMANDS if not command.startswith(others)]


def test_every_command_is_run_here_or_has_a_reason() -> None:
    assert len(run_here()) >= 15
    assert [command for command in run_here() if not PROGRAM.match(command)] == []
    assert [each for each in NOT_HERE if not any(command.startswith(each) for command in COMMANDS)] == []


@pytest.fixture
def beside(request: pytest.FixtureRequest, directory: Path) -> Iterator[None]:
    """The bridge that a command is about, if it needs one."""
    command = request.getfixturevalue("command")
    names = [name for name in BRIDGES if name in command]
    verb = re.match(r"usd_ros_bridge (topic|service|action|param) ", command)
    if not verb:
        yield
        return
    with Program(
        f"{BRIDGES[names[0]] if names else next(iter(BRIDGES.values()))} --no-live", cwd=directory
    ) as bridge:
        bridge.wait_for(": ready$")
        yield
        assert bridge.interrupt() == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", run_here())
def test_command_works_as_printed(command: str, directory: Path, beside: None) -> None:
    files = set(directory.iterdir())
    with Program(command, cwd=directory) as program:
        if " run " in command and " --no-ros " not in command:
            program.wait_for(": ready$")
            status = program.interrupt()
        elif " fleet " in command:
            program.wait_for("^fleet: 2 shards ready")
            status = program.interrupt()
        elif " pub " in command:
            program.wait_for("^publishing #3")
            status = program.interrupt()
        else:
            status = program.wait(timeout=SWEEP_S) if " sweep " in command else program.wait()
    assert status == expected_status(command), program.output
    assert "Traceback" not in program.output
    if match := re.search(r" -o (\S+)", command):
        assert directory / match[1] in set(directory.iterdir()) - files
    else:
        assert program.output


def expected_status(command: str) -> int:
    # As with `diff`: 1 says that there are differences.
    return 1 if " diff " in command else 0
