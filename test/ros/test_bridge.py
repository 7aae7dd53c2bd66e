"""The facade's life: domains, a host's node, stepping, polling, simulated time, closing."""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from builders.plans import rover
from ros_plans import JOINT_COMMANDS, JOINT_STATES, arm, layout, plan, publisher
from usd_ros_bridge import BridgeError
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.change.asset_reloader import AssetReloader
from usd_ros_bridge.ros.domains import MAX_DOMAINS
from usd_ros_bridge.runtime.runtime import Runtime

BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


def native_threads():
    return len(list(Path("/proc/self/task").iterdir()))


class Observer:
    """A node in any domain, spun by hand."""

    def __init__(self, domain_id: int) -> None:
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain_id, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node("other_observer", context=self.context, enable_rosout=False)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    def close(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture
def other_domain(other_domain_id):
    observer = Observer(other_domain_id)
    yield observer
    observer.close()


def test_two_robots_live_in_two_domains_of_one_process(start, ros_harness, other_domain, other_domain_id):
    here_tf, there_tf, there_states = [], [], []
    ros_harness.node.create_subscription(TFMessage, "/tf", here_tf.append, 10)
    other_domain.node.create_subscription(TFMessage, "/tf", there_tf.append, 10)
    other_domain.node.create_subscription(JointState, "/arm/joint_states", there_states.append, 10)
    second = replace(arm("", path="/second", row=1, index=1, domain_id=other_domain_id), parent_frame="map")
    second = replace(second, frames=(replace(second.frames[0], parent="map"), *second.frames[1:]))
    start(
        plan(
            replace(JOINT_STATES, domain_id=other_domain_id, robot=1, dofs=(1,)),
            robots=(arm(""), second),
            layout=layout("/arm", "/second"),
        )
    )
    ros_harness.wait_for(lambda: len(here_tf) > 3, what="/tf here")

    def arrived():
        other_domain.executor.spin_once(timeout_sec=0.05)
        return len(there_tf) > 3 and there_states

    ros_harness.wait_for(arrived, what="/tf and joint states there")
    assert {each.header.frame_id for message in here_tf for each in message.transforms} == {"world", "base"}
    assert {each.header.frame_id for message in there_tf for each in message.transforms} == {"map", "base"}


def test_domains_beyond_the_limit_disable_their_interfaces_alone(start, other_domains, monkeypatch):
    monkeypatch.setattr("usd_ros_bridge.ros.domains.MAX_DOMAINS", 2)
    assert MAX_DOMAINS == 16
    topics = [
        replace(
            JOINT_STATES,
            path=f"/arm/{offset}",
            name=f"/states_{offset}",
            domain_id=other_domains(),
        )
        for offset in range(3)
    ]
    running = start(plan(*topics))
    assert [running.row(f"/states_{offset}").state == "disabled" for offset in range(3)] == [
        False,
        True,
        True,
    ]
    assert "domain" in running.row("/states_2").reason


def test_a_host_steps_with_its_own_time_and_node(ros_harness):
    received = ros_harness.listen(JointState, "/arm/joint_states")
    commands = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    bridge = Bridge(
        plan(JOINT_STATES, JOINT_COMMANDS), options=BridgeOptions(tf_rate=None), node=ros_harness.node
    )
    with bridge:
        assert bridge.node is ros_harness.node
        ros_harness.wait_for(
            lambda: ros_harness.are_connected(commands, bridge), what="the bridge's subscription"
        )
        assert bridge.step(1_000_000_000)
        commands.publish(JointState(name=["hinge"], position=[0.5]))
        ros_harness.wait_for(
            lambda: any(row.count == 1 for row in bridge.status().interfaces if row.role == "subscription"),
            what="the command",
        )
        bridge.step(1_020_000_000)
        ros_harness.wait_for(lambda: len(received) == 2, what="two joint states")
        assert [message.header.stamp.nanosec for message in received] == [0, 20_000_000]
        assert received[1].position[0] == pytest.approx(0.5)
    # The host's node is the host's: it still works.
    assert ros_harness.node.context.ok()
    ros_harness.node.create_publisher(JointState, "/still_there", 10)


def test_a_host_without_threads_polls(ros_harness):
    commands = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    received = ros_harness.listen(JointState, "/arm/joint_states")
    threads = set(threading.enumerate())
    with Bridge(plan(JOINT_STATES, JOINT_COMMANDS), options=BridgeOptions(threaded=False)) as bridge:
        # One of an earlier test may end meanwhile.
        assert set(threading.enumerate()) <= threads
        ros_harness.wait_for(
            lambda: ros_harness.are_connected(commands, bridge), what="the bridge's subscription"
        )
        commands.publish(JointState(name=["hinge"], position=[0.5]))

        def followed():
            bridge.poll()
            bridge.step()
            return bool(received) and received[-1].position[0] == pytest.approx(0.5)

        ros_harness.wait_for(followed, what="the commanded position")


def test_best_effort_publishers_are_met_without_threads_too(ros_harness):
    there = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", BEST_EFFORT)
    with Bridge(plan(JOINT_COMMANDS), node=ros_harness.node) as bridge:

        def matched():
            bridge.step()
            return there.get_subscription_count() == 1

        ros_harness.wait_for(matched, what="a best-effort subscription")


def test_simulated_time_stamps_what_is_sent(start, ros_harness):
    received = ros_harness.listen(TFMessage, "/arm/tf", 100)
    clock = ros_harness.node.create_publisher(Clock, "/clock", BEST_EFFORT)
    running = start(plan(), use_sim_time=True)
    ros_harness.wait_for(lambda: clock.get_subscription_count() >= 1, what="the clock's subscription")
    assert running.bridge.status().ticks == 0

    def tick():
        message = Clock()
        message.clock.sec = 100 + ticks["count"] // 50
        message.clock.nanosec = ticks["count"] % 50 * 20_000_000
        clock.publish(message)
        ticks["count"] += 1
        return len(received) > 10

    ticks = {"count": 0}
    ros_harness.wait_for(tick, what="transforms in simulated time")
    # Whatever the machine does meanwhile, no stamp is later than that of the last clock.
    latest = 100 + ticks["count"] // 50
    assert all(100 <= message.transforms[0].header.stamp.sec <= latest for message in received)
    assert received[-1].transforms[0].header.stamp.nanosec % 20_000_000 == 0


def test_a_clock_that_misses_deadlines_by_a_nanosecond_costs_no_rate(start, ros_harness):
    """/clock every 20 ms, every other stamp early by a nanosecond, and a topic of 50 Hz."""
    received, shown = [], set()
    ros_harness.node.create_subscription(JointState, "/arm/joint_states", received.append, 100)
    clock = ros_harness.node.create_publisher(Clock, "/clock", BEST_EFFORT)
    running = start(plan(JOINT_STATES), use_sim_time=True)

    def clock_is_met():
        # Both sides: a stamp that is sent before the bridge knows its publisher is lost, and comes only once.
        heard = [each for each in running.bridge.node.subscriptions if each.topic_name == "/clock"]
        return clock.get_subscription_count() >= 1 and any(each.get_publisher_count() for each in heard)

    ros_harness.wait_for(clock_is_met, what="the clock's subscription")
    ros_harness.wait_for(
        lambda: ros_harness.hears(running.bridge, "/arm/joint_states"), what="the test's subscription"
    )
    for index in range(60):
        stamp = 100_000_000_000 + index * 20_000_000 - index % 2
        message = Clock()
        message.clock.sec, message.clock.nanosec = divmod(stamp, 1_000_000_000)
        clock.publish(message)
        # The period is known from the second stamp on, which the loop may have slept through.
        if index != 1:
            count = len(received)
            ros_harness.wait_for(lambda count=count: len(received) > count, what=f"a message at {stamp}")
            shown.add(received[-1].header.stamp.sec * 1_000_000_000 + received[-1].header.stamp.nanosec)
    assert len(shown) == 59


def test_joint_states_backend_hears_its_topic_and_conflicting_publishers_are_disabled(start, ros_harness):
    received = ros_harness.listen(TFMessage, "/arm/tf")
    states = ros_harness.node.create_publisher(JointState, "/arm/joint_states", 10)
    running = start(plan(JOINT_STATES), "joint_states")
    assert running.row("/arm/joint_states").state == "disabled"
    ros_harness.wait_for(lambda: states.get_subscription_count() == 1, what="the backend's subscription")
    message = JointState(name=["hinge"], position=[0.25])
    message.header.stamp.sec = 7

    def shown():
        states.publish(message)
        message.header.stamp.nanosec += 1_000_000
        return bool(received)

    ros_harness.wait_for(shown, what="/tf")
    assert received[0].transforms[0].header.stamp.sec == 7
    assert running.row("/arm/joint_states", "subscription").count > 0


def test_states_are_shown_in_simulated_time_as_they_arrive(start, ros_harness):
    """/clock tells the time, and an arrival wakes the loop although time stands still."""
    received = ros_harness.listen(TFMessage, "/arm/tf")
    clock = ros_harness.node.create_publisher(Clock, "/clock", BEST_EFFORT)
    states = ros_harness.node.create_publisher(JointState, "/arm/joint_states", 10)
    running = start(plan(JOINT_STATES), "joint_states", use_sim_time=True)
    ros_harness.wait_for(lambda: clock.get_subscription_count() >= 1, what="the clock's subscription")
    ros_harness.wait_for(lambda: states.get_subscription_count() == 1, what="the backend's subscription")
    time = Clock()
    time.clock.sec = 100

    def ticked():
        clock.publish(time)
        return running.bridge.status().ticks > 0

    ros_harness.wait_for(ticked, what="a first tick")
    message = JointState(name=["hinge"], position=[0.25])
    message.header.stamp.sec = 7

    def shown():
        states.publish(message)
        return bool(received)

    ros_harness.wait_for(shown, what="/tf")
    assert received[0].transforms[0].header.stamp.sec == 7


def test_a_remapped_publisher_that_meets_the_backends_topic_is_disabled(start):
    other = publisher("/elsewhere", "sensor_msgs/msg/JointState")
    remap = ["--ros-args", "-r", "/elsewhere:=/arm/joint_states"]
    running = start(plan(other), "joint_states", ros_args=remap)
    (row,) = [row for row in running.bridge.status().interfaces if row.path == other.path]
    assert row.state == "disabled"


def test_close_is_idempotent_and_leaves_nothing_behind(ros_harness):
    gc.collect()
    before = set(threading.enumerate())
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    environment = dict(os.environ)
    native = native_threads()
    for _ in range(2):
        bridge = Bridge(plan(JOINT_STATES, JOINT_COMMANDS))
        bridge.open()
        bridge.step()
        bridge.close()
        bridge.close()
        with pytest.raises(BridgeError, match="not open"):
            bridge.step()
    # One of an earlier test may end meanwhile.
    assert set(threading.enumerate()) <= before
    gc.collect()
    ros_harness.wait_for(lambda: native_threads() <= native, what="DDS threads to end")
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    assert dict(os.environ) == environment
    assert not rclpy.get_default_context().ok()


def test_a_reset_allows_the_same_stamp_again(ros_harness):
    """A simulation that starts over shows its first state again: as a transform, and as a message."""
    states = ros_harness.listen(JointState, "/arm/joint_states")
    transforms = ros_harness.listen(TFMessage, "/arm/tf")
    with Bridge(plan(JOINT_STATES), options=BridgeOptions(tf_rate=None)) as bridge:
        ros_harness.wait_for(
            lambda: ros_harness.hears(bridge, "/arm/joint_states", "/arm/tf"), what="both subscriptions"
        )
        for _ in range(2):
            bridge.step(time_ns=5_000_000_000)
        bridge.reset()
        bridge.step(time_ns=5_000_000_000)
        ros_harness.wait_for(lambda: len(states) == len(transforms) == 2, what="two of each")


def test_close_while_callbacks_and_ticks_run(ros_harness):
    commands = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    stop = threading.Event()

    def flood():
        message = JointState(name=["hinge"], position=[0.1])
        while not stop.is_set():
            commands.publish(message)

    bridge = Bridge(plan(JOINT_STATES, JOINT_COMMANDS), options=BridgeOptions(tf_rate=1000.0))
    bridge.open()
    spinning = threading.Thread(target=bridge.spin)
    flooding = threading.Thread(target=flood)
    try:
        spinning.start()
        flooding.start()
        ros_harness.wait_for(lambda: bridge.status().ticks > 100, what="ticks")
        bridge.close()
    finally:
        stop.set()
        flooding.join(60.0)
        spinning.join(60.0)
    assert not spinning.is_alive()
    assert not flooding.is_alive()


def test_the_hosts_faulthandler_is_left_as_it_was():
    enabled = faulthandler.is_enabled()
    faulthandler.disable()
    try:
        with Bridge(plan()):
            assert not faulthandler.is_enabled()
    finally:
        if enabled:
            faulthandler.enable()


def test_mistakes_of_the_caller_are_one_line():
    for backend, options, text in (
        ("hydraulic", {}, "kinematic"),
        ("kinematic", {"backend_options": {"speed": "9"}}, "speed"),
        ("kinematic", {"tf_rate": 0.0}, "tf_rate"),
        ("kinematic", {"ros_args": ["--ros-args", "-r", "nonsense"]}, "ROS 2"),
        ("kinematic", {"node_name": "not a name"}, "ROS 2"),
        ("kinematic", {"node_namespace": "/not a name"}, "ROS 2"),
        ("kinematic", {"domain_id": 4000}, "0 to 232"),
    ):
        bridge = Bridge(plan(), backend, options=BridgeOptions(**options))
        with pytest.raises(BridgeError, match=text) as caught:
            bridge.open()
        assert "\n" not in str(caught.value)
        bridge.close()


def test_a_bridge_opens_once_and_one_thread_drives_it(start):
    running = start(plan())
    with pytest.raises(BridgeError, match="opened once"):
        running.bridge.open()
    with pytest.raises(BridgeError, match="spin"):
        running.bridge.step()


def test_ticks_that_take_longer_than_their_period_are_reported_once_with_the_figure() -> None:
    class Slow(NullBackend):
        slow = 0.0

        def step(self, time_ns: int, commands: Commands) -> State:
            end = time.perf_counter() + self.slow
            while time.perf_counter() < end:
                pass
            return super().step(time_ns, commands)

    seen: list[tuple[str, str]] = []
    backend = Slow()
    with Bridge(
        rover().build(),
        backend,
        options=BridgeOptions(tf_rate=200.0),
        report=lambda *report: seen.append(report),
    ) as bridge:
        for tick in range(20):
            # A slow one now and then is no news.
            backend.slow = 0.008 if tick % 5 == 0 else 0.0
            bridge.step(tick * 5_000_000)
        assert [kind for kind, _ in seen] == []
        backend.slow = 0.008
        for tick in range(20, 30):
            bridge.step(tick * 5_000_000)
    assert [kind for kind, _ in seen] == ["loop.overrun"]
    figures = re.search(r"the last one ([\d.]+) ms of 5 ms", seen[0][1])
    assert figures is not None, seen
    assert float(figures[1]) >= 8.0
    assert "of 5 ms" in seen[0][1]


def test_stopped_while_it_opens_it_does_not_spin(monkeypatch):
    monkeypatch.setattr(AssetReloader, "open", lambda _: bridge.stop())
    bridge = Bridge(plan(), NullBackend(), report=lambda *_: None, inform=lambda *_: None)
    with bridge:
        bridge.spin()


def test_one_that_cannot_be_opened_ends_its_runtime(monkeypatch):
    stops = []
    stop = Runtime.stop

    def fail(_):
        raise BridgeError("no such service")

    def count(runtime):
        stops.append(runtime)
        stop(runtime)

    monkeypatch.setattr(AssetReloader, "open", fail)
    monkeypatch.setattr(Runtime, "stop", count)
    bridge = Bridge(plan(), NullBackend(), report=lambda *_: None, inform=lambda *_: None)
    with pytest.raises(BridgeError, match="no such service"):
        bridge.open()
    assert len(stops) == 1
    assert stops[0].stopped
