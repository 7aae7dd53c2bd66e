"""Sends every drive of a fleet a velocity command of its own at a steady rate, as bytes, and costs little itself.

`python -m benchmarks.peers.command ROBOTS RATE`. Robot `n` listens to `/robot_n/cmd_vel`. The commands of one period
are spread over it, as independent planners would send them.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import rclpy
from geometry_msgs.msg import Twist
from rclpy.serialization import serialize_message

from benchmarks.peers import input_ended, tell

LEAST_SPEED = 0.2
_BURST_NS = 5_000_000


def command(number: int) -> tuple[float, float]:
    """Returns the speeds that robot `number` is told: m/s forward and rad/s to the left."""
    return LEAST_SPEED + 0.01 * (number % 50), 0.5 - 0.02 * (number % 51)


def main() -> None:
    """Runs until the end of the input."""
    robots, rate = int(sys.argv[1]), float(sys.argv[2])
    ended = input_ended()
    rclpy.init()
    node = rclpy.create_node("benchmark_commander")
    publishers = [node.create_publisher(Twist, f"/robot_{number}/cmd_vel", 10) for number in range(robots)]
    messages = [serialize_message(_twist(number)) for number in range(robots)]
    while not ended.is_set() and not all(each.get_subscription_count() for each in publishers):
        ended.wait(0.05)
    tell("matched")
    bursts = max(1, round(1e9 / rate / _BURST_NS))
    shares = [range(burst, robots, bursts) for burst in range(bursts)]
    due, sent = time.monotonic_ns(), 0
    while not ended.is_set():
        for number in shares[sent % bursts]:
            publishers[number].publish(messages[number])
        sent += 1
        due += _BURST_NS
        wait = due - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
    node.destroy_node()
    rclpy.shutdown()


def _twist(number: int) -> Any:
    message = Twist()
    message.linear.x, message.angular.z = command(number)
    return message


if __name__ == "__main__":
    main()
