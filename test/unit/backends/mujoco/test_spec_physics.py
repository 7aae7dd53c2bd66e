"""The physics that conversion must reach: pendulums, falls, energy, friction, bounces, against theory."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ellipk

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco
from spec_scenes import GRAVITY, UNIT, Reports, body_pose, collider, hinged, run, simulated, turned

from usd_ros_bridge.backends.mujoco.contacts import damping_ratio, stepped_restitution
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Box,
    ContactMaterial,
    Dof,
    Inertial,
    Joint,
    PhysicsScene,
    Plane,
    Sphere,
)
from usd_ros_bridge.model.plan import HERE, Pose

MASS, LENGTH, MOMENT = 2.0, 0.7, 0.05
BOB = Inertial(mass=MASS, center=(0.0, 0.0, -LENGTH), diagonal=(MOMENT, MOMENT, MOMENT))
ABOUT_HINGE = MOMENT + MASS * LENGTH**2


# --- Pendulum and fall --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("amplitude", [math.radians(5.0), math.radians(60.0), math.radians(150.0)])
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


@pytest.mark.parametrize("timestep", [0.001, 0.002, 0.005])
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


@pytest.mark.parametrize("friction", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("bound", ["both", "block", "ramp"])
def test_a_block_holds_and_slides_on_the_slope_that_its_coefficient_predicts(
    friction: float, bound: str
) -> None:
    materials = tuple(rubber(friction) if bound in ("both", end) else None for end in ("block", "ramp"))
    critical = math.atan(friction)
    held, _ = sliding(critical - math.radians(1.0), *materials)
    assert abs(held) < 2e-3
    slope = critical + math.radians(5.0)
    slid, _ = sliding(slope, *materials)
    predicted = 0.5 * GRAVITY * (math.sin(slope) - friction * math.cos(slope))
    assert slid == pytest.approx(predicted, rel=0.02)


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
    slid, _ = sliding(slope, both, None)
    assert slid == pytest.approx(0.5 * GRAVITY * (math.sin(slope) - 0.3 * math.cos(slope)), rel=0.02)
    held, _ = sliding(slope, ContactMaterial(static_friction=0.9), None)
    assert abs(held) < 2e-3


# --- Bounces ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restitution", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("height", [0.3, 1.0])
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
            collider(0, shape, pose=HERE),
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
