"""A process of a supervisor: its lines as they come, its end, and no orphan, however the supervisor ends."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from usd_ros_bridge.child_process import end_with_parent

INTERRUPT_S = 15.0
"""How long a process may take to close, seconds. After that it is terminated."""

TERMINATE_S = 5.0
"""How long it may take after that, seconds. Then it is killed, with what it started."""

_READ_BYTES = 65_536
_MOST_LINE_BYTES = 262_144
_DRAIN_S = 2.0
"""How long the pipes are read after the end of a process, seconds: what it has started may hold them open."""

OnLine = Callable[[str, bool], None]
"""`on_line(line, is_error)`: a line without its end, from standard output or from standard error."""


class _ProcessProtocol(SubprocessStreamProtocol):
    """Report the end of a process at once. `Process.wait` waits until its pipes are closed, too.

    Attributes:
        ended: Set when the process has ended.
    """

    def __init__(self) -> None:
        super().__init__(limit=_READ_BYTES, loop=asyncio.get_running_loop())
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        """Handle the end of the process."""
        super().process_exited()
        self.ended.set()


class SupervisedProcess:
    """A process in a process group of its own, so that a terminal's Ctrl-C reaches the supervisor only."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_line: OnLine,
        interrupt: bytes = b"",
    ) -> None:
        """Store the arguments.

        Args:
            command: Program and arguments.
            environment: Variables besides those of this process.
            on_line: Called for every line.
            interrupt: What ends the program at the other end of a terminal; b"": SIGINT to the process.
        """
        self._command = tuple(command)
        self._environment = {**os.environ, **environment}
        self._on_line = on_line
        self._interrupt = interrupt
        self._process: Process | None = None
        self._is_interrupted = False

    @property
    def process_id(self) -> int | None:
        """Return its id, None if it does not run."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def run(self) -> int:
        """Run the process to its end. Return the exit status, negative for a signal.

        Raises:
            OSError: It cannot be started.
        """
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            _ProcessProtocol,
            *self._command,
            env=self._environment,
            stdin=PIPE if self._interrupt else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        self._process = process = Process(transport, protocol, loop)
        if self._is_interrupted:
            self.interrupt()
        readers = [
            asyncio.ensure_future(self._read(stream, is_error=is_error))
            for stream, is_error in ((process.stdout, False), (process.stderr, True))
            if stream is not None
        ]
        try:
            await protocol.ended.wait()
            await asyncio.wait(readers, timeout=_DRAIN_S)
        finally:
            for reader in readers:
                reader.cancel()
            # What it started has nothing to do without it.
            _signal_group(process.pid, signal.SIGKILL)
            transport.close()
        assert process.returncode is not None
        return process.returncode

    def interrupt(self) -> None:
        """Ask it to close, as Ctrl-C does; as soon as it is there, if it is only being started."""
        self._is_interrupted = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            with suppress(OSError, RuntimeError):
                process.stdin.write(self._interrupt)
            return
        self._send(signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, with all that it started."""
        if self._process is not None and self._process.returncode is None:
            _signal_group(self._process.pid, signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        process_id = self.process_id
        if process_id is not None:
            # asyncio's own call may collect the status of a process that has just ended, and `run` then returns 255.
            with suppress(ProcessLookupError):
                os.kill(process_id, number)

    async def _read(self, stream: asyncio.StreamReader, *, is_error: bool) -> None:
        rest = b""
        while chunk := await stream.read(_READ_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _MOST_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._tell(line, is_error=is_error)
        if rest:
            self._tell(rest, is_error=is_error)

    def _tell(self, line: bytes, *, is_error: bool) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        if self._interrupt:
            # A terminal shows what it is sent.
            text = text.removeprefix("^C")
        if text or not self._interrupt:
            self._on_line(text, is_error)


def _signal_group(process_id: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process_id, number)
