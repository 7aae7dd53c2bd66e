"""Pace: when on the wall clock a moment of bridge time is to come, and whether it does."""

from __future__ import annotations

import time
from collections.abc import Callable

from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.runtime.time_control import TimeControl

TOLERATED_NS = 100_000_000
"""How far bridge time may fall behind before the rest is given up."""

WINDOW_NS = 1_000_000_000
"""Wall time over which the achieved factor is measured."""

_CATCH_UP = 2
"""How much faster than asked for bridge time may pass, at most, to catch up."""


class Pace:
    """Keeps bridge time to the wall clock, `real_time_factor` seconds a second, measured from a common origin.

    A moment of bridge time comes no earlier than its moment on the wall clock. What is late catches up at no more than
    twice the pace; what is late by more than `TOLERATED_NS` is given up, and reported with the factor that is achieved.
    """

    def __init__(
        self, control: TimeControl, report: Report, *, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Has no origin yet.

        Args:
            control: Says how fast.
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

    def rest(self) -> None:
        """Forgets the origin: time stands still."""
        if self._origin is not None or self._window is not None:
            self._origin = self._window = None
            self._windows = 0
            self._behind = False
            self._control.achieved(None)

    def remaining_ns(self, time_ns: int, last_ns: int) -> int:
        """Returns how long to wait for a moment, wall nanoseconds; 0 or less where it may come now.

        Args:
            time_ns: The moment, bridge time.
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

    def comes(self, time_ns: int) -> None:
        """Tells that a moment comes now.

        Args:
            time_ns: The moment, bridge time.
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
        self._control.achieved(achieved)
        # What the first moments take (caches, discovery, an engine's compilers) says nothing about those to come.
        if self._behind and self._windows and achieved < self._factor:
            self._report(
                "time.slow",
                f"time cannot keep its pace: {achieved:.3g} s of bridge time pass in a second instead of "
                f"{self._factor:g} (real_time_factor); what is late is not made up for",
            )
        self._window, self._behind = self._last, False
        self._windows += 1
