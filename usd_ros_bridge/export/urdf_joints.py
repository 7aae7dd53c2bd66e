"""Edges of a robot's tree as chains of URDF joints: one axis each, through the child link's origin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from usd_ros_bridge.export.urdf_names import LinkNames
from usd_ros_bridge.model.plan import DofAxis, DofPlan, EdgePlan, JointPlan, Pose, RobotPlan
from usd_ros_bridge.model.transforms import (
    IDENTITY,
    FloatArray,
    compose,
    inverse,
    normalized,
    quaternion_conjugate,
    rotate,
)

UrdfJointType = Literal["fixed", "revolute", "continuous", "prismatic", "floating"]

NO_LEVER: Final = 1e-9
"""Metres by which a joint's axis may pass a link's origin and still pass through it: rounding."""

_AXES: dict[DofAxis, FloatArray] = {
    "transX": np.array([1.0, 0.0, 0.0]),
    "transY": np.array([0.0, 1.0, 0.0]),
    "transZ": np.array([0.0, 0.0, 1.0]),
    "rotX": np.array([1.0, 0.0, 0.0]),
    "rotY": np.array([0.0, 1.0, 0.0]),
    "rotZ": np.array([0.0, 0.0, 1.0]),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UrdfJoint:
    """A joint element.

    Attributes:
        name: Name; that of the degree of freedom in JointState where it has one.
        type: Type of URDF.
        parent: Name of the parent link.
        child: Name of the child link.
        origin: (7,) `parent_from_child` where the joint's position is 0.
        axis: (3,) unit vector in the child's frame; None for joints that have none.
        dof: The degree of freedom, None for fixed and floating joints.
    """

    name: str
    type: UrdfJointType
    parent: str
    child: str
    origin: FloatArray
    axis: FloatArray | None = None
    dof: DofPlan | None = None


def array(pose: Pose) -> FloatArray:
    """Returns a plan's pose as an array (7,), its quaternion normalised."""
    rotation = normalized(np.array(pose.rotation, dtype=np.float64))
    return np.concatenate((np.array(pose.translation, dtype=np.float64), rotation))


@dataclass(slots=True)
class _Motion:
    """A degree of freedom along its edge; `axis` turned round where the tree runs against the joint."""

    dof: DofPlan
    axis: FloatArray
    after: FloatArray

    @property
    def angular(self) -> bool:
        return self.dof.axis.startswith("rot")

    def absorbs(self, pose: FloatArray) -> bool:
        """Returns whether the motion about (along) its axis is one about the origin of `pose`, too."""
        across = np.cross(self.axis, pose[:3])
        return not self.angular or bool(np.abs(across).max() <= NO_LEVER)


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
            axis = rotate(quaternion_conjugate(motion.after[3:]), motion.axis)
            chain.append(_moving(motion.dof, link, child, compose(origin, motion.after), axis))
            return tuple(chain)
        between = names.link_after(motion.dof.name)
        chain.append(_moving(motion.dof, link, between, origin, motion.axis))
        origin, link = motion.after, between
    fixed = names.joint(f"{motions[-1].dof.name}_fixed")
    chain.append(UrdfJoint(name=fixed, type="fixed", parent=link, child=child, origin=origin))
    return tuple(chain)


def _moving(dof: DofPlan, parent: str, child: str, origin: FloatArray, axis: FloatArray) -> UrdfJoint:
    kind: UrdfJointType = "prismatic"
    if dof.axis.startswith("rot"):
        kind = "continuous" if np.isinf(dof.lower) and np.isinf(dof.upper) else "revolute"
    return UrdfJoint(name=dof.name, type=kind, parent=parent, child=child, origin=origin, axis=axis, dof=dof)


def _spelled_out(robot: RobotPlan, edge: EdgePlan) -> tuple[FloatArray, list[_Motion]]:
    """Returns `parent_from_child` as a pose and motions with a pose after each, as JointPlan and EdgePlan define it."""
    joints = [robot.joints[index] for index in edge.joints]
    if len(joints) == 1:
        start, end = _ends(joints[0])
        return _product([(start, joints[0], inverse(end))], IDENTITY)
    frames = [_ends(joint)[0] for joint in joints]
    steps = [(frame, joint, inverse(frame)) for frame, joint in zip(frames, joints, strict=True)]
    return _product(steps, array(edge.rest))


def _ends(joint: JointPlan) -> tuple[FloatArray, FloatArray]:
    """Returns the joint frame in the tree's parent and in its child."""
    ends = array(joint.body0_from_joint), array(joint.body1_from_joint)
    return (ends[1], ends[0]) if joint.inverted else ends


def _product(
    steps: Iterable[tuple[FloatArray, JointPlan, FloatArray]], rest: FloatArray
) -> tuple[FloatArray, list[_Motion]]:
    start = IDENTITY
    motions: list[_Motion] = []

    def then(pose: FloatArray) -> None:
        nonlocal start
        if motions:
            motions[-1].after = compose(motions[-1].after, pose)
        else:
            start = compose(start, pose)

    for before, joint, after in steps:
        then(before)
        motions += [_Motion(dof, axis, IDENTITY) for dof, axis in _moves(joint)]
        then(after)
    then(rest)
    return start, motions


def _moves(joint: JointPlan) -> Sequence[tuple[DofPlan, FloatArray]]:
    """The degrees of freedom in the order in which they act from the tree's parent on, with their axes."""
    if joint.inverted:
        return [(dof, -_AXES[dof.axis]) for dof in reversed(joint.dofs)]
    return [(dof, _AXES[dof.axis]) for dof in joint.dofs]
