"""Messages as a few lines of text: what the page shows of types that it does not draw."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

MAX_LINES = 12
MAX_ELEMENTS = 6
MAX_CHARACTERS = 80
MAX_DEPTH = 4

_PARTS: Final = (("x", "y", "z", "w"), ("x", "y", "z"), ("r", "g", "b", "a"))
"""Fields of small messages that stand in one line."""
_STAMP: Final = ("sec", "nanosec")


def message_rows(message: Any, *, limit: int = MAX_LINES) -> list[tuple[str, str]]:
    """Return names and values of a message's fields, `header.stamp` left out.

    Args:
        message: Any ROS message.
        limit: Most rows; a last one says how many are left out.
    """
    rows: list[tuple[str, str]] = []
    left_out = 0
    for row in _rows(message, "", 0):
        if len(rows) < limit:
            rows.append(row)
        else:
            left_out += 1
            if left_out > MAX_LINES * MAX_ELEMENTS:
                break
    return [*rows, ("...", f"{left_out} more")] if left_out else rows


def _rows(message: Any, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    for name in message.get_fields_and_field_types():
        value = getattr(message, name)
        label = f"{prefix}{name}"
        if not hasattr(value, "get_fields_and_field_types"):
            yield label, value_text(value)
            continue
        parts = tuple(value.get_fields_and_field_types())
        if parts == _STAMP:
            if not prefix.endswith("header."):
                yield label, f"{value.sec + value.nanosec * 1e-9:.3f} s"
        elif parts in _PARTS:
            yield label, " ".join(value_text(getattr(value, part)) for part in parts)
        elif depth < MAX_DEPTH:
            yield from _rows(value, f"{label}.", depth + 1)


def value_text(value: Any) -> str:
    """Return a field's value: a number with up to 9 digits, a list with its first elements and its length."""
    if isinstance(value, str):
        return (
            value
            if len(value) <= MAX_CHARACTERS
            else f"{value[:MAX_CHARACTERS]}... ({len(value)} characters)"
        )
    if isinstance(value, (bytes, bytearray)):
        return value.hex(" ")
    if isinstance(value, bool) or not hasattr(value, "__len__"):
        return _number_text(value)
    if not len(value):
        return "[]"
    if hasattr(value[0], "get_fields_and_field_types"):
        return f"{len(value)} of {type(value[0]).__name__}"
    shown = ", ".join(value_text(each) for each in value[:MAX_ELEMENTS])
    return f"[{shown}]" if len(value) <= MAX_ELEMENTS else f"[{shown}, ... {len(value)}]"


def _number_text(value: Any) -> str:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{number:.9g}" if math.isfinite(number) else str(number)
