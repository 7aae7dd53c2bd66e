"""The rover under launch_testing: the tests begin when the bridge is ready and the lidar has sent a scan."""

import time
import unittest

import pytest

pytest.importorskip("launch_testing", reason="launch_testing comes with a full ROS 2 installation only")

import launch_testing
import rclpy
from geometry_msgs.msg import Twist, Vector3
from nav_msgs.msg import Odometry

from usd_ros_bridge.testing.launch import bridge_test_description


@pytest.mark.launch_test
@launch_testing.ready_to_test_action_timeout(60)
def generate_test_description():
    """Start the bridge on the rover's world, in MuJoCo."""
    world = "package://usd_ros_bridge/examples/rover/world.usda"
    return bridge_test_description(world, backend="mujoco", messages=["/rover/scan"])


class TestRover(unittest.TestCase):
    """While the bridge runs."""

    def test_it_drives_forward(self):
        """A velocity command moves it by 0.1 m."""
        rclpy.init()
        try:
            node = rclpy.create_node("driver")
            poses = []
            node.create_subscription(
                Odometry, "/rover/odom", lambda odom: poses.append(odom.pose.pose.position.x), 10
            )
            command = node.create_publisher(Twist, "/rover/cmd_vel", 10)
            deadline = time.monotonic() + 30.0
            while not poses or poses[-1] < poses[0] + 0.1:
                assert time.monotonic() < deadline, f"it drove from {poses[:1]} to {poses[-1:]} m"
                command.publish(Twist(linear=Vector3(x=0.3)))
                rclpy.spin_once(node, timeout_sec=0.1)
        finally:
            rclpy.shutdown()


@launch_testing.post_shutdown_test()
class TestShutdown(unittest.TestCase):
    """After SIGINT."""

    def test_it_ends_cleanly(self, proc_info):
        """The exit status is 0."""
        launch_testing.asserts.assertExitCodes(proc_info)
