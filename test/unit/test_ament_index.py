"""The ament index: prefixes of the environment, and rclpy's own where the environment names none. Oracle: ament's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed: make setup")

import ament_index_python
import rclpy

from programs import run_python
from usd_ros_bridge import ament_index
from usd_ros_bridge.cli import doctor
from usd_ros_bridge.ros.interface_types import AmentCatalog

ROOT = Path(__file__).parents[2]


def test_resources_are_those_that_ament_finds() -> None:
    for kind in ("packages", "rosidl_interfaces"):
        expected = ament_index_python.get_resources(kind)
        assert ament_index.resource_names(kind) == set(expected)
    assert (
        ament_index.resource_text("rosidl_interfaces", "std_msgs")
        == (ament_index_python.get_resource("rosidl_interfaces", "std_msgs")[0])
    )
    assert ament_index.resource_text("rosidl_interfaces", "nothing_msgs") is None
    share = ament_index_python.get_package_share_directory("std_msgs")
    assert str(ament_index.share_directory("std_msgs")) == share
    assert ament_index.share_directory("nothing_msgs") is None


def prefix(directory: Path, package: str = "site-packages") -> Path:
    """Makes a prefix with an rclpy and an index with one package. Returns rclpy's __init__.py."""
    file = directory / "lib" / "python3.12" / package / "rclpy" / "__init__.py"
    file.parent.mkdir(parents=True)
    file.touch()
    index = directory / "share/ament_index/resource_index/rosidl_interfaces"
    index.mkdir(parents=True)
    (index / "own_msgs").write_text("msg/Own.msg\n", encoding="utf-8")
    return file


def test_the_prefix_of_rclpy_is_the_last_one_also_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, workspace = tmp_path / "simulator", tmp_path / "workspace"
    monkeypatch.setattr(rclpy, "__file__", str(prefix(own)))
    for value in (None, "", str(own)):
        if value is None:
            monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
        else:
            monkeypatch.setenv("AMENT_PREFIX_PATH", value)
        assert list(ament_index.ament_prefixes()) == [own]
        assert ament_index.rclpy_prefix() == own
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join(["", str(workspace)]))
    assert list(ament_index.ament_prefixes()) == [workspace, own]
    catalog = AmentCatalog()
    assert catalog.contains("own_msgs/msg/Own")
    assert not catalog.contains("own_msgs/msg/Other")
    assert catalog.packages() == {"own_msgs"}


def test_an_rclpy_in_no_prefix_has_no_types_and_doctor_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a/b/c/d/rclpy/__init__.py"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr(rclpy, "__file__", str(file))
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    assert list(ament_index.ament_prefixes()) == []
    assert not AmentCatalog().contains("std_msgs/msg/String")
    assert AmentCatalog().packages() == frozenset()
    found = doctor.check_interfaces()
    assert (found.status, found.name) == ("error", "interfaces")
    assert "std_msgs" in found.found
    assert "AMENT_PREFIX_PATH is not set" in found.found
    assert "AMENT_PREFIX_PATH" in found.remedy


def test_without_rclpy_there_is_no_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rclpy", None)
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    assert ament_index.rclpy_prefix() is None
    assert list(ament_index.ament_prefixes()) == []


HOST = """
import os, sys
# As inside a simulator that brings its own rclpy: this environment sets the variable at Python's start.
os.environ.pop("AMENT_PREFIX_PATH", None)
from usd_ros_bridge.cli.main import main
sys.argv = ["usd_ros_bridge", *sys.argv[1:]]
main(sys.argv[1:])
"""


@pytest.mark.process
def test_a_host_without_ament_prefix_path_has_all_types() -> None:
    asset = ROOT / "examples" / "rover" / "world.usda"
    ran = run_python(HOST, "run", asset, "--no-live", "--duration", "0.2")
    assert ran.returncode == 0, ran.stderr
    log = ran.stdout + ran.stderr
    assert "not installed" not in log
    assert "disabled" not in log
    assert "7 topics, 1 service" in log
    inspected = run_python(HOST, "inspect", asset, "--strict")
    assert inspected.returncode == 0, inspected.stdout + inspected.stderr
    checked = run_python(HOST, "doctor")
    assert "AMENT_PREFIX_PATH is not set: types are those of" in checked.stdout
    assert checked.returncode == 0, checked.stdout
