"""Fields of messages from JSON. The text comes from a network: every value is checked against its field's type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from usd_ros_bridge.errors import BridgeError, alternatives, quoted
from usd_ros_bridge.ros.interface_types import AmentCatalog, import_interface

_LONGEST = 32
"""Levels of messages in messages; ROS 2's own types have six."""

_SEQUENCE = re.compile(r"sequence<(?P<element>[^,]+)(?:, (?P<bound>\d+))?>")
_ARRAY = re.compile(r"(?P<element>.+)\[(?P<size>\d+)\]")
_TEXT = re.compile(r"w?string(<(?P<bound>\d+)>)?")
_INTEGERS: Final[Mapping[str, tuple[int, int]]] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "octet": (0, 255),
}
_STAMPS = frozenset({"builtin_interfaces/Time", "builtin_interfaces/Duration"})


def fields_from_json(message_class: Any, text: bytes | str) -> dict[str, Any]:
    """Return the fields of a message, for `make_message`. Fields that the text leaves out keep their defaults.

    Args:
        message_class: Class of the message.
        text: A JSON object. Null stands for a number that JSON does not have: NaN.

    Raises:
        BridgeError: It is no JSON object, a field does not exist, or a value does not fit its type.
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BridgeError(f"it is no JSON: {error}") from None
    return _message(fields, message_class, message_class.__name__, 0)


def _message(fields: Any, message_class: Any, name: str, level: int) -> dict[str, Any]:
    if not isinstance(fields, dict):
        raise BridgeError(f"{name}: an object is needed, not {_shown(fields)}")
    if level > _LONGEST:
        raise BridgeError(f"{name}: too many levels")
    types = message_class.get_fields_and_field_types()
    checked = {}
    for key, value in fields.items():
        if key not in types:
            raise BridgeError(f"{name} has no field {quoted(key)}; {alternatives(key, types, count=20)}")
        checked[key] = _value(value, types[key], f"{name}.{key}", level)
    return checked


def _value(value: Any, kind: str, name: str, level: int) -> Any:
    """Return a value as rclpy takes it."""
    if match := _ARRAY.fullmatch(kind):
        size = int(match["size"])
        if not isinstance(value, list) or len(value) != size:
            raise BridgeError(f"{name}: a list of {size} is needed, not {_shown(value)}")
        return [_value(each, match["element"], name, level) for each in value]
    if match := _SEQUENCE.fullmatch(kind):
        if not isinstance(value, list):
            raise BridgeError(f"{name}: a list is needed, not {_shown(value)}")
        if match["bound"] and len(value) > int(match["bound"]):
            raise BridgeError(f"{name}: {len(value)} elements are more than {match['bound']}")
        return [_value(each, match["element"], name, level) for each in value]
    if "/" in kind:
        if kind in _STAMPS and isinstance(value, dict) and "nsec" in value:
            # As Foxglove has them.
            value = {"nanosec" if key == "nsec" else key: each for key, each in value.items()}
        return _message(value, _nested_class(kind), name, level + 1)
    return _plain(value, kind, name)


@cache
def _nested_class(kind: str) -> Any:
    """Return the class of a type that the definition of an installed type names."""
    package, _, name = kind.partition("/")
    return import_interface(f"{package}/msg/{name}", AmentCatalog())


def _plain(value: Any, kind: str, name: str) -> Any:
    if kind == "boolean":
        if isinstance(value, bool):
            return value
    elif kind in ("float", "double", "long double"):
        if value is None:
            return math.nan
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _float(value, name)
    elif text := _TEXT.fullmatch(kind):
        if isinstance(value, str) and len(value) <= int(text["bound"] or len(value)) and _is_text(value):
            return value
    elif kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return bytes([value]) if kind == "octet" else value
    raise BridgeError(f"{name}: {_shown(value)} is no {kind}")


def _float(value: int | float, name: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise BridgeError(f"{name}: {_shown(value)} is too large") from None


def _is_text(value: str) -> bool:
    """Return whether ROS 2 can send a text: no zero, and no half of a character."""
    try:
        return "\0" not in value and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    return quoted(value)
