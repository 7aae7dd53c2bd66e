"""The physics that conversion must reach: pendulums, falls, energy, friction, bounces, against theory."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ellipk

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco
from spec_scenes import (
    GRAVITY,
    UNIT,
    Reports,
    body_pose,
    built,
    collider,
    hinged,
    mass_matrix,
    run,
    simulated,
    turned,
)

from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.contacts import damping_ratio, stepped_restitution
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.backends.mujoco.stiff_drives import add_drive_tendons, solve_drives
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Box,
    ContactMaterial,
    Dof,
    Drive,
    Inertial,
    Joint,
    Mimic,
    PhysicsScene,
    Plane,
    Sphere,
)
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose

MASS, LENGTH, MOMENT = 2.0, 0.7, 0.05
BOB = Inertial(mass=MASS, center=(0.0, 0.0, -LENGTH), diagonal=(MOMENT, MOMENT, MOMENT))
ABOUT_HINGE = MOMENT + MASS * LENGTH**2


# --- Pendulum and fall --------------------------------------------------------------------------------------------


@each_case("amplitude", [math.radians(5.0), math.radians(60.0), math.radians(150.0)])
def test_a_pendulum_has_its_period(amplitude: float) -> None:
    _, model, data = simulated(hinged(dof=Dof(axis="rotY", position=amplitude), inertial=BOB))
    crossings, before = [], amplitude
    while len(crossings) < 4:
        mujoco.mj_step(model, data)
        now = float(data.qpos[0])
        if before < 0.0 <= now:
            crossings.append(data.time - model.opt.timestep * now / (now - before))
        before = now
    theory = (
        4.0
        * math.sqrt(ABOUT_HINGE / (MASS * GRAVITY * LENGTH))
        * float(ellipk(math.sin(amplitude / 2.0) ** 2))
    )
    assert np.diff(crossings).mean() == pytest.approx(theory, rel=1e-3)


@pytest.mark.parametrize("amplitude", [math.radians(20.0), math.radians(120.0)])
def test_an_undamped_pendulum_keeps_its_energy(amplitude: float) -> None:
    """Over 10 s; compared at the mean of the first and last swing, for the step's own phase adds a ripple."""
    _, model, data = simulated(hinged(dof=Dof(axis="rotY", position=amplitude), inertial=BOB))
    energy: list[float] = []
    crossings: list[int] = []
    before = amplitude
    while data.time < 10.0:
        mujoco.mj_step(model, data)
        q, v = float(data.qpos[0]), float(data.qvel[0])
        energy.append(0.5 * ABOUT_HINGE * v * v + MASS * GRAVITY * LENGTH * (1.0 - math.cos(q)))
        if before < 0.0 <= q:
            crossings.append(len(energy))
        before = q
    first = np.mean(energy[crossings[0] : crossings[1]])
    last = np.mean(energy[crossings[-2] : crossings[-1]])
    assert last == pytest.approx(first, rel=1e-3)


def test_a_double_pendulum_keeps_its_energy_with_a_better_integrator() -> None:
    joints = (
        Joint(path="/upper_joint", type="revolute", body0=WORLD_BODY, body1=0, dofs=(Dof(axis="rotY", position=1.0),)),
        Joint(
            path="/lower_joint", type="revolute", body0=0, body1=1, dofs=(Dof(axis="rotY", position=0.5),),
            body0_from_joint=Pose((0.0, 0.0, -1.0)),
        ),
    )  # fmt: skip
    bodies = (
        Body(path="/upper", inertial=BOB, joints=(0,)),
        Body(path="/lower", inertial=BOB, parent=0, joints=(1,)),
    )
    _, model, data = simulated(PhysicsScene(bodies=bodies, joints=joints), integrator="rk4")
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    energy = []
    for _ in range(5000):
        mujoco.mj_step(model, data)
        energy.append(float(data.energy.sum()))
    assert np.ptp(energy) < 1e-4 * MASS * GRAVITY * LENGTH


@each_case("timestep", [0.001, 0.002, 0.005])
def test_a_body_falls_as_far_as_it_should(timestep: float) -> None:
    body = Body(
        path="/body", inertial=UNIT, world_from_body=Pose((0.0, 0.0, 10.0)), linear_velocity=(1.0, 0.0, 2.0)
    )
    compiled, model, data = simulated(PhysicsScene(bodies=(body,)), timestep=timestep)
    run(model, data, 1.0)
    place = body_pose(compiled, data, 0)
    assert place[:3] == pytest.approx((1.0, 0.0, 12.0 - 0.5 * GRAVITY), abs=1e-4)


# --- Friction -----------------------------------------------------------------------------------------------------


def sliding(slope: float, block: ContactMaterial | None, ramp: ContactMaterial | None) -> tuple[float, float]:
    """Returns how far a block slid on a slope in 1 s, and how far it should have without friction."""
    size = 0.1
    tilt = turned("Y", slope)
    normal = (math.sin(slope), 0.0, math.cos(slope))
    x, y, z = (size * part for part in normal)
    scene = PhysicsScene(
        bodies=(
            Body(
                path="/block", inertial=Inertial(mass=3.0, diagonal=(0.02, 0.02, 0.02)),
                world_from_body=Pose((x, y, z), tilt.rotation),
            ),
        ),
        colliders=(
            collider(0, Box((0.3, 0.2, size)), material=block),
            collider(WORLD_BODY, Plane(), path="/ramp", pose=Pose((0.0, 0.0, 0.0), tilt.rotation), material=ramp),
        ),
    )  # fmt: skip
    compiled, model, data = simulated(scene)
    run(model, data, 1.0)
    moved = body_pose(compiled, data, 0)[:3] - np.array([x, y, z])
    down = np.array([math.cos(slope), 0.0, -math.sin(slope)])
    return float(moved @ down), 0.5 * GRAVITY * math.sin(slope)


def rubber(friction: float) -> ContactMaterial:
    return ContactMaterial(static_friction=friction, dynamic_friction=friction)


@each_case("friction", [0.2, 0.5, 0.9])
@each_case("bound", ["both", "block", "ramp"])
def test_a_block_holds_and_slides_on_the_slope_that_its_coefficient_predicts(
    friction: float, bound: str
) -> None:
    materials = tuple(rubber(friction) if bound in ("both", end) else None for end in ("block", "ramp"))
    # One without a material has PhysX's default.
    combined = friction if bound == "both" else 0.5 * (friction + 0.5)
    critical = math.atan(combined)
    held, _ = sliding(critical - math.radians(1.0), *materials)
    assert abs(held) < 2e-3
    slope = critical + math.radians(5.0)
    slid, _ = sliding(slope, *materials)
    predicted = 0.5 * GRAVITY * (math.sin(slope) - combined * math.cos(slope))
    assert slid == pytest.approx(predicted, rel=0.02)


def test_without_materials_friction_is_the_default_of_physx() -> None:
    slope = math.radians(40.0)
    slid, _ = sliding(slope, None, None)
    assert slid == pytest.approx(0.5 * GRAVITY * (math.sin(slope) - 0.5 * math.cos(slope)), rel=0.02)


def test_two_materials_are_averaged() -> None:
    mean = 0.5
    critical = math.atan(mean)
    held, _ = sliding(critical - math.radians(1.0), rubber(0.2), rubber(0.8))
    assert abs(held) < 2e-3
    slope = critical + math.radians(5.0)
    slid, _ = sliding(slope, rubber(0.2), rubber(0.8))
    assert slid == pytest.approx(0.5 * GRAVITY * (math.sin(slope) - mean * math.cos(slope)), rel=0.02)


def test_a_material_without_friction_has_none() -> None:
    slid, free = sliding(math.radians(10.0), ContactMaterial(), None)
    assert slid == pytest.approx(free, rel=1e-3)


def test_the_dynamic_coefficient_counts_and_the_static_one_where_it_is_the_only_one() -> None:
    slope = math.radians(30.0)
    both = ContactMaterial(static_friction=0.9, dynamic_friction=0.3)
    slid, _ = sliding(slope, both, both)
    assert slid == pytest.approx(0.5 * GRAVITY * (math.sin(slope) - 0.3 * math.cos(slope)), rel=0.02)
    static = ContactMaterial(static_friction=0.9)
    held, _ = sliding(slope, static, static)
    assert abs(held) < 2e-3


# --- Bounces ------------------------------------------------------------------------------------------------------


@each_case("restitution", [0.3, 0.6, 0.9])
@each_case("height", [0.3, 1.0])
def test_a_ball_bounces_as_high_as_its_restitution_says(restitution: float, height: float) -> None:
    material = ContactMaterial(dynamic_friction=0.5, restitution=restitution)
    radius = 0.1
    scene = PhysicsScene(
        bodies=(Body(path="/ball", inertial=UNIT, world_from_body=Pose((0.0, 0.0, radius + height))),),
        colliders=(
            collider(0, Sphere(radius), material=material),
            collider(WORLD_BODY, Plane(), path="/floor", material=material),
        ),
    )  # fmt: skip
    _, model, data = simulated(scene)
    highest, met = 0.0, False
    while data.time < 3.0 and not (met and data.qvel[2] < 0.0 and highest > 0.0):
        mujoco.mj_step(model, data)
        met = met or data.ncon > 0
        if met and data.ncon == 0:
            highest = max(highest, float(data.qpos[2]) - radius)
    assert math.sqrt(highest / height) == pytest.approx(restitution, abs=0.05)


def test_without_restitution_nothing_jumps() -> None:
    scene = PhysicsScene(
        bodies=(Body(path="/ball", inertial=UNIT, world_from_body=Pose((0.0, 0.0, 0.6))),),
        colliders=(
            collider(0, Sphere(0.1), material=rubber(0.5)),
            collider(WORLD_BODY, Plane(), path="/floor", material=rubber(0.5)),
        ),
    )
    _, model, data = simulated(scene)
    run(model, data, 2.0)
    assert data.qpos[2] == pytest.approx(0.1, abs=2e-3)
    assert abs(data.qvel[2]) < 1e-3


def test_what_a_contact_gives_back_falls_with_its_damping() -> None:
    shares = [stepped_restitution(ratio) for ratio in np.linspace(0.0, 1.0, 30).tolist()]
    assert shares[0] == pytest.approx(1.0, abs=0.01)
    assert all(before > after for before, after in itertools.pairwise(shares))
    # In continuous time, for a ratio of 0.2: exp(-0.2 / s * (pi - atan2(0.4 s, 0.92))), s = sqrt(0.96).
    assert stepped_restitution(0.2) == pytest.approx(0.5717, abs=0.05)
    for restitution in (0.2, 0.5, 0.8):
        assert stepped_restitution(damping_ratio(restitution)) == pytest.approx(restitution, abs=1e-6)


# --- Rest ---------------------------------------------------------------------------------------------------------


def stack(shape: Any, height: float) -> PhysicsScene:
    return PhysicsScene(
        bodies=(Body(path="/body", inertial=UNIT, world_from_body=Pose((0.0, 0.0, height))),),
        colliders=(
            collider(0, shape, pose=IDENTITY_POSE),
            collider(WORLD_BODY, Box((5.0, 5.0, 0.5)), path="/floor", pose=Pose((0.0, 0.0, -0.5))),
        ),
    )  # fmt: skip


def test_a_box_rests_on_the_floor() -> None:
    reports = Reports()
    compiled, model, data = simulated(stack(Box((0.2, 0.2, 0.2)), 0.2), reports)
    run(model, data, 5.0)
    place = body_pose(compiled, data, 0)
    assert place[:3] == pytest.approx((0.0, 0.0, 0.2), abs=1e-3)
    assert not reports


# --- Bodies without mass ------------------------------------------------------------------------------------------

NOTHING = Inertial(mass=0.0)


def chain(*links: tuple[Dof | None, Inertial]) -> PhysicsScene:
    """Returns bodies in a row from the world, 0.3 m apart; each on a hinge, or fixed where it has no dof."""
    joints = tuple(
        Joint(
            path=f"/joint_{place}", type="revolute" if dof else "fixed", body0=place - 1, body1=place,
            dofs=(dof,) if dof else (), axis="Y" if dof else None,
            body0_from_joint=Pose((0.3 if place else 0.0, 0.0, 0.0)),
        )
        for place, (dof, _) in enumerate(links)
    )  # fmt: skip
    bodies = tuple(
        Body(path=f"/body_{place}", inertial=inertial, parent=place - 1, joints=(place,))
        for place, (_, inertial) in enumerate(links)
    )
    return PhysicsScene(bodies=bodies, joints=joints)


def test_bodies_without_mass_add_none() -> None:
    """Between two joints, fixed to what moves, and at the end of the chain."""
    turns, bob = Dof(axis="rotY"), Inertial(mass=1.0, center=(0.1, 0.0, 0.0), diagonal=(1e-3, 2e-3, 2e-3))
    scene = chain((turns, NOTHING), (Dof(axis="rotX"), bob), (None, NOTHING), (turns, NOTHING))
    compiled, model, data = simulated(scene)
    assert model.body_mass.sum() == pytest.approx(1.0, abs=2e-9)
    assert model.body_mass[compiled.body_ids[2]] == 0.0
    mujoco.mj_forward(model, data)
    found = mass_matrix(model, data)
    assert found[:2, :2] == pytest.approx(np.diag([2e-3 + 0.4**2, 1e-3]), rel=1e-5, abs=1e-9)
    run(model, data, 1.0)
    assert data.warning.number.sum() == 0
    assert abs(data.qpos[0]) > 0.5


def test_a_body_without_mass_may_have_inertia() -> None:
    spinning = Inertial(mass=0.0, diagonal=(1e-3, 2e-3, 2.5e-3))
    scene = chain((Dof(axis="rotX"), spinning), (None, spinning))
    _, model, data = simulated(scene)
    mujoco.mj_forward(model, data)
    assert mass_matrix(model, data) == pytest.approx(2e-3)
    assert model.body_mass.sum() < 1e-9


def with_rows(scene: PhysicsScene) -> Simulation:
    """Returns the simulation that the backend makes: stiff drives are rows of the solver."""
    made = built(scene)
    add_drive_tendons(made)
    compiled = compile_model(made)
    return Simulation(compiled, drives=solve_drives(compiled))


@each_case(
    "dof",
    [
        Dof(axis="rotY"),
        Dof(axis="rotY", damping=2.0),
        Dof(axis="rotY", stiffness=500.0, spring_position=1.0),
        Dof(axis="rotY", drive=Drive(stiffness=1000.0, damping=10.0, target_position=1.0)),
        Dof(axis="rotY", drive=Drive(stiffness=1000.0, target_position=1.0)),
        Dof(axis="rotY", max_effort=1e3, drive=Drive(stiffness=1e5, damping=1e3, target_position=1.0)),
    ],
)
def test_a_joint_that_carries_no_mass_is_stable(dof: Dof) -> None:
    swings = Dof(axis="rotY", velocity=1.0)
    scene = chain((swings, BOB), (dof, NOTHING), (Dof(axis="rotX", damping=0.1), NOTHING))
    _, model, data = simulated(scene, stiff_drives=False)
    run(model, data, 2.0)
    solved = with_rows(scene)
    solved.step(1000)
    for moved in (data, solved.data):
        # The simulation of the backend sets the counts to 1: MuJoCo writes no log file then.
        assert moved.warning.number.max() <= (1 if moved is solved.data else 0)
        if dof.drive is not None and dof.drive.damping:
            assert moved.qpos[1] == pytest.approx(1.0, abs=1e-2)
        if dof.drive is not None or dof.stiffness:
            assert abs(moved.qpos[1] - 1.0) < 2.0


def test_a_mimic_joint_without_mass_follows() -> None:
    """Fingers of URDFs often have no inertial. Armature alone left the follower behind by three quarters of the way."""
    drive = Drive(stiffness=5000.0, damping=159.0, target_position=0.015)
    leader = Dof(axis="transY", max_effort=20.0, drive=drive)
    follower = Dof(axis="transY", mimic=Mimic(joint=0, dof=0, multiplier=-1.0))
    fingers = chain((leader, NOTHING), (follower, NOTHING))
    # Both hang from the world, as from a palm.
    scene = replace(
        fingers,
        gravity=(0.0, 0.0, 0.0),
        bodies=tuple(replace(each, parent=WORLD_BODY) for each in fingers.bodies),
        joints=tuple(replace(each, type="prismatic", body0=WORLD_BODY) for each in fingers.joints),
    )
    simulation = with_rows(scene)
    simulation.step(500)
    assert simulation.data.qpos == pytest.approx([0.015, -0.015], abs=1e-6)
    assert simulation.model.body_mass.sum() < 1e-4


def test_three_hinges_in_one_place_swing_through_the_place_where_two_are_one() -> None:
    """A shoulder of virtual links, as URDF needs one; its middle axis starts 1e-6 from 90 degrees."""
    lock = math.pi / 2 - 1e-6
    shoulder = [Dof(axis="rotX"), Dof(axis="rotY", position=lock), Dof(axis="rotZ", velocity=3.0)]
    links = chain(*((dof, NOTHING) for dof in shoulder))
    joints = tuple(replace(joint, body0_from_joint=IDENTITY_POSE) for joint in links.joints)
    arm = replace(links.bodies[2], inertial=replace(BOB, center=(0.1, 0.2, -0.4)))
    _, model, data = simulated(replace(links, bodies=(*links.bodies[:2], arm), joints=joints))
    run(model, data, 2.0)
    assert data.warning.number.sum() == 0


def test_a_free_body_without_mass_falls() -> None:
    _, model, data = simulated(PhysicsScene(bodies=(Body(path="/ghost", inertial=NOTHING),)))
    run(model, data, 1.0)
    assert data.qpos[2] == pytest.approx(-0.5 * GRAVITY, rel=1e-9)
