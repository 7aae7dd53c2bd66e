"""A fleet: the bridges of one asset and their parameters, for the command and for the launch file."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.fleet.ros_arguments import (
    ParameterRule,
    rules_in_arguments,
    rules_in_files,
    split_off_remaps,
)
from usd_ros_bridge.fleet.shards import DERIVED, OWN, FleetShard, full_node_name, shard_parameters
from usd_ros_bridge.options import BRIDGE, check_shard

MAX_SHARDS: Final = 1000


def _own_command() -> tuple[str, ...]:
    """Return the package's command line, which finds the same modules as this process.

    Python's `-m` alone searches the working directory first, where a user may have a file `yaml.py`.
    """
    usual = (sys.executable, "-m", "usd_ros_bridge")
    with suppress(FileNotFoundError):
        if not {"", str(Path.cwd())}.isdisjoint(sys.path):
            return usual
    if sys.version_info >= (3, 11):
        return (sys.executable, "-P", *usual[1:])
    code = "import runpy, sys; del sys.path[0]; runpy.run_module('usd_ros_bridge', run_name='__main__', alter_sys=True)"
    return (sys.executable, "-c", code)


OWN_COMMAND: Final = _own_command()

_READ_BY_FLEET: Final = (*DERIVED, *OWN, "backend", "duration", "strict", "degraded")
"""Parameters on which those of the shards depend, or when the fleet ends."""
_OWN_TIME: Final = ("mujoco", "newton")
"""Backends that refuse shards."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """What a user says about a fleet.

    Attributes:
        asset: The OpenUSD asset: a path or package://name/path.
        shards: Number of bridges.
        node_name: Beginning of the names of the nodes.
        namespace: Namespace of all nodes.
        parameters: Node parameters for all shards, by name.
        ros_args: ROS arguments for all shards (`--ros-args ...`).
    """

    asset: str
    shards: int
    node_name: str = BRIDGE.node_name
    namespace: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    ros_args: Sequence[str] = ()


def make_fleet(options: FleetOptions) -> list[FleetShard]:
    """Return the shards of the fleet that a user describes.

    Raises:
        OptionError: It is not possible.
    """
    if not 1 <= options.shards <= MAX_SHARDS:
        raise OptionError(f"shards {options.shards} is not possible: 1 to {MAX_SHARDS}")
    if not options.asset:
        raise OptionError("no asset given: a path or package://NAME/PATH")
    return _shards(options)


def _shards(options: FleetOptions) -> list[FleetShard]:
    remaps, ros_args = split_off_remaps(_without_marks(options.ros_args))
    base_name = remaps.get("__node", options.node_name)
    if not _NAME.fullmatch(base_name):
        raise OptionError(
            f"node name {quoted(base_name)} is not possible: letters, digits and _, no digit first"
        )
    namespace = remaps.get("__ns", options.namespace).strip("/")
    node_names = [f"{base_name}_{number}" for number in range(1, options.shards + 1)]
    full_names = [full_node_name(namespace, each) for each in node_names]
    in_arguments, others = rules_in_arguments(_READ_BY_FLEET, ros_args)
    rules = _rules_for(full_names, [*rules_in_files(_READ_BY_FLEET, ros_args), *in_arguments])
    given = {**{each.name: each.value for each in rules}, **options.parameters}
    for name in OWN:
        if name in given:
            raise OptionError(f"{name} is set by the fleet, for each shard: leave it out")
    if options.shards > 1 and any(each.name == "backend" and each.is_of_one_node for each in rules):
        raise OptionError("backend is the same for all shards: set it for /**")
    of_all = {**options.parameters, "asset": _absolute(options.asset)}
    if "backend" in given:
        of_all["backend"] = given["backend"]
    if given.get("backend") in _OWN_TIME:
        # Each bridge would refuse it, after it has opened the asset.
        check_shard(f"1/{options.shards}", given["backend"])
    shards = []
    for number in range(1, options.shards + 1):
        of_shard = {each.name: each for each in rules if each.applies_to(full_names[number - 1])}
        own = {name for name, rule in of_shard.items() if rule.is_of_one_node} - set(options.parameters)
        parameters = shard_parameters(
            {**{name: rule.value for name, rule in of_shard.items()}, **of_all},
            number,
            options.shards,
            own=own,
        )
        shards.append(
            FleetShard(
                number=number,
                node_name=node_names[number - 1],
                namespace=namespace,
                parameters=parameters,
                ros_args=tuple(others),
            )
        )
    return shards


def _rules_for(full_names: Sequence[str], rules: Iterable[ParameterRule]) -> list[ParameterRule]:
    """Return the rules for nodes of the fleet, in their order: a file may have other nodes' parameters, too."""
    return [rule for rule in rules if any(map(rule.applies_to, full_names))]


def _without_marks(ros_args: Sequence[str]) -> list[str]:
    return [each for each in ros_args if each not in ("--ros-args", "--")]


def _absolute(asset: str) -> str:
    """Return the asset as processes with another working directory find it, too."""
    return asset if "://" in asset else str(Path(asset).absolute())
