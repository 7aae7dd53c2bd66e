"""Monitor the ROS graph: types, node names and services that keep peers from working with the bridge."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.snapshot import Snapshot

CHECK_RATE = 0.5
"""How often the graph is checked, Hz."""

_SHARE = 0.01
"""Of the time that looking may take: the middleware copies the whole graph."""
_SHOWN = 3
_CONFIRMED = 2
"""A finding counts when it is seen as often as this in a row: a node that has just ended is known for a moment."""


class GraphMonitor(Publication):
    """Report conflicts with other nodes, once each. A publication that publishes nothing: it has a rate."""

    def __init__(self, plan: Callable[[], BridgePlan], domains: Domains, *, report: Report) -> None:
        """Store the arguments.

        Args:
            plan: Return the plan in use.
            domains: Where its interfaces are.
            report: For conflicts.
        """
        super().__init__()
        self._plan = plan
        self._domains = domains
        self._report = report
        self._not_before: dict[int, float] = {}
        self._seen: dict[str, int] = {}

    def publish(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 - Publication
        """Schedule a look at the graph of each domain, outside of the tick."""
        now = time.monotonic()
        for domain in self._domains.opened:
            if now >= self._not_before.get(domain.domain_id, 0.0):
                # Until the look is over.
                self._not_before[domain.domain_id] = float("inf")
                domain.defer(partial(self._check, domain), urgent=False)
        return False

    def _check(self, domain: Domain) -> None:
        began = time.monotonic()
        found: dict[str, str] = {}
        try:
            for look in (self._find_node_name, self._find_services, self._find_types):
                look(domain, found.__setitem__)
        finally:
            now = time.monotonic()
            # Of wall time: bridge time may pass as fast as possible.
            self._not_before[domain.domain_id] = now + max(1.0 / CHECK_RATE, (now - began) / _SHARE)
        suffix = f"@{domain.domain_id}"
        for key in [
            key for key in self._seen if key.endswith(suffix) and key.removesuffix(suffix) not in found
        ]:
            del self._seen[key]
        for kind, message in found.items():
            key = kind + suffix
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] == _CONFIRMED:
                self._report(kind, message)

    def _find_node_name(self, domain: Domain, report: Report) -> None:
        node = domain.node
        own = node.get_name(), node.get_namespace()
        if node.get_node_names_and_namespaces().count(own) > 1:
            report(
                f"graph.node:{domain.domain_id}",
                f"another node of domain {domain.domain_id} is called {node.get_fully_qualified_name()}, too: "
                "parameters and services answer for either; give one another name (-r __node:=name, launch argument "
                "node_name)",
            )

    def _find_services(self, domain: Domain, report: Report) -> None:
        """Find services of the bridge itself, outside of its node's own names, that another node serves, too."""
        node = domain.node
        private = node.get_fully_qualified_name() + "/"
        # Those of the plan look for others by themselves.
        planned = {node.resolve_service_name(each.name) for each in self._plan().services if each.enabled}
        served = node.get_service_names_and_types_by_node(node.get_name(), node.get_namespace())
        names = [name for name, _ in served if not name.startswith(private) and name not in planned]
        shared = sorted(name for name in names if node.count_services(name) > 1)
        if shared:
            report(
                f"graph.services:{domain.domain_id}",
                f"another node of domain {domain.domain_id} serves {_listed(shared)}, too: clients receive the "
                "first answer; use another namespace or domain",
            )

    def _find_types(self, domain: Domain, report: Report) -> None:
        node, main = domain.node, self._domains.main
        own: dict[str, set[str]] = {}
        paths: dict[str, str] = {}
        for topic in self._plan().topics:
            there = main.domain_id if topic.domain_id is None else topic.domain_id
            if topic.enabled and there == domain.domain_id:
                name = node.resolve_topic_name(topic.name)
                own.setdefault(name, set()).add(topic.type)
                paths.setdefault(name, topic.path)
        for name, types in node.get_topic_names_and_types():
            foreign = sorted(set(types) - own[name]) if name in own else []
            if foreign:
                others = _node_names(node, name, foreign)
                report(
                    f"graph.type:{paths[name]}",
                    f"{paths[name]}: {name} has the type {_listed(sorted(own[name]))} here, and {_listed(foreign)} "
                    f"at {_listed(others)}: nothing passes between the two",
                )


def _node_names(node: Any, topic: str, types: list[str]) -> list[str]:
    """Return the nodes with an endpoint of one of these types on a topic."""
    infos = (*node.get_publishers_info_by_topic(topic), *node.get_subscriptions_info_by_topic(topic))
    names = {
        f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in infos if info.topic_type in types
    }
    return sorted(names) or ["another node"]


def _listed(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
