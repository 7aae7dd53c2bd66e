"""Dialects: one property of a joint in the attributes of several vendors (REP 0158 section 4.2.2).

The tables of `solver_attributes` and `mimic` say which attributes mean the same. Here is what happens where a joint has
more than one of them: the first one in the order of solvers is used, and each other one with another value is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from usd_ros_bridge.model.diagnostics import DiagnosticCollector, alike, degraded
from usd_ros_bridge.model.records import DofAxis, JointRecord
from usd_ros_bridge.planning.kinematics.solver_attributes import (
    Property,
    find_all_authored,
    solver_order,
)
from usd_ros_bridge.planning.stage_index import Units

KINEMATIC: Final[tuple[Property, ...]] = ("velocity_limit", "effort_limit", "position", "velocity")
"""Properties that are planned with and without physics."""

DYNAMIC: Final[tuple[Property, ...]] = (
    "armature",
    "friction",
    "damping",
    "limit_stiffness",
    "limit_damping",
)
"""Properties for engines that more than one vendor has."""

_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "newton": ("newton:",),
    "physx": ("physx", "state:"),
    "mjc": ("mjc:",),
}
_SAME: Final = 1e-5
"""Relative difference of values that are equal: they are stored as floats, some of them in degrees."""

_EXTENDED: Final = "ext_physics:"
_MIMICS: Final[Mapping[str, str]] = {
    "newton": "newton:mimicJoint, newton:mimicCoef1 and newton:mimicCoef0 (NewtonMimicAPI)",
    "physx": "physxMimicJoint:rotX:referenceJoint, :gearing and :offset, with the opposite signs (PhysxMimicJointAPI)",
    "mjc": "mjc:target, mjc:coef1 and mjc:coef0, in radians (MjcEqualityJointAPI)",
}
_MUJOCO_LIMIT: Final = "mjc:solreflimit"


Ignored = tuple[str, str, str, object]
"""Path of a prim, its attribute, the attribute that is used instead, and the value that is not used."""


def same(first: float, second: float) -> bool:
    """Return whether two values of a property, in SI units, are meant to be equal."""
    return math.isclose(first, second, rel_tol=_SAME, abs_tol=1e-12)


def report_ignored(ignored: Iterable[Ignored], findings: DiagnosticCollector) -> None:
    """Report attributes that a stronger one overrides.

    Args:
        ignored: What is not used.
        findings: Takes the diagnostics.
    """
    by_names: dict[tuple[str, str], dict[str, object]] = {}
    for path, weaker, stronger, value in ignored:
        by_names.setdefault((weaker, stronger), {})[path] = value
    for (weaker, stronger), authored in by_names.items():
        degraded(
            findings,
            authored,
            weaker,
            f"{stronger} is used instead",
            reason="vendor layer ignored",
            remedy="author equal values, or only one of them; schema_resolvers has the order",
        )


def report_dialects(
    joints: Iterable[tuple[JointRecord, Sequence[DofAxis]]],
    wanted: Sequence[Property],
    *,
    solvers: Sequence[str],
    units: Units,
    findings: DiagnosticCollector,
) -> None:
    """Report properties to which two vendors' attributes of one joint give different values.

    Joints with equal attributes, as those of equal robots, are compared once.

    Args:
        joints: Each joint with the axes of its degrees of freedom.
        wanted: Properties.
        solvers: Solvers in order of priority.
        units: The stage's units.
        findings: Takes the diagnostics.
    """
    ignored: list[Ignored] = []
    known: dict[tuple[object, ...], list[tuple[str, str, object]]] = {}
    for record, axes in joints:
        if not record.solver_attributes:
            continue
        key = (record.type_name, *axes, *record.solver_attributes.items())
        found = known.get(key)
        if found is None:
            found = []
            if _several(record.solver_attributes, solvers):
                found = [each for axis in axes for each in _ignored(record, axis, wanted, solvers, units)]
            known[key] = found
        ignored += ((record.path, *each) for each in found)
    report_ignored(ignored, findings)


def _several(authored: Mapping[str, Any], solvers: Sequence[str]) -> bool:
    """Return whether more than one of the vendors has an attribute."""
    vendors = 0
    for solver in solvers:
        prefixes = _PREFIXES.get(solver, ())
        vendors += any(name.startswith(prefixes) for name in authored)
    return vendors > 1


def _vendor(name: str) -> str:
    """Return the vendor of an attribute."""
    return next((vendor for vendor, prefixes in _PREFIXES.items() if name.startswith(prefixes)), "")


def _ignored(
    record: JointRecord, axis: DofAxis, wanted: Sequence[Property], solvers: Sequence[str], units: Units
) -> Iterator[tuple[str, str, object]]:
    """Yield weaker attributes, the attribute that is used, and the weaker value."""
    for each in wanted:
        order = solver_order(each, solvers)
        found = list(find_all_authored(record, each, axis, solvers=order, units=units))
        if each.startswith("limit_") and "mjc" in solvers and _MUJOCO_LIMIT in record.solver_attributes:
            # MuJoCo's numbers are per unit of mass, and cannot be compared. What gives no spring is no loss.
            yield from ((one.name, _MUJOCO_LIMIT, one.value) for one in found if 0.0 < one.value < math.inf)
            continue
        for weaker in found[1:]:
            if _vendor(weaker.name) != _vendor(found[0].name) and not same(
                found[0].value * found[0].si, weaker.value * weaker.si
            ):
                yield weaker.name, found[0].name, weaker.value


def report_extended(
    joints: Iterable[JointRecord], *, solvers: Sequence[str], findings: DiagnosticCollector
) -> None:
    """Report mimic rules below `ext_physics:`, which the REP had until it left such features to vendors' layers.

    Args:
        joints: All joints.
        solvers: Solvers in order of priority.
        findings: Takes one diagnostic for all of them.
    """
    paths = [
        joint.path
        for joint in joints
        if (joint.solver_attributes and any(map(_is_extended, joint.solver_attributes)))
        or (joint.applied and "ExtendedPhysicsMimicAPI" in joint.applied)
    ]
    if not paths:
        return
    form = next((_MIMICS[solver] for solver in solvers if solver in _MIMICS), _MIMICS["newton"])
    findings.info(
        "1.4.ext_physics",
        paths[0],
        "the rule is used, but REP 0158 no longer has ext_physics: such features are in vendor layers"
        + alike(paths[1:]),
        f"author {form}",
        attribute=f"{_EXTENDED}mimic:joint",
    )


def _is_extended(name: str) -> bool:
    return name.startswith(_EXTENDED)
