"""The runtime as a bridge runs it: its ticks exclude closing, are measured, and run what waits for other threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from usd_ros_bridge.model.options import RemoteControl
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.core import Runtime

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
        remote_control: RemoteControl = "all",
        **options: Any,
    ) -> None:
        """Stores what ticks exclude and run, and what other nodes may do; the rest is the runtime's."""
        super().__init__(*arguments, **options)
        self.remote_control: RemoteControl = remote_control
        self._lock = lock
        self._domains = domains
        self.tick_seconds = 0.0
        self._overruns = 0
        self.stopped = False
        self.ticking: int | None = None
        """The thread that is in a tick now, by its identifier."""

    def tick(self, time_ns: int) -> bool:
        """Does everything once, unless the bridge is closed; else as the runtime."""
        if self.between.pending:
            self.between.attend()
        with self._lock:
            if self.stopped:
                return False
            deferred = self._domains.deferred
            if not deferred and self.pass_by(time_ns):
                return True
            start = time.perf_counter()
            self.ticking = threading.get_ident()
            if deferred:
                self._domains.poll(callbacks=False)
            stepped = self._tick(time_ns)
            self.ticking = None
            elapsed = time.perf_counter() - start
            self.tick_seconds += (elapsed - self.tick_seconds) * (0.1 if self.tick_seconds else 1.0)
            # Where the backend owns time, its pace tells whether there is too little of it.
            if elapsed > _WORTH_A_LOOK_S and not self.capabilities.step_ns:
                self._look_for_overrun(elapsed)
            else:
                self._overruns = 0
            return stepped

    def make_way(self, wants: Callable[[int], bool]) -> None:
        """Waits until the tick in progress is over, or the bridge is closed, also from within that tick.

        Whoever works beside shares Python's interpreter with it.

        Args:
            wants: Returns whether a thread waits for the caller: a tick that does is not waited for.
        """
        while not self.stopped:
            ticking = self.ticking
            if ticking is None or ticking == threading.get_ident() or wants(ticking):
                return
            if self._lock.acquire(timeout=_LOOK_S):
                self._lock.release()
                return

    def do_jobs(self) -> None:
        """Does the jobs that wait without a tick, unless the bridge is closed."""
        with self._lock:
            if self.stopped:
                return
            self.ticking = threading.get_ident()
            self._domains.poll(callbacks=False)
            super().do_jobs()
            self.ticking = None

    def reset(self, *, keep_time: bool = False) -> None:
        """Goes back to the state at rest, unless the bridge is closed."""
        with self._lock:
            if not self.stopped:
                super().reset(keep_time=keep_time)

    def _look_for_overrun(self, elapsed: float) -> None:
        """Reports ticks that take longer than there is time for; a slow one now and then is no news."""
        period = (self.emissions.shortest_period_ns or 0) * 1e-9
        self._overruns = self._overruns + 1 if 0.0 < period < elapsed else 0
        if self._overruns >= _OVERRUNS_WORTH_TELLING:
            self.reporter.report(
                "loop.overrun",
                f"ticks take longer than their period: {self._overruns} in a row, the last one {elapsed * 1e3:.3g} ms "
                f"of {period * 1e3:.3g} ms",
            )


def forbidden_wait(workers: Workers, runtime: GuardedRuntime, domain: Domain) -> str:
    """Returns why the calling thread must not wait for an answer from a domain, "" where it may."""
    if workers.in_event_loop():
        return "result() in a coroutine would stop all of them: await the call"
    if runtime.ticking == threading.get_ident():
        return "result() in the thread and in the midst of a step would stop the bridge: wait elsewhere"
    if domain.current:
        return "result() in the thread that runs the callbacks would wait for itself: poll() until done()"
    return ""
