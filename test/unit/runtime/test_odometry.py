"""Odometry of controllers: what messages and /tf show of a base that wheels reckon, and of one that they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from builders.groups import NotingOdometry, noting
from builders.plans import PlanBuilder, rover
from builders.samples import twist_sample
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.controllers.controller_group import make_groups
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.runtime.runtime import Runtime

MS = 1_000_000
SECOND = 1_000_000_000
BASE = 0
"""Index of the base's frame among a rover's moving frames."""
WHEELS = ("left_wheel_joint", "right_wheel_joint")
PARAMETERS = {
    "wheel_separation": 0.4,
    "wheel_radius": 0.05,
    "left_wheels": WHEELS[:1],
    "right_wheels": WHEELS[1:],
    "cmd_vel_timeout": 0.5,
}


def rovers(*base_transforms: str, drive: bool = True) -> BridgePlan:
    """Returns rovers, each with a differential drive and a topic for it."""
    builder = PlanBuilder()
    for number, base_transform in enumerate(base_transforms):
        rover(builder, f"/rover_{number}", f"/rover_{number}")
        robot = builder.robots[-1]
        robot.options["base_transform"] = base_transform
        if drive:
            topic = robot.topic("cmd_vel", "geometry_msgs/msg/Twist", "subscription")
            robot.controller(
                "drive", "RosControlDiffDriveAPI", WHEELS, interfaces=[topic], parameters=PARAMETERS
            )
    return builder.build()


def run(plan: BridgePlan, make: Callable[..., Any] = make_groups, ticks: Sequence[int] = (0,)) -> Runtime:
    runtime = Runtime(plan, KinematicBackend(), groups=make).open()
    for tick in ticks:
        runtime.tick(SECOND + tick * 10 * MS)
    return runtime


def drive(runtime: Runtime, velocity: float, turning: float, *, seconds: float = 1.0) -> None:
    """Has every rover drive for some time at 100 Hz, commanded at 10 Hz."""
    deliveries = [runtime.bind_sink(topic) for topic in runtime.plan.topics]
    sample = twist_sample(velocity, turning)
    runtime.tick(SECOND)
    for tick in range(1, round(seconds * 100) + 1):
        if tick % 10 == 1:
            for delivery in deliveries:
                delivery.deliver(sample)
        runtime.tick(SECOND + tick * 10 * MS)


def test_a_robot_with_a_controller_that_reckons_shows_its_odometry() -> None:
    make, _ = noting(NotingOdometry)
    snapshot = run(rovers("odometry", "odometry"), make, range(3)).snapshot
    for robot in range(2):
        odometry = snapshot.odometry(robot)
        assert odometry is not None
        assert odometry.pose == [3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        assert odometry.twist == [1.5, 0.0, 0.0, 0.0, 0.0, 0.0]
        assert odometry.pose_covariance == [0.001] * 6
        assert odometry.twist_covariance == [0.002] * 6
    assert snapshot.odometry(-1) is None


def test_a_robot_without_one_has_none() -> None:
    assert run(rovers("odometry", drive=False)).snapshot.odometry(0) is None


def test_the_transform_of_a_base_is_what_its_robot_says_it_is() -> None:
    make, _ = noting(NotingOdometry)
    runtime = run(rovers("odometry", "ground_truth", "none", "odometry"), make, range(2))
    snapshot = runtime.snapshot
    reckoned = [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    assert_allclose(snapshot.frame_poses(0)[BASE], reckoned)
    assert_allclose(snapshot.frame_poses(3)[BASE], reckoned)
    assert_allclose(snapshot.frame_poses(1)[BASE], snapshot.state.body_pose[4])
    assert len(snapshot.frame_poses(2)) == len(snapshot.frame_poses(0)) - 1, "another node sends it"
    for robot in range(4):
        moving = snapshot.moving_frames(robot)
        assert len(set(moving)) == len(moving)
    # Frames below the base hang from it as ever.
    assert_allclose(snapshot.frame_poses(0)[1:], snapshot.frame_poses(1)[1:], atol=1e-12)


def test_a_base_that_no_controller_reckons_shows_its_true_motion() -> None:
    plan = rovers("odometry", drive=False)
    runtime = run(plan)
    runtime.commands.body_pose[0] = [4.0, 2.0, 0.1, 0.0, 0.0, 0.0, 1.0]
    runtime.tick(SECOND + 10 * MS)
    snapshot = runtime.snapshot
    assert_allclose(
        np.linalg.norm(snapshot.frame_poses(0)[BASE, :2]),
        np.linalg.norm(snapshot.state.body_pose[0, :2] - plan.layout.body_pose[0, :2]),
    )


def test_odometry_that_is_not_finite_spoils_the_frame_of_its_base_alone_until_it_is_finite_again() -> None:
    make, groups = noting(NotingOdometry)
    runtime = run(rovers("odometry", "odometry"), make)
    group, snapshot = groups[0], runtime.snapshot
    assert isinstance(group, NotingOdometry)
    before = [snapshot.frame_poses(robot).copy() for robot in range(2)]
    assert [poses.shape for poses in before] == [(4, 7)] * 2
    group.odom_from_base[0, 1] = np.nan
    runtime.tick(SECOND + 10 * MS)
    assert not snapshot.frames_finite
    spoilt, sound = snapshot.frame_poses(0), snapshot.frame_poses(1)
    assert np.isfinite(spoilt).all(axis=1).tolist() == [number != BASE for number in range(4)]
    assert_allclose(spoilt[BASE + 1 :], before[0][BASE + 1 :])
    assert_allclose(sound[BASE, :2], [2.0, 0.0])
    assert_allclose(sound[BASE + 1 :], before[1][BASE + 1 :])
    group.odom_from_base[0, 1] = 0.0
    runtime.tick(SECOND + 20 * MS)
    assert snapshot.frames_finite
    for robot in range(2):
        assert_allclose(snapshot.frame_poses(robot)[BASE], [3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        assert_allclose(snapshot.frame_poses(robot)[BASE + 1 :], before[robot][BASE + 1 :])


@pytest.mark.parametrize("turning", [0.0, 0.7])
def test_wheels_turn_the_base_moves_and_odometry_and_tf_follow(turning: float) -> None:
    runtime = run(rovers("odometry", "ground_truth"))
    start = runtime.snapshot.start_poses[0].copy()
    drive(runtime, 0.5, turning, seconds=2.0)
    snapshot, state = runtime.snapshot, runtime.snapshot.state
    left, right = state.joint_position[0], state.joint_position[1]
    assert_allclose([left, right], [(1.0 - 0.4 * turning) / 0.05, (1.0 + 0.4 * turning) / 0.05], rtol=1e-9)
    odometry = snapshot.odometry(0)
    assert odometry is not None
    heading = 2.0 * turning
    arc = (
        [1.0, 0.0]
        if turning == 0.0
        else [0.5 / turning * np.sin(heading), 0.5 / turning * (1.0 - np.cos(heading))]
    )
    assert_allclose(odometry.pose[:2], arc, atol=1e-9)
    assert_allclose(odometry.twist, [0.5, 0.0, 0.0, 0.0, 0.0, turning], atol=1e-9)
    assert_allclose(snapshot.frame_poses(0)[BASE], odometry.pose, atol=1e-12)
    moved = np.linalg.norm(state.body_pose[0, :2] - start[:2])
    assert_allclose(moved, np.linalg.norm(arc), atol=1e-9, err_msg="the base goes where its wheels say")
    assert_allclose(snapshot.frame_poses(1)[BASE], state.body_pose[4], atol=1e-12)


def test_a_drive_without_commands_stops_and_lets_ticks_be_passed_by() -> None:
    runtime = run(rovers("odometry"))
    drive(runtime, 0.5, 0.0)
    assert runtime.controllers.busy
    assert runtime.next_due_ns() == 2 * SECOND + 10 * MS
    steps = 0
    while runtime.controllers.busy:
        steps += 1
        runtime.tick(2 * SECOND + steps * 10 * MS)
        assert steps < 100
    assert 40 <= steps <= 60, "cmd_vel_timeout is half a second"
    assert runtime.next_due_ns() is None
    before = runtime.snapshot.state.body_pose[0].copy()
    runtime.tick(10 * SECOND)
    assert_allclose(runtime.snapshot.state.body_pose[0], before)


def test_odometry_goes_on_where_the_backend_takes_no_commands() -> None:
    class Turning(KinematicBackend):
        capabilities = KinematicBackend.capabilities.__class__(commands=False)

        def step(self, time_ns: int, commands: Commands) -> State:
            state = super().step(time_ns, commands)
            state.joint_position[:2] = 10.0 * (time_ns - SECOND) * 1e-9
            return state

    runtime = Runtime(rovers("odometry"), Turning()).open()
    for tick in range(11):
        runtime.tick(SECOND + tick * 100 * MS)
    status = runtime.controllers.status()[0]
    assert (status.active, status.reason) == (False, "the backend takes no commands")
    odometry = runtime.snapshot.odometry(0)
    assert odometry is not None
    assert_allclose(odometry.pose[0], 0.5, atol=1e-9)


def test_odometry_starts_over_at_a_reset() -> None:
    runtime = run(rovers("odometry"))
    drive(runtime, 0.5, 0.0)
    runtime.reset()
    runtime.tick(SECOND)
    odometry = runtime.snapshot.odometry(0)
    assert odometry is not None
    assert odometry.pose == [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]


def test_the_same_commands_in_simulated_time_give_the_same_bytes() -> None:
    def numbers() -> bytes:
        runtime = run(rovers("odometry", "odometry"))
        drive(runtime, 0.3, 0.4)
        snapshot = runtime.snapshot
        return b"".join(
            array.tobytes()
            for array in (snapshot.state.joint_position, snapshot.state.body_pose, snapshot.all_frame_poses)
        )

    assert numbers() == numbers()
