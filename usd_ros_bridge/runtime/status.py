"""Counters of a running bridge: what was published at what rate, what arrived, what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from usd_ros_bridge.runtime.report import Reported

WINDOW_NS = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitterStatus:
    """One emitter.

    Attributes:
        name: As given to `Runtime.add_emitter`: a prim's path or a topic.
        rate: Hz asked for, None where it is asked at every tick.
        published: Messages since the runtime was opened.
        achieved_rate: Hz over the last seconds of bridge time, 0 where nothing was published in them.
        skipped: Periods that passed without a tick of their own.
        errors: How often it raised.
        last_error: One line, "" where it never raised.
        asked: Whether it is asked at all: not while the controller that it shows is inactive.
    """

    name: str
    rate: float | None
    published: int
    achieved_rate: float
    skipped: int
    errors: int
    last_error: str
    asked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """One input: a subscription's sink or a backend's topic.

    Attributes:
        name: Resolved topic name, or the backend's key.
        received: Samples that arrived.
        dropped: Samples that gave way to newer ones unread, or that nothing takes.
        errors: How often taking one raised.
        last_error: One line, "" where it never raised.
        reason: Why nothing takes the samples, "" where something does.
    """

    name: str
    received: int
    dropped: int
    errors: int
    last_error: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatus:
    """A running bridge at one moment.

    Attributes:
        time_ns: Bridge time of the last tick, None before the first.
        ticks: Ticks since the runtime was opened.
        backend_errors: Ticks in which the backend raised and the state did not change.
        last_backend_error: One line, "" where it never raised.
        emitters: In the order they were added.
        sinks: In the order they were bound.
        reports: What was reported, each kind once.
    """

    time_ns: int | None
    ticks: int
    backend_errors: int
    last_backend_error: str
    emitters: tuple[EmitterStatus, ...]
    sinks: tuple[SinkStatus, ...]
    reports: tuple[Reported, ...]


class RateMeter:
    """Measures a rate over windows of bridge time; one comparison per event."""

    __slots__ = ("_end", "_rate", "_start", "_start_count", "count")

    def __init__(self) -> None:
        """Starts at nothing."""
        self.count = 0
        self._rate = 0.0
        # The current window: empty before the first event.
        self._start, self._end, self._start_count = 0, 0, 0

    def mark(self, time_ns: int) -> None:
        """Counts one event."""
        self.count += 1
        if not self._start <= time_ns < self._end:
            self._turn(time_ns)

    def rate(self, time_ns: int) -> float:
        """Returns events per second over the last complete window, or over the current one where that is all there is.

        Args:
            time_ns: Now; after two windows without an event the rate decays.
        """
        if self._start == self._end or time_ns <= self._start:
            return self._rate
        if not self._rate or time_ns - self._start > 2 * WINDOW_NS:
            return self._since(time_ns)
        return self._rate

    def _turn(self, time_ns: int) -> None:
        """Begins a window with an event; time that went back leaves the last rate."""
        if self._start < self._end <= time_ns:
            # Events that came often and then not for a whole window had ceased: what begins now is measured anew.
            ceased = time_ns - self._end > WINDOW_NS and self.count - self._start_count > 2
            self._rate = 0.0 if ceased else self._since(time_ns)
        self._start, self._end, self._start_count = time_ns, time_ns + WINDOW_NS, self.count

    def _since(self, time_ns: int) -> float:
        return (self.count - self._start_count) * 1e9 / (time_ns - self._start)


def mark_each(meters: Sequence[RateMeter], indices: Iterable[int], time_ns: int) -> None:
    """Counts one event with each of some meters, as `mark` does, without a call for each.

    Args:
        meters: Meters.
        indices: Which of them.
        time_ns: When.
    """
    for index in indices:
        meter = meters[index]
        meter.count += 1
        if not meter._start <= time_ns < meter._end:
            meter._turn(time_ns)
