"""Compare open interfaces with a plan: which stay open, which close, which open."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from usd_ros_bridge.model.plan import BridgePlan, InterfaceKind, InterfacePlan, TopicPlan
from usd_ros_bridge.ros.endpoints.factory import InterfaceRow, list_interfaces


@dataclass(slots=True, kw_only=True, eq=False)
class Reconciliation:
    """Interfaces on their way from one plan to the next.

    Attributes:
        plan: Plan to come.
        rows: Rows of its interfaces, in its order; None for one that is still to be opened.
        kept: Pairs of rows, old and new, whose endpoint stays open.
        dropped: Rows whose endpoints close.
        encoders: New encoder of kept publishers that need one; or None, and the reason.
    """

    plan: BridgePlan
    rows: list[InterfaceRow | None] = field(default_factory=list)
    kept: list[tuple[InterfaceRow, InterfaceRow]] = field(default_factory=list)
    dropped: list[InterfaceRow] = field(default_factory=list)
    encoders: dict[Any, tuple[Any, str]] = field(default_factory=dict)

    def reopen(self, old: InterfaceRow, new: InterfaceRow) -> None:
        """Close a kept endpoint after all, and open another one in its place."""
        self.kept.remove((old, new))
        self.dropped.append(old)
        self.rows[self.rows.index(new)] = None

    @property
    def added(self) -> list[InterfaceRow]:
        """Rows that were made for this plan so far."""
        kept = {id(row) for _, row in self.kept}
        return [row for row in self.rows if row is not None and id(row) not in kept]

    def opened(self) -> tuple[str, ...]:
        """Return the interfaces that opened, as `publisher /rover/scan`; complete at the end of the change."""
        return tuple(_describe(row) for row in self.added if row.is_open)

    def closed(self) -> tuple[str, ...]:
        """Return the interfaces that close, likewise."""
        return tuple(_describe(row) for row in self.dropped)


def reconcile(rows: list[InterfaceRow], plan: BridgePlan) -> Reconciliation:
    """Compare open interfaces with a plan to come.

    An endpoint stays open if prim, role, name, type, domain and quality of service are the same: its peers notice
    nothing.
    """
    result = Reconciliation(plan=plan)
    live = {_key(row.plan, row.kind): row for row in rows if row.is_open}
    for new, kind in list_interfaces(plan):
        if not new.enabled:
            result.rows.append(InterfaceRow(new, kind, new.reason or "disabled"))
            continue
        old = live.pop(_key(new, kind), None)
        if old is None:
            result.rows.append(None)
            continue
        row = InterfaceRow(new, kind, old.endpoint)
        result.rows.append(row)
        result.kept.append((old, row))
    result.dropped = list(live.values())
    return result


def _describe(row: InterfaceRow) -> str:
    role = row.plan.role if row.kind == "topic" else f"{row.kind} {row.plan.role}"
    return f"{role} {row.plan.name}"


def _key(plan: InterfacePlan, kind: InterfaceKind) -> Hashable:
    quality = plan.qos if isinstance(plan, TopicPlan) else None
    return kind, plan.path, plan.role, plan.name, plan.type, plan.domain_id, quality
