"""Robot models: robots that are composed from the same specs are read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final

from pxr import Sdf, Usd

from usd_ros_bridge.model.records import JointRecord, Record, attribute_fields
from usd_ros_bridge.usd.read.properties import PrimProperties

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
            records: Records of these prims by collection, as `can_be_repeated` wants them.
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
    for field_name, name in _relationships(record_type):
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
def _relationships(record_type: Any) -> tuple[tuple[str, str], ...]:
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

    __slots__ = ("_constant", "_parts", "_path", "_solver", "_targets", "_type", "_write_path")

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
            for name, _ in _relationships(self._type)
            if (targets := getattr(record, name))
        ]
        self._parts: list[tuple[_Write, list[_RecordTemplate]]] = []
        self._solver: dict[str, Any] = {}
        changing = {"path", *(name for name, _ in _relationships(self._type) if getattr(record, name))}
        if self._type is JointRecord:
            parts = [name for name in ("limits", "drives") if getattr(record, name)]
            self._parts = [
                (
                    _writer(JointRecord, name),
                    [_RecordTemplate(part, numbers) for part in getattr(record, name)],
                )
                for name in parts
            ]
            changing.update(parts)
            if any(map(_is_targets, record.solver_attributes.values())):
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
        for write, parts in self._parts:
            write(result, tuple([part.record(paths) for part in parts]))
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
