"""Publishes joint states at a steady rate, stamped with the time of sending, and costs little itself.

`python -m benchmarks.peers.drive JOINTS RATE`. The message is serialized once; stamp and positions are written into it.
"""

from __future__ import annotations

import struct
import sys
import time

import numpy as np
import rclpy
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from benchmarks.peers import input_ended, tell

_STAMP = struct.Struct("<iI")
_STAMP_AT = 4
_MARK = 1234.5678


def main() -> None:
    """Runs until the end of the input."""
    joints, rate = int(sys.argv[1]), float(sys.argv[2])
    ended = input_ended()
    message = JointState(name=[f"joint_{number}" for number in range(joints)], position=[_MARK] * joints)
    data = bytearray(serialize_message(message))
    first = bytes(data).index(struct.pack("<d", _MARK))
    positions = np.frombuffer(data, dtype=np.uint8)[first : first + 8 * joints]
    rclpy.init()
    node = rclpy.create_node("benchmark_driver")
    publisher = node.create_publisher(JointState, "/joint_states", 10)
    tell("ready")
    while not ended.is_set() and not publisher.get_subscription_count():
        ended.wait(0.02)
    tell("matched")
    phases = 0.1 * np.arange(joints)
    period_ns, sent = int(1e9 / rate), 0
    due = time.monotonic_ns()
    while not ended.is_set():
        wait = due - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        positions[:] = np.sin(phases + 0.01 * sent).view(np.uint8)
        _STAMP.pack_into(data, _STAMP_AT, *divmod(time.time_ns(), 1_000_000_000))
        publisher.publish(bytes(data))
        sent += 1
        due += period_ns
    tell("sent", count=sent)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
