"""Report of a sweep: one HTML file with pictures, outcomes, failed runs and all values. It loads nothing."""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from usd_ros_bridge.replaced_file import replaced
from usd_ros_bridge.report.html_parts import text
from usd_ros_bridge.sweep.output_directory import REPORT, TABLE, read_document
from usd_ros_bridge.sweep.report_figures import MAX_METRICS, ReportPicture, draw_pictures, make_column
from usd_ros_bridge.sweep.results_table import read_table
from usd_ros_bridge.sweep.run_record import OUTCOMES

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS: Final = 2000
"""Runs in the report's table; the Parquet file has all."""
_MAX_REASONS: Final = 50
_MAX_IDS: Final = 8
_COMPLETED: Final = "share of completed runs"
_COLOURS: Final = {"completed": "#4a8f5b", "stopped": "#d9a441", "failed": "#c8553d", "lost": "#5d5d5d"}
_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #222; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.2rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } .scroll { overflow: auto; max-height: 40rem; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #eee; text-align: left; vertical-align: top; }
thead th { position: sticky; top: 0; background: #fff; white-space: nowrap; } td.number { text-align: right; }
.bar { display: flex; height: 1.6rem; border-radius: .3rem; overflow: hidden; } .bar span { display: block; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; } figcaption { font-weight: 600; }
figure img { max-width: 100%; } .key { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem; }
.quiet { color: #666; }
"""


def write_report(directory: Path) -> Path:
    """Write the report of an output directory, from its table. Return the file.

    Raises:
        BridgeError: The directory has no sweep, or its table cannot be read, or matplotlib is not installed.
        OSError: It cannot be written.
    """
    page = report_page(read_document(directory), read_table(directory / TABLE))
    path = directory / REPORT
    with replaced(path) as file:
        file.write(page.encode("utf-8", "replace"))
    return path


def report_page(document: Mapping[str, Any], table: pa.Table) -> str:
    """Return the report as HTML.

    Args:
        document: What `sweep.json` has.
        table: The results.
    """
    name = text(document.get("name", ""))
    parts = [
        f"<h1>{name}</h1>",
        *_outcomes(document, table),
        *_pictures(table),
        *_faults(table),
        *_all_runs(table),
        *_how(document),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>Sweep {name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _outcomes(document: Mapping[str, Any], table: pa.Table) -> Iterator[str]:
    """Yield how many runs ended how, as a bar and in words."""
    counts = Counter(table["outcome"].to_pylist())
    total = document.get("runs", table.num_rows)
    there = [each for each in OUTCOMES if counts[each]]
    yield f"<p>{table.num_rows} of {text(total)} runs are over.</p>"
    if not there:
        return
    yield '<div class="bar">'
    for each in there:
        share = 100.0 * counts[each] / table.num_rows
        yield f'<span style="width:{share:.3f}%;background:{_COLOURS[each]}" title="{each}: {counts[each]}"></span>'
    yield "</div><p>"
    for each in there:
        share = 100.0 * counts[each] / table.num_rows
        key = f'<span class="key" style="background:{_COLOURS[each]}"></span>'
        yield f"{key} {each}: {counts[each]} ({share:.3g} %)&emsp;"
    yield "</p>"


def _pictures(table: pa.Table) -> Iterator[str]:
    """Yield the metrics over the parameters, and their histograms."""
    parameters = [
        make_column(name, column.to_pylist())
        for name, column in _columns(table, "parameters")
        if not column.null_count
    ]
    metrics = {name: _numbers(column) for name, column in _columns(table, "metrics")}
    outcomes = table["outcome"].to_pylist()
    if len(set(outcomes)) > 1:
        metrics = {_COMPLETED: np.array([float(each == "completed") for each in outcomes]), **metrics}
    if not table.num_rows or not metrics:
        return
    yield "<h2>Metrics</h2>"
    pictures = list(draw_pictures(parameters, metrics))
    histogram = f"histogram of {_COMPLETED}"
    yield '<div class="pictures">'
    yield from (_figure(each) for each in pictures if each.title != histogram)
    yield "</div>"
    if len(metrics) > MAX_METRICS:
        yield f'<p class="quiet">Pictures of the first {MAX_METRICS} metrics; the table has all.</p>'
    rows = [(name, *_statistics(values)) for name, values in metrics.items() if name != _COMPLETED]
    yield from _html_table(("metric", "runs", "minimum", "mean", "median", "maximum", "deviation"), rows)


def _figure(picture: ReportPicture) -> str:
    # As an image, an SVG runs no scripts and loads nothing, whatever its texts are.
    data = base64.b64encode(picture.svg).decode("ascii")
    title = text(picture.title)
    image = f'<img alt="{title}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure><figcaption>{title}</figcaption>{image}</figure>"


def _faults(table: pa.Table) -> Iterator[str]:
    """Yield why runs failed, were lost or stopped, and what the bridge warned about."""
    outcomes, reasons = table["outcome"].to_pylist(), table["reason"].to_pylist()
    ids = table["id"].to_pylist()
    for heading, kinds in (("Failed and lost runs", ("failed", "lost")), ("Stopped runs", ("stopped",))):
        groups: dict[tuple[str, ...], list[str]] = {}
        for run, outcome, reason in zip(ids, outcomes, reasons, strict=True):
            if outcome in kinds:
                groups.setdefault((outcome, reason), []).append(run)
        if groups:
            yield f"<h2>{heading}</h2>"
            yield from _group_table(("outcome", "reason"), groups)
    warnings: dict[tuple[str, ...], list[str]] = {}
    for run, warned in zip(ids, table["warnings"].to_pylist(), strict=True):
        for line in warned.splitlines():
            warnings.setdefault((line,), []).append(run)
    if warnings:
        yield "<h2>Warnings</h2>"
        yield from _group_table(("warning",), warnings)


def _group_table(heads: Sequence[str], groups: Mapping[tuple[str, ...], Sequence[str]]) -> Iterator[str]:
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
    rows = []
    for texts, runs in ranked[:_MAX_REASONS]:
        more = f" and {len(runs) - _MAX_IDS} more" if len(runs) > _MAX_IDS else ""
        rows.append((*texts, len(runs), ", ".join(runs[:_MAX_IDS]) + more))
    yield from _html_table((*heads, "runs", "which"), rows)
    if len(ranked) > _MAX_REASONS:
        yield f'<p class="quiet">and {len(ranked) - _MAX_REASONS} other reasons: the table has all.</p>'


def _all_runs(table: pa.Table) -> Iterator[str]:
    """Yield the table of runs: parameters, outcome, metrics, drawn values, times."""
    parameters, metrics, drawn = (
        list(_columns(table, group)) for group in ("parameters", "metrics", "drawn")
    )
    columns: list[tuple[str, Any]] = [("run", table["id"]), *parameters, ("outcome", table["outcome"])]
    columns += [("reason", table["reason"]), *metrics, *drawn]
    columns += [(name.replace("_", " "), table[name]) for name in ("sim_time", "steps", "wall_time")]
    columns += [(name, table[name]) for name in ("attempts", "recording")]
    shown = table.num_rows if table.num_rows <= MAX_ROWS else MAX_ROWS
    yield "<h2>All runs</h2>"
    values = [column.slice(0, shown).to_pylist() for _, column in columns]
    yield from _html_table([name for name, _ in columns], zip(*values, strict=True))
    if shown < table.num_rows:
        yield f'<p class="quiet">The first {shown} of {table.num_rows} runs; {TABLE} has all.</p>'


def _how(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the sweep was run, and its description."""
    description = dict(document.get("description", {}))
    facts = {
        "asset": description.get("asset"),
        "duration": description.get("duration"),
        "backend": description.get("backend"),
        "sampling": json.dumps(description.get("sampling")),
        "repeats": description.get("repeats"),
        "seed": description.get("seed"),
        "begun": _date(document.get("started")),
        "finished": _date(document.get("finished")),
        "workers": document.get("workers"),
        "wall-clock time, s": document.get("wall_time"),
        "runs per minute": document.get("runs_per_minute"),
        "steps per second": document.get("steps_per_second"),
        "versions": ", ".join(f"{name} {version}" for name, version in document.get("versions", {}).items()),
        "digest": document.get("digest"),
    }
    yield "<h2>How it was run</h2>"
    yield from _html_table((), [(name, value) for name, value in facts.items() if value not in (None, "")])
    lines = text(json.dumps(description, indent=1), limit=None)
    yield f"<details><summary>Description</summary><pre>{lines}</pre></details>"


def _html_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    yield '<div class="scroll"><table>'
    if heads:
        yield "<thead><tr>" + "".join(f"<th>{text(head)}</th>" for head in heads) + "</tr></thead>"
    yield "<tbody>"
    for row in rows:
        yield "<tr>" + "".join(_cell(value) for value in row) + "</tr>"
    yield "</tbody></table></div>"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"<td>{text('' if value is None else value)}</td>"
    number = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f'<td class="number">{number}</td>'


def _columns(table: pa.Table, group: str) -> Iterator[tuple[str, Any]]:
    for name in table.column_names:
        head, dot, tail = name.partition(".")
        if dot and head == group:
            yield tail, table[name]


def _numbers(column: Any) -> Any:
    return np.array([math.nan if value is None else value for value in column.to_pylist()], dtype=np.float64)


def _statistics(values: Any) -> tuple[Any, ...]:
    known = values[np.isfinite(values)]
    if not len(known):
        return (0, None, None, None, None, None)
    numbers = (known.min(), known.mean(), np.median(known), known.max(), known.std())
    return (len(known), *(float(number) for number in numbers))


def _date(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return ""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
