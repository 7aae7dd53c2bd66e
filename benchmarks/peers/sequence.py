"""Listens to several topics and notes every message: when it came, and what it is stamped with.

`python -m benchmarks.peers.sequence FILE TOPIC=TYPE ...`; reliable, messages are taken as bytes. At the end of its
input it writes FILE, an .npz with an array (N, 2) for each topic: arrival on the monotonic clock, and stamp, ns.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable
from importlib import import_module

import numpy as np
import rclpy
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.qos import HistoryPolicy, QoSProfile

from benchmarks.peers import input_ended, tell

_DEPTH = 1000
_STAMP = struct.Struct("<iI")
_DRAIN_S = 1.0


def main() -> None:
    """Runs until the end of the input, and a while longer for what is on its way."""
    file, topics = sys.argv[1], [each.split("=") for each in sys.argv[2:]]
    ended = input_ended()
    rows: dict[str, list[tuple[int, int]]] = {topic: [] for topic, _ in topics}
    rclpy.init()
    node = rclpy.create_node("benchmark_sequences", enable_rosout=False, start_parameter_services=False)
    quality = QoSProfile(depth=_DEPTH, history=HistoryPolicy.KEEP_LAST)
    for topic, type_name in topics:
        package, kind, name = type_name.split("/")
        message_class = getattr(import_module(f"{package}.{kind}"), name)
        node.create_subscription(message_class, topic, _noting(rows[topic], name), quality, raw=True)
    executor = EventsExecutor()
    executor.add_node(node)
    tell("ready")
    while not ended.is_set():
        executor.spin_once(timeout_sec=0.05)
    end = time.monotonic() + _DRAIN_S
    while time.monotonic() < end:
        executor.spin_once(timeout_sec=0.05)
    np.savez(file, **{topic: np.array(taken, dtype=np.int64).reshape(-1, 2) for topic, taken in rows.items()})
    tell("written")
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()


def _noting(rows: list[tuple[int, int]], type_name: str) -> Callable[[bytes], None]:
    # A TFMessage begins with the number of its transforms, the others with their header.
    note, now, offset = rows.append, time.monotonic_ns, 8 if type_name == "TFMessage" else 4

    def take(message: bytes) -> None:
        arrival = now()
        seconds, nanoseconds = _STAMP.unpack_from(message, offset)
        note((arrival, seconds * 1_000_000_000 + nanoseconds))

    return take


if __name__ == "__main__":
    main()
