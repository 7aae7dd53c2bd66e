"""The keeper of time that a backend owns: which tick comes next, and the loop that waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.pace import Pace
from usd_ros_bridge.runtime.schedule import NEVER_NS, period_ns
from usd_ros_bridge.runtime.time_control import TimeControl

IDLE_NS = 1_000_000_000
"""How long a loop without ticks sleeps between two calls of its `idle`, wall nanoseconds."""

LONG_NS = 10_000_000
"""From when on what is done between two ticks has time stand still, wall nanoseconds; less is caught up with."""

_ROUNDING = 100


class Timekeeper:
    """Ticks a runtime on the grid of its backend's steps. Everything here belongs to the thread that ticks.

    Ticks fall on the first grid point at or after what is due, and at most a period of `controller_rate` apart; the
    backend is stepped over all that lies between two of them at once. Which they are depends on bridge time alone:
    what arrives, and how fast the machine is, changes nothing about them.
    """

    def __init__(self, runtime: Runtime, control: TimeControl) -> None:
        """Stores what to tick.

        Args:
            runtime: Open; its backend owns time.
            control: Says whether time passes.
        """
        self._runtime = runtime
        self._control = control
        step = control.step_ns
        self._longest_ns = max(1, period_ns(runtime.options.controller_rate) // step) * step

    @property
    def now_ns(self) -> int:
        """Bridge time, nanoseconds: that of the last tick, or where the last reset left it."""
        return self._runtime.now_ns

    def attend(self) -> bool:
        """Does what was asked for between two ticks: jobs, resets, and others' jobs where no tick is to come.

        Returns:
            Whether there were jobs, which may have taken their time.
        """
        runtime, control = self._runtime, self._control
        worked = runtime.between.attend()
        for keep_time, done in control.resets():
            if done.set_running_or_notify_cancel():
                try:
                    runtime.reset(keep_time=keep_time)
                except Exception as error:  # noqa: BLE001 - whoever asked is told
                    done.set_exception(error)
                else:
                    done.set_result(runtime.now_ns)
        if not control.playing and control.end_of_steps(runtime.now_ns) is None:
            runtime.do_jobs()
        return worked

    def next_ns(self) -> int | None:
        """Returns the bridge time of the tick to come, nanoseconds; None where none is to come."""
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
        """Ticks.

        Args:
            time_ns: As `next_ns` says, or another grid point.

        Returns:
            Whether the backend gave a state.
        """
        stepped = self._runtime.tick(time_ns)
        if not self._control.playing:
            # Whoever waits for steps is told at once.
            self._control.end_of_steps(self._runtime.now_ns)
        return stepped

    def free(self) -> None:
        """Tick at what is due from here on, and not at the stamps of a host."""
        self._runtime.follow_clock(0)

    def step(self, time_ns: int | None) -> bool:
        """Ticks once for a host.

        Args:
            time_ns: Bridge time to go to, nanoseconds: the grid point at or before it, or less than a hundredth of a
                step after it, which a host's floating-point seconds may miss. None for one step.

        Returns:
            Whether the backend gave a state: not where time is paused, or has not come to the next grid point yet and
            none was shown before.
        """
        self.attend()
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


class OwnTimeLoop:
    """Ticks an open runtime, whose backend owns time, until it is stopped: the `Loop` of such a backend."""

    def __init__(
        self,
        runtime: Runtime,
        control: TimeControl,
        *,
        keeper: Timekeeper | None = None,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        """Stores what to tick.

        Args:
            runtime: Open.
            control: Says whether time passes, and how fast. Its `wake` is to set the wake-up of the runtime's inbox.
            keeper: Ticks; one of its own by default.
            idle: Called where time begins to stand still, and about once a second while no tick comes.
        """
        self._control = control
        self._keeper = keeper or Timekeeper(runtime, control)
        self._pace = Pace(control, runtime.reporter.report)
        self._wakeup = runtime.inbox.wakeup
        self._idle = idle
        self._stopped = False

    def run(self) -> None:
        """Ticks until `stop`, in the calling thread. Returns at once where it was stopped before."""
        keeper, control, pace = self._keeper, self._control, self._pace
        keeper.free()
        stands_at: int | None = None
        while not self._stopped:
            began = time.monotonic_ns()
            if keeper.attend() and time.monotonic_ns() - began > LONG_NS:
                # Nothing of the time that they took is to be caught up with.
                pace.rest()
            next_ns = keeper.next_ns()
            if next_ns is None:
                pace.rest()
                if keeper.now_ns != stands_at:
                    stands_at = keeper.now_ns
                    self._idle()
                self._sleep(IDLE_NS)
            elif not control.playing:
                pace.rest()
                keeper.advance(next_ns)
            elif (remaining := pace.remaining_ns(next_ns, keeper.now_ns)) > 0:
                self._sleep(remaining)
            else:
                pace.comes(next_ns)
                keeper.advance(next_ns)
                # With no wait in between, other threads would wait for this one's turn to end each time.
                time.sleep(0)

    def stop(self) -> None:
        """Ends `run` after the tick in progress; from any thread or signal handler, any number of times."""
        self._stopped = True
        self._wakeup.set()

    def stopped(self) -> bool:
        """Returns whether `stop` was called."""
        return self._stopped

    def _sleep(self, nanoseconds: int) -> None:
        """Waits, not longer than until something is asked for, and keeps others company in a long wait."""
        slept = min(nanoseconds, IDLE_NS)
        if not self._wakeup.wait(slept * 1e-9) and slept == IDLE_NS:
            self._idle()
