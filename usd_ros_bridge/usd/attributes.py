"""Attributes: authored properties of a prim into a record's fields, and a diagnostic for every wrong type.

The rule (REP 0158 section 2 gives each attribute a type; OpenUSD coerces nothing): a value that stands for the
schema's type without loss is used, with a warning; any other is an error, and counts as not authored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from pxr import Usd

from usd_ros_bridge.model import records
from usd_ros_bridge.model.diagnostics import Diagnostic, quoted
from usd_ros_bridge.model.records import AttributeSpec, Record, attribute_fields
from usd_ros_bridge.usd.values import Unusable, convert, value_type

AnyRecord = TypeVar("AnyRecord", bound=Record)

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
    records.CameraRecord: "2.8",
    records.Record: "1.3",
}
"""REP 0158 section that a record's schema belongs to: the first part of its diagnostics' codes."""

EARLIEST: Final = Usd.TimeCode.EarliestTime()


class Slot(NamedTuple):
    """Where the value of one USD property goes."""

    field: str
    spec: AttributeSpec
    code: str
    rank: int


class PrimProperties:
    """The authored properties of one prim by name, composed once for all the records that the prim carries."""

    __slots__ = ("path", "prim", "properties")

    def __init__(self, prim: Usd.Prim, path: str) -> None:
        self.prim = prim
        self.path = path
        # Both lists are in the same (dictionary) order; asking each property for its name costs more.
        self.properties: dict[str, Any] = dict(
            zip(prim.GetAuthoredPropertyNames(), prim.GetAuthoredProperties(), strict=True)
        )


def section_of(record_type: type[Record]) -> str:
    """Returns the REP section in the codes of a record type's diagnostics."""
    return next(SECTIONS[base] for base in record_type.__mro__ if base in SECTIONS)


@lru_cache(maxsize=None)
def slots_of(record_type: type[Record], axis: str = "") -> dict[str, Slot]:
    """Returns the slots of a record type by USD property name, the `{axis}` of multiple-apply schemas filled in."""
    slots: dict[str, Slot] = {}
    for field_name, spec in attribute_fields(record_type):
        code = "2.10.name" if spec.name == "ros:joint:name" else f"{section_of(record_type)}.{field_name}"
        for rank, name in enumerate((spec.name, *spec.aliases)):
            slots[name.replace("{axis}", axis)] = Slot(field_name, spec, code, rank)
    return slots


def _wrong_type(slot: Slot, path: str, name: str, authored: str, value: Any) -> Diagnostic:
    return Diagnostic(
        code=slot.code,
        severity="error",
        path=path,
        attribute=name,
        message=f"has the type {quoted(authored)} (value {quoted(value)}) instead of {slot.spec.type_name}; ignored",
        remedy=f"author it as {slot.spec.type_name}",
    )


def _other_type(slot: Slot, path: str, name: str, authored: str) -> Diagnostic:
    return Diagnostic(
        code=slot.code,
        severity="warning",
        path=path,
        attribute=name,
        message=f"has the type {quoted(authored)} instead of {slot.spec.type_name}; the value is used all the same",
        remedy=f"author it as {slot.spec.type_name}",
    )


def authored_value(attribute: Any, fallback: Any = None) -> Any:
    """Returns an attribute's authored value, None where it is blocked or has none.

    An attribute that has time samples only gives the earliest: `Get()` at the default time is None there.
    """
    value = attribute.Get()
    if value is None:
        return attribute.Get(EARLIEST) if attribute.HasAuthoredValue() else None
    # A blocked attribute of a registered schema gives the schema's fallback.
    if fallback is not None and not attribute.HasAuthoredValue():
        return None
    return value


def authored_type_name(attribute: Any) -> str:
    """Returns the type that the strongest opinion declares, whatever a registered schema says."""
    for spec in attribute.GetPropertyStack(Usd.TimeCode.Default()):
        return str(spec.typeName)
    return str(attribute.GetTypeName())


def _read_relationship(prop: Any) -> tuple[str, ...] | None:
    targets = prop.GetTargets()
    if targets:
        return tuple([target.pathString for target in targets])
    return () if prop.HasAuthoredTargets() else None


class FieldReader:
    """Reads records' fields and collects what is wrong with them."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        self._diagnostics = diagnostics

    def record(
        self, record_type: type[AnyRecord], source: PrimProperties, *, axis: str = "", **fields: Any
    ) -> AnyRecord:
        """Returns the record of type `record_type` of a prim.

        Args:
            record_type: One of the types in `model.records`.
            source: The prim's authored properties.
            axis: Instance name of a multiple-apply schema; also the record's `axis`.
            fields: Fields that are not read from properties.
        """
        slots = slots_of(record_type, axis)
        invalid: list[str] = []
        ranks: dict[str, int] = {}
        for name in source.properties:
            slot = slots.get(name)
            if slot is None or slot.rank >= ranks.get(slot.field, len(slots)):
                continue
            value = self._read(source, name, slot, invalid)
            if value is not None:
                fields[slot.field] = value
                ranks[slot.field] = slot.rank
        if axis:
            fields["axis"] = axis
        return record_type(path=source.path, invalid=tuple(sorted(invalid)), **fields)

    def _read(self, source: PrimProperties, name: str, slot: Slot, invalid: list[str]) -> Any:
        prop = source.properties[name]
        is_relationship = isinstance(prop, Usd.Relationship)
        if is_relationship != (slot.spec.type_name == "rel"):
            invalid.append(name)
            authored = "rel" if is_relationship else str(prop.GetTypeName())
            value = ", ".join(map(str, prop.GetTargets())) if is_relationship else prop.Get()
            self._diagnostics.append(_wrong_type(slot, source.path, name, authored, value))
            return None
        if is_relationship:
            return _read_relationship(prop)
        value = authored_value(prop, slot.spec.fallback)
        if value is None:
            return None
        try:
            result = convert(value, slot.spec.type_name)
        except Unusable:
            invalid.append(name)
            self._diagnostics.append(
                _wrong_type(slot, source.path, name, authored_type_name(prop), value)
            )
            return None
        if prop.GetTypeName() != value_type(slot.spec.type_name) or type(value) in _MISMATCH.get(
            slot.spec.type_name, ()
        ):
            self._diagnostics.append(_other_type(slot, source.path, name, authored_type_name(prop)))
        return result


_MISMATCH: Final[dict[str, tuple[type, ...]]] = {
    "float": (int,),
    "double": (int,),
    "int": (float,),
    "bool": (int,),
}
"""Python types that betray an authored type other than a registered schema's: there GetTypeName() is the schema's."""


def matching(source: PrimProperties, prefix: str, suffix: str) -> Iterator[tuple[str, Any]]:
    """Yields the attributes of a prim whose name starts with `prefix` and ends with `suffix`, and their names."""
    for name, prop in source.properties.items():
        if name.startswith(prefix) and name.endswith(suffix) and isinstance(prop, Usd.Attribute):
            yield name, prop
