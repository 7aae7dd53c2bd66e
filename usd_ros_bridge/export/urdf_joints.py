"""Edges of a robot's tree as chains of URDF joints: one axis each, through the child link's origin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from usd_ros_bridge.export.urdf_names import LinkNames
from usd_ros_bridge.export.urdf_poses import compose, conjugate, inverse, normalized, rotate
from usd_ros_bridge.model.plan import HERE, DofPlan, EdgePlan, JointPlan, Pose, RobotPlan
from usd_ros_bridge.model.records import Vector3

UrdfJointType = Literal["fixed", "revolute", "continuous", "prismatic", "floating"]

NO_LEVER: Final = 1e-9
"""Metres by which a joint's axis may pass a link's origin and still pass through it: rounding."""

_AXES: dict[str, Vector3] = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UrdfJoint:
    """A joint element.

    Attributes:
        name: Name; that of the degree of freedom in JointState where it has one.
        type: Type of URDF.
        parent: Name of the parent link.
        child: Name of the child link.
        origin: `parent_from_child` where the joint's position is 0.
        axis: Unit vector in the child's frame; None for joints that have none.
        dof: The degree of freedom, None for fixed and floating joints.
    """

    name: str
    type: UrdfJointType
    parent: str
    child: str
    origin: Pose
    axis: Vector3 | None = None
    dof: DofPlan | None = None


@dataclass(slots=True)
class _Motion:
    """A degree of freedom along its edge; `axis` turned round where the tree runs against the joint."""

    dof: DofPlan
    axis: Vector3
    after: Pose

    @property
    def angular(self) -> bool:
        return self.dof.axis.startswith("rot")

    def absorbs(self, pose: Pose) -> bool:
        """Returns whether the motion about (along) its axis is one about the origin of `pose`, too."""
        # The axis is one of the frame's own: what is across are the other two components.
        across = [along for along, part in zip(pose.translation, self.axis, strict=True) if part == 0.0]
        return not self.angular or all(abs(along) <= NO_LEVER for along in across)


def edge_chain(
    robot: RobotPlan, edge: EdgePlan, *, parent: str, child: str, names: LinkNames
) -> tuple[UrdfJoint, ...]:
    """Returns the joints that lead from one frame to another along an edge, the parent's end first.

    Several degrees of freedom take a massless link between each two of them; a rotation about an axis that misses the
    child's origin takes one on the axis. Positions mean what they mean in JointState: where the tree runs against an
    authored joint, the axis is turned round.

    Args:
        robot: The robot.
        edge: An edge that joint positions determine.
        parent: Name of the parent link.
        child: Name of the child link.
        names: Gives names to what is added.
    """
    start, motions = _spelled_out(robot, edge)
    if not motions:
        name = robot.joints[edge.joints[0]].name
        return (UrdfJoint(name=name, type="fixed", parent=parent, child=child, origin=start),)
    chain = []
    origin, link = start, parent
    for number, motion in enumerate(motions):
        last = number == len(motions) - 1
        if last and motion.absorbs(motion.after):
            axis = rotate(conjugate(motion.after.rotation), motion.axis)
            chain.append(_moving(motion.dof, link, child, compose(origin, motion.after), axis))
            return tuple(chain)
        between = names.link_after(motion.dof.name)
        chain.append(_moving(motion.dof, link, between, origin, motion.axis))
        origin, link = motion.after, between
    fixed = names.joint(f"{motions[-1].dof.name}_fixed")
    chain.append(UrdfJoint(name=fixed, type="fixed", parent=link, child=child, origin=origin))
    return tuple(chain)


def _moving(dof: DofPlan, parent: str, child: str, origin: Pose, axis: Vector3) -> UrdfJoint:
    kind: UrdfJointType = "prismatic"
    if dof.axis.startswith("rot"):
        kind = "continuous" if math.isinf(dof.lower) and math.isinf(dof.upper) else "revolute"
    return UrdfJoint(name=dof.name, type=kind, parent=parent, child=child, origin=origin, axis=axis, dof=dof)


def _spelled_out(robot: RobotPlan, edge: EdgePlan) -> tuple[Pose, list[_Motion]]:
    """Returns `parent_from_child` as a pose and motions with a pose after each, as JointPlan and EdgePlan define it."""
    joints = [robot.joints[index] for index in edge.joints]
    if len(joints) == 1:
        start, end = _ends(joints[0])
        return _product([(start, joints[0], inverse(end))], HERE)
    frames = [_ends(joint)[0] for joint in joints]
    steps = [(frame, joint, inverse(frame)) for frame, joint in zip(frames, joints, strict=True)]
    return _product(steps, normalized(edge.rest))


def _ends(joint: JointPlan) -> tuple[Pose, Pose]:
    """Returns the joint frame in the tree's parent and in its child."""
    ends = normalized(joint.body0_from_joint), normalized(joint.body1_from_joint)
    return (ends[1], ends[0]) if joint.inverted else ends


def _product(steps: Iterable[tuple[Pose, JointPlan, Pose]], rest: Pose) -> tuple[Pose, list[_Motion]]:
    start = HERE
    motions: list[_Motion] = []

    def then(pose: Pose) -> None:
        nonlocal start
        if motions:
            motions[-1].after = compose(motions[-1].after, pose)
        else:
            start = compose(start, pose)

    for before, joint, after in steps:
        then(before)
        motions += [_Motion(dof, axis, HERE) for dof, axis in _moves(joint)]
        then(after)
    then(rest)
    return start, motions


def _moves(joint: JointPlan) -> Sequence[tuple[DofPlan, Vector3]]:
    """The degrees of freedom in the order in which they act from the tree's parent on, with their axes."""
    if joint.inverted:
        return [(dof, _opposite(_AXES[dof.axis[-1]])) for dof in reversed(joint.dofs)]
    return [(dof, _AXES[dof.axis[-1]]) for dof in joint.dofs]


def _opposite(axis: Vector3) -> Vector3:
    x, y, z = axis
    return -x, -y, -z
