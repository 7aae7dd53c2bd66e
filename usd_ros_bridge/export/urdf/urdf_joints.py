"""URDF joints of an edge: a chain of joints with one axis each, which passes through the child link's origin."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from usd_ros_bridge.model.plan import DofPlan, EdgePlan, JointPlan, RobotPlan
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose, compose, inverse, normalized
from usd_ros_bridge.spatial.scalar import Vector3, rotate_back

UrdfJointType = Literal["fixed", "revolute", "continuous", "prismatic", "floating"]

AXIS_TOLERANCE: Final = 1e-9
"""Metres between a joint's axis and a link's origin that count as rounding."""

_AXES: dict[str, Vector3] = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}
_NOT_IN_A_FRAME_ID = re.compile(r"[^A-Za-z0-9_./-]")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UrdfJoint:
    """A joint element.

    Attributes:
        name: Name; that of the degree of freedom in JointState where it has one.
        type: Type of URDF.
        parent: Name of the parent link.
        child: Name of the child link.
        origin: `parent_from_child` at joint position 0.
        axis: Unit vector in the child's frame; None for joints without an axis.
        dof: The degree of freedom, None for fixed and floating joints.
    """

    name: str
    type: UrdfJointType
    parent: str
    child: str
    origin: Pose
    axis: Vector3 | None = None
    dof: DofPlan | None = None


class LinkNames:
    """Unique names of the links and joints of one robot. A link and a joint may have the same name.

    Attributes:
        added: Links that are no frame of the plan, in the order in which they were named.
    """

    def __init__(self, robot: RobotPlan) -> None:
        self._links = {robot.parent_frame, robot.odom_frame, *(frame.id for frame in robot.frames)}
        self._joints = {joint.name for joint in robot.joints}
        self._joints.update(dof.name for joint in robot.joints for dof in joint.dofs)
        self.added: list[str] = []

    def link_after(self, dof: str) -> str:
        """Return a name for the link that a degree of freedom moves; a frame id for tf2."""
        name = _unique(_NOT_IN_A_FRAME_ID.sub("_", dof).lstrip("/") + "_link", self._links)
        self.added.append(name)
        return name

    def joint(self, wanted: str) -> str:
        """Return a name for a joint: `wanted`, with `_` added while another joint has it."""
        return _unique(wanted, self._joints)


def _unique(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


@dataclass(slots=True)
class _AxisMotion:
    """A degree of freedom of an edge, and the pose that follows it.

    `axis` is reversed where the tree runs against the joint.
    """

    dof: DofPlan
    axis: Vector3
    after: Pose

    @property
    def angular(self) -> bool:
        return self.dof.axis.startswith("rot")

    def passes_through(self, pose: Pose) -> bool:
        """Return whether the axis passes through the origin of `pose`. A translation may pass anywhere."""
        # The axis is one of the frame's own: the other two components are the distance from it.
        across = [along for along, part in zip(pose.translation, self.axis, strict=True) if part == 0.0]
        return not self.angular or all(abs(along) <= AXIS_TOLERANCE for along in across)


def edge_chain(
    robot: RobotPlan, edge: EdgePlan, *, parent: str, child: str, names: LinkNames
) -> tuple[UrdfJoint, ...]:
    """Return the joints that lead from one frame to another along an edge, the parent's end first.

    Several degrees of freedom take a massless link between each two of them. A rotation about an axis that misses the
    child's origin takes one on the axis. Positions mean the same as in JointState: where the tree runs against an
    authored joint, the axis is reversed.

    Args:
        robot: The robot.
        edge: An edge that joint positions determine.
        parent: Name of the parent link.
        child: Name of the child link.
        names: Names for added links and joints.
    """
    start, motions = _motions(robot, edge)
    if not motions:
        name = robot.joints[edge.joints[0]].name
        return (UrdfJoint(name=name, type="fixed", parent=parent, child=child, origin=start),)
    chain = []
    origin, link = start, parent
    for number, motion in enumerate(motions):
        last = number == len(motions) - 1
        if last and motion.passes_through(motion.after):
            axis = rotate_back(motion.after.rotation, motion.axis)
            chain.append(_moving_joint(motion.dof, link, child, compose(origin, motion.after), axis))
            return tuple(chain)
        added = names.link_after(motion.dof.name)
        chain.append(_moving_joint(motion.dof, link, added, origin, motion.axis))
        origin, link = motion.after, added
    fixed = names.joint(f"{motions[-1].dof.name}_fixed")
    chain.append(UrdfJoint(name=fixed, type="fixed", parent=link, child=child, origin=origin))
    return tuple(chain)


def _moving_joint(dof: DofPlan, parent: str, child: str, origin: Pose, axis: Vector3) -> UrdfJoint:
    kind: UrdfJointType = "prismatic"
    if dof.axis.startswith("rot"):
        kind = "continuous" if math.isinf(dof.lower) and math.isinf(dof.upper) else "revolute"
    return UrdfJoint(name=dof.name, type=kind, parent=parent, child=child, origin=origin, axis=axis, dof=dof)


def _motions(robot: RobotPlan, edge: EdgePlan) -> tuple[Pose, list[_AxisMotion]]:
    """Return `parent_from_child` as a pose and motions with a pose after each, as JointPlan and EdgePlan define it."""
    joints = [robot.joints[index] for index in edge.joints]
    if len(joints) == 1:
        start, end = _joint_frames(joints[0])
        return _product([(start, joints[0], inverse(end))], IDENTITY_POSE)
    frames = [_joint_frames(joint)[0] for joint in joints]
    steps = [(frame, joint, inverse(frame)) for frame, joint in zip(frames, joints, strict=True)]
    return _product(steps, normalized(edge.rest))


def _joint_frames(joint: JointPlan) -> tuple[Pose, Pose]:
    """Return the joint frame in the tree's parent and in its child."""
    ends = normalized(joint.body0_from_joint), normalized(joint.body1_from_joint)
    return (ends[1], ends[0]) if joint.inverted else ends


def _product(steps: Iterable[tuple[Pose, JointPlan, Pose]], rest: Pose) -> tuple[Pose, list[_AxisMotion]]:
    start = IDENTITY_POSE
    motions: list[_AxisMotion] = []

    def append(pose: Pose) -> None:
        nonlocal start
        if motions:
            motions[-1].after = compose(motions[-1].after, pose)
        else:
            start = compose(start, pose)

    for before, joint, after in steps:
        append(before)
        motions += [_AxisMotion(dof, axis, IDENTITY_POSE) for dof, axis in _axes(joint)]
        append(after)
    append(rest)
    return start, motions


def _axes(joint: JointPlan) -> Sequence[tuple[DofPlan, Vector3]]:
    """Return degrees of freedom and axes, in the order in which they act from the tree's parent on."""
    if joint.inverted:
        return [(dof, _reversed(_AXES[dof.axis[-1]])) for dof in reversed(joint.dofs)]
    return [(dof, _AXES[dof.axis[-1]]) for dof in joint.dofs]


def _reversed(axis: Vector3) -> Vector3:
    x, y, z = axis
    return -x, -y, -z
