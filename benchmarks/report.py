"""Runs benchmarks one after another and shows what they gave: a table for people, JSON for the rest."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.harness import ROOT, BenchmarkError, Machine, Options, Result
from benchmarks.processes import foreign_environment
from benchmarks.registry import Benchmark

RESULTS = ROOT / "benchmarks" / "results.json"
FLEET_RESULTS = ROOT / "benchmarks" / "fleet_results.json"
"""Of the benchmarks FLEET, whose figures the cost model is fitted to: all of one run."""

Entries = Callable[[str], list[dict[str, Any]]]
"""Runs the benchmark of this name somewhere else, and returns the entries of its JSON."""


def run_all(
    benchmarks: Mapping[str, Benchmark],
    options: Options,
    console: Console,
    *,
    beside: Entries | None = None,
) -> tuple[list[Result], list[dict[str, Any]], dict[str, str]]:
    """Runs benchmarks; one that fails keeps no other from running.

    Args:
        benchmarks: Which ones.
        options: How they run.
        console: Where figures appear as they come.
        beside: Runs each in another environment right after it ran in this one.

    Returns:
        The results, the entries of the other environment, and why which benchmarks failed.
    """
    results: list[Result] = []
    others: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    for name, run in benchmarks.items():
        console.print(f"{name} ...", style="dim")
        try:
            for result in run(options):
                results.append(result)
                console.print(f"  {result.name}: {_number(result.value)} {result.unit}", style="dim")
            if beside is not None:
                others += beside(name)
        except Exception as error:  # noqa: BLE001 - whatever ends one benchmark, the others run
            failures[name] = " ".join(f"{type(error).__name__}: {error}".split())
    return results, others, failures


def run_in(python: Path, name: str, options: Options) -> list[dict[str, Any]]:
    """Runs a benchmark by another environment's Python, and returns its entries.

    Raises:
        BenchmarkError: It failed there.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "entries.json")
        command = [str(python), "-m", "benchmarks", "--only", name, "--json", str(path)]
        command += ["--quick"] * options.quick + [f"--runs={options.repeats}"]
        try:
            ended = subprocess.run(
                command, cwd=ROOT, env=foreign_environment(), capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise BenchmarkError(f"{python}: {error.strerror}") from error
        if ended.returncode or not path.exists():
            said = (ended.stdout + ended.stderr).strip().splitlines() or [f"status {ended.returncode}"]
            # As `print_table` begins it.
            why = next((line.partition(":")[2] for line in said if line.startswith("failed ")), said[-1])
            raise BenchmarkError(f"by {python}: {why.strip()}")
        entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return entries


def print_beside(results: Sequence[Result], others: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Prints figures of two environments side by side."""
    there = {each["name"]: each for each in others}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for head in ("figure", "here", "beside", "here over beside"):
        table.add_column(head, justify="left" if head == "figure" else "right", no_wrap=True)
    for result in results:
        if result.name not in there:
            continue
        other = there[result.name]["value"]
        ratio = f"{result.value / other:.2f}" if other else ""
        table.add_row(result.name, f"{_number(result.value)} {result.unit}", _number(other), ratio)
    console.print(table)
    for rclpy in sorted({each["machine"]["rclpy"] for each in others}):
        console.print(f"beside: rclpy {rclpy}")


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


def write_json(
    path: Path, results: Sequence[Result], machine: Machine, others: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Writes the list of {name, value, unit, target, met, compared_with, machine}; others come last."""
    entries = [*(result.to_json(machine) for result in results), *others]
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
