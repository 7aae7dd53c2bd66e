"""The kinematic backend: where commands lead, how fast, and where they stop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from builders.plans import PlanBuilder, gripper, rover
from open_backends import OpenBackend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.model.state import State
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray, compose, pose, to_matrix, twist_exponential

MS = 1_000_000
STEP = 10 * MS


class Bench(OpenBackend):
    """An open backend, stepped at 100 Hz."""

    def __init__(self, builder: PlanBuilder) -> None:
        super().__init__(builder.build(), KinematicBackend())
        self.now = 0
        self.state = self.step(0)

    def step(self, count: int = 1, **commands: dict[int, float | FloatArray]) -> State:
        """Gives commands (array name to values by row), then steps `count` times; 0 steps without time passing."""
        for name, values in commands.items():
            for row, value in values.items():
                getattr(self.commands, name)[row] = value
        for _ in range(max(count, 1)):
            self.now += STEP if count else 0
            self.state = self.backend.step(self.now, self.commands)
            self.commands.clear()
        return self.state


def one_joint(**options: object) -> Bench:
    robot = PlanBuilder().robot()
    robot.body("base")
    robot.body("link")
    robot.joint("joint", "base", "link", **options)  # type: ignore[arg-type]
    return Bench(robot.plan)


def test_a_joint_without_a_speed_limit_arrives_at_once_and_reports_the_motion() -> None:
    bench = one_joint()
    state = bench.step(joint_position={0: 0.5})
    assert state.joint_position[0] == 0.5
    assert state.joint_velocity[0] == pytest.approx(50.0)
    assert bench.step().joint_velocity[0] == 0.0
    assert bench.step().joint_position[0] == 0.5


def test_a_joint_with_a_speed_limit_takes_its_time() -> None:
    bench = one_joint(max_velocity=2.0)
    bench.step(joint_position={0: 0.05})
    assert_allclose((bench.state.joint_position[0], bench.state.joint_velocity[0]), (0.02, 2.0))
    bench.step()
    assert bench.state.joint_position[0] == pytest.approx(0.04)
    bench.step()
    assert bench.state.joint_position[0] == 0.05
    assert bench.state.joint_velocity[0] == pytest.approx(1.0)
    assert bench.step().joint_velocity[0] == 0.0


def test_a_target_beyond_a_limit_stops_there() -> None:
    bench = one_joint(limits=(-1.0, 0.5))
    assert bench.step(joint_position={0: 9.0}).joint_position[0] == 0.5
    assert bench.step(joint_position={0: -9.0}).joint_position[0] == -1.0


def test_a_continuous_joint_is_not_wrapped() -> None:
    assert one_joint(kind="continuous").step(joint_position={0: 50.0}).joint_position[0] == 50.0


def test_a_velocity_holds_until_the_next_command_and_ends_at_the_limit() -> None:
    bench = one_joint(limits=(-1.0, 0.5), max_velocity=3.0)
    bench.step(20, joint_velocity={0: 1.0})
    assert_allclose((bench.state.joint_position[0], bench.state.joint_velocity[0]), (0.2, 1.0))
    bench.step(40)
    assert_allclose((bench.state.joint_position[0], bench.state.joint_velocity[0]), (0.5, 0.0))
    bench.step(10, joint_velocity={0: -99.0})
    assert_allclose((bench.state.joint_position[0], bench.state.joint_velocity[0]), (0.2, -3.0))
    bench.step(joint_velocity={0: 0.0})
    assert bench.step(5).joint_position[0] == pytest.approx(0.2)


def test_a_position_replaces_a_velocity_and_the_other_way_round() -> None:
    bench = one_joint(max_velocity=1.0)
    bench.step(10, joint_velocity={0: 1.0})
    bench.step(20, joint_position={0: 0.0})
    assert bench.state.joint_position[0] == 0.0
    bench.step(joint_position={0: 5.0})
    bench.step(10, joint_velocity={0: -0.5})
    assert bench.state.joint_velocity[0] == pytest.approx(-0.5)


def test_where_both_are_given_the_position_counts() -> None:
    bench = one_joint()
    assert bench.step(5, joint_position={0: 0.1}, joint_velocity={0: 7.0}).joint_position[0] == 0.1


def test_positions_of_a_trajectory_are_reached_exactly_at_every_tick() -> None:
    builder = rover()
    robot = builder.robots[0]
    robot.body("head")
    robot.joint("head_joint", "mast", "head", axis="Y", limits=(-2.0, 2.0))
    bench = Bench(builder)
    head, mast = robot.row("head_joint"), robot.row("mast_joint")
    for tick in range(1, 1000):
        # As fast as may be where there is no limit of speed, within the limit of 2 rad/s where there is one.
        wanted: dict[int, float | FloatArray] = {
            head: 1.7 * np.sin(1.3 * tick),
            mast: 0.9 * np.sin(0.01 * tick),
        }
        state = bench.step(joint_position=wanted, joint_velocity={head: 3.0, mast: 3.0})
        assert {row: state.joint_position[row] for row in wanted} == wanted


def test_a_base_and_its_wheels_are_commanded_in_one_step() -> None:
    bench = Bench(rover())
    ahead = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    bench.step(10, body_twist={0: ahead}, joint_velocity={0: 5.0, 1: 5.0})
    state = bench.step(10, joint_position={2: 0.1})
    assert_allclose(state.joint_position, [1.0, 1.0, 0.1])
    assert_allclose(np.linalg.norm(state.body_pose[0, :2] - bench.plan.layout.body_pose[0, :2]), 0.2)


def test_a_start_outside_the_limits_stays_until_it_is_commanded() -> None:
    """Converted robots may rest outside their limits; nothing jumps, and the way back is open."""
    bench = one_joint(position=0.0, limits=(-3.0, -0.5))
    assert bench.step(5).joint_position[0] == 0.0
    assert bench.step(joint_velocity={0: 1.0}).joint_position[0] == 0.0
    assert bench.step(10, joint_velocity={0: -1.0}).joint_position[0] == pytest.approx(-0.1)
    assert bench.step(joint_position={0: 0.0}).joint_position[0] == -0.5


def test_a_start_below_the_limits_stays_too_and_moves_up_only() -> None:
    bench = one_joint(position=0.0, limits=(0.5, 3.0))
    assert bench.step(joint_velocity={0: -1.0}).joint_position[0] == 0.0
    assert bench.step(10, joint_velocity={0: 1.0}).joint_position[0] == pytest.approx(0.1)


def test_mimic_joints_follow_at_every_moment_whatever_is_commanded_of_them() -> None:
    bench = Bench(gripper())
    names = bench.plan.layout.dofs
    left, right = names.index("left_finger_joint"), names.index("right_finger_joint")
    assert_allclose(bench.state.joint_position[right], 0.001)
    bench.step(joint_position={left: 0.04, right: 0.0})
    for _ in range(40):
        assert_allclose(bench.state.joint_position[right], bench.state.joint_position[left] + 0.001)
        assert_allclose(bench.state.joint_velocity[right], bench.state.joint_velocity[left])
        bench.step()
    assert_allclose(bench.state.joint_position[[left, right]], [0.04, 0.041])


def test_a_chain_of_mimic_joints_follows_its_first_leader() -> None:
    robot = PlanBuilder().robot()
    robot.body("base")
    for index, mimic in enumerate([None, ("a0", 2.0, 0.1), ("a1", -3.0, 0.5)]):
        robot.body(f"link{index}")
        robot.joint(f"a{index}", "base", f"link{index}", mimic=mimic)
    state = Bench(robot.plan).step(joint_position={0: 1.0})
    assert_allclose(state.joint_position, [1.0, 2.1, -5.8])


def test_efforts_are_reported_and_ignored() -> None:
    bench = one_joint()
    bench.step(joint_effort={0: 4.0})
    assert bench.kinds == ["kinematic.effort"]
    assert np.isnan(bench.state.joint_effort).all()
    assert bench.state.joint_position[0] == 0.0


def test_a_twist_makes_a_perfect_arc_whatever_the_step() -> None:
    twist = np.array([0.7, 0.0, 0.1, 0.2, -0.1, 0.9])
    bench = Bench(rover())
    start = bench.state.body_pose[0].copy()
    bench.step(300, body_twist={0: twist})
    expected = compose(start, twist_exponential(twist * 3.0))
    assert_allclose(to_matrix(bench.state.body_pose[0]), to_matrix(expected), atol=1e-9)
    assert bench.state.body_twist is not None
    rotation = to_matrix(bench.state.body_pose[0])[:3, :3]
    assert_allclose(bench.state.body_twist[0, :3], rotation @ twist[:3], atol=1e-9)
    assert_allclose(bench.state.body_twist[0, 3:], rotation @ twist[3:], atol=1e-9)
    assert_allclose(bench.state.body_twist[1:], 0.0)


def test_a_zero_twist_stops() -> None:
    bench = Bench(rover())
    bench.step(10, body_twist={0: np.ones(6)})
    stopped = bench.step(body_twist={0: np.zeros(6)}).body_pose[0].copy()
    assert_allclose(bench.step(10).body_pose[0], stopped)
    assert bench.state.body_twist is not None
    assert not bench.state.body_twist.any()


def test_a_quaternion_stays_a_unit() -> None:
    bench = Bench(rover())
    bench.step(4_000, body_twist={0: np.array([0.0, 0.0, 0.0, 3.0, 2.0, 1.0])})
    assert np.linalg.norm(bench.state.body_pose[0, 3:]) == pytest.approx(1.0, abs=1e-14)


def test_a_pose_jumps_and_a_twist_goes_on_from_there() -> None:
    bench = Bench(rover())
    bench.step(5, body_twist={0: np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])})
    bench.step(body_pose={0: pose((9.0, 8.0, 7.0), (0.0, 0.0, 0.0, 2.0))})
    assert_allclose(bench.state.body_pose[0], [9.01, 8.0, 7.0, 0.0, 0.0, 0.0, 1.0])


def test_the_first_step_takes_no_time_and_a_repeated_time_changes_nothing() -> None:
    bench = Bench(rover())
    bench.now = 10**18
    bench.backend.reset()
    start = bench.plan.layout.body_pose[0]
    state = bench.step(0, body_twist={0: np.ones(6)}, joint_velocity={0: 1.0})
    assert_allclose(state.body_pose[0], start)
    assert state.joint_position[0] == 0.0
    bench.step()
    moved, speed = bench.state.joint_position.copy(), bench.state.joint_velocity.copy()
    bench.step(0)
    assert_allclose(bench.state.joint_position, moved)
    assert_allclose(bench.state.joint_velocity, speed)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_no_command_ever_leaves_limits_or_exceeds_the_speed(data: st.DataObject) -> None:
    lower = data.draw(st.floats(-2.0, 0.0))
    upper = data.draw(st.floats(0.0, 2.0))
    speed = data.draw(st.floats(0.01, 5.0))
    bench = one_joint(limits=(lower, upper), max_velocity=speed)
    values = st.floats(-10.0, 10.0)
    before = 0.0
    for _ in range(15):
        name = data.draw(st.sampled_from(["joint_position", "joint_velocity"]))
        position = float(bench.step(**{name: {0: data.draw(values)}}).joint_position[0])
        assert lower <= position <= upper
        assert abs(position - before) <= speed * 0.01 * (1.0 + 1e-9)
        assert_allclose(bench.state.joint_velocity[0], (position - before) / 0.01, atol=1e-9)
        before = position


def test_a_body_pose_at_an_angle_moves_along_its_own_axes() -> None:
    robot = PlanBuilder().robot()
    robot.body("base", Pose((0.0, 0.0, 0.0), (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))))
    bench = Bench(robot.plan)
    bench.step(100, body_twist={0: np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])})
    assert_allclose(bench.state.body_pose[0, :3], [0.0, 1.0, 0.0], atol=1e-9)
