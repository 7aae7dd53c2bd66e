"""Handlers run beside each other: in order by key, bounded in number and time, and never in the way of closing."""

from __future__ import annotations

import asyncio
import functools
import gc
import random
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from concurrent.futures import CancelledError, Future

import pytest

from usd_ros_bridge.errors import BridgeError, HandlerTimeoutError
from usd_ros_bridge.ros.workers import Workers, is_coroutine_function

LONG_S = 60.0
"""For what comes at once unless the machine is busy."""


@pytest.fixture
def workers():
    made = Workers()
    yield made
    made.close()


@pytest.fixture
def gate():
    """An event that is set at the end, so that no thread outlives its test for long."""
    event = threading.Event()
    yield event
    event.set()


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("usd_ros_bridge-")]


def test_no_thread_exists_until_one_is_needed_nor_after_closing():
    before = own_threads()
    workers = Workers()
    assert own_threads() == before
    assert workers.submit("a", lambda: 1, timeout=LONG_S).result(LONG_S) == 1

    async def two():
        return 2

    assert workers.submit("a", two, timeout=LONG_S).result(LONG_S) == 2
    assert len(own_threads()) == len(before) + 3
    workers.close()
    workers.close()
    assert own_threads() == before


def test_results_and_exceptions_come_back_from_functions_and_coroutines(workers):
    async def add(one, other):
        await asyncio.sleep(0)
        return one + other

    async def fail():
        raise KeyError("missing")

    def awaitable(one):
        return add(one, one)

    class Callable:
        async def __call__(self, one):
            return await add(one, 100)

    assert workers.submit("a", max, 3, 4).result(LONG_S) == 4
    assert workers.submit("a", add, 3, 4).result(LONG_S) == 7
    assert workers.submit("a", functools.partial(add, 1), 2).result(LONG_S) == 3
    assert workers.submit("a", awaitable, 5).result(LONG_S) == 10
    assert workers.submit("a", Callable(), 5).result(LONG_S) == 105
    with pytest.raises(KeyError, match="missing"):
        workers.submit("a", fail).result(LONG_S)
    with pytest.raises(ZeroDivisionError):
        workers.submit("a", lambda: 1 / 0).result(LONG_S)
    with pytest.raises(SystemExit):
        workers.submit("a", lambda: (_ for _ in ()).throw(SystemExit(3))).result(LONG_S)
    assert workers.submit("a", max, 1, 2).result(LONG_S) == 2


def test_coroutine_functions_are_distinguished_from_others():
    async def handler():
        pass

    class Handler:
        async def method(self):
            pass

    assert is_coroutine_function(handler)
    assert is_coroutine_function(Handler().method)
    assert is_coroutine_function(functools.partial(functools.partial(handler)))
    assert not is_coroutine_function(own_threads)
    assert not is_coroutine_function(Handler)


def test_jobs_of_a_key_run_in_order_one_at_a_time(workers):
    order, running, most = [], [], []

    def step(number):
        running.append(number)
        most.append(len(running))
        time.sleep(0.001)
        order.append(number)
        running.remove(number)

    async def step_async(number):
        running.append(number)
        most.append(len(running))
        await asyncio.sleep(0.001)
        order.append(number)
        running.remove(number)

    futures = [
        workers.submit("key", step if number % 3 else step_async, number, timeout=LONG_S)
        for number in range(60)
    ]
    for future in futures:
        future.result(LONG_S)
    assert order == list(range(60))
    assert max(most) == 1


def test_a_stuck_handler_blocks_its_own_key_alone(workers, gate):
    stuck = workers.submit("stuck", gate.wait, timeout=0.1)
    behind = workers.submit("stuck", lambda: "late", timeout=0.1)
    assert workers.submit("other", lambda: "free", timeout=LONG_S).result(LONG_S) == "free"
    for future in (stuck, behind):
        with pytest.raises(HandlerTimeoutError, match=r"no answer within 0\.1 s"):
            future.result(LONG_S)
    gate.set()
    assert workers.submit("stuck", lambda: "again", timeout=LONG_S).result(LONG_S) == "again"


def test_a_late_result_is_dropped_and_a_job_that_waited_too_long_never_runs(workers, gate):
    ran = []
    first = workers.submit("key", lambda: gate.wait() and "late", timeout=0.05)
    second = workers.submit("key", ran.append, 2, timeout=0.05)
    with pytest.raises(HandlerTimeoutError):
        first.result(LONG_S)
    with pytest.raises(HandlerTimeoutError):
        second.result(LONG_S)
    gate.set()
    assert workers.submit("key", lambda: "next", timeout=LONG_S).result(LONG_S) == "next"
    assert ran == []
    with pytest.raises(HandlerTimeoutError):
        first.result(0.0)


@pytest.mark.parametrize("how", ["timeout", "cancel", "close"])
def test_coroutines_are_cancelled(workers, how):
    began, ended = threading.Event(), threading.Event()

    async def handler():
        try:
            began.set()
            await asyncio.sleep(60.0)
        finally:
            ended.set()

    future = workers.submit("key", handler, timeout=0.1 if how == "timeout" else 30.0)
    assert began.wait(LONG_S)
    if how == "cancel":
        assert future.cancel()
    if how == "close":
        workers.close()
    assert ended.wait(LONG_S)
    expected = {"timeout": HandlerTimeoutError, "cancel": CancelledError, "close": BridgeError}[how]
    with pytest.raises(expected):
        future.result(LONG_S)


def test_more_jobs_than_the_queue_holds_are_refused(gate):
    workers = Workers(queue=3)
    try:
        started = threading.Event()
        workers.submit("key", lambda: (started.set(), gate.wait()))
        assert started.wait(LONG_S)
        futures = [workers.submit("key", int) for _ in range(4)]
        with pytest.raises(BridgeError, match="3 requests wait already"):
            futures[3].result(LONG_S)
        assert not any(future.done() for future in futures[:3])
        gate.set()
        assert [future.result(LONG_S) for future in futures[:3]] == [0, 0, 0]
    finally:
        workers.close()


def test_the_number_of_threads_is_bounded_and_those_stuck_are_waited_for_by_nobody(gate):
    workers = Workers(threads=3)
    stuck = [workers.submit(f"key {number}", gate.wait, timeout=0.2) for number in range(10)]
    assert own_threads().count("usd_ros_bridge-handler") == 3
    for future in stuck:
        with pytest.raises(HandlerTimeoutError):
            future.result(LONG_S)
    waiting = workers.submit("more", int)
    workers.close()
    with pytest.raises(BridgeError, match="closed"):
        waiting.result(0.0)
    with pytest.raises(BridgeError, match="closed"):
        workers.submit("more", int).result(0.0)


@pytest.mark.process
def test_a_stuck_handler_keeps_no_process_from_ending():
    code = (
        "import threading; from usd_ros_bridge.ros.workers import Workers; workers = Workers();"
        "workers.submit('key', threading.Event().wait);"
        "workers.submit('other', int).result(20.0); print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "done\n"


def test_time_outs_do_not_wait_for_a_coroutine_that_blocks(workers, gate):
    async def block():
        gate.wait(LONG_S)

    with pytest.raises(HandlerTimeoutError):
        workers.submit("key", block, timeout=0.1).result(LONG_S)
    assert workers.submit("other", int, timeout=LONG_S).result(LONG_S) == 0


def test_idle_threads_end_and_new_ones_serve(monkeypatch):
    monkeypatch.setattr("usd_ros_bridge.ros.workers._IDLE_S", 0.001)
    workers = Workers(threads=2)
    try:
        for number in range(300):
            assert workers.submit(f"key {number % 5}", lambda: 7).result(LONG_S) == 7
            if number % 10 == 0:
                time.sleep(0.003)
        end = time.monotonic() + LONG_S
        while "usd_ros_bridge-handler" in own_threads():
            assert time.monotonic() < end
            time.sleep(0.01)
        assert workers.submit("key", int).result(LONG_S) == 0
    finally:
        workers.close()


def test_closing_from_within_a_handler_does_not_hang():
    workers = Workers()
    done = threading.Event()
    workers.submit("key", lambda: (workers.close(), done.set()))
    assert done.wait(LONG_S)
    workers = Workers()
    done = threading.Event()

    async def close():
        workers.close()
        done.set()

    workers.submit("key", close)
    assert done.wait(LONG_S)


def test_a_coroutine_that_refuses_to_end_is_left_behind():
    workers = Workers()
    began, released = threading.Event(), threading.Event()

    async def stubborn():
        while not released.is_set():
            try:
                began.set()
                await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                pass

    workers.submit("key", stubborn)
    assert began.wait(LONG_S)
    workers.close()
    assert not released.is_set()
    released.set()


def test_nothing_is_kept_of_jobs_that_ended(workers):
    class Message:
        pass

    kept = []
    for number in range(500):
        message = Message()
        kept.append(weakref.ref(message))
        future = workers.submit(f"key {number}", lambda each: each, message, timeout=60.0)
        assert future.result(LONG_S) is message
    del message, future
    gc.collect()
    # The deadline of the newest ones is still ahead: a bounded number.
    assert sum(ref() is not None for ref in kept) <= 70
    assert not workers.busy


def test_many_threads_submit_at_once(workers):
    results = []

    def submit(name):
        for number in range(100):
            future = workers.submit(name, lambda value: value, number, timeout=LONG_S)
            results.append(future.result(LONG_S))

    threads = [threading.Thread(target=submit, args=(f"key {index}",)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert sorted(results) == sorted(list(range(100)) * 8)


def test_the_event_loop_is_known(workers):
    async def asks():
        return workers.in_event_loop()

    assert workers.submit("key", asks).result(LONG_S) is True
    assert workers.submit("key", workers.in_event_loop).result(LONG_S) is False
    assert workers.in_event_loop() is False


def test_whatever_is_submitted_cancelled_and_late_every_future_ends_and_nothing_stays(workers):
    chance = random.Random(7)
    running: dict[str, int] = {}

    def enter(key):
        running[key] = running.get(key, 0) + 1
        assert running[key] == 1

    def leave(key):
        running[key] -= 1

    def run(key, seconds, fail):
        enter(key)
        time.sleep(seconds)
        leave(key)
        if fail:
            raise ValueError(key)
        return key

    async def run_async(key, seconds, fail):
        enter(key)
        try:
            await asyncio.sleep(seconds)
        finally:
            leave(key)
        if fail:
            raise ValueError(key)
        return key

    futures = []
    for _ in range(1500):
        key = f"key {chance.randrange(20)}"
        handler = chance.choice((run, run_async))
        arguments = (key, chance.random() * 0.002, chance.random() < 0.1)
        futures.append(
            (key, workers.submit(key, handler, *arguments, timeout=chance.choice((None, 0.001, 5.0))))
        )
        if chance.random() < 0.1:
            chance.choice(futures)[1].cancel()
    outcomes = Counter()
    for key, future in futures:
        try:
            assert future.result(LONG_S) == key
            outcomes["result"] += 1
        except (ValueError, HandlerTimeoutError, BridgeError, CancelledError) as error:
            outcomes[type(error).__name__] += 1
    assert set(outcomes) >= {"result", "ValueError", "HandlerTimeoutError", "CancelledError"}
    end = time.monotonic() + LONG_S
    while workers.busy:
        assert time.monotonic() < end
        time.sleep(0.001)
    assert not any(running.values())


def test_a_coroutine_that_raises_system_exit_ends_alone(workers):
    async def quit_process():
        raise SystemExit(3)

    async def answer():
        return 1

    with pytest.raises(SystemExit):
        workers.submit("a", quit_process).result(LONG_S)
    assert workers.submit("a", answer).result(LONG_S) == 1
    workers.close()


def test_a_request_that_waits_in_vain_is_released_at_its_time_out(workers, gate):
    class Message:
        pass

    message = Message()
    alive = weakref.ref(message)
    workers.submit("a", gate.wait)
    waiting = workers.submit("a", lambda _message: None, message, timeout=0.05)
    del message
    with pytest.raises(HandlerTimeoutError):
        waiting.result(LONG_S)
    deadline = time.monotonic() + LONG_S
    while alive() is not None:
        assert time.monotonic() < deadline


def test_deadlines_come_in_their_order_and_one_that_raises_stops_no_other(workers):
    expired = []
    deadlines = {}
    all_expired = threading.Event()
    futures = [Future() for _ in range(100)]
    awaited = [number for number in range(len(futures)) if number % 3 != 1]
    numbers = list(range(len(futures)))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        future = futures[number]

        def expire(number=number):
            expired.append(number)
            if len(expired) == len(awaited):
                all_expired.set()
            if number % 7 == 0:
                raise ValueError("on purpose")

        delay = 0.2 + 2e-3 * number
        before = time.monotonic()
        workers.set_deadline(future, delay, expire)
        # It lies between these two: a busy machine may stop this thread between two deadlines.
        deadlines[number] = (before + delay, time.monotonic() + delay)
        if number % 3 == 1:
            future.set_result(None)
    assert all_expired.wait(LONG_S)
    assert sorted(expired) == awaited
    latest = 0.0
    for number in expired:
        earliest_of_this, latest_of_this = deadlines[number]
        assert latest_of_this >= latest, "no deadline that surely was earlier comes later"
        latest = max(latest, earliest_of_this)


def test_an_earlier_deadline_comes_before_one_that_was_set_first(workers):
    late, early = Future(), threading.Event()
    workers.set_deadline(late, 60.0, lambda: late.set_result(None))
    workers.set_deadline(Future(), 0.01, early.set)
    assert early.wait(LONG_S)
    assert not late.done()


def test_a_deadline_holds_no_arguments_of_a_job_that_ended(workers):
    class Message:
        pass

    message = Message()
    reference = weakref.ref(message)
    assert workers.submit("a", lambda _: None, message, timeout=600.0).result(LONG_S) is None
    del message
    # The thread lets go of the job after it has ended the future.
    assert workers.submit("a", lambda: 1, timeout=600.0).result(LONG_S) == 1
    gc.collect()
    assert reference() is None
