"""Robots that had no ROS layer, with the one that `usd_ros_bridge scaffold` wrote: they drive and follow goals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "unit" / "cli"))

from control_msgs.action import FollowJointTrajectory, ParallelGripperCommand
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from scaffolding import HEADER, body, cart, joint, robot, scaffold, without_layer
from sensor_msgs.msg import JointState
from test_assets_under_control import Listener, point, publish_until, succeeded

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.planning.scaffold_drives import DROOP
from usd_ros_bridge.usd import quiet


def test_a_cart_drives_ahead(start: Any, ros_harness: Any, tmp_path: Path) -> None:
    asset = tmp_path / "robot.usda"
    wheels = (("left_wheel", (0.0, 0.2, 0.0)), ("right_wheel", (0.0, -0.2, 0.0)))
    asset.write_text(HEADER.format(name="robot") + cart(*wheels, drive=(0.0, 10.0)), encoding="utf-8")
    with quiet():
        plan = scaffold(asset, tmp_path / "ros.usda").plan
    start(plan)
    odometry = Listener(ros_harness, Odometry, "/robot/odom")
    commands = ros_harness.node.create_publisher(Twist, "/robot/cmd_vel", 10)
    message = Twist()
    message.linear.x = 0.5

    def moves() -> bool:
        """Return whether it is on its way at the speed that it was told; without commands it would brake."""
        if odometry.last is None:
            return False
        speed = odometry.last.twist.twist.linear.x
        return odometry.last.pose.pose.position.x > 0.1 and speed == pytest.approx(0.5, abs=0.02)

    publish_until(ros_harness, commands, message, moves, "the way ahead at 0.5 m/s")
    assert odometry.last.header.frame_id == "odom"
    assert odometry.last.child_frame_id == "base_link"


def test_an_arm_follows_a_goal_and_grips(start: Any, ros_harness: Any, tmp_path: Path) -> None:
    with quiet():
        plan = scaffold(without_layer("arm", tmp_path), tmp_path / "ros.usda").plan
    start(plan)
    states = Listener(ros_harness, JointState, "/arm/joint_states")
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.joint_names = [f"joint_{number}" for number in range(1, 7)]
    goal.trajectory.points = [point(0.1, -0.1, 0.2, 0.0, 0.1, 0.3)]
    name = "/arm/joint_trajectory_controller/follow_joint_trajectory"
    succeeded(ros_harness, FollowJointTrajectory, name, goal)
    ros_harness.wait_for(lambda: states.position("joint_6") == pytest.approx(0.3, abs=1e-3), what="the arm")
    grip = ParallelGripperCommand.Goal(command=JointState(name=["left_finger_joint"], position=[0.02]))
    succeeded(ros_harness, ParallelGripperCommand, "/arm/gripper_controller/gripper_cmd", grip)
    ros_harness.wait_for(
        lambda: states.position("left_finger_joint") == pytest.approx(0.02, abs=1e-3), what="the fingers"
    )


def test_an_arm_that_had_no_drives_reaches_its_goal_in_mujoco(
    start: Any, ros_harness: Any, tmp_path: Path
) -> None:
    rod = (
        "point3f physics:centerOfMass = (0.15, 0, 0)\n    float3 physics:diagonalInertia = (0.001, 0.0075, 0.0075)\n"
        "    quatf physics:principalAxes = (1, 0, 0, 0)"
    )
    text = robot(
        body("base", rod),
        joint("anchor", "", "/robot/base", kind="Fixed"),
        body("upper", rod, at=(0.3, 0, 0)),
        body("lower", rod, at=(0.6, 0, 0)),
        joint("shoulder", "/robot/base", "/robot/upper", at=(0.3, 0, 0), limits=(-170, 170)),
        joint("elbow", "/robot/upper", "/robot/lower", at=(0.3, 0, 0), limits=(-170, 170)),
    )
    asset = tmp_path / "robot.usda"
    asset.write_text(HEADER.format(name="robot") + text, encoding="utf-8")
    with quiet():
        plan = load_plan(scaffold(asset, tmp_path / "ros.usda", "--drives").path, physics=True)
    start(plan, "mujoco")
    states = Listener(ros_harness, JointState, "/robot/joint_states")
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.joint_names = ["shoulder", "elbow"]
    goal.trajectory.points = [point(-0.8, 1.0, seconds=0.5)]
    name = "/robot/joint_trajectory_controller/follow_joint_trajectory"
    succeeded(ros_harness, FollowJointTrajectory, name, goal)
    ros_harness.wait_for(
        lambda: (
            states.position("shoulder") == pytest.approx(-0.8, abs=DROOP["rot"] + 1e-4)
            and states.position("elbow") == pytest.approx(1.0, abs=DROOP["rot"] + 1e-4)
        ),
        what="the arm at its goal",
    )
