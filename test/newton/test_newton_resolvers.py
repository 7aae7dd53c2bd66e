"""Solver attributes as the bridge and as Newton's own resolvers read them: what is authored, and by whose priority."""

from __future__ import annotations

from typing import Any

import pytest
from pxr import Usd

pytest.importorskip("newton", reason="Newton has an environment of its own: make test-newton")

import newton

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.physics import Dof, PhysicsScene
from usd_ros_bridge.options import PlanOptions

STAGE = """#usda 1.0
(
 metersPerUnit = 1
 upAxis = "Z"
 defaultPrim = "World"
)
def PhysicsScene "scene" {scene_apis} {{
 {scene}
}}
def Xform "World" {{
 def Xform "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "PhysicsArticulationRootAPI"]) {{
  float physics:mass = 1
  float3 physics:diagonalInertia = (1, 1, 1)
 }}
 def Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]) {{
  float physics:mass = 1
  float3 physics:diagonalInertia = (1, 1, 1)
  def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{
   double radius = 0.1
   {collider}
  }}
 }}
 def PhysicsFixedJoint "root" {{
  rel physics:body1 = </World/a>
 }}
 def PhysicsRevoluteJoint "j" {joint_apis} {{
  rel physics:body0 = </World/a>
  rel physics:body1 = </World/b>
  float physics:lowerLimit = -20
  float physics:upperLimit = 200
  {joint}
 }}
}}
"""
ORDERS = (("newton", "physx", "mjc"), ("mjc", "physx", "newton"), ("physx", "newton", "mjc"))
RESOLVERS = {
    "newton": newton.usd.SchemaResolverNewton,
    "physx": newton.usd.SchemaResolverPhysx,
    "mjc": newton.usd.SchemaResolverMjc,
}


def read(order: tuple[str, ...], **parts: str) -> tuple[PhysicsScene, Dof, Any, dict[str, Any]]:
    """Return the bridge's scene and hinge, Newton's builder and what its import says of the scene."""
    names = ("scene", "collider", "joint", "scene_apis", "joint_apis")
    stage = Usd.Stage.CreateInMemory()
    for name in names[3:]:
        parts[name] = f"(prepend apiSchemas = [{parts[name]}])" if parts.get(name) else ""
    stage.GetRootLayer().ImportFromString(STAGE.format(**{name: parts.get(name, "") for name in names}))
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    said = builder.add_usd(stage, schema_resolvers=[RESOLVERS[solver]() for solver in order])
    scene = load_plan(stage, physics=True, plan_options=PlanOptions(schema_resolvers=order)).physics
    assert scene is not None
    (dof,) = (dof for joint in scene.joints for dof in joint.dofs)
    return scene, dof, builder, said


@pytest.mark.parametrize("order", ORDERS)
def test_who_comes_first(order: tuple[str, ...]) -> None:
    content = """float newton:armature = 0.01
float physxJoint:armature = 0.02
double mjc:armature = 0.03
float newton:friction = 1
double mjc:frictionloss = 2
float newton:damping = 0.5
double mjc:damping = 3
float newton:velocityLimit = 90
float physxJoint:maxJointVelocity = 180
"""
    _, dof, builder, _ = read(order, joint=content)
    assert dof.armature == pytest.approx(builder.joint_armature[-1])
    assert dof.friction == pytest.approx(builder.joint_friction[-1])
    assert dof.damping == pytest.approx(builder.joint_damping[-1])
    assert dof.max_velocity == pytest.approx(builder.joint_velocity_limit[-1])


@pytest.mark.parametrize("order", ORDERS)
def test_an_applied_schema_without_values_yields_to_values(order: tuple[str, ...]) -> None:
    _, dof, builder, _ = read(order, joint_apis='"NewtonJointAPI"', joint="double mjc:armature = 0.03")
    assert dof.armature == pytest.approx(builder.joint_armature[-1]) == pytest.approx(0.03)


@pytest.mark.parametrize("angle", ["", 'token mjc:compiler:angle = "radian"'])
def test_references_and_springs(angle: str) -> None:
    content = "double mjc:ref = -1.5\ndouble mjc:springref = 0.5\ndouble mjc:stiffness = 4"
    _, dof, builder, _ = read(ORDERS[0], scene=angle, joint=content)
    assert dof.lower == pytest.approx(builder.joint_limit_lower[-1])
    assert dof.upper == pytest.approx(builder.joint_limit_upper[-1])
    assert dof.stiffness == pytest.approx(builder.joint_stiffness[-1])
    assert dof.spring_position == pytest.approx(builder.joint_rest_q[-1])


@pytest.mark.parametrize(
    "content",
    [
        "double mjc:actuatorfrcrange:min = -3\ndouble mjc:actuatorfrcrange:max = 2",
        'double mjc:actuatorfrcrange:max = 2\ntoken mjc:actuatorfrclimited = "true"',
    ],
)
def test_effort_limits(content: str) -> None:
    _, dof, builder, _ = read(ORDERS[0], joint=content)
    assert dof.max_effort == pytest.approx(builder.joint_effort_limit[-1])


@pytest.mark.parametrize("order", ORDERS)
def test_limits_that_give_way(order: tuple[str, ...]) -> None:
    content = "float physxLimit:angular:stiffness = 2\nfloat physxLimit:angular:damping = 1"
    for more in ("", "\nfloat newton:limitStiffness = 3\nfloat newton:limitDamping = 0.5"):
        _, dof, builder, _ = read(order, joint=content + more)
        assert dof.limit_stiffness == pytest.approx(builder.joint_limit_ke[-1])
        assert dof.limit_damping == pytest.approx(builder.joint_limit_kd[-1])


@pytest.mark.parametrize("order", ORDERS)
def test_time_steps(order: tuple[str, ...]) -> None:
    values = {
        "newton": "int newton:timeStepsPerSecond = 250",
        "physx": "uint physxScene:timeStepsPerSecond = 100",
        "mjc": "double mjc:option:timestep = 0.005",
    }
    for content in (*values.values(), "\n".join(values.values())):
        scene, _, _, said = read(order, scene=content)
        assert scene.timestep == pytest.approx(said["physics_dt"])
    scene, _, _, said = read(order, scene_apis='"NewtonSceneAPI"')
    assert scene.timestep == pytest.approx(said["physics_dt"]) == pytest.approx(0.001)


@pytest.mark.parametrize("order", ORDERS)
def test_margins(order: tuple[str, ...]) -> None:
    content = """float newton:contactMargin = 0.01
float physxCollision:restOffset = 0.02
double mjc:margin = 0.03
"""
    scene, _, builder, _ = read(order, collider=content)
    assert scene.colliders[0].solver["margin"] == pytest.approx(builder.shape_margin[-1])
