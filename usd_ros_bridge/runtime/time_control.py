"""Control of time that the bridge owns: pause, step, reset, and how fast it passes. Asked for from any thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.model.ranges import FACTOR

TimeState = Literal["stopped", "playing", "paused"]
OnChange = Callable[[TimeState], None]

DEFAULT_CLOCK_RATE = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOptions:
    """How time passes where the backend owns it; of no effect where it does not.

    Attributes:
        real_time_factor: Seconds of bridge time in a second; 0 for as many as possible.
        paused: Whether time stands still at first.
        publish_clock: Whether everybody else is told the time on /clock.
        clock_rate: How often at most, Hz of bridge time.
    """

    real_time_factor: float = 1.0
    paused: bool = False
    publish_clock: bool = True
    clock_rate: float = DEFAULT_CLOCK_RATE


class Reset(NamedTuple):
    """A reset that was asked for."""

    keep_time: bool
    done: Future[int]


class _Steps:
    """Steps that were asked for: how many, and when they end, which is known once they begin."""

    __slots__ = ("count", "done", "end_ns")

    def __init__(self, count: int) -> None:
        self.count = count
        self.done: Future[int] = Future()
        self.end_ns: int | None = None


class TimeControl:
    """Says whether time passes, and how fast. What is asked for here happens in the thread that ticks.

    Time is `playing` (it passes by itself), `paused`, or `stopped`: paused, and at the start since a `stop`.
    """

    def __init__(self, *, step_ns: int, options: TimeOptions, wake: Callable[[], None]) -> None:
        """Begins as the options say.

        Args:
            step_ns: Length of the backend's step, nanoseconds.
            options: Factor, and whether it is paused at first.
            wake: Called when something was asked for.

        Raises:
            OptionError: The factor is no number of at least 0.
        """
        self.step_ns = step_ns
        self._wake = wake
        self._lock = threading.Lock()
        self._state: TimeState = "paused" if options.paused else "playing"
        self._factor = _checked_factor(options.real_time_factor)
        self._achieved: float | None = None
        self._steps: deque[_Steps] = deque()
        self._resets: deque[Reset] = deque()
        self._listeners: list[OnChange] = []
        self._closed = False
        self.before_steps_end: Callable[[], object] = lambda: None
        """Called in the thread that ticks before whoever asked for steps is told that they are done."""

    # --- For everybody -----------------------------------------------------------------------------------------

    @property
    def state(self) -> TimeState:
        """Whether time passes by itself."""
        return self._state

    @property
    def playing(self) -> bool:
        """Whether time passes by itself."""
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
        """Has time stand still after the tick in progress; steps that are under way go on."""
        if self._state == "playing":
            self._change("paused")

    def resume(self) -> None:
        """Has time pass by itself. Steps that are not done end: their futures fail."""
        if self._state != "playing":
            self._fail_steps("time passes by itself now")
            self._change("playing")

    def stop(self) -> Future[int]:
        """Has time stand still at the start: a pause and a reset.

        Returns:
            The reset, as `reset` does.
        """
        self.pause()
        done = self.reset()
        self._change("stopped")
        return done

    def step(self, steps: int = 1) -> Future[int]:
        """Takes steps of the backend's own length in a pause, as fast as possible and publishing what is due.

        Args:
            steps: How many, at least one.

        Returns:
            The bridge time at which they are done, nanoseconds. It fails with BridgeError where time is not paused,
            where it is resumed, reset or ended meanwhile. `cancel` ends them where they are.
        """
        asked = _Steps(steps)
        if steps < 1:
            asked.done.set_exception(BridgeError(f"{steps} steps are not possible: at least one"))
            return asked.done
        with self._lock:
            refusal = self._refusal() or ("time is not paused: pause it to step" if self.playing else "")
            if not refusal:
                self._steps.append(asked)
        if refusal:
            asked.done.set_exception(BridgeError(refusal))
        elif self._state == "stopped":
            self._change("paused")
        else:
            self._wake()
        return asked.done

    def reset(self, *, keep_time: bool = False) -> Future[int]:
        """Takes everything back to the state at rest, between two ticks; whether time passes stays as it is.

        Args:
            keep_time: Let time go on from where it is; else it starts over.

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
        """Has `call(state)` called after each change of `state`, in the thread that asked for it."""
        self._listeners.append(call)

    # --- For the thread that ticks -----------------------------------------------------------------------------

    def resets(self) -> list[Reset]:
        """Returns the resets that were asked for, once, and ends the steps before them."""
        if not self._resets:
            return []
        with self._lock:
            resets = list(self._resets)
            self._resets.clear()
        self._fail_steps("everything was reset")
        return resets

    def end_of_steps(self, now_ns: int) -> int | None:
        """Returns the bridge time until which steps were asked for, nanoseconds; None while none are."""
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

    def achieved(self, factor: float | None) -> None:
        """Tells how fast time passes; None while that is not known."""
        self._achieved = factor

    def close(self) -> None:
        """Ends all that was asked for and is not done. Idempotent."""
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
