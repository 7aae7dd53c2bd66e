"""Options of backends: parse `key=value` texts; errors list the possible values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from usd_ros_bridge.errors import BackendError, choices, quoted
from usd_ros_bridge.ranges import NumberRange

T = TypeVar("T")

OptionParser = Callable[[str], object]
"""Parse an option's text; raise ValueError with the possible values."""

_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_LONGEST_COUNT = 18
_SEGMENT = r"[A-Za-z_][A-Za-z0-9_]*"
_TOPIC_NAME = re.compile(rf"/?{_SEGMENT}(/{_SEGMENT})*")


def flag(text: str) -> bool:
    """Parse a truth value."""
    value = _FLAGS.get(text.strip().lower())
    if value is None:
        raise ValueError("true or false")
    return value


def number_in(possible: NumberRange) -> OptionParser:
    """Return a parser of a number in a range."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if value not in possible:
            raise ValueError(f"a number: {possible}")
        return value

    return parse


def count_in(possible: NumberRange) -> OptionParser:
    """Return a parser of a whole number in a range."""

    def parse(text: str) -> int:
        text = text.strip()
        value = int(text) if text.isdecimal() and len(text) <= _LONGEST_COUNT else -1
        if value not in possible:
            raise ValueError(f"a whole number: {possible}")
        return value

    return parse


def topic_name(text: str) -> str:
    """Parse a topic name, relative or absolute."""
    name = text.strip()
    if not _TOPIC_NAME.fullmatch(name):
        raise ValueError("a topic name")
    return name


def parse_options(
    backend: str, options: Mapping[str, str], parsers: Mapping[str, OptionParser]
) -> dict[str, object]:
    """Parse a backend's options.

    Args:
        backend: Name of the backend, for messages.
        options: Texts by key.
        parsers: Parsers by key.

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


def option_value(values: Mapping[str, object], key: str, kind: type[T], default: T) -> T:
    """Return a parsed option, or `default`."""
    value = values.get(key, default)
    assert isinstance(value, kind)
    return value
