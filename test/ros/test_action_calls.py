"""Goals sent by a bridge: results, feedback, cancellation, and clear words where there is nobody to follow them."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from action_plans import ActionPlan
from control_msgs.action import GripperCommand
from rclpy.action import ActionServer, CancelResponse, GoalResponse

from ros_plans import plan
from usd_ros_bridge.errors import BridgeError, CallTimeoutError

NAME = "/there/grip"
CLIENT = ActionPlan(path="/arm/grip", role="client", name=NAME, type="control_msgs/action/GripperCommand")


@pytest.fixture
def running(start):
    return start(plan(CLIENT))


class Server:
    """A server elsewhere, which ends goals when it is told to.

    Where a goal is to succeed, that is not before `heard` is set.
    """

    def __init__(self, harness, accept=True):
        self.handles = []
        self.heard = threading.Event()
        self.heard.set()
        self.server = ActionServer(
            harness.node,
            GripperCommand,
            NAME,
            self._execute,
            goal_callback=lambda _: GoalResponse.ACCEPT if accept else GoalResponse.REJECT,
            handle_accepted_callback=self.handles.append,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )

    def close(self):
        server, self.server = self.server, None
        if server is not None:
            server.destroy()

    def _execute(self, handle):
        if handle.is_cancel_requested:
            handle.canceled()
        elif handle.request.command.position < 0.0:
            handle.abort()
        else:
            # Feedback and result are two topics: feedback that comes in behind the result is dropped.
            deadline = time.monotonic() + 60.0
            handle.publish_feedback(GripperCommand.Feedback(position=0.25))
            while not self.heard.wait(0.5) and time.monotonic() < deadline:
                handle.publish_feedback(GripperCommand.Feedback(position=0.25))
            handle.succeed()
        return GripperCommand.Result(position=handle.request.command.position)


@pytest.fixture
def serve(ros_harness):
    servers = []

    def make(**options):
        servers.append(Server(ros_harness, **options))
        return servers[-1]

    yield make
    for each in servers:
        each.close()


def finish(ros_harness, served, call):
    ros_harness.wait_for(lambda: bool(served.handles), what="a goal")
    served.handles[0].execute()
    ros_harness.wait_for(call.done, what="the end of a call")
    return call.result()


def test_a_goal_is_sent_and_its_result_comes_back(running, serve, ros_harness):
    served, feedback = serve(), []
    served.heard.clear()

    def hear(message):
        feedback.append(message)
        served.heard.set()

    call = running.bridge.call(NAME, {"command": {"position": 0.5}}, feedback=hear)
    answer = finish(ros_harness, served, call)
    assert (answer.status, answer.result.position) == ("succeeded", 0.5)
    assert feedback
    assert feedback[0].position == 0.25
    # Who waits for the call hears before the row says so.
    ros_harness.wait_for(lambda: running.row(NAME, "client").state == "idle", what="the row's state")
    row = running.row(NAME, "client")
    assert (row.count, row.errors, row.state, row.matched) == (1, 0, "idle", 1)


def test_an_aborted_goal_is_no_exception(running, serve, ros_harness):
    served = serve()
    answer = finish(ros_harness, served, running.bridge.call("/arm/grip", {"command": {"position": -1.0}}))
    assert (answer.status, answer.result.position) == ("aborted", -1.0)


def test_a_goal_is_awaited_in_any_event_loop(running, serve, ros_harness):
    served, answers = serve(), []

    async def ask():
        answers.append(await running.bridge.call(NAME, GripperCommand.Goal()))

    thread = threading.Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    ros_harness.wait_for(lambda: bool(served.handles), what="a goal")
    served.handles[0].execute()
    ros_harness.wait_for(lambda: bool(answers), what="the answer")
    thread.join(60.0)
    assert answers[0].status == "succeeded"


def test_a_call_that_is_given_up_cancels_the_goal(running, serve, ros_harness):
    served = serve()
    call = running.bridge.call(NAME, GripperCommand.Goal())
    ros_harness.wait_for(lambda: bool(served.handles), what="a goal")
    call.cancel()
    ros_harness.wait_for(lambda: served.handles[0].is_cancel_requested, what="the cancellation")
    assert finish(ros_harness, served, call).status == "canceled"


def test_a_rejected_goal_is_an_error_that_says_so(running, serve, ros_harness):
    serve(accept=False)
    call = running.bridge.call(NAME, GripperCommand.Goal())
    ros_harness.wait_for(call.done, what="the end of a call")
    with pytest.raises(BridgeError, match=f"action {NAME} .*rejected the goal"):
        call.result()
    # Who waits for the call hears before it is counted.
    ros_harness.wait_for(lambda: running.row(NAME, "client").errors == 1, what="the count")


def test_absence_of_a_server_names_action_type_and_seconds(running):
    call = running.bridge.call(NAME, GripperCommand.Goal(), timeout=0.3)
    with pytest.raises(
        CallTimeoutError, match=f"action {NAME} .control_msgs/action/GripperCommand.: no server within 0.3 s"
    ):
        call.result(60.0)


def test_a_goal_that_takes_too_long_is_canceled(running, serve, ros_harness):
    served = serve()
    # The time begins with the call: discovery would be part of it.
    ros_harness.wait_for(lambda: running.row(NAME, "client").matched == 1, what="the server")
    call = running.bridge.call(NAME, GripperCommand.Goal(), timeout=2.0)
    ros_harness.wait_for(lambda: bool(served.handles), what="a goal")
    ros_harness.wait_for(call.done, what="the end of a call")
    with pytest.raises(CallTimeoutError, match="no result within 2 s"):
        call.result()
    ros_harness.wait_for(lambda: served.handles[0].is_cancel_requested, what="the cancellation")


def test_a_server_that_goes_away_ends_the_call(running, serve, ros_harness):
    served = serve()
    call = running.bridge.call(NAME, GripperCommand.Goal())
    ros_harness.wait_for(lambda: bool(served.handles), what="a goal")
    served.close()
    ros_harness.wait_for(call.done, what="the end of a call")
    with pytest.raises(BridgeError, match="went away"):
        call.result()


def test_closing_fails_calls_in_progress(running):
    call = running.bridge.call(NAME, GripperCommand.Goal(), timeout=30.0)
    running.close()
    with pytest.raises(BridgeError, match="closed"):
        call.result(60.0)
