"""Guarded runtime: ticks exclude closing, are measured, and let threads that wait for them pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.runtime import Runtime

_WORTH_A_LOOK_S = 1e-3
_LOOK_S = 2e-3
_OVERRUNS_WORTH_TELLING = 5


class GuardedRuntime(Runtime):
    """A runtime whose ticks exclude `close`, are measured, and run what waits for domains without a thread."""

    def __init__(
        self,
        *arguments: Any,
        lock: threading.RLock,
        domains: Domains,
        **options: Any,
    ) -> None:
        """Store what ticks exclude and run; the rest is the runtime's."""
        super().__init__(*arguments, **options)
        self._lock = lock
        self._domains = domains
        self.tick_seconds = 0.0
        self._overruns = 0
        self.stopped = False
        self.ticking: int | None = None
        """The thread that is in a tick now, by its identifier."""

    def tick(self, time_ns: int) -> bool:
        """Tick as the runtime does, unless the bridge is closed."""
        if self.tick_queue.pending:
            self.tick_queue.run_pending()
        with self._lock:
            if self.stopped:
                return False
            deferred = bool(self._domains.polled) and self._domains.deferred
            if not deferred and self.skip_tick(time_ns):
                return True
            start = time.perf_counter()
            self.ticking = threading.get_ident()
            if deferred:
                self._domains.poll(callbacks=False)
            stepped = self.run_tick(time_ns)
            self.ticking = None
            elapsed = time.perf_counter() - start
            self.tick_seconds += (elapsed - self.tick_seconds) * (0.1 if self.tick_seconds else 1.0)
            # Where the backend owns time, its pace tells whether there is too little of it.
            if elapsed > _WORTH_A_LOOK_S and not self.capabilities.step_ns:
                self._look_for_overrun(elapsed)
            else:
                self._overruns = 0
            return stepped

    def stop(self) -> None:
        """Refuse further ticks and jobs. Idempotent."""
        with self._lock:
            self.stopped = True
        self.tick_queue.close()

    def wait_for_tick(self, wants: Callable[[int], bool]) -> None:
        """Wait until the tick in progress ends or the bridge is closed. Background threads share Python with it.

        Return at once within that tick.

        Args:
            wants: Return whether a thread waits for the caller: then the caller does not wait for its tick.
        """
        while not self.stopped:
            ticking = self.ticking
            if ticking is None or ticking == threading.get_ident() or wants(ticking):
                return
            if self._lock.acquire(timeout=_LOOK_S):
                self._lock.release()
                return

    def run_posted(self) -> None:
        """Run the posted jobs without a tick, unless the bridge is closed."""
        with self._lock:
            if self.stopped:
                return
            self.ticking = threading.get_ident()
            self._domains.poll(callbacks=False)
            super().run_posted()
            self.ticking = None

    def reset(self, *, keep_time: bool = False) -> None:
        """Reset to the state at rest, unless the bridge is closed."""
        with self._lock:
            if not self.stopped:
                super().reset(keep_time=keep_time)

    def _look_for_overrun(self, elapsed: float) -> None:
        """Report ticks that take longer than there is time for; a slow one now and then is no news."""
        period = (self.publications.shortest_period_ns or 0) * 1e-9
        self._overruns = self._overruns + 1 if 0.0 < period < elapsed else 0
        if self._overruns >= _OVERRUNS_WORTH_TELLING:
            self.reporter.report(
                "loop.overrun",
                f"ticks take longer than their period: {self._overruns} in a row, the last one {elapsed * 1e3:.3g} ms "
                f"of {period * 1e3:.3g} ms",
            )


def forbidden_wait(workers: Workers, runtime: GuardedRuntime, domain: Domain) -> str:
    """Return why the calling thread must not wait for an answer from a domain, "" where it may."""
    if workers.in_event_loop():
        return "result() in a coroutine would stop all of them: await the call"
    if runtime.ticking == threading.get_ident():
        return "result() in the thread and in the midst of a step would stop the bridge: wait elsewhere"
    if domain.current:
        return "result() in the thread that runs the callbacks would wait for itself: poll() until done()"
    return ""
