"""ROS graph of a running bridge as text, to compare it in tests."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rclpy.action import (
    get_action_client_names_and_types_by_node,
    get_action_server_names_and_types_by_node,
)

from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model.message_types import TF_MESSAGE
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.endpoints.publisher import NO_SUBSCRIBER

_MOMENTARY = {NO_SUBSCRIBER, "it is being made"}
"""Reasons of rows that last a moment, for example until a thread has made a description."""
_DIGITS = 9
_POLICIES = ("reliability", "durability", "history", "depth")


@dataclass(frozen=True, slots=True)
class Graph:
    """State of a bridge at one moment. Two bridges with the same behaviour compare equal.

    Attributes:
        lines: One for each entity and setting, sorted, with repetitions.
    """

    lines: tuple[str, ...]

    def without(self, beginnings: Sequence[str]) -> Graph:
        """Return the graph without lines that begin with one of these texts."""
        return Graph(tuple(line for line in self.lines if not line.startswith(tuple(beginnings))))

    def difference(self, wanted: Graph) -> str:
        """Return the differences from `wanted`, one a line: `+` is not wanted, `-` is missing; "" if equal."""
        have, want = Counter(self.lines), Counter(wanted.lines)
        lines = [f"+ {line}" for line in sorted((have - want).elements())]
        lines += [f"- {line}" for line in sorted((want - have).elements())]
        return "\n".join(lines)


def graph_of(bridge: Bridge) -> Graph:
    """Return the graph of an open bridge.

    It contains every entity of the bridge's nodes with name, type and QoS, the table of `status`, the static frames
    that were sent last, publications with their rates, sinks of subscriptions, controllers, parameters, and the plan.
    Momentary values are left out: counters, peers, stamps, positions, and subscriptions to transforms, which come and
    go with other publishers.

    Args:
        bridge: Open. During a change, some of the lines may be from the old plan.

    Raises:
        BridgeError: The bridge is not open.
    """
    status = bridge.status()
    lines = [
        *(_row(row) for row in status.interfaces),
        "table: " + ", ".join(f"{row.role} {row.name}" for row in status.interfaces),
        f"frames: {status.moving_frames} moving, {status.static_frames} static",
        f"backend: {status.backend}",
        *_entities(bridge),
        *_static_frames(bridge),
        *_runtime(bridge),
        *_parameters(bridge.node),
        *_plan(bridge),
    ]
    return Graph(tuple(sorted(lines)))


def settled_difference(
    bridge: Bridge, wanted: Graph, *, step: Callable[[], object] | None = None, timeout_s: float = 20.0
) -> str:
    """Wait until the graph of a bridge is as wanted. Entities disappear when their executor has released them.

    Args:
        bridge: Open.
        wanted: The graph that it should have.
        step: Step the bridge, if it has no thread that does.
        timeout_s: Seconds to wait.

    Returns:
        The remaining difference, "" for none.
    """
    deadline = time.monotonic() + timeout_s
    while (difference := graph_of(bridge).difference(wanted)) and time.monotonic() < deadline:
        if step is not None:
            step()
        time.sleep(0.01)
    return difference


def _row(row: InterfaceStatus) -> str:
    state = "open" if row.state in {"active", "idle"} else row.state
    reason = "" if row.reason in _MOMENTARY else row.reason
    rate = "" if row.authored_rate is None else f" at {row.authored_rate:g} Hz"
    return (
        f"row: {row.kind} {row.role} {row.name} [{row.type}] of {row.path or 'the bridge'}{rate}: {state}"
        f"{reason and f' ({reason})'}{row.served_by and f', served by {row.served_by}'}"
    )


def _entities(bridge: Bridge) -> Iterator[str]:
    """Yield the entities of rclpy's own lists."""
    domains = bridge.parts.domains
    for domain in domains.opened:
        node = domain.node
        where = "" if domain is domains.main else f" in domain {domain.domain_id}"
        for each in node.publishers:
            yield f"publisher {each.topic_name} [{type_name(each.msg_type)}] {_quality(each.qos_profile)}{where}"
        for each in node.subscriptions:
            if type_name(each.msg_type) != TF_MESSAGE:
                yield f"subscription {each.topic_name} [{type_name(each.msg_type)}] {_quality(each.qos_profile)}{where}"
        for each in node.services:
            yield f"server {each.srv_name} [{type_name(each.srv_type)}]{where}"
        for each in node.clients:
            yield f"client {each.srv_name} [{type_name(each.srv_type)}]{where}"
        yield from _actions(node, where)
        others = Counter(type(each).__name__ for each in (*node.waitables, *node.timers, *node.guards))
        for kind, count in others.items():
            # Every subscription has event handlers, also those to transforms.
            if kind != "EventHandler":
                yield f"{count} x {kind}{where}"


def _actions(node: Any, where: str) -> Iterator[str]:
    """Yield actions by name, from the middleware: rclpy's objects have no names."""
    named = (node, node.get_name(), node.get_namespace())
    for role, find in (
        ("server", get_action_server_names_and_types_by_node),
        ("client", get_action_client_names_and_types_by_node),
    ):
        for name, types in find(*named):
            yield f"action {role} {name} [{', '.join(types)}]{where}"


def type_name(interface: Any) -> str:
    """Return the name of an interface's class (`sensor_msgs/msg/Image`)."""
    package, kind = interface.__module__.split(".")[:2]
    return f"{package}/{kind}/{interface.__name__}"


def _quality(profile: Any) -> str:
    values = (getattr(profile, policy) for policy in _POLICIES)
    return " ".join(str(getattr(value, "name", value)).lower() for value in values)


def _static_frames(bridge: Bridge) -> Iterator[str]:
    """Yield the frames that late joiners get, topic by topic."""
    main = bridge.node.context.get_domain_id()
    for (domain_id, name), sent in bridge.parts.transforms.latched().items():
        where = "" if domain_id == main else f" in domain {domain_id}"
        for each in sent:
            yield f"static frame on {name}{where}: {transform_line(each)}"


def transform_line(transform: Any) -> str:
    """Return a TransformStamped without its stamp, to nine digits, the quaternion's sign made unique."""
    place, turn = transform.transform.translation, transform.transform.rotation
    quaternion = (turn.x, turn.y, turn.z, turn.w)
    sign = next((1.0 if value > 0.0 else -1.0 for value in reversed(quaternion) if abs(value) > 1e-9), 1.0)
    numbers = [place.x, place.y, place.z, *(sign * value for value in quaternion)]
    values = " ".join(f"{round(value, _DIGITS) + 0.0:g}" for value in numbers)
    return f"{transform.header.frame_id} -> {transform.child_frame_id} {values}"


def _runtime(bridge: Bridge) -> Iterator[str]:
    counters = bridge.parts.runtime.status()
    for publication in counters.publications:
        rate = "every tick" if publication.rate is None else f"{publication.rate:g} Hz"
        yield f"publication {publication.name}: {rate}"
    for sink in counters.sinks:
        yield f"sink {sink.name}{sink.reason and f' ({sink.reason})'}"
    for each in bridge.controllers():
        state = "active" if each.active else f"not active ({each.reason})"
        yield f"controller {each.path} [{each.schema}] of {', '.join(each.joints) or 'no joint'}: {state}"
    for index, frames in enumerate(bridge.parts.runtime.frames.robots):
        ids = [each.id for each in bridge.plan.robots[index].frames]
        moving, static = ([ids[row] for row in rows] for rows in (frames.moving, frames.static))
        yield f"robot {bridge.plan.robots[index].path}: moving {', '.join(moving)}; static {', '.join(static)}"


def _parameters(node: Any) -> Iterator[str]:
    for name in node.list_parameters([], 0).names:
        yield f"parameter {name} = {node.get_parameter(name).value!r}"


def _plan(bridge: Bridge) -> Iterator[str]:
    made = plan_to_json(bridge.plan)
    for key, value in made.items():
        elements: Iterable[Any] = value if isinstance(value, list) else [value]
        for element in elements:
            yield f"plan {key}: {json.dumps(element, sort_keys=True)}"
