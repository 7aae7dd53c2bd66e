"""Write plain values as YAML: mappings, lists, texts, numbers and bools. PyYAML is no requirement of the bridge."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_PLAIN: Final = re.compile(r"[A-Za-z/<][A-Za-z0-9_/<>() .-]*\Z")
_PAIRS: Final = 0x10000
_RESERVED: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


def yaml_text(value: Mapping[str, Any], *, title: str = "") -> str:
    """Return a mapping as a YAML document.

    Args:
        value: Mappings with texts as keys, sequences, texts, numbers, bools and None.
        title: Comment at the top.
    """
    top = [f"# {_quoted(title)[1:-1]}"] if title else []
    return "\n".join([*top, *_mapping(value, ""), ""])


def _mapping(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, each in value.items():
        start = f"{indent}{_scalar(key)}:"
        if isinstance(each, Mapping) and each:
            yield start
            yield from _mapping(each, indent + "  ")
        elif _is_list(each) and each:
            yield start
            yield from _list(each, indent + "  ")
        else:
            yield f"{start} {_scalar(each)}"


def _list(values: Sequence[Any], indent: str) -> Iterator[str]:
    for each in values:
        if isinstance(each, Mapping) and each:
            first, *rest = _mapping(each, indent + "  ")
            yield f"{indent}- {first.strip()}"
            yield from rest
        else:
            yield f"{indent}- {_scalar(each)}"


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _scalar(value: object) -> str:
    if value is None:
        return "~"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, Mapping):
        return "{}"
    if _is_list(value):
        return "[]"
    text = str(value)
    is_plain = _PLAIN.match(text) and text == text.strip() and text.lower() not in _RESERVED
    return text if is_plain else _quoted(text)


def _quoted(text: str) -> str:
    """Return a text in quotes. JSON's are YAML's, but for characters that JSON writes as a pair of surrogates."""
    inside = (json.dumps(each)[1:-1] if ord(each) < _PAIRS else f"\\U{ord(each):08x}" for each in text)
    return f'"{"".join(inside)}"'


def _number(value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0.0 else "-.inf"
    # YAML takes 1e-05 for a text.
    text = repr(value)
    return text if "e" not in text else f"{value:.17f}".rstrip("0")
