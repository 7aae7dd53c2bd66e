"""robot_state_publisher for OpenUSD: `ros2 run usd_ros_bridge robot_state_publisher`. Light to import, as node.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from usd_ros_bridge.ros.node import main as run
from usd_ros_bridge.ros.roles import ROBOT_STATE_PUBLISHER


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the node and exits, as `usd_ros_bridge.ros.node.main`."""
    run(arguments, role=ROBOT_STATE_PUBLISHER)


if __name__ == "__main__":
    main()
