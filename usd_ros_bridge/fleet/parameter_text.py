"""Values of node parameters as texts: in ROS arguments, `-p name:=value`, and in launch arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.options import OPTIONS, Kind

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_CONTROL = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]")
_BOOLS = {"true": True, "false": False}
_NOT_TEXTS = frozenset({*_BOOLS, "y", "n", "yes", "no", "on", "off", "null", "nan", "inf", "infinity"})
"""Plain YAML that may be read as something else than a text."""


def parameter_arguments(parameters: Mapping[str, Any]) -> list[str]:
    """Return ROS arguments that set parameters, without `--ros-args`.

    Args:
        parameters: Values by name: texts, numbers, bools, and sequences of texts.
    """
    return [part for name, value in parameters.items() for part in ("-p", f"{name}:={value_text(value)}")]


def value_text(value: Any) -> str:
    """Return a value as rcl reads it in `-p name:=value`."""
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _NOT_TEXTS
        return value if is_plain else _quoted(value)
    if isinstance(value, Sequence):
        # ROS 2 has no type for an empty list.
        return f"[{', '.join(map(_quoted, list(value) or ['']))}]"
    # In JSON, a float has a point or an exponent, as rcl needs it.
    return json.dumps(value)


def _quoted(text: str) -> str:
    """Return a text in quotes, as YAML reads it: control characters of Unicode are escaped, too."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def has_type(name: str, value: Any) -> bool:
    """Return whether a value that was read from YAML has the type of an option of the table."""
    option = OPTIONS[name]
    if isinstance(value, bool):
        return option.kind == "bool" or option.takes_bool
    if option.kind == "strings":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return isinstance(value, _CLASSES[option.kind])


def typed_value(name: str, text: str) -> Any:
    """Return the value of an option of the table from the text of a launch argument or of a ROS argument.

    Raises:
        OptionError: It has another type, or is not possible.
    """
    option = OPTIONS[name]
    try:
        value = _TYPES[option.kind](text.strip())
    except (ValueError, KeyError) as error:
        kind = _WORDS[option.kind]
        raise OptionError(f"{name} {quoted(text)} is not possible: it takes {kind}") from error
    check_value(name, value)
    return value


def check_value(name: str, value: Any) -> None:
    """Check the value of an option of the table, which has the right type.

    Raises:
        OptionError: It is not possible.
    """
    option = OPTIONS[name]
    if fault := option.fault(value):
        raise OptionError(f"{name} {fault}")
    option.value(value)


def _texts(text: str) -> list[str]:
    """Return texts that are separated by commas, or the elements of a YAML list."""
    if text.startswith("[") and text.endswith("]") and text[1:2] in ("'", '"'):
        import yaml

        try:
            return [str(each) for each in yaml.safe_load(text)]
        except yaml.YAMLError as error:
            raise ValueError(text) from error
    return [each.strip() for each in text.split(",")]


_TYPES: Final[Mapping[Kind, Callable[[str], Any]]] = {
    "string": str,
    "strings": _texts,
    "bool": lambda text: _BOOLS[text.lower()],
    "int": int,
    "double": float,
}
_CLASSES: Final[Mapping[Kind, type | tuple[type, ...]]] = {
    "string": str,
    "int": int,
    # The node takes whole numbers, too.
    "double": (int, float),
    "bool": bool,
}
_WORDS: Final[Mapping[Kind, str]] = {
    "string": "text",
    "strings": "texts, separated by commas",
    "bool": "true or false",
    "int": "a whole number",
    "double": "a number",
}
