"""Instances: robots of the same specs, which are read once, and the copies that point instancers make.

A robot's first instance is the model; the others have its records with their own paths. The prims of a point
instancer's prototypes are read once for each instance, where OpenUSD puts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from pxr import Gf, Sdf, Tf, Usd, UsdGeom

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.records import JointRecord, Record, attribute_fields
from usd_ros_bridge.spatial.transforms import FloatArray
from usd_ros_bridge.usd.read.properties import PrimProperties
from usd_ros_bridge.usd.tf_errors import first_line

_ITEMS: Final = (
    "explicitItems",
    "addedItems",
    "prependedItems",
    "appendedItems",
    "deletedItems",
    "orderedItems",
)


class RobotModel:
    """Records of a robot, relative to its root: each robot that is composed from the same specs is an instance.

    Attributes:
        root: Path of its root prim.
        suffixes: Where its prims are below the root, in traversal order; the root itself, "", comes first.
        xform_children: Which of the suffixes are Xforms directly below bodies.
    """

    __slots__ = ("_templates", "root", "suffixes", "xform_children")

    def __init__(
        self,
        root: str,
        paths: Sequence[str],
        records: Mapping[str, Sequence[Any]],
        xform_children: Sequence[str],
    ) -> None:
        """Make templates of the robot's records.

        Args:
            root: Path of the root prim.
            paths: Paths of the other prims in traversal order.
            records: Records of these prims by collection, as `can_be_repeated` needs them.
            xform_children: Paths of Xforms directly below bodies.
        """
        self.root = root
        self.suffixes = ("", *(path[len(root) :] for path in paths))
        self.xform_children = tuple(path[len(root) :] for path in xform_children)
        numbers = {path: number for number, path in enumerate((root, *paths))}
        self._templates = {
            collection: [_RecordTemplate(record, numbers) for record in of_robot]
            for collection, of_robot in records.items()
        }

    def instance(self, paths: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
        """Yield the records of an instance, by collection.

        Args:
            paths: Paths of its prims, in the order of `suffixes`.
        """
        for collection, templates in self._templates.items():
            yield collection, [template.record(paths) for template in templates]


def can_be_repeated(
    root: str, sources: Sequence[PrimProperties], records: Mapping[str, Sequence[Any]]
) -> bool:
    """Return whether all targets of a robot's relationships are in the robot, and follow it wherever it is.

    Args:
        root: Path of the root prim.
        sources: The robot's other prims.
        records: Their records by collection.
    """
    by_path = {source.path: source for source in sources}
    inside = {root, *by_path}
    return all(
        targets <= inside and _follows(by_path[record.path].prim, name, record.path, root)
        for of_robot in records.values()
        for record in of_robot
        for name, targets in _targets(record)
    )


def has_relocates(stage: Usd.Stage) -> bool:
    """Return whether prims may have other names than their specs."""
    layers = stage.GetUsedLayers(includeClipLayers=False)
    return any(layer.HasRelocates() for layer in layers if hasattr(layer, "HasRelocates"))


def _targets(record: Record) -> Iterator[tuple[str, set[str]]]:
    """Yield the properties that a record has targets of, with the targets."""
    record_type: Any = record.__class__
    for field_name, name in relationships(record_type):
        targets = getattr(record, field_name)
        if targets is not None:
            yield name, set(targets)
    if isinstance(record, JointRecord):
        for name, value in record.solver_attributes.items():
            if _is_targets(value):
                yield name, set(value)


def _is_targets(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], str) and value[0].startswith("/")


@cache
def relationships(record_type: Any) -> tuple[tuple[str, str], ...]:
    """Return the fields of a record type that have the targets of relationships, with their USD names."""
    return tuple(
        (field, spec.name) for field, spec in attribute_fields(record_type) if spec.type_name == "rel"
    )


def _follows(prim: Usd.Prim, name: str, path: str, root: str) -> bool:
    """Return whether every spec of a relationship names prims of the robot only, by where they are in its own layer.

    Composition maps paths below the root of a reference along with it. Class arcs and internal references leave other
    paths as they are: the same prim for every copy.
    """
    suffix = path[len(root) :]
    for spec in prim.GetRelationship(name).GetPropertyStack(Usd.TimeCode.Default()):
        if not isinstance(spec, Sdf.RelationshipSpec):
            return False
        authored = spec.path.GetPrimPath().StripAllVariantSelections().pathString
        top = authored[: -len(suffix)]
        # Where the robot's place in its layer is above or below that on the stage, a path says nothing of which it is.
        if (
            not authored.endswith(suffix)
            or not top
            or f"{root}/".startswith(f"{top}/")
            or top.startswith(root)
        ):
            return False
        targets = [target.pathString for items in _ITEMS for target in getattr(spec.targetPathList, items)]
        if not all(f"{target}/".startswith(f"{top}/") for target in targets):
            return False
    return True


# --- Records with other paths -------------------------------------------------------------------------------------


class _RecordTemplate:
    """Make a record again with other paths, at half the cost of a call with thirty keywords."""

    __slots__ = ("_constant", "_path", "_solver", "_targets", "_type", "_write_path")

    def __init__(self, record: Any, numbers: Mapping[str, int]) -> None:
        """Store the fields of a record: which are paths, which are the same in every instance.

        Args:
            record: The record.
            numbers: Where each path is among those that `record` takes.
        """
        self._type = record.__class__
        self._path = numbers[record.path]
        self._write_path = _writer(self._type, "path")
        self._targets = [
            (_writer(self._type, name), [numbers[target] for target in targets])
            for name, _ in relationships(self._type)
            if (targets := getattr(record, name))
        ]
        self._solver: dict[str, Any] = {}
        changing = {"path", *(name for name, _ in relationships(self._type) if getattr(record, name))}
        if self._type is JointRecord and any(map(_is_targets, record.solver_attributes.values())):
            self._solver = {
                name: [numbers[target] for target in value] if _is_targets(value) else value
                for name, value in record.solver_attributes.items()
            }
            changing.add("solver_attributes")
        self._constant = [
            (_writer(self._type, field.name), getattr(record, field.name))
            for field in fields(self._type)
            if field.name not in changing
        ]

    def record(self, paths: Sequence[str]) -> Any:
        """Return the record with other paths."""
        result = object.__new__(self._type)
        self._write_path(result, paths[self._path])
        for write, value in self._constant:
            write(result, value)
        for write, numbers in self._targets:
            write(result, tuple([paths[number] for number in numbers]))
        if self._solver:
            _writer(JointRecord, "solver_attributes")(
                result,
                {
                    # Arrays of the solvers' own are tuples; a list holds numbers of paths.
                    name: tuple([paths[number] for number in value]) if isinstance(value, list) else value
                    for name, value in self._solver.items()
                },
            )
        return result


_Write = Callable[[Any, Any], None]


def _writer(record_type: Any, name: str) -> _Write:
    """Return a function that sets a field of a new record, which is frozen."""
    write: _Write = getattr(record_type, name).__set__
    return write


_PROTOTYPES: Final = Usd.TraverseInstanceProxies(Usd.PrimIsActive)
"""Prims of prototypes that count: a prototype may be an `over` or a class, so that it is not seen where it stands."""
_DEEPEST: Final = 32
"""Instancers within prototypes of instancers."""
_REFERENCE: Final = "reference each of them, instanceable, where it has to count"
_BODY: Final = "PhysicsRigidBodyAPI"
_COLLIDER: Final = "PhysicsCollisionAPI"
SEEN_PURPOSES: Final = (UsdGeom.Tokens.default_, UsdGeom.Tokens.render)


class InstancedPrim(NamedTuple):
    """A prim of a prototype, in one instance.

    Attributes:
        prim: The prim of the prototype.
        path: Path below the instancer: `/instancer/prototype_index/...`. There is no prim there.
        instancer: Path of the outermost instancer.
        world_from_prim: Local-to-world matrix for column vectors, 16 numbers, in stage units.
        seen: Whether purpose and visibility, of the prototype's prims and the instancer, make it visible.
        compound: The nearest compound collider above it within a prototype, and its path below the instancer.
    """

    prim: Usd.Prim
    path: str
    instancer: str
    world_from_prim: tuple[float, ...]
    seen: bool
    compound: tuple[Usd.Prim, str] | None = None


class _TooManyError(Exception):
    """There are more prims of instances than a stage may have."""


class _Part(NamedTuple):
    """A prim of a prototype: a matrix (4, 4) for row vectors leads from it to the prototype's root."""

    prim: Usd.Prim
    suffix: str
    matrix: FloatArray
    seen: bool
    is_instancer: bool
    compound: tuple[Usd.Prim, str] | None


class _Instance(NamedTuple):
    number: int
    prototype: Usd.Prim
    matrix: FloatArray


class PointInstances:
    """Reader of point instancers, at the earliest time."""

    def __init__(self, stage: Usd.Stage, most: int, diagnostics: list[Diagnostic]) -> None:
        """Bind the reader to a stage.

        Args:
            stage: The stage.
            most: Most prims of all instances together; an instancer that needs more is left out.
            diagnostics: Collector of faults.
        """
        self._stage = stage
        self._most, self._count = most, 0
        self._diagnostics = diagnostics
        self._time = Usd.TimeCode.EarliestTime()
        self._cache = UsdGeom.XformCache(self._time)
        self._parts: dict[str, tuple[_Part, ...]] = {}
        self._instances: dict[str, tuple[_Instance, ...]] = {}
        self._with_bodies: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def read(self, instancer: Usd.Prim) -> list[InstancedPrim]:
        """Return the prims of all instances, in the order of the instances; of an instancer in no other."""
        path = instancer.GetPath().pathString
        found: list[InstancedPrim] = []
        try:
            world = np.array(self._cache.GetLocalToWorldTransform(instancer), dtype=np.float64)
            seen = is_seen(instancer)
            self._count += self._number_of_prims(instancer, (path,))
            if self._count > self._most:
                raise _TooManyError
            self._expand(instancer, world, path, (path,), found, seen=seen)
        except Tf.ErrorException as error:
            self._error(path, f"cannot be read: {first_line(error)}; its instances are left out")
            return []
        except _TooManyError:
            self._error(
                path,
                f"its instances have more prims than the {self._most:,} that a stage may have; they are left out",
            )
            return []
        return found

    # --- Own ---------------------------------------------------------------------------------------------------

    def _expand(
        self,
        instancer: Usd.Prim,
        base: FloatArray,
        prefix: str,
        above: tuple[str, ...],
        found: list[InstancedPrim],
        *,
        seen: bool,
        compound: tuple[Usd.Prim, str] | None = None,
    ) -> None:
        for number, prototype, matrix in self._instances_of(instancer):
            with np.errstate(invalid="ignore"):
                placed = matrix @ base
            name = f"{prefix}/{prototype.GetName()}_{number}"
            for part in self._parts_of(prototype, above[0]):
                with np.errstate(invalid="ignore"):
                    world = part.matrix @ placed
                inside = (part.compound[0], name + part.compound[1]) if part.compound else compound
                if not part.is_instancer:
                    flat = tuple(world.T.ravel().tolist())
                    found.append(
                        InstancedPrim(
                            part.prim, name + part.suffix, above[0], flat, seen and part.seen, inside
                        )
                    )
                    continue
                inner = part.prim.GetPath().pathString
                if inner in above or len(above) >= _DEEPEST:
                    self._error(
                        inner,
                        "is within its own prototype, or too deep; these instances are left out",
                    )
                else:
                    self._expand(
                        part.prim,
                        world,
                        name + part.suffix,
                        (*above, inner),
                        found,
                        seen=seen and part.seen,
                        compound=inside,
                    )

    def _number_of_prims(self, instancer: Usd.Prim, above: tuple[str, ...]) -> int:
        """Return how many prims all instances have together, those of instancers within them included."""
        path = instancer.GetPath().pathString
        known = self._numbers.get(path)
        if known is not None:
            return known
        by_prototype: dict[str, int] = {}
        total = 0
        for _, prototype, _ in self._instances_of(instancer):
            name = prototype.GetPath().pathString
            number = by_prototype.get(name)
            if number is None:
                number = 0
                for part in self._parts_of(prototype, above[0]):
                    inner = part.prim.GetPath().pathString
                    if not part.is_instancer:
                        number += 1
                    elif inner not in above and len(above) < _DEEPEST:
                        number += self._number_of_prims(part.prim, (*above, inner))
                by_prototype[name] = number
            total += number
        self._numbers[path] = total
        return total

    def _instances_of(self, prim: Usd.Prim) -> tuple[_Instance, ...]:
        path = prim.GetPath().pathString
        known = self._instances.get(path)
        if known is None:
            known = self._instances[path] = self._read_instances(UsdGeom.PointInstancer(prim), path)
        return known

    def _read_instances(self, instancer: UsdGeom.PointInstancer, path: str) -> tuple[_Instance, ...]:
        prototypes = [
            self._stage.GetPrimAtPath(target) for target in instancer.GetPrototypesRel().GetForwardedTargets()
        ]
        numbers = instancer.GetProtoIndicesAttr().Get(self._time)
        indices = np.asarray(() if numbers is None else numbers)
        if indices.size and (indices.ndim != 1 or indices.dtype.kind != "i"):
            self._error(
                path, "protoIndices are no int[]; its instances are left out", "author int[] protoIndices"
            )
            return ()
        if not indices.size:
            self._warning(path, "has no instances", "author protoIndices and positions")
            return ()
        if len(indices) > self._most:
            raise _TooManyError
        matrices = instancer.ComputeInstanceTransformsAtTime(
            self._time,
            self._time,
            # With them OpenUSD refuses all instances for one that has no prototype.
            UsdGeom.PointInstancer.ExcludeProtoXform,
            UsdGeom.PointInstancer.IgnoreMask,
        )
        placed = np.asarray(matrices if matrices is not None else (), dtype=np.float64).reshape(-1, 4, 4)
        if len(placed) != len(indices):
            self._error(
                path,
                "positions, orientations or scales are not as many as protoIndices; its instances are left out",
                "author one of each for each instance",
            )
            return ()
        mask = instancer.ComputeMaskAtTime(self._time)
        shown = (
            np.asarray(mask, dtype=bool) if mask is not None and len(mask) else np.ones(len(indices), bool)
        )
        known = (indices >= 0) & (indices < len(prototypes))
        known[known] = [bool(prototypes[index]) for index in indices[known].tolist()]
        if not known.all():
            self._error(
                path,
                f"{int((~known).sum())} of its instances have no prototype; they are left out",
                "author protoIndices within the targets of prototypes",
            )
        own = [self._own_matrix(prim) if prim else np.eye(4) for prim in prototypes]
        # A place that is no number is reported where the instance's shapes are planned.
        with np.errstate(invalid="ignore"):
            return tuple(
                _Instance(number, prototypes[indices[number]], own[indices[number]] @ placed[number])
                for number in np.flatnonzero(known & shown).tolist()
            )

    def _own_matrix(self, prim: Usd.Prim) -> FloatArray:
        xformable = UsdGeom.Xformable(prim)
        local = xformable.GetLocalTransformation(self._time) if xformable else Gf.Matrix4d(1.0)
        return np.array(local, dtype=np.float64)

    def _parts_of(self, root: Usd.Prim, instancer: str) -> tuple[_Part, ...]:
        path = root.GetPath().pathString
        parts = self._parts.get(path)
        if parts is None:
            parts = self._parts[path] = tuple(self._read_parts(root, path))
        body = self._with_bodies.pop(path, "")
        if body:
            self._warning(
                instancer,
                f"its instances stand still, though the prototype has a rigid body, {body}",
                "reference each of them, instanceable, so that it moves by itself",
            )
        return parts

    def _read_parts(self, root: Usd.Prim, path: str) -> list[_Part]:
        found = []
        compounds: list[tuple[Usd.Prim, str]] = []
        prims = iter(Usd.PrimRange(root, _PROTOTYPES))
        for prim in prims:
            applied = prim.GetPrimTypeInfo().GetAppliedAPISchemas()
            if _BODY in applied:
                self._with_bodies.setdefault(path, prim.GetPath().pathString)
            is_instancer = prim.IsA(UsdGeom.PointInstancer)
            if is_instancer:
                prims.PruneChildren()
            is_gprim = prim.IsA(UsdGeom.Gprim)
            suffix = prim.GetPath().pathString[len(path) :]
            while compounds and not suffix.startswith(f"{compounds[-1][1]}/"):
                compounds.pop()
            if _COLLIDER in applied and not is_gprim:
                compounds.append((prim, suffix))
            if not (is_instancer or is_gprim):
                continue
            matrix, _ = self._cache.ComputeRelativeTransform(prim, root)
            found.append(
                _Part(
                    prim=prim,
                    suffix=suffix,
                    matrix=np.array(Gf.Matrix4d(matrix), dtype=np.float64),
                    seen=is_seen(prim, root),
                    is_instancer=is_instancer,
                    compound=compounds[-1] if compounds else None,
                )
            )
        return found

    def _error(self, path: str, message: str, remedy: str = _REFERENCE) -> None:
        self._diagnostics.append(
            Diagnostic(
                code="1.3.point_instancer", severity="error", path=path, message=message, remedy=remedy
            )
        )

    def _warning(self, path: str, message: str, remedy: str) -> None:
        self._diagnostics.append(
            Diagnostic(
                code="1.3.point_instancer", severity="warning", path=path, message=message, remedy=remedy
            )
        )


def is_seen(prim: Usd.Prim, root: Usd.Prim | None = None) -> bool:
    """Return whether purpose and visibility let a prim be seen; of a prototype's, only what its root and below say."""
    if root is None:
        imageable = UsdGeom.Imageable(prim)
        visible = imageable.ComputeVisibility(Usd.TimeCode.EarliestTime()) != UsdGeom.Tokens.invisible
        return bool(visible) and imageable.ComputePurpose() in SEEN_PURPOSES
    return all(_lets_be_seen(UsdGeom.Imageable(each)) for each in _from(prim, root))


def _from(prim: Usd.Prim, root: Usd.Prim) -> Sequence[Usd.Prim]:
    chain = [prim]
    while chain[-1] != root:
        chain.append(chain[-1].GetParent())
    return chain


def _lets_be_seen(imageable: UsdGeom.Imageable) -> bool:
    if not imageable:
        return True
    if imageable.GetVisibilityAttr().Get(Usd.TimeCode.EarliestTime()) == UsdGeom.Tokens.invisible:
        return False
    purpose = imageable.GetPurposeAttr()
    return not purpose.HasAuthoredValue() or purpose.Get() in SEEN_PURPOSES
