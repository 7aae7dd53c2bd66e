"""Log of a bridge: its node's logger, or the standard library's while there is no node."""

from __future__ import annotations

import logging
from typing import Any

from usd_ros_bridge.errors import escaped
from usd_ros_bridge.reporting import log_warning


class NodeLog:
    """Shows warnings and news.

    Attributes:
        node: The rclpy node whose logger shows them, None for none.
    """

    def __init__(self, name: str) -> None:
        """Log through the standard library until there is a node.

        Args:
            name: Of the standard library's logger.
        """
        self.node: Any = None
        self._name = name

    def warn(self, kind: str, message: str) -> None:
        """Show a warning."""
        node = self.node
        if node is None:
            log_warning(kind, message)
        else:
            node.get_logger().warning(escaped(message))

    def inform(self, kind: str, message: str) -> None:
        """Show something worth knowing."""
        node = self.node
        if node is None:
            logging.getLogger(self._name).info("%s [%s]", escaped(message), escaped(kind))
        else:
            node.get_logger().info(escaped(message))
