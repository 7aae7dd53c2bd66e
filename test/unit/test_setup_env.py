"""The set-up before anything is installed: what it checks, and the one line it says when something is missing."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
TOOLS = ("bash", "cat", "cut", "dirname", "env", "ls", "make", "sed", "uname")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone's set-up files alone, with no environment yet."""
    target = tmp_path / "clone"
    for name in ("tools", "interfaces"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    (target / "usd_ros_bridge").mkdir()
    for name in ("Makefile", "setup.py", "setup.cfg", "pyproject.toml", "usd_ros_bridge/__init__.py"):
        shutil.copyfile(ROOT / name, target / name)
    return target


def make(
    clone: Path, *arguments: str, tools: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs make with a PATH that holds some tools only, and no ROS 2 sourced."""
    path = clone.parent / "bin"
    path.mkdir(exist_ok=True)
    for name in (*TOOLS, *tools):
        if (found := shutil.which(name)) and not (path / name).exists():
            (path / name).symlink_to(found)
    keep = {"HOME": os.environ.get("HOME", "/")}
    return subprocess.run(
        [shutil.which("make") or "make", *arguments],
        cwd=clone,
        # A wheel in the user's cache would make compilers unnecessary.
        env={**keep, "PATH": str(path), "XDG_CACHE_HOME": str(clone.parent / "cache"), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def the_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_no_python(clone: Path) -> None:
    line = the_line(make(clone, "setup"))
    assert "3.10 to 3.13" in line
    assert "apt install python3" in line


def test_wrong_python(clone: Path) -> None:
    old = clone.parent / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    assert f"PYTHON={old}" in the_line(make(clone, "setup", PYTHON=str(old)))


@pytest.mark.parametrize(("tools", "missing"), [((), "gcc"), (("gcc",), "g++")])
def test_no_compiler(clone: Path, tools: tuple[str, ...], missing: str) -> None:
    if tools and shutil.which("gcc") is None:
        pytest.skip("there is no gcc here")
    line = the_line(make(clone, "setup", tools=tools, PYTHON=PYTHON))
    assert line.startswith(f"set-up: {missing} ")
    assert f"apt install {missing}" in line
    assert not (clone / ".venv").exists()


def test_no_python_headers(clone: Path) -> None:
    """A gcc that does not find Python.h, as where the development package is missing."""
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("there is no gcc here")
    path = clone.parent / "bin"
    path.mkdir()
    gcc = path / "gcc"
    gcc.write_text(
        f'#!/bin/bash\ntext=$(cat)\n[[ $text == *Python.h* ]] && exit 1\n{shutil.which("gcc")} "$@" <<<"$text"\n'
    )
    gcc.chmod(0o755)
    line = the_line(make(clone, "setup", tools=("g++", "as", "ld"), PYTHON=PYTHON))
    assert "Python.h" in line


def test_unknown_distribution(clone: Path) -> None:
    line = the_line(make(clone, "setup", "ROS=melodic", PYTHON=PYTHON))
    assert "ROS=melodic" in line
    assert "jazzy and kilted" in line


def test_foreign_environment_is_not_touched(clone: Path) -> None:
    (clone / ".venv").mkdir()
    (clone / ".venv" / "mine").write_text("")
    line = the_line(make(clone, "setup", tools=("gcc", "g++"), PYTHON=PYTHON))
    assert "move it away" in line
    assert (clone / ".venv" / "mine").exists()


def test_sourced_ros_that_this_python_cannot_use(clone: Path) -> None:
    prefix = "/opt/ros/some"
    paths = {
        "ROS_DISTRO": "some",
        "AMENT_PREFIX_PATH": prefix,
        "PYTHONPATH": f"{prefix}/lib/python3/dist-packages",
    }
    line = the_line(make(clone, "setup", PYTHON=PYTHON, **paths))
    assert "ROS 2 some is sourced" in line
    assert "PYTHON=path" in line


@pytest.mark.parametrize("distro", ["kilted", "jazzy"])
def test_every_ros_wheel_is_pinned(distro: str) -> None:
    lines = (ROOT / "tools" / "requirements" / f"{distro}.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert {"ros-rclpy", "ros-rmw-fastrtps-cpp", "ros-rosidl-generator-py", "ros-wheels-bootstrapper"} <= set(
        pins
    )
    assert pins["ros-rclpy"].split(".")[0] == {"kilted": "9", "jazzy": "7"}[distro]


def test_share_files_are_found_without_following_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ros2 launch` walks the share folder as here, and `ros2 run` looks into lib/usd_ros_bridge."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    setup_env = runpy.run_path(str(ROOT / "tools" / "setup_env.py"))
    setup = object.__new__(setup_env["Setup"])
    setup.venv, setup.bin = tmp_path, tmp_path / "bin"
    share, executables = tmp_path / "share" / "usd_ros_bridge", tmp_path / "lib" / "usd_ros_bridge"
    share.mkdir(parents=True)
    # As earlier versions left it.
    (share / "launch").symlink_to(ROOT / "launch")
    executables.mkdir(parents=True)
    setup.bin.mkdir()
    (setup.bin / "bridge").touch()
    (executables / "bridge").symlink_to(setup.bin / "bridge")
    for _ in range(2):
        setup.register_in_ament_index()
    walked = {name for _, _, names in os.walk(share) for name in names}
    assert {"bridge.launch.py", "robot_state_publisher.launch.py", "bridge.yaml", "rover.usda"} <= walked
    assert {path.name for path in executables.iterdir()} == {
        "bridge",
        "robot_state_publisher",
        "usd_ros_bridge",
    }
    assert all(os.access(path, os.X_OK) and not path.is_symlink() for path in executables.iterdir())
    assert not (setup.bin / "bridge").exists()
    assert (ROOT / "launch" / "bridge.launch.py").is_file()
