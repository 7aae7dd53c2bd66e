"""What importing a part of the package loads, in a fresh interpreter: the other half of the import contracts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import usd_ros_bridge

pytestmark = pytest.mark.process

PACKAGE = Path(usd_ros_bridge.__file__).parent
WITHOUT_BOTH = ("spatial", "model", "planning", "controllers", "backends", "export", "runtime")
ROS_ROOTS = (
    "rclpy",
    "rosidl_runtime_py",
    "std_msgs",
    "sensor_msgs",
    "geometry_msgs",
    "tf2_msgs",
    "builtin_interfaces",
)


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a statement leaves loaded in a Python of its own."""
    code = f"{statement}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("layer", [name for name in (*WITHOUT_BOTH, "usd") if (PACKAGE / name).is_dir()])
def test_layer_loads_nothing_of_others(layer: str) -> None:
    # Newton is hardly ever installed beside the rest; what imports it is loaded without it, as far as that goes.
    loaded = loaded_by(
        "import importlib, pkgutil\n"
        f"package = importlib.import_module('usd_ros_bridge.{layer}')\n"
        "for row in pkgutil.walk_packages(package.__path__, package.__name__ + '.', onerror=lambda name: None):\n"
        "    try:\n"
        "        importlib.import_module(row.name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        if error.name not in ('newton', 'warp'):\n"
        "            raise"
    )
    assert not loaded & set(ROS_ROOTS)
    assert layer == "usd" or "pxr" not in loaded


def test_package_itself_loads_nothing() -> None:
    assert not loaded_by("import usd_ros_bridge") & {"pxr", "numpy", *ROS_ROOTS}


def test_ros_layer_leaves_openusd_to_those_who_compose() -> None:
    assert "pxr" not in loaded_by("import usd_ros_bridge.ros")


def test_bridge_starts_without_optional_packages() -> None:
    pytest.importorskip("rclpy")
    loaded = loaded_by("import usd_ros_bridge.ros.bridge, usd_ros_bridge.ros.node")
    assert not loaded & {
        "simulation_interfaces",
        "control_msgs",
        "trajectory_msgs",
        "nav_msgs",
        "tf2_ros",
        "mujoco",
    }


def test_the_check_sees_what_is_loaded() -> None:
    assert "numpy" in loaded_by("import numpy")
