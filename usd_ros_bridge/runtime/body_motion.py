"""Poses, velocities and accelerations of bodies: of single ones as plain floats, of all as arrays."""

from __future__ import annotations

from math import atan2, isnan, sqrt

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.spatial.scalar import Floats
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    quaternion_conjugate,
    quaternion_multiply,
    rotation_vector,
)

STILL: Floats = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class BodyMotion:
    """One body's twist and acceleration, differentiated between states where they are not measured.

    The first state has no velocity: zeros. A state with the time of the last one changes nothing.

    Attributes:
        twist: Linear then angular velocity of the body's origin in the world frame, m/s and rad/s.
        acceleration: Their change, per second, gravity left out.
    """

    __slots__ = ("_pose", "_time_ns", "_twist_known", "acceleration", "twist")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop the history, after a reset."""
        self.twist: Floats = STILL
        self.acceleration: Floats = STILL
        self._pose: Floats | None = None
        self._time_ns = 0
        self._twist_known = False

    def observe(self, time_ns: int, pose: Floats, measured: Floats | None) -> None:
        """Use the poses of a state from here on.

        Args:
            time_ns: Of the state; negative where nothing is known of the body's robot.
            pose: `world_from_body`, 7 floats.
            measured: Its twist in the world frame, NaN where not measured; None where none is.
        """
        before = self._pose
        if time_ns < 0 or (before is not None and time_ns == self._time_ns):
            return
        seconds = (time_ns - self._time_ns) * 1e-9
        forward = before is not None and seconds > 0.0
        whole = measured is not None and not isnan(sum(measured))
        if whole:
            assert measured is not None
            twist = measured
        else:
            twist = mean_twist(before, pose, seconds) if forward and before is not None else STILL
            if measured is not None:
                twist = [t if isnan(m) else m for t, m in zip(twist, measured, strict=True)]
        self.acceleration = change(self.twist, twist, seconds) if forward and self._twist_known else STILL
        self.twist = twist
        self._twist_known = forward or whole
        self._pose = pose
        self._time_ns = time_ns


def change(before: Floats, after: Floats, seconds: float) -> Floats:
    """Return the mean rate of change between two twists: 6 floats."""
    # Spelled out, at half the cost of a loop.
    ax, ay, az, bx, by, bz = before
    cx, cy, cz, dx, dy, dz = after
    rate = 1.0 / seconds
    return (
        (cx - ax) * rate,
        (cy - ay) * rate,
        (cz - az) * rate,
        (dx - bx) * rate,
        (dy - by) * rate,
        (dz - bz) * rate,
    )


def mean_twist(before: Floats, after: Floats, seconds: float) -> Floats:
    """Return the mean twist between two poses: linear then angular, in the frame that the poses are given in."""
    # `multiply` by the inverse of the first rotation, written out: this is called for every body with an Imu.
    bx, by, bz, rx, ry, rz, rw = before
    ax, ay, az, lx, ly, lz, lw = after
    rx, ry, rz = -rx, -ry, -rz
    x = lw * rx + lx * rw + ly * rz - lz * ry
    y = lw * ry - lx * rz + ly * rw + lz * rx
    z = lw * rz + lx * ry - ly * rx + lz * rw
    w = lw * rw - lx * rx - ly * ry - lz * rz
    if w < 0.0:
        x, y, z, w = -x, -y, -z, -w
    length = sqrt(x * x + y * y + z * z)
    scale = (2.0 * atan2(length, w) / length if length > 1e-12 else 2.0) / seconds
    rate = 1.0 / seconds
    return (
        (ax - bx) * rate,
        (ay - by) * rate,
        (az - bz) * rate,
        x * scale,
        y * scale,
        z * scale,
    )


TimeArray = NDArray[np.int64]


def finite_twist(before: FloatArray, after: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the mean twists (N, 6) between poses (N, 7): linear then angular, in the frame the poses are given in.

    Args:
        before: `world_from_body` at the start.
        after: `world_from_body` at the end.
        seconds: (N,) time between them, positive.
    """
    linear = after[:, :3] - before[:, :3]
    turn = quaternion_multiply(after[:, 3:], quaternion_conjugate(before[:, 3:]))
    twist: FloatArray = np.concatenate((linear, rotation_vector(turn)), axis=-1) / seconds[:, None]
    return twist


class MotionTracker:
    """Differentiate poses and twists of all bodies, each with its own time.

    A body's time is that of its robot's state, so a robot whose state arrives by topic keeps its twist until its next
    message. The first state of a body has no velocity: zeros. A body whose twist is measured passes it on.
    """

    def __init__(self, bodies: int) -> None:
        self._pose = np.zeros((bodies, 7))
        self._twist_time: TimeArray = np.zeros(bodies, dtype=np.int64)
        self._known = np.zeros(bodies, dtype=bool)
        self._twist_known = np.zeros(bodies, dtype=bool)
        self.twist: FloatArray = np.zeros((bodies, 6))
        self.acceleration: FloatArray = np.zeros((bodies, 6))

    def clear(self) -> None:
        """Drop the history, after a reset."""
        self._known[:] = False
        self._twist_known[:] = False
        self.twist[:] = 0.0
        self.acceleration[:] = 0.0

    def observe(self, time: TimeArray, pose: FloatArray, measured: FloatArray | None) -> None:
        """Use the poses of a tick from here on.

        Args:
            time: (B,) nanoseconds; -1 where nothing is known of the body's robot.
            pose: (B, 7) `world_from_body`.
            measured: (B, 6) twists in the world frame, NaN where not measured; None where none is.
        """
        fresh = (time >= 0) & (~self._known | (time != self._twist_time))
        if not fresh.any():
            return
        rows = np.flatnonzero(fresh)
        seconds = (time[rows] - self._twist_time[rows]) * 1e-9
        forward = self._known[rows] & (seconds > 0.0)
        divisor = np.where(forward, seconds, 1.0)
        twist = finite_twist(self._pose[rows], pose[rows], divisor)
        if measured is not None:
            known = ~np.isnan(measured[rows])
            twist = np.where(known, measured[rows], twist * forward[:, None])
            has_twist = forward | known.all(axis=-1)
        else:
            twist = twist * forward[:, None]
            has_twist = forward
        change = (twist - self.twist[rows]) / divisor[:, None]
        comparable = forward & self._twist_known[rows]
        self.acceleration[rows] = np.where(comparable[:, None], change, 0.0)
        self.twist[rows] = twist
        self._twist_known[rows] = has_twist
        self._pose[rows] = pose[rows]
        self._twist_time[rows] = time[rows]
        self._known[rows] = True
