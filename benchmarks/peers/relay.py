"""Answers joint states with a constant /tf message, with rclpy and nothing else: what the middleware takes of a node.

`python -m benchmarks.peers.relay JOINTS`. The message has the size of a serial chain's, and the stamp of the joint
states; it is taken and sent as bytes, in the main thread, woken by the new-message callback without an executor.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
from typing import Any

import rclpy
from geometry_msgs.msg import TransformStamped
from rclpy.qos import qos_profile_sensor_data
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from benchmarks.peers import input_ended

_STAMP = slice(4, 12)
_FIRST_STAMP = slice(8, 16)
_WAIT_SECONDS = 0.1


def main() -> None:
    """Runs until the end of the input."""
    joints = int(sys.argv[1])
    ended = input_ended()
    rclpy.init()
    node = rclpy.create_node("benchmark_relay")
    publisher = node.create_publisher(TFMessage, "/tf", 100)
    subscription = node.create_subscription(
        JointState, "/joint_states", _never, qos_profile_sensor_data, raw=True
    )
    arrived = _on_arrival(subscription)
    answer = bytearray(serialize_message(_chain(joints)))
    while not ended.is_set():
        if not select.select((arrived,), (), (), _WAIT_SECONDS)[0]:
            continue
        os.eventfd_read(arrived)
        while (taken := _take(subscription)) is not None:
            answer[_FIRST_STAMP] = taken[_STAMP]
            publisher.publish(bytes(answer))
    node.destroy_node()
    rclpy.shutdown()


def _chain(joints: int) -> TFMessage:
    transforms = []
    for number in range(joints):
        header = Header(frame_id=f"link_{number}")
        transforms.append(TransformStamped(header=header, child_frame_id=f"link_{number + 1}"))
    return TFMessage(transforms=transforms)


def _on_arrival(subscription: Any) -> int:
    """Returns an eventfd that the middleware writes to when a message arrives."""
    descriptor = os.eventfd(0, os.EFD_NONBLOCK)
    install = ctypes.CDLL("librcl.so").rcl_subscription_set_on_new_message_callback
    install.argtypes = [ctypes.c_void_p] * 3
    write = ctypes.cast(ctypes.CDLL(None).eventfd_write, ctypes.c_void_p)
    with subscription.handle:
        code = install(subscription.handle.pointer, write, descriptor)
    if code != 0:
        raise RuntimeError(f"the middleware takes no new-message callback ({code})")
    return descriptor


def _take(subscription: Any) -> bytes | None:
    with subscription.handle:
        taken = subscription.handle.take_message(JointState, True)
    return None if taken is None else taken[0]


def _never(_: Any) -> None:
    raise AssertionError("no executor runs here")


if __name__ == "__main__":
    main()
