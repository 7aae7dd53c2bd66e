"""Messages from values that people write in YAML: `{linear: {x: 1e-3}, header: auto}`."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from usd_ros_bridge.ros.interface_types import element_class, is_message, make_message

HEADER = "std_msgs.msg._header.Header"
TIME = "builtin_interfaces.msg._time.Time"
AUTO, NOW = "auto", "now"
"""What stands for a header, and for a time, that are filled in when the message is sent."""

Path = tuple[str | int, ...]
_ELEMENTS: dict[str, Any] = {"float": 0.0, "double": 0.0, "octet": b"\0"}
"""A value of each element type that people write otherwise, by what the type's name has."""


class WrittenMessage:
    """A message from written values, with the times that are filled in each time it is sent.

    Attributes:
        message: The message.
    """

    def __init__(self, message_class: Any, values: Mapping[Any, Any]) -> None:
        """Make the message.

        Args:
            message_class: Class of a message, request or goal.
            values: Its fields, as a YAML parser returns them. Numbers may stand for strings, and texts for numbers
                (YAML 1.1 takes `1e-3` for a text); `auto` stands for a header, `now` for a time.

        Raises:
            BridgeError: A field does not exist, or its value does not fit.
        """
        stamps: list[Path] = []
        converted = _convert(message_class(), values, (), stamps)
        self.message = make_message(message_class, converted)
        self._setters = [_setter(self.message, path) for path in stamps]

    def stamp(self, time: Any) -> None:
        """Fill in the times that were written as `now` and `auto`.

        Args:
            time: A builtin_interfaces/Time.
        """
        for setter in self._setters:
            setter(time)


def _setter(message: Any, path: Path) -> Callable[[Any], None]:
    *parents, name = path
    for each in parents:
        message = message[each] if isinstance(each, int) else getattr(message, each)
    return partial(setattr, message, str(name))


def _convert(message: Any, values: Any, path: Path, stamps: list[Path]) -> Any:
    """Return the values as `make_message` takes them. Put the paths of times to fill in into `stamps`.

    What cannot be converted stays: `make_message` says what is wrong with it.
    """
    if not isinstance(values, Mapping):
        return values
    types = message.get_fields_and_field_types()
    converted = {}
    for name, value in values.items():
        if name not in types:
            converted[name] = value
            continue
        default = getattr(message, name)
        kind = f"{type(default).__module__}.{type(default).__name__}"
        if kind == HEADER and value == AUTO:
            stamps.append((*path, name, "stamp"))
        elif kind == TIME and value == NOW:
            stamps.append((*path, name))
        elif is_message(default):
            converted[name] = _convert(default, value, (*path, name), stamps)
        elif isinstance(default, (list, array, np.ndarray)):
            converted[name] = _convert_elements(types[name], value, (*path, name), stamps)
        else:
            converted[name] = _convert_scalar(default, value)
    return converted


def _convert_elements(type_name: str, values: Any, path: Path, stamps: list[Path]) -> Any:
    if not isinstance(values, (list, tuple)):
        return values
    if any(isinstance(each, Mapping) for each in values):
        try:
            element = element_class(type_name)
        except TypeError:
            return values
        return [_convert(element(), each, (*path, index), stamps) for index, each in enumerate(values)]
    default = next((default for word, default in _ELEMENTS.items() if word in type_name), None)
    return list(values) if default is None else [_convert_scalar(default, each) for each in values]


def _convert_scalar(default: Any, value: Any) -> Any:
    """Return a value in the type of a default where people may well write it otherwise."""
    kind = type(default)
    if type(value) is kind:
        return value
    try:
        if kind is str and value is not None and not isinstance(value, (Mapping, list)):
            return str(value)
        if kind is float and isinstance(value, (str, int)) and type(value) is not bool:
            return float(value)
        if kind is int and (isinstance(value, (str, bool)) or (type(value) is float and value.is_integer())):
            return int(value)
        if kind is bool and value in (0, 1):
            return bool(value)
        if kind is bytes and isinstance(value, int):
            return bytes([value])
        if kind is bytes and isinstance(value, str):
            return value.encode("latin-1")
    except ValueError:
        pass
    return value
