"""Ball joints: spherical joints that nothing drives, and the three angles that the plan knows them by.

Springs, dampers, armature and friction are a ball's where they are alike in all directions.

Three hinges would do the same, but for poses in which two of their axes coincide: there, forces grow without bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.poses import FloatArray, place, wxyz, xyzw
from usd_ros_bridge.model.physics import Dof, Joint
from usd_ros_bridge.model.transforms import compose, quaternion_conjugate, quaternion_multiply, rotate
from usd_ros_bridge.model.transforms import pose as make_pose

if TYPE_CHECKING:
    from usd_ros_bridge.backends.mujoco.built import Built

IndexArray = NDArray[np.intp]

_AXES = ("rotX", "rotY", "rotZ")
_ALIKE = 1e-6
"""rad: difference of the limits up to which a cone is round."""
_SITE_GROUP = 5
_LEVER = 0.1
"""m: how far from the joint the two points are whose distance the cone limits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ball:
    """A ball joint of a specification.

    Attributes:
        name: Name of MuJoCo's joint.
        first: Flattened index of the joint's first degree of freedom.
        frame: (4,) `child_from_joint`, x, y, z, w.
        inverted: Whether the child is body0 of the joint.
    """

    name: str
    first: int
    frame: FloatArray
    inverted: bool


def round_cone(joint: Joint) -> float | None:
    """Returns the half angle by which a spherical joint that nothing drives may swing, inf where it is free.

    None for a joint that three hinges have to make: one that is driven, that moves more easily about one axis than
    about another, whose spring rests elsewhere than at zero, or whose limits are no round cone.
    """
    if joint.type != "spherical" or tuple(dof.axis for dof in joint.dofs) != _AXES:
        return None
    if any(dof.drive is not None or dof.mimic is not None for dof in joint.dofs):
        return None
    # MuJoCo's ball has its spring act along the shortest turn back to zero, whatever its `springref`.
    if len({_passive(dof) for dof in joint.dofs}) > 1 or any(
        dof.stiffness and dof.spring_position for dof in joint.dofs
    ):
        return None
    limited = [dof for dof in joint.dofs if math.isfinite(dof.lower) or math.isfinite(dof.upper)]
    if not limited:
        return math.inf
    angle = limited[0].upper
    alike = all(abs(dof.upper - angle) + abs(dof.lower + angle) < _ALIKE for dof in limited)
    about = {dof.axis[-1] for dof in limited}
    is_cone = joint.axis is not None and about == {"X", "Y", "Z"} - {joint.axis}
    return angle if alike and is_cone and _ALIKE < angle < math.pi else None


def _passive(dof: Dof) -> tuple[float, float, float, float]:
    return dof.armature, dof.friction, dof.damping, dof.stiffness


def add_ball(
    built: Built, body: Any, parent: Any, index: int, frames: tuple[FloatArray, FloatArray], *, inverted: bool
) -> Any:
    """Adds a ball joint, and a limit to how far apart the joint's axis is in the two bodies.

    Args:
        built: What is being built.
        body: MuJoCo's body that it moves.
        parent: MuJoCo's body that that hangs from.
        index: Index of the joint in the scene.
        frames: `parent_from_joint` and `body_from_joint`.
        inverted: Whether the body is body0 of the joint.

    Returns:
        MuJoCo's joint.
    """
    joint = built.scene.joints[index]
    made = body.add_joint(name=joint.path, type=mujoco.mjtJoint.mjJNT_BALL, pos=frames[1][:3])
    first = built.offsets[index]
    built.balls.append(Ball(name=joint.path, first=first, frame=frames[1][3:], inverted=inverted))
    angle = round_cone(joint)
    if angle is None or math.isinf(angle) or joint.axis is None:
        return made
    tip = make_pose(_LEVER * np.eye(3)["XYZ".index(joint.axis)])
    tendon = built.spec.add_tendon(name=f"{joint.path}:cone")
    tendon.group = _SITE_GROUP
    for side, (owner, frame) in enumerate(zip((parent, body), frames, strict=True)):
        site = owner.add_site(name=f"{joint.path}:cone:{side}", group=_SITE_GROUP)
        place(site, compose(frame, tip))
        tendon.wrap_site(site.name)
    tendon.limited = 1
    tendon.range = [0.0, 2.0 * _LEVER * math.sin(0.5 * angle)]
    tendon.solref_limit = [5.0 * built.spec.option.timestep, 1.0]
    for key in ("solref_limit", "solimp_limit"):
        if key in joint.solver:
            values = np.atleast_1d(np.asarray(joint.solver[key], dtype=np.float64))
            getattr(tendon, key)[: len(values)] = values
    return made


class Balls:
    """Where the ball joints of a model are, and their angles.

    The angles are those of turns about X, Y and Z of the joint frame, one after another (body1 relative to body0).

    Attributes:
        dofs: (K, 3) flattened indices of their degrees of freedom.
        qpos: (K,) addresses of their quaternions w, x, y, z.
        qvel: (K,) addresses of their angular velocities in the child.
    """

    def __init__(self, model: Any, balls: list[Ball]) -> None:
        """Looks the joints up in a compiled model."""
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
        """Returns the angles (K, 3) in rad; the middle one from -pi/2 to pi/2."""
        return _angles(self._turns(qpos))

    def rates(self, qpos: FloatArray, qvel: FloatArray) -> FloatArray:
        """Returns the rates of change (K, 3) of the angles, rad/s; bounded where two axes coincide."""
        turns = self._turns(qpos)
        spin = rotate(quaternion_conjugate(self._frames), qvel[self.qvel[:, None] + np.arange(3)])
        # The child is body0: what body1 does in its own frame is the opposite, seen from there.
        spin = np.where(self._inverted[:, None], -rotate(quaternion_conjugate(turns), spin), spin)
        _, middle, last = np.moveaxis(_angles(turns), -1, 0)
        sine, cosine = np.sin(last), np.cos(last)
        first_rate = (spin[:, 0] * cosine - spin[:, 1] * sine) / np.maximum(np.cos(middle), 1e-6)
        middle_rate = spin[:, 0] * sine + spin[:, 1] * cosine
        return np.column_stack([first_rate, middle_rate, spin[:, 2] - first_rate * np.sin(middle)])

    def put(self, qpos: FloatArray, angles: FloatArray) -> None:
        """Writes the quaternions for angles (K, 3) into `qpos`."""
        turns = _turn(angles)
        turns = np.where(self._inverted[:, None], quaternion_conjugate(turns), turns)
        moved = quaternion_multiply(
            quaternion_multiply(self._frames, turns), quaternion_conjugate(self._frames)
        )
        qpos[self.qpos[:, None] + np.arange(4)] = wxyz(moved)

    def spin(self, qvel: FloatArray, angles: FloatArray, rates: FloatArray) -> None:
        """Writes the angular velocities for angles and their rates (K, 3) into `qvel`."""
        middle, last = angles[:, 1], angles[:, 2]
        sine, cosine = np.sin(last), np.cos(last)
        spin = np.column_stack(
            [
                rates[:, 0] * np.cos(middle) * cosine + rates[:, 1] * sine,
                -rates[:, 0] * np.cos(middle) * sine + rates[:, 1] * cosine,
                rates[:, 0] * np.sin(middle) + rates[:, 2],
            ]
        )
        spin = np.where(self._inverted[:, None], -rotate(_turn(angles), spin), spin)
        qvel[self.qvel[:, None] + np.arange(3)] = rotate(self._frames, spin)

    def _turns(self, qpos: FloatArray) -> FloatArray:
        """Returns how body1 is turned in body0's joint frame, (K, 4)."""
        moved = xyzw(qpos[self.qpos[:, None] + np.arange(4)])
        turns = quaternion_multiply(
            quaternion_multiply(quaternion_conjugate(self._frames), moved), self._frames
        )
        return np.where(self._inverted[:, None], quaternion_conjugate(turns), turns)


def _turn(angles: FloatArray) -> FloatArray:
    """Returns the product of turns by angles (K, 3) about X, Y and Z as quaternions (K, 4)."""
    half = 0.5 * angles
    parts = np.zeros((3, len(angles), 4))
    for axis in range(3):
        parts[axis, :, axis], parts[axis, :, 3] = np.sin(half[:, axis]), np.cos(half[:, axis])
    return quaternion_multiply(quaternion_multiply(parts[0], parts[1]), parts[2])


def _angles(turns: FloatArray) -> FloatArray:
    """Returns the angles (K, 3) of turns about X, Y and Z whose product is `turns` (K, 4)."""
    x, y, z = (rotate(turns, np.broadcast_to(unit, (len(turns), 3))) for unit in np.eye(3))
    middle = np.arctan2(z[:, 0], np.hypot(x[:, 0], y[:, 0]))
    return np.column_stack([np.arctan2(-z[:, 1], z[:, 2]), middle, np.arctan2(-y[:, 0], x[:, 0])])
