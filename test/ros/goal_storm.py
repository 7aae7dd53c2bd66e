"""A storm of goals: one after another, with random cancellations, preemptions and clients killed in the middle.

The bridge runs in a process of its own, which tells how much of what it holds; so do the clients that are killed.
`python test/ros/goal_storm.py --goals 1000` prints what came of it as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import random
import selectors
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "support"), str(HERE.parents[2])]

LOOPBACK_UDP = HERE.parents[2] / "config" / "fastdds_loopback_udp.xml"
SHORT_LEASE = HERE.with_name("short_lease.xml")
"""Peers forget who is killed soon after, and let go of what they kept for it."""

TF_RATE = 50.0
WEIGHTS = {"finish": 5, "cancel": 3, "preempt": 2}
RESULT_TIMEOUT_S = 2
"""How long the bridge keeps results here: the storm waits for their end twice."""
DISCOVERY_S = 0.5
LEASE_S = 3.0
"""How long after its death a client's lease ends, as short_lease.xml says."""
TERMINAL = frozenset({4, 5, 6})
"""action_msgs/msg/GoalStatus: SUCCEEDED, CANCELED, ABORTED."""


@dataclass(kw_only=True)
class Held:
    """What the bridge's process holds, after a collection of garbage.

    Attributes:
        rss: Resident memory, bytes.
        blocks: Python's memory blocks.
        threads: Threads of the process, those of the middleware included.
        descriptors: Open file descriptors.
        entities: Publishers, subscriptions, services, clients and waitables of its nodes.
        goals: Goals that anything still refers to.
    """

    rss: int
    blocks: int
    threads: int
    descriptors: int
    entities: int
    goals: int


@dataclass(kw_only=True)
class Storm:
    """What came of a storm.

    Attributes:
        goals: How many were accepted, those of killed clients included.
        asked: What was done to goals, by kind.
        outcomes: How many ended how, by GoalStatus.
        unfinished: Goals that the bridge's status never showed as ended.
        changed: Goals whose terminal status changed.
        unanswered: Goals whose client, alive, never got the result.
        longest_gap: Longest time between stamps on /tf, seconds, and the period.
        period: Of /tf.
        seconds: How long it took.
        before: What the bridge held after the first goals had expired.
        after: What it holds after the last have.
        warnings: What the bridge reported.
    """

    goals: int = 0
    asked: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    unfinished: int = 0
    changed: int = 0
    unanswered: int = 0
    longest_gap: float = 0.0
    period: float = 1.0 / TF_RATE
    seconds: float = 0.0
    before: Held | None = None
    after: Held | None = None
    warnings: list[str] = field(default_factory=list)


# --- The bridge's process --------------------------------------------------------------------------------------------


def serve() -> None:
    """Runs a bridge; answers each line on stdin with what it holds."""
    from action_plans import arm_with_follower

    from usd_ros_bridge import Bridge, BridgeOptions
    from usd_ros_bridge.ros.endpoints import goal_server

    goal_server.RESULT_TIMEOUT_S = RESULT_TIMEOUT_S
    reports: list[str] = []
    bridge = Bridge(
        arm_with_follower(),
        options=BridgeOptions(tf_rate=TF_RATE, publish_unmatched=True),
        report=lambda kind, message: reports.append(f"{kind}: {message}"),
    ).open()
    spin = threading.Thread(target=bridge.spin)
    spin.start()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        print(json.dumps({"held": asdict(_held(bridge)), "reports": reports}), flush=True)
    bridge.close()
    spin.join(60.0)


def _held(bridge: Any) -> Held:
    from rclpy.action.server import ServerGoalHandle

    from usd_ros_bridge.ros.endpoints.goal_server import LiveGoal

    for _ in range(3):
        gc.collect()
    # What was freed and is kept for later is no leak.
    ctypes.CDLL(None).malloc_trim(0)
    node = bridge.node
    groups = (node.publishers, node.subscriptions, node.services, node.clients, node.waitables, node.timers)
    status = Path("/proc/self/status").read_text(encoding="utf-8").split("VmRSS:")[1].split()[0]
    return Held(
        rss=int(status) * 1024,
        blocks=sys.getallocatedblocks(),
        threads=_count("/proc/self/task"),
        descriptors=_count("/proc/self/fd"),
        entities=sum(len(list(group)) for group in groups),
        goals=sum(isinstance(each, (LiveGoal, ServerGoalHandle)) for each in gc.get_objects()),
    )


def _count(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def victim() -> None:
    """Sends a goal whenever a line arrives on stdin, until it is killed."""
    from action_plans import NAME, goal
    from control_msgs.action import FollowJointTrajectory
    from rclpy.action import ActionClient

    with _node("victim") as (node, executor):
        client = ActionClient(node, FollowJointTrajectory, NAME)
        while not client.server_is_ready():
            executor.spin_once(timeout_sec=0.05)
        print(json.dumps({"ready": True}), flush=True)
        sys.stdin.readline()
        future = client.send_goal_async(goal(30.0, -0.9))
        while not future.done():
            executor.spin_once(timeout_sec=0.05)
        handle = future.result()
        handle.get_result_async()
        print(json.dumps({"accepted": handle.accepted}), flush=True)
        while True:
            executor.spin_once(timeout_sec=1.0)


# --- The storm -------------------------------------------------------------------------------------------------------


class Child:
    """A process of this module, spoken to line by line."""

    def __init__(self, role: str, *, profile: Path | None = None) -> None:
        from rclpy.utilities import get_rmw_implementation_identifier

        environment = dict(os.environ)
        # The ROS wheels' start-up marks the environment of processes that have been through it.
        environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
        if profile is not None:
            # Fast DDS 2, which Jazzy has, knows it by another name, of which 3 warns.
            name = "FASTRTPS" if int(version("rclpy").partition(".")[0]) < 8 else "FASTDDS"
            environment[f"{name}_DEFAULT_PROFILES_FILE"] = str(profile)
        if profile == LOOPBACK_UDP and get_rmw_implementation_identifier().startswith("rmw_fastrtps"):
            # The profile keeps Fast DDS to the loopback by itself; LOCALHOST would add shared memory to it.
            environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SYSTEM_DEFAULT"
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), "--role", role],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def read(self, timeout: float = 30.0) -> dict[str, Any]:
        """Reads one line."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                raise TimeoutError("a process of the storm says nothing")
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def tell(self, line: str) -> None:
        """Writes one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")

    def ask(self, line: str) -> dict[str, Any]:
        """Writes one line and reads the answer."""
        self.tell(line)
        return self.read()

    def kill(self) -> None:
        """Ends it in the middle of whatever it does."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


class Watch:
    """Looks at /tf and at the status of goals from outside."""

    def __init__(self, node: Any) -> None:
        from action_msgs.msg import GoalStatusArray
        from action_plans import NAME
        from rclpy.qos import QoSProfile, qos_profile_action_status_default
        from tf2_msgs.msg import TFMessage

        self.statuses: dict[bytes, int] = {}
        self.changed: set[bytes] = set()
        self.longest_gap = 0.0
        self.frames = 0
        self._last = 0.0
        self._seen: set[tuple[bytes, int]] = set()
        node.create_subscription(TFMessage, "/arm/tf", self._on_tf, QoSProfile(depth=1000))
        node.create_subscription(
            GoalStatusArray, f"{NAME}/_action/status", self._on_status, qos_profile_action_status_default
        )

    def _on_tf(self, message: Any) -> None:
        stamp = message.transforms[0].header.stamp
        seconds = stamp.sec + stamp.nanosec * 1e-9
        if self.frames:
            self.longest_gap = max(self.longest_gap, seconds - self._last)
        self._last = seconds
        self.frames += 1

    def _on_status(self, message: Any) -> None:
        for each in message.status_list:
            key = bytes(each.goal_info.goal_id.uuid)
            before = self.statuses.get(key)
            if before in TERMINAL and each.status != before:
                self.changed.add(key)
            self.statuses[key] = each.status

    @property
    def unfinished(self) -> int:
        """Goals that are not known to have ended."""
        return sum(status not in TERMINAL for status in self.statuses.values())


def storm(
    goals: int,
    *,
    seed: int = 0,
    kills: int | None = None,
    warm_up: int | None = None,
    shared_memory: bool = False,
) -> Storm:
    """Sends goals one after another.

    Args:
        goals: How many.
        seed: What is done to which goal.
        kills: How many clients are killed while a goal of theirs runs; one in fifty goals by default.
        warm_up: How many goals come before what the bridge holds is looked at first.
        shared_memory: Whether the bridge uses it: then Fast DDS may hold up all that the bridge sends for a third of a
            second after a client was killed, while it looks for life behind the client's shared memory.
    """
    rng = random.Random(seed)
    kills = max(1, goals // 50) if kills is None else kills
    warm_up = max(10, goals // 10) if warm_up is None else warm_up
    plan = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=goals - kills)
    for _ in range(kills):
        plan.insert(rng.randrange(min(5, len(plan)), len(plan) + 1), "kill")
    made = Storm(asked=dict(Counter(plan)))
    bridge = Child("serve", profile=None if shared_memory else LOOPBACK_UDP)
    begun = time.monotonic()
    try:
        bridge.read()
        with _node("storm") as (node, executor):
            sender = _Sender(node, executor, rng, made)
            # A client that is killed leaves its mark on the middleware, once.
            sender.run("kill")
            for kind in rng.choices(list(WEIGHTS), k=warm_up):
                sender.run(kind)
            made.before = sender.settle(bridge)
            for kind in plan:
                sender.run(kind)
            made.after = sender.settle(bridge)
            made.warnings = bridge.ask("held")["reports"]
            sender.close()
    finally:
        bridge.tell("quit")
        bridge.process.wait(100.0)
    made.seconds = time.monotonic() - begun
    return made


class _Sender:
    """Sends goals, and does to them what the storm wants."""

    def __init__(self, node: Any, executor: Any, rng: random.Random, made: Storm) -> None:
        from action_plans import NAME
        from control_msgs.action import FollowJointTrajectory
        from rclpy.action import ActionClient

        self._node = node
        self._executor = executor
        self._rng = rng
        self._made = made
        self._watch = Watch(node)
        self._client = ActionClient(node, FollowJointTrajectory, NAME)
        self._results: list[Any] = []
        self._wait(self._client.server_is_ready, "the server")
        self._wait(lambda: self._watch.frames > 0, "transforms")
        self._next = Child("victim", profile=SHORT_LEASE)

    def run(self, kind: str) -> None:
        """Sends one goal and sees it through."""
        if kind == "kill":
            self._kill()
            return
        handle = self._send(0.02 * self._rng.random() if kind == "finish" else 30.0)
        if kind == "preempt":
            result = self._results[-1]
            self._spin(0.02 * self._rng.random())
            self._send(0.01)
            self._wait(result.done, "the result of a goal that was preempted")
        elif kind == "cancel":
            self._spin(0.02 * self._rng.random())
            handle.cancel_goal_async()
        self._wait(self._results[-1].done, f"the result of a goal, {kind}")
        self._results = [each for each in self._results if not each.done()]

    def settle(self, bridge: Child) -> Held:
        """Waits until all goals have ended and all results have expired; returns what the bridge holds then."""
        watch = self._watch
        # The goals of clients that were killed run on until the next one.
        self._send(0.01)
        self._wait(lambda: all(each.done() for each in self._results), "the last result")
        self._wait(lambda: not watch.unfinished, "the end of all goals")
        longest_gap = watch.longest_gap
        self._spin(max(RESULT_TIMEOUT_S, LEASE_S) + 1.0)
        deadline = time.monotonic() + 20.0
        while (held := Held(**bridge.ask("held")["held"])).goals and time.monotonic() < deadline:
            self._spin(0.5)
        # A collection of all garbage holds the bridge up: that is the storm's doing.
        self._spin(0.2)
        watch.longest_gap = longest_gap
        made = self._made
        made.goals, made.unfinished, made.changed = len(watch.statuses), watch.unfinished, len(watch.changed)
        made.unanswered = len([each for each in self._results if not each.done()])
        made.outcomes = {
            name: sum(status == number for status in watch.statuses.values())
            for name, number in (("succeeded", 4), ("canceled", 5), ("aborted", 6))
        }
        made.longest_gap = watch.longest_gap
        return held

    def close(self) -> None:
        self._next.kill()
        self._client.destroy()

    def _send(self, seconds: float) -> Any:
        from action_plans import goal

        future = self._client.send_goal_async(goal(seconds, self._rng.uniform(-0.9, 0.9)))
        self._wait(future.done, "the answer to a goal")
        handle = future.result()
        assert handle.accepted
        self._results.append(handle.get_result_async())
        return handle

    def _kill(self) -> None:
        child, self._next = self._next, Child("victim", profile=SHORT_LEASE)
        child.read()
        # The middleware stops a server that answers a client it has not fully discovered, for a tenth of a second at
        # most, and with it all of Python.
        self._spin(DISCOVERY_S)
        answer = child.ask("go")
        assert answer == {"accepted": True}, answer
        self._spin(0.05 * self._rng.random())
        child.kill()

    def _spin(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            self._executor.spin_once(timeout_sec=left)

    def _wait(self, condition: Any, what: str, timeout: float = 20.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout:g} s for {what}")
            self._executor.spin_once(timeout_sec=0.05)


@contextlib.contextmanager
def _node(name: str) -> Iterator[tuple[Any, Any]]:
    import rclpy
    from rclpy.context import Context
    from rclpy.node import Node
    from rclpy.signals import SignalHandlerOptions

    from usd_ros_bridge.ros.compat import make_executor

    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node(name, context=context, enable_rosout=False, start_parameter_services=False)
    executor = make_executor(context)
    executor.add_node(node)
    try:
        yield node, executor
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()


def main() -> None:
    """Runs a storm, or one of its processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=("storm", "serve", "victim"), default="storm")
    parser.add_argument("--goals", type=int, default=1000)
    parser.add_argument("--kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shared-memory", action="store_true")
    options = parser.parse_args()
    if options.role == "storm":
        made = storm(
            options.goals, seed=options.seed, kills=options.kills, shared_memory=options.shared_memory
        )
        print(json.dumps(asdict(made), indent=2))
    else:
        {"serve": serve, "victim": victim}[options.role]()


if __name__ == "__main__":
    main()
