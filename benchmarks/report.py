"""Runs benchmarks one after another and shows what they gave: a table for people, JSON for the rest."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.harness import ROOT, Machine, Options, Result
from benchmarks.registry import Benchmark

RESULTS = ROOT / "benchmarks" / "results.json"
FLEET_RESULTS = ROOT / "benchmarks" / "fleet_results.json"
"""Of the benchmarks FLEET, whose figures the cost model is fitted to: all of one run."""


def run_all(
    benchmarks: Mapping[str, Benchmark], options: Options, console: Console
) -> tuple[list[Result], dict[str, str]]:
    """Runs benchmarks; one that fails keeps no other from running.

    Returns:
        The results, and why which benchmarks failed.
    """
    results: list[Result] = []
    failures: dict[str, str] = {}
    for name, run in benchmarks.items():
        console.print(f"{name} ...", style="dim")
        try:
            for result in run(options):
                results.append(result)
                console.print(f"  {result.name}: {_number(result.value)} {result.unit}", style="dim")
        except Exception as error:  # noqa: BLE001 - whatever ends one benchmark, the others run
            failures[name] = " ".join(f"{type(error).__name__}: {error}".split())
    return results, failures


def print_table(
    results: Sequence[Result], failures: Mapping[str, str], machine: Machine, console: Console
) -> None:
    """Prints the results, what failed, and the machine."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for head, justify in (
        ("figure", "left"),
        ("median", "right"),
        ("min to max", "right"),
        ("target", "right"),
    ):
        table.add_column(head, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("", no_wrap=True)
    table.add_column("beside", overflow="fold")
    for result in results:
        table.add_row(
            result.name,
            f"{_number(result.value)} {result.unit}",
            "" if result.spread is None else f"{_number(result.spread[0])} to {_number(result.spread[1])}",
            "" if result.target is None else f"{result.target.direction} {_number(result.target.bound)}",
            _verdict(result),
            escape(result.compared_with),
        )
    console.print(table)
    for name, reason in failures.items():
        console.print(f"[red]failed[/red]  {name}: {escape(reason)}", soft_wrap=True)
    loads = [result.load for result in results] or [os.getloadavg()[0]]
    console.print(
        f"{machine}; load average {min(loads):.2f} to {max(loads):.2f}", soft_wrap=True, markup=False
    )


def write_json(path: Path, results: Sequence[Result], machine: Machine) -> None:
    """Writes the list of {name, value, unit, target, met, compared_with, machine}."""
    entries = [result.to_json(machine) for result in results]
    path.write_text(json.dumps(entries, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _verdict(result: Result) -> str:
    if result.target is None:
        return ""
    if result.met:
        return "[green]met[/green]"
    missed = result.target.missed_by(result.value)
    return "[red]missed[/red]" if math.isinf(missed) else f"[red]missed by {missed:.0%}[/red]"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
