"""What becomes of a goal whose end, cancellation and feedback meet: exactly one terminal state, and one result."""

from __future__ import annotations

from collections import deque

import pytest
from action_plans import ABORTED, CANCELED, SUCCEEDED, Client, goal
from control_msgs.action import FollowJointTrajectory
from rclpy.action import GoalResponse
from rclpy.node import Node

from usd_ros_bridge.model.goals import FollowTrajectoryResult
from usd_ros_bridge.ros.codecs import ACTIONS
from usd_ros_bridge.ros.endpoints.goal_server import ControllerGoalPort, GoalServer, LiveGoal

NAME = "/goals"
RESULT = FollowJointTrajectory.Result(error_string="done")


class Rig:
    """A server whose deferred jobs run when the test says so."""

    def __init__(self, harness):
        self.node = Node("goals", context=harness.context, enable_rosout=False)
        harness.executor.add_node(self.node)
        self.jobs = deque()
        self.live = {}
        self.ended = []
        self.reports = []
        self.server = GoalServer(
            self.node,
            FollowJointTrajectory,
            NAME,
            on_goal=lambda _: GoalResponse.ACCEPT,
            start=self._start,
            on_cancel=self._cancel,
        )
        self.client = Client(harness, FollowJointTrajectory, NAME)
        self._harness = harness

    def defer(self, job, *, urgent=True):  # noqa: ARG002 - as of Domain
        self.jobs.append(job)

    def run_jobs(self):
        for _ in range(len(self.jobs)):
            self.jobs.popleft()()

    def accept(self):
        sent = self.client.send(goal(1.0))
        key = bytes(sent.handle.goal_id.uuid)
        self._harness.wait_for(
            lambda: key in self.live and key in self.server.result_requests, what="the goal"
        )
        return sent, self.live[key]

    def _start(self, handle):
        live = LiveGoal(
            self.server,
            handle,
            self,
            path="/goals",
            report=lambda *each: self.reports.append(each),
            ended=self.ended.append,
        )
        self.live[live.key] = live

    def _cancel(self, handle):
        self.live[bytes(handle.goal_id.uuid)].cancel_requested = True

    def close(self):
        self.client.close()
        self.server.destroy()
        self._harness.executor.remove_node(self.node)
        self.node.destroy_node()


@pytest.fixture
def rig(ros_harness):
    made = Rig(ros_harness)
    yield made
    made.close()


def test_a_goal_that_ends_while_it_is_canceled_ends_as_it_did(rig):
    sent, live = rig.accept()
    assert live.finish("succeeded", RESULT)
    assert len(rig.client.cancel(sent).goals_canceling) == 1
    assert live.handle.is_cancel_requested
    rig.run_jobs()
    assert rig.client.wait(sent).status == SUCCEEDED
    assert sent.result.error_string == "done"
    assert rig.ended == [live]
    assert not rig.reports


def test_only_the_first_end_counts(rig):
    sent, live = rig.accept()
    assert live.finish("aborted", RESULT)
    assert not live.finish("succeeded", FollowJointTrajectory.Result())
    live.finish_now("canceled", FollowJointTrajectory.Result())
    rig.run_jobs()
    assert (rig.client.wait(sent).status, sent.result.error_string) == (ABORTED, "done")
    assert rig.ended == [live]


def test_a_cancellation_is_waited_for_where_it_is_under_way_in_another_thread(rig):
    sent, live = rig.accept()
    live.cancel_requested = True
    live.finish("canceled", RESULT)
    rig.run_jobs()
    assert rig.ended == []
    rig.client.cancel(sent)
    rig.run_jobs()
    assert rig.client.wait(sent).status == CANCELED


def test_a_goal_that_nobody_canceled_is_aborted(rig):
    sent, live = rig.accept()
    live.finish("canceled", RESULT)
    rig.run_jobs()
    assert rig.client.wait(sent).status == ABORTED
    assert not rig.reports


def test_feedback_ends_with_the_goal(rig, ros_harness):
    sent, live = rig.accept()
    live.publish(FollowJointTrajectory.Feedback(joint_names=["a"]))
    ros_harness.wait_for(lambda: bool(sent.feedback), what="feedback")
    live.publish("no feedback")
    assert [kind for kind, _ in rig.reports] == ["action.feedback:/goals"]
    live.finish("succeeded", RESULT)
    live.publish(FollowJointTrajectory.Feedback(joint_names=["b"]))
    rig.run_jobs()
    live.publish(FollowJointTrajectory.Feedback(joint_names=["c"]))
    rig.client.wait(sent)
    assert [each.joint_names for each in sent.feedback] == [["a"]]


def test_a_port_tells_a_client_even_what_cannot_be_told(rig):
    sent, live = rig.accept()
    port = ControllerGoalPort(
        live, FollowJointTrajectory, ACTIONS["control_msgs/action/FollowJointTrajectory"]
    )
    with pytest.raises(AttributeError):
        port.finish("succeeded", "no result")
    port.finish("succeeded", FollowTrajectoryResult())
    rig.run_jobs()
    assert rig.client.wait(sent).status == ABORTED
    assert "AttributeError" in sent.result.error_string
