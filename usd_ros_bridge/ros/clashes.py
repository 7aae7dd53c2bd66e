"""Interfaces that one process cannot have together: a name of the middleware has one type there."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from usd_ros_bridge.model.options import TypeCatalog
from usd_ros_bridge.model.plan import InterfaceKind, InterfacePlan


def clashes(
    interfaces: Iterable[tuple[InterfacePlan, InterfaceKind]], catalog: TypeCatalog, default_id: int
) -> dict[int, str]:
    """Returns why interfaces cannot be, by their number: one before them has their name with another type.

    The first of them has it, so that it does not depend on what there was before. Publishers and subscriptions clash
    as well, clients and servers too.

    Args:
        interfaces: In the order of the plan.
        catalog: A type that is not installed takes no name.
        default_id: The domain of those that name none.
    """
    first: dict[Hashable, InterfacePlan] = {}
    reasons = {}
    for number, (plan, kind) in enumerate(interfaces):
        if not plan.enabled:
            continue
        key = kind, plan.name, default_id if plan.domain_id is None else plan.domain_id
        other = first.get(key)
        if other is None:
            if catalog.contains(plan.type):
                first[key] = plan
        elif other.type != plan.type:
            reasons[number] = f"{other.path} has the name {plan.name} with the type {other.type}"
    return reasons
