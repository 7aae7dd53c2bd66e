"""Loop: tick a runtime at absolute deadlines and on arrival of states, until it is stopped."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from usd_ros_bridge.model.periods import duration_to_ns, period_ns
from usd_ros_bridge.runtime.inbox import Wakeup
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.schedule import ClockPeriod

_HELD_NS = 1_000_000_000


class Clock(Protocol):
    """Bridge time, and how to wait for it."""

    @property
    def period_ns(self) -> int:
        """Return the distance of the clock's stamps, nanoseconds; 0 where it shows any time, or is not measured yet."""
        ...

    def now_ns(self) -> int | None:
        """Return the time in nanoseconds, None while it is not known."""
        ...

    def wait(self, deadline_ns: int | None, wakeup: Wakeup) -> None:
        """Return once the clock shows `deadline_ns` (None: never), went back, or `wakeup` was set. Uses no CPU."""
        ...


class SystemClock:
    """Wall time, as ROS time is without a simulator. Small steps back are held until time catches up."""

    period_ns = 0

    def __init__(self) -> None:
        self._last = 0

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch.

        A correction of the clock by less than a second shows the last time again rather than going back, because a
        step back means a reset to everything that follows; a larger one is passed on.
        """
        now = time.time_ns()
        if self._last - _HELD_NS < now < self._last:
            return self._last
        self._last = now
        return now

    def wait(self, deadline_ns: int | None, wakeup: Wakeup) -> None:
        """Wait for `deadline_ns` or for `wakeup`."""
        if deadline_ns is None:
            wakeup.wait()
            return
        # Measured from the last time shown, too: a clock that was set back meanwhile must not prolong the sleep.
        remaining = deadline_ns - max(time.time_ns(), self._last)
        if remaining > 0:
            wakeup.wait(remaining * 1e-9)


class SteppedClock:
    """Time that follows no clock: it begins at 0, and each wait ends at once, at its deadline."""

    period_ns = 0

    def __init__(self) -> None:
        self._now = 0

    def now_ns(self) -> int:
        """Return the time of the last deadline."""
        return self._now

    def wait(self, deadline_ns: int | None, wakeup: Wakeup) -> None:
        """Go to `deadline_ns`; without one, wait for `wakeup`."""
        if deadline_ns is None:
            wakeup.wait()
        else:
            self._now = max(self._now, deadline_ns)


class ExternalClock:
    """Time of a simulator's /clock. Unknown until the first `advance`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._period = ClockPeriod()
        self._now: int | None = None
        self._deadline: int | None = None
        self._went_back = False
        self._wakeup: Wakeup | None = None

    def now_ns(self) -> int | None:
        """Return the last time of `advance`."""
        with self._lock:
            return self._now

    @property
    def period_ns(self) -> int:
        """Return the distance of the latest stamps, nanoseconds; 0 before the second."""
        with self._lock:
            return self._period.period_ns

    def advance(self, time_ns: int) -> None:
        """Set the time; end a wait whose deadline it reaches, or any wait if time went back. Thread-safe."""
        with self._lock:
            first = self._now is None
            back = self._now is not None and time_ns < self._now
            self._now = time_ns
            self._period.observe(time_ns)
            self._went_back = self._went_back or back
            reached = self._deadline is not None and time_ns >= self._deadline
            wakeup = self._wakeup if first or back or reached else None
        if wakeup is not None:
            wakeup.set()

    def wait(self, deadline_ns: int | None, wakeup: Wakeup) -> None:
        """Wait until the time reaches `deadline_ns`, goes back, or `wakeup` is set."""
        with self._lock:
            if self._went_back or (
                self._now is not None and deadline_ns is not None and self._now >= deadline_ns
            ):
                self._went_back = False
                return
            self._deadline, self._wakeup = deadline_ns, wakeup
        wakeup.wait()
        with self._lock:
            self._deadline, self._wakeup, self._went_back = None, None, False


class Loop:
    """Tick an open runtime until it is stopped.

    It sleeps until the earliest publication is due, by absolute time: a late tick delays no other. If the backend's
    state arrives by topic, an arrival ends the sleep.
    """

    def __init__(self, runtime: Runtime, clock: Clock | None = None) -> None:
        """Store the arguments.

        Args:
            runtime: Open.
            clock: Bridge time; wall time by default.
        """
        self._runtime = runtime
        self._clock = clock or SystemClock()
        self._wakeup = runtime.inbox.wakeup
        self._stopped = False
        self._end_ns: int | None = None

    def run(self) -> None:
        """Tick until `stop`, in the calling thread. Return at once if it was stopped before."""
        runtime, clock, wakeup = self._runtime, self._clock, self._wakeup
        rest_ns = period_ns(runtime.options.controller_rate)
        duration_ns = duration_to_ns(runtime.options.duration)
        while not self.stopped():
            deadline_ns, relay = self._limited(runtime.next_due_ns()), runtime.relay
            if relay is None or not relay.wait(deadline_ns):
                clock.wait(deadline_ns, wakeup)
            if self.stopped():
                return
            now = clock.now_ns()
            if now is not None:
                if self._end_ns is None and duration_ns:
                    self._end_ns = now + duration_ns
                if self._end_ns is not None and now > self._end_ns:
                    return
                runtime.follow_clock(clock.period_ns)
                runtime.skip_until(now - rest_ns)
                runtime.tick(now)

    def stop(self) -> None:
        """End `run` after the tick in progress; from any thread or signal handler, any number of times."""
        self._stopped = True
        self._wakeup.set()

    def _limited(self, deadline_ns: int | None) -> int | None:
        """Return a time to wait for, nanoseconds, no later than just after the end of the run."""
        if self._end_ns is None:
            return deadline_ns
        return self._end_ns + 1 if deadline_ns is None else min(deadline_ns, self._end_ns + 1)

    def stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped
