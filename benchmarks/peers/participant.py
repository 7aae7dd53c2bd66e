"""A participant of a ROS graph: makes publishers when it is told to, or watches until it sees those of all others.

`python -m benchmarks.peers.participant NUMBER`. Its input has one word in each line, with a number where it needs one:
`join ENDPOINTS` makes a node with so many publishers, `watch TOPICS` tells when so many topics of the benchmark are in
its graph, `report` tells its CPU time and memory. Until `join` there is nothing of the middleware.
"""

from __future__ import annotations

import sys
import time

import rclpy
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node
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
    node: Node | None = None
    endpoints = []
    tell("imported")
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "join":
            begin, cpu = time.monotonic_ns(), time.process_time()
            rclpy.init()
            node = rclpy.create_node(f"participant_{number}", enable_rosout=False, start_parameter_services=False)
            endpoints = [_publisher(node, number, each) for each in range(int(argument))]
            tell("joined", begin_ns=begin, end_ns=time.monotonic_ns(), cpu=time.process_time() - cpu)
        elif word == "watch":
            assert node is not None
            _watch(node, int(argument))
        elif word == "report":
            tell("report", cpu=time.process_time(), memory_mb=proportional_mb())
    if node is not None:
        for each in endpoints:
            node.destroy_publisher(each)
        node.destroy_node()
        rclpy.shutdown()


def _publisher(node: Node, number: int, each: int) -> object:
    """Returns a publisher of a topic of its own, as a robot of a fleet has them."""
    return node.create_publisher(
        _TYPES[each % len(_TYPES)],
        f"{PREFIX}{number}/robot_{each // len(_TYPES)}/{'joint_states' if each % 2 else 'tf'}",
        10,
        event_callbacks=PublisherEventCallbacks(use_default_callbacks=False),
    )


def _watch(node: Node, topics: int) -> None:
    """Tells when the graph has all topics of the benchmark."""
    while True:
        begin = time.monotonic()
        found = sum(name.startswith(PREFIX) for name, _ in node.get_topic_names_and_types())
        if found >= topics:
            tell("sees_all", seen_ns=time.monotonic_ns(), topics=found)
            return
        time.sleep(max(_LEAST_WAIT_S, _WAITS_PER_LOOK * (time.monotonic() - begin)))


if __name__ == "__main__":
    main()
