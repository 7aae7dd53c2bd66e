"""The schedule: what is due at a tick, in integer nanoseconds of bridge time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from math import isfinite

from usd_ros_bridge.model.errors import BridgeError

SECOND_NS = 1_000_000_000
NEVER_NS = 2**63 - 1
_RECENT_TICKS = 16
_WINDOW_NS = 5 * SECOND_NS
_WORTH_TELLING_NS = SECOND_NS // 2


def period_ns(rate: float) -> int:
    """Returns the period of `rate` (Hz, positive) in nanoseconds, at least one."""
    return max(1, round(SECOND_NS / rate))


def checked_period_ns(name: str, rate: float) -> int:
    """Returns the period of a rate (Hz) that a caller gave, in nanoseconds.

    Raises:
        BridgeError: It is no positive number.
    """
    if not (isfinite(rate) and rate > 0.0):
        raise BridgeError(f"{name} {rate!r} is no positive number")
    return period_ns(rate)


class _Entry:
    """One periodic entry and what it missed."""

    __slots__ = ("grid", "name", "skipped", "skipped_before", "told")

    def __init__(self, name: str) -> None:
        self.name = name
        self.grid: _Grid | None = None
        self.skipped = 0
        self.skipped_before = 0
        self.told = False


class _Grid:
    """Points in time that entries share: one period and one phase, however many entries.

    Attributes:
        period: Nanoseconds.
        next: The point that comes next; 0 means that the grid starts at the next tick.
        members: Indices of the entries on it, in the order of `Schedule.due`.
    """

    __slots__ = ("_members", "_sorted", "next", "period")

    def __init__(self, period: int, first: int) -> None:
        self.period = period
        self.next = first
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
    """Periodic entries with `next += period`, so that the average rate holds whatever the ticks' jitter.

    Entries of one rate that start together stay together: they are kept as one, so that a tick of thousands costs no
    more than a tick of one, and grids wait in a heap.

    Several periods that passed between two ticks are made up for by one: nothing bursts after a stall. What was
    skipped is counted, always. It is reported, once, as a rate that the ticks cannot meet where they are always farther
    apart than the period; else as a stall with its figures, where half a second of an entry's periods is gone within a
    few seconds: a loaded machine that is late by a period now and then is no news.

    Attributes:
        earliest_ns: Bridge time before which no entry is due; 0 means at once, NEVER_NS that there is none.
    """

    def __init__(self, report: Callable[[str, str], None]) -> None:
        """Makes an empty schedule that reports to `report(kind, message)`."""
        self.earliest_ns = NEVER_NS
        self._report = report
        self._entries: list[_Entry] = []
        self._free: set[int] = set()
        self._grids: dict[tuple[int, int], _Grid] = {}
        self._heap: list[tuple[int, int, _Grid]] = []
        self._order = count()
        self._window_start = 0
        self._last_tick: int | None = None
        self._intervals: deque[int] = deque(maxlen=_RECENT_TICKS)

    def add(self, name: str, rate: float) -> int:
        """Adds an entry of `rate` Hz that is due at the next tick; returns its index, its own until it is removed."""
        self._entries.append(_Entry(name))
        index = len(self._entries) - 1
        self._join(index, period_ns(rate), 0)
        return index

    def remove(self, index: int) -> None:
        """Removes an entry; its index may become another's."""
        self._leave(index)
        self._free.add(index)
        # From the end only: indices are in the order of addition, which is the order of `due`.
        while self._entries and len(self._entries) - 1 in self._free:
            self._entries.pop()
            self._free.discard(len(self._entries))
        self._update_earliest()

    def set_rate(self, index: int, rate: float) -> None:
        """Changes an entry's rate; it is due at the next tick."""
        self._leave(index)
        self._join(index, period_ns(rate), 0)
        self._update_earliest()

    def reset(self) -> None:
        """Makes every entry due at the next tick, whatever time that is."""
        periods = [(index, entry.grid.period) for index, entry in enumerate(self._entries) if entry.grid]
        self._grids.clear()
        self._heap.clear()
        for index, period in periods:
            self._join(index, period, 0)
        self._last_tick = None
        self._intervals.clear()
        self._update_earliest()

    @property
    def next_due_ns(self) -> int | None:
        """When the next entry is due, bridge time; 0 means at once, None that there is no entry."""
        return None if self.earliest_ns == NEVER_NS else self.earliest_ns

    @property
    def shortest_period_ns(self) -> int | None:
        """The period of the fastest entry, None where there is none."""
        return min((grid.period for _, _, grid in self._heap if grid.members), default=None)

    def skipped(self, index: int) -> int:
        """Returns how many periods of an entry passed without a tick of their own."""
        return self._entries[index].skipped

    def due(self, time_ns: int, previous_ns: int | None = None) -> Sequence[int]:
        """Returns the indices of the entries that are due at a tick, and arms them for their next time.

        Args:
            time_ns: The tick.
            previous_ns: The tick before, where nothing was due then and this was not called.
        """
        last = self._last_tick if previous_ns is None else previous_ns
        if last is not None and time_ns > last:
            self._intervals.append(time_ns - last)
        self._last_tick = time_ns
        if time_ns < self.earliest_ns:
            return ()
        due: list[Sequence[int]] = []
        while self._heap and self._heap[0][0] <= time_ns:
            grid = heapq.heappop(self._heap)[2]
            self._grids.pop((grid.period, grid.next), None)
            if grid.members:
                due.append(grid.members)
                self._advance(grid, time_ns)
        self._update_earliest()
        if len(due) == 1:
            return due[0]
        return sorted(index for members in due for index in members)

    def _advance(self, grid: _Grid, time_ns: int) -> None:
        # A grid on which nothing was due yet starts at this tick.
        passed = (time_ns - (grid.next or time_ns)) // grid.period
        grid.next = (grid.next or time_ns) + (passed + 1) * grid.period
        if passed:
            self._count_skipped(grid, passed, time_ns)
        self._place(grid)

    def _place(self, grid: _Grid) -> None:
        """Puts a grid into the heap; one that meets another there merges into it."""
        other = self._grids.setdefault((grid.period, grid.next), grid)
        if other is grid:
            heapq.heappush(self._heap, (grid.next, next(self._order), grid))
            return
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
        self.earliest_ns = heap[0][0] if heap else NEVER_NS

    def _count_skipped(self, grid: _Grid, passed: int, time_ns: int) -> None:
        if not 0 <= time_ns - self._window_start < _WINDOW_NS:
            self._window_start = time_ns
            for entry in self._entries:
                entry.skipped_before = entry.skipped
        shortest = min(self._intervals) if len(self._intervals) == _RECENT_TICKS else 0
        for index in grid.members:
            entry = self._entries[index]
            entry.skipped += passed
            lost = entry.skipped - entry.skipped_before
            if not entry.told and grid.period < shortest:
                entry.told = True
                self._report_rate(entry.name, grid.period, shortest)
            elif grid.period >= shortest and lost * grid.period >= _WORTH_TELLING_NS:
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
