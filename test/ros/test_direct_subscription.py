"""Joint states straight to the loop's thread, and through the executor: the same behaviour both ways."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from ros_plans import plan
from usd_ros_bridge.backends.base import BackendInput
from usd_ros_bridge.backends.joint_states import JointStatesBackend
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.endpoints import subscription as subscriptions
from usd_ros_bridge.ros.endpoints.subscription import DirectUnavailableError
from usd_ros_bridge.runtime.inbox import DescriptorWakeup

TOPIC = "/arm/joint_states"


@pytest.fixture
def direct(monkeypatch):
    """Direct subscriptions that were made."""
    made = []

    class Recorded(subscriptions.DirectSubscription):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            made.append(self)

    monkeypatch.setattr(subscriptions, "DirectSubscription", Recorded)
    return made


@pytest.fixture(params=["direct", "executor"])
def way(request, monkeypatch, direct):
    """How messages get to the loop; the executor's way is what there is where the direct one cannot be had."""
    if request.param == "executor":

        def refuse(*_arguments, **_options):
            raise DirectUnavailableError("not here")

        monkeypatch.setattr(subscriptions, "DirectSubscription", refuse)
    return request.param


def message(position: float, *, seconds: int) -> JointState:
    made = JointState(name=["hinge"], position=[position])
    made.header.stamp.sec = seconds
    return made


def connected(ros_harness, running, publisher):
    ros_harness.wait_for(
        lambda: ros_harness.are_connected(publisher, running.bridge), what="the backend's subscription"
    )
    ros_harness.wait_for(lambda: ros_harness.hears(running.bridge, "/arm/tf"), what="the bridge's /tf")


def test_every_message_moves_tf_with_its_stamp(start, ros_harness, way, direct):
    received = ros_harness.listen(TFMessage, "/arm/tf", 100)
    states = ros_harness.node.create_publisher(JointState, TOPIC, 10)
    running = start(plan(), "joint_states", tf_rate=None)
    assert bool(direct) == (way == "direct")
    connected(ros_harness, running, states)
    for seconds in range(1, 21):
        states.publish(message(0.04 * seconds, seconds=seconds))
        ros_harness.wait_for(lambda: len(received) == seconds, what=f"transform {seconds}")  # noqa: B023
        transform = next(each for each in received[-1].transforms if each.child_frame_id == "link")
        assert transform.header.stamp.sec == seconds
        assert transform.transform.rotation.z == pytest.approx(np.sin(0.02 * seconds))
    assert running.row(TOPIC, "subscription").count == 20


def test_remaps_hold(start, ros_harness, way, direct):
    received = ros_harness.listen(TFMessage, "/arm/tf", 100)
    states = ros_harness.node.create_publisher(JointState, "/elsewhere", 10)
    running = start(
        plan(), "joint_states", tf_rate=None, ros_args=["--ros-args", "-r", f"{TOPIC}:=/elsewhere"]
    )
    assert bool(direct) == (way == "direct")
    connected(ros_harness, running, states)
    states.publish(message(0.5, seconds=3))
    ros_harness.wait_for(lambda: bool(received), what="a transform")
    assert running.row("/elsewhere", "subscription").matched == 1


class Picky(JointStatesBackend):
    """Asks for reliable joint states."""

    def inputs(self) -> tuple[BackendInput, ...]:
        return tuple(
            BackendInput(
                key=each.key,
                robot=each.robot,
                topic=each.topic,
                type=each.type,
                reliability="reliable",
                depth=5,
            )
            for each in super().inputs()
        )


def test_a_reliable_input_that_meets_best_effort_is_made_anew(start, ros_harness, way, direct):
    received = ros_harness.listen(TFMessage, "/arm/tf", 100)
    offered = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    states = ros_harness.node.create_publisher(JointState, TOPIC, offered)
    running = start(plan(), Picky(), tf_rate=None)
    connected(ros_harness, running, states)
    ros_harness.wait_for(lambda: bool(running.infos.containing(TOPIC, "best effort")), what="the log line")
    assert bool(direct) == (way == "direct")
    states.publish(message(0.5, seconds=3))
    ros_harness.wait_for(lambda: bool(received), what="a transform")


def test_what_was_published_before_is_taken_at_once(ros_harness):
    """Messages that wait when a callback is installed wake, too: none is left lying until the next."""
    from rclpy.event_handler import SubscriptionEventCallbacks

    from usd_ros_bridge.ros.endpoints.subscription import DirectSubscription

    kept = QoSProfile(depth=5, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    states = ros_harness.node.create_publisher(JointState, "/kept", kept)
    states.publish(message(0.5, seconds=3))
    wakeup = DescriptorWakeup()
    direct = DirectSubscription(
        ros_harness.node,
        JointState,
        "/kept",
        kept,
        events=SubscriptionEventCallbacks(use_default_callbacks=False),
        wakeup=wakeup,
    )
    try:
        assert wakeup.wait(60.0)
        assert len(direct.take(5)) == 1
        assert direct.take(5) == []
    finally:
        direct.close()
        direct.close()
    assert direct.take(5) == []


def has_ticked(bridge: Bridge) -> bool:
    return bridge.status().ticks > 20


@pytest.mark.storm
def test_closing_while_messages_arrive(ros_harness, way, direct):
    """Five bridges one after the other, under a flood from another thread."""
    states = ros_harness.node.create_publisher(JointState, TOPIC, 10)
    done = threading.Event()

    def flood() -> None:
        seconds = 0
        while not done.wait(0.0002):
            seconds += 1
            states.publish(message(0.1, seconds=seconds))

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        for _ in range(5):
            direct.clear()
            bridge = Bridge(
                plan(), "joint_states", options=BridgeOptions(tf_rate=None), report=lambda *_: None
            )
            bridge.open()
            assert bool(direct) == (way == "direct")
            spinning = threading.Thread(target=bridge.spin)
            spinning.start()
            ros_harness.wait_for(partial(has_ticked, bridge), what="twenty ticks")
            bridge.close()
            spinning.join(60.0)
            assert not spinning.is_alive()
    finally:
        done.set()
        thread.join()


def test_step_takes_what_arrived_without_a_loop(ros_harness, way, direct):
    states = ros_harness.node.create_publisher(JointState, TOPIC, 10)
    with Bridge(
        plan(), "joint_states", options=BridgeOptions(tf_rate=None), report=lambda *_: None
    ) as bridge:
        assert bool(direct) == (way == "direct")
        ros_harness.wait_for(lambda: ros_harness.are_connected(states, bridge), what="the subscription")
        states.publish(message(0.25, seconds=3))

        def moved() -> bool:
            return bridge.step() and bridge.parts.runtime.snapshot.state.joint_position[0] == 0.25

        ros_harness.wait_for(moved, what="the joint's position")


def test_poll_mode_and_host_nodes_go_through_their_executor(ros_harness, direct):
    with Bridge(plan(), "joint_states", options=BridgeOptions(threaded=False)) as bridge:
        assert any(row.name == TOPIC for row in bridge.status().interfaces)
    with Bridge(plan(), "joint_states", node=ros_harness.node) as bridge:
        assert any(row.name == TOPIC for row in bridge.status().interfaces)
    assert not direct
