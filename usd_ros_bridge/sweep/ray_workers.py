"""Workers of a sweep as actors of Ray: a process each, that makes one run at a time."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from usd_ros_bridge.errors import BridgeError, escaped
from usd_ros_bridge.sweep.ray_cluster import (
    HOME_OF_USER,
    ONE_THREAD,
    WORKER,
    RayCluster,
    import_ray,
    kill_children_of,
)
from usd_ros_bridge.sweep.run_queue import RunAttempt
from usd_ros_bridge.sweep.run_specs import RunSpec
from usd_ros_bridge.sweep.sweep_description import Sweep
from usd_ros_bridge.sweep.sweep_run import RunOutcome, RunWorker
from usd_ros_bridge.sweep.worker_pool import RunFinished, WorkerEvent, WorkerLost, WorkerReady, make_run

_CHUNK_BYTES: Final = 16 * 2**20
_MAX_LOST_STARTS: Final = 3
"""Workers in a row that end before they are ready: then no other one is started."""
_RECORDINGS: Final = "usd_sweep_recordings_"
_LAST_WORDS: Final = 200


class SweepActor:
    """What runs in the process of a worker."""

    def __init__(self) -> None:
        """Do nothing yet: what fails here would hide its reason."""
        self._worker: RunWorker | None = None
        self._needs_domain = False

    def prepare(self, sweep: Sweep, sample: RunSpec, uploaded: bool) -> tuple[str, str, int]:
        """Open the asset. Return what is wrong, "" for nothing; the name of the machine; the process.

        Args:
            sweep: What is run.
            sample: A run by which it is checked.
            uploaded: Its files are in the working directory.
        """
        if uploaded:
            sweep = replace(sweep, directory=str(Path.cwd()))
        self._needs_domain = sweep.needs_domain
        _remove_abandoned()
        os.environ[WORKER] = str(os.getpid())
        if home := os.environ.pop(HOME_OF_USER, ""):
            os.environ.update(HOME=home)
        self._worker = RunWorker(sweep)
        try:
            self._worker.check(sample)
        except BridgeError as error:
            return str(error), platform.node(), os.getpid()
        return "", platform.node(), os.getpid()

    def run(self, attempt: RunAttempt, record: str | None, fetched: bool) -> tuple[RunOutcome, str]:
        """Make a run. Return its outcome, and the file of its recording if that is to be fetched.

        Args:
            attempt: The run.
            record: File of its recording, None for none.
            fetched: The file is on another machine: record to a temporary one.
        """
        assert self._worker is not None
        path = None if record is None else Path(record)
        if path is not None and fetched:
            path = Path(tempfile.mkdtemp(prefix=f"{_RECORDINGS}{os.getpid()}_"), path.name.lstrip("."))
        outcome = make_run(self._worker, attempt, record=path, needs_domain=self._needs_domain)
        return outcome, str(path) if path is not None and fetched else ""

    def read(self, path: str, offset: int) -> bytes:
        """Return a part of a recording. At its end, remove it, and return nothing."""
        file = Path(path)
        try:
            with file.open("rb") as opened:
                opened.seek(offset)
                content = opened.read(_CHUNK_BYTES)
        except FileNotFoundError:
            content = b""
        if not content:
            file.unlink(missing_ok=True)
            with suppress(OSError):
                file.parent.rmdir()
        return content


@dataclass
class _Worker:
    """An actor as the pool knows it.

    Attributes:
        actor: Handle.
        pending: Reference of what it does, None if it is idle.
        attempt: The run that it makes.
        record: Where its recording belongs.
        pid: Its process, 0 until it is ready.
        ended: Why the pool ended it, "" if it did not.
    """

    actor: Any
    pending: Any = None
    attempt: RunAttempt | None = None
    record: Path | None = None
    pid: int = 0
    ended: str = field(default="")


class RayPool:
    """Actors of Ray that make runs. One that is lost is replaced."""

    def __init__(self, cluster: RayCluster, sweep: Sweep, sample: RunSpec) -> None:
        """Store what is run, and where.

        Args:
            cluster: Ray, open.
            sweep: What is run.
            sample: One of its runs, by which it is checked.
        """
        self._ray = import_ray()
        self._cluster = cluster
        # Not a weak reference by name: an actor ends when nobody holds it.
        self._actor_class = self._ray.remote(
            num_cpus=1,
            max_restarts=0,
            max_task_retries=0,
            **({} if cluster.is_local else {"runtime_env": {"env_vars": dict(ONE_THREAD)}}),
        )(SweepActor)
        self._setup = self._ray.put(sweep), sample, cluster.uploaded
        self._starts_programs = sweep.needs_domain
        self._workers: dict[int, _Worker] = {}
        self._next = 0
        self._lost_starts = 0

    def start(self, count: int) -> None:
        """Start workers. They are ready when `wait` says so."""
        for _ in range(count):
            worker = _Worker(self._actor_class.remote())
            worker.pending = worker.actor.prepare.remote(*self._setup)
            self._workers[self._next] = worker
            self._next += 1

    def hand_out(self, worker: int, attempt: RunAttempt, *, record: Path | None) -> None:
        """Give a run to a worker that has none."""
        entry = self._workers[worker]
        entry.attempt, entry.record = attempt, record
        entry.pending = entry.actor.run.remote(
            attempt, None if record is None else str(record), not self._cluster.is_local
        )

    def wait(self, timeout_s: float) -> Sequence[WorkerEvent]:
        """Return what happened, as soon as something did.

        Raises:
            BridgeError: The sweep is not possible, Ray is gone, or no worker can be started.
        """
        pending = {entry.pending: number for number, entry in self._workers.items() if entry.pending}
        if not pending:
            return []
        try:
            ready, _ = self._ray.wait(list(pending), num_returns=1, timeout=timeout_s)
            if len(ready):
                # What else is over by now.
                ready, _ = self._ray.wait(list(pending), num_returns=len(pending), timeout=0)
        except self._ray.exceptions.RayError as error:
            raise BridgeError(f"Ray is gone: {_line(error)}") from error
        return [event for reference in ready for event in self._event(pending[reference], reference)]

    def end(self, worker: int, reason: str) -> None:
        """End a worker, whatever it does. `wait` says that it is lost."""
        entry = self._workers[worker]
        entry.ended = reason
        self._ray.kill(entry.actor, no_restart=True)

    def close(self) -> None:
        """End all workers. Idempotent."""
        workers, self._workers = self._workers, {}
        for entry in workers.values():
            with suppress(Exception):
                self._ray.kill(entry.actor, no_restart=True)

    def _event(self, number: int, reference: Any) -> Iterator[WorkerEvent]:
        entry = self._workers[number]
        attempt = entry.attempt
        try:
            result = self._ray.get(reference)
            if attempt is None:
                yield self._take_ready(number, entry, result)
                return
            if entry.ended:
                # It came to its end after all, too late, and the worker is gone.
                yield from self._lose(number, entry, entry.ended)
                return
            outcome, recording = result
            if recording and entry.record is not None:
                self._fetch(entry.actor, recording, entry.record)
        except self._ray.exceptions.RayTaskError as error:
            # The process goes on, but what the run left in it is not known.
            yield from self._lose(number, entry, f"the run ended its worker: {_line(error.cause)}")
            return
        except self._ray.exceptions.RayError as error:
            yield from self._lose(number, entry, entry.ended or self._cause(entry, error))
            return
        entry.pending = entry.attempt = entry.record = None
        yield RunFinished(worker=number, attempt=attempt, outcome=outcome)

    def _take_ready(self, number: int, entry: _Worker, result: tuple[str, str, int]) -> WorkerReady:
        fault, host, pid = result
        if fault:
            where = "" if self._cluster.is_local else f" (on {host})"
            raise BridgeError(f"{fault}{where}")
        self._lost_starts = 0
        entry.pending, entry.pid = None, pid
        return WorkerReady(worker=number, host=host, pid=pid)

    def _lose(self, number: int, entry: _Worker, reason: str) -> Iterator[WorkerEvent]:
        with suppress(Exception):
            self._ray.kill(entry.actor, no_restart=True)
        if self._starts_programs and self._cluster.is_local and entry.pid:
            kill_children_of(entry.pid)
        del self._workers[number]
        if not entry.pid:
            self._lost_starts += 1
            if self._lost_starts >= _MAX_LOST_STARTS:
                raise BridgeError(
                    f"workers cannot be started: {reason}. {self._lost_starts} ended before their first run"
                )
        self.start(1)
        yield WorkerLost(worker=number, attempt=entry.attempt, reason=reason)

    def _cause(self, entry: _Worker, error: BaseException) -> str:
        """Return how a worker ended, as one line."""
        if isinstance(error, self._ray.exceptions.OutOfMemoryError):
            return "the worker was ended, as its machine ran out of memory"
        if isinstance(error, self._ray.exceptions.NodeDiedError):
            return "the machine of the worker left the cluster"
        words = self._last_words(entry.pid)
        return f"the worker was killed, or crashed{f': {words}' if words else ''}"

    def _last_words(self, pid: int) -> str:
        """Return the last line that a worker of this machine wrote to stderr, "" for none."""
        if not pid or self._cluster.logs is None:
            return ""
        for path in self._cluster.logs.glob(f"worker-*-{pid}.err"):
            with suppress(OSError):
                lines = path.read_text(errors="replace", encoding="utf-8")[-_CHUNK_BYTES:].split("\n")
                written = [line.strip() for line in lines if line.strip()]
                if written:
                    return escaped(written[-1][:_LAST_WORDS])
        return ""

    def _fetch(self, actor: Any, source: str, target: Path) -> None:
        """Copy a recording from the machine of a worker."""
        try:
            with target.open("wb") as file:
                while content := self._ray.get(actor.read.remote(source, file.tell())):
                    file.write(content)
        except OSError as error:
            raise BridgeError(f"{target}: {error.strerror}") from error
        if not target.stat().st_size:
            target.unlink()


def _remove_abandoned() -> None:
    """Remove recordings of workers of this machine that were killed before they were fetched."""
    for path in Path(tempfile.gettempdir()).glob(f"{_RECORDINGS}*"):
        pid = path.name.removeprefix(_RECORDINGS).partition("_")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(path, ignore_errors=True)


def _line(error: object) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return escaped(lines[-1][:_LAST_WORDS]) if lines else type(error).__name__
