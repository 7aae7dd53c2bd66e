"""What is done between two ticks: nothing moves meanwhile, and bridge time stands still."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from usd_ros_bridge.model.errors import BridgeError

Job = Callable[[], None]


class BetweenTicks:
    """Jobs that wait for the end of a tick. `ask` may be called from any thread, `attend` by the one that ticks.

    Attributes:
        pending: Whether jobs wait.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """Has no jobs yet.

        Args:
            wake: Ends the wait of the thread that ticks.
        """
        self.pending = False
        self._wake = wake
        self._jobs: deque[tuple[Job, Future[None]]] = deque()
        self._closed = False
        self._lock = threading.Lock()

    def ask(self, job: Job) -> Future[None]:
        """Has a job done between two ticks; what it raises is the future's."""
        done: Future[None] = Future()
        with self._lock:
            if self._closed:
                done.set_exception(BridgeError("the bridge is closed"))
                return done
            self._jobs.append((job, done))
            self.pending = True
        self._wake()
        return done

    def attend(self) -> bool:
        """Does the jobs that wait; returns whether there were any, which may have taken their time."""
        if not self.pending:
            return False
        self.pending = False
        while self._jobs:
            job, told = self._jobs.popleft()
            if told.set_running_or_notify_cancel():
                try:
                    job()
                except Exception as error:  # noqa: BLE001 - whoever asked is told
                    told.set_exception(error)
                else:
                    told.set_result(None)
        return True

    def close(self) -> None:
        """Has those fail that wait, and all to come. Idempotent."""
        with self._lock:
            self._closed = True
            jobs = list(self._jobs)
            self._jobs.clear()
        for _, told in jobs:
            if told.set_running_or_notify_cancel():
                told.set_exception(BridgeError("the bridge is closed"))
