"""`usd_ros_bridge sweep`: many runs of an asset over parameters, on all cores or on a Ray cluster."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from usd_ros_bridge.cli.finite_range import FiniteRange
from usd_ros_bridge.errors import OptionError, StrictError, escaped, quoted
from usd_ros_bridge.process_settings import EXIT_INTERRUPTED, missing_requirements_explained

if TYPE_CHECKING:
    from usd_ros_bridge.sweep.run_specs import RunSpec
    from usd_ros_bridge.sweep.sweep_description import Sweep
    from usd_ros_bridge.sweep.sweep_engine import SweepResult

_REPEATED_S: Final = 1.0
"""Signals this soon after the first are the same request."""


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of the results [default: FILE's name with _results, in the working directory].",
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of workers; 0: make the runs in this process, without Ray [default: one for each core].",
)
@click.option(
    "--address",
    metavar="ADDRESS",
    help="Use a Ray cluster: auto, HOST:PORT or ray://HOST:PORT [default: none].",
)
@click.option("--upload", is_flag=True, help="Send the folder of FILE to the workers of the cluster.")
@click.option("--resume", is_flag=True, help="Continue what DIR has: runs that are over are not made again.")
@click.option(
    "--record",
    type=click.Choice(["none", "failed", "all"]),
    help="Which runs keep an MCAP file, in DIR/recordings [default: as FILE says].",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    metavar="N",
    help="How often a run is tried again whose worker was lost, or which took too long.",
)
@click.option(
    "--timeout",
    type=FiniteRange(min=0.0),
    default=0.0,
    metavar="SECONDS",
    help="Wall-clock time that a run may take [default: any].",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Give a parameter this value alone; repeatable.",
)
@click.option("--strict", is_flag=True, help="Exit with status 1 if a run failed or was lost.")
@click.option("--dry-run", is_flag=True, help="Check FILE and its asset, print the runs, and make none.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of sweep files.")
@click.option(
    "--report",
    "report_directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Make the report of DIR again, from its table.",
)
def sweep(
    file: Path | None,
    *,
    output: Path | None,
    settings: Sequence[str],
    strict: bool,
    dry_run: bool,
    schema: bool,
    report_directory: Path | None,
    **options: Any,
) -> None:
    """Make the runs of a sweep FILE, and write a table, recordings and a report.

    FILE is YAML: an asset, parameters and their values, a driver, stop conditions and metrics. Each run is
    deterministic; there is a worker for each core. Ctrl-C ends the sweep after the runs in progress;
    --resume continues it.
    """
    with missing_requirements_explained():
        if schema:
            from usd_ros_bridge.sweep.sweep_file import sweep_schema

            click.echo(json.dumps(sweep_schema(), indent=2))
        elif report_directory is not None:
            click.echo(_make_report(report_directory))
        elif file is None:
            raise click.UsageError("Missing argument 'FILE': a sweep file (YAML).")
        elif dry_run:
            _print_runs(_load(file, settings))
        else:
            result = _run(_load(file, settings), output or Path(f"{file.stem}_results"), options)
            _finish(result, strict=strict)


def _load(file: Path, settings: Sequence[str]) -> Sweep:
    """Read a sweep file. Give parameters the values of the command line.

    Raises:
        OptionError: The file is no sweep, or has no such parameter.
    """
    from usd_ros_bridge.sweep.sweep_file import load_sweep
    from usd_ros_bridge.sweep.yaml_lines import read_value

    values = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise OptionError(f"--set {quoted(setting)}: write NAME=VALUE")
        value = read_value(text)
        if not isinstance(value, (bool, int, float, str)):
            raise OptionError(f"--set {quoted(setting)}: the value is no number, text or boolean")
        values[name.strip()] = value
    return load_sweep(file).with_parameters(values)


def _run(sweep: Sweep, output: Path, options: dict[str, Any]) -> SweepResult:
    from usd_ros_bridge.cli.sweep_view import SweepView
    from usd_ros_bridge.sweep.sweep_engine import run_sweep

    view = SweepView()
    with _stopped_by_signals(view) as request, view.shown():
        return run_sweep(
            sweep,
            output=output,
            on_progress=view.progress,
            stopped=lambda: request.asked,
            report=view.report,
            **options,
        )


def _finish(result: SweepResult, *, strict: bool) -> None:
    """Print what came of a sweep, and exit.

    Raises:
        StrictError: A run failed or was lost, and `strict` was asked for.
    """
    from usd_ros_bridge.cli.sweep_view import duration_text
    from usd_ros_bridge.sweep.output_directory import REPORT
    from usd_ros_bridge.sweep.run_record import OUTCOMES

    outcomes = [f"{result.outcomes[each]} {each}" for each in OUTCOMES if result.outcomes.get(each)]
    shown = ", ".join(outcomes) or "none"
    print(f"{result.done} of {result.total} runs: {shown}; {duration_text(result.elapsed)}")
    if result.done:
        print(escaped(str(result.directory / REPORT)))
    if result.interrupted:
        again = f"usd_ros_bridge sweep ... --output {result.directory} --resume"
        print(f"usd_ros_bridge: interrupted; continue with: {escaped(again)}", file=sys.stderr)
        sys.stdout.flush()
        sys.exit(EXIT_INTERRUPTED)
    bad = result.outcomes.get("failed", 0) + result.outcomes.get("lost", 0)
    if strict and bad:
        raise StrictError(f"{bad} runs failed or were lost, and strict was asked for")


def _make_report(directory: Path) -> Path:
    from usd_ros_bridge.sweep.report_page import write_report

    try:
        return write_report(directory)
    except OSError as error:
        raise OptionError(f"{error.filename or directory}: {error.strerror}") from error


def _print_runs(sweep: Sweep) -> None:
    """Check a sweep, and print its runs as a table: aligned, for people and for `awk`."""
    from usd_ros_bridge.sweep.run_specs import plan_runs
    from usd_ros_bridge.sweep.sweep_run import RunWorker

    specs = plan_runs(sweep)
    worker = RunWorker(sweep)
    try:
        worker.check(specs[0])
    finally:
        worker.close()
    heads = ["run", "seed", *sweep.parameter_names]
    rows = [heads, *([spec.id, str(spec.seed), *_values(spec, sweep.parameter_names)] for spec in specs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    # One write for the whole line: the table goes to standard output at the same time.
    click.echo(f"usd_ros_bridge: {len(specs)} runs", err=True)


def _values(spec: RunSpec, names: Sequence[str]) -> list[str]:
    values = [spec.parameters[name] for name in names]
    return [f"{value:.9g}" if isinstance(value, float) else escaped(str(value)) for value in values]


# --- Signals -----------------------------------------------------------------------------------------------------


class StopRequest:
    """First signal: no other run begins. Second one: the process ends at once.

    Attributes:
        asked: Whether a signal came.
    """

    def __init__(self, view: Any) -> None:
        """Args: view: Shows lines."""
        self.asked = False
        self._view = view
        self._asked_at = 0.0

    def __call__(self, *_: Any) -> None:
        """Handle a signal."""
        now = time.monotonic()
        if not self.asked:
            self.asked, self._asked_at = True, now
            self._view.line("no other run begins; interrupt again to end the runs in progress, too")
        elif now - self._asked_at > _REPEATED_S:
            # Ray's processes end with this one.
            os._exit(EXIT_INTERRUPTED)


@contextmanager
def _stopped_by_signals(view: Any) -> Iterator[StopRequest]:
    request = StopRequest(view)
    previous = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
