"""The command line of the benchmarks: `make bench`, or `python -m benchmarks --only frames --quick`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from benchmarks.harness import Machine, Options
from benchmarks.processes import isolate
from benchmarks.registry import NAMES, benchmarks
from benchmarks.report import RESULTS, print_table, run_all, write_json


@click.command()
@click.option(
    "--only", multiple=True, type=click.Choice(NAMES), help="Run this one; may be given several times."
)
@click.option(
    "--quick", is_flag=True, help="Show that they run: a few seconds each, figures that mean little."
)
@click.option("--runs", type=click.IntRange(1), default=None, help="Runs that each median is taken of.")
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Where the results go [default: benchmarks/results.json, of complete runs only].",
)
def main(only: tuple[str, ...], quick: bool, runs: int | None, json_path: Path | None) -> None:
    """Measure what the bridge costs. The status is 1 where a benchmark cannot run; no figure decides about it."""
    isolate()
    machine = Machine.here()
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False, emoji=False)
    chosen = {name: run for name, run in benchmarks().items() if not only or name in only}
    results, failures = run_all(chosen, Options(quick=quick, runs=runs), console)
    print_table(results, failures, machine, console)
    # A committed file of figures is not overwritten by a run that gave some of them, or rough ones.
    complete = not (only or quick or failures)
    path = json_path or (RESULTS if complete else None)
    if path is not None:
        write_json(path, results, machine)
        console.print(f"written: {path}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
