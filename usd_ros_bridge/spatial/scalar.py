"""Transforms and motions of one body as plain floats: a tenth of the cost of arrays, for one.

Numpy spends about a microsecond a call, whatever the size; a message about one body would take forty such calls. Poses
are sequences of 7 floats (x, y, z, quaternion x, y, z, w), twists and accelerations of 6, linear then angular, all SI.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

Floats = Sequence[float]
Vector3 = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
"""x, y, z, w, as in geometry_msgs."""

UP: Vector3 = (0.0, 0.0, 9.81)
"""Specific force at rest in the ROS world, m/s^2: it points against gravity."""


def finite(values: Floats) -> bool:
    """Return whether no value is NaN or infinite."""
    return isfinite(sum(values))


UNIT_TOLERANCE = 1e-2
"""Largest difference of a quaternion's squared length from 1. tf2 ignores transforms beyond it."""


def unit_fault(rotation: Floats) -> str:
    """Return what is wrong with a quaternion that must be of unit length, "" if nothing is."""
    x, y, z, w = rotation
    # NaN is in no range.
    if abs(x * x + y * y + z * z + w * w - 1.0) <= UNIT_TOLERANCE:
        return ""
    return f"({x:g}, {y:g}, {z:g}, {w:g}), which is no unit quaternion"


def rotate(rotation: Floats, vector: Floats) -> Vector3:
    """Return a vector rotated by a unit quaternion."""
    x, y, z, w = rotation
    vx, vy, vz = vector
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    return (vx + w * tx + y * tz - z * ty, vy + w * ty + z * tx - x * tz, vz + w * tz + x * ty - y * tx)


def rotate_back(rotation: Floats, vector: Floats) -> Vector3:
    """Return a vector rotated by the inverse of a unit quaternion."""
    x, y, z, w = rotation
    vx, vy, vz = vector
    tx, ty, tz = 2.0 * (z * vy - y * vz), 2.0 * (x * vz - z * vx), 2.0 * (y * vx - x * vy)
    return (vx + w * tx - y * tz + z * ty, vy + w * ty - z * tx + x * tz, vz + w * tz - x * ty + y * tx)


def multiply(left: Floats, right: Floats) -> Quaternion:
    """Return the Hamilton product of two quaternions."""
    lx, ly, lz, lw = left
    rx, ry, rz, rw = right
    return (
        lw * rx + lx * rw + ly * rz - lz * ry,
        lw * ry - lx * rz + ly * rw + lz * rx,
        lw * rz + lx * ry - ly * rx + lz * rw,
        lw * rw - lx * rx - ly * ry - lz * rz,
    )


def conjugate(rotation: Floats) -> Quaternion:
    """Return the inverse of a unit quaternion."""
    x, y, z, w = rotation
    return -x, -y, -z, w


def cross(left: Floats, right: Floats) -> Vector3:
    """Return the cross product."""
    lx, ly, lz = left
    rx, ry, rz = right
    return (ly * rz - lz * ry, lz * rx - lx * rz, lx * ry - ly * rx)


def compose(a_from_b: Floats, b_from_c: Floats) -> list[float]:
    """Return `a_from_c`: 7 floats."""
    # `rotate` and `multiply` written out: this is called for every joint between a body and what carries it.
    ax, ay, az, x, y, z, w = a_from_b
    vx, vy, vz, rx, ry, rz, rw = b_from_c
    tx, ty, tz = 2.0 * (y * vz - z * vy), 2.0 * (z * vx - x * vz), 2.0 * (x * vy - y * vx)
    return [
        ax + vx + w * tx + y * tz - z * ty,
        ay + vy + w * ty + z * tx - x * tz,
        az + vz + w * tz + x * ty - y * tx,
        w * rx + x * rw + y * rz - z * ry,
        w * ry - x * rz + y * rw + z * rx,
        w * rz + x * ry - y * rx + z * rw,
        w * rw - x * rx - y * ry - z * rz,
    ]


def relative(world_from_a: Floats, world_from_b: Floats) -> tuple[float, ...]:
    """Return `a_from_b`: 7 floats."""
    # `rotate_back` and `multiply` written out: this is called for every Odometry.
    ax, ay, az, x, y, z, w = world_from_a
    bx, by, bz, rx, ry, rz, rw = world_from_b
    vx, vy, vz = bx - ax, by - ay, bz - az
    tx, ty, tz = 2.0 * (z * vy - y * vz), 2.0 * (x * vz - z * vx), 2.0 * (y * vx - x * vy)
    return (
        vx + w * tx - y * tz + z * ty,
        vy + w * ty - z * tx + x * tz,
        vz + w * tz - x * ty + y * tx,
        w * rx - x * rw - y * rz + z * ry,
        w * ry + x * rz - y * rw - z * rx,
        w * rz - x * ry + y * rx - z * rw,
        w * rw + x * rx + y * ry + z * rz,
    )


def in_axes(rotation: Floats, twist: Floats) -> tuple[float, ...]:
    """Return a twist or acceleration of the world frame in axes turned by `rotation`: 6 floats."""
    # Two of `rotate_back` in one: this is called for every message with a twist.
    x, y, z, w = rotation
    vx, vy, vz, sx, sy, sz = twist
    tx, ty, tz = 2.0 * (z * vy - y * vz), 2.0 * (x * vz - z * vx), 2.0 * (y * vx - x * vy)
    ux, uy, uz = 2.0 * (z * sy - y * sz), 2.0 * (x * sz - z * sx), 2.0 * (y * sx - x * sy)
    return (
        vx + w * tx - y * tz + z * ty,
        vy + w * ty - z * tx + x * tz,
        vz + w * tz - x * ty + y * tx,
        sx + w * ux - y * uz + z * uy,
        sy + w * uy - z * ux + x * uz,
        sz + w * uz - x * uy + y * ux,
    )


def velocity_at(rotation: Floats, twist: Floats, lever: Floats) -> tuple[float, ...]:
    """Return the twist of a point that is fixed to a body, in the world frame: 6 floats.

    Args:
        rotation: Quaternion of the body in the world.
        twist: Twist of the body's origin in the world frame.
        lever: The point in the body's frame, m.
    """
    vx, vy, vz, *spin = twist
    cx, cy, cz = cross(spin, rotate(rotation, lever))
    return (vx + cx, vy + cy, vz + cz, *spin)


def acceleration_at(rotation: Floats, twist: Floats, acceleration: Floats, lever: Floats) -> Vector3:
    """Return the linear acceleration of a point that is fixed to a body, in the world frame, m/s^2.

    Args:
        rotation: Quaternion of the body in the world.
        twist: Twist of the body's origin in the world frame.
        acceleration: Acceleration of the body's origin in the world frame, without gravity.
        lever: The point in the body's frame, m.
    """
    ax, ay, az, *change = acceleration
    spin = twist[3:]
    arm = rotate(rotation, lever)
    tx, ty, tz = cross(change, arm)
    cx, cy, cz = cross(spin, cross(spin, arm))
    return (ax + tx + cx, ay + ty + cy, az + tz + cz)


class Mounting:
    """Pose of a sensor on its body.

    Attributes:
        lever: Its position in the body, m; None where it is the body's origin.
        rotation: Its quaternion in the body; None where it is aligned with the body.
    """

    __slots__ = ("lever", "rotation")

    def __init__(self, body_from_sensor: Floats) -> None:
        """Store the pose of the sensor in the body: 7 floats."""
        lever, rotation = tuple(body_from_sensor[:3]), tuple(body_from_sensor[3:])
        self.lever: Floats | None = lever if any(lever) else None
        self.rotation: Floats | None = rotation if rotation != (0.0, 0.0, 0.0, 1.0) else None


def imu(
    rotation: Floats, twist: Floats, acceleration: Floats, mounting: Mounting
) -> tuple[Floats, Floats, Floats]:
    """Return what an ideal IMU measures (REP 145).

    Args:
        rotation: Quaternion of the body in the world.
        twist: Twist of the body's origin in the world frame.
        acceleration: Acceleration of the body's origin in the world frame, without gravity.
        mounting: Where the sensor sits on the body.

    Returns:
        Orientation of the sensor in the world; angular velocity (rad/s) and specific force (m/s^2) in the sensor's
        frame: at rest, gravity pointing up.
    """
    orientation = rotation if mounting.rotation is None else multiply(rotation, mounting.rotation)
    if mounting.lever is None:
        ax, ay, az, _, _, _ = acceleration
    else:
        ax, ay, az = acceleration_at(rotation, twist, acceleration, mounting.lever)
    ux, uy, uz = UP
    _, _, _, sx, sy, sz = twist
    turned = in_axes(orientation, (ax + ux, ay + uy, az + uz, sx, sy, sz))
    return orientation, turned[3:], turned[:3]
