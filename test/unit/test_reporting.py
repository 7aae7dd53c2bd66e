"""Reports: shown once, counted always."""

from __future__ import annotations

import logging
import threading

import pytest

from usd_ros_bridge.reporting import (
    LINE_EVERY_S,
    LINES_AT_ONCE,
    MAX_FAMILIES,
    MAX_KIND,
    MAX_MESSAGE,
    MAX_SUBJECTS,
    OnceReporter,
    Reported,
    describe,
    limited,
)


def test_each_kind_is_shown_once_and_counted() -> None:
    shown: list[tuple[str, str]] = []
    reporter = OnceReporter(lambda kind, message: shown.append((kind, message)))
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

    reporter = OnceReporter(show)
    with caplog.at_level(logging.WARNING):
        reporter.report("a", "the motor is hot")
    assert reporter.count("a") == 1
    assert "the motor is hot (showing this failed: RuntimeError: no screen) [a]" in caplog.text


def test_reports_from_many_threads_are_shown_once() -> None:
    shown: list[str] = []
    reporter = OnceReporter(lambda kind, _message: shown.append(kind))
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
        OnceReporter().report("kind", "message")
    assert caplog.messages == ["message [kind]"]


class TestLimits:
    """Kinds that an asset or a mistake makes up without end."""

    def make(self) -> None:
        self.now = 0.0
        self.shown: list[tuple[str, str]] = []
        self.reporter = OnceReporter(
            lambda kind, message: self.shown.append((kind, message)), clock=lambda: self.now
        )

    def test_lines_of_a_family_are_bounded_in_time_and_others_are_not_affected(self) -> None:
        self.make()
        for index in range(10_000):
            self.reporter.report(f"interface:/prim_{index}", "it is broken")
        assert len(self.shown) == LINES_AT_ONCE
        assert "hardly shown" in self.shown[-1][1]
        self.reporter.report("sink:/rover", "nobody listens")
        assert self.shown[-1] == ("sink:/rover", "nobody listens")
        self.now += LINE_EVERY_S
        self.reporter.report("interface:/late", "it is broken")
        self.reporter.report("interface:/later", "it is broken")
        assert self.shown[-1] == (
            "interface:/late",
            f"it is broken ({10_000 - LINES_AT_ONCE} more of this kind were not shown)",
        )

    def test_memory_is_bounded_and_the_latest_are_kept(self) -> None:
        self.make()
        for index in range(10_000):
            self.reporter.report(f"interface:/prim_{index}", "x" * 100_000)
        kinds = [each.kind for each in self.reporter.reported()]
        assert kinds == [f"interface:/prim_{index}" for index in range(10_000 - MAX_SUBJECTS, 10_000)]
        assert max(len(each.message) for each in self.reporter.reported()) <= MAX_MESSAGE + 3

    def test_families_are_bounded_too(self) -> None:
        self.make()
        for index in range(10_000):
            self.reporter.report(f"family_{index}", "odd")
            self.reporter.report("y" * 10_000 + str(index), "odd")
        assert len(self.reporter.reported()) <= MAX_FAMILIES + MAX_SUBJECTS
        assert max(len(each.kind) for each in self.reporter.reported()) <= MAX_KIND

    def test_news_are_bounded_in_time(self) -> None:
        self.make()
        show = limited(lambda kind, message: self.shown.append((kind, message)))
        for index in range(1000):
            show(f"qos.changed:/topic_{index}", "subscribes as best effort now")
        assert len(self.shown) == LINES_AT_ONCE


def test_an_exception_becomes_one_line() -> None:
    assert describe(ValueError("two\nlines")) == "ValueError: two lines"
    assert describe(KeyError()) == "KeyError"
    assert len(describe(RuntimeError("x" * 10_000))) < 250


def test_an_exception_whose_text_cannot_be_had_is_described_all_the_same() -> None:
    class UnreadableError(Exception):
        """As Tf.ErrorException where OpenUSD quotes bytes of a file."""

        def __str__(self) -> str:
            return b"\xff".decode("utf-8")

    assert describe(UnreadableError()) == "UnreadableError: its text cannot be shown"
