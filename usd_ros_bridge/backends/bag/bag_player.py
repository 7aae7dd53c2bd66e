"""Play the motion of a bag: exactly the recorded values at recorded stamps, interpolated between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.bag.bag_joints import JointTracks
from usd_ros_bridge.backends.bag.bag_motion import BagMotion, BodyTrack
from usd_ros_bridge.backends.bag.bag_source import TimeArray
from usd_ros_bridge.backends.kinematic import MimicRules
from usd_ros_bridge.backends.time_samples import AnimatedBodies
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    exponential,
    normalized,
    quaternion_conjugate,
    quaternion_multiply,
    rotation_vector,
)

_SECONDS: Final = 1e-9
_TURN: Final = 2.0 * np.pi


@dataclass(frozen=True, slots=True, kw_only=True)
class BagRange:
    """The range of a bag that is played.

    Attributes:
        start_ns: Nanoseconds since the first message.
        end_ns: Nanoseconds since the first message.
        rate: Seconds of the bag per second.
        loop: Restart at the end; False stays at the end.
    """

    start_ns: int
    end_ns: int
    rate: float = 1.0
    loop: bool = True

    def bag_time(self, elapsed_ns: int) -> tuple[int, bool]:
        """Return the time in the bag, nanoseconds, and whether it advances."""
        # Products with floats round: whole numbers stay exact at the rate of the recording.
        passed = elapsed_ns if self.rate == 1.0 else round(elapsed_ns * self.rate)
        length = self.end_ns - self.start_ns
        if length <= 0:
            return self.start_ns, False
        if self.loop:
            return self.start_ns + passed % length, True
        return self.start_ns + min(passed, length), passed <= length


class _Columns:
    """Columns of tables with times of their own, in one array: column after column of table after table.

    Attributes:
        lower: (C,) place of each column's value before the time of `locate`, in the array of all values.
        upper: (C,) the place of the value after it.
        fraction: (C,) 0 at the value before, 1 at the one after.
        per_second: (C,) the change of the fraction, 0 before the first and after the last message.
    """

    def __init__(self, times: Sequence[TimeArray], widths: Sequence[int]) -> None:
        """Prepare.

        Args:
            times: Times (N,) of each table, increasing, at least one, nanoseconds.
            widths: How many columns each table has.
        """
        self._times = tuple(times)
        self._time = np.concatenate([np.zeros(0, dtype=np.int64), *times])
        counts = np.array([len(time) for time in times], dtype=np.intp)
        self._first = np.cumsum(counts) - counts
        self._last = counts - 1
        width = np.array(widths, dtype=np.intp)
        self._table = np.repeat(np.arange(len(counts)), width)
        self._width = width[self._table]
        sizes = counts * width
        within = np.arange(len(self._table)) - (np.cumsum(width) - width)[self._table]
        self._start = (np.cumsum(sizes) - sizes)[self._table] + within
        self.locate(0)

    def locate(self, time_ns: int) -> None:
        """Find a time in every table.

        At a message, the segment counts that begins there; at the last one the segment that ends there.
        """
        found = [time.searchsorted(time_ns, "right") for time in self._times]
        lower = np.array(found, dtype=np.intp) - 1
        np.clip(lower, 0, np.maximum(self._last - 1, 0), out=lower)
        upper = np.minimum(lower + 1, self._last)
        before, after = self._time[self._first + lower], self._time[self._first + upper]
        length = after - before
        passed = np.clip(time_ns - before, 0, length)
        inside = (time_ns >= before) & (time_ns <= after) & (length > 0)
        divisor = np.maximum(length, 1)
        table = self._table
        self.lower = self._start + lower[table] * self._width
        self.upper = self._start + upper[table] * self._width
        self.fraction: FloatArray = (passed / divisor)[table]
        self.per_second: FloatArray = np.where(inside, 1.0 / (divisor * _SECONDS), 0.0)[table]


class _JointPlayer:
    """Positions, velocities and efforts of all recorded joints."""

    def __init__(self, tracks: Sequence[JointTracks], continuous: NDArray[np.bool_]) -> None:
        """Store the tracks.

        Args:
            tracks: The tracks.
            continuous: (D,) whether a row is an angle without limits.
        """
        self._columns = _Columns([each.time_ns for each in tracks], [len(each.rows) for each in tracks])
        self.rows = np.concatenate([np.zeros(0, dtype=np.intp), *(each.rows for each in tracks)])
        # Angles that stay within one turn are wrapped: from pi to -pi is a small step, and not a turn back.
        spans = [np.zeros(0), *(np.ptp(each.position, axis=0) for each in tracks)]
        wrapped = continuous[self.rows] & (np.concatenate(spans) <= _TURN * (1.0 + 1e-9))
        self._turn = np.where(wrapped, _TURN, 0.0)
        self._wraps = bool(wrapped.any())
        sizes = [each.position.size for each in tracks]
        self._position = _joined([each.position for each in tracks], sizes)
        self._velocity = _joined([each.velocity for each in tracks], sizes)
        self._effort = _joined([each.effort for each in tracks], sizes)

    def write(self, state: State, time_ns: int, rate: float) -> None:
        """Write the state at a time of the bag.

        Args:
            state: The state.
            time_ns: Nanoseconds since the first message.
            rate: Seconds of the bag per second, 0 where it stands.
        """
        at = self._columns
        at.locate(time_ns)
        assert self._position is not None
        before, after = self._position[at.lower], self._position[at.upper]
        change = after - before
        if self._wraps:
            change -= self._turn * np.round(change / _TURN)
        # At the last message the sum would be off by rounding, or by a turn.
        state.joint_position[self.rows] = np.where(at.fraction < 1.0, before + at.fraction * change, after)
        velocity = at.per_second * change
        if self._velocity is not None:
            given = self._at(self._velocity)
            velocity = np.where(np.isfinite(given) & (at.per_second > 0.0), given, velocity)
        state.joint_velocity[self.rows] = rate * velocity
        if self._effort is not None:
            state.joint_effort[self.rows] = self._at(self._effort)

    def _at(self, values: FloatArray) -> FloatArray:
        """Return values at the current time, NaN where one of the two is not known."""
        at = self._columns
        before, after = values[at.lower], values[at.upper]
        with np.errstate(invalid="ignore", over="ignore"):
            between = before + at.fraction * (after - before)
        # What the other message says does not change what one says at its own time.
        found: FloatArray = np.where(at.fraction >= 1.0, after, np.where(at.fraction > 0.0, between, before))
        return found


class _BodyPlayer:
    """Poses and twists of all recorded bodies."""

    def __init__(self, tracks: Sequence[BodyTrack]) -> None:
        self._columns = _Columns([each.time_ns for each in tracks], [1] * len(tracks))
        self.rows = np.array([each.row for each in tracks], dtype=np.intp)
        self._pose = np.concatenate([np.zeros((0, 7)), *(each.pose for each in tracks)])

    def write(self, state: State, time_ns: int, rate: float) -> None:
        """Write the state at a time of the bag: positions linearly, rotations along the shortest arc."""
        at = self._columns
        at.locate(time_ns)
        before, after = self._pose[at.lower], self._pose[at.upper]
        turn = rotation_vector(quaternion_multiply(after[:, 3:], quaternion_conjugate(before[:, 3:])))
        fraction = at.fraction[:, None]
        moved = after[:, :3] - before[:, :3]
        state.body_pose[self.rows, :3] = before[:, :3] + fraction * moved
        rotation = quaternion_multiply(exponential(fraction * turn), before[:, 3:])
        state.body_pose[self.rows, 3:] = normalized(rotation)
        assert state.body_twist is not None
        speed = rate * at.per_second[:, None]
        state.body_twist[self.rows, :3] = speed * moved
        state.body_twist[self.rows, 3:] = speed * turn


class BagPlayer:
    """Write the motion of a bag to the state.

    Joints that the bag does not have are at rest, or follow their leader; kinematic bodies and Xforms that it does not
    have follow the stage's time samples.
    """

    def __init__(self, plan: BridgePlan, motion: BagMotion, played: BagRange) -> None:
        """Prepare the state.

        Args:
            plan: The plan.
            motion: The motion.
            played: What is played of it.
        """
        self._state = State.initial(plan.layout)
        self._range = played
        self._joints = _JointPlayer(motion.joints, _continuous(plan)) if motion.joints else None
        self._bodies = _BodyPlayer(motion.bodies) if motion.bodies else None
        rows = [] if self._joints is None else self._joints.rows.tolist()
        self._followers = MimicRules(plan).followers(rows)
        self._animated = AnimatedBodies(plan, skipped={each.row for each in motion.bodies}) or None

    def update(self, time_ns: int, elapsed_ns: int) -> State:
        """Return the state.

        Args:
            time_ns: Bridge time.
            elapsed_ns: Bridge time since the start of the playback.
        """
        state = self._state
        state.time_ns = time_ns
        bag_ns, playing = self._range.bag_time(elapsed_ns)
        rate = self._range.rate if playing else 0.0
        if self._joints is not None:
            self._joints.write(state, bag_ns, rate)
            self._followers.apply(state.joint_position, state.joint_velocity)
        if self._bodies is not None:
            self._bodies.write(state, bag_ns, rate)
        if self._animated is not None:
            self._animated.update_elapsed(state, elapsed_ns * _SECONDS)
        return state


def _continuous(plan: BridgePlan) -> NDArray[np.bool_]:
    """Return which rows (D,) of the layout are angles without limits."""
    found = np.zeros(len(plan.layout.dofs), dtype=bool)
    for robot in plan.robots:
        for joint in robot.joints:
            for dof in joint.dofs:
                found[dof.row] = dof.axis.startswith("rot") and np.isinf(dof.lower) and np.isinf(dof.upper)
    return found


def _joined(arrays: Sequence[FloatArray | None], sizes: Sequence[int]) -> FloatArray | None:
    """Return tables as one flat array, NaN for a table that is None; None if there is no table."""
    if all(array is None for array in arrays):
        return None
    flat = [
        np.full(size, np.nan) if array is None else array.reshape(-1)
        for array, size in zip(arrays, sizes, strict=True)
    ]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)
