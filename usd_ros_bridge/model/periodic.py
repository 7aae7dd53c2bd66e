"""Periodic deadlines where time passes in ticks: when one counts as reached, and which comes next."""

from __future__ import annotations


def is_reached(deadline_ns: int, time_ns: int, clock_period_ns: int) -> bool:
    """Return whether a tick is the one nearest to a deadline, or comes after it.

    Args:
        deadline_ns: The deadline, nanoseconds.
        time_ns: The tick.
        clock_period_ns: Period of the clock that the ticks follow, nanoseconds; 0 where ticks come when they are asked
            for.
    """
    return deadline_ns <= time_ns + clock_period_ns // 2


def periods_missed(deadline_ns: int, period_ns: int, time_ns: int, clock_period_ns: int) -> int:
    """Return how many deadlines after a reached one are made up for by the tick that reached it.

    A period next to that of the clock keeps a deadline that passed before the tick for the tick after it, so that
    stamps with jitter cost none: of any more, time is too short.

    Args:
        deadline_ns: The deadline that is reached, nanoseconds.
        period_ns: From one deadline to the next.
        time_ns: The tick.
        clock_period_ns: As that of `is_reached`.
    """
    kept = -clock_period_ns if period_ns < 2 * clock_period_ns else clock_period_ns // 2
    return max((time_ns + kept - deadline_ns) // period_ns, 0)
