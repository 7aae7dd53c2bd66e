"""Recorded body poses as joint positions: what joint_states shows while bodies are played back."""

from __future__ import annotations

import numpy as np

from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.model.plan import BridgePlan, EdgePlan, JointPlan, Pose, RobotPlan
from usd_ros_bridge.model.scene import JointTrack, PoseTrack
from usd_ros_bridge.model.transforms import (
    IDENTITY,
    FloatArray,
    compose,
    interpolate_poses,
    inverse,
    normalized,
    relative,
)

_AXIS = {"X": 0, "Y": 1, "Z": 2}


def project_tracks(plan: BridgePlan, report: Report) -> tuple[JointTrack, ...]:
    """Returns the joint positions that recorded poses of bodies below joints mean.

    Args:
        plan: The plan; joints with time samples of their own keep those.
        report: Where joints are reported whose positions cannot be told from poses.
    """
    recording = _Recording(plan)
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


class _Recording:
    """World poses of bodies at any time, from time samples or, without any, from what they hang from."""

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
        """Whether the edge's child has time samples of its own."""
        return self._layout.body_index.get(edge.child_path, -1) in self._track

    def project(self, robot: RobotPlan, edge: EdgePlan, joint: JointPlan) -> JointTrack:
        """Returns the positions of a joint with one degree of freedom, its child's track given."""
        child = self._layout.body_index[edge.child_path]
        parent, offset = self._carrier(robot, edge.parent_path)
        time = self._times(child, parent)
        parent_from_child = relative(compose(self._world(parent, time), offset), self._world(child, time))
        ends = (_array(joint.body0_from_joint), _array(joint.body1_from_joint))
        body0_from_body1 = inverse(parent_from_child) if joint.inverted else parent_from_child
        motion = compose(compose(inverse(ends[0]), body0_from_body1), ends[1])
        assert joint.axis is not None
        axis, dof = _AXIS[joint.axis], joint.dofs[0]
        if dof.axis.startswith("trans"):
            position = motion[:, axis]
        else:
            position = np.unwrap(2.0 * np.arctan2(motion[:, 3 + axis], motion[:, 6]))
            # An angle is known up to whole turns: start at the one next to the position at rest.
            position += 2.0 * np.pi * np.round((dof.position - position[0]) / (2.0 * np.pi))
        return JointTrack(row=dof.row, time=time, position=position)

    def _times(self, *rows: int) -> FloatArray:
        times = [self._track[row].time for row in rows if row in self._track]
        merged: FloatArray = np.unique(np.concatenate(times))
        return merged

    def _world(self, row: int, time: FloatArray) -> FloatArray:
        """Returns (T, 7) `world_from_body`; of -1, the world itself."""
        if row < 0:
            return np.tile(IDENTITY, (len(time), 1))
        if row in self._track:
            return interpolate_poses(self._track[row].time, self._track[row].world_from_body, time)
        rest = self._layout.body_pose[row]
        parent, _ = self._parent.get(row, (-1, IDENTITY))
        if parent < 0:
            return np.tile(rest, (len(time), 1))
        # Without samples of its own a body stays where it is in its parent.
        return compose(self._world(parent, time), relative(self._layout.body_pose[parent], rest))

    def _carrier(self, robot: RobotPlan, path: str) -> tuple[int, FloatArray]:
        """Returns the body row that moves the prim at `path`, -1 for the world, and the prim in it."""
        row = self._layout.body_index.get(path, -1)
        if row >= 0:
            return row, IDENTITY
        for frame in robot.frames:
            if frame.path == path:
                return frame.carrier, _array(frame.carrier_from_frame)
        return -1, IDENTITY


def _array(pose: Pose) -> FloatArray:
    return np.concatenate((np.array(pose.translation, dtype=np.float64), normalized(np.array(pose.rotation))))
