"""Who is asked when a state arrives, and how often at most: entries that no deadline wakes without a reason."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from usd_ros_bridge.runtime.schedule import NEVER_NS, period_ns

LOOK_AGAIN_NS = 100_000_000
"""How long an entry that showed nothing goes unasked without an arrival: it may also wait for a subscriber."""

Entry = TypeVar("Entry", bound=Hashable)


class _Resting(NamedTuple):
    """Entries that showed something in one tick, in the order in which they did.

    Attributes:
        until_ns: Bridge time before which their rate lets them show nothing.
        arrivals: How many ticks with an arrival there were when they did.
        entries: Those, and perhaps some that were removed since.
    """

    until_ns: int
    arrivals: int
    entries: list[Any]


class Arrivals(Generic[Entry]):
    """Entries that show what arrives. Their rate is an upper bound, as robot_state_publisher's `publish_frequency` is.

    One that waits for a state is asked at every tick in which something arrived. One that has shown a state rests for
    a period; it is asked after that only if something arrived meanwhile, so that a steady stream of states costs one
    tick a state and a silent robot none.

    Attributes:
        clock_period_ns: Period of the clock that the ticks follow, nanoseconds, as that of `Schedule`: the rest ends at
            the tick nearest to its end.
    """

    def __init__(self) -> None:
        """Has no entries yet."""
        self.clock_period_ns = 0
        self._period: dict[Entry, int] = {}
        self._until: dict[Entry, int] = {}
        self._waiting: dict[Entry, None] = {}
        # By period, so that each queue is in the order of time.
        self._resting: dict[int, deque[_Resting]] = {}
        self._arrivals = 0
        self._look_ns = 0

    def __len__(self) -> int:
        """Returns the number of entries."""
        return len(self._period)

    def add(self, entry: Entry, rate: float) -> None:
        """Adds an entry of at most `rate` Hz; it is asked at the next tick."""
        self._period[entry] = period_ns(rate)
        self._waiting[entry] = None
        self._look_ns = 0

    def remove(self, entry: Entry) -> None:
        """Removes an entry; one that is not there is ignored."""
        self._period.pop(entry, None)
        self._waiting.pop(entry, None)
        self._until.pop(entry, None)

    def reset(self) -> None:
        """Has every entry asked at the next tick, whatever time that is."""
        self._resting.clear()
        self._until.clear()
        self._waiting = dict.fromkeys(self._period)
        self._look_ns = 0

    def due(self, time_ns: int, *, arrived: bool) -> Sequence[Entry]:
        """Returns whom to ask at a tick. Those that publish are told to `shown`.

        Args:
            time_ns: The tick.
            arrived: Whether anything arrived in it.
        """
        self._arrivals += arrived
        ended: list[Entry] = []
        for period, queue in self._resting.items():
            reached = time_ns + self._early_ns(period)
            # Those for whom nothing arrived rest on.
            while queue and queue[0].until_ns <= reached and queue[0].arrivals < self._arrivals:
                ended += [entry for entry in queue.popleft().entries if entry in self._period]
        if ended:
            self._waiting.update(dict.fromkeys(ended))
        if arrived or time_ns >= self._look_ns:
            self._look_ns = time_ns + LOOK_AGAIN_NS
            return tuple(self._waiting)
        return ended

    def shown(self, entry: Entry, time_ns: int) -> None:
        """Lets an entry rest that published at a tick; one that was removed meanwhile stays so."""
        if entry not in self._waiting:
            return
        del self._waiting[entry]
        period = self._period[entry]
        queue = self._resting.get(period)
        if queue is None:
            queue = self._resting[period] = deque()
        until_ns = time_ns + period
        before, early = self._until.get(entry), self._early_ns(period)
        if early and before is not None and abs(time_ns - before) <= early:
            # One rest follows the other without a gap: what the clock rounds does not add up.
            until_ns = before + period
        self._until[entry] = until_ns
        at = len(queue)
        while at and queue[at - 1].until_ns > until_ns:
            at -= 1
        if at and queue[at - 1][:2] == (until_ns, self._arrivals):
            queue[at - 1].entries.append(entry)
        else:
            queue.insert(at, _Resting(until_ns, self._arrivals, [entry]))

    @property
    def wake_ns(self) -> int:
        """Bridge time at which a tick is needed though nothing arrives; 0 means at once, NEVER_NS that none is."""
        wake = self._look_ns if self._waiting else NEVER_NS
        for period, queue in self._resting.items():
            if queue and queue[0].arrivals < self._arrivals:
                wake = min(wake, max(queue[0].until_ns - self._early_ns(period), 0))
        return wake

    def _early_ns(self, period: int) -> int:
        """Return how long before its end a rest of `period` may end: so little that none ends where it began."""
        return min(self.clock_period_ns // 2, (period - 1) // 2)
