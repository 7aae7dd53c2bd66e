"""Solver-specific joint attributes: one table, read in the caller's order of solvers.

An authored value counts in the order of the solvers; then the caller's default; then the schema's default of the
first solver that has one: the semantics of Newton's schema resolvers. Angles in USD are degrees, lengths are stage
units; `Quantity` says how a value becomes SI.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from usd_ros_bridge.errors import OptionError, alternatives
from usd_ros_bridge.model.physics_records import SOLIMP, SOLREF
from usd_ros_bridge.model.records import DofAxis, JointRecord
from usd_ros_bridge.options import SOLVERS
from usd_ros_bridge.planning.stage_index import Units

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
    """Return the least and greatest effort of MuJoCo's actuators on a joint, as authored, None where unbounded.

    As in MuJoCo: without an explicit flag, a range limits.
    """
    limited = authored.get("mjc:actuatorfrclimited", "auto")
    lower, upper = (number(authored.get(f"mjc:actuatorfrcrange:{end}")) or 0.0 for end in ("min", "max"))
    return (lower, upper) if limited in ("auto", "true") and lower < upper else None


def _effort_limit(authored: Mapping[str, Any]) -> float | None:
    """Return the greater bound: an effort limit is the same in both directions."""
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
        "physx": (
            SolverAttribute("physxJointAxis:{axis}:staticFrictionEffort", "effort", 0.0),
            SolverAttribute("physxJointAxis:{axis}:dynamicFrictionEffort", "effort", 0.0),
        ),
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
        "physx": (SolverAttribute("physxJointAxis:{axis}:viscousFrictionCoefficient", "gain", 0.0),),
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
    """Return the order of solvers.

    Raises:
        OptionError: One of them is unknown.
    """
    order = tuple(solvers)
    for solver in order:
        if solver not in SOLVERS:
            raise OptionError(f"schema_resolvers: {solver!r} is unknown; {alternatives(solver, SOLVERS)}")
    return order


def axis_names(record: JointRecord, axis: DofAxis) -> tuple[str, ...]:
    """Return the instance names that a degree of freedom goes by, most usual first."""
    if record.type_name == "PhysicsRevoluteJoint":
        return ("angular", axis)
    if record.type_name == "PhysicsPrismaticJoint":
        return ("linear", axis)
    return (axis,)


@cache
def axis_of(name: str) -> str:
    """Return the instance of an attribute that each degree of freedom may have, "" for other attributes.

    Joint states are left out: a joint that is locked may have one.
    """
    prefix, _, rest = name.partition(":")
    axis, _, rest = rest.partition(":")
    return axis if f"{prefix}:{{axis}}:{rest}" in _of_axes() else ""


@cache
def _of_axes() -> frozenset[str]:
    found = (
        each.name for by_solver in TABLE.values() for attributes in by_solver.values() for each in attributes
    )
    return frozenset(name for name in found if "{axis}" in name and name.startswith("physx"))


def motion_unit(axis: DofAxis, units: Units) -> float:
    """Return radians per degree, or metres per stage unit."""
    return math.pi / 180.0 if axis.startswith("rot") else units.meters


def gain_unit(axis: DofAxis, units: Units) -> float:
    """Return N m/rad per authored effort per degree, or N/m per authored force per stage unit."""
    if axis.startswith("rot"):
        return units.kilograms * units.meters**2 * 180.0 / math.pi
    return units.kilograms


def si_factor(attribute: SolverAttribute, axis: DofAxis, units: Units) -> float:
    """Return what an authored value is multiplied by, in SI units."""
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
    """Return a property of a degree of freedom in SI units.

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
    found = find_authored(record, wanted, axis, solvers=solvers, units=units)
    if found is not None:
        return found.value * found.si
    if default is not None:
        return default
    for solver in solvers:
        for attribute in TABLE[wanted].get(solver, ()):
            if attribute.default is not None:
                return attribute.default * si_factor(attribute, axis, units)
    return None


class Found(NamedTuple):
    """An authored value of a property.

    Attributes:
        name: USD name.
        value: As authored; it may be NaN.
        si: Factor to SI units.
    """

    name: str
    value: float
    si: float


def find_authored(
    record: JointRecord, wanted: Property, axis: DofAxis, *, solvers: Sequence[str], units: Units
) -> Found | None:
    """Return the authored value that `resolve` uses, None without one; arguments as there."""
    return next(find_all_authored(record, wanted, axis, solvers=solvers, units=units), None)


def find_all_authored(
    record: JointRecord, wanted: Property, axis: DofAxis, *, solvers: Sequence[str], units: Units
) -> Iterator[Found]:
    """Yield all authored values of a property, the one that `resolve` uses first; arguments as there."""
    authored = record.solver_attributes
    if not authored:
        return
    for solver in solvers:
        for attribute in TABLE[wanted].get(solver, ()):
            instances = axis_names(record, axis) if "{axis}" in attribute.name else ("",)
            for name in (attribute.name.replace("{axis}", instance) for instance in instances):
                value = number(authored.get(name)) if attribute.read is None else attribute.read(authored)
                if value is not None:
                    yield Found(name, value, si_factor(attribute, axis, units))


def solver_order(wanted: Property, solvers: Sequence[str]) -> Sequence[str]:
    """Return the solvers in the order in which their attributes of a property are used.

    Newton's resolvers have no order for limits: NewtonJointAPI is about the same limits as all others.
    """
    return sorted(solvers, key="newton".__ne__) if wanted.startswith("limit_") else solvers


def uneven_effort(
    record: JointRecord, axis: DofAxis, *, solvers: Sequence[str], units: Units
) -> tuple[float, float] | None:
    """Return the least and greatest effort, N m or N, where they differ in the two directions, else None."""
    bounds = effort_range(record.solver_attributes) if "mjc" in solvers else None
    if bounds is None or bounds[0] == -bounds[1] or not all(map(math.isfinite, bounds)):
        return None
    factor = units.kilograms * units.meters ** (2 if axis.startswith("rot") else 1)
    return bounds[0] * factor, bounds[1] * factor


def position_attributes(record: JointRecord, axis: DofAxis, solvers: Sequence[str]) -> list[str]:
    """Return the USD names under which a degree of freedom's position may be authored, in order of priority."""
    return [
        attribute.name.replace("{axis}", instance)
        for solver in solvers
        for attribute in TABLE["position"].get(solver, ())
        for instance in axis_names(record, axis)
    ]


def urdf_effort(record: JointRecord) -> float | None:
    """Return the effort limit that urdf-usd-converter keeps from a URDF, N m or N, None where there is none."""
    return number(record.solver_attributes.get("urdf:limit:effort"))


def urdf_velocity(record: JointRecord) -> float:
    """Return the speed limit kept from a URDF in `urdf:limit:velocity`, rad/s or m/s, inf where there is none.

    A URDF without a limit has 0, because the attribute is required there.
    """
    return number(record.solver_attributes.get("urdf:limit:velocity")) or math.inf


def number(value: Any) -> float | None:
    """Return `value` as a float where it is a number, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None


Authored = Mapping[str, Any]
Table = Mapping[str, Mapping[str, "Attribute"]]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One solver's name of a property.

    Attributes:
        name: USD name.
        convert: Makes what is resolved of the authored value; None for what means "not specified" or cannot be used.
        length: Whether it is in stage units of length.
        minus: USD name of what is to be subtracted, "" for nothing.
        also: Another USD name of the same, "" for none.
        apis: Applied API schemas whose fallback counts where nothing is authored.
        fallback: That fallback, as it would be authored.
    """

    name: str
    convert: Callable[[Any], Any]
    length: bool = False
    minus: str = ""
    also: str = ""
    apis: tuple[str, ...] = ()
    fallback: Any = None


def _finite(value: Any) -> float | None:
    found = number(value)
    return found if found is not None and math.isfinite(found) else None


def _not_negative(value: Any) -> float | None:
    found = _finite(value)
    return found if found is not None and found >= 0.0 else None


def _count(value: Any) -> int | None:
    found = _finite(value)
    return int(found) if found is not None and found >= 1.0 else None


def _integer(value: Any) -> int | None:
    found = _finite(value)
    return None if found is None else int(found)


def _period(value: Any) -> float | None:
    found = _finite(value)
    return 1.0 / found if found is not None and found > 0.0 else None


def _duration(value: Any) -> float | None:
    found = _finite(value)
    return found if found is not None and found > 0.0 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _token(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count_or_none(value: Any) -> int | None:
    found = _finite(value)
    return int(found) if found is not None and found >= 0.0 else None


def _integers(value: Any) -> tuple[int, ...] | None:
    """Return whole numbers, none at all included."""
    if not isinstance(value, (tuple, list)):
        return None
    found = [_integer(each) for each in value]
    return None if None in found else tuple(found)  # type: ignore[arg-type]


def _vector(value: Any) -> tuple[float, ...] | None:
    found = _numbers(value)
    return found if found is not None and len(found) == 3 else None


def triple(value: Any) -> tuple[float, ...] | None:
    """Return three numbers, finite or not."""
    found = [number(each) for each in value] if isinstance(value, (tuple, list)) else []
    return None if len(found) != 3 or None in found else tuple(found)  # type: ignore[arg-type]


def _numbers(value: Any) -> tuple[float, ...] | None:
    if not isinstance(value, (tuple, list)) or not value:
        return None
    found = tuple(_finite(each) for each in value)
    return None if None in found else found  # type: ignore[return-value]


_NEWTON_SCENE: Final = ("NewtonSceneAPI",)
_MJC_SCENE: Final = ("MjcSceneAPI",)


def _option(name: str, convert: Callable[[Any], Any], fallback: Any) -> Mapping[str, Attribute]:
    return {"mjc": Attribute(f"mjc:option:{name}", convert, apis=_MJC_SCENE, fallback=fallback)}


def _shell(value: Any) -> str | None:
    return "shell" if value is True else None


def _spring_damper(value: Any) -> tuple[float, ...] | None:
    """Return time constant and damping ratio; MuJoCo needs both above 0, and ignores other values."""
    found = _numbers(value)
    return found if found is not None and len(found) == 2 and min(found) > 0.0 else None


def _switch(name: str, *, fallback: bool) -> Mapping[str, Attribute]:
    return {"mjc": Attribute(f"mjc:flag:{name}", _flag, apis=_MJC_SCENE, fallback=fallback)}


# newton-usd-schemas 0.6 (NewtonSceneAPI), PhysxSchema (PhysxSceneAPI), MuJoCo's mjcPhysics (MjcSceneAPI).
SCENE: Final[Table] = {
    "timestep": {
        "newton": Attribute("newton:timeStepsPerSecond", _period, apis=_NEWTON_SCENE, fallback=1000),
        "physx": Attribute("physxScene:timeStepsPerSecond", _period),
        "mjc": Attribute("mjc:option:timestep", _duration, apis=_MJC_SCENE, fallback=0.002),
    },
    "iterations": {
        "newton": Attribute("newton:maxSolverIterations", _count, apis=_NEWTON_SCENE, fallback=-1),
        "physx": Attribute("physxScene:maxVelocityIterationCount", _count),
        "mjc": Attribute("mjc:option:iterations", _count, apis=_MJC_SCENE, fallback=100),
    },
    "gravity_enabled": {
        "newton": Attribute("newton:gravityEnabled", _flag, apis=_NEWTON_SCENE, fallback=True),
        "mjc": Attribute("mjc:flag:gravity", _flag, apis=_MJC_SCENE, fallback=True),
    },
    "cone": _option("cone", _token, "pyramidal"),
    "integrator": _option("integrator", _token, "euler"),
    "solver": _option("solver", _token, "newton"),
    "jacobian": _option("jacobian", _token, "auto"),
    "impratio": _option("impratio", _duration, 1.0),
    "tolerance": _option("tolerance", _not_negative, 1e-8),
    "ls_iterations": _option("ls_iterations", _count, 50),
    "ls_tolerance": _option("ls_tolerance", _not_negative, 0.01),
    "noslip_iterations": _option("noslip_iterations", _count_or_none, 0),
    "noslip_tolerance": _option("noslip_tolerance", _not_negative, 1e-6),
    "ccd_iterations": _option("ccd_iterations", _count, 35),
    "ccd_tolerance": _option("ccd_tolerance", _not_negative, 1e-6),
    "sdf_initpoints": _option("sdf_initpoints", _count, 40),
    "sdf_iterations": _option("sdf_iterations", _count, 10),
    "density": _option("density", _not_negative, 0.0),
    "viscosity": _option("viscosity", _not_negative, 0.0),
    "wind": _option("wind", _vector, (0.0, 0.0, 0.0)),
    "magnetic": _option("magnetic", _vector, (0.0, -0.5, 0.0)),
    "o_margin": _option("o_margin", _not_negative, 0.0),
    "o_solref": _option("o_solref", _numbers, SOLREF),
    "o_solimp": _option("o_solimp", _numbers, SOLIMP),
    "o_friction": _option("o_friction", _numbers, (1.0, 1.0, 0.005, 0.0001, 0.0001)),
    "disabled_actuator_groups": _option("actuatorgroupdisable", _integers, ()),
    "flag_actuation": _switch("actuation", fallback=True),
    "flag_clampctrl": _switch("clampctrl", fallback=True),
    "flag_constraint": _switch("constraint", fallback=True),
    "flag_contact": _switch("contact", fallback=True),
    "flag_damper": _switch("damper", fallback=True),
    "flag_equality": _switch("equality", fallback=True),
    "flag_eulerdamp": _switch("eulerdamp", fallback=True),
    "flag_filterparent": _switch("filterparent", fallback=True),
    "flag_frictionloss": _switch("frictionloss", fallback=True),
    "flag_island": _switch("island", fallback=True),
    "flag_limit": _switch("limit", fallback=True),
    "flag_midphase": _switch("midphase", fallback=True),
    "flag_multiccd": _switch("multiccd", fallback=True),
    "flag_nativeccd": _switch("nativeccd", fallback=True),
    "flag_override": _switch("override", fallback=False),
    "flag_refsafe": _switch("refsafe", fallback=True),
    "flag_spring": _switch("spring", fallback=True),
    "flag_warmstart": _switch("warmstart", fallback=True),
    "balance_inertia": {"mjc": Attribute("mjc:compiler:balanceInertia", _flag)},
    "bound_inertia": {"mjc": Attribute("mjc:compiler:boundInertia", _not_negative)},
    "bound_mass": {"mjc": Attribute("mjc:compiler:boundMass", _not_negative)},
    "total_mass": {"mjc": Attribute("mjc:compiler:setTotalMass", _duration)},
}
"""Of a PhysicsScene prim; timestep in s."""

# newton-usd-schemas 0.6 (NewtonArticulationRootAPI), PhysxSchema (PhysxArticulationAPI).
ARTICULATION: Final[Table] = {
    "self_collision": {
        "newton": Attribute("newton:selfCollisionEnabled", _flag),
        "physx": Attribute("physxArticulation:enabledSelfCollisions", _flag),
    },
}
"""Of a prim with PhysicsArticulationRootAPI."""

# newton-usd-schemas 0.6 (NewtonCollisionAPI, NewtonMeshCollisionAPI), PhysxSchema (PhysxCollisionAPI, Physx*Collision),
# MuJoCo's mjcPhysics (MjcCollisionAPI, MjcMeshCollisionAPI). PhysX writes -inf for "not specified", and measures its
# contact offset from the shape, not from the rest offset.
_MJC_COLLISION: Final = ("MjcCollisionAPI",)
COLLIDER: Final[Table] = {
    "margin": {
        "newton": Attribute(
            "newton:contactMargin", _finite, length=True, apis=("NewtonCollisionAPI",), fallback=0.0
        ),
        "physx": Attribute("physxCollision:restOffset", _finite, length=True),
        "mjc": Attribute("mjc:margin", _finite, length=True, apis=_MJC_COLLISION, fallback=0.0),
    },
    "gap": {
        "newton": Attribute("newton:contactGap", _finite, length=True),
        "physx": Attribute(
            "physxCollision:contactOffset", _finite, length=True, minus="physxCollision:restOffset"
        ),
        "mjc": Attribute("mjc:gap", _finite, length=True),
    },
    "max_hull_vertices": {
        "newton": Attribute("newton:maxHullVertices", _count),
        "physx": Attribute("physxConvexHullCollision:hullVertexLimit", _count),
        "mjc": Attribute("mjc:maxhullvert", _count),
    },
    "max_hulls": {"physx": Attribute("physxConvexDecompositionCollision:maxConvexHulls", _count)},
    "mass_model": {
        "newton": Attribute("newton:massModel", _token),
        "mjc": Attribute("mjc:shellinertia", _shell),
    },
    "shell_thickness": {"newton": Attribute("newton:shellThickness", _duration, length=True)},
    "mesh_inertia": {
        "mjc": Attribute("mjc:inertia", _token, apis=("MjcMeshCollisionAPI",), fallback="legacy")
    },
    "condim": {"mjc": Attribute("mjc:condim", _count, apis=_MJC_COLLISION, fallback=3)},
    "priority": {"mjc": Attribute("mjc:priority", _integer, apis=_MJC_COLLISION, fallback=0)},
    "solmix": {"mjc": Attribute("mjc:solmix", _not_negative, apis=_MJC_COLLISION, fallback=1.0)},
    "solref": {"mjc": Attribute("mjc:solref", _numbers)},
    "solimp": {"mjc": Attribute("mjc:solimp", _numbers)},
}
"""Of a prim with PhysicsCollisionAPI: `margin` is how far apart surfaces are held, `gap` from how much further on
contacts are found, both in m."""

COMBINE_MODES: Final = ("average", "min", "multiply", "max")
"""How PhysX combines the coefficients of two materials; where they differ, the one that comes last here wins."""

# newton-usd-schemas 0.6 (NewtonMaterialAPI), PhysxSchema (PhysxMaterialAPI), MuJoCo's mjcPhysics (MjcMaterialAPI).
MATERIAL: Final[Table] = {
    "torsional_friction": {
        "newton": Attribute(
            "newton:torsionalFriction",
            _not_negative,
            length=True,
            apis=("NewtonMaterialAPI",),
            fallback=0.005,
        ),
        "mjc": Attribute(
            "mjc:torsionalfriction", _not_negative, length=True, apis=("MjcMaterialAPI",), fallback=0.005
        ),
    },
    "rolling_friction": {
        "newton": Attribute(
            "newton:rollingFriction", _not_negative, length=True, apis=("NewtonMaterialAPI",), fallback=0.0001
        ),
        "mjc": Attribute(
            "mjc:rollingfriction", _not_negative, length=True, apis=("MjcMaterialAPI",), fallback=0.0001
        ),
    },
    "friction_combine": {"physx": Attribute("physxMaterial:frictionCombineMode", _token)},
    "restitution_combine": {"physx": Attribute("physxMaterial:restitutionCombineMode", _token)},
    "priority": {"mjc": Attribute("mjc:priority", _integer)},
    "solmix": {"mjc": Attribute("mjc:solmix", _not_negative)},
    "solref": {"mjc": Attribute("mjc:solref", _numbers)},
    "solimp": {"mjc": Attribute("mjc:solimp", _numbers)},
    "contact_stiffness": {"newton": Attribute("newton:contactStiffness", _duration)},
    "contact_damping": {"newton": Attribute("newton:contactDamping", _duration)},
}
"""Of a prim with PhysicsMaterialAPI; a collider's own values of the same name win. Torsional and rolling friction are
lengths, as MuJoCo defines them."""

# MuJoCo's mjcPhysics (MjcJointAPI, MjcEqualityAPI and what derives from it).
_MJC_JOINT: Final = ("MjcJointAPI",)
_MJC_EQUALITY: Final = (
    "MjcEqualityAPI",
    "MjcEqualityConnectAPI",
    "MjcEqualityWeldAPI",
    "MjcEqualityJointAPI",
)
JOINT: Final[Table] = {
    "solref_limit": {"mjc": Attribute("mjc:solreflimit", _numbers, apis=_MJC_JOINT, fallback=SOLREF)},
    "solimp_limit": {"mjc": Attribute("mjc:solimplimit", _numbers)},
    "solref_friction": {"mjc": Attribute("mjc:solreffriction", _numbers)},
    "solimp_friction": {"mjc": Attribute("mjc:solimpfriction", _numbers)},
    "limit_margin": {"mjc": Attribute("mjc:margin", _not_negative)},
    "spring_damper": {"mjc": Attribute("mjc:springdamper", _spring_damper)},
    "actuator_gravity_compensation": {"mjc": Attribute("mjc:actuatorgravcomp", _flag)},
    "solref": {"mjc": Attribute("mjc:solref", _numbers, apis=_MJC_EQUALITY, fallback=SOLREF)},
    "solimp": {"mjc": Attribute("mjc:solimp", _numbers, apis=_MJC_EQUALITY, fallback=SOLIMP)},
    "torque_scale": {
        "mjc": Attribute("mjc:torqueScale", _finite, apis=("MjcEqualityWeldAPI",), fallback=1.0)
    },
}
"""Of a joint as a whole; `solref` and `solimp` are those of the equality that the joint is, or has."""

# PhysxSchema (PhysxRigidBodyAPI, PhysxSurfaceVelocityAPI), MuJoCo's mjcPhysics.
BODY: Final[Table] = {
    "gravity_disabled": {"physx": Attribute("physxRigidBody:disableGravity", _flag)},
    "linear_damping": {"physx": Attribute("physxRigidBody:linearDamping", number)},
    "angular_damping": {"physx": Attribute("physxRigidBody:angularDamping", number)},
    "surface_enabled": {"physx": Attribute("physxSurfaceVelocity:surfaceVelocityEnabled", _flag)},
    "surface_in_own_axes": {"physx": Attribute("physxSurfaceVelocity:surfaceVelocityLocalSpace", _flag)},
    "surface_velocity": {"physx": Attribute("physxSurfaceVelocity:surfaceVelocity", triple)},
    "surface_angular_velocity": {"physx": Attribute("physxSurfaceVelocity:surfaceAngularVelocity", triple)},
    "gravity_compensation": {"mjc": Attribute("mjc:gravcomp", _finite, also="mjc:body:gravcomp")},
}
"""Attributes of rigid bodies. Planning reports numbers that cannot be used."""


def resolve_all(
    authored: Authored,
    table: Table,
    solvers: Sequence[str],
    *,
    meters: float = 1.0,
    applied: Collection[str] = (),
) -> dict[str, Any]:
    """Return what a prim authors or its applied schemas fall back to, by resolved name, lengths in m.

    Args:
        authored: Values below the solvers' prefixes by USD name.
        table: Names of each property by solver.
        solvers: Solvers in order of priority.
        meters: Metres per stage unit.
        applied: Names of the prim's applied API schemas.
    """
    found: dict[str, Any] = {}
    if not authored and not applied:
        return found
    for wanted, by_solver in table.items():
        attributes = [by_solver[solver] for solver in solvers if solver in by_solver]
        values = [
            *(_resolve(authored, attribute, meters) for attribute in attributes if authored),
            *(_fallback(attribute, applied, meters) for attribute in attributes if applied),
        ]
        value = next((value for value in values if value is not None), None)
        if value is not None:
            found[wanted] = value
    return found


def _resolve(authored: Authored, attribute: Attribute, meters: float) -> Any:
    raw = authored.get(attribute.name)
    if raw is None and attribute.also:
        raw = authored.get(attribute.also)
    value = None if raw is None else attribute.convert(raw)
    if value is not None and attribute.minus:
        less = attribute.convert(authored.get(attribute.minus))
        value = None if less is None else value - less
    return value * meters if value is not None and attribute.length else value


def _fallback(attribute: Attribute, applied: Collection[str], meters: float) -> Any:
    if attribute.fallback is None or not any(api in applied for api in attribute.apis):
        return None
    value = attribute.convert(attribute.fallback)
    return value * meters if value is not None and attribute.length else value
