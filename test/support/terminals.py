"""A program on a terminal of the test's own, and what it writes there."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Sequence
from types import TracebackType

import pytest

READ_S = 60.0


class OnTerminal:
    """A process whose standard streams are a pseudo terminal."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        """Start the process.

        Args:
            command: Program, with its path, and arguments.
            environment: All its variables.
        """
        self.written = b""
        self._id, self._terminal = pty.fork()
        if self._id == 0:
            os.execve(command[0], list(command), environment)

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._id:
            os.kill(self._id, signal.SIGKILL)
            self.finish()
        os.close(self._terminal)

    def wait_for(self, text: bytes) -> None:
        """Read until a text is written. Fail after a minute, or if the process ends before."""
        end = time.monotonic() + READ_S
        while text not in self.written:
            # A view that draws on and on is never silent.
            assert time.monotonic() < end, f"no {text!r} within {READ_S:g} s: {self.written!r}"
            assert self._read(), f"the process ended without {text!r}: {self.written!r}"

    def type(self, text: bytes) -> None:
        """Write as the keyboard does."""
        os.write(self._terminal, text)

    def interrupt(self) -> None:
        """Send what Ctrl-C sends."""
        os.kill(self._id, signal.SIGINT)

    def finish(self) -> int:
        """Read to the end. Return the exit status."""
        while self._read():
            pass
        _, status = os.waitpid(self._id, 0)
        self._id = 0
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], READ_S)
        if not ready:
            pytest.fail(f"nothing more within {READ_S:g} s: {self.written!r}")
        try:
            part = os.read(self._terminal, 65536)
        except OSError:
            # Linux: the other side is closed.
            return False
        self.written += part
        return bool(part)
