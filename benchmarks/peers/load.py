"""Keeps the machine busy: burns a core, or publishes on many topics.

`python -m benchmarks.peers.load burn`, or `python -m benchmarks.peers.load publish CMD_VEL STEADY RATE`: velocity
commands, a stamped topic to compare others with, and ten topics with a kilobyte each that nobody listens to.
"""

from __future__ import annotations

import sys
import time

import rclpy
from geometry_msgs.msg import Twist, TwistStamped
from std_msgs.msg import String

from benchmarks.peers import input_ended, tell

_TOPICS = 10
_BYTES = 1024


def main() -> None:
    """Runs until the end of the input."""
    ended = input_ended()
    if sys.argv[1] == "burn":
        tell("ready")
        while not ended.is_set():
            sum(range(10_000))
        return
    cmd_vel, steady, period = sys.argv[2], sys.argv[3], 1.0 / float(sys.argv[4])
    rclpy.init()
    node = rclpy.create_node("benchmark_load", enable_rosout=False, start_parameter_services=False)
    drive = node.create_publisher(Twist, cmd_vel, 10)
    compared = node.create_publisher(TwistStamped, steady, 10)
    others = [node.create_publisher(String, f"/load_{number}", 10) for number in range(_TOPICS)]
    twist, stamped, text = Twist(), TwistStamped(), String(data="x" * _BYTES)
    twist.linear.x, twist.angular.z = 0.1, 0.3
    tell("ready")
    due = time.monotonic()
    while not ended.is_set():
        drive.publish(twist)
        stamp = stamped.header.stamp
        stamp.sec, stamp.nanosec = divmod(time.monotonic_ns(), 1_000_000_000)
        compared.publish(stamped)
        for each in others:
            each.publish(text)
        due += period
        time.sleep(max(0.0, due - time.monotonic()))
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
