"""Controller groups: from a plan to its groups."""

from __future__ import annotations

from dataclasses import replace

from builders.plans import gripper, rest_of
from case_tables import each_case
from usd_ros_bridge.controllers.controller_group import ControllerContext, load_factory, make_groups
from usd_ros_bridge.model.controller_schemas import CONTROLLER_SCHEMAS
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import Commands, State

BROADCASTER = "RosControlJointStateBroadcasterAPI"


def context(plan: BridgePlan, reports: list[str] | None = None) -> ControllerContext:
    kinds = reports if reports is not None else []
    return ControllerContext(plan=plan, report=lambda kind, _message: kinds.append(kind))


def faulty(schema: str) -> ControllerPlan:
    return ControllerPlan(
        path="/gripper/faulty", schema=schema, enabled=False, switchable=False, reason="a fault"
    )


@each_case("schema", sorted(CONTROLLER_SCHEMAS))
def test_every_schema_makes_a_group_even_of_a_plan_with_a_fault(schema: str) -> None:
    plan = replace(gripper().build(), controllers=(faulty(schema),))
    (made,) = make_groups(context(plan))
    assert made.schema == schema
    state: State = rest_of(plan)
    commands = Commands(plan.layout)
    made.group.command(1, state, commands)
    made.group.observe(state)
    made.group.reset()
    made.group.command(2, state, commands)
    assert made.group.dynamic is not None
    assert not made.group.busy


def test_controllers_of_one_schema_are_one_group_in_the_order_of_the_plan() -> None:
    plans = tuple(ControllerPlan(path=f"/c{i}", schema=BROADCASTER) for i in range(3))
    (made,) = make_groups(context(replace(gripper().build(), controllers=plans)))
    assert made.plans == plans
    assert isinstance(made.group, type(load_factory(BROADCASTER)(context(gripper().build()), ())))


def test_a_schema_that_nothing_serves_is_reported() -> None:
    reports: list[str] = []
    plan = replace(gripper().build(), controllers=(faulty("SomeOtherAPI"),))
    assert make_groups(context(plan, reports)) == []
    assert reports == ["controller.schema:SomeOtherAPI"]
