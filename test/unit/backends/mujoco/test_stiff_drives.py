"""Stiff drives: rows of the solver, held to the closed form, to mechanics, and to the ground."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

from numpy.testing import assert_allclose
from open_backend import EARTH, STEP_NS, Opened, arm, with_physics
from spec_scenes import mass_matrix
from wheeled_rover import Driven, rover

from builders.plans import PlanBuilder
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.model.physics import Drive, Joint
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State

H = STEP_NS * 1e-9
"""s: length of a step."""


def slide(
    stiffness: float,
    damping: float,
    most: float,
    *,
    target: float = 0.6,
    mass: float = 0.05,
    armature: float = 0.0,
) -> BridgePlan:
    """Returns a mass that a linear drive moves along X, without gravity and contacts."""
    builder = PlanBuilder()
    robot = builder.robot("/slide", namespace="/slide")
    robot.body("base")
    robot.joint("mount", "", "base", kind="fixed")
    robot.body("finger")
    robot.joint("reach", "base", "finger", kind="prismatic", axis="X", limits=(-np.inf, np.inf))
    drive = Drive(stiffness=stiffness, damping=damping, target_position=target)
    plan = limited(with_physics(builder.build(), drives={"reach": drive}), most)
    assert plan.physics is not None
    bodies = tuple(
        replace(body, inertial=replace(body.inertial, mass=mass) if body.inertial else None)
        for body in plan.physics.bodies
    )
    plan = replace(plan, physics=replace(plan.physics, bodies=bodies))
    return with_dof(plan, armature=armature)


def with_dof(plan: BridgePlan, **changes: object) -> BridgePlan:
    """Returns the plan with other attributes of the last joint."""
    assert plan.physics is not None
    *others, joint = plan.physics.joints
    changed = replace(joint, dofs=(replace(joint.dofs[0], **changes),))
    return replace(plan, physics=replace(plan.physics, joints=(*others, changed)))


def limited(plan: BridgePlan, most: float, effort_range: tuple[float, float] | None = None) -> BridgePlan:
    """Returns the plan with the last joint's effort limited, N m or N."""
    return with_dof(plan, max_effort=most, effort_range=effort_range)


def implicit_euler(
    stiffness: float, damping: float, most: float, *, mass: float = 0.05, target: float = 0.6
) -> Callable[[], tuple[float, float, float]]:
    """Returns a function that makes a step of a mass with a drive; it returns position, velocity and force."""
    position = velocity = 0.0

    def step() -> tuple[float, float, float]:
        nonlocal position, velocity
        pull = stiffness * (target - position) - (damping + H * stiffness) * velocity
        force = pull / (1.0 + H * (damping + H * stiffness) / mass)
        force = min(max(force, -most), most)
        velocity += H * force / mass
        position += H * velocity
        return position, velocity, force

    return step


@each_case(
    ("stiffness", "damping", "most"),
    [
        (1e5, 1e4, 40.0),
        (1e5, 1e4, 1e9),
        (1e4, 1e3, 40.0),
        (1e5, 0.0, 40.0),
        (1e5, 1e2, 1e9),
    ],
)
def test_a_drive_is_implicit_euler_and_exact_at_its_limit(
    stiffness: float, damping: float, most: float
) -> None:
    opened, expected = Opened(slide(stiffness, damping, most)), implicit_euler(stiffness, damping, most)
    saturated = False
    for _ in range(500):
        state, (position, velocity, force) = opened.step(), expected()
        assert state.joint_position[0] == pytest.approx(position, rel=1e-9, abs=1e-12)
        assert state.joint_velocity[0] == pytest.approx(velocity, rel=1e-6, abs=1e-8)
        assert state.joint_effort[0] == pytest.approx(force, rel=1e-6, abs=1e-6)
        saturated |= abs(force) == most
    assert saturated == (most < 1e6)


@each_case("mass", [0.05, 1e-12])
def test_armature_is_inertia_of_the_joint(mass: float) -> None:
    """Links that a URDF gives no mass have nothing else; MuJoCo's weights of joints leave it out."""
    plan = slide(1e4, 1e3, 40.0, mass=mass, armature=0.1)
    (drive,) = Opened(plan).backend.drives
    assert drive.ratio == pytest.approx(H * (1e3 + H * 1e4) / (mass + 0.1), rel=1e-6)
    opened, expected = Opened(plan), implicit_euler(1e4, 1e3, 40.0, mass=mass + 0.1)
    for _ in range(300):
        state, (position, _, force) = opened.step(), expected()
        assert state.joint_position[0] == pytest.approx(position, rel=1e-9, abs=1e-12)
        assert state.joint_effort[0] == pytest.approx(force, rel=1e-6, abs=1e-6)


def test_a_limited_drive_comes_to_rest_at_its_target() -> None:
    """PhysX holds it at 0.05999; by actuators it swings by 3.2 mm with 40 N for ever."""
    state = Opened(slide(1e5, 1e4, 40.0, target=0.06)).step(1000)
    assert_allclose(state.joint_position, 0.06, atol=1e-8)
    assert_allclose(state.joint_velocity, 0.0, atol=1e-8)
    assert_allclose(state.joint_effort, 0.0, atol=1e-6)


def test_the_greatest_effort_limit_of_single_precision_is_no_limit() -> None:
    """Isaac Sim writes it for "unlimited"; it overflowed where a velocity drive has no stiffness."""
    with np.errstate(all="raise"):
        opened = Opened(limited(slide(0.0, 1e5, 1.0), 3.4028234663852886e38))
        state = opened.step(10, joint_velocity={"reach": 0.3})
    assert_allclose(state.joint_velocity, 0.3, rtol=1e-3)


# --- Rows or actuators --------------------------------------------------------------------------------------------


def because(plan: BridgePlan, **options: str) -> list[str]:
    return [drive.actuator_because for drive in Opened(plan, **options).backend.drives]


def test_a_drive_is_stiff_if_it_adds_more_inertia_than_the_joint_has() -> None:
    # h (D + h K) / m: with D = 24.99 it is 0.9996.
    assert because(slide(0.0, 24.99, 40.0)) == ["the time step resolves it"]
    assert because(slide(0.0, 25.01, 40.0)) == [""]
    (drive,) = Opened(slide(1e5, 1e4, 40.0)).backend.drives
    assert drive.ratio == pytest.approx(H * (1e4 + H * 1e5) / 0.05, rel=1e-6)
    assert (drive.stiffness, drive.damping, drive.effort) == (1e5, 1e4, (-40.0, 40.0))


def with_solver(plan: BridgePlan, **solver: object) -> BridgePlan:
    assert plan.physics is not None
    return replace(plan, physics=replace(plan.physics, solver={**plan.physics.solver, **solver}))


def with_joint_solver(plan: BridgePlan, **solver: object) -> BridgePlan:
    assert plan.physics is not None

    def changed(joint: Joint) -> Joint:
        return replace(joint, solver={**joint.solver, **solver})

    return replace(plan, physics=replace(plan.physics, joints=tuple(map(changed, plan.physics.joints))))


def test_what_stays_with_actuators_and_why() -> None:
    plan = slide(1e5, 1e4, 40.0)
    assert because(plan, stiff_drives="off") == ["the option stiff_drives is off"]
    assert because(plan, integrator="rk4") == ["the integrator is rk4"]
    assert because(with_solver(plan, flag_frictionloss=False)) == ["the asset disables frictionloss"]
    assert because(with_solver(plan, flag_constraint=False)) == ["the asset disables constraint"]
    assert because(with_solver(plan, flag_actuation=False)) == ["the asset disables actuation"]
    assert because(with_solver(plan, disabled_actuator_groups=(0,))) == [
        "the asset disables actuators of group 0"
    ]
    for one_sided in ((0.0, 1e9), (-1e9, 1.0)):
        pushes = limited(plan, np.inf, one_sided)
        assert because(pushes) == ["its effort is limited to one side"]
    gravity = with_joint_solver(plan, actuator_gravity_compensation=True)
    assert because(gravity) == ["its actuator compensates gravity"]


def test_drives_that_the_step_resolves_move_as_before_bit_for_bit() -> None:
    def run(**options: str) -> list[bytes]:
        plan = with_physics(arm().build(), gravity=EARTH, drives={"elbow": Drive(stiffness=5.0, damping=0.1)})
        opened = Opened(plan, **options)
        found = []
        for steps in (1, 1, 200):
            # The backend uses its state again.
            state = opened.step(steps, joint_position={"elbow": 0.5})
            found.append(state.joint_position.tobytes() + state.joint_effort.tobytes())
        return found

    assert run() == run(stiff_drives="off")


# --- Time and state -----------------------------------------------------------------------------------------------


def stiff_arm() -> BridgePlan:
    drives = {"elbow": Drive(stiffness=5e3, damping=50.0)}
    return with_physics(arm().build(), gravity=EARTH, drives=drives)


def numbers(state: State) -> bytes:
    assert state.body_twist is not None
    arrays = (state.joint_position, state.joint_velocity, state.joint_effort, state.body_twist)
    return b"".join(array.tobytes() for array in arrays)


def test_reads_and_long_intervals_change_nothing() -> None:
    one_by_one, at_once, read = Opened(stiff_arm()), Opened(stiff_arm()), Opened(stiff_arm())
    for opened in (one_by_one, at_once, read):
        opened.step(joint_position={"elbow": 0.7})
    for _ in range(60):
        expected = one_by_one.step()
        read.step()
        read.backend.entity_state("/arm/link")
        read.backend.contacts("/arm/link")
    assert (
        numbers(at_once.step(60))
        == numbers(expected)
        == numbers(read.backend.step(read.time_ns, read.commands))
    )


def test_save_restore_and_reset_are_exact() -> None:
    opened = Opened(stiff_arm())
    first = [numbers(opened.step(joint_position={"elbow": 0.7}))] + [
        numbers(opened.step(7)) for _ in range(20)
    ]
    opened.restart()
    again = [numbers(opened.step(joint_position={"elbow": 0.7}))] + [
        numbers(opened.step(7)) for _ in range(20)
    ]
    assert again == first
    simulation = opened.backend.simulation
    kept = simulation.save().copy()
    expected = numbers(opened.step(50))
    simulation.restore(kept)
    opened.time_ns -= 50 * STEP_NS
    simulation.time_ns = opened.time_ns
    assert numbers(opened.step(50)) == expected


def test_the_effort_is_the_law_at_the_state_also_where_no_step_led_to_it() -> None:
    opened = Opened(limited(stiff_arm(), 60.0))
    for target in (0.5, -0.4, 0.1):
        opened.step(joint_position={"elbow": target}, joint_effort={"elbow": 2.0})
        for _ in range(100):
            state = opened.step()
            pull = 5e3 * (target - state.joint_position[0]) - 50.0 * state.joint_velocity[0] + 2.0
            assert state.joint_effort[0] == pytest.approx(np.clip(pull, -60.0, 60.0), abs=1e-6)
    simulation = opened.backend.simulation
    simulation.data.qpos[:], simulation.data.qvel[:] = 0.099, 0.02
    simulation.refresh()
    state = opened.backend.step(opened.time_ns, opened.commands)
    assert state.joint_effort[0] == pytest.approx(5e3 * (0.1 - 0.099) - 50.0 * 0.02 + 2.0)


def test_accelerations_and_efforts_fulfil_the_equations_of_motion() -> None:
    opened = Opened(limited(stiff_arm(), 20.0))
    opened.step(joint_position={"elbow": 1.0})
    for _ in range(100):
        opened.step()
        simulation = opened.backend.simulation
        model, data = simulation.model, simulation.data
        before = data.qvel.copy()
        inertia = mass_matrix(model, data)
        bias = data.qfrc_bias - data.qfrc_passive
        state = opened.step()
        assert_allclose(inertia @ (data.qvel - before) / H + bias, state.joint_effort, atol=1e-8)


def test_an_asymmetric_effort_range_is_exact_at_both_ends() -> None:
    plan = limited(slide(1e5, 1e4, 1e9), np.inf, (-10.0, 30.0))
    opened = Opened(plan)
    efforts = [opened.step().joint_effort[0] for _ in range(400)]
    efforts += [opened.step(joint_position={"reach": -0.3}).joint_effort[0] for _ in range(800)]
    assert max(efforts) == pytest.approx(30.0, abs=1e-9)
    assert min(efforts) == pytest.approx(-10.0, abs=1e-9)
    state = opened.step()
    assert_allclose(state.joint_position, -0.3, atol=1e-6)


def test_a_changed_gain_acts_across_the_threshold() -> None:
    soft = with_physics(arm().build(), gravity=EARTH, drives={"elbow": Drive(stiffness=20.0, damping=1.0)})
    first = Opened(soft)
    before = first.step(1500)
    assert because(soft) == ["the time step resolves it"]
    follower = first.backend.new_instance()
    follower.open(BackendContext(plan=stiff_arm(), report=lambda *_: None, options={}))
    follower.transfer_state(first.backend)
    assert before.joint_position[0] == pytest.approx(9.81 * 0.1 / 20.0, rel=0.01)
    held = follower.step(first.time_ns + 1500 * STEP_NS, first.commands)
    assert held.joint_position[0] == pytest.approx(9.81 * 0.1 / 5e3, rel=0.01)


# --- On the ground ------------------------------------------------------------------------------------------------


@each_case("damping", [0.1, 2.0, 10.0])
def test_a_rover_with_stiff_wheels_stays_on_them(damping: float) -> None:
    """It accelerates as friction allows: mu g t^2 / 2 up to the speed of the wheels. By actuators it turns over."""
    driven = Driven(rover(damping=damping))
    state = driven.drive(5.0, 5.0, 3.0)
    assert driven.rise < 4e-3
    assert driven.tilt < 1.0
    assert state.body_pose[driven.base, 0] == pytest.approx(1.475, abs=0.01)
    assert state.body_twist is not None
    assert state.body_twist[driven.base, 0] == pytest.approx(0.5, rel=2e-3)


def test_the_old_motion_is_an_option() -> None:
    driven = Driven(rover(damping=2.0), stiff_drives="off", multiccd="off")
    driven.drive(5.0, 5.0, 3.0)
    assert driven.tilt > 90.0
