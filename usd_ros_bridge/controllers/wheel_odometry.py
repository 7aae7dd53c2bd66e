"""Wheel odometry of differential drives: from positions of wheels to the pose and the twist of bases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.spatial.transforms import FloatArray

_SECONDS = 1e-9
SHORTEST_NS = 1_000
"""States that are closer in time than this say nothing about a velocity (as in diff_drive_controller)."""
LONGEST_RELATED_NS = 250_000_000
"""Of intervals that are longer, the last one does not show how the twist changes within."""
_COMPARABLE = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wheels:
    """The W wheels of K drives.

    Attributes:
        rows: (W,) layout rows.
        slots: (W,) 2 * drive for a wheel on the left, 2 * drive + 1 for one on the right.
        signs: (W,) 1 where a positive position rolls the drive forward, else -1.
        radius: (K,) m.
        separation: (K,) m, between the left and the right wheels.
    """

    rows: NDArray[np.intp]
    slots: NDArray[np.intp]
    signs: FloatArray
    radius: FloatArray
    separation: FloatArray


def arc(
    translation: FloatArray, lateral: FloatArray, rotation: FloatArray, heading: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return how far bases come that move with constant twists: the exponential map of SE(2).

    Args:
        translation: (K,) path length ahead, m.
        lateral: (K,) path length to the left, m.
        rotation: (K,) change of heading, rad.
        heading: (K,) heading at the start, rad.

    Returns:
        Change of x and of y in the frame that the heading is given in, m.
    """
    chord = np.sinc(rotation / (2.0 * np.pi))
    middle = heading + 0.5 * rotation
    cosine, sine = chord * np.cos(middle), chord * np.sin(middle)
    return translation * cosine - lateral * sine, translation * sine + lateral * cosine


def varying_twist(
    translation: FloatArray,
    rotation: FloatArray,
    seconds: FloatArray,
    last_translation: FloatArray,
    last_rotation: FloatArray,
    last_seconds: FloatArray,
) -> FloatArray:
    """Return the lateral motion that a twist makes which changes linearly over this interval and the last one.

    The first term of the Magnus expansion beyond the mean twist: a commutator of the twist and of its change. With it
    the pose is of fourth order in the step, as with the sculling corrections of strapdown navigation.

    Args:
        translation: (K,) path length of this interval, m.
        rotation: (K,) change of heading, rad.
        seconds: (K,) length of this interval.
        last_translation: (K,) path length of the interval before.
        last_rotation: (K,) change of heading in the interval before.
        last_seconds: (K,) length of the interval before; NaN where there is none, or none that is of use.

    Returns:
        (K,) metres to the left; 0 where there was no interval before or one of quite another length.
    """
    bracket = last_rotation * translation - rotation * last_translation
    with np.errstate(invalid="ignore"):
        comparable = (last_seconds <= _COMPARABLE * seconds) & (seconds <= _COMPARABLE * last_seconds)
    related = np.where(comparable, last_seconds, np.inf)
    return np.where(comparable, seconds * seconds / (6.0 * related * (seconds + related)), 0.0) * bracket


class WheelOdometry:
    """Poses and twists of the bases of K drives, integrated from the positions of their wheels.

    The first state is the start. A state in which a wheel of a drive has no finite position is passed over by that
    drive, the next one spans the gap.

    Attributes:
        odom_from_base: (K, 7) pose.
        base_twist: (K, 6) linear then angular velocity in the base's own frame.
    """

    def __init__(self, wheels: Wheels) -> None:
        """Start at the origin."""
        self._wheels = wheels
        count = len(wheels.radius)
        self._slots = 2 * count
        on_side = np.bincount(wheels.slots, minlength=self._slots)
        drive = wheels.slots // 2
        self._drive = drive
        self._metres = wheels.signs * wheels.radius[drive] / on_side[wheels.slots]
        self._can_run = (on_side.reshape(-1, 2) > 0).all(axis=1)
        self.odom_from_base = np.zeros((count, 7))
        self.base_twist = np.zeros((count, 6))
        self.reset()

    def reset(self) -> None:
        """Start over at the origin, from the next state on."""
        count = len(self.odom_from_base)
        self.odom_from_base[:] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
        self.base_twist[:] = 0.0
        self._heading = np.zeros(count)
        self._position = np.full(len(self._drive), np.nan)
        self._time = np.full(count, -1, dtype=np.int64)
        self._last = np.zeros((2, count))
        self._last_seconds = np.full(count, np.nan)

    def transfer_state(self, row: int, other: WheelOdometry, other_row: int) -> None:
        """Continue from the pose of another drive. The next state begins a new interval."""
        self.odom_from_base[row] = other.odom_from_base[other_row]
        self._heading[row] = other._heading[other_row]

    def update(self, position: FloatArray, time_ns: NDArray[np.int64]) -> None:
        """Integrate the travel since the last state.

        Args:
            position: (D,) positions of all degrees of freedom, rad.
            time_ns: (K,) time of the state of each drive, nanoseconds; -1 where nothing is known yet.
        """
        wheels = self._wheels
        now = position[wheels.rows]
        moved = self._metres * (now - self._position)
        travel = _by_side(wheels.slots, moved, self._slots)
        elapsed = time_ns - self._time
        finite = np.isfinite(travel).all(axis=1) & self._can_run
        step = finite & (elapsed >= SHORTEST_NS) & (self._time >= 0)
        if not step.all():
            self._restart(now, time_ns, elapsed)
        if not step.any():
            return
        self._advance(travel, np.asarray(elapsed * _SECONDS, dtype=np.float64), step)
        whose = step[self._drive]
        self._position = now if whose.all() else np.where(whose, now, self._position)
        self._time = np.where(step, time_ns, self._time)

    def _restart(self, now: FloatArray, time_ns: NDArray[np.int64], elapsed: NDArray[np.int64]) -> None:
        """Begin a new interval at a first state, or at one from before the last. The pose stays."""
        wheels = self._wheels
        known = np.isfinite(_by_side(wheels.slots, now, self._slots)).all(axis=1)
        start = known & self._can_run & (time_ns >= 0) & ((self._time < 0) | (elapsed < 0))
        if not start.any():
            return
        self._position = np.where(start[self._drive], now, self._position)
        self._time = np.where(start, time_ns, self._time)
        self._last_seconds[start] = np.nan
        self.base_twist[start] = 0.0

    def _advance(self, travel: FloatArray, seconds: FloatArray, step: NDArray[np.bool_]) -> None:
        """Move the drives of `step` on by the `travel` (K, 2) of their left and right wheels."""
        everyone = bool(step.all())
        if not everyone:
            travel = np.where(step[:, None], travel, 0.0)
            seconds = np.where(step, seconds, 1.0)
        left, right = travel.T
        translation = 0.5 * (left + right)
        rotation = (right - left) / self._wheels.separation
        if travel.any():
            lateral = varying_twist(
                translation, rotation, seconds, self._last[0], self._last[1], self._last_seconds
            )
            x, y = arc(translation, lateral, rotation, self._heading)
            self._heading += rotation
            pose = self.odom_from_base
            pose[:, 0] += x
            pose[:, 1] += y
            np.sin(0.5 * self._heading, out=pose[:, 5])
            np.cos(0.5 * self._heading, out=pose[:, 6])
        longest = LONGEST_RELATED_NS * _SECONDS
        last_seconds = np.where(seconds <= longest, seconds, np.nan)
        if everyone:
            self.base_twist[:, 0] = translation / seconds
            self.base_twist[:, 5] = rotation / seconds
            self._last[0], self._last[1] = translation, rotation
            self._last_seconds = last_seconds
            return
        np.copyto(self.base_twist[:, 0], translation / seconds, where=step)
        np.copyto(self.base_twist[:, 5], rotation / seconds, where=step)
        np.copyto(self._last, (translation, rotation), where=step)
        np.copyto(self._last_seconds, last_seconds, where=step)


def _by_side(slots: NDArray[np.intp], values: FloatArray, count: int) -> FloatArray:
    """Return (K, 2) sums over the wheels of each side."""
    sums: FloatArray = np.bincount(slots, values, count).astype(np.float64, copy=False)
    return sums.reshape(-1, 2)
