"""Actions where others run the callbacks, hold the name, or send what nobody should: no client is left waiting."""

from __future__ import annotations

import random
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
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
from rclpy.action import ActionServer, GoalResponse

from ros_plans import plan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.endpoints import goal_server
from usd_ros_bridge.testing.random_messages import fill


class Stepper:
    """Stands for a harness whose every wait also steps a bridge, as a host's loop does."""

    def __init__(self, harness, bridge, poll, step=None):
        self.node = harness.node
        self._harness = harness
        self._bridge = bridge
        self._poll = poll
        self.step = step or bridge.step

    def wait_for(self, condition, *, timeout=60.0, what=""):
        def step():
            if self._poll:
                self._bridge.poll()
            self.step()
            self._harness.executor.spin_once(timeout_sec=0.002)
            return condition()

        self._harness.wait_for(step, timeout=timeout, what=what)


def see_goals_through(host):
    client = Client(host)
    try:
        assert client.run(goal(0.1)).status == SUCCEEDED
        sent = client.send(goal(30.0))
        assert len(client.cancel(sent).goals_canceling) == 1
        assert client.wait(sent).status == CANCELED
        first = client.send(goal(30.0))
        assert client.run(goal(0.05)).status == SUCCEEDED
        assert client.wait(first).status == ABORTED
        assert not client.send(goal(0.1, joint="elbow")).handle.accepted
        return client.send(goal(30.0))
    finally:
        host.client = client


def test_a_bridge_without_threads_follows_goals_in_poll_and_step(ros_harness):
    threads = set(threading.enumerate())
    with Bridge(arm_with_follower(), options=BridgeOptions(threaded=False)) as bridge:
        host = Stepper(ros_harness, bridge, poll=True)
        last = see_goals_through(host)
        # One of an earlier test may end meanwhile.
        assert set(threading.enumerate()) <= threads
    ros_harness.wait_for(lambda: last.done, what="the result of a goal whose server closed")
    assert last.status == ABORTED
    host.client.close()


def test_a_hosts_node_follows_goals_in_the_hosts_executor(ros_harness):
    """The host's executor runs the callbacks: here the harness's own, which the bridge's node is in, too."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.node import Node

    node = Node("host", context=ros_harness.context)
    executor = SingleThreadedExecutor(context=ros_harness.context)
    executor.add_node(node)
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        with Bridge(arm_with_follower(), node=node) as bridge:
            host = Stepper(ros_harness, bridge, poll=False)
            last = see_goals_through(host)
        ros_harness.wait_for(lambda: last.done, what="the result of a goal whose server closed")
        assert last.status == ABORTED
        assert rclpy.ok(context=ros_harness.context)
        host.client.close()
    finally:
        stop.set()
        thread.join(60.0)
        executor.shutdown()
        node.destroy_node()


@pytest.mark.parametrize("rate", [10, 50])
def test_in_lockstep_goals_follow_the_hosts_time(ros_harness, rate):
    period_ns = 1_000_000_000 // rate
    with Bridge(
        arm_with_follower(controller=follower(action_monitor_rate=float(rate))),
        options=BridgeOptions(threaded=False),
    ) as bridge:
        time_ns = 0

        def step():
            # Several at once: each wait of the harness may take 50 ms, and the goal takes a hundred steps.
            nonlocal time_ns
            for _ in range(10):
                time_ns += 10_000_000
                bridge.poll()
                bridge.step(time_ns)
                ros_harness.executor.spin_once(timeout_sec=0.0)

        host = Stepper(ros_harness, bridge, poll=True, step=lambda: None)
        client = Client(host)
        sent = client.send(goal(1.0))
        begun = time_ns
        host.step = step
        client.wait(sent)
        host.wait_for(lambda: len(sent.feedback) >= 10, what="feedback")
    assert sent.status == SUCCEEDED
    stamps = [
        each.header.stamp.sec * 1_000_000_000 + each.header.stamp.nanosec for each in sent.feedback[:10]
    ]
    assert stamps[0] - begun <= period_ns
    assert {after - before for before, after in pairwise(stamps)} == {period_ns}
    client.close()


def test_results_expire_and_free_their_memory(start, ros_harness, monkeypatch):
    monkeypatch.setattr(goal_server, "RESULT_TIMEOUT_S", 1)
    handles = []

    class Remembered(goal_server.GoalServer):
        def notify_execute(self, goal_handle, execute_callback):
            handles.append(weakref.ref(goal_handle))
            super().notify_execute(goal_handle, execute_callback)

    monkeypatch.setattr("usd_ros_bridge.ros.endpoints.action_server.GoalServer", Remembered)
    start(arm_with_follower())
    client = Client(ros_harness)
    kept = []
    for _ in range(3):
        client.run(goal(0.02))
        kept.append(handles[-1]() is not None)
    assert len(handles) == 3
    # All three are kept for a while. One whose time passed while the machine did something else is no fault.
    assert any(kept)
    ros_harness.wait_for(
        lambda: not any(each() for each in handles), timeout=60.0, what="the end of results that expired"
    )
    assert client.run(goal(0.02)).status == SUCCEEDED
    client.close()


def test_a_name_that_is_taken_is_reported(start, ros_harness):
    other = ActionServer(
        ros_harness.node,
        FollowJointTrajectory,
        NAME,
        execute_callback=lambda _: FollowJointTrajectory.Result(),
        goal_callback=lambda _: GoalResponse.REJECT,
    )
    try:
        running = start(arm_with_follower())
        ros_harness.wait_for(
            lambda: (
                running.row(NAME, "server") and bool(running.warnings.containing("another node serves", NAME))
            ),
            what="the report",
        )
    finally:
        other.destroy()


@pytest.mark.parametrize("seed", range(3))
def test_malformed_goals_are_rejected_and_disturb_nothing(start, ros_harness, seed):
    running = start(arm_with_follower())
    client, rng = Client(ros_harness), random.Random(seed)
    for _ in range(20):
        message = fill(FollowJointTrajectory.Goal(), rng)
        assert not client.send(message).handle.accepted
    half_right = goal(0.1)
    for change in (
        lambda each: setattr(each.trajectory.points[0], "velocities", [1.0]),
        lambda each: setattr(each.trajectory.points[0], "accelerations", [1.0, 2.0]),
        lambda each: setattr(each.trajectory.points[0], "positions", []),
        lambda each: setattr(each.trajectory.points[0].time_from_start, "sec", -1),
        lambda each: setattr(each.trajectory.header.stamp, "sec", 1),
        lambda each: setattr(each.trajectory, "joint_names", ["hinge", "hinge"]),
        lambda each: each.trajectory.points.append(each.trajectory.points[0]),
        lambda each: setattr(each.multi_dof_trajectory, "joint_names", ["hinge"]),
    ):
        message = goal(0.1)
        change(message)
        assert message != half_right
        assert not client.send(message).handle.accepted, message
    assert client.run(half_right).status == SUCCEEDED
    assert all("was rejected" in message for _, message in running.warnings.faults)
    assert len(running.warnings.faults) <= 17
    client.close()


@pytest.fixture
def strand(monkeypatch):
    """`strand(client, message)`: a goal accepted and not begun, as rclpy leaves it where it cannot tell the client."""
    servers = []

    class Recorded(goal_server.GoalServer):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            servers.append(self)

    monkeypatch.setattr("usd_ros_bridge.ros.endpoints.action_server.GoalServer", Recorded)

    def send(client, message):
        (server,) = servers
        kept = threading.Event()
        server.register_handle_accepted_callback(lambda _: kept.set())
        sent = client.send(message)
        # rclpy answers the client before it calls this.
        assert kept.wait(10.0)
        server.register_handle_accepted_callback(None)
        return sent

    return send


def test_goals_that_were_accepted_and_not_begun_end(start, ros_harness, monkeypatch, strand):
    monkeypatch.setattr("usd_ros_bridge.ros.endpoints.action_server._STRANDED_S", 0.0)
    running = start(arm_with_follower())
    client = Client(ros_harness)
    first, second = (strand(client, goal(0.1)) for _ in range(2))
    assert client.wait(first).status == ABORTED, "when the next goal comes"
    assert len(client.cancel(second).goals_canceling) == 1
    assert client.run(goal(0.05)).status == SUCCEEDED
    assert client.wait(second).status == ABORTED, "canceled before it began, and never begun"
    third = strand(client, goal(0.1))
    running.close()
    assert client.wait(third).status == ABORTED, "when the server closes"
    client.close()


def test_a_reset_ends_the_goal_in_progress(start, ros_harness):
    running = start(arm_with_follower())
    client = Client(ros_harness)
    sent = client.send(goal(30.0))
    ros_harness.wait_for(lambda: bool(sent.feedback), what="feedback")
    running.bridge.reset()
    assert client.wait(sent).status == ABORTED
    assert client.run(goal(0.05)).status == SUCCEEDED
    client.close()


def test_goals_of_two_servers_and_handlers_do_not_meet(start, ros_harness):
    gripper = server("/arm/grip", "control_msgs/action/GripperCommand")
    running = start(arm_with_follower(gripper))
    blocked = threading.Event()

    def handle(_):
        blocked.wait(600.0)
        return GripperCommand.Result(reached_goal=True)

    running.bridge.on_action("/arm/grip", handle)
    arm, hand = Client(ros_harness), Client(ros_harness, GripperCommand, "/arm/grip")
    held = hand.send(GripperCommand.Goal())
    assert arm.run(goal(0.1)).status == SUCCEEDED
    blocked.set()
    assert hand.wait(held).result.reached_goal
    arm.close()
    hand.close()


def test_closing_from_several_threads_while_goals_come_in_leaves_no_client_waiting(start, ros_harness):
    running = start(arm_with_follower())
    client = Client(ros_harness)
    sent = [client.begin(goal(30.0)) for _ in range(10)]
    ros_harness.wait_for(lambda: all(each.answered for each in sent), what="the answers")
    with ThreadPoolExecutor(3) as pool:
        closing = [pool.submit(running.bridge.close) for _ in range(3)]
        ros_harness.wait_for(lambda: all(each.done() for each in closing), what="the closing")
    ros_harness.wait_for(
        lambda: all(each.done for each in sent if each.handle.accepted),
        what="the results of all goals that were accepted",
    )
    assert {each.status for each in sent if each.handle.accepted} == {ABORTED}
    client.close()


def test_a_plan_without_controllers_still_refuses_politely(start, ros_harness):
    running = start(plan(server()))
    client = Client(ros_harness)
    assert not client.send(goal(0.1)).handle.accepted
    assert running.row(NAME, "server").reason
    client.close()
