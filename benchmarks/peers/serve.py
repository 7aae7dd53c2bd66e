"""Serves a std_srvs/SetBool: with a handler that is bound to a bridge, or with rclpy alone.

`python -m benchmarks.peers.serve KIND`; KIND is `bridge`, on the rover's headlights with all its interfaces live, or
`plain`, a node with nothing but the service in a single-threaded executor.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Any

from benchmarks.harness import ROOT
from benchmarks.peers import input_ended, tell

ASSET = ROOT / "examples" / "rover" / "rover.usda"
SERVICES = {"bridge": "/rover/set_headlights", "plain": "/plain/set_headlights"}


def main() -> None:
    """Runs until the end of the input."""
    kind = sys.argv[1]
    ended = input_ended()
    {"bridge": _bridge, "plain": _plain}[kind](ended)


def _answer(request: Any, response: Any) -> Any:
    response.success = bool(request.data)
    return response


def _bridge(ended: threading.Event) -> None:
    from usd_ros_bridge import Bridge, load_plan

    bridge = Bridge(load_plan(ASSET), "kinematic", report=lambda *_: None, inform=lambda *_: None)
    bridge.on_service(SERVICES["bridge"], _answer)
    with bridge:
        spinning = threading.Thread(target=bridge.spin, name="spins")
        spinning.start()
        tell("ready")
        ended.wait()
        bridge.stop()
        spinning.join()


def _plain(ended: threading.Event) -> None:
    import rclpy
    from rclpy.executors import ExternalShutdownException
    from std_srvs.srv import SetBool

    rclpy.init()
    node = rclpy.create_node("benchmark_server")
    node.create_service(SetBool, SERVICES["plain"], _answer)
    threading.Thread(target=lambda: (ended.wait(), rclpy.shutdown()), daemon=True).start()
    tell("ready")
    with suppress(ExternalShutdownException):
        rclpy.spin(node)


if __name__ == "__main__":
    main()
