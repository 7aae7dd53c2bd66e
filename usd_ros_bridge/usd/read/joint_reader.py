"""Joints: UsdPhysics joints of every kind, their limits, drives, solver attributes and recorded positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from pxr import Usd, UsdPhysics

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.records import AxisLimitRecord, DriveRecord, GearRecord, JointRecord, RackRecord
from usd_ros_bridge.model.stage import ValueTrackRecord
from usd_ros_bridge.usd.read.properties import (
    FieldReader,
    PrimProperties,
    Unusable,
    authored_value,
    convert,
    is_relationship,
    kept_name,
    plain,
)
from usd_ros_bridge.usd.read.samples import may_have_samples, sample_times

JOINT_TYPES: Final = {
    "PhysicsRevoluteJoint": UsdPhysics.RevoluteJoint,
    "PhysicsPrismaticJoint": UsdPhysics.PrismaticJoint,
    "PhysicsFixedJoint": UsdPhysics.FixedJoint,
    "PhysicsSphericalJoint": UsdPhysics.SphericalJoint,
    "PhysicsDistanceJoint": UsdPhysics.DistanceJoint,
    "PhysicsJoint": UsdPhysics.Joint,
}

GEAR_TYPES: Final[dict[str, type[GearRecord | RackRecord]]] = {
    "PhysxPhysicsGearJoint": GearRecord,
    "PhysxPhysicsRackAndPinionJoint": RackRecord,
}
"""Types of PhysX's schema that tie two joints to each other, registered or not."""

LIMIT_API: Final = "PhysicsLimitAPI:"
DRIVE_API: Final = "PhysicsDriveAPI:"

CORE_APIS: Final = (LIMIT_API, DRIVE_API)
"""What has records of its own; PhysicsJointStateAPI, which is no part of UsdPhysics, stays in `applied`."""

SOLVER_PREFIXES: Final = ("newton:", "physx", "mjc:", "ext_physics:", "isaac:", "state:", "urdf:")
"""Where solvers, importers and REP 0158 section 4.2.2 keep what UsdPhysics has no word for. `physx` is the start of
many namespaces (`physxJoint:`, `physxMimicJoint:rotX:`)."""


class JointKind(NamedTuple):
    """Kind of a joint by its prim type and applied schemas, for all joints that have them.

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
    """Return what kind of joint a prim is, None where it is none.

    Args:
        prim: The prim.
        applied: Names of its applied API schemas, registered or not.
    """
    type_name = str(prim.GetTypeName())
    if type_name in GEAR_TYPES:
        return None
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


def unknown_joint(prim: Usd.Prim) -> JointKind | None:
    """Return the kind of a prim of an unknown type that names bodies as joints do, None of any other one."""
    ends = (prim.GetRelationship(name) for name in ("physics:body0", "physics:body1"))
    if not any(each and each.HasAuthoredTargets() for each in ends):
        return None
    return JointKind(str(prim.GetTypeName()), (), (), ())


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
    """Return the authored properties below solvers' prefixes by USD name, as plain values."""
    solver: _Solver | None = source.recall(_Solver)
    if solver is None:
        solver = _read_solver(source)
        source.remember(_Solver, solver, prefixes=SOLVER_PREFIXES)
    if not solver.relationships:
        return solver.values
    targets = {name: source.targets(name) for name in solver.relationships}
    return {**solver.values, **{name: paths for name, paths in targets.items() if paths is not None}}


def read_joint(reader: FieldReader, source: PrimProperties, kind: JointKind) -> JointRecord:
    """Return the record of a joint.

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


SAMPLED = (("state:", ":physics:position"), ("drive:", ":physics:targetPosition"))
PREFIXES = tuple(prefix for prefix, _ in SAMPLED)


def value_tracks(source: PrimProperties, diagnostics: list[Diagnostic]) -> list[ValueTrackRecord]:
    """Return the time-sampled positions of one joint: PhysicsJointStateAPI's, and drive targets."""
    names = source.recall(value_tracks)
    if names is None:
        named = [name for name in source.properties if _may_be_sampled(name)]
        names = [name for name in named if _is_sampled(source, name)]
        source.remember(value_tracks, names, None if named else ())
    if not names:
        return []
    tracks = (_value_track(source.path, source.prim.GetAttribute(name), diagnostics) for name in names)
    return [track for track in tracks if track is not None]


def _may_be_sampled(name: str) -> bool:
    return name.startswith(PREFIXES) and any(
        name.startswith(prefix) and name.endswith(suffix) for prefix, suffix in SAMPLED
    )


def _is_sampled(source: PrimProperties, name: str) -> bool:
    prop = source.properties[name]
    return isinstance(prop, Usd.Attribute) and may_have_samples(prop)


def _value_track(
    path: str, attribute: Usd.Attribute, diagnostics: list[Diagnostic]
) -> ValueTrackRecord | None:
    name = attribute.GetName()
    # A query finds the samples' layer once, `attribute.Get` for each of thousands of samples.
    query = Usd.AttributeQuery(attribute)
    times: list[float] = []
    values: list[float] = []
    try:
        for time in sample_times(attribute, diagnostics):
            value = query.Get(Usd.TimeCode(time))
            if value is not None:
                values.append(convert(value, "double"))
                times.append(time)
    except Unusable:
        diagnostics.append(
            Diagnostic(
                code="1.3.time_samples",
                severity="error",
                path=path,
                attribute=name,
                message="has time samples that are no numbers; ignored",
                remedy="author them as float",
            )
        )
        return None
    if not times:
        return None
    return ValueTrackRecord(path=path, attribute=name, time_codes=np.array(times), values=np.array(values))
