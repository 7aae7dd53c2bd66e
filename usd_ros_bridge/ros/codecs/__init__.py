"""Codecs: numbers to messages and back, one module per message package.

To add a message type, write its functions and put one row into `CODECS` of the package's module; for an action that
controllers follow, into `ACTIONS`. What planning must know of the type is one row in `model/message_types.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from usd_ros_bridge.ros.codecs import (
    control_msgs,
    geometry_msgs,
    nav_msgs,
    sensor_msgs,
    std_msgs,
    trajectory_msgs,
)
from usd_ros_bridge.ros.codecs.control_msgs import ActionCodec
from usd_ros_bridge.ros.codecs.encoding import MessageCodec

CODECS: Mapping[str, MessageCodec] = {
    **geometry_msgs.CODECS,
    **nav_msgs.CODECS,
    **sensor_msgs.CODECS,
    **std_msgs.CODECS,
    **trajectory_msgs.CODECS,
}
NO_CODEC = MessageCodec()
"""For types without a row."""
ACTIONS: Mapping[str, ActionCodec] = control_msgs.ACTIONS

__all__ = ["ACTIONS", "CODECS", "NO_CODEC"]
