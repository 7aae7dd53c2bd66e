"""One trajectory being followed: from where a robot is, through a client's points, on bridge time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from usd_ros_bridge.controllers.trajectory import BoolArray, Knots, Spline, turns_towards
from usd_ros_bridge.model.state import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Start:
    """Where and when a motion begins.

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
        """Returns the index of the client's point that is approached at a time, the last after the end."""
        passed = self.spline.passed(time_ns) - self.leads_in
        return min(max(passed, 0), self.points - 1)


def plan_motion(knots: Knots, stamp_ns: int, start: Start, wraps: BoolArray) -> Motion:
    """Returns a motion through points.

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
    """Returns the points with the present state in front: without acceleration and effort, which nothing tells."""
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
