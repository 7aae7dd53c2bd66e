"""Attribute sources: which USD value types a message type can show (`rel usd_ros_bridge:source`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.records import TopicRecord

SOURCE: Final = "usd_ros_bridge:source"

_INTEGERS: Final = frozenset({"uchar", "int", "uint", "int64", "uint64"})
_NUMBERS: Final = frozenset({"half", "float", "double", "timecode"}) | _INTEGERS
_TEXTS: Final = frozenset({"string", "token", "asset"})
_COLORS: Final = frozenset(
    f"{kind}{size}{precision}"
    for kind in ("color", "float")
    for size in (3, 4)
    for precision in ("h", "f", "d", "")
) | frozenset({"double3", "double4", "half3", "half4"})
_INTEGER_ARRAYS: Final = frozenset(f"{name}[]" for name in _INTEGERS)
_NUMBER_ARRAYS: Final = frozenset(f"{name}[]" for name in _NUMBERS)
_WHOLE: Final = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")

VALUE_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "std_msgs/msg/Bool": frozenset({"bool"}),
    "std_msgs/msg/Char": _INTEGERS,
    **{f"std_msgs/msg/{name}": _INTEGERS for name in _WHOLE},
    "std_msgs/msg/Float32": _NUMBERS,
    "std_msgs/msg/Float64": _NUMBERS,
    "std_msgs/msg/String": _TEXTS,
    "std_msgs/msg/ColorRGBA": _COLORS,
    **{f"std_msgs/msg/{name}MultiArray": _INTEGER_ARRAYS for name in _WHOLE},
    "std_msgs/msg/Float32MultiArray": _NUMBER_ARRAYS,
    "std_msgs/msg/Float64MultiArray": _NUMBER_ARRAYS,
    "sensor_msgs/msg/Temperature": _NUMBERS,
    "sensor_msgs/msg/RelativeHumidity": _NUMBERS,
    "sensor_msgs/msg/Illuminance": _NUMBERS,
}
"""USD value types by the message type that shows them."""


def source_fault(record: TopicRecord, types: Mapping[str, str]) -> tuple[str, str]:
    """Returns what is wrong with the source of a publisher, and what to do; "" twice where nothing is.

    Args:
        record: The topic.
        types: USD value type by path of what topics name as sources, "" for what is no attribute.
    """
    targets = record.source or ()
    if len(targets) != 1:
        return f"the source names {len(targets)} targets, and a publisher shows one", "name one attribute"
    target, usual = targets[0], VALUE_TYPES.get(record.type or "")
    if usual is None:
        return (
            f"{quoted(record.type or '')} shows no value of an attribute",
            "use a type of std_msgs, or remove the source",
        )
    value_type = types.get(target, "")
    if not value_type:
        return f"the source {quoted(target)} is no attribute", "target an attribute: </Prim.attribute>"
    if value_type not in usual:
        return (
            f"the source {quoted(target)} is of type {quoted(value_type)}, which a {quoted(record.type)} cannot show",
            f"use one of {', '.join(sorted(usual))}",
        )
    return "", ""
