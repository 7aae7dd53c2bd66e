"""What becomes of the interfaces of one plan in the next: which stay, which close, which open."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from usd_ros_bridge.model.plan import BridgePlan, InterfaceKind, InterfacePlan, TopicPlan
from usd_ros_bridge.ros.cdr import SharedMessages


@dataclass(frozen=True, slots=True)
class Row:
    """One interface of a plan, and what stands for it.

    Attributes:
        plan: The interface.
        kind: Topic, service or action.
        endpoint: Open; or why there is none.
    """

    plan: Any
    kind: InterfaceKind
    endpoint: Any


@dataclass(slots=True, kw_only=True, eq=False)
class Revision:
    """Interfaces on their way from one plan to the next.

    Attributes:
        plan: The plan to come.
        rows: What is to stand for each of its interfaces, in its order; None while that is to be made.
        kept: Interfaces whose endpoints stay, as they were and as they are to be.
        gone: What closes.
        shared: Messages that its publishers write in turn.
        encodings: What publishers that stay show from here on, and what writes it, by endpoint, where that has changed;
            None, why not, and None.
    """

    plan: BridgePlan
    shared: SharedMessages[Any]
    rows: list[Row | None] = field(default_factory=list)
    kept: list[tuple[Row, Row]] = field(default_factory=list)
    gone: list[Row] = field(default_factory=list)
    encodings: dict[Any, tuple[Any, str, Any]] = field(default_factory=dict)

    def drop(self, old: Row, new: Row) -> None:
        """Has an endpoint made anew that was to stay."""
        self.kept.remove((old, new))
        self.gone.append(old)
        self.rows[self.rows.index(new)] = None

    @property
    def fresh(self) -> list[Row]:
        """What was made for this plan, as far as it was."""
        stayed = {id(row) for _, row in self.kept}
        return [row for row in self.rows if row is not None and id(row) not in stayed]

    @property
    def opened(self) -> tuple[str, ...]:
        """What opened, as `publisher /rover/scan`; complete at the end."""
        stayed = {id(row) for _, row in self.kept}
        return tuple(
            describe(row) for row in self.rows if row is not None and _is_live(row) and id(row) not in stayed
        )

    @property
    def closed(self) -> tuple[str, ...]:
        """What closes, likewise."""
        return tuple(describe(row) for row in self.gone)


def listed(plan: BridgePlan) -> Iterator[tuple[InterfacePlan, InterfaceKind]]:
    """Yields all interfaces of a plan, in the order in which they are made."""
    for topic in plan.topics:
        yield topic, "topic"
    for service in plan.services:
        yield service, "service"
    for action in plan.actions:
        yield action, "action"


def revise(rows: list[Row], plan: BridgePlan, shared: SharedMessages[Any]) -> Revision:
    """Compares what stands with a plan to come.

    An endpoint stays where prim, role, name, type, domain and quality of service are the same: its peers notice
    nothing.
    """
    revision = Revision(plan=plan, shared=shared)
    live = {_key(row.plan, row.kind): row for row in rows if _is_live(row)}
    for new, kind in listed(plan):
        if not new.enabled:
            revision.rows.append(Row(new, kind, new.reason or "disabled"))
            continue
        old = live.pop(_key(new, kind), None)
        if old is None:
            revision.rows.append(None)
            continue
        row = Row(new, kind, old.endpoint)
        revision.rows.append(row)
        revision.kept.append((old, row))
    revision.gone = list(live.values())
    return revision


def describe(row: Row) -> str:
    """Returns an interface in two words, for people."""
    role = row.plan.role if row.kind == "topic" else f"{row.kind} {row.plan.role}"
    return f"{role} {row.plan.name}"


def _is_live(row: Row) -> bool:
    return not isinstance(row.endpoint, str)


def _key(plan: InterfacePlan, kind: InterfaceKind) -> Hashable:
    quality = plan.qos if isinstance(plan, TopicPlan) else None
    return kind, plan.path, plan.role, plan.name, plan.type, plan.domain_id, quality
