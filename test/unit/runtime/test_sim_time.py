"""Time that the backend owns: the grid of ticks, pause, steps, resets and what they do to whoever waits."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from builders.pendulums import PendulumBackend
from builders.plans import rover
from case_tables import each_case
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.model.periods import period_ns
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.sim_time import SimTimeLoop, TimeControl, Timekeeper
from usd_ros_bridge.runtime.snapshot import Snapshot

MS = 1_000_000
STEP = 2 * MS
TIMEOUT_S = 20.0


class Seen(Publication):
    """An emitter that notes times and positions."""

    def __init__(self, then: Callable[[int], None] = lambda _count: None) -> None:
        super().__init__()
        self.times: list[int] = []
        self.positions: list[bytes] = []
        self.then = then

    def publish(self, snapshot: Snapshot) -> bool:
        self.times.append(snapshot.time_ns)
        self.positions.append(snapshot.state.joint_position.tobytes())
        self.then(len(self.times))
        return True


class World:
    """A runtime with pendulums and what keeps its time."""

    def __init__(
        self,
        *,
        step_ns: int = STEP,
        rate: float = 100.0,
        plan: BridgePlan | None = None,
        real_time_factor: float = 0.0,
        paused: bool = False,
    ) -> None:
        self.reports: list[tuple[str, str]] = []
        self.backend = PendulumBackend(step_ns, start=0.4)
        self.runtime = Runtime(
            plan or rover().build(),
            self.backend,
            options=BridgeOptions(controller_rate=rate),
            reporter=OnceReporter(lambda kind, message: self.reports.append((kind, message))),
        ).open()
        self.control = TimeControl(
            step_ns=step_ns,
            real_time_factor=real_time_factor,
            paused=paused,
            wake=self.runtime.inbox.wakeup.set,
        )
        self.keeper = Timekeeper(self.runtime, self.control)
        self.loop = SimTimeLoop(self.runtime, self.control, keeper=self.keeper)

    def advance(self, until_ns: int) -> list[int]:
        """Ticks as the loop does; returns when."""
        times = []
        while True:
            self.keeper.serve_requests()
            next_ns = self.keeper.next_ns()
            if next_ns is None or next_ns > until_ns:
                return times
            self.keeper.advance(next_ns)
            times.append(next_ns)


@pytest.fixture
def running() -> Iterator[Callable[[World], World]]:
    """Runs a world's loop in a thread until the end of the test."""
    worlds: list[tuple[World, threading.Thread]] = []

    def run(world: World) -> World:
        thread = threading.Thread(target=world.loop.run, daemon=True)
        worlds.append((world, thread))
        thread.start()
        return world

    yield run
    for world, thread in worlds:
        world.loop.stop()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


# --- The grid -----------------------------------------------------------------------------------------------------


def test_ticks_fall_on_the_grid_where_something_is_due() -> None:
    world, seen = World(rate=1.0), Seen()
    world.runtime.add_publication(seen, name="x", rate=60.0)
    world.advance(200 * MS)
    assert seen.times[0] == STEP
    # The first grid point at or after each 60th of a second.
    period = period_ns(60.0)
    assert seen.times == [-(-(STEP + k * period) // STEP) * STEP for k in range(len(seen.times))]
    assert len(seen.times) == 12
    assert sum(world.backend.intervals) == world.backend.steps == seen.times[-1] // STEP


def test_ticks_are_at_most_a_controller_period_apart() -> None:
    world = World(step_ns=3 * MS, rate=100.0)
    assert world.advance(40 * MS) == [3 * MS, 12 * MS, 21 * MS, 30 * MS, 39 * MS]
    assert World(step_ns=20 * MS, rate=1000.0).advance(60 * MS) == [20 * MS, 40 * MS, 60 * MS]


def test_emitters_without_a_rate_are_asked_at_every_tick() -> None:
    world, every, slow = World(rate=50.0), Seen(), Seen()
    world.runtime.add_publication(every, name="beside")
    world.runtime.add_publication(slow, name="slow", rate=10.0)
    times = world.advance(400 * MS)
    assert every.times == times
    assert len(slow.times) == 4


def test_the_stepping_in_bulk_changes_nothing_about_the_motion() -> None:
    coarse, fine = World(rate=10.0), World(rate=1000.0)
    coarse.advance(402 * MS)
    fine.advance(402 * MS)
    assert max(coarse.backend.intervals) > 40
    assert set(fine.backend.intervals) == {1}
    assert np.array_equal(
        coarse.runtime.snapshot.state.joint_position, fine.runtime.snapshot.state.joint_position
    )


def test_the_same_commands_at_the_same_times_give_the_same_bytes() -> None:
    def run(rate: float) -> list[bytes]:
        world, seen = World(rate=rate), Seen()
        world.runtime.add_publication(seen, name="x", rate=100.0)
        world.advance(100 * MS)
        world.runtime.commands.joint_position[:] = 0.7
        world.advance(300 * MS)
        return seen.positions

    assert run(100.0) == run(100.0)
    assert len(set(run(100.0))) == len(run(100.0)), "it moves"


# --- Pause and steps ----------------------------------------------------------------------------------------------


def test_nothing_passes_in_a_pause_and_jobs_are_done() -> None:
    world, done = World(paused=True), []
    world.runtime.post(lambda: done.append(1))
    assert world.control.state == "paused"
    assert world.advance(1000 * MS) == []
    assert done == [1]
    world.control.resume()
    assert world.advance(10 * MS) != []
    assert done == [1]


def test_steps_end_where_they_were_asked_to() -> None:
    world, seen = World(paused=True, rate=100.0), Seen()
    world.runtime.add_publication(seen, name="x", rate=50.0)
    first, second = world.control.step(), world.control.step(13)
    world.advance(1000 * MS)
    assert (first.result(0), second.result(0)) == (STEP, 14 * STEP)
    assert world.runtime.now_ns == 14 * STEP
    assert world.backend.steps == 14
    assert seen.times == [STEP, 22 * MS]
    assert world.control.state == "paused"


def test_steps_are_refused_while_time_passes_and_end_when_it_does_again() -> None:
    world = World()
    with pytest.raises(BridgeError, match="not paused"):
        world.control.step().result(0)
    world.control.pause()
    with pytest.raises(BridgeError, match="at least one"):
        world.control.step(0).result(0)
    steps = world.control.step(5)
    world.control.resume()
    with pytest.raises(BridgeError, match="ended early"):
        steps.result(0)


def test_cancelled_steps_end_where_they_are() -> None:
    world = World(paused=True)
    cancelled, after = world.control.step(10**9), world.control.step(2)
    world.keeper.serve_requests()
    next_ns = world.keeper.next_ns()
    assert next_ns is not None
    world.keeper.advance(next_ns)
    assert cancelled.cancel()
    world.advance(1000 * MS)
    assert after.result(0) == next_ns + 2 * STEP


# --- Resets -------------------------------------------------------------------------------------------------------


def test_a_reset_starts_time_over() -> None:
    world, seen = World(), Seen()
    world.runtime.add_publication(seen, name="x", rate=100.0)
    world.advance(50 * MS)
    before, seen.times, seen.positions = seen.positions, [], []
    done = world.control.reset()
    times = world.advance(50 * MS)
    assert done.result(0) == 0
    assert times[0] == seen.times[0] == STEP
    assert seen.positions == before, "the same state, and the same motion from it"


def test_a_reset_may_leave_time_alone() -> None:
    world, seen = World(), Seen()
    world.runtime.add_publication(seen, name="x", rate=100.0)
    world.advance(50 * MS)
    last, before = world.runtime.now_ns, seen.positions
    seen.times, seen.positions = [], []
    done = world.control.reset(keep_time=True)
    world.advance(100 * MS)
    assert done.result(0) == last
    assert seen.times[0] == last + STEP
    assert seen.positions[:5] == before[:5]
    assert world.reports == []


def test_stop_is_a_pause_at_the_start() -> None:
    world = World()
    states: list[str] = []
    world.control.on_change(states.append)
    world.advance(20 * MS)
    done = world.control.stop()
    assert world.advance(1000 * MS) == []
    assert (done.result(0), world.runtime.now_ns, world.control.state) == (0, 0, "stopped")
    step = world.control.step()
    world.advance(1000 * MS)
    assert step.result(0) == STEP
    world.control.resume()
    assert states == ["paused", "stopped", "paused", "playing"]


def test_a_reset_ends_steps_and_close_ends_everything() -> None:
    world = World(paused=True)
    steps, reset = world.control.step(5), world.control.reset()
    world.keeper.serve_requests()
    assert reset.result(0) == 0
    with pytest.raises(BridgeError, match="reset"):
        steps.result(0)
    waiting = [world.control.step(5), world.control.reset()]
    world.control.close()
    world.control.close()
    for future in [*waiting, world.control.step(), world.control.reset()]:
        with pytest.raises(BridgeError, match="closed"):
            future.result(0)


@each_case("factor", [-1.0, float("nan"), float("inf")])
def test_impossible_factors(factor: float) -> None:
    with pytest.raises(OptionError, match="real_time_factor"):
        World(real_time_factor=factor)
    world = World()
    with pytest.raises(OptionError, match="real_time_factor"):
        world.control.real_time_factor = factor
    assert world.control.real_time_factor == 0.0


# --- A host's steps -----------------------------------------------------------------------------------------------


def test_a_host_steps_by_one_or_to_a_time() -> None:
    world = World()
    step = world.keeper.step
    assert not step(STEP - STEP // 50), "before the first grid point"
    assert step(None)
    assert world.runtime.time_ns == STEP
    assert step(11 * MS)
    assert world.runtime.time_ns == 10 * MS
    assert step(11 * MS + 500_000)
    assert world.backend.steps == 5
    world.control.pause()
    assert not step(20 * MS)
    done = world.control.step(2)
    assert step(20 * MS)
    assert done.result(0) == world.runtime.time_ns == 14 * MS


def test_a_host_that_goes_back_starts_over() -> None:
    world = World()
    assert world.keeper.step(100 * MS)
    assert world.keeper.step(50 * MS)
    assert [kind for kind, _ in world.reports] == ["time.backwards"]
    assert world.runtime.time_ns == 50 * MS


# --- The loop -----------------------------------------------------------------------------------------------------


def test_the_loop_runs_as_fast_as_possible(running: Callable[[World], World]) -> None:
    world, there = World(), threading.Event()
    seen = Seen(lambda count: there.set() if count == 500 else None)
    world.runtime.add_publication(seen, name="x", rate=10.0)
    running(world)
    assert there.wait(TIMEOUT_S)
    assert seen.times[499] == STEP + 499 * 100 * MS


def test_the_loop_does_what_is_asked_from_other_threads(running: Callable[[World], World]) -> None:
    world = running(World(paused=True))
    assert world.control.step(7).result(TIMEOUT_S) == 7 * STEP
    asked = threading.Event()
    world.runtime.post(asked.set)
    assert asked.wait(TIMEOUT_S)
    assert world.control.reset().result(TIMEOUT_S) == 0
    ticked = threading.Event()
    world.runtime.post(
        lambda: world.runtime.add_publication(Seen(lambda _: ticked.set()), name="x", rate=1.0)
    )
    world.control.resume()
    assert ticked.wait(TIMEOUT_S)


def test_idle_is_called_while_time_stands_still() -> None:
    world, called = World(paused=True), threading.Event()
    loop = SimTimeLoop(world.runtime, world.control, idle=called.set)
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    assert called.wait(TIMEOUT_S)
    loop.stop()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    assert loop.stopped()
    assert world.backend.steps == 0


def test_many_threads_ask_for_everything_at_once(running: Callable[[World], World]) -> None:
    """Whatever order it comes in: all are answered, and the backend sees nothing but whole steps on the grid."""
    world = running(World())
    control = world.control

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(150):
            waiting: Future[int] | None = None
            match chance.randrange(6):
                case 0:
                    control.pause()
                case 1:
                    control.resume()
                case 2 | 3:
                    waiting = control.step(chance.randrange(1, 50))
                case 4:
                    waiting = control.reset(keep_time=chance.random() < 0.5)
                case 5:
                    waiting = control.step(10**6)
                    waiting.cancel()
            if waiting is not None and not waiting.cancelled():
                # Steps may be refused, or end early; what counts is that an answer comes.
                waiting.exception(TIMEOUT_S)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(ask, seed) for seed in range(4)]:
            done.result(4 * TIMEOUT_S)
    assert world.runtime.status().backend_errors == 0
    assert [kind for kind, _ in world.reports if kind != "time.slow"] == []
    control.pause()
    start = control.reset().result(TIMEOUT_S)
    assert control.step(3).result(TIMEOUT_S) == start + 3 * STEP
