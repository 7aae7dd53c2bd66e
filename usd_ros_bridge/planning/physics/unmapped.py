"""Unmapped attributes: report by prim the solver attributes that have no effect here, and typing errors among them.

Many attributes of PhysX' schemas concern PhysX alone: of these, typing errors are reported, and DEGRADED.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from usd_ros_bridge.errors import question_about, quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector, degraded
from usd_ros_bridge.model.physics_records import PhysicsRecords
from usd_ros_bridge.model.property_names import OF_ACTUATORS, near_misses
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.kinematics import solver_attributes
from usd_ros_bridge.planning.kinematics.dofs import AXES
from usd_ros_bridge.planning.kinematics.solver_attributes import TABLE

PREFIXES: Final = ("newton:", "mjc:")
CHECKED: Final = (*PREFIXES, "physx")

_INFINITE: Final = float("inf")

READ_ELSEWHERE: Final = frozenset(
    {
        "mjc:compiler:angle",
        "mjc:compiler:inertiaGroupRange:min",
        "mjc:compiler:inertiaGroupRange:max",
        "mjc:group",
        "mjc:actuatorfrclimited",
        "mjc:actuatorfrcrange:min",
        "mjc:target",
        *(f"mjc:coef{power}" for power in range(5)),
        "newton:inertia",
        "newton:mimicEnabled",
        "newton:mimicJoint",
        "newton:mimicCoef0",
        "newton:mimicCoef1",
    }
)
"""What is read beside the tables of solver attributes: units, masses, mimic rules."""

HARMLESS: Final[Mapping[str, str]] = {
    "mjc:compiler:alignFree": "where MuJoCo's compiler puts the frame of a free body; here it is the prim's",
    "mjc:compiler:autoLimits": "a range that is authored counts, as with MuJoCo's default",
    "mjc:compiler:fitAABB": "how MuJoCo's compiler fits primitives to meshes; a stage has the primitives",
    "mjc:compiler:fuseStatic": "an optimization; bodies keep their names",
    "mjc:compiler:inertiaFromGeom": "masses are those of UsdPhysics; converters author what MuJoCo infers",
    "mjc:compiler:saveInertial": "about saving MJCF",
    "mjc:compiler:useThread": "about the speed of MuJoCo's compiler",
    "mjc:flag:autoreset": "the bridge itself notices what diverges, see on_divergence",
    "mjc:flag:energy": "computes what nothing asks for",
    "mjc:flag:fwdinv": "computes what nothing asks for",
    "mjc:flag:invdiscrete": "about inverse dynamics, which nothing asks for",
    "mjc:flag:sensor": "MuJoCo's own sensors are not in a stage; the bridge's are needed",
    "newton:jointsAddMobility": "joints between the same bodies act one after another in any case",
}
"""What changes nothing about how the asset moves here, and why."""

OTHER_SOLVERS: Final = ("newton:xpbd:", "newton:kamino:", "newton:vbd:", "newton:mpm:", "newton:steel:")
"""Settings of Newton's other solvers begin like this: they mean nothing to MuJoCo's."""

NOT_SIMULATED: Final[Mapping[str, Any]] = {
    "newton:contactFrictionGain": -_INFINITE,
    "newton:contactAdhesion": -_INFINITE,
    "newton:sdfMaxResolution": 64,
    "newton:sdfTargetVoxelSize": -_INFINITE,
    "newton:sdfNarrowBandInner": -0.1,
    "newton:sdfNarrowBandOuter": 0.1,
    "newton:sdfTextureFormat": "uint16",
    "newton:sdfPadding": -_INFINITE,
    "newton:hydroelasticEnabled": False,
    "newton:hydroelasticStiffness": 1e10,
    "mjc:contype": 1,
    "mjc:conaffinity": 1,
    "mjc:dampingPoly": (0.0, 0.0),
    "mjc:sleep": None,
    "mjc:option:sleep_tolerance": None,
}
"""What is not simulated, and the value that says nothing: MuJoCo's mjcPhysics and newton-usd-schemas 0.6, and what
Newton's importer reads beside them."""


DEGRADED: Final[Mapping[str, tuple[Any, str]]] = {
    "physxRigidBody:lockedPosAxis": (0, "the body moves along all axes"),
    "physxRigidBody:lockedRotAxis": (0, "the body turns about all axes"),
    "physxRigidBody:enableGyroscopicForces": (True, "gyroscopic forces act"),
    "physxRigidBody:retainAccelerations": (False, "forces act for one step"),
    "physxRigidBody:solveContact": (True, "contacts push the body"),
}
"""Attributes of PhysX's bodies that are not simulated: the value without an effect, and what is done instead."""

_FRICTION: Final = ("newton:friction", "mjc:frictionloss")
_OF_AXIS: Final = "physxJointAxis:"
_SURFACE: Final = ("physxSurfaceVelocity:surfaceVelocity", "physxSurfaceVelocity:surfaceAngularVelocity")


def _tabled() -> frozenset[str]:
    tables = (
        solver_attributes.SCENE,
        solver_attributes.ARTICULATION,
        solver_attributes.COLLIDER,
        solver_attributes.MATERIAL,
        solver_attributes.JOINT,
        solver_attributes.BODY,
    )
    attributes = [each for table in tables for by_solver in table.values() for each in by_solver.values()]
    names = {name for each in attributes for name in (each.name, each.minus, each.also)}
    for by_solver in TABLE.values():
        for each in (attribute for found in by_solver.values() for attribute in found):
            names |= {each.name.replace("{axis}", axis) for axis in ("angular", "linear", *AXES)}
    return frozenset(names)


MAPPED: Final = _tabled() | READ_ELSEWHERE
"""Attributes that something is made of."""

_SILENT: Final = MAPPED | HARMLESS.keys()

_KNOWN: Final = (
    MAPPED
    | HARMLESS.keys()
    | NOT_SIMULATED.keys()
    | DEGRADED.keys()
    | OF_ACTUATORS
    | {"physxJoint:jointFriction"}
)


def report_unmapped(records: StageRecords, physics: PhysicsRecords, findings: DiagnosticCollector) -> None:
    """Report what is authored and not simulated, in one finding for each prim and kind."""
    prims: Iterable[tuple[str, Mapping[str, Any]]] = (
        *((each.path, each.solver_attributes) for each in physics.scenes),
        *((each.path, each.solver_attributes) for each in records.joints),
        *((each.collider or each.path, each.solver_attributes) for each in physics.geometries),
        *((each.path, each.solver_attributes) for each in physics.materials.values()),
        *physics.body_solver_attributes.items(),
    )
    for path, authored in prims:
        # Nearly always nothing is left.
        left = [name for name in authored.keys() - _SILENT if name.startswith(CHECKED)] if authored else ()
        if left:
            _report(path, {name: authored[name] for name in sorted(left)}, findings)
    _report_degraded(records, physics, findings)


def _report_degraded(records: StageRecords, physics: PhysicsRecords, findings: DiagnosticCollector) -> None:
    """Report what PhysX would simulate otherwise, in one finding for all prims with an attribute."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path, authored in physics.body_solver_attributes.items():
        for name in authored.keys() & DEGRADED.keys():
            fallback, instead = DEGRADED[name]
            if not _is_fallback(authored[name], fallback):
                found.setdefault((name, instead), {})[path] = authored[name]
    for record in records.joints:
        if record.solver_attributes:
            for name, instead in _joint_friction(record.solver_attributes):
                found.setdefault((name, instead), {})[record.path] = record.solver_attributes[name]
    bodies = {body.path for body in records.bodies if body.enabled is not False}
    of_colliders = {
        each.collider or each.path: each.solver_attributes
        for each in physics.geometries
        if each.solver_attributes
    }
    for path, authored in {**of_colliders, **physics.body_solver_attributes}.items():
        for name in _SURFACE if path not in bodies else ():
            value = solver_attributes.triple(authored.get(name))
            if value is not None and any(value):
                instead = "the surface is still, as in PhysX, because the prim is no rigid body"
                found.setdefault((name, instead), {})[path] = authored[name]
    for (name, instead), prims in sorted(found.items()):
        degraded(findings, prims, name, instead)


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
    if authored.get("physxJoint:jointFriction") and not (
        axes or any("staticFriction" in name for name in authored)
    ):
        yield (
            "physxJoint:jointFriction",
            "the joint has no friction that grows with the forces that it transmits",
        )


def misspelt(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return what may be meant by the names that are typing errors."""
    return {name: found for name in names if (found := _suggestions(name))}


@cache
def _suggestions(name: str) -> tuple[str, ...]:
    return () if name in _KNOWN else near_misses(name, _KNOWN)


def _is_fallback(value: Any, fallback: Any) -> bool:
    if isinstance(value, float) and isinstance(fallback, (int, float)):
        # What is authored as float is not exactly the number that it stands for.
        return math.isclose(value, fallback, rel_tol=1e-6)
    return bool(value == fallback)


def _report(path: str, authored: Mapping[str, Any], findings: DiagnosticCollector) -> None:
    wrong = misspelt(authored)
    for name, found in wrong.items():
        findings.warning(
            "schema.attribute",
            path,
            "no schema has this attribute: it has no effect",
            question_about(found),
            attribute=name,
        )
    dropped = [
        name
        for name, value in authored.items()
        if name in NOT_SIMULATED and not _is_fallback(value, NOT_SIMULATED[name])
    ]
    unknown = [
        name
        for name in authored
        if name.startswith(PREFIXES)
        and name not in NOT_SIMULATED
        and name not in wrong
        and not name.startswith(OTHER_SOLVERS)
    ]
    if dropped:
        findings.warning(
            "1.3.solver",
            path,
            f"not simulated: {', '.join(f'{name} = {quoted(authored[name])}' for name in dropped)}",
            "do not rely on it, or leave it out",
            attribute=dropped[0],
        )
    if unknown:
        findings.info(
            "1.3.solver",
            path,
            f"the bridge knows no {', '.join(unknown)}; nothing is made of it",
            "correct the name, or leave it out",
            attribute=unknown[0],
        )
