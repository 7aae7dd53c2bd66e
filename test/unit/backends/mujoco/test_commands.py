"""What commands do to drives, motors and bodies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from open_backend import EARTH, Opened, arm, lever_torque, with_physics

from builders.plans import PlanBuilder
from usd_ros_bridge.model.physics import Drive
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import exponential, pose

ELBOW = "elbow"
STIFF = Drive(stiffness=200.0, damping=20.0)


def driven(drive: Drive | None = STIFF, **options: object) -> BridgePlan:
    return with_physics(arm(**options).build(), gravity=EARTH, drives={ELBOW: drive})


def bounded(plan: BridgePlan, max_effort: float) -> BridgePlan:
    """Returns the plan with a bound of the elbow's effort."""
    return with_dofs(plan, max_effort=max_effort)


def with_dofs(plan: BridgePlan, **fields: object) -> BridgePlan:
    """Returns the plan with other fields of every degree of freedom."""
    assert plan.physics is not None
    joints = tuple(
        replace(joint, dofs=tuple(replace(dof, **fields) for dof in joint.dofs))
        for joint in plan.physics.joints
    )
    return replace(plan, physics=replace(plan.physics, joints=joints))


def test_mujocos_own_reference_shows_in_the_model_alone() -> None:
    """Positions, targets, limits and springs are the asset's; `qpos` is MuJoCo's, for what refers to it."""
    plan = driven(max_velocity=3.0)
    spring = {"stiffness": 5.0, "spring_position": 0.3}
    plain, other = (Opened(with_dofs(plan, **spring, reference=reference)) for reference in (0.0, 0.7))
    assert_allclose(other.backend.simulation.model.qpos0, 0.7)
    assert_allclose(other.backend.simulation.model.qpos_spring, 1.0)
    assert_allclose(other.backend.simulation.model.jnt_range, plain.backend.simulation.model.jnt_range + 0.7)
    for command in (
        {"joint_position": {ELBOW: 0.4}}, {"joint_velocity": {ELBOW: -2.0}}, {"joint_effort": {ELBOW: 30.0}},
    ):  # fmt: skip
        states = [opened.step(300, **command) for opened in (plain, other)]
        assert_allclose(states[0].joint_position, states[1].joint_position, atol=1e-9)
        assert_allclose(states[0].joint_effort, states[1].joint_effort, atol=1e-6)
        assert_allclose(states[0].body_pose, states[1].body_pose, atol=1e-9)


def test_a_drive_yields_by_its_load_over_its_stiffness() -> None:
    opened = Opened(driven())
    opened.step(joint_position={ELBOW: 0.4})
    state = opened.step(3000)
    # About +Y, a mass along +X pulls the angle up.
    expected = lever_torque(state.joint_position[0]) / STIFF.stiffness
    assert_allclose(state.joint_position[0] - 0.4, expected, rtol=1e-3)
    assert_allclose(state.joint_effort[0], -lever_torque(state.joint_position[0]), rtol=1e-3)


def test_the_effort_is_that_of_the_state_it_comes_with() -> None:
    opened = Opened(driven())
    state = opened.step(joint_position={ELBOW: 1.0})
    for _ in range(50):
        state = opened.step()
        law = STIFF.stiffness * (1.0 - state.joint_position[0]) - STIFF.damping * state.joint_velocity[0]
        assert_allclose(state.joint_effort[0], law, rtol=1e-12)


def test_a_speed_limit_bounds_how_fast_a_target_is_approached() -> None:
    opened = Opened(driven(max_velocity=0.5))
    opened.step()
    positions = [opened.step(joint_position={ELBOW: 1.0}).joint_position[0]]
    positions += [opened.step().joint_position[0] for _ in range(500)]
    assert np.diff(positions).max() < 1.1 * 0.5 * 0.002
    assert_allclose(positions[-1] - positions[0], 0.5, atol=0.06)


OVERDAMPED = (Drive(stiffness=200.0, damping=20.0), Drive(stiffness=1e4, damping=1e2))


@pytest.mark.parametrize("drive", OVERDAMPED)
@pytest.mark.parametrize("target", [1.5, -1.5])
def test_a_speed_limit_bounds_how_fast_an_authored_target_is_approached(drive: Drive, target: float) -> None:
    """1.5 rad at 0.524 rad/s take 2.86 s. A target that is there at once gives 14 to 136 rad/s."""
    opened = Opened(driven(replace(drive, target_position=target), max_velocity=0.524))
    for _ in range(2):
        states = [(s.joint_velocity[0], s.joint_position[0]) for s in (opened.step() for _ in range(1600))]
        speed, position = np.abs(np.array(states)).T
        # Gravity pulls it after a target that is below.
        assert speed.max() <= 0.527
        assert_allclose(position[699], 0.524 * 1.4, atol=0.524 * drive.damping / drive.stiffness + 0.01)
        assert_allclose(position[-1], abs(target), atol=0.01)
        opened.restart()


def test_a_command_replaces_an_authored_target_on_the_way() -> None:
    opened = Opened(driven(replace(STIFF, target_position=1.5), max_velocity=0.524))
    opened.step(500)
    opened.step(joint_position={ELBOW: 0.2})
    speeds = np.array([opened.step().joint_velocity[0] for _ in range(1500)])
    assert np.abs(speeds).max() <= 0.53
    assert_allclose(opened.step().joint_position[0], 0.2, atol=0.01)


def test_an_authored_target_velocity_is_bounded_by_the_speed_limit() -> None:
    drive = Drive(damping=200.0, target_velocity=5.0)
    opened = Opened(driven(drive, max_velocity=0.5, limits=(-np.inf, np.inf)))
    assert_allclose(opened.step(500).joint_velocity[0], 0.5, atol=0.01)


def test_without_a_speed_limit_an_authored_target_is_there_at_once() -> None:
    opened = Opened(driven(replace(STIFF, target_position=0.5)))
    state = opened.step()
    law = STIFF.stiffness * (0.5 - state.joint_position[0]) - STIFF.damping * state.joint_velocity[0]
    assert_allclose(state.joint_effort[0], law, rtol=1e-12)


FLAT = (0.0, 0.0, 0.0)


def following(
    opened: Opened, interval_ns: int, ends: int, motion: Callable[[float], tuple[float, float]]
) -> float:
    """Commands position and velocity of a motion at the end of each interval.

    Returns:
        The greatest distance of the joint from the motion at the time of its state, in the last tenth.
    """
    commands = Commands(opened.plan.layout)
    row, errors, time_ns = opened.row(ELBOW), [], 0
    for _ in range(ends):
        time_ns += interval_ns
        commands.clear()
        commands.joint_position[row], commands.joint_velocity[row] = motion(time_ns * 1e-9)
        state = opened.backend.step(time_ns, commands)
        errors.append(abs(state.joint_position[row] - motion(state.time_ns * 1e-9)[0]))
    return max(errors[-ends // 10 :])


@pytest.mark.parametrize("interval_ms", [2.0, 10.0, 8.6])
@pytest.mark.parametrize(
    ("gains", "stiff_drives", "solved"),
    [
        ((20.0, 2.0), "true", False),
        ((200.0, 20.0), "false", False),
        ((200.0, 20.0), "true", True),
        ((1e5, 1e4), "true", True),
    ],
)
def test_a_joint_is_where_its_trajectory_is_at_the_time_of_the_state(
    gains: tuple[float, float], stiff_drives: str, solved: bool, interval_ms: float
) -> None:
    """At a constant velocity no force is needed: the joint follows exactly, neither ahead nor behind.

    Actuators and rows of the solver do, also where intervals end between two steps. A target that is held over its
    interval is ahead by half of it and half a step: at 0.5 rad/s and 10 ms 3 mrad.
    """
    drive = Drive(stiffness=gains[0], damping=gains[1])
    plan = with_physics(arm(limits=(-20.0, 20.0)).build(), gravity=FLAT, drives={ELBOW: drive})
    opened = Opened(plan, stiff_drives=stiff_drives)
    assert (opened.backend.simulation.stiff_drives is not None) == solved
    ends = round(3000.0 / interval_ms)
    assert following(opened, round(interval_ms * 1e6), ends, lambda t: (0.5 * t, 0.5)) < 1e-9


@pytest.mark.parametrize("integrator", ["implicitfast", "implicit", "euler", "rk4"])
def test_every_integrator_follows_without_a_lead(integrator: str) -> None:
    drive = Drive(stiffness=20.0, damping=2.0)
    plan = with_physics(arm(limits=(-20.0, 20.0)).build(), gravity=FLAT, drives={ELBOW: drive})
    error = following(Opened(plan, integrator=integrator), 10_000_000, 300, lambda t: (0.5 * t, 0.5))
    assert error < 1e-8


def test_targets_of_an_interval_accelerate_with_the_command() -> None:
    """A constant acceleration: the target's parabola is the motion, and the joint is behind by force over stiffness."""
    drive = Drive(stiffness=2e4, damping=200.0)
    plan = with_physics(arm(limits=(-20.0, 20.0)).build(), gravity=FLAT, drives={ELBOW: drive})
    errors = [
        following(Opened(plan), interval_ns, 1_000_000_000 // interval_ns, lambda t: (0.5 * t * t, t))
        for interval_ns in (2_000_000, 20_000_000)
    ]
    assert errors[0] < 1e-5
    assert_allclose(errors[1], errors[0], atol=2e-7)


def test_the_target_of_a_path_stays_within_limits_and_speed() -> None:
    plan = with_physics(
        arm(limits=(-1.0, 1.0), max_velocity=0.5).build(), gravity=FLAT, drives={ELBOW: STIFF}
    )
    opened = Opened(plan)
    simulation = opened.backend.simulation
    actuator = simulation.compiled.position_actuator[0]
    opened.step()
    opened.step(200, joint_position={ELBOW: 3.0}, joint_velocity={ELBOW: 9.0})
    targets = [float(simulation.data.ctrl[actuator])]
    for _ in range(1000):
        opened.step()
        targets.append(float(simulation.data.ctrl[actuator]))
    assert np.diff(targets).max() == pytest.approx(0.5 * 0.002)
    assert targets[-1] == 1.0


def test_the_last_of_position_and_velocity_counts() -> None:
    opened = Opened(driven(limits=(-20.0, 20.0)))
    opened.step(500, joint_position={ELBOW: 0.5})
    start = opened.step().joint_position[0]
    opened.step(joint_velocity={ELBOW: 0.8})
    state = opened.step(1000)
    assert_allclose(state.joint_position[0] - start, 1.6, atol=0.03)
    assert_allclose(state.joint_velocity[0], 0.8, atol=0.01)
    state = opened.step(2000, joint_velocity={ELBOW: 0.0})
    held = state.joint_position[0]
    assert_allclose(opened.step(1000).joint_position[0], held, atol=1e-4)
    opened.step(joint_position={ELBOW: -0.5})
    assert_allclose(opened.step(2000).joint_position[0], -0.5, atol=0.01)


def test_a_velocity_holds_against_gravity_where_the_drive_has_stiffness() -> None:
    opened = Opened(driven(limits=(-20.0, 20.0)))
    before = opened.step(2000).joint_position[0]
    after = opened.step(5000, joint_velocity={ELBOW: 0.0}).joint_position[0]
    assert_allclose(after, before, atol=1e-6)


def test_a_velocity_ends_at_the_limit() -> None:
    opened = Opened(driven(limits=(-1.0, 0.6)))
    opened.step(joint_velocity={ELBOW: 1.0})
    state = opened.step(4000)
    assert_allclose(state.joint_position[0], 0.6, atol=5e-3)
    assert_allclose(state.joint_velocity[0], 0.0, atol=1e-6)


def test_a_joint_that_is_held_up_does_not_leap_when_it_is_let_go() -> None:
    plan = bounded(driven(limits=(-50.0, 50.0)), 2.0)
    opened = Opened(plan)
    opened.step(joint_velocity={ELBOW: 1.0})
    opened.step(50)
    data = opened.backend.simulation.data
    stuck = data.qpos.copy()
    for _ in range(2000):
        data.qpos[:], data.qvel[:] = stuck, 0.0
        opened.backend.simulation.refresh()
        opened.step()
    target = data.ctrl[opened.backend.simulation.compiled.position_actuator[0]]
    assert abs(target - stuck[0]) <= 2.0 / STIFF.stiffness + 2e-3


def test_a_position_with_a_velocity_is_what_the_drive_s_law_says() -> None:
    opened = Opened(driven())
    state = opened.step(joint_position={ELBOW: 0.7}, joint_velocity={ELBOW: 0.3})
    law = STIFF.stiffness * (0.7 - state.joint_position[0]) + STIFF.damping * (0.3 - state.joint_velocity[0])
    assert_allclose(state.joint_effort[0], law, rtol=1e-12)


def test_an_effort_moves_a_joint_without_a_drive_and_is_bounded() -> None:
    opened = Opened(bounded(driven(None), 3.0))
    assert_allclose(opened.step(joint_effort={ELBOW: -0.5}).joint_effort[0], -0.5)
    assert_allclose(opened.step(5).joint_effort[0], -0.5)
    assert_allclose(opened.step(joint_effort={ELBOW: 100.0}).joint_effort[0], 3.0)
    assert_allclose(opened.step(joint_effort={ELBOW: np.nan}).joint_effort[0], 3.0)
    assert_allclose(opened.step(joint_effort={ELBOW: 0.0}).joint_effort[0], 0.0)


@each_case(
    ("array", "value"),
    [
        ("joint_position", 2e10),
        ("joint_velocity", 2e10),
        ("joint_velocity", -2e6),
        ("joint_effort", 2e10),
        ("joint_effort", -1e300),
    ],
)
def test_a_command_out_of_all_proportion_is_ignored_and_leaves_all_other_joints_alone(
    array: str, value: float
) -> None:
    """MuJoCo takes all controls for 0 where one of them is beyond its largest number."""
    builder = arm(limits=(-np.inf, np.inf))
    robot = builder.robots[0]
    robot.body("other")
    robot.joint("wrist", "base", "other", axis="Y", body1_from_joint=Pose((-0.1, 0.0, 0.0)))
    plan = with_physics(builder.build(), gravity=EARTH, drives={ELBOW: STIFF, "wrist": STIFF})
    opened = Opened(plan)
    before = opened.step(1000, joint_position={ELBOW: 0.5, "wrist": 1.0}).joint_position.copy()
    after = opened.step(1000, **{array: {ELBOW: value}}).joint_position
    assert_allclose(after, before, atol=1e-3)
    assert {*opened.kinds} == {f"mujoco.beyond:{array.removeprefix('joint_')}"}


@pytest.mark.parametrize("position", [2e6, -3e7])
def test_a_wheel_that_has_turned_for_long_still_takes_positions(position: float) -> None:
    opened = Opened(driven(limits=(-np.inf, np.inf), max_velocity=0.01))
    opened.step(10, joint_position={ELBOW: position})
    assert {*opened.kinds} == set()
    assert opened.backend.simulation.data.ctrl[0] * position > 0.0


@each_case(
    ("drive", "array"),
    [(None, "joint_position"), (None, "joint_velocity"), (Drive(damping=3.0), "joint_position")],
)
def test_what_no_drive_can_do_is_reported_with_the_joint_and_does_nothing(
    drive: Drive | None, array: str
) -> None:
    opened, other = Opened(driven(drive)), Opened(driven(drive))
    state = opened.step(10, **{array: {ELBOW: 0.5}})
    assert_allclose(state.joint_position, other.step(10).joint_position, rtol=0.0, atol=0.0)
    assert {*opened.kinds} == {f"mujoco.no_drive:{array.removeprefix('joint_')}"}
    assert "/arm/joints/elbow" in opened.reports[0][1]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("joint_position", "joint_velocity", "joint_effort")),
            st.one_of(st.floats(-1e3, 1e3), st.sampled_from((np.nan, np.inf, -np.inf, 0.0))),
            st.integers(1, 30),
        ),
        max_size=8,
    )
)
def test_whatever_is_commanded_the_joint_keeps_to_its_limits(told: list[tuple[str, float, int]]) -> None:
    opened = Opened(bounded(driven(limits=(-1.0, 1.5), max_velocity=3.0), 50.0))
    opened.step()
    for array, value, steps in told:
        state = opened.step(steps, **{array: {ELBOW: value}})
        assert -1.1 < state.joint_position[0] < 1.6
        assert abs(state.joint_effort[0]) <= 50.0
        simulation = opened.backend.simulation
        assert np.isfinite(simulation.data.ctrl).all()
        target = simulation.data.ctrl[simulation.compiled.position_actuator[0]]
        assert -1.0 - 1e-9 <= target <= 1.5 + 1e-9
    assert not opened.reports


def props() -> BridgePlan:
    """A box that is moved, with a lid on a joint, and a ball that is free."""
    builder = PlanBuilder()
    robot = builder.robot("/props", namespace="/props")
    robot.body("box", kinematic=True)
    robot.body("lid")
    robot.joint("hinge", "box", "lid", axis="Y", limits=(-1.0, 1.0))
    robot.body("ball")
    return with_physics(builder.build())


def test_a_twist_moves_a_kinematic_body_along_an_arc() -> None:
    opened = Opened(props())
    opened.step()
    state = opened.step(500, body_twist={"/props/box": [0.5, 0.0, 0.0, 0.0, 0.0, 1.0]})
    box = state.body_pose[opened.body("/props/box")]
    # One second along a circle of 0.5 m.
    assert_allclose(box[:3], [0.5 * np.sin(1.0), 0.5 * (1.0 - np.cos(1.0)), 0.0], atol=1e-9)
    assert_allclose(box[3:], exponential(np.array([0.0, 0.0, 1.0])), atol=1e-9)
    assert state.body_twist is not None
    assert_allclose(
        state.body_twist[opened.body("/props/box")],
        [0.5 * np.cos(1.0), 0.5 * np.sin(1.0), 0.0, 0.0, 0.0, 1.0],
        atol=1e-9,
    )
    lid = opened.body("/props/lid")
    assert_allclose(state.body_pose[lid, :3], box[:3], atol=1e-9)
    assert_allclose(state.body_twist[lid], state.body_twist[opened.body("/props/box")], atol=1e-9)
    stopped = opened.step(10, body_twist={"/props/box": np.zeros(6)}).body_pose[0].copy()
    assert_allclose(opened.step(100).body_pose[0], stopped, atol=0.0)
    assert not opened.reports


def test_bodies_that_physics_moves_take_poses_and_no_twists() -> None:
    opened = Opened(props())
    there = pose((1.0, 2.0, 3.0), exponential(np.array([0.1, 0.2, 0.3])))
    state = opened.step(body_pose={"/props/ball": there})
    assert_allclose(state.body_pose[opened.body("/props/ball")], there, atol=1e-12)
    assert not opened.reports
    opened.step(body_twist={"/props/ball": [1.0, 0, 0, 0, 0, 0]}, body_pose={"/props/lid": there})
    assert {*opened.kinds} == {"mujoco.body:twist", "mujoco.body:pose"}
    messages = dict(opened.reports)
    assert "/props/ball" in messages["mujoco.body:twist"]
    assert "/props/lid" in messages["mujoco.body:pose"]
