"""Physics: what engines need beside joints and bodies, read where it is asked for, because meshes are large."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pxr import Tf, Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.model import physics_records as records
from usd_ros_bridge.model.collector import collector_paused
from usd_ros_bridge.model.diagnostics import CONTAINED, Diagnostic, internal_fault
from usd_ros_bridge.model.options import ReadOptions
from usd_ros_bridge.model.physics_records import (
    MASSLESS_BODIES,
    GeometryRecord,
    PhysicsRecords,
    SensorRecord,
)
from usd_ros_bridge.model.records import Record, attribute, fallback
from usd_ros_bridge.usd.actuator_prims import ACTUATOR_TYPES, SITE_APIS, ActuatorReader
from usd_ros_bridge.usd.attributes import FieldReader, PrimProperties, PrimReader, authored_value
from usd_ros_bridge.usd.geometry import geometry_type, read_mesh, read_sizes
from usd_ros_bridge.usd.joints import solver_attributes
from usd_ros_bridge.usd.looks import Appearance, Part, Surface, appearances, contact_materials
from usd_ros_bridge.usd.opening import first_line
from usd_ros_bridge.usd.point_instances import InstancedPrim, PointInstances
from usd_ros_bridge.usd.sensors import read_origin, read_sensor
from usd_ros_bridge.usd.skins import read_skin
from usd_ros_bridge.usd.traversal import PREDICATE
from usd_ros_bridge.usd.values import plain
from usd_ros_bridge.usd.xforms import XformReader, with_ancestors

SEEN_PURPOSES: Final = (UsdGeom.Tokens.default_, UsdGeom.Tokens.render)
_NOWHERE: Final = (math.nan,) * 16
GREATEST_FLOAT: Final = 3.4e38
COLLIDERS: Final = "colliders"
"""Collection of a PhysicsCollisionGroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollisionRecord(Record):
    """PhysicsCollisionAPI."""

    collision_enabled: bool | None = attribute("physics:collisionEnabled", "bool", True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshCollisionRecord(Record):
    """PhysicsMeshCollisionAPI."""

    approximation: str | None = attribute("physics:approximation", "token", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class JointBreakRecord(Record):
    """What breaks a joint."""

    break_force: float | None = attribute("physics:breakForce", "float", float("inf"))
    break_torque: float | None = attribute("physics:breakTorque", "float", float("inf"))


class _Kind(NamedTuple):
    """What a combination of prim type and applied schemas means to this reader."""

    applied: frozenset[str]
    solver_apis: tuple[str, ...]
    geometry: str
    scene: bool
    group: bool
    joint: bool
    camera: bool
    instancer: bool
    actuator: str
    site: bool

    @property
    def collides(self) -> bool:
        return "PhysicsCollisionAPI" in self.applied

    @property
    def has_records(self) -> bool:
        """Whether there is something to read even where the prim is not seen."""
        return (
            bool(self.applied or self.actuator)
            or self.scene
            or self.group
            or self.joint
            or self.camera
            or self.instancer
            or self.site
        )


APPLIED: Final = frozenset(
    {
        "PhysicsRigidBodyAPI",
        "PhysicsArticulationRootAPI",
        "PhysicsMassAPI",
        "PhysicsMaterialAPI",
        "PhysicsCollisionAPI",
        "PhysicsMeshCollisionAPI",
        "PhysicsFilteredPairsAPI",
        "RosTopicAPI",
    }
)
"""Applied API schemas that this reader looks for."""

_SOLVER_APIS: Final = ("Newton", "Physx", "Mjc")
"""What the names of solvers' own schemas begin with."""

_OWNED: Final = frozenset({"PhysicsRigidBodyAPI", "PhysicsCollisionAPI"})
"""Those whose prims name the scene that simulates them."""

_SOLVED: Final = frozenset({"PhysicsRigidBodyAPI", "PhysicsArticulationRootAPI"})
"""Those of bodies and articulations, of which solvers' attributes are kept."""


def _kind_of(prim: Usd.Prim, type_name: str, applied: tuple[str, ...]) -> _Kind:
    return _Kind(
        applied=APPLIED.intersection(applied),
        solver_apis=tuple(name for name in applied if name.startswith(_SOLVER_APIS)),
        geometry=geometry_type(prim),
        scene=prim.IsA(UsdPhysics.Scene),
        group=prim.IsA(UsdPhysics.CollisionGroup),
        joint=prim.IsA(UsdPhysics.Joint),
        camera=prim.IsA(UsdGeom.Camera),
        instancer=prim.IsA(UsdGeom.PointInstancer),
        actuator=type_name if type_name in ACTUATOR_TYPES else "",
        site=not SITE_APIS.isdisjoint(applied),
    )


class _Geometry(NamedTuple):
    """A prim that collides or is seen, before what all of them are asked together."""

    source: PrimProperties
    kind: _Kind
    seen: bool


class _Copy(NamedTuple):
    """A prim of a prototype in one instance of a PointInstancer."""

    geometry: _Geometry
    instanced: InstancedPrim


class _Walk:
    """The state of one pass."""

    def __init__(
        self, prims: PrimReader, *, visuals: bool, most_prims: int, left_out: Collection[str] = ()
    ) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.scenes: list[records.PhysicsSceneRecord] = []
        self.masses: dict[str, records.MassRecord] = {}
        self.materials: dict[str, records.MaterialRecord] = {}
        self.groups: list[records.CollisionGroupRecord] = []
        self.filtered_pairs: list[records.FilteredPairsRecord] = []
        self.joint_breaks: dict[str, tuple[float, float]] = {}
        self.bodies: dict[str, dict[str, Any]] = {}
        self.owners: dict[str, tuple[str, ...]] = {}
        self._without_mass: list[str] = []
        self._stage = prims.stage
        self._prims = prims
        self._visuals = visuals
        self._left_out = frozenset(left_out)
        self._reader = FieldReader(self.diagnostics, prims.pause)
        self.actuators = ActuatorReader(prims, self._reader)
        self._kinds: dict[tuple[str, ...], _Kind] = {}
        self._geometries: list[_Geometry] = []
        self._cameras: dict[str, PrimProperties] = {}
        self._topics: list[PrimProperties] = []
        self._instancer = "//"
        self._instancers: list[Usd.Prim] = []
        self._undefined: set[str] = set()
        self._most_prims = most_prims

    def run(self) -> None:
        """Visits every prim once."""
        prims = iter(Usd.PrimRange(self._stage.GetPseudoRoot(), PREDICATE))
        next(prims, None)
        left_out = self._left_out
        for prim in prims:
            if left_out and prim.GetPath().pathString in left_out:
                prims.PruneChildren()
                continue
            kind = self._kind(prim)
            if not (kind.has_records or kind.geometry):
                continue
            try:
                self._visit(prim, kind)
            except CONTAINED as error:
                path = prim.GetPath().pathString
                self.diagnostics.append(internal_fault(path, "reading the physics of this prim", error))

    def _kind(self, prim: Usd.Prim) -> _Kind:
        info = prim.GetPrimTypeInfo()
        key = (info.GetTypeName(), *info.GetAppliedAPISchemas())
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _kind_of(prim, key[0], key[1:])
        return kind

    def _visit(self, prim: Usd.Prim, kind: _Kind) -> None:
        path = prim.GetPath().pathString
        # What is below a PointInstancer is copied elsewhere, and is nothing where it stands.
        is_prototype = path.startswith(self._instancer)
        seen = (
            bool(kind.geometry) and (self._visuals or kind.collides) and _is_seen(prim) and not is_prototype
        )
        if not (kind.has_records or seen):
            return
        source = self._prims.source(path, prim)
        if seen or (kind.collides and not is_prototype):
            self._geometries.append(_Geometry(source, kind, seen))
        if kind.instancer and not is_prototype:
            self._instancer = f"{path}/"
            self._instancers.append(prim)
        if kind.camera:
            self._cameras[path] = source
        if kind.actuator or kind.site:
            self.actuators.add(source, kind.actuator, is_site=kind.site)
        self._visit_prim(source, kind)
        self._visit_applied(source, kind)

    def _visit_prim(self, source: PrimProperties, kind: _Kind) -> None:
        if kind.scene:
            self.scenes.append(
                self._reader.record(
                    records.PhysicsSceneRecord,
                    source,
                    applied=kind.solver_apis,
                    solver_attributes=solver_attributes(source),
                )
            )
        if kind.group:
            self.groups.append(self._reader.record(records.CollisionGroupRecord, source))
        if kind.joint:
            record = self._reader.record(JointBreakRecord, source)
            force, torque = _break_limit(record.break_force), _break_limit(record.break_torque)
            if force < math.inf or torque < math.inf:
                self.joint_breaks[source.path] = (force, torque)

    def _visit_applied(self, source: PrimProperties, kind: _Kind) -> None:
        path, applied = source.path, kind.applied
        if "PhysicsMassAPI" in applied:
            self.masses[path] = self._reader.record(records.MassRecord, source)
        if "PhysicsMaterialAPI" in applied:
            self.materials[path] = self._reader.record(
                records.MaterialRecord,
                source,
                applied=kind.solver_apis,
                solver_attributes=solver_attributes(source),
            )
        if "PhysicsFilteredPairsAPI" in applied:
            self.filtered_pairs.append(self._reader.record(records.FilteredPairsRecord, source))
        if "PhysicsRigidBodyAPI" in applied and (path not in self.masses or not self.masses[path].mass):
            self._without_mass.append(path)
        if not _SOLVED.isdisjoint(applied) and (solver := solver_attributes(source)):
            self.bodies[path] = solver
        if not _OWNED.isdisjoint(applied):
            owner = self._reader.record(records.SimulationOwnerRecord, source).simulation_owner
            if owner:
                self.owners[path] = owner
        if "RosTopicAPI" in applied:
            self._topics.append(source)

    # --- What is asked of all prims together ---

    def geometries(self) -> tuple[GeometryRecord, ...]:
        """Returns the records of everything that collides or is seen."""
        copies = self._copies()
        prototypes = {each.geometry.source.path: each.geometry for each in copies}
        standing = len(self._geometries)
        found = [*self._geometries, *prototypes.values()]
        prims = [each.source.prim for each in found]
        paths = [each.source.path for each in found]
        instancers = [prim.GetPath().pathString for prim in self._instancers]
        transforms = XformReader(self._stage, self._prims.source, self.diagnostics)
        xforms = transforms.read(sorted(with_ancestors([*paths[:standing], *instancers])), {})
        resets = {path for path, xform in xforms.items() if xform.resets_stack}
        colliders = [each.source.prim for each in found if each.kind.collides]
        materials = iter(contact_materials(colliders, self.materials, self.diagnostics))
        looks = self._appearances(prims)
        colliding = [path for path, each in zip(paths, found, strict=True) if each.kind.collides]
        groups = self._members([*colliding, *instancers])
        records: list[GeometryRecord] = []
        of_prototypes: dict[str, GeometryRecord] = {}
        for number, (path, each, appearance) in enumerate(zip(paths, found, looks, strict=True)):
            material = next(materials) if each.kind.collides else ""
            try:
                record = self._geometry(
                    each,
                    world_from_prim=xforms[path].world_from_prim if number < standing else _NOWHERE,
                    detached_at=_nearest(path, resets),
                    appearance=appearance,
                    material=material,
                    group_paths=tuple(groups.get(path, ())),
                )
            except CONTAINED as error:
                self.diagnostics.append(internal_fault(path, "reading this geometry", error))
            else:
                if number < standing:
                    records.append(record)
                else:
                    of_prototypes[path] = record
        for geometry, instanced in copies:
            prototype = of_prototypes.get(geometry.source.path)
            if prototype is not None:
                of_instancer = groups.get(instanced.instancer, ()) if prototype.collides else ()
                records.append(
                    replace(
                        prototype,
                        path=instanced.path,
                        world_from_prim=instanced.world_from_prim,
                        detached_at=_nearest(instanced.instancer, resets),
                        seen=instanced.seen,
                        group_paths=tuple(dict.fromkeys((*prototype.group_paths, *of_instancer))),
                    )
                )
                mass = self.masses.get(geometry.source.path)
                if mass is not None and prototype.collides:
                    self.masses[instanced.path] = replace(mass, path=instanced.path)
        self._forget_prototypes(instancers)
        return tuple(records)

    def _forget_prototypes(self, instancers: Sequence[str]) -> None:
        """Forgets the masses of prims that are nothing where they stand."""
        if not instancers:
            return
        below = tuple(f"{path}/" for path in instancers)
        for path in list(self.masses):
            # Instances are below the instancer, too, but there are no prims there.
            if path in self._undefined or (path.startswith(below) and self._stage.GetPrimAtPath(path)):
                del self.masses[path]

    def _copies(self) -> list[_Copy]:
        """Returns what collides or is seen of the instances of all instancers."""
        found: list[_Copy] = []
        if not self._instancers:
            return found
        instances = PointInstances(self._stage, self._most_prims, self.diagnostics)
        known: dict[str, _Geometry] = {}
        for instancer in self._instancers:
            path = instancer.GetPath().pathString
            try:
                for each in instances.read(instancer):
                    name = each.prim.GetPath().pathString
                    geometry = known.get(name)
                    if geometry is None:
                        kind = self._kind(each.prim)
                        source = self._prims.source(name, each.prim)
                        geometry = known[name] = _Geometry(source, kind, seen=True)
                        if "PhysicsMassAPI" in kind.applied and name not in self.masses:
                            # A prototype that is no defined prim has not been visited.
                            self.masses[name] = self._reader.record(records.MassRecord, source)
                            self._undefined.add(name)
                    if geometry.kind.collides or (geometry.kind.geometry and self._visuals and each.seen):
                        found.append(_Copy(geometry, each))
            except CONTAINED as error:
                self.diagnostics.append(internal_fault(path, "reading this PointInstancer", error))
        return found

    def _appearances(self, prims: Sequence[Usd.Prim]) -> list[Appearance]:
        try:
            return appearances(prims, self.diagnostics)
        except CONTAINED as error:
            # Together they take a fraction of the time; one by one, the others keep their colours.
            if len(prims) > 1:
                return [look for prim in prims for look in self._appearances([prim])]
            path = prims[0].GetPath().pathString
            self.diagnostics.append(internal_fault(path, "reading the materials of this prim", error))
            return [Appearance(None, (Part(Surface()),))]

    def _geometry(self, geometry: _Geometry, *, appearance: Appearance, **fields: Any) -> GeometryRecord:
        source, kind = geometry.source, geometry.kind
        reader = self._reader
        type_name, values = str(source.prim.GetTypeName()), dict[str, Any]()
        if kind.geometry:
            type_name, values = read_sizes(reader, source, kind.geometry)
        if kind.geometry == "Mesh":
            flip = values.pop("orientation") == "leftHanded"
            mesh = read_mesh(source, flip=flip, diagnostics=self.diagnostics)
            fields |= {"points": mesh.points, "triangles": mesh.triangles}
            if geometry.seen:
                fields["skin"] = read_skin(
                    source, appearance, flip=flip, triangles=len(mesh.triangles), diagnostics=self.diagnostics
                )
        if kind.collides:
            enabled = fallback(reader.record(CollisionRecord, source), "collision_enabled")
            fields |= {"collision_enabled": enabled, "solver_attributes": solver_attributes(source)}
        if kind.geometry == "Mesh" and "PhysicsMeshCollisionAPI" in kind.applied:
            approximation = reader.record(MeshCollisionRecord, source).approximation
            fields["approximation"] = approximation or ""
        return GeometryRecord(
            path=source.path,
            specs=source.specs,
            type_name=type_name,
            values=values,
            collides=kind.collides,
            applied=kind.solver_apis,
            seen=geometry.seen,
            color=appearance.color,
            **fields,
        )

    def _members(self, colliders: list[str]) -> dict[str, list[str]]:
        """Returns the groups of each collider that is in any."""
        found: dict[str, list[str]] = {}
        for group in self.groups:
            collection = Usd.CollectionAPI(self._stage.GetPrimAtPath(group.path), COLLIDERS)
            try:
                query = collection.ComputeMembershipQuery()
            except Tf.ErrorException as error:
                self.diagnostics.append(_broken_collection(group.path, error))
                continue
            for path in colliders:
                if query.IsPathIncluded(path):
                    found.setdefault(path, []).append(group.path)
        return found

    def sensors(self) -> dict[str, SensorRecord]:
        """Returns what interfaces and their cameras author in the bridge's namespace."""
        found = (read_sensor(source, self._cameras) for source in self._topics)
        return {record.path: record for record in found if record}

    def massless_bodies(self) -> dict[str, Any]:
        """Returns what is authored about bodies without mass, by prim path."""
        default = self._stage.GetDefaultPrim()
        paths = [default.GetPath().pathString] if default else []
        paths += [scene.path for scene in self.scenes]
        paths += sorted(with_ancestors(self._without_mass))
        found = {}
        for path in dict.fromkeys(paths):
            prop = self._prims.source(path).properties.get(MASSLESS_BODIES)
            value = plain(authored_value(prop)) if isinstance(prop, Usd.Attribute) else None
            if value is not None:
                found[path] = value
        return found

    def origin(self) -> SensorRecord | None:
        """Returns the georeference of the default prim, else of a root prim, else of a PhysicsScene."""
        default = self._stage.GetDefaultPrim()
        roots = self._stage.GetPseudoRoot().GetFilteredChildren(PREDICATE)
        paths = [prim.GetPath().pathString for prim in (*((default,) if default else ()), *roots)]
        return read_origin(
            self._prims.source(path) for path in (*paths, *(scene.path for scene in self.scenes))
        )


def _broken_collection(path: str, error: Exception) -> Diagnostic:
    return Diagnostic(
        code="1.3.collision_group",
        severity="error",
        path=path,
        attribute=f"collection:{COLLIDERS}",
        message=f"is no collection that OpenUSD can use: {first_line(error)}; nothing is in the group",
        remedy="author includes and excludes as relationships",
    )


def _break_limit(value: float | None) -> float:
    """Returns what breaks a joint, inf where nothing does; exporters write the greatest float for that."""
    return value if value is not None and value < GREATEST_FLOAT else math.inf


def _nearest(path: str, members: set[str]) -> str:
    """Returns the nearest of `members` at or above a path, "" where there is none."""
    while members and path and path not in members:
        path = path.rpartition("/")[0]
    return path if members else ""


def _is_seen(prim: Usd.Prim) -> bool:
    imageable = UsdGeom.Imageable(prim)
    if imageable.ComputePurpose() not in SEEN_PURPOSES:
        return False
    return bool(imageable.ComputeVisibility(Usd.TimeCode.EarliestTime()) != UsdGeom.Tokens.invisible)


def read_physics(
    stage: Usd.Stage,
    *,
    visuals: bool = True,
    left_out: Collection[str] = (),
    prims: PrimReader | None = None,
    most_prims: int = ReadOptions().max_prims,
) -> PhysicsRecords:
    """Reads what engines need of an open stage beside what `read_stage` gives. The stage is not changed.

    Args:
        stage: The stage, as composed now.
        visuals: Whether geometry that is seen and does not collide is read, too.
        left_out: Prims of which nothing is read, nor of what is below them.
        prims: As for `read_stage`.
        most_prims: Most prims of the instances of PointInstancers.

    Returns:
        Records in traversal order (instances last), in the stage's own units. What is wrong with transforms may stand
        in the diagnostics of `read_stage`, too.
    """
    with collector_paused():
        walk = _Walk(prims or PrimReader(stage), visuals=visuals, most_prims=most_prims, left_out=left_out)
        walk.run()
        geometries = walk.geometries()
        sites, wrapped = walk.actuators.places(walk.diagnostics)
        return PhysicsRecords(
            scenes=tuple(walk.scenes),
            masses=walk.masses,
            materials=walk.materials,
            geometries=geometries,
            groups=tuple(walk.groups),
            filtered_pairs=tuple(walk.filtered_pairs),
            joint_breaks=walk.joint_breaks,
            body_solver_attributes=walk.bodies,
            owners=walk.owners,
            sensors=walk.sensors(),
            massless_bodies=walk.massless_bodies(),
            actuators=tuple(walk.actuators.actuators),
            tendons=tuple(walk.actuators.tendons),
            sites=sites,
            wrapped=wrapped,
            keyframes=tuple(walk.actuators.keyframes),
            origin=walk.origin(),
            diagnostics=tuple(dict.fromkeys(walk.diagnostics)),
        )
