"""Skip the launch tests where usd_ros_bridge is not installed as a ROS package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 300


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
    """Skip the tests of this folder, with the reason, where the package is not installed as a ROS package.

    Each starts several processes: on a busy machine that takes longer than a test of the suite may.
    """
    is_installed = _package_is_installed()
    skip = pytest.mark.skip(reason="usd_ros_bridge is no installed ROS package: colcon build and source it")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            # A launch test has no module to write the mark in.
            item.add_marker(pytest.mark.process)
            if not is_installed:
                item.add_marker(skip)
