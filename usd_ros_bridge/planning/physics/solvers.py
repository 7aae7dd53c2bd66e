"""Solver attributes of scenes, articulations, colliders and contact materials: tables, read in the caller's order.

An authored value counts first, in the order of the solvers; then the fallback of a schema that is applied, in the same
order. What neither gives is the engine's to choose. Joints have a table of their own, in `planning.resolvers`, with
the same order of solvers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from usd_ros_bridge.planning.resolvers import number

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
    """Returns whole numbers, none at all included."""
    if not isinstance(value, (tuple, list)):
        return None
    found = [_integer(each) for each in value]
    return None if None in found else tuple(found)  # type: ignore[arg-type]


def _vector(value: Any) -> tuple[float, ...] | None:
    found = _numbers(value)
    return found if found is not None and len(found) == 3 else None


def _numbers(value: Any) -> tuple[float, ...] | None:
    if not isinstance(value, (tuple, list)) or not value:
        return None
    found = tuple(_finite(each) for each in value)
    return None if None in found else found  # type: ignore[return-value]


_NEWTON_SCENE: Final = ("NewtonSceneAPI",)
_MJC_SCENE: Final = ("MjcSceneAPI",)
_SOLREF: Final = (0.02, 1.0)
_SOLIMP: Final = (0.9, 0.95, 0.001, 0.5, 2.0)


def _option(name: str, convert: Callable[[Any], Any], fallback: Any) -> Mapping[str, Attribute]:
    return {"mjc": Attribute(f"mjc:option:{name}", convert, apis=_MJC_SCENE, fallback=fallback)}


def _shell(value: Any) -> str | None:
    return "shell" if value is True else None


def _spring_damper(value: Any) -> tuple[float, ...] | None:
    """Returns time constant and damping ratio; MuJoCo wants both above 0, and takes anything else for none."""
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
    "o_solref": _option("o_solref", _numbers, _SOLREF),
    "o_solimp": _option("o_solimp", _numbers, _SOLIMP),
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
    "solref_limit": {"mjc": Attribute("mjc:solreflimit", _numbers, apis=_MJC_JOINT, fallback=_SOLREF)},
    "solimp_limit": {"mjc": Attribute("mjc:solimplimit", _numbers)},
    "solref_friction": {"mjc": Attribute("mjc:solreffriction", _numbers)},
    "solimp_friction": {"mjc": Attribute("mjc:solimpfriction", _numbers)},
    "limit_margin": {"mjc": Attribute("mjc:margin", _not_negative)},
    "spring_damper": {"mjc": Attribute("mjc:springdamper", _spring_damper)},
    "actuator_gravity_compensation": {"mjc": Attribute("mjc:actuatorgravcomp", _flag)},
    "solref": {"mjc": Attribute("mjc:solref", _numbers, apis=_MJC_EQUALITY, fallback=_SOLREF)},
    "solimp": {"mjc": Attribute("mjc:solimp", _numbers, apis=_MJC_EQUALITY, fallback=_SOLIMP)},
    "torque_scale": {
        "mjc": Attribute("mjc:torqueScale", _finite, apis=("MjcEqualityWeldAPI",), fallback=1.0)
    },
}
"""Of a joint as a whole; `solref` and `solimp` are those of the equality that the joint is, or has."""

# PhysxSchema (PhysxRigidBodyAPI), MuJoCo's mjcPhysics.
BODY: Final[Table] = {
    "gravity_disabled": {"physx": Attribute("physxRigidBody:disableGravity", _flag)},
    "gravity_compensation": {"mjc": Attribute("mjc:gravcomp", _finite, also="mjc:body:gravcomp")},
}
"""Of a rigid body."""


def resolve_all(
    authored: Authored,
    table: Table,
    solvers: Sequence[str],
    *,
    meters: float = 1.0,
    applied: Collection[str] = (),
) -> dict[str, Any]:
    """Returns what a prim authors or its applied schemas fall back to, by resolved name, lengths in m.

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
