"""The closed world: every attribute of every schema has a record field or a reason, and the reverse."""

from __future__ import annotations

from typing import Any

import pytest
from pxr import Sdf, Usd

from usd_ros_bridge.model import records
from usd_ros_bridge.model.records import AttributeSpec, Record, attribute_fields
from usd_ros_bridge.usd.reader import IGNORED_SCHEMAS, SCHEMAS
from usd_ros_bridge.usd.schemas import DIRECTORY
from usd_ros_bridge.usd.values import plain

GENERATED = str(DIRECTORY / "generatedSchema.usda")

NOT_IN_SCHEMA = {
    **dict.fromkeys(
        (
            "usd_ros_bridge:gripper:joints",
            "usd_ros_bridge:gripper:goal_tolerance",
            "usd_ros_bridge:gripper:stall_velocity_threshold",
            "usd_ros_bridge:gripper:stall_timeout",
            "usd_ros_bridge:gripper:allow_stalling",
            "usd_ros_bridge:gripper:max_effort",
            "usd_ros_bridge:gripper:action_monitor_rate",
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
    "control:starts_enabled": "REP 0158 section 4.2.3 names it; the registry's schemas have no property for it",
    "ros:joint_state_broadcaster:frame_id": "the extension's text names it; its schema file does not",
    "usd_ros_bridge:camera:resolution": "what UsdGeomCamera leaves open, in the bridge's own namespace",
    "ros:joint:name": "a custom property of joints (REP 0158 section 2.10), in no schema",
}

IGNORED_PROPERTIES = {
    "physics:simulationOwner": "which PhysicsScene simulates a body is an engine's business",
    "physics:startsAsleep": "no state of the body",
    "physics:breakForce": "joints of a ROS robot do not break",
    "physics:breakTorque": "joints of a ROS robot do not break",
    "visibility": "Imageable: rendering",
    "purpose": "Imageable: rendering",
    "proxyPrim": "Imageable: rendering",
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


@pytest.mark.parametrize("schema", sorted(ros_schemas()))
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
    assert all(IGNORED_SCHEMAS.values())
    assert all(IGNORED_PROPERTIES.values())


ALL_RECORDS = [kind for kind in vars(records).values() if isinstance(kind, type) and issubclass(kind, Record)]


def definitions() -> list[tuple[str, Any, type[Record], str]]:
    registry = Usd.SchemaRegistry()
    joints = ["Joint", "RevoluteJoint", "PrismaticJoint", "FixedJoint", "SphericalJoint", "DistanceJoint"]
    return [
        (
            "PhysicsRigidBodyAPI",
            registry.FindAppliedAPIPrimDefinition("PhysicsRigidBodyAPI"),
            records.RigidBodyRecord,
            "",
        ),
        (
            "PhysicsArticulationRootAPI",
            registry.FindAppliedAPIPrimDefinition("PhysicsArticulationRootAPI"),
            records.ArticulationRootRecord,
            "",
        ),
        ("Camera", registry.FindConcretePrimDefinition("Camera"), records.CameraRecord, ""),
        *(
            (f"Physics{name}", registry.FindConcretePrimDefinition(f"Physics{name}"), records.JointRecord, "")
            for name in joints
        ),
        (
            "PhysicsLimitAPI",
            registry.FindAppliedAPIPrimDefinition("PhysicsLimitAPI"),
            records.AxisLimitRecord,
            "rotX",
        ),
        (
            "PhysicsDriveAPI",
            registry.FindAppliedAPIPrimDefinition("PhysicsDriveAPI"),
            records.DriveRecord,
            "angular",
        ),
    ]


@pytest.mark.parametrize(
    ("name", "definition", "record", "axis"), definitions(), ids=lambda value: str(value)[:30]
)
def test_every_usd_property_is_read_or_ignored(
    name: str, definition: Any, record: type[Record], axis: str
) -> None:
    specs = fields_of(record, axis)
    assert definition, name
    for template in definition.GetPropertyNames():
        prop = template.replace("__INSTANCE_NAME__", axis)
        if prop in IGNORED_PROPERTIES:
            continue
        spec = specs[prop]
        attribute = definition.GetSchemaAttributeSpec(template)
        type_name = "rel" if attribute is None else str(attribute.typeName)
        assert spec.type_name == type_name, prop
        if attribute is not None:
            assert _equal(spec.fallback, plain(attribute.default)), prop


def test_every_field_of_a_usd_record_exists_in_usd() -> None:
    known: dict[type[Record], set[str]] = {}
    for _, definition, record, axis in definitions():
        names = (name.replace("__INSTANCE_NAME__", axis) for name in definition.GetPropertyNames())
        known.setdefault(record, set()).update(names)
    for record, names in known.items():
        axis = {records.AxisLimitRecord: "rotX", records.DriveRecord: "angular"}.get(record, "")
        assert fields_of(record, axis).keys() - NOT_IN_SCHEMA.keys() <= names


def _equal(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, tuple):
        return ours == pytest.approx(theirs)
    if isinstance(ours, float):
        return theirs == pytest.approx(ours)
    return bool(ours == theirs)
