"""Workers of a sweep as its engine sees them, and the pool that makes the runs in this process."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros_domains import reserve_domain
from usd_ros_bridge.sweep.run_queue import RunAttempt
from usd_ros_bridge.sweep.run_specs import RunSpec
from usd_ros_bridge.sweep.sweep_description import Sweep
from usd_ros_bridge.sweep.sweep_run import RunOutcome, RunWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReady:
    """A worker can take runs.

    Attributes:
        worker: Number of the worker.
        host: Name of its machine.
        pid: Its process.
    """

    worker: int
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """A worker made a run, and can take the next one.

    Attributes:
        worker: Number of the worker.
        attempt: The run.
        outcome: What came of it.
    """

    worker: int
    attempt: RunAttempt
    outcome: RunOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost:
    """A worker ended. Another one with another number takes its place.

    Attributes:
        worker: Number of the worker.
        attempt: The run that it was making, None for none.
        reason: How it ended.
    """

    worker: int
    attempt: RunAttempt | None
    reason: str


WorkerEvent = WorkerReady | RunFinished | WorkerLost


class WorkerPool(Protocol):
    """Workers that make runs, each one at a time."""

    def start(self, count: int) -> None:
        """Start workers. They are ready when `wait` says so."""

    def hand_out(self, worker: int, attempt: RunAttempt, *, record: Path | None) -> None:
        """Give a run to a worker that has none.

        Args:
            worker: Number of the worker.
            attempt: The run.
            record: File that has the recording when the run is finished.
        """

    def wait(self, timeout_s: float) -> Sequence[WorkerEvent]:
        """Return what happened, as soon as something did.

        Args:
            timeout_s: How long to wait, seconds.

        Raises:
            BridgeError: The sweep is not possible: the asset cannot be opened, or something it names is not there.
        """

    def end(self, worker: int, reason: str) -> None:
        """End a worker, whatever it does. `wait` says that it is lost."""

    def close(self) -> None:
        """End all workers. Idempotent."""


class InProcessPool:
    """One worker: this process. Nothing limits the time of a run, and what ends the process ends the sweep."""

    def __init__(self, sweep: Sweep, sample: RunSpec) -> None:
        """Store what is run.

        Args:
            sweep: The sweep.
            sample: One of its runs, by which it is checked.
        """
        self._worker = RunWorker(sweep)
        self._sample = sample
        self._needs_domain = sweep.needs_domain
        self._job: tuple[RunAttempt, Path | None] | None = None
        self._ready = False

    def start(self, count: int) -> None:
        """Let `wait` open the asset: one worker, whatever `count` is."""
        del count

    def hand_out(self, worker: int, attempt: RunAttempt, *, record: Path | None) -> None:
        """Let `wait` make a run."""
        del worker
        self._job = attempt, record

    def wait(self, timeout_s: float) -> Sequence[WorkerEvent]:
        """Make the run that was handed out. Return its end."""
        del timeout_s
        if not self._ready:
            self._worker.check(self._sample)
            self._ready = True
            return [WorkerReady(worker=0, host=platform.node(), pid=os.getpid())]
        if self._job is None:
            return []
        (attempt, record), self._job = self._job, None
        outcome = make_run(self._worker, attempt, record=record, needs_domain=self._needs_domain)
        return [RunFinished(worker=0, attempt=attempt, outcome=outcome)]

    def end(self, worker: int, reason: str) -> None:
        """Do nothing: a run in this process ends by itself."""

    def close(self) -> None:
        """Close the stage. Idempotent."""
        self._worker.close()


def make_run(
    worker: RunWorker, attempt: RunAttempt, *, record: Path | None, needs_domain: bool
) -> RunOutcome:
    """Make a run. Whatever it raises is a failed outcome.

    Args:
        worker: Makes it.
        attempt: The run.
        record: MCAP file to write.
        needs_domain: Give it a ROS domain that nobody else on this machine has.
    """
    spec = attempt.spec
    try:
        if not needs_domain:
            return worker.run(spec, record=record)
        domain = reserve_domain()
        try:
            return worker.run(spec, record=record, domain_id=domain.domain_id)
        finally:
            domain.close()
    except (BridgeError, RuntimeError) as error:
        return RunOutcome(id=spec.id, index=spec.index, outcome="failed", reason=describe(error))
