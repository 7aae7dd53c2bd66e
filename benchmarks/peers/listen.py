"""Listens to one topic and notes when each message came and what its first stamp is.

`python -m benchmarks.peers.listen TOPIC KIND FILE`; KIND is tf, joint_states or image. At the end of its input it
writes FILE, an .npy of rows `(arrival, stamp, number)`: nanoseconds since the epoch, and how many transforms a message
has or which number an image has (-1 where its size is not what it should be).
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import rclpy
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image, JointState
from tf2_msgs.msg import TFMessage

from benchmarks.peers import input_ended, tell
from benchmarks.video import CHANNELS, HEIGHT, WIDTH

_TF_HEAD = struct.Struct("<IiI")
_HEADER_STAMP = struct.Struct("<iI")
_DEPTH = 100
_IMAGE_DEPTH = 5
_IMAGE_SIZE = HEIGHT * WIDTH * CHANNELS


def main() -> None:
    """Runs until the end of the input."""
    topic, kind, file = sys.argv[1:4]
    ended = input_ended()
    rows: list[tuple[int, int, int]] = []
    message_class, quality, callback = _subscription(kind, rows)
    rclpy.init()
    node = rclpy.create_node("benchmark_listener")
    subscription = node.create_subscription(message_class, topic, callback, quality, raw=kind != "image")
    executor = EventsExecutor()
    executor.add_node(node)
    tell("ready")
    matched = heard = False
    while not ended.is_set():
        executor.spin_once(timeout_sec=0.05)
        if not matched and node.count_publishers(topic):
            matched = True
            tell("matched")
        if rows and not heard:
            heard = True
            tell("heard", arrival_ns=rows[0][0])
    np.save(file, np.array(rows, dtype=np.int64).reshape(-1, 3))
    tell("written")
    executor.shutdown()
    node.destroy_subscription(subscription)
    node.destroy_node()
    rclpy.shutdown()


def _subscription(
    kind: str, rows: list[tuple[int, int, int]]
) -> tuple[type, QoSProfile, Callable[[Any], None]]:
    """Returns the message class, the quality of service and what notes a message. Wall time: stamps are, too."""
    note, now = rows.append, time.time_ns

    def tf(message: bytes) -> None:
        arrival = now()
        count, seconds, nanoseconds = _TF_HEAD.unpack_from(message, 4)
        note((arrival, seconds * 1_000_000_000 + nanoseconds, count))

    def joint_states(message: bytes) -> None:
        arrival = now()
        seconds, nanoseconds = _HEADER_STAMP.unpack_from(message, 4)
        note((arrival, seconds * 1_000_000_000 + nanoseconds, 0))

    def image(message: Any) -> None:
        arrival = now()
        stamp, data = message.header.stamp, message.data
        number = int.from_bytes(bytes(data[:8]), "little") if len(data) == _IMAGE_SIZE else -1
        note((arrival, stamp.sec * 1_000_000_000 + stamp.nanosec, number))

    reliable = QoSProfile(depth=_DEPTH, history=HistoryPolicy.KEEP_LAST)
    best_effort = QoSProfile(
        depth=_IMAGE_DEPTH if kind == "image" else _DEPTH,
        history=HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy.BEST_EFFORT,
    )
    kinds: dict[str, tuple[type, QoSProfile, Callable[[Any], None]]] = {
        "tf": (TFMessage, reliable, tf),
        "joint_states": (JointState, best_effort, joint_states),
        "image": (Image, best_effort, image),
    }
    return kinds[kind]


if __name__ == "__main__":
    main()
