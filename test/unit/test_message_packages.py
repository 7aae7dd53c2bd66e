"""Message packages without colcon: one line for each fault, and a wheel with what rclpy and the ament index need."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("rosidl_adapter", reason="rosidl_adapter is not installed: make setup, or source ROS 2")

pytestmark = pytest.mark.project

MANIFEST = """<package format="3">
  <name>probe_msgs</name><version>1.2.0</version><description/>
  <maintainer email="a@example.com">a</maintainer><license>Apache-2.0</license>
  <depend>std_msgs</depend>
</package>
"""
TOOL = Path(__file__).parents[2] / "tools" / "message_packages.py"
PREFIX_HAS_GENERATORS = (Path(sys.prefix) / "lib" / "rosidl_generator_c" / "rosidl_generator_c").exists()


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), str(folder)]
    command += ["--wheel-dir", str(folder / "wheels")]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)


def write(folder: Path, *, manifest: str = MANIFEST, **definitions: str) -> Path:
    (folder / "msg").mkdir()
    if manifest:
        (folder / "package.xml").write_text(manifest, encoding="utf-8")
    for name, text in definitions.items():
        (folder / "msg" / f"{name}.msg").write_text(text, encoding="utf-8")
    return folder


FAULTS = {
    "no manifest": ({"manifest": "", "Probe": "float64 x\n"}, "there is no"),
    "no XML": ({"manifest": "<package>", "Probe": "float64 x\n"}, "is no XML"),
    "no name": ({"manifest": "<package/>", "Probe": "float64 x\n"}, "package.xml has no <name>"),
    "no definitions": ({}, "has no definitions, such as msg/Heat.msg"),
    "a wrong type": ({"Probe": "float65 x\n"}, "'float65' is an invalid message name"),
    "a dependency that is not named": (
        {"Probe": "geometry_msgs/Point p\n"},
        "package.xml has no <depend>geometry_msgs</depend> for a field, or geometry_msgs is not installed",
    ),
}


@pytest.mark.skipif(
    not PREFIX_HAS_GENERATORS, reason="the ROS wheels are not in this environment: make setup"
)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line(fault: str, tmp_path: Path) -> None:
    content, words = FAULTS[fault]
    done = build(write(tmp_path, **content))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert words in line
    assert line.startswith(f"{tmp_path}: ")


@pytest.mark.skipif(
    not PREFIX_HAS_GENERATORS, reason="the ROS wheels are not in this environment: make setup"
)
def test_a_wheel_has_modules_libraries_and_the_index(tmp_path: Path) -> None:
    done = build(write(tmp_path, Probe="std_msgs/Header header\nfloat64[] values\n"))
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").glob("probe_msgs-1.2.0-*.whl")
    assert done.stdout.splitlines()[-1] == str(wheel)
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        metadata = file.read("probe_msgs-1.2.0.dist-info/METADATA").decode()
    data = "probe_msgs-1.2.0.data/data"
    assert {
        "probe_msgs/msg/_probe.py",
        f"{data}/lib/libprobe_msgs__rosidl_typesupport_c.so",
        f"{data}/share/probe_msgs/msg/Probe.idl",
        f"{data}/share/ament_index/resource_index/rosidl_interfaces/probe_msgs",
        f"{data}/share/ament_index/resource_index/packages/probe_msgs",
    } <= names
    assert "Requires-Dist: ros-std-msgs~=" in metadata
