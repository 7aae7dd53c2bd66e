"""Measured rates of publications and subscriptions."""

from __future__ import annotations

import pytest

from usd_ros_bridge.runtime.schedule import RateMeter

SECOND = 1_000_000_000


class TestRateMeter:
    def test_a_steady_rate(self) -> None:
        meter = RateMeter()
        for index in range(500):
            meter.mark(index * 20_000_000)
        assert meter.count == 500
        assert meter.rate(499 * 20_000_000) == pytest.approx(50.0)

    def test_before_the_first_window_ends(self) -> None:
        meter = RateMeter()
        assert meter.rate(0) == 0.0
        for index in range(11):
            meter.mark(index * 100_000_000)
        assert meter.rate(SECOND) == pytest.approx(10.0)

    def test_silence_shows(self) -> None:
        meter = RateMeter()
        for index in range(101):
            meter.mark(index * 100_000_000)
        assert meter.rate(10 * SECOND) == pytest.approx(10.0)
        assert meter.rate(100 * SECOND) < 0.5

    def test_what_begins_again_after_a_silence_is_measured_anew(self) -> None:
        """A subscriber that came back sees the rate at which it is served, not the mean over its absence."""
        meter = RateMeter()
        for index in range(51):
            meter.mark(index * 20_000_000)
        for index in range(51):
            meter.mark(60 * SECOND + index * 20_000_000)
        assert meter.rate(61 * SECOND) == pytest.approx(50.0)

    def test_an_event_every_five_seconds_is_a_rate_and_no_silence(self) -> None:
        meter = RateMeter()
        for index in range(10):
            meter.mark(index * 5 * SECOND)
        assert meter.rate(46 * SECOND) == pytest.approx(0.2)

    def test_time_that_starts_over(self) -> None:
        meter = RateMeter()
        meter.mark(100 * SECOND)
        for index in range(101):
            meter.mark(index * 100_000_000)
        assert meter.count == 102
        assert meter.rate(10 * SECOND) == pytest.approx(10.0)
