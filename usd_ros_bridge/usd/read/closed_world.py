"""Closed world: report names in the bridge's namespaces that no schema has, and properties without their schema.

A typing error is authored like anything else, and OpenUSD takes it. Names of other tools are none of our business.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from pxr import Sdf, Usd

from usd_ros_bridge.errors import nearest, quoted
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.property_names import (
    CAMERA,
    CHECKED,
    ISAAC,
    JOINT,
    KNOWN,
    OF_ACTUATORS,
    SCHEMA_NAMES,
    SOLVERS,
    WANTED,
    group_of,
    is_ros_token,
    owners_of,
    question,
    schema_suggestion,
    suggestions,
)
from usd_ros_bridge.model.records import Record, attribute_fields
from usd_ros_bridge.usd.read.properties import PrimProperties

_APPLIED: Final = "apiSchemas"
_SHOWN: Final = 3
"""Attributes without their schema that a message names."""


class AppliedNames(NamedTuple):
    """What prims of one type and with the same applied schemas may author.

    Attributes:
        owners: Schemas of the Ros family that are applied, and the prim types that have properties.
        unknown: Applied tokens of the Ros family that are no schema.
        namespaces: Beginnings of the names that are checked.
        foreign: Names of the properties of plug-ins' schemas; None if one of these plug-ins has a fault.
    """

    owners: frozenset[str]
    unknown: tuple[str, ...]
    namespaces: tuple[str, ...] = CHECKED
    foreign: frozenset[str] | None = frozenset()


def applied_names(
    applied: Sequence[str],
    *,
    is_joint: bool,
    is_camera: bool,
    is_actuator: bool,
    foreign: Collection[str] = (),
    records: Collection[type[Record]] = (),
) -> AppliedNames:
    """Return what prims may author.

    Args:
        applied: Applied API schemas, registered or not.
        is_joint: The prim is a joint of UsdPhysics.
        is_camera: The prim is a camera.
        is_actuator: The prim is an actuator or a tendon.
        foreign: Those of the applied schemas that plug-ins have.
        records: Record types of these; fewer where a plug-in has a fault.
    """
    owners = {each for each in applied if each in SCHEMA_NAMES}
    owners |= {JOINT} if is_joint else set()
    owners |= {CAMERA} if is_camera else set()
    unknown = tuple(
        each for each in applied if is_ros_token(each) and each not in SCHEMA_NAMES and each not in foreign
    )
    namespaces = (*CHECKED, *SOLVERS) if is_actuator else CHECKED
    names = frozenset(
        name
        for record in records
        for _, spec in attribute_fields(record)
        for name in (spec.name, *spec.aliases)
    )
    # Names beside those of a plug-in's schema are typing errors; those without a namespace may be anybody's.
    beside = {name.partition(":")[0] + ":" for name in names if ":" in name and name not in KNOWN}
    return AppliedNames(
        frozenset(owners),
        unknown,
        tuple(dict.fromkeys((*namespaces, *sorted(beside)))),
        names if len(records) == len(foreign) else None,
    )


class NameCheck:
    """Check the names that prims author. Prims that author the same names are checked once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], AppliedNames], tuple[Diagnostic, ...]] = {}

    def check(
        self,
        prim: Usd.Prim,
        path: str,
        authored: Sequence[str],
        source: PrimProperties | None,
        applied: AppliedNames,
    ) -> list[Diagnostic]:
        """Return what is wrong with the names of a prim.

        Args:
            prim: The prim.
            path: Its path.
            authored: Its authored property names.
            source: Its properties, if they are at hand: other prims of the same specs have the same names.
            applied: What it may author.
        """
        namespaces = applied.namespaces
        names = _within(authored, namespaces) if source is None else _remembered(authored, source, namespaces)
        if not names and not applied.unknown:
            return []
        key = (names, applied)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = (
                *_of_tokens(applied),
                *_of_names(names, applied.foreign),
                *_of_owners(names, applied),
            )
        if not found:
            return []
        return [replace(each, path=path) for each in found if not _is_on_purpose(prim, each)]


def authored_names(prim: Usd.Prim, source: PrimProperties | None) -> Sequence[str]:
    """Return the names of a prim's authored properties.

    Args:
        prim: The prim.
        source: Its properties, if they are at hand: other prims of the same specs have the same names.
    """
    if source is None:
        names: Sequence[str] = prim.GetAuthoredPropertyNames()
        return names
    known: Sequence[str] | None = source.recall(authored_names)
    if known is None:
        known = prim.GetAuthoredPropertyNames()
        source.remember(authored_names, known)
    return known


def _within(names: Sequence[str], namespaces: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([name for name in names if name.startswith(namespaces)])


def _remembered(
    authored: Sequence[str], source: PrimProperties, namespaces: tuple[str, ...]
) -> tuple[str, ...]:
    names: tuple[str, ...] | None = source.recall(NameCheck)
    if names is None:
        names = _within(authored, namespaces)
        source.remember(NameCheck, names)
    return names


def _of_tokens(applied: AppliedNames) -> list[Diagnostic]:
    """Return a diagnostic for each applied token that is no schema."""
    return [_unknown_schema(token, schema_suggestion(token), applied) for token in applied.unknown]


def _unknown_schema(token: str, schema: str, applied: AppliedNames) -> Diagnostic:
    if not schema:
        return Diagnostic(
            code="schema.applied",
            severity="warning",
            path="",
            attribute=_APPLIED,
            message=f"the bridge knows no schema {quoted(token)}; nothing is made of it",
            remedy="leave it out, or correct the name",
        )
    effect = "it has no effect" if schema in applied.owners else _missing(schema)
    return Diagnostic(
        code="schema.applied",
        severity="error",
        path="",
        attribute=_APPLIED,
        message=f"there is no schema {quoted(token)}: {effect}",
        remedy=f"did you mean {schema}?",
    )


def _of_names(names: Sequence[str], foreign: frozenset[str] | None) -> list[Diagnostic]:
    """Return a diagnostic for each name that no schema has. If a plug-in has a fault, any name may be its."""
    found = []
    for name in names if foreign is not None else ():
        if name in KNOWN or name in OF_ACTUATORS or name in (foreign or ()):
            continue
        close = nearest(name, foreign or (), count=1)
        if close:
            found.append(_misspelt(name, "it has no effect", f"did you mean {close[0]}?"))
            continue
        near = suggestions(name)
        if not near and name.startswith((ISAAC, *SOLVERS)):
            continue
        without = KNOWN[near[0]].without if near and near[0] in KNOWN and near[0] not in names else ""
        found.append(_misspelt(name, without or "it has no effect", question(name)))
    return found


def _misspelt(name: str, effect: str, remedy: str) -> Diagnostic:
    return Diagnostic(
        code="schema.attribute",
        severity="warning",
        path="",
        attribute=name,
        message=f"no schema has this attribute: {effect}",
        remedy=remedy,
    )


def _of_owners(names: Sequence[str], applied: AppliedNames) -> list[Diagnostic]:
    """Return a diagnostic for each schema whose properties are authored without it."""
    misspelt = {schema_suggestion(token) for token in applied.unknown}
    lost: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        owners = owners_of(name)
        if owners and applied.owners.isdisjoint(owners) and misspelt.isdisjoint(owners):
            lost.setdefault(owners, []).append(name)
    return [_not_applied(owners, authored) for owners, authored in lost.items()]


def _not_applied(owners: tuple[str, ...], authored: list[str]) -> Diagnostic:
    owner = owners[0]
    shown = ", ".join(authored[:_SHOWN])
    if len(authored) > _SHOWN:
        shown += f" and {len(authored) - _SHOWN} more"
    are = "is" if len(authored) == 1 else "are"
    if owner == JOINT:
        state, remedy = f"the prim is not {JOINT}", f"author {group_of(authored[0])}* on the joint"
    elif CAMERA in owners:
        state = "the prim is no Camera" + ("" if len(owners) == 1 else f", and {owner} is not applied")
        remedy = "author it on the Camera" + ("" if len(owners) == 1 else ", or on an interface of one")
    else:
        state, remedy = f"{owner} is not applied", f'apply it: prepend apiSchemas = ["{owner}"]'
    return Diagnostic(
        code="schema.applied",
        severity="error",
        path="",
        attribute=authored[0],
        message=f"{shown} {are} authored, and {state}: {_missing(owner)}",
        remedy=remedy,
    )


def _missing(owner: str) -> str:
    return WANTED.get(owner, "there is no controller")


def _is_on_purpose(prim: Usd.Prim, diagnostic: Diagnostic) -> bool:
    """Return whether a weaker opinion applies the schema that is missing: a stronger one has taken it away."""
    if diagnostic.code != "schema.applied" or diagnostic.attribute == _APPLIED:
        return False
    owners = owners_of(diagnostic.attribute)
    return any(_applies(spec, owners) for spec in prim.GetPrimStack())


def _applies(spec: Any, owners: Sequence[str]) -> bool:
    info: Sdf.TokenListOp = spec.GetInfo(_APPLIED)
    return any(each in owners for each in info.GetAddedOrExplicitItems())
