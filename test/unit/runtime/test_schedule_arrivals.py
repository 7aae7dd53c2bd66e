"""Who is asked when a state arrives, against entries that are looked at one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.runtime.schedule import NEVER_NS, RETRY_NS, Arrivals

MS = 1_000_000


class OneByOne:
    """One entry whose robot's state arrives or does not: what it has shown, and when it may show more."""

    def __init__(self, period: int) -> None:
        self.period = period
        self.news = False
        self.until = -1


@given(st.data())
def test_every_state_is_shown_as_soon_as_the_rate_allows(data: st.DataObject) -> None:
    """Ticks come where something arrives and where `wake_ns` asks for one; nothing is late, early or shown twice."""
    periods = data.draw(st.lists(st.sampled_from([3, 5, 5, 20, 150]), min_size=1, max_size=5))
    entries = [OneByOne(period * MS) for period in periods]
    arrivals: Arrivals[int] = Arrivals()
    for number, entry in enumerate(entries):
        arrivals.add(number, SECOND_NS / entry.period)
    now = 0
    for _ in range(data.draw(st.integers(1, 30))):
        arrival = now + data.draw(st.integers(1, 40)) * MS
        while arrivals.wake_ns < arrival:
            wake = max(now, arrivals.wake_ns)
            assert wake > now or now == 0, "the loop does not spin"
            now = wake
            tick(arrivals, entries, now, None)
            now += now == 0
        now = arrival
        tick(arrivals, entries, now, data.draw(st.sets(st.integers(0, len(entries) - 1))))


def tick(arrivals: Arrivals[int], entries: list[OneByOne], now: int, fed: set[int] | None) -> None:
    for number in fed or ():
        entries[number].news = True
    asked = arrivals.due(now, arrived=fed is not None)
    assert len(asked) == len(set(asked))
    for number, entry in enumerate(entries):
        if number in asked:
            assert entry.until <= now, "not faster than its rate"
            if entry.news:
                entry.news, entry.until = False, now + entry.period
                arrivals.mark_published(number, now)
        else:
            assert not entry.news or entry.until > now, "what is new is shown as soon as the rate allows"
        assert not entry.news or arrivals.wake_ns <= entry.until, "and a tick is asked for then"


def test_a_steady_stream_needs_no_tick_of_its_own() -> None:
    arrivals: Arrivals[str] = Arrivals()
    arrivals.add("tf", 1000.0)
    for milliseconds in range(2, 100, 2):
        assert list(arrivals.due(milliseconds * MS, arrived=True)) == ["tf"]
        arrivals.mark_published("tf", milliseconds * MS)
        assert arrivals.wake_ns == NEVER_NS


def test_one_that_showed_nothing_is_asked_again_now_and_then() -> None:
    arrivals: Arrivals[str] = Arrivals()
    arrivals.add("tf", 50.0)
    assert arrivals.wake_ns == 0
    assert list(arrivals.due(5 * MS, arrived=False)) == ["tf"]
    assert arrivals.wake_ns == 5 * MS + RETRY_NS
    assert list(arrivals.due(6 * MS, arrived=False)) == []
    assert list(arrivals.due(5 * MS + RETRY_NS, arrived=False)) == ["tf"]


@given(
    st.integers(100, 10**8),
    st.integers(1, 6),
    st.lists(st.integers(-24, 24), min_size=20, max_size=100),
)
def test_a_clock_with_jitter_costs_no_rate(clock_ns: int, stamps: int, percent: list[int]) -> None:
    """A state at each stamp, on a clock whose stamps are up to a quarter of a period early or late."""
    arrivals: Arrivals[str] = Arrivals()
    period = clock_ns * stamps
    arrivals.add("tf", SECOND_NS / period)
    arrivals.clock_period_ns = clock_ns
    count, last = 0, 0
    for index, late in enumerate(percent):
        now = SECOND_NS + index * clock_ns + (late * clock_ns // 100 if index else 0)
        if arrivals.due(now, arrived=True):
            assert now > last
            arrivals.mark_published("tf", now)
            count, last = count + 1, now
    wanted = (len(percent) - 1) / stamps + 1
    assert wanted - 1 <= count <= wanted + 1


def test_removed_ones_are_gone_wherever_they_were() -> None:
    arrivals: Arrivals[str] = Arrivals()
    for name in ("waits", "rests", "shows"):
        arrivals.add(name, 100.0)
    arrivals.due(0, arrived=True)
    arrivals.mark_published("rests", 0)
    arrivals.remove("waits")
    arrivals.remove("rests")
    arrivals.remove("shows")
    arrivals.remove("unknown")
    arrivals.mark_published("shows", 0)
    assert not arrivals.periods
    assert list(arrivals.due(SECOND_NS, arrived=True)) == []
    assert arrivals.wake_ns == NEVER_NS


def test_reset_has_everyone_asked_at_any_time() -> None:
    arrivals: Arrivals[str] = Arrivals()
    arrivals.add("tf", 1.0)
    arrivals.due(9 * SECOND_NS, arrived=True)
    arrivals.mark_published("tf", 9 * SECOND_NS)
    arrivals.reset()
    assert arrivals.wake_ns == 0
    assert list(arrivals.due(SECOND_NS, arrived=False)) == ["tf"]


@given(st.data())
def test_what_was_relayed_counts_as_if_ticks_had_published_it(data: st.DataObject) -> None:
    """One entry, in ticks and by a relay that keeps its rate: both ask for the next tick at the same time."""
    period = data.draw(st.sampled_from([3, 20, 150])) * MS
    ticked, relayed = Arrivals[str](), Arrivals[str]()
    for each in (ticked, relayed):
        each.add("tf", SECOND_NS / period)
        assert each.due(0, arrived=True) == ("tf",)
        each.mark_published("tf", 0)
    now, sent_ns, until, waiting = 0, 0, period, False
    for _ in range(data.draw(st.integers(1, 4))):
        count = data.draw(st.integers(1, 5))
        for _ in range(count):
            arrival = now + data.draw(st.integers(1, 40)) * MS
            times = [until, arrival] if waiting and now < until < arrival else [arrival]
            for now in times:
                waiting = waiting or now == arrival
                if ticked.due(now, arrived=now == arrival):
                    ticked.mark_published("tf", now)
                    sent_ns, until, waiting = now, now + period, False
        relayed.mark_relayed("tf", time_ns=sent_ns, arrivals=count, waiting=waiting)
        assert relayed.wake_ns == ticked.wake_ns
        assert relayed.paused_until_ns("tf") == ticked.paused_until_ns("tf") == until


def test_an_entry_that_is_gone_is_not_marked_as_relayed() -> None:
    arrivals = Arrivals[str]()
    arrivals.mark_relayed("tf", time_ns=1, arrivals=3, waiting=False)
    assert arrivals.wake_ns == NEVER_NS
    assert not arrivals.due(2, arrived=True)
