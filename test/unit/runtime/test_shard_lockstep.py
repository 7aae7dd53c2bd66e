"""Lockstep: any order of work and delivery gives the same run; shards that die or hang do not stop the others."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usd_ros_bridge.runtime.lockstep import (
    JOIN_S,
    Epoch,
    ExchangeTimes,
    FreeRunning,
    Grant,
    LockstepFollower,
    LockstepLeader,
    ShardReport,
)

MS = 1_000_000
STEP = 2 * MS
PERIOD = 10 * MS
TIMEOUT = 5.0


class World:
    """Shards and a network that delivers in order per sender, at any time."""

    def __init__(self, shards: int, rates: Iterable[int] = ()) -> None:
        self.wall = 0.0
        self.reports: list[str] = []
        self.news: list[str] = []
        self.shards: dict[int, Shard] = {}
        self.latest: tuple[int, Grant] | None = None
        self.session = 1
        self.count = shards
        self.rates = dict(enumerate(rates, start=1))
        for number in range(1, shards + 1):
            self.start(number)

    def start(self, number: int) -> Shard:
        """Start a shard, or start it again."""
        shard = self.shards[number] = Shard(self, number, self.rates.get(number, PERIOD))
        # Late joiners get what publishers keep.
        for other in self.shards.values():
            if other is not shard:
                shard.queues[other.number] = deque(other.sent)
        if number == 1:
            self.session += 1
            shard.open()
        elif self.latest is not None and 1 in self.shards:
            shard.queues.setdefault(1, deque()).append(self.latest[1])
        return shard

    def kill(self, number: int) -> None:
        """End a shard without a word; what it sent is on its way."""
        del self.shards[number]

    def send(self, sender: int, message: Any) -> None:
        for shard in self.shards.values():
            if shard.number != sender:
                shard.queues.setdefault(sender, deque()).append(message)

    def run(
        self, choose: random.Random, *, until: int, of: Iterable[int] | None = None, rounds: int = 4000
    ) -> None:
        """Let shards work, in any order, until those given have reached a time."""
        numbers = list(self.shards if of is None else of)
        for _ in range(rounds):
            if all(self.shards[number].now >= until for number in numbers):
                return
            shard = self.shards[choose.choice(list(self.shards))]
            shard.deliver(choose)
            shard.work(until)
        raise AssertionError({number: shard.now for number, shard in self.shards.items()})


class Shard:
    """A shard whose state is a number that depends on the poses of all others at every exchange."""

    def __init__(self, world: World, number: int, rate: int) -> None:
        self.world, self.number, self.rate = world, number, rate
        self.now, self.first = 0, True
        self.state = number
        self.queues: dict[int, deque[Any]] = {}
        self.sent: deque[Any] = deque(maxlen=10)
        self.poses: dict[tuple[int, Epoch, int], int] = {}
        self.newest: dict[int, int] = {}
        self.seen: list[int] = []
        self.stops: dict[int, int] = {}
        self.paused = False
        self.end: int | None = None
        arguments: dict[str, Any] = {
            "shard": number,
            "timeout_s": TIMEOUT,
            "link": self,
            "report": lambda _, text: world.reports.append(text),
            "inform": lambda _, text: world.news.append(text),
            "now_s": lambda: world.wall,
        }
        self.lockstep: LockstepLeader | LockstepFollower
        if number == 1:
            times = ExchangeTimes(start_ns=0, step_ns=STEP, period_ns=PERIOD)
            self.lockstep = LockstepLeader(
                shards=world.count, times=times, session=world.session + 1, **arguments
            )
        else:
            self.lockstep = LockstepFollower(**arguments)

    def open(self) -> None:
        assert isinstance(self.lockstep, LockstepLeader)
        self.lockstep.restart(0)

    def deliver(self, choose: random.Random) -> None:
        for sender, queue in self.queues.items():
            for _ in range(choose.randint(0, len(queue))):
                message = queue.popleft()
                if isinstance(message, Grant):
                    if isinstance(self.lockstep, LockstepFollower):
                        self.lockstep.receive(message)
                    continue
                report, state = message
                self.poses[sender, report.epoch, report.time_ns] = state
                self.newest[sender] = state
                if isinstance(self.lockstep, LockstepLeader):
                    self.lockstep.receive(report)

    def work(self, until: int) -> None:
        """One turn of the loop."""
        lockstep = self.lockstep
        lockstep.poll()
        if lockstep.pending_reset_ns is not None:
            self.reset(lockstep.pending_reset_ns)
        if isinstance(lockstep, LockstepLeader) and (self.paused or self.now >= until):
            lockstep.stand()
            return
        wanted = self.now + (STEP if self.first else PERIOD)
        wanted = min(wanted, (self.now // self.rate + 1) * self.rate)
        target = lockstep.next_ns(self.now, wanted, self.end)
        if target is None:
            return
        leader = self.world.shards.get(1)
        if leader is not None and leader is not self:
            assert target <= leader.now, "no shard is ahead of the leader"
        lockstep.begin(self.now, target)
        self.now, self.first = target, False
        self.state = hash((self.state, target if target % PERIOD == STEP else 0))
        lockstep.end(self.now)

    def reset(self, start: int) -> None:
        self.now, self.first, self.state = start, True, self.number
        self.stops.clear()
        self.lockstep.restart(start)

    # --- FleetLink

    def poll(self) -> None:
        pass

    def send_grant(self, grant: Grant) -> None:
        self.world.latest = self.number, grant
        # It is sent before the leader's tick, which nothing of this test sees in between.
        self.now = max(self.now, grant.limit_ns)
        self.world.send(self.number, grant)

    def send_report(self, report: ShardReport) -> None:
        self.stops[report.time_ns] = self.state
        self.sent.append((report, self.state))
        self.world.send(self.number, (report, self.state))

    def has_poses(self, shard: int, epoch: Epoch, time_ns: int) -> bool:
        return (shard, epoch, time_ns) in self.poses

    def use_poses(self, members: Iterable[int], epoch: Epoch, time_ns: int, *, exact: bool) -> None:
        others = [number for number in members if number != self.number]
        self.seen.append(time_ns)
        if exact:
            values = [self.poses.get((number, epoch, time_ns)) for number in others]
        else:
            values = [self.newest.get(number) for number in others]
        self.state = hash((self.state, tuple(values)))

    def use_newest(self, time_ns: int) -> None:  # noqa: ARG002 - the protocol's
        raise AssertionError


def states(seed: int, shards: int, rates: Iterable[int]) -> dict[int, dict[int, int]]:
    world = World(shards, rates)
    world.run(random.Random(seed), until=20 * PERIOD + STEP)
    return {
        number: {time: state for time, state in shard.stops.items() if time <= 20 * PERIOD}
        for number, shard in world.shards.items()
    }


RATES = st.lists(st.sampled_from([STEP, 2 * STEP, PERIOD, 3 * STEP]), min_size=2, max_size=4)


@settings(deadline=None, max_examples=60)
@given(RATES, st.integers(0, 10**6))
def test_the_order_of_work_and_delivery_changes_nothing(rates: list[int], seed: int) -> None:
    expected = states(0, len(rates), rates)
    assert states(seed, len(rates), rates) == expected
    assert sorted(expected[1]) == [0, *range(STEP, 20 * PERIOD, PERIOD)], "one exchange in each period"


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_a_reset_starts_over_for_all(seed: int) -> None:
    choose = random.Random(seed)
    world = World(3)
    world.run(choose, until=5 * PERIOD + STEP)
    leader = world.shards[1]
    leader.reset(0)
    world.run(choose, until=10 * PERIOD + STEP)
    expected = states(1, 3, ())
    for number, shard in world.shards.items():
        assert {time: shard.stops[time] for time in shard.stops if time <= 9 * PERIOD} == {
            time: state for time, state in expected[number].items() if time <= 9 * PERIOD
        }


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_a_reset_may_keep_time(seed: int, count: int) -> None:
    choose = random.Random(seed)
    world = World(2)
    world.run(choose, until=STEP)
    world.shards[1].end = world.shards[1].now + count * STEP
    world.run(choose, until=world.shards[1].end)
    world.shards[1].end = None
    world.shards[1].reset(world.shards[1].now)
    start = world.shards[1].now
    world.run(choose, until=start + 3 * PERIOD + STEP)
    assert [time for time in world.shards[2].stops if time >= start][:3] == [
        start,
        start + STEP,
        start + STEP + PERIOD,
    ]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_requested_steps_end_at_the_same_time_for_all(seed: int, steps: int) -> None:
    choose = random.Random(seed)
    world = World(3)
    world.run(choose, until=2 * PERIOD + STEP)
    leader = world.shards[1]
    end = leader.end = leader.now + steps * STEP
    world.run(choose, until=end)
    assert {shard.now for shard in world.shards.values()} == {end}
    for _ in range(100):
        for shard in world.shards.values():
            shard.deliver(choose)
    assert leader.lockstep.is_complete(end)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(0, 12))
def test_others_go_on_without_a_shard_that_dies_and_it_takes_part_again(seed: int, count: int) -> None:
    choose = random.Random(seed)
    world = World(3)
    world.run(choose, until=count * PERIOD + STEP)
    world.kill(3)
    with pytest.raises(AssertionError):
        world.run(choose, until=(count + 5) * PERIOD + STEP, rounds=300)
    assert not world.reports
    world.wall += TIMEOUT - 1.0
    with pytest.raises(AssertionError):
        world.run(choose, until=(count + 5) * PERIOD + STEP, rounds=100)
    world.wall += 1.0
    world.run(choose, until=(count + 5) * PERIOD + STEP)
    lost = [text for text in world.reports if text.startswith("shard 3 has not reached")]
    assert len(lost) == 1, "reported once"
    world.start(3)
    world.run(choose, until=(count + 12) * PERIOD + STEP)
    assert world.shards[3].now == world.shards[1].now
    assert any("shard 3 takes part again" in text for text in world.news)


def test_a_shard_that_hangs_catches_up() -> None:
    choose = random.Random(1)
    world = World(3)
    world.run(choose, until=5 * PERIOD + STEP)
    hung = world.shards.pop(3)
    hung.queues.clear()
    with pytest.raises(AssertionError):
        world.run(choose, until=30 * PERIOD + STEP, rounds=300)
    world.wall += TIMEOUT
    world.run(choose, until=30 * PERIOD + STEP)
    world.shards[3] = hung
    assert world.latest is not None
    hung.queues[1] = deque([world.latest[1]])
    world.run(choose, until=40 * PERIOD + STEP)
    assert hung.now == world.shards[1].now
    exchanged = [time for time in hung.stops if time > 30 * PERIOD]
    assert len(exchanged) >= 8, "it exchanges poses again"


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_followers_stand_still_without_a_leader_and_start_over_with_the_next(seed: int, count: int) -> None:
    choose = random.Random(seed)
    world = World(3)
    world.run(choose, until=count * PERIOD + STEP)
    world.kill(1)
    with pytest.raises(AssertionError):
        world.run(choose, until=(count + 30) * PERIOD + STEP, rounds=300)
    stood = {number: shard.now for number, shard in world.shards.items()}
    world.wall += TIMEOUT + 1
    for _ in range(3):
        for shard in world.shards.values():
            shard.deliver(choose)
            shard.work(10**12)
    assert {number: shard.now for number, shard in world.shards.items()} == stood
    assert sum("the leader has been silent" in text for text in world.reports) == 2, "each reports it once"
    world.start(1)
    world.run(choose, until=4 * PERIOD + STEP)
    assert all(shard.now < 6 * PERIOD for shard in world.shards.values())
    assert sum("the leader is back" in text for text in world.news) == 2


def test_a_shard_that_leaves_is_not_waited_for() -> None:
    choose = random.Random(3)
    world = World(3)
    world.run(choose, until=3 * PERIOD + STEP)
    world.shards[3].lockstep.close()
    world.kill(3)
    world.run(choose, until=8 * PERIOD + STEP)
    assert "shard 3 has left" in world.news
    assert not world.reports


def test_messages_of_strangers_say_nothing() -> None:
    world = World(2)
    leader = world.shards[1].lockstep
    assert isinstance(leader, LockstepLeader)
    for number in (0, 1, 3, -5):
        leader.receive(ShardReport(number, Epoch(world.session, 0), 0))
    leader.receive(ShardReport(2, Epoch(world.session + 7, 0), 10**9))
    assert leader.members == (1, 2)
    assert leader.next_ns(0, STEP, None) is None


def test_a_shard_that_was_never_there_is_waited_for_longer() -> None:
    choose = random.Random(4)
    world = World(2)
    world.kill(2)
    for wall in (0.0, TIMEOUT + 1.0, JOIN_S - 1.0):
        world.wall = wall
        with pytest.raises(AssertionError):
            world.run(choose, until=PERIOD + STEP, rounds=50)
    world.wall = JOIN_S
    world.run(choose, until=PERIOD + STEP)
    assert len(world.reports) == 1
    assert world.news == ["time waits for shard 2"]


def test_a_follower_says_that_it_waits_for_the_leader() -> None:
    world = World(2)
    world.kill(1)
    follower = world.start(2)
    world.latest = None
    follower.queues.clear()
    for wall in (1.0, 3.0, 5.0):
        world.wall = wall
        follower.work(10**9)
    assert world.news == ["time waits for the leader"]
    world.wall = JOIN_S + 3.0
    follower.work(10**9)
    assert len(world.reports) == 1


def test_a_bridge_alone_ticks_when_it_wants() -> None:
    free = FreeRunning()
    assert free.next_ns(0, STEP, None) == STEP
    assert free.next_ns(STEP, STEP, None) is None
    assert free.is_complete(STEP)
