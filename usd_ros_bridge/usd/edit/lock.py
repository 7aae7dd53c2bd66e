"""The lock of a stage: many threads may read a stage of OpenUSD, but none while another one edits it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary


class StageLock:
    """A reentrant lock that lists the threads that wait for it."""

    def __init__(self) -> None:
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
        """Return whether any thread waits for the lock."""
        return bool(self._waiting)

    def is_wanted_by(self, thread: int) -> bool:
        """Return whether a thread waits for the lock.

        Args:
            thread: Its identifier.
        """
        return thread in self._waiting


_locks: WeakKeyDictionary[Any, StageLock] = WeakKeyDictionary()
_lock = threading.Lock()


def lock_of(stage: Any) -> StageLock:
    """Return the lock of a stage. Hold it to edit the stage, or to read it outside of the tick.

    It does not cover edits by a host: read a host's stage in the host's thread.

    Args:
        stage: A Usd.Stage; the same one gives the same lock.
    """
    with _lock:
        lock = _locks.get(stage)
        if lock is None:
            lock = _locks[stage] = StageLock()
        return lock


def share_lock(stage: Any, other: Any) -> None:
    """Give a stage that was opened just now the lock of what stood for it before."""
    lock = lock_of(other)
    with _lock:
        _locks[stage] = lock
