"""A fleet: which bridges run, where, with which parameters and environment. Both doors start what stands here."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from usd_ros_bridge.errors import OptionError, alternatives, quoted
from usd_ros_bridge.fleet.discovery_server import (
    CLIENT_VARIABLE,
    DiscoveryServer,
    check_middleware,
    parse_discovery_server,
)
from usd_ros_bridge.fleet.machines import Machine, RemoteShell, deal, parse_machines
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

_READ_BY_FLEET: Final = (*DERIVED, *OWN, "backend", "duration", "strict")
"""Parameters on which those of the shards depend, or when the fleet ends."""
_OWN_TIME: Final = ("mujoco", "newton")
"""Backends that refuse shards."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASSED_ON = re.compile(
    r"ROS_DOMAIN_ID|ROS_DISCOVERY_SERVER|ROS_SUPER_CLIENT|ROS_AUTOMATIC_DISCOVERY_RANGE|ROS_STATIC_PEERS|ROS_LOCALHOST_ONLY"
    r"|RMW_\w+|ZENOH_\w+|FASTDDS_BUILTIN_TRANSPORTS|MUJOCO_GL|RCUTILS_\w+"
)
"""Variables that shards on other machines get from this one: how nodes find each other, and how they log. Paths are not
among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """What a user says about a fleet.

    Attributes:
        asset: The OpenUSD asset: a path or package://name/path. Other machines have it at the same path.
        shards: Number of bridges.
        machines: Machines, as `parse_machines` takes them.
        machine: Start only the shards of this machine, and use no ssh; "": all.
        discovery_server: As `parse_discovery_server` takes it.
        node_name: Beginning of the names of the nodes.
        namespace: Namespace of all nodes.
        parameters: Node parameters for all shards, by name.
        ros_args: ROS arguments for all shards (`--ros-args ...`).
        remote: How programs are started on other machines.
    """

    asset: str
    shards: int
    machines: Sequence[str] = ()
    machine: str = ""
    discovery_server: str = ""
    node_name: str = BRIDGE.node_name
    namespace: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    ros_args: Sequence[str] = ()
    remote: RemoteShell = field(default_factory=RemoteShell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A fleet, as this process starts it.

    Attributes:
        shards: Shards that this process starts.
        count: Shards of the fleet.
        discovery_server: The server that the nodes use; None: they find each other without.
        starts_server: This process starts the server.
        remote: How programs are started on other machines.
        warnings: What to show people first.
    """

    shards: tuple[FleetShard, ...]
    count: int
    discovery_server: DiscoveryServer | None = None
    starts_server: bool = False
    remote: RemoteShell = field(default_factory=RemoteShell)
    warnings: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the bridges get besides those of this process."""
        return {} if self.discovery_server is None else {CLIENT_VARIABLE: self.discovery_server.location}

    def command(self, shard: FleetShard, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the command that runs a shard.

        Args:
            shard: One of the fleet's.
            environment: Variables of its own, which another machine gets, too.
        """
        if shard.machine.is_local:
            return (*OWN_COMMAND, *shard.arguments())
        passed_on = {name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)}
        # Its terminal is not ours.
        variables = {"RCUTILS_COLORIZED_OUTPUT": "0", **passed_on, **self.environment, **environment}
        return self.remote.command_line(shard.machine.host, shard.arguments(), variables)


def make_fleet(options: FleetOptions) -> Fleet:
    """Return the fleet that a user describes.

    Raises:
        OptionError: It is not possible.
    """
    if not 1 <= options.shards <= MAX_SHARDS:
        raise OptionError(f"shards {options.shards} is not possible: 1 to {MAX_SHARDS}")
    if not options.asset:
        raise OptionError("no asset given: a path or package://NAME/PATH")
    machines = parse_machines(options.machines)
    labels_only = bool(options.machine)
    if labels_only and options.machine not in (each.host for each in machines):
        hosts = [each.host for each in machines]
        raise OptionError(
            f"machine {quoted(options.machine)} is not among machines; {alternatives(options.machine, hosts)}"
        )
    has_remote = any(not each.is_local for each in machines)
    server = parse_discovery_server(options.discovery_server, has_remote=has_remote)
    if server is not None:
        check_middleware(os.environ)
    shards = _shards(options, machines)
    # One process starts the server: the one with the first shard.
    may_start = server is not None and (not labels_only or machines[0].host == options.machine)
    return Fleet(
        shards=tuple(
            replace(each, machine=Machine()) if labels_only else each
            for each in shards
            if options.machine in ("", each.machine.host)
        ),
        count=len(shards),
        discovery_server=server,
        starts_server=may_start and server is not None and server.is_of_this_machine(),
        remote=options.remote,
        warnings=tuple(_warnings(has_remote=has_remote)),
    )


def _shards(options: FleetOptions, machines: Sequence[Machine]) -> list[FleetShard]:
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
    for number, machine in enumerate(deal(options.shards, machines), 1):
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
                count=options.shards,
                machine=machine,
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


def _warnings(*, has_remote: bool) -> list[str]:
    if not has_remote:
        return []
    name = "ROS_AUTOMATIC_DISCOVERY_RANGE"
    value = os.environ.get(name)
    if value in ("LOCALHOST", "OFF"):
        return [f"{name} is {value}: nodes of different machines do not find each other"]
    return []
