"""Velocities and accelerations of bodies, differentiated between ticks where the backend does not measure them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.transforms import (
    FloatArray,
    quaternion_conjugate,
    quaternion_multiply,
    rotation_vector,
)

TimeArray = NDArray[np.int64]


def finite_twist(before: FloatArray, after: FloatArray, seconds: FloatArray) -> FloatArray:
    """Returns the mean twists (N, 6) between poses (N, 7): linear then angular, in the frame the poses are given in.

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
    """Remembers the last pose and twist of every body, each with its own time, and differentiates them.

    A body's time is that of its robot's state, so a robot whose state arrives by topic keeps its twist until its next
    message. The first state of a body has no velocity: zeros. A body whose twist is measured passes it on.
    """

    def __init__(self, bodies: int) -> None:
        """Starts with nothing known of `bodies` bodies."""
        self._pose = np.zeros((bodies, 7))
        self._twist_time: TimeArray = np.zeros(bodies, dtype=np.int64)
        self._known = np.zeros(bodies, dtype=bool)
        self._twist_known = np.zeros(bodies, dtype=bool)
        self.twist: FloatArray = np.zeros((bodies, 6))
        self.acceleration: FloatArray = np.zeros((bodies, 6))

    def clear(self) -> None:
        """Forgets everything, after a reset."""
        self._known[:] = False
        self._twist_known[:] = False
        self.twist[:] = 0.0
        self.acceleration[:] = 0.0

    def observe(self, time: TimeArray, pose: FloatArray, measured: FloatArray | None) -> None:
        """Takes the poses of a tick.

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
