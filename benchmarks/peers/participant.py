"""A participant of a ROS graph: makes publishers when it is told to, or watches until it sees those of all others.

`python -m benchmarks.peers.participant NUMBER`. Its input has one word in each line, with a number where it needs one.
`join NODES` makes a node and tells when so many nodes are in its graph. `make ENDPOINTS` makes so many publishers.
`watch TOPICS` tells when so many topics of the benchmark are in its graph. `report` tells its memory. Until `join`
there is nothing of the middleware.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import rclpy
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from benchmarks.peers import tell
from benchmarks.processes import proportional_mb

PREFIX = "/discovered_"
_LEAST_WAIT_S = 0.01
_WAITS_PER_LOOK = 3.0
"""A look at a graph of thousands of topics takes a while: most of the time is left to the middleware."""
_TYPES = (TFMessage, JointState)


def main() -> None:
    """Does what its input says, until that ends."""
    number = int(sys.argv[1])
    endpoints: list[Publisher] = []
    tell("imported")
    node: Node | None = None
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "join":
            begin = time.monotonic_ns()
            rclpy.init()
            node = rclpy.create_node(
                f"participant_{number}", enable_rosout=False, start_parameter_services=False
            )
            _wait_until(node, int(argument), lambda node: len(node.get_node_names()))
            tell("joined", begin_ns=begin, end_ns=time.monotonic_ns())
        assert node is not None, "the first word is join"
        if word == "make":
            begin = time.monotonic_ns()
            endpoints += [_publisher(node, number, each) for each in range(int(argument))]
            tell("made", begin_ns=begin, end_ns=time.monotonic_ns())
        elif word == "watch":
            _wait_until(node, int(argument), _count_topics)
            tell("sees_all", seen_ns=time.monotonic_ns())
        elif word == "report":
            tell("report", memory_mb=proportional_mb())
    if node is not None:
        for each in endpoints:
            node.destroy_publisher(each)
        node.destroy_node()
        rclpy.shutdown()


def _publisher(node: Node, number: int, each: int) -> Publisher:
    """Returns a publisher of a topic of its own, as a robot of a fleet has them."""
    return node.create_publisher(
        _TYPES[each % len(_TYPES)],
        f"{PREFIX}{number}/robot_{each // len(_TYPES)}/{'joint_states' if each % 2 else 'tf'}",
        10,
        event_callbacks=PublisherEventCallbacks(use_default_callbacks=False),
    )


def _count_topics(node: Node) -> int:
    return sum(name.startswith(PREFIX) for name, _ in node.get_topic_names_and_types())


def _wait_until(node: Node, number: int, count: Callable[[Node], int]) -> None:
    """Waits until the graph has as many of something as it should."""
    while True:
        begin = time.monotonic()
        if count(node) >= number:
            return
        time.sleep(max(_LEAST_WAIT_S, _WAITS_PER_LOOK * (time.monotonic() - begin)))


if __name__ == "__main__":
    main()
