"""Joint positions from recorded poses of bodies: the motion between parent and child, along the joint's axis."""

from __future__ import annotations

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, EdgePlan, JointPlan, RobotPlan, carrier_of
from usd_ros_bridge.model.state import JointTrack, PoseTrack
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

_AXIS = {"X": 0, "Y": 1, "Z": 2}


def driven_rows(plan: BridgePlan) -> set[int]:
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


def project_on_axis(joint: JointPlan, parent_from_child: FloatArray) -> FloatArray:
    """Return the positions (T,) of a joint with one degree of freedom from poses (T, 7) of its child in its parent.

    Angles continue beyond half a turn, and start next to the position at rest.
    """
    ends = (pose_array(joint.body0_from_joint), pose_array(joint.body1_from_joint))
    body0_from_body1 = inverse(parent_from_child) if joint.inverted else parent_from_child
    motion = compose(compose(inverse(ends[0]), body0_from_body1), ends[1])
    assert joint.axis is not None
    axis, dof = _AXIS[joint.axis], joint.dofs[0]
    if dof.axis.startswith("trans"):
        return motion[:, axis]
    position: FloatArray = np.unwrap(2.0 * np.arctan2(motion[:, 3 + axis], motion[:, 6]))
    # An angle is ambiguous by whole turns.
    position += 2.0 * np.pi * np.round((dof.position - position[0]) / (2.0 * np.pi))
    return position


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
        return JointTrack(
            row=joint.dofs[0].row, time=time, position=project_on_axis(joint, parent_from_child)
        )

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
