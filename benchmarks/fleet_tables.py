"""The tables of docs/explanation/fleet_cost.md: results of `shards`, and the cost model fitted to them.

`python -m benchmarks.fleet_tables` prints them; with `--write` it puts them into the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import shards
from benchmarks.cost_model import (
    ONE,
    CostModel,
    Fit,
    Machines,
    Values,
    estimate,
    fit_model,
    robots_at_limit,
    shard_of,
    value_of,
)
from benchmarks.harness import ROOT, BenchmarkError
from benchmarks.report import FLEET_RESULTS

PAGE = ROOT / "docs" / "explanation" / "fleet_cost.md"
RATES = (20.0, 50.0)
SHARDS_EACH = (1, 2, 4, 8)
_REASONABLE = 0.8
"""Part of a resource that a fleet should use at most."""
PAGE_FLEETS = tuple(
    fleet for fleet in (*shards.FITTED, *shards.CHECKED) if fleet.robots == shards.ROBOTS and not fleet.udp
)
_UNITS: tuple[Mapping[str, float], ...] = (
    {"GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0},
    {"MB/s": 1e6, "kB/s": 1e3, "B/s": 1.0},
    {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
)
"""Units of one kind, from large to small."""
SUBSCRIBERS = (shards.Fleet(200, 1), shards.Fleet(200, 1, udp=50))
"""Fleets that differ by nothing but their subscribers."""
SHARD_ROWS = (
    ("start of all processes until all are open", "ready", "s"),
    ("until every robot has its description, too", "settled", "s"),
    ("each process: stage to plan", "plan", "s"),
    ("each process: CPU until it is open", "start_cpu", "s"),
    ("the same of the descriptions, ticks not counted", "describe_cpu", "s"),
    ("each process: tick, robots at rest", "tick_idle", "ms"),
    ("the same, CPU", "tick_idle_cpu", "ms"),
    ("each process: tick, all joints move", "tick_moving", "ms"),
    ("the same, CPU", "tick_moving_cpu", "ms"),
    ("all processes: CPU, robots at rest", "cpu_idle_sum", "%"),
    ("all processes: CPU, all joints move", "cpu_moving_sum", "%"),
    ("each process: memory (PSS)", "memory", "MB"),
    ("all processes: memory", "memory_sum", "MB"),
    ("messages published, all joints move", "messages_moving", "/s"),
    ("of a topic, received by another process", "received_moving", "/s"),
    ("ticks one after another: as a robot's messages arrive", "fastest", "/s"),
)
_SUBSCRIBER_FIGURES = ("tick_moving", "tick_moving_cpu", "cpu_moving_sum", "memory", "received_moving")


def page_blocks(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Returns the lines of each generated block of the page, by its name.

    Args:
        entries: Of the file of results.

    Raises:
        BenchmarkError: A figure is missing.
    """
    values = {entry["name"]: float(entry["value"]) for entry in entries}
    model, machines = fit_model(values), Machines()
    return {
        "machine": _machine_line(entries),
        "shards": _shard_table(values, PAGE_FLEETS, SHARD_ROWS),
        "subscribers": _shard_table(
            values, SUBSCRIBERS, [row for row in SHARD_ROWS if row[1] in _SUBSCRIBER_FIGURES]
        ),
        "laws of a process": _law_table(list(model.shard.values())),
        "check": _check_table(values, model),
        "fleet": _fleet_table(model, machines),
        "summary": _summary(model, machines),
        "limits": _limit_table(model, machines),
    }


def _machine_line(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    machine = entries[0]["machine"]
    loads = [entry["machine"]["load_average"] for entry in entries]
    hardware = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB, {machine['system']}"
    )
    software = f"Python {machine['python']}, {machine['middleware']}"
    return [f"{hardware}, {software}; load average {min(loads):.2f} to {max(loads):.2f}."]


def _shard_table(
    values: Values, fleets: Sequence[shards.Fleet], figures: Sequence[tuple[str, str, str]]
) -> list[str]:
    """Returns a table with a column for each fleet; figures: label, name and unit of each row."""
    fleets = sorted(fleets, key=lambda fleet: (fleet.shards, fleet.udp))
    rows = [
        (label, *(f"{number(value_of(values, f'shards.{fleet.name}.{figure}'))} {unit}" for fleet in fleets))
        for label, figure, unit in figures
    ]
    return _table(("", *(_head(fleet) for fleet in fleets)), rows)


def _head(fleet: shards.Fleet) -> str:
    if fleet.robots == shards.ROBOTS:
        return _processes(fleet.shards)
    return f"{fleet.udp or 'no'} robots with subscribers"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _law_table(fits: Sequence[Fit]) -> list[str]:
    rows = []
    for fit in fits:
        terms = [
            quantity(coefficient, fit.law.unit) + ("" if fit.law.terms[name] is ONE else f" for each {name}")
            for name, coefficient in zip(fit.law.terms, fit.coefficients, strict=True)
            if coefficient > 0.0
        ]
        rows.append((fit.law.meaning, "; ".join(terms), f"{100 * fit.worst:.0f} %"))
    return _table(("figure", "sum of", "largest residual"), rows)


def _check_table(values: Values, model: CostModel) -> list[str]:
    rows = []
    for fleet in shards.CHECKED:
        what = f"{fleet.robots:,} robots in {_processes(fleet.shards)}"
        rows += [
            _check_row(
                what, fit, fit.predict(shard_of(fleet)), value_of(values, f"shards.{fleet.name}.{figure}")
            )
            for figure, fit in model.shard.items()
        ]
    return _table(("not fitted to", "figure", "predicted", "measured", "error"), rows)


def _check_row(what: str, fit: Fit, predicted: float, measured: float) -> tuple[str, ...]:
    unit = fit.law.unit
    return (
        what,
        fit.law.meaning,
        quantity(predicted, unit),
        quantity(measured, unit),
        f"{100 * (predicted / measured - 1):+.0f} %",
    )


def _fleet_table(model: CostModel, machines: Machines) -> list[str]:
    rows = []
    for each in SHARDS_EACH:
        for rate in RATES:
            found = estimate(model, machines, shards_each=each, rate=rate)
            loads = found.loads(machines)
            rows.append(
                (
                    str(each),
                    f"{found.shard.robots:,.0f}",
                    f"{rate:g} Hz",
                    f"{number(found.tick_ms)} ms",
                    f"{100 * found.shard_cores:.0f} %",
                    f"{found.cores:.2g} cores",
                    f"{number(found.memory_mb / 1000)} GB",
                    f"{number(found.start_s)} s",
                    f"{number(found.network_mb_s)} MB/s",
                    f"{max(loads, key=lambda name: loads[name])}, {100 * max(loads.values()):.0f} %",
                )
            )
    heads = (
        "processes on a machine",
        "robots of each",
        "rate",
        "tick",
        "CPU of each",
        "CPU of a machine",
        "memory of a machine",
        "CPU until open",
        "/tf and joint states of a machine",
        "most used",
    )
    return _table(heads, rows)


def _summary(model: CostModel, machines: Machines) -> list[str]:
    """Returns, for each rate, how many processes a machine needs, and what is short then."""
    lines = []
    for rate in RATES:
        by_count = {
            each: estimate(model, machines, shards_each=each, rate=rate).loads(machines)
            for each in SHARDS_EACH
        }
        enough = [each for each, loads in by_count.items() if max(loads.values()) <= _REASONABLE]
        if not enough:
            lines.append(
                f"- At {rate:g} Hz, no number of processes keeps all resources below {_REASONABLE:.0%}."
            )
            continue
        loads = by_count[enough[0]]
        most = max(loads, key=lambda name: loads[name])
        lines.append(
            f"- At {rate:g} Hz: {_processes(enough[0])} on each machine. Most used is then: {most}, "
            f"{100 * loads[most]:.0f} %."
        )
    return lines


def _limit_table(model: CostModel, machines: Machines) -> list[str]:
    limits = {rate: robots_at_limit(model, machines, rate) for rate in RATES}
    names = next(iter(limits.values()))
    rows = [(name, *(f"{limits[rate][name]:,.0f}" for rate in RATES)) for name in names]
    return _table(("robots that take all of", *(f"at {rate:g} Hz" for rate in RATES)), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(each)} |" for each in (heads, ["---"] * len(heads), *rows)]


def quantity(value: float, unit: str) -> str:
    """Returns a figure with a unit that suits its size."""
    units = next((each for each in _UNITS if unit in each), {unit: 1.0})
    # Of a percent or a packet there are no smaller units.
    size = next((each for each in units if value * units[unit] >= units[each]), list(units)[-1])
    return f"{number(value * units[unit] / units[size])} {size}"


def number(value: float) -> str:
    """Returns a figure with three digits, as the pages write it."""
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def read_results(path: Path = FLEET_RESULTS) -> list[dict[str, Any]]:
    """Returns the entries of a file of results.

    Raises:
        BenchmarkError: There is none.
    """
    try:
        entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"{path}: {error}") from error
    return entries


def with_blocks(page: str, blocks: Mapping[str, Sequence[str]]) -> str:
    """Returns a page with the content of its generated blocks.

    Raises:
        BenchmarkError: It lacks the marks of a block.
    """
    for name, lines in blocks.items():
        head, begin, rest = page.partition(f"<!-- begin {name} -->\n")
        _, end, tail = rest.partition(f"<!-- end {name} -->\n")
        if not (begin and end):
            raise BenchmarkError(f"the page has no block {name!r}")
        page = f"{head}{begin}\n{chr(10).join(lines)}\n\n{end}{tail}"
    return page


@click.command()
@click.option(
    "--json", "path", type=click.Path(path_type=Path), default=FLEET_RESULTS, help="File of results."
)
@click.option("--write", is_flag=True, help="Put the tables into docs/explanation/fleet_cost.md.")
def main(path: Path, write: bool) -> None:
    """Print the tables of docs/explanation/fleet_cost.md, of the figures of the benchmark shards."""
    try:
        blocks = page_blocks(read_results(path))
        if write:
            PAGE.write_text(with_blocks(PAGE.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    except BenchmarkError as error:
        sys.exit(str(error))
    for name, lines in blocks.items():
        print(f"### {name}\n\n{chr(10).join(lines)}\n")


if __name__ == "__main__":
    main()
