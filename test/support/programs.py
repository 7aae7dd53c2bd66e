"""A program that runs beside a test: its lines as they come, and its end."""

from __future__ import annotations

import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

START_S = 60.0
END_S = 30.0


class Program:
    """A process whose output is read as it comes. A text for a shell runs in bash."""

    def __init__(
        self, command: Sequence[str] | str, *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        arguments = ["bash", "-c", f"exec {command}"] if isinstance(command, str) else list(command)
        self.command = command
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            arguments,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join()

    @property
    def output(self) -> str:
        """What it has written so far, errors included."""
        return "".join(self.lines)

    def wait_for(self, pattern: str, timeout: float = START_S) -> str:
        """Wait for a line in which a pattern is found. Return it."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"{self.command}: no line with {pattern!r} within {timeout} s in:\n{self.output}")
            if line is None:
                pytest.fail(f"{self.command}: ended without a line with {pattern!r}:\n{self.output}")
            if re.search(pattern, line):
                return line

    def wait(self, timeout: float = START_S) -> int:
        """Wait for its end. Return the exit status."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.command}: did not end within {timeout} s:\n{self.output}")
        self._reader.join()
        return status

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal. Return the exit status."""
        self.process.send_signal(number)
        return self.wait(END_S)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._queue.put(line)
        self.process.stdout.close()
        self._queue.put(None)
