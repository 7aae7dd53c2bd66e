"""Calls: requests on their way to a server elsewhere, awaited in asyncio or waited for in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from usd_ros_bridge.errors import BridgeError, CallTimeoutError
from usd_ros_bridge.ranges import WAIT


class Call:
    """A call on its way. `await` it in a coroutine of any event loop, or ask for its `result` in a thread.

    It fails with CallTimeoutError where nobody answered in time, and with BridgeError where the bridge was closed.
    """

    def __init__(self, future: Future[Any], *, forbidden: Callable[[], str] = lambda: "") -> None:
        """Store what will be done.

        Args:
            future: Ends with the answer.
            forbidden: Returns why the calling thread must not wait, "" where it may.
        """
        self._future = future
        self._forbidden = forbidden

    def done(self) -> bool:
        """Return whether there is an answer, or none will come."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the answer and return it.

        Args:
            timeout: Seconds to wait, None for as long as the call may take.

        Raises:
            CallTimeoutError: Nobody answered, or not within `timeout`; in the latter case the call continues.
            BridgeError: This thread must not wait: the answer would come through it.
        """
        if timeout is not None:
            WAIT.check("timeout", timeout)
        if not self._future.done() and (reason := self._forbidden()):
            raise BridgeError(reason)
        try:
            return self._future.result(timeout)
        except FutureTimeoutError:
            if self._future.done():
                # It was answered at the last moment, or failed with a time-out of its own.
                return self._future.result()
            raise CallTimeoutError(f"no answer yet, after {timeout:g} s") from None

    def cancel(self) -> None:
        """Give the call up. The server decides what it does then; a goal is asked to be cancelled."""
        self._future.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait in a coroutine; a coroutine that is cancelled gives the call up."""
        return asyncio.wrap_future(self._future).__await__()
