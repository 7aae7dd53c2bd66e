"""The phases of a start: their times, and the lines of a log that is not there from the beginning."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from usd_ros_bridge.start_phases import LOADING, LogView, StartPhases


def clock_of(*seconds: float) -> Iterator[float]:
    return iter(seconds)


def test_the_times_are_those_between_the_beginnings() -> None:
    times = clock_of(10.0, 11.0, 11.5, 13.5)
    phases = StartPhases(clock=lambda: next(times))
    phases.begin("opening", "robot.usda")
    phases.begin("planning")
    assert phases.finish() == f"started in 3.50 s: {LOADING} 1.00 s, opening 0.50 s, planning 2.00 s"


def test_the_log_has_what_begins_after_it_is_there() -> None:
    phases, lines = StartPhases(), []
    phases.begin("starting the node")
    phases.log_to(lines.append)
    phases.begin("opening", "robot.usda")
    phases.begin("planning")
    phases.close()
    phases.begin("discovery")
    assert lines == ["opening robot.usda", "planning"]


def early_start(after: float) -> tuple[StartPhases, list[threading.Thread]]:
    """Start; return also the threads that wait: pytest-timeout has one of its own."""
    before = set(threading.enumerate())
    phases = StartPhases(LogView(early_after=after))
    return phases, [each for each in threading.enumerate() if each not in before]


def test_long_loading_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    phases, timers = early_start(0.0)
    for timer in timers:
        timer.join(10.0)
    phases.begin("starting the node")
    phases.close()
    assert capsys.readouterr() == ("", f"[INFO] [usd_ros_bridge]: {LOADING}\n")


@pytest.mark.parametrize("ends", ["begin", "close"])
def test_short_loading_is_silent(ends: str, capsys: pytest.CaptureFixture[str]) -> None:
    phases, (timer,) = early_start(60.0)
    if ends == "begin":
        phases.begin("starting the node")
    else:
        phases.close()
    timer.join(10.0)
    assert not timer.is_alive()
    assert capsys.readouterr() == ("", "")


class Shown:
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def begin(self, text: str) -> None:
        self.calls.append(("begin", text))

    def end(self, text: str, seconds: float) -> None:
        self.calls.append(("end", text, seconds))

    def close(self) -> None:
        self.calls.append(("close",))


def test_a_view_is_shown_all_and_the_log_nothing() -> None:
    times, view, lines = clock_of(0.0, 1.0, 4.0), Shown(), []
    phases = StartPhases(view, clock=lambda: next(times))
    phases.log_to(lines.append)
    phases.begin("opening", "robot.usda")
    phases.finish()
    assert view.calls == [
        ("begin", LOADING),
        ("end", LOADING, 1.0),
        ("begin", "opening robot.usda"),
        ("end", "opening robot.usda", 3.0),
        ("close",),
    ]
    assert lines == []
