"""Solver-specific joint attributes: one table, read in the caller's order of solvers.

An authored value counts in the order of the solvers; then the caller's default; then the schema's default of the
first solver that has one: the semantics of Newton's schema resolvers. Angles in USD are degrees, lengths are stage
units; `Quantity` says how a value becomes SI.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from usd_ros_bridge.model.errors import OptionError, choices
from usd_ros_bridge.model.options import SOLVERS
from usd_ros_bridge.model.plan import DofAxis
from usd_ros_bridge.model.records import JointRecord
from usd_ros_bridge.planning.poses import Units

Property = Literal[
    "armature",
    "friction",
    "stiffness",
    "spring_position",
    "reference",
    "limit_stiffness",
    "limit_damping",
    "damping",
    "velocity_limit",
    "effort_limit",
    "position",
    "velocity",
]
Quantity = Literal["motion", "coordinate", "effort", "inertia", "gain"]


@dataclass(frozen=True, slots=True)
class SolverAttribute:
    """One solver's name of a property.

    Attributes:
        name: USD name; `{axis}` stands for each of the axis names a degree of freedom goes by.
        quantity: `motion` is in degrees or stage units, `coordinate` in MuJoCo's angles or stage units, `effort` and
            `inertia` in mass, length and seconds, `gain` in effort per motion or per its rate.
        default: The schema's default, None where it has none.
        radians: Whether angles are radians already (MuJoCo).
        read: Gives the value where several attributes make it, of all that is authored.
    """

    name: str
    quantity: Quantity
    default: float | None = None
    radians: bool = False
    read: Callable[[Mapping[str, Any]], float | None] | None = None


def effort_range(authored: Mapping[str, Any]) -> tuple[float, float] | None:
    """Returns the least and greatest effort of MuJoCo's actuators on a joint, as authored, None where unbounded.

    As in MuJoCo: what is not said to be limited or not is limited where there is a range.
    """
    limited = authored.get("mjc:actuatorfrclimited", "auto")
    lower, upper = (number(authored.get(f"mjc:actuatorfrcrange:{end}")) or 0.0 for end in ("min", "max"))
    return (lower, upper) if limited in ("auto", "true") and lower < upper else None


def _effort_limit(authored: Mapping[str, Any]) -> float | None:
    """Returns the greater bound: an effort limit is the same in both directions."""
    bounds = effort_range(authored)
    return None if bounds is None else max(abs(bounds[0]), abs(bounds[1]))


# Names and defaults: newton-usd-schemas 0.6 (NewtonJointAPI), PhysxSchema (PhysxJointAPI, PhysxJointAxisAPI,
# PhysxLimitAPI, PhysicsJointStateAPI), MuJoCo's mjcPhysics (MjcJointAPI: SI but for ref and springref, which are in the
# unit of the scene's mjc:compiler:angle, as MJCF has them).
TABLE: Mapping[Property, Mapping[str, tuple[SolverAttribute, ...]]] = {
    "armature": {
        "newton": (SolverAttribute("newton:armature", "inertia", 0.0),),
        "physx": (
            SolverAttribute("physxJointAxis:{axis}:armature", "inertia"),
            SolverAttribute("physxJoint:armature", "inertia", 0.0),
        ),
        "mjc": (SolverAttribute("mjc:armature", "inertia", 0.0, radians=True),),
    },
    "friction": {
        "newton": (SolverAttribute("newton:friction", "effort", 0.0),),
        "physx": (SolverAttribute("physxJointAxis:{axis}:staticFrictionEffort", "effort", 0.0),),
        "mjc": (SolverAttribute("mjc:frictionloss", "effort", 0.0, radians=True),),
    },
    "stiffness": {
        "mjc": (SolverAttribute("mjc:stiffness", "gain", 0.0, radians=True),),
    },
    "spring_position": {
        "mjc": (SolverAttribute("mjc:springref", "coordinate", 0.0),),
    },
    "reference": {
        "mjc": (SolverAttribute("mjc:ref", "coordinate", 0.0),),
    },
    "damping": {
        "newton": (SolverAttribute("newton:damping", "gain", 0.0),),
        "mjc": (SolverAttribute("mjc:damping", "gain", 0.0, radians=True),),
    },
    "limit_stiffness": {
        "newton": (SolverAttribute("newton:limitStiffness", "gain"),),
        "physx": (SolverAttribute("physxLimit:{axis}:stiffness", "gain"),),
    },
    "limit_damping": {
        "newton": (SolverAttribute("newton:limitDamping", "gain"),),
        "physx": (SolverAttribute("physxLimit:{axis}:damping", "gain"),),
    },
    "velocity_limit": {
        "newton": (SolverAttribute("newton:velocityLimit", "motion", math.inf),),
        "physx": (
            SolverAttribute("physxJointAxis:{axis}:maxJointVelocity", "motion"),
            SolverAttribute("physxJoint:maxJointVelocity", "motion"),
        ),
    },
    "effort_limit": {
        "newton": (SolverAttribute("newton:effortLimit", "effort", math.inf),),
        "mjc": (SolverAttribute("mjc:actuatorfrcrange:max", "effort", radians=True, read=_effort_limit),),
    },
    "position": {
        "newton": (SolverAttribute("newton:{axis}:position", "motion"),),
        "physx": (SolverAttribute("state:{axis}:physics:position", "motion"),),
    },
    "velocity": {
        "newton": (SolverAttribute("newton:{axis}:velocity", "motion"),),
        "physx": (SolverAttribute("state:{axis}:physics:velocity", "motion"),),
    },
}


def check_solvers(solvers: Iterable[str]) -> tuple[str, ...]:
    """Returns the order of solvers.

    Raises:
        OptionError: One of them is unknown.
    """
    order = tuple(solvers)
    for solver in order:
        if solver not in SOLVERS:
            raise OptionError(f"schema_resolvers: {solver!r} is unknown; possible: {choices(SOLVERS)}")
    return order


def axis_names(record: JointRecord, axis: DofAxis) -> tuple[str, ...]:
    """Returns the instance names that a degree of freedom goes by, most usual first."""
    if record.type_name == "PhysicsRevoluteJoint":
        return ("angular", axis)
    if record.type_name == "PhysicsPrismaticJoint":
        return ("linear", axis)
    return (axis,)


def motion_unit(axis: DofAxis, units: Units) -> float:
    """Returns radians per degree, or metres per stage unit."""
    return math.pi / 180.0 if axis.startswith("rot") else units.meters


def gain_unit(axis: DofAxis, units: Units) -> float:
    """Returns N m/rad per authored effort per degree, or N/m per authored force per stage unit."""
    if axis.startswith("rot"):
        return units.kilograms * units.meters**2 * 180.0 / math.pi
    return units.kilograms


def _si_factor(attribute: SolverAttribute, axis: DofAxis, units: Units) -> float:
    rotational = axis.startswith("rot")
    if attribute.quantity == "motion":
        return 1.0 if rotational and attribute.radians else motion_unit(axis, units)
    if attribute.quantity == "coordinate":
        return units.mjc_angle if rotational else units.meters
    if attribute.quantity == "effort":
        return units.kilograms * units.meters ** (2 if rotational else 1)
    if attribute.quantity == "gain":
        return (
            gain_unit(axis, units)
            if not (rotational and attribute.radians)
            else units.kilograms * units.meters**2
        )
    return units.kilograms * (units.meters**2 if rotational else 1.0)


def resolve(
    record: JointRecord,
    wanted: Property,
    axis: DofAxis,
    *,
    solvers: Sequence[str],
    units: Units,
    default: float | None = None,
) -> float | None:
    """Returns a property of a degree of freedom in SI units.

    Args:
        record: The joint.
        wanted: Which property.
        axis: Which degree of freedom.
        solvers: Solvers in order of priority.
        units: The stage's units.
        default: What an unauthored property is, in SI units; None leaves it to the schemas.

    Returns:
        The value, which may be NaN where NaN is authored; None where nothing gives one.
    """
    authored = record.solver_attributes
    by_solver = TABLE[wanted]
    if authored:
        for solver in solvers:
            for attribute in by_solver.get(solver, ()):
                value = _authored(record, attribute, axis)
                if value is not None:
                    return value * _si_factor(attribute, axis, units)
    if default is not None:
        return default
    for solver in solvers:
        for attribute in by_solver.get(solver, ()):
            if attribute.default is not None:
                return attribute.default * _si_factor(attribute, axis, units)
    return None


def _authored(record: JointRecord, attribute: SolverAttribute, axis: DofAxis) -> float | None:
    authored = record.solver_attributes
    if attribute.read is not None:
        return attribute.read(authored)
    instances = axis_names(record, axis) if "{axis}" in attribute.name else ("",)
    values = (number(authored.get(attribute.name.replace("{axis}", instance))) for instance in instances)
    return next((value for value in values if value is not None), None)


def uneven_effort(
    record: JointRecord, axis: DofAxis, *, solvers: Sequence[str], units: Units
) -> tuple[float, float] | None:
    """Returns the least and greatest effort, N m or N, where they differ in the two directions, else None."""
    bounds = effort_range(record.solver_attributes) if "mjc" in solvers else None
    if bounds is None or bounds[0] == -bounds[1] or not all(map(math.isfinite, bounds)):
        return None
    factor = units.kilograms * units.meters ** (2 if axis.startswith("rot") else 1)
    return bounds[0] * factor, bounds[1] * factor


def position_attributes(record: JointRecord, axis: DofAxis, solvers: Sequence[str]) -> list[str]:
    """Returns the USD names under which a degree of freedom's position may be authored, in order of priority."""
    return [
        attribute.name.replace("{axis}", instance)
        for solver in solvers
        for attribute in TABLE["position"].get(solver, ())
        for instance in axis_names(record, axis)
    ]


def urdf_effort(record: JointRecord) -> float | None:
    """Returns the effort limit that urdf-usd-converter keeps from a URDF, N m or N, None where there is none."""
    return number(record.solver_attributes.get("urdf:limit:effort"))


def urdf_velocity(record: JointRecord) -> float:
    """Returns the speed limit kept from a URDF in `urdf:limit:velocity`, rad/s or m/s, inf where there is none.

    A URDF that knows no limit says 0, because the attribute is required there.
    """
    return number(record.solver_attributes.get("urdf:limit:velocity")) or math.inf


def number(value: Any) -> float | None:
    """Returns `value` as a float where it is a number, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None
