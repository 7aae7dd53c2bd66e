"""Wait from another process until a bridge is ready: for its plan, its interfaces and their messages."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from rclpy.action import get_action_names_and_types
from std_msgs.msg import String

from usd_ros_bridge.errors import BridgeError, alternatives
from usd_ros_bridge.export.plan_json import SUMMARY_VERSION
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.interface_types import AmentCatalog, import_interface
from usd_ros_bridge.testing.ros_observer import RosObserver

_DEFAULT_QOS = QosPlan()
_LATCHED = QosPlan(durability="transient_local", depth=1)
_SPIN_S = 0.05
_SHOWN = 5


class NotReadyError(BridgeError):
    """The bridge is not ready in time. The text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedInterface:
    """An interface that a bridge serves, as ~/plan has it.

    Attributes:
        kind: `topic`, `service` or `action`.
        role: `publisher`, `subscription` or `server`.
        path: Prim path.
        name: Absolute name after remaps.
        type: Interface type (`sensor_msgs/msg/Image`).
        domain_id: Its domain; None for that of the bridge.
        qos: Quality of service of a topic.
    """

    kind: str
    role: str
    path: str
    name: str
    type: str
    domain_id: int | None = None
    qos: QosPlan = _DEFAULT_QOS

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


def served_interfaces(
    summary: Mapping[str, Any], *, only: Collection[str] | None = None
) -> tuple[ServedInterface, ...]:
    """Return the interfaces of a message on ~/plan that other nodes can find: no clients, nothing that is disabled.

    Args:
        summary: The message, read as JSON.
        only: Names or prim paths of those that are wanted; None: all.

    Raises:
        BridgeError: One of `only` is not there, or is disabled, or the message is of a later version.
    """
    if summary.get("version") != SUMMARY_VERSION:
        raise BridgeError(f"the plan has version {summary.get('version')}, not {SUMMARY_VERSION}")
    rows = [
        ServedInterface(
            kind=kind,
            role=each["role"],
            path=each["path"],
            name=each.get("remapped", each["name"]),
            type=each["type"],
            domain_id=each.get("domain_id"),
            qos=QosPlan(**each.get("qos", {})),
        )
        for kind in ("topic", "service", "action")
        for each in summary[f"{kind}s"]
        if "disabled" not in each and each["role"] != "client"
    ]
    if only is None:
        return tuple(rows)
    known = {name for row in rows for name in (row.name, row.path)}
    reasons = {
        name: each["disabled"]
        for kind in ("topics", "services", "actions")
        for each in summary[kind]
        if "disabled" in each
        for name in (each["name"], each["path"])
    }
    for name in only:
        if name in known:
            continue
        if name in reasons:
            raise BridgeError(f"{name} is disabled: {reasons[name]}")
        raise BridgeError(f"the bridge serves no {name}; {alternatives(name, (row.name for row in rows))}")
    return tuple(row for row in rows if row.name in only or row.path in only)


class ReadinessObserver:
    """Nodes that look at a bridge from outside, each in a context of its own. Use it as a context manager.

    One thread uses it; `stop` may be called from any other.
    """

    def __init__(self, *, timeout: float, domain_id: int | None = None) -> None:
        """Store the arguments.

        Args:
            timeout: Seconds from the opening until waiting fails.
            domain_id: Domain of the bridge; None: that of the process (ROS_DOMAIN_ID).
        """
        self._timeout = timeout
        self._domain_id = domain_id
        self._deadline = 0.0
        self._stopped = threading.Event()
        self._resources = ExitStack()
        self._observers: dict[int | None, RosObserver] = {}

    def __enter__(self) -> ReadinessObserver:
        self._deadline = time.monotonic() + self._timeout
        return self

    def __exit__(self, *exception: object) -> None:
        self._observers.clear()
        self._resources.close()

    def stop(self) -> None:
        """End waiting soon, with NotReadyError. From any thread."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped.is_set()

    def wait_for_plan(self, node_name: str) -> dict[str, Any]:
        """Return the newest message on ~/plan of a bridge, read as JSON.

        Args:
            node_name: Name of the bridge's node with its namespace.

        Raises:
            NotReadyError: There is none in time.
        """
        topic = f"/{node_name.strip('/')}/plan"
        node = self._observer(None).node
        texts: list[str] = []
        subscription = node.create_subscription(
            String, topic, lambda message: texts.append(message.data), qos_profiles.profile(_LATCHED)
        )
        try:
            self._wait(lambda: [] if texts else [f"no message on {topic}"])
        finally:
            node.destroy_subscription(subscription)
        return dict(json.loads(texts[-1]))

    def wait_for_interfaces(self, interfaces: Iterable[ServedInterface]) -> None:
        """Wait until all interfaces are in the graph, with their types.

        Raises:
            NotReadyError: Some are not, in time.
        """
        rows = tuple(interfaces)
        self._wait(lambda: [f"no {row} [{row.type}]" for row in rows if not self._exists(row)])

    def wait_for_messages(self, interfaces: Iterable[ServedInterface]) -> None:
        """Wait until each publisher among these has sent a message that its own QoS lets through.

        Raises:
            NotReadyError: Some have not, in time.
            BridgeError: A type is not installed.
        """
        rows = [row for row in interfaces if row.kind == "topic" and row.role == "publisher"]
        silent = dict.fromkeys(rows)
        with ExitStack() as stack:
            for row in rows:
                node = self._observer(row.domain_id).node
                # The plan's QoS is what the publisher offers: it meets best-effort sensors, and latched ones.
                subscription = node.create_subscription(
                    import_interface(row.type, AmentCatalog()),
                    row.name,
                    lambda _, row=row: silent.pop(row, None),
                    qos_profiles.profile(row.qos),
                )
                stack.callback(node.destroy_subscription, subscription)
            self._wait(lambda: [f"no message on {row.name}" for row in silent])

    def _wait(self, faults: Callable[[], list[str]]) -> None:
        """Run callbacks until there is no fault."""
        while missing := faults():
            if self.is_stopped:
                raise NotReadyError("the wait was stopped")
            if time.monotonic() > self._deadline:
                more = f", and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
                raise NotReadyError(
                    f"not ready within {self._timeout:g} s: {', '.join(missing[:_SHOWN])}{more}"
                )
            for observer in tuple(self._observers.values()):
                observer.spin_once(_SPIN_S)

    def _exists(self, row: ServedInterface) -> bool:
        node = self._observer(row.domain_id).node
        if row.kind == "topic":
            find = (
                node.get_publishers_info_by_topic
                if row.role == "publisher"
                else node.get_subscriptions_info_by_topic
            )
            return any(each.topic_type == row.type for each in find(row.name))
        named = (
            node.get_service_names_and_types() if row.kind == "service" else get_action_names_and_types(node)
        )
        return row.type in _types(named, row.name)

    def _observer(self, domain_id: int | None) -> RosObserver:
        """Return what observes a domain."""
        wanted = self._domain_id if domain_id is None else domain_id
        if wanted not in self._observers:
            observer = RosObserver(domain_id=wanted, name="wait_for_bridge", spinning=False)
            self._resources.callback(observer.close)
            self._observers[wanted] = observer
        return self._observers[wanted]


def _types(named: Iterable[tuple[str, list[str]]], wanted: str) -> Iterator[str]:
    for name, types in named:
        if name == wanted:
            yield from types
