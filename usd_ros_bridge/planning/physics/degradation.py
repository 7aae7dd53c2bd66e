"""Degradation: report each authored physics opinion that the engine does not simulate (REP 0158 section 1.4).

The ledger says what an engine makes of a property. Here its rows are held against what prims author: values that equal
the schema's fallback say nothing, names that no schema has may be typing errors, and values may have the wrong type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from usd_ros_bridge.errors import question_about, quoted
from usd_ros_bridge.model.diagnostics import (
    DEGRADED,
    MISSPELT,
    Diagnostic,
    DiagnosticCollector,
    Reason,
    Severity,
    degraded,
)
from usd_ros_bridge.model.ledger import INSTANCE, LedgerRow, ledger
from usd_ros_bridge.model.physics_records import Opinions, PhysicsRecords
from usd_ros_bridge.model.property_names import near_misses
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.options import Engine
from usd_ros_bridge.planning.kinematics import solver_attributes
from usd_ros_bridge.planning.kinematics.dofs import AXES
from usd_ros_bridge.planning.kinematics.solver_attributes import TABLE, axis_of

_VENDORS: Final[Mapping[str, str]] = {"newton:": "newton", "mjc:": "mjc", "physx": "physx"}
"""Resolver by the beginning of its names."""

WRONG_TYPE: Final = "1.4.type"
"""Code of a vendor's property that has a value of the wrong type, where no other diagnostic says it."""

_UNKNOWN: Final = "no schema that the bridge knows has this attribute"
_UNAPPLIED: Final = "not implemented: without"
_REMEDY: Final = "do not rely on it"
_INSTANCES: Final = ("angular", "linear", *AXES)
_FRICTION: Final = ("newton:friction", "mjc:frictionloss")
_JOINT_FRICTION: Final = "physxJoint:jointFriction"
_OF_AXIS: Final = "physxJointAxis:"
_SURFACE: Final = ("physxSurfaceVelocity:surfaceVelocity", "physxSurfaceVelocity:surfaceAngularVelocity")


class _Verdict(NamedTuple):
    """A diagnostic without its prim."""

    code: str
    severity: Severity
    attribute: str
    message: str
    remedy: str
    reason: Reason = ""
    value: str = ""

    @property
    def is_secondary(self) -> bool:
        """Return whether it says nothing new where another diagnostic is about the same property."""
        return self.code == WRONG_TYPE or self.message.startswith(_UNAPPLIED)


def report_degraded(
    records: StageRecords,
    physics: PhysicsRecords,
    findings: DiagnosticCollector,
    *,
    engine: Engine,
    solvers: Sequence[str],
) -> None:
    """Report what is authored and not simulated, in one diagnostic for each prim and property.

    Args:
        records: The stage.
        physics: Its physics.
        findings: Takes the diagnostics.
        engine: Column of the ledger.
        solvers: Vendors whose properties are read, in order of priority.
    """
    # Prims that are composed alike share their opinions: these are judged once.
    judged: dict[int, tuple[_Verdict, ...]] = {}
    faults = {(each.path, each.attribute) for each in findings.all()}
    found: list[Diagnostic] = []
    for path, opinions in physics.opinions.items():
        verdicts = judged.get(id(opinions))
        if verdicts is None:
            verdicts = judged[id(opinions)] = tuple(_judge(opinions, engine, solvers))
        found += [
            Diagnostic(
                code=each.code,
                severity=each.severity,
                path=path,
                attribute=each.attribute,
                message=each.message,
                remedy=each.remedy,
                reason=each.reason,
                value=each.value,
            )
            for each in verdicts
            if not (each.is_secondary and (path, each.attribute) in faults)
        ]
    findings.extend(found)
    if engine == "mujoco":
        _report_friction(records, findings)
        _report_surfaces(records, physics, findings)


# --- Opinions against the ledger ------------------------------------------------------------------------------------


def _judge(opinions: Opinions, engine: Engine, solvers: Sequence[str]) -> Iterator[_Verdict]:
    for schema in opinions.schemas:
        row = ledger().schema(schema)
        if row is None:
            message = "not implemented: the bridge knows no such schema"
            yield _degraded("apiSchemas", message, "not implemented", quoted(schema))
            continue
        treatment = row.engines[engine]
        if treatment.is_degraded and not treatment.code:
            message = f"{treatment.state}: {treatment.effect}"
            attribute = "" if schema == opinions.type_name else "apiSchemas"
            yield _degraded(attribute, message, treatment.state, quoted(schema))
    for name, value in opinions.values.items():
        if name in opinions.unapplied:
            if any(is_fallback(value, each.fallback) for each in ledger().properties(name)):
                continue
            message = f"{_UNAPPLIED} {opinions.unapplied[name]} on the prim it has no effect"
            yield _degraded(name, message, "not implemented", quoted(value) if value != () else "")
            continue
        rows = ledger().properties(name)
        if not rows:
            yield _unknown(name, value)
            continue
        row = _row_of(rows, opinions.schemas)
        if value is not None and not fits(value, row.type_name):
            yield _wrong_type(name, value, row.type_name)
        elif value is None or not any(is_fallback(value, each.fallback) for each in rows):
            found = tuple(_of_row(name, value, row, engine, solvers))
            if not found and "Joint" not in opinions.type_name and is_of_joints(name):
                message = "not implemented: the prim is no joint"
                found = (_degraded(name, message, "not implemented", quoted(value)),)
            yield from found


@cache
def is_of_joints(name: str) -> bool:
    """Return whether a property is one of joints alone, and read there."""
    rows = ledger().properties(name)
    return is_resolved(name) and all("Joint" in row.schema for row in rows)


def _row_of(rows: Sequence[LedgerRow], schemas: Sequence[str]) -> LedgerRow:
    """Return the row of a schema that the prim has, else the first one."""
    names = {each.partition(":")[0] for each in schemas}
    return next((row for row in rows if row.schema in names), rows[0])


def _of_row(
    name: str, value: Any, row: LedgerRow, engine: Engine, solvers: Sequence[str]
) -> Iterator[_Verdict]:
    vendor = next((solver for prefix, solver in _VENDORS.items() if name.startswith(prefix)), "")
    treatment = row.engines[engine]
    if vendor and vendor not in solvers and is_resolved(name):
        message = f"vendor layer ignored: schema_resolvers leaves out {vendor}"
        yield _degraded(name, message, "vendor layer ignored", quoted(value))
    elif treatment.is_degraded and not treatment.code:
        shown = "" if value is None or value == () else quoted(value)
        yield _degraded(name, f"{treatment.state}: {treatment.effect}", treatment.state, shown)


def _degraded(attribute: str, message: str, reason: Any, value: str) -> _Verdict:
    is_solver = reason == "not implemented" and attribute.startswith(("newton:", "mjc:"))
    code = "1.3.solver" if is_solver else DEGRADED
    return _Verdict(code, "warning", attribute, message, _REMEDY, reason, value)


def _unknown(name: str, value: Any) -> _Verdict:
    found = _suggestions(name)
    if found:
        message = "no schema has this attribute: it has no effect"
        return _Verdict(MISSPELT, "warning", name, message, question_about(found))
    shown = "" if value is None or value == () else quoted(value)
    if name.startswith(("newton:", "mjc:")):
        return _Verdict(
            "1.3.solver", "info", name, f"{_UNKNOWN}; it has no effect", "correct the name, or leave it out"
        )
    reason: Reason = "vendor layer ignored" if name.startswith("physx") else "not implemented"
    return _Verdict(DEGRADED, "warning", name, f"{reason}: {_UNKNOWN}", _REMEDY, reason, shown)


def _wrong_type(name: str, value: Any, wanted: str) -> _Verdict:
    message = f"has the value {quoted(value)}, which is no {wanted}; ignored"
    return _Verdict(WRONG_TYPE, "error", name, message, f"author it as {wanted}")


# --- Names ----------------------------------------------------------------------------------------------------------


@cache
def resolved_names() -> frozenset[str]:
    """Return the vendors' names that `schema_resolvers` gives the order of; `{axis}` filled in."""
    tables = (
        solver_attributes.SCENE,
        solver_attributes.ARTICULATION,
        solver_attributes.COLLIDER,
        solver_attributes.MATERIAL,
        solver_attributes.JOINT,
        solver_attributes.BODY,
    )
    attributes = [each for table in tables for by_solver in table.values() for each in by_solver.values()]
    names = {name for each in attributes for name in (each.name, each.minus, each.also) if name}
    for by_solver in TABLE.values():
        for each in (attribute for found in by_solver.values() for attribute in found):
            names |= {each.name.replace("{axis}", axis) for axis in _INSTANCES}
    return frozenset(names)


_MIMIC: Final = ("newton:mimic", "physxMimicJoint:")


def is_resolved(name: str) -> bool:
    """Return whether a name is read only where `schema_resolvers` has its vendor."""
    return name in resolved_names() or name.startswith(_MIMIC) or bool(axis_of(name))


def misspelt(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return what may be meant by the names that are typing errors."""
    return {name: found for name in names if not ledger().properties(name) and (found := _suggestions(name))}


@cache
def _suggestions(name: str) -> tuple[str, ...]:
    return near_misses(name, _known_names())


@cache
def _known_names() -> tuple[str, ...]:
    names = (row.name for row in ledger().rows if row.name)
    return tuple(
        dict.fromkeys(
            name.replace(INSTANCE, instance)
            for name in names
            for instance in (_INSTANCES if INSTANCE in name else ("",))
        )
    )


# --- Values ---------------------------------------------------------------------------------------------------------


def is_fallback(value: Any, fallback: Any) -> bool:
    """Return whether a value says what the schema says already; numbers to float32's precision."""
    if isinstance(value, tuple) and isinstance(fallback, tuple):
        return len(value) == len(fallback) and all(map(is_fallback, value, fallback))
    if _is_number(value) and _is_number(fallback):
        return math.isclose(value, fallback, rel_tol=1e-6)
    same: bool = value == fallback
    return same and type(value) is type(fallback)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_tuple_of(check: Callable[[Any], bool], size: int | None = None) -> Callable[[Any], bool]:
    def fits_tuple(value: Any) -> bool:
        return isinstance(value, tuple) and (size is None or len(value) == size) and all(map(check, value))

    return fits_tuple


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, int) and value in {0, 1})


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "bool": _is_flag,
    **dict.fromkeys(("int", "uint", "int64", "uint64", "uchar"), _is_number),
    **dict.fromkeys(("half", "float", "double", "timecode"), _is_number),
    **dict.fromkeys(("token", "string", "asset"), _is_text),
    **dict.fromkeys(("quatf", "quatd", "quath", "float4", "color4f"), _is_tuple_of(_is_number, 4)),
    **dict.fromkeys(
        ("float3", "double3", "vector3f", "point3f", "color3f", "normal3f"), _is_tuple_of(_is_number, 3)
    ),
    **dict.fromkeys(("float2", "double2", "int2"), _is_tuple_of(_is_number, 2)),
}
"""Whether a plain value can be one of an SdfValueTypeName; types that are not here take anything."""


def fits(value: Any, type_name: str) -> bool:
    """Return whether a plain value has the type of a schema's property: () of relationships, None of long arrays."""
    if type_name == "rel":
        return isinstance(value, tuple) and not value
    if type_name.endswith("[]"):
        return isinstance(value, tuple)
    check = _FITS.get(type_name)
    return check is None or check(value)


# --- What depends on several attributes, or on the prim ---------------------------------------------------------------


def _report_friction(records: StageRecords, findings: DiagnosticCollector) -> None:
    """Report the friction of joints that is not simulated as PhysX does."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records.joints:
        if record.solver_attributes:
            for name, instead in _joint_friction(record.solver_attributes):
                found.setdefault((name, instead), {})[record.path] = record.solver_attributes[name]
    for (name, instead), prims in sorted(found.items()):
        reason: Reason = "not implemented" if name == _JOINT_FRICTION else "approximated"
        degraded(findings, prims, name, instead, reason=reason)


def _joint_friction(authored: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the frictions of a joint that are not simulated as PhysX does, and what is done instead."""
    if any(name in authored for name in _FRICTION):
        return
    axes = [
        name for name in authored if name.startswith(_OF_AXIS) and name.endswith(":dynamicFrictionEffort")
    ]
    for name in axes:
        static = authored.get(name.replace(":dynamicFrictionEffort", ":staticFrictionEffort"))
        if static is not None and static != authored[name]:
            yield name, "the static friction acts at rest and in motion"
    if authored.get(_JOINT_FRICTION) and not (axes or any("staticFriction" in name for name in authored)):
        yield (
            _JOINT_FRICTION,
            "the joint has no friction that grows with the forces that it transmits",
        )


def _report_surfaces(records: StageRecords, physics: PhysicsRecords, findings: DiagnosticCollector) -> None:
    """Report velocities of surfaces that are not on bodies."""
    bodies = {body.path for body in records.bodies if body.enabled is not False}
    for name in _SURFACE:
        found = {}
        for path, opinions in physics.opinions.items():
            value = solver_attributes.triple(opinions.values.get(name))
            if path not in bodies and value is not None and any(value):
                found[path] = opinions.values[name]
        if found:
            instead = "the surface is still, as in PhysX, because the prim is no rigid body"
            degraded(findings, found, name, instead)
