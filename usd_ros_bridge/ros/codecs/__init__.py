"""Codecs: numbers to messages and back, one module per message package.

To add a message type, write a function and put a row into `ENCODERS` or `DECODERS` of the package's module (and into
`MEASURED` where a backend's sensor goes before the state); for an action that a controller follows, into `ACTIONS`.
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
from usd_ros_bridge.ros.codecs.protocol import Decoder, EncodingFactory

ENCODERS: Mapping[str, EncodingFactory] = {
    **geometry_msgs.ENCODERS,
    **nav_msgs.ENCODERS,
    **sensor_msgs.ENCODERS,
    **std_msgs.ENCODERS,
}
MEASURED: Mapping[str, EncodingFactory] = sensor_msgs.MEASURED
"""For types that a state can show, too: what makes their messages where the backend measures them."""
DECODERS: Mapping[str, Decoder] = {
    **geometry_msgs.DECODERS,
    **sensor_msgs.DECODERS,
    **std_msgs.DECODERS,
    **trajectory_msgs.DECODERS,
}
SOURCE: EncodingFactory = std_msgs.encode_source
"""For a publisher of any type that names an attribute as its source."""
ACTIONS: Mapping[str, ActionCodec] = control_msgs.ACTIONS

__all__ = ["ACTIONS", "DECODERS", "ENCODERS", "MEASURED", "SOURCE"]
