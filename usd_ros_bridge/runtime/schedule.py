"""The schedule: what is due at a tick, in integer nanoseconds of bridge time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

SECOND_NS = 1_000_000_000
NEVER_NS = np.iinfo(np.int64).max
_RECENT_TICKS = 16
_WINDOW_NS = 5 * SECOND_NS
_WORTH_TELLING_NS = SECOND_NS // 2

IntArray = NDArray[np.int64]
_NOTHING: IntArray = np.zeros(0, dtype=np.int64)


def period_ns(rate: float) -> int:
    """Returns the period of `rate` (Hz, positive) in nanoseconds, at least one."""
    return max(1, round(SECOND_NS / rate))


class Schedule:
    """Periodic entries with `next += period`, so that the average rate holds whatever the ticks' jitter.

    Several periods that passed between two ticks are made up for by one: nothing bursts after a stall. What was
    skipped is counted, always. It is reported, once, as a rate that the ticks cannot meet where they are always farther
    apart than the period; else as a stall with its figures, where half a second of an entry's periods is gone within a
    few seconds: a loaded machine that is late by a period now and then is no news.
    """

    def __init__(self, report: Callable[[str, str], None]) -> None:
        """Makes an empty schedule that reports to `report(kind, message)`."""
        self._report = report
        self._names: list[str] = []
        self._period: IntArray = _NOTHING
        self._next: IntArray = _NOTHING
        self._skipped: IntArray = _NOTHING
        self._skipped_before: IntArray = _NOTHING
        self._window_start = 0
        self._earliest = NEVER_NS
        self._last_tick: int | None = None
        self._intervals: deque[int] = deque(maxlen=_RECENT_TICKS)

    def add(self, name: str, rate: float) -> int:
        """Adds an entry of `rate` Hz that is due at the next tick; returns its index. Indices stay valid."""
        self._names.append(name)
        self._period = np.append(self._period, np.int64(period_ns(rate)))
        self._next = np.append(self._next, np.int64(0))
        self._skipped = np.append(self._skipped, np.int64(0))
        self._skipped_before = np.append(self._skipped_before, np.int64(0))
        self._arm()
        return len(self._names) - 1

    def remove(self, index: int) -> None:
        """Switches an entry off for good."""
        self._period[index] = 0
        self._arm()

    def set_rate(self, index: int, rate: float) -> None:
        """Changes an entry's rate; it is due at the next tick."""
        self._period[index] = period_ns(rate)
        self._next[index] = 0
        self._arm()

    def postpone(self, index: int, time_ns: int) -> None:
        """Makes an entry due one period after `time_ns`; one that is switched off stays so."""
        if self._period[index]:
            self._next[index] = time_ns + self._period[index]
            self._earliest = int(self._next.min())

    def reset(self) -> None:
        """Makes every entry due at the next tick, whatever time that is."""
        self._next[:] = 0
        self._last_tick = None
        self._intervals.clear()
        self._arm()

    @property
    def next_due_ns(self) -> int | None:
        """When the next entry is due, bridge time; 0 means at once, None that there is no entry."""
        return None if self._earliest == NEVER_NS else self._earliest

    def skipped(self, index: int) -> int:
        """Returns how many periods of an entry passed without a tick of their own."""
        return int(self._skipped[index])

    def due(self, time_ns: int) -> IntArray:
        """Returns the indices of the entries that are due at `time_ns`, and arms them for their next time."""
        if self._last_tick is not None and time_ns > self._last_tick:
            self._intervals.append(time_ns - self._last_tick)
        self._last_tick = time_ns
        if time_ns < self._earliest:
            return _NOTHING
        rows = np.flatnonzero(self._next <= time_ns)
        # An entry that was never due starts its grid at this tick.
        self._next[rows] = np.where(self._next[rows] == 0, time_ns, self._next[rows])
        passed = (time_ns - self._next[rows]) // self._period[rows]
        self._next[rows] += (passed + 1) * self._period[rows]
        self._earliest = int(self._next.min())
        if passed.any():
            self._count_skipped(rows, passed, time_ns)
        return rows

    def _arm(self) -> None:
        self._next[self._period == 0] = NEVER_NS
        self._earliest = int(self._next.min()) if self._next.size else NEVER_NS

    def _count_skipped(self, rows: IntArray, passed: IntArray, time_ns: int) -> None:
        if not 0 <= time_ns - self._window_start < _WINDOW_NS:
            self._window_start = time_ns
            self._skipped_before[:] = self._skipped
        self._skipped[rows] += passed
        shortest = min(self._intervals) if len(self._intervals) == _RECENT_TICKS else 0
        for row in rows[passed > 0].tolist():
            name, period = self._names[row], int(self._period[row])
            count = int(self._skipped[row] - self._skipped_before[row])
            if period < shortest:
                self._report(
                    f"schedule.rate:{name}",
                    f"{name} asks for {SECOND_NS / period:g} Hz but ticks come at {SECOND_NS / shortest:.4g} Hz: "
                    "it is published once per tick",
                )
            elif count * period >= _WORTH_TELLING_NS:
                self._report(
                    "schedule.stall",
                    f"{count} period(s) of {name} ({SECOND_NS / period:g} Hz) were skipped within "
                    f"{_WINDOW_NS // SECOND_NS} s: up to {max(self._intervals) / SECOND_NS:.3g} s passed between "
                    "two ticks",
                )
