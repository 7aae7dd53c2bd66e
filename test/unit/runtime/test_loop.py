"""The stand-alone loop on clocks that the test turns, and on the real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from builders.plans import rover
from builders.samples import joint_sample
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.backends.joint_states import JointStatesBackend
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime import loop as loop_module
from usd_ros_bridge.runtime.inbox import Wakeup
from usd_ros_bridge.runtime.loop import ExternalClock, Loop, SystemClock
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.snapshot import Snapshot

MS = 1_000_000
SECOND = 1_000_000_000


class Ticks(Publication):
    """An emitter that notes the time of every emission and calls back."""

    def __init__(self, then: Callable[[int], None] = lambda _count: None) -> None:
        super().__init__()
        self.times: list[int] = []
        self.then = then

    def publish(self, snapshot: Snapshot) -> bool:
        self.times.append(snapshot.time_ns)
        self.then(len(self.times))
        return True


class SteppedClock:
    """Time that passes in waits only, each a little late."""

    period_ns = 0

    def __init__(self, late: int = 0) -> None:
        self.now = 5 * SECOND
        self.late = late
        self.waits: list[int | None] = []

    def now_ns(self) -> int:
        return self.now

    def wait(self, deadline_ns: int | None, wakeup: Wakeup) -> None:  # noqa: ARG002
        self.waits.append(deadline_ns)
        assert deadline_ns is not None
        self.now = max(self.now, deadline_ns + self.late)


def make(backend: Backend | None = None) -> Runtime:
    return Runtime(
        rover().build(), backend or NullBackend(), reporter=OnceReporter(lambda _kind, _message: None)
    ).open()


def test_deadlines_are_absolute() -> None:
    """Every wake-up is 3 ms late; the grid does not slip."""
    runtime, clock = make(), SteppedClock(late=3 * MS)
    loop = Loop(runtime, clock)
    ticks = Ticks(lambda count: loop.stop() if count == 50 else None)
    runtime.add_publication(ticks, name="x", rate=100.0)
    loop.run()
    assert clock.waits[0] == 0
    first = ticks.times[0]
    assert [deadline for deadline in clock.waits if deadline] == [first + k * 10 * MS for k in range(1, 50)]


def test_the_loop_wakes_for_the_earliest_of_several() -> None:
    runtime, clock = make(), SteppedClock()
    loop = Loop(runtime, clock)
    fast, slow = Ticks(lambda count: loop.stop() if count == 31 else None), Ticks()
    runtime.add_publication(slow, name="slow", rate=10.0)
    runtime.add_publication(fast, name="fast", rate=30.0)
    loop.run()
    assert len(slow.times) == 10
    assert len(clock.waits) < 42


def test_stopped_before_it_ran() -> None:
    runtime = make()
    loop = Loop(runtime, SystemClock())
    loop.stop()
    loop.stop()
    loop.run()
    assert runtime.status().ticks == 0


def run_in_thread(loop: Loop) -> threading.Thread:
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    return thread


def test_stop_from_another_thread_ends_a_wait_without_a_deadline() -> None:
    loop = Loop(make())
    thread = run_in_thread(loop)
    loop.stop()
    thread.join(10.0)
    assert not thread.is_alive()
    assert loop.stopped()


def test_wall_time_keeps_the_rate() -> None:
    runtime = make()
    loop = Loop(runtime)
    ticks = Ticks(lambda count: loop.stop() if count == 20 else None)
    runtime.add_publication(ticks, name="x", rate=200.0)
    before = time.thread_time()
    loop.run()
    assert time.thread_time() - before < 0.08, "the loop sleeps between ticks"
    assert ticks.times[-1] - ticks.times[0] >= 19 * 5 * MS - MS
    assert all(later > earlier for earlier, later in zip(ticks.times, ticks.times[1:], strict=False))


def test_an_arrival_ends_the_sleep_of_a_backend_that_is_driven_by_topic() -> None:
    runtime = make(JointStatesBackend())
    delivery = runtime.bind_input(runtime.inputs[0])
    loop = Loop(runtime)
    arrived = threading.Event()

    class Show(Publication):
        def publish(self, snapshot: Snapshot) -> bool:
            if snapshot.robot_time_ns(0) == 42:
                arrived.set()
            return True

    runtime.add_publication(Show(), name="tf")
    thread = run_in_thread(loop)
    delivery.deliver(joint_sample(["mast_joint"], [0.1], stamp_ns=42))
    assert arrived.wait(10.0)
    loop.stop()
    thread.join(10.0)
    assert not thread.is_alive()


class TestExternalClock:
    def start(self) -> tuple[ExternalClock, Loop, Ticks, threading.Thread, threading.Semaphore]:
        ticked = threading.Semaphore(0)
        runtime, clock = make(), ExternalClock()
        loop = Loop(runtime, clock)
        ticks = Ticks(lambda _count: ticked.release())
        runtime.add_publication(ticks, name="x", rate=10.0)
        return clock, loop, ticks, run_in_thread(loop), ticked

    def finish(self, loop: Loop, thread: threading.Thread) -> None:
        loop.stop()
        thread.join(10.0)
        assert not thread.is_alive()

    def test_ticks_when_time_reaches_what_is_due(self) -> None:
        clock, loop, ticks, thread, ticked = self.start()
        assert clock.now_ns() is None
        clock.advance(3 * SECOND)
        assert ticked.acquire(timeout=60.0)
        clock.advance(3 * SECOND + 50 * MS)
        clock.advance(3 * SECOND + 110 * MS)
        assert ticked.acquire(timeout=60.0)
        self.finish(loop, thread)
        assert ticks.times == [3 * SECOND, 3 * SECOND + 110 * MS]

    def test_time_that_goes_back_ends_the_wait_and_starts_over(self) -> None:
        clock, loop, ticks, thread, ticked = self.start()
        clock.advance(100 * SECOND)
        assert ticked.acquire(timeout=60.0)
        clock.advance(1 * SECOND)
        assert ticked.acquire(timeout=60.0)
        self.finish(loop, thread)
        assert ticks.times == [100 * SECOND, 1 * SECOND]

    def test_without_any_time_nothing_ticks(self) -> None:
        _, loop, ticks, thread, ticked = self.start()
        assert not ticked.acquire(timeout=0.05)
        self.finish(loop, thread)
        assert ticks.times == []

    def test_stamps_that_miss_their_deadlines_by_a_nanosecond_cost_no_rate(self) -> None:
        ticked = threading.Semaphore(0)
        runtime, clock = make(), ExternalClock()
        loop = Loop(runtime, clock)
        ticks = Ticks(lambda _count: ticked.release())
        runtime.add_publication(ticks, name="x", rate=50.0)
        thread = run_in_thread(loop)
        stamps = [3 * SECOND + index * 20 * MS - index % 2 for index in range(150)]
        for index, stamp in enumerate(stamps):
            clock.advance(stamp)
            # The period is known from the second stamp on, which the loop may have slept through.
            assert ticked.acquire(timeout=60.0) if index != 1 else not ticked.acquire(timeout=0.05)
        self.finish(loop, thread)
        assert ticks.times == [stamps[0], *stamps[2:]]

    def test_the_loop_sleeps_between_two_stamps_whatever_was_missed(self) -> None:
        ticked = threading.Semaphore(0)
        runtime, clock = make(), ExternalClock()
        loop = Loop(runtime, clock)
        ticks = Ticks(lambda _count: ticked.release())
        runtime.add_publication(ticks, name="x", rate=50.0)
        thread = run_in_thread(loop)
        for index in range(10):
            clock.advance(3 * SECOND + index * 20 * MS - index % 2)
        clock.advance(4 * SECOND)
        taken = 0
        while not ticks.times or ticks.times[-1] < 4 * SECOND or taken < len(ticks.times):
            assert ticked.acquire(timeout=60.0)
            taken += 1
        count = runtime.status().ticks
        assert not ticked.acquire(timeout=0.05)
        assert runtime.status().ticks <= count + 1
        self.finish(loop, thread)

    def test_a_paused_simulator_costs_nothing(self) -> None:
        clock, loop, ticks, thread, ticked = self.start()
        clock.advance(SECOND)
        assert ticked.acquire(timeout=60.0)
        for _ in range(50):
            clock.advance(SECOND)
        self.finish(loop, thread)
        assert ticks.times == [SECOND]


class TestSystemClock:
    def test_small_steps_back_are_held_and_large_ones_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        times = iter([100 * SECOND, 100 * SECOND - 5 * MS, 100 * SECOND + MS, 40 * SECOND])
        monkeypatch.setattr(loop_module.time, "time_ns", lambda: next(times))
        clock = SystemClock()
        assert [clock.now_ns() for _ in range(4)] == [
            100 * SECOND,
            100 * SECOND,
            100 * SECOND + MS,
            40 * SECOND,
        ]

    def test_a_clock_that_was_set_back_does_not_prolong_the_sleep(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [100 * SECOND]
        monkeypatch.setattr(loop_module.time, "time_ns", lambda: now[0])
        clock, timeouts = SystemClock(), []

        class Woken(Wakeup):
            def wait(self, timeout: float | None = None) -> bool:
                timeouts.append(timeout)
                return False

        clock.now_ns()
        now[0] -= 3600 * SECOND
        clock.wait(100 * SECOND + 20 * MS, Woken())
        assert timeouts == [pytest.approx(0.02)]
