"""When a goal's feedback is due: at the monitor rate, on the times of states."""

from __future__ import annotations

from collections.abc import Callable

from usd_ros_bridge.model.periodic import is_reached, periods_missed

SLOWEST_RATE = 0.1
"""Hz. Of anything slower nobody would see a second message."""

_SECOND_NS = 1_000_000_000


class FeedbackTimer:
    """The feedback of one goal. A rate that the states cannot meet gets one message for each state."""

    __slots__ = ("_clock_period_ns", "_last_ns", "_next_ns", "_period_ns")

    def __init__(self, rate: float, first_ns: int, clock_period_ns: Callable[[], int]) -> None:
        """Arm the timer.

        Args:
            rate: Hz; what is below SLOWEST_RATE counts as that.
            first_ns: When feedback is due first, nanoseconds of bridge time.
            clock_period_ns: As that of ControllerContext.
        """
        self._period_ns = feedback_period_ns(rate)
        self._next_ns = first_ns
        self._last_ns: int | None = None
        self._clock_period_ns = clock_period_ns

    def is_due(self, time_ns: int) -> bool:
        """Return whether the state of a time is one to feed back; never twice for one time."""
        return time_ns != self._last_ns and is_reached(self._next_ns, time_ns, self._clock_period_ns())

    def advance(self, time_ns: int) -> None:
        """Note that the state of a time was fed back."""
        missed = periods_missed(self._next_ns, self._period_ns, time_ns, self._clock_period_ns())
        self._next_ns += (missed + 1) * self._period_ns
        self._last_ns = time_ns


def feedback_period_ns(rate: float) -> int:
    """Return the period of a monitor rate (Hz), nanoseconds."""
    return max(int(_SECOND_NS / max(rate, SLOWEST_RATE)), 1)
