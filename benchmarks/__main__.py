"""The command line of the benchmarks: `make bench`, or `python -m benchmarks --only frames --quick`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from benchmarks.harness import Machine, Options, Result
from benchmarks.processes import isolate
from benchmarks.registry import FLEET, NAMES, benchmarks
from benchmarks.report import FLEET_RESULTS, RESULTS, print_beside, print_table, run_all, run_in, write_json


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
    help="Where the results go [default: benchmarks/results.json, and benchmarks/fleet_results.json for "
    "shards; of complete runs only].",
)
@click.option(
    "--beside",
    default=None,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Python of another environment, which runs each benchmark right after this one; needs --json.",
)
def main(
    only: tuple[str, ...], quick: bool, runs: int | None, json_path: Path | None, beside: Path | None
) -> None:
    """Measure what the bridge costs. The status is 1 where a benchmark cannot run; no figure decides about it."""
    if beside is not None and json_path is None:
        raise click.UsageError("--beside needs --json: a file for the figures of both")
    isolate()
    machine = Machine.here()
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False, emoji=False)
    chosen = {name: run for name, run in benchmarks().items() if not only or name in only}
    options = Options(quick=quick, runs=runs)
    other = None if beside is None else partial(run_in, beside, options=options)
    results, others, failures = run_all(chosen, options, console, beside=other)
    print_table(results, failures, machine, console)
    if others:
        print_beside(results, others, console)
    for path, entries in _files(results, set(only), failures, json_path, quick=quick).items():
        write_json(path, entries, machine, others)
        console.print(f"written: {path}")
    sys.exit(1 if failures else 0)


def _files(
    results: Sequence[Result],
    only: Collection[str],
    failures: Collection[str],
    json_path: Path | None,
    *,
    quick: bool,
) -> dict[Path, list[Result]]:
    """Returns what goes into which file.

    A committed file of figures is not overwritten by a run that gave some of them, or rough ones.
    """
    if json_path is not None:
        return {json_path: list(results)}
    groups = {RESULTS: [name for name in NAMES if name not in FLEET], FLEET_RESULTS: FLEET}
    files = {}
    for path, names in groups.items():
        is_fleet = names is FLEET
        entries = [each for each in results if (each.name.partition(".")[0] in FLEET) is is_fleet]
        whole = not only or set(names) <= set(only)
        if entries and whole and not quick and not set(failures) & set(names):
            files[path] = entries
    return files


if __name__ == "__main__":
    main()
