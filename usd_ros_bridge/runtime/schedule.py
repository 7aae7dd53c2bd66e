"""Schedule: what is due in a tick, by deadlines in integer nanoseconds of bridge time or by arrivals."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

from usd_ros_bridge.model.periods import SECOND_NS, is_reached, period_ns, periods_missed
from usd_ros_bridge.reporting import Report

NEVER_NS = 2**63 - 1
_RECENT_TICKS = 16
_WINDOW_NS = 5 * SECOND_NS
_REPORTED_LOSS_NS = SECOND_NS // 2
_SHORT_TICK_S = 1e-3
"""Ticks up to this long are never reported."""
_REPORTED_OVERRUNS = 5
"""Number of ticks in a row that take too long before a report."""


class ClockPeriod:
    """Measure the period of a clock from its stamps: the mean interval, without the outer quarters of the last few.

    Jitter up to the period itself, a few lost messages and a jump leave the result about right.

    Attributes:
        period_ns: Nanoseconds; 0 while fewer than two stamps are known.
    """

    __slots__ = ("_intervals", "_last", "_steady_ns", "_until_update", "period_ns")

    def __init__(self) -> None:
        self.period_ns = 0
        self._last: int | None = None
        self._intervals: deque[int] = deque(maxlen=_RECENT_TICKS)
        self._until_update = 1
        # The interval that all of the last few have in common, 0 where they differ: one more of it changes nothing.
        self._steady_ns = 0

    def observe(self, time_ns: int) -> None:
        """Measure with the next stamp, nanoseconds. A stamp at or before the last measures nothing."""
        last, self._last = self._last, time_ns
        if last is None or time_ns <= last or time_ns - last == self._steady_ns:
            return
        self._steady_ns = 0
        self._intervals.append(time_ns - last)
        self._until_update -= 1
        if self._until_update <= 0:
            intervals = sorted(self._intervals)
            if intervals[0] == intervals[-1] and len(intervals) == _RECENT_TICKS:
                self._steady_ns = intervals[0]
            quarter = len(intervals) // 4
            middle = intervals[quarter : len(intervals) - quarter]
            self.period_ns = sum(middle) // len(middle)
            # Each stamp counts while there are few; after that the result changes slowly.
            self._until_update = 1 if len(intervals) < _RECENT_TICKS else _RECENT_TICKS


class _Entry:
    """One periodic entry and what it missed."""

    __slots__ = ("grid", "name", "skipped", "skipped_before", "was_reported")

    def __init__(self, name: str) -> None:
        self.name = name
        self.grid: _Grid | None = None
        self.skipped = 0
        self.skipped_before = 0
        self.was_reported = False


class _Grid:
    """Points in time that entries share: one period and one phase, however many entries.

    Attributes:
        period: Nanoseconds.
        next: The point that comes next; 0 means that the grid starts at the next tick.
        last_due: The tick at which the entries were last due, -1 before the first.
        members: Indices of the entries on it, in the order of `Schedule.due`.
    """

    __slots__ = ("_members", "_sorted", "last_due", "next", "period")

    def __init__(self, period: int, first: int) -> None:
        self.period = period
        self.next = first
        self.last_due = -1
        self._members: set[int] = set()
        self._sorted: Sequence[int] | None = ()

    @property
    def members(self) -> Sequence[int]:
        if self._sorted is None:
            self._sorted = tuple(sorted(self._members))
        return self._sorted

    def add(self, index: int) -> None:
        self._members.add(index)
        self._sorted = None

    def discard(self, index: int) -> None:
        self._members.discard(index)
        self._sorted = None if self._members else ()


class Schedule:
    """Find the periodic entries that are due. `next += period` keeps the average rate, whatever the ticks' jitter.

    If the ticks follow a clock with a period of its own (/clock, a host that steps), a deadline counts as reached at
    the tick nearest to it: from half a period of the clock before it. At a rate close to that of the clock, a deadline
    that a tick missed is kept for the next tick: jitter of stamps costs no message.

    Entries of one rate that start together share a grid, so that a tick of thousands costs no more than a tick of one.
    Grids wait in a heap.

    Several periods that passed between two ticks make an entry due once: no burst follows a stall. Skipped periods are
    counted. If ticks are always farther apart than the period, the rate is reported once. If half a second of an
    entry's periods is lost within a few seconds, the stall is reported.

    Attributes:
        earliest_ns: Bridge time before which no entry is due; 0: at once, NEVER_NS: there is none.
        clock_period_ns: Period of the clock that the ticks follow, nanoseconds; 0 without one.
    """

    def __init__(self, report: Report) -> None:
        """Args: report: For rates that cannot be met, and stalls."""
        self.earliest_ns = NEVER_NS
        self.clock_period_ns = 0
        self._report = report
        # By index; indices are in the order of addition, which is the order of `due`, and none is used twice.
        self._entries: dict[int, _Entry] = {}
        self._indices = count()
        self._grids: dict[tuple[int, int], _Grid] = {}
        self._heap: list[tuple[int, int, _Grid]] = []
        self._order = count()
        self._window_start = 0
        self._last_tick: int | None = None
        self._intervals: deque[int] = deque(maxlen=_RECENT_TICKS)

    def add(self, name: str, rate: float) -> int:
        """Add an entry of `rate` Hz that is due at the next tick. Return its index, which no other entry gets."""
        index = next(self._indices)
        self._entries[index] = _Entry(name)
        self._join(index, period_ns(rate), 0)
        return index

    def remove(self, index: int) -> None:
        """Remove an entry."""
        self._leave(index)
        del self._entries[index]
        self._update_earliest()

    def set_rate(self, index: int, rate: float) -> None:
        """Change an entry's rate; it is due at the next tick."""
        self._leave(index)
        self._join(index, period_ns(rate), 0)
        self._update_earliest()

    def set_clock_period(self, period_ns: int) -> None:
        """Change `clock_period_ns`."""
        self.clock_period_ns = period_ns
        self._update_earliest()

    def reset(self) -> None:
        """Make every entry due at the next tick, whatever its time."""
        periods = [(index, entry.grid.period) for index, entry in self._entries.items() if entry.grid]
        self._grids.clear()
        self._heap.clear()
        for index, period in periods:
            self._join(index, period, 0)
        self._last_tick = None
        self._intervals.clear()
        self._update_earliest()

    @property
    def next_due_ns(self) -> int | None:
        """Bridge time at which the next entry is due; 0: at once, None: there is no entry."""
        return None if self.earliest_ns == NEVER_NS else self.earliest_ns

    @property
    def shortest_period_ns(self) -> int | None:
        """Period of the fastest entry, None if there is none."""
        return min((grid.period for _, _, grid in self._heap if grid.members), default=None)

    def skipped(self, index: int) -> int:
        """Return how many periods of an entry passed without a tick of their own; 0 for one that was removed."""
        entry = self._entries.get(index)
        return 0 if entry is None else entry.skipped

    def due(self, time_ns: int, previous_ns: int | None = None) -> Sequence[int]:
        """Return the indices of the entries that are due at a tick, and set their next deadlines.

        Args:
            time_ns: The tick.
            previous_ns: The tick before, if nothing was due then and this was not called.
        """
        last = self._last_tick if previous_ns is None else previous_ns
        if last is not None and time_ns > last:
            self._intervals.append(time_ns - last)
        self._last_tick = time_ns
        if time_ns < self.earliest_ns:
            return ()
        alone = self._due_alone(time_ns)
        if alone:
            return alone
        due: list[Sequence[int]] = []
        waiting = []
        while self._heap and is_reached(self._heap[0][0], time_ns, self.clock_period_ns):
            grid = heapq.heappop(self._heap)[2]
            self._grids.pop((grid.period, grid.next), None)
            if grid.members and grid.last_due == time_ns:
                waiting.append(grid)
            elif grid.members:
                due.append(grid.members)
                self._advance(grid, time_ns)
                waiting.append(grid)
        for grid in waiting:
            self._place(grid)
        self._update_earliest()
        # Nothing is due twice at one stamp, not even if a deadline is left for the next.
        self.earliest_ns = max(self.earliest_ns, time_ns + 1)
        if len(due) == 1:
            return due[0]
        return sorted(index for members in due for index in members)

    def _due_alone(self, time_ns: int) -> Sequence[int]:
        """Return what is due, as `due`, of one grid that keeps its pace; empty where anything else is to be done."""
        heap, grids = self._heap, self._grids
        clock_period_ns = self.clock_period_ns
        until_ns = time_ns + clock_period_ns // 2
        if not heap:
            return ()
        # The next deadlines after the first: two at most are next to it in a heap.
        for deadline_ns, _, _ in heap[1:3]:
            if deadline_ns <= until_ns:
                return ()
        before, _, grid = heap[0]
        members, period, after = grid.members, grid.period, before + grid.period
        if (
            not (members and before)
            or before > until_ns
            or grid.last_due == time_ns
            or (period, after) in grids
            or periods_missed(before, period, time_ns, clock_period_ns)
        ):
            return ()
        del grids[period, before]
        grids[period, after] = grid
        grid.next, grid.last_due = after, time_ns
        heapq.heapreplace(heap, (after, next(self._order), grid))
        self._update_earliest()
        if self.earliest_ns <= time_ns:
            self.earliest_ns = time_ns + 1
        return members

    def _advance(self, grid: _Grid, time_ns: int) -> None:
        # A grid on which nothing was due yet starts at this tick.
        reached = grid.next or time_ns
        passed = periods_missed(reached, grid.period, time_ns, self.clock_period_ns)
        grid.next = reached + (passed + 1) * grid.period
        grid.last_due = time_ns
        if passed:
            self._count_skipped(grid, passed, time_ns)

    def _place(self, grid: _Grid) -> None:
        """Put a grid into the heap; merge it into one of the same period and phase."""
        other = self._grids.setdefault((grid.period, grid.next), grid)
        if other is grid:
            heapq.heappush(self._heap, (grid.next, next(self._order), grid))
            return
        other.last_due = max(other.last_due, grid.last_due)
        for index in grid.members:
            self._entries[index].grid = other
            other.add(index)

    def _join(self, index: int, period: int, first: int) -> None:
        grid = self._grids.get((period, first))
        if grid is None:
            grid = _Grid(period, first)
            self._place(grid)
        grid.add(index)
        self._entries[index].grid = grid
        self.earliest_ns = min(self.earliest_ns, first)

    def _leave(self, index: int) -> None:
        entry = self._entries[index]
        if entry.grid is not None:
            entry.grid.discard(index)
            entry.grid = None

    def _update_earliest(self) -> None:
        heap = self._heap
        while heap and not heap[0][2].members:
            grid = heapq.heappop(heap)[2]
            del self._grids[grid.period, grid.next]
        self.earliest_ns = max(heap[0][0] - self.clock_period_ns // 2, 0) if heap else NEVER_NS

    def _count_skipped(self, grid: _Grid, passed: int, time_ns: int) -> None:
        if not 0 <= time_ns - self._window_start < _WINDOW_NS:
            self._window_start = time_ns
            for entry in self._entries.values():
                entry.skipped_before = entry.skipped
        shortest = min(self._intervals) if len(self._intervals) == _RECENT_TICKS else 0
        for index in grid.members:
            entry = self._entries[index]
            entry.skipped += passed
            lost = entry.skipped - entry.skipped_before
            if not entry.was_reported and grid.period < shortest:
                entry.was_reported = True
                self._report_rate(entry.name, grid.period, shortest)
            elif grid.period >= shortest and lost * grid.period >= _REPORTED_LOSS_NS:
                self._report_stall(entry.name, grid.period, lost)

    def _report_rate(self, name: str, period: int, shortest: int) -> None:
        self._report(
            f"schedule.rate:{name}",
            f"{name} asks for {SECOND_NS / period:g} Hz but ticks come at {SECOND_NS / shortest:.4g} Hz: "
            "it is published once per tick",
        )

    def _report_stall(self, name: str, period: int, lost: int) -> None:
        self._report(
            "schedule.stall",
            f"{lost} period(s) of {name} ({SECOND_NS / period:g} Hz) were skipped within "
            f"{_WINDOW_NS // SECOND_NS} s: up to {max(self._intervals) / SECOND_NS:.3g} s passed between two ticks",
        )


RETRY_NS = 100_000_000
"""Time after which an entry that published nothing is due again without an arrival: it may wait for a subscriber."""

Entry = TypeVar("Entry", bound=Hashable)


class _Paused(NamedTuple):
    """Entries that published in one tick, in this order.

    Attributes:
        until_ns: Bridge time before which their rate does not allow the next message.
        arrivals: Number of ticks with an arrival before.
        entries: The entries; some may have been removed since.
    """

    until_ns: int
    arrivals: int
    entries: list[Any]


class Arrivals(Generic[Entry]):
    """Find the entries that are due because something arrived. Their rates are upper bounds, as `publish_frequency` is.

    An entry that waits for a state is due at every tick in which something arrived. After it has published it pauses
    for a period, and is due after that only if something arrived meanwhile: a steady stream of states costs one tick a
    state, and a silent robot none.

    Attributes:
        periods: Shortest time between two messages of each entry, nanoseconds; empty without entries.
        clock_period_ns: Period of the clock that the ticks follow, nanoseconds, as that of `Schedule`: a pause ends at
            the tick nearest to its end.
    """

    def __init__(self) -> None:
        self.clock_period_ns = 0
        self.periods: dict[Entry, int] = {}
        self._until: dict[Entry, int] = {}
        self._waiting: dict[Entry, None] = {}
        # By period, so that each queue is in the order of time.
        self._paused: dict[int, deque[_Paused]] = {}
        self._arrivals = 0
        self._retry_ns = 0

    def add(self, entry: Entry, rate: float) -> None:
        """Add an entry of at most `rate` Hz; it is due at the next tick."""
        self.periods[entry] = period_ns(rate)
        self._waiting[entry] = None
        self._retry_ns = 0

    def remove(self, entry: Entry) -> None:
        """Remove an entry; one that is not there is ignored."""
        self.periods.pop(entry, None)
        self._waiting.pop(entry, None)
        self._until.pop(entry, None)

    def reset(self) -> None:
        """Make every entry due at the next tick, whatever its time."""
        self._paused.clear()
        self._until.clear()
        self._waiting = dict.fromkeys(self.periods)
        self._retry_ns = 0

    def due(self, time_ns: int, *, arrived: bool) -> Sequence[Entry]:
        """Return the entries that are due at a tick; `mark_published` follows for those that published.

        Args:
            time_ns: The tick.
            arrived: Whether anything arrived in it.
        """
        self._arrivals += arrived
        ended: list[Entry] = []
        for period, queue in self._paused.items():
            reached = time_ns + self._early_ns(period)
            # Entries for which nothing arrived stay paused.
            while queue and queue[0].until_ns <= reached and queue[0].arrivals < self._arrivals:
                ended += [entry for entry in queue.popleft().entries if entry in self.periods]
        if ended:
            self._waiting.update(dict.fromkeys(ended))
        if arrived or time_ns >= self._retry_ns:
            self._retry_ns = time_ns + RETRY_NS
            return tuple(self._waiting)
        return ended

    def mark_published(self, entry: Entry, time_ns: int) -> None:
        """Pause an entry that published at a tick; one that was removed meanwhile is ignored."""
        if entry not in self._waiting:
            return
        del self._waiting[entry]
        period = self.periods[entry]
        queue = self._paused.get(period)
        if queue is None:
            queue = self._paused[period] = deque()
        until_ns = time_ns + period
        before, early = self._until.get(entry), self._early_ns(period)
        if early and before is not None and abs(time_ns - before) <= early:
            # One pause follows the other without a gap: rounding by the clock does not add up.
            until_ns = before + period
        self._until[entry] = until_ns
        at = len(queue)
        while at and queue[at - 1].until_ns > until_ns:
            at -= 1
        if at and queue[at - 1][:2] == (until_ns, self._arrivals):
            queue[at - 1].entries.append(entry)
        else:
            queue.insert(at, _Paused(until_ns, self._arrivals, [entry]))

    def paused_until_ns(self, entry: Entry) -> int:
        """Return the time until which the rate of an entry allows no message; 0 before its first."""
        return self._until.get(entry, 0)

    def mark_relayed(self, entry: Entry, *, time_ns: int, arrivals: int, waiting: bool) -> None:
        """Count what arrived and was published without ticks, as if there had been ticks.

        Args:
            entry: The only entry.
            time_ns: Bridge time at which it published last.
            arrivals: How many arrived.
            waiting: Whether something arrived after that, and is to be published when the pause is over.
        """
        if entry not in self.periods:
            return
        self._arrivals += arrivals - waiting
        self._paused.clear()
        self._waiting[entry] = None
        self.mark_published(entry, time_ns)
        self._arrivals += waiting

    @property
    def wake_ns(self) -> int:
        """Bridge time at which a tick is needed without an arrival; 0: at once, NEVER_NS: none is."""
        wake = self._retry_ns if self._waiting else NEVER_NS
        for period, queue in self._paused.items():
            if queue and queue[0].arrivals < self._arrivals:
                wake = min(wake, max(queue[0].until_ns - self._early_ns(period), 0))
        return wake

    def _early_ns(self, period: int) -> int:
        """Return how long before its end a pause of `period` may end: so little that none ends where it began."""
        return min(self.clock_period_ns // 2, (period - 1) // 2)


RATE_WINDOW_NS = 2_000_000_000


class RateMeter:
    """Measure a rate over windows of bridge time; one comparison per event."""

    __slots__ = ("_rate", "_start_count", "count", "end_ns", "start_ns")

    def __init__(self) -> None:
        self.count = 0
        self._rate = 0.0
        # The current window: empty before the first event.
        self.start_ns, self.end_ns, self._start_count = 0, 0, 0

    def mark(self, time_ns: int, events: int = 1) -> None:
        """Count one event, or several of them."""
        self.count += events
        if not self.start_ns <= time_ns < self.end_ns:
            self.turn(time_ns)

    def rate(self, time_ns: int) -> float:
        """Return events per second over the last complete window, or over the current one where that is all there is.

        Args:
            time_ns: Now; after two windows without an event the rate decays.
        """
        if self.start_ns == self.end_ns or time_ns <= self.start_ns:
            return self._rate
        if not self._rate or time_ns - self.start_ns > 2 * RATE_WINDOW_NS:
            return self._since(time_ns)
        return self._rate

    def turn(self, time_ns: int) -> None:
        """Begin a window with an event; time that went back leaves the last rate."""
        if self.start_ns < self.end_ns <= time_ns:
            # Events that came often and then not for a whole window had ceased: what begins now is measured anew.
            ceased = time_ns - self.end_ns > RATE_WINDOW_NS and self.count - self._start_count > 2
            self._rate = 0.0 if ceased else self._since(time_ns)
        self.start_ns, self.end_ns, self._start_count = time_ns, time_ns + RATE_WINDOW_NS, self.count

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
        period_ns = find_period_ns() if elapsed > _SHORT_TICK_S else None
        if not period_ns or elapsed <= period_ns * 1e-9:
            self._overruns = 0
            return
        # A slow tick now and then is no news.
        self._overruns += 1
        if self._overruns >= _REPORTED_OVERRUNS:
            self._report(
                "loop.overrun",
                f"ticks take longer than their period: {self._overruns} in a row, the last one {elapsed * 1e3:.3g} ms "
                f"of {period_ns * 1e-6:.3g} ms",
            )
