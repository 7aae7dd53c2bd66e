"""Simulation time, where the backend owns it: pause, step, reset, and the loop that keeps pace with real time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Literal, NamedTuple

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.periods import duration_to_ns, period_ns
from usd_ros_bridge.ranges import FACTOR
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.schedule import NEVER_NS

TimeState = Literal["stopped", "playing", "paused"]
OnChange = Callable[[TimeState], None]


class Reset(NamedTuple):
    """A requested reset."""

    keep_time: bool
    done: Future[int]


class _Steps:
    """Requested steps: how many, and when they end, which is known once they begin."""

    __slots__ = ("count", "done", "end_ns")

    def __init__(self, count: int) -> None:
        self.count = count
        self.done: Future[int] = Future()
        self.end_ns: int | None = None


class TimeControl:
    """Control whether time passes, and how fast. Requests are served in the thread that ticks.

    Time is `playing` (it passes by itself), `paused`, or `stopped`: paused, and at the start since a `stop`.
    """

    def __init__(
        self,
        *,
        step_ns: int,
        real_time_factor: float = 1.0,
        paused: bool = False,
        wake: Callable[[], None],
    ) -> None:
        """Store the arguments.

        Args:
                step_ns: Length of the backend's step, nanoseconds.
                real_time_factor: Seconds of bridge time in a second; 0: as many as possible.
                paused: Start paused.
                wake: Called after a request.

        Raises:
                OptionError: The factor is not possible.
        """
        self.step_ns = step_ns
        self._wake = wake
        self._lock = threading.Lock()
        self._state: TimeState = "paused" if paused else "playing"
        self._factor = _checked_factor(real_time_factor)
        self._achieved: float | None = None
        self._steps: deque[_Steps] = deque()
        self._resets: deque[Reset] = deque()
        self._listeners: list[OnChange] = []
        self._closed = False
        self.before_steps_end: Callable[[], object] = lambda: None
        """Called in the thread that ticks before the futures of steps are done."""

    # --- For everybody -----------------------------------------------------------------------------------------

    @property
    def state(self) -> TimeState:
        """Return whether time passes, is paused or is stopped."""
        return self._state

    @property
    def playing(self) -> bool:
        """Return whether time passes by itself."""
        return self._state == "playing"

    @property
    def real_time_factor(self) -> float:
        """Seconds of bridge time that are to pass in a second; 0 for as many as possible."""
        return self._factor

    @real_time_factor.setter
    def real_time_factor(self, factor: float) -> None:
        self._factor = _checked_factor(factor)
        self._wake()

    @property
    def achieved_factor(self) -> float | None:
        """Seconds of bridge time that passed in the last second or so; None where that is not known, as in a pause."""
        return self._achieved

    def pause(self) -> None:
        """Pause time after the tick in progress; steps under way continue."""
        if self._state == "playing":
            self._change("paused")

    def resume(self) -> None:
        """Resume time. Steps that are not done end: their futures fail."""
        if self._state != "playing":
            self._fail_steps("time passes by itself now")
            self._change("playing")

    def stop(self) -> Future[int]:
        """Pause and reset: time stands at the start.

        Returns:
            The reset, as `reset` does.
        """
        self.pause()
        done = self.reset()
        self._change("stopped")
        return done

    def step(self, steps: int = 1) -> Future[int]:
        """Step the backend in a pause, as fast as possible, and publish what is due.

        Args:
            steps: How many, at least one.

        Returns:
            The bridge time at which they are done, nanoseconds. It fails with BridgeError where time is not paused,
            where it is resumed, reset or ended meanwhile. `cancel` ends them where they are.
        """
        requested = _Steps(steps)
        if steps < 1:
            requested.done.set_exception(BridgeError(f"{steps} steps are not possible: at least one"))
            return requested.done
        with self._lock:
            refusal = self._refusal() or ("time is not paused: pause it to step" if self.playing else "")
            if not refusal:
                self._steps.append(requested)
        if refusal:
            requested.done.set_exception(BridgeError(refusal))
        elif self._state == "stopped":
            self._change("paused")
        else:
            self._wake()
        return requested.done

    def reset(self, *, keep_time: bool = False) -> Future[int]:
        """Reset everything to the state at rest, between two ticks; the state of time stays as it is.

        Args:
            keep_time: Let time continue from where it is; else it starts over.

        Returns:
            The bridge time that it is then, nanoseconds. It fails with BridgeError where the bridge is closed before.
        """
        done: Future[int] = Future()
        with self._lock:
            refusal = self._refusal()
            if not refusal:
                self._resets.append(Reset(keep_time, done))
        if refusal:
            done.set_exception(BridgeError(refusal))
        self._wake()
        return done

    def on_change(self, call: OnChange) -> None:
        """Call `call(state)` after each change of `state`, in the thread that requested it."""
        self._listeners.append(call)

    # --- For the thread that ticks -----------------------------------------------------------------------------

    def resets(self) -> list[Reset]:
        """Return and remove the requested resets; end the steps before them."""
        if not self._resets:
            return []
        with self._lock:
            resets = list(self._resets)
            self._resets.clear()
        self._fail_steps("everything was reset")
        return resets

    def end_of_steps(self, now_ns: int) -> int | None:
        """Return the bridge time until which steps were requested, nanoseconds; None while none are."""
        while self._steps:
            first = self._steps[0]
            if first.end_ns is None:
                first.end_ns = now_ns + first.count * self.step_ns
            if now_ns < first.end_ns and not first.done.cancelled():
                return first.end_ns
            with self._lock:
                # They may just have been made to fail.
                if self._steps and self._steps[0] is first:
                    self._steps.popleft()
            self.before_steps_end()
            with suppress(InvalidStateError):
                first.done.set_result(now_ns)
        return None

    def set_achieved(self, factor: float | None) -> None:
        """Set the measured real-time factor; None while it is unknown."""
        self._achieved = factor

    def close(self) -> None:
        """Fail all pending requests. Idempotent."""
        with self._lock:
            self._closed = True
            resets = list(self._resets)
            self._resets.clear()
        self._fail_steps("the bridge is closed")
        for reset in resets:
            _fail(reset.done, "the bridge is closed")

    # --- Own ---------------------------------------------------------------------------------------------------

    def _refusal(self) -> str:
        return "the bridge is closed" if self._closed else ""

    def _fail_steps(self, why: str) -> None:
        with self._lock:
            steps = list(self._steps)
            self._steps.clear()
        for each in steps:
            _fail(each.done, f"the steps ended early: {why}")

    def _change(self, state: TimeState) -> None:
        with self._lock:
            changed = state != self._state
            self._state = state
        self._wake()
        if changed:
            for call in tuple(self._listeners):
                call(state)


def _fail(future: Future[int], why: str) -> None:
    with suppress(InvalidStateError):
        future.set_exception(BridgeError(why))


def _checked_factor(factor: float) -> float:
    FACTOR.check("real_time_factor", factor)
    return float(factor)


TOLERATED_NS = 100_000_000
"""How far bridge time may fall behind before the rest is given up."""

WINDOW_NS = 1_000_000_000
"""Wall time over which the achieved factor is measured."""

_CATCH_UP = 2
"""How much faster than requested bridge time may pass, at most, to catch up."""


class RealTimePacer:
    """Keep bridge time to the wall clock, `real_time_factor` seconds a second, measured from a common origin.

    A bridge time is reached no earlier than its time on the wall clock. A late time catches up at no more than
    twice the pace; what is late by more than `TOLERATED_NS` is given up, and reported with the factor that is achieved.
    """

    def __init__(
        self, control: TimeControl, report: Report, *, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Store the arguments.

        Args:
            control: Control of time.
            report: For time that falls behind.
            now_ns: The wall clock, nanoseconds.
        """
        self._control = control
        self._report = report
        self._now_ns = now_ns
        self._factor = 0.0
        self._origin: tuple[int, int] | None = None
        self._last = (0, 0)
        self._window: tuple[int, int] | None = None
        self._windows = 0
        self._behind = False

    def restart(self) -> None:
        """Drop the origin: time stands still."""
        if self._origin is not None or self._window is not None:
            self._origin = self._window = None
            self._windows = 0
            self._behind = False
            self._control.set_achieved(None)

    def remaining_ns(self, time_ns: int, last_ns: int) -> int:
        """Return how long to wait for a bridge time, wall nanoseconds; 0 or less: it may be reached now.

        Args:
            time_ns: Bridge time, nanoseconds.
            last_ns: Bridge time now: that of the last tick.
        """
        factor = self._control.real_time_factor
        now = self._now_ns()
        if self._origin is None or factor != self._factor or last_ns != self._last[1]:
            self._factor = factor
            self._origin = self._last = (now, last_ns)
            self._window, self._windows, self._behind = (now, last_ns), 0, False
        if not factor:
            return 0
        wall, origin = self._origin
        due = wall + round((time_ns - origin) / factor)
        if now - due > TOLERATED_NS:
            self._behind = True
            self._origin, due = (now, time_ns), now
        last_wall, last = self._last
        return max(due, last_wall + round((time_ns - last) / (factor * _CATCH_UP))) - now

    def mark_reached(self, time_ns: int) -> None:
        """Record that a bridge time is reached now.

        Args:
            time_ns: Bridge time, nanoseconds.
        """
        now = self._now_ns()
        self._last = (now, time_ns)
        if self._window is None:
            self._window = self._last
            return
        wall, start = self._window
        if now - wall < WINDOW_NS:
            return
        achieved = (time_ns - start) / (now - wall)
        self._control.set_achieved(achieved)
        # What the first ticks take (caches, discovery, an engine's compilers) says nothing about those to come.
        if self._behind and self._windows and achieved < self._factor:
            self._report(
                "time.slow",
                f"time cannot keep its pace: {achieved:.3g} s of bridge time pass in a second instead of "
                f"{self._factor:g} (real_time_factor); what is late is not made up for",
            )
        self._window, self._behind = self._last, False
        self._windows += 1


IDLE_NS = 1_000_000_000
"""How long a loop without ticks sleeps between two calls of its `idle`, wall nanoseconds."""

LONG_NS = 10_000_000
"""From when on what is done between two ticks has time stand still, wall nanoseconds; less is caught up with."""

_ROUNDING = 100


class Timekeeper:
    """Tick a runtime on the grid of its backend's steps. Everything here belongs to the thread that ticks.

    Ticks fall on the first grid point at or after what is due, and at most a period of `controller_rate` apart; the
    backend is stepped over all that lies between two of them at once. Which they are depends on bridge time alone:
    what arrives, and how fast the machine is, changes nothing about them.
    """

    def __init__(self, runtime: Runtime, control: TimeControl) -> None:
        """Store the arguments.

        Args:
            runtime: Open; its backend owns time.
            control: Control of time.
        """
        self._runtime = runtime
        self._control = control
        step_ns = control.step_ns
        self._longest_ns = max(1, period_ns(runtime.options.controller_rate) // step_ns) * step_ns

    @property
    def now_ns(self) -> int:
        """Bridge time, nanoseconds: that of the last tick, or where the last reset left it."""
        return self._runtime.now_ns

    def serve_requests(self) -> bool:
        """Serve requests between two ticks: jobs, resets, and posted jobs if no tick is to come.

        Returns:
            Whether there were jobs, which may have taken their time.
        """
        runtime, control = self._runtime, self._control
        worked = runtime.tick_queue.run_pending()
        for keep_time, done in control.resets():
            if done.set_running_or_notify_cancel():
                try:
                    runtime.reset(start_ns=runtime.now_ns if keep_time else 0)
                except Exception as error:  # noqa: BLE001 - it goes to the future
                    done.set_exception(error)
                else:
                    done.set_result(runtime.now_ns)
        if not control.playing and control.end_of_steps(runtime.now_ns) is None:
            runtime.run_posted()
        return worked

    def next_ns(self) -> int | None:
        """Return the bridge time of the tick to come, nanoseconds; None where none is to come."""
        now, step = self._runtime.now_ns, self._control.step_ns
        # The backend takes one step from the state at rest, whenever that is.
        last = now + (step if self._runtime.time_ns is None else self._longest_ns)
        if not self._control.playing:
            end = self._control.end_of_steps(now)
            if end is None:
                return None
            last = min(last, end)
        due = self._runtime.next_due_ns()
        wanted = -(-(NEVER_NS if due is None else due) // step) * step
        return max(now + step, min(wanted, last))

    def advance(self, time_ns: int) -> bool:
        """Tick once.

        Args:
            time_ns: As `next_ns` says, or another grid point.

        Returns:
            Whether the backend gave a state.
        """
        stepped = self._runtime.tick(time_ns)
        if not self._control.playing:
            # Futures of steps are done at once.
            self._control.end_of_steps(self._runtime.now_ns)
        return stepped

    def follow_schedule(self) -> None:
        """Tick when something is due, and no longer at the stamps of a host."""
        self._runtime.follow_clock(0)

    def step(self, time_ns: int | None) -> bool:
        """Tick once for a host.

        Args:
            time_ns: Bridge time to go to, nanoseconds: the grid point at or before it, or less than a hundredth of a
                step after it, which a host's floating-point seconds may miss. None for one step.

        Returns:
            Whether the backend gave a state: not where time is paused, or has not come to the next grid point yet and
            none was shown before.
        """
        self.serve_requests()
        now, step = self._runtime.now_ns, self._control.step_ns
        target = now + step if time_ns is None else (time_ns + step // _ROUNDING) // step * step
        if not self._control.playing:
            end = self._control.end_of_steps(now)
            if end is None:
                return False
            target = min(target, end)
        if target == now or target < step:
            return self._runtime.time_ns is not None
        self._runtime.follow_host(target)
        return self.advance(target)


class SimTimeLoop:
    """Tick an open runtime, whose backend owns time, until it is stopped: the `Loop` of such a backend."""

    def __init__(
        self,
        runtime: Runtime,
        control: TimeControl,
        *,
        keeper: Timekeeper | None = None,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        """Store the arguments.

        Args:
            runtime: Open.
            control: Control of time. Its `wake` is to set the wake-up of the runtime's inbox.
            keeper: Ticks; one of its own by default.
            idle: Called where time begins to stand still, and about once a second while no tick comes.
        """
        self._control = control
        self._keeper = keeper or Timekeeper(runtime, control)
        self._pace = RealTimePacer(control, runtime.reporter.report)
        self._wakeup = runtime.inbox.wakeup
        self._idle = idle
        self._stopped = False
        self._duration_ns = duration_to_ns(runtime.options.duration)

    def run(self) -> None:
        """Tick until `stop`, in the calling thread. Return at once if it was stopped before."""
        keeper, control, pace = self._keeper, self._control, self._pace
        keeper.follow_schedule()
        stands_at: int | None = None
        while not self._stopped:
            began = time.monotonic_ns()
            if keeper.serve_requests() and time.monotonic_ns() - began > LONG_NS:
                # Nothing of the time that they took is to be caught up with.
                pace.restart()
            next_ns = keeper.next_ns()
            if self._duration_ns and (next_ns or 0) > self._duration_ns:
                return
            if next_ns is None:
                pace.restart()
                if keeper.now_ns != stands_at:
                    stands_at = keeper.now_ns
                    self._idle()
                self._sleep(IDLE_NS)
            elif not control.playing:
                pace.restart()
                keeper.advance(next_ns)
            elif (remaining := pace.remaining_ns(next_ns, keeper.now_ns)) > 0:
                self._sleep(remaining)
            else:
                pace.mark_reached(next_ns)
                keeper.advance(next_ns)
                # With no wait in between, other threads would wait for this one's turn to end each time.
                time.sleep(0)

    def stop(self) -> None:
        """End `run` after the tick in progress; from any thread or signal handler, any number of times."""
        self._stopped = True
        self._wakeup.set()

    def stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped

    def _sleep(self, nanoseconds: int) -> None:
        """Wait until a request at most, and call `idle` in a long wait."""
        slept = min(nanoseconds, IDLE_NS)
        if not self._wakeup.wait(slept * 1e-9) and slept == IDLE_NS:
            self._idle()
