"""Ball joints: spherical joints without drives, and the three angles that they have in the plan.

A ball joint has springs, dampers, armature and friction where they are the same in all directions. Three hinges would
be equivalent, except in poses in which two of their axes coincide: there, forces grow without bound.
"""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.spec_builder import (
    AUXILIARY_GROUP,
    BallJoint,
    SpecBuilder,
    add_site,
    set_solver_values,
)
from usd_ros_bridge.model.physics import Dof, Joint
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    IndexArray,
    compose,
    quaternion_conjugate,
    quaternion_multiply,
    rotate,
    wxyz,
    xyzw,
)
from usd_ros_bridge.spatial.transforms import pose as make_pose

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

    Rerotations:
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
