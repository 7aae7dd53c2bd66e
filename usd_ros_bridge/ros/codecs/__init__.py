"""Codecs: numbers to messages and back, one module per message package.

To add a message type, write its functions and put one row into `CODECS` of the package's module; for an action that
controllers follow, into `ACTIONS`. The facts that planning needs of the type are one row in `model/message_types.py`.

Other distributions add types with entry points (`CodecPlugin`); their codecs are imported when a topic needs them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.message_types import CodecPlugin, is_own_type, plugin_fault, spell_type
from usd_ros_bridge.plugins import PluginEntry, Registry, load_entry
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


def _load(entry: PluginEntry, plugin: CodecPlugin, wanted: type[MessageCodec] | type[ActionCodec]) -> Any:
    """Import the codec of a plug-in; None if it has none."""
    if not plugin.codec:
        return None
    codec = load_entry(replace(entry, value=plugin.codec))
    if not isinstance(codec, wanted):
        raise BridgeError(f"{plugin.codec} is a {type(codec).__name__}, no {wanted.__name__}")
    return codec


def _load_either(entry: PluginEntry, plugin: CodecPlugin) -> Any:
    if "/action/" in entry.name:
        return _load(entry, plugin, ActionCodec)
    return _load(entry, plugin, MessageCodec)


def _spell_message(entry_point: str) -> str:
    return "" if ".action." in entry_point else spell_type(entry_point)


def _spell_action(entry_point: str) -> str:
    return spell_type(entry_point) if ".action." in entry_point else ""


CODECS: Final[Registry[MessageCodec]] = Registry(
    "codecs",
    "codec",
    {
        **geometry_msgs.CODECS,
        **nav_msgs.CODECS,
        **sensor_msgs.CODECS,
        **std_msgs.CODECS,
        **trajectory_msgs.CODECS,
    },
    check=plugin_fault,
    spell=_spell_message,
    known=is_own_type,
    convert=lambda entry, plugin: _load(entry, plugin, MessageCodec),
)
"""Codecs of messages by type."""
NO_CODEC: Final = MessageCodec()
"""For types without a row."""
ACTIONS: Final[Registry[ActionCodec]] = Registry(
    "codecs",
    "codec",
    control_msgs.ACTIONS,
    check=plugin_fault,
    spell=_spell_action,
    known=is_own_type,
    convert=lambda entry, plugin: _load(entry, plugin, ActionCodec),
)
"""Codecs of the actions that controllers follow, by type."""

ALL_CODECS: Final[Registry[MessageCodec | ActionCodec]] = Registry(
    "codecs",
    "codec",
    {**CODECS.loaded(), **control_msgs.ACTIONS},
    check=plugin_fault,
    spell=spell_type,
    known=is_own_type,
    convert=_load_either,
)
"""Both, for lists."""

__all__ = ["ACTIONS", "ALL_CODECS", "CODECS", "NO_CODEC"]
