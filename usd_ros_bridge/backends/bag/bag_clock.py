"""The clock of a bag: header stamps, or the times of recording where stamps make no sense; and tracks in its order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.bag.bag_source import JointSeries, TimeArray, TransformSeries

RESTART_NS: Final = 1_000_000_000
"""A stamp that goes back by more is no message that was overtaken: time has started over."""
OTHER_CLOCK_NS: Final = 86_400_000_000_000
"""Topics whose stamps are a day apart, with nothing between, have them from different clocks."""
LARGEST: Final = 1e100
"""NumberColumns that are larger are no positions; their differences might not be finite."""
_SECONDS: Final = 1e-9


class BagClock:
    """Time of every message, in nanoseconds since the first.

    Attributes:
        fault: Why the times of recording are used; "" where header stamps are.
        duration_ns: From the first message to the last, nanoseconds.
    """

    def __init__(self, series: Sequence[JointSeries | TransformSeries]) -> None:
        """Choose the clock for all messages that are played; static transforms are left out."""
        self.fault = _find_fault(series)
        times = [self._raw(each) for each in series]
        self._start = min((int(time.min()) for time in times), default=0)
        self.duration_ns = max((int(time.max()) for time in times), default=0) - self._start
        self._shifted: dict[int, tuple[TimeArray, TimeArray]] = {}

    def times(self, series: JointSeries | TransformSeries) -> TimeArray:
        """Return the times (N,) of messages. Series that share their stamps share these."""
        raw = self._raw(series)
        # The key's array is kept: another one cannot get its id.
        return self._shifted.setdefault(id(raw), (raw, raw - self._start))[1]

    def _raw(self, series: JointSeries | TransformSeries) -> TimeArray:
        return series.log_ns if self.fault else series.stamp_ns


def in_order(time: TimeArray, log_ns: TimeArray) -> NDArray[np.intp] | None:
    """Return which messages to use, by time: of those with equal times the one that was recorded last.

    Args:
        time: (N,) times of the messages.
        log_ns: (N,) when they were recorded.

    Returns:
        Their indices, None for all, as they are.
    """
    if (time[1:] > time[:-1]).all():
        return None
    order = np.lexsort((log_ns, time))
    ordered = time[order]
    last: NDArray[np.intp] = order[np.append(ordered[1:] != ordered[:-1], True)]
    return last


def _find_fault(series: Sequence[JointSeries | TransformSeries]) -> str:
    """Return why header stamps cannot be used, "" if they can."""
    for each in series:
        # One message at zero is the first one of a simulation.
        if len(each.stamp_ns) > 1 and not each.stamp_ns.any():
            return f"messages of {each.topic} have no stamp"
        # Files of a bag may be read in any order, but their messages are compared as they were recorded.
        recorded = np.argsort(each.log_ns, kind="stable")
        back = int(np.diff(each.stamp_ns[recorded]).min(initial=0))
        if back < -RESTART_NS:
            return f"stamps of {each.topic} go back by {-back * _SECONDS:.3f} s"
    spans = sorted((int(each.stamp_ns.min()), int(each.stamp_ns.max()), each.topic) for each in series)
    latest = spans[0][1] if spans else 0
    for (_, _, before), (first, last, topic) in pairwise(spans):
        if first - latest > OTHER_CLOCK_NS:
            return f"stamps of {before} and {topic} are of different clocks"
        latest = max(latest, last)
    return ""
