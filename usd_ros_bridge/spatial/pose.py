"""Poses: rigid transforms of plans, one at a time, as plain floats. Arrays of them are in `spatial.transforms`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from usd_ros_bridge.spatial.scalar import Quaternion, Vector3, conjugate, multiply, rotate

RIGHT_ANGLE: Final = 1e-12
"""Cosine of a pitch below which it is a right angle, at which roll and yaw are one."""


@dataclass(frozen=True, slots=True)
class Pose:
    """A rigid transform: metres, and a unit quaternion x, y, z, w. Names say which: `parent_from_child`."""

    translation: Vector3 = (0.0, 0.0, 0.0)
    rotation: Quaternion = (0.0, 0.0, 0.0, 1.0)


IDENTITY_POSE: Final = Pose()


def normalized(pose: Pose) -> Pose:
    """Return a pose whose quaternion is of unit length; the identity for what is no pose."""
    x, y, z, w = pose.rotation
    length = math.sqrt(x * x + y * y + z * z + w * w)
    if not (0.0 < length < math.inf and all(map(math.isfinite, pose.translation))):
        return IDENTITY_POSE
    return pose if length == 1.0 else Pose(pose.translation, (x / length, y / length, z / length, w / length))


def compose(a_from_b: Pose, b_from_c: Pose) -> Pose:
    """Return `a_from_c`."""
    if a_from_b is IDENTITY_POSE:
        return b_from_c
    if b_from_c is IDENTITY_POSE:
        return a_from_b
    x, y, z = a_from_b.translation
    dx, dy, dz = rotate(a_from_b.rotation, b_from_c.translation)
    return Pose((x + dx, y + dy, z + dz), multiply(a_from_b.rotation, b_from_c.rotation))


def inverse(a_from_b: Pose) -> Pose:
    """Return `b_from_a`."""
    back = conjugate(a_from_b.rotation)
    x, y, z = rotate(back, a_from_b.translation)
    return Pose((-x, -y, -z), back)


def rotation_matrix(rotation: Quaternion) -> tuple[Vector3, Vector3, Vector3]:
    """Return the rows of the rotation matrix of a unit quaternion."""
    x, y, z, w = rotation
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)),
        (2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)),
        (2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)),
    )


def roll_pitch_yaw(rotation: Quaternion) -> Vector3:
    """Return the angles about fixed X, Y and Z axes, in this order, of a unit quaternion, radians.

    Roll follows from what yaw and pitch leave, so that the three together are exact where pitch is a right angle, too.
    """
    (m00, m01, m02), (m10, m11, m12), (m20, _, _) = rotation_matrix(rotation)
    level = math.hypot(m00, m10)
    yaw = math.atan2(m10, m00) if level > RIGHT_ANGLE else 0.0
    sine, cosine = math.sin(yaw), math.cos(yaw)
    roll = math.atan2(sine * m02 - cosine * m12, cosine * m11 - sine * m01)
    return roll, math.atan2(-m20, level), yaw
