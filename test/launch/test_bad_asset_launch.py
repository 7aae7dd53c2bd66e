"""The launch file on an asset that does not exist: one clear line and a failure, no traceback."""

from __future__ import annotations

import unittest
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("launch_testing", reason="launch_testing comes with a full ROS 2 installation only")
pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")

import launch_testing
import launch_testing.actions
import launch_testing.asserts
import launch_testing.util
from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

LAUNCH_FILE = Path(__file__).resolve().parents[2] / "launch" / "bridge.launch.py"
ASSET = "no_such_robot.usda"
# launch names a process after its executable, and appends the order of starting.
BRIDGE = "bridge-"


@pytest.mark.launch_test
def generate_test_description() -> LaunchDescription:
    """Start the launch file on a missing asset, beside a process that outlives the bridge."""
    launch_file = PythonLaunchDescriptionSource(str(LAUNCH_FILE))
    return LaunchDescription(
        [
            IncludeLaunchDescription(launch_file, launch_arguments={"asset": ASSET}.items()),
            launch_testing.util.KeepAliveProc(),
            launch_testing.actions.ReadyToTest(),
        ]
    )


class TestMissingAsset(unittest.TestCase):
    """While the launch is alive."""

    def test_bridge_ends_by_itself(self, proc_info: Any) -> None:
        """The bridge gives up instead of running without a robot."""
        proc_info.assertWaitForShutdown(process=BRIDGE, timeout=90.0)


@launch_testing.post_shutdown_test()
class TestMissingAssetAfterShutdown(unittest.TestCase):
    """After everything has ended."""

    def test_exit_code(self, proc_info: Any) -> None:
        """The status is the one of a caller's mistake."""
        launch_testing.asserts.assertExitCodes(proc_info, [2], process=BRIDGE)

    def test_one_clear_line(self, proc_output: Any) -> None:
        """One line says which asset is missing; before it are only the phases of the start."""
        text = "".join(o.text.decode() for o in proc_output if o.process_name.startswith(BRIDGE))
        *phases, error = [line for line in text.splitlines() if line.strip()]
        assert all(line.startswith("[INFO] ") for line in phases), text
        assert ASSET in error
        assert error.startswith("usd_ros_bridge: ")
