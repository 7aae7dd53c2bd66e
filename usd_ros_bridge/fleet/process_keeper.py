"""Keep one process running: start it again when it ends, with growing waits, until it is closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from usd_ros_bridge.fleet.supervised_process import INTERRUPT_S, TERMINATE_S, OnLine, SupervisedProcess

HEALTHY_S = 60.0
"""After a run this long a process is started again at once, seconds."""


class RestartDelays:
    """How long to wait before a process is started again: not at all, then 1, 2, 4 ... seconds."""

    def __init__(self, *, most_s: float, healthy_s: float = HEALTHY_S) -> None:
        """Begin without a wait.

        Args:
            most_s: The longest wait, seconds.
            healthy_s: After a run this long it starts again, seconds.
        """
        self._most_s = most_s
        self._healthy_s = healthy_s
        self._next_s = 0.0

    def after(self, ran_s: float) -> float:
        """Return the wait after a run of this length, both in seconds."""
        if ran_s >= self._healthy_s:
            self._next_s = 0.0
        delay = self._next_s
        self._next_s = min(max(2.0 * delay, 1.0), self._most_s)
        return delay


class ProcessKeeper:
    """A process that is kept running."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_line: OnLine,
        on_end: Callable[[int, float], float | None],
        interrupt: bytes = b"",
    ) -> None:
        """Store the arguments.

        Args:
            command: Program and arguments.
            environment: As for `SupervisedProcess`.
            on_line: As for `SupervisedProcess`.
            on_end: `on_end(status, ran_s)` returns the seconds until it is started again, None if it is not. Not
                called once it is being closed. Its exception ends `keep`.
            interrupt: As for `SupervisedProcess`.
        """
        self._make = partial(
            SupervisedProcess, command, environment=environment, on_line=on_line, interrupt=interrupt
        )
        self._on_end = on_end
        self._process: SupervisedProcess | None = None
        self._closing = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def process_id(self) -> int | None:
        """Return the id of the process, None if none runs."""
        return None if self._process is None else self._process.process_id

    async def keep(self) -> None:
        """Run the process, again and again, until `close`, or until `on_end` has enough.

        Raises:
            OSError: It cannot be started.
        """
        try:
            while not self._closing.is_set():
                began = time.monotonic()
                self._process = self._make()
                status = await self._process.run()
                if self._closing.is_set():
                    return
                delay = self._on_end(status, time.monotonic() - began)
                if delay is None:
                    return
                await _wait(self._closing, delay)
        finally:
            self._ended.set()

    async def close(self) -> None:
        """End the process: politely, then by force. `keep` returns. Idempotent."""
        self._closing.set()
        process = self._process
        if process is None:
            return
        process.interrupt()
        if not await _wait(self._ended, INTERRUPT_S):
            process.terminate()
            if not await _wait(self._ended, TERMINATE_S):
                process.kill()
        await self._ended.wait()

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()


async def _wait(event: asyncio.Event, timeout_s: float) -> bool:
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), timeout_s)
    return event.is_set()
