"""Listens to several topics while it drives a robot, and tells how each of them came: rate, jitter, losses.

`python -m benchmarks.peers.rates CMD_VEL TOPIC=TYPE@RATE ...`; messages are taken as bytes. Everything counts from the
moment at which all topics have been heard for a while, to the end of the input.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable
from importlib import import_module

import numpy as np
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
        stamps: Nanoseconds of bridge time.
    """

    def __init__(self, *, stamp_offset: int) -> None:
        """Start without messages.

        Args:
            stamp_offset: Byte of the first stamp in a message.
        """
        self.arrivals: list[int] = []
        self.stamps: list[int] = []
        self._offset = stamp_offset

    def take(self, message: bytes) -> None:
        """Notes a message."""
        seconds, nanoseconds = _STAMP.unpack_from(message, self._offset)
        self.stamps.append(seconds * 1_000_000_000 + nanoseconds)
        self.arrivals.append(time.time_ns())

    def clear(self) -> None:
        """Forgets all messages."""
        self.arrivals.clear()
        self.stamps.clear()

    def rate(self) -> float:
        """Returns Hz on the wall clock, 0 where there are too few."""
        arrivals = self.arrivals
        spent = arrivals[-1] - arrivals[0] if len(arrivals) > 1 else 0
        return (len(arrivals) - 1) * 1e9 / spent if spent else 0.0

    def factor(self) -> float:
        """Returns seconds of bridge time in a second, 0 where there are too few messages."""
        arrivals, stamps = self.arrivals, self.stamps
        spent = arrivals[-1] - arrivals[0] if len(arrivals) > 1 else 0
        return (stamps[-1] - stamps[0]) / spent if spent else 0.0

    def lost(self, rate: float) -> int:
        """Returns how many stamps are missing between the first and the last.

        Stamps are those of steps: with steps of 2 ms, those of 200 Hz are 4 and 6 ms apart.

        Args:
            rate: Hz.
        """
        intervals = np.diff(np.array(self.stamps))
        return int(np.rint(intervals * rate / 1e9).sum() - len(intervals))

    def jitter(self, rate: float) -> float:
        """Returns the 99.9th percentile of how much an interval between arrivals differs from the period, ms.

        Args:
            rate: Hz.
        """
        intervals = np.diff(np.array(self.arrivals))
        return float(np.percentile(np.abs(intervals - 1e9 / rate), 99.9) / 1e6) if len(intervals) else 0.0


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
    rates: dict[str, float] = {}
    subscriptions = []
    for each in named:
        topic, _, type_name = each.partition("=")
        type_name, _, rate = type_name.partition("@")
        rates[topic] = float(rate)
        # A TFMessage has the number of its transforms in front.
        counter = counters[topic] = Counter(stamp_offset=8 if type_name.endswith("TFMessage") else 4)
        package, _, name = type_name.rpartition("/")
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
                counter.clear()
            tell("begun")
    tell(
        "counted",
        rates={topic: counter.rate() for topic, counter in counters.items()},
        counts={topic: len(counter.arrivals) for topic, counter in counters.items()},
        lost={topic: counter.lost(rates[topic]) for topic, counter in counters.items()},
        jitter={topic: counter.jitter(rates[topic]) for topic, counter in counters.items()},
        factor=max(counter.factor() for counter in counters.values()),
    )
    executor.shutdown()
    for subscription in subscriptions:
        node.destroy_subscription(subscription)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
