"""The pace of bridge time, on a wall clock that the test turns."""

from __future__ import annotations

import pytest

from case_tables import each_case
from usd_ros_bridge.runtime.sim_time import TOLERATED_NS, RealTimePacer, TimeControl

MS = 1_000_000
SECOND = 1000 * MS


class Wall:
    """A machine that takes `cost_ns` for each tick of 10 ms of bridge time."""

    def __init__(self, factor: float, cost_ns: int = MS) -> None:
        self.now = 77 * SECOND
        self.cost_ns = cost_ns
        self.time = 0
        self.gaps: list[int] = []
        self.reports: list[tuple[str, str]] = []
        self.control = TimeControl(step_ns=MS, real_time_factor=factor, wake=lambda: None)
        self.pace = RealTimePacer(
            self.control,
            lambda kind, message: self.reports.append((kind, message)),
            now_ns=lambda: self.now,
        )

    def run(self, seconds: float) -> float:
        """Runs for a time on the wall clock; returns how much bridge time passed, seconds."""
        start, end = self.time, self.now + round(seconds * SECOND)
        while self.now < end:
            next_ns = self.time + 10 * MS
            remaining = self.pace.remaining_ns(next_ns, self.time)
            if remaining > 0:
                self.now += remaining
                continue
            self.gaps.append(self.now)
            self.pace.mark_reached(next_ns)
            self.now += self.cost_ns
            self.time = next_ns
        return (self.time - start) / SECOND


@each_case("factor", [0.1, 1.0, 3.0])
def test_time_keeps_its_pace(factor: float) -> None:
    wall = Wall(factor)
    assert wall.run(20.0) == pytest.approx(20.0 * factor, abs=0.03)
    assert wall.control.achieved_factor == pytest.approx(factor, rel=0.15)
    assert wall.reports == []


def test_a_moment_is_never_early() -> None:
    wall = Wall(1.0)
    origin = wall.now
    wall.run(2.0)
    assert [gap - origin for gap in wall.gaps] == [(k + 1) * 10 * MS for k in range(len(wall.gaps))]


def test_as_fast_as_possible() -> None:
    wall = Wall(0.0)
    assert wall.run(1.0) == pytest.approx(10.0)


def test_a_short_delay_is_made_up_for_at_twice_the_pace() -> None:
    wall = Wall(1.0)
    wall.run(1.0)
    before, wall.gaps = wall.time, []
    wall.now += 80 * MS
    assert wall.run(1.0) == pytest.approx(1.08, abs=0.011)
    spacing = [b - a for a, b in zip(wall.gaps, wall.gaps[1:], strict=False)]
    assert min(spacing) == 5 * MS
    assert before < wall.time
    assert wall.reports == []


def test_a_long_delay_is_given_up() -> None:
    wall = Wall(1.0)
    wall.run(3.0)
    wall.now += TOLERATED_NS + SECOND
    assert wall.run(1.0) == pytest.approx(1.0, abs=0.02)


def test_time_that_is_slow_is_reported_with_what_it_achieves() -> None:
    wall = Wall(1.0, cost_ns=25 * MS)
    assert wall.run(10.0) == pytest.approx(4.0, abs=0.05)
    assert {kind for kind, _ in wall.reports} == {"time.slow"}
    assert "0.4 s of bridge time pass in a second instead of 1 " in wall.reports[0][1]
    assert wall.control.achieved_factor == pytest.approx(0.4, rel=0.01)


def test_what_the_first_moments_take_is_no_news() -> None:
    wall = Wall(1.0, cost_ns=200 * MS)
    wall.run(0.9)
    wall.cost_ns = MS
    wall.run(10.0)
    assert wall.reports == []


def test_another_factor_counts_from_where_time_is() -> None:
    wall = Wall(1.0)
    wall.run(2.0)
    wall.control.real_time_factor = 0.5
    assert wall.run(4.0) == pytest.approx(2.0, abs=0.03)


def test_a_pause_is_not_made_up_for() -> None:
    wall = Wall(1.0)
    wall.run(2.0)
    wall.pace.restart()
    assert wall.control.achieved_factor is None
    wall.now += 100 * SECOND
    assert wall.run(1.0) == pytest.approx(1.0, abs=0.02)
    assert wall.reports == []


def test_time_that_starts_over_is_not_late() -> None:
    wall = Wall(1.0)
    wall.run(5.0)
    wall.time = 0
    assert wall.run(1.0) == pytest.approx(1.0, abs=0.02)
