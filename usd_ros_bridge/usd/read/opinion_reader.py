"""Authored physics opinions of every prim, whatever reads them: planning reports those that no engine simulates.

An opinion is a property, an applied schema or a prim type of the ledger's libraries, or a property below one of their
namespaces that no schema has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from pxr import Usd

from usd_ros_bridge.model.ledger import INSTANCE, ledger
from usd_ros_bridge.model.physics_records import Opinions
from usd_ros_bridge.usd.read.joint_reader import SOLVER_PREFIXES
from usd_ros_bridge.usd.read.properties import (
    PrimProperties,
    PrimReader,
    authored_value,
    is_relationship,
    plain,
)

_NOTHING: Final = Opinions()


class OpinionReader:
    """Collect the opinions of prims during the pass over a stage.

    Attributes:
        found: Opinions by prim path. Prims that are composed from the same specs share them.
    """

    def __init__(self, prims: PrimReader) -> None:
        self.found: dict[str, Opinions] = {}
        self._prims = prims

    def see(self, prim: Usd.Prim, path: str, names: Sequence[str], source: PrimProperties | None) -> None:
        """Keep the opinions of the next prim.

        Args:
            prim: The prim.
            path: Its path.
            names: Its authored property names.
            source: Its properties, if they are at hand.
        """
        opinions = None if source is None else source.recall(Opinions)
        if opinions is None:
            info = prim.GetPrimTypeInfo()
            type_name, applied = str(info.GetTypeName()), tuple(info.GetAppliedAPISchemas())
            unapplied = {name: schema for name in names if (schema := _missing_schema(name, applied))}
            looked_at = [name for name in names if name in unapplied or _is_looked_at(name)]
            schemas = _schemas(type_name, applied)
            opinions = _NOTHING
            if looked_at or schemas:
                values = self._values(path, prim, looked_at, source) if looked_at else {}
                opinions = Opinions(type_name=type_name, schemas=schemas, unapplied=unapplied, values=values)
            if source is not None:
                source.remember(Opinions, opinions, prefixes=_prefixes())
        self.add(path, opinions)

    def add(self, path: str, opinions: Opinions | None) -> None:
        """Keep opinions that another prim of the same specs has."""
        if opinions is not None and opinions is not _NOTHING:
            self.found[path] = opinions

    def _values(
        self, path: str, prim: Usd.Prim, names: Sequence[str], source: PrimProperties | None
    ) -> dict[str, Any]:
        properties = (source or self._prims.source(path, prim)).properties
        values: dict[str, Any] = {}
        for name in names:
            prop = properties.get(name)
            if prop is None:
                continue
            if is_relationship(prop):
                if prim.GetRelationship(name).HasAuthoredTargets():
                    values[name] = ()
            elif isinstance(prop, Usd.Attribute) and prop.HasAuthoredValue():
                values[name] = plain(authored_value(prop))
        return values


@cache
def _prefixes() -> tuple[str, ...]:
    """Return the beginnings of all names of the ledger, and of names like them."""
    names = (row.name for row in ledger().rows if ":" in row.name)
    return tuple(sorted({*SOLVER_PREFIXES, *(name.partition(":")[0] + ":" for name in names)}))


@cache
def _is_looked_at(name: str) -> bool:
    """Return whether a name is an engine's own, or one that an engine does not simulate, or nobody's."""
    if name.startswith(SOLVER_PREFIXES):
        return True
    if not name.startswith(_prefixes()):
        return False
    rows = ledger().properties(name)
    return not rows or any(each.is_degraded for row in rows for each in row.engines.values())


@cache
def _missing_schema(name: str, applied: tuple[str, ...]) -> str:
    """Return the API schema of UsdPhysics without which a property has no effect, "" where nothing is missing."""
    if not name.startswith(("physics:", "drive:", "limit:")):
        return ""
    rows = ledger().properties(name)
    # Joints and scenes are types, from which others may derive.
    if not rows or any(row.library != "usd_physics" or not row.schema.endswith("API") for row in rows):
        return ""
    instance = f":{name.split(':')[1]}" if INSTANCE in rows[0].name else ""
    wanted = [row.schema + instance for row in rows]
    return "" if any(each in applied for each in wanted) else wanted[0]


_FAMILIES: Final = ("Physics", "Physx", "Newton", "Mjc", "OmniPhysics")
"""Beginnings of the names of applied schemas of physics."""


@cache
def _schemas(type_name: str, applied: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of a prim's type and applied schemas that an engine does not simulate, or nobody knows."""
    found = []
    for name in dict.fromkeys((type_name, *applied)):
        row = ledger().schema(name)
        if row is None:
            is_degraded = name != type_name and name.startswith(_FAMILIES)
        else:
            is_degraded = any(each.is_degraded for each in row.engines.values())
        if is_degraded:
            found.append(name)
    return tuple(found)
