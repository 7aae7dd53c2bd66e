"""Joints: UsdPhysics joints of every kind, their limits and drives, and what solvers' schemas say about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pxr import Usd, UsdPhysics

from usd_ros_bridge.model.records import AxisLimitRecord, DriveRecord, JointRecord
from usd_ros_bridge.usd.attributes import (
    FieldReader,
    PrimProperties,
    authored_value,
    is_relationship,
    kept_name,
)
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

CORE_APIS: Final = (LIMIT_API, DRIVE_API)
"""What has records of its own; PhysicsJointStateAPI, which is no part of UsdPhysics, stays in `applied`."""

SOLVER_PREFIXES: Final = ("newton:", "physx", "mjc:", "ext_physics:", "isaac:", "state:", "urdf:")
"""Where solvers, importers and REP 0158 section 4.2.2 keep what UsdPhysics has no word for. `physx` is the start of
many namespaces (`physxJoint:`, `physxMimicJoint:rotX:`)."""


class JointKind(NamedTuple):
    """What a joint's prim type and applied schemas say, for all joints that have them.

    Attributes:
        type_name: The UsdPhysics joint type that the prim is of or derives from.
        limits: Instance names of PhysicsLimitAPI.
        drives: Instance names of PhysicsDriveAPI.
        applied: The other applied API schemas.
    """

    type_name: str
    limits: tuple[str, ...]
    drives: tuple[str, ...]
    applied: tuple[str, ...]


def joint_kind(prim: Usd.Prim, applied: Sequence[str]) -> JointKind | None:
    """Returns what kind of joint a prim is, None where it is none.

    Args:
        prim: The prim.
        applied: Names of its applied API schemas, registered or not.
    """
    type_name = str(prim.GetTypeName())
    if type_name not in JOINT_TYPES:
        # Other plugins derive types from UsdPhysics'.
        type_name = next((name for name, schema in JOINT_TYPES.items() if prim.IsA(schema)), "")
    if not type_name:
        return None
    return JointKind(
        type_name,
        tuple(name[len(LIMIT_API) :] for name in applied if name.startswith(LIMIT_API)),
        tuple(name[len(DRIVE_API) :] for name in applied if name.startswith(DRIVE_API)),
        tuple(name for name in applied if not name.startswith(CORE_APIS)),
    )


class _Solver(NamedTuple):
    """A joint's properties below solvers' prefixes: values, and the names of relationships."""

    values: dict[str, Any]
    relationships: tuple[str, ...]


def _read_solver(source: PrimProperties) -> _Solver:
    values: dict[str, Any] = {}
    relationships: list[str] = []
    for name, prop in source.properties.items():
        if not name.startswith(SOLVER_PREFIXES):
            continue
        if is_relationship(prop):
            relationships.append(name)
        elif isinstance(prop, Usd.Attribute) and (value := plain(authored_value(prop))) is not None:
            values[name] = value
    return _Solver(values, tuple(relationships))


def solver_attributes(source: PrimProperties) -> dict[str, Any]:
    """Returns the authored properties below solvers' prefixes by USD name, as plain values."""
    solver = source.memo.get(_Solver)
    if solver is None:
        solver = source.memo[_Solver] = _read_solver(source)
    if not solver.relationships:
        return solver.values
    targets = {name: source.targets(name) for name in solver.relationships}
    return {**solver.values, **{name: paths for name, paths in targets.items() if paths is not None}}


def read_joint(reader: FieldReader, source: PrimProperties, kind: JointKind) -> JointRecord:
    """Returns the record of a joint.

    Args:
        reader: Reads fields.
        source: The joint's authored properties.
        kind: What `joint_kind` says of the prim.
    """
    return reader.record(
        JointRecord,
        source,
        type_name=kind.type_name,
        kept_name=kept_name(source),
        limits=tuple([reader.record(AxisLimitRecord, source, axis=axis) for axis in kind.limits]),
        drives=tuple([reader.record(DriveRecord, source, axis=axis) for axis in kind.drives]),
        applied=kind.applied,
        solver_attributes=solver_attributes(source),
    )
