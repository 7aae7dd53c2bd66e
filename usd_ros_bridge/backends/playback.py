"""The playback backend: plays the stage's time samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.projection import project_tracks
from usd_ros_bridge.backends.protocol import BackendContext, BackendInput, Capabilities
from usd_ros_bridge.backends.rest import MimicRules, rest_state
from usd_ros_bridge.backends.settings import flag, number_in, parse_settings, setting
from usd_ros_bridge.backends.timeline import PoseTracks, ScalarTracks, StageRange, stage_range
from usd_ros_bridge.model.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.ranges import PLAYBACK_RATE, PLAYBACK_TIME
from usd_ros_bridge.model.scene import JointTrack, PoseTrack
from usd_ros_bridge.model.state import Commands, State

_PARSERS = {
    "rate": number_in(PLAYBACK_RATE),
    "start": number_in(PLAYBACK_TIME),
    "end": number_in(PLAYBACK_TIME),
    "loop": flag,
}


class PlaybackBackend:
    """Bodies, animated Xforms and joints go where their time samples say, and stay at rest without any.

    Recorded poses of bodies below joints are shown as recorded where every such body has some; joint positions are
    then what those poses mean along the joints' axes. Where only some have, the joints that their poses mean are
    played, and what hangs from them follows. Mimic joints without samples follow a leader that has some.

    Options: `rate` (1: stage seconds per second), `start` and `end` (stage seconds; the stage's range, else that of
    its samples), `loop` (true: from `end` back to `start`; false: stay at `end`). The first step shows `start`.
    """

    def __init__(self) -> None:
        self._player: _Player | None = None
        self._settings = StageRange()
        self._start_ns: int | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Driven by joints unless every body below a joint has poses of its own."""
        return Capabilities(
            joint_driven=self._player is None or self._player.joint_driven, commands=False, every_step=False
        )

    def open(self, context: BackendContext) -> None:
        """Bakes the plan's time samples."""
        values = parse_settings("playback", context.options, _PARSERS)
        projected = project_tracks(context.plan, context.report)
        self._player = _Player(context.plan, (*context.plan.scene.joint_tracks, *projected))
        self._settings = _choose_range(context.plan, values)
        if not self._player.has_samples:
            context.report(
                "playback.empty", "the stage has no time samples: playback shows the authored state"
            )
        self.reset()

    def inputs(self) -> tuple[BackendInput, ...]:
        """Needs nothing."""
        return ()

    def receive(self, key: str, sample: object) -> None:
        """Never called: there are no inputs."""

    def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002 - a recording heeds no commands
        """Shows the stage at the time that has passed since the first step."""
        assert self._player is not None, "the backend is not open"
        if self._start_ns is None:
            self._start_ns = time_ns
        seconds, playing = self._settings.stage_seconds((time_ns - self._start_ns) * 1e-9)
        return self._player.show(time_ns, seconds, self._settings.rate if playing else 0.0)

    def reset(self) -> None:
        """Starts over at the next step."""
        self._start_ns = None

    def close(self) -> None:
        """Lets the samples go."""
        self._player = None

    def successor(self) -> PlaybackBackend:
        """Returns another one, not open yet."""
        return PlaybackBackend()

    def take_over(self, other: PlaybackBackend) -> None:
        """Goes on at the time of the stage that another has come to."""
        self._start_ns = other._start_ns


def _choose_range(plan: BridgePlan, values: dict[str, object]) -> StageRange:
    whole = stage_range(plan)
    chosen = StageRange(
        rate=setting(values, "rate", float, whole.rate),
        start=setting(values, "start", float, whole.start),
        end=setting(values, "end", float, whole.end),
        loop=setting(values, "loop", bool, whole.loop),
    )
    if chosen.start > chosen.end:
        raise BackendError(
            f"backend playback cannot play from {chosen.start:g} s to {chosen.end:g} s; the stage has "
            f"{whole.start:g} s to {whole.end:g} s"
        )
    return chosen


class _Player:
    """The state, written from tracks."""

    def __init__(self, plan: BridgePlan, joint_tracks: tuple[JointTrack, ...]) -> None:
        self._state = rest_state(plan)
        driven = _driven_rows(plan)
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

    def show(self, time_ns: int, seconds: float, rate: float) -> State:
        state = self._state
        state.time_ns = time_ns
        if self._joints.size:
            state.joint_position[self._joints], velocity = self._positions.at(seconds)
            state.joint_velocity[self._joints] = rate * velocity
            self._followers.follow(state.joint_position, state.joint_velocity)
        if self._bodies.size:
            assert state.body_twist is not None
            state.body_pose[self._bodies], twist = self._poses.at(seconds)
            state.body_twist[self._bodies] = rate * twist
        return state


def _driven_rows(plan: BridgePlan) -> set[int]:
    """Returns the layout rows of bodies that joints determine and that may move: not what is fixed to the world."""
    rows = set()
    for robot in plan.robots:
        moved = {frame.path for frame in robot.frames if frame.carrier >= 0}
        fixed = {""} | {frame.path for frame in robot.frames if frame.path not in moved}
        for edge in robot.edges:
            if edge.rigid and edge.parent_path in fixed:
                fixed.add(edge.child_path)
            elif edge.rigid or any(robot.joints[index].dofs for index in edge.joints):
                rows.add(plan.layout.body_index.get(edge.child_path, -1))
    return rows - {-1}


def _body_rows(tracks: list[PoseTrack]) -> NDArray[np.intp]:
    return np.array([track.row for track in tracks], dtype=np.intp)
