"""A program that runs beside a test: its lines one after the other, and its end."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from usd_ros_bridge.testing.logged_process import END_S, START_S, LoggedProcess


class Program(LoggedProcess):
    """A process whose lines are awaited in their order. A text for a shell runs in bash."""

    def __init__(
        self, command: Sequence[str] | str, *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        arguments = ["bash", "-c", f"exec {command}"] if isinstance(command, str) else list(command)
        super().__init__(arguments, title=str(command), exit_status=None, cwd=cwd, env=env)
        self._next = 0

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def output(self) -> str:
        """What it has written so far, errors included."""
        return self.log

    def wait_for(self, pattern: str, timeout: float = START_S) -> str:
        """Wait for a line in which a pattern is found, after the one that was awaited last. Return it."""
        wanted = re.compile(pattern)

        def found() -> str | None:
            lines = self._text.splitlines(keepends=True)
            number = next((n for n in range(self._next, len(lines)) if wanted.search(lines[n])), None)
            if number is None:
                return None
            self._next = number + 1
            return lines[number]

        line: str | None = None
        with self._changed:
            deadline = time.monotonic() + timeout
            while (line := found()) is None and not self._ended and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
        if line is None:
            how = "ended" if self._ended else f"ran for {timeout:g} s"
            pytest.fail(f"{self.title} {how} without a line {pattern!r}:\n{self.output}")
        return line

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal. Return the exit status."""
        return self.end(number=number, timeout=END_S)
