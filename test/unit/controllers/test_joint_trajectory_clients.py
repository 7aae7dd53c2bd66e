"""Whatever clients and operators do in whatever order: every goal ends exactly once, and commands stay finite."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from trajectory_bench import TICK, Bench, Port, S, arm, goal, trajectory

from usd_ros_bridge.model.goals import JointTolerance, TrajectorySample

seconds = st.sampled_from([0.0, 0.05, 0.3, 2.0])
places = st.lists(st.floats(-20.0, 20.0), min_size=3, max_size=3)
stamps = st.sampled_from([None, -S // 10, 0, S // 10])
joints = st.integers(0, 2)


class Clients(RuleBasedStateMachine):
    """An arm with a joint of each kind, whose controller gives a goal three seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(arm(("revolute", "continuous", "prismatic")), timeout=3.0)
        self.ports: list[Port] = []
        self.active = True

    def somewhere(self, time: float, place: list[float], stamp: int | None) -> TrajectorySample:
        return trajectory([time], [place], stamp_ns=0 if stamp is None else self.bench.now + stamp)

    def start(self, sample: TrajectorySample) -> None:
        wish = goal(sample, end=[JointTolerance(name="elbow", position=0.1)], goal_time=0.2)
        self.ports.append(Port())
        self.bench.group.start(0, wish, self.ports[-1], time_ns=self.bench.now + TICK, state=self.bench.state)

    @rule(time=seconds, place=places, stamp=stamps)
    def send_a_goal(self, time: float, place: list[float], stamp: int | None) -> None:
        self.start(self.somewhere(time, place, stamp))

    @rule()
    def send_a_faulty_goal(self) -> None:
        self.start(trajectory([1.0], [[np.nan] * 3]))
        assert self.ports[-1].outcome == "aborted"

    @precondition(lambda self: self.active)
    @rule(time=seconds, place=places, stamp=stamps)
    def publish(self, time: float, place: list[float], stamp: int | None) -> None:
        self.bench.receive(self.somewhere(time, place, stamp))

    @precondition(lambda self: self.ports)
    @rule(which=st.integers(0, 3))
    def cancel(self, which: int) -> None:
        port = self.ports[-1 - which % len(self.ports)]
        unfinished = not port.ends
        self.bench.group.cancel(0, port)
        assert not unfinished or port.outcome == "canceled"

    @rule(active=st.booleans())
    def switch(self, active: bool) -> None:
        self.active = active
        self.bench.group.set_active(0, active, time_ns=self.bench.now, state=self.bench.state)

    @rule()
    def reset(self) -> None:
        self.bench.group.reset()
        assert not self.bench.group.busy

    @rule(joint=joints)
    def lose_or_find_a_joint(self, joint: int) -> None:
        self.bench.unmeasured ^= {int(self.bench.rows[joint])}

    @rule(joint=joints)
    def block_or_free_a_joint(self, joint: int) -> None:
        self.bench.stuck ^= {int(self.bench.rows[joint])}

    @rule(count=st.sampled_from([1, 2, 10, 40]))
    def tick(self, count: int) -> None:
        for _ in range(count):
            before = self.bench.true_position.copy()
            self.bench.tick()
            assert np.isfinite(self.bench.true_position).all()
            commanded = ~np.isnan(self.bench.command)
            assert np.isfinite(self.bench.velocity_command[commanded]).all()
            turned = self.bench.true_position[self.bench.rows[1]] - before[self.bench.rows[1]]
            assert abs(turned) <= np.pi + 1e-6, "the joint that turns never jumps by a turn"

    @invariant()
    def one_goal_at_a_time(self) -> None:
        unfinished = [port for port in self.ports if not port.ends]
        assert len(unfinished) <= 1
        assert not unfinished or self.bench.group.busy

    def teardown(self) -> None:
        self.bench.tick(400)
        assert all(len(port.ends) == 1 for port in self.ports), "the time-out ends what nothing else does"
        assert not self.bench.group.busy


Clients.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestClients = Clients.TestCase
