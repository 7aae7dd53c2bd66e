"""Kinematic bodies carry: what lies on them moves as on a body of great mass that a joint moves alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

import mujoco
from spec_scenes import UNIT, Reports, built, collider, turned

from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Box,
    Capsule,
    ContactMaterial,
    Dof,
    Inertial,
    Joint,
    PhysicsScene,
    Plane,
    Shape,
    Sphere,
)
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray

SECONDS = 1.0
HEAVY = Inertial(mass=1e7, diagonal=(1e7, 1e7, 1e7))
"""Nothing that lies on such a body changes how it moves."""
RUBBER = ContactMaterial(static_friction=0.5, dynamic_friction=0.5)
BELT = Box((1.0, 0.5, 0.1))


def scene(*others: Body, shape: Shape = BELT, loads: tuple[Any, ...] = (), **fields: Any) -> PhysicsScene:
    """Returns a scene with a body 0 whose upper face is at z = 0."""
    belt = Body(path="/belt", kinematic=True, world_from_body=Pose((0.0, 0.0, -0.1)))
    colliders = (collider(0, shape, path="/belt/shape", material=RUBBER), *loads)
    return PhysicsScene(bodies=(belt, *others), colliders=colliders, **fields)


def driven(
    kinematic: PhysicsScene, kind: Literal["prismatic", "revolute"], axis: Any, speed: float
) -> PhysicsScene:
    """Returns the same scene for plain MuJoCo: body 0 has great mass, and a joint that moves it."""
    number = len(kinematic.joints)
    turns = kind == "revolute"
    dof = Dof(axis=f"{'rot' if turns else 'trans'}{axis}", velocity=speed)  # type: ignore[arg-type]
    belt = kinematic.bodies[0]
    joint = Joint(
        path="/rail",
        type=kind,
        body0=WORLD_BODY,
        body1=0,
        axis=axis,
        dofs=(dof,),
        body0_from_joint=belt.world_from_body,
    )
    moved = replace(belt, kinematic=False, inertial=HEAVY, joints=(number,), gravity_scale=0.0)
    return replace(kinematic, bodies=(moved, *kinematic.bodies[1:]), joints=(*kinematic.joints, joint))


def both(
    kinematic: PhysicsScene, kind: Literal["prismatic", "revolute"], axis: Any, speed: float, **changes: Any
) -> tuple[Simulation, FloatArray, FloatArray]:
    """Simulates both; returns ours, and the poses of all bodies but the first in ours and in MuJoCo's."""
    ours = Simulation(compile_model(built(kinematic)))
    twist = np.zeros(6)
    twist["XYZ".index(axis) + (3 if kind == "revolute" else 0)] = speed
    assert ours.set_kinematic_twist(0, twist)
    theirs = Simulation(compile_model(built(driven(kinematic, kind, axis, speed))))
    for simulation in (ours, theirs):
        for name, value in changes.items():
            setattr(simulation.model.opt, name, value)
        # The solver measures its error by the mean inertia, which a body of great mass makes a great one.
        simulation.model.stat.meaninertia = 1.0
        simulation.model.opt.tolerance, simulation.model.opt.iterations = 1e-14, 200
        simulation.reset()
    ours.set_kinematic_twist(0, twist)
    steps = round(SECONDS / ours.model.opt.timestep)
    ours.step(steps)
    theirs.step(steps)
    found = tuple(
        np.array([each.world_from_body(index) for index in range(1, len(kinematic.bodies))])
        for each in (ours, theirs)
    )
    assert ours.world_from_body(0) == pytest.approx(theirs.world_from_body(0), abs=1e-6)
    return ours, found[0], found[1]


def crate(height: float = 0.1, **fields: Any) -> Body:
    """Returns a crate that lies on the belt."""
    return Body(path="/crate", world_from_body=Pose((0.2, 0.1, height)), inertial=UNIT, **fields)


@each_case("cone", ["CONE_ELLIPTIC", "CONE_PYRAMIDAL"])
@each_case("shape", [Box((0.1, 0.1, 0.1)), Sphere(0.1), Capsule(0.1, 0.1)])
@each_case("condim", [1, 3, 4, 6])
def test_a_belt_carries_what_lies_on_it(cone: str, shape: Shape, condim: int) -> None:
    load = collider(
        1, shape, path="/crate/shape", pose=turned("X", np.pi / 2), material=RUBBER, solver={"condim": condim}
    )
    _, ours, theirs = both(
        scene(crate(), loads=(load,)), "prismatic", "X", 0.5, cone=int(getattr(mujoco.mjtCone, f"mj{cone}"))
    )
    assert ours == pytest.approx(theirs, abs=1e-6)
    if condim == 3 and isinstance(shape, Box):
        # v^2 / (2 mu g) later than the belt itself.
        assert ours[0, 0] - 0.2 == pytest.approx(0.5 - 0.25 / (2 * 0.5 * 9.81), abs=0.01)


@pytest.mark.parametrize(("kind", "axis", "speed"), [("revolute", "Z", 0.8), ("prismatic", "Z", 0.3)])
def test_turntables_and_lifts_carry_what_lies_on_them(kind: Any, axis: str, speed: float) -> None:
    load = collider(1, Box((0.1, 0.1, 0.1)), path="/crate/shape", material=RUBBER)
    _, ours, theirs = both(scene(crate(), loads=(load,)), kind, axis, speed)
    assert ours == pytest.approx(theirs, abs=1e-6)
    assert abs(ours[0] - (0.2, 0.1, 0.1, 0, 0, 0, 1)).max() > 0.2


@each_case("kind", ["fixed", "spherical", "revolute", "distance", "rod"])
@each_case(("motion", "axis", "speed"), [("prismatic", "X", 0.4), ("revolute", "Z", 0.7)])
def test_what_is_tied_to_a_kinematic_body_is_pulled_along(
    kind: Any, motion: Any, axis: str, speed: float
) -> None:
    """The body hangs below, tied 0.3 m off the axis."""
    turns: dict[str, tuple[Dof, ...]] = {
        "spherical": (Dof(axis="rotX"), Dof(axis="rotY"), Dof(axis="rotZ")),
        "revolute": (Dof(axis="rotY"),),
    }
    lengths = {"distance": (0.0, 0.5), "rod": (0.5, 0.5)}
    tie = Joint(
        path="/tie", type="distance" if kind == "rod" else kind, body0=0, body1=1, axis="Y", closes_loop=True,
        body0_from_joint=Pose((0.3, 0.0, -0.1)), dofs=turns.get(kind, ()), distance=lengths.get(kind),
        body1_from_joint=Pose((0.0, 0.0, 0.0 if kind in lengths else 0.5)),
    )  # fmt: skip
    load = Body(path="/load", world_from_body=Pose((0.3, 0.0, -0.7)), inertial=UNIT)
    _, ours, theirs = both(scene(load, joints=(tie,)), motion, axis, speed)
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert np.abs(ours[0, :2] - (0.3, 0.0)).max() > 0.1


def test_what_hangs_from_a_kinematic_body_by_joints_drags_others_along() -> None:
    """The arm of a cart pushes down on a crate beside it, and slides it over the ground."""
    joint = Joint(
        path="/shoulder", type="revolute", body0=0, body1=1, axis="Y", dofs=(Dof(axis="rotY"),),
        body0_from_joint=Pose((0.0, 0.0, 0.4)),
    )  # fmt: skip
    arm = Body(
        path="/arm", parent=0, joints=(0,), world_from_body=Pose((0.0, 0.0, 0.3)),
        inertial=Inertial(mass=3.0, center=(0.4, 0.0, 0.0), diagonal=(0.1, 0.1, 0.1)),
    )  # fmt: skip
    block = Body(path="/block", world_from_body=Pose((0.5, 0.0, 0.1)), inertial=UNIT)
    loads = (
        collider(1, Sphere(0.1), path="/arm/tip", pose=Pose((0.5, 0.0, 0.0)), material=RUBBER),
        collider(2, Box((0.2, 0.2, 0.1)), path="/block/shape", material=RUBBER),
        collider(WORLD_BODY, Plane(), path="/ground", material=ContactMaterial(dynamic_friction=0.05)),
    )
    scenery = scene(
        arm, block, joints=(joint,), loads=loads, shape=Box((0.1, 0.1, 0.05)), apart_colliders=((0, 3),)
    )
    _, ours, theirs = both(scenery, "prismatic", "X", 0.3)
    assert ours == pytest.approx(theirs, abs=5e-6)
    assert ours[1, 0] - 0.5 > 0.1


def test_what_moves_with_a_kinematic_body_reports_its_velocity() -> None:
    joint = Joint(path="/mast", type="fixed", body0=0, body1=1, body0_from_joint=Pose((0.5, 0.0, 0.0)))
    mast = Body(path="/mast_link", parent=0, joints=(0,), inertial=UNIT)
    ours = Simulation(compile_model(built(scene(mast, joints=(joint,)))))
    ours.set_kinematic_twist(0, np.array([0.2, 0.0, 0.0, 0.0, 0.0, 2.0]))
    assert ours.body_twist(0) == pytest.approx([0.2, 0.0, 0.0, 0.0, 0.0, 2.0])
    assert ours.body_twist(1) == pytest.approx([0.2, 1.0, 0.0, 0.0, 0.0, 2.0])
    ours.step(100)
    angle = 2.0 * 100 * ours.model.opt.timestep
    expected = [0.2 * np.cos(angle) - np.sin(angle), 0.2 * np.sin(angle) + np.cos(angle), 0.0, 0.0, 0.0, 2.0]
    assert ours.body_twist(1) == pytest.approx(expected)
    ours.set_kinematic_twist(0, np.zeros(6))
    assert not ours.body_twist(1).any()


# --- Bodies that start asleep -------------------------------------------------------------------------------------


def sleepers(**fields: Any) -> PhysicsScene:
    """Returns a ball that starts asleep in the air, one that falls on it, and one that falls beside it."""
    balls = tuple(
        Body(path=f"/ball_{number}", world_from_body=Pose(place), inertial=UNIT, starts_asleep=number == 0, **fields)
        for number, place in enumerate(((0.0, 0.0, 1.0), (0.05, 0.0, 2.0), (2.0, 0.0, 1.0)))
    )  # fmt: skip
    loads = tuple(collider(number, Sphere(0.1)) for number in range(3))
    floor = collider(WORLD_BODY, Plane(), path="/floor")
    return PhysicsScene(bodies=balls, colliders=(*loads, floor))


def test_a_body_that_starts_asleep_rests_until_it_is_touched() -> None:
    if not hasattr(mujoco, "mjtSleepPolicy"):
        reports = Reports()
        built(sleepers(), reports)
        assert list(reports) == ["mujoco.sleep:/ball_0"]
        return
    ours = Simulation(compile_model(built(sleepers())))
    for _ in range(2):
        ours.step(150)
        assert ours.world_from_body(0)[:3].tolist() == [0.0, 0.0, 1.0]
        assert ours.world_from_body(2)[2] == pytest.approx(1.0 - 0.5 * 9.81 * 0.3**2, abs=1e-9)
        ours.step(1000)
        assert [ours.world_from_body(each)[2] < 0.11 for each in range(3)] == [True] * 3
        ours.reset()


def test_a_body_that_sleeps_wakes_where_it_is_put() -> None:
    if not hasattr(mujoco, "mjtSleepPolicy"):
        pytest.skip("this MuJoCo has no sleep: test_a_body_that_starts_asleep_rests_until_it_is_touched")
    ours = Simulation(compile_model(built(sleepers())))
    ours.step(10)
    assert ours.set_body_state(0, np.array([5.0, 0.0, 3.0, 0.0, 0.0, 0.0, 1.0]), None)
    ours.step(100)
    assert ours.world_from_body(0)[2] < 3.0 - 0.1


def test_others_never_sleep() -> None:
    if not hasattr(mujoco, "mjtSleepPolicy"):
        pytest.skip("this MuJoCo has no sleep: test_a_body_that_starts_asleep_rests_until_it_is_touched")
    with_sleeper = Simulation(compile_model(built(sleepers())))
    model = with_sleeper.model
    assert model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP
    policies = mujoco.mjtSleepPolicy
    assert model.tree_sleep_policy.tolist() == [
        int(policies.mjSLEEP_INIT),
        *[int(policies.mjSLEEP_NEVER)] * 2,
    ]
    awake = replace(
        sleepers(), bodies=tuple(replace(each, starts_asleep=False) for each in sleepers().bodies)
    )
    assert (
        not Simulation(compile_model(built(awake))).model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP
    )


def test_a_body_below_a_joint_that_starts_asleep_is_reported() -> None:
    joint = Joint(path="/joint", type="revolute", body0=0, body1=1, axis="Y", dofs=(Dof(axis="rotY"),))
    bodies = (
        Body(path="/base", inertial=UNIT),
        Body(path="/link", inertial=UNIT, parent=0, joints=(0,), starts_asleep=True),
    )
    reports = Reports()
    built(PhysicsScene(bodies=bodies, joints=(joint,)), reports)
    assert list(reports) == ["mujoco.sleep:/link"]
