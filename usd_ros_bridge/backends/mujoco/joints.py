"""Joints of the tree: a hinge or slide for each degree of freedom, with the asset's signs and zeros, or one ball joint.

A ball joint is a spherical joint without drives. It has springs, dampers, armature and friction where they are the same
in all directions. Three hinges would be equivalent, except in poses in which two of their axes coincide: there, forces
grow without bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.actuators import add_drive, limit_effort
from usd_ros_bridge.backends.mujoco.spec_builder import (
    AUXILIARY_GROUP,
    BallJoint,
    SpecBuilder,
    add_site,
    set_linear,
    set_solver_values,
)
from usd_ros_bridge.model.physics import Dof, Joint
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    IndexArray,
    compose,
    inverse,
    pose_array,
    quaternion_conjugate,
    quaternion_multiply,
    rotate,
    wxyz,
    xyzw,
)
from usd_ros_bridge.spatial.transforms import pose as make_pose

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
        add_dofs(builder, body, index, frame, inverted=inverted)


def add_dofs(builder: SpecBuilder, body: Any, index: int, frame: FloatArray, *, inverted: bool) -> None:
    """Add the degrees of freedom of a joint, with their drives.

    Args:
        builder: The specification.
        body: MuJoCo's body of the child.
        index: Index of the joint in the scene.
        frame: `body_from_joint`.
        inverted: The child is body0 of the joint.
    """
    joint = builder.scene.joints[index]
    dofs = list(enumerate(joint.dofs, builder.offsets[index]))
    # The inverse of a product is the product of the inverses in reverse order.
    for number, dof in reversed(dofs) if inverted else dofs:
        _add_dof(builder, body, joint, frame, number, dof, inverted=inverted)


def _add_dof(
    builder: SpecBuilder,
    body: Any,
    joint: Joint,
    frame: FloatArray,
    number: int,
    dof: Dof,
    *,
    inverted: bool,
) -> None:
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
    builder.joint_names[number] = name
    add_drive(builder, name, dof, number)


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


_AXES = ("rotX", "rotY", "rotZ")
_EQUAL = 1e-6
"""rad: difference of the limits up to which a cone is circular."""
_LEVER = 0.1
"""m: distance from the joint of the two points whose distance the cone limits."""


def swing_limit(joint: Joint) -> float | None:
    """Return the half angle (rad) of the cone that limits a spherical joint without drives, inf without limits.

    None for a joint that needs three hinges: one with a drive, with different passive forces about its axes, with a
    spring that does not rest at zero, or whose limits are no circular cone.
    """
    if joint.type != "spherical" or tuple(dof.axis for dof in joint.dofs) != _AXES:
        return None
    if any(dof.drive is not None or dof.mimic is not None for dof in joint.dofs):
        return None
    # The spring of MuJoCo's ball joint acts along the shortest rotation back to zero, whatever its `springref`.
    if len({_passive(dof) for dof in joint.dofs}) > 1 or any(
        dof.stiffness and dof.spring_position for dof in joint.dofs
    ):
        return None
    limited = [dof for dof in joint.dofs if math.isfinite(dof.lower) or math.isfinite(dof.upper)]
    if not limited:
        return math.inf
    angle = limited[0].upper
    equal = all(abs(dof.upper - angle) + abs(dof.lower + angle) < _EQUAL for dof in limited)
    about = {dof.axis[-1] for dof in limited}
    is_cone = joint.axis is not None and about == {"X", "Y", "Z"} - {joint.axis}
    return angle if equal and is_cone and _EQUAL < angle < math.pi else None


def _passive(dof: Dof) -> tuple[float, float, float, float]:
    return dof.armature, dof.friction, dof.damping, dof.stiffness


def add_ball_joint(
    builder: SpecBuilder,
    body: Any,
    parent: Any,
    index: int,
    frames: tuple[FloatArray, FloatArray],
    *,
    inverted: bool,
) -> Any:
    """Add a ball joint, and a tendon that limits the angle between the joint's axes in the two bodies.

    Args:
        builder: The specification.
        body: MuJoCo's body of the child.
        parent: MuJoCo's body of the parent.
        index: Index of the joint in the scene.
        frames: `parent_from_joint` and `body_from_joint`.
        inverted: The child is body0 of the joint.

    Returns:
        MuJoCo's joint.
    """
    joint = builder.scene.joints[index]
    made = body.add_joint(name=joint.path, type=mujoco.mjtJoint.mjJNT_BALL, pos=frames[1][:3])
    first = builder.offsets[index]
    builder.balls.append(BallJoint(name=joint.path, first=first, frame=frames[1][3:], inverted=inverted))
    angle = swing_limit(joint)
    if angle is None or math.isinf(angle) or joint.axis is None:
        return made
    tip = make_pose(_LEVER * np.eye(3)["XYZ".index(joint.axis)])
    tendon = builder.spec.add_tendon(name=f"{joint.path}:cone")
    tendon.group = AUXILIARY_GROUP
    for side, (owner, frame) in enumerate(zip((parent, body), frames, strict=True)):
        site = add_site(owner, f"{joint.path}:cone:{side}", compose(frame, tip))
        tendon.wrap_site(site.name)
    tendon.limited = 1
    tendon.range = [0.0, 2.0 * _LEVER * math.sin(0.5 * angle)]
    tendon.solref_limit = [5.0 * builder.spec.option.timestep, 1.0]
    for key in ("solref_limit", "solimp_limit"):
        if key in joint.solver:
            set_solver_values(tendon, key, joint.solver[key])
    return made


class BallJoints:
    """Addresses of the ball joints of a compiled model, and their angles.

    The angles are those of successive rotations about X, Y and Z of the joint frame (body1 relative to body0).

    Attributes:
        dofs: (K, 3) flattened indices of their degrees of freedom.
        qpos: (K,) addresses of their quaternions w, x, y, z.
        qvel: (K,) addresses of their angular velocities in the child.
    """

    def __init__(self, model: Any, balls: list[BallJoint]) -> None:
        ids = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, ball.name) for ball in balls]
        self.dofs: IndexArray = np.array([ball.first for ball in balls], dtype=np.intp)[:, None] + np.arange(
            3
        )
        self.qpos: IndexArray = np.array([model.jnt_qposadr[index] for index in ids], dtype=np.intp)
        self.qvel: IndexArray = np.array([model.jnt_dofadr[index] for index in ids], dtype=np.intp)
        self._frames = np.array([ball.frame for ball in balls], dtype=np.float64).reshape(-1, 4)
        self._inverted = np.array([ball.inverted for ball in balls], dtype=bool)

    def __len__(self) -> int:
        return len(self.qpos)

    def angles(self, qpos: FloatArray) -> FloatArray:
        """Return the angles (K, 3) in rad; the middle one from -pi/2 to pi/2."""
        return _angles(self._rotations(qpos))

    def rates(self, qpos: FloatArray, qvel: FloatArray) -> FloatArray:
        """Return the rates of change (K, 3) of the angles, rad/s; bounded where two axes coincide."""
        rotations = self._rotations(qpos)
        spin = rotate(quaternion_conjugate(self._frames), qvel[self.qvel[:, None] + np.arange(3)])
        # The child is body0: the velocity of body1 in its own frame is the opposite.
        spin = np.where(self._inverted[:, None], -rotate(quaternion_conjugate(rotations), spin), spin)
        _, middle, last = np.moveaxis(_angles(rotations), -1, 0)
        sine, cosine = np.sin(last), np.cos(last)
        first_rate = (spin[:, 0] * cosine - spin[:, 1] * sine) / np.maximum(np.cos(middle), 1e-6)
        middle_rate = spin[:, 0] * sine + spin[:, 1] * cosine
        return np.column_stack([first_rate, middle_rate, spin[:, 2] - first_rate * np.sin(middle)])

    def write_angles(self, qpos: FloatArray, angles: FloatArray) -> None:
        """Write the quaternions for angles (K, 3) into `qpos`."""
        rotations = _rotation(angles)
        rotations = np.where(self._inverted[:, None], quaternion_conjugate(rotations), rotations)
        moved = quaternion_multiply(
            quaternion_multiply(self._frames, rotations), quaternion_conjugate(self._frames)
        )
        qpos[self.qpos[:, None] + np.arange(4)] = wxyz(moved)

    def write_rates(self, qvel: FloatArray, angles: FloatArray, rates: FloatArray) -> None:
        """Write the angular velocities for angles and their rates (K, 3) into `qvel`."""
        middle, last = angles[:, 1], angles[:, 2]
        sine, cosine = np.sin(last), np.cos(last)
        spin = np.column_stack(
            [
                rates[:, 0] * np.cos(middle) * cosine + rates[:, 1] * sine,
                -rates[:, 0] * np.cos(middle) * sine + rates[:, 1] * cosine,
                rates[:, 0] * np.sin(middle) + rates[:, 2],
            ]
        )
        spin = np.where(self._inverted[:, None], -rotate(_rotation(angles), spin), spin)
        qvel[self.qvel[:, None] + np.arange(3)] = rotate(self._frames, spin)

    def _rotations(self, qpos: FloatArray) -> FloatArray:
        """Return the rotations (K, 4) of body1 in body0's joint frame."""
        moved = xyzw(qpos[self.qpos[:, None] + np.arange(4)])
        rotations = quaternion_multiply(
            quaternion_multiply(quaternion_conjugate(self._frames), moved), self._frames
        )
        return np.where(self._inverted[:, None], quaternion_conjugate(rotations), rotations)


def _rotation(angles: FloatArray) -> FloatArray:
    """Return the product of rotations by angles (K, 3) about X, Y and Z as quaternions (K, 4)."""
    half = 0.5 * angles
    parts = np.zeros((3, len(angles), 4))
    for axis in range(3):
        parts[axis, :, axis], parts[axis, :, 3] = np.sin(half[:, axis]), np.cos(half[:, axis])
    return quaternion_multiply(quaternion_multiply(parts[0], parts[1]), parts[2])


def _angles(rotations: FloatArray) -> FloatArray:
    """Return the angles (K, 3) of rotations about X, Y and Z whose product is `rotations` (K, 4)."""
    x, y, z = (rotate(rotations, np.broadcast_to(unit, (len(rotations), 3))) for unit in np.eye(3))
    middle = np.arctan2(z[:, 0], np.hypot(x[:, 0], y[:, 0]))
    return np.column_stack([np.arctan2(-z[:, 1], z[:, 2]), middle, np.arctan2(-y[:, 0], x[:, 0])])
