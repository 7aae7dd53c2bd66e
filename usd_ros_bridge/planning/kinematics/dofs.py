"""Degrees of freedom: which motions a joint leaves free, and their limits in radians and metres."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.records import DofAxis, JointRecord, JointType, fallback
from usd_ros_bridge.planning.kinematics.solver_attributes import (
    axis_names,
    resolve,
    urdf_effort,
    urdf_velocity,
)
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, Units

AXES: tuple[DofAxis, ...] = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")
AXIS_INDEX = {axis: index for index, axis in enumerate(AXES)}
_WITH_REFERENCE = ("PhysicsRevoluteJoint", "PhysicsPrismaticJoint")
_RADIANS = math.pi / 180.0
_NO_LIMITS = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class FreeAxis:
    """One degree of freedom of a joint, before it has a name and a row.

    Attributes:
        axis: Which.
        lower: rad or m, -inf where there is no limit.
        upper: rad or m, inf where there is no limit.
        max_velocity: rad/s or m/s, inf where there is no limit.
        max_effort: N m or N, inf where there is no limit.
        authored_position: rad or m, None where a joint's state is not authored.
        driven: Whether a PhysicsDriveAPI acts on it.
    """

    axis: DofAxis
    lower: float = -math.inf
    upper: float = math.inf
    max_velocity: float = math.inf
    max_effort: float = math.inf
    authored_position: float | None = None
    driven: bool = False


def joint_motions(
    record: JointRecord,
    kind: JointType,
    *,
    solvers: Sequence[str],
    units: Units,
    findings: DiagnosticCollector,
) -> tuple[JointType, tuple[FreeAxis, ...]]:
    """Return a joint's kind and its degrees of freedom.

    Args:
        record: The joint.
        kind: Kind by the USD type; a revolute joint without limits comes back as continuous, a joint whose only
            axis is locked as fixed.
        solvers: Solvers in order of priority.
        units: The stage's units.
        findings: Collector of faults of limits.
    """
    kind, limited = _free_axes(record, kind, units.meters, findings)
    return kind, tuple(
        _complete(record, axis, limits, solvers=solvers, units=units, findings=findings)
        for axis, limits in limited.items()
    )


def count_dofs(record: JointRecord, kind: JointType) -> int:
    """Return how many degrees of freedom `joint_motions` finds."""
    # joint_motions reports what is wrong with the limits.
    return len(_free_axes(record, kind, 1.0, DiagnosticCollector())[1])


def _free_axes(
    record: JointRecord, kind: JointType, meters: float, findings: DiagnosticCollector
) -> tuple[JointType, dict[DofAxis, tuple[float, float]]]:
    if kind in ("fixed", "distance"):
        return kind, {}
    if kind == "generic":
        return kind, _generic_limits(record, meters, findings)
    if kind == "spherical":
        return kind, _spherical_limits(record, findings)
    return _single_limits(record, kind, meters, findings)


def _single_limits(
    record: JointRecord, kind: JointType, meters: float, findings: DiagnosticCollector
) -> tuple[JointType, dict[DofAxis, tuple[float, float]]]:
    letter = cast(str, fallback(record, "axis"))
    rotational = kind == "revolute"
    axis = cast(DofAxis, ("rot" if rotational else "trans") + letter)
    factor = _RADIANS if rotational else meters
    lower = _limit(record, "physics:lowerLimit", record.lower_limit, -math.inf, findings)
    upper = _limit(record, "physics:upperLimit", record.upper_limit, math.inf, findings)
    if lower > upper:
        findings.warning(
            "1.3.limits",
            record.path,
            f"the lower limit {lower:g} is above the upper limit {upper:g}: UsdPhysics calls such an axis locked",
            "exchange the limits, or make it a PhysicsFixedJoint",
            attribute="physics:lowerLimit",
        )
        return "fixed", {}
    if rotational and lower == -math.inf and upper == math.inf:
        kind = "continuous"
    elif lower == -math.inf or upper == math.inf:
        findings.info(
            "1.3.limits",
            record.path,
            f"the {kind} joint has no limit on at least one side",
            "author physics:lowerLimit and physics:upperLimit",
            attribute="physics:lowerLimit",
        )
    return kind, {axis: (lower * factor, upper * factor)}


def _generic_limits(
    record: JointRecord, meters: float, findings: DiagnosticCollector
) -> dict[DofAxis, tuple[float, float]]:
    limits = {}
    for limit in record.limits:
        if limit.axis not in AXIS_INDEX:
            if limit.axis != "distance":
                findings.warning(
                    "1.3.limits",
                    record.path,
                    f"{quoted(limit.axis)} is no axis; the limit is ignored",
                    f"use one of {', '.join(AXES)}",
                    attribute=f"limit:{limit.axis[:32]}:physics:low",
                )
            continue
        lower = _limit(record, f"limit:{limit.axis}:physics:low", limit.low, -math.inf, findings)
        upper = _limit(record, f"limit:{limit.axis}:physics:high", limit.high, math.inf, findings)
        limits[limit.axis] = (lower, upper)
    result: dict[DofAxis, tuple[float, float]] = {}
    for axis in AXES:
        lower, upper = limits.get(axis, _NO_LIMITS)
        if lower <= upper:
            factor = _RADIANS if axis.startswith("rot") else meters
            result[axis] = (lower * factor, upper * factor)
    return result


def _spherical_limits(
    record: JointRecord, findings: DiagnosticCollector
) -> dict[DofAxis, tuple[float, float]]:
    """Return the limits of a cone.

    The primary axis may swing towards the next axis by angle 0 and towards the one after by angle 1.
    """
    primary = "XYZ".index(fallback(record, "axis"))

    def cone(name: str, value: float | None) -> tuple[float, float]:
        angle = -1.0 if value is None else value
        if math.isnan(angle):
            _report_limit(record, name, angle, findings)
        return (-angle * _RADIANS, angle * _RADIANS) if angle >= 0.0 else _NO_LIMITS

    # Swinging X towards Y is a turn about Z, towards Z one about Y.
    limits = {
        (primary + 2) % 3: cone("physics:coneAngle0Limit", record.cone_angle0),
        (primary + 1) % 3: cone("physics:coneAngle1Limit", record.cone_angle1),
    }
    return {axis: limits.get(index, _NO_LIMITS) for index, axis in enumerate(AXES[3:])}


def _limit(
    record: JointRecord, name: str, value: float | None, unlimited: float, findings: DiagnosticCollector
) -> float:
    """Return a limit as authored; what is as far out as the axis is free (converters write FLT_MAX) is none."""
    if value is None or value * math.copysign(1.0, unlimited) >= MAX_MAGNITUDE:
        return unlimited
    if not abs(value) <= MAX_MAGNITUDE:
        _report_limit(record, name, value, findings)
        return unlimited
    return value


def _report_limit(record: JointRecord, name: str, value: float, findings: DiagnosticCollector) -> None:
    findings.error(
        "1.3.limits",
        record.path,
        f"{quoted(value)} is no limit; the joint is taken as unlimited there",
        "author a number, or leave the limit out",
        attribute=name,
    )


def _complete(
    record: JointRecord,
    axis: DofAxis,
    limits: tuple[float, float],
    *,
    solvers: Sequence[str],
    units: Units,
    findings: DiagnosticCollector,
) -> FreeAxis:
    instances = axis_names(record, axis)
    drive = next((drive for drive in record.drives if drive.axis in instances), None)
    velocity = effort = position = None
    if record.solver_attributes:
        velocity = resolve(
            record, "velocity_limit", axis, solvers=solvers, units=units, default=urdf_velocity(record)
        )
        effort = resolve(
            record, "effort_limit", axis, solvers=solvers, units=units, default=urdf_effort(record)
        )
        position = resolve(record, "position", axis, solvers=solvers, units=units)
        offset = reference(record, axis, solvers=solvers, units=units, findings=findings)
        limits = (limits[0] - offset, limits[1] - offset)
    if drive is not None and drive.max_force is not None:
        power = 2 if axis.startswith("rot") else 1
        bound = drive.max_force * units.kilograms * units.meters**power
        # What bounds the joint bounds the drive, too; a URDF's limit is what its drive was made of.
        joint = resolve(record, "effort_limit", axis, solvers=solvers, units=units)
        # A bound that cannot be used is reported with the drive.
        usable = [each for each in (bound, joint) if each is not None and each >= 0.0]
        effort = min(usable) if usable else joint
    if position is not None and not abs(position) <= MAX_MAGNITUDE:
        findings.error(
            "1.3.state",
            record.path,
            f"the authored joint position {quoted(position)} cannot be used; it is ignored",
            "author a finite position",
        )
        position = None
    return FreeAxis(
        axis,
        *limits,
        max_velocity=_bound(record, "velocity limit", velocity, findings),
        max_effort=_bound(record, "effort limit", effort, findings),
        authored_position=position,
        driven=drive is not None,
    )


def reference(
    record: JointRecord, axis: DofAxis, *, solvers: Sequence[str], units: Units, findings: DiagnosticCollector
) -> float:
    """Return MuJoCo's own coordinate of a joint (rad or m) where its frames coincide, which is zero here.

    The asset's limits, and where its spring rests, are in MuJoCo's coordinate.
    """
    if record.type_name not in _WITH_REFERENCE or "mjc:ref" not in record.solver_attributes:
        return 0.0
    value = resolve(record, "reference", axis, solvers=solvers, units=units) or 0.0
    if abs(value) <= MAX_MAGNITUDE:
        return value
    findings.error(
        "1.3.joint.solver",
        record.path,
        f"the reference {quoted(value)} of a solver's schema cannot be used; 0 is used",
        "author a finite number",
        attribute="mjc:ref",
    )
    return 0.0


def _bound(record: JointRecord, what: str, value: float | None, findings: DiagnosticCollector) -> float:
    if value is None:
        return math.inf
    if math.isnan(value) or value < 0.0:
        findings.error(
            "1.3.limits",
            record.path,
            f"the {what} {quoted(value)} is not a positive number; there is none then",
            "author a positive number",
        )
        return math.inf
    return value
