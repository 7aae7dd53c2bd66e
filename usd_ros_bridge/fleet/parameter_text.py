"""Node parameters as ROS arguments: `-p name:=value`, and what users gave in that form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from usd_ros_bridge.errors import OptionError, quoted

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


def as_bool(text: str, name: str) -> bool:
    """Return the value of a bool parameter.

    Raises:
        OptionError: It is none.
    """
    value = _BOOLS.get(text.lower())
    if value is None:
        raise OptionError(f"{name} {quoted(text)} is not possible: true or false")
    return value
