"""The tree of a URDF: links are the frames of a robot, joints lead from one to the next (REP 0158 section 3.7).

A chain of joints with one axis each replaces an edge of the plan. It passes through the child link's origin.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.plan import DofPlan, EdgePlan, FramePlan, JointPlan, RobotPlan
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose, compose, inverse, normalized
from usd_ros_bridge.spatial.scalar import Vector3, rotate_back

MAX_NAMED: Final = 8
"""Frames that one message names."""

PARENT_FRAME = -1
"""In place of the index of a frame: the robot's parent frame, which is not a frame of the robot."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkTree:
    """The links and joints of one robot.

    Attributes:
        root: Name of the root link.
        frames: Indices in RobotPlan.frames of the frames that are links, parents first; the root first if it is one
            of them.
        joints: By frame, the joints that lead to it from its parent. The root has none.
        added: Massless links between joints. They are not frames.
        diagnostics: Frames that were left out.
    """

    root: str
    frames: tuple[int, ...]
    joints: dict[int, tuple[UrdfJoint, ...]]
    added: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def link_tree(robot: RobotPlan) -> LinkTree:
    """Return a robot's frames as a tree of links.

    The root of a free robot is its base. The root of any other robot is its topmost frame, that of the context; also
    if the base is a body among other frames, without joints (a crate in a cell). The parent frame is the root if
    several frames are its children, or if joints move the topmost frame.
    """
    root, members = _members(robot)
    names = LinkNames(robot)
    joints = {number: _joints_to(robot, number, names) for number in members if number != root}
    diagnostics = _left_out(robot, members) if robot.base >= 0 and root == robot.base else []
    diagnostics += [
        _floating(robot.frames[number]) for number, chain in joints.items() if chain[0].type == "floating"
    ]
    return LinkTree(
        root=robot.parent_frame if root == PARENT_FRAME else robot.frames[root].id,
        frames=members,
        joints=joints,
        added=tuple(names.added),
        diagnostics=tuple(diagnostics),
    )


def _members(robot: RobotPlan) -> tuple[int, tuple[int, ...]]:
    if robot.base >= 0:
        found = {robot.base}
        for number, frame in enumerate(robot.frames):
            if frame.parent_index in found:
                found.add(number)
        if robot.edges or robot.frames[robot.base].parent_index < 0 or not _unconnected(robot, found):
            return robot.base, (robot.base, *sorted(found - {robot.base}))
    tops = [number for number, frame in enumerate(robot.frames) if frame.parent_index < 0]
    everything = tuple(range(len(robot.frames)))
    if len(tops) == 1 and not _has_dofs(robot, robot.frames[tops[0]]):
        return tops[0], everything
    return PARENT_FRAME, everything


def _unconnected(robot: RobotPlan, members: Collection[int]) -> list[FramePlan]:
    """Return the frames that are not members. The context of a robot that moves is left out by design."""
    frames = enumerate(robot.frames)
    return [frame for number, frame in frames if number not in members and frame.path != robot.path]


def _has_dofs(robot: RobotPlan, frame: FramePlan) -> bool:
    return frame.edge >= 0 and not robot.edges[frame.edge].rigid


def _joints_to(robot: RobotPlan, number: int, names: LinkNames) -> tuple[UrdfJoint, ...]:
    frame = robot.frames[number]
    if frame.edge >= 0:
        return edge_chain(robot, robot.edges[frame.edge], parent=frame.parent, child=frame.id, names=names)
    above = robot.frames[frame.parent_index].carrier if frame.parent_index >= 0 else -1
    return (
        UrdfJoint(
            name=names.joint(f"{frame.id}_joint"),
            type="fixed" if frame.static or frame.carrier == above else "floating",
            parent=frame.parent,
            child=frame.id,
            origin=normalized(frame.parent_from_frame),
        ),
    )


def _left_out(robot: RobotPlan, members: tuple[int, ...]) -> list[Diagnostic]:
    lost = _unconnected(robot, set(members))
    if not lost:
        return []
    names = ", ".join(frame.id for frame in lost[:MAX_NAMED]) + (", ..." if len(lost) > MAX_NAMED else "")
    return [
        Diagnostic(
            code="3.8.frame",
            severity="warning",
            path=lost[0].path,
            message=f"{len(lost)} of {len(robot.frames)} frames do not hang from the robot's base "
            f"{robot.frames[robot.base].id}, and are no links of the URDF: {names}",
            remedy="connect them to the base by joints, or move them below the bodies that carry them",
        )
    ]


def _floating(frame: FramePlan) -> Diagnostic:
    return Diagnostic(
        code="3.8.floating",
        severity="info",
        path=frame.path,
        message=f"no joint position determines the frame {frame.id}; a floating joint of the URDF leads to it",
        remedy="take its transform from the bridge: robot_state_publisher does not know it",
    )


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
