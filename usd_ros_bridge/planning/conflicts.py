"""Interfaces that are not to be: publishers that would feed the backend its own state, or all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from usd_ros_bridge.model.plan import ActionPlan, BridgePlan, ServicePlan, TopicPlan

NO_INTERFACES = "interfaces is none"


def disable_conflicts(plan: BridgePlan, inputs: Iterable[tuple[str, int | None]]) -> BridgePlan:
    """Returns the plan with those publishers disabled that resolve to a topic the backend listens to.

    Args:
        plan: The plan.
        inputs: Absolute topic name and domain id (None for the process's default) of each input of the backend.
    """
    listened = set(inputs)

    def settle(topic: TopicPlan) -> TopicPlan:
        if topic.role == "publisher" and topic.enabled and (topic.name, topic.domain_id) in listened:
            return replace(topic, enabled=False, reason=f"the backend listens to {topic.name}")
        return topic

    topics = tuple(settle(topic) for topic in plan.topics)
    silent = {topic.path for before, topic in zip(plan.topics, topics, strict=True) if topic is not before}
    controllers = tuple(
        replace(
            controller,
            enabled=False,
            reason=f"the interface {controller.interfaces[0]} is disabled",
            switchable=False,
        )
        if controller.switchable
        and controller.schema == "RosControlJointStateBroadcasterAPI"
        and silent.intersection(controller.interfaces)
        else controller
        for controller in plan.controllers
    )
    return replace(plan, topics=topics, controllers=controllers)


Interface = TypeVar("Interface", TopicPlan, ServicePlan, ActionPlan)


def without_interfaces(plan: BridgePlan) -> BridgePlan:
    """Returns the plan with everything disabled but transforms, each with a reason."""

    def disabled(interfaces: tuple[Interface, ...]) -> tuple[Interface, ...]:
        return tuple(replace(each, enabled=False, reason=each.reason or NO_INTERFACES) for each in interfaces)

    controllers = tuple(
        replace(each, enabled=False, reason=each.reason or NO_INTERFACES, switchable=False)
        for each in plan.controllers
    )
    return replace(
        plan,
        topics=disabled(plan.topics),
        services=disabled(plan.services),
        actions=disabled(plan.actions),
        controllers=controllers,
    )
