"""Real assets through the whole converter: frames against the plan's own kinematics, and the rover's motion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

import mujoco
from open_backend import Opened
from pxr import Usd
from spec_scenes import Reports, apart, body_pose, run, simulated

from usd_ros_bridge import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.runtime.kinematics import Kinematics

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
CONFIGURATIONS = 50
ASSETS = (
    "rover/rover.usda",
    "rover/world.usda",
    "arm/arm.usda",
    "fleet/fleet.usda",
    "mujoco_loop/pan_tilt.usda",
)
WHEEL_RADIUS, WHEEL_SEPARATION = 0.1, 0.33


def physics_of(asset: str) -> BridgePlan:
    return load_plan(EXAMPLES / asset, physics=True)


def at_random(plan: BridgePlan, random: np.random.Generator) -> State:
    """Returns a state with joints anywhere within their limits and free bodies anywhere."""
    layout = plan.layout
    lower = np.where(np.isfinite(layout.lower), layout.lower, -3.0)
    upper = np.where(np.isfinite(layout.upper), layout.upper, 3.0)
    position = random.uniform(lower, upper)
    poses = layout.body_pose.copy()
    poses[:, :3] += random.uniform(-1.0, 1.0, poses[:, :3].shape)
    turned = random.normal(size=poses[:, 3:].shape)
    poses[:, 3:] = turned / np.linalg.norm(turned, axis=1)[:, None]
    still = np.zeros_like(position)
    return State(
        time_ns=0, joint_position=position, joint_velocity=still, joint_effort=still, body_pose=poses
    )


def put(compiled: Any, data: Any, state: State) -> None:
    """Puts a model to a state of the plan."""
    for flat, dof in enumerate(compiled.dofs):
        if dof.row >= 0:
            assert compiled.qpos_of_dof[flat] >= 0
            data.qpos[compiled.qpos_of_dof[flat]] = state.joint_position[dof.row]
    for index, body in enumerate(compiled.scene.bodies):
        address = compiled.free_qpos[index]
        if address >= 0 and body.row >= 0:
            pose = state.body_pose[body.row]
            data.qpos[address : address + 7] = (*pose[:3], pose[6], *pose[3:6])
    mujoco.mj_kinematics(compiled.model, data)


@each_case("asset", ASSETS)
def test_frames_are_those_of_the_joint_frames(asset: str) -> None:
    plan = physics_of(asset)
    assert plan.physics is not None
    compiled, _, data = simulated(plan.physics)
    kinematics, random = Kinematics(plan), np.random.default_rng(7)
    bodies = [(index, body.row) for index, body in enumerate(plan.physics.bodies) if body.row >= 0]
    assert len(bodies) >= 3
    for _ in range(CONFIGURATIONS):
        state = at_random(plan, random)
        put(compiled, data, state)
        expected = kinematics.body_poses(state)
        for index, row in bodies:
            assert apart(body_pose(compiled, data, index), expected[row]) <= 1e-9


@each_case("asset", ASSETS)
def test_what_is_at_rest_in_the_stage_stays_together(asset: str) -> None:
    """Half a second without commands: nothing is flung apart, nothing is reported, drives hold."""
    plan = physics_of(asset)
    assert plan.physics is not None
    reports = Reports()
    compiled, model, data = simulated(plan.physics, reports)
    run(model, data, 0.5)
    assert not reports
    assert all(warning.number == 0 for warning in data.warning)
    assert np.abs(data.qvel[compiled.dof_of_dof[compiled.dof_of_dof >= 0]]).max() < 0.5


@each_case(("speed", "turn"), [(0.0, 1.0), (0.0, -2.0), (0.4, 0.5), (0.3, -1.5), (0.5, 0.0)])
def test_the_rover_drives_and_turns_as_a_differential_drive_does(speed: float, turn: float) -> None:
    opened = Opened(physics_of("rover/world.usda"))
    wheels = {name: name.startswith("left") for name in opened.plan.layout.dofs if "wheel" in name}
    outward = turn * WHEEL_SEPARATION / 2.0
    targets = {
        name: (speed - outward if left else speed + outward) / WHEEL_RADIUS for name, left in wheels.items()
    }
    opened.step(500, joint_velocity=targets)
    rover, twists = opened.body("/World/rover"), []
    for _ in range(1000):
        state = opened.step()
        assert state.body_twist is not None
        twists.append(state.body_twist[rover].copy())
    measured = np.array(twists)
    assert measured[:, 5].mean() == pytest.approx(turn, rel=0.02, abs=1e-3)
    # Wheels 5 cm wide touch the ground anywhere across their width: the base may pivot that much beside its middle.
    beside = abs(turn) * 0.025
    assert np.hypot(measured[:, 0], measured[:, 1]).mean() == pytest.approx(speed, rel=0.01, abs=beside)


BALL_AND_HINGE = """#usda 1.0
(
    defaultPrim = "swing"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    upAxis = "Z"
)

def Xform "swing"
{
    def Xform "upper" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {
        float physics:mass = 1
        float3 physics:diagonalInertia = (0.02, 0.02, 0.005)
        point3f physics:centerOfMass = (0.1, 0, -0.3)
        double3 xformOp:translate = (0, 0, 2)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }

    def Xform "lower" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {
        float physics:mass = 1
        float3 physics:diagonalInertia = (0.02, 0.02, 0.005)
        point3f physics:centerOfMass = (0, 0.1, -0.3)
        double3 xformOp:translate = (0, 0, 1.5)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }

    def PhysicsSphericalJoint "ball"
    {
        rel physics:body1 = </swing/upper>
        point3f physics:localPos0 = (0, 0, 2)
        quatf physics:localRot0 = (0.5, 0.5, 0.5, 0.5)
        quatf physics:localRot1 = (0.5, 0.5, 0.5, 0.5)
        uniform token physics:axis = "Y"
        float physics:coneAngle0Limit = 60
        float physics:coneAngle1Limit = 60
    }

    def PhysicsSphericalJoint "wrist"
    {
        rel physics:body0 = </swing/lower>
        rel physics:body1 = </swing/upper>
        point3f physics:localPos1 = (0, 0, -0.5)
    }
}
"""


def test_the_backend_shows_ball_joints_as_the_plan_knows_them() -> None:
    """Angles from which the joint frames put bodies where MuJoCo has them; the second joint is authored child first."""
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(BALL_AND_HINGE)
    plan = load_plan(stage, physics=True)
    assert len(plan.layout.dofs) == 6
    backend, kinematics, commands = Opened(plan).backend, Kinematics(plan), Commands(plan.layout)
    moved, before = 0.0, None
    for step in range(1, 1000):
        state = backend.step(step * backend.capabilities.step_ns, commands)
        expected = kinematics.body_poses(state)
        assert all(
            apart(shown, wanted) <= 1e-9 for shown, wanted in zip(state.body_pose, expected, strict=True)
        )
        moved = max(moved, float(np.abs(state.joint_position).max()))
        change = None if before is None else state.joint_position - before
        if change is not None and np.abs(change).max() < 0.1:
            assert change == pytest.approx(
                state.joint_velocity * 1e-9 * backend.capabilities.step_ns, abs=2e-3
            )
        before = state.joint_position.copy()
    backend.close()
    assert moved > 0.3


# --- What collides --------------------------------------------------------------------------------------------------

_BALL = 'def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\n double radius = 0.1\n}'


def tree_of_balls(parents: list[int], fixed: list[bool]) -> tuple[str, str]:
    """Returns a stage and an MJCF model of a free tree of balls, all in one place, beside a free and a static ball."""
    stage = "#usda 1.0\n"
    for number, parent in enumerate((*parents, -1)):
        stage += f'def Xform "b{number}" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{\n{_BALL}\n}}\n'
        if parent >= 0:
            kind = "Fixed" if fixed[number] else "Revolute"
            ends = f"rel physics:body0 = </b{parent}>\nrel physics:body1 = </b{number}>"
            stage += f'def Physics{kind}Joint "j{number}" {{\n{ends}\n}}\n'
    stage += _BALL.replace('"ball"', '"floor"')
    geom = '<geom name="{}" size="0.1"/>'

    def element(number: int) -> str:
        inside = "".join(element(child) for child, parent in enumerate(parents) if parent == number)
        joint = "" if fixed[number] else '<joint axis="1 0 0"/>'
        joint = "<freejoint/>" if number in (0, len(parents)) else joint
        return f"<body>{joint}{geom.format(f'/b{number}/ball')}{inside}</body>"

    world = element(0) + element(len(parents)) + geom.format("/floor")
    return stage, f"<mujoco><worldbody>{world}</worldbody></mujoco>"


def contacts(model: Any, data: Any) -> set[frozenset[str]]:
    """Returns the pairs of geoms that touch, by their names."""
    mujoco.mj_forward(model, data)
    return {
        frozenset(model.geom(int(geom)).name for geom in contact.geom)
        for contact in data.contact[: data.ncon]
    }


@each_case("seed", range(8))
def test_what_is_welded_collides_as_in_mujoco(seed: int) -> None:
    """MuJoCo's rule for parents and children takes welded bodies as one, too, unless they are fixed to the world."""
    random = np.random.default_rng(seed)
    parents = [-1, *(int(random.integers(number)) for number in range(1, 12))]
    fixed = [False, *(bool(random.random() < 0.6) for _ in parents[1:]), False]
    stage, mjcf = tree_of_balls(parents, fixed)
    opened = Usd.Stage.CreateInMemory()
    opened.GetRootLayer().ImportFromString(stage)
    scene = load_plan(opened, physics=True).physics
    assert scene is not None
    _, model, data = simulated(scene)
    original = mujoco.MjModel.from_xml_string(mjcf)
    expected = contacts(original, mujoco.MjData(original))
    assert len(expected) > len(parents)
    assert contacts(model, data) == expected
