"""Read what engines need beside joints and bodies: geometry, masses, actuators, tendons, sites, sensors.

Meshes are large: `read_stage` reads it only where asked. Typed prims of mjcPhysics and newton-usd-schemas are read,
registered or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pxr import Tf, Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.model import physics_records as records
from usd_ros_bridge.model.diagnostics import CONTAINED, Diagnostic, internal_fault
from usd_ros_bridge.model.physics_records import (
    MASSLESS_BODIES,
    GeometryRecord,
    MjcActuatorRecord,
    MjcTendonRecord,
    NewtonActuatorRecord,
    PhysicsRecords,
    SensorRecord,
    SiteRecord,
)
from usd_ros_bridge.model.records import Record, attribute, fallback
from usd_ros_bridge.model.stage import XformRecord
from usd_ros_bridge.usd.read.compound_colliders import Compound, OpenCompounds, is_compound
from usd_ros_bridge.usd.read.geometry import geometry_type, read_mesh, read_sizes
from usd_ros_bridge.usd.read.instances import InstancedPrim, PointInstances, is_seen
from usd_ros_bridge.usd.read.joint_reader import solver_attributes
from usd_ros_bridge.usd.read.materials import (
    Appearance,
    MaterialPart,
    Surface,
    appearances,
    contact_materials,
    read_skin,
)
from usd_ros_bridge.usd.read.opinion_reader import OpinionReader
from usd_ros_bridge.usd.read.properties import (
    PREDICATE,
    FieldReader,
    Memo,
    PrimProperties,
    PrimReader,
    authored_value,
    is_relationship,
    plain,
)
from usd_ros_bridge.usd.read.xforms import XformReader, with_ancestors
from usd_ros_bridge.usd.tf_errors import first_line

ACTUATOR_TYPES: Final = frozenset({"MjcActuator", "NewtonActuator", "MjcTendon", "MjcKeyframe"})
"""Prim types that are read here."""
SITE_APIS: Final = frozenset({"MjcSiteAPI", "NewtonSiteAPI"})
"""What makes a prim a site."""


class ActuatorReader:
    """Collect the prims of one pass, and read what they name afterwards.

    Attributes:
        actuators: In traversal order.
        tendons: Likewise.
        keyframes: Prim paths.
    """

    def __init__(self, prims: PrimReader, reader: FieldReader) -> None:
        self.actuators: list[MjcActuatorRecord | NewtonActuatorRecord] = []
        self.tendons: list[MjcTendonRecord] = []
        self.keyframes: list[str] = []
        self._prims = prims
        self._reader = reader
        self._sites: dict[str, PrimProperties] = {}

    def add(self, source: PrimProperties, type_name: str, *, is_site: bool) -> None:
        """Read a prim of one of ACTUATOR_TYPES, or note a site."""
        reader = self._reader
        if is_site:
            self._sites[source.path] = source
        if type_name == "MjcActuator":
            name = str(source.prim.GetDisplayName())
            self.actuators.append(reader.record(MjcActuatorRecord, source, display_name=name))
        elif type_name == "NewtonActuator":
            applied = tuple(source.prim.GetPrimTypeInfo().GetAppliedAPISchemas())
            self.actuators.append(reader.record(NewtonActuatorRecord, source, applied=applied))
        elif type_name == "MjcTendon":
            self.tendons.append(reader.record(MjcTendonRecord, source))
        elif type_name == "MjcKeyframe":
            self.keyframes.append(source.path)

    def places(
        self, xform_reader: XformReader, diagnostics: list[Diagnostic]
    ) -> tuple[tuple[SiteRecord, ...], tuple[GeometryRecord, ...]]:
        """Return all sites, and the gprims that tendons wrap around.

        Args:
            xform_reader: Reads where they are.
            diagnostics: Collector of faults.
        """
        parts = self._named(path for tendon in self.tendons for path in tendon.parts or ())
        wrapped = {path: each for path, each in parts.items() if geometry_type(each.prim)}
        sites = {**self._sites, **{path: each for path, each in parts.items() if path not in wrapped}}
        sites |= self._named(
            path for record in (*self.tendons, *self.actuators) for path in _named_sites(record)
        )
        if not (sites or wrapped):
            return (), ()
        xforms = xform_reader.add([*sites, *wrapped], diagnostics)
        resets = {path for path, xform in xforms.items() if xform.resets_stack}
        return (
            tuple(
                self._reader.record(SiteRecord, each, **_place(path, xforms, resets))
                for path, each in sites.items()
            ),
            tuple(self._shape(each, _place(path, xforms, resets)) for path, each in wrapped.items()),
        )

    def _shape(self, source: PrimProperties, place: dict[str, Any]) -> GeometryRecord:
        type_name, values = read_sizes(self._reader, source, geometry_type(source.prim))
        return GeometryRecord(
            path=source.path, specs=source.specs, type_name=type_name, values=values, seen=False, **place
        )

    def _named(self, paths: Iterable[str]) -> dict[str, PrimProperties]:
        """Return the prims that are somewhere, of those that relationships name and that are no sites by schema."""
        found = {}
        for path in dict.fromkeys(paths):
            prim = None if path in self._sites else self._prims.stage.GetPrimAtPath(path)
            if prim and prim.IsA(UsdGeom.Xformable):
                found[path] = self._prims.source(path, prim)
        return found


def _named_sites(record: MjcActuatorRecord | NewtonActuatorRecord | MjcTendonRecord) -> tuple[str, ...]:
    if isinstance(record, MjcTendonRecord):
        return record.side_sites or ()
    if isinstance(record, MjcActuatorRecord):
        return (*(record.reference_site or ()), *(record.slider_site or ()))
    return ()


def _place(path: str, xforms: Mapping[str, XformRecord], resets: set[str]) -> dict[str, Any]:
    at = path if resets else ""
    while at and at not in resets:
        at = at.rpartition("/")[0]
    return {"world_from_prim": xforms[path].world_from_prim, "detached_at": at}


_NOWHERE: Final = (math.nan,) * 16
GREATEST_FLOAT: Final = 3.4e38
_VELOCITIES: Final = ("physics:velocity", "physics:angularVelocity")
_LOCAL: Final = "physics:localSpaceVelocities"
COLLIDERS: Final = "colliders"
"""Collection of a PhysicsCollisionGroup."""
_ALONE: Final = Usd.Tokens.explicitOnly


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
    """Limits of force and torque that break a joint."""

    break_force: float | None = attribute("physics:breakForce", "float", float("inf"))
    break_torque: float | None = attribute("physics:breakTorque", "float", float("inf"))


class PhysicsKind(NamedTuple):
    """Describe a combination of prim type and applied schemas.

    Attributes:
        applied: Those of `APPLIED` that are applied.
        solver_apis: Applied schemas of solvers.
        geometry: Type of the geometry, "" for none.
        collides: Whether PhysicsCollisionAPI is applied.
        gprim: Whether it is a gprim, of a type that has a shape or of another one.
        compound: Whether PhysicsCollisionAPI is applied and the gprims below collide: it is none.
        has_records: Whether there is something to read even where the prim is not seen.
    """

    applied: frozenset[str]
    solver_apis: tuple[str, ...]
    geometry: str
    collides: bool
    gprim: bool
    compound: bool
    scene: bool
    group: bool
    joint: bool
    camera: bool
    instancer: bool
    actuator: str
    site: bool
    has_records: bool


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
"""Applied API schemas that this reader searches."""

_SOLVER_APIS: Final = ("Newton", "Physx", "Mjc")
"""What the names of solvers' own schemas begin with."""

_OWNED: Final = frozenset({"PhysicsRigidBodyAPI", "PhysicsCollisionAPI"})
"""Those whose prims name the scene that simulates them."""

_SOLVED: Final = frozenset({"PhysicsRigidBodyAPI", "PhysicsArticulationRootAPI"})
"""Those of bodies and articulations, of which solvers' attributes are kept."""


def physics_kind(prim: Usd.Prim, type_name: str, applied: tuple[str, ...]) -> PhysicsKind | None:
    """Return what a combination of prim type and applied schemas means to engines, None for nothing."""
    known = APPLIED.intersection(applied)
    geometry = geometry_type(prim)
    scene = prim.IsA(UsdPhysics.Scene)
    group = prim.IsA(UsdPhysics.CollisionGroup)
    joint = prim.IsA(UsdPhysics.Joint)
    camera = prim.IsA(UsdGeom.Camera)
    instancer = prim.IsA(UsdGeom.PointInstancer)
    actuator = type_name if type_name in ACTUATOR_TYPES else ""
    site = not SITE_APIS.isdisjoint(applied)
    has_records = bool(known or actuator) or scene or group or joint or camera or instancer or site
    gprim = prim.IsA(UsdGeom.Gprim)
    if not (has_records or gprim):
        return None
    collides = "PhysicsCollisionAPI" in known
    return PhysicsKind(
        applied=known,
        solver_apis=tuple(name for name in applied if name.startswith(_SOLVER_APIS)),
        geometry=geometry,
        collides=collides,
        gprim=gprim,
        compound=is_compound(prim, collides=collides),
        scene=scene,
        group=group,
        joint=joint,
        camera=camera,
        instancer=instancer,
        actuator=actuator,
        site=site,
        has_records=has_records,
    )


class _Geometry(NamedTuple):
    """A prim that collides or is seen, before appearances are read for all together.

    `compound` is the compound collider that it is a part of, None where it is of none or collides by itself.
    """

    source: PrimProperties
    kind: PhysicsKind
    seen: bool
    compound: Compound | None = None

    @property
    def collides(self) -> bool:
        return self.kind.collides or self.compound is not None


class _Copy(NamedTuple):
    """A prim of a prototype in one instance of a PointInstancer."""

    geometry: _Geometry
    instanced: InstancedPrim


class PhysicsReader:
    """Collect the records of prims during the pass over a stage; read geometry, materials and groups at its end."""

    def __init__(
        self, prims: PrimReader, kind_of: Callable[[Usd.Prim], PhysicsKind | None], most_prims: int
    ) -> None:
        """Bind the reader to a stage.

        Args:
            prims: Prims of the stage.
            kind_of: Returns what a prim means to engines.
            most_prims: Most prims of the instances of PointInstancers.
        """
        self.diagnostics: list[Diagnostic] = []
        self.scenes: list[records.PhysicsSceneRecord] = []
        self.masses: dict[str, records.MassRecord] = {}
        self.materials: dict[str, records.MaterialRecord] = {}
        self.groups: list[records.CollisionGroupRecord] = []
        self.filtered_pairs: list[records.FilteredPairsRecord] = []
        self.joint_breaks: dict[str, tuple[float, float]] = {}
        self.bodies: dict[str, dict[str, Any]] = {}
        self.owners: dict[str, tuple[str, ...]] = {}
        self.world_velocities: set[str] = set()
        self._without_mass: list[str] = []
        self._stage = prims.stage
        self._prims = prims
        self._reader = FieldReader(self.diagnostics, prims.pause)
        self.actuators = ActuatorReader(prims, self._reader)
        self.opinions = OpinionReader(prims)
        self._kind_of = kind_of
        self._geometries: list[_Geometry] = []
        self._cameras: dict[str, PrimProperties] = {}
        self._topics: list[PrimProperties] = []
        self._instancer = "//"
        self._instancers: dict[str, tuple[Usd.Prim, Compound | None]] = {}
        self._compounds: list[Compound] = []
        self._open_compounds = OpenCompounds()
        self._undefined: set[str] = set()
        self._most_prims = most_prims

    def visit(self, prim: Usd.Prim, path: str, kind: PhysicsKind, memo: Memo | None = None) -> None:
        """Read the next prim in traversal order.

        Args:
            prim: The prim.
            path: Its path.
            kind: Its kind.
            memo: What `PrimReader.memo` returned for it, if at hand.
        """
        try:
            self._visit(prim, path, kind, memo)
        except CONTAINED as error:
            self.diagnostics.append(internal_fault(path, "reading the physics of this prim", error))

    def _visit(self, prim: Usd.Prim, path: str, kind: PhysicsKind, memo: Memo | None) -> None:
        # What is below a PointInstancer is copied elsewhere, and is nothing where it stands.
        is_prototype = path.startswith(self._instancer)
        seen = bool(kind.geometry) and not is_prototype and is_seen(prim)
        compound = None if is_prototype else self._open_compounds.at(path)
        is_part = compound is not None and kind.gprim and not kind.collides and compound.includes(path)
        if not (kind.has_records or seen or is_part):
            return
        source = self._prims.source(path, prim, memo)
        if kind.compound and not is_prototype:
            compound = Compound(source, kind, path, self.diagnostics)
            self._compounds.append(compound)
            self._open_compounds.enter(compound)
        elif seen or is_part or (kind.collides and not is_prototype):
            self._geometries.append(_Geometry(source, kind, seen, compound if is_part else None))
        if kind.instancer and not is_prototype:
            self._instancer = f"{path}/"
            self._instancers[path] = prim, compound
        if kind.camera:
            self._cameras[path] = source
        if kind.actuator or kind.site:
            self.actuators.add(source, kind.actuator, is_site=kind.site)
        self._visit_prim(source, kind)
        self._visit_applied(source, kind)

    def _visit_prim(self, source: PrimProperties, kind: PhysicsKind) -> None:
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

    def _visit_applied(self, source: PrimProperties, kind: PhysicsKind) -> None:
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
        if "PhysicsRigidBodyAPI" in applied and _has_world_velocities(source):
            self.world_velocities.add(path)
        if not _SOLVED.isdisjoint(applied) and (solver := solver_attributes(source)):
            self.bodies[path] = solver
        if not _OWNED.isdisjoint(applied):
            owner = self._reader.record(records.SimulationOwnerRecord, source).simulation_owner
            if owner:
                self.owners[path] = owner
        if "RosTopicAPI" in applied:
            self._topics.append(source)

    # --- What is asked of all prims together ---

    def records(self, xforms: XformReader) -> PhysicsRecords:
        """Return all records: in traversal order, instances last, in the stage's own units.

        Args:
            xforms: Reads where prims are.
        """
        geometries = self._geometry_records(xforms)
        sites, wrapped = self.actuators.places(xforms, self.diagnostics)
        return PhysicsRecords(
            scenes=tuple(self.scenes),
            masses=self.masses,
            materials=self.materials,
            geometries=geometries,
            groups=tuple(self.groups),
            filtered_pairs=tuple(self.filtered_pairs),
            joint_breaks=self.joint_breaks,
            body_solver_attributes=self.bodies,
            owners=self.owners,
            world_velocities=frozenset(self.world_velocities),
            sensors=self._sensors(),
            massless_bodies=self._massless_bodies(),
            actuators=tuple(self.actuators.actuators),
            tendons=tuple(self.actuators.tendons),
            sites=sites,
            wrapped=wrapped,
            keyframes=tuple(self.actuators.keyframes),
            opinions=self.opinions.found,
            origin=self._origin(),
            diagnostics=tuple(dict.fromkeys(self.diagnostics)),
        )

    def _geometry_records(self, xform_reader: XformReader) -> tuple[GeometryRecord, ...]:
        """Return the records of everything that collides or is seen."""
        self._add_named_parts()
        copies = self._copies()
        prototypes = {id(each.geometry): each.geometry for each in copies}
        self._close_compounds((*self._geometries, *prototypes.values()))
        standing = len(self._geometries)
        found = [*self._geometries, *prototypes.values()]
        prims = [each.source.prim for each in found]
        paths = [each.source.path for each in found]
        xforms = xform_reader.add([*paths[:standing], *self._instancers], self.diagnostics)
        resets = {path for path, xform in xforms.items() if xform.resets_stack}
        materials = self._contact_materials(found)
        looks = self._appearances(prims)
        groups = self._members(
            {
                **{path: each.compound for path, each in zip(paths, found, strict=True) if each.collides},
                **{path: compound for path, (_, compound) in self._instancers.items()},
            }
        )
        records: list[GeometryRecord] = []
        of_prototypes: dict[int, GeometryRecord] = {}
        for number, (path, each, appearance) in enumerate(zip(paths, found, looks, strict=True)):
            try:
                record = self._geometry(
                    each,
                    world_from_prim=xforms[path].world_from_prim if number < standing else _NOWHERE,
                    detached_at=_nearest(path, resets),
                    appearance=appearance,
                    material=materials[number],
                    group_paths=tuple(groups.get(path, ())),
                )
            except CONTAINED as error:
                self.diagnostics.append(internal_fault(path, "reading this geometry", error))
            else:
                if number < standing:
                    records.append(record)
                else:
                    of_prototypes[id(each)] = record
        for geometry, instanced in copies:
            prototype = of_prototypes.get(id(geometry))
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
                        collider=self._compound_of(geometry, instanced),
                    )
                )
                self._copy_mass(geometry.source.path, instanced.path, collides=prototype.collides)
        self._forget_prototypes(tuple(self._instancers))
        return tuple(records)

    def _copy_mass(self, prototype: str, instance: str, *, collides: bool) -> None:
        mass = self.masses.get(prototype)
        if mass is not None and collides:
            self.masses[instance] = replace(mass, path=instance)

    def _compound_of(self, geometry: _Geometry, instanced: InstancedPrim) -> str:
        """Return the path of the compound collider of a prim of an instance, "" for none; it weighs what it says."""
        if geometry.compound is None:
            return ""
        if instanced.compound is None:
            return geometry.compound.path
        self._copy_mass(geometry.compound.path, instanced.compound[1], collides=True)
        return instanced.compound[1]

    # --- Compound colliders ---

    def _add_named_parts(self) -> None:
        """Add the gprims that the collections of compounds name elsewhere on the stage."""
        found = {each.source.path: number for number, each in enumerate(self._geometries)}
        for compound in self._compounds:
            for prim in compound.elsewhere(self._stage):
                path, kind = prim.GetPath().pathString, self._kind_of(prim)
                if kind is None or not kind.gprim or kind.collides:
                    continue
                number = found.get(path)
                if number is None:
                    found[path] = len(self._geometries)
                    self._geometries.append(_Geometry(self._prims.source(path, prim), kind, False, compound))
                elif self._geometries[number].compound is None:
                    self._geometries[number] = self._geometries[number]._replace(compound=compound)

    def _close_compounds(self, parts: Iterable[_Geometry]) -> None:
        """Add compounds without parts as colliders of their own, which have no shape: planning reports them."""
        for part in parts:
            if part.compound is not None:
                part.compound.has_members = True
        for compound in self._compounds:
            if not compound.has_members:
                self._geometries.append(_Geometry(compound.source, compound.kind, seen=False))

    def _contact_materials(self, found: Sequence[_Geometry]) -> list[str]:
        """Return the contact material of each, "" for none: what is bound to a part, else to its compound."""
        compounds = {each.compound.path: each.compound for each in found if each.compound is not None}
        prims = [each.source.prim for each in found if each.collides]
        prims += [each.source.prim for each in compounds.values()]
        materials = iter(contact_materials(prims, self.materials, self.diagnostics))
        own = [next(materials) if each.collides else "" for each in found]
        of_compounds = dict(zip(compounds, materials, strict=True))
        return [
            material or ("" if each.compound is None else of_compounds[each.compound.path])
            for each, material in zip(found, own, strict=True)
        ]

    def _forget_prototypes(self, instancers: Sequence[str]) -> None:
        """Drop the masses of prototypes, which are nothing where they stand, and of undefined prims."""
        if not instancers:
            return
        below = tuple(f"{path}/" for path in instancers)
        for path in list(self.masses):
            # Instances are below the instancer, too, but there are no prims there.
            if path in self._undefined or (path.startswith(below) and self._stage.GetPrimAtPath(path)):
                del self.masses[path]

    def _copies(self) -> list[_Copy]:
        """Return what collides or is seen of the instances of all instancers."""
        found: list[_Copy] = []
        if not self._instancers:
            return found
        instances = PointInstances(self._stage, self._most_prims, self.diagnostics)
        known: dict[tuple[str, str], _Geometry] = {}
        compounds: dict[str, Compound] = {}
        for path, (instancer, around) in self._instancers.items():
            try:
                for each in instances.read(instancer):
                    name = each.prim.GetPath().pathString
                    compound = self._prototype_compound(each, compounds) or around
                    if compound is not None and not compound.includes(name if each.compound else each.path):
                        compound = None
                    key = name, "" if compound is None else compound.path
                    geometry = known.get(key)
                    if geometry is None:
                        kind = self._kind_of(each.prim)
                        if kind is None:
                            continue
                        source = self._prims.source(name, each.prim)
                        compound = None if kind.collides else compound
                        geometry = known[key] = _Geometry(source, kind, seen=True, compound=compound)
                        self._read_mass(source, kind)
                    if geometry.collides or (geometry.kind.geometry and each.seen):
                        found.append(_Copy(geometry, each))
            except CONTAINED as error:
                self.diagnostics.append(internal_fault(path, "reading this PointInstancer", error))
        return found

    def _prototype_compound(self, part: InstancedPrim, known: dict[str, Compound]) -> Compound | None:
        """Return the compound collider within a prototype that a part of it belongs to."""
        if part.compound is None:
            return None
        prim, _ = part.compound
        path = prim.GetPath().pathString
        compound = known.get(path)
        if compound is None:
            source, kind = self._prims.source(path, prim), self._kind_of(prim)
            assert kind is not None
            compound = known[path] = Compound(source, kind, path, self.diagnostics)
            self._read_mass(source, kind)
        return compound

    def _read_mass(self, source: PrimProperties, kind: PhysicsKind) -> None:
        """Read the mass of a prototype that is no defined prim: it has not been visited."""
        if "PhysicsMassAPI" in kind.applied and source.path not in self.masses:
            self.masses[source.path] = self._reader.record(records.MassRecord, source)
            self._undefined.add(source.path)

    def _appearances(self, prims: Sequence[Usd.Prim]) -> list[Appearance]:
        try:
            return appearances(prims, self.diagnostics)
        except CONTAINED as error:
            # Together they take a fraction of the time; one by one, the others keep their colours.
            if len(prims) > 1:
                return [look for prim in prims for look in self._appearances([prim])]
            path = prims[0].GetPath().pathString
            self.diagnostics.append(internal_fault(path, "reading the materials of this prim", error))
            return [Appearance(None, (MaterialPart(Surface()),))]

    def _geometry(self, geometry: _Geometry, *, appearance: Appearance, **fields: Any) -> GeometryRecord:
        source, kind = geometry.source, geometry.kind
        reader = self._reader
        type_name, values = str(source.prim.GetTypeName()), dict[str, Any]()
        if kind.geometry:
            type_name, values = read_sizes(reader, source, kind.geometry)
        if kind.geometry == "Mesh":
            flip = values.pop("orientation") == "leftHanded"
            fields["double_sided"] = bool(values.pop("double_sided"))
            mesh = read_mesh(source, flip=flip, diagnostics=self.diagnostics)
            fields |= {"points": mesh.points, "triangles": mesh.triangles}
            if geometry.seen:
                fields["skin"] = read_skin(
                    source, appearance, flip=flip, triangles=len(mesh.triangles), diagnostics=self.diagnostics
                )
        # Attributes of the prim above have precedence, as if they were authored on the part.
        compound = geometry.compound
        bearers = [(source, kind)] if compound is None else [(compound.source, compound.kind), (source, kind)]
        if geometry.collides:
            enabled = fallback(reader.record(CollisionRecord, bearers[0][0]), "collision_enabled")
            solver = {
                name: value
                for each, _ in reversed(bearers)
                for name, value in solver_attributes(each).items()
            }
            fields |= {"collision_enabled": enabled, "solver_attributes": solver}
        if kind.geometry == "Mesh":
            authored = (
                reader.record(MeshCollisionRecord, each).approximation
                for each, of_kind in bearers
                if "PhysicsMeshCollisionAPI" in of_kind.applied
            )
            fields["approximation"] = next(filter(None, authored), "")
        if compound is not None or kind.compound:
            fields["collider"] = source.path if compound is None else compound.path
        return GeometryRecord(
            path=source.path,
            specs=source.specs,
            type_name=type_name,
            values=values,
            collides=geometry.collides,
            applied=tuple(name for _, of_kind in bearers for name in of_kind.solver_apis),
            seen=geometry.seen,
            color=appearance.color,
            **fields,
        )

    def _members(self, colliders: Mapping[str, Compound | None]) -> dict[str, list[str]]:
        """Return the groups of each collider that is in any; they name a compound, or a part of one."""
        found: dict[str, list[str]] = {}
        for group in self.groups:
            collection = Usd.CollectionAPI(self._stage.GetPrimAtPath(group.path), COLLIDERS)
            try:
                query = collection.ComputeMembershipQuery()
            except Tf.ErrorException as error:
                self.diagnostics.append(_broken_collection(group.path, error))
                continue
            # A collection that does not expand names the compound alone.
            alone = {str(path) for path, rule in query.GetAsPathExpansionRuleMap().items() if rule == _ALONE}
            for path, compound in colliders.items():
                if query.IsPathIncluded(path) or (compound is not None and compound.path in alone):
                    found.setdefault(path, []).append(group.path)
        return found

    def _sensors(self) -> dict[str, SensorRecord]:
        """Return what interfaces and their cameras author in the bridge's namespace."""
        found = (read_sensor(source, self._cameras) for source in self._topics)
        return {record.path: record for record in found if record}

    def _massless_bodies(self) -> dict[str, Any]:
        """Return what is authored about bodies without mass, by prim path."""
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

    def _origin(self) -> SensorRecord | None:
        """Return the georeference of the default prim, else of a root prim, else of a PhysicsScene."""
        default = self._stage.GetDefaultPrim()
        roots = self._stage.GetPseudoRoot().GetFilteredChildren(PREDICATE)
        paths = [prim.GetPath().pathString for prim in (*((default,) if default else ()), *roots)]
        return read_origin(
            self._prims.source(path) for path in (*paths, *(scene.path for scene in self.scenes))
        )


def _has_world_velocities(source: PrimProperties) -> bool:
    """Return whether a body's velocities are in the axes of the stage, not in its own as UsdPhysics has them.

    PhysX says so in customData of the prim: `dictionary physics = {bool localSpaceVelocities = 0}`. It is also
    read from the attributes.
    """
    authored = [prop for name in _VELOCITIES if (prop := source.properties.get(name)) is not None]
    return bool(authored) and any(
        found is not None and not found
        for each in (source.prim, *authored)
        for found in (each.GetCustomDataByKey(_LOCAL), each.GetCustomData().get(_LOCAL))
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
    """Return what breaks a joint, inf where nothing does; exporters write the greatest float for that."""
    return value if value is not None and value < GREATEST_FLOAT else math.inf


def _nearest(path: str, members: set[str]) -> str:
    """Return the nearest of `members` at or above a path, "" where there is none."""
    while members and path and path not in members:
        path = path.rpartition("/")[0]
    return path if members else ""


OWN: Final = "usd_ros_bridge:"
GEOREFERENCE: Final = "usd_ros_bridge:georeference:"


def own_values(source: PrimProperties, prefix: str = OWN) -> dict[str, Any]:
    """Return a prim's authored properties below `prefix` by USD name; relationships as tuples of paths."""
    values: dict[str, Any] = {}
    for name, prop in source.properties.items():
        if not name.startswith(prefix):
            continue
        if is_relationship(prop):
            value: Any = source.targets(name)
        else:
            value = plain(authored_value(prop)) if isinstance(prop, Usd.Attribute) else None
        if value is not None:
            values[name] = value
    return values


def read_sensor(source: PrimProperties, cameras: Mapping[str, PrimProperties]) -> SensorRecord | None:
    """Return what an interface and the camera that it is on author, None where that is nothing.

    Args:
        source: The interface's prim; what it authors comes before what its camera does.
        cameras: Every camera above any interface, by path.
    """
    camera, path = None, source.path
    while path and camera is None:
        camera = cameras.get(path)
        path = path.rpartition("/")[0]
    values = {**(own_values(camera) if camera else {}), **own_values(source)}
    return SensorRecord(path=source.path, specs=source.specs, values=values) if values else None


def read_origin(sources: Iterable[PrimProperties]) -> SensorRecord | None:
    """Return the georeference of the first prim that authors one."""
    for source in sources:
        values = own_values(source, GEOREFERENCE)
        if values:
            return SensorRecord(path=source.path, values=values)
    return None
