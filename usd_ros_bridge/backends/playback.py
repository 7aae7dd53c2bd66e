"""The playback backend: play the stage's time samples, and convert recorded body poses to joint positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.backend_options import option_parsers
from usd_ros_bridge.backends.base import (
    BackendContext,
    Capabilities,
    InputlessBackend,
    option_value,
    parse_options,
)
from usd_ros_bridge.backends.kinematic import MimicRules
from usd_ros_bridge.backends.time_samples import PoseTracks, ScalarTracks, StageRange, stage_range
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan, EdgePlan, JointPlan, RobotPlan, carrier_of
from usd_ros_bridge.model.state import Commands, JointTrack, PoseTrack, State
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import (
    IDENTITY,
    FloatArray,
    compose,
    interpolate_poses,
    inverse,
    pose_array,
    relative,
)


class PlaybackBackend(InputlessBackend):
    """Move bodies, animated Xforms and joints by their time samples; without any they stay at rest.

    Recorded poses of bodies below joints are played as recorded if every such body has some; joint positions are then
    computed from them, along the joints' axes. If only some bodies have poses, the joint positions computed from them
    are played, and the other bodies follow. Mimic joints without samples follow a leader with samples.

    Options: `rate` (1: stage seconds per second), `start` and `end` (stage seconds; the stage's range, else that of
    its samples), `loop` (true: from `end` back to `start`; false: stay at `end`). The first step shows `start`.
    """

    def __init__(self) -> None:
        self._player: _Player | None = None
        self._settings = StageRange()
        self._start_ns: int | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities: joint-driven unless every body below a joint has recorded poses."""
        return Capabilities(
            joint_driven=self._player is None or self._player.joint_driven, commands=False, every_step=False
        )

    def open(self, context: BackendContext) -> None:
        """Prepare the plan's time samples."""
        values = parse_options("playback", context.options, option_parsers("playback"))
        projected = joint_tracks_from_poses(context.plan, context.report)
        self._player = _Player(context.plan, (*context.plan.scene.joint_tracks, *projected))
        self._settings = _choose_range(context.plan, values)
        if not self._player.has_samples:
            context.report(
                "playback.empty", "the stage has no time samples: playback shows the authored state"
            )
        self.reset()

    def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002 - ignored
        """Return the state of the stage at the time since the first step."""
        assert self._player is not None, "the backend is not open"
        if self._start_ns is None:
            self._start_ns = time_ns
        seconds, playing = self._settings.stage_seconds((time_ns - self._start_ns) * 1e-9)
        return self._player.update(time_ns, seconds, self._settings.rate if playing else 0.0)

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
        """Continue at the stage time of another backend."""
        self._start_ns = old._start_ns


def _choose_range(plan: BridgePlan, values: dict[str, object]) -> StageRange:
    whole = stage_range(plan)
    chosen = StageRange(
        rate=option_value(values, "rate", float, whole.rate),
        start=option_value(values, "start", float, whole.start),
        end=option_value(values, "end", float, whole.end),
        loop=option_value(values, "loop", bool, whole.loop),
    )
    if chosen.start > chosen.end:
        raise BackendError(
            f"backend playback cannot play from {chosen.start:g} s to {chosen.end:g} s; the stage has "
            f"{whole.start:g} s to {whole.end:g} s"
        )
    return chosen


class _Player:
    """Write tracks to the state."""

    def __init__(self, plan: BridgePlan, joint_tracks: tuple[JointTrack, ...]) -> None:
        self._state = State.initial(plan.layout)
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

    def update(self, time_ns: int, seconds: float, rate: float) -> State:
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


def _driven_rows(plan: BridgePlan) -> set[int]:
    """Return the layout rows of bodies that joints move; bodies fixed to the world are left out."""
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


_AXIS = {"X": 0, "Y": 1, "Z": 2}


def joint_tracks_from_poses(plan: BridgePlan, report: Report) -> tuple[JointTrack, ...]:
    """Compute joint positions from the recorded poses of bodies below joints.

    Args:
        plan: The plan; joints with time samples of their own are left out.
        report: Receives joints with several degrees of freedom, whose positions are not computed.
    """
    recording = _RecordedBodies(plan)
    own = {track.row for track in plan.scene.joint_tracks}
    tracks = []
    for robot in plan.robots:
        for edge in robot.edges:
            joints = [robot.joints[index] for index in edge.joints]
            rows = [dof.row for joint in joints for dof in joint.dofs]
            if not rows or own.issuperset(rows) or not recording.moves(edge):
                continue
            if len(joints) == 1 and len(rows) == 1 and joints[0].axis is not None:
                tracks.append(recording.project(robot, edge, joints[0]))
            else:
                report(
                    f"playback.project:{edge.child_path}",
                    f"{edge.child_path} has recorded poses, but its joint has several degrees of freedom: "
                    "joint states show it at rest",
                )
    return tuple(tracks)


class _RecordedBodies:
    """World poses of bodies at any time, from time samples, or from those of their parents."""

    def __init__(self, plan: BridgePlan) -> None:
        self._layout = plan.layout
        self._track: dict[int, PoseTrack] = {track.row: track for track in plan.scene.pose_tracks}
        self._parent = {
            plan.layout.body_index[edge.child_path]: self._carrier(robot, edge.parent_path)
            for robot in plan.robots
            for edge in robot.edges
            if edge.child_path in plan.layout.body_index
        }

    def moves(self, edge: EdgePlan) -> bool:
        """Return whether the edge's child has time samples of its own."""
        return self._layout.body_index.get(edge.child_path, -1) in self._track

    def project(self, robot: RobotPlan, edge: EdgePlan, joint: JointPlan) -> JointTrack:
        """Return the positions of a joint with one degree of freedom whose child has a track."""
        child = self._layout.body_index[edge.child_path]
        parent, offset = self._carrier(robot, edge.parent_path)
        time = self._times(child, parent)
        parent_from_child = relative(compose(self._world(parent, time), offset), self._world(child, time))
        ends = (pose_array(joint.body0_from_joint), pose_array(joint.body1_from_joint))
        body0_from_body1 = inverse(parent_from_child) if joint.inverted else parent_from_child
        motion = compose(compose(inverse(ends[0]), body0_from_body1), ends[1])
        assert joint.axis is not None
        axis, dof = _AXIS[joint.axis], joint.dofs[0]
        if dof.axis.startswith("trans"):
            position = motion[:, axis]
        else:
            position = np.unwrap(2.0 * np.arctan2(motion[:, 3 + axis], motion[:, 6]))
            # An angle is ambiguous by whole turns: start next to the position at rest.
            position += 2.0 * np.pi * np.round((dof.position - position[0]) / (2.0 * np.pi))
        return JointTrack(row=dof.row, time=time, position=position)

    def _times(self, *rows: int) -> FloatArray:
        times = [self._track[row].time for row in rows if row in self._track]
        merged: FloatArray = np.unique(np.concatenate(times))
        return merged

    def _world(self, row: int, time: FloatArray) -> FloatArray:
        """Return (T, 7) `world_from_body`; -1 is the world."""
        if row < 0:
            return np.tile(IDENTITY, (len(time), 1))
        if row in self._track:
            return interpolate_poses(self._track[row].time, self._track[row].world_from_body, time)
        rest = self._layout.body_pose[row]
        parent, _ = self._parent.get(row, (-1, IDENTITY))
        if parent < 0:
            return np.tile(rest, (len(time), 1))
        # A body without samples keeps its pose in its parent.
        return compose(self._world(parent, time), relative(self._layout.body_pose[parent], rest))

    def _carrier(self, robot: RobotPlan, path: str) -> tuple[int, FloatArray]:
        row, pose = carrier_of(self._layout, robot, path)
        return row, pose_array(pose)
