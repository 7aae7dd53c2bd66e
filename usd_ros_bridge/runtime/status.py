"""Counters of a running bridge: rates, received samples and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from usd_ros_bridge.reporting import Report, Reported

WINDOW_NS = 2_000_000_000
_SHORT_S = 1e-3
"""Ticks up to this long are never reported."""
_OVERRUNS = 5
"""Number of ticks in a row that take too long before a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationStatus:
    """Counters of one publication.

    Attributes:
        name: As given to `Runtime.add_publication`: a prim's path or a topic.
        rate: Hz asked for; None: every tick.
        published: Messages since the runtime was opened.
        achieved_rate: Hz over the last seconds of bridge time, 0 where nothing was published in them.
        skipped: Periods that passed without a tick of their own.
        errors: How often it raised.
        last_error: One line, "" where it never raised.
        enabled: Whether it may publish: not while the controller that it shows is inactive.
    """

    name: str
    rate: float | None
    published: int
    achieved_rate: float
    skipped: int
    errors: int
    last_error: str
    enabled: bool = True


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
        publications: In the order they were added.
        sinks: In the order they were bound.
        reports: What was reported, each kind once.
    """

    time_ns: int | None
    ticks: int
    backend_errors: int
    last_backend_error: str
    publications: tuple[PublicationStatus, ...]
    sinks: tuple[SinkStatus, ...]
    reports: tuple[Reported, ...]


class RateMeter:
    """Measures a rate over windows of bridge time; one comparison per event."""

    __slots__ = ("_rate", "_start_count", "count", "end_ns", "start_ns")

    def __init__(self) -> None:
        self.count = 0
        self._rate = 0.0
        # The current window: empty before the first event.
        self.start_ns, self.end_ns, self._start_count = 0, 0, 0

    def mark(self, time_ns: int) -> None:
        """Count one event."""
        self.count += 1
        if not self.start_ns <= time_ns < self.end_ns:
            self.turn(time_ns)

    def rate(self, time_ns: int) -> float:
        """Return events per second over the last complete window, or over the current one where that is all there is.

        Args:
            time_ns: Now; after two windows without an event the rate decays.
        """
        if self.start_ns == self.end_ns or time_ns <= self.start_ns:
            return self._rate
        if not self._rate or time_ns - self.start_ns > 2 * WINDOW_NS:
            return self._since(time_ns)
        return self._rate

    def turn(self, time_ns: int) -> None:
        """Begin a window with an event; time that went back leaves the last rate."""
        if self.start_ns < self.end_ns <= time_ns:
            # Events that came often and then not for a whole window had ceased: what begins now is measured anew.
            ceased = time_ns - self.end_ns > WINDOW_NS and self.count - self._start_count > 2
            self._rate = 0.0 if ceased else self._since(time_ns)
        self.start_ns, self.end_ns, self._start_count = time_ns, time_ns + WINDOW_NS, self.count

    def _since(self, time_ns: int) -> float:
        return (self.count - self._start_count) * 1e9 / (time_ns - self.start_ns)


def mark_each(meters: Iterable[RateMeter], time_ns: int) -> None:
    """Count one event with each of some meters, as `mark` does, without a call for each.

    Args:
        meters: Meters.
        time_ns: Time of the event.
    """
    for meter in meters:
        meter.count += 1
        if not meter.start_ns <= time_ns < meter.end_ns:
            meter.turn(time_ns)


class TickMeter:
    """Measure the wall time of ticks, and report those that take longer than their period.

    Attributes:
        seconds: Mean of recent ticks.
    """

    def __init__(self, report: Report) -> None:
        """Args: report: For ticks that take too long."""
        self.seconds = 0.0
        self._report = report
        self._overruns = 0

    def record(self, elapsed: float, find_period_ns: Callable[[], int | None]) -> None:
        """Record a tick.

        Args:
            elapsed: Wall time that it took, seconds.
            find_period_ns: Return the time until the next one, nanoseconds; None if nothing has a rate.
        """
        self.seconds += (elapsed - self.seconds) * (0.1 if self.seconds else 1.0)
        period_ns = find_period_ns() if elapsed > _SHORT_S else None
        if not period_ns or elapsed <= period_ns * 1e-9:
            self._overruns = 0
            return
        # A slow tick now and then is no news.
        self._overruns += 1
        if self._overruns >= _OVERRUNS:
            self._report(
                "loop.overrun",
                f"ticks take longer than their period: {self._overruns} in a row, the last one {elapsed * 1e3:.3g} ms "
                f"of {period_ns * 1e-6:.3g} ms",
            )
