"""Robots that are composed from the same specs: the records of one, once more for each of the others.

A stage with a thousand references to one robot has it a thousand times. What OpenUSD composes from the same specs, prim
by prim, has the same values; only the robot's root, its relationships' targets and its place in the world differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, Final

from pxr import Sdf, Usd

from usd_ros_bridge.model.records import JointRecord, Record, attribute_fields
from usd_ros_bridge.usd.attributes import PrimProperties

_ITEMS: Final = (
    "explicitItems", "addedItems", "prependedItems", "appendedItems", "deletedItems", "orderedItems",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ReadRobot:
    """A robot that was read, to be repeated.

    Attributes:
        root: Path of its root prim.
        suffixes: Where its prims are below the root, in traversal order, the root apart.
        records: Records of these prims by collection.
        xform_children: Which of the suffixes are Xforms directly below bodies.
    """

    root: str
    suffixes: tuple[str, ...]
    records: Mapping[str, Sequence[Any]]
    xform_children: tuple[str, ...]

    def repeated(self, root: str) -> Iterator[tuple[str, list[Any]]]:
        """Yields the records of a robot at `root` that is composed from the same specs, by collection."""
        paths = {self.root + suffix: root + suffix for suffix in self.suffixes}
        paths[self.root] = root
        for collection, of_robot in self.records.items():
            yield collection, [_repeated(record, paths) for record in of_robot]


def can_be_repeated(
    root: str, sources: Sequence[PrimProperties], records: Mapping[str, Sequence[Any]]
) -> bool:
    """Returns whether all targets of a robot's relationships are in the robot, and follow it wherever it is.

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
    """Returns whether prims may have other names than their specs."""
    layers = stage.GetUsedLayers(includeClipLayers=False)
    return any(layer.HasRelocates() for layer in layers if hasattr(layer, "HasRelocates"))


def _targets(record: Record) -> Iterator[tuple[str, set[str]]]:
    """Yields the properties that a record has targets of, with the targets."""
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
    """Returns whether every spec of a relationship names prims of the robot only, by where they are in its own layer.

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


def _repeated(record: Any, paths: Mapping[str, str]) -> Any:
    """Returns a record with all paths in it exchanged."""
    changes: dict[str, Any] = {"path": paths[record.path]}
    for field_name, _ in _relationships(record.__class__):
        targets = getattr(record, field_name)
        if targets:
            changes[field_name] = tuple([paths[target] for target in targets])
    if record.__class__ is JointRecord:
        for parts in ("limits", "drives"):
            if of_joint := getattr(record, parts):
                changes[parts] = tuple([_with(part, {"path": changes["path"]}) for part in of_joint])
        solver = record.solver_attributes
        if any(map(_is_targets, solver.values())):
            changes["solver_attributes"] = {
                name: tuple([paths[target] for target in value]) if _is_targets(value) else value
                for name, value in solver.items()
            }
    return _with(record, changes)


def _with(record: Any, changes: Mapping[str, Any]) -> Any:
    """As `dataclasses.replace`, at a third of what that or a call with thirty keywords costs."""
    record_type = record.__class__
    values, writers = _slots(record_type)
    result = object.__new__(record_type)
    for write, value in zip(writers, values(record), strict=True):
        write(result, value)
    for name, value in changes.items():
        object.__setattr__(result, name, value)
    return result


@cache
def _slots(
    record_type: Any,
) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[Callable[[Any, Any], None], ...]]:
    """Returns what reads all fields of a record, and what writes each."""
    names = [field.name for field in fields(record_type)]
    return attrgetter(*names), tuple(getattr(record_type, name).__set__ for name in names)
