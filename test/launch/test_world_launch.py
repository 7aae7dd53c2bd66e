"""The launch file on the rover's world: MuJoCo moves it, /clock and the scan go on, a command drives, a pause holds."""

from __future__ import annotations

import math
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("launch_testing", reason="launch_testing comes with a full ROS 2 installation only")
pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")
pytest.importorskip("mujoco", reason="MuJoCo is an extra: pip install mujoco")

import launch_testing
import launch_testing.actions
import launch_testing.asserts
import rclpy
from geometry_msgs.msg import Twist
from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from nav_msgs.msg import Odometry
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import LaserScan
from std_srvs.srv import SetBool

REPOSITORY = Path(__file__).resolve().parents[2]
WORLD = REPOSITORY / "examples" / "rover" / "world.usda"
TIMEOUT_S = 90.0
SPEED = 0.5


@pytest.mark.launch_test
def generate_test_description() -> LaunchDescription:
    """Start the launch file as it ships, with the world for an asset."""
    launch_file = PythonLaunchDescriptionSource(str(REPOSITORY / "launch" / "bridge.launch.py"))
    return LaunchDescription(
        [
            IncludeLaunchDescription(launch_file, launch_arguments={"asset": str(WORLD)}.items()),
            launch_testing.actions.ReadyToTest(),
        ]
    )


class Watcher:
    """A node beside the bridge that keeps what it heard last."""

    def __init__(self, context: Context) -> None:
        self.heard: dict[type, Any] = {}
        self.clocks: list[float] = []
        self.node = Node("watcher", context=context)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)
        for kind, name in ((Clock, "/clock"), (LaserScan, "/rover/scan"), (Odometry, "/rover/odom")):
            self.node.create_subscription(kind, name, self._keep, qos_profile_sensor_data)
        self.command = self.node.create_publisher(Twist, "/rover/cmd_vel", 10)
        self.pause = self.node.create_client(SetBool, "/usd_ros_bridge/set_paused")

    def _keep(self, message: Any) -> None:
        self.heard[type(message)] = message
        if isinstance(message, Clock):
            self.clocks.append(self.clock_s())

    def clock_repeats(self) -> bool:
        """Return whether the last two messages on /clock say the same."""
        return len(self.clocks) > 1 and self.clocks[-1] == self.clocks[-2]

    def clock_s(self) -> float:
        """Return the bridge's time, 0 before it was heard."""
        clock = self.heard.get(Clock)
        return 0.0 if clock is None else clock.clock.sec + clock.clock.nanosec * 1e-9

    def spin(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Run callbacks for some seconds of wall time, or until a condition holds; return whether it did."""
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                return False
            self._executor.spin_once(timeout_sec=0.05)
        return True

    def set_paused(self, paused: bool) -> None:
        """Pause or resume, and wait for the answer."""
        assert self.spin(TIMEOUT_S, self.pause.service_is_ready)
        answer = self.pause.call_async(SetBool.Request(data=paused))
        assert self.spin(TIMEOUT_S, answer.done)
        assert answer.result().success, answer.result().message

    def close(self) -> None:
        """Take the node out of the graph."""
        self._executor.shutdown()
        self.node.destroy_node()


@contextmanager
def watcher() -> Iterator[Watcher]:
    """Yield a watcher in a context of its own, so that the launch's own use of rclpy is left alone."""
    context = Context()
    rclpy.init(context=context)
    try:
        opened = Watcher(context)
        try:
            yield opened
        finally:
            opened.close()
    finally:
        rclpy.shutdown(context=context)


class TestWorld(unittest.TestCase):
    """While the bridge runs."""

    def test_commands_drive_the_rover_and_a_pause_holds_it(self) -> None:
        """It drives as far as told in the bridge's own time, sees the walls, and stands still in a pause."""
        with watcher() as beside:
            assert beside.spin(TIMEOUT_S, lambda: len(beside.heard) == 3), f"heard only {list(beside.heard)}"
            scan = beside.heard[LaserScan]
            assert len(scan.ranges) == 360
            assert all(0.1 < value < 12.0 for value in scan.ranges if math.isfinite(value))
            assert sum(map(math.isfinite, scan.ranges)) > 300, "walls are all around"
            start = beside.heard[Odometry].pose.pose.position.x

            def far_enough() -> bool:
                message = Twist()
                message.linear.x = SPEED
                beside.command.publish(message)
                return bool(beside.heard[Odometry].pose.pose.position.x > start + 0.3)

            assert beside.spin(TIMEOUT_S, far_enough), "the rover does not move"
            beside.set_paused(True)
            # The last step may have been no multiple of the clock's period: its time is told once, in the pause.
            assert beside.spin(TIMEOUT_S, beside.clock_repeats), "time goes on in a pause"
            held = beside.clock_s()
            beside.clocks.clear()
            assert beside.spin(TIMEOUT_S, lambda: len(beside.clocks) > 1), "no /clock in a pause"
            assert beside.clock_s() == held, "time went on in a pause"
            beside.set_paused(False)
            assert beside.spin(TIMEOUT_S, lambda: beside.clock_s() > held), "time does not go on"


@launch_testing.post_shutdown_test()
class TestWorldAfterSigint(unittest.TestCase):
    """After the launch has sent SIGINT to the bridge."""

    def test_exit_code(self, proc_info: Any) -> None:
        """The bridge ends with 0."""
        launch_testing.asserts.assertExitCodes(proc_info)

    def test_mujoco_moved_it(self, proc_output: Any) -> None:
        """The bridge said what it chose, and printed no traceback."""
        printed = "".join(output.text.decode() for output in proc_output)
        assert "backend mujoco" in printed
        assert "Traceback" not in printed
