"""Handlers of actions: functions and coroutines follow goals beside the tick, and every client hears how it ended."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from action_msgs.msg import GoalStatus
from action_plans import ABORTED, CANCELED, SUCCEEDED, Client, arm_with_follower, goal, server
from control_msgs.action import FollowJointTrajectory, GripperCommand

from ros_plans import plan
from usd_ros_bridge.backends.base import Capabilities
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.errors import GoalAbortedError

NAME = "/arm/grip"
PATH = "/arm/grip_server"
Result = GripperCommand.Result


@pytest.fixture
def running(start):
    return start(plan(server(NAME, "control_msgs/action/GripperCommand")))


@pytest.fixture
def client(running, ros_harness):
    made = Client(ros_harness, GripperCommand, NAME)
    yield made
    made.close()


def grip(position=0.02):
    made = GripperCommand.Goal()
    made.command.position = position
    return made


def test_a_function_follows_a_goal_with_feedback(running, client, ros_harness):
    times, heard = [], threading.Event()

    def handle(goal):
        times.append(goal.time_ns)
        for number in range(3):
            goal.feedback(GripperCommand.Feedback(position=float(number)))
        # rclpy's clients drop feedback that comes in behind the status of a goal that has ended.
        heard.wait(60.0)
        return Result(position=goal.request.command.position, reached_goal=True)

    running.bridge.on_action(PATH, handle)
    sent = client.send(grip(0.03))
    ros_harness.wait_for(lambda: len(sent.feedback) == 3, what="feedback")
    heard.set()
    client.wait(sent)
    assert sent.status == SUCCEEDED
    assert (sent.result.position, sent.result.reached_goal) == (0.03, True)
    assert [each.position for each in sent.feedback] == [0.0, 1.0, 2.0]
    assert abs(times[0] - time.time_ns()) < 10e9
    # The client hears before the row says so.
    ros_harness.wait_for(lambda: running.row(NAME, "server").state == "idle", what="the row's state")


def test_a_coroutine_follows_a_goal(running, client):
    @running.bridge.on_action(NAME)
    async def handle(goal):
        await asyncio.sleep(0.01)
        return Result(position=goal.request.command.position)

    assert client.run(grip(0.01)).result.position == 0.01


def test_what_is_bound_when_a_goal_arrives_counts(running, client):
    assert not client.send(grip()).handle.accepted
    with running.bridge.on_action(PATH, lambda _: Result(stalled=True)):
        assert client.run(grip()).result.stalled
    assert not client.send(grip()).handle.accepted


def test_a_handler_goes_before_the_controller(start, ros_harness):
    running = start(arm_with_follower())
    client = Client(ros_harness)
    with running.bridge.on_action("/arm/follow", lambda _: FollowJointTrajectory.Result(error_string="mine")):
        assert client.run(goal(30.0)).result.error_string == "mine"
    assert client.run(goal(0.05)).result.error_string != "mine"
    client.close()


def test_a_canceled_coroutine_cleans_up_and_says_how_far_it_came(running, client):
    begun = threading.Event()

    @running.bridge.on_action(PATH)
    async def handle(goal):
        begun.set()
        try:
            await asyncio.sleep(30.0)
        except asyncio.CancelledError:
            assert goal.cancel_requested
            await asyncio.sleep(0.01)
            return Result(position=0.5)

    sent = client.send(grip())
    assert begun.wait(60.0)
    assert len(client.cancel(sent).goals_canceling) == 1
    assert client.wait(sent).status == CANCELED
    assert sent.result.position == 0.5


def test_a_coroutine_need_not_know_of_cancellation(running, client):
    @running.bridge.on_action(PATH)
    async def handle(goal):
        await asyncio.sleep(30.0)

    sent = client.send(grip())
    client.cancel(sent)
    assert client.wait(sent).status == CANCELED
    assert not running.warnings.faults


def test_a_function_sees_that_it_is_to_end(running, client):
    begun = threading.Event()

    def handle(goal):
        begun.set()
        deadline = time.monotonic() + 60.0
        while not goal.cancel_requested and time.monotonic() < deadline:
            time.sleep(0.005)
        return Result(stalled=True)

    running.bridge.on_action(PATH, handle)
    sent = client.send(grip())
    assert begun.wait(60.0)
    client.cancel(sent)
    assert client.wait(sent).status == CANCELED
    assert sent.result.stalled


def test_a_goal_that_waits_for_a_thread_is_canceled_at_once(running, client, ros_harness):
    turn, begun = threading.Semaphore(0), []

    def handle(goal):
        begun.append(goal)
        turn.acquire(timeout=100.0)
        return Result()

    running.bridge.on_action(PATH, handle, concurrent=100)
    sent = [client.send(grip()) for _ in range(33)]
    assert len(client.cancel(sent[-1]).goals_canceling) == 1
    assert client.wait(sent[-1]).status == CANCELED
    # An accepted goal's thread may be slower than the answer to its client.
    ros_harness.wait_for(lambda: len(begun) == 32, what="the goals that have a thread")
    for left in range(32, 0, -1):
        # One by one: a client keeps ten answers that it has not read.
        turn.release()
        client.wait_for_one(sent)
        assert sum(not each.done for each in sent) == left - 1
    assert {each.status for each in sent[:-1]} == {SUCCEEDED}
    assert len(begun) == 32
    assert not running.warnings.faults


def test_an_exception_aborts_the_goal_and_is_reported(running, client):
    def handle(goal):
        raise ValueError("no such finger")

    running.bridge.on_action(PATH, handle)
    sent = client.run(grip())
    assert (sent.status, sent.result) == (ABORTED, Result())
    assert running.warnings.containing(NAME, "aborted", "ValueError: no such finger")


def test_a_handler_aborts_with_a_result_of_its_own(running, client):
    def handle(goal):
        raise GoalAbortedError("stuck", Result(stalled=True))

    running.bridge.on_action(PATH, handle)
    sent = client.run(grip())
    assert (sent.status, sent.result.stalled) == (ABORTED, True)
    assert not running.warnings.faults


def test_anything_but_a_result_aborts_the_goal(running, client):
    running.bridge.on_action(PATH, lambda _: "done")
    assert client.run(grip()).status == ABORTED
    assert running.warnings.containing("returned str, no Result")


def test_a_handler_has_so_much_time(running, client):
    seen = threading.Event()

    def handle(goal):
        deadline = time.monotonic() + 60.0
        while not goal.cancel_requested and time.monotonic() < deadline:
            time.sleep(0.005)
        seen.set()
        return Result(stalled=True)

    running.bridge.on_action(PATH, handle, timeout=0.2)
    sent = client.run(grip())
    assert (sent.status, sent.result.stalled) == (ABORTED, False)
    assert running.warnings.containing(NAME, "aborted", "0.2 s")
    assert seen.wait(60.0)


def test_goals_are_accepted_by_the_users_choice(running, client):
    def accept(request):
        return True if request.command.position < 0.04 else "it opens no further"

    running.bridge.on_action(PATH, lambda _: Result(), accept=accept)
    assert client.run(grip(0.03)).status == SUCCEEDED
    assert not client.send(grip(0.05)).handle.accepted
    assert running.warnings.containing("rejected", "it opens no further")
    running.bridge.on_action(PATH, lambda _: Result(), accept=lambda _: 1 // 0)
    assert not client.send(grip()).handle.accepted
    assert running.warnings.containing("raised ZeroDivisionError")


def test_several_goals_run_at_once_where_the_user_wants_it(running, client):
    barrier = threading.Barrier(2, timeout=60.0)

    def handle(goal):
        barrier.wait()
        return Result(position=goal.request.command.position)

    running.bridge.on_action(PATH, handle, concurrent=2)
    first, second = client.send(grip(0.01)), client.send(grip(0.02))
    assert (client.wait(first).result.position, client.wait(second).result.position) == (0.01, 0.02)


def test_one_goal_more_than_that_is_rejected(running, client):
    ended = threading.Event()
    running.bridge.on_action(PATH, lambda _: (ended.wait(60.0), Result())[1])
    first = client.send(grip())
    assert not client.send(grip()).handle.accepted
    ended.set()
    assert client.wait(first).status == SUCCEEDED
    assert client.run(grip()).status == SUCCEEDED


def test_closing_ends_what_handlers_follow(running, client, ros_harness):
    begun, cancelled = threading.Event(), threading.Event()

    @running.bridge.on_action(PATH)
    async def handle(goal):
        begun.set()
        try:
            await asyncio.sleep(30.0)
        finally:
            cancelled.set()

    sent = client.send(grip())
    assert begun.wait(60.0)
    running.close()
    assert cancelled.wait(60.0)
    ros_harness.wait_for(lambda: sent.done, what="the result of a goal whose server closed")
    assert sent.status in (ABORTED, GoalStatus.STATUS_UNKNOWN)
    assert not running.warnings.containing("raised")


class FollowingBackend(KinematicBackend):
    """Follows the goals of one action."""

    def __init__(self):
        super().__init__()
        self.heard = threading.Event()

    @property
    def capabilities(self):
        return Capabilities(kinematic=True, actions=frozenset({PATH}))

    def execute(self, prim, goal):
        assert prim == PATH
        if goal.request.command.position < 0.0:
            raise RuntimeError("that way is shut")
        goal.feedback(GripperCommand.Feedback(position=1.0))
        self.heard.wait(60.0)
        return Result(position=goal.request.command.position, reached_goal=True)


def test_the_backend_follows_goals_after_the_embedder(start, ros_harness):
    backend = FollowingBackend()
    running = start(plan(server(NAME, "control_msgs/action/GripperCommand")), backend)
    client = Client(ros_harness, GripperCommand, NAME)
    assert running.row(NAME, "server").served_by == "backend"
    sent = client.send(grip(0.04))
    ros_harness.wait_for(lambda: len(sent.feedback) == 1, what="feedback")
    backend.heard.set()
    client.wait(sent)
    assert (sent.status, sent.result.position) == (SUCCEEDED, 0.04)
    assert client.run(grip(-1.0)).status == ABORTED
    assert running.warnings.containing("that way is shut")
    with running.bridge.on_action(PATH, lambda _: Result(stalled=True)):
        assert running.row(NAME, "server").served_by == "embedder"
        assert client.run(grip()).result.stalled
    client.close()
