"""Shards in lockstep in processes of their own: what is killed at any moment stops nobody, and takes part again."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mujoco", reason="mujoco is not installed")

from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from builders.carts import write_sliders
from effort import examples
from programs import Program

NODE = (sys.executable, "-m", "usd_ros_bridge.ros.node")
CLOCK_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
SHARDS = 3
START_S = 90.0
KILLS = examples(2)
"""How often each of leader and followers is killed."""


pytestmark = pytest.mark.timeout(300)


def seconds(stamp: Any) -> float:
    return float(stamp.sec + stamp.nanosec * 1e-9)


class Fleet:
    """Processes of shards, and what they publish.

    Attributes:
        clock: Latest time on /clock, s.
        stamps: Latest stamp of each shard's joint states, s.
        lockstep_timeout: How long the shards that are started wait for one that hangs, s.
    """

    def __init__(self, harness: Any, asset: Path, stack: ExitStack, folder: Path) -> None:
        self.harness, self.asset, self.stack, self.folder = harness, asset, stack, folder
        self.lockstep_timeout = 1.0
        self.clock = -1.0
        self.stamps = dict.fromkeys(range(1, SHARDS + 1), -1.0)
        self.programs: dict[int, Program] = {}
        harness.node.create_subscription(Clock, "/clock", self._take_clock, CLOCK_QOS)
        for number in self.stamps:
            harness.node.create_subscription(
                JointState,
                f"/robot_{number}/joint_states",
                lambda message, number=number: self._take_states(number, message),
                10,
            )

    def start(self, number: int) -> None:
        parameters = {
            "asset": str(self.asset),
            "backend": "mujoco",
            "backend_options": "['gl=none']",
            "shard": f"{number}/{SHARDS}",
            "other_robots": "obstacles",
            "lockstep": "leader" if number == 1 else "follower",
            "lockstep_timeout": str(self.lockstep_timeout),
            "publish_description": "false",
        }
        command = [*NODE, "--ros-args", "-r", f"__node:=shard_{number}"]
        for name, value in parameters.items():
            command += ["-p", f"{name}:={value}"]
        program = self.programs[number] = Program(command, cwd=self.folder)
        self.stack.callback(program.kill)

    def kill(self, number: int) -> None:
        self.programs[number].process.send_signal(signal.SIGKILL)
        self.programs[number].process.wait(10.0)

    def wait_for(self, condition: Any, what: str) -> None:
        try:
            self.harness.wait_for(condition, timeout=START_S, what=what)
        except BaseException:
            for number, program in self.programs.items():
                print(f"--- shard {number}: {program.output[-2000:]}")
            print(f"clock {self.clock}, stamps {self.stamps}")
            raise

    def wait_until_together(self, after: float) -> None:
        """Wait until all shards publish states of about the same time, later than `after` seconds."""
        self.wait_for(
            lambda: (
                min(self.stamps.values()) > after
                and max(self.stamps.values()) - min(self.stamps.values()) < 0.2
            ),
            f"all shards after {after:.3f} s",
        )

    def pass_time(self, duration: float) -> None:
        start = self.clock
        self.wait_for(lambda: self.clock > start + duration, f"{duration:.3f} s of bridge time")

    def ask(self, name: str) -> Any:
        """Call a service without arguments, and return the response."""
        client = self.harness.node.create_client(Trigger, name)
        self.wait_for(client.service_is_ready, name)
        future = client.call_async(Trigger.Request())
        self.wait_for(future.done, f"an answer of {name}")
        return future.result()

    def _take_clock(self, message: Any) -> None:
        self.clock = seconds(message.clock)

    def _take_states(self, number: int, message: Any) -> None:
        self.stamps[number] = seconds(message.header.stamp)


@pytest.fixture
def fleet(request: pytest.FixtureRequest, ros_harness: Any, tmp_path: Path) -> Iterator[Fleet]:
    """Shards that have been started. A parameter is their `lockstep_timeout`."""
    asset = write_sliders(tmp_path, ((0.0, 0.0), (2.0, 0.0), (0.0, 3.0)))
    with ExitStack() as stack:
        running = Fleet(ros_harness, asset, stack, tmp_path)
        running.lockstep_timeout = getattr(request, "param", running.lockstep_timeout)
        for number in running.stamps:
            running.start(number)
        yield running


@pytest.mark.random
@pytest.mark.timeout(240 + 60 * KILLS)
def test_shards_that_are_killed_stop_nobody_else_and_take_part_again(fleet: Fleet) -> None:
    choose = random.Random(21)
    fleet.wait_until_together(0.1)
    for _ in range(KILLS):
        victim, other = choose.choice(((2, 3), (3, 2)))
        fleet.pass_time(choose.uniform(0.0, 0.3))
        fleet.kill(victim)
        fleet.wait_for(
            lambda later=fleet.clock + 0.5, other=other: min(fleet.clock, fleet.stamps[other]) > later,
            "time without the victim",
        )
        fleet.wait_for(
            lambda victim=victim: f"shard {victim} has not reached" in fleet.programs[1].output,
            "the leader's report",
        )
        fleet.start(victim)
        fleet.wait_until_together(fleet.clock)
        fleet.wait_for(
            lambda victim=victim: f"shard {victim} takes part again" in fleet.programs[1].output,
            "news of the victim",
        )


@pytest.mark.random
@pytest.mark.timeout(240 + 60 * KILLS)
def test_followers_stand_still_without_their_leader_and_start_over_with_the_next(fleet: Fleet) -> None:
    choose = random.Random(22)
    fleet.wait_until_together(0.1)
    for _ in range(KILLS):
        fleet.pass_time(choose.uniform(2.0, 2.5))
        fleet.kill(1)
        for number in (2, 3):
            fleet.wait_for(
                lambda number=number: "the leader has been silent" in fleet.programs[number].output,
                "a report",
            )
        stood = max(fleet.stamps.values())
        assert fleet.ask("/shard_2/reload").success, "services of a shard that waits answer"
        assert fleet.stamps[2] == pytest.approx(fleet.stamps[3], abs=0.03)
        fleet.start(1)
        fleet.wait_for(lambda stood=stood: max(fleet.stamps.values()) < stood - 0.5, "time that starts over")
        fleet.wait_until_together(0.1)
    for number in (2, 3):
        assert fleet.programs[number].process.poll() is None, "it is the process of the start"
        fleet.wait_for(lambda number=number: "the leader is back" in fleet.programs[number].output, "news")


# A shard that only gets no time to run for a second or two is not to be reported.
@pytest.mark.parametrize("fleet", [60.0], indirect=True)
def test_a_shard_that_closes_is_not_waited_for(fleet: Fleet) -> None:
    fleet.wait_until_together(0.1)
    assert fleet.programs[3].interrupt() == 0
    fleet.pass_time(0.5)
    assert fleet.stamps[2] > 0.1
    fleet.wait_for(lambda: "shard 3 has left" in fleet.programs[1].output, "news")
    assert "has not reached" not in fleet.programs[1].output
    assert fleet.programs[1].interrupt() == 0
    assert fleet.programs[2].interrupt() == 0
