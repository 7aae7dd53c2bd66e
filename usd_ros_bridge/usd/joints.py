"""Joints: UsdPhysics joints of every kind, their limits and drives, and what solvers' schemas say about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pxr import Usd, UsdPhysics

from usd_ros_bridge.model.records import AxisLimitRecord, DriveRecord, JointRecord
from usd_ros_bridge.usd.attributes import FieldReader, PrimProperties, authored_value
from usd_ros_bridge.usd.values import plain

JOINT_TYPES: Final = {
    "PhysicsRevoluteJoint": UsdPhysics.RevoluteJoint,
    "PhysicsPrismaticJoint": UsdPhysics.PrismaticJoint,
    "PhysicsFixedJoint": UsdPhysics.FixedJoint,
    "PhysicsSphericalJoint": UsdPhysics.SphericalJoint,
    "PhysicsDistanceJoint": UsdPhysics.DistanceJoint,
    "PhysicsJoint": UsdPhysics.Joint,
}

LIMIT_API: Final = "PhysicsLimitAPI:"
DRIVE_API: Final = "PhysicsDriveAPI:"

SOLVER_PREFIXES: Final = ("newton:", "physx", "mjc:", "ext_physics:", "isaac:", "state:", "urdf:")
"""Where solvers, importers and REP 0158 section 4.2.2 keep what UsdPhysics has no word for. `physx` is the start of
many namespaces (`physxJoint:`, `physxMimicJoint:rotX:`)."""


def joint_type(prim: Usd.Prim) -> str:
    """Returns the UsdPhysics joint type that a prim is of or derives from, "" where it is no joint."""
    type_name = str(prim.GetTypeName())
    if type_name in JOINT_TYPES:
        return type_name
    return next((name for name, schema in JOINT_TYPES.items() if prim.IsA(schema)), "")


def _solver_value(prop: Any) -> Any:
    if isinstance(prop, Usd.Relationship):
        return tuple([target.pathString for target in prop.GetTargets()]) if prop.HasAuthoredTargets() else None
    value = authored_value(prop)
    if value is None or not prop.HasAuthoredValue():
        return None
    return plain(value)


def solver_attributes(source: PrimProperties) -> dict[str, Any]:
    """Returns the authored properties below solvers' prefixes by USD name, as plain values."""
    found: dict[str, Any] = {}
    for name, prop in source.properties.items():
        if name.startswith(SOLVER_PREFIXES):
            value = _solver_value(prop)
            if value is not None:
                found[name] = value
    return found


def read_joint(
    reader: FieldReader, source: PrimProperties, *, type_name: str, applied: Sequence[str]
) -> JointRecord:
    """Returns the record of a joint.

    Args:
        reader: Reads fields.
        source: The joint's authored properties.
        type_name: What `joint_type` says of the prim.
        applied: Names of the applied API schemas, registered or not.
    """
    limits = [name[len(LIMIT_API) :] for name in applied if name.startswith(LIMIT_API)]
    drives = [name[len(DRIVE_API) :] for name in applied if name.startswith(DRIVE_API)]
    return reader.record(
        JointRecord,
        source,
        type_name=type_name,
        display_name=source.prim.GetDisplayName(),
        limits=tuple([reader.record(AxisLimitRecord, source, axis=axis) for axis in limits]),
        drives=tuple([reader.record(DriveRecord, source, axis=axis) for axis in drives]),
        applied=tuple([name for name in applied if not name.startswith("Physics") or name.startswith("PhysicsJointState")]),
        solver_attributes=solver_attributes(source),
    )
