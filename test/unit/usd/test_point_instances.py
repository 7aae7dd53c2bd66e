"""Instances of PointInstancers are what references at the same places are."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Gf, Sdf, Usd, UsdGeom
from reading import physics_of

from builders.stage_text import header, stage_of
from case_tables import each_case
from usd_ros_bridge.api import add_physics, load_plan, reread
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.model.physics import WORLD_BODY, Mesh, PhysicsScene
from usd_ros_bridge.options import PlanOptions, ReadOptions

HEADER = header(meters=0.01, up="Y")
PROTOTYPES = """
over "Prototypes" {
    def Xform "crate" {
        double3 xformOp:translate = (0, 5, 0)
        float xformOp:rotateX = 20
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateX"]
        def Cube "shell" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMassAPI"]) {
            double size = 10
            float physics:density = 0.0005
            double3 xformOp:translate = (1, 2, 3)
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }
        def Sphere "knob" {
            double radius = 1
        }
        def Sphere "hidden" {
            token visibility = "invisible"
        }
    }
    def Mesh "rock" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI", "MaterialBindingAPI"]) {
        uniform token physics:approximation = "convexHull"
        point3f[] points = [(0, 0, 0), (10, 0, 0), (0, 10, 0), (0, 0, 10)]
        int[] faceVertexCounts = [3, 3, 3, 3]
        int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]
        rel material:binding:physics = </World/rubber>
    }
}
"""
WORLD = """
def Xform "World" {
    def PhysicsScene "scene" {}
    def Material "rubber" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {
        float physics:dynamicFriction = 0.7
    }
    def Xform "tray" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
        double3 xformOp:translate = (0, 300, 0)
        float xformOp:rotateY = 30
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateY"]
    }
    def Xform "yard" {
        double3 xformOp:translate = (500, 0, 0)
        float3 xformOp:scale = (2, 2, 2)
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:scale"]
    }
}
"""
PARENTS = ("/World/tray", "/World/yard")
NAMES = ("crate", "rock")
COUNT, HIDDEN, INACTIVE = 7, (2,), (5,)


def placements() -> list[tuple[int, Gf.Vec3f, Gf.Quath, Gf.Vec3f]]:
    """Returns prototype, position, orientation and scale of each instance."""
    random = np.random.default_rng(4)
    found = []
    for number in range(COUNT):
        turn = random.normal(size=4)
        turn /= np.linalg.norm(turn)
        size = float(random.uniform(0.5, 2.0))
        found.append(
            (
                number % 2,
                Gf.Vec3f(*random.uniform(-100.0, 100.0, 3).tolist()),
                Gf.Quath(float(turn[0]), Gf.Vec3h(*turn[1:].tolist())),
                Gf.Vec3f(size, size, size),
            )
        )
    return found


def instanced() -> Usd.Stage:
    """Returns a stage with an instancer below a body, and one of the scenery."""
    stage = stage_of(WORLD + PROTOTYPES, HEADER)
    for parent in PARENTS:
        instancer = UsdGeom.PointInstancer.Define(stage, f"{parent}/many")
        instancer.CreatePrototypesRel().SetTargets([Sdf.Path(f"/Prototypes/{name}") for name in NAMES])
        indices, positions, orientations, scales = zip(*placements(), strict=True)
        instancer.CreateProtoIndicesAttr(indices)
        instancer.CreatePositionsAttr(positions)
        instancer.CreateOrientationsAttr(orientations)
        instancer.CreateScalesAttr(scales)
        instancer.CreateInvisibleIdsAttr(HIDDEN)
        instancer.DeactivateIds(INACTIVE)
    return stage


def referenced() -> Usd.Stage:
    """Returns the same with a reference for each instance, where UsdGeom says that it is."""
    stage, source = stage_of(WORLD + PROTOTYPES, HEADER), instanced()
    for parent in PARENTS:
        UsdGeom.Xform.Define(stage, f"{parent}/many")
        matrices = UsdGeom.PointInstancer.Get(source, f"{parent}/many").ComputeInstanceTransformsAtTime(
            Usd.TimeCode.EarliestTime(),
            Usd.TimeCode.EarliestTime(),
            UsdGeom.PointInstancer.IncludeProtoXform,
            UsdGeom.PointInstancer.IgnoreMask,
        )
        for number, (prototype, *_) in enumerate(placements()):
            if number in (*HIDDEN, *INACTIVE):
                continue
            name = NAMES[prototype]
            copy = stage.DefinePrim(f"{parent}/many/{name}_{number}", "Mesh" if name == "rock" else "Xform")
            copy.GetReferences().AddInternalReference(f"/Prototypes/{name}")
            xformable = UsdGeom.Xformable(copy)
            xformable.ClearXformOpOrder()
            xformable.AddTransformOp(opSuffix="instance").Set(matrices[number])
    return stage


def scene_of(stage: Usd.Stage) -> PhysicsScene:
    plan = load_plan(stage, physics=True)
    assert not [each for each in plan.diagnostics if each.code == "1.3.point_instancer"]
    return plan.physics


def test_instances_are_what_references_are() -> None:
    one, other = (scene_of(stage) for stage in (instanced(), referenced()))
    for name in ("colliders", "visuals"):
        found, expected = ({each.path: each for each in getattr(scene, name)} for scene in (one, other))
        assert found.keys() == expected.keys()
        for path, each in found.items():
            known: Any = expected[path]
            assert each.body == known.body
            assert_allclose(each.body_from_shape.translation, known.body_from_shape.translation, atol=1e-6)
            turn = np.abs(np.dot(each.body_from_shape.rotation, known.body_from_shape.rotation))
            assert turn == pytest.approx(1.0, abs=1e-6)
            assert each.color == known.color
            for field in fields(each.shape):
                if field.name in ("points", "triangles", "half", "radius"):
                    assert_allclose(
                        getattr(each.shape, field.name), getattr(known.shape, field.name), rtol=1e-5
                    )
    assert {each.material for each in one.colliders} == {each.material for each in other.colliders}
    # Shown: 5 of 7, twice; the crates have a knob.
    assert len(one.colliders) == 10
    assert {each.body for each in one.colliders} == {0, WORLD_BODY}
    assert one.bodies[0].inertial.mass == pytest.approx(other.bodies[0].inertial.mass, rel=1e-5)


def test_mujoco_has_the_same_model() -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    from usd_ros_bridge.backends.mujoco import MujocoBackend

    models = []
    for stage in (instanced(), referenced()):
        backend = MujocoBackend()
        backend.open(
            BackendContext(plan=load_plan(stage, physics=True), report=lambda *told: pytest.fail(str(told)))
        )
        models.append(backend.simulation.model)
        backend.close()
    one, other = models
    assert [one.geom(index).name for index in range(one.ngeom)] == [
        other.geom(index).name for index in range(other.ngeom)
    ]
    for name in ("geom_type", "geom_bodyid", "geom_contype", "geom_conaffinity", "geom_group"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    for name in (
        "geom_pos",
        "geom_size",
        "geom_friction",
        "geom_rgba",
        "body_mass",
        "body_inertia",
        "geom_rbound",
    ):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-4, atol=1e-6)


def test_instances_of_one_prototype_share_their_points() -> None:
    records = [each for each in physics_of(instanced()).geometries if each.type_name == "Mesh"]
    assert len(records) == 4
    assert len({id(each.points) for each in records}) == 1
    scene = scene_of(instanced())
    meshes = [each.shape for each in scene.colliders if isinstance(each.shape, Mesh)]
    assert len(meshes) == 4
    assert len({id(each) for each in meshes[:2]}) == 2


NESTED = """
def Xform "World" {
    def PointInstancer "outer" {
        rel prototypes = </World/outer/pile>
        int[] protoIndices = [0, 0]
        point3f[] positions = [(10, 0, 0), (20, 0, 0)]
        def Xform "pile" {
            def PointInstancer "inner" {
                rel prototypes = </World/outer/pile/inner/ball>
                int[] protoIndices = [0, 0, 0]
                point3f[] positions = [(0, 1, 0), (0, 2, 0), (0, 3, 0)]
                def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
            }
        }
    }
}
"""


def test_instancers_nest() -> None:
    records = physics_of(stage_of(NESTED, HEADER)).geometries
    assert [each.path for each in records][:2] == [
        "/World/outer/pile_0/inner/ball_0",
        "/World/outer/pile_0/inner/ball_1",
    ]
    places = [(each.world_from_prim[3], each.world_from_prim[7]) for each in records]
    assert places == [(x, y) for x in (10.0, 20.0) for y in (1.0, 2.0, 3.0)]


def told(text: str, **options: Any) -> list[tuple[str, str, str]]:
    records = physics_of(stage_of(text, HEADER), **options)
    return [(each.severity, each.path, each.message) for each in records.diagnostics]


def one_instancer(content: str, prototype: str = "") -> str:
    return f"""
def Xform "World" {{
    def PointInstancer "many" {{
        rel prototypes = </World/many/ball>
        {content}
        def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"{prototype}]) {{}}
    }}
}}
"""


@each_case(
    ("content", "severity", "message"),
    [
        ("", "warning", "has no instances"),
        ("int protoIndices = 3", "error", "no int[]"),
        ('token[] protoIndices = ["a"]', "error", "no int[]"),
        ("float3[] protoIndices = [(1, 2, 3)]", "error", "no int[]"),
        ('int[] protoIndices = [0]\nstring positions = "x"', "error", "not as many"),
        ("int[] protoIndices = [0, 0]\npoint3f[] positions = [(0, 0, 0)]", "error", "not as many"),
        (
            "int[] protoIndices = [0, 3]\npoint3f[] positions = [(0, 0, 0), (1, 0, 0)]",
            "error",
            "1 of its instances have no prototype",
        ),
        (
            "int[] protoIndices = [0, -1]\npoint3f[] positions = [(0, 0, 0), (1, 0, 0)]",
            "error",
            "1 of its instances have no prototype",
        ),
    ],
)
def test_what_is_wrong_with_an_instancer_is_reported(content: str, severity: str, message: str) -> None:
    (found,) = told(one_instancer(content))
    assert found[:2] == (severity, "/World/many")
    assert message in found[2]


TWO = "int[] protoIndices = [0, 0]\npoint3f[] positions = [(0, 0, 0), (1, 0, 0)]"


def test_the_limit_of_prims_holds_however_physics_is_read() -> None:
    stage = stage_of(one_instancer(TWO), HEADER)
    options = ReadOptions(max_prims=1)
    made = load_plan(stage, read_options=options, physics=True)
    later = add_physics(load_plan(stage, read_options=options))
    for plan in (made, later, reread(made, PlanOptions())()):
        assert not plan.physics.colliders
        assert "1.3.point_instancer" in {each.code for each in plan.diagnostics}
    assert len(load_plan(stage, physics=True).physics.colliders) == 2


def test_instances_count_as_prims() -> None:
    assert not told(one_instancer(TWO), max_prims=2)
    ((severity, path, message),) = told(one_instancer(TWO), max_prims=1)
    assert (severity, path) == ("error", "/World/many")
    assert "more prims than the 1" in message
    deep = "\n".join(
        f'def PointInstancer "i{level}" {{\nrel prototypes = </i{level + 1}>\nint[] protoIndices = '
        f"{[0] * 100}\npoint3f[] positions = {[(0, 0, 0)] * 100}\n}}"
        for level in range(12)
    )
    found = told(f'{deep}\ndef Sphere "i12" {{\n}}')
    assert sum("more prims" in message for _, _, message in found) >= 1


def test_an_instancer_within_its_own_prototype_ends() -> None:
    found = told(
        """
def PointInstancer "many" {
    rel prototypes = </many/pile>
    int[] protoIndices = [0]
    point3f[] positions = [(0, 0, 0)]
    def Xform "pile" {
        def PointInstancer "inner" {
            rel prototypes = </many/pile>
            int[] protoIndices = [0]
            point3f[] positions = [(0, 0, 0)]
        }
    }
}
"""
    )
    assert [(severity, path) for severity, path, _ in found] == [("error", "/many/pile/inner")]


def test_a_prototype_with_a_rigid_body_is_reported() -> None:
    plan = load_plan(stage_of(one_instancer(TWO, ', "PhysicsRigidBodyAPI"'), HEADER), physics=True)
    assert plan.physics.bodies == ()
    assert [each.body for each in plan.physics.colliders] == [WORLD_BODY] * 2
    (found,) = [each for each in plan.diagnostics if each.code == "1.3.point_instancer"]
    assert "/World/many/ball" in found.message
