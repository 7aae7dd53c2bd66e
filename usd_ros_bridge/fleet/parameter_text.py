"""Node parameters as ROS arguments: `-p name:=value`, and what users gave in that form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.options import OPTIONS, Kind

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_BOOLS = {"true": True, "false": False}
_NOT_TEXTS = frozenset({*_BOOLS, "y", "n", "yes", "no", "on", "off", "null"})
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
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Sequence):
        # ROS 2 has no type for an empty list.
        return json.dumps(list(value) or [""], ensure_ascii=False)
    # In JSON, a float has a point or an exponent, as rcl needs it.
    return json.dumps(value)


def split_off(names: Sequence[str], ros_args: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split off the parameters with some names from ROS arguments.

    Returns:
        The texts of their values by name, without quotes, and the other arguments.

    Raises:
        OptionError: The last argument lacks its value.
    """
    found: dict[str, str] = {}
    rest: list[str] = []
    arguments = iter(ros_args)
    for argument in arguments:
        if argument not in ("-p", "--param"):
            rest.append(argument)
            continue
        given = next(arguments, None)
        if given is None:
            raise OptionError(f"{argument} needs NAME:=VALUE after it")
        target, _, text = given.partition(":=")
        name = target.rpartition(":")[2]
        if name in names:
            found[name] = text.strip().strip("'\"")
        else:
            rest += [argument, given]
    return found, rest


def values_in_files(names: Sequence[str], ros_args: Sequence[str]) -> dict[str, Any]:
    """Return parameters with some names from the parameter files among ROS arguments, of whatever node.

    A file that cannot be read has none: ROS 2 refuses it, and says why.
    """
    import yaml  # rclpy needs it, too

    found: dict[str, Any] = {}
    for flag, path in pairwise(ros_args):
        if flag != "--params-file":
            continue
        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            continue
        for parameters in _parameters_in(content):
            found |= {name: parameters[name] for name in names if name in parameters}
    return found


def _parameters_in(content: Any) -> Iterator[Mapping[str, Any]]:
    """Yield what stands below each `ros__parameters`."""
    for key, value in content.items() if isinstance(content, dict) else ():
        if key == "ros__parameters" and isinstance(value, dict):
            yield value
        else:
            yield from _parameters_in(value)


def split_off_remaps(ros_args: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split off `-r __node:=NAME` and `-r __ns:=NAMESPACE`. Return them by name, and the other arguments."""
    found: dict[str, str] = {}
    rest: list[str] = []
    arguments = iter(ros_args)
    for argument in arguments:
        given = next(arguments, None) if argument in ("-r", "--remap") else None
        name, _, value = (given or "").partition(":=")
        # Also `node:__node:=name`: all nodes of a shard have the same names otherwise.
        name = name.rpartition(":")[2]
        if name in ("__node", "__name"):
            found["__node"] = value
        elif name == "__ns":
            found["__ns"] = value
        else:
            rest += [argument] if given is None else [argument, given]
    return found, rest


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
    if fault := option.fault(value):
        raise OptionError(f"{name} {fault}")
    option.value(value)
    return value


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
_WORDS: Final[Mapping[Kind, str]] = {
    "string": "text",
    "strings": "texts, separated by commas",
    "bool": "true or false",
    "int": "a whole number",
    "double": "a number",
}
