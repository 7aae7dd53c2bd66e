"""Watches the graph of a topic: tells when it gets its first publisher, and when it has none any more.

`python -m benchmarks.peers.graph TOPIC`. It looks every two milliseconds, seldom enough not to be a load of its own.
"""

from __future__ import annotations

import sys
import time

import rclpy

from benchmarks.peers import input_ended, tell

_LOOK_S = 0.002


def main() -> None:
    """Runs until the end of the input."""
    topic = sys.argv[1]
    ended = input_ended()
    rclpy.init()
    node = rclpy.create_node("benchmark_graph_watcher", enable_rosout=False, start_parameter_services=False)
    tell("ready")
    there = False
    while not ended.is_set():
        now = node.count_publishers(topic) > 0
        if now != there:
            there = now
            tell("appeared" if there else "vanished", seen_ns=time.monotonic_ns())
        time.sleep(_LOOK_S)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
