"""Reports and rates: shown once, counted always."""

from __future__ import annotations

import logging
import threading

import pytest

from usd_ros_bridge.runtime.report import Reported, Reporter, describe
from usd_ros_bridge.runtime.status import RateMeter

SECOND = 1_000_000_000


def test_each_kind_is_shown_once_and_counted() -> None:
    shown: list[tuple[str, str]] = []
    reporter = Reporter(lambda kind, message: shown.append((kind, message)))
    reporter.report("a", "first")
    reporter.report("a", "second")
    reporter("b", "other")
    assert shown == [("a", "first"), ("b", "other")]
    assert reporter.count("a") == 2
    assert reporter.count("c") == 0
    assert reporter.reported() == (
        Reported(kind="a", message="first", count=2),
        Reported(kind="b", message="other", count=1),
    )


def test_what_cannot_be_shown_is_logged_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def show(kind: str, message: str) -> None:
        raise RuntimeError("no screen")

    reporter = Reporter(show)
    with caplog.at_level(logging.WARNING):
        reporter.report("a", "the motor is hot")
    assert reporter.count("a") == 1
    assert "the motor is hot (showing this failed: RuntimeError: no screen) [a]" in caplog.text


def test_reports_from_many_threads_are_shown_once() -> None:
    shown: list[str] = []
    reporter = Reporter(lambda kind, _message: shown.append(kind))
    threads = [
        threading.Thread(target=lambda: [reporter.report("k", "m") for _ in range(500)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shown == ["k"]
    assert reporter.count("k") == 4000


def test_without_a_callback_reports_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="usd_ros_bridge"):
        Reporter().report("kind", "message")
    assert caplog.messages == ["message [kind]"]


def test_an_exception_becomes_one_line() -> None:
    assert describe(ValueError("two\nlines")) == "ValueError: two lines"
    assert describe(KeyError()) == "KeyError"
    assert len(describe(RuntimeError("x" * 10_000))) < 250


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
