"""What the page's controls have in common: jobs, limits of rates, texts of others."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.view.control_panel import MAX_TEXT, JobQueue, RateLimit, markdown, one_line

pytestmark = pytest.mark.app


@pytest.fixture
def faults():
    return []


@pytest.fixture
def jobs(faults):
    return JobQueue(faults.append)


def test_jobs_run_in_the_thread_that_runs_them_and_in_their_order(jobs):
    done = []
    for number in range(3):
        thread = threading.Thread(
            target=jobs.submit, args=(lambda number=number: done.append((number, threading.get_ident())),)
        )
        thread.start()
        thread.join()
    assert done == []
    jobs.run_pending()
    assert done == [(number, threading.get_ident()) for number in range(3)]


def test_a_job_that_raises_leaves_the_others(jobs, faults):
    done = []
    jobs.submit(lambda: 1 / 0)
    jobs.submit(lambda: done.append(1))
    jobs.run_pending()
    assert done == [1]
    assert [type(each) for each in faults] == [ZeroDivisionError]


def test_a_job_that_a_job_submits_runs_the_next_time(jobs):
    done = []
    jobs.submit(lambda: jobs.submit(lambda: done.append(1)))
    jobs.run_pending()
    assert done == []
    jobs.run_pending()
    assert done == [1]


@pytest.mark.parametrize(
    ("error", "fault"),
    [(BridgeError("no server"), "no server"), (ValueError("two\nlines"), "ValueError: two lines")],
)
def test_a_future_that_fails_is_a_text(jobs, error, fault):
    future, done = Future(), []
    jobs.when_done(future, lambda result, text: done.append((result, text)))
    future.set_exception(error)
    jobs.run_pending()
    assert done == [(None, fault)]


def test_a_future_that_is_done_or_canceled_is_told(jobs):
    results, done = (Future(), Future()), []
    for future in results:
        jobs.when_done(future, lambda result, text: done.append((result, text)))
    results[0].set_result(3)
    results[1].cancel()
    jobs.run_pending()
    assert done == [(3, ""), (None, "it was canceled")]


class Input:
    """An input of viser: it calls its callback in the thread that sets its value."""

    def __init__(self, callback):
        object.__setattr__(self, "callback", callback)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        self.callback(SimpleNamespace(target=self))


def test_what_the_page_shows_is_nobodys_wish(jobs):
    wishes = []
    handle = Input(jobs.value_callback(wishes.append))
    handle.value = 1
    jobs.set_value(handle, 2)
    handle.value = 3
    jobs.run_pending()
    assert wishes == [1, 3]
    assert handle.value == 3


def test_a_limit_lets_one_through_in_its_period():
    limit = RateLimit(10.0)
    assert [limit.take(0.04 * number) for number in range(6)] == [True, False, False, True, False, False]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two lights\nare off", "two lights are off"),
        ("red \x1b[31m", "red \\x1b[31m"),
        ("x" * 600, "x" * MAX_TEXT + "..."),
    ],
)
def test_a_text_of_others_is_one_line_without_control_characters(text, shown):
    assert one_line(text) == shown


@pytest.mark.parametrize(
    "text", ["<b>bold</b>", "{process.exit()}", "[a](http://example.org)", "**a** _b_ `c` # d"]
)
def test_a_text_of_others_is_no_markdown(text):
    escaped = markdown(text)
    assert escaped.replace("\\", "") == text
    for special in "<>{}[]()*_`#":
        assert escaped.count(special) == escaped.count(f"\\{special}")
