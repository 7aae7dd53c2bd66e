"""Physics records against OpenUSD's own parsing (UsdPhysics.LoadUsdPhysicsFromRange) of the same stages."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pxr import Usd, UsdPhysics, UsdShade
from reading import physics_of

from builders.assets import ARM, ASSETS, EXAMPLES, FLEET, ROVER, ROVER_IN_WORLD
from usd_ros_bridge.model.physics_records import GeometryRecord, PhysicsRecords
from usd_ros_bridge.model.records import fallback
from usd_ros_bridge.usd import open_stage, quiet
from usd_ros_bridge.usd.read.physics_reader import GREATEST_FLOAT

FILES = [
    ARM,
    FLEET,
    ROVER,
    ROVER_IN_WORLD,
    EXAMPLES / "mujoco_loop" / "pan_tilt.usda",
    *sorted(
        path
        for path in ASSETS.glob("*.usda")
        if path.name.startswith(("physics_", "scale_", "instance_", "payload_", "units_"))
    ),
]

MANY_KINDS = """
def Scope "Materials" {
    def Material "steel" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {
        float physics:staticFriction = 0.6
        float physics:dynamicFriction = 0.5
        float physics:restitution = 0.3
        float physics:density = 7850
    }
    def Material "rubber" (prepend apiSchemas = ["PhysicsMaterialAPI"]) {
        float physics:staticFriction = 1.1
    }
}
def PhysicsScene "scene" {
    vector3f physics:gravityDirection = (0, 0, -1)
    float physics:gravityMagnitude = 1.62
}
def PhysicsCollisionGroup "feet" (prepend apiSchemas = ["CollectionAPI:colliders"]) {
    rel collection:colliders:includes = [</Robot/foot>]
    rel collection:colliders:excludes = [</Robot/foot/heel>]
    rel physics:filteredGroups = [</floor_group>]
    string physics:mergeGroup = "soles"
}
def PhysicsCollisionGroup "floor_group" (prepend apiSchemas = ["CollectionAPI:colliders"]) {
    rel collection:colliders:includes = [</floor>]
    bool physics:invertFilteredGroups = 1
}
def Plane "floor" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
    uniform token axis = "Y"
}
def Xform "Robot" (
    prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsFilteredPairsAPI", "MaterialBindingAPI"]
) {
    rel physics:filteredPairs = [</Robot/foot>, </floor>]
    rel material:binding:physics = </Materials/steel>
    double3 xformOp:translate = (1, 2, 3)
    uniform token[] xformOpOrder = ["xformOp:translate"]

    def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
        double radius = 0.25
        float3 xformOp:scale = (2, 2, 2)
        uniform token[] xformOpOrder = ["xformOp:scale"]
    }
    def Cube "box" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"]) {
        double size = 0.5
        rel material:binding = </Materials/rubber>
        float3 xformOp:scale = (1, 2, 3)
        uniform token[] xformOpOrder = ["xformOp:scale"]
    }
    def Capsule "capsule" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
        bool physics:collisionEnabled = 0
        uniform token axis = "X"
        double height = 0.7
        double radius = 0.1
    }
    def Cylinder "cylinder" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
        uniform token axis = "Y"
        float3 xformOp:scale = (2, 3, 2)
        uniform token[] xformOpOrder = ["xformOp:scale"]
    }
    def Cone "cone" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
        double height = 0.3
    }
    def Mesh "hull" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]) {
        uniform token physics:approximation = "convexHull"
        int[] faceVertexCounts = [3, 3, 3, 3]
        int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3]
        point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    }
    def Mesh "no_api" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
        uniform token physics:approximation = "boundingCube"
        int[] faceVertexCounts = [3]
        int[] faceVertexIndices = [0, 1, 2]
        point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
    }
    def Xform "foot" {
        def Cube "toe" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsFilteredPairsAPI"]) {
            rel physics:filteredPairs = </floor>
        }
        def Cube "heel" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {}
    }
    def PhysicsFixedJoint "glue" {
        rel physics:body1 = </Robot>
        float physics:breakForce = 20
    }
    def PhysicsFixedJoint "weld" {
        rel physics:body1 = </Robot>
    }
}
"""


Parsed = dict[Any, dict[str, Any]]


def parsed(stage: Usd.Stage) -> Parsed:
    """Descriptors by type and path; those that OpenUSD found fault with left out."""
    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = UsdPhysics.LoadUsdPhysicsFromRange(stage, ["/"])
    return {
        kind: {str(path): each for path, each in zip(*descriptors, strict=True) if each.isValid}
        for kind, descriptors in found.items()
    }


Kind = UsdPhysics.ObjectType
SHAPES = {
    Kind.CubeShape: "Cube",
    Kind.SphereShape: "Sphere",
    Kind.CapsuleShape: "Capsule",
    Kind.CylinderShape: "Cylinder",
    Kind.ConeShape: "Cone",
    Kind.PlaneShape: "Plane",
    Kind.MeshShape: "Mesh",
}


def scale_of(geometry: GeometryRecord) -> np.ndarray[Any, Any]:
    return np.linalg.norm(np.reshape(geometry.world_from_prim, (4, 4))[:3, :3], axis=0)


def check_size(geometry: GeometryRecord, shape: Any) -> None:
    """The parsed shape has the world's scale in it."""
    scale, values = scale_of(geometry), geometry.values
    if geometry.type_name == "Cube":
        assert list(shape.halfExtents) == pytest.approx(scale * values["size"] / 2, rel=1e-5)
    elif geometry.type_name == "Sphere":
        assert shape.radius == pytest.approx(values["radius"] * scale.max(), rel=1e-5)
    elif geometry.type_name in ("Capsule", "Cylinder", "Cone"):
        along = "XYZ".index(values["axis"])
        assert str(shape.axis) == values["axis"]
        assert shape.halfHeight == pytest.approx(values["height"] / 2 * scale[along], rel=1e-5)
        assert shape.radius == pytest.approx(values["radius"] * np.delete(scale, along).max(), rel=1e-5)
    elif geometry.type_name == "Plane":
        assert str(shape.axis) == values["axis"]
    else:
        assert (geometry.approximation or "none") == shape.approximation
        assert geometry.triangles is not None


def check_colliders(records: PhysicsRecords, oracle: Parsed) -> None:
    shapes = {
        path: (name, shape) for kind, name in SHAPES.items() for path, shape in oracle.get(kind, {}).items()
    }
    # The parser leaves out what is of a type that it does not know.
    known = SHAPES.values()
    colliders = {each.path: each for each in records.geometries if each.collides and each.type_name in known}
    assert {path: each.type_name for path, each in colliders.items()} == {
        path: name for path, (name, _) in shapes.items()
    }
    for path, (_, shape) in shapes.items():
        geometry = colliders[path]
        assert geometry.collision_enabled == shape.collisionEnabled
        assert list(geometry.group_paths) == sorted(map(str, shape.collisionGroups), key=_order(records))
        # The parser passes over what is bound to a prim above.
        if shape.materials:
            assert geometry.material == str(shape.materials[-1])
        check_size(geometry, shape)


def _order(records: PhysicsRecords) -> Any:
    return [each.path for each in records.groups].index


def check_bound_materials(stage: Usd.Stage, records: PhysicsRecords) -> None:
    for geometry in records.geometries:
        prim = stage.GetPrimAtPath(geometry.path)
        material, _ = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")
        applied = bool(material) and material.GetPrim().HasAPI(UsdPhysics.MaterialAPI)
        expected = str(material.GetPath()) if applied and geometry.collides else ""
        assert geometry.material == expected, geometry.path


def check_scenes(records: PhysicsRecords, oracle: Parsed) -> None:
    found = {each.path: each for each in records.scenes}
    assert found.keys() == oracle.get(Kind.Scene, {}).keys()
    for path, scene in oracle.get(Kind.Scene, {}).items():
        if found[path].gravity_direction is not None:
            assert list(found[path].gravity_direction) == pytest.approx(list(scene.gravityDirection))
        if found[path].gravity_magnitude is not None:
            assert found[path].gravity_magnitude == pytest.approx(scene.gravityMagnitude)


def check_materials(records: PhysicsRecords, oracle: Parsed) -> None:
    assert records.materials.keys() == oracle.get(Kind.RigidBodyMaterial, {}).keys()
    for path, material in oracle.get(Kind.RigidBodyMaterial, {}).items():
        record = records.materials[path]
        assert fallback(record, "static_friction") == material.staticFriction
        assert fallback(record, "dynamic_friction") == material.dynamicFriction
        assert fallback(record, "restitution") == material.restitution
        assert fallback(record, "density") == material.density


def check_groups(records: PhysicsRecords, oracle: Parsed) -> None:
    groups = {each.path: each for each in records.groups}
    assert groups.keys() == oracle.get(Kind.CollisionGroup, {}).keys()
    for path, group in oracle.get(Kind.CollisionGroup, {}).items():
        assert list(groups[path].filtered_groups or ()) == list(map(str, group.filteredGroups))
        assert fallback(groups[path], "merge_group") == group.mergeGroupName
        # The parser leaves its own at random where nothing is authored.
        if groups[path].invert is not None:
            assert groups[path].invert == group.invertFilteredGroups


def check_filtered_pairs(records: PhysicsRecords, oracle: Parsed) -> None:
    parsed_pairs = {
        path: set(map(str, each.filteredCollisions))
        for descriptors in oracle.values()
        for path, each in descriptors.items()
        if getattr(each, "filteredCollisions", ())
    }
    found = {each.path: set(each.filtered_pairs) for each in records.filtered_pairs if each.filtered_pairs}
    assert found == parsed_pairs


def check_joint_breaks(records: PhysicsRecords, oracle: Parsed) -> None:
    limits = {
        path: (joint.breakForce, joint.breakTorque)
        for descriptors in oracle.values()
        for path, joint in descriptors.items()
        if hasattr(joint, "breakForce")
    }
    assert records.joint_breaks == {path: each for path, each in limits.items() if min(each) < GREATEST_FLOAT}


@pytest.mark.parametrize("path", [None, *FILES], ids=lambda path: path.stem if path else "many kinds")
def test_physics_is_what_openusd_parses(path: Path | None, write: Any) -> None:
    stage = open_stage(str(path) if path else write(MANY_KINDS))
    records, oracle = physics_of(stage), parsed(stage)
    check_colliders(records, oracle)
    check_bound_materials(stage, records)
    check_scenes(records, oracle)
    check_materials(records, oracle)
    check_groups(records, oracle)
    check_filtered_pairs(records, oracle)
    check_joint_breaks(records, oracle)
