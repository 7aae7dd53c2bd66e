"""Deadlines: one thread, there while something waits, that fails futures whose time is over."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

_IDLE_S = 10.0
_JOIN_S = 0.5
_TIDY = 64


class Deadlines:
    """Calls something for each future that is not done in time."""

    def __init__(self) -> None:
        """Has no thread yet."""
        self._lock = threading.Lock()
        self._earlier = threading.Condition(self._lock)
        self._heap: list[tuple[float, int, Future[Any], Callable[[], None]]] = []
        self._number = itertools.count()
        self._tidy_at = _TIDY
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, future: Future[Any], timeout: float, expire: Callable[[], None]) -> None:
        """Has `expire` called, in a thread of its own, unless `future` is done within `timeout` seconds."""
        with self._lock:
            if self._closed:
                return
            if len(self._heap) >= self._tidy_at:
                # Else answers would stay in memory until their time is over.
                self._heap = [entry for entry in self._heap if not entry[2].done()]
                heapq.heapify(self._heap)
                self._tidy_at = max(_TIDY, 2 * len(self._heap))
            entry = (time.monotonic() + timeout, next(self._number), future, expire)
            heapq.heappush(self._heap, entry)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="usd_ros_bridge-deadlines", daemon=True
                )
                self._thread.start()
            elif self._heap[0] is entry:
                self._earlier.notify()

    def close(self) -> None:
        """Ends the thread; nothing expires any more. Idempotent."""
        with self._lock:
            self._closed = True
            self._heap.clear()
            self._earlier.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            with self._lock:
                # What ended in time goes first, so that only what runs has the thread wait.
                while self._heap and self._heap[0][2].done():
                    heapq.heappop(self._heap)
                if self._closed:
                    return
                wait = self._heap[0][0] - time.monotonic() if self._heap else _IDLE_S
                if wait > 0.0:
                    notified = self._earlier.wait(wait)
                    if not (self._heap or notified):
                        self._thread = None
                        return
                    continue
                expire = heapq.heappop(self._heap)[3]
            expire()
            del expire
