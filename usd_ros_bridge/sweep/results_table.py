"""Table of a sweep: one row for each run that is over, as Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.replaced_file import replaced
from usd_ros_bridge.requirements import missing_requirement
from usd_ros_bridge.sweep.run_record import RunRecord

if TYPE_CHECKING:
    import pyarrow as pa

GROUPS: Final = ("parameters", "metrics", "drawn")
"""Fields whose entries are columns of their own: `parameters.friction`."""


def results_table(records: Iterable[RunRecord], *, about: Mapping[str, str] | None = None) -> pa.Table:
    """Return the table of some runs, in the order of the sweep.

    Columns are `id`, `index`, `seed`, one for each parameter (`parameters.NAME`), metric (`metrics.NAME`) and drawn
    value (`drawn.NAME`), `outcome`, `reason`, and times. A metric that a run does not have is null.

    Args:
        records: The runs.
        about: Metadata of the schema.

    Raises:
        BridgeError: pyarrow is not installed.
    """
    pa = _pyarrow()
    rows = sorted(records, key=lambda record: record.index)
    columns: dict[str, Any] = {
        "id": pa.array([row.id for row in rows], pa.string()),
        "index": pa.array([row.index for row in rows], pa.int64()),
        "seed": pa.array([row.seed for row in rows], pa.int64()),
    }
    columns |= _group(rows, "parameters", _value_column)
    for name in ("outcome", "reason"):
        columns[name] = pa.array([getattr(row, name) for row in rows], pa.string())
    columns |= _group(rows, "metrics", lambda values: pa.array(values, pa.float64()))
    columns |= _group(rows, "drawn", _value_column)
    columns["sim_time"] = pa.array([row.sim_time for row in rows], pa.float64())
    columns["steps"] = pa.array([row.steps for row in rows], pa.int64())
    for name in ("setup_time", "run_time", "wall_time"):
        columns[name] = pa.array([getattr(row, name) for row in rows], pa.float64())
    started = [int(row.started * 1e6) for row in rows]
    columns["started"] = pa.array(started, pa.timestamp("us", tz="UTC"))
    columns["attempts"] = pa.array([row.attempts for row in rows], pa.int64())
    for name in ("worker", "recording"):
        columns[name] = pa.array([getattr(row, name) for row in rows], pa.string())
    columns["warnings"] = pa.array(["\n".join(row.warnings) for row in rows], pa.string())
    table = pa.table(columns)
    return table.replace_schema_metadata(dict(about)) if about else table


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet: the file is complete, or the one before.

    Raises:
        OSError: It cannot be written.
    """
    from pyarrow import parquet

    with replaced(path) as file:
        parquet.write_table(table, file)


def read_table(path: Path) -> pa.Table:
    """Read a table.

    Raises:
        BridgeError: pyarrow is not installed, or the file cannot be read.
    """
    _pyarrow()
    from pyarrow import parquet

    try:
        return parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise BridgeError(f"{path}: {error}") from error


def _group(rows: Sequence[RunRecord], group: str, column: Any) -> dict[str, Any]:
    # In the order of the first run that has them, so that the order of the runs in time does not count.
    names = dict.fromkeys(name for row in rows for name in getattr(row, group))
    return {f"{group}.{name}": column([getattr(row, group).get(name) for row in rows]) for name in names}


def _value_column(values: Sequence[Any]) -> Any:
    pa = _pyarrow()
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool}:
        return pa.array(values, pa.bool_())
    if kinds <= {int} and all(-(2**63) <= value < 2**63 for value in values if value is not None):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array(texts, pa.string())


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise missing_requirement(error) or BridgeError(f"pyarrow cannot be imported: {error}") from error
    return pyarrow
