"""Actuation: which commands have an effect, why others have none, and what to do about it.

Planning finds out from the asset alone (for `inspect`), the runtime from what the backend says (for the log, goals and
status). Both use the same rules and words.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.controller_schemas import (
    CONTROLLERS,
    DIFF_DRIVE,
    EXTERNAL,
    RIGID_BODY_TWIST,
    CommandInterface,
)
from usd_ros_bridge.model.message_types import message_type
from usd_ros_bridge.model.physics import Actuator, Dof, PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, RobotPlan, TopicPlan, followers_of
from usd_ros_bridge.spatial.transforms import FloatArray

INTERFACES: Final[tuple[CommandInterface, ...]] = ("position", "velocity", "effort")

NO_DRIVE: Final = "4.2.3.drive"
NO_BASE: Final = "4.2.3.base"
_TURNING_WHEELS: Final = (
    "the base {body} is fixed to the world by {joint}: wheels turn, and the robot does not move"
)
_NO_VELOCITY: Final = "no velocity moves the base {body}: it is fixed to the world by {joint}"
REPORTED_AT_RUN_TIME: Final = frozenset({NO_DRIVE, NO_BASE})
"""Codes of diagnostics that a running bridge reports by itself, for the backend that it has."""

_FULL: Final = 0.99
"""Part of the greatest effort that is full effort."""
_SHOWN: Final = 5
"""Joints that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmoved:
    """Degrees of freedom that a kind of command does not move, for one reason.

    Attributes:
        rows: Rows in the plan's layout.
        reason: Why: `there is no drive`.
        remedy: How to change that, "" where nobody can.
    """

    rows: frozenset[int]
    reason: str
    remedy: str = ""


UnmovedByInterface = Mapping[CommandInterface, Sequence[Unmoved]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuationFault:
    """A controller or topic whose commands have no effect, or not all of them.

    Attributes:
        code: NO_DRIVE or NO_BASE.
        message: Which joints or body, and why.
        remedy: What to do, "" where nothing can be done.
        acts: Commands have some effect: a controller stays active.
        remark: It may well be meant so: no reason to warn.
    """

    code: str
    message: str
    remedy: str
    acts: bool
    remark: bool = False

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


# --- From the asset -------------------------------------------------------------------------------------------------


def find_unmoved(scene: PhysicsScene, asset: str) -> dict[CommandInterface, tuple[Unmoved, ...]]:
    """Return what commands of each kind do not move where forces move everything.

    A position needs a drive with stiffness, a velocity one with damping or stiffness; an actuator of the asset takes
    the one kind that its gain and bias stand for. An effort needs only a limit above zero. Mimic joints are
    never commanded and left out.

    Args:
        scene: The physics.
        asset: The asset as the caller named it, for remedies.
    """
    actuators: dict[int, list[Actuator]] = {}
    for actuator in scene.actuators:
        for target in _moved_joints(actuator, scene):
            actuators.setdefault(target, []).append(actuator)
    no_drive = "there is no drive", drives_remedy(asset)
    return group_unmoved(
        (interface, dof.row, why)
        for number, joint in enumerate(scene.joints)
        for dof in joint.dofs
        if dof.row >= 0 and dof.mimic is None
        for interface in INTERFACES
        if (why := _reason(dof, interface, actuators.get(number, ()), number, no_drive)) is not None
    )


def group_unmoved(
    found: Iterable[tuple[CommandInterface, int, tuple[str, str]]],
) -> dict[CommandInterface, tuple[Unmoved, ...]]:
    """Return what is not moved by kind of command, from kinds, rows, and pairs of a reason and a remedy."""
    groups: dict[CommandInterface, dict[tuple[str, str], set[int]]] = {each: {} for each in INTERFACES}
    for interface, row, why in found:
        groups[interface].setdefault(why, set()).add(row)
    return {
        interface: tuple(
            Unmoved(rows=frozenset(rows), reason=reason, remedy=remedy)
            for (reason, remedy), rows in by_reason.items()
        )
        for interface, by_reason in groups.items()
    }


def _moved_joints(actuator: Actuator, scene: PhysicsScene) -> Iterator[int]:
    if actuator.joint >= 0:
        yield actuator.joint
    elif actuator.tendon >= 0:
        yield from (joint for joint, _ in scene.tendons[actuator.tendon].joints)


def _reason(
    dof: Dof,
    interface: CommandInterface,
    actuators: Sequence[Actuator],
    joint: int,
    no_drive: tuple[str, str],
) -> tuple[str, str] | None:
    """Return why a kind of command does not move a degree of freedom, and the remedy; None where it does."""
    # One interface of an actuator is enough; that of a tendon's stands for no joint.
    if any(each.interface == interface and each.joint == joint for each in actuators):
        return None
    drive, angular = dof.drive, dof.axis.startswith("rot")
    instance = "angular" if angular else "linear"
    if drive is None and not actuators and interface != "effort":
        return no_drive
    if dof.max_effort <= 0.0:
        return "the effort limit is 0", f"author drive:{instance}:physics:maxForce above 0"
    if interface == "effort":
        # Every joint that no actuator of the asset acts on by itself has a motor.
        return _own_control(actuators) if any(each.joint == joint for each in actuators) else None
    if drive is not None and (drive.stiffness > 0.0 or (interface == "velocity" and drive.damping > 0.0)):
        return None
    if drive is not None:
        needed = "stiffness" if interface == "position" else "damping"
        missing = "stiffness" if interface == "position" else "damping and stiffness"
        return f"the drive has no {missing}", f"author drive:{instance}:physics:{needed} above 0"
    return _own_control(actuators)


def _own_control(actuators: Sequence[Actuator]) -> tuple[str, str]:
    names = ", ".join(actuator.names[0] if actuator.names else actuator.path for actuator in actuators[:2])
    return (
        "the actuator takes commands of another kind",
        f"command the actuator by its own name ({names}), or apply PhysicsDriveAPI to the joint",
    )


def drives_remedy(asset: str) -> str:
    """Return how to give joints drives."""
    return f"{_scaffold(asset, 'drives')}, or apply PhysicsDriveAPI"


def free_base_remedy(asset: str) -> str:
    """Return how to free a robot from the world."""
    return f"{_scaffold(asset, 'free-base')}, or remove the joint"


def _scaffold(asset: str, option: str) -> str:
    source = asset or "ASSET"
    stem = PurePosixPath(source).stem or "robot"
    output = f"{stem}_{option.replace('-', '_')}.usda"
    return f"usd_ros_bridge scaffold {shlex.quote(source)} --{option} -o {shlex.quote(output)}"


# --- Controllers ----------------------------------------------------------------------------------------------------


def controller_fault(
    plan: BridgePlan, controller: ControllerPlan, unmoved: UnmovedByInterface, *, kinematic: bool
) -> ActuationFault | None:
    """Return what a controller cannot move; None where it can move all that it is for.

    Args:
        plan: The plan.
        controller: One of its controllers, complete (`switchable`).
        unmoved: By kind of command, what the backend does not move.
        kinematic: Whether the backend moves bodies as commanded.
    """
    if controller.schema == RIGID_BODY_TWIST:
        return _twist_fault(plan, controller, kinematic=kinematic)
    if controller.schema == EXTERNAL:
        pairs = list(zip(controller.joints, controller.dofs, strict=True))
        return _targets_fault(plan, controller.robot, pairs, unmoved)
    schema = CONTROLLERS.get(controller.schema)
    if schema is None or not schema.commands:
        return None
    fault = _joints_fault(
        controller, unmoved.get(schema.commands, ()), schema.commands, base=schema.claims_base
    )
    if fault is None and schema.claims_base and controller.robot >= 0:
        return _base_fault(plan, plan.robots[controller.robot], _TURNING_WHEELS, acts=True)
    return fault


def _joints_fault(
    controller: ControllerPlan, groups: Sequence[Unmoved], interface: CommandInterface, *, base: bool
) -> ActuationFault | None:
    pairs = list(zip(controller.joints, controller.dofs, strict=True))
    stuck = _stuck(pairs, groups)
    if not stuck:
        return None
    names = _names(stuck)
    acts = False
    consequence = "what it receives is dropped" if base else "its goals are refused"
    if controller.schema == DIFF_DRIVE:
        # One wheel of a side is enough to turn it.
        sides = [controller.parameters.get(side, ()) for side in ("left_wheels", "right_wheels")]
        acts = all(set(side) - names for side in sides)
        consequence = "the other wheels drive" if acts else consequence
    return ActuationFault(
        code=NO_DRIVE,
        message=f"{_described(stuck, interface)}; {consequence}",
        remedy=_remedies(group for group, _ in stuck),
        acts=acts,
    )


def _twist_fault(plan: BridgePlan, controller: ControllerPlan, *, kinematic: bool) -> ActuationFault | None:
    layout = plan.layout
    path = controller.parameters.get("body", "")
    row = layout.body_index.get(path, -1)
    if row < 0:
        why, remedy = "there is no body to move", "name one in ros:rigid_body_twist:body"
    elif _hangs(plan, controller.robot, path):
        why, remedy = f"{path} hangs from a joint", "name the body that the robot moves with"
    elif not (kinematic or layout.kinematic[row]):
        why = f"physics moves {path}, and no wheel does what a velocity asks"
        remedy = "declare RosControlDiffDriveAPI with its wheels, or author physics:kinematicEnabled = true"
    else:
        return None
    return ActuationFault(code=NO_BASE, message=f"{why}; velocities are dropped", remedy=remedy, acts=False)


def _hangs(plan: BridgePlan, robot: int, body: str) -> bool:
    """Return whether a body's pose follows from a joint of its robot."""
    return any(
        edge.child_path == body and (edge.rigid or any(each.joints[index].dofs for index in edge.joints))
        for each in (plan.robots if robot < 0 else plan.robots[robot : robot + 1])
        for edge in each.edges
    )


def _base_fault(plan: BridgePlan, robot: RobotPlan, message: str, *, acts: bool) -> ActuationFault | None:
    """Return the fault of what moves a base that is fixed to the world, None if the base is free.

    Args:
        plan: The plan.
        robot: The robot.
        message: The fault, with `{body}` and `{joint}`.
        acts: Its commands have an effect anyway.
    """
    fixed = fixed_base(plan, robot)
    if fixed is None:
        return None
    body, joint = fixed
    return ActuationFault(
        code=NO_BASE,
        message=message.format(body=body, joint=joint),
        remedy=free_base_remedy(plan.asset),
        acts=acts,
    )


def fixed_base(plan: BridgePlan, robot: RobotPlan) -> tuple[str, str] | None:
    """Return a robot's base and the joint that fixes it to the world; None where it can move, or there is none."""
    if robot.base >= 0 or robot.base_row < 0:
        return None
    body = plan.layout.bodies[robot.base_row]
    edge = next((each for each in robot.edges if each.child_path == body), None)
    if edge is None or not edge.rigid or not edge.joints:
        return None
    return body, robot.joints[edge.joints[0]].path


# --- Topics ---------------------------------------------------------------------------------------------------------


def topic_fault(plan: BridgePlan, topic: TopicPlan, unmoved: UnmovedByInterface) -> ActuationFault | None:
    """Return what the messages of a subscription without a controller cannot move; None where they can."""
    kind = message_type(topic.type).commands
    if kind == "body_twist" and topic.robot >= 0:
        return _base_fault(plan, plan.robots[topic.robot], _NO_VELOCITY, acts=False)
    if kind not in ("joint_targets", "joint_array"):
        return None
    pairs = list(zip(plan.joint_names(topic), topic.dofs, strict=True))
    only = topic.command_interface if kind == "joint_array" else None
    return _targets_fault(plan, topic.robot, pairs, unmoved, only=only)


def _targets_fault(
    plan: BridgePlan,
    robot: int,
    named: Sequence[tuple[str, int]],
    unmoved: UnmovedByInterface,
    *,
    only: CommandInterface | None = None,
) -> ActuationFault | None:
    """Return the fault of commands by name, or with `only` of an array with that kind for each of the joints.

    A robot has joints that nobody means to command, such as casters: that some of them do not move is a remark. An
    array commands all of them.
    """
    # First what is cheap: a fleet has thousands of topics.
    if not _stuck(named, unmoved.get(only or "position", ())) or (
        only is None and _has_actuators(plan, robot)
    ):
        return None
    followers = followers_of(plan, robot)
    pairs = [(name, row) for name, row in named if row not in followers]
    movable = set[str]()
    if only is None:
        # What a velocity moves is no joint without a drive.
        movable = {name for name, _ in pairs} - _names(_stuck(pairs, unmoved.get("velocity", ())))
    stuck = _stuck([pair for pair in pairs if pair[0] not in movable], unmoved.get(only or "position", ()))
    found = _names(stuck)
    if not found:
        return None
    whole = len(found) == len(pairs)
    pushed = only is None and not found & _names(_stuck(pairs, unmoved.get("effort", ())))
    what = only or "position and velocity"
    return ActuationFault(
        code=NO_DRIVE,
        message=_described(stuck, what) + ("; efforts do" if pushed else ""),
        remedy=_remedies(group for group, _ in stuck),
        acts=not whole or pushed,
        remark=only is None and not whole,
    )


def _has_actuators(plan: BridgePlan, robot: int) -> bool:
    """Return whether messages may name actuators, too."""
    return plan.physics is not None and any(each.robot == robot for each in plan.physics.actuators)


def drive_fault(
    pairs: Iterable[tuple[str, int]], groups: Iterable[Unmoved], interface: CommandInterface
) -> ActuationFault:
    """Return the fault of a kind of command for joints, by name and row, that it does not move."""
    stuck = _stuck(pairs, groups)
    return ActuationFault(
        code=NO_DRIVE,
        message=_described(stuck, interface),
        remedy=_remedies(group for group, _ in stuck),
        acts=False,
    )


# --- Efforts --------------------------------------------------------------------------------------------------------


def full_efforts(plan: BridgePlan) -> tuple[FloatArray, FloatArray]:
    """Return from where on efforts (D,) are full ones, N m or N: at most the first, or at least the second.

    With physics, the bounds of drives and actuators are included. Infinite where there is no bound, or none above 0.
    """
    most = np.full(len(plan.layout.dofs), np.inf)
    for robot in plan.robots:
        for joint in robot.joints:
            for dof in joint.dofs:
                most[dof.row] = dof.max_effort
    least = -most
    for physical in () if plan.physics is None else plan.physics.joints:
        for each in physical.dofs:
            if each.row >= 0:
                bounds = each.effort_range or (-each.max_effort, each.max_effort)
                least[each.row], most[each.row] = bounds
    return np.where(least < 0.0, _FULL * least, -np.inf), np.where(most > 0.0, _FULL * most, np.inf)


def is_full_effort(effort: FloatArray, least: FloatArray, most: FloatArray) -> NDArray[np.bool_]:
    """Return which efforts (D,) are full ones, by the bounds of `full_efforts`; NaN is none."""
    pushes: NDArray[np.bool_] = effort >= most
    pushes |= effort <= least
    return pushes


# --- Words ----------------------------------------------------------------------------------------------------------


def _stuck(pairs: Iterable[tuple[str, int]], groups: Iterable[Unmoved]) -> list[tuple[Unmoved, list[str]]]:
    """Return the names of joints that are not moved, by reason."""
    known = list(pairs)
    found = [(group, [name for name, row in known if row in group.rows]) for group in groups]
    return [(group, names) for group, names in found if names]


def _names(stuck: Iterable[tuple[Unmoved, Sequence[str]]]) -> set[str]:
    return {name for _, names in stuck for name in names}


def _described(stuck: Sequence[tuple[Unmoved, Sequence[str]]], what: str) -> str:
    """Return `position commands do not move elbow and wrist (there is no drive)`."""
    parts = [f"{_listed(names)} ({group.reason})" for group, names in stuck]
    return f"{what} commands do not move {', '.join(parts)}"


def _listed(names: Sequence[str]) -> str:
    shown = [quoted(name) for name in names[:_SHOWN]]
    more = len(names) - len(shown)
    return (
        f"{', '.join(shown)} and {more} more"
        if more
        else " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    )


def _remedies(groups: Iterable[Unmoved]) -> str:
    return "; ".join(dict.fromkeys(group.remedy for group in groups if group.remedy))
