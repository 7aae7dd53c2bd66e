"""Trajectories of joints as piecewise polynomials: made from points once, sampled at any time.

Interpolation as in joint_trajectory_controller of ros2_controllers: linear where an end of a segment has positions
only, cubic where both have velocities, quintic where both have accelerations too. Times are integers of nanoseconds.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.spatial.transforms import FloatArray

BoolArray = NDArray[np.bool_]

_SECONDS = 1e-9
_POWERS = struct.Struct("18d")
"""The powers of a time, and their first and second derivatives."""
_TURN = 2.0 * math.pi
_TIE = 1e-9
"""rad. Half a turn within this is ambiguous: which way round is then left as the numbers have it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Knots:
    """Points of a trajectory, all J joints of a controller in its order. Rows of what is not given are zeros.

    Attributes:
        times_ns: K times, strictly increasing, nanoseconds from any origin.
        position: (K, J) rad or m.
        velocity: (K, J) rad/s or m/s.
        acceleration: (K, J) rad/s^2 or m/s^2.
        effort: (K, J) N m or N; None where no point has any.
        has_velocity: (K,) which rows of `velocity` are given.
        has_acceleration: (K,) which rows of `acceleration` are given; of no use without velocity.
        clamped: Which position was beyond a limit and is clamped, in words; "" where none was.
    """

    times_ns: Sequence[int]
    position: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    effort: FloatArray | None
    has_velocity: BoolArray
    has_acceleration: BoolArray
    clamped: str = ""


class Spline:
    """A piecewise polynomial through knots.

    Before its first knot it rests at `before`, after its last there, with the effort given there.

    Attributes:
        end_ns: Time of the last knot.
    """

    __slots__ = (
        "_after",
        "_before",
        "_coefficients",
        "_effort",
        "_powers",
        "_powers_data",
        "_sampled",
        "_sampled_ns",
        "_times",
        "end_ns",
    )

    def __init__(self, knots: Knots, before: FloatArray) -> None:
        """Compute the coefficients of all segments.

        Args:
            knots: At least one.
            before: (J,) positions before the first knot.
        """
        self._times = list(knots.times_ns)
        self.end_ns = self._times[-1]
        self._coefficients = segment_coefficients(knots)
        self._effort = knots.effort
        self._before = _at_rest(before)
        self._after = _at_rest(knots.position[-1])
        self._powers = np.empty((3, 6))
        self._powers_data = self._powers.data
        self._sampled = self._before
        self._sampled_ns: int | None = None

    def sample(self, time_ns: int) -> FloatArray:
        """Return (3, J) position, velocity and acceleration at a time; not to be changed."""
        if time_ns >= self.end_ns:
            return self._after
        if time_ns == self._sampled_ns:
            # What is commanded of a tick is what its state is compared with.
            return self._sampled
        segment = bisect_right(self._times, time_ns) - 1
        if segment < 0:
            return self._before
        t = (time_ns - self._times[segment]) * _SECONDS
        t2 = t * t
        t3 = t2 * t
        t4 = t3 * t
        # Derivative by derivative, in one call: an array from nested tuples takes four times as long.
        _POWERS.pack_into(
            self._powers_data,
            0,
            1.0,
            t,
            t2,
            t3,
            t4,
            t4 * t,
            0.0,
            1.0,
            2.0 * t,
            3.0 * t2,
            4.0 * t3,
            5.0 * t4,
            0.0,
            0.0,
            2.0,
            6.0 * t,
            12.0 * t2,
            20.0 * t3,
        )
        # dot, not @: less than half the time for matrices as small as these.
        self._sampled = self._powers.dot(self._coefficients[segment])
        self._sampled_ns = time_ns
        return self._sampled

    def effort(self, time_ns: int) -> FloatArray | None:
        """Return (J,) efforts at a time, linear between knots, zero before the first; None where none are given."""
        if self._effort is None:
            return None
        begin = bisect_right(self._times, time_ns) - 1
        if begin < 0:
            return np.zeros(self._effort.shape[1])
        end = min(begin + 1, len(self._times) - 1)
        weight = (
            0.0 if begin == end else (time_ns - self._times[begin]) / (self._times[end] - self._times[begin])
        )
        effort: FloatArray = (1.0 - weight) * self._effort[begin] + weight * self._effort[end]
        return effort

    def passed(self, time_ns: int) -> int:
        """Return how many knots lie at or before a time."""
        return bisect_right(self._times, time_ns)

    def shift(self, offset: FloatArray) -> None:
        """Add (J,) an offset to all positions but those before the first knot."""
        self._coefficients[:, 0] += offset
        self._sampled_ns = None
        self._after = _at_rest(self._after[0] + offset)


def segment_coefficients(knots: Knots) -> FloatArray:
    """Return (K-1, 6, J) coefficients of increasing powers of the seconds since each segment's first knot."""
    # Differences as integers: seconds of wall time as floats would be a tenth of a microsecond off.
    origin = knots.times_ns[0]
    elapsed_ns = np.array([time_ns - origin for time_ns in knots.times_ns], dtype=np.int64)
    seconds = np.diff(elapsed_ns).astype(np.float64) * _SECONDS
    count, joints = len(seconds), knots.position.shape[1]
    coefficients = np.zeros((count, 6, joints))
    coefficients[:, 0] = knots.position[:-1]
    cubic = knots.has_velocity[:-1] & knots.has_velocity[1:]
    quintic = cubic & knots.has_acceleration[:-1] & knots.has_acceleration[1:]
    linear = ~cubic
    cubic &= ~quintic
    rise = np.diff(knots.position, axis=0)
    if linear.any():
        coefficients[linear, 1] = rise[linear] / seconds[linear, None]
    if cubic.any():
        at, after = np.flatnonzero(cubic), np.flatnonzero(cubic) + 1
        coefficients[at, 1:4] = _cubic(
            seconds[at, None], rise[at], knots.velocity[at], knots.velocity[after]
        ).transpose(1, 0, 2)
    if quintic.any():
        at, after = np.flatnonzero(quintic), np.flatnonzero(quintic) + 1
        coefficients[at, 1:] = _quintic(
            seconds[at, None],
            rise[at],
            (knots.velocity[at], knots.velocity[after]),
            (knots.acceleration[at], knots.acceleration[after]),
        ).transpose(1, 0, 2)
    return coefficients


def _cubic(seconds: FloatArray, rise: FloatArray, begin: FloatArray, end: FloatArray) -> FloatArray:
    """Return (3, S, J) coefficients of t to t^3 that rise so far with these velocities at the ends."""
    slope = rise / seconds
    return np.stack(
        (begin, (3.0 * slope - 2.0 * begin - end) / seconds, (begin + end - 2.0 * slope) / seconds**2)
    )


def _quintic(
    seconds: FloatArray,
    rise: FloatArray,
    velocity: tuple[FloatArray, FloatArray],
    acceleration: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Return (5, S, J) coefficients of t to t^5 with these velocities and accelerations at the ends."""
    half = 0.5 * acceleration[0]
    # What is left to do at the end beyond constant acceleration, brought to the unit interval.
    d0 = rise - velocity[0] * seconds - half * seconds**2
    d1 = (velocity[1] - velocity[0]) * seconds - acceleration[0] * seconds**2
    d2 = (acceleration[1] - acceleration[0]) * seconds**2
    return np.stack(
        (
            velocity[0],
            half,
            (10.0 * d0 - 4.0 * d1 + 0.5 * d2) / seconds**3,
            (-15.0 * d0 + 7.0 * d1 - d2) / seconds**4,
            (6.0 * d0 - 3.0 * d1 + 0.5 * d2) / seconds**5,
        )
    )


def turns_towards(position: FloatArray, reference: FloatArray, wraps: BoolArray) -> FloatArray:
    """Return (J,) whole turns in rad to add to `position` so that it lies within half a turn of `reference`.

    Args:
        position: (J,) rad or m.
        reference: (J,) rad or m.
        wraps: (J,) joints that a turn brings back; zero for the others. Exactly half a turn apart, which way the
            numbers lie decides.
    """
    apart = (position - reference) / _TURN
    whole = np.sign(apart) * np.ceil(np.abs(apart) - 0.5 - _TIE / _TURN)
    return np.where(wraps, -_TURN * whole, 0.0)


def wrapped(error: FloatArray, wraps: BoolArray) -> FloatArray:
    """Return (J,) differences, those of joints that wrap brought within half a turn."""
    return error - np.where(wraps, _TURN * np.round(error / _TURN), 0.0)


def _at_rest(position: FloatArray) -> FloatArray:
    state = np.zeros((3, len(position)))
    state[0] = position
    return state


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Start:
    """State and time at the start of a motion.

    Attributes:
        now_ns: Bridge time of its first command.
        anchor_ns: Time of `position` and `velocity`, where the way to the first point begins; not after `now_ns`.
        position: (J,) rad or m.
        velocity: (J,) rad/s or m/s.
    """

    now_ns: int
    anchor_ns: int
    position: FloatArray
    velocity: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Motion:
    """A trajectory on bridge time.

    Attributes:
        spline: Desired states; it waits where the motion began until the trajectory starts.
        start_ns: When the trajectory starts (time_from_start 0).
        points: How many points the client sent.
        leads_in: Whether the spline's first segment is the way to the first point.
    """

    spline: Spline
    start_ns: int
    points: int
    leads_in: bool

    def point_in_use(self, time_ns: int) -> int:
        """Return the index of the client's point that is approached at a time, the last after the end."""
        passed = self.spline.passed(time_ns) - self.leads_in
        return min(max(passed, 0), self.points - 1)


def plan_motion(knots: Knots, stamp_ns: int, start: Start, wraps: BoolArray) -> Motion:
    """Return a motion through points.

    The way to the first point begins in the state at the start. A stamp of 0 stands for now. Where the stamp lies in
    the future, the position at the start is held until then; where the first point's time has passed, the motion
    joins the trajectory where it should be now, at once. Joints that wrap are shifted by whole turns, all points
    alike, so that the motion begins the short way.

    Args:
        knots: The client's points, times from the trajectory's start.
        stamp_ns: When the trajectory starts, 0 for now.
        start: Where the robot is.
        wraps: (J,) joints that a turn brings back.
    """
    start_ns = stamp_ns or start.now_ns
    times_ns = [start_ns + time for time in knots.times_ns]
    waits = start_ns > start.now_ns
    anchor_ns = start_ns if waits else start.anchor_ns
    leads_in = times_ns[0] > anchor_ns
    if leads_in:
        velocity = np.zeros_like(start.velocity) if waits else start.velocity
        turns = turns_towards(knots.position[0], start.position, wraps)
        shifted = _led_in([anchor_ns, *times_ns], knots, turns, start.position, velocity)
        spline = Spline(shifted, start.position)
    else:
        spline = Spline(replace(knots, times_ns=times_ns), start.position)
        joined = spline.sample(max(start.now_ns, times_ns[0]))[0]
        spline.shift(turns_towards(joined, start.position, wraps))
    return Motion(spline=spline, start_ns=start_ns, points=len(times_ns), leads_in=leads_in)


def _led_in(
    times_ns: list[int], knots: Knots, turns: FloatArray, position: FloatArray, velocity: FloatArray
) -> Knots:
    """Return the points with the present state in front: without acceleration and effort, which are unknown."""
    nothing = np.zeros((1, len(position)))
    return Knots(
        times_ns=times_ns,
        position=np.vstack((position, knots.position + turns)),
        velocity=np.vstack((velocity, knots.velocity)),
        acceleration=np.vstack((nothing, knots.acceleration)),
        effort=None if knots.effort is None else np.vstack((nothing, knots.effort)),
        has_velocity=np.append(True, knots.has_velocity),
        has_acceleration=np.append(True, knots.has_acceleration),
    )
