"""The snapshot: velocities and accelerations against known motions; numbers that no backend measured."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from builders.plans import gripper, rest_of, rover
from case_tables import each_case
from usd_ros_bridge.model.change import common_rows
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.runtime.frame_poses import WORLD, FrameTable
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.snapshot import UNKNOWN, Snapshot, UnknownFilter
from usd_ros_bridge.spatial.scalar import in_axes
from usd_ros_bridge.spatial.transforms import compose, exponential, pose, rotate, twist_exponential

MS = 1_000_000
# NaN of other bits than numpy's own, as arithmetic makes it.
NEGATIVE_NAN = np.copysign(np.nan, -1.0)


def make(plan: BridgePlan, *, joint_driven: bool = True) -> tuple[Snapshot, State]:
    kinematics = Kinematics(plan)
    frames = FrameTable(plan, kinematics, joint_driven=joint_driven, report=lambda _kind, _message: None)
    return Snapshot(plan, kinematics, frames, joint_driven=joint_driven), rest_of(plan)


def test_a_constant_twist_is_found_again() -> None:
    snapshot, state = make(rover().build())
    body_twist = np.array([0.5, 0.1, -0.2, 0.3, -0.4, 1.0])
    start = state.body_pose[0].copy()
    for tick in range(4):
        state.time_ns = tick * MS
        state.body_pose[0] = compose(start, twist_exponential(body_twist * tick * 1e-3))
        snapshot.begin(state)
        twist = snapshot.body_twist[0].copy()
        if tick == 0:
            assert_allclose(twist, 0.0)
            continue
        turn = state.body_pose[0, 3:]
        assert_allclose(twist[:3], rotate(turn, body_twist[:3]), atol=2e-3)
        assert_allclose(twist[3:], rotate(turn, body_twist[3:]), atol=1e-3)


def test_a_body_below_a_joint_moves_with_it() -> None:
    snapshot, state = make(rover().build())
    wheel = snapshot.plan.layout.body_index["/rover/left_wheel"]
    for tick in range(2):
        state.time_ns = tick * 10 * MS
        state.joint_position[0] = 0.02 * tick
        snapshot.begin(state)
        twist = snapshot.body_twist[wheel]
    axis = rotate(state.body_pose[0, 3:], np.array([0.0, 1.0, 0.0]))
    assert_allclose(twist, [0.0, 0.0, 0.0, *(2.0 * axis)], atol=1e-9)


def test_a_measured_twist_is_passed_on_and_driven_bodies_are_differentiated() -> None:
    snapshot, state = make(rover().build())
    state.body_twist = np.zeros((4, 6))
    state.body_twist[0] = [1.0, 0.0, 0.0, 0.0, 0.0, 0.5]
    state.body_twist[3] = 99.0  # below a joint: not measured, whatever stands there
    for tick in range(3):
        state.time_ns = tick * 10 * MS
        state.joint_position[2] = 0.01 * tick
        snapshot.begin(state)
        assert_allclose(snapshot.twist(0), state.body_twist[0])
        twist = snapshot.body_twist
    assert_allclose(twist[0], state.body_twist[0])
    assert_allclose(twist[3, 3:], [0.0, 0.0, 1.0], atol=1e-9)


def test_acceleration_of_a_fall() -> None:
    snapshot, state = make(rover().build())
    found = []
    for tick in range(5):
        seconds = tick * 0.01
        state.time_ns = tick * 10 * MS
        state.body_pose[0] = pose(
            (0.0, 0.0, 10.0 - 0.5 * 9.81 * seconds**2), exponential(np.array([0.0, 0.0, 0.1]))
        )
        snapshot.begin(state)
        found.append(snapshot.body_acceleration[0].copy())
    assert_allclose(found[0], 0.0)
    assert_allclose(found[1], 0.0)
    for acceleration in found[2:]:
        assert_allclose(acceleration, [0.0, 0.0, -9.81, 0.0, 0.0, 0.0], atol=1e-6)


def test_acceleration_from_a_measured_twist_starts_at_the_second_tick() -> None:
    snapshot, state = make(rover().build(), joint_driven=False)
    state.body_twist = np.zeros((4, 6))
    for tick in range(2):
        state.time_ns = tick * 10 * MS
        state.body_twist[0, 0] = 0.03 * tick
        snapshot.begin(state)
        acceleration = snapshot.body_acceleration[0]
    assert_allclose(acceleration, [3.0, 0.0, 0.0, 0.0, 0.0, 0.0])


def test_a_robot_without_a_new_state_keeps_its_twist() -> None:
    snapshot, state = make(gripper(rover()).build())
    palm = snapshot.plan.layout.body_index["/gripper/palm"]
    row = snapshot.plan.layout.dofs.index("palm_joint")
    times = [(10, 10), (20, 20), (30, 20), (40, 40)]
    expected = [0.0, 2.0, 2.0, 1.0]
    for (now, stamp), speed in zip(times, expected, strict=True):
        state.time_ns = now * MS
        state.robot_time_ns = np.array([-1, stamp * MS])
        state.joint_position[row] = {10: 0.0, 20: 0.02, 40: 0.04}[stamp]
        snapshot.begin(state)
        assert_allclose(snapshot.body_twist[palm, 3], speed, atol=1e-9)
        assert_allclose(snapshot.body_twist[0], 0.0)


def test_a_reset_forgets_velocities_and_starts() -> None:
    snapshot, state = make(rover().build())
    for tick in range(2):
        state.time_ns = tick * 10 * MS
        state.body_pose[0, 0] = tick
        snapshot.begin(state)
        assert snapshot.body_twist.any() == (tick == 1)
    assert snapshot.start_pose(0)[0] == 0.0
    snapshot.reset()
    assert np.isnan(snapshot.start_pose(0)).all()
    state.time_ns = 5 * MS
    state.body_pose[0, 0] = 7.0
    snapshot.begin(state)
    assert not snapshot.body_twist.any()
    assert not snapshot.body_acceleration.any()
    assert snapshot.start_pose(0)[0] == 7.0


def test_a_start_is_the_first_known_state_of_the_robot() -> None:
    snapshot, state = make(gripper(rover()).build())
    state.robot_time_ns = np.array([10, -1])
    palm = snapshot.plan.layout.body_index["/gripper/palm"]
    snapshot.begin(state)
    assert np.isfinite(snapshot.start_pose(0)).all()
    assert np.isnan(snapshot.start_pose(palm)).all()
    state.robot_time_ns = np.array([10, 11])
    state.joint_position[snapshot.plan.layout.dofs.index("palm_joint")] = 1.0
    snapshot.begin(state)
    assert_allclose(snapshot.start_pose(palm)[3:], [np.sin(0.5), 0.0, 0.0, np.cos(0.5)])


def test_what_is_asked_twice_is_computed_once() -> None:
    snapshot, state = make(rover().build())
    snapshot.begin(state)
    assert snapshot.body_pose is snapshot.body_pose
    before = snapshot.body_pose
    snapshot.begin(state)
    assert snapshot.body_pose is not before


def test_a_twist_in_its_body_s_axes_holds_for_one_body_and_one_state() -> None:
    snapshot, state = make(gripper(rover()).build(), joint_driven=False)
    random = np.random.default_rng(5)
    before: set[tuple[float, ...]] = set()
    # The second state has the time of the first: what counts is that it is another state.
    for tick in (0, 0, 1):
        state.time_ns = tick * MS
        state.body_twist = random.uniform(-1.0, 1.0, (len(state.body_pose), 6))
        state.body_pose[:, 3:] = exponential(random.uniform(-1.0, 1.0, (len(state.body_pose), 3)))
        snapshot.begin(state)
        for row in range(len(state.body_pose)):
            twist = snapshot.local_twist(row)
            assert twist == in_axes(snapshot.body(row)[3:], snapshot.twist(row))
            assert snapshot.local_twist(row) is twist
            before.add(tuple(twist))
    assert len(before) == 3 * len(state.body_pose)


def test_a_reset_forgets_the_twist_in_its_body_s_axes() -> None:
    snapshot, state = make(rover().build())
    state.body_twist = None
    for tick in range(2):
        state.time_ns = tick * 10 * MS
        state.body_pose[0, 0] = tick
        snapshot.begin(state)
        assert any(snapshot.local_twist(0)) == (tick == 1)
    snapshot.reset()
    assert not any(snapshot.local_twist(0))


def test_the_world_stands_still_in_its_origin() -> None:
    snapshot, state = make(gripper(rover()).build())
    palm = snapshot.plan.layout.body_index["/gripper/palm"]
    for tick in range(3):
        state.time_ns = tick * MS
        state.joint_position[:] = 0.1 * tick
        snapshot.begin(state)
        expected = make(snapshot.plan)[0]
        expected.begin(state)
        assert snapshot.body(WORLD) == [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        assert not any((*snapshot.twist(WORLD), *snapshot.local_twist(WORLD), *snapshot.acceleration(WORLD)))
        assert np.array(snapshot.body(palm)).tobytes() == np.array(expected.body(palm)).tobytes()


def test_odometry_goes_on_from_where_it_started_in_the_plan_before() -> None:
    old, state = make(rover().build())
    old.begin(state)
    new, _ = make(old.plan)
    assert np.isnan(new.start_pose(0)).all()
    new.transfer_state(old, common_rows(new.plan, old.plan), same_backend=False)
    assert new.start_pose(0) == old.start_pose(0) == state.body_pose[0].tolist()


@each_case("nothing", [[np.nan] * 3, [NEGATIVE_NAN] * 3, [np.nan, NEGATIVE_NAN, np.nan]])
def test_nan_alone_is_unknown(nothing: list[float]) -> None:
    assert UnknownFilter(3)(np.array(nothing)) is UNKNOWN


@each_case("some", [[0.0] * 3, [np.nan, np.nan, 1.0], [np.inf, np.nan, np.nan]])
def test_numbers_that_are_known_in_part_stay(some: list[float]) -> None:
    values = np.array(some)
    assert UnknownFilter(3)(values) is values


def test_an_empty_array_stays() -> None:
    values = np.zeros(0)
    assert UnknownFilter(0)(values) is values
