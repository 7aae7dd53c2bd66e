"""Differential drives: the rules of diff_drive_controller of ros2_controllers, one test each."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.plans import PlanBuilder, rest_of, rover
from case_tables import each_case
from open_backends import OpenBackend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.controllers.controller_group import ControllerContext, ControllerGroup, OdometryGroup
from usd_ros_bridge.controllers.diff_drive import DiffDrives, find_wheels
from usd_ros_bridge.controllers.twist_commands import FIRST_STEP_NS
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, JointPlan
from usd_ros_bridge.model.state import Commands, State, TwistSample
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import relative

EXAMPLES = Path(__file__).parents[3] / "examples"
RADIUS, SEPARATION = 0.05, 0.4
MS = 1_000_000
PERIOD = 10 * MS


def drive_plan(builder: PlanBuilder, index: int = 0, **parameters: Any) -> ControllerPlan:
    robot = builder.robots[index]
    names = ("left_wheel_joint", "right_wheel_joint")
    return ControllerPlan(
        path=f"{robot.path}/drive",
        schema="RosControlDiffDriveAPI",
        interfaces=(f"{robot.path}/cmd_vel",),
        joints=names,
        dofs=tuple(robot.row(name) for name in names),
        robot=index,
        parameters={
            "left_wheels": names[:1],
            "right_wheels": names[1:],
            "wheel_radius": RADIUS,
            "wheel_separation": SEPARATION,
            "cmd_vel_timeout": 0.5,
            "linear_max_velocity": None,
            "linear_max_acceleration": None,
            "angular_max_velocity": None,
            "angular_max_acceleration": None,
            **parameters,
        },
    )


class Rig:
    """Drives with a state, ticked at 100 Hz."""

    def __init__(self, plan: BridgePlan, *, kinematic: bool = False) -> None:
        self.plan = plan
        self.reports: list[str] = []
        self.news: list[tuple[str, str]] = []
        self.drives = DiffDrives(
            ControllerContext(
                plan=plan,
                report=lambda kind, _message: self.reports.append(kind),
                inform=lambda kind, message: self.news.append((kind, message)),
                kinematic=kinematic,
            ),
            plan.controllers,
        )
        self.state = rest_of(plan)
        self.commands = Commands(plan.layout)
        self.now = 0

    def send(self, v: float, w: float = 0.0, *, row: int = 0, stamp_ns: int = 0) -> None:
        twist = np.array([v, np.nan, 3.0, 4.0, -np.inf, w])
        self.drives.receive(row, TwistSample(stamp_ns=stamp_ns, twist=twist), time_ns=self.now + PERIOD)

    def tick(self, count: int = 1, *, period: int = PERIOD) -> np.ndarray:
        """Runs ticks; returns the velocities that the last one wrote."""
        for _ in range(count):
            self.now += period
            self.commands.clear()
            self.drives.command(self.now, self.state, self.commands)
            self.state.time_ns = self.now
        return self.commands.joint_velocity

    def twist(self, row: int = 0) -> tuple[float, float]:
        """The v and w of the last tick's wheel speeds."""
        left, right = self.commands.joint_velocity[list(self.plan.controllers[row].dofs)]
        return (left + right) * RADIUS / 2, (right - left) * RADIUS / SEPARATION


def rig(*, topic: str = "geometry_msgs/msg/Twist", kinematic: bool = False, **parameters: Any) -> Rig:
    builder = rover()
    builder.robots[0].topic("cmd_vel", topic, "subscription")
    plan = builder.build()
    plan.layout.max_velocity[:] = np.inf
    return Rig(replace(plan, controllers=(drive_plan(builder, **parameters),)), kinematic=kinematic)


def test_the_group_is_what_the_protocol_asks_for() -> None:
    assert isinstance(rig().drives, OdometryGroup)
    group: ControllerGroup = rig().drives
    assert group.dynamic == {"cmd_vel_timeout"}


# --- Commands -------------------------------------------------------------------------------------------------


def test_nothing_is_commanded_before_the_first_command() -> None:
    one = rig()
    assert np.isnan(one.tick(3)).all()
    assert not one.drives.busy


def test_wheels_turn_at_the_speeds_of_the_arc() -> None:
    one = rig()
    one.send(0.5, 0.8)
    velocity = one.tick()
    left, right = one.plan.controllers[0].dofs
    assert velocity[left] == pytest.approx((0.5 - 0.8 * SEPARATION / 2) / RADIUS)
    assert velocity[right] == pytest.approx((0.5 + 0.8 * SEPARATION / 2) / RADIUS)
    assert np.isnan(np.delete(velocity, [left, right])).all()


def test_only_linear_x_and_angular_z_are_used() -> None:
    one = rig()
    one.send(0.5, 0.8)  # the others are NaN and infinite
    one.tick()
    assert one.twist() == pytest.approx((0.5, 0.8))
    assert one.reports == []


@each_case(
    "twist",
    [
        (math.nan, 0.0),
        (0.0, math.nan),
        (math.inf, 0.0),
        (0.0, -math.inf),
        (1e308, 1e308),
        (0.0, 1e200),
        (1e7, 0.0),
    ],
)
def test_a_command_that_is_not_finite_is_ignored_with_a_report(twist: tuple[float, float]) -> None:
    one = rig()
    one.send(0.5, 0.8)
    one.tick()
    one.send(*twist)
    one.tick()
    assert one.twist() == pytest.approx((0.5, 0.8))
    assert one.reports == ["drive.finite:/rover/drive"]


def test_a_command_that_is_not_finite_does_not_put_the_time_out_off() -> None:
    one = rig()
    one.send(0.5)
    one.tick(40)
    one.send(math.nan)
    one.tick(12)
    assert one.twist() == (0.0, 0.0)


def test_all_wheels_of_a_side_turn_alike() -> None:
    builder = rover()
    robot = builder.robots[0]
    for side, y in (("left", 0.2), ("right", -0.2)):
        robot.body(f"{side}_rear")
        robot.joint(
            f"{side}_rear_joint",
            "base_link",
            f"{side}_rear",
            axis="Y",
            kind="continuous",
            body0_from_joint=Pose((-0.3, y, -0.05)),
        )
    names = ("left_wheel_joint", "left_rear_joint", "right_rear_joint", "right_wheel_joint")
    drive = replace(
        drive_plan(builder, left_wheels=names[:2], right_wheels=names[2:]),
        joints=names,
        dofs=tuple(robot.row(name) for name in names),
    )
    one = Rig(replace(builder.build(), controllers=(drive,)))
    one.send(0.4, 1.0)
    velocity = one.tick()[list(drive.dofs)]
    assert velocity == pytest.approx([4.0, 4.0, 12.0, 12.0])


# --- Limits ---------------------------------------------------------------------------------------------------


def test_velocities_are_limited() -> None:
    one = rig(linear_max_velocity=0.3, angular_max_velocity=0.5)
    one.send(2.0, -3.0)
    one.tick()
    assert one.twist() == pytest.approx((0.3, -0.5))


def test_accelerations_are_limited_by_the_time_that_passed() -> None:
    one = rig(linear_max_acceleration=2.0, angular_max_acceleration=3.0)
    one.send(1.0, 1.0)
    one.tick()
    assert one.twist() == pytest.approx((0.02, 0.03))
    one.tick(period=5 * MS)
    assert one.twist() == pytest.approx((0.03, 0.045))
    one.tick(period=50 * MS)
    assert one.twist() == pytest.approx((0.13, 0.195))


def test_limits_that_are_not_authored_do_not_limit() -> None:
    one = rig()
    one.send(123.0, -45.0)
    one.tick()
    assert one.twist() == pytest.approx((123.0, -45.0))


def test_a_standing_drive_does_not_catch_up_on_a_pause() -> None:
    one = rig(linear_max_acceleration=2.0)
    one.tick()
    one.now += 10_000 * MS
    one.send(1.0)
    one.tick()
    assert one.twist() == pytest.approx((2.0 * FIRST_STEP_NS * 1e-9, 0.0))


def test_the_fastest_wheel_limits_both_sides_in_proportion() -> None:
    one = rig()
    one.plan.layout.max_velocity[one.plan.controllers[0].dofs[1]] = 10.0
    one = Rig(one.plan)
    one.send(2.0, 4.0)
    velocity = one.tick()
    assert velocity[one.plan.controllers[0].dofs[1]] == pytest.approx(10.0)
    v, w = one.twist()
    assert v / w == pytest.approx(2.0 / 4.0)


def test_the_curvature_stays_while_a_wheel_is_at_its_limit_and_acceleration_is_limited() -> None:
    one = rig(linear_max_acceleration=1.0, angular_max_acceleration=9.0)
    one.plan.layout.max_velocity[:] = 10.0
    one = Rig(one.plan)
    for _ in range(300):
        one.send(2.0, 4.0)
        velocity = one.tick()
        assert np.nanmax(np.abs(velocity)) <= 10.0 + 1e-12
    v, w = one.twist()
    assert v / w == pytest.approx(2.0 / 4.0)


FINITE = st.floats(-1e6, 1e6, allow_nan=False)
ANY = st.one_of(FINITE, st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308]))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(ANY, ANY, st.integers(0, 700 * MS)), min_size=1, max_size=30))
def test_whatever_arrives_limits_are_kept(commands: list[tuple[float, float, int]]) -> None:
    one = rig(linear_max_velocity=1.5, linear_max_acceleration=2.0, angular_max_acceleration=3.0)
    one.plan.layout.max_velocity[:] = 25.0
    one = Rig(one.plan)
    one.tick()
    last = 0.0, 0.0
    for v, w, period in commands:
        one.send(v, w)
        velocity = one.tick(period=period)[list(one.plan.controllers[0].dofs)]
        if np.isnan(velocity).all():
            continue
        assert np.abs(velocity).max() <= 25.0 * (1 + 1e-12)
        now = one.twist()
        assert abs(now[0]) <= 1.5 * (1 + 1e-12)
        if not np.isclose(np.abs(velocity).max(), 25.0):
            assert abs(now[0] - last[0]) <= 2.0 * period * 1e-9 + 1e-9
            assert abs(now[1] - last[1]) <= 3.0 * period * 1e-9 + 1e-9
        last = now


# --- Time-outs ------------------------------------------------------------------------------------------------


def test_a_stale_command_brakes_through_the_limiter() -> None:
    one = rig(linear_max_acceleration=1.0)
    one.send(0.05)
    one.tick(51)
    assert one.twist()[0] == pytest.approx(0.05)
    speeds = []
    for _ in range(6):
        one.tick()
        speeds.append(one.twist()[0])
    assert speeds[:5] == pytest.approx([0.04, 0.03, 0.02, 0.01, 0.0])
    assert speeds[4] == 0.0
    assert one.reports == [], "braking is normal"
    assert one.news == [
        ("drive.timeout:/rover/drive", "/rover/drive: no cmd_vel for 0.5 s: the robot brakes")
    ]


def test_a_time_out_of_zero_disables() -> None:
    one = rig(cmd_vel_timeout=0.0)
    one.send(0.5)
    one.tick(5000)
    assert one.twist()[0] == pytest.approx(0.5)
    assert one.drives.busy


def test_the_time_out_can_be_changed_at_run_time() -> None:
    one = rig()
    one.send(0.5)
    one.tick(20)
    one.drives.set_parameter(0, "cmd_vel_timeout", 0.1)
    one.tick()
    assert one.twist() == (0.0, 0.0)
    one.drives.set_parameter(0, "cmd_vel_timeout", 0.0)
    one.send(0.5)
    one.tick(100)
    assert one.twist()[0] == pytest.approx(0.5)


def test_a_changed_time_out_is_none_that_passed() -> None:
    one = rig()
    one.now = 5000 * MS
    one.drives.set_parameter(0, "cmd_vel_timeout", 0.1)
    assert not one.drives.busy
    one.tick(20)
    assert one.reports == []


def test_a_twist_is_as_old_as_its_arrival() -> None:
    one = rig()
    one.now = 5000 * MS
    one.send(0.5, stamp_ns=1)  # a Twist has no stamp: whatever stands there means nothing
    one.tick(51)
    assert one.twist()[0] == pytest.approx(0.5)
    one.tick()
    assert one.twist()[0] == 0.0


STAMPED = "geometry_msgs/msg/TwistStamped"


def test_a_stamped_twist_is_as_old_as_its_stamp() -> None:
    one = rig(topic=STAMPED)
    one.now = 5000 * MS
    one.send(0.5, stamp_ns=5000 * MS + PERIOD - 300 * MS)
    one.tick(21)
    assert one.twist()[0] == pytest.approx(0.5)
    one.tick()
    assert one.twist()[0] == 0.0


def test_a_zero_stamp_means_now() -> None:
    one = rig(topic=STAMPED)
    one.now = 5000 * MS
    one.send(0.5)
    one.tick(51)
    assert one.twist()[0] == pytest.approx(0.5)
    assert one.reports == ["drive.stamp:/rover/drive"]


@pytest.mark.parametrize("timeout", [0.5, 0.0])
def test_a_command_older_than_the_time_out_is_ignored(timeout: float) -> None:
    one = rig(topic=STAMPED, cmd_vel_timeout=timeout)
    one.now = 5000 * MS
    one.send(0.5, stamp_ns=4510 * MS)
    velocity = one.tick()
    if timeout:
        assert np.isnan(velocity).all()
        assert one.reports == ["drive.old:/rover/drive"]
    else:
        assert one.twist()[0] == pytest.approx(0.5)


def test_a_stamp_from_the_future_is_taken_for_new_and_still_times_out() -> None:
    one = rig(topic=STAMPED)
    one.now = 5000 * MS
    one.send(0.5, stamp_ns=10**18)
    one.tick(51)
    assert one.twist()[0] == pytest.approx(0.5)
    assert one.reports == ["drive.future:/rover/drive"]
    one.tick()
    assert one.twist()[0] == 0.0


def test_clocks_that_differ_a_little_are_no_news() -> None:
    one = rig(topic=STAMPED)
    one.send(0.5, stamp_ns=PERIOD + 50 * MS)
    one.tick()
    assert one.reports == []


# --- Busy -----------------------------------------------------------------------------------------------------


def test_a_drive_is_busy_from_a_command_to_its_standstill() -> None:
    one = rig(linear_max_acceleration=10.0)
    one.send(0.2)
    assert one.drives.busy
    one.tick(51)
    assert one.drives.busy
    one.tick(2)
    assert one.twist() == (0.0, 0.0)
    assert not one.drives.busy
    assert np.isnan(one.tick()).all()


def test_a_command_to_stand_is_written_once() -> None:
    one = rig()
    one.send(0.0)
    assert one.drives.busy
    one.tick()
    assert one.twist() == (0.0, 0.0)
    assert not one.drives.busy


# --- Switching ------------------------------------------------------------------------------------------------


def test_a_drive_that_is_switched_off_stops_at_once() -> None:
    one = rig(linear_max_acceleration=0.1)
    one.send(0.5)
    one.tick(20)
    one.drives.set_active(0, False, time_ns=one.now, state=one.state)
    assert one.drives.busy
    one.tick()
    assert one.twist() == (0.0, 0.0)
    assert not one.drives.busy
    assert np.isnan(one.tick()).all()


def test_a_drive_that_is_switched_on_again_waits_for_a_command() -> None:
    one = rig()
    one.send(0.5)
    one.tick(5)
    one.drives.set_active(0, False, time_ns=one.now, state=one.state)
    one.drives.set_active(0, True, time_ns=one.now, state=one.state)
    one.tick()
    assert one.twist() == (0.0, 0.0)
    assert np.isnan(one.tick()).all()
    one.send(0.5)
    one.tick()
    assert one.twist()[0] == pytest.approx(0.5)


def test_a_drive_that_starts_disabled_does_nothing_until_it_is_switched_on() -> None:
    builder = rover()
    drive = replace(drive_plan(builder), enabled=False, reason="control:starts_enabled is false")
    one = Rig(replace(builder.build(), controllers=(drive,)))
    assert np.isnan(one.tick()).all()
    one.drives.set_active(0, True, time_ns=one.now, state=None)
    one.send(0.5)
    one.tick()
    assert one.twist()[0] == pytest.approx(0.5)


def test_one_drive_of_two_takes_over_wheels_within_a_tick() -> None:
    builder = rover()
    first = drive_plan(builder)
    second = replace(first, path="/rover/other", enabled=False, reason="off")
    one = Rig(replace(builder.build(), controllers=(first, second)))
    one.send(0.5)
    one.tick()
    one.drives.set_active(0, False, time_ns=one.now, state=one.state)
    one.drives.set_active(1, True, time_ns=one.now, state=one.state)
    one.send(0.3, row=1)
    one.tick()
    assert one.twist()[0] == pytest.approx(0.3)


def test_a_plan_with_a_fault_makes_a_drive_that_does_nothing() -> None:
    faulty = ControllerPlan(
        path="/rover/faulty",
        schema="RosControlDiffDriveAPI",
        enabled=False,
        switchable=False,
        reason="no wheels",
    )
    builder = rover()
    one = Rig(replace(builder.build(), controllers=(faulty, drive_plan(builder))))
    one.send(0.5, row=1)
    one.tick()
    one.drives.observe(one.state)
    assert one.twist(1)[0] == pytest.approx(0.5)
    assert one.drives.odometry_robots.tolist() == [-1, 0]
    assert one.drives.odom_from_base[0].tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_reset_forgets_commands_and_lets_time_go_back() -> None:
    one = rig()
    one.now = 5000 * MS
    one.send(0.5)
    one.tick(3)
    one.drives.reset()
    assert not one.drives.busy
    one.now = 0
    assert np.isnan(one.tick()).all()
    one.send(0.5)
    one.tick()
    assert one.twist()[0] == pytest.approx(0.5)


# --- Axes -----------------------------------------------------------------------------------------------------


def flipped(joint: JointPlan) -> JointPlan:
    """The joint with its frames turned about X: its axis points to the other side, its positions change sign."""
    turn = (1.0, 0.0, 0.0, 0.0)
    return replace(
        joint,
        body0_from_joint=replace(joint.body0_from_joint, rotation=turn),
        body1_from_joint=replace(joint.body1_from_joint, rotation=turn),
    )


def with_right_wheel(joint: JointPlan, builder: PlanBuilder) -> BridgePlan:
    builder.robots[0].joints[1] = joint
    return replace(builder.build(), controllers=(drive_plan(builder),))


@each_case("how", ["flipped", "inverted", "both"])
def test_a_wheel_whose_axis_points_to_the_other_side_turns_the_other_way(how: str) -> None:
    builder = rover()
    joint = builder.robots[0].joints[1]
    if how != "inverted":
        joint = flipped(joint)
    if how != "flipped":
        joint = replace(
            joint,
            inverted=True,
            body0_from_joint=joint.body1_from_joint,
            body1_from_joint=joint.body0_from_joint,
        )
        if how == "both":
            joint = replace(
                joint, body0_from_joint=replace(joint.body0_from_joint, rotation=(1.0, 0.0, 0.0, 0.0))
            )
    one = Rig(with_right_wheel(joint, builder))
    one.send(0.5)
    velocity = one.tick()[list(one.plan.controllers[0].dofs)]
    expected = [10.0, 10.0] if how == "both" else [10.0, -10.0]
    assert velocity == pytest.approx(expected)
    one.drives.observe(one.state)
    one.state.joint_position[list(one.plan.controllers[0].dofs)] = np.array(expected) * 0.1
    one.state.time_ns += 100 * MS
    one.drives.observe(one.state)
    assert one.drives.odom_from_base[0, :2] == pytest.approx([0.05, 0.0])


def test_a_base_that_is_turned_around_changes_nothing_about_its_wheels() -> None:
    builder = rover()
    builder.bodies[0].pose = Pose((5.0, 0.0, 0.0), (0.5, 0.5, 0.5, 0.5))
    one = Rig(replace(builder.build(), controllers=(drive_plan(builder),)))
    one.send(0.5)
    assert one.tick()[list(one.plan.controllers[0].dofs)] == pytest.approx([10.0, 10.0])


def test_the_wheels_of_the_example_rover_roll_ahead() -> None:
    pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
    from usd_ros_bridge import load_plan

    plan = load_plan(EXAMPLES / "rover" / "rover.usda")
    (drive,) = (each for each in plan.controllers if each.schema == "RosControlDiffDriveAPI")
    wheels = find_wheels(plan, [drive])
    assert wheels.signs.tolist() == [1.0, 1.0]


# --- The kinematic backend ------------------------------------------------------------------------------------


def kinematic_run(v: float, w: float, ticks: int, **parameters: Any) -> tuple[Rig, State]:
    one = rig(kinematic=True, cmd_vel_timeout=0.0, **parameters)
    backend = OpenBackend(one.plan, KinematicBackend()).backend
    one.state = backend.step(0, one.commands)
    one.drives.observe(one.state)
    one.send(v, w)
    for _ in range(ticks):
        one.tick()
        one.state = backend.step(one.now, one.commands)
        one.drives.observe(one.state)
    return one, one.state


def test_a_kinematic_base_moves_as_its_wheels_say_and_odometry_agrees() -> None:
    one, state = kinematic_run(0.5, 0.8, 300, linear_max_acceleration=0.4, angular_max_acceleration=0.9)
    start = one.plan.layout.body_pose[0]
    yaw0 = 2 * math.atan2(start[5], start[6])
    x, y = one.drives.odom_from_base[0, :2]
    cosine, sine = math.cos(yaw0), math.sin(yaw0)
    expected = start[:2] + np.array([cosine * x - sine * y, sine * x + cosine * y])
    # The backend's twists are constant within a tick, odometry takes them to change evenly.
    assert state.body_pose[0, :2] == pytest.approx(expected, abs=1e-5)
    assert math.hypot(x, y) > 0.3
    assert one.drives.base_twist[0] == pytest.approx([0.5, 0, 0, 0, 0, 0.8], abs=1e-9)


def test_a_kinematic_base_that_is_told_once_is_where_odometry_says() -> None:
    one, state = kinematic_run(0.5, 0.8, 300)
    start = one.plan.layout.body_pose[0]
    moved = relative(start, state.body_pose[0])
    assert one.drives.odom_from_base[0] == pytest.approx(moved, abs=1e-12)


def test_a_base_that_hangs_from_a_joint_is_not_moved() -> None:
    builder = rover()
    builder.robots[0].options["base"] = -1
    one = Rig(replace(builder.build(), controllers=(drive_plan(builder),)), kinematic=True)
    one.send(0.5)
    one.tick()
    assert np.isnan(one.commands.body_twist).all()


def test_under_physics_the_base_is_left_to_the_wheels() -> None:
    one = rig()
    one.send(0.5)
    one.tick()
    assert np.isnan(one.commands.body_twist).all()


# --- Odometry -------------------------------------------------------------------------------------------------


def test_odometry_runs_while_the_controller_is_inactive() -> None:
    one = rig()
    one.drives.set_active(0, False, time_ns=0, state=None)
    one.drives.observe(one.state)
    one.state.joint_position[list(one.plan.controllers[0].dofs)] += 2.0
    one.state.time_ns += 100 * MS
    one.drives.observe(one.state)
    assert one.drives.odom_from_base[0, 0] == pytest.approx(2.0 * RADIUS)
    assert one.drives.base_twist[0, 0] == pytest.approx(2.0 * RADIUS / 0.1)
    one.drives.reset()
    assert one.drives.odom_from_base[0].tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_odometry_goes_by_the_time_of_each_robots_state() -> None:
    builder = rover(rover(), path="/second", namespace="/second")
    plan = replace(builder.build(), controllers=(drive_plan(builder), drive_plan(builder, 1)))
    one = Rig(plan)
    for tick in range(3):
        one.state.time_ns = tick * 100 * MS
        one.state.robot_time_ns = np.array([tick * 50 * MS, -1])
        one.state.joint_position[:] = tick
        one.drives.observe(one.state)
    assert one.drives.base_twist[:, 0] == pytest.approx([RADIUS / 0.05, 0.0])
    assert one.drives.odom_from_base[:, 0] == pytest.approx([2 * RADIUS, 0.0])


def test_covariances_are_zero_unless_given() -> None:
    assert rig().drives.pose_covariance.tolist() == [[0.0] * 6]
    one = rig(pose_covariance_diagonal=(1, 2, 3, 4, 5, 6), twist_covariance_diagonal=(6, 5, 4, 3, 2, 1))
    assert one.drives.pose_covariance.tolist() == [[1, 2, 3, 4, 5, 6]]
    assert one.drives.twist_covariance.tolist() == [[6, 5, 4, 3, 2, 1]]


# --- Scale ----------------------------------------------------------------------------------------------------


def test_many_drives_go_as_each_would_alone() -> None:
    limits = {"linear_max_velocity": 1.0, "linear_max_acceleration": 100.0, "angular_max_acceleration": 2.0}

    def ticked(count: int, speeds: list[float]) -> tuple[list[Any], list[Any]]:
        builder = PlanBuilder()
        for index in range(count):
            rover(builder, path=f"/r{index}", namespace=f"/r{index}")
        drives = tuple(drive_plan(builder, i, **limits) for i in range(count))
        one = Rig(replace(builder.build(), controllers=drives))
        for row, speed in enumerate(speeds):
            one.send(speed, 0.3 - speed, row=row)
        told, seen = [], []
        for _ in range(5):
            one.now += PERIOD
            one.drives.command(one.now, one.state, one.commands)
            told.append(one.commands.joint_velocity.reshape(count, -1).copy())
            one.state.joint_position += np.nan_to_num(one.commands.joint_velocity) * PERIOD * 1e-9
            one.state.time_ns = one.now
            one.drives.observe(one.state)
            seen.append(one.drives.odom_from_base.copy())
        return told, seen

    speeds = [0.5 + row * 1e-3 for row in range(200)]
    told, seen = ticked(200, speeds)
    for row in (0, 57, 199):
        alone, odometry = ticked(1, speeds[row : row + 1])
        for together, single in zip((*told, *seen), (*alone, *odometry), strict=True):
            np.testing.assert_array_equal(together[row], single[0])
    assert np.ptp(told[-1][:, 0]) > 0.0
