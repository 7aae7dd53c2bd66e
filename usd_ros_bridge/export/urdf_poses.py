"""Rigid transforms as plain floats: one at a time a tenth of what numpy takes, and a description has hundreds."""

from __future__ import annotations

import math
from typing import Final

from usd_ros_bridge.model.plan import HERE, Pose
from usd_ros_bridge.model.records import Quaternion, Vector3

RIGHT_ANGLE: Final = 1e-12
"""Cosine of a pitch below which it is a right angle, at which roll and yaw are one."""


def normalized(pose: Pose) -> Pose:
    """Returns a pose whose quaternion is of unit length; the identity for what is no pose."""
    x, y, z, w = pose.rotation
    length = math.sqrt(x * x + y * y + z * z + w * w)
    if not (0.0 < length < math.inf and all(map(math.isfinite, pose.translation))):
        return HERE
    return pose if length == 1.0 else Pose(pose.translation, (x / length, y / length, z / length, w / length))


def multiply(left: Quaternion, right: Quaternion) -> Quaternion:
    """Returns the Hamilton product."""
    lx, ly, lz, lw = left
    rx, ry, rz, rw = right
    return (
        lw * rx + lx * rw + ly * rz - lz * ry,
        lw * ry - lx * rz + ly * rw + lz * rx,
        lw * rz + lx * ry - ly * rx + lz * rw,
        lw * rw - lx * rx - ly * ry - lz * rz,
    )


def conjugate(rotation: Quaternion) -> Quaternion:
    """Returns the inverse of a unit quaternion."""
    x, y, z, w = rotation
    return -x, -y, -z, w


def rotate(rotation: Quaternion, vector: Vector3) -> Vector3:
    """Returns a vector rotated by a unit quaternion."""
    x, y, z, w = rotation
    vx, vy, vz = vector
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    return vx + w * tx + y * tz - z * ty, vy + w * ty + z * tx - x * tz, vz + w * tz + x * ty - y * tx


def compose(a_from_b: Pose, b_from_c: Pose) -> Pose:
    """Returns `a_from_c`."""
    if a_from_b is HERE:
        return b_from_c
    if b_from_c is HERE:
        return a_from_b
    x, y, z = a_from_b.translation
    dx, dy, dz = rotate(a_from_b.rotation, b_from_c.translation)
    return Pose((x + dx, y + dy, z + dz), multiply(a_from_b.rotation, b_from_c.rotation))


def inverse(a_from_b: Pose) -> Pose:
    """Returns `b_from_a`."""
    back = conjugate(a_from_b.rotation)
    x, y, z = rotate(back, a_from_b.translation)
    return Pose((-x, -y, -z), back)


def rotation_matrix(rotation: Quaternion) -> tuple[Vector3, Vector3, Vector3]:
    """Returns the rows of the rotation matrix of a unit quaternion."""
    x, y, z, w = rotation
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)),
        (2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)),
        (2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)),
    )


def roll_pitch_yaw(rotation: Quaternion) -> Vector3:
    """Returns the angles about fixed X, Y and Z axes, in this order, of a unit quaternion, radians.

    Roll follows from what yaw and pitch leave, so that the three together are exact where pitch is a right angle, too.
    """
    (m00, m01, m02), (m10, m11, m12), (m20, _, _) = rotation_matrix(rotation)
    level = math.hypot(m00, m10)
    yaw = math.atan2(m10, m00) if level > RIGHT_ANGLE else 0.0
    sine, cosine = math.sin(yaw), math.cos(yaw)
    roll = math.atan2(sine * m02 - cosine * m12, cosine * m11 - sine * m01)
    return roll, math.atan2(-m20, level), yaw
