"""Queues between threads: callbacks put samples into the inbox and the tick drains it; jobs run between two ticks."""

from __future__ import annotations

import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from usd_ros_bridge.errors import BridgeError

DEFAULT_DEPTH = 100
_SELECT_LIMIT = 1024
"""FD_SETSIZE."""
_LOOK_S = 0.5
"""How long the system waits at most without a look at signals, seconds. A signal that comes just before the wait, or in
another thread, does not end it: Python calls the handler only when the main thread runs again."""


class Wakeup:
    """End a thread's wait from another thread or from a signal handler. Set before the wait, it ends at once.

    Attributes:
        woke: Whether a wait was ended by `set` since this was last cleared: the wait uses the wake-up up, and the inbox
            has yet to poll its sources.
    """

    fd: int | None = None
    """A file descriptor that code outside of Python may write to instead of `set`, where there is one."""

    def __init__(self) -> None:
        # Condition's own lock is re-entrant: a signal handler may run in the thread that holds it.
        self._condition = threading.Condition()
        self._awake = False
        self.woke = False

    def set(self) -> None:
        """End the wait in progress, or the next one."""
        with self._condition:
            self._awake = True
            self._condition.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `set`, at most `timeout` seconds (None: without end).

        Returns:
            Whether it was woken; the wake-up is used up by that.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        with self._condition:
            left = _LOOK_S if timeout is None else timeout
            while not (woken := self._condition.wait_for(lambda: self._awake, min(left, _LOOK_S))):
                if (left := end - time.monotonic()) <= 0.0:
                    break
            self._awake = False
            self.woke = self.woke or woken
            return woken


class DescriptorWakeup(Wakeup):
    """A wake-up by eventfd: middleware wakes the loop's thread with one write, without entering Python.

    Attributes:
        readable: The descriptor as `select.select` takes it.
    """

    def __init__(self) -> None:
        self.fd = fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        if fd >= _SELECT_LIMIT:
            raise OSError(f"file descriptor {fd} is too large for select()")
        self.readable = (fd,)
        self._fd = fd
        self.woke = False

    def __del__(self) -> None:
        """Give the descriptor back: not before the last who may write to it has let go of this object."""
        if self.fd is not None:
            os.close(self.fd)

    def set(self) -> None:
        """End the wait in progress, or the next one."""
        os.eventfd_write(self._fd, 1)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `set` or a write, at most `timeout` seconds (None: without end); return whether it was woken."""
        if timeout is None or timeout > _LOOK_S:
            if not self._wait_long(timeout):
                return False
        # select, because poll and epoll round time-outs to milliseconds.
        elif not select.select(self.readable, (), (), timeout)[0]:
            return False
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return False
        self.woke = True
        return True

    def _wait_long(self, timeout: float | None) -> bool:
        end = math.inf if timeout is None else time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0.0:
            if select.select(self.readable, (), (), min(left, _LOOK_S))[0]:
                return True
        return False


def make_wakeup() -> Wakeup:
    """Return the best kind of wake-up that this system has."""
    if hasattr(os, "eventfd"):
        with suppress(OSError):
            return DescriptorWakeup()
    return Wakeup()


Poll = Callable[[int], Sequence[object]]
"""`poll(limit)`: return payloads that wait elsewhere, in the order of arrival, `limit` at most.

If more wait, it sets the wake-up again.
"""


class SampleHandler(Protocol):
    """Key of a runtime's inbox: applies what is queued under it."""

    def apply(self, payload: object) -> None:
        """Apply one item, in the tick."""

    def failed(self, error: Exception) -> None:
        """Report an exception of `apply`."""


Item = tuple[Hashable, object]
"""One thing that arrived: under which key, and what."""


@dataclass(slots=True)
class _Queue:
    """Items of one key, each with its place in the order of arrival."""

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

    A source keeps its items elsewhere (in the middleware) and sets the wake-up when one arrives: `drain` asks it, so
    that no thread but the draining one handles them.

    Attributes:
        wakeup: Set when something arrives under a waking key.
        has_queued: Whether anything is queued here. A stale False is seen again when it is read next.
    """

    def __init__(self, *, depth: int = DEFAULT_DEPTH, wakeup: Wakeup | None = None) -> None:
        """Store the arguments.

        Args:
            depth: Items kept per key that was not configured otherwise.
            wakeup: Set when something arrives under a waking key; an own one by default.
        """
        self.wakeup = wakeup or make_wakeup()
        self._depth = depth
        self._lock = threading.Lock()
        self._queues: dict[Hashable, _Queue] = {}
        self._order = 0
        self.has_queued = False
        self._sources: tuple[tuple[Hashable, Poll], ...] = ()

    def configure(self, key: Hashable, *, depth: int | None = None, wakes: bool = False) -> None:
        """Set how many items `key` keeps and whether an arrival ends `wait`. What waits already, stays."""
        with self._lock:
            queue = self._queue(key)
            queue.waiting = deque(queue.waiting, maxlen=depth or self._depth)
            queue.wakes = wakes

    def put(self, key: Hashable, payload: object) -> None:
        """Add an item, from any thread."""
        with self._lock:
            queue = self._queues.get(key) or self._queue(key)
            queue.received += 1
            if len(queue.waiting) == queue.waiting.maxlen:
                queue.dropped += 1
            self._order += 1
            queue.waiting.append((self._order, payload))
            self.has_queued = True
            wakes = queue.wakes
        if wakes:
            self.wakeup.set()

    def forget(self, key: Hashable) -> None:
        """Remove a key, its counters and its items."""
        with self._lock:
            self._queues.pop(key, None)
            self._sources = tuple(entry for entry in self._sources if entry[0] != key)

    def add_source(self, key: Hashable, poll: Poll) -> None:
        """Attach a source: call `poll` for items of `key` at every `drain`, also for those that it holds already."""
        with self._lock:
            self._queue(key)
            self._sources = (*self._sources, (key, poll))
        self.wakeup.set()

    def remove_source(self, key: Hashable, poll: Poll) -> None:
        """Detach a source; ignore one that is not attached."""
        with self._lock:
            self._sources = tuple(entry for entry in self._sources if entry != (key, poll))

    def drain(self) -> list[Item]:
        """Return and remove all items in the order of arrival, those of sources last."""
        # Without the lock on purpose: a stale False is seen again at the next tick, and an idle tick stays cheap.
        items = self._drain_queues() if self.has_queued else []
        if self._sources:
            # Before asking: what arrives meanwhile wakes again.
            self.wakeup.woke = False
            for key, poll in self._sources:
                # At most so many: a flood must not keep the tick from its end.
                payloads = poll(self._depth)
                for payload in payloads:
                    items.append((key, payload))
                queue = self._queues.get(key)
                if queue is not None:
                    queue.received += len(payloads)
        return items

    def apply(self) -> bool:
        """Drain the queues and apply all items, whose keys are handlers. Return whether there were any."""
        items = self.drain()
        apply_items(items)
        return bool(items)

    def count(self, key: Hashable, received: int) -> None:
        """Count items of a source that were applied without `drain`."""
        with self._lock:
            self._queue(key).received += received

    def waiting(self, key: Hashable) -> int:
        """Return how many items of a key are queued, those of sources left out."""
        with self._lock:
            queue = self._queues.get(key)
            return 0 if queue is None else len(queue.waiting)

    def withdraw(self, key: Hashable) -> list[object]:
        """Return and remove the items of one key, except those of sources."""
        with self._lock:
            queue = self._queue(key)
            payloads = [payload for _, payload in queue.waiting]
            queue.waiting.clear()
            return payloads

    @property
    def pending(self) -> bool:
        """Return whether anything is queued, here or perhaps in a source."""
        return self.has_queued or (bool(self._sources) and (self.wakeup.woke or self.wakeup.wait(0.0)))

    def _drain_queues(self) -> list[Item]:
        with self._lock:
            arrived = [
                (order, (key, payload))
                for key, queue in self._queues.items()
                for order, payload in queue.waiting
            ]
            for queue in self._queues.values():
                queue.waiting.clear()
            self.has_queued = False
        arrived.sort(key=lambda pair: pair[0])
        return [item for _, item in arrived]

    def counts(self, key: Hashable) -> InboxCounts:
        """Return the counters of `key`."""
        with self._lock:
            queue = self._queues.get(key)
            if queue is None:
                return InboxCounts(received=0, dropped=0)
            return InboxCounts(received=queue.received, dropped=queue.dropped)

    def _queue(self, key: Hashable) -> _Queue:
        return self._queues.setdefault(key, _Queue(deque(maxlen=self._depth)))


def apply_items(items: Iterable[Item]) -> None:
    """Apply items, whose keys are handlers, in order. An exception of one does not stop the others."""
    for key, payload in items:
        handler: SampleHandler = key  # type: ignore[assignment]  # nothing else is put into a runtime's inbox
        try:
            handler.apply(payload)
        except Exception as error:  # noqa: BLE001 - the runtime's edge: one handler's fault stops nothing else
            handler.failed(error)


class TickQueue:
    """Run jobs in the tick thread, between two ticks: nothing moves meanwhile. Thread-safe, except `run_pending`.

    Attributes:
        pending: Whether jobs are queued.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """Store the arguments.

        Args:
            wake: Wake the tick thread.
        """
        self.pending = False
        self._wake = wake
        self._jobs: deque[tuple[Callable[[], object], Future[None]]] = deque()
        self._closed = False
        self._lock = threading.Lock()

    def submit(self, job: Callable[[], object]) -> Future[None]:
        """Queue `job`. Its exception goes to the future."""
        done: Future[None] = Future()
        with self._lock:
            if self._closed:
                done.set_exception(BridgeError("the bridge is closed"))
                return done
            self._jobs.append((job, done))
            self.pending = True
        self._wake()
        return done

    def run_pending(self) -> bool:
        """Run all queued jobs in the calling thread. Return whether there were any."""
        if not self.pending:
            return False
        while (taken := self._take()) is not None:
            job, done = taken
            if done.set_running_or_notify_cancel():
                try:
                    job()
                except Exception as error:  # noqa: BLE001 - it goes to whoever submitted the job
                    done.set_exception(error)
                else:
                    done.set_result(None)
        return True

    def close(self) -> None:
        """Fail queued and later jobs with BridgeError. Idempotent."""
        with self._lock:
            self._closed, self.pending = True, False
            jobs = list(self._jobs)
            self._jobs.clear()
        for _, done in jobs:
            if done.set_running_or_notify_cancel():
                done.set_exception(BridgeError("the bridge is closed"))

    def _take(self) -> tuple[Callable[[], object], Future[None]] | None:
        # Under the lock: a job that `close` fails is not run as well.
        with self._lock:
            taken = self._jobs.popleft() if self._jobs else None
            self.pending = bool(self._jobs)
        return taken
