"""Time samples: the range of stage time that is played, many tracks interpolated at once, and animated bodies."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    compose,
    exponential,
    normalized,
    quaternion_conjugate,
    quaternion_multiply,
    rotate,
    rotation_vector,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRange:
    """The range of stage time that is played.

    Attributes:
        start: Seconds of the stage.
        end: Seconds of the stage.
        rate: Stage seconds per second.
        loop: Restart at the end; False stays at the end.
    """

    start: float = 0.0
    end: float = 0.0
    rate: float = 1.0
    loop: bool = True

    def stage_seconds(self, elapsed: float) -> tuple[float, bool]:
        """Return the stage's time and whether it advances."""
        passed, length = elapsed * self.rate, self.end - self.start
        if length <= 0.0:
            return self.start, False
        if self.loop:
            return self.start + passed % length, True
        return self.start + min(passed, length), passed < length


def stage_range(plan: BridgePlan, *, loop: bool = True) -> StageRange:
    """Return the stage's authored range, else that of its samples."""
    scene = plan.scene
    if scene.start is not None and scene.end is not None and scene.start < scene.end:
        return StageRange(start=scene.start, end=scene.end, loop=loop)
    keys = [track.time for track in scene.pose_tracks] + [track.time for track in scene.joint_tracks]
    keys += [track.time for track in (plan.physics.tracks if plan.physics is not None else ())]
    return StageRange(
        start=min((float(time[0]) for time in keys if len(time)), default=0.0),
        end=max((float(time[-1]) for time in keys if len(time)), default=0.0),
        loop=loop,
    )


@dataclass(frozen=True, slots=True)
class Segments:
    """Position of a time in each of N tracks.

    Attributes:
        lower: (N,) index of the previous key, among the keys of all tracks.
        fraction: (N,) 0 at that key, 1 at the next; clamped before the first and after the last.
        rate: (N,) fraction per second, 0 where clamped.
    """

    lower: NDArray[np.intp]
    fraction: FloatArray
    rate: FloatArray


class Keys:
    """Key times of N tracks, ragged, in one array.

    Attributes:
        next: (K,) index of the next key of each key, itself for the last one of a track.
    """

    def __init__(self, times: Sequence[FloatArray]) -> None:
        counts = np.array([len(time) for time in times], dtype=np.intp)
        self._time = np.concatenate([np.zeros(0), *times])
        self._last = np.cumsum(counts) - 1
        self._first = self._last - counts + 1
        self.next = np.arange(1, self._time.size + 1)
        self.next[self._last] = self._last
        duration = self._time[self.next] - self._time
        self._per_second = np.divide(1.0, duration, out=np.zeros_like(duration), where=duration > 0.0)
        # Shift each track to an interval of its own: all keys are one increasing array to search in.
        self._origin = float(self._time.min(initial=0.0))
        self._length = float(self._time.max(initial=0.0)) - self._origin + 1.0
        self._shift = self._length * np.arange(len(times))
        self._sorted = self._time - self._origin + np.repeat(self._shift, counts)

    def locate(self, seconds: float) -> Segments:
        """Find the segment of each track at one time."""
        within = min(max(seconds - self._origin, 0.0), self._length - 1.0)
        found = np.searchsorted(self._sorted, within + self._shift, side="right") - 1
        lower = np.clip(found, self._first, np.maximum(self._last - 1, self._first))
        raw = (seconds - self._time[lower]) * self._per_second[lower]
        held = (raw < 0.0) | (raw > 1.0)
        return Segments(lower, np.clip(raw, 0.0, 1.0), np.where(held, 0.0, self._per_second[lower]))


class ScalarTracks:
    """Scalars of N tracks, interpolated linearly, as in OpenUSD."""

    def __init__(self, times: Sequence[FloatArray], values: Sequence[FloatArray]) -> None:
        self._keys = Keys(times)
        self._value = np.concatenate([np.zeros(0), *values])
        self._change = self._value[self._keys.next] - self._value

    def at(self, seconds: float) -> tuple[FloatArray, FloatArray]:
        """Return values (N,) and their change per second (N,)."""
        where = self._keys.locate(seconds)
        change = self._change[where.lower]
        return self._value[where.lower] + where.fraction * change, where.rate * change


class PoseTracks:
    """Poses of N tracks: positions interpolated linearly, rotations along the shortest arc."""

    def __init__(self, times: Sequence[FloatArray], poses: Sequence[FloatArray]) -> None:
        self._keys = Keys(times)
        self._pose = np.concatenate([np.zeros((0, 7)), *poses])
        self._pose[:, 3:] = normalized(self._pose[:, 3:])
        after = self._pose[self._keys.next]
        turn = quaternion_multiply(after[:, 3:], quaternion_conjugate(self._pose[:, 3:]))
        self._change = np.concatenate((after[:, :3] - self._pose[:, :3], rotation_vector(turn)), axis=-1)

    def at(self, seconds: float) -> tuple[FloatArray, FloatArray]:
        """Return poses (N, 7) and their twists (N, 6): linear then angular, in the frame of the poses."""
        where = self._keys.locate(seconds)
        return self._between(where.lower, where.fraction), where.rate[:, None] * self._change[where.lower]

    def _between(self, lower: NDArray[np.intp], fraction: FloatArray) -> FloatArray:
        part = fraction[:, None] * self._change[lower]
        rotation = quaternion_multiply(exponential(part[:, 3:]), self._pose[lower, 3:])
        return np.concatenate((self._pose[lower, :3] + part[:, :3], normalized(rotation)), axis=-1)


class AnimatedBodies:
    """Kinematic bodies and Xforms that the stage's time samples move, for any backend.

    After a command, a body stops following its samples until a reset.
    """

    def __init__(self, plan: BridgePlan, *, loop: bool = True, skipped: Container[int] = ()) -> None:
        """Initialize.

        Args:
            plan: The plan.
            loop: Restart at the end of the stage's range.
            skipped: Layout rows to leave out.
        """
        layout = plan.layout
        tracks = [
            track
            for track in plan.scene.pose_tracks
            if len(track.time) and layout.kinematic[track.row] and track.row not in skipped
        ]
        self._paths = layout.bodies
        self._played = stage_range(plan, loop=loop)
        self._tracks = PoseTracks(
            [track.time for track in tracks],
            [
                track.world_from_body if track.carrier_from_body is None else track.carrier_from_body
                for track in tracks
            ],
        )
        self._rows = np.array([track.row for track in tracks], dtype=np.intp)
        self._carriers = np.array([track.carrier for track in tracks], dtype=np.intp)
        self._follows = np.ones(len(tracks), dtype=bool)
        self._start_ns: int | None = None
        self.reset()

    def __bool__(self) -> bool:
        return bool(self._rows.size)

    def reset(self) -> None:
        """Start over at the next update."""
        self._start_ns = None
        self._follows[:] = True

    def stop_samples(self, rows: NDArray[np.intp], state: State) -> None:
        """Stop the samples of rows that were commanded."""
        stopped = np.isin(self._rows, rows) & self._follows
        self._follows[stopped] = False
        if state.body_twist is not None:
            state.body_twist[self._rows[stopped]] = 0.0

    def transfer_state(self, old: AnimatedBodies) -> None:
        """Copy the start time, and which bodies were commanded."""
        self._start_ns = old._start_ns
        stopped = {old._paths[row] for row in old._rows[~old._follows].tolist()}
        self._follows = np.array([self._paths[row] not in stopped for row in self._rows.tolist()], dtype=bool)

    def update(self, state: State, time_ns: int) -> None:
        """Write poses and twists at a bridge time; the first one is the start."""
        if not self._rows.size:
            return
        if self._start_ns is None:
            self._start_ns = time_ns
        self.update_elapsed(state, (time_ns - self._start_ns) * 1e-9)

    def update_elapsed(self, state: State, elapsed: float) -> None:
        """Write poses and twists at a time since the start.

        Args:
            state: The state; poses of the carriers of the rows are current.
            elapsed: Seconds since the start.
        """
        if not self._rows.size:
            return
        seconds, advances = self._played.stage_seconds(elapsed)
        poses, twists = self._tracks.at(seconds)
        twists = (self._played.rate if advances else 0.0) * twists
        # Carriers come first.
        for number in np.flatnonzero(self._follows).tolist():
            row, carrier = self._rows[number], self._carriers[number]
            pose, twist = poses[number], twists[number]
            if carrier >= 0:
                pose, twist = _in_world(state, int(carrier), pose, twist)
            state.body_pose[row] = pose
            if state.body_twist is not None:
                state.body_twist[row] = twist


def _in_world(
    state: State, carrier: int, pose: FloatArray, twist: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Convert a pose and a twist in a carrier to those in the world."""
    world_from_carrier = state.body_pose[carrier]
    turn = world_from_carrier[3:]
    moved = np.concatenate((rotate(turn, twist[:3]), rotate(turn, twist[3:])))
    world_from_body = compose(world_from_carrier, pose)
    if state.body_twist is not None:
        moved += state.body_twist[carrier]
        lever = world_from_body[:3] - world_from_carrier[:3]
        moved[:3] += np.cross(state.body_twist[carrier, 3:], lever)
    return world_from_body, moved
