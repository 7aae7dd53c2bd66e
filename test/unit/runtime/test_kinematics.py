"""Forward kinematics against products of 4x4 matrices made by scipy, joint by joint."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from builders.plans import PlanBuilder, gripper, rest_of, rover
from case_tables import each_case
from usd_ros_bridge.model.plan import BridgePlan, EdgePlan, JointPlan, RobotPlan
from usd_ros_bridge.model.records import DofAxis
from usd_ros_bridge.runtime.kinematics import Kinematics, selection
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray, to_matrix

AXES = {"X": 0, "Y": 1, "Z": 2}


def matrix(pose: Pose) -> FloatArray:
    result = np.eye(4)
    result[:3, :3] = Rotation.from_quat(pose.rotation).as_matrix()
    result[:3, 3] = pose.translation
    return result


def motion(axis: DofAxis, value: float) -> FloatArray:
    direction = np.eye(3)[AXES[axis[-1]]] * value
    result = np.eye(4)
    if axis.startswith("rot"):
        result[:3, :3] = Rotation.from_rotvec(direction).as_matrix()
    else:
        result[:3, 3] = direction
    return result


def joint_motion(joint: JointPlan, position: FloatArray) -> FloatArray:
    result = np.eye(4)
    for dof in joint.dofs:
        result = result @ motion(dof.axis, position[dof.row])
    return result


def edge_matrix(robot: RobotPlan, edge: EdgePlan, position: FloatArray) -> FloatArray:
    """What JointPlan and EdgePlan define, written down as they say it."""
    joints = [robot.joints[index] for index in edge.joints]
    if len(joints) == 1:
        joint = joints[0]
        body0_from_body1 = (
            matrix(joint.body0_from_joint)
            @ joint_motion(joint, position)
            @ np.linalg.inv(matrix(joint.body1_from_joint))
        )
        return np.linalg.inv(body0_from_body1) if joint.inverted else body0_from_body1
    result = np.eye(4)
    for joint in joints:
        frame = matrix(joint.body1_from_joint if joint.inverted else joint.body0_from_joint)
        moved = joint_motion(joint, position)
        result = result @ frame @ (np.linalg.inv(moved) if joint.inverted else moved) @ np.linalg.inv(frame)
    return result @ matrix(edge.rest)


def check(plan: BridgePlan, position: FloatArray) -> None:
    kinematics = Kinematics(plan)
    edges = kinematics.edge_poses(position).copy()
    state = rest_of(plan)
    state.joint_position[:] = position
    bodies = kinematics.body_poses(state)
    world = {path: to_matrix(state.body_pose[row]) for path, row in plan.layout.body_index.items()}
    row = 0
    for robot in plan.robots:
        for edge in robot.edges:
            expected = edge_matrix(robot, edge, position)
            np.testing.assert_allclose(to_matrix(edges[row]), expected, atol=1e-9)
            if row not in kinematics.free_edges:
                world[edge.child_path] = world.get(edge.parent_path, np.eye(4)) @ expected
            row += 1
    for path, body_row in plan.layout.body_index.items():
        np.testing.assert_allclose(to_matrix(bodies[body_row]), world[path], atol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(edges[:, 3:], axis=1), 1.0, atol=1e-12)


@each_case("seed", range(5))
def test_robots_of_every_joint_type(seed: int) -> None:
    plan = gripper(rover()).build()
    check(plan, np.random.default_rng(seed).uniform(-3.0, 3.0, len(plan.layout.dofs)))


unit = st.floats(-1.0, 1.0, allow_subnormal=False)


@st.composite
def local_poses(draw: st.DrawFn) -> Pose:
    quaternion = np.array([draw(unit) for _ in range(4)])
    if np.linalg.norm(quaternion) < 0.1:
        quaternion = np.array([0.0, 0.0, 0.0, 1.0])
    x, y, z, w = (quaternion / np.linalg.norm(quaternion)).tolist()
    return Pose((draw(unit), draw(unit), draw(unit)), (x, y, z, w))


@st.composite
def trees(draw: st.DrawFn) -> BridgePlan:
    """A random tree: any joint kind, either orientation, some edges with two joints, a free or an anchored root."""
    robot = PlanBuilder().robot()
    robot.body("body0", draw(local_poses()))
    if draw(st.booleans()):
        robot.joint("anchor", "", "body0", kind="fixed", body0_from_joint=draw(local_poses()))
    for index in range(1, draw(st.integers(1, 7))):
        robot.body(f"body{index}")
        parent = f"body{draw(st.integers(0, index - 1))}"
        count = draw(st.sampled_from([1, 1, 1, 2]))
        for part in range(count):
            kind = draw(st.sampled_from(["revolute", "prismatic", "fixed", "spherical", "distance"]))
            robot.joint(
                f"joint{index}{'ab'[part]}",
                parent,
                f"body{index}",
                kind="revolute" if count > 1 else kind,
                axis=draw(st.sampled_from(["X", "Y", "Z"])),
                body0_from_joint=draw(local_poses()),
                body1_from_joint=draw(local_poses()),
                inverted=count == 1 and draw(st.booleans()),
            )
        if count > 1:
            robot.merge(count)
    return robot.plan.build()


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(0, 1000))
def test_random_trees(plan: BridgePlan, seed: int) -> None:
    check(plan, np.random.default_rng(seed).uniform(-4.0, 4.0, len(plan.layout.dofs)))


@pytest.mark.parametrize("inverted", [False, True])
def test_a_joint_of_six_degrees_of_freedom(inverted: bool) -> None:
    robot = PlanBuilder().robot()
    robot.body("a", Pose((1.0, 0.0, 0.0)))
    robot.body("b")
    robot.joint(
        "d6",
        "a",
        "b",
        kind="generic",
        dofs=("transX", "transY", "transZ", "rotX", "rotY", "rotZ"),
        body0_from_joint=Pose((0.1, 0.2, 0.3), (0.5, 0.5, 0.5, 0.5)),
        body1_from_joint=Pose((0.0, -0.1, 0.0), (0.0, 0.6, 0.0, 0.8)),
        inverted=inverted,
    )
    plan = robot.plan.build()
    assert plan.layout.dofs == ("d6_tx", "d6_ty", "d6_tz", "d6_rx", "d6_ry", "d6_rz")
    check(plan, np.array([0.1, -0.2, 0.3, 0.4, -0.5, 0.6]))


def test_an_inverted_joint_keeps_the_sign_of_its_position() -> None:
    """Authored child first: q turns body1, here the parent, so the child turns by -q."""
    robot = PlanBuilder().robot()
    robot.body("parent")
    robot.body("child")
    robot.joint("j", "parent", "child", axis="Z", inverted=True)
    edge = Kinematics(robot.plan.build()).edge_poses(np.array([0.4]))[0]
    np.testing.assert_allclose(edge[3:], [0.0, 0.0, -np.sin(0.2), np.cos(0.2)], atol=1e-15)


def test_a_joint_to_a_context_that_moves() -> None:
    """An end at the context's frame follows what carries that frame."""
    robot = PlanBuilder().robot("/robot")
    robot.body("carrier", Pose((0.0, 0.0, 1.0)))
    robot.fixed_frame("mount", "carrier", Pose((0.5, 0.0, 0.0)))
    robot.body("arm")
    robot.joint("j", "carrier/mount", "arm", body0_from_joint=Pose((0.0, 0.25, 0.0)))
    plan = robot.plan.build()
    np.testing.assert_allclose(plan.layout.body_pose[robot.body_row("arm"), :3], [0.5, 0.25, 1.0])


def test_a_long_chain_takes_few_rounds_and_stays_exact() -> None:
    robot = PlanBuilder().robot()
    robot.body("l0")
    for index in range(300):
        robot.body(f"l{index + 1}")
        robot.joint(
            f"j{index}",
            f"l{index}",
            f"l{index + 1}",
            axis=("X", "Y", "Z")[index % 3],
            body0_from_joint=Pose((0.01, 0.0, 0.02)),
        )
    plan = robot.plan.build()
    check(plan, np.random.default_rng(3).uniform(-1.0, 1.0, 300))


def test_nothing_at_all() -> None:
    kinematics = Kinematics(BridgePlan(asset="empty"))
    assert kinematics.edge_poses(np.zeros(0)).shape == (0, 7)
    assert kinematics.body_poses(rest_of(BridgePlan(asset="empty"))).shape == (0, 7)


def test_one_unknown_position_spoils_its_own_edge_only() -> None:
    plan = gripper(rover()).build()
    position = plan.layout.joint_position.copy()
    position[0] = np.nan
    finite = np.isfinite(Kinematics(plan).edge_poses(position)).all(axis=1)
    assert finite.tolist().count(False) == 1


def test_consecutive_rows_become_a_slice() -> None:
    assert selection([3, 4, 5]) == slice(3, 6)
    for rows in itertools.permutations([0, 1, 3]):
        assert not isinstance(selection(rows), slice)
    assert not isinstance(selection([]), slice)
