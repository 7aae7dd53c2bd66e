"""The closed world: every attribute of every schema has a record field or a reason, and the reverse."""

from __future__ import annotations

from typing import Any

import pytest
from pxr import Plug, Sdf, Tf, Usd

from case_tables import each_case
from usd_ros_bridge.model import physics_records, records
from usd_ros_bridge.model.records import AttributeSpec, Record, attribute_fields
from usd_ros_bridge.usd.read import geometry, physics_reader
from usd_ros_bridge.usd.read.properties import plain
from usd_ros_bridge.usd.read.stage_reader import SCHEMAS
from usd_ros_bridge.usd.schemas import DIRECTORY

GENERATED = str(DIRECTORY / "generatedSchema.usda")

IGNORED_SCHEMAS = {"RosControlIntegratedAPI": "a marker that the controllers' schemas include"}
"""Schemas of the Ros family that have no record, and why."""

NOT_IN_SCHEMA = {
    "usd_ros_bridge:source": "RosTopicAPI: which attribute a publisher shows; no schema says",
    "usd_ros_bridge:odometry:child_frame_id": "RosTopicAPI: the child of an Odometry; no schema says",
    "usd_ros_bridge:forward_command:joints": "RosTopicAPI: forward_command_controller's joints; no schema says",
    "usd_ros_bridge:forward_command:interface": "RosTopicAPI: forward_command_controller's interface_name",
    "usd_ros_bridge:base_transform": "RosContextAPI: where the base's transform comes from; no schema says",
    **dict.fromkeys(
        (
            "usd_ros_bridge:gripper:joints",
            "usd_ros_bridge:gripper:goal_tolerance",
            "usd_ros_bridge:gripper:stall_velocity_threshold",
            "usd_ros_bridge:gripper:stall_timeout",
            "usd_ros_bridge:gripper:allow_stalling",
            "usd_ros_bridge:gripper:max_effort",
            "usd_ros_bridge:gripper:action_monitor_rate",
            "usd_ros_bridge:gripper:beyond_limits",
        ),
        "grippers have no schema: what their controller needs, in the bridge's own namespace",
    ),
    **dict.fromkeys(
        (
            "usd_ros_bridge:diff_drive:pose_covariance_diagonal",
            "usd_ros_bridge:diff_drive:twist_covariance_diagonal",
        ),
        "the schema has no covariances: diff_drive_controller's, in the bridge's own namespace",
    ),
    "usd_ros_bridge:joint_trajectory:beyond_limits": "the schema leaves it open: in the bridge's own namespace",
    "control:starts_enabled": "REP 0158 section 4.2.3 names it; the registry's schemas have no property for it",
    "ros:joint_state_broadcaster:frame_id": "the extension's text names it; its schema file does not",
    "usd_ros_bridge:camera:resolution": "what UsdGeomCamera leaves open, in the bridge's own namespace",
    "ros:joint:name": "a custom property of joints (REP 0158 section 2.10), in no schema",
}

IGNORED_PROPERTIES = {
    "visibility": "Imageable: read by UsdGeom.Imageable.ComputeVisibility",
    "purpose": "Imageable: read by UsdGeom.Imageable.ComputePurpose",
    "proxyPrim": "Imageable: rendering",
    "extent": "Boundable: follows from the sizes",
    **dict.fromkeys(
        ("primvars:displayColor", "primvars:displayOpacity"),
        "Gprim: read by UsdGeom.PrimvarsAPI, which inherits them",
    ),
    **dict.fromkeys(
        ("points", "faceVertexCounts", "faceVertexIndices", "holeIndices"),
        "Mesh: read as arrays, see geometry.read_mesh",
    ),
    **dict.fromkeys(
        (
            "subdivisionScheme",
            "triangleSubdivisionRule",
            "interpolateBoundary",
            "faceVaryingLinearInterpolation",
            "cornerIndices",
            "cornerSharpnesses",
            "creaseIndices",
            "creaseLengths",
            "creaseSharpnesses",
        ),
        "Mesh: its cage counts, not the surface that subdivision makes of it",
    ),
    **dict.fromkeys(("normals", "velocities", "accelerations"), "PointBased: rendering"),
    **dict.fromkeys(
        (
            "collection:colliders",
            "collection:colliders:includes",
            "collection:colliders:excludes",
            "collection:colliders:includeRoot",
            "collection:colliders:expansionRule",
            "collection:colliders:membershipExpression",
            "collection:colliders:mode",
        ),
        "read by Usd.CollectionAPI's membership query",
    ),
    "xformOpOrder": "Xformable: read by UsdGeom.XformCache",
    "clippingPlanes": "rendering",
    "fStop": "depth of field: CameraInfo has no place for it",
    "focusDistance": "depth of field: CameraInfo has no place for it",
    "stereoRole": "rendering",
    "shutter:open": "motion blur: CameraInfo has no place for it",
    "shutter:close": "motion blur: CameraInfo has no place for it",
    "exposure": "rendering",
    "exposure:fStop": "rendering",
    "exposure:iso": "rendering",
    "exposure:responsivity": "rendering",
    "exposure:time": "rendering",
}

IGNORED_OF_SOLIDS = {
    "doubleSided": "Gprim: solids have an inside",
    "orientation": "Gprim: only meshes have faces that are wound",
}
"""Properties that meshes alone have fields for."""


def ros_schemas() -> dict[str, dict[str, tuple[str, Any]]]:
    """Name, type and fallback of each property of each class in the generated schema."""
    layer = Sdf.Layer.FindOrOpen(GENERATED)
    found = {}
    for prim in layer.rootPrims:
        attributes = {a.name: (str(a.typeName), plain(a.default)) for a in prim.attributes}
        relationships = {r.name: ("rel", None) for r in prim.relationships}
        found[prim.name] = {**attributes, **relationships}
    return found


def fields_of(record_type: type[Record], axis: str = "") -> dict[str, AttributeSpec]:
    return {spec.name.replace("{axis}", axis): spec for _, spec in attribute_fields(record_type)}


@each_case("schema", sorted(ros_schemas()))
def test_every_ros_schema_has_a_record_or_a_reason(schema: str) -> None:
    if schema in IGNORED_SCHEMAS:
        assert schema not in SCHEMAS
        assert ros_schemas()[schema] == {}
        return
    specs = fields_of(SCHEMAS[schema][1])
    declared = {
        name: (spec.type_name, spec.fallback) for name, spec in specs.items() if name not in NOT_IN_SCHEMA
    }
    assert declared == ros_schemas()[schema]


def test_every_record_of_a_ros_schema_has_a_schema() -> None:
    assert {name for name in SCHEMAS if name.startswith("Ros")} <= ros_schemas().keys()


def test_reasons_are_needed() -> None:
    every = {name for kind in ALL_RECORDS for name in fields_of(kind)}
    assert NOT_IN_SCHEMA.keys() <= every
    assert IGNORED_PROPERTIES.keys().isdisjoint(every)
    known = {name for _, definition, _, _ in definitions() for name in definition.GetPropertyNames()}
    assert IGNORED_PROPERTIES.keys() <= known
    assert all((*IGNORED_SCHEMAS.values(), *IGNORED_PROPERTIES.values(), *IGNORED_OF_SOLIDS.values()))


ALL_RECORDS = [
    kind
    for module in (records, physics_records, geometry, physics_reader)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Record)
]

Definition = tuple[str, Any, tuple[type[Record], ...], str]

APPLIED: dict[str, tuple[type[Record], ...]] = {
    "PhysicsRigidBodyAPI": (records.RigidBodyRecord, physics_records.SimulationOwnerRecord),
    "PhysicsArticulationRootAPI": (records.ArticulationRootRecord,),
    "PhysicsMassAPI": (physics_records.MassRecord,),
    "PhysicsMaterialAPI": (physics_records.MaterialRecord,),
    "PhysicsCollisionAPI": (physics_reader.CollisionRecord, physics_records.SimulationOwnerRecord),
    "PhysicsMeshCollisionAPI": (physics_reader.MeshCollisionRecord,),
    "PhysicsFilteredPairsAPI": (physics_records.FilteredPairsRecord,),
    "PhysicsLimitAPI": (records.AxisLimitRecord,),
    "PhysicsDriveAPI": (records.DriveRecord,),
}

JOINTS = ("Joint", "RevoluteJoint", "PrismaticJoint", "FixedJoint", "SphericalJoint", "DistanceJoint")

TYPES: dict[str, tuple[type[Record], ...]] = {
    "Camera": (records.CameraRecord,),
    "PhysicsScene": (physics_records.PhysicsSceneRecord,),
    "PhysicsCollisionGroup": (physics_records.CollisionGroupRecord,),
    **{f"Physics{name}": (records.JointRecord, physics_reader.JointBreakRecord) for name in JOINTS},
    **{name: (record_type,) for name, (_, record_type) in geometry.GEOMETRIES.items()},
}

AXES = {"PhysicsLimitAPI": "rotX", "PhysicsDriveAPI": "angular"}


def definitions() -> list[Definition]:
    registry = Usd.SchemaRegistry()
    applied = [
        (name, registry.FindAppliedAPIPrimDefinition(name), kinds, AXES.get(name, ""))
        for name, kinds in APPLIED.items()
    ]
    types = [(name, registry.FindConcretePrimDefinition(name), kinds, "") for name, kinds in TYPES.items()]
    return applied + types


def test_every_schema_of_usd_physics_has_a_record() -> None:
    plugin = Plug.Registry().GetPluginWithName("usdPhysics")
    schemas = {
        Usd.SchemaRegistry.GetSchemaTypeName(each)
        for each in Tf.Type.FindByName("UsdSchemaBase").GetAllDerivedTypes()
        if plugin.DeclaresType(each)
    }
    assert "PhysicsMassAPI" in schemas
    assert schemas <= APPLIED.keys() | TYPES.keys()


@each_case(("name", "definition", "kinds", "axis"), definitions())
def test_every_usd_property_is_read_or_ignored(
    name: str, definition: Any, kinds: tuple[type[Record], ...], axis: str
) -> None:
    specs = {name: spec for kind in kinds for name, spec in fields_of(kind, axis).items()}
    ignored = IGNORED_PROPERTIES if name in ("Mesh", "Camera") else IGNORED_PROPERTIES | IGNORED_OF_SOLIDS
    assert definition, name
    for template in definition.GetPropertyNames():
        prop = template.replace("__INSTANCE_NAME__", axis)
        if prop in ignored:
            continue
        spec = specs[prop]
        attribute = definition.GetSchemaAttributeSpec(template)
        type_name = "rel" if attribute is None else str(attribute.typeName)
        assert spec.type_name == type_name, prop
        if attribute is not None:
            assert _equal(spec.fallback, plain(attribute.default)), prop


def test_every_field_of_a_usd_record_exists_in_usd() -> None:
    known: dict[type[Record], set[str]] = {}
    for _, definition, kinds, axis in definitions():
        names = {name.replace("__INSTANCE_NAME__", axis) for name in definition.GetPropertyNames()}
        for kind in kinds:
            known.setdefault(kind, set()).update(names)
    for kind, names in known.items():
        axis = {records.AxisLimitRecord: "rotX", records.DriveRecord: "angular"}.get(kind, "")
        assert fields_of(kind, axis).keys() - NOT_IN_SCHEMA.keys() <= names


def _equal(ours: Any, theirs: Any) -> bool:
    if theirs is None:
        # Some schemas say in words alone that a bool is off, or a string empty, where nothing is authored.
        return not ours
    if isinstance(ours, tuple):
        return ours == pytest.approx(theirs)
    if isinstance(ours, float):
        return theirs == pytest.approx(ours)
    return bool(ours == theirs)
