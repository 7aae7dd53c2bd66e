"""The schedule against a brute-force one, and what it says about stalls and impossible rates."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usd_ros_bridge.model.periods import SECOND_NS, period_ns
from usd_ros_bridge.runtime.schedule import ClockPeriod, Schedule


class Reports(list[tuple[str, str]]):
    def __call__(self, kind: str, message: str) -> None:
        self.append((kind, message))


MS = 1_000_000


def brute_force(periods: list[int], times: list[int]) -> list[list[int]]:
    """What is due at each tick: an entry whose grid, started at the first tick, passed a point since it was due."""
    due = []
    grids: list[int | None] = [None] * len(periods)
    for time in times:
        rows = []
        for row, period in enumerate(periods):
            grid = grids[row]
            if grid is None:
                grid = time
            if grid <= time:
                rows.append(row)
                while grid <= time:
                    grid += period
            grids[row] = grid
        due.append(rows)
    return due


@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=6),
    st.lists(st.integers(0, 300), min_size=1, max_size=40),
    st.integers(0, 10**18),
)
def test_due_as_counted_by_hand(periods: list[int], steps: list[int], start: int) -> None:
    schedule = Schedule(Reports())
    for period in periods:
        schedule.add("x", SECOND_NS / period)
    times, now = [], start
    for step in steps:
        now += step
        times.append(now)
    assert [list(schedule.due(time)) for time in times] == brute_force(periods, times)
    assert schedule.next_due_ns is not None
    assert schedule.next_due_ns > now


def test_jitter_does_not_change_the_average_rate() -> None:
    schedule = Schedule(Reports())
    schedule.add("x", 50.0)
    late = [index * 20 * MS + (7 * MS if index % 3 else 0) for index in range(300)]
    assert sum(len(schedule.due(time)) for time in late) == 300


def test_a_rate_that_does_not_divide_the_tick_rate_is_met_on_average() -> None:
    schedule = Schedule(Reports())
    schedule.add("x", 30.0)
    assert sum(len(schedule.due(tick * 10 * MS)) for tick in range(1000)) in range(299, 302)


def test_nothing_bursts_after_a_stall() -> None:
    reports = Reports()
    schedule = Schedule(reports)
    schedule.add("/scan", 100.0)
    for tick in range(5):
        schedule.due(tick * 10 * MS)
    assert list(schedule.due(1040 * MS)) == [0]
    assert schedule.skipped(0) == 99
    assert list(schedule.due(1041 * MS)) == []
    assert list(schedule.due(1050 * MS)) == [0]
    assert [kind for kind, _ in reports] == ["schedule.stall"]
    assert "99 period(s) of /scan (100 Hz)" in reports[0][1]
    assert "1 s" in reports[0][1]


def test_a_late_tick_is_counted_without_a_warning() -> None:
    reports = Reports()
    schedule = Schedule(reports)
    schedule.add("/imu", 200.0)
    # The first ticks after a start are the slowest.
    for time in (0, 30, 42, 45, 50, 55):
        schedule.due(time * MS)
    assert schedule.skipped(0) == 6
    for tick in range(12, 4000):
        # Every hundredth tick comes more than a period late, which costs one.
        schedule.due(tick * 5 * MS + (6 * MS if tick % 100 == 0 else 0))
    assert schedule.skipped(0) > 40
    assert reports == []


def test_periods_that_are_lost_again_and_again_are_reported_once() -> None:
    reports = Reports()
    schedule = Schedule(reports)
    schedule.add("/imu", 200.0)
    time = 0
    for tick in range(3000):
        schedule.due(time)
        # A third of the ticks is lost.
        time += 5 * MS if tick % 2 else 10 * MS
    assert {kind for kind, _ in reports} == {"schedule.stall"}
    assert "100 period(s) of /imu (200 Hz) were skipped within 5 s: up to 0.01 s passed" in reports[0][1]


def test_a_rate_above_the_ticks_is_met_once_per_tick_and_named() -> None:
    reports = Reports()
    schedule = Schedule(reports)
    schedule.add("/imu", 1000.0)
    schedule.add("/tf", 50.0)
    due = [list(schedule.due(tick * 20 * MS)) for tick in range(20)]
    assert due == [[0, 1]] * 20
    assert {kind for kind, _ in reports} == {"schedule.rate:/imu"}
    assert "1000 Hz but ticks come at 50 Hz" in reports[0][1]


def test_reset_makes_everything_due_at_any_time() -> None:
    schedule = Schedule(Reports())
    schedule.add("x", 10.0)
    assert len(schedule.due(5 * SECOND_NS)) == 1
    assert len(schedule.due(1 * SECOND_NS)) == 0
    schedule.reset()
    assert schedule.next_due_ns == 0
    assert len(schedule.due(1 * SECOND_NS)) == 1
    assert schedule.next_due_ns == 1 * SECOND_NS + 100 * MS


def test_indices_outlive_a_removal() -> None:
    schedule = Schedule(Reports())
    first, second = schedule.add("a", 10.0), schedule.add("b", 10.0)
    schedule.remove(first)
    assert list(schedule.due(SECOND_NS)) == [second]
    schedule.reset()
    assert list(schedule.due(SECOND_NS)) == [second]
    schedule.remove(second)
    assert schedule.next_due_ns is None
    assert len(schedule.due(9 * SECOND_NS)) == 0


def test_a_changed_rate_counts_from_the_next_tick() -> None:
    schedule = Schedule(Reports())
    entry = schedule.add("a", 1.0)
    schedule.due(0)
    schedule.set_rate(entry, 100.0)
    assert list(schedule.due(3 * MS)) == [entry]
    assert schedule.next_due_ns == 13 * MS


def test_periods_are_whole_nanoseconds() -> None:
    assert period_ns(30.0) == 33_333_333
    assert period_ns(1e12) == 1
    assert Schedule(Reports()).next_due_ns is None


@given(st.data())
def test_entries_that_share_a_grid_act_as_if_each_had_its_own(data: st.DataObject) -> None:
    """Random calls, against entries that are counted one by one."""
    schedule = Schedule(Reports())
    period: dict[int, int] = {}
    grid: dict[int, int] = {}
    now = 0
    for _ in range(data.draw(st.integers(1, 40))):
        action = data.draw(st.sampled_from(["add", "remove", "rate", "reset", "due", "due", "due"]))
        entry = data.draw(st.sampled_from(sorted(period))) if period else None
        if action == "add":
            wanted = data.draw(st.sampled_from([3, 5, 5, 10]))
            period[schedule.add("x", SECOND_NS / wanted)] = wanted
        elif action == "due":
            now += data.draw(st.integers(1, 25))
            expected = [row for row in sorted(period) if grid.get(row, 0) <= now]
            for row in expected:
                at = grid.get(row, 0) or now
                grid[row] = at + ((now - at) // period[row] + 1) * period[row]
            assert list(schedule.due(now)) == expected
        elif action == "reset":
            schedule.reset()
            grid.clear()
        elif entry is not None and action == "remove":
            schedule.remove(entry)
            del period[entry]
            grid.pop(entry, None)
        elif entry is not None and action == "rate":
            period[entry] = data.draw(st.sampled_from([3, 5, 10]))
            schedule.set_rate(entry, SECOND_NS / period[entry])
            grid.pop(entry, None)
        assert schedule.next_due_ns == min((grid.get(row, 0) for row in period), default=None)


def test_a_tick_in_which_nothing_was_due_counts_as_one() -> None:
    reports = Reports()
    schedule = Schedule(reports)
    schedule.add("/tf", 50.0)
    for tick in range(60):
        # Ticks come every 7 ms, and the schedule is asked only where something is due.
        if 7 * tick * MS >= (schedule.next_due_ns or 0):
            schedule.due(7 * tick * MS, 7 * (tick - 1) * MS if tick else None)
    schedule.due(1000 * MS, 993 * MS)
    assert schedule.skipped(0) > 20
    assert [kind for kind, _ in reports] == ["schedule.stall"]


# --- Ticks that follow a clock ----------------------------------------------------------------------------------


class ClockCase(NamedTuple):
    """Stamps of a clock with jitter, and the period of an entry on it."""

    clock_ns: int
    entry_ns: int
    stamps: list[int]

    def is_right(self, count: int) -> bool:
        """Whether an entry that was due so often had its rate, within one."""
        wanted = (len(self.stamps) - 1) * self.clock_ns / self.entry_ns + 1
        return math.floor(wanted) - 1 <= count <= math.ceil(wanted) + 1


@st.composite
def clock_cases(draw: st.DrawFn) -> ClockCase:
    clock_ns = draw(st.integers(2, 10**8))
    entry_ns = draw(
        st.one_of(
            st.sampled_from([clock_ns, clock_ns + 1, 2 * clock_ns - 1, 2 * clock_ns]),
            st.integers(clock_ns, 12 * clock_ns),
        )
    )
    most = (clock_ns - 1) // 2
    least = min(1, most)
    jitter = st.one_of(st.sampled_from([-most, -least, 0, least, most]), st.integers(-most, most))
    stamps = [
        10**12 + index * clock_ns + (late if index else 0)
        for index, late in enumerate(draw(st.lists(jitter, min_size=2, max_size=120)))
    ]
    return ClockCase(clock_ns, entry_ns, stamps)


@given(clock_cases())
def test_a_clock_with_jitter_below_half_its_period_costs_no_rate(case: ClockCase) -> None:
    schedule = Schedule(Reports())
    schedule.add("x", SECOND_NS / case.entry_ns)
    schedule.set_clock_period(case.clock_ns)
    due = []
    for stamp in case.stamps:
        is_due = stamp >= schedule.earliest_ns
        count = len(schedule.due(stamp))
        assert is_due == bool(count)
        due += [stamp] * count
        assert list(schedule.due(stamp)) == [], "never the same stamp twice"
    period = period_ns(SECOND_NS / case.entry_ns)
    assert case._replace(entry_ns=period).is_right(len(due))


@given(clock_cases())
def test_a_measured_clock_costs_no_rate_either(case: ClockCase) -> None:
    schedule, clock = Schedule(Reports()), ClockPeriod()
    schedule.add("x", SECOND_NS / case.entry_ns)
    count = 0
    for stamp in case.stamps:
        clock.observe(stamp)
        schedule.set_clock_period(clock.period_ns)
        count += len(schedule.due(stamp))
    wanted = (len(case.stamps) - 1) * case.clock_ns / period_ns(SECOND_NS / case.entry_ns) + 1
    # Until the clock is measured, one more may be missed.
    assert wanted - 3 <= count <= wanted + 2


def test_a_deadline_is_served_by_the_stamp_nearest_to_it() -> None:
    schedule = Schedule(Reports())
    schedule.add("x", 10.0)
    schedule.set_clock_period(20 * MS)
    stamps = [SECOND_NS + index * 20 * MS + (-1 if index % 2 else 0) for index in range(31)]
    due = [(stamp - SECOND_NS) / MS for stamp in stamps if schedule.due(stamp)]
    assert due == pytest.approx([0, 100, 200, 300, 400, 500, 600], abs=1e-5)


def test_nothing_bursts_after_a_stall_of_the_clock() -> None:
    schedule = Schedule(Reports())
    schedule.add("x", 10.0)
    schedule.set_clock_period(20 * MS)
    stamps = [*range(0, 401, 20), *range(2000, 2401, 20)]
    due = [stamp for stamp in stamps if schedule.due(SECOND_NS + stamp * MS)]
    assert due == [0, 100, 200, 300, 400, 2000, 2100, 2200, 2300, 2400]


@given(st.lists(st.integers(-9, 9), min_size=40, max_size=80), st.integers(0, 39))
def test_the_period_of_a_clock_is_measured(jitter: list[int], lost: int) -> None:
    clock = ClockPeriod()
    assert clock.period_ns == 0
    for index, late in enumerate(jitter):
        if index != lost:
            clock.observe(index * 20 + late)
            clock.observe(index * 20 + late)
    assert 10 <= clock.period_ns <= 30


class GeneralSchedule(Schedule):
    """Takes no short cut where one grid is due."""

    def _due_alone(self, time_ns: int) -> tuple[int, ...]:
        assert time_ns
        return ()


@given(
    st.lists(st.sampled_from([10.0, 20.0, 25.0, 100.0]), min_size=1, max_size=5),
    st.lists(st.integers(1, 150), min_size=1, max_size=60),
    st.sampled_from([0, 5, 20]),
    st.integers(0, 60),
)
def test_the_short_cut_for_one_grid_changes_nothing(
    rates: list[float], steps: list[int], clock_ms: int, changed: int
) -> None:
    schedules = [Schedule(Reports()), GeneralSchedule(Reports())]
    for schedule in schedules:
        schedule.set_clock_period(clock_ms * MS)
        for number, rate in enumerate(rates):
            schedule.add(f"x{number}", rate)
    now = SECOND_NS
    for index, step in enumerate(steps):
        now += step * MS
        if index == changed:
            for schedule in schedules:
                schedule.set_rate(0, 50.0)
        found = [
            (list(each.due(now)), each.earliest_ns, [each.skipped(i) for i in range(len(rates))])
            for each in schedules
        ]
        assert found[0] == found[1]


@given(st.integers(1, 40), st.integers(-9, 9).filter(bool), st.integers(32, 64))
def test_a_clock_without_jitter_is_measured_as_one_with_it(steady: int, change: int, after: int) -> None:
    """The first stamps after a change count as they do where the stamps before it were not all alike."""
    clock = ClockPeriod()
    stamps = [20 * index for index in range(100 + steady)]
    stamps += [stamps[-1] + (20 + change) * (index + 1) for index in range(after)]
    for stamp in stamps[: 100 + steady]:
        clock.observe(stamp)
    assert clock.period_ns == 20
    for stamp in stamps[100 + steady :]:
        clock.observe(stamp)
        assert min(20, 20 + change) <= clock.period_ns <= max(20, 20 + change)
    assert clock.period_ns == 20 + change


def test_a_clock_that_changes_is_measured_again() -> None:
    clock = ClockPeriod()
    for stamp in range(0, 1000, 20):
        clock.observe(stamp)
    assert clock.period_ns == 20
    # It starts over, jumps, and has another period.
    for stamp in (0, 5_000, *range(5_005, 5_300, 5)):
        clock.observe(stamp)
    assert clock.period_ns == 5
