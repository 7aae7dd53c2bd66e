"""Real robots, converted from URDF, as MuJoCo has them: bodies are where the joint frames put them."""

from __future__ import annotations

import numpy as np
from robot_oracle import RobotOracle

from builders.poses import mujoco_pose_errors
from usd_ros_bridge import load_plan


def test_mujoco_agrees_with_the_joint_frames(robot: RobotOracle) -> None:
    errors = mujoco_pose_errors(load_plan(robot.asset, physics=True))
    assert np.isfinite(errors).all()
    assert errors.max() <= 1e-9
