"""Keeps the launch tests to themselves: a ROS domain of their own, the loopback alone, checked messages."""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import pytest

# Read when a Context is initialised and when a process is launched: set before any test module is imported.
os.environ["ROS_DOMAIN_ID"] = str(random.SystemRandom().randint(1, 101))
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_PYTHON_CHECK_FIELDS"] = "1"

HERE = Path(__file__).resolve().parent


def _package_is_installed() -> bool:
    """Return whether `ros2 launch usd_ros_bridge` would find the package."""
    if importlib.util.find_spec("ament_index_python") is None:
        return False
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    try:
        get_package_prefix("usd_ros_bridge")
    except PackageNotFoundError:
        return False
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder, with the reason, where the package is not installed as a ROS package."""
    if _package_is_installed():
        return
    skip = pytest.mark.skip(reason="usd_ros_bridge is no installed ROS package: colcon build and source it")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(skip)
