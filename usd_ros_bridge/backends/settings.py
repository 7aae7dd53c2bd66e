"""Options of backends: `key=value` texts become typed values; a mistake names what is possible."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import BackendError, choices
from usd_ros_bridge.model.ranges import NumberRange

T = TypeVar("T")

Parser = Callable[[str], object]
"""Turns an option's text into a value; raises ValueError with what is possible."""

_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_LONGEST_COUNT = 18
_SEGMENT = r"[A-Za-z_][A-Za-z0-9_]*"
_TOPIC_NAME = re.compile(rf"/?{_SEGMENT}(/{_SEGMENT})*")


def flag(text: str) -> bool:
    """Returns a truth value."""
    value = _FLAGS.get(text.strip().lower())
    if value is None:
        raise ValueError("true or false")
    return value


def number_in(possible: NumberRange) -> Parser:
    """Return what reads a number in a range."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if value not in possible:
            raise ValueError(f"a number: {possible}")
        return value

    return parse


def count_in(possible: NumberRange) -> Parser:
    """Return what reads a whole number in a range."""

    def parse(text: str) -> int:
        text = text.strip()
        value = int(text) if text.isdecimal() and len(text) <= _LONGEST_COUNT else -1
        if value not in possible:
            raise ValueError(f"a whole number: {possible}")
        return value

    return parse


def topic_name(text: str) -> str:
    """Returns a topic name, relative or absolute, that ROS 2 accepts."""
    name = text.strip()
    if not _TOPIC_NAME.fullmatch(name):
        raise ValueError("a topic name")
    return name


def parse_settings(
    backend: str, options: Mapping[str, str], parsers: Mapping[str, Parser]
) -> dict[str, object]:
    """Checks a backend's options.

    Args:
        backend: Name of the backend, for messages.
        options: Texts by key.
        parsers: By every key that is possible.

    Returns:
        Values by key, of the given options only.

    Raises:
        BackendError: A key is unknown or a value not possible.
    """
    values = {}
    for key, text in options.items():
        parser = parsers.get(key)
        if parser is None:
            raise BackendError(
                f"backend {backend} has no option {quoted(key)}; its options: {choices(parsers)}"
            )
        try:
            values[key] = parser(text)
        except ValueError as error:
            raise BackendError(
                f"option {key} of backend {backend} is {quoted(text)}, but must be {error}"
            ) from None
    return values


def setting(values: Mapping[str, object], key: str, kind: type[T], default: T) -> T:
    """Returns a parsed option, or `default` where it was not given."""
    value = values.get(key, default)
    assert isinstance(value, kind)
    return value
