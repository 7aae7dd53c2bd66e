"""Drives: PhysicsDriveAPI in radians, metres and newtons, and which degree of freedom each acts on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.physics import Drive
from usd_ros_bridge.model.plan import DofAxis, JointType
from usd_ros_bridge.model.records import DriveRecord, JointRecord, fallback
from usd_ros_bridge.planning.dofs import AXIS_INDEX
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.poses import MAX_MAGNITUDE, Units
from usd_ros_bridge.planning.resolvers import axis_names, gain_unit, motion_unit

_TYPES = ("force", "acceleration")


def plan_drives(
    record: JointRecord,
    kind: JointType,
    axes: Sequence[DofAxis],
    *,
    length: Sequence[float],
    units: Units,
    findings: Findings,
) -> list[Drive | None]:
    """Returns the drive of each degree of freedom.

    Args:
        record: The joint.
        kind: Its kind, limits considered.
        axes: Its degrees of freedom.
        length: Metres per authored unit of length along the joint frame's X, Y and Z.
        units: The stage's units.
        findings: Takes drives that act on nothing, and values that cannot be used.
    """
    if not record.drives:
        return [None] * len(axes)
    result: list[Drive | None] = []
    used = set()
    for axis in axes:
        instances = axis_names(record, axis)
        drive = next((drive for drive in record.drives if drive.axis in instances), None)
        if drive is not None:
            used.add(drive.axis)
        result.append(None if drive is None else _drive(drive, axis, length, units, findings))
    for drive in record.drives:
        if drive.axis not in used:
            _report_idle(record, drive, kind, findings)
    return result


def _report_idle(record: JointRecord, drive: DriveRecord, kind: JointType, findings: Findings) -> None:
    what = "a fixed joint" if kind == "fixed" else f"a {kind} joint without that degree of freedom"
    findings.warning(
        "1.3.drive",
        record.path,
        f"the drive {quoted(drive.axis)} is on {what}; it acts on nothing",
        "remove the drive, or name a degree of freedom that the joint leaves free",
        attribute=f"drive:{drive.axis[:32]}:physics:type",
    )


def _drive(
    record: DriveRecord, axis: DofAxis, length: Sequence[float], units: Units, findings: Findings
) -> Drive:
    rotational = axis.startswith("rot")
    motion = motion_unit(axis, units) if rotational else length[AXIS_INDEX[axis]]
    acceleration = fallback(record, "type") == "acceleration"
    if fallback(record, "type") not in _TYPES:
        findings.error(
            "1.3.drive",
            record.path,
            f"{quoted(record.type)} is no kind of drive; force is used",
            f"use one of {', '.join(_TYPES)}",
            attribute=f"drive:{record.axis}:physics:type",
        )
    gain = gain_unit(axis, units)
    if acceleration:
        gain = 180.0 / math.pi if rotational else 1.0
    bound = _value(record, "max_force", "maxForce", math.inf, findings)
    return Drive(
        acceleration=acceleration,
        stiffness=_value(record, "stiffness", "stiffness", 0.0, findings) * gain,
        damping=_value(record, "damping", "damping", 0.0, findings) * gain,
        max_force=bound * units.kilograms * units.meters ** (2 if rotational else 1),
        target_position=_value(record, "target_position", "targetPosition", 0.0, findings, signed=True)
        * motion,
        target_velocity=_value(record, "target_velocity", "targetVelocity", 0.0, findings, signed=True)
        * motion,
    )


def _value(
    record: DriveRecord,
    field: str,
    name: str,
    otherwise: float,
    findings: Findings,
    *,
    signed: bool = False,
) -> float:
    """Returns a number as authored; the bound may be infinite (converters write FLT_MAX)."""
    value = float(fallback(record, field))
    if field == "max_force" and value >= MAX_MAGNITUDE:
        return math.inf
    if math.isfinite(value) and (signed or value >= 0.0):
        return value
    findings.error(
        "1.3.drive",
        record.path,
        f"{quoted(value)} cannot be used; {otherwise:g} is used",
        "author a finite number" if signed else "author a finite number that is not negative",
        attribute=f"drive:{record.axis}:physics:{name}",
    )
    return otherwise
