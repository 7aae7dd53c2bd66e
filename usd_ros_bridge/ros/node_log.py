"""Where a bridge tells people things: its node's logger, and the standard library's while there is no node."""

from __future__ import annotations

import logging
from typing import Any

from usd_ros_bridge.model.diagnostics import escaped
from usd_ros_bridge.runtime.report import log_warning


class NodeLog:
    """Shows warnings and news.

    Attributes:
        node: The rclpy node whose logger shows them, None for none.
    """

    def __init__(self, name: str) -> None:
        """Has no node yet.

        Args:
            name: Of the standard library's logger.
        """
        self.node: Any = None
        self._name = name

    def warn(self, kind: str, message: str) -> None:
        """Shows a warning."""
        node = self.node
        if node is None:
            log_warning(kind, message)
        else:
            node.get_logger().warning(escaped(message))

    def inform(self, kind: str, message: str) -> None:
        """Shows something worth knowing."""
        node = self.node
        if node is None:
            logging.getLogger(self._name).info("%s [%s]", escaped(message), escaped(kind))
        else:
            node.get_logger().info(escaped(message))
