"""Messages as text: YAML and comma-separated values, in the form that rosidl_runtime_py gives them."""

from __future__ import annotations

import operator
import sys
from array import array
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from itertools import dropwhile
from typing import Any

import numpy as np
from rosidl_parser import definition


@dataclass(frozen=True, kw_only=True)
class TextLimits:
    """What of a message is shown.

    Attributes:
        truncate_length: The most elements of an array and characters of a string; None for all.
        no_arr: Show the type and length of an array in place of its elements.
        no_str: Show the length of a string in place of the string.
    """

    truncate_length: int | None = None
    no_arr: bool = False
    no_str: bool = False


ALL = TextLimits()


def message_to_yaml(message: Any, limits: TextLimits = ALL, *, flow_style: bool = False) -> str:
    """Return a message as YAML, with a line end behind it.

    Args:
        message: The message.
        limits: What of it is shown.
        flow_style: Use one line and braces.
    """
    try:
        from rosidl_runtime_py import message_to_yaml as convert
    except ImportError:
        import yaml

        text = yaml.dump(
            _mapping(message, limits),
            Dumper=_dumper(),
            allow_unicode=True,
            width=sys.maxsize,
            default_flow_style=flow_style,
        )
    else:
        text = convert(message, flow_style=flow_style, **asdict(limits))
    return str(text)


def message_to_csv(message: Any, limits: TextLimits = ALL) -> str:
    """Return the values of all fields of a message, nested ones included, separated by commas."""
    try:
        from rosidl_runtime_py import message_to_csv as convert
    except ImportError:
        return _values(message, limits)
    return str(convert(message, **asdict(limits)))


def _fields(message: Any) -> list[tuple[str, Any, Any]]:
    """Return name, type and value of each field."""
    names = message.get_fields_and_field_types()
    return [
        (name, slot_type, getattr(message, name))
        for name, slot_type in zip(names, message.SLOT_TYPES, strict=True)
    ]


# --- YAML ---------------------------------------------------------------------------------------------------------


@cache
def _dumper() -> Any:
    """Return a class that writes fields in their order. Even in flow style, the outermost are a line each."""
    import yaml

    class MessageDumper(yaml.Dumper):
        """Writes mappings as rosidl_runtime_py does."""

    def represent(dumper: Any, mapping: dict[str, Any]) -> Any:
        items = [(dumper.represent_data(name), dumper.represent_data(each)) for name, each in mapping.items()]
        return yaml.MappingNode("tag:yaml.org,2002:map", items)

    MessageDumper.add_representer(dict, represent)
    return MessageDumper


def _mapping(message: Any, limits: TextLimits) -> dict[str, Any]:
    return {name: _plain(value, limits, slot_type) for name, slot_type, value in _fields(message)}


def _plain(value: Any, limits: TextLimits, slot_type: Any = None) -> Any:
    """Return a value as YAML can show it. `slot_type` is that of a field, None for an element of an array."""
    if isinstance(value, bytes):
        return _cut(value.decode("latin-1"), limits)
    if isinstance(value, str):
        return _length(value) if limits.no_str else _cut(value, limits)
    if _is_array(value):
        if limits.no_arr and slot_type is not None:
            return _array_summary(value, slot_type)
        most = limits.truncate_length
        shown = [_plain(each, limits) for each in (value if most is None else value[:most])]
        return shown if most is None or len(value) <= most else [*shown, "..."]
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (bool, int, float)) else _mapping(value, limits)


def _cut(text: str, limits: TextLimits) -> str:
    most = limits.truncate_length
    return text if most is None or len(text) <= most else text[:most] + "..."


def _length(text: str) -> str:
    return f"<string length: <{len(text)}>>"


def _is_array(value: Any) -> bool:
    return isinstance(value, (list, tuple, array, np.ndarray))


def _array_summary(value: Any, slot_type: Any) -> str:
    """Return type and length of an array: `<sequence type: double, length: 3>`."""
    element = _type_name(slot_type.value_type)
    if isinstance(slot_type, definition.Array):
        return f"<array type: {element}[{slot_type.size}]>"
    if isinstance(slot_type, definition.BoundedSequence):
        return f"<sequence type: {element}[{slot_type.maximum_size}], length: {len(value)}>"
    return f"<sequence type: {element}, length: {len(value)}>"


def _type_name(element: Any) -> str:
    if isinstance(element, definition.BasicType):
        return str(element.typename)
    if isinstance(element, definition.AbstractString):
        return "string"
    if isinstance(element, definition.AbstractWString):
        return "wstring"
    return "/".join(element.namespaced_name())


# --- Comma-separated values ---------------------------------------------------------------------------------------


def _values(message: Any, limits: TextLimits) -> str:
    return _joined(_value(value, limits, slot_type) for _, slot_type, value in _fields(message))


def _joined(values: Iterable[str]) -> str:
    """Return values with commas between them. As of rosidl_runtime_py, empty ones in front have no comma."""
    return ",".join(dropwhile(operator.not_, values))


def _value(value: Any, limits: TextLimits, slot_type: Any = None) -> str:
    if _is_array(value):
        if limits.no_arr and slot_type is not None:
            return _array_summary(value, slot_type)
        most = limits.truncate_length
        shown = [_value(each, limits) for each in (value if most is None else value[:most])]
        return _joined(shown if most is None or len(value) <= most else [*shown, "..."])
    if isinstance(value, str):
        return _length(value) if limits.no_str else _cut(value, limits)
    if isinstance(value, bytes):
        most = limits.truncate_length
        return str(value if most is None or len(value) <= most else value[:most] + b"...")
    return str(value) if isinstance(value, (bool, int, float, np.generic)) else _values(value, limits)
