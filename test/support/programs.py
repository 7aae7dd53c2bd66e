"""Processes of tests: a program that runs beside one, its lines one after the other and its end; a script of Python."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from usd_ros_bridge.testing.logged_process import END_S, START_S, LoggedProcess

RUN_S = 110.0
"""How long a script may run, seconds."""


class Program(LoggedProcess):
    """A process whose lines are awaited in their order. A text for a shell runs in bash."""

    def __init__(
        self, command: Sequence[str] | str, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
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


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    """`program(command, ...)` starts a program. At the end of the test it is interrupted if it still runs."""
    started: list[Program] = []

    def start(command: Sequence[str | Path], **options: Any) -> Program:
        started.append(Program([str(each) for each in command], **options))
        return started[-1]

    yield start
    for each in started:
        # Killed, it would leave shared memory behind.
        each.end()


def run_python(
    code: str,
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own. Return how it ended, with what it wrote.

    Args:
        code: The script.
        arguments: Its arguments.
        cwd: Its working directory; default: that of the test.
        env: Variables of its environment besides those of the test.
        without: Variables of the test that it does not get.
    """
    # The ROS wheels' start-up mark would keep a child Python from finding its libraries.
    left_out = {"_ROS_WHEELS_BOOTSTRAP_COMPLETE", *without}
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env=variables | dict(env or {}),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=RUN_S,
        check=False,
    )
