"""Goals over DDS, from acceptance to result: what a client of an action server of ros2_control expects."""

from __future__ import annotations

from itertools import pairwise

import pytest
from action_plans import (
    ABORTED,
    CANCELED,
    NAME,
    SUCCEEDED,
    Client,
    arm_with_follower,
    follower,
    goal,
    server,
)
from control_msgs.action import FollowJointTrajectory, GripperCommand

from ros_plans import plan


@pytest.fixture
def connect(ros_harness):
    """`connect(action_class, name)`: a client that is closed at the end of the test."""
    clients = []

    def make(*arguments):
        clients.append(Client(ros_harness, *arguments))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def test_a_goal_is_followed_to_its_end(start, connect, ros_harness):
    running = start(arm_with_follower())
    sent = connect().run(goal(0.3))
    assert sent.handle.accepted
    assert sent.status == SUCCEEDED
    assert sent.result.error_code == FollowJointTrajectory.Result.SUCCESSFUL
    assert running.bridge.parts.runtime.snapshot.state.joint_position[0] == pytest.approx(0.5)
    # The client hears before the row says so.
    ros_harness.wait_for(lambda: running.row(NAME, "server").state == "idle", what="the row's state")
    row = running.row(NAME, "server")
    assert (row.count, row.errors, row.state, row.reason) == (1, 0, "idle", "")


def test_feedback_comes_at_the_monitor_rate_of_bridge_time(start, connect):
    start(arm_with_follower(controller=follower(action_monitor_rate=50.0)))
    sent = connect().run(goal(0.5, 1.0))
    stamps = [each.header.stamp.sec * 10**9 + each.header.stamp.nanosec for each in sent.feedback]
    # A machine that is busy skips periods, which is no fault of the rate, and the first message may be late. More than
    # one in a period there never is. The exact rate is tested in lockstep, where no load changes it.
    assert 1 <= len(stamps) <= (stamps[-1] - stamps[0]) / 20_000_000 + 2
    assert all(before < after for before, after in pairwise(stamps))
    begun = {
        stamp - (each.desired.time_from_start.sec * 10**9 + each.desired.time_from_start.nanosec)
        for stamp, each in zip(stamps, sent.feedback, strict=True)
    }
    assert len(begun) == 1, "both times are of one clock"
    for each in sent.feedback[1:]:
        assert each.joint_names == ["hinge"]
        assert each.desired.positions[0] == pytest.approx(each.actual.positions[0])
        assert each.error.positions[0] == pytest.approx(0.0, abs=1e-9)
        assert each.desired.time_from_start.sec >= 0


def test_a_faulty_goal_is_rejected_with_the_reason_in_the_log(start, connect):
    running = start(arm_with_follower())
    client = connect()
    faulty = (FollowJointTrajectory.Goal(), goal(0.3, joint="elbow"), goal(0.3, position=float("nan")))
    for errors, (message, reason) in enumerate(zip(faulty, ("no joint", "elbow", "is nan"), strict=True), 1):
        assert not client.send(message).handle.accepted
        assert running.warnings.containing("a goal for /arm/follow was rejected", reason), (
            running.warnings.entries
        )
        assert running.row(NAME, "server").errors == errors
    assert client.run(goal(0.05)).status == SUCCEEDED


def test_each_reason_is_reported_once_and_counted(start, connect):
    running = start(arm_with_follower())
    client = connect()
    for message in (goal(0.3, joint="elbow"), goal(0.3, joint="wrist"), goal(0.3, joint="elbow")):
        client.send(message)
    assert len(running.warnings.containing("was rejected")) == 2
    reports = {each.kind: each.count for each in running.bridge.status().reports if "rejected" in each.kind}
    assert reports == {"action.rejected:/arm/follow_server": 2, "action.rejected:/arm/follow_server#2": 1}


def test_a_new_goal_takes_the_place_of_the_old_one(start, connect):
    running = start(arm_with_follower())
    client, other = connect(), connect()
    first = client.send(goal(30.0))
    second = other.run(goal(0.1, -0.5))
    assert client.wait(first).status == ABORTED
    assert first.result.error_code == FollowJointTrajectory.Result.INVALID_GOAL
    assert "preempted" in first.result.error_string
    assert second.status == SUCCEEDED
    assert running.row(NAME, "server").errors == 1


def test_a_goal_is_canceled(start, connect):
    running = start(arm_with_follower())
    client = connect()
    sent = client.send(goal(30.0))
    answer = client.cancel(sent)
    assert answer.return_code == answer.ERROR_NONE
    assert len(answer.goals_canceling) == 1
    assert client.wait(sent).status == CANCELED
    assert client.run(goal(0.05)).status == SUCCEEDED
    assert not running.warnings.faults


def test_all_goals_are_canceled_at_once(start, connect):
    start(arm_with_follower())
    client = connect()
    first, second = client.begin(goal(30.0)), client.begin(goal(20.0))
    client.wait(first)
    assert first.status == ABORTED
    answer = client.cancel_all()
    assert len(answer.goals_canceling) == 1
    assert client.wait(second).status == CANCELED
    assert client.cancel_all().goals_canceling == []


def test_ended_and_unknown_goals_cannot_be_canceled(start, connect):
    start(arm_with_follower())
    client = connect()
    sent = client.run(goal(0.05))
    answer = client.cancel(sent)
    assert answer.return_code == answer.ERROR_GOAL_TERMINATED
    sent.handle.goal_id.uuid[0] ^= 1
    answer = client.cancel(sent)
    assert answer.return_code == answer.ERROR_UNKNOWN_GOAL_ID


def test_goals_and_cancellations_in_any_order_end_once(start, connect, ros_harness):
    start(arm_with_follower())
    clients = [connect() for _ in range(3)]
    sent = []
    for number in range(30):
        sent.append(clients[number % 3].begin(goal(0.02 if number % 2 else 5.0)))
        if number % 4 == 3:
            ros_harness.wait_for(lambda: sent[-1].answered, what="an answer")
            sent[-1].handle.cancel_goal_async()
    # Requests of several clients may overtake each other: the last goal is the last one once the others are answered.
    ros_harness.wait_for(lambda: all(each.answered for each in sent), what="all answers")
    sent.append(clients[0].begin(goal(0.02)))
    ros_harness.wait_for(lambda: all(each.done for each in sent), what="all results")
    assert {each.status for each in sent} <= {SUCCEEDED, CANCELED, ABORTED}
    assert sent[-1].status == SUCCEEDED


def test_closing_ends_goals_and_tells_their_clients(start, connect, ros_harness):
    running = start(arm_with_follower())
    sent = connect().send(goal(30.0))
    ros_harness.wait_for(lambda: bool(sent.feedback), what="feedback")
    running.close()
    ros_harness.wait_for(lambda: sent.done, what="the result of a goal whose server closed")
    assert sent.status == ABORTED
    assert "closed" in sent.result.error_string


def test_nobody_hears_of_an_action_that_nobody_follows(start, connect):
    running = start(plan(server("/arm/gripper", "control_msgs/action/GripperCommand")))
    client = connect(GripperCommand, "/arm/gripper")
    assert not client.send(GripperCommand.Goal()).handle.accepted
    assert running.warnings.containing("/arm/gripper", "rejected", "no handler", "no controller")
    assert running.row("/arm/gripper", "server").state == "silent"


def test_an_inactive_controller_rejects_goals(start, connect):
    from dataclasses import replace

    inactive = replace(follower(), enabled=False, reason="starts_enabled is false")
    running = start(arm_with_follower(controller=inactive))
    assert not connect().send(goal(0.1)).handle.accepted
    assert running.warnings.containing("rejected", "inactive", "starts_enabled is false")
