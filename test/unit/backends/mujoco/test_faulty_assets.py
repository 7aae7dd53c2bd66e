"""Faults of assets, through to MuJoCo: each is said of its prim, by planning or by the backend, and the rest falls."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from open_backend import Opened

from case_tables import each_case

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Usd

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Collider,
    Dof,
    Drive,
    Inertial,
    Joint,
    PhysicsScene,
    Sphere,
)
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.spatial.pose import IDENTITY_POSE

HEADER = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
"""
WITNESS = """
def Xform "Witness" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
    double3 xformOp:translate = (50, 50, 50)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
    }
}
"""
FALL = 0.5 * 9.81 * 0.1**2


def plan_of(text: str) -> BridgePlan:
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(f'{HEADER}def Xform "World" {{\n{text}\n{WITNESS}\n}}')
    return load_plan(stage, physics=True)


def check(text: str, *, named: str | None) -> None:
    """Checks that something says what is wrong with a prim, and that the witness falls as if nothing were.

    Args:
        text: Prims with a fault.
        named: Path of the prim at fault; None where nothing has to be said.
    """
    plan = plan_of(text)
    assert plan.physics is not None
    reports: list[tuple[str, str]] = []
    compiled = compile_model(build_spec(plan.physics, lambda kind, message: reports.append((kind, message))))
    if named:
        said = [str(each) for each in plan.diagnostics if each.path.startswith(named)]
        said += [f"{kind} {message}" for kind, message in reports if named in kind or named in message]
        assert said, "nobody says what is wrong"
    model, data = compiled.model, mujoco.MjData(compiled.model)
    body = compiled.body_ids[[each.path for each in plan.physics.bodies].index("/World/Witness")]
    steps = round(0.1 / model.opt.timestep)
    mujoco.mj_step(model, data, nstep=steps)
    mujoco.mj_kinematics(model, data)
    assert not data.warning.number.any()
    assert np.isfinite(data.qpos).all()
    assert data.xpos[body].tolist() == pytest.approx([50, 50, 50 - FALL], abs=2e-3)


def body(name: str, *content: str, x: float = 0.0) -> str:
    place = f'double3 xformOp:translate = ({x}, 0, 0)\nuniform token[] xformOpOrder = ["xformOp:translate"]'
    ball = 'def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {\ndouble radius = 0.1\n}'
    schemas = '"PhysicsRigidBodyAPI", "PhysicsMassAPI"'
    lines = "\n".join((*content, ball) if "xformOpOrder" in "".join(content) else (*content, place, ball))
    return f'def Xform "{name}" (prepend apiSchemas = [{schemas}]) {{\n{lines}\n}}\n'


MASS = "float physics:mass = 1\n"


@each_case(
    "content",
    [
        "float physics:mass = -1",
        "float physics:mass = nan",
        "float physics:mass = inf",
        "float physics:mass = 1e-30",
        "float physics:density = -3",
        "float physics:density = nan",
        "string physics:mass = 'heavy'",
        f"{MASS}float3 physics:diagonalInertia = (1, 1, 5)",
        f"{MASS}float3 physics:diagonalInertia = (-1, 1, 1)",
        f"{MASS}float3 physics:diagonalInertia = (nan, 1, 1)",
        f"{MASS}float3 physics:diagonalInertia = (1, 1, 1)\nquatf physics:principalAxes = (nan, 0, 0, 0)",
        "point3f physics:centerOfMass = (nan, 0, 0)",
        "vector3f physics:velocity = (nan, 0, 0)",
        "vector3f physics:angularVelocity = (inf, 0, 0)",
        'float3 xformOp:scale = (0, 1, 1)\nuniform token[] xformOpOrder = ["xformOp:scale"]',
        'float3 xformOp:translate = (nan, 1, 1)\nuniform token[] xformOpOrder = ["xformOp:translate"]',
        'double3 xformOp:translate = (1e30, 1, 1)\nuniform token[] xformOpOrder = ["xformOp:translate"]',
        'float xformOp:translate = 1\nuniform token[] xformOpOrder = ["xformOp:translate"]',
    ],
)
def test_bodies(content: str) -> None:
    check(body("b", content), named="/World/b")


JOINT = """
def {kind} "j" (prepend apiSchemas = [{schemas}]) {{
    rel physics:body0 = </World/a>
    rel physics:body1 = {body1}
    {content}
}}
"""


def joint(
    kind: str, content: str, *, schemas: str = '"PhysicsDriveAPI:angular"', body1: str = "</World/b>"
) -> str:
    return (
        body("a") + body("b", x=1.0) + JOINT.format(kind=kind, schemas=schemas, body1=body1, content=content)
    )


@each_case(
    "content",
    [
        "float physics:lowerLimit = nan\nfloat physics:upperLimit = nan",
        "float physics:lowerLimit = 10\nfloat physics:upperLimit = -10",
        'uniform token physics:axis = "W"',
        "quatf physics:localRot0 = (0, 0, 0, 0)",
        "point3f physics:localPos1 = (nan, 0, 0)",
        "float drive:angular:physics:stiffness = nan",
        "float drive:angular:physics:stiffness = -1",
        "float drive:angular:physics:damping = inf",
        "float drive:angular:physics:maxForce = -1\nfloat drive:angular:physics:stiffness = 1",
        "float drive:angular:physics:targetPosition = nan\nfloat drive:angular:physics:stiffness = 1",
        "float physics:breakForce = 1",
    ],
)
def test_revolute_joints(content: str) -> None:
    check(joint("PhysicsRevoluteJoint", content), named="/World/j")


@each_case(
    ("kind", "content", "schemas"),
    [
        ("PhysicsFixedJoint", "float drive:angular:physics:stiffness = 1", '"PhysicsDriveAPI:angular"'),
        ("PhysicsPrismaticJoint", "float drive:angular:physics:stiffness = 1", '"PhysicsDriveAPI:angular"'),
        ("PhysicsJoint", "float limit:rotX:physics:low = nan", '"PhysicsLimitAPI:rotX"'),
        ("PhysicsJoint", "float limit:bogus:physics:low = 1", '"PhysicsLimitAPI:bogus"'),
        ("PhysicsSphericalJoint", "float physics:coneAngle0Limit = nan", '"NoSuchAPI"'),
        (
            "PhysicsDistanceJoint",
            "float physics:minDistance = 3\nfloat physics:maxDistance = 1",
            '"NoSuchAPI"',
        ),
        ("PhysicsDistanceJoint", "float physics:maxDistance = nan", '"NoSuchAPI"'),
    ],
)
def test_other_joints(kind: str, content: str, schemas: str) -> None:
    check(joint(kind, content, schemas=schemas), named="/World/j")


@pytest.mark.parametrize("body1", ["</World/a>", "</World/nowhere>"])
def test_joints_that_join_nothing(body1: str) -> None:
    check(joint("PhysicsRevoluteJoint", "", body1=body1), named="/World/j")


@each_case("value", ["-1", "0", "nan", "inf", "1e-30", "1e30"])
@each_case(
    ("kind", "size"),
    [
        ("Cube", "size"),
        ("Sphere", "radius"),
        ("Capsule", "radius"),
        ("Cylinder", "height"),
        ("Cone", "height"),
    ],
)
def test_colliders(kind: str, size: str, value: str) -> None:
    collider = (
        f'def {kind} "c" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{\ndouble {size} = {value}\n}}'
    )
    check(collider, named="/World/c")
    check(body("b", collider), named="/World/b/c")


TETRAHEDRON = (
    "int[] faceVertexCounts = [3, 3, 3, 3]\nint[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3]\n"
)


@each_case("approximation", ["none", "convexHull", "boundingCube", "boundingSphere"])
@each_case(
    "content",
    [
        "",
        TETRAHEDRON,
        f"{TETRAHEDRON}point3f[] points = [(0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0)]",
        f"{TETRAHEDRON}point3f[] points = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]",
        f"{TETRAHEDRON}point3f[] points = [(nan, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]",
        f"{TETRAHEDRON}point3f[] points = [(1e30, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]",
        f"{TETRAHEDRON}point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]",
        f'{TETRAHEDRON}string[] points = ["a", "b"]',
        "int[] faceVertexCounts = [3]\nint[] faceVertexIndices = [0, 7, -1]\npoint3f[] points = [(0, 0, 0)]",
    ],
)
def test_meshes(content: str, approximation: str) -> None:
    schemas = '"PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"'
    token = f'uniform token physics:approximation = "{approximation}"'
    mesh = f'def Mesh "m" (prepend apiSchemas = [{schemas}]) {{\n{token}\n{content}\n}}'
    check(mesh, named="/World/m")
    check(body("b", mesh), named="/World/b/m")


@each_case(
    "content",
    [
        "float physics:staticFriction = -1",
        "float physics:dynamicFriction = nan",
        "float physics:restitution = -5",
        "float physics:density = -1",
    ],
)
def test_contact_materials(content: str) -> None:
    material = f'def Material "m" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {{\n{content}\n}}'
    bound = (
        'def Cube "c" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "MaterialBindingAPI"]) {\n'
        "rel material:binding:physics = </World/m>\n}"
    )
    check(f"{material}\n{bound}", named="/World")


@each_case(
    "content",
    [
        "vector3f physics:gravityDirection = (nan, 0, 0)",
        "float physics:gravityMagnitude = nan",
        "int physics:gravityDirection = 3",
    ],
)
def test_gravity(content: str) -> None:
    check(f'def PhysicsScene "s" {{\n{content}\n}}', named="/World/s")


@each_case(
    "content",
    [
        "custom float newton:timeStepsPerSecond = 0",
        "custom float newton:timeStepsPerSecond = -4",
        'custom string newton:timeStepsPerSecond = "often"',
        "custom float newton:timeStepsPerSecond = nan",
    ],
)
def test_solver_attributes_that_mean_nothing_are_passed_over(content: str) -> None:
    check(f'def PhysicsScene "s" {{\n{content}\n}}', named=None)


def test_no_physics_at_all() -> None:
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(f'{HEADER}def Xform "World" {{\n}}')
    plan = load_plan(stage, physics=True)
    assert plan.physics is not None
    assert "1.3.physics" in {each.code for each in plan.diagnostics}
    compiled = compile_model(
        build_spec(plan.physics, lambda kind, message: pytest.fail(f"{kind}: {message}"))
    )
    assert compiled.model.nbody == 1


def joint_of_two(name: str, kind: str, lines: str = "") -> str:
    return f"""
def Physics{kind}Joint "{name}" {{
    rel physics:body0 = </World/base>
    rel physics:body1 = </World/link>
    {lines}
}}
"""


TWO_BODIES = """
def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
    bool physics:kinematicEnabled = true
}
def Xform "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {
    float physics:mass = 1
}
"""


def test_joints_with_more_than_six_degrees_of_freedom_leave_the_rest_alone() -> None:
    check(TWO_BODIES + joint_of_two("a", "") + joint_of_two("b", ""), named="/World/b")


def test_a_joint_that_turns_after_a_spherical_one_leaves_the_rest_alone() -> None:
    elsewhere = "\n".join(f"point3f physics:localPos{side} = (1, 0, 1)" for side in (0, 1))
    turning = joint_of_two("b", "Revolute", f'uniform token physics:axis = "Y"\n{elsewhere}')
    check(TWO_BODIES + joint_of_two("a", "Spherical") + turning, named=None)


def test_a_prim_that_is_a_body_and_a_joint_leaves_the_rest_alone() -> None:
    mass = "float physics:mass = 1\nfloat3 physics:diagonalInertia = (1, 1, 1)"
    closes_a_loop = f"bool physics:excludeFromArticulation = 1\n{mass}"
    both = joint_of_two("a", "Prismatic", closes_a_loop).replace(
        "{", '(prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {', 1
    )
    check(TWO_BODIES + both, named=None)


def arm_of(**changes: object) -> PhysicsScene:
    """Returns a scene with two links, the second with a joint more than it has degrees of freedom."""
    axes = ("rotX", "rotX", "rotY", "rotZ", "transX", "transY", "transZ", "rotX")
    joints = tuple(
        Joint(
            path=f"/j{number}",
            type="generic",
            body0=0 if number else WORLD_BODY,
            body1=1 if number else 0,
            body0_from_joint=IDENTITY_POSE,
            body1_from_joint=IDENTITY_POSE,
            dofs=(Dof(axis=axis, drive=Drive(stiffness=1.0)),),
        )
        for number, axis in enumerate(axes)
    )
    inertial = Inertial(mass=1.0, diagonal=(1.0, 1.0, 1.0))
    bodies = (
        Body(path="/b0", joints=(0,), inertial=inertial),
        Body(path="/b1", parent=0, joints=tuple(range(1, len(joints))), inertial=inertial),
    )
    return replace(PhysicsScene(bodies=bodies, joints=joints), **changes)


def test_a_body_that_mujoco_refuses_is_held_fast_and_the_rest_moves() -> None:
    reports: dict[str, str] = {}
    compiled = compile_model(build_spec(arm_of(), reports.__setitem__))
    ((kind, message),) = reports.items()
    assert kind.startswith("mujoco.refused:/b1")
    assert "more than 6 dofs" in message
    assert compiled.qpos_of_dof.tolist() == [0, *[-1] * 7]
    assert compiled.position_actuator.tolist() == [0, *[-1] * 7]
    data = mujoco.MjData(compiled.model)
    compiled.start(data)
    data.qvel[0] = 1.0
    mujoco.mj_step(compiled.model, data)
    assert data.qpos[0] > 0.0


def test_a_shape_that_mujoco_refuses_is_left_out_and_the_others_stay() -> None:
    made = build_spec(
        replace(
            arm_of(joints=(), bodies=()),
            colliders=tuple(
                Collider(
                    path=f"/c{number}", body=WORLD_BODY, body_from_shape=IDENTITY_POSE, shape=Sphere(1.0)
                )
                for number in range(3)
            ),
        ),
        lambda *_: None,
    )
    reports: dict[str, str] = {}
    made.report = reports.__setitem__
    made.spec.geom("/c1").size = [-1.0, 0.0, 0.0]
    compiled = compile_model(made)
    assert list(reports) == ["mujoco.refused:/c1"]
    assert [len(ids) for ids in compiled.geom_ids] == [1, 0, 1]
    assert compiled.model.ngeom == 2


PENDULUMS = """
def Xform "robot" (prepend apiSchemas = ["RosContextAPI"]) {{
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{
    }}
    def PhysicsFixedJoint "anchor" {{
        rel physics:body1 = </World/robot/base>
    }}
    {pendulum_a}
    {pendulum_b}
}}
"""
PENDULUM = """
    def Xform "{name}" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {{
        float physics:mass = 1
        point3f physics:centerOfMass = (0.2, 0, 0)
        float3 physics:diagonalInertia = (0.1, 0.1, 0.1)
    }}
    def PhysicsRevoluteJoint "of_{name}" (prepend apiSchemas = ["PhysicsDriveAPI:angular"]) {{
        uniform token physics:axis = "Y"
        rel physics:body0 = </World/robot/base>
        rel physics:body1 = </World/robot/{name}>
        {content}
    }}
"""
DRIVE = "drive:angular:physics:"


@each_case(
    ("content", "holds"),
    [
        (f"float {DRIVE}stiffness = 1e30", True),
        (f"float {DRIVE}stiffness = inf", True),
        (f"float {DRIVE}damping = 1e30", True),
        (f"float {DRIVE}damping = inf", True),
        (f"float {DRIVE}stiffness = -1", False),
        (f"float {DRIVE}stiffness = nan", False),
        (f"float {DRIVE}damping = -inf", False),
        ("float newton:armature = inf", True),
        ("float newton:damping = 1e30", True),
        ("float mjc:frictionloss = 1e30", True),
        ("float mjc:stiffness = 1e30", False),
    ],
)
def test_gains_that_are_not_possible_disturb_nothing_else(content: str, holds: bool) -> None:
    """Great ones hold the joint where it is, others do nothing; another pendulum swings as it does alone."""
    swings = {
        text: Opened(plan_of(PENDULUMS.format(
            pendulum_a=PENDULUM.format(name="a", content=text), pendulum_b=PENDULUM.format(name="b", content="")
        )))
        for text in ("", content)
    }  # fmt: skip
    states = {text: each.step(200).joint_position for text, each in swings.items()}
    free, bad = states[""], states[content]
    row = {name: swings[content].row(f"of_{name}") for name in "ab"}
    assert bad[row["b"]] == pytest.approx(free[row["b"]], abs=1e-9)
    assert bad[row["a"]] == pytest.approx(0.0 if holds else free[row["a"]], abs=0.02 if holds else 1e-9)
    assert abs(free[row["a"]]) > 0.5
    (finding,) = [
        each for each in swings[content].plan.diagnostics if each.path == "/World/robot/of_a"
        and each.severity == "error"
    ]  # fmt: skip
    assert "cannot be used" in finding.message
    assert "is used" in finding.message
    assert swings[content].kinds == []
