"""Launch a fleet: several bridges of one OpenUSD asset, each with its own robots.

    ros2 launch usd_ros_bridge fleet.launch.py asset:=fleet.usda shards:=4

Shards that end start again. `usd_ros_bridge fleet` runs them without ROS 2's launch (docs/reference/fleet.md). An empty
argument leaves its parameter to the parameter file, else to the node's default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit, OnProcessIO
from launch.events import Shutdown
from launch.events.process import ProcessExited, ProcessIO
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from usd_ros_bridge.errors import OptionError, quoted
from usd_ros_bridge.fleet.fleet import FleetOptions, make_fleet
from usd_ros_bridge.fleet.parameter_text import typed_value
from usd_ros_bridge.fleet.shards import OWN, FleetShard
from usd_ros_bridge.options import OPTIONS
from usd_ros_bridge.process_settings import EXIT_STRICT, EXIT_USAGE, STATUS_PREFIX

PACKAGE = "usd_ros_bridge"
RESPAWN_DELAY_S = 1.0
STATUS = "fleet status: "
"""Beginning of the lines by which a shard says that it is ready, or has finished."""

# The node parameters that have a launch argument of the same name.
PARAMETERS = [name for name, row in OPTIONS.items() if row.launch and name not in (*OWN, "asset")]

# Arguments of the fleet that have a default, and what they mean.
ARGUMENTS = {
    "namespace": "Namespace of all nodes: the outermost segment of every relative name of the asset.",
    "node_name": "Beginning of the names of the nodes: NAME_1, NAME_2 and so on.",
    "params_file": "A ROS 2 parameter file for all shards. Arguments that are not empty have precedence.",
    "log_level": "Log level of the nodes: debug, info, warn, error or fatal; or LOGGER:=LEVEL.",
}
DEFAULTS = {"node_name": PACKAGE, "log_level": "info"}


def given(context: LaunchContext, name: str) -> str:
    """Return the text of a launch argument, without spaces around it."""
    return str(LaunchConfiguration(name).perform(context)).strip()


def fleet_options(context: LaunchContext) -> FleetOptions:
    """Return what the launch arguments say.

    Raises:
        OptionError: One of them is not possible; the message names it.
    """
    texts = {name: given(context, name) for name in PARAMETERS}
    params_file, shards = given(context, "params_file"), given(context, "shards")
    if not shards.isdecimal():
        raise OptionError(f"shards {quoted(shards)} is not possible: it takes a whole number")
    return FleetOptions(
        asset=given(context, "asset"),
        shards=int(shards),
        node_name=given(context, "node_name"),
        namespace=given(context, "namespace"),
        parameters={name: typed_value(name, text) for name, text in texts.items() if text},
        ros_args=[
            *(["--params-file", params_file] if params_file else []),
            *("--log-level", given(context, "log_level")),
        ],
    )


class ShardEvents:
    """What the shards print and how they end: a line when all are ready, and the end of the fleet where it is due."""

    def __init__(self, shards: Sequence[FleetShard], *, ends_by_itself: bool) -> None:
        """Know nothing of a shard yet.

        Args:
            shards: All shards of the fleet.
            ends_by_itself: Shards end after the same time.
        """
        self._count = len(shards)
        self._ends_by_itself = ends_by_itself
        self._robots: dict[int, int] = {}
        self._was_ready: set[int] = set()

    def on_output(self, shard: FleetShard, event: ProcessIO) -> list[LaunchDescriptionEntity] | None:
        """Handle what a shard prints on standard output."""
        found: list[LaunchDescriptionEntity] = []
        for line in event.text.decode(errors="replace").splitlines():
            if line.startswith(STATUS):
                found += self._status(shard, json.loads(line[len(STATUS) :]))
        return found or None

    def _status(self, shard: FleetShard, status: Mapping[str, Any]) -> Iterable[LaunchDescriptionEntity]:
        if status["state"] == "finished":
            if not self._ends_by_itself:
                yield EmitEvent(event=Shutdown(reason=f"shard {shard.number} has finished"))
            return
        self._robots[shard.number] = status["robots"]
        self._was_ready.add(shard.number)
        if len(self._robots) == self._count:
            yield LogInfo(msg=f"fleet: {self._count} shards ready, {sum(self._robots.values())} robots")

    def on_exit(self, shard: FleetShard, event: ProcessExited) -> list[LaunchDescriptionEntity] | None:
        """Handle the end of a shard: one that refuses what it is asked for would do so again."""
        self._robots.pop(shard.number, None)
        given = shard.parameters
        refuses = given.get("strict") or given.get("degraded") == "error"
        statuses = {EXIT_USAGE, EXIT_STRICT} if refuses else {EXIT_USAGE}
        if shard.number in self._was_ready or event.returncode not in statuses:
            return None
        return [EmitEvent(event=Shutdown(reason=f"shard {shard.number} refuses what it is asked for"))]


def fleet_actions(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Return the nodes of the shards.

    Raises:
        BridgeError: The fleet is not possible, in one line.
    """
    shards = make_fleet(fleet_options(context))
    ends_by_itself = any(shard.parameters.get("duration") for shard in shards)
    events = ShardEvents(shards, ends_by_itself=ends_by_itself)
    actions: list[LaunchDescriptionEntity] = []
    for shard in shards:
        node = Node(
            package=PACKAGE,
            executable="bridge",
            arguments=["--ros-args", *shard.ros_args],
            name=shard.node_name,
            namespace=shard.namespace,
            parameters=[dict(shard.parameters)],
            additional_env={STATUS_PREFIX: STATUS},
            respawn=not ends_by_itself,
            respawn_delay=RESPAWN_DELAY_S,
            output="both",
        )
        on_output = OnProcessIO(
            target_action=node, on_stdout=lambda event, shard=shard: events.on_output(shard, event)
        )
        on_exit = OnProcessExit(
            target_action=node, on_exit=lambda event, _context, shard=shard: events.on_exit(shard, event)
        )
        actions += [RegisterEventHandler(on_output), RegisterEventHandler(on_exit), node]
    return actions


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments, and start the fleet."""
    own = [
        DeclareLaunchArgument(name, default_value=DEFAULTS.get(name, ""), description=text)
        for name, text in ARGUMENTS.items()
    ]
    of_bridge = [
        DeclareLaunchArgument(
            name,
            default_value="",
            choices=["", *OPTIONS[name].choices] if OPTIONS[name].choices else None,
            description=f"{OPTIONS[name].help} Empty: as in params_file.",
        )
        for name in PARAMETERS
    ]
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "asset",
                description="The OpenUSD asset: a path (relative to the current directory) or "
                "package://NAME/PATH. Required.",
            ),
            DeclareLaunchArgument("shards", description="Number of bridges. Required."),
            *own,
            *of_bridge,
            OpaqueFunction(function=fleet_actions),
        ]
    )
