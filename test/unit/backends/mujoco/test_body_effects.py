"""Damping of bodies and surfaces that move, as PhysX has them, against closed forms and plain MuJoCo."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco
from spec_scenes import UNIT, built, collider, hinged, turned

from builders.stage_text import at, body, prim, scene_of, world
from case_tables import each_case
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.model.physics import (
    Body,
    Box,
    ContactMaterial,
    Dof,
    Inertial,
    PhysicsScene,
    SurfaceVelocity,
)
from usd_ros_bridge.spatial.pose import Pose

STEP = 0.002
GRAVITY = 9.81
FRICTION = 0.5
RUBBER = ContactMaterial(static_friction=FRICTION, dynamic_friction=FRICTION)


def simulation(scene: PhysicsScene) -> Simulation:
    return Simulation(compile_model(built(scene)))


def com_velocity(sim: Simulation, index: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Linear velocity of a body's centre of mass, and its angular velocity, in the world, by MuJoCo itself."""
    spatial = np.zeros(6)
    body_id = int(sim.compiled.body_ids[index])
    mujoco.mj_objectVelocity(sim.model, sim.data, mujoco.mjtObj.mjOBJ_BODY, body_id, spatial, 0)
    return spatial[3:], spatial[:3]


# --- Damping ------------------------------------------------------------------------------------------------------


OFFSET = Inertial(mass=2.0, center=(0.3, -0.1, 0.2), diagonal=(0.05, 0.05, 0.05))


def test_a_free_body_loses_its_velocity_as_in_physx() -> None:
    """Step by step `v (1 - c h)`, of the centre of mass, wherever that is, and of the rotation."""
    free = Body(
        path="/a",
        inertial=OFFSET,
        world_from_body=turned("Y", 0.7),
        linear_velocity=(1.0, 2.0, 3.0),
        angular_velocity=(0.5, -2.0, 1.0),
        linear_damping=0.8,
        angular_damping=1.5,
    )
    sim = simulation(PhysicsScene(bodies=(free,), gravity=(0.0, 0.0, 0.0)))
    linear, angular = (each.copy() for each in com_velocity(sim, 0))
    sim.step(500)
    for got, start, damping in zip(com_velocity(sim, 0), (linear, angular), (0.8, 1.5), strict=True):
        # Velocities are those of the body's axes: MuJoCo's error of second order in the turn of a step remains.
        assert got == pytest.approx(start * (1.0 - damping * STEP) ** 500, rel=2e-3, abs=2e-3)


def test_a_body_without_spin_is_damped_exactly() -> None:
    free = Body(path="/a", inertial=OFFSET, linear_velocity=(1.0, 2.0, 3.0), linear_damping=0.8)
    sim = simulation(PhysicsScene(bodies=(free,), gravity=(0.0, 0.0, 0.0)))
    sim.step(500)
    linear, angular = com_velocity(sim, 0)
    assert linear == pytest.approx(np.array((1.0, 2.0, 3.0)) * (1.0 - 0.8 * STEP) ** 500, rel=1e-10)
    assert angular == pytest.approx(np.zeros(3), abs=1e-12)


def test_a_falling_body_has_a_final_speed() -> None:
    """Gravity over damping; more damping than a step can take off stops a body, and does not throw it back."""
    fall = Body(path="/a", inertial=UNIT, linear_damping=2.0)
    stuck = Body(path="/b", inertial=UNIT, linear_damping=1e6, world_from_body=Pose((5.0, 0.0, 0.0)))
    sim = simulation(PhysicsScene(bodies=(fall, stuck)))
    sim.step(5000)
    assert com_velocity(sim, 0)[0][2] == pytest.approx(-GRAVITY / 2.0, rel=1e-6)
    assert com_velocity(sim, 1)[0][2] == pytest.approx(-GRAVITY * STEP, rel=1e-6)


def test_links_are_damped_by_the_forces_of_their_bodies() -> None:
    """A pendulum without gravity: `(I + m r^2) a = -(c_a I + c_l m r^2) w`."""
    mass, length, moment = 2.0, 0.5, 0.1
    linear, angular = 3.0, 0.7
    scene = hinged(
        dof=Dof(axis="rotY", velocity=1.0),
        inertial=Inertial(mass=mass, center=(length, 0.0, 0.0), diagonal=(moment,) * 3),
        gravity=(0.0, 0.0, 0.0),
    )
    (link,) = scene.bodies
    sim = simulation(replace(scene, bodies=(replace(link, linear_damping=linear, angular_damping=angular),)))
    start = float(sim.data.qvel[0])
    sim.step(500)
    rate = (angular * moment + linear * mass * length**2) / (moment + mass * length**2)
    assert float(sim.data.qvel[0]) == pytest.approx(start * math.exp(-rate * 1.0), rel=2.0 * rate * STEP)


@pytest.mark.skipif(not hasattr(mujoco, "mjtSleepPolicy"), reason="MuJoCo has bodies that sleep from 3.4 on")
def test_damping_wakes_no_body() -> None:
    asleep = Body(path="/a", inertial=OFFSET, starts_asleep=True, linear_damping=0.5, angular_damping=0.1)
    sim = simulation(PhysicsScene(bodies=(asleep,)))
    sim.step(10)
    assert sim.world_from_body(0)[2] == 0.0


def test_steps_at_once_are_the_same_steps() -> None:
    free = Body(
        path="/a", inertial=OFFSET, angular_velocity=(1.0, 2.0, 3.0), angular_damping=0.5, linear_damping=0.1
    )
    once, each = (simulation(PhysicsScene(bodies=(free,))) for _ in range(2))
    once.step(50)
    for _ in range(50):
        each.step(1)
        each.update_forces()
    assert once.data.qpos.tobytes() == each.data.qpos.tobytes()
    assert once.data.qvel.tobytes() == each.data.qvel.tobytes()


def test_a_restored_state_goes_on_as_before() -> None:
    free = Body(path="/a", inertial=OFFSET, angular_velocity=(1.0, 2.0, 3.0), angular_damping=0.5)
    sim = simulation(PhysicsScene(bodies=(free,)))
    sim.step(10)
    state = sim.save().copy()
    sim.step(20)
    expected = sim.data.qpos.copy()
    sim.restore(state)
    sim.step(20)
    assert sim.data.qpos.tobytes() == expected.tobytes()


# --- Surfaces -----------------------------------------------------------------------------------------------------


def on_belt(
    surface: SurfaceVelocity, *, turn: float = 0.0, load_at: Any = (0.0, 0.0), **belt: Any
) -> PhysicsScene:
    """A box of 20 cm on a belt whose upper face is at z = 0."""
    x, y = load_at
    kinematic = {"kinematic": True, "world_from_body": turned("Z", turn, (0.0, 0.0, -0.1)), **belt}
    return PhysicsScene(
        bodies=(
            Body(path="/belt", surface=surface, **kinematic),
            Body(path="/box", inertial=UNIT, world_from_body=Pose((x, y, 0.1))),
        ),
        colliders=(
            collider(0, Box((20.0, 20.0, 0.1)), path="/belt/shape", material=RUBBER),
            collider(1, Box((0.1, 0.1, 0.1)), path="/box/shape", material=RUBBER),
        ),
    )


@each_case("own_axes", [True, False])
def test_a_belt_carries_a_box(own_axes: bool) -> None:
    """Friction accelerates it by mu g until it is as fast: `v t - v^2 / (2 mu g)`."""
    speed, turn, seconds = 1.0, 0.5, 2.0
    surface = SurfaceVelocity(linear=(speed, 0.0, 0.0), own_axes=own_axes)
    sim = simulation(on_belt(surface, turn=turn))
    sim.step(round(seconds / STEP))
    along = np.array((math.cos(turn), math.sin(turn), 0.0)) if own_axes else np.array((1.0, 0.0, 0.0))
    way = speed * seconds - speed**2 / (2.0 * FRICTION * GRAVITY)
    box = sim.world_from_body(1)
    assert box[:2] == pytest.approx(along[:2] * way, abs=0.01)
    assert sim.body_twist(1)[:3] == pytest.approx(along * speed, abs=1e-3)
    assert sim.world_from_body(0)[:3] == pytest.approx((0.0, 0.0, -0.1), abs=1e-12)
    assert sim.body_twist(0) == pytest.approx(np.zeros(6), abs=1e-12)


def test_friction_sets_the_pace_at_first() -> None:
    """`mu g t`; MuJoCo's contacts lift what slips fast for a moment, which is all of the tolerance."""
    sim = simulation(on_belt(SurfaceVelocity(linear=(5.0, 0.0, 0.0))))
    sim.step(round(0.5 / STEP))
    assert sim.body_twist(1)[0] == pytest.approx(FRICTION * GRAVITY * 0.5, rel=0.05)


def test_a_turntable_carries_a_box_around() -> None:
    """A box that rests on it from the start turns with it: `w r` across the radius."""
    rate, radius = 0.5, 1.0
    sim = simulation(on_belt(SurfaceVelocity(angular=(0.0, 0.0, rate)), load_at=(radius, 0.0)))
    sim.step(round(2.0 / STEP))
    box, twist = sim.world_from_body(1), sim.body_twist(1)
    assert twist[:3] == pytest.approx(np.cross((0.0, 0.0, rate), box[:3] - (0.0, 0.0, 0.1)), abs=0.01)
    assert twist[5] == pytest.approx(rate, rel=0.02)


def test_velocity_along_the_normal_of_a_contact_has_no_effect() -> None:
    scene = on_belt(SurfaceVelocity(linear=(0.0, 0.0, 1.0)))
    sim = simulation(scene)
    sim.step(500)
    assert sim.body_twist(1) == pytest.approx(np.zeros(6), abs=1e-6)
    assert sim.world_from_body(1)[2] == pytest.approx(0.1, abs=1e-3)


def test_tracks_drive_their_vehicle() -> None:
    """A surface of a body that moves: the floor does to the body what the belt does to a box."""
    speed, seconds = 0.5, 1.0
    sled = Body(
        path="/sled",
        inertial=UNIT,
        world_from_body=Pose((0.0, 0.0, 0.1)),
        surface=SurfaceVelocity(linear=(-speed, 0.0, 0.0)),
    )
    floor = collider(-1, Box((20.0, 20.0, 0.1)), path="/floor", material=RUBBER, pose=Pose((0.0, 0.0, -0.1)))
    sim = simulation(
        PhysicsScene(bodies=(sled,), colliders=(floor, collider(0, Box((0.1, 0.1, 0.1)), material=RUBBER)))
    )
    sim.step(round(seconds / STEP))
    assert sim.body_twist(0)[0] == pytest.approx(speed, abs=1e-3)
    way = speed * seconds - speed**2 / (2.0 * FRICTION * GRAVITY)
    assert sim.world_from_body(0)[0] == pytest.approx(way, abs=0.01)


@each_case("cone", ["pyramidal", "elliptic"])
def test_belts_with_either_cone(cone: str) -> None:
    scene = replace(on_belt(SurfaceVelocity(linear=(0.5, 0.0, 0.0))), solver={"cone": cone})
    sim = simulation(scene)
    sim.step(round(1.0 / STEP))
    assert sim.body_twist(1)[0] == pytest.approx(0.5, abs=2e-3)


# --- From stages --------------------------------------------------------------------------------------------------


def belt(*content: str, schemas: str = "PhysxSurfaceVelocityAPI") -> str:
    """A kinematic belt as text, its upper face at z = 0, turned by 90 degrees; and a box on it."""
    return world(
        prim(
            "Material",
            "rubber",
            "PhysicsMaterialAPI",
            "float physics:staticFriction = 0.5",
            "float physics:dynamicFriction = 0.5",
        ),
        prim(
            "Cube",
            "belt",
            f"PhysicsRigidBodyAPI PhysicsCollisionAPI MaterialBindingAPI {schemas}",
            "bool physics:kinematicEnabled = 1",
            "rel material:binding:physics = </World/rubber>",
            "float3 xformOp:scale = (2, 10, 0.2)",
            "float xformOp:rotateZ = 90",
            "double3 xformOp:translate = (0, 0, -0.1)",
            'uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ", "xformOp:scale"]',
            "double size = 1",
            *content,
        ),
        body(
            "box",
            at(0, 0, 0.1),
            prim(
                "Cube",
                "c",
                "PhysicsCollisionAPI MaterialBindingAPI",
                "double size = 0.2",
                "rel material:binding:physics = </World/rubber>",
            ),
        ),
    )


VELOCITY = "vector3f physxSurfaceVelocity:surfaceVelocity = (0.1, 0, 0)"


@each_case(
    ("content", "expected"),
    [
        # In the belt's axes, scale included, as PhysX has it.
        ((VELOCITY,), (0.0, 0.2)),
        ((VELOCITY, "bool physxSurfaceVelocity:surfaceVelocityLocalSpace = 0"), (0.1, 0.0)),
        ((VELOCITY, "bool physxSurfaceVelocity:surfaceVelocityEnabled = 0"), (0.0, 0.0)),
        # What Isaac Sim had before: the velocity of a kinematic body.
        (("vector3f physics:velocity = (0.1, 0, 0)",), (0.0, 0.2)),
    ],
)
def test_belts_of_stages(content: tuple[str, ...], expected: tuple[float, float]) -> None:
    scene = scene_of(belt(*content))
    sim = simulation(scene)
    index = next(number for number, each in enumerate(scene.bodies) if each.path.endswith("box"))
    sim.step(round(0.5 / STEP))
    assert sim.body_twist(index)[:2] == pytest.approx(expected, abs=2e-3)


def test_a_belt_on_a_stage_in_centimetres_with_y_up() -> None:
    """Angular ones are in degrees; world axes are those of the stage."""
    content = body(
        "b",
        "vector3f physxSurfaceVelocity:surfaceVelocity = (0, 50, 0)",
        "vector3f physxSurfaceVelocity:surfaceAngularVelocity = (0, 180, 0)",
        "bool physxSurfaceVelocity:surfaceVelocityLocalSpace = 0",
        prim("Cube", "c", "PhysicsCollisionAPI"),
    )
    (found,) = scene_of(world(content), meters=0.01, up="Y").bodies
    assert found.surface is not None
    assert found.surface.linear == pytest.approx((0.0, 0.0, 0.5), abs=1e-7)
    assert found.surface.angular == pytest.approx((0.0, 0.0, math.pi), abs=1e-6)
    assert not found.surface.own_axes


def test_gears_share_the_inertia_of_their_wheels() -> None:
    """A torque on the first of two gears: `T / (I0 + r^2 I1)`; the second one turns r times as fast, the other way."""
    ratio, moments, torque = 3.0, (0.2, 0.05), 0.6

    def wheel(name: str, moment: float) -> str:
        mass = "float physics:mass = 1", f"float3 physics:diagonalInertia = ({moment}, {moment}, {moment})"
        ends = "rel physics:body0 = </World/base>", f"rel physics:body1 = </World/{name}>"
        return body(name, *mass) + prim("PhysicsRevoluteJoint", f"of_{name}", "", *ends)

    gear = prim(
        "PhysxPhysicsGearJoint",
        "gear",
        "",
        "rel physics:body0 = </World/a>",
        "rel physics:body1 = </World/b>",
        "rel physics:hinge0 = </World/of_a>",
        "rel physics:hinge1 = </World/of_b>",
        f"float physics:gearRatio = {ratio}",
    )
    anchor = prim("PhysicsFixedJoint", "anchor", "", "rel physics:body1 = </World/base>")
    wheels = [wheel(name, moment) for name, moment in zip("ab", moments, strict=True)]
    sim = simulation(scene_of(world(body("base", "float physics:mass = 1"), anchor, *wheels, gear)))
    sim.data.ctrl[sim.model.actuator("/World/of_a:motor").id] = torque
    sim.step(round(0.5 / STEP))
    speeds = [float(sim.data.joint(f"/World/of_{name}").qvel[0]) for name in "ab"]
    assert speeds[0] == pytest.approx(0.5 * torque / (moments[0] + ratio**2 * moments[1]), rel=0.01)
    assert speeds[1] == pytest.approx(-ratio * speeds[0], rel=1e-3)


def test_a_stone_falls_in_the_second_scene_alone() -> None:
    text = world(
        prim("PhysicsScene", "a", "", "float physics:gravityMagnitude = 0"),
        prim("PhysicsScene", "b", "", f"float physics:gravityMagnitude = {GRAVITY}"),
        body("floats", "float physics:mass = 1", at(0, 0, 10)),
        body("stone", "float physics:mass = 1", at(0, 0, 10), "rel physics:simulationOwner = </World/b>"),
    )
    sim = simulation(scene_of(text))
    sim.step(500)
    assert sim.world_from_body(0)[2] == pytest.approx(10.0, abs=1e-9)
    assert sim.world_from_body(1)[2] == pytest.approx(10.0 - 0.5 * GRAVITY, abs=2e-3)


def test_a_drive_on_a_scaled_body_holds_its_target() -> None:
    scaled = "float3 xformOp:scale = (2, 2, 2)", 'uniform token[] xformOpOrder = ["xformOp:scale"]'
    slide = prim(
        "PhysicsPrismaticJoint",
        "slide",
        "PhysicsDriveAPI:linear",
        "rel physics:body0 = </World/base>",
        "rel physics:body1 = </World/slider>",
        "float physics:lowerLimit = 0",
        "float physics:upperLimit = 0.5",
        "float drive:linear:physics:stiffness = 100",
        "float drive:linear:physics:damping = 20",
        "float drive:linear:physics:targetPosition = 0.3",
    )
    anchor = prim("PhysicsFixedJoint", "anchor", "", "rel physics:body1 = </World/base>")
    mass = "float physics:mass = 1"
    sim = simulation(scene_of(world(body("base", mass, *scaled), body("slider", mass), anchor, slide)))
    sim.step(1500)
    assert float(sim.data.joint("/World/slide").qpos[0]) == pytest.approx(0.3, abs=1e-4)


def test_a_body_that_closes_a_loop_is_damped_as_a_whole() -> None:
    """A link that two hinges at one axis hold: one carries it, the other one closes a loop; both turn freely."""
    damped = "float physxRigidBody:angularDamping = 0.8"
    ends = "rel physics:body0 = </World/base>", "rel physics:body1 = </World/link>"
    state = "float state:angular:physics:velocity = 60"
    text = world(
        prim("PhysicsScene", "scene", "", "float physics:gravityMagnitude = 0"),
        body("base", "float physics:mass = 1"),
        body("link", "float physics:mass = 1", "float3 physics:diagonalInertia = (0.1, 0.1, 0.1)", damped),
        prim("PhysicsFixedJoint", "anchor", "", "rel physics:body1 = </World/base>"),
        prim("PhysicsRevoluteJoint", "hinge", "", *ends, state),
        prim(
            "PhysicsRevoluteJoint",
            "loop",
            "",
            *ends,
            state,
            "bool physics:excludeFromArticulation = 1",
            "float physics:lowerLimit = -900",
            "float physics:upperLimit = 900",
        ),
    )
    sim = simulation(scene_of(text))
    assert sim.model.body("/World/loop:share").mass[0] > 0.0
    sim.step(500)
    rate = math.radians(60.0) * (1.0 - 0.8 * STEP) ** 500
    assert float(sim.data.joint("/World/hinge").qvel[0]) == pytest.approx(rate, rel=1e-3)
