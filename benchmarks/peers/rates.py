"""Listens to several topics while it drives a robot, and tells at which rate each of them came.

`python -m benchmarks.peers.rates CMD_VEL TOPIC=TYPE ...`; messages are taken as bytes. Rates count from the moment at
which all topics have been heard for a while, to the end of the input.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable
from importlib import import_module

import rclpy
from geometry_msgs.msg import Twist
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy

from benchmarks.peers import input_ended, tell

WARM_UP_SECONDS = 3.0
_DEPTH = 50
_STAMP = struct.Struct("<iI")


class Counter:
    """Arrivals on one topic.

    Attributes:
        arrivals: Nanoseconds since the epoch.
        stamps: Nanoseconds of bridge time of the first and the last; 0 where the type has no header.
    """

    def __init__(self, *, stamped: bool) -> None:
        """Start without messages."""
        self.arrivals: list[int] = []
        self.stamps = (0, 0)
        self._stamped = stamped

    def take(self, message: bytes) -> None:
        """Notes a message."""
        if self._stamped:
            seconds, nanoseconds = _STAMP.unpack_from(message, 4)
            stamp = seconds * 1_000_000_000 + nanoseconds
            self.stamps = (self.stamps[0] if self.arrivals else stamp, stamp)
        self.arrivals.append(time.time_ns())

    def rate(self) -> float:
        """Returns Hz on the wall clock, 0 where there are too few."""
        arrivals = self.arrivals
        spent = arrivals[-1] - arrivals[0] if len(arrivals) > 1 else 0
        return (len(arrivals) - 1) * 1e9 / spent if spent else 0.0

    def factor(self) -> float:
        """Returns seconds of bridge time in a second, 0 where the type has no header."""
        arrivals, (first, last) = self.arrivals, self.stamps
        spent = arrivals[-1] - arrivals[0] if len(arrivals) > 1 else 0
        return (last - first) / spent if spent else 0.0


def main() -> None:
    """Runs until the end of the input."""
    cmd_vel, *named = sys.argv[1:]
    ended = input_ended()
    rclpy.init()
    node = rclpy.create_node("benchmark_rates")
    quality = QoSProfile(
        depth=_DEPTH, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT
    )
    counters: dict[str, Counter] = {}
    subscriptions = []
    for each in named:
        topic, _, type_name = each.partition("=")
        package, _, name = type_name.rpartition("/")
        counter = counters[topic] = Counter(stamped=not type_name.endswith("TFMessage"))
        message_class = getattr(import_module(package.replace("/", ".")), name)
        take: Callable[[bytes], None] = counter.take
        subscriptions.append(node.create_subscription(message_class, topic, take, quality, raw=True))
    publisher = node.create_publisher(Twist, cmd_vel, 10)
    command = Twist()
    command.linear.x, command.angular.z = 0.2, 0.3
    node.create_timer(0.1, lambda: publisher.publish(command))
    executor = EventsExecutor()
    executor.add_node(node)
    tell("ready")
    warm_ns = None
    warm = False
    while not ended.is_set():
        executor.spin_once(timeout_sec=0.05)
        if warm_ns is None and all(counter.arrivals for counter in counters.values()):
            warm_ns = time.time_ns() + round(WARM_UP_SECONDS * 1e9)
        if not warm and warm_ns is not None and time.time_ns() >= warm_ns:
            warm = True
            for counter in counters.values():
                counter.arrivals.clear()
            tell("begun")
    tell(
        "counted",
        rates={topic: counter.rate() for topic, counter in counters.items()},
        factor=max(counter.factor() for counter in counters.values()),
    )
    executor.shutdown()
    for subscription in subscriptions:
        node.destroy_subscription(subscription)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
