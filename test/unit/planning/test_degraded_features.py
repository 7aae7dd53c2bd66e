"""Nothing is dropped in silence (REP 0158 section 1.4): each feature that is not simulated is named with its prim.

Every stage authors one feature, with the names and types of its schema. Fallbacks come from the schemas' public files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from builders.assets import ASSETS
from builders.stage_text import BALL, at, body, header, plan_text, prim, stage_of, world
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions

NOT_IMPLEMENTED = "not implemented"
APPROXIMATED = "approximated"
IGNORED = "vendor layer ignored"

SCHEMA = ""
"""Stands for the prim's type or an applied schema itself."""

DENTED = """
point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0.2, 0.2, 0.2), (0, 1, 1)]
int[] faceVertexCounts = [4, 4, 3, 3, 3, 3, 3, 3, 4]
int[] faceVertexIndices = [0, 3, 2, 1, 0, 1, 5, 4, 1, 2, 6, 1, 6, 5, 2, 3, 6, 3, 7, 6, 4, 5, 6, 4, 6, 7, 0, 4, 7, 3]
"""
"""A cube, of which one corner is pushed in: not convex."""


class Degraded(NamedTuple):
    """A property that is not simulated as authored."""

    path: str
    attribute: str
    reason: str


def degraded(plan: BridgePlan) -> set[Degraded]:
    """What a plan says is not simulated as authored."""
    found = [each for each in plan.diagnostics if each.reason]
    assert all(each.severity == "warning" for each in found)
    assert all(each.message.startswith(each.reason) for each in found)
    return {
        Degraded(each.path, SCHEMA if each.attribute == "apiSchemas" else each.attribute, each.reason)
        for each in found
    }


def expected(path: str, reason: str, names: Iterable[str]) -> set[Degraded]:
    return {Degraded(path, name, reason) for name in names}


# --- Stages: the feature is on the prim /World/x -------------------------------------------------------------------


def on_body(schemas: str, *content: str) -> str:
    return world(body("x", "float physics:mass = 1", *content, BALL, schemas=f"PhysicsMassAPI {schemas}"))


def on_collider(schemas: str, *content: str) -> str:
    return world(prim("Sphere", "x", f"PhysicsCollisionAPI {schemas}", "double radius = 0.1", *content))


def on_mesh(schemas: str, approximation: str, *content: str) -> str:
    token = f'uniform token physics:approximation = "{approximation}"'
    applied = f"PhysicsCollisionAPI PhysicsMeshCollisionAPI {schemas}"
    return world(prim("Mesh", "x", applied, DENTED, token, *content))


def on_joint(schemas: str, *content: str, kind: str = "PhysicsRevoluteJoint") -> str:
    ends = ("rel physics:body0 = </World/a>", "rel physics:body1 = </World/b>")
    links = (
        body(name, "float physics:mass = 1", BALL, at(0, 0, height))
        for name, height in (("a", 1.0), ("b", 2.0))
    )
    frame = "point3f physics:localPos0 = (0, 0, 1)"
    return world(*links, prim(kind, "x", schemas, *ends, frame, *content))


def on_scene(schemas: str, *content: str) -> str:
    return world(prim("PhysicsScene", "x", schemas, *content), body("a", "float physics:mass = 1", BALL))


def on_material(schemas: str, *content: str) -> str:
    bound = "rel material:binding = </World/x>"
    return world(
        prim("Material", "x", f"PhysicsMaterialAPI {schemas}", *content),
        prim("Sphere", "ball", "PhysicsCollisionAPI MaterialBindingAPI", bound),
    )


def on_prim(kind: str, schemas: str, *content: str) -> str:
    return world(prim(kind, "x", schemas, *content), body("a", "float physics:mass = 1", BALL))


BODY = "PhysxRigidBodyAPI"
COLLIDER = "PhysxCollisionAPI"
SCENE = "PhysxSceneAPI"
MATERIAL = "PhysxMaterialAPI"
DRIVE = ("PhysicsDriveAPI:angular", "float drive:angular:physics:damping = 1")
AXIS = "physxJointAxis:angular"
ENVELOPE = "physxDrivePerformanceEnvelope:angular"

BODIES = [
    (on_body(BODY, f"{kind} physxRigidBody:{name} = {value}"), reason, [f"physxRigidBody:{name}"])
    for kind, name, value, reason in (
        ("int", "lockedPosAxis", "1", NOT_IMPLEMENTED),
        ("int", "lockedRotAxis", "4", NOT_IMPLEMENTED),
        ("float", "maxLinearVelocity", "2", NOT_IMPLEMENTED),
        ("float", "maxAngularVelocity", "90", NOT_IMPLEMENTED),
        ("float", "maxContactImpulse", "5", NOT_IMPLEMENTED),
        ("float", "maxDepenetrationVelocity", "1", NOT_IMPLEMENTED),
        ("bool", "enableCCD", "true", NOT_IMPLEMENTED),
        ("bool", "enableSpeculativeCCD", "true", NOT_IMPLEMENTED),
        ("bool", "enableGyroscopicForces", "false", NOT_IMPLEMENTED),
        ("bool", "retainAccelerations", "true", NOT_IMPLEMENTED),
        ("bool", "solveContact", "false", NOT_IMPLEMENTED),
        ("float", "sleepThreshold", "0.1", IGNORED),
        ("float", "cfmScale", "0.1", IGNORED),
        ("int", "solverPositionIterationCount", "64", IGNORED),
    )
]

ON_BODIES = [
    (on_body("PhysxForceAPI", "vector3f physxForce:force = (0, 0, 1)"), NOT_IMPLEMENTED, [SCHEMA, "physxForce:force"]),
    (on_body("PhysxContactReportAPI", "float physxContactReport:threshold = 0"), IGNORED,
     [SCHEMA, "physxContactReport:threshold"]),
    (on_body("PhysicsArticulationRootAPI PhysxArticulationAPI",
             "int physxArticulation:solverPositionIterationCount = 4"),
     IGNORED, ["physxArticulation:solverPositionIterationCount"]),
    (on_body("PhysxSplinesSurfaceVelocityAPI", "float physxSplinesSurfaceVelocity:surfaceVelocityMagnitude = 1"),
     NOT_IMPLEMENTED, [SCHEMA, "physxSplinesSurfaceVelocity:surfaceVelocityMagnitude"]),
    (on_body("PhysxVehicleAPI", "float physxVehicle:lateralStickyTireDamping = 1"), NOT_IMPLEMENTED,
     [SCHEMA, "physxVehicle:lateralStickyTireDamping"]),
    (on_body("PhysxVehicleDriveBasicAPI", "float physxVehicleDriveBasic:peakTorque = 100"), NOT_IMPLEMENTED,
     [SCHEMA, "physxVehicleDriveBasic:peakTorque"]),
]  # fmt: skip

COLLIDERS = [
    (on_collider(COLLIDER, "float physxCollision:contactOffset = 0.02"), NOT_IMPLEMENTED,
     ["physxCollision:contactOffset"]),
    (on_collider(COLLIDER, "float physxCollision:torsionalPatchRadius = 0.01"), NOT_IMPLEMENTED,
     ["physxCollision:torsionalPatchRadius"]),
    (on_collider(COLLIDER, "float physxCollision:minTorsionalPatchRadius = 0.01"), NOT_IMPLEMENTED,
     ["physxCollision:minTorsionalPatchRadius"]),
    (on_collider("PhysxTriggerAPI"), NOT_IMPLEMENTED, [SCHEMA]),
    (on_collider("PhysxTriggerAPI", 'uniform token physxTrigger:onEnterScript = "ring.py"'), NOT_IMPLEMENTED,
     [SCHEMA, "physxTrigger:onEnterScript"]),
    (on_collider("PhysxSurfaceVelocityAPI", "vector3f physxSurfaceVelocity:surfaceVelocity = (1, 0, 0)"),
     NOT_IMPLEMENTED, ["physxSurfaceVelocity:surfaceVelocity"]),
]  # fmt: skip

MESHES = [
    (on_mesh("PhysxConvexDecompositionCollisionAPI", "convexDecomposition",
             "float physxConvexDecompositionCollision:errorPercentage = 1"),
     APPROXIMATED, ["physxConvexDecompositionCollision:errorPercentage"]),
    (on_mesh("PhysxConvexHullCollisionAPI", "convexHull", "float physxConvexHullCollision:minThickness = 0.1"),
     IGNORED, ["physxConvexHullCollision:minThickness"]),
    (on_mesh("PhysxTriangleMeshSimplificationCollisionAPI", "meshSimplification",
             "float physxTriangleMeshSimplificationCollision:metric = 0.9"),
     NOT_IMPLEMENTED, ["physxTriangleMeshSimplificationCollision:metric"]),
    (world(prim("Xform", "x", "PhysicsCollisionAPI PhysxMeshMergeCollisionAPI", prim("Mesh", "m", "", DENTED))),
     APPROXIMATED, [SCHEMA]),
]  # fmt: skip

JOINTS = [
    (on_joint("PhysxJointAPI", "float physxJoint:jointFriction = 0.1"), NOT_IMPLEMENTED, ["physxJoint:jointFriction"]),
    (on_joint("PhysxJointAxisAPI:angular", f"float {AXIS}:staticFrictionEffort = 2",
              f"float {AXIS}:dynamicFrictionEffort = 1"),
     APPROXIMATED, [f"{AXIS}:dynamicFrictionEffort"]),
    *(
        (on_joint(f"{DRIVE[0]} PhysxDrivePerformanceEnvelopeAPI:angular", DRIVE[1], f"float {ENVELOPE}:{name} = 3"),
         NOT_IMPLEMENTED, [f"{ENVELOPE}:{name}"])
        for name in ("maxActuatorVelocity", "speedEffortGradient", "velocityDependentResistance")
    ),
    (on_joint("PhysxLimitAPI:angular", "float physxLimit:angular:damping = 0.5"), APPROXIMATED,
     ["physxLimit:angular:damping"]),
    (on_joint("PhysxLimitAPI:angular", "float physxLimit:angular:restitution = 0.5"), NOT_IMPLEMENTED,
     ["physxLimit:angular:restitution"]),
    (on_joint("PhysxPhysicsDistanceJointAPI", "float physics:maxDistance = 2",
              "bool physxPhysicsDistanceJoint:springEnabled = true", kind="PhysicsDistanceJoint"),
     NOT_IMPLEMENTED, ["physxPhysicsDistanceJoint:springEnabled"]),
    (on_joint("PhysxTendonAxisRootAPI:t", "float physxTendon:t:stiffness = 10"), NOT_IMPLEMENTED,
     [SCHEMA, "physxTendon:t:stiffness"]),
]  # fmt: skip

SCENES = [
    (on_scene(SCENE, 'uniform token physxScene:solverType = "PGS"'), IGNORED, ["physxScene:solverType"]),
    (on_scene(SCENE, "uniform uint physxScene:minPositionIterationCount = 4"), IGNORED,
     ["physxScene:minPositionIterationCount"]),
    (on_scene(SCENE, "uint physxScene:gpuMaxRigidContactCount = 1000"), IGNORED,
     ["physxScene:gpuMaxRigidContactCount"]),
    (on_scene(SCENE, "bool physxScene:enableGPUDynamics = false"), IGNORED, ["physxScene:enableGPUDynamics"]),
    (on_scene(SCENE, "bool physxScene:enableCCD = true"), NOT_IMPLEMENTED, ["physxScene:enableCCD"]),
    (on_scene(SCENE, "float physxScene:bounceThreshold = 0.5"), NOT_IMPLEMENTED, ["physxScene:bounceThreshold"]),
    (on_scene(SCENE, "bool physxScene:invertCollisionGroupFilter = true"), NOT_IMPLEMENTED,
     ["physxScene:invertCollisionGroupFilter"]),
    (on_scene("PhysxSceneQuasistaticAPI"), NOT_IMPLEMENTED, [SCHEMA]),
]  # fmt: skip

MATERIALS = [
    (on_material(MATERIAL, f"float physxMaterial:{name} = 100"), NOT_IMPLEMENTED, [f"physxMaterial:{name}"])
    for name in ("compliantContactStiffness", "compliantContactDamping")
]

OTHER_PRIMS = [
    (on_prim("Mesh", "PhysxDeformableBodyAPI", DENTED, "bool physxDeformable:selfCollision = true"),
     NOT_IMPLEMENTED, [SCHEMA, "physxDeformable:selfCollision"]),
    (on_prim("Mesh", "PhysxAutoParticleClothAPI", DENTED, "float physxAutoParticleCloth:springDamping = 1"),
     NOT_IMPLEMENTED, [SCHEMA, "physxAutoParticleCloth:springDamping"]),
    (on_prim("TetMesh", "OmniPhysicsDeformableBodyAPI", "float omniphysics:mass = 2"), NOT_IMPLEMENTED,
     [SCHEMA, "omniphysics:mass"]),
    (on_prim("OmniPhysicsVtxXformAttachment", "", "float omniphysics:stiffness = 100"), NOT_IMPLEMENTED,
     [SCHEMA, "omniphysics:stiffness"]),
    (on_prim("Material", "PhysxPBDMaterialAPI", "float physxPBDMaterial:viscosity = 1"), NOT_IMPLEMENTED,
     [SCHEMA, "physxPBDMaterial:viscosity"]),
    (on_prim("PhysxParticleSystem", "", "float particleContactOffset = 0.1"), NOT_IMPLEMENTED, [SCHEMA]),
    (on_prim("Points", "PhysxParticleSetAPI", "bool physxParticle:fluid = false"), NOT_IMPLEMENTED,
     [SCHEMA, "physxParticle:fluid"]),
    (on_prim("Capsule", "PhysxCharacterControllerAPI", "float physxCharacterController:slopeLimit = 0.5"),
     NOT_IMPLEMENTED, [SCHEMA, "physxCharacterController:slopeLimit"]),
    (on_prim("PhysxVehicleTireFrictionTable", "", "float defaultFrictionValue = 0.5"), NOT_IMPLEMENTED, [SCHEMA]),
    (on_prim("PhysxPhysicsAttachment", "", "rel actor0 = </World/a>"), NOT_IMPLEMENTED, [SCHEMA]),
    (on_prim("PhysxPhysicsJointInstancer", "", "rel physics:body0s = </World/a>"), NOT_IMPLEMENTED,
     [SCHEMA, "physics:body0s"]),
    (on_prim("Camera", "PhysxCameraFollowAPI", "float physxFollowCamera:yawAngle = 10"), IGNORED,
     [SCHEMA, "physxFollowCamera:yawAngle"]),
]  # fmt: skip

FEATURES = [
    *BODIES, *ON_BODIES, *COLLIDERS, *MESHES, *JOINTS, *SCENES, *MATERIALS, *OTHER_PRIMS,
]  # fmt: skip


@each_case(("text", "reason", "names"), FEATURES)
def test_a_feature_that_is_not_simulated_is_named(text: str, reason: str, names: list[str]) -> None:
    assert degraded(plan_text(text)) == expected("/World/x", reason, names)


@each_case(
    ("text", "code", "reason", "name"),
    [
        (on_mesh("", "sdf"), "1.3.mesh.approximation", APPROXIMATED, "physics:approximation"),
        (on_mesh("", "sphereFill"), "1.3.mesh.approximation", APPROXIMATED, "physics:approximation"),
        (
            on_joint("", "float physics:breakForce = 100"),
            "1.3.joint.break",
            NOT_IMPLEMENTED,
            "physics:breakForce",
        ),
        (
            on_joint("", "float physics:breakTorque = 100"),
            "1.3.joint.break",
            NOT_IMPLEMENTED,
            "physics:breakTorque",
        ),
        (on_joint("", kind="AcmeScrewJoint"), "1.3.joint.type", NOT_IMPLEMENTED, SCHEMA),
    ],
)
def test_features_with_a_code_of_their_own_have_a_reason(
    text: str, code: str, reason: str, name: str
) -> None:
    plan = plan_text(text)
    assert degraded(plan) == expected("/World/x", reason, [name])
    assert [each.code for each in plan.diagnostics if each.reason] == [code]


def test_the_authored_value_is_told() -> None:
    (found,) = [each for each in plan_text(BODIES[0][0]).diagnostics if each.reason]
    assert (found.value, found.attribute) == ("'1'", "physxRigidBody:lockedPosAxis")


@each_case("approximation", ["none", "meshSimplification"])
def test_a_hollow_mesh_that_moves_and_collides_as_its_hull_is_named(approximation: str) -> None:
    token = f'uniform token physics:approximation = "{approximation}"'
    mesh = prim("Mesh", "m", "PhysicsCollisionAPI PhysicsMeshCollisionAPI", DENTED, token)
    found = degraded(plan_text(world(body("a", "float physics:mass = 1", mesh))))
    assert found == expected("/World/a/m", APPROXIMATED, ["physics:approximation"])


# --- Gears ---------------------------------------------------------------------------------------------------------


def geared(*content: str) -> str:
    """Two wheels on a base, and a gear between their hinges."""
    links = (
        body(name, "float physics:mass = 1", BALL, at(x, 0, 1))
        for name, x in (("base", 0), ("a", 1), ("b", 2))
    )
    hinges = (
        prim("PhysicsRevoluteJoint", f"h{number}", "", "rel physics:body0 = </World/base>",
             f"rel physics:body1 = </World/{wheel}>", f"point3f physics:localPos0 = ({number + 1}, 0, 0)")
        for number, wheel in enumerate("ab")
    )  # fmt: skip
    gear = prim(
        "PhysxPhysicsGearJoint", "x", "", "rel physics:body0 = </World/a>", "rel physics:body1 = </World/b>",
        "rel physics:hinge0 = </World/h0>", "rel physics:hinge1 = </World/h1>",
        "float physics:gearRatio = 2", "uniform bool physics:excludeFromArticulation = true", *content,
    )  # fmt: skip
    return world(*links, *hinges, gear)


def test_gears_are_simulated_but_do_not_break() -> None:
    assert degraded(plan_text(geared())) == set()
    found = degraded(plan_text(geared("float physics:breakForce = 10")))
    assert found == expected("/World/x", NOT_IMPLEMENTED, ["physics:breakForce"])


# --- The other engine ------------------------------------------------------------------------------------------------


@each_case(
    ("text", "reason", "names"),
    [
        (on_body(BODY, "float physxRigidBody:linearDamping = 1"), NOT_IMPLEMENTED, ["physxRigidBody:linearDamping"]),
        (on_body(BODY, "bool physxRigidBody:disableGravity = true"), NOT_IMPLEMENTED,
         ["physxRigidBody:disableGravity"]),
        (on_body("PhysxSurfaceVelocityAPI", "vector3f physxSurfaceVelocity:surfaceVelocity = (1, 0, 0)"),
         NOT_IMPLEMENTED, ["physxSurfaceVelocity:surfaceVelocity"]),
        (on_joint("PhysxJointAxisAPI:angular", f"float {AXIS}:armature = 1"), NOT_IMPLEMENTED, [f"{AXIS}:armature"]),
        (on_material(MATERIAL, 'uniform token physxMaterial:frictionCombineMode = "min"'), APPROXIMATED,
         ["physxMaterial:frictionCombineMode"]),
        (geared(), NOT_IMPLEMENTED,
         [SCHEMA, *(f"physics:{each}" for each in (
             "body0", "body1", "hinge0", "hinge1", "gearRatio", "excludeFromArticulation"))]),
        (on_scene(SCENE, "uniform uint physxScene:maxVelocityIterationCount = 4"), IGNORED,
         ["physxScene:maxVelocityIterationCount"]),
    ],
)  # fmt: skip
def test_what_only_the_own_backend_simulates_is_named_for_newton(
    text: str, reason: str, names: list[str]
) -> None:
    assert degraded(plan_text(text)) == set()
    plan = load_plan(stage_of(text, header()), plan_options=PlanOptions(engine="newton"), physics=True)
    assert degraded(plan) == expected("/World/x", reason, names)


# --- What says nothing -----------------------------------------------------------------------------------------------


def test_a_plain_stage_says_nothing() -> None:
    text = world(
        prim("PhysicsScene", "scene", "", "vector3f physics:gravityDirection = (0, 0, -1)",
             "float physics:gravityMagnitude = 9.81"),
        prim("Material", "rubber", "PhysicsMaterialAPI", "float physics:staticFriction = 0.8",
             "float physics:dynamicFriction = 0.8", "float physics:restitution = 0.1"),
        body("a", "float physics:mass = 1", "vector3f physics:velocity = (1, 0, 0)", BALL, at(0, 0, 1)),
        body("b", "float physics:mass = 2", BALL, at(0, 0, 2)),
        prim("Cube", "floor", "PhysicsCollisionAPI MaterialBindingAPI", "rel material:binding = </World/rubber>"),
        prim("Mesh", "hull", "PhysicsCollisionAPI PhysicsMeshCollisionAPI", DENTED,
             'uniform token physics:approximation = "convexHull"'),
        prim("PhysicsRevoluteJoint", "hinge", "PhysicsDriveAPI:angular", "rel physics:body0 = </World/a>",
             "rel physics:body1 = </World/b>", "point3f physics:localPos0 = (0, 0, 1)",
             "float physics:lowerLimit = -90", "float physics:upperLimit = 90",
             "float drive:angular:physics:stiffness = 10", "float drive:angular:physics:damping = 1"),
    )  # fmt: skip
    assert degraded(plan_text(text)) == set()


SCHEMAS: dict[str, dict[str, list[Any]]] = {}
for _library in ("physx", "physx_addition"):
    SCHEMAS |= json.loads((ASSETS / "schemas" / f"{_library}.json").read_text(encoding="utf-8"))["schemas"]

WRITTEN = {"bool", "int", "uint", "float", "token", "vector3f"}


def fallbacks(schema: str, instance: str = "angular") -> list[str]:
    """All properties of a schema as text, with the values that they have anyway."""
    return [
        f"{kind} {name.replace('{instance}', instance)} = {as_text(value)}"
        for name, (kind, value) in SCHEMAS[schema].items()
        if kind in WRITTEN and value is not None
    ]


def as_text(value: Any) -> str:
    if isinstance(value, list):
        return f"({', '.join(map(as_text, value))})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if value.endswith("inf") else json.dumps(value)
    return repr(value)


@each_case(
    ("host", "schema", "instance"),
    [
        *((on_body, each, "") for each in (BODY, "PhysxSurfaceVelocityAPI", "PhysxArticulationAPI")),
        *((on_collider, each, "") for each in (
            COLLIDER, "PhysxConvexDecompositionCollisionAPI", "PhysxConvexHullCollisionAPI",
            "PhysxTriangleMeshCollisionAPI",
            "PhysxTriangleMeshSimplificationCollisionAPI", "PhysxSDFMeshCollisionAPI", "PhysxSphereFillCollisionAPI",
        )),
        *((on_joint, each, "") for each in ("PhysxJointAPI", "PhysxPhysicsDistanceJointAPI")),
        *((on_joint, each, "angular") for each in (
            "PhysxLimitAPI", "PhysxJointAxisAPI", "PhysxDrivePerformanceEnvelopeAPI", "PhysicsJointStateAPI",
        )),
        (on_scene, SCENE, ""),
        (on_material, MATERIAL, ""),
    ],
)  # fmt: skip
def test_fallbacks_of_schemas_say_nothing(host: Any, schema: str, instance: str) -> None:
    content = fallbacks(schema, instance)
    assert content
    applied = f"{schema}:{instance}" if instance else schema
    assert degraded(plan_text(host(applied, *content))) == set()
