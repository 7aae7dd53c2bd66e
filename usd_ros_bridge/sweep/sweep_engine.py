"""Engine of a sweep: hands runs to workers, counts each run once, and writes the results."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.reporting import Report, log_warning
from usd_ros_bridge.requirements import missing_requirement
from usd_ros_bridge.sweep.output_directory import REPORT, TABLE, OutputDirectory
from usd_ros_bridge.sweep.ray_cluster import RayCluster, import_ray
from usd_ros_bridge.sweep.ray_workers import RayPool
from usd_ros_bridge.sweep.report_page import write_report
from usd_ros_bridge.sweep.results_table import read_table, results_table, write_table
from usd_ros_bridge.sweep.run_journal import JOURNAL, RunJournal
from usd_ros_bridge.sweep.run_queue import RunAttempt, RunQueue
from usd_ros_bridge.sweep.run_record import RunRecord, finished_record, lost_record
from usd_ros_bridge.sweep.run_specs import RunSpec, plan_runs
from usd_ros_bridge.sweep.sweep_description import Sweep
from usd_ros_bridge.sweep.sweep_progress import ProgressMeter, ProgressView
from usd_ros_bridge.sweep.worker_pool import (
    InProcessPool,
    RunFinished,
    WorkerEvent,
    WorkerLost,
    WorkerPool,
    WorkerReady,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NEEDED: Final = ("pyarrow", "matplotlib")
Recorded = Literal["none", "failed", "all"]
DEFAULT_RETRIES: Final = 2
KEPT: Final = "the journal has the runs so far, and --resume continues"
_POLL_S: Final = 0.2
_VIEW_EVERY_S: Final = 0.5
_TABLE_EVERY_S: Final = 10.0
_TABLE_SHARE: Final = 0.02
"""Most of the time that goes into tables of the runs so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What came of a sweep.

    Attributes:
        directory: Output directory.
        total: Number of runs.
        outcomes: Number of runs by outcome.
        interrupted: Runs are left, because somebody asked to stop.
        elapsed: Seconds that it took, this time.
        steps: Steps of the runs that were made this time.
    """

    directory: Path
    total: int
    outcomes: Mapping[str, int]
    interrupted: bool
    elapsed: float
    steps: int

    @property
    def done(self) -> int:
        """Return the number of runs that are over."""
        return sum(self.outcomes.values())

    def table(self) -> pa.Table:
        """Read the table of results.

        Raises:
            BridgeError: It cannot be read.
        """
        return read_table(self.directory / TABLE)


def run_sweep(
    sweep: Sweep,
    *,
    output: str | os.PathLike[str],
    workers: int | None = None,
    address: str | None = None,
    resume: bool = False,
    record: Recorded | None = None,
    retries: int = DEFAULT_RETRIES,
    timeout: float = 0.0,
    upload: bool = False,
    on_progress: ProgressView | None = None,
    stopped: Callable[[], bool] | None = None,
    report: Report = log_warning,
) -> SweepResult:
    """Make all runs of a sweep with workers of Ray, and write their results to a directory.

    Ctrl-C and exceptions of `on_progress` end it at once; what is done is kept, and `resume` continues from there.

    Args:
        sweep: What is run.
        output: Directory of the results. It is created.
        workers: Number of workers; None: one for each core. 0: make the runs in this process, without Ray.
        address: Address of a Ray cluster; None: start Ray here, on the loopback, for this sweep.
        resume: Continue what the directory has: runs in its journal are not made again.
        record: Which runs keep an MCAP file; None: as the sweep says.
        retries: How often a run is tried again whose worker was lost or which took too long.
        timeout: Wall-clock seconds that a run may take; 0: any time.
        upload: Send the folder of the sweep to the workers of a cluster.
        on_progress: Called twice a second, and at the end of each run.
        stopped: Asked several times a second: once it returns True, no other run begins, and those in progress end.
        report: Show a warning `(kind, message)`.

    Raises:
        OptionError: An option is not possible, the directory is of something else, or there is no cluster.
        BridgeError: The asset or something that the sweep names is missing, the results cannot be written, or a package
            of the extra `ray` is not installed.
    """
    _check(workers=workers, retries=retries, timeout=timeout, upload=upload, address=address)
    # Before anything is written: a sweep of hours must not end without a table.
    for module in _NEEDED:
        _import(module)
    if workers != 0:
        import_ray()
    specs = plan_runs(sweep)
    directory = OutputDirectory(Path(output))
    with ExitStack() as resources:
        resources.callback(directory.close)
        directory.open(sweep, runs=len(specs), resume=resume)
        for note in directory.notes:
            report("sweep.resume", note)
        journal = resources.enter_context(RunJournal(directory.path / JOURNAL))
        records = journal.open()
        known = {spec.id: spec for spec in specs}
        # JSON has no numbers that are not finite: what a run was given is in the sweep itself.
        records = [
            replace(each, parameters=dict(known[each.id].parameters)) if each.id in known else each
            for each in records
        ]
        done = {each.id for each in records}
        waiting = [spec for spec in specs if spec.id not in done]
        engine = SweepEngine(
            sweep,
            directory,
            journal,
            records,
            RunQueue(waiting, retries=retries),
            record=record or sweep.record,
            timeout=timeout,
            on_progress=on_progress or (lambda _: None),
            stopped=stopped or (lambda: False),
            report=report,
        )
        resources.push(engine.finish)
        if waiting:
            folder = (sweep.directory or ".") if upload else ""
            pool, count = _open_pool(sweep, waiting[0], resources, workers, address, folder)
            engine.run(pool, min(count, len(waiting)))
    return engine.result()


class SweepEngine:
    """Hand runs to workers until all are over. One object is one call of `run_sweep`."""

    def __init__(
        self,
        sweep: Sweep,
        directory: OutputDirectory,
        journal: RunJournal,
        records: list[RunRecord],
        queue: RunQueue,
        *,
        record: Recorded,
        timeout: float,
        on_progress: ProgressView,
        stopped: Callable[[], bool],
        report: Report,
    ) -> None:
        """Store the arguments, which are those of `run_sweep`.

        Args:
            sweep: What is run.
            directory: Open.
            journal: Open.
            records: What the journal has.
            queue: Runs that it does not have.
            record: Which runs keep an MCAP file.
            timeout: Seconds that a run may take; 0: any time.
            on_progress: Gets the progress.
            stopped: Whether to stop.
            report: Shows warnings.
        """
        self._sweep = sweep
        self._directory = directory
        self._journal = journal
        self._records = list(records)
        self._queue = queue
        self._record = record
        self._timeout = timeout or math.inf
        self._on_progress = on_progress
        self._stopped = stopped
        self._report = report
        self._meter = ProgressMeter(total=len(records) + len(queue))
        self._meter.resume(records)
        self._idle: list[int] = []
        self._running: dict[int, _Running] = {}
        self._hosts: dict[int, str] = {}
        self._table_due = time.monotonic() + _TABLE_EVERY_S
        self._view_due = 0.0

    def run(self, pool: WorkerPool, count: int) -> None:
        """Make the runs.

        Args:
            pool: The workers.
            count: How many to start.

        Raises:
            BridgeError: The sweep is not possible, or its results cannot be written.
        """
        self._show()
        pool.start(count)
        while self._running or (self._queue and not self._stopped()):
            if not self._stopped():
                self._hand_out(pool)
            for event in pool.wait(_POLL_S):
                self._take(event)
            self._end_overdue(pool)
            self._refresh()

    def finish(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is known at the end: table, report, and how it ended.

        Args:
            kind: Of the exception that ends the sweep, as for `__exit__`.
            error: It is more important than what is raised here.
            trace: Of it.

        Raises:
            BridgeError: It cannot be written. The journal has all.
        """
        del kind, trace
        if error is not None and not self._records:
            self._directory.discard()
            return
        try:
            self._finish()
        except BridgeError:
            if error is None:
                raise

    def _finish(self) -> None:
        self._journal.sync()
        if not self._records:
            return
        state = self._meter.state()
        facts: dict[str, Any] = {"outcomes": dict(state.outcomes)}
        if state.done > state.resumed or not self._directory.is_finished:
            facts |= {
                "finished": time.time() if state.done == state.total else None,
                "wall_time": state.elapsed,
                "runs_per_minute": state.runs_per_minute,
                "steps_per_second": state.steps_per_second,
                "workers": len(state.workers),
            }
        try:
            self._write_table()
            self._directory.finish(**facts)
            write_report(self._directory.path)
        except OSError as error:
            where = error.filename or self._directory.path / REPORT
            raise BridgeError(f"{where}: {error.strerror}; {KEPT}") from error
        self._on_progress(state)

    def result(self) -> SweepResult:
        """Return what came of the sweep."""
        state = self._meter.state()
        return SweepResult(
            directory=self._directory.path,
            total=state.total,
            outcomes=dict(state.outcomes),
            interrupted=state.done < state.total,
            elapsed=state.elapsed,
            steps=state.steps,
        )

    # --- Runs ------------------------------------------------------------------------------------------------------

    def _hand_out(self, pool: WorkerPool) -> None:
        while self._idle and self._queue:
            worker, attempt = self._idle.pop(0), self._queue.take()
            record = None
            if self._record != "none":
                try:
                    record = self._directory.new_recording(attempt.spec.id, attempt.number)
                except OSError as error:
                    raise BridgeError(f"{error.filename}: {error.strerror}; {KEPT}") from error
            self._running[worker] = _Running(
                attempt=attempt, record=record, started=time.time(), began=time.monotonic()
            )
            pool.hand_out(worker, attempt, record=record)
        self._meter.running = len(self._running)

    def _take(self, event: WorkerEvent) -> None:
        if isinstance(event, WorkerReady):
            self._idle.append(event.worker)
            self._hosts[event.worker] = f"{event.host}:{event.pid}"
            self._meter.workers[event.worker] = event.pid
            self._meter.begin()
        elif isinstance(event, RunFinished):
            self._finish_run(event)
        else:
            self._lose(event)
        self._meter.running = len(self._running)

    def _finish_run(self, event: RunFinished) -> None:
        run = self._running.pop(event.worker)
        self._idle.append(event.worker)
        record = finished_record(
            run.attempt.spec,
            event.outcome,
            started=run.started,
            wall_time=time.monotonic() - run.began,
            worker=self._hosts[event.worker],
            attempts=run.attempt.number,
        )
        if run.record is not None:
            if self._record == "failed" and record.outcome != "failed":
                run.record.unlink(missing_ok=True)
            else:
                name = self._directory.keep_recording(run.record, record.id)
                record = replace(record, recording=name)
        self._count(record)

    def _lose(self, event: WorkerLost) -> None:
        self._meter.workers.pop(event.worker, None)
        run = self._running.pop(event.worker, None)
        host = self._hosts.pop(event.worker, "")
        if event.worker in self._idle:
            self._idle.remove(event.worker)
        if run is None:
            self._report("sweep.worker", f"a worker was lost and is replaced: {event.reason}")
            return
        if run.record is not None:
            run.record.unlink(missing_ok=True)
        name, number = run.attempt.spec.id, run.attempt.number
        if self._queue.retry(run.attempt):
            self._meter.retries += 1
            self._report("sweep.retry", f"{name}: {event.reason}; trying it again")
            return
        self._report("sweep.lost", f"{name}: {event.reason}; lost after {number} attempts")
        self._count(
            lost_record(
                run.attempt.spec,
                event.reason,
                started=run.started,
                wall_time=time.monotonic() - run.began,
                worker=host,
                attempts=number,
            )
        )

    def _count(self, record: RunRecord) -> None:
        """Count a run that is over, once."""
        if self._journal.append(record):
            self._records.append(record)
            self._meter.count(record)
            self._on_progress(self._meter.state(record))

    def _end_overdue(self, pool: WorkerPool) -> None:
        now = time.monotonic()
        for worker, run in self._running.items():
            if now - run.began > self._timeout and not run.ended:
                run.ended = True
                pool.end(worker, f"the run took longer than {self._timeout:g} s (--timeout)")

    # --- What is shown and written ---------------------------------------------------------------------------------

    def _refresh(self) -> None:
        now = time.monotonic()
        if now >= self._view_due:
            self._show()
        if self._records and now >= self._table_due:
            try:
                self._write_table()
            except OSError as error:
                raise BridgeError(f"{self._directory.path / TABLE}: {error.strerror}; {KEPT}") from error
            spent = time.monotonic() - now
            self._table_due = now + max(_TABLE_EVERY_S, spent / _TABLE_SHARE)

    def _show(self) -> None:
        self._view_due = time.monotonic() + _VIEW_EVERY_S
        self._on_progress(self._meter.state())

    def _write_table(self) -> None:
        about = {"sweep": self._sweep.name, "digest": self._sweep.digest()}
        write_table(self._directory.path / TABLE, results_table(self._records, about=about))


@dataclass
class _Running:
    """A run in progress.

    Attributes:
        attempt: The run.
        record: File that it records to.
        started: Seconds since 1970.
        began: Of the monotonic clock.
        ended: It took too long, and its worker is being ended.
    """

    attempt: RunAttempt
    record: Path | None
    started: float
    began: float
    ended: bool = False


def _open_pool(
    sweep: Sweep,
    sample: RunSpec,
    resources: ExitStack,
    workers: int | None,
    address: str | None,
    upload: str,
) -> tuple[WorkerPool, int]:
    """Return the workers, and how many to start. `resources` closes them."""
    if workers == 0:
        pool: WorkerPool = InProcessPool(sweep, sample)
        count = 1
    else:
        cluster = RayCluster()
        resources.callback(cluster.close)
        cluster.open(workers=workers, address=address, upload=upload)
        pool, count = RayPool(cluster, sweep, sample), workers or cluster.cores
    resources.callback(pool.close)
    return pool, count


def _import(module: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise missing_requirement(error) or BridgeError(f"{module} cannot be imported: {error}") from error


def _check(*, workers: int | None, retries: int, timeout: float, upload: bool, address: str | None) -> None:
    """Check options.

    Raises:
        OptionError: One of them is not possible.
    """
    if workers is not None and workers < 0:
        raise OptionError(f"workers: {workers} is below 0")
    if retries < 0:
        raise OptionError(f"retries: {retries} is below 0")
    if not timeout >= 0.0:
        raise OptionError(f"timeout: {timeout:g} is no number of seconds; 0 for any time")
    if workers == 0 and address is not None:
        raise OptionError("workers: 0 makes the runs in this process, without a cluster (address)")
    if upload and address is None:
        raise OptionError("upload: there is no cluster to send files to (address)")
