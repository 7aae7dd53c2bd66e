"""A node in a process of its own that sends transforms until its standard input ends: what the TF guard is to find.

    python tf_sender.py NAME NAMESPACE TOPIC PARENT CHILD [PARENT CHILD ...]

A topic that ends in `_static` is latched and gets one message; another one gets one 50 times a second.
"""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD_S = 0.02


@contextmanager
def sending(
    topic: str, *edges: tuple[str, str], node: str = "sender", namespace: str = "/"
) -> Iterator[None]:
    """Has another process send `(parent, child)` transforms for the duration of a `with` block."""
    words = [word for edge in edges for word in edge]
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), node, namespace, topic, *words], stdin=subprocess.PIPE
    )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60.0) == 0


def main(name: str, namespace: str, topic: str, *words: str) -> None:
    """Sends until standard input ends."""
    import rclpy
    from geometry_msgs.msg import TransformStamped
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from tf2_msgs.msg import TFMessage

    rclpy.init()
    node = rclpy.create_node(name, namespace=namespace)
    transforms = []
    for parent, child in zip(words[::2], words[1::2], strict=True):
        transform = TransformStamped()
        transform.header.frame_id, transform.child_frame_id = parent, child
        transforms.append(transform)
    if topic.endswith("_static"):
        publisher = node.create_publisher(
            TFMessage, topic, QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        )
        publisher.publish(TFMessage(transforms=transforms))
    else:
        publisher = node.create_publisher(TFMessage, topic, 10)
    while not select.select([sys.stdin], [], [], PERIOD_S)[0]:
        if not topic.endswith("_static"):
            for transform in transforms:
                transform.header.stamp = node.get_clock().now().to_msg()
            publisher.publish(TFMessage(transforms=transforms))
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
