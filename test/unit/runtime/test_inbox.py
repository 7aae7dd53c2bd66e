"""The inbox under threads: nothing is lost uncounted, order holds, waits end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from usd_ros_bridge.runtime.inbox import DescriptorWakeup, Inbox, TickQueue, Wakeup


def test_drains_in_the_order_of_arrival() -> None:
    inbox = Inbox()
    arrived = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)]
    for key, payload in arrived:
        inbox.put(key, payload)
    assert [tuple(item) for item in inbox.drain()] == arrived
    assert inbox.drain() == []


def test_a_flood_on_one_key_costs_the_others_nothing() -> None:
    inbox = Inbox(depth=3)
    inbox.put("calm", "first")
    for index in range(10):
        inbox.put("flood", index)
    assert [tuple(item) for item in inbox.drain()] == [
        ("calm", "first"),
        ("flood", 7),
        ("flood", 8),
        ("flood", 9),
    ]
    assert inbox.counts("flood").received == 10
    assert inbox.counts("flood").dropped == 7
    assert inbox.counts("calm").dropped == 0
    assert inbox.counts("never").received == 0


def test_a_key_may_keep_another_number() -> None:
    inbox = Inbox(depth=3)
    inbox.put("state", "before")
    inbox.configure("state", depth=1)
    inbox.put("state", "after")
    assert [item[1] for item in inbox.drain()] == ["after"]


def test_many_threads_lose_nothing_and_keep_their_own_order() -> None:
    inbox = Inbox(depth=100_000)
    count, threads = 2000, 8
    start = threading.Barrier(threads)

    def produce(key: int) -> None:
        start.wait()
        for index in range(count):
            inbox.put(key, index)

    producers = [threading.Thread(target=produce, args=(key,)) for key in range(threads)]
    for producer in producers:
        producer.start()
    seen: dict[int, list[object]] = {key: [] for key in range(threads)}
    while any(producer.is_alive() for producer in producers) or inbox.pending:
        for key, payload in inbox.drain():
            assert isinstance(key, int)
            seen[key].append(payload)
    for producer in producers:
        producer.join()
    assert all(payloads == list(range(count)) for payloads in seen.values())


def test_bounded_under_threads_counts_every_loss() -> None:
    inbox = Inbox(depth=5)
    producers = [
        threading.Thread(target=lambda: [inbox.put("k", index) for index in range(1000)]) for _ in range(4)
    ]
    for producer in producers:
        producer.start()
    taken = 0
    while any(producer.is_alive() for producer in producers) or inbox.pending:
        taken += len(inbox.drain())
    counts = inbox.counts("k")
    assert counts.received == 4000
    assert taken + counts.dropped == 4000


def test_only_waking_keys_end_a_wait() -> None:
    inbox = Inbox()
    inbox.configure("state", wakes=True)
    inbox.put("other", 1)
    assert not inbox.wakeup.wait(0.01)
    inbox.put("state", 1)
    assert inbox.wakeup.wait(10.0)
    assert not inbox.wakeup.wait(0.0)


def test_an_arrival_ends_a_wait_in_another_thread() -> None:
    inbox = Inbox()
    inbox.configure("state", wakes=True)
    woken = threading.Event()

    def wait() -> None:
        assert inbox.wakeup.wait(10.0)
        woken.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    inbox.put("state", 1)
    assert woken.wait(10.0)
    waiter.join()


def test_a_wake_up_before_the_wait_is_not_lost() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    assert wakeup.wait(0.0)
    assert not wakeup.wait(0.0)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_a_signal_handler_ends_the_wait_of_its_own_thread() -> None:
    wakeup = Wakeup()
    before = signal.signal(signal.SIGALRM, lambda *_: wakeup.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        # A wait that goes on is ended by the time-out of pytest.
        assert wakeup.wait(3600.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("make", [Wakeup, DescriptorWakeup])
def test_a_wakeup_is_used_up_by_one_wait(make: type[Wakeup]) -> None:
    wakeup = make()
    assert not wakeup.wait(0.0)
    for _ in range(3):
        wakeup.set()
    assert wakeup.wait(0.0)
    assert not wakeup.wait(0.001)


@pytest.mark.parametrize("make", [Wakeup, DescriptorWakeup])
def test_another_thread_ends_a_wait(make: type[Wakeup]) -> None:
    wakeup = make()
    timer = threading.Timer(0.05, wakeup.set)
    timer.start()
    assert wakeup.wait(5.0)
    timer.join()


def test_a_descriptor_is_given_back_with_its_wakeup() -> None:
    wakeup = DescriptorWakeup()
    descriptor = wakeup.fd
    assert descriptor is not None
    os.eventfd_write(descriptor, 7)
    assert wakeup.wait(0.0)
    del wakeup
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_source_is_asked_at_every_drain_until_it_has_nothing() -> None:
    inbox = Inbox(depth=3)
    held = [1, 2, 3, 4]

    def poll(limit: int) -> list[int]:
        taken = [held.pop(0) for _ in range(min(limit, len(held)))]
        if held:
            inbox.wakeup.set()
        return taken

    inbox.add_source("states", poll)
    assert inbox.pending, "what it holds already is seen"
    assert [tuple(item) for item in inbox.drain()] == [("states", 1), ("states", 2), ("states", 3)]
    assert inbox.wakeup.wait(0.0), "the rest of a flood is for the next tick"
    assert [item[1] for item in inbox.drain()] == [4]
    assert not inbox.pending
    held.append(5)
    inbox.wakeup.set()
    assert inbox.pending
    assert [item[1] for item in inbox.drain()] == [5]
    assert inbox.counts("states").received == 5
    inbox.remove_source("states", poll)
    held.append(6)
    assert inbox.drain() == []


def test_what_waits_under_one_key_can_be_taken_back() -> None:
    inbox = Inbox()
    inbox.put("a", 1)
    inbox.put("b", 2)
    inbox.put("a", 3)
    assert inbox.withdraw("a") == [1, 3]
    assert inbox.withdraw("a") == []
    assert inbox.withdraw("c") == []
    assert inbox.drain() == [("b", 2)]


def test_a_job_is_either_run_or_failed_where_the_queue_closes_meanwhile() -> None:
    count, usual = 200, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            queue, ran, run = TickQueue(lambda: None), [], threading.Barrier(2)
            done = [queue.submit(lambda: ran.append(None)) for _ in range(count)]  # noqa: B023 - run in this round

            def close() -> None:
                run.wait()  # noqa: B023 - run in this round
                queue.close()  # noqa: B023

            closer = threading.Thread(target=close)
            closer.start()
            run.wait()
            queue.run_pending()
            closer.join()
            failed = sum(each.exception(0.0) is not None for each in done)
            assert len(ran) + failed == count
            assert not queue.pending
    finally:
        sys.setswitchinterval(usual)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("make", [Wakeup, DescriptorWakeup])
@pytest.mark.parametrize("timeout", [None, 3600.0])
def test_a_signal_that_another_thread_gets_ends_a_wait(make: type[Wakeup], timeout: float | None) -> None:
    """The system ends no wait of the main thread then, and Python calls handlers in the main thread only."""
    wakeup = make()
    waiter = Path(f"/proc/self/task/{threading.get_native_id()}/stat")

    def interrupt() -> None:
        # It sleeps in the wait, not for a moment until it may run Python.
        sleeps = 0
        while sleeps < 1000:
            sleeps = sleeps + 1 if waiter.read_text(encoding="utf-8").rpartition(") ")[2][0] == "S" else 0
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda *_: wakeup.set())
    try:
        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        assert wakeup.wait(timeout)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
