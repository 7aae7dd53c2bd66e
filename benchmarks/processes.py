"""Processes that benchmarks start beside themselves: a ROS domain of their own, ended by their id, CPU time read."""

from __future__ import annotations

import functools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, BenchmarkError
from usd_ros_bridge.ros_domains import DomainReservation, reserve_domain

GRACE_SECONDS = 5.0
_REEXEC_MARK = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
_PATHS_OF_THIS_ENVIRONMENT = ("AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
UDP_ON_LOOPBACK = {
    "ROS_AUTOMATIC_DISCOVERY_RANGE": "SYSTEM_DEFAULT",
    "FASTDDS_DEFAULT_PROFILES_FILE": str(ROOT / "config" / "fastdds_loopback_udp.xml"),
}
"""Environment of processes that reach each other as between machines: nothing goes by shared memory."""
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Fast DDS keeps its segments
_SHARED_MEMORY_NAMES = ("fastrtps_*", "sem.fastrtps_*", "fastdds_*", "sem.fastdds_*")


@functools.cache
def _reserved_domain() -> DomainReservation:
    """Reserve a domain until this process ends."""
    return reserve_domain()


@functools.cache
def _cache_directory() -> tempfile.TemporaryDirectory[str]:
    """Make a directory for caches, which exists until this process ends."""
    return tempfile.TemporaryDirectory(prefix="usd_ros_bridge-bench-")


def isolate() -> None:
    """Gives this process and those that it starts a ROS domain of their own, on the loopback alone, and empty caches.

    To be called before rclpy makes a context.
    """
    os.environ["ROS_DOMAIN_ID"] = str(_reserved_domain().domain_id)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["XDG_CACHE_HOME"] = _cache_directory().name
    # Checked setters make message objects several times slower: no comparison is to gain from that.
    for name in ("ROS_STATIC_PEERS", "ROS_PYTHON_CHECK_FIELDS"):
        os.environ.pop(name, None)


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment for a child: this one's, without the mark of the ROS wheels' start-up."""
    environment = {**os.environ, **(extra or {})}
    environment.pop(_REEXEC_MARK, None)
    return environment


def foreign_environment() -> dict[str, str]:
    """Returns the environment for another environment's Python: nothing in it leads to the packages of this one."""
    return {
        name: value for name, value in child_environment().items() if name not in _PATHS_OF_THIS_ENVIRONMENT
    }


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time, user and system, of all threads that a process of this user has and had."""
    cpu_clock_of_process = (~pid << 3) | 2
    return time.clock_gettime(cpu_clock_of_process)


def proportional_mb(pid: int | None = None) -> float:
    """Returns the memory of a process of this user, its own if None: MB of 10^6 bytes.

    Pages that several processes share count in equal parts (PSS), so that the figures of several may be added.

    Raises:
        BenchmarkError: It ended, or the system does not tell.
    """
    try:
        lines = Path(f"/proc/{pid or 'self'}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise BenchmarkError(f"no memory of process {pid or 'self'}: {error}") from error
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


def shared_memory_files() -> set[Path]:
    """Returns Fast DDS's files in shared memory."""
    return {path for pattern in _SHARED_MEMORY_NAMES for path in _SHARED_MEMORY.glob(pattern)}


class Child:
    """A process that is ended with the `with` block. A peer also says, in lines of JSON, how far it is."""

    def __init__(
        self, command: Sequence[str], *, name: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts it.

        Args:
            command: Executable and arguments.
            name: For messages.
            environment: Variables to add.

        Raises:
            BenchmarkError: It cannot be started.
        """
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        try:
            self._process = subprocess.Popen(
                list(command),
                cwd=ROOT,
                env=child_environment(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
        except OSError as error:
            self._errors.close()
            raise BenchmarkError(f"{name} cannot be started: {error}") from error
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=f"reads {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def wait_for(self, event: str, timeout: float = 30.0) -> dict[str, Any]:
        """Waits until a peer tells of `event`, and returns what it tells.

        Raises:
            BenchmarkError: It ended before that, or the time is over.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise BenchmarkError(f"{self.name} did not come to {event!r} within {timeout:g} s") from None
            if line is None:
                raise BenchmarkError(f"{self.name} ended before {event!r}: {self._last_words()}")
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and told.get("event") == event:
                return told

    def wait_for_line(self, part: str, timeout: float) -> None:
        """Waits until a program that is no peer prints a line that contains `part`.

        Raises:
            BenchmarkError: It ended before that, or the time is over.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise BenchmarkError(f"{self.name} did not print {part!r} within {timeout:g} s") from None
            if line is None:
                raise BenchmarkError(f"{self.name} ended before {part!r}: {self._last_words()}")
            if part in line:
                return

    def check_alive(self) -> None:
        """Makes sure that it still runs.

        Raises:
            BenchmarkError: It does not.
        """
        if self._process.poll() is not None:
            raise BenchmarkError(f"{self.name} ended early: {self._last_words()}")

    def cpu_seconds(self) -> float:
        """Returns the CPU time that it has used.

        Raises:
            BenchmarkError: It ended.
        """
        self.check_alive()
        return cpu_seconds(self.pid)

    def say(self, line: str) -> None:
        """Writes a line to its input.

        Raises:
            BenchmarkError: It ended, or its input is closed.
        """
        self.check_alive()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise BenchmarkError(f"{self.name} takes no more input: {error}") from error

    def close_input(self) -> None:
        """Asks a peer to end: its input is over."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()

    def end(self) -> None:
        """Ends it: SIGTERM, and SIGKILL where that is not heeded. Idempotent."""
        process = self._process
        if process.poll() is None:
            self.close_input()
            process.terminate()
            try:
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._reader.join(GRACE_SECONDS)
        if process.stdin is not None:
            process.stdin.close()
        if process.stdout is not None:
            process.stdout.close()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _last_words(self) -> str:
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"exit status {status}")


def peer(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Child:
    """Starts a module of `benchmarks.peers`."""
    command = [sys.executable, "-m", f"benchmarks.peers.{module}", *arguments]
    return Child(command, name=module, environment=environment)
