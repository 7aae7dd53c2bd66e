"""Joints of the tree become hinges and slides, one for each degree of freedom, with the asset's signs and zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.balls import add_ball, round_cone
from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.backends.mujoco.controls import set_first
from usd_ros_bridge.backends.mujoco.drives import add_drive, bounds_effort
from usd_ros_bridge.backends.mujoco.poses import FloatArray, pose_of
from usd_ros_bridge.model.physics import Dof, Joint
from usd_ros_bridge.model.transforms import compose, inverse, rotate

UNLIMITED = 1e9
"""rad or m: the far side of a limit that has one side only."""
_STEPS = 5.0
"""Time steps in which a limit makes good what a joint is past it."""
_NARROWEST = 1e-6
"""rad or m: half the width of a limit whose sides coincide; MuJoCo wants them apart."""


def parent_from_child(child: int, joint: Joint) -> FloatArray:
    """Returns where a joint's frames put body `child` in its parent with every degree of freedom at zero."""
    body0_from_body1 = compose(pose_of(joint.body0_from_joint), inverse(pose_of(joint.body1_from_joint)))
    return inverse(body0_from_body1) if joint.body0 == child else body0_from_body1


def add_joints(built: Built, body: Any, child: int, edge: Sequence[tuple[int, Joint]]) -> None:
    """Adds the degrees of freedom of all joints of an edge to the child's body.

    MuJoCo applies a body's joints one after another in the child's frame, which is what
    `prod(F_i * motion_i * inverse(F_i)) * rest` is, F_i the frames in the parent.

    Args:
        built: What is being built.
        body: MuJoCo's body of the child.
        child: Its body index.
        edge: The joints between it and its parent, with their indices.
    """
    last = edge[-1][1]
    child_from_parent = inverse(parent_from_child(child, last))
    for number, (index, joint) in enumerate(edge):
        inverted = joint.body0 == child
        parent_side, child_side = joint.body0_from_joint, joint.body1_from_joint
        if inverted:
            parent_side, child_side = child_side, parent_side
        frame = pose_of(child_side) if joint is last else compose(child_from_parent, pose_of(parent_side))
        # MuJoCo takes no turn after a ball joint: three hinges then.
        is_last_turn = not any(
            dof.axis.startswith("rot") for _, other in edge[number + 1 :] for dof in other.dofs
        )
        if is_last_turn and index not in built.mimicked and round_cone(joint) is not None:
            parent = built.body(joint.body1 if inverted else joint.body0)
            ball = add_ball(built, body, parent, index, (pose_of(parent_side), frame), inverted=inverted)
            _set_passive(ball, joint, joint.dofs[0])
            continue
        dofs = range(len(joint.dofs))
        # The inverse of a product has its factors in reverse order, and each turns the other way.
        for place in reversed(dofs) if inverted else dofs:
            add_dof(built, body, joint, frame, place, built.offsets[index], inverted=inverted)


def add_dof(
    built: Built, body: Any, joint: Joint, frame: FloatArray, place: int, offset: int, *, inverted: bool
) -> None:
    """Adds one degree of freedom and what drives it.

    Args:
        built: What is being built.
        body: MuJoCo's body that it moves.
        joint: The joint.
        frame: `body_from_joint`.
        place: Which of the joint's degrees of freedom.
        offset: Flattened index of the joint's first one.
        inverted: Whether the body is body0 of the joint.
    """
    dof = joint.dofs[place]
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
    made.solref_limit = [_STEPS * built.spec.option.timestep, 1.0]
    bounds_effort(made, dof)
    _set_passive(made, joint, dof)
    built.joint_names[offset + place] = name
    add_drive(built, name, dof, offset + place)


def _set_passive(made: Any, joint: Joint, dof: Dof) -> None:
    """Sets what acts without a drive, and how hard limits and friction are."""
    made.armature, made.frictionloss = dof.armature, dof.friction
    set_first(made, "damping", dof.damping)
    set_first(made, "stiffness", dof.stiffness)
    for key in ("solref_limit", "solimp_limit", "solref_friction", "solimp_friction"):
        if key in joint.solver:
            values = np.atleast_1d(np.asarray(joint.solver[key], dtype=np.float64))
            getattr(made, key)[: len(values)] = values
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
