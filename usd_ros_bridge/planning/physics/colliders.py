"""Colliders and visuals: the body and the material of each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from usd_ros_bridge.errors import one_of, quoted
from usd_ros_bridge.model.appearance import GREY, Color
from usd_ros_bridge.model.diagnostics import DiagnosticCollector, degraded
from usd_ros_bridge.model.physics import (
    DEFAULT_MATERIAL,
    WORLD_BODY,
    Body,
    Collider,
    ContactMaterial,
    Joint,
    Mesh,
    Plane,
    Visual,
)
from usd_ros_bridge.model.physics_records import GeometryRecord, MaterialRecord, PhysicsRecords, SiteRecord
from usd_ros_bridge.model.records import fallback
from usd_ros_bridge.planning.kinematics.solver_attributes import (
    COLLIDER,
    COMBINE_MODES,
    MATERIAL,
    number,
    resolve_all,
)
from usd_ros_bridge.planning.names import Nearest, is_below
from usd_ros_bridge.planning.physics.bodies import BodyTable
from usd_ros_bridge.planning.physics.mass import ColliderMass, share_masses
from usd_ros_bridge.planning.physics.shapes import (
    ScaledShape,
    SharedMeshes,
    place_shape,
    read_transforms,
    shape_types,
)
from usd_ros_bridge.planning.physics.volumes import MassModel
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, StageIndex, as_poses
from usd_ros_bridge.spatial.convexity import flatness, is_convex
from usd_ros_bridge.spatial.transforms import FloatArray, compose, relative, to_matrix

_AS_AUTHORED: Final = ("none", "meshSimplification")
"""Approximations of meshes that keep their hollows, where they do not move."""
_MUJOCO_MIXES: Final = {"friction_combine": "max", "restitution_combine": "max"}
"""How MuJoCo combines what two colliders say, which is what MjcCollisionAPI is authored for."""
_MUJOCO_MATERIAL: Final = ContactMaterial(static_friction=1.0, dynamic_friction=1.0)
"""MuJoCo's own default, for MjcCollisionAPI without a bound material."""


@dataclass(slots=True, eq=False)
class SceneShapes:
    """Colliders and visuals of a scene.

    Attributes:
        colliders: In traversal order; without their groups.
        records: The record of each collider.
        visuals: In traversal order.
        masses: What the colliders of each body contribute, by body path.
    """

    colliders: list[Collider] = field(default_factory=list)
    records: list[GeometryRecord] = field(default_factory=list)
    visuals: list[Visual] = field(default_factory=list)
    masses: dict[str, list[ColliderMass]] = field(default_factory=dict)


def carrier(record: GeometryRecord | SiteRecord, index: StageIndex) -> str:
    """Return the body that carries a gprim, "" for none: one that is above a prim that resets the stack does not.

    What a compound names elsewhere on the stage is a part of the compound's body.
    """
    compound = record.collider if isinstance(record, GeometryRecord) else ""
    if compound and not is_below(record.path, compound):
        return index.body_at(compound)
    body = index.body_at(record.path)
    return body if is_below(body, record.detached_at) or not record.detached_at else ""


def plan_shapes(
    physics: PhysicsRecords,
    table: BodyTable,
    index: StageIndex,
    solvers: Sequence[str],
    findings: DiagnosticCollector,
) -> SceneShapes:
    """Return colliders and visuals.

    Args:
        physics: Geometry and materials.
        table: Bodies.
        index: The stage.
        solvers: Solvers in order of priority.
        findings: Collector of faults.
    """
    return _Planner(physics, table, index, solvers, findings).plan()


class _Planner:
    def __init__(
        self,
        physics: PhysicsRecords,
        table: BodyTable,
        index: StageIndex,
        solvers: Sequence[str],
        findings: DiagnosticCollector,
    ) -> None:
        self._physics = physics
        self._table = table
        self._index = index
        self._solvers = solvers
        self._findings = findings
        self._materials: dict[str, tuple[ContactMaterial, dict[str, Any], float]] = {}
        self._shapes = SceneShapes()
        scene = physics.scenes[0].solver_attributes if physics.scenes and "mjc" in solvers else {}
        self._mass_groups = (
            _group(scene, "min", -math.inf),
            _group(scene, "max", math.inf),
        )

    def plan(self) -> SceneShapes:
        records = [
            record
            for record in self._physics.geometries
            if ((record.collides and record.collision_enabled) or record.seen)
            and not _is_shapeless_part(record)
        ]
        units = self._index.units
        transforms = read_transforms(records, units)
        meshes = SharedMeshes()
        found: list[tuple[GeometryRecord, ScaledShape, int]] = []
        for row, record in enumerate(records):
            placed = place_shape(record, row, transforms, units, meshes, self._findings)
            if placed is not None:
                found.append((record, placed, row))
        bodies = [carrier(record, self._index) for record, _, _ in found]
        world_from_body = self._index.poses.world_from_prim[self._index.poses.find_rows(bodies)]
        world_from_prim = transforms.world_from_prim[[row for _, _, row in found]]
        prim_from_shape = np.array([placed.prim_from_shape for _, placed, _ in found]).reshape(-1, 7)
        body_from_prim = relative(world_from_body, world_from_prim)
        body_from_shape = compose(body_from_prim, prim_from_shape)
        rows = zip(
            found,
            bodies,
            as_poses(body_from_shape),
            to_matrix(body_from_shape),
            to_matrix(body_from_prim),
            strict=True,
        )
        for (record, placed, row), body, pose, of_shape, of_prim in rows:
            if not (record.collides and record.collision_enabled):
                self._shapes.visuals.append(
                    Visual(
                        path=record.path,
                        body=self._table.indices.get(body, WORLD_BODY),
                        body_from_shape=pose,
                        shape=placed.shape,
                        color=_color(record),
                    )
                )
            elif self._may_be_plane(record, placed, body):
                self._collider(record, placed, body, pose)
                solver = self._shapes.colliders[-1].solver
                self._add_mass(record, solver, placed, body, of_shape, of_prim, transforms.scale[row])
        share_masses(self._shapes.masses, self._findings)
        return self._shapes

    def _may_be_plane(self, record: GeometryRecord, placed: ScaledShape, body: str) -> bool:
        """Return whether a plane is on a static body: it has no inside to move, and engines take no other."""
        if not isinstance(placed.shape, Plane) or not body:
            return True
        self._findings.error(
            "1.3.collider",
            record.path,
            f"a plane does not collide on a rigid body ({body}); it is left out",
            "make it a static collider, or use a Cube",
        )
        return False

    def _collider(self, record: GeometryRecord, placed: ScaledShape, body: str, pose: Any) -> None:
        material, solver, _ = self._material(record.material)
        own = resolve_all(
            record.solver_attributes,
            COLLIDER,
            self._solvers,
            meters=self._index.units.meters,
            applied=record.applied,
        )
        is_mujoco = self._is_mujoco(record)
        unbound = _MUJOCO_MATERIAL if is_mujoco else None
        self._shapes.records.append(record)
        self._shapes.colliders.append(
            Collider(
                path=record.path,
                body=self._table.indices.get(body, WORLD_BODY),
                body_from_shape=pose,
                shape=placed.shape,
                material=material if record.material in self._physics.materials else unbound,
                solver={**(_MUJOCO_MIXES if is_mujoco else {}), **solver, **own},
                color=_color(record) if record.seen else None,
            )
        )

    def _add_mass(
        self,
        record: GeometryRecord,
        solver: Mapping[str, Any],
        placed: ScaledShape,
        body: str,
        body_from_shape: FloatArray,
        body_from_prim: FloatArray,
        scale: FloatArray,
    ) -> None:
        if not (body and self._weighs(record)):
            return
        _, _, density = self._material(record.material)
        # On a body that collides itself PhysicsMassAPI says what the body is, and is not counted twice.
        own = None if record.path == body else self._physics.masses.get(record.path)
        compound = "" if own is not None or record.collider == body else record.collider
        self._shapes.masses.setdefault(body, []).append(
            ColliderMass(
                path=record.path,
                shape=placed.shape,
                body_from_shape=body_from_shape,
                body_from_prim=body_from_prim,
                scale=scale,
                record=own or self._physics.masses.get(compound),
                compound=compound,
                density=density,
                model=(model := _mass_model(solver)),
                thickness=self._wall(record, solver) if model == "shell" else 0.0,
            )
        )

    def _wall(self, record: GeometryRecord, solver: Mapping[str, Any]) -> float:
        """Return the thickness of a shell: as authored, else the contact margin as in Newton; a surface in MuJoCo."""
        otherwise = 0.0 if self._is_mujoco(record) else solver.get("margin", 0.0)
        return max(0.0, float(solver.get("shell_thickness", otherwise)))

    def _is_mujoco(self, record: GeometryRecord) -> bool:
        return "mjc" in self._solvers and "MjcCollisionAPI" in record.applied

    def _weighs(self, record: GeometryRecord) -> bool:
        """Return whether a collider is of a group of which MuJoCo's compiler takes masses, if the scene names any."""
        lowest, highest = self._mass_groups
        group = record.solver_attributes.get("mjc:group", 0)
        return lowest <= group <= highest if isinstance(group, int) else True

    def _material(self, path: str) -> tuple[ContactMaterial, dict[str, Any], float]:
        """Return contact properties, what solvers say, and the density (stage units, 0 for none) of a material."""
        found = self._materials.get(path)
        if found is None:
            record = self._physics.materials.get(path)
            found = (ContactMaterial(), {}, 0.0) if record is None else self._read_material(record)
            self._materials[path] = found
        return found

    def _read_material(self, record: MaterialRecord) -> tuple[ContactMaterial, dict[str, Any], float]:
        contact = ContactMaterial(
            static_friction=self._checked(record, "static_friction", "staticFriction"),
            dynamic_friction=self._checked(record, "dynamic_friction", "dynamicFriction"),
            restitution=self._checked(record, "restitution", "restitution"),
        )
        density = self._checked(record, "density", "density")
        solver = resolve_all(
            record.solver_attributes,
            MATERIAL,
            self._solvers,
            meters=self._index.units.meters,
            applied=record.applied,
        )
        for name in ("friction_combine", "restitution_combine"):
            if name in solver and solver[name].lower() not in COMBINE_MODES:
                self._report_mode(record, name, solver.pop(name))
        return contact, solver, density

    def _report_mode(self, record: MaterialRecord, name: str, mode: str) -> None:
        self._findings.error(
            "1.3.material",
            record.path,
            f"the combine mode {quoted(mode)} is unknown; average is used",
            one_of(mode, COMBINE_MODES),
            attribute=f"physxMaterial:{name.removesuffix('_combine')}CombineMode",
        )

    def _checked(self, record: MaterialRecord, field_name: str, name: str) -> float:
        value = float(fallback(record, field_name))
        most = 1.0 if field_name == "restitution" else MAX_MAGNITUDE
        if 0.0 <= value <= most:
            return value
        used = 0.0 if math.isnan(value) or value < 0.0 else most
        self._findings.error(
            "1.3.material",
            record.path,
            f"{quoted(value)} cannot be used; {used:g} is used",
            f"author a number from 0 to {most:g}" if most == 1.0 else "author a number that is not negative",
            attribute=f"physics:{name}",
        )
        return used


def report_misplaced_masses(
    physics: PhysicsRecords, index: StageIndex, robots: Mapping[str, bool], findings: DiagnosticCollector
) -> None:
    """Report masses and colliders on prims that no body carries, where a body was probably intended.

    Args:
        physics: Masses and geometry.
        index: The stage.
        robots: Whether a robot floats, by path of its outermost context.
        findings: Takes what was found.
    """
    colliders: dict[str, GeometryRecord] = {}
    for record in physics.geometries:
        for path in filter(None, (record.collider, record.path)) if record.collides else ():
            # A compound may have parts elsewhere: one on a body is enough.
            if path not in colliders or not carrier(colliders[path], index):
                colliders[path] = record
    bodies = {record.path for record in index.records.bodies}
    for path in physics.masses:
        if path in bodies:
            continue
        if path not in colliders:
            what = "on no rigid body and no collider: it weighs nothing"
        elif not carrier(colliders[path], index):
            what = "on a collider without a body: it is static"
        else:
            continue
        findings.warning(
            "1.3.mass.place",
            path,
            f"PhysicsMassAPI is {what}",
            "apply PhysicsRigidBodyAPI here or above, or remove PhysicsMassAPI",
        )
    floating = Nearest({path for path, floats in robots.items() if floats})
    for record in physics.geometries:
        if record.collides and floating(record.path) and not carrier(record, index):
            findings.warning(
                "1.3.collider.place",
                record.collider or record.path,
                "the collider is below a robot that moves, and on none of its bodies: it stays behind",
                "move it below a rigid body",
            )


def report_compounds(physics: PhysicsRecords, findings: DiagnosticCollector) -> None:
    """Say once for the asset that PhysicsCollisionAPI on other prims than gprims makes those below collide."""
    parts = [
        record
        for record in physics.geometries
        if record.collides and record.collision_enabled and record.collider not in ("", record.path)
    ]
    if not parts:
        return
    left_out = Counter(record.type_name for record in parts if _is_shapeless_part(record))
    compounds = dict.fromkeys(record.collider for record in parts)
    shapes = len(parts) - left_out.total()
    if len(compounds) == 1:
        message = (
            f"PhysicsCollisionAPI is on a prim that is no gprim: what is below collides ({shapes} gprims)"
        )
    else:
        message = (
            f"PhysicsCollisionAPI is on this prim and {len(compounds) - 1} more that are no gprims: what is below them "
            f"collides ({shapes} gprims)"
        )
    if left_out:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(left_out.items()))
        message += f"; {kinds}, which have no shape, do not"
    findings.info(
        "1.3.collision_api", next(iter(compounds)), message, "apply it to the gprims, as UsdPhysics has it"
    )


def report_hulls(
    shapes: SceneShapes, bodies: Sequence[Body], joints: Sequence[Joint], findings: DiagnosticCollector
) -> None:
    """Report meshes that move and are not convex: engines collide their convex hulls (REP 0158 section 1.4)."""
    static = {WORLD_BODY, *(row for row, body in enumerate(bodies) if body.kinematic)}
    # Parents come before their children.
    for joint in joints:
        if joint.type == "fixed" and joint.body0 in static:
            static.add(joint.body1)
    known: dict[int, bool] = {}
    found: dict[str, str] = {}
    for collider in shapes.colliders:
        mesh = collider.shape
        if collider.body in static or not isinstance(mesh, Mesh) or mesh.approximation not in _AS_AUTHORED:
            continue
        if id(mesh) not in known:
            known[id(mesh)] = _is_hollow(mesh)
        if known[id(mesh)]:
            found[collider.path] = mesh.approximation
    degraded(
        findings,
        found,
        "physics:approximation",
        "the convex hull of a mesh that moves collides",
        reason="approximated",
        remedy="author convexDecomposition to keep its hollows",
    )


def _is_hollow(mesh: Mesh) -> bool:
    """Return whether a mesh has a convex hull and is not that hull. Flat meshes have none: they collide as plates."""
    points, triangles = np.asarray(mesh.points, dtype=np.float64), np.asarray(mesh.triangles)
    used = points[np.unique(triangles)] if len(triangles) else points[:0]
    if len(used) < 3 or not np.all(np.isfinite(used)) or flatness(used) is not None:
        return False
    return not is_convex(points, triangles)


def report_materials(physics: PhysicsRecords, shapes: SceneShapes, findings: DiagnosticCollector) -> None:
    """Report, each once for the asset, static friction that no engine has, and colliders without a material."""
    bound = dict.fromkeys(record.material for record in shapes.records)
    sticking = {}
    for material in filter(None, map(physics.materials.get, bound)):
        static, dynamic = material.static_friction, material.dynamic_friction
        if static is not None and dynamic is not None and static > max(dynamic, 0.0):
            sticking[material.path] = float(f"{static:.6g}")
    if sticking:
        degraded(
            findings,
            sticking,
            "physics:staticFriction",
            "engines have one coefficient, and the dynamic one acts at rest, too (the static one where that is 0)",
            reason="approximated",
            remedy="author the same static and dynamic friction",
        )
    without = [each.path for each in shapes.colliders if each.material is None]
    if without:
        count = (
            f"{len(without)} of {len(shapes.colliders)} colliders have"
            if len(without) > 1
            else "a collider has"
        )
        default = DEFAULT_MATERIAL
        findings.info(
            "1.3.material.default",
            without[0],
            f"{count} no physics material; PhysX's default is used, friction {default.dynamic_friction:g} and "
            f"restitution {default.restitution:g}",
            "bind a material with PhysicsMaterialAPI",
        )


def _is_shapeless_part(record: GeometryRecord) -> bool:
    """Return whether a part of a compound collider is of a type that has no shape: curves, points."""
    return record.collider not in ("", record.path) and record.type_name not in shape_types()


def _group(scene: Mapping[str, Any], end: str, otherwise: float) -> float:
    value = number(scene.get(f"mjc:compiler:inertiaGroupRange:{end}"))
    return otherwise if value is None else value


def _mass_model(solver: Mapping[str, Any]) -> MassModel:
    """Return how a collider's mass is distributed, where a schema says so."""
    if solver.get("mass_model") == "shell" or solver.get("mesh_inertia") == "shell":
        return "shell"
    found = solver.get("mesh_inertia")
    return found if found in ("legacy", "exact", "convex") else ""


def _color(record: GeometryRecord) -> Color:
    """Return a colour that can be shown: within 0 and 1, grey for none and for what is not finite."""
    if record.color is None or not all(map(math.isfinite, record.color)):
        return GREY
    red, green, blue, opacity = (min(max(value, 0.0), 1.0) for value in record.color)
    return red, green, blue, opacity
