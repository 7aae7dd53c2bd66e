"""Properties: authored values of a prim as the fields of a record, with a diagnostic for every wrong type."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from pxr import Gf, Sdf, Tf, Usd

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model import records
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.records import AttributeSpec, Record, attribute_fields
from usd_ros_bridge.model.stage import Pause
from usd_ros_bridge.usd.read.spec_memory import SpecMemory, Specs
from usd_ros_bridge.usd.tf_errors import first_line

VECTORS: Final = (
    Gf.Vec2d,
    Gf.Vec2f,
    Gf.Vec2h,
    Gf.Vec2i,
    Gf.Vec3d,
    Gf.Vec3f,
    Gf.Vec3h,
    Gf.Vec3i,
    Gf.Vec4d,
    Gf.Vec4f,
    Gf.Vec4h,
    Gf.Vec4i,
)
QUATERNIONS: Final = (Gf.Quatd, Gf.Quatf, Gf.Quath)

MAX_ELEMENTS: Final = 4096
"""Longest array that is copied from an attribute; nothing that the bridge reads needs more."""


class Unusable(Exception):  # noqa: N818 (never leaves this package: it says that a value has the wrong type)
    """The value cannot stand for the type without loss."""


def elements(value: Any) -> list[Any]:
    """Return the elements of a short vector or array of OpenUSD.

    Python's own iteration ends with a C++ exception, which takes ten times as long.
    """
    return [value[row] for row in range(len(value))]


def plain(value: Any) -> Any:
    """Return a USD value as Python numbers, strings, booleans and tuples, None where it is none of these."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, QUATERNIONS):
        return (*map(float, elements(value.imaginary)), float(value.real))
    if isinstance(value, VECTORS):
        return tuple(elements(value))
    if isinstance(value, Sdf.AssetPath):
        return value.path
    if isinstance(value, Sdf.TimeCode):
        return float(value.GetValue())
    try:
        if len(value) > MAX_ELEMENTS:
            return None
        return tuple(plain(element) for element in value)
    except TypeError:
        return None


def _number(value: Any) -> float:
    if isinstance(value, Sdf.TimeCode):
        return float(value.GetValue())
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unusable
    return float(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unusable
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        raise Unusable
    if not -(2**31) <= value < 2**31:
        raise Unusable
    return int(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in {0, 1}:
        return bool(value)
    raise Unusable


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unusable
    return value


def _asset(value: Any) -> str:
    if not isinstance(value, Sdf.AssetPath):
        raise Unusable
    return str(value.path)


def _quaternion(value: Any) -> tuple[float, ...]:
    if not isinstance(value, QUATERNIONS):
        raise Unusable
    return (*map(float, elements(value.imaginary)), float(value.real))


def _vector(size: int, element: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def convert(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, VECTORS) or len(value) != size:
            raise Unusable
        return tuple([element(component) for component in elements(value)])

    return convert


def _array(element: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def convert(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str):
            raise Unusable
        try:
            if len(value) > MAX_ELEMENTS:
                raise Unusable
            return tuple(element(each) for each in value)
        except TypeError:
            raise Unusable from None

    return convert


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": _boolean,
    "int": _integer,
    "float": _number,
    "double": _number,
    "string": _text,
    "token": _text,
    "asset": _asset,
    "token[]": _array(_text),
    "double[]": _array(_number),
    "float[]": _array(_number),
    "int[]": _array(_integer),
    "int2": _vector(2, _integer),
    "float2": _vector(2, _number),
    "float3": _vector(3, _number),
    "color4f": _vector(4, _number),
    "point3f": _vector(3, _number),
    "vector3f": _vector(3, _number),
    "quatf": _quaternion,
}


def convert(value: Any, type_name: str) -> Any:
    """Return `value` as the plain Python type that stands for the SdfValueTypeName `type_name`.

    Raises:
        Unusable: It cannot, or not without loss.
    """
    return _CONVERTERS[type_name](value)


AnyRecord = TypeVar("AnyRecord", bound=Record)


class Memo(NamedTuple):
    """What is remembered of prims that are composed from the same specs.

    Attributes:
        number: Number of the specs.
        of_specs: What follows from the specs alone; the next reading of the stage may use it.
        of_reading: What may depend on other prims or files, too: it is forgotten at the end of the reading. The same
            dictionary where nothing is remembered for the next one.
    """

    number: int
    of_specs: dict[Any, Any]
    of_reading: dict[Any, Any]


SECTIONS: Final[dict[type[Record], str]] = {
    records.ContextRecord: "2.1",
    records.TopicRecord: "2.4",
    records.ServiceRecord: "2.5",
    records.ActionRecord: "2.6",
    records.FrameRecord: "2.7",
    records.ControllerRecord: "4.2.3",
    records.IsaacRobotRecord: "isaac",
    records.IsaacLinkRecord: "isaac",
    records.IsaacJointRecord: "isaac",
    records.IsaacSiteRecord: "isaac",
    records.CameraRecord: "2.8",
    records.Record: "1.3",
}
"""REP 0158 section that a record's schema belongs to: the first part of its diagnostics' codes."""

UNREPEATED: Final = 4096
"""How many prims that are like no other are read before prims are no longer expected to repeat."""

EARLIEST: Final = Usd.TimeCode.EarliestTime()

_OF_SPECS: Final = (Usd.ResolveInfoSourceDefault, Usd.ResolveInfoSourceTimeSamples)
"""Sources of values that are in the specs of a prim."""

_OF_LAYER_STACK: Final = ("asset", "timecode")
"""Beginnings of the types whose values depend on more than the layer that they are in."""

_TRANSCODED: Final = "tn__"
"""What OpenUSD Exchange's transcoded prim names begin with."""

_MAX_SHOWN: Final = 256
_ALLOWED: Final = re.compile(r"[A-Za-z0-9_]")
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_]")

_FIXED: Final = (bool, int, float, str, *VECTORS, *QUATERNIONS)
"""Types of values that are the same on the stage, wherever the layer stands."""


class Slot(NamedTuple):
    """Field that takes the value of one USD property."""

    field: str
    spec: AttributeSpec
    code: str
    rank: int


class PrimProperties:
    """The authored properties of one prim, composed when first asked for.

    Attributes:
        prim: The prim.
        path: Its path.
        specs: Number of the specs that it is composed from.
    """

    __slots__ = ("_of_reading", "_of_specs", "_properties", "path", "prim", "specs")

    def __init__(self, prim: Usd.Prim, path: str, memo: Memo) -> None:
        self.prim = prim
        self.path = path
        self.specs, self._of_specs, self._of_reading = memo
        self._properties: dict[str, Any] | None = None

    @property
    def properties(self) -> dict[str, Any]:
        """Return the authored properties by name."""
        if self._properties is None:
            # Both lists are in the same (dictionary) order; asking each property for its name costs more.
            names, properties = self.prim.GetAuthoredPropertyNames(), self.prim.GetAuthoredProperties()
            self._properties = dict(zip(names, properties, strict=True))
        return self._properties

    def recall(self, key: Any) -> Any:
        """Return what was read from another prim with the same specs, None for nothing."""
        value = self._of_specs.get(key)
        return self._of_reading.get(key) if value is None else value

    def remember(
        self, key: Any, value: Any, names: Container[str] | None = (), *, prefixes: tuple[str, ...] = ()
    ) -> None:
        """Remember a value for prims with the same specs.

        Args:
            key: Key for `recall`.
            value: The value. It refers to no prim.
            names: Names of the properties that it follows from; None if it depends on other prims.
            prefixes: Beginnings of more names.
        """
        of_specs, memo = self._of_specs, self._of_reading
        if of_specs is not memo and names is not None:
            properties = self.properties.items()
            if all(
                _follows_from_specs(prop)
                for name, prop in properties
                if name in names or name.startswith(prefixes)
            ):
                memo = of_specs
        memo[key] = value

    def targets(self, name: str) -> tuple[str, ...] | None:
        """Return the targets of the relationship called `name` as composed, None where none are authored."""
        relationship = self.prim.GetRelationship(name)
        try:
            targets = relationship.GetTargets()
        except Tf.ErrorException:
            # A stronger or weaker layer has an attribute of the name: no targets compose.
            targets = ()
        if targets:
            return tuple([target.pathString for target in targets])
        return () if relationship.HasAuthoredTargets() else None


class _Template(NamedTuple):
    """Values of a record that prims of the same specs have in common."""

    fields: dict[str, Any]
    relationships: tuple[tuple[str, str], ...]
    diagnostics: tuple[Diagnostic, ...]


def section_of(record_type: type[Record]) -> str:
    """Return the REP section in the codes of a record type's diagnostics."""
    return next(SECTIONS[base] for base in record_type.__mro__ if base in SECTIONS)


@cache
def slots_of(record_type: Any, axis: str = "") -> dict[str, Slot]:
    """Return the slots of a record type by USD property name, the `{axis}` of multiple-apply schemas filled in."""
    slots: dict[str, Slot] = {}
    for field_name, spec in attribute_fields(record_type):
        code = "2.10.name" if spec.name == "ros:joint:name" else f"{section_of(record_type)}.{field_name}"
        for rank, name in enumerate((spec.name, *spec.aliases)):
            slots[name.replace("{axis}", axis)] = Slot(field_name, spec, code, rank)
    return slots


def _wrong_type(slot: Slot, prop: Any) -> Diagnostic:
    spec = strongest_spec(prop)
    if isinstance(spec, Sdf.AttributeSpec):
        authored, value = (
            str(spec.typeName),
            authored_value(prop) if isinstance(prop, Usd.Attribute) else spec.default,
        )
    else:
        authored, value = (
            "rel",
            ", ".join(map(str, spec.targetPathList.GetAddedOrExplicitItems())) if spec else "",
        )
    return Diagnostic(
        code=slot.code,
        severity="error",
        path=prop.GetPrim().GetPath().pathString,
        attribute=prop.GetName(),
        message=f"has the type {quoted(authored)} (value {quoted(value)}) instead of {slot.spec.type_name}; ignored",
        remedy=f"author it as {slot.spec.type_name}",
    )


def _other_type(slot: Slot, prop: Any, authored: str) -> Diagnostic:
    return Diagnostic(
        code=slot.code,
        severity="warning",
        path=prop.GetPrim().GetPath().pathString,
        attribute=prop.GetName(),
        message=f"has the type {quoted(authored)} instead of {slot.spec.type_name}; the value is still used",
        remedy=f"author it as {slot.spec.type_name}",
    )


def authored_value(attribute: Any) -> Any:
    """Return an attribute's authored value, None where it is blocked or has none.

    An attribute that has time samples only gives the earliest: at the default time there is nothing, or what a
    registered schema falls back to.
    """
    if attribute.GetResolveInfo(Usd.TimeCode.Default()).GetSource() == Usd.ResolveInfoSourceDefault:
        return attribute.Get()
    return attribute.Get(EARLIEST) if attribute.HasAuthoredValue() else None


def _follows_from_specs(prop: Any) -> bool:
    """Return whether what is read of a property follows from the specs of its prim alone.

    Values of clips do not. Expressions in asset paths have the variables of a layer stack, time codes its offset.
    """
    return not isinstance(prop, Usd.Attribute) or (
        prop.GetResolveInfo(EARLIEST).GetSource() in _OF_SPECS
        and not str(prop.GetTypeName()).startswith(_OF_LAYER_STACK)
    )


def strongest_spec(prop: Any) -> Any:
    """Return the spec that says what a property is, None where there is none."""
    return next(iter(prop.GetPropertyStack(Usd.TimeCode.Default())), None)


def is_relationship(prop: Any) -> bool:
    """Return whether a property is authored as a relationship, whatever a registered schema says that it is."""
    return isinstance(strongest_spec(prop), Sdf.RelationshipSpec)


def kept_name(source: PrimProperties) -> str:
    """Return a prim's name before a converter, which kept it as the display name, "" where there is none."""
    name = source.path.rpartition("/")[2]
    # Whatever is made of a name that cannot be a prim's has one.
    if "_" not in name:
        return ""
    kept: str | None = source.recall(kept_name)
    if kept is None:
        prim = source.prim
        shown = _display_name(prim)
        siblings = prim.GetParent() if shown and Sdf.Path.IsValidIdentifier(shown) else None
        taken = bool(siblings and siblings.GetChild(shown))
        kept = shown if is_name_of(name, shown, taken=taken) else ""
        source.remember(kept_name, kept, None if shown else ())
    return kept


def _display_name(prim: Usd.Prim) -> str:
    """Return the display name: the metadata itself, else that of `uiHints`, which is its successor in OpenUSD."""
    shown = prim.GetDisplayName()
    if not shown and prim.HasAuthoredMetadata("uiHints"):
        hints = prim.GetMetadata("uiHints")
        shown = hints.get("displayName", "") if hasattr(hints, "get") else ""
    return str(shown)


def is_name_of(name: str, shown: str, *, taken: bool = False) -> bool:
    """Return whether a prim's name was made of its display name, rather than the other being a remark for people.

    Three ways of making one are known: OpenUSD Exchange's transcoding (`joint_0.0` becomes `tn__joint_00_nC`), `_` for
    each character that USD does not allow (TfMakeValidIdentifier), and a number where a sibling has the name.

    Args:
        name: The prim's name.
        shown: Its display name.
        taken: Whether a sibling is called `shown`.
    """
    if not shown or shown == name or len(shown) > _MAX_SHOWN or not shown.isprintable():
        return False
    if name.startswith(_TRANSCODED):
        basic = "".join(_ALLOWED.findall(shown))
        number = r"(_\d+)?_" if basic else ""
        return re.fullmatch(f"{_TRANSCODED}{basic}{number}[A-Za-z0-9]*", name) is not None
    if taken:
        return re.fullmatch(rf"{re.escape(shown)}_\d+", name) is not None
    replaced = _NOT_ALLOWED.sub("_", shown)
    identifiers = (
        {replaced, f"_{replaced}"} if not shown[0].isdigit() else {f"_{replaced[1:]}", f"_{replaced}"}
    )
    return name in identifiers and not any(character.isspace() for character in shown)


class PrimReader:
    """Keep the properties of a stage's prims, so that they are composed once.

    A stage with a thousand references to one robot has a thousand prims for each of its prims, composed from the same
    specs: they have the same values (relationships apart, whose targets follow the reference), which are read once.

    Attributes:
        stage: The stage. It must not change meanwhile.
        pause: Called often, between prims, where others wait for the stage.
    """

    def __init__(
        self, stage: Usd.Stage, pause: Pause | None = None, memory: SpecMemory | None = None
    ) -> None:
        """Bind the reader to a stage.

        Args:
            stage: The stage.
            pause: See above.
            memory: What earlier readings remember of specs; None for nothing, and nothing is remembered.
        """
        self.stage = stage
        self.pause = pause
        self._memory = memory
        self._sources: dict[str, PrimProperties] = {}
        self._memos: dict[Specs, Memo] = {}
        if memory is not None:
            memory.begin(stage)
        self._repeats = 0

    @property
    def prims_repeat(self) -> bool:
        """Return whether most prims are, or may turn out to be, composed from the same specs as others."""
        return len(self._memos) < UNREPEATED + self._repeats

    def source(self, path: str, prim: Usd.Prim | None = None, memo: Memo | None = None) -> PrimProperties:
        """Return the properties of a prim, to read records from.

        Args:
            path: Path of the prim.
            prim: The prim itself, if at hand.
            memo: What `memo` returned for it, if at hand.
        """
        source = self._sources.get(path)
        if source is None:
            prim = prim or self.stage.GetPrimAtPath(path)
            source = self._sources[path] = PrimProperties(prim, path, memo or self.memo(prim))
        return source

    def memo(self, prim: Usd.Prim) -> Memo:
        """Return what is remembered of prims that are composed from the same specs as this one."""
        if self.pause is not None:
            self.pause()
        specs = tuple(prim.GetPrimStack())
        memo = self._memos.get(specs)
        if memo is None:
            of_reading: dict[Any, Any] = {}
            of_specs = of_reading if self._memory is None else self._memory.values(specs)
            memo = self._memos[specs] = Memo(len(self._memos) + 1, of_specs, of_reading)
        else:
            self._repeats += 1
        return memo

    def close(self) -> None:
        """End the reading: the memory keeps what was read."""
        if self._memory is not None:
            self._memory.end(self._memos.keys())


class FieldReader:
    """Reader of records' fields. It collects what is wrong with them."""

    def __init__(self, diagnostics: list[Diagnostic], pause: Pause | None = None) -> None:
        self._diagnostics = diagnostics
        self._pause = pause

    def record(
        self, record_type: type[AnyRecord], source: PrimProperties, *, axis: str | None = None, **fields: Any
    ) -> AnyRecord:
        """Return the record of type `record_type` of a prim.

        Args:
            record_type: One of the types in `model.records`.
            source: The prim's authored properties.
            axis: Instance name of a multiple-apply schema; also the record's `axis`.
            fields: Fields that are not read from properties.
        """
        if self._pause is not None:
            self._pause()
        schema: Any = record_type
        key = (schema, axis)
        template: _Template | None = source.recall(key)
        if template is None:
            slots = slots_of(schema, axis or "")
            template = _read_template(slots, source)
            if axis is not None:
                template.fields["axis"] = axis
            source.remember(key, template, slots)
        for field_name, name in template.relationships:
            fields[field_name] = source.targets(name)
        for diagnostic in template.diagnostics:
            self._diagnostics.append(replace(diagnostic, path=source.path))
        # Limits and drives are parts of the record of their joint: equal joints share them.
        path = source.path if axis is None else ""
        return record_type(path=path, specs=source.specs, **template.fields, **fields)


def _read_template(slots: dict[str, Slot], source: PrimProperties) -> _Template:
    fields: dict[str, Any] = {}
    relationships: dict[str, str] = {}
    invalid: list[str] = []
    diagnostics: list[Diagnostic] = []
    ranks: dict[str, int] = {}
    for name, prop in source.properties.items():
        slot = slots.get(name)
        if slot is None or slot.rank >= ranks.get(slot.field, len(slots)):
            continue
        if slot.spec.type_name == "rel" and is_relationship(prop):
            relationships[slot.field] = name
            ranks[slot.field] = slot.rank
            continue
        try:
            value = _read_value(prop, slot, diagnostics)
        except Unusable:
            invalid.append(name)
            diagnostics.append(_wrong_type(slot, prop))
            continue
        if value is not None:
            fields[slot.field] = value
            ranks[slot.field] = slot.rank
    fields["invalid"] = tuple(invalid)
    return _Template(fields, tuple(relationships.items()), tuple(diagnostics))


def _read_value(prop: Any, slot: Slot, diagnostics: list[Diagnostic]) -> Any:
    """Return an attribute's value as the slot's type, None where none is authored.

    Raises:
        Unusable: The value has another type.
    """
    spec = strongest_spec(prop)
    if not isinstance(spec, Sdf.AttributeSpec) or not isinstance(prop, Usd.Attribute):
        # A relationship where the schema has an attribute, or the reverse.
        raise Unusable
    value = spec.default
    if not isinstance(value, _FIXED):
        value = authored_value(prop)
    if value is None:
        return None
    if slot.spec.type_name == "rel":
        raise Unusable
    result = convert(value, slot.spec.type_name)
    if str(spec.typeName) != slot.spec.type_name:
        diagnostics.append(_other_type(slot, prop, str(spec.typeName)))
    return result


PREDICATE: Final = Usd.TraverseInstanceProxies(Usd.PrimIsActive & Usd.PrimIsDefined & ~Usd.PrimIsAbstract)
"""Active, defined and not abstract, below instances too; loaded or not, because a link that carries an unloaded payload
still counts."""


def collection_members(
    stage: Usd.Stage, targets: Iterable[str], order: Mapping[str, int], diagnostics: list[Diagnostic]
) -> dict[str, tuple[str, ...]]:
    """Return the prims of each collection that exists, by collection path (`/Robot.collection:arm`).

    Args:
        stage: The stage.
        targets: Collection paths.
        order: Position of each prim in traversal order, the order of members: a collection has none of its own.
        diagnostics: Takes collections that OpenUSD cannot evaluate; they have no members.
    """
    found: dict[str, tuple[str, ...]] = {}
    for target in sorted(set(targets)):
        collection = Usd.CollectionAPI.GetCollection(stage, target)
        if not collection:
            continue
        try:
            query = collection.ComputeMembershipQuery()
            members = Usd.CollectionAPI.ComputeIncludedPaths(query, stage, PREDICATE)
        except Tf.ErrorException as error:
            path, _, name = target.partition(".")
            diagnostics.append(_broken_collection(path, name, error))
            members = ()
        paths = {path.pathString for path in members if path.IsPrimPath()}
        found[target] = tuple(sorted(paths & order.keys(), key=order.__getitem__))
    return found


def _broken_collection(path: str, attribute: str, error: Exception) -> Diagnostic:
    """Return the diagnostic of a collection that OpenUSD cannot evaluate."""
    return Diagnostic(
        code="4.2.3.collection",
        severity="error",
        path=path,
        attribute=attribute,
        message=f"is no collection that OpenUSD can use: {first_line(error)}; it has no members",
        remedy="author includes and excludes as relationships",
    )
