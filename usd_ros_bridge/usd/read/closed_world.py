"""Closed world: report names in the bridge's namespaces that no schema has, and properties without their schema.

A typing error is authored like anything else, and OpenUSD takes it. Names of other tools are none of our business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from pxr import Sdf, Usd

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.property_names import (
    CAMERA,
    CHECKED,
    ISAAC,
    JOINT,
    KNOWN,
    SCHEMA_NAMES,
    WANTED,
    group_of,
    is_ros_token,
    owners_of,
    question,
    schema_suggestion,
    suggestions,
)
from usd_ros_bridge.usd.read.properties import PrimProperties

_APPLIED: Final = "apiSchemas"
_SHOWN: Final = 3
"""Attributes without their schema that a message names."""


class AppliedNames(NamedTuple):
    """What prims of one type and with the same applied schemas may author.

    Attributes:
        owners: Schemas of the Ros family that are applied, and the prim types that have properties.
        unknown: Applied tokens of the Ros family that are no schema.
    """

    owners: frozenset[str]
    unknown: tuple[str, ...]


def applied_names(applied: Sequence[str], *, is_joint: bool, is_camera: bool) -> AppliedNames:
    """Return what prims may author.

    Args:
        applied: Applied API schemas, registered or not.
        is_joint: The prim is a joint of UsdPhysics.
        is_camera: The prim is a camera.
    """
    owners = {each for each in applied if each in SCHEMA_NAMES}
    owners |= {JOINT} if is_joint else set()
    owners |= {CAMERA} if is_camera else set()
    return AppliedNames(
        frozenset(owners), tuple(each for each in applied if is_ros_token(each) and each not in SCHEMA_NAMES)
    )


class NameCheck:
    """Check the names that prims author. Prims that author the same names are checked once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], AppliedNames], tuple[Diagnostic, ...]] = {}

    def check(
        self, prim: Usd.Prim, path: str, source: PrimProperties | None, applied: AppliedNames
    ) -> list[Diagnostic]:
        """Return what is wrong with the names of a prim.

        Args:
            prim: The prim.
            path: Its path.
            source: Its properties, if they are at hand: other prims of the same specs have the same names.
            applied: What it may author.
        """
        names = _authored(prim) if source is None else _remembered(prim, source)
        if not names and not applied.unknown:
            return []
        key = (names, applied)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = (*_of_tokens(applied), *_of_names(names), *_of_owners(names, applied))
        if not found:
            return []
        return [replace(each, path=path) for each in found if not _is_on_purpose(prim, each)]


def _authored(prim: Usd.Prim) -> tuple[str, ...]:
    return tuple([name for name in prim.GetAuthoredPropertyNames() if name.startswith(CHECKED)])


def _remembered(prim: Usd.Prim, source: PrimProperties) -> tuple[str, ...]:
    names: tuple[str, ...] | None = source.recall(NameCheck)
    if names is None:
        names = _authored(prim)
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


def _of_names(names: Sequence[str]) -> list[Diagnostic]:
    """Return a diagnostic for each name that no schema has."""
    found = []
    for name in names:
        near = () if name in KNOWN else suggestions(name)
        if name in KNOWN or (name.startswith(ISAAC) and not near):
            continue
        without = KNOWN[near[0]].without if near and near[0] not in names else ""
        found.append(
            Diagnostic(
                code="schema.attribute",
                severity="warning",
                path="",
                attribute=name,
                message=f"no schema has this attribute: {without or 'it has no effect'}",
                remedy=question(name),
            )
        )
    return found


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
