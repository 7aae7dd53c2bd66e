"""Conflicts: interfaces that are not opened because the bridge or the backend uses their topics."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from usd_ros_bridge.model.controller_schemas import JOINT_STATE_BROADCASTER
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.message_types import STRING, TF_MESSAGE
from usd_ros_bridge.model.plan import ActionPlan, BridgePlan, RobotPlan, ServicePlan, TopicPlan
from usd_ros_bridge.planning.names import join

NO_INTERFACES = "interfaces is none"
BRIDGES_OWN = "the bridge's own publisher serves this topic"
DESCRIPTION = "robot_description"

_TF_NAMES = frozenset({"tf", "tf_static"})


def check_offered(
    topics: Iterable[TopicPlan], robots: Sequence[RobotPlan], findings: DiagnosticCollector
) -> tuple[TopicPlan, ...]:
    """Return the topics, those disabled that would break into transforms or descriptions (REP 0158 section 2.1.1).

    An asset may declare `tf`, `tf_static` and `robot_description` of its robot: the bridge publishes them anyway.
    """
    offered = _offered_types(robots)
    return tuple(_check_offered(topic, offered, robots, findings) for topic in topics)


def _check_offered(
    topic: TopicPlan,
    offered: dict[tuple[int | None, str], str],
    robots: Sequence[RobotPlan],
    findings: DiagnosticCollector,
) -> TopicPlan:
    if topic.role != "publisher" or not topic.enabled:
        return topic
    last = topic.name.rpartition("/")[2]
    wanted = offered.get((topic.domain_id, topic.name))
    if wanted == topic.type:
        findings.info(
            "2.7.offered",
            topic.path,
            "the bridge publishes this topic itself, with its own rate and QoS; its publisher serves the declared one",
        )
        return topic
    if wanted is not None:
        reason = f"the bridge publishes {wanted} on this topic"
        findings.error("2.7.offered", topic.path, reason, "give it another name", attribute="ros:topic:name")
        return replace(topic, enabled=False, reason=reason)
    if topic.type == TF_MESSAGE and last in _TF_NAMES and topic.robot >= 0 and robots[topic.robot].tf_outputs:
        reason = "the transforms of a robot go to its own tf and tf_static alone"
        findings.error(
            "2.7.offered",
            topic.path,
            reason,
            "remove it, or declare it in the outermost context (REP 0158 section 2.1.1)",
            attribute="ros:topic:name",
        )
        return replace(topic, enabled=False, reason=reason)
    if topic.type == STRING and last == DESCRIPTION and topic.robot >= 0:
        findings.warning(
            "2.7.offered",
            topic.path,
            "the bridge describes whole robots, in their namespaces; this publisher is silent unless a source is bound",
            "declare it in the outermost context",
            attribute="ros:topic:name",
        )
    return topic


def leave_offered(plan: BridgePlan, *, describes: bool, sourced: Container[str]) -> BridgePlan:
    """Return the plan with those publishers disabled whose topics the bridge publishes itself.

    Args:
        plan: The plan.
        describes: Whether the bridge publishes descriptions.
        sourced: Prim paths of publishers that a source is bound to: their descriptions take the place of the bridge's.
    """
    offered = _offered_types(plan.robots)

    def is_offered(topic: TopicPlan) -> bool:
        if topic.role != "publisher" or offered.get((topic.domain_id, topic.name)) != topic.type:
            return False
        return topic.type == TF_MESSAGE or (describes and topic.path not in sourced)

    return replace(
        plan,
        topics=tuple(
            replace(topic, enabled=False, reason=BRIDGES_OWN)
            if topic.enabled and is_offered(topic)
            else topic
            for topic in plan.topics
        ),
    )


def _offered_types(robots: Iterable[RobotPlan]) -> dict[tuple[int | None, str], str]:
    """Return the types of what the bridge publishes about robots, by domain and absolute name."""
    types = {}
    for robot in robots:
        types[robot.domain_id, join(robot.namespace, DESCRIPTION)] = STRING
        for output in robot.tf_outputs:
            types[robot.domain_id, output.tf] = types[robot.domain_id, output.tf_static] = TF_MESSAGE
    return types


def disable_conflicts(plan: BridgePlan, inputs: Iterable[tuple[str, int | None]]) -> BridgePlan:
    """Return the plan with those publishers disabled that resolve to a topic the backend listens to.

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
        and controller.schema == JOINT_STATE_BROADCASTER
        and silent.intersection(controller.interfaces)
        else controller
        for controller in plan.controllers
    )
    return replace(plan, topics=topics, controllers=controllers)


Interface = TypeVar("Interface", TopicPlan, ServicePlan, ActionPlan)


def without_interfaces(plan: BridgePlan) -> BridgePlan:
    """Return the plan with everything disabled but transforms, each with a reason."""

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
