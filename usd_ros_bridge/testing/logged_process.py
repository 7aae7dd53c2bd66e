"""A process beside a test: its output as it comes, its end, and its exit status."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

START_S = 60.0
"""How long a bridge may take until it is ready, seconds: on a busy machine, with a cold disk."""
END_S = 30.0
"""How long a process may take to end after a signal, seconds."""

_NOT_INHERITED = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
"""Mark of the ROS wheels' start-up: a child process that has it would not find their libraries."""


class LoggedProcess:
    """A process whose output is read as it comes.

    Attributes:
        title: The command, for messages.
        process: The process.
        exit_status: Status that `end` and the end of the test expect; None: any.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        title: str = "",
        exit_status: int | None = 0,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process.

        Args:
            command: Program and arguments.
            title: The command as messages show it; default: all of it.
            exit_status: Status that is expected at its end. None: any.
            cwd: Its working directory; default: that of the test.
            env: Variables of its environment besides those of the test.
        """
        self.title = title or " ".join(command)
        self.exit_status = exit_status
        self._shown = 0
        self._text = ""
        self._ended = False
        self._changed = threading.Condition()
        environment = {**os.environ, **(env or {})}
        environment.pop(_NOT_INHERITED, None)
        self.process = subprocess.Popen(  # noqa: S603 - the test says what to start
            list(command),
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, name="process-log", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Return whether it has not ended yet."""
        return self.process.poll() is None

    @property
    def log(self) -> str:
        """Return what it has written so far, standard output and errors."""
        with self._changed:
            return self._text

    def wait_for_line(self, pattern: str, *, timeout: float = START_S) -> str:
        """Wait until a line of the log matches a pattern. Return the line; those before the call count, too.

        Args:
            pattern: Regular expression, found anywhere in the line.
            timeout: Seconds to wait. After that, or if the process ends without the line, the test fails.
        """
        __tracebackhide__ = True
        wanted = re.compile(pattern)

        def found() -> str | None:
            return next((line for line in self._text.splitlines() if wanted.search(line)), None)

        with self._changed:
            self._changed.wait_for(lambda: found() is not None or self._ended, timeout)
            line = found()
        if line is not None:
            return line
        if self._ended:
            pytest.fail(
                f"{self.title} ended with status {self.wait()} without a line {pattern!r}{self._last_line()}"
            )
        pytest.fail(f"{self.title} wrote no line {pattern!r} within {timeout:g} s{self._last_line()}")

    def wait(self, *, timeout: float = END_S) -> int:
        """Wait until it ends by itself. Return its exit status, negative for a signal.

        Args:
            timeout: Seconds to wait. After that the test fails.
        """
        __tracebackhide__ = True
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.title} did not end within {timeout:g} s{self._last_line()}")
        self._reader.join(timeout)
        return status

    def end(self, *, number: signal.Signals = signal.SIGINT, timeout: float = END_S) -> int:
        """Send a signal if it still runs, and wait for its end. The test fails if its exit status is not as expected.

        Args:
            number: The signal.
            timeout: Seconds to wait. After that it is killed, and the test fails.

        Returns:
            The exit status, negative for a signal.
        """
        __tracebackhide__ = True
        by_itself = not self.is_running
        if not by_itself:
            self.process.send_signal(number)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(
                f"{self.title} did not end within {timeout:g} s after {number.name}{self._last_line()}"
            )
        self._reader.join(timeout)
        expected, self.exit_status = self.exit_status, None
        if expected is not None and status != expected:
            how = "by itself" if by_itself else f"after {number.name}"
            pytest.fail(f"{self.title} ended {how} with status {status}, not {expected}{self._last_line()}")
        return status

    def kill(self) -> None:
        """Kill it and wait for its end. Its exit status is not checked after that. Idempotent."""
        self.exit_status = None
        if self.is_running:
            self.process.kill()
            self.process.wait()
        self._reader.join(END_S)

    def take_log(self) -> str:
        """Return what it has written since the last call."""
        text = self.log
        shown, self._shown = self._shown, len(text)
        return text[shown:]

    def _last_line(self) -> str:
        lines = self.log.splitlines()
        return f": {lines[-1]}" if lines else ""

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self._text += line
                self._changed.notify_all()
        self.process.stdout.close()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def asset_path(asset: str | os.PathLike[str], *, folders: Sequence[Path]) -> str:
    """Return where an asset is: a relative path is searched in some folders.

    Args:
        asset: A path, or an address such as `package://NAME/PATH`.
        folders: Folders in which a relative path may begin, the first ones first.
    """
    text = os.fspath(asset)
    if "://" in text or Path(text).is_absolute():
        return text
    return next((str(folder / text) for folder in folders if (folder / text).exists()), text)
