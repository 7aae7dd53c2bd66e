"""Signals: SIGINT and SIGTERM end a process that runs a bridge soon and with success."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_BY_SIGNAL = 128
"""Added to the number of a signal for the exit status of what it interrupted, as shells do: SIGINT gives 130."""

_REPEATED_S = 1.0
"""Signals this soon after the first are the same request: a terminal and launch both send one."""

_left_behind = threading.Event()
"""Set while a job of `run_interruptibly` may still run in OpenUSD, where Python cannot end it."""


class Ending:
    """What a signal ends: the loop where there is one, else whatever the main thread is doing."""

    def __init__(self) -> None:
        self.stop: Callable[[], None] | None = None
        self.asked = False
        self._asked_at = 0.0

    def __call__(self, *_: Any) -> None:
        """Handle a signal. The second one ends the process at once."""
        first, self.asked = not self.asked, True
        if first:
            self._asked_at = time.monotonic()
        elif time.monotonic() - self._asked_at > _REPEATED_S:
            os._exit(_BY_SIGNAL + signal.SIGINT)
        if self.stop is not None:
            self.stop()
        elif first:
            raise KeyboardInterrupt


@contextmanager
def ended_by_signals() -> Iterator[Ending]:
    """SIGINT and SIGTERM end what runs inside, without a traceback and as a success.

    A process of the bridge's own (see `ending_at_once`) that has been asked to end is deaf from then on: launch repeats
    its signals, and Python answers those that come while it shuts down with a death by signal.
    """
    ending = Ending()
    previous = _install(ending)
    try:
        yield ending
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in previous.items():
            deaf = ending.asked and handler is _end_at_once
            signal.signal(number, signal.SIG_IGN if deaf else handler)
        if ending.asked and _left_behind.is_set():
            # Python's own end would run into the thread that is still inside OpenUSD.
            _flush()
            os._exit(0)


@contextmanager
def ending_at_once(*, success: bool = True) -> Iterator[None]:
    """End the process at once on SIGINT and SIGTERM: for while it has nothing that wants closing.

    An exception would not do while modules are imported: OpenUSD's loaders swallow it, and go on with half a module.

    Args:
        success: Whether the exit status is 0; else it tells the signal, 130 for SIGINT.
    """
    end: Callable[..., None] = _end_at_once if success else _end_interrupted
    previous = _install(end)
    try:
        yield
    finally:
        for number, handler in previous.items():
            if signal.getsignal(number) is end:
                signal.signal(number, handler)


def run_interruptibly(job: Callable[[], T]) -> T:
    """Run a job in a thread and return its result, so that signals reach the main thread meanwhile.

    OpenUSD opens and composes a stage in one call, which may take long and would hold up signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return job()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(job())
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="usd_ros_bridge-open", daemon=True)
    _left_behind.set()
    thread.start()
    thread.join()
    _left_behind.clear()
    if errors:
        raise errors[0]
    return results[0]


def _install(handler: Callable[..., None]) -> dict[signal.Signals, Any]:
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.signal(number, handler) for number in SIGNALS}


def _end_at_once(*_: Any) -> None:
    os._exit(0)


def _end_interrupted(number: int, *_: Any) -> None:
    os._exit(_BY_SIGNAL + number)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
