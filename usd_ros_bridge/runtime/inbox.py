"""The inbox: the only place where threads meet. Callbacks put, the tick drains."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

DEFAULT_DEPTH = 100


class Wakeup:
    """Ends a thread's wait from another thread or from a signal handler; set before the wait, it ends at once."""

    def __init__(self) -> None:
        # Condition's own lock is re-entrant: a signal handler may run in the thread that holds it.
        self._condition = threading.Condition()
        self._awake = False

    def set(self) -> None:
        """Ends the wait in progress, or the next one."""
        with self._condition:
            self._awake = True
            self._condition.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for `set`, at most `timeout` seconds (None: without end).

        Returns:
            Whether it was woken; the wake-up is used up by that.
        """
        with self._condition:
            woken = self._condition.wait_for(lambda: self._awake, timeout)
            self._awake = False
            return woken


class Item(NamedTuple):
    """One thing that arrived: under which key, and what."""

    key: Hashable
    payload: object


@dataclass(slots=True)
class _Queue:
    """What waits under one key, each with its place in the order of arrival."""

    waiting: deque[tuple[int, object]]
    wakes: bool = False
    received: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxCounts:
    """Counters of one key: how many arrived, and how many of those gave way to newer ones unread."""

    received: int
    dropped: int


class Inbox:
    """Bounded queues by key, drained together in the order of arrival.

    Each key holds at most `depth` items; the oldest of that key gives way to the newest and is counted as dropped, so
    that a flood on one topic neither grows without bound nor costs another topic its messages.
    """

    def __init__(self, *, depth: int = DEFAULT_DEPTH, wakeup: Wakeup | None = None) -> None:
        """Makes an empty inbox.

        Args:
            depth: Items kept per key that was not configured otherwise.
            wakeup: Set when something arrives under a waking key; an own one by default.
        """
        self.wakeup = wakeup or Wakeup()
        self._depth = depth
        self._lock = threading.Lock()
        self._queues: dict[Hashable, _Queue] = {}
        self._order = 0
        self._pending = False

    def configure(self, key: Hashable, *, depth: int | None = None, wakes: bool = False) -> None:
        """Sets how many items `key` keeps and whether an arrival ends `wait`. What waits already, stays."""
        with self._lock:
            queue = self._queue(key)
            queue.waiting = deque(queue.waiting, maxlen=depth or self._depth)
            queue.wakes = wakes

    def put(self, key: Hashable, payload: object) -> None:
        """Adds an item, from any thread."""
        with self._lock:
            queue = self._queues.get(key) or self._queue(key)
            queue.received += 1
            if len(queue.waiting) == queue.waiting.maxlen:
                queue.dropped += 1
            self._order += 1
            queue.waiting.append((self._order, payload))
            self._pending = True
            wakes = queue.wakes
        if wakes:
            self.wakeup.set()

    def drain(self) -> list[Item]:
        """Returns and removes everything that waits, in the order of arrival."""
        # Without the lock on purpose: a stale False is seen again at the next tick, and an idle tick stays cheap.
        if not self._pending:
            return []
        with self._lock:
            arrived = [
                (order, Item(key, payload))
                for key, queue in self._queues.items()
                for order, payload in queue.waiting
            ]
            for queue in self._queues.values():
                queue.waiting.clear()
            self._pending = False
        arrived.sort(key=lambda pair: pair[0])
        return [item for _, item in arrived]

    @property
    def pending(self) -> bool:
        """Whether anything waits."""
        return self._pending

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until something arrives under a waking key, at most `timeout` seconds; returns whether it did."""
        return self.wakeup.wait(timeout)

    def counts(self, key: Hashable) -> InboxCounts:
        """Returns the counters of `key`."""
        with self._lock:
            queue = self._queues.get(key)
            if queue is None:
                return InboxCounts(received=0, dropped=0)
            return InboxCounts(received=queue.received, dropped=queue.dropped)

    def _queue(self, key: Hashable) -> _Queue:
        return self._queues.setdefault(key, _Queue(deque(maxlen=self._depth)))
