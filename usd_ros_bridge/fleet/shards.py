"""Shards of a fleet: the node names and parameters of each bridge."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.fleet.parameter_text import parameter_arguments

DERIVED: Final = ("record", "foxglove", "mesh_uris")
"""Parameters that no two bridges can share: files and ports."""

OWN: Final = ("shard",)
"""Parameters that the fleet sets, and nobody else."""

_MAX_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShard:
    """One bridge of a fleet.

    Attributes:
        number: From 1. The first one has the interfaces outside of all robots.
        node_name: Name of its node.
        namespace: Namespace of its node, "" for the root.
        parameters: Parameters of its node, by name.
        ros_args: Further ROS arguments, without `--ros-args`.
    """

    number: int
    node_name: str
    namespace: str
    parameters: Mapping[str, Any]
    ros_args: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """Return the arguments of the package's command line that run it."""
        parameters = dict(self.parameters)
        asset = parameters.pop("asset")
        namespace = ["-r", f"__ns:=/{self.namespace}"] if self.namespace else []
        return [
            *("run", "--no-live", asset, "--ros-args"),
            # First: the fleet's have precedence over a parameter file.
            *self.ros_args,
            *("-r", f"__node:={self.node_name}", *namespace),
            *parameter_arguments(parameters),
        ]


def full_node_name(namespace: str, node_name: str) -> str:
    """Return the name of a node with its namespace, which is "" for the root."""
    return f"{'/' + namespace if namespace else ''}/{node_name}"


def shard_parameters(
    given: Mapping[str, Any],
    number: int,
    count: int,
    *,
    own: Collection[str] = (),
) -> dict[str, Any]:
    """Return the parameters of a shard.

    Args:
        given: Those that the user gave.
        number: The shard's, from 1.
        count: Number of shards.
        own: Names of those that the user gave for this shard only.

    Raises:
        OptionError: A file or port cannot be derived.
    """
    parameters = {**given, "shard": f"{number}/{count}"}
    for name in DERIVED:
        if name in given and name not in own:
            parameters[name] = _derived(name, given[name], number)
    return parameters


def _derived(name: str, value: Any, number: int) -> Any:
    """Return the value of a shard: files get its number, ports are counted on."""
    if name == "record":
        path = PurePath(value)
        return str(path.with_name(f"{path.stem}_{number}{path.suffix}")) if path.name else value
    if name == "foxglove":
        return _port(name, value, number) if value > 0 else value
    start, colon, port = str(value).rpartition(":")
    if colon and re.fullmatch(r"[0-9]{1,5}", port) and int(port):
        return f"{start}:{_port(name, int(port), number)}"
    return value


def _port(name: str, first: int, number: int) -> int:
    port = first + number - 1
    if port > _MAX_PORT:
        raise OptionError(
            f"{name}: shard {number} would have port {port}; the highest is {_MAX_PORT}: begin lower"
        )
    return port
