"""bridge_test_description as a user writes it: tests begin when everything is there, the camera's images, too."""

from __future__ import annotations

import unittest
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("launch_testing", reason="launch_testing comes with a full ROS 2 installation only")
pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

import launch_testing
import launch_testing.asserts
from launch import LaunchDescription

from usd_ros_bridge.testing.launch import bridge_test_description
from usd_ros_bridge.testing.readiness import ReadinessObserver, served_interfaces

WORLD = Path(__file__).resolve().parents[2] / "examples" / "rover" / "world.usda"
SENSORS = ("/rover/scan", "/rover/imu", "/rover/odom")


@pytest.mark.launch_test
@launch_testing.ready_to_test_action_timeout(90)
def generate_test_description() -> LaunchDescription:
    """Start the world. The sensors have sent messages before a test begins."""
    return bridge_test_description(
        WORLD, backend="mujoco", arguments={"publish_diagnostics": False}, messages=SENSORS, timeout=80.0
    )


class TestReady(unittest.TestCase):
    """At once: nothing has to be waited for any more."""

    def test_everything_is_there(self) -> None:
        """The plan and all that it names are found by a node that has just started."""
        with ReadinessObserver(timeout=30.0) as observer:
            plan = observer.wait_for_plan("/usd_ros_bridge")
            rows = served_interfaces(plan)
            assert set(SENSORS) <= {row.name for row in rows}
            observer.wait_for_interfaces(rows)


@launch_testing.post_shutdown_test()
class TestAfterShutdown(unittest.TestCase):
    """After launch has stopped the node."""

    def test_exit_status(self, proc_info: Any) -> None:
        """SIGINT ends the node with status 0."""
        launch_testing.asserts.assertExitCodes(proc_info)
