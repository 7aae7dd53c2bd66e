"""Joints of the tree: a hinge or slide for each degree of freedom, with the asset's signs and zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.actuators import add_drive, limit_effort
from usd_ros_bridge.backends.mujoco.ball_joints import add_ball_joint, swing_limit
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder, set_linear, set_solver_values
from usd_ros_bridge.model.physics import Dof, Joint
from usd_ros_bridge.spatial.transforms import FloatArray, compose, inverse, pose_array, rotate

UNLIMITED = 1e9
"""rad or m: the missing side of a one-sided limit."""
_STEPS = 5.0
"""Time steps in which a limit corrects a joint that is past it."""
_NARROWEST = 1e-6
"""rad or m: half the width of a limit whose sides coincide; MuJoCo needs a range."""


def parent_from_child(child: int, joint: Joint) -> FloatArray:
    """Return the pose of body `child` in its parent with every degree of freedom of a joint at zero."""
    body0_from_body1 = compose(
        pose_array(joint.body0_from_joint), inverse(pose_array(joint.body1_from_joint))
    )
    return inverse(body0_from_body1) if joint.body0 == child else body0_from_body1


def add_joints(builder: SpecBuilder, body: Any, child: int, edge: Sequence[tuple[int, Joint]]) -> None:
    """Add the degrees of freedom of all joints between a body and its parent.

    MuJoCo applies a body's joints one after another in the child's frame, which is what
    `prod(F_i * motion_i * inverse(F_i)) * rest` is, F_i the frames in the parent.

    Args:
        builder: The specification.
        body: MuJoCo's body of the child.
        child: Its body index.
        edge: The joints between it and its parent, with their indices.
    """
    last = edge[-1][1]
    child_from_parent = inverse(parent_from_child(child, last))
    for position, (index, joint) in enumerate(edge):
        inverted = joint.body0 == child
        parent_side, child_side = joint.body0_from_joint, joint.body1_from_joint
        if inverted:
            parent_side, child_side = child_side, parent_side
        frame = (
            pose_array(child_side) if joint is last else compose(child_from_parent, pose_array(parent_side))
        )
        # MuJoCo allows no rotation after a ball joint: three hinges then.
        is_last_rotation = not any(
            dof.axis.startswith("rot") for _, other in edge[position + 1 :] for dof in other.dofs
        )
        if is_last_rotation and index not in builder.mimicked and swing_limit(joint) is not None:
            parent = builder.body(joint.body1 if inverted else joint.body0)
            ball = add_ball_joint(
                builder, body, parent, index, (pose_array(parent_side), frame), inverted=inverted
            )
            _set_passive(ball, joint, joint.dofs[0])
            continue
        dofs = range(len(joint.dofs))
        # The inverse of a product is the product of the inverses in reverse order.
        for number in reversed(dofs) if inverted else dofs:
            add_dof(builder, body, joint, frame, number, builder.offsets[index], inverted=inverted)


def add_dof(
    builder: SpecBuilder,
    body: Any,
    joint: Joint,
    frame: FloatArray,
    number: int,
    offset: int,
    *,
    inverted: bool,
) -> None:
    """Add a degree of freedom and its drive.

    Args:
        builder: The specification.
        body: MuJoCo's body of the child.
        joint: The joint.
        frame: `body_from_joint`.
        number: Index of the degree of freedom in the joint.
        offset: Flattened index of the joint's first one.
        inverted: The child is body0 of the joint.
    """
    dof = joint.dofs[number]
    unit = np.zeros(3)
    unit["XYZ".index(dof.axis[-1])] = -1.0 if inverted else 1.0
    name = joint.path if len(joint.dofs) == 1 else f"{joint.path}:{dof.axis}"
    hinge = dof.axis.startswith("rot")
    made = body.add_joint(
        name=name,
        type=mujoco.mjtJoint.mjJNT_HINGE if hinge else mujoco.mjtJoint.mjJNT_SLIDE,
        pos=frame[:3],
        axis=rotate(frame[3:], unit),
        ref=dof.reference,
        springref=dof.spring_position + dof.reference,
    )
    _limit(made, dof)
    made.solref_limit = [_STEPS * builder.spec.option.timestep, 1.0]
    limit_effort(made, dof)
    _set_passive(made, joint, dof)
    builder.joint_names[offset + number] = name
    add_drive(builder, name, dof, offset + number)


def _set_passive(made: Any, joint: Joint, dof: Dof) -> None:
    """Set passive forces, and the solver parameters of limits and friction."""
    made.armature, made.frictionloss = dof.armature, dof.friction
    set_linear(made, "damping", dof.damping)
    set_linear(made, "stiffness", dof.stiffness)
    for key in ("solref_limit", "solimp_limit", "solref_friction", "solimp_friction"):
        if key in joint.solver:
            set_solver_values(made, key, joint.solver[key])
    made.margin = float(joint.solver.get("limit_margin", 0.0))
    made.actgravcomp = int(joint.solver.get("actuator_gravity_compensation", False))
    if "spring_damper" in joint.solver:
        made.springdamper = joint.solver["spring_damper"]


def _limit(made: Any, dof: Dof) -> None:
    bounded = np.isfinite([dof.lower, dof.upper])
    made.limited = int(bool(bounded.any()))
    if not bounded.any():
        return
    lower = dof.lower if bounded[0] else -UNLIMITED
    upper = dof.upper if bounded[1] else UNLIMITED
    if upper - lower < 2.0 * _NARROWEST:
        middle = 0.5 * (lower + upper)
        lower, upper = middle - _NARROWEST, middle + _NARROWEST
    made.range = [lower + dof.reference, upper + dof.reference]
