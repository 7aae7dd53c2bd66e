"""How SIGINT and SIGTERM end a process that runs a bridge: as a success, in time, from its first import to its last."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """What a signal ends: the loop where there is one, else whatever the main thread is doing."""

    def __init__(self) -> None:
        """Nothing runs yet, and nobody has asked."""
        self.stop: Callable[[], None] | None = None
        self.asked = False

    def __call__(self, *_: Any) -> None:
        """Takes a signal."""
        first, self.asked = not self.asked, True
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


@contextmanager
def ending_at_once() -> Iterator[None]:
    """SIGINT and SIGTERM end the process at once, with status 0: for while it has nothing that wants closing.

    An exception would not do while modules are imported: OpenUSD's loaders swallow it, and go on with half a module.
    """
    previous = _install(_end_at_once)
    try:
        yield
    finally:
        for number, handler in previous.items():
            if signal.getsignal(number) is _end_at_once:
                signal.signal(number, handler)


def _install(handler: Callable[..., None]) -> dict[signal.Signals, Any]:
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.signal(number, handler) for number in SIGNALS}


def _end_at_once(*_: Any) -> None:
    os._exit(0)
