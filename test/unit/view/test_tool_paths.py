"""Tool paths against matrices that follow the definition of a joint, for the example arm and for odd joints."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from usd_ros_bridge import load_plan
from usd_ros_bridge.view.tool_paths import MAX_SAMPLES, ToolPath, resampled, tool_frame

pytestmark = pytest.mark.app

ROOT = Path(__file__).parents[3]
ARM = ROOT / "examples" / "arm" / "arm.usda"


@pytest.fixture(scope="module")
def arm():
    return load_plan(ARM)


def matrix(pose):
    x, y, z, w = pose.rotation
    result = np.eye(4)
    result[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    result[:3, 3] = pose.translation
    return result


def motion(dof, value):
    result, axis = np.eye(4), "XYZ".index(dof.axis[-1])
    if dof.axis.startswith("trans"):
        result[axis, 3] = value
        return result
    i, j = (axis + 1) % 3, (axis + 2) % 3
    result[i, i] = result[j, j] = math.cos(value)
    result[i, j], result[j, i] = -math.sin(value), math.sin(value)
    return result


def pose_by_definition(robot, frame_id, positions):
    """`root_from_frame` by JointPlan's own words: body0_from_joint * motion * inverse(body1_from_joint)."""
    frames = {frame.id: frame for frame in robot.frames}
    joints = {joint.child: joint for joint in robot.joints}
    result, frame = np.eye(4), frames.get(frame_id)
    while frame is not None:
        joint = joints.get(frame.id)
        if joint is None:
            step = matrix(frame.parent_from_frame)
        else:
            step = matrix(joint.body0_from_joint)
            for dof in joint.dofs:
                value = positions.get(dof.row, dof.position)
                if dof.mimic is not None:
                    value = dof.mimic.multiplier * positions.get(dof.mimic.leader, 0.0) + dof.mimic.offset
                step = step @ motion(dof, value)
            step = step @ np.linalg.inv(matrix(joint.body1_from_joint))
            if joint.inverted:
                step = np.linalg.inv(step)
        result, frame = step @ result, frames.get(frame.parent)
    return result


@pytest.mark.parametrize("frame", ["gripper_tcp", "link_3", "left_finger", "right_finger", "base_link"])
def test_poses_follow_the_definition_of_joints(arm, frame):
    robot = arm.robots[0]
    path = ToolPath(arm, 0, frame)
    random = np.random.default_rng(7)
    for _ in range(20):
        positions = {
            dof.row: random.uniform(max(dof.lower, -3.0), min(dof.upper, 3.0))
            for joint in robot.joints
            for dof in joint.dofs
        }
        wanted = pose_by_definition(robot, frame, positions)
        found = path.pose(positions)
        np.testing.assert_allclose(found[:3], wanted[:3, 3], atol=1e-9)


@pytest.mark.parametrize("asset", ["joint_inverted", "joint_types", "joint_several_per_edge", "joint_mimic"])
def test_at_rest_every_frame_is_where_the_plan_has_it(asset):
    plan = load_plan(ROOT / "test" / "assets" / f"{asset}.usda")
    for number, robot in enumerate(plan.robots):
        for frame in robot.frames:
            path = ToolPath(plan, number, frame.id)
            at = next((i for i, each in enumerate(robot.frames) if each.id == path.root), -1)
            chain, step = [], next(i for i, each in enumerate(robot.frames) if each.id == frame.id)
            while step != at:
                chain.append(robot.frames[step])
                step = robot.frames[step].parent_index
            wanted = np.eye(4)
            for each in reversed(chain):
                wanted = wanted @ matrix(each.parent_from_frame)
            np.testing.assert_allclose(path.pose({})[:3], wanted[:3, 3], atol=1e-6)


def test_a_path_has_the_points_of_the_trajectory_and_more_in_between(arm):
    rows = [arm.layout.dofs.index(f"joint_{number}") for number in range(1, 7)]
    path = ToolPath(arm, 0, "gripper_tcp")
    positions = np.array([[0.0] * 6, [0.5, 0.2, -0.3, 0.1, 0.4, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    points = path.points(rows, positions)
    assert 100 < len(points) <= MAX_SAMPLES
    for wanted, found in zip(positions, points[:: (len(points) - 1) // 2], strict=True):
        np.testing.assert_allclose(found, path.pose(dict(zip(rows, wanted, strict=True)))[:3], atol=1e-9)
    assert np.linalg.norm(np.diff(points, axis=0), axis=1).max() < 0.02


@pytest.mark.parametrize("count", [1, 2, 3, 150, 200, 201, 1000])
def test_resampling_keeps_the_ends_and_the_limit(count):
    positions = np.stack([np.linspace(0.0, 1.0, count), np.linspace(5.0, 4.0, count)], axis=1)
    found = resampled(positions)
    assert len(found) <= MAX_SAMPLES
    np.testing.assert_array_equal(found[0], positions[0])
    np.testing.assert_array_equal(found[-1], positions[-1])


def test_positions_that_are_no_numbers_change_nothing(arm):
    path = ToolPath(arm, 0, "gripper_tcp")
    before = path.pose({0: 0.1}).copy()
    np.testing.assert_array_equal(path.pose({0: math.nan, 99_999: 1.0, -4: 2.0}), before)


def test_the_tool_of_some_joints_is_the_farthest_frame_that_no_other_joint_moves(arm):
    robot = arm.robots[0]
    rows = {joint.name: joint.dofs[0].row for joint in robot.joints if joint.dofs}
    assert tool_frame(robot, [rows[f"joint_{number}"] for number in range(1, 7)]) == "gripper_tcp"
    assert tool_frame(robot, [rows["joint_1"]]) == "link_1"
    assert tool_frame(robot, [rows["left_finger_joint"]]) == "left_finger"
    assert tool_frame(robot, []) == ""


def test_an_unknown_frame_is_an_error(arm):
    with pytest.raises(ValueError, match="has no frame nowhere"):
        ToolPath(arm, 0, "nowhere")
