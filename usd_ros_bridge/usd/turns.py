"""Turns at a stage: OpenUSD lets many threads read a stage, but none while another one edits it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

Pause = Callable[[], None]
"""Called often by what takes long: others may be let pass there."""


class Turn:
    """A lock that its holder may take again, and that tells who waits for it."""

    def __init__(self) -> None:
        """Is free."""
        self._lock = threading.RLock()
        self._waiting: set[int] = set()

    def __enter__(self) -> None:
        thread = threading.get_ident()
        self._waiting.add(thread)
        try:
            self._lock.acquire()
        finally:
            self._waiting.discard(thread)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for it now."""
        return bool(self._waiting)

    def is_wanted_by(self, thread: int) -> bool:
        """Returns whether a thread, named by its identifier, waits for it now."""
        return thread in self._waiting


_turns: WeakKeyDictionary[Any, Turn] = WeakKeyDictionary()
_lock = threading.Lock()


def turn_at(stage: Any) -> Turn:
    """Returns the lock that whoever reads a stage beside the tick holds meanwhile, and whoever edits it, too.

    It says nothing about a stage of a host's, whose edits nobody here knows of: that one is read in the host's thread.

    Args:
        stage: A Usd.Stage; the same one gives the same lock.
    """
    with _lock:
        turn = _turns.get(stage)
        if turn is None:
            turn = _turns[stage] = Turn()
        return turn
