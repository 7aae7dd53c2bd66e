"""Frames of message headers: where the page places what a message shows."""

from __future__ import annotations

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, RobotPlan
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, compose, pose_array, xyzw
from usd_ros_bridge.view.frame_poses import FramePoses


class HeaderFrames:
    """Poses of frames that messages name, in the page's fixed frame."""

    def __init__(self, plan: BridgePlan, frames: FramePoses) -> None:
        """Args: plan: The frames. frames: Their poses."""
        self._plan = plan
        self._frames = frames
        self._prefixes = [
            tuple(
                sorted({output.prefix for output in robot.tf_outputs if output.prefix}, key=len, reverse=True)
            )
            for robot in plan.robots
        ]

    def pose(self, robot: int, frame: str) -> FloatArray | None:
        """Return `fixed_from_frame` (7,), None where /tf has not said where the frame is.

        Args:
            robot: Index of the robot that the message is from, -1 for none.
            frame: The header's frame id, with or without a robot's prefix.
        """
        if not 0 <= robot < len(self._plan.robots):
            return self._pose_in_any(frame)
        name = self._without_prefix(robot, frame)
        row = self._frames.rows.get((robot, name))
        if row is not None:
            return self.pose_of_row(row)
        return self._root(self._plan.robots[robot], name)

    def pose_of_row(self, row: int) -> FloatArray | None:
        """Return `fixed_from_frame` (7,) of a row of the page's frames, None where /tf has not said it."""
        if not self._frames.known[row]:
            return None
        return np.concatenate((self._frames.positions[row], xyzw(self._frames.rotations[row])))

    def frame_row(self, robot: int, frame: str) -> int | None:
        """Return the row of a frame in the page's frames, None for one that the plan does not have."""
        return self._frames.rows.get((robot, self._without_prefix(robot, frame)))

    def _without_prefix(self, robot: int, frame: str) -> str:
        for prefix in self._prefixes[robot]:
            if frame.startswith(prefix) and (robot, frame) not in self._frames.rows:
                return frame[len(prefix) :]
        return frame

    def _pose_in_any(self, frame: str) -> FloatArray | None:
        """Return the pose of a frame that one of the robots has: messages of no robot name the fixed frame mostly."""
        for robot, owner in enumerate(self._plan.robots):
            if frame == owner.parent_frame:
                return IDENTITY
            row = self.frame_row(robot, frame)
            if row is not None:
                return self.pose_of_row(row)
        return IDENTITY if not self._plan.robots else None

    def _root(self, robot: RobotPlan, frame: str) -> FloatArray | None:
        if frame in ("", robot.parent_frame):
            return IDENTITY
        if frame == robot.odom_frame:
            return start_of_odometry(self._plan, robot)
        tops = {each.parent for each in robot.frames if each.parent_index < 0}
        return IDENTITY if frame in tops else None


def start_of_odometry(plan: BridgePlan, robot: RobotPlan) -> FloatArray:
    """Return `fixed_from_odom` (7,): odometry begins where the base is at rest, which nothing on /tf says."""
    if robot.base < 0:
        return IDENTITY
    base = robot.frames[robot.base]
    if base.carrier < 0:
        return pose_array(base.carrier_from_frame)
    return compose(np.asarray(plan.layout.body_pose[base.carrier]), pose_array(base.carrier_from_frame))
