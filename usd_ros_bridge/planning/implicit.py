"""Implicit interfaces: joint states and commands for robots whose asset declares no interface at all."""

from __future__ import annotations

from collections.abc import Sequence

from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.interfaces import JOINT_STATE, InterfaceDraft
from usd_ros_bridge.planning.kinematics import Kinematics

JOINT_STATES = "joint_states"
JOINT_COMMANDS = "joint_commands"
RATE = 50.0


def implicit_interfaces(
    declared: Sequence[InterfaceDraft], kinematics: Kinematics, options: PlanOptions
) -> list[InterfaceDraft]:
    """Returns joint_states and joint_commands for each robot with movable joints, where nothing is declared."""
    if declared or not options.implicit_interfaces:
        return []
    drafts = []
    for robot in kinematics.robots:
        if not any(not kinematics.is_rigid(edge) for edge in robot.edges):
            continue
        context = robot.context
        for name, role, rate in ((JOINT_STATES, "publisher", RATE), (JOINT_COMMANDS, "subscription", None)):
            drafts.append(
                InterfaceDraft(
                    kind="topic",
                    path=context.path,
                    role=role,
                    name=names.join(context.namespace, name),
                    type=JOINT_STATE,
                    context=context,
                    domain_id=context.domain_id,
                    reason=context.unserved or context.fault,
                    publish_rate=rate,
                    implicit=True,
                )
            )
    return drafts
