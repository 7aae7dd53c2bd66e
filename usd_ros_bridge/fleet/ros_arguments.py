"""ROS arguments of a user: the parameters and node names in them, and for which nodes they are, as in rcl."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.fleet.parameter_text import check_value, has_type, typed_value
from usd_ros_bridge.options import OPTIONS

_ALL_NODES: Final = "/**"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRule:
    """A parameter that ROS arguments set.

    Attributes:
        nodes: Full name of its node, or a pattern of full names: `/**`, `/hall/*`.
        name: Name of the parameter.
        value: Its value.
    """

    nodes: str
    name: str
    value: Any

    @property
    def is_of_one_node(self) -> bool:
        """Return whether it names its node."""
        return "*" not in self.nodes

    def applies_to(self, full_name: str) -> bool:
        """Return whether it is for the node with this name."""
        return _pattern(self.nodes).fullmatch(full_name) is not None


@lru_cache(maxsize=4096)
def _pattern(nodes: str) -> re.Pattern[str]:
    wildcards = {"**": r"(/\w+)*", "*": r"/\w+"}
    return re.compile(
        "".join(wildcards.get(each, "/" + re.escape(each)) for each in nodes.strip("/").split("/"))
    )


def rules_in_arguments(
    names: Iterable[str], ros_args: Sequence[str]
) -> tuple[list[ParameterRule], list[str]]:
    """Split off the parameters with some names: `-p name:=value` and `-p node:name:=value`.

    Returns:
        The rules, in order, and the other arguments.

    Raises:
        OptionError: The last argument lacks its value, or a value is not possible.
    """
    wanted = frozenset(names)
    found: list[ParameterRule] = []
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
        node, _, name = target.rpartition(":")
        if name in wanted:
            found.append(ParameterRule(nodes=node or _ALL_NODES, name=name, value=_value(name, text.strip())))
        else:
            rest += [argument, given]
    return found, rest


def _value(name: str, text: str) -> Any:
    """Return the value of a parameter from YAML.

    Raises:
        OptionError: It is not possible.
    """
    import yaml  # rclpy needs it, too

    try:
        value = yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        value = text
    if name not in OPTIONS:
        return value
    if not has_type(name, value):
        # Most users write no quotes: what YAML takes for something else may be meant as a text.
        return typed_value(name, text.strip("'\""))
    check_value(name, value)
    return value


def rules_in_files(names: Iterable[str], ros_args: Sequence[str]) -> list[ParameterRule]:
    """Return the parameters with some names in the parameter files among ROS arguments, in order.

    A file that cannot be read has none, and a value of another type is left out: ROS 2 or the node refuses them, and
    says why.
    """
    import yaml

    wanted = frozenset(names)
    found: list[ParameterRule] = []
    for flag, path in pairwise(ros_args):
        if flag != "--params-file":
            continue
        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            continue
        found += [
            ParameterRule(nodes=nodes, name=name, value=value)
            for nodes, parameters in _sections(content, "")
            for name, value in parameters.items()
            if name in wanted and (name not in OPTIONS or has_type(name, value))
        ]
    return found


def _sections(content: Any, nodes: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what stands below each `ros__parameters`, with its node's name. Namespaces may be keys of their own."""
    for key, value in content.items() if isinstance(content, dict) else ():
        if key == "ros__parameters" and isinstance(value, dict):
            yield nodes, value
        else:
            yield from _sections(value, f"{nodes}/{str(key).strip('/')}")


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
