"""The playback backend: play the stage's time samples, or the joint states and transforms of a bag."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.backend_options import option_parsers
from usd_ros_bridge.backends.bag.bag_file import BagFile
from usd_ros_bridge.backends.bag.bag_motion import BagMotion, read_motion
from usd_ros_bridge.backends.bag.bag_player import BagPlayer, BagRange
from usd_ros_bridge.backends.bag.bag_source import BagSource
from usd_ros_bridge.backends.base import (
    BackendContext,
    Capabilities,
    InputlessBackend,
    option_value,
    parse_options,
)
from usd_ros_bridge.backends.kinematic import MimicRules
from usd_ros_bridge.backends.pose_projection import driven_rows, joint_tracks_from_poses
from usd_ros_bridge.backends.time_samples import PoseTracks, ScalarTracks, StageRange, stage_range
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, JointTrack, PoseTrack, State

_SECONDS: Final = 1e-9


class PlaybackBackend(InputlessBackend):
    """Move bodies, animated Xforms and joints by the stage's time samples, or robots by the messages of a bag.

    Recorded poses of bodies below joints are played as recorded if every such body has some; joint positions are then
    computed from them, along the joints' axes. If only some bodies have poses, the joint positions computed from them
    are played, and the other bodies follow. Mimic joints without samples follow a leader with samples. Without samples
    everything stays at rest.

    With the option `bag` the robots' joint states and transforms in an MCAP file or rosbag2 are played instead.

    Options: `rate` (1: recorded seconds per second), `start` and `end` (recorded seconds: of the stage, or since the
    first message of the bag), `loop` (true: from `end` back to `start`; false: stay at `end`), `bag` (path), `remap`
    (other names of the bag's topics). The first step shows `start`.
    """

    def __init__(self) -> None:
        self._player: _StagePlayer | BagPlayer | None = None
        self._capabilities = Capabilities(commands=False, every_step=False)
        self._start_ns: int | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities: joint-driven unless every body below a joint has recorded poses."""
        return self._capabilities

    def open(self, context: BackendContext) -> None:
        """Prepare the plan's time samples, or read the bag."""
        values = parse_options("playback", context.options, option_parsers("playback"))
        path = option_value(values, "bag", str, "")
        if path:
            self._open_bag(context, values, path)
        elif "remap" in values:
            raise BackendError("option remap of backend playback needs the option bag")
        else:
            self._open_stage(context, values)
        self.reset()

    def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002 - ignored
        """Return the recorded state at the time since the first step."""
        assert self._player is not None, "the backend is not open"
        if self._start_ns is None:
            self._start_ns = time_ns
        return self._player.update(time_ns, time_ns - self._start_ns)

    def reset(self) -> None:
        """Start over at the next step."""
        self._start_ns = None

    def close(self) -> None:
        """Free the samples."""
        self._player = None

    def new_instance(self) -> PlaybackBackend:
        """Return another backend, not open."""
        return PlaybackBackend()

    def transfer_state(self, old: PlaybackBackend) -> None:
        """Continue at the recorded time of another backend."""
        self._start_ns = old._start_ns

    def _open_stage(self, context: BackendContext, values: dict[str, object]) -> None:
        projected = joint_tracks_from_poses(context.plan, context.report)
        tracks = (*context.plan.scene.joint_tracks, *projected)
        player = _StagePlayer(context.plan, tracks, _choose_range(context.plan, values))
        if not player.has_samples:
            context.report(
                "playback.empty", "the stage has no time samples: playback shows the authored state"
            )
        self._player = player
        self._capabilities = replace(self._capabilities, joint_driven=player.joint_driven)

    def _open_bag(self, context: BackendContext, values: dict[str, object], path: str) -> None:
        remap: dict[str, str] = option_value(values, "remap", dict, {})
        with BagFile(path, context.report) as file:
            motion = read_motion(context.plan, BagSource(file, context.report), remap, context.report)
        self._player = BagPlayer(context.plan, motion, _choose_bag_range(motion, values))
        self._capabilities = replace(self._capabilities, odometry=motion.odometry)


def _choose_range(plan: BridgePlan, values: dict[str, object]) -> StageRange:
    whole = stage_range(plan)
    chosen = StageRange(
        rate=option_value(values, "rate", float, whole.rate),
        start=option_value(values, "start", float, whole.start),
        end=option_value(values, "end", float, whole.end),
        loop=option_value(values, "loop", bool, whole.loop),
    )
    _check_order(chosen.start, chosen.end, "the stage", whole.start, whole.end)
    return chosen


def _choose_bag_range(motion: BagMotion, values: dict[str, object]) -> BagRange:
    whole = motion.duration_ns * _SECONDS
    start, end = option_value(values, "start", float, 0.0), option_value(values, "end", float, whole)
    _check_order(start, end, "the bag", 0.0, whole)
    return BagRange(
        start_ns=round(start / _SECONDS),
        # The end of the bag is exact to the nanosecond.
        end_ns=round(end / _SECONDS) if "end" in values else motion.duration_ns,
        rate=option_value(values, "rate", float, 1.0),
        loop=option_value(values, "loop", bool, True),
    )


def _check_order(start: float, end: float, what: str, first: float, last: float) -> None:
    if start > end:
        raise BackendError(
            f"backend playback cannot play from {start:g} s to {end:g} s; {what} has {first:g} s to {last:g} s"
        )


class _StagePlayer:
    """Write time samples to the state."""

    def __init__(self, plan: BridgePlan, joint_tracks: tuple[JointTrack, ...], played: StageRange) -> None:
        self._range = played
        self._state = State.initial(plan.layout)
        driven = driven_rows(plan)
        pose_tracks = [track for track in plan.scene.pose_tracks if len(track.time)]
        recorded = {track.row for track in pose_tracks}
        self.joint_driven = not (driven and driven <= recorded)
        shown = [track for track in pose_tracks if not (self.joint_driven and track.row in driven)]
        joints = [track for track in joint_tracks if len(track.time)]
        self.has_samples = bool(shown or joints)
        self._bodies = _body_rows(shown)
        self._poses = PoseTracks([t.time for t in shown], [t.world_from_body for t in shown])
        self._joints = np.array([track.row for track in joints], dtype=np.intp)
        self._positions = ScalarTracks([t.time for t in joints], [t.position for t in joints])
        self._followers = MimicRules(plan).followers(self._joints.tolist())

    def update(self, time_ns: int, elapsed_ns: int) -> State:
        """Return the state at a bridge time, and at a time since the start; nanoseconds."""
        seconds, playing = self._range.stage_seconds(elapsed_ns * _SECONDS)
        rate = self._range.rate if playing else 0.0
        state = self._state
        state.time_ns = time_ns
        if self._joints.size:
            state.joint_position[self._joints], velocity = self._positions.at(seconds)
            state.joint_velocity[self._joints] = rate * velocity
            self._followers.apply(state.joint_position, state.joint_velocity)
        if self._bodies.size:
            assert state.body_twist is not None
            state.body_pose[self._bodies], twist = self._poses.at(seconds)
            state.body_twist[self._bodies] = rate * twist
        return state


def _body_rows(tracks: list[PoseTrack]) -> NDArray[np.intp]:
    return np.array([track.row for track in tracks], dtype=np.intp)
