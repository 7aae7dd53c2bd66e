"""Which frames are broadcast, with what transforms, and the rules of what is sent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from builders.plans import PlanBuilder, as_pose, gripper, rest_of, rover
from case_tables import each_case
from usd_ros_bridge.model.plan import BridgePlan, FramePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime import frame_poses
from usd_ros_bridge.runtime.frame_poses import FrameTable
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray, axis_rotation, compose, pose, pose_array, to_matrix


@pytest.fixture(params=[0, frame_poses.FEW], ids=["numpy", "floats"], autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to compute frames that follow from poses: those of a plan here are few."""
    monkeypatch.setattr(frame_poses, "FEW", request.param)


class Scenario:
    """A plan with a snapshot of it, and the state to change."""

    def __init__(self, plan: BridgePlan, *, joint_driven: bool = True) -> None:
        self.plan = plan
        self.reporter = OnceReporter(lambda _kind, _message: None)
        self.kinematics = Kinematics(plan)
        self.frames = FrameTable(
            plan, self.kinematics, joint_driven=joint_driven, report=self.reporter.report
        )
        self.snapshot = Snapshot(plan, self.kinematics, self.frames, joint_driven=joint_driven)
        self.state: State = rest_of(plan)

    def show(self, time_ns: int = 1) -> Snapshot:
        self.state.time_ns = time_ns
        self.snapshot.begin(self.state)
        return self.snapshot

    def transforms(self, robot: int = 0) -> dict[str, FloatArray]:
        frame_poses = self.plan.robots[robot].frames
        moving = self.frames.robots[robot].moving
        poses = self.snapshot.frame_poses(robot)
        return {frame_poses[index].id: poses[row].copy() for row, index in enumerate(moving)}


def same(actual: FloatArray, expected: FloatArray) -> None:
    assert_allclose(to_matrix(actual), to_matrix(expected), atol=1e-12)


def test_frames_of_joints_follow_positions_and_the_base_its_pose() -> None:
    scenario = Scenario(rover().build())
    scenario.state.joint_position[:] = [0.5, -0.5, 1.0]
    base = np.array([4.0, 5.0, 6.0, 0.0, 0.0, 0.6, 0.8])
    scenario.state.body_pose[0] = base
    scenario.show()
    transforms = scenario.transforms()
    assert list(transforms) == ["base_link", "left_wheel", "right_wheel", "mast"]
    same(transforms["base_link"], base)
    turn = axis_rotation(np.array([0.0, 1.0, 0.0]), np.array(0.5))
    same(transforms["left_wheel"], pose((0.0, 0.2, -0.05), turn))


def test_all_robots_share_one_array() -> None:
    scenario = Scenario(gripper(rover()).build())
    scenario.show()
    assert scenario.frames.robots[1].span == slice(4, 7)
    assert list(scenario.transforms(1)) == ["palm", "left_finger", "right_finger"]
    for robot, plan in enumerate(scenario.plan.robots):
        for frame, transform in scenario.transforms(robot).items():
            rest = next(f.parent_from_frame for f in plan.frames if f.id == frame)
            if frame != "palm" and frame != "right_finger":  # at rest these are not at zero
                same(transform, pose_array(rest))


def test_measured_poses_and_joint_positions_give_the_same_transforms() -> None:
    plan = gripper(rover()).build()
    driven, measured = Scenario(plan), Scenario(plan, joint_driven=False)
    position = np.random.default_rng(2).uniform(-1.0, 1.0, len(plan.layout.dofs))
    driven.state.joint_position[:] = position
    driven.show()
    measured.state.body_pose[:] = driven.snapshot.body_pose
    measured.show()
    for robot in range(2):
        for frame, transform in driven.transforms(robot).items():
            same(measured.transforms(robot)[frame], transform)


def test_static_frames_are_constants() -> None:
    scenario = Scenario(gripper(rover()).build())
    robot = scenario.frames.robots[0]
    assert [scenario.plan.robots[0].frames[index].id for index in robot.static] == ["camera"]
    same(robot.static_poses[0], pose((0.05, 0.0, 0.02), (0.5, -0.5, 0.5, -0.5)))
    assert [scenario.plan.robots[1].frames[i].id for i in scenario.frames.robots[1].static] == ["mount"]


def test_a_static_frame_that_is_not_finite_is_left_out_and_named() -> None:
    builder = rover()
    builder.robots[0].fixed_frame("broken", "mast", Pose((np.nan, 0.0, 0.0)))
    scenario = Scenario(builder.build())
    assert len(scenario.frames.robots[0].static) == 1
    assert scenario.reporter.count("frames.finite:/rover/mast/broken") == 1


def test_a_frame_forced_onto_tf_keeps_its_constant_transform() -> None:
    builder = rover()
    builder.robots[0].fixed_frame("forced", "mast", Pose((0.1, 0.2, 0.3)), static=False)
    scenario = Scenario(builder.build())
    scenario.state.joint_position[:] = 0.7
    scenario.show()
    same(scenario.transforms()["forced"], pose((0.1, 0.2, 0.3)))


def test_a_frame_between_two_carriers() -> None:
    """A frame that one body carries, below a frame that another carries: the difference of their poses."""
    robot = PlanBuilder().robot()
    robot.body("ground", Pose((1.0, 0.0, 0.0)))
    robot.body("drone", Pose((0.0, 0.0, 2.0)))
    robot.fixed_frame("pad", "ground", Pose((0.0, 1.0, 0.0)))
    robot.fixed_frame("gimbal", "drone", Pose((0.0, 0.0, -0.1), (0.0, 0.0, 0.6, 0.8)))
    pad = next(i for i, frame in enumerate(robot.frames) if frame.id == "pad")
    index = next(i for i, frame in enumerate(robot.frames) if frame.id == "gimbal")
    robot.frames[index] = replace(robot.frames[index], static=False, parent="pad", parent_index=pad)
    scenario = Scenario(robot.plan.build())
    scenario.state.body_pose[0] = pose((2.0, 3.0, 0.0), (0.0, 0.0, 1.0, 0.0))
    scenario.state.body_pose[1] = pose((5.0, 5.0, 5.0), (1.0, 0.0, 0.0, 0.0))
    scenario.show()
    world_from_pad = to_matrix(scenario.state.body_pose[0]) @ to_matrix(pose((0.0, 1.0, 0.0)))
    world_from_gimbal = to_matrix(scenario.state.body_pose[1]) @ to_matrix(
        pose((0.0, 0.0, -0.1), (0.0, 0.0, 0.6, 0.8))
    )
    assert_allclose(
        to_matrix(scenario.transforms()["gimbal"]),
        np.linalg.inv(world_from_pad) @ world_from_gimbal,
        atol=1e-12,
    )


def test_the_child_of_a_distance_joint_comes_from_its_pose() -> None:
    robot = PlanBuilder().robot()
    robot.body("post", Pose((1.0, 0.0, 0.0)))
    robot.body("ball", Pose((1.0, 0.0, -1.0)))
    robot.joint("rope", "post", "ball", kind="distance")
    scenario = Scenario(robot.plan.build())
    scenario.state.body_pose[1, :3] = [1.5, 0.5, -0.8]
    scenario.show()
    assert_allclose(scenario.transforms()["ball"][:3], [0.5, 0.5, -0.8])


def odometry_plan() -> BridgePlan:
    builder = rover()
    robot = builder.robots[0]
    robot.options["base_transform"] = "odometry"
    robot.frames[0] = replace(robot.frames[0], parent="odom")
    return builder.build()


def test_an_odometry_base_starts_at_its_origin() -> None:
    scenario = Scenario(odometry_plan())
    start = scenario.state.body_pose[0].copy()
    scenario.show(1)
    same(scenario.transforms()["base_link"], pose())
    moved = pose((0.5, 0.1, 0.0), (0.0, 0.0, 0.6, 0.8))
    scenario.state.body_pose[0] = compose(start, moved)
    scenario.show(2)
    same(scenario.transforms()["base_link"], moved)
    scenario.snapshot.reset()
    scenario.show(3)
    same(scenario.transforms()["base_link"], pose())


def test_a_base_that_another_node_owns_is_left_out() -> None:
    builder = rover()
    builder.robots[0].options["base_transform"] = "none"
    scenario = Scenario(builder.build())
    scenario.show()
    assert "base_link" not in scenario.transforms()
    assert "mast" in scenario.transforms()


def test_a_robot_whose_place_another_node_owns_hangs_from_nothing() -> None:
    builder = rover()
    builder.robots[0].options["base_transform"] = "none"
    plan = builder.build()
    sent = Scenario(plan).frames.robots[0]
    left_out = set(range(len(plan.robots[0].frames))) - {*sent.moving, *sent.static}
    tops = {n for n, frame in enumerate(plan.robots[0].frames) if frame.parent_index < 0}
    assert left_out == tops | {plan.robots[0].base}


def test_a_pose_that_is_no_unit_quaternion_is_normalised() -> None:
    scenario = Scenario(rover().build())
    scenario.state.body_pose[0, 3:] = [0.0, 0.0, 0.0, 2.0]
    scenario.show()
    assert_allclose(scenario.transforms()["base_link"][3:], [0.0, 0.0, 0.0, 1.0])


@each_case("one_thread", [0, frame_poses.ONE_THREAD])
@each_case(("value", "finite"), [(-3.0, True), (1e200, True), (np.nan, False)])
def test_whether_all_is_finite_follows_from_the_positions(
    monkeypatch: pytest.MonkeyPatch, one_thread: int, value: float, finite: bool
) -> None:
    """Of a slide; 1e200 overflows when squared, so that the poses themselves decide."""
    monkeypatch.setattr(frame_poses, "ONE_THREAD", one_thread)
    robot = PlanBuilder().robot()
    robot.body("base")
    robot.joint("anchor", "", "base", kind="fixed")
    robot.body("slider")
    robot.joint("slide", "base", "slider", kind="prismatic", axis="X")
    scenario = Scenario(robot.plan.build())
    scenario.state.joint_position[:] = value
    snapshot = scenario.show()
    assert snapshot.frames_finite == finite
    assert_allclose(scenario.transforms()["slider"][0], value)


def test_frames_are_found_by_their_id_in_the_world() -> None:
    scenario = Scenario(rover().build())
    scenario.state.joint_position[2] = 0.4
    snapshot = scenario.show()
    mast = scenario.plan.layout.body_index["/rover/mast"]
    found = snapshot.frame_pose(0, "camera")
    assert found is not None
    same(found, compose(snapshot.body_pose[mast], pose((0.05, 0.0, 0.02), (0.5, -0.5, 0.5, -0.5))))
    assert snapshot.frame_pose(0, "nowhere") is None


def test_a_frame_nothing_moves_below_the_world() -> None:
    robot = PlanBuilder().robot()
    robot.frames.append(
        FramePlan(
            id="robot",
            parent="world",
            path="/robot",
            static=False,
            parent_from_frame=Pose((1.0, 2.0, 3.0)),
            carrier_from_frame=as_pose(pose((1.0, 2.0, 3.0))),
        )
    )
    scenario = Scenario(robot.plan.build())
    scenario.show()
    same(scenario.transforms()["robot"], pose((1.0, 2.0, 3.0)))
