"""The ledger: what each engine makes of every property and API of the physics schemas (REP 0158 section 1.4).

Each CSV file of this package is a library of schemas. A row is a property of a schema, or with an empty `property`
the schema itself: type and fallback as the library has them, and a cell for each engine. A cell is a state, in
brackets the code of the diagnostic that already reports the property, and what happens instead:

    not implemented: the body moves along all axes
    approximated [1.3.mesh.approximation]: the nearest one is used

`test/assets/schemas/` has the names, types and fallbacks to which a test compares these files.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from usd_ros_bridge.model.diagnostics import Reason
from usd_ros_bridge.options import Engine

LIBRARIES: Final = (
    "usd_physics",
    "newton",
    "mjc",
    "physx",
    "physx_addition",
    "omni_deformable",
    "isaac",
    "others",
)
"""Names of the CSV files."""

ENGINES: Final[tuple[Engine, ...]] = get_args(Engine)
"""Columns of the ledger: backends that simulate physics."""

State = Literal["simulated", "description"] | Reason
"""`description`: says nothing about a simulation (texts, licenses, caches). The others: see `Reason`."""

INSTANCE: Final = "{instance}"
"""The instance name of a multiple-apply schema."""

_CELL: Final = re.compile(r"(?P<state>[a-z ]+?)(?: \[(?P<code>[\w.]+)\])?(?:: (?P<effect>.+))?")
_STATES: Final = ("simulated", "description", "not implemented", "approximated", "vendor layer ignored")


@dataclass(frozen=True, slots=True)
class Treatment:
    """The state of a property in an engine.

    Attributes:
        state: Whether it is simulated, or why not.
        code: Code of the diagnostic that reports it where it matters; "" for `1.4.degraded`.
        effect: What is done instead, or how it is simulated; "" for no effect.
    """

    state: State
    code: str = ""
    effect: str = ""

    @property
    def is_degraded(self) -> bool:
        """Return whether an authored value has another effect than its schema says."""
        return self.state not in ("simulated", "description")


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A property of a schema, or a schema.

    Attributes:
        library: One of LIBRARIES.
        schema: Name of the schema.
        name: USD name of the property, with `{instance}` for an instance name; "" for the schema itself.
        type_name: SdfValueTypeName, `rel` for relationships, "" for the schema itself.
        fallback: As plain Python values; None where the schema has none.
        engines: Treatment by engine.
    """

    library: str
    schema: str
    name: str
    type_name: str
    fallback: Any
    engines: Mapping[Engine, Treatment]


class Ledger:
    """All rows, by schema and by property."""

    def __init__(self, rows: tuple[LedgerRow, ...]) -> None:
        self.rows = rows
        self._schemas = {row.schema: row for row in rows if not row.name}
        self._properties: dict[str, list[LedgerRow]] = {}
        for row in rows:
            if row.name:
                self._properties.setdefault(row.name, []).append(row)

    def schema(self, name: str) -> LedgerRow | None:
        """Return the row of a schema. An instance name (`PhysxLimitAPI:rotX`) is left out."""
        return self._schemas.get(name.partition(":")[0])

    def properties(self, name: str) -> tuple[LedgerRow, ...]:
        """Return the rows of the schemas that have a property, none for an unknown one.

        Args:
            name: USD name as authored: `physxLimit:rotX:stiffness`.
        """
        found = self._properties.get(name)
        if found is None:
            parts = name.split(":")
            for place in range(len(parts) - 1, 0, -1):
                # Instance names have no colon in the schemas of the ledger.
                found = self._properties.get(":".join((*parts[:place], INSTANCE, *parts[place + 1 :])))
                if found is not None:
                    break
        return tuple(found or ())


@cache
def ledger() -> Ledger:
    """Return the ledger; it is read once."""
    folder = Path(__file__).parent
    rows: list[LedgerRow] = []
    for library in LIBRARIES:
        with (folder / f"{library}.csv").open(encoding="utf-8", newline="") as stream:
            rows += [_row(library, each) for each in csv.DictReader(stream)]
    return Ledger(tuple(rows))


def _row(library: str, cells: Mapping[str, str]) -> LedgerRow:
    return LedgerRow(
        library=library,
        schema=cells["schema"],
        name=cells["property"],
        type_name=cells["type"],
        fallback=_plain(json.loads(cells["fallback"])) if cells["fallback"] else None,
        engines={engine: _treatment(cells[engine]) for engine in ENGINES},
    )


def _treatment(cell: str) -> Treatment:
    match = _CELL.fullmatch(cell)
    if match is None or match["state"] not in _STATES:
        raise ValueError(f"no cell of the ledger: {cell!r}")
    return Treatment(cast(State, match["state"]), match["code"] or "", match["effect"] or "")


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_plain(each) for each in value)
    return float(value) if value in ("inf", "-inf") else value
