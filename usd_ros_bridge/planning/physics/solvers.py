"""Solver attributes of scenes, articulations, colliders and contact materials: tables, read in the caller's order.

Only authored values count here: what nobody authored is the engine's to choose. Joints have a table of their own, in
`planning.resolvers`, with the same order of solvers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
    """

    name: str
    convert: Callable[[Any], Any]
    length: bool = False
    minus: str = ""


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


def _numbers(value: Any) -> tuple[float, ...] | None:
    if not isinstance(value, (tuple, list)) or not value:
        return None
    found = tuple(_finite(each) for each in value)
    return None if None in found else found  # type: ignore[return-value]


# newton-usd-schemas 0.6 (NewtonSceneAPI), PhysxSchema (PhysxSceneAPI), MuJoCo's mjcPhysics (MjcSceneAPI).
SCENE: Final[Table] = {
    "timestep": {
        "newton": Attribute("newton:timeStepsPerSecond", _period),
        "physx": Attribute("physxScene:timeStepsPerSecond", _period),
        "mjc": Attribute("mjc:option:timestep", _duration),
    },
    "iterations": {
        "newton": Attribute("newton:maxSolverIterations", _count),
        "physx": Attribute("physxScene:maxVelocityIterationCount", _count),
        "mjc": Attribute("mjc:option:iterations", _count),
    },
    "gravity_enabled": {
        "newton": Attribute("newton:gravityEnabled", _flag),
        "mjc": Attribute("mjc:flag:gravity", _flag),
    },
    "tolerance": {"mjc": Attribute("mjc:option:tolerance", _not_negative)},
    "impratio": {"mjc": Attribute("mjc:option:impratio", _duration)},
    "cone": {"mjc": Attribute("mjc:option:cone", _token)},
    "integrator": {"mjc": Attribute("mjc:option:integrator", _token)},
    "solver": {"mjc": Attribute("mjc:option:solver", _token)},
    "jacobian": {"mjc": Attribute("mjc:option:jacobian", _token)},
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
COLLIDER: Final[Table] = {
    "margin": {
        "newton": Attribute("newton:contactMargin", _finite, length=True),
        "physx": Attribute("physxCollision:restOffset", _finite, length=True),
        "mjc": Attribute("mjc:margin", _finite, length=True),
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
    "condim": {"mjc": Attribute("mjc:condim", _count)},
    "priority": {"mjc": Attribute("mjc:priority", _integer)},
    "solmix": {"mjc": Attribute("mjc:solmix", _not_negative)},
    "solref": {"mjc": Attribute("mjc:solref", _numbers)},
    "solimp": {"mjc": Attribute("mjc:solimp", _numbers)},
}
"""Of a prim with PhysicsCollisionAPI: `margin` is how far apart surfaces are held, `gap` from how much further on
contacts are found, both in m."""

# newton-usd-schemas 0.6 (NewtonMaterialAPI), PhysxSchema (PhysxMaterialAPI), MuJoCo's mjcPhysics (MjcMaterialAPI).
MATERIAL: Final[Table] = {
    "torsional_friction": {
        "newton": Attribute("newton:torsionalFriction", _not_negative, length=True),
        "mjc": Attribute("mjc:torsionalfriction", _not_negative, length=True),
    },
    "rolling_friction": {
        "newton": Attribute("newton:rollingFriction", _not_negative, length=True),
        "mjc": Attribute("mjc:rollingfriction", _not_negative, length=True),
    },
    "friction_combine": {"physx": Attribute("physxMaterial:frictionCombineMode", _token)},
    "restitution_combine": {"physx": Attribute("physxMaterial:restitutionCombineMode", _token)},
    "priority": {"mjc": Attribute("mjc:priority", _integer)},
    "solmix": {"mjc": Attribute("mjc:solmix", _not_negative)},
    "solref": {"mjc": Attribute("mjc:solref", _numbers)},
    "solimp": {"mjc": Attribute("mjc:solimp", _numbers)},
}
"""Of a prim with PhysicsMaterialAPI; a collider's own values of the same name win. Torsional and rolling friction are
lengths, as MuJoCo defines them."""

# MuJoCo's mjcPhysics (MjcJointAPI).
JOINT: Final[Table] = {
    "solref_limit": {"mjc": Attribute("mjc:solreflimit", _numbers)},
    "solimp_limit": {"mjc": Attribute("mjc:solimplimit", _numbers)},
    "solref_friction": {"mjc": Attribute("mjc:solreffriction", _numbers)},
    "solimp_friction": {"mjc": Attribute("mjc:solimpfriction", _numbers)},
}
"""Of a joint as a whole."""

# PhysxSchema (PhysxRigidBodyAPI), MuJoCo's mjcPhysics.
BODY: Final[Table] = {
    "gravity_disabled": {"physx": Attribute("physxRigidBody:disableGravity", _flag)},
    "gravity_compensation": {"mjc": Attribute("mjc:gravcomp", _finite)},
}
"""Of a rigid body."""


def resolve_all(
    authored: Authored, table: Table, solvers: Sequence[str], *, meters: float = 1.0
) -> dict[str, Any]:
    """Returns what a prim authors, by resolved name, lengths in m.

    Args:
        authored: Values below the solvers' prefixes by USD name.
        table: Names of each property by solver.
        solvers: Solvers in order of priority.
        meters: Metres per stage unit.
    """
    found: dict[str, Any] = {}
    if not authored:
        return found
    for wanted, by_solver in table.items():
        for solver in solvers:
            attribute = by_solver.get(solver)
            value = None if attribute is None else _resolve(authored, attribute, meters)
            if value is not None:
                found[wanted] = value
                break
    return found


def _resolve(authored: Authored, attribute: Attribute, meters: float) -> Any:
    raw = authored.get(attribute.name)
    value = None if raw is None else attribute.convert(raw)
    if value is not None and attribute.minus:
        less = attribute.convert(authored.get(attribute.minus))
        value = None if less is None else value - less
    return value * meters if value is not None and attribute.length else value
