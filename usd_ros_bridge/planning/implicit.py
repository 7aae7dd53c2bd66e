"""Implicit interfaces: joint states and commands where an asset declares no interface, and for external controllers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from usd_ros_bridge.model.errors import OptionError
from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.records import ControllerRecord, ExternalControlRecord
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.contexts import Context, Contexts
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
        drafts += _pair(context.path, context, JOINT_STATES, JOINT_COMMANDS, RATE)
    return drafts


def external_interfaces(
    controllers: Sequence[ControllerRecord], contexts: Contexts, options: PlanOptions
) -> list[InterfaceDraft]:
    """Returns the topics of external controllers (RosControlExternalAPI): joint states out, joint commands in.

    Topic-based hardware interfaces of ros2_control talk to them by default.

    Raises:
        OptionError: One of the names, or the rate, is not possible.
    """
    for option in ("external_joint_states", "external_joint_commands"):
        name = getattr(options, option)
        fault = names.name_fault(name)
        if fault:
            raise OptionError(f"{option} {name!r} {fault}")
    if not (math.isfinite(options.controller_rate) and options.controller_rate > 0.0):
        raise OptionError(f"controller_rate {options.controller_rate!r} is no positive number")
    drafts = []
    for record in controllers:
        context = contexts.nearest(record.path) if isinstance(record, ExternalControlRecord) else None
        if context is not None:
            drafts += _pair(
                record.path,
                context,
                options.external_joint_states,
                options.external_joint_commands,
                options.controller_rate,
            )
    return drafts


def _pair(path: str, context: Context, states: str, commands: str, rate: float) -> list[InterfaceDraft]:
    return [
        InterfaceDraft(
            kind="topic",
            path=path,
            role=role,
            name=names.join(context.namespace, name),
            type=JOINT_STATE,
            context=context,
            domain_id=context.domain_id,
            reason=context.unserved or ("" if name.startswith("/") else context.fault),
            publish_rate=of_role,
            implicit=True,
        )
        for name, role, of_role in ((states, "publisher", rate), (commands, "subscription", None))
    ]
