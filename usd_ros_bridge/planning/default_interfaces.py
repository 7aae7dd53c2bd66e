"""Default interfaces: joint states and commands where an asset declares no interface, and for external controllers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from usd_ros_bridge import ranges
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.message_types import JOINT_STATE
from usd_ros_bridge.model.records import (
    ActuatedRecord,
    ControllerRecord,
    ExternalControlRecord,
    JointStateBroadcasterRecord,
)
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.contexts import Context, Contexts
from usd_ros_bridge.planning.interfaces import InterfaceDraft
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.paths import Nearest, is_below

JOINT_STATES = "joint_states"
JOINT_COMMANDS = "joint_commands"
RATE = 50.0


def implicit_interfaces(
    declared: Sequence[InterfaceDraft],
    kinematics: KinematicModel,
    options: PlanOptions,
    actuators: Iterable[ActuatedRecord] = (),
) -> list[InterfaceDraft]:
    """Return joint_states and joint_commands for each robot with movable joints, where nothing is declared.

    A robot with actuators alone, as a quadrotor, has joint_commands: their names are commanded there.
    """
    if declared or not options.implicit_interfaces:
        return []
    drafts = []
    actuated = [actuator.path for actuator in actuators]
    for robot in kinematics.robots:
        context = robot.context
        pair = _pair(context.path, context, JOINT_STATES, JOINT_COMMANDS, RATE)
        if any(not kinematics.is_rigid(edge) for edge in robot.edges):
            drafts += pair
        elif any(is_below(path, context.path) for path in actuated):
            drafts += pair[1:]
    return drafts


def external_topics(
    controllers: Sequence[ControllerRecord], interfaces: Iterable[InterfaceDraft], contexts: Contexts
) -> dict[str, list[InterfaceDraft]]:
    """Return the JointState topics of each external controller (RosControlExternalAPI), by path of its prim.

    They are those on its prim and below it in the same context, but for those that a joint state broadcaster names.
    """
    result: dict[str, list[InterfaceDraft]] = {
        record.path: [] for record in controllers if isinstance(record, ExternalControlRecord)
    }
    if not result:
        return result
    owner_of = Nearest(result)
    named = {
        path
        for record in controllers
        if isinstance(record, JointStateBroadcasterRecord)
        for path in record.publisher or ()
    }
    for draft in interfaces:
        owner = owner_of(draft.path)
        is_named = draft.path in named and not draft.implicit
        if owner and draft.type == JOINT_STATE and not is_named and draft.context == contexts.nearest(owner):
            result[owner].append(draft)
    return result


def external_interfaces(
    controllers: Sequence[ControllerRecord],
    declared: Sequence[InterfaceDraft],
    contexts: Contexts,
    options: PlanOptions,
) -> list[InterfaceDraft]:
    """Return topics for external controllers that declare none: joint states out, joint commands in.

    Topic-based hardware interfaces of ros2_control talk to them by default.

    Raises:
        OptionError: One of the names, or the rate, is not possible.
    """
    for option in ("external_joint_states", "external_joint_commands"):
        name = getattr(options, option)
        fault = names.name_fault(name)
        if fault:
            raise OptionError(f"{option} {name!r} {fault}")
    ranges.RATE.check("controller_rate", options.controller_rate)
    drafts = []
    for path, own in external_topics(controllers, declared, contexts).items():
        context = contexts.nearest(path)
        if context is not None and not own:
            drafts += _pair(
                path,
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
