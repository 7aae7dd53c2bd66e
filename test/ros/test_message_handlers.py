"""Messages go to handlers in order and beside the tick, and publishers send what their sources make."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Int64, String

from ros_plans import JOINT_COMMANDS, JOINT_STATES, plan, publisher, subscription
from usd_ros_bridge.model.plan import QosPlan

NUMBERS = subscription("/arm/numbers", "std_msgs/msg/Int64", qos=QosPlan(depth=1000))
TEXT = publisher("/arm/text", "std_msgs/msg/String", rate=50.0)


@pytest.fixture
def send(ros_harness):
    """`send(running, class, topic, messages)` publishes once a subscription of the bridge is there."""
    publishers = {}

    def publish(running, message_class, topic, *messages):
        made = publishers.get(topic)
        if made is None:
            made = publishers[topic] = ros_harness.node.create_publisher(
                message_class, topic, QoSProfile(depth=1000)
            )
        ros_harness.wait_for(
            lambda: ros_harness.are_connected(made, running.bridge), what=f"a subscription to {topic}"
        )
        for message in messages:
            made.publish(message)

    return publish


@pytest.fixture
def hear(ros_harness):
    def listen(message_class, topic):
        return ros_harness.listen(message_class, topic, 100)

    return listen


# --- on_message ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_handler_gets_every_message_in_order_as_an_object_of_its_type(start, ros_harness, send, kind):
    got, threads = [], set()

    def take(message):
        assert isinstance(message, Int64)
        got.append(message.data)
        threads.add(threading.current_thread().name)

    async def take_later(message):
        await asyncio.sleep(0)
        take(message)

    running = start(plan(NUMBERS))
    running.bridge.on_message("/arm/numbers", take if kind == "function" else take_later)
    send(running, Int64, "/arm/numbers", *(Int64(data=number) for number in range(90)))
    ros_harness.wait_for(lambda: len(got) == 90, what="the messages")
    assert got == list(range(90))
    assert threads == {"usd_ros_bridge-handler" if kind == "function" else "usd_ros_bridge-handlers"}
    row = running.row("/arm/numbers", "subscription")
    assert (row.count, row.errors, row.state, row.reason, row.served_by) == (90, 0, "active", "", "embedder")


def test_a_subscription_without_a_handler_says_that_messages_are_dropped(start):
    assert start(plan(NUMBERS)).warnings.containing("/arm/numbers", "dropped")


def test_one_with_a_handler_warns_of_nothing(start):
    from usd_ros_bridge import Bridge

    warnings = []
    bridge = Bridge(plan(NUMBERS), report=lambda *report: warnings.append(report))
    bridge.on_message("/arm/numbers", print)
    with bridge:
        assert warnings == []
        (row,) = [row for row in bridge.status().interfaces if row.name == "/arm/numbers"]
        assert row.state == "idle"


def test_a_handler_comes_before_the_built_in_sink_which_takes_over_again(start, ros_harness, send):
    running = start(plan(JOINT_COMMANDS))
    got = []

    def hinge():
        return float(running.bridge.parts.runtime.snapshot.state.joint_position[0])

    command = JointState(name=["hinge"], position=[0.5])
    with running.bridge.on_message("/arm/joint_commands", got.append):
        send(running, JointState, "/arm/joint_commands", command)
        ros_harness.wait_for(lambda: got, what="the message")
    assert hinge() == 0.0
    send(running, JointState, "/arm/joint_commands", command)
    ros_harness.wait_for(lambda: hinge() == 0.5, what="the command")
    assert len(got) == 1


def test_a_handler_that_raises_is_reported_and_gets_the_next_message(start, ros_harness, send):
    got = []

    def take(message):
        got.append(message.data)
        if message.data % 2:
            raise ValueError("odd")

    running = start(plan(NUMBERS))
    running.bridge.on_message("/arm/numbers", take)
    send(running, Int64, "/arm/numbers", *(Int64(data=number) for number in range(6)))
    ros_harness.wait_for(lambda: len(got) == 6, what="the messages")
    ros_harness.wait_for(lambda: running.row("/arm/numbers", "subscription").errors == 3, what="the errors")
    assert len(running.warnings.containing("a message was lost", "ValueError: odd")) == 1


def test_a_slow_handler_gets_the_newest(start, ros_harness, send):
    got, gate = [], threading.Event()

    def take(message):
        got.append(message.data)
        gate.wait(20.0)

    running = start(plan(NUMBERS))
    running.bridge.on_message("/arm/numbers", take)
    send(running, Int64, "/arm/numbers", *(Int64(data=number) for number in range(300)))
    ros_harness.wait_for(
        lambda: running.row("/arm/numbers", "subscription").count == 300, what="the messages"
    )
    gate.set()
    ros_harness.wait_for(lambda: got[-1] == 299, what="the newest")
    assert got == [0, *range(200, 300)]
    counts = {each.kind: each.count for each in running.bridge.status().reports}
    assert counts["message.dropped:/arm/arm/numbers_subscription"] == 199


# --- source --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_source_is_asked_at_the_rate_and_published(ros_harness, hear, kind, when):
    from usd_ros_bridge import Bridge

    heard, asked, threads = hear(String, "/arm/text"), [], set()

    def make(time_ns):
        asked.append(time_ns)
        threads.add(threading.current_thread().name)
        return String(data=str(time_ns))

    async def make_later(time_ns):
        return make(time_ns)

    function = make if kind == "function" else make_later
    warnings = []
    bridge = Bridge(plan(TEXT), report=lambda *report: warnings.append(report))
    if when == "before":
        bridge.source("/arm/text", function)
    with bridge:
        assert bool(warnings) is (when == "after")
        if when == "after":
            (row,) = [row for row in bridge.status().interfaces if row.name == "/arm/text"]
            assert row.state == "silent"
            assert "no source is bound" in row.reason
            bridge.source("/arm/text", function)
        spinner = threading.Thread(target=bridge.spin)
        spinner.start()
        ros_harness.wait_for(lambda: len(heard) >= 25, what="messages")

        def row():
            (found,) = [row for row in bridge.status().interfaces if row.name == "/arm/text"]
            return found

        # A message may be here before it is counted.
        ros_harness.wait_for(lambda: row().count >= 25, what="the count")
        assert (row().state, row().served_by, row().errors, row().reason) == ("active", "embedder", 0, "")
    spinner.join(60.0)
    texts = [message.data for message in heard]
    assert texts == [str(time_ns) for time_ns in asked][asked.index(int(texts[0])) :][: len(texts)]
    steps = [later - sooner for sooner, later in itertools.pairwise(asked)]
    # Due every 20 ms; a busy machine skips some.
    assert 15_000_000 < sorted(steps)[len(steps) // 2] < 1_000_000_000
    assert threads == {"usd_ros_bridge-handler" if kind == "function" else "usd_ros_bridge-handlers"}


def test_nobody_is_asked_while_nobody_listens(start, ros_harness, hear):
    asked = []
    running = start(plan(TEXT, JOINT_STATES))
    running.bridge.source("/arm/text", asked.append)
    states = hear(JointState, "/arm/joint_states")
    ros_harness.wait_for(lambda: len(states) >= 10, what="other messages")
    assert asked == []


def test_a_source_comes_before_the_built_in_one_which_takes_over_again(start, ros_harness, hear):
    running = start(plan(JOINT_STATES))
    heard = hear(JointState, "/arm/joint_states")
    with running.bridge.source("/arm/joint_states", lambda _: JointState(name=["mine"])):
        ros_harness.wait_for(lambda: heard and heard[-1].name == ["mine"], what="the source's message")
    ros_harness.wait_for(lambda: heard[-1].name == ["hinge"], what="the built-in one's message")


def test_a_source_may_have_nothing_to_say(start, ros_harness, hear):
    asked, heard = [], hear(String, "/arm/text")
    running = start(plan(TEXT))
    running.bridge.source("/arm/text", asked.append)
    ros_harness.wait_for(lambda: len(asked) >= 5, what="the source to be asked")
    assert heard == []
    row = running.row("/arm/text")
    assert (row.count, row.errors) == (0, 0)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda _: "text", "it returned str instead of String or None"),
        (lambda _: Int64(), "it returned Int64 instead of String or None"),
    ],
)
def test_a_source_that_fails_is_reported_once(start, ros_harness, hear, function, text):
    hear(String, "/arm/text")
    running = start(plan(TEXT))
    running.bridge.source("/arm/text", function)
    ros_harness.wait_for(lambda: running.row("/arm/text").errors >= 3, what="errors")
    assert len(running.warnings.containing("/arm/text", "its source failed", text)) == 1


def test_a_slow_source_is_skipped_and_stops_no_other(start, ros_harness, hear):
    gate, asked = threading.Event(), []

    def make(time_ns):
        asked.append(time_ns)
        gate.wait(600.0)
        return String(data="at last")

    slow, states = hear(String, "/arm/text"), hear(JointState, "/arm/joint_states")
    running = start(plan(TEXT, JOINT_STATES))
    running.bridge.source("/arm/text", make)
    ros_harness.wait_for(lambda: asked, what="the source to be asked")
    before = len(states)
    ros_harness.wait_for(lambda: len(states) >= before + 25, what="the other publisher's messages")

    def times_skipped():
        counts = {each.kind: each.count for each in running.bridge.status().reports}
        return counts.get("source.slow:/arm/arm/text_publisher", 0)

    # Some of those messages may be from before the source was asked.
    ros_harness.wait_for(lambda: times_skipped() >= 20, what="turns of the slow source")
    assert not slow
    assert len(asked) == 1
    assert len(running.warnings.containing("/arm/text", "slower than")) == 1
    gate.set()
    ros_harness.wait_for(lambda: slow, what="the slow source's message")
