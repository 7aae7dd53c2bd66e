"""Frames of message headers: where the page places what a message shows."""

from __future__ import annotations

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, RobotPlan
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, compose, pose_array
from usd_ros_bridge.view.tf_poses import FramePoses


class HeaderFrames:
    """Poses of frames that messages name, in the page's fixed frame."""

    def __init__(self, plan: BridgePlan, frames: FramePoses) -> None:
        """Args: plan: The frames. frames: Their poses."""
        self._plan = plan
        self._frames = frames

    def pose(self, robot: int, frame: str) -> FloatArray | None:
        """Return `fixed_from_frame` (7,), None for a frame that is neither the plan's nor on /tf.

        Args:
            robot: Index of the robot that the message is from, -1 for none.
            frame: The header's frame id, with or without a robot's prefix; "" for the fixed frame.
        """
        if not frame:
            return IDENTITY
        pose = self._frames.pose_of(robot, frame)
        if pose is None and 0 <= robot < len(self._plan.robots):
            owner = self._plan.robots[robot]
            # Odometry beside a base whose transform is not from it: /tf has no odom.
            if frame.endswith(owner.odom_frame):
                return start_of_odometry(self._plan, owner)
        return pose


def start_of_odometry(plan: BridgePlan, robot: RobotPlan) -> FloatArray:
    """Return `fixed_from_odom` (7,): odometry begins where the base is at rest, which nothing on /tf says."""
    if robot.base < 0:
        return IDENTITY
    base = robot.frames[robot.base]
    if base.carrier < 0:
        return pose_array(base.carrier_from_frame)
    return compose(np.asarray(plan.layout.body_pose[base.carrier]), pose_array(base.carrier_from_frame))
