"""A node that sends transforms, in a participant of its own: what the TF guard is to find.

    python tf_sender.py NAME NAMESPACE TOPIC PARENT CHILD [PARENT CHILD ...]

sends until its standard input ends. A topic that ends in `_static` is latched and gets one message; another one gets
one 50 times a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PERIOD_S = 0.02


@contextmanager
def sending(
    topic: str, *edges: tuple[str, str], node: str = "sender", namespace: str = "/"
) -> Iterator[None]:
    """Send `(parent, child)` transforms for the duration of a `with` block, from a thread and a context of its own."""
    ended = threading.Event()
    thread = threading.Thread(target=send, args=(node, namespace, topic, edges, ended.wait))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def sending_process(
    topic: str, *edges: tuple[str, str], node: str = "sender", namespace: str = "/"
) -> Iterator[None]:
    """As `sending`, from another process."""
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


def send(
    name: str, namespace: str, topic: str, edges: Sequence[tuple[str, str]], ended: Callable[[float], bool]
) -> None:
    """Send until `ended(seconds)`, which waits as long, says so."""
    import rclpy
    from geometry_msgs.msg import TransformStamped
    from rclpy.context import Context
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from rclpy.signals import SignalHandlerOptions
    from tf2_msgs.msg import TFMessage

    context = Context()
    rclpy.init(
        context=context,
        domain_id=int(os.environ["ROS_DOMAIN_ID"]),
        signal_handler_options=SignalHandlerOptions.NO,
    )
    node = rclpy.create_node(name, namespace=namespace, context=context)
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    is_static = topic.endswith("_static")
    publisher = node.create_publisher(TFMessage, topic, latched if is_static else 10)
    message = TFMessage()
    for parent, child in edges:
        message.transforms.append(TransformStamped(child_frame_id=child))
        message.transforms[-1].header.frame_id = parent
    publisher.publish(message)
    while not ended(PERIOD_S):
        if not is_static:
            for transform in message.transforms:
                transform.header.stamp = node.get_clock().now().to_msg()
            publisher.publish(message)
    node.destroy_node()
    context.try_shutdown()


def _main(name: str, namespace: str, topic: str, *words: str) -> None:
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    send(name, namespace, topic, tuple(zip(words[::2], words[1::2], strict=True)), ended.wait)


if __name__ == "__main__":
    _main(*sys.argv[1:])
