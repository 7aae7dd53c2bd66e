"""The package as pip and colcon see it: one version, its entry points, its files."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from xml.etree import ElementTree

import pytest

import usd_ros_bridge

pytestmark = pytest.mark.project

ROOT = Path(__file__).resolve().parents[2]
EXECUTABLES = {"bridge", "robot_state_publisher", "usd_ros_bridge"}
PACKAGE_XML = ElementTree.parse(ROOT / "package.xml")


def test_one_version() -> None:
    assert PACKAGE_XML.findtext("version") == usd_ros_bridge.__version__
    assert distribution("usd_ros_bridge").version == usd_ros_bridge.__version__


def test_console_script_is_where_it_was_installed() -> None:
    """Beside the Python of the environment where pip did it, in the package's folder of the prefix where colcon did."""
    installed = distribution("usd_ros_bridge").locate_file("")
    colcon = [Path(str(parent)) / "lib" / "usd_ros_bridge" for parent in Path(str(installed)).parents]
    places = [Path(sys.executable).parent, *colcon]
    script = next(place / "usd_ros_bridge" for place in places if (place / "usd_ros_bridge").is_file())
    done = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "inspect" in done.stdout
    assert "run" in done.stdout


def test_manifest_names_what_a_ros_user_needs() -> None:
    names = {element.text for element in PACKAGE_XML.iter("exec_depend")}
    assert {
        "rclpy",
        "tf2_ros",
        "tf2_msgs",
        "rosidl_runtime_py",
        "launch",
        "launch_ros",
        "ament_index_python",
    } <= names
    assert PACKAGE_XML.findtext("export/build_type") == "ament_python"


def test_colcon_puts_executables_where_ros2_run_looks() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert config["install"]["install_scripts"] == "$base/lib/usd_ros_bridge"
    assert config["develop"]["script_dir"] == "$base/lib/usd_ros_bridge"


def test_setup_uses_nothing_deprecated() -> None:
    """`colcon build` shows what setuptools says of it as stderr output of the package."""
    command = [sys.executable, "-W", "always", "setup.py", "--version"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1:] == [usd_ros_bridge.__version__], done.stderr
    assert "deprecat" not in done.stderr.lower()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel of a copy of the tracked and untracked sources, as `pip install` would make it."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone: which files belong to the sources is not known")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in filter(None, listed):
        if (ROOT / name).is_file() and not name.startswith("test/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "-w", target, source],
        capture_output=True, text=True, env={**os.environ, "PIP_NO_INDEX": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(target.glob("*.whl")))


def test_wheel_carries_schemas_examples_and_index_entry(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    data = f"usd_ros_bridge-{usd_ros_bridge.__version__}.data/data/share"
    assert f"{data}/ament_index/resource_index/packages/usd_ros_bridge" in names
    assert f"{data}/usd_ros_bridge/package.xml" in names
    for folder, pattern in (("launch", "*.launch.py"), ("config", "*.yaml"), ("examples", "*.usda")):
        for path in (ROOT / folder).rglob(pattern):
            if path.relative_to(ROOT).parts[:2] in (("examples", "plugins"), ("examples", "testing")):
                continue
            assert f"{data}/usd_ros_bridge/{path.relative_to(ROOT).as_posix()}" in names
    for path in (ROOT / "usd_ros_bridge" / "usd" / "schemas").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert path.relative_to(ROOT).as_posix() in names
    assert {"usd_ros_bridge/report/viewer.js", "usd_ros_bridge/report/report_style.css"} <= names
    assert not [name for name in names if name.startswith("test/") or "__pycache__" in name]


def test_wheel_leaves_the_scripts_to_pip(wheel: zipfile.ZipFile) -> None:
    """setup.cfg's directories are colcon's: in a wheel they would hide the console script from bin/."""
    assert not [name for name in wheel.namelist() if ".data/scripts" in name]
    points = configparser.ConfigParser()
    points.read_string(
        wheel.read(f"usd_ros_bridge-{usd_ros_bridge.__version__}.dist-info/entry_points.txt").decode()
    )
    assert dict(points["console_scripts"]) == {
        "usd_ros_bridge": "usd_ros_bridge.entry_points:usd_ros_bridge",
        "robot_state_publisher": "usd_ros_bridge.entry_points:robot_state_publisher",
    }


def test_wheel_has_the_executables_of_ros2_run(wheel: zipfile.ZipFile) -> None:
    folder = f"usd_ros_bridge-{usd_ros_bridge.__version__}.data/data/lib/usd_ros_bridge/"
    found = [info for info in wheel.infolist() if info.filename.startswith(folder)]
    assert {info.filename.removeprefix(folder) for info in found} == EXECUTABLES
    assert all(info.external_attr >> 16 & 0o111 == 0o111 for info in found)


def test_wheel_has_no_file_that_acts_at_every_start_of_python(wheel: zipfile.ZipFile) -> None:
    """A simulator's Python may get this wheel; only that of the interfaces makes an environment a ROS 2 prefix."""
    assert not [name for name in wheel.namelist() if name.endswith(".pth")]


@pytest.mark.parametrize("distro", ["jazzy", "kilted"])
def test_extra_of_a_distribution_pins_what_make_setup_pins(wheel: zipfile.ZipFile, distro: str) -> None:
    lines = (ROOT / "tools" / "requirements" / f"{distro}.txt").read_text(encoding="utf-8").splitlines()
    pins = {line for line in lines if line and not line.startswith("#")}
    major = next(pin for pin in pins if pin.startswith("ros-rclpy==")).partition("==")[2].split(".")[0]
    required = requirements(wheel, distro)
    assert pins <= required
    assert f"usd_ros_bridge_interfaces=={major}.{usd_ros_bridge.__version__}" in required
    assert required - pins - requirements(wheel, "all") == {
        f"usd_ros_bridge_interfaces=={major}.{usd_ros_bridge.__version__}"
    }


def test_extra_all_has_every_feature_and_no_ros(wheel: zipfile.ZipFile) -> None:
    features = [
        requirements(wheel, extra)
        for extra in ("usd", "mujoco", "cli", "watch", "images", "view", "record", "filters")
    ]
    assert requirements(wheel, "all") == set().union(*features)
    assert all(features)
    assert not [name for name in requirements(wheel, "all") if name.startswith("ros-")]


def requirements(wheel: zipfile.ZipFile, extra: str) -> set[str]:
    """What an extra requires, without its marker and spaces."""
    text = wheel.read(f"usd_ros_bridge-{usd_ros_bridge.__version__}.dist-info/METADATA").decode()
    lines = re.findall(rf"^Requires-Dist: (.*); extra == ['\"]{extra}['\"]$", text, re.MULTILINE)
    return {re.sub(r"[ ()]", "", line) for line in lines}


@pytest.mark.parametrize("name", sorted(EXECUTABLES))
def test_executable_finds_the_python_of_its_prefix(tmp_path: Path, name: str) -> None:
    """As installed: two folders below the prefix whose bin/ has the interpreter."""
    folder, binaries = tmp_path / "lib" / "usd_ros_bridge", tmp_path / "bin"
    folder.mkdir(parents=True)
    binaries.mkdir()
    shutil.copy(ROOT / "executables" / name, folder / name)
    (binaries / "python").write_text(
        f'#!/bin/sh\necho here >&2\nexec "{sys.executable}" "$@"\n', encoding="utf-8"
    )
    (binaries / "python").chmod(0o755)
    done = subprocess.run([folder / name, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == "here"
    assert name in done.stdout


def test_executable_without_python_in_its_prefix_takes_that_of_the_path(tmp_path: Path) -> None:
    shutil.copy(ROOT / "executables" / "usd_ros_bridge", tmp_path / "usd_ros_bridge")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [tmp_path / "usd_ros_bridge", "--version"], env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert usd_ros_bridge.__version__ in done.stdout, done.stderr


def test_colcon_installs_the_executables_with_its_python_in_their_first_line(tmp_path: Path) -> None:
    """The command that colcon gives a package of the build type ament_python, without --symlink-install."""
    build, prefix = tmp_path / "build", tmp_path / "install"
    build.mkdir()
    command = [
        sys.executable, "setup.py", "egg_info", f"--egg-base={build}", "build", f"--build-base={build / 'build'}",
        "install", f"--prefix={prefix}", f"--record={build / 'install.log'}", "--single-version-externally-managed",
        "--install-scripts", f"{prefix}/lib/usd_ros_bridge",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    folder = prefix / "lib" / "usd_ros_bridge"
    assert {path.name for path in folder.iterdir()} == EXECUTABLES
    # setuptools quotes a path that has spaces.
    lines = {path.read_text(encoding="utf-8").splitlines()[0].replace('"', "") for path in folder.iterdir()}
    assert lines == {f"#!{sys.executable}"}
    assert (prefix / "share" / "usd_ros_bridge" / "launch" / "bridge.launch.py").is_file()
