"""The set-up before anything is installed: what it checks, and the one line it says when something is missing."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.project

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


@pytest.mark.process
def test_no_python(clone: Path) -> None:
    line = the_line(make(clone, "setup"))
    assert "3.10 to 3.13" in line
    assert "apt install python3" in line


@pytest.mark.process
def test_wrong_python(clone: Path) -> None:
    old = clone.parent / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    assert f"PYTHON={old}" in the_line(make(clone, "setup", PYTHON=str(old)))


@pytest.mark.process
@pytest.mark.parametrize(("tools", "missing"), [((), "gcc"), (("gcc",), "g++")])
def test_no_compiler(clone: Path, tools: tuple[str, ...], missing: str) -> None:
    if tools and shutil.which("gcc") is None:
        pytest.skip("there is no gcc here")
    line = the_line(make(clone, "setup", tools=tools, PYTHON=PYTHON))
    assert line.startswith(f"set-up: {missing} ")
    assert f"apt install {missing}" in line
    assert not (clone / ".venv").exists()


@pytest.mark.process
def test_no_python_headers(clone: Path) -> None:
    """A gcc that does not find Python.h, as where the development package is missing."""
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("there is no gcc here")
    path = clone.parent / "bin"
    path.mkdir()
    gcc = path / "gcc"
    gcc.write_text(
        f'#!/bin/bash\ntext=$(cat)\n[[ $text == *Python.h* ]] && exit 1\n{shutil.which("gcc")} "$@" <<<"$text"\n',
        encoding="utf-8",
    )
    gcc.chmod(0o755)
    line = the_line(make(clone, "setup", tools=("g++", "as", "ld"), PYTHON=PYTHON))
    assert "Python.h" in line


@pytest.mark.process
def test_unknown_distribution(clone: Path) -> None:
    line = the_line(make(clone, "setup", "ROS=melodic", PYTHON=PYTHON))
    assert "ROS=melodic" in line
    assert "jazzy and kilted" in line


def test_jazzy_is_the_default(tool: SimpleNamespace, tmp_path: Path) -> None:
    assert tool.Setup(tmp_path / "venv", "", []).distro == "jazzy"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "VENV ?= $(if $(filter-out jazzy,$(ROS)),.venv-$(ROS),.venv)" in makefile


@pytest.mark.process
def test_foreign_environment_is_not_touched(clone: Path) -> None:
    (clone / ".venv").mkdir()
    (clone / ".venv" / "mine").write_text("", encoding="utf-8")
    line = the_line(make(clone, "setup", tools=("gcc", "g++"), PYTHON=PYTHON))
    assert "move it away" in line
    assert (clone / ".venv" / "mine").exists()


@pytest.mark.process
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


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The module tools/setup_env.py, without a sourced ROS 2."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.delenv("ROS_DISTRO", raising=False)
    found = runpy.run_path(str(ROOT / "tools" / "setup_env.py"))
    # Functions of the module see its dictionary, not this object.
    return SimpleNamespace(**found, globals=found["Setup"].run.__globals__)


def prepared(tool: SimpleNamespace, directory: Path, *extras: str) -> Any:
    setup = tool.Setup(directory / "venv", "", extras)
    setup.directory.mkdir(parents=True)
    return setup


@pytest.mark.parametrize(
    ("extras", "steps"),
    [
        ((), []),
        (("test",), ["test"]),
        (("all",), ["test", "all"]),
        (("lint",), ["lint"]),
        (("lint", "all", "test"), ["test", "all", "lint"]),
    ],
)
def test_tiers_of_requirements_are_steps(
    tool: SimpleNamespace, tmp_path: Path, extras: tuple[str, ...], steps: list[str]
) -> None:
    names = [step[0] for step in tool.Setup(tmp_path / "venv", "", extras).steps]
    assert names == ["venv", "packages", "interfaces", "project", *steps]


def test_packages_of_the_tiers_are_in_one_file_each() -> None:
    files = [
        (ROOT / "tools" / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        for name in ("test", "all", "lint")
    ]
    names = [{line.partition("==")[0] for line in text.splitlines() if "==" in line} for text in files]
    assert sum(map(len, names)) == len(set().union(*names))


NO_INDEX = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by
'NewConnectionError("HTTPSConnection(host='pypi.org', port=443): [Errno 101] Network is unreachable")': /simple/mypy/
ERROR: Could not find a version that satisfies the requirement mypy==2.4.1 (from versions: none)
ERROR: No matching distribution found for mypy==2.4.1
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            NO_INDEX,
            "cannot reach the package index pypi.org: check the network, or name a proxy (HTTPS_PROXY)",
        ),
        # It was reached, and has no such package.
        (
            NO_INDEX.partition("ERROR")[2],
            "python -m pip failed (ERROR: No matching distribution found for mypy==2.4.1)",
        ),
        ("one\nERROR: Disk quota exceeded\ntwo\n", "python -m pip failed (ERROR: Disk quota exceeded)"),
        ("one\ntwo\n", "python -m pip failed (two)"),
        ("", "python -m pip failed (exit status 3)"),
    ],
)
def test_a_command_that_fails_is_one_line(
    tool: SimpleNamespace, tmp_path: Path, output: str, line: str
) -> None:
    log = tmp_path / "packages.log"
    log.write_text(output, encoding="utf-8")
    found = tool.failure(log, "python -m pip", 3)
    assert found.startswith(line)
    assert found.endswith(f"output: {log}")
    assert "\n" not in found


@pytest.mark.process
def test_pip_without_a_network_is_one_line(
    tool: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    setup = prepared(tool, tmp_path)
    setup.bin = Path(sys.prefix) / "bin"
    for name in [each for each in os.environ if each.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(
        tool.SetupError, match=r"^cannot reach the package index http://127.0.0.1:9/simple: .*packages.log$"
    ):
        setup.pip("packages", "--dry-run", "no-such-package")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("begun", [False, True])
def test_what_is_installed_stays_where_pip_fetched_nothing(
    tool: SimpleNamespace, tmp_path: Path, begun: bool
) -> None:
    """A state with `running` has the next set-up create the environment again."""
    setup = prepared(tool, tmp_path, "lint")
    state = {step[0]: step[2] for step in setup.steps[:-1]}
    setup.write_state(state)
    setup.bin.mkdir(parents=True)
    for name in ("python", "usd_ros_bridge"):
        (setup.bin / name).touch()
    setup.check_machine = id

    def pip(step: str, *arguments: str) -> None:
        setup.log(step).write_text(
            "Collecting mypy\n" + "Installing collected packages: mypy\n" * begun, encoding="utf-8"
        )
        raise tool.SetupError("no network")

    setup.pip = pip
    with pytest.raises(tool.SetupError):
        setup.run()
    left = json.loads((setup.directory / "state.json").read_text(encoding="utf-8"))
    assert left == {**state, "running": "lint"} if begun else left == state


@pytest.mark.parametrize(
    ("removed", "repeated"),
    [
        ([], []),
        (["usd_ros_bridge"], ["project"]),
        (["python", "usd_ros_bridge"], ["venv", "packages", "interfaces", "project"]),
    ],
)
def test_what_was_removed_is_made_again(
    tool: SimpleNamespace, tmp_path: Path, removed: list[str], repeated: list[str]
) -> None:
    setup = prepared(tool, tmp_path)
    setup.write_state({step[0]: step[2] for step in setup.steps})
    setup.bin.mkdir(parents=True)
    for name in {"python", "usd_ros_bridge"} - {*removed}:
        (setup.bin / name).touch()
    done: list[str] = []
    setup.check_machine = id
    setup.kept_interfaces = list
    setup.steps = [
        (name, title, key, lambda name=name: done.append(name)) for name, title, key, _ in setup.steps
    ]
    setup.run()
    assert done == repeated


@pytest.mark.parametrize("fault", ["damaged", "not readable", "absent"])
def test_a_broken_cache_is_one_line_and_no_error(
    tool: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    setup = prepared(tool, tmp_path)
    interfaces = tmp_path / "usd_ros_bridge" / "interfaces"
    if fault == "damaged":
        (interfaces / setup.interfaces_key).mkdir(parents=True, mode=0o700)
        (interfaces / setup.interfaces_key / "a.whl").write_text("no wheel", encoding="utf-8")
    elif fault == "not readable":
        interfaces.parent.mkdir()
        interfaces.touch()
    assert setup.kept_interfaces() is None
    lines = capfd.readouterr().err.splitlines()
    what = {
        "damaged": ["a.whl is damaged"],
        "not readable": ["interfaces is a link, or another"],
        "absent": [],
    }[fault]
    assert len(lines) == len(what)
    for line, part in zip(lines, what, strict=True):
        assert part in line
        assert line.endswith(": the interfaces are built again")


@pytest.mark.parametrize("home", ["read-only", "missing"])
def test_without_a_cache_the_interfaces_are_installed_all_the_same(
    tool: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if home == "read-only":
        # A file in place of a directory stops root, too.
        (tmp_path / ".cache").touch()
        monkeypatch.setenv("HOME", str(tmp_path))
    else:
        monkeypatch.setitem(tool.globals, "default_directory", lambda: None)
    setup = prepared(tool, tmp_path)
    installed = []
    (setup.venv / "lib" / "python3.x" / "site-packages").mkdir(parents=True)
    setup.call = lambda *_: (setup.directory / "wheels" / "built.whl").touch()
    setup.pip = lambda *arguments: installed.append(arguments[-1])
    setup.install_interfaces()
    assert installed == [str(setup.directory / "wheels" / "built.whl")]
    assert len(setup.notes) == (home == "read-only")
    assert all("the cache cannot be written: " in note and str(tmp_path) in note for note in setup.notes)


def test_a_place_that_cannot_be_written_is_one_line(
    tool: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["setup_env.py", "--venv", str(tmp_path / "file" / "venv")])
    monkeypatch.setattr(tool.Setup, "check_machine", lambda *_: None)
    assert tool.main() == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("set-up: ")
    assert "file/venv" in last


@pytest.mark.parametrize("distro", ["jazzy", "kilted"])
def test_every_ros_wheel_is_pinned(distro: str) -> None:
    lines = (ROOT / "tools" / "requirements" / f"{distro}.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert {"ros-rclpy", "ros-rmw-fastrtps-cpp", "ros-rosidl-generator-py", "ros-wheels-bootstrapper"} <= set(
        pins
    )
    assert pins["ros-rclpy"].split(".")[0] == {"jazzy": "7", "kilted": "9"}[distro]


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
