"""Real robots, converted from URDF: planning and kinematics agree with pinocchio, without any ROS."""

from __future__ import annotations

import numpy as np
import pytest
from robot_oracle import Configuration, Errors, Pose, RobotOracle

from usd_ros_bridge import BridgePlan, State, load_plan
from usd_ros_bridge.runtime.kinematics import Kinematics

# Converted limits are float32 degrees, rest positions come from float32 poses.
FLOAT32 = 1e-6


@pytest.fixture(scope="module")
def plan(robot: RobotOracle) -> BridgePlan:
    return load_plan(robot.asset)


def state_of(plan: BridgePlan, configuration: Configuration) -> State:
    layout = plan.layout
    position = np.array([configuration.positions[name] for name in layout.dofs])
    return State(
        time_ns=0,
        joint_position=position,
        joint_velocity=np.zeros_like(position),
        joint_effort=np.zeros_like(position),
        body_pose=layout.body_pose.copy(),
    )


def test_kinematics_match_pinocchio(robot: RobotOracle, plan: BridgePlan, errors: Errors) -> None:
    kinematics = Kinematics(plan)
    ids = {frame.path: frame.id for frame in plan.robots[0].frames}
    for configuration in robot.configurations:
        bodies = kinematics.body_poses(state_of(plan, configuration))
        poses = {
            ids[path]: Pose(pose[:3], pose[3:]) for path, pose in zip(plan.layout.bodies, bodies, strict=True)
        }
        assert poses.keys() == set(robot.solid_links)
        errors.compare(configuration, poses)
    assert errors.small, errors


def test_frames_match_pinocchio(robot: RobotOracle, plan: BridgePlan, errors: Errors) -> None:
    """Every link is a frame, those without mass included, which are no bodies."""
    kinematics = Kinematics(plan)
    frames = [frame for frame in plan.robots[0].frames if frame.id in robot.links]
    for configuration in robot.configurations:
        bodies = kinematics.body_poses(state_of(plan, configuration))
        poses = {}
        for frame in frames:
            pose = Pose(
                np.array(frame.carrier_from_frame.translation), np.array(frame.carrier_from_frame.rotation)
            )
            if frame.carrier >= 0:
                body = bodies[frame.carrier]
                pose = Pose(body[:3], body[3:]) @ pose
            poses[frame.id] = pose
        assert poses.keys() >= set(robot.links) - {"world"}
        errors.compare(configuration, poses)
    assert errors.small, errors


def test_frames_hang_from_the_default_prim(robot: RobotOracle, plan: BridgePlan) -> None:
    (planned,) = plan.robots
    assert planned.implicit
    # A link called like the parent frame is that frame.
    assert {frame.id for frame in planned.frames} == {robot.default_prim, *robot.links} - {"world"}
    topmost = planned.frames[0]
    assert (topmost.id, topmost.parent, topmost.static) == (robot.default_prim, "world", True)
    moving = {frame.id for frame in planned.frames if not frame.static}
    assert moving == set(robot.moving_solid_links)


def test_joints_are_those_of_the_urdf(robot: RobotOracle, plan: BridgePlan) -> None:
    joints = [joint for joint in plan.robots[0].joints if joint.dofs]
    assert {dof.name for joint in joints for dof in joint.dofs} == robot.limits.keys()
    for joint in joints:
        (dof,) = joint.dofs
        assert dof.position == pytest.approx(0.0, abs=FLOAT32), f"a URDF's joint is at rest at 0: {dof}"
        assert (dof.lower, dof.upper) == pytest.approx(robot.limits[dof.name], rel=FLOAT32), dof
        assert (joint.type == "continuous") == np.isinf(dof.upper), joint


def test_mimic_rules_give_what_was_left_out(robot: RobotOracle, plan: BridgePlan) -> None:
    followers = {dof.name: dof.mimic for joint in plan.robots[0].joints for dof in joint.dofs if dof.mimic}
    left_out = {name for c in robot.configurations for name in c.positions.keys() - c.published.keys()}
    assert followers.keys() == left_out
    for configuration in robot.configurations:
        for name in configuration.positions.keys() - configuration.published.keys():
            rule = followers[name]
            leader = configuration.positions[plan.layout.dofs[rule.leader]]
            assert rule.multiplier * leader + rule.offset == pytest.approx(configuration.positions[name])
