"""Periods in nanoseconds of bridge time, and periodic deadlines where time passes in ticks."""

from __future__ import annotations

from operator import index
from typing import Final, SupportsIndex

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.ranges import RATE

SECOND_NS: Final = 1_000_000_000


def duration_to_ns(seconds: float) -> int:
    """Return a duration in nanoseconds."""
    return round(seconds * SECOND_NS)


def nanoseconds(time_ns: SupportsIndex) -> int:
    """Return a time that a caller gave, in nanoseconds, as an int. Other integers, such as numpy's, are possible.

    Raises:
        BridgeError: It is no integer; the message says how to make one of seconds.
    """
    if not isinstance(time_ns, bool):
        try:
            return index(time_ns)
        except TypeError:
            pass
    raise BridgeError(
        f"time_ns={time_ns!r}: time is an int of nanoseconds. Of seconds: round(seconds * 1_000_000_000)"
    )


def period_ns(rate: float) -> int:
    """Return the period of `rate` (Hz) in nanoseconds, at least one; rates have the lower limit of RATE."""
    return max(1, round(SECOND_NS / max(rate, RATE.low)))


def checked_period_ns(name: str, rate: float) -> int:
    """Return the period of a rate (Hz) that a caller gave, in nanoseconds.

    Raises:
        OptionError: It is not possible.
    """
    RATE.check(name, rate)
    return period_ns(rate)


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
