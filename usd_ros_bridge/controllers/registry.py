"""Registry of controllers: the group class of each schema."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from usd_ros_bridge.controllers.base import ControllerContext, ControllerGroup, GroupFactory
from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS
from usd_ros_bridge.model.plan import ControllerPlan

_HERE = "usd_ros_bridge.controllers"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeGroup:
    """A group and what it is a group of.

    Attributes:
        schema: ControllerPlan.schema that all have.
        plans: The controllers; a `row` of the group is an index here.
        group: The group.
    """

    schema: str
    plans: tuple[ControllerPlan, ...]
    group: ControllerGroup


def make_groups(context: ControllerContext) -> list[MadeGroup]:
    """Make one group of each schema among the plan's controllers, in the order of their first controllers.

    Controllers of a schema that nothing here serves are reported and left out.
    """
    by_schema: dict[str, list[ControllerPlan]] = {}
    for plan in context.plan.controllers:
        by_schema.setdefault(plan.schema, []).append(plan)
    made = []
    for schema, plans in by_schema.items():
        if schema not in CONTROLLER_SCHEMAS:
            context.report(
                f"controller.schema:{schema}",
                f"no controller here serves the schema {quoted(schema)} of {plans[0].path}",
            )
            continue
        group = load_factory(schema)(context, plans)
        made.append(MadeGroup(schema=schema, plans=tuple(plans), group=group))
    return made


def load_factory(schema: str) -> GroupFactory:
    """Return the factory of a schema's groups; KeyError where there is none."""
    module, _, name = CONTROLLER_SCHEMAS[schema].group.partition(":")
    factory: GroupFactory = getattr(import_module(f"{_HERE}.{module}"), name)
    return factory
