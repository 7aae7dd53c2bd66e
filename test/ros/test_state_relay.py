"""Joint states that are relayed to /tf while the loop waits: nothing tells it from ticks."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from ros_plans import plan, publisher
from usd_ros_bridge.ros.tf import relay
from usd_ros_bridge.ros.tf.relay import StateRelay

TOPIC = "/arm/joint_states"


@pytest.fixture
def relayed(monkeypatch):
    """Numbers of messages that the runtime learned of after they were relayed, and of those sent."""
    counts = []
    settle = StateRelay.settle

    def counted(self):
        counts.append((self._arrivals, self._published))
        settle(self)

    monkeypatch.setattr(StateRelay, "settle", counted)
    monkeypatch.setattr(relay, "_STEADY", 2)
    return counts


def message(stamp_ns: int, **fields) -> JointState:
    made = JointState(**{"name": ["hinge"], **fields})
    made.header.stamp.sec, made.header.stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
    return made


class Arm:
    """A running arm, whose joint states are published here, and whose transforms arrive here."""

    def __init__(self, start, ros_harness, **options) -> None:
        self.received: list[tuple[int, float]] = []
        self._harness = ros_harness
        node = ros_harness.node
        node.create_subscription(TFMessage, "/arm/tf", self._take, 1000)
        self.states = node.create_publisher(JointState, TOPIC, 10)
        self.running = start(plan(), "joint_states", **options)
        ros_harness.wait_for(
            lambda: ros_harness.are_connected(self.states, self.running.bridge), what="the backend's input"
        )
        ros_harness.wait_for(
            lambda: self.running.row("/arm/tf").matched == 1 and ros_harness.knows_publisher("/arm/tf"),
            what="the bridge's /tf",
        )

    def _take(self, message: TFMessage) -> None:
        for each in message.transforms:
            if each.child_frame_id == "link":
                stamp = each.header.stamp
                self.received.append((stamp.sec * 1_000_000_000 + stamp.nanosec, each.transform.rotation.z))

    def send(self, position: float, stamp_ns: int, **fields) -> None:
        self.states.publish(message(stamp_ns, position=[position], **fields))

    def wait_for_input(self, count: int) -> None:
        """Wait until the bridge has received so many joint states."""
        self._harness.wait_for(
            lambda: self.running.row(TOPIC, "subscription").count == count, what=f"{count} joint states"
        )

    def wait_for_output(self, count: int) -> None:
        """Wait until the bridge has counted so many transforms: a subscriber may have them before."""
        self._harness.wait_for(
            lambda: self.running.row("/arm/tf").count == count, what=f"{count} sent transforms"
        )

    def wait_for(self, stamp_ns: int) -> None:
        """Wait for the transform of a stamp."""
        self._harness.wait_for(lambda: self.stamps[-1:] == [stamp_ns], what=f"the transform of {stamp_ns}")

    @property
    def stamps(self) -> list[int]:
        return [stamp for stamp, _ in self.received]


def test_every_message_is_relayed_once_and_counted(start, ros_harness, relayed):
    arm = Arm(start, ros_harness, tf_rate=1e4)
    stamps = [10**9 * second + 5 for second in range(1, 61)]
    for number, stamp in enumerate(stamps):
        arm.send(0.01 * number, stamp, velocity=[0.5])
        arm.wait_for(stamp)
    assert arm.received == [(s, pytest.approx(np.sin(0.005 * n), abs=1e-15)) for n, s in enumerate(stamps)]
    arm.wait_for_output(60)
    arm.wait_for_input(60)
    assert sum(arrivals for arrivals, _ in relayed) > 30
    assert not arm.running.warnings.faults


def test_a_hosts_callback_is_called_for_each_message(start, ros_harness, relayed):
    arm = Arm(start, ros_harness, tf_rate=1e4)
    for second in range(1, 11):
        arm.send(0.02 * second, second * 10**9)
        arm.wait_for(second * 10**9)
    seen = []
    with arm.running.bridge.after_step(lambda _, state: seen.append(state.joint_position[0])):
        for second in range(11, 21):
            arm.send(0.02 * second, second * 10**9)
            arm.wait_for(second * 10**9)
    # Before there was a callback, they were relayed.
    assert sum(arrivals for arrivals, _ in relayed)
    assert {round(0.02 * second, 6) for second in range(11, 21)} <= {round(float(each), 6) for each in seen}
    assert not arm.running.warnings.faults


def test_the_state_of_a_tick_is_that_of_the_last_relayed_message(start, ros_harness, relayed):
    arm = Arm(start, ros_harness, tf_rate=1e4)
    runtime = arm.running.bridge.parts.runtime
    for second in range(1, 21):
        arm.send(0.02 * second, second * 10**9, velocity=[0.1 * second])
        arm.wait_for(second * 10**9)
    seen, done = [], threading.Event()

    def look() -> None:
        state = runtime.backend.step(runtime.now_ns, runtime.commands)
        seen.append((state.joint_position[0], state.joint_velocity[0], state.robot_time_ns[0]))
        done.set()

    arm.running.bridge.post(look)
    assert done.wait(60.0)
    assert seen == [(0.4, 2.0, 20 * 10**9)]
    assert sum(arrivals for arrivals, _ in relayed)


def test_a_message_that_differs_goes_through_a_tick_and_relaying_goes_on(start, ros_harness, relayed):
    arm = Arm(start, ros_harness, tf_rate=1e4)
    second = 0
    for _ in range(3):
        for fields in (
            {"position": [0.25]},
            {"position": [0.25], "velocity": [1.0]},
            {"name": ["other", "hinge"], "position": [3.0, 0.25]},
        ):
            for _ in range(5):
                second += 1
                arm.states.publish(message(stamp_ns=second * 10**9, **fields))
                arm.wait_for(second * 10**9)
    assert [z for _, z in arm.received] == pytest.approx([np.sin(0.125)] * second)
    arm.wait_for_output(second)
    assert sum(published for _, published in relayed) >= 9, "some of each run of equal messages"
    counts = len(arm.received)
    # None of these moves anything: one is faulty, one is older, one is not finite.
    arm.send(0.25, (second + 1) * 10**9, velocity=[1.0, 2.0])
    arm.send(0.25, second * 10**9 - 500_000_000)
    arm.send(np.nan, (second + 2) * 10**9)
    arm.wait_for_input(second + 3)
    arm.send(0.5, (second + 3) * 10**9)
    arm.wait_for((second + 3) * 10**9)
    assert len(arm.received) == counts + 1
    reports = [kind.partition(":")[0] for kind, _ in arm.running.warnings.faults]
    assert sorted(set(reports)) == ["joint_states.length", "joint_states.unknown", "tf.finite"]
    arm.wait_for_input(second + 4)


def test_the_rate_of_tf_is_an_upper_bound_and_the_last_message_is_sent(start, ros_harness, relayed):
    arm = Arm(start, ros_harness, tf_rate=5.0)
    begin, count = time.monotonic(), 0
    for _ in range(25):
        for _ in range(4):  # Its queue holds five.
            count += 1
            arm.send(0.1, count * 10**9)
        arm.wait_for_input(count)
    arm.wait_for(count * 10**9)
    # One more for a deadline that had passed at the beginning.
    assert len(arm.received) <= 5.0 * (time.monotonic() - begin) + 2
    assert arm.stamps == sorted(set(arm.stamps))
    arm.wait_for_input(100)
    arm.wait_for_output(len(arm.received))


def test_a_subscriber_that_joins_while_messages_are_relayed_gets_them(start, ros_harness, relayed):
    arm = Arm(start, ros_harness, tf_rate=1e4)
    for second in range(1, 11):
        arm.send(0.1, second * 10**9)
        arm.wait_for(second * 10**9)
    late = ros_harness.listen(TFMessage, "/arm/tf")
    ros_harness.wait_for(
        lambda: arm.running.row("/arm/tf").matched == 2 and ros_harness.knows_publisher("/arm/tf"),
        what="the second subscriber",
    )
    arm.send(0.2, 11 * 10**9)
    ros_harness.wait_for(lambda: len(late) == 1, what="a transform for the second subscriber")


def test_status_from_another_thread_is_up_to_date_in_the_midst_of_relaying(start, ros_harness, relayed):
    arm = Arm(start, ros_harness, tf_rate=1e4)
    for second in range(1, 31):
        arm.send(0.1, second * 10**9)
        arm.wait_for(second * 10**9)
        arm.wait_for_output(second)
        arm.wait_for_input(second)
    assert sum(published for _, published in relayed) > 10


def test_another_publisher_of_the_robot_needs_ticks(start, ros_harness, relayed):
    made = plan(publisher("/arm/pose", "geometry_msgs/msg/PoseStamped", rate=1e4))
    poses: list[object] = ros_harness.listen(PoseStamped, "/arm/pose", 100)
    arm = Arm(lambda _, *rest, **options: start(made, *rest, **options), ros_harness, tf_rate=1e4)
    ros_harness.wait_for(
        lambda: arm.running.row("/arm/pose").matched == 1 and ros_harness.knows_publisher("/arm/pose"),
        what="the poses' publisher",
    )
    for second in range(1, 11):
        arm.send(0.1, second * 10**9)
        arm.wait_for(second * 10**9)
    ros_harness.wait_for(lambda: len(poses) == 10, what="all poses")
    assert not relayed


def test_what_cannot_be_relayed_is_left_to_ticks(start, ros_harness, relayed, monkeypatch):
    def broken(*_arguments, **_options):
        raise RuntimeError("no such luck")

    monkeypatch.setattr("usd_ros_bridge.ros.tf.relay.make_rewrite", lambda *_a, **_o: broken)
    arm = Arm(start, ros_harness, tf_rate=1e4)
    for second in range(1, 11):
        arm.send(0.1, second * 10**9)
        arm.wait_for(second * 10**9)
    assert arm.running.warnings.containing("published by ticks", "no such luck")


def test_a_publisher_that_changes_is_followed(start, ros_harness, relayed):
    arm = Arm(start, ros_harness, tf_rate=1e4)
    for second in range(1, 11):
        arm.send(0.1, second * 10**9)
        arm.wait_for(second * 10**9)
    arm.running.bridge.post(lambda: arm.running.bridge.parts.transforms.set_rate(5e3))
    for second in range(11, 21):
        arm.send(0.1, second * 10**9)
        arm.wait_for(second * 10**9)
    arm.wait_for_output(20)


def test_publishers_that_take_turns_cost_no_more_than_ticks(start, ros_harness, monkeypatch):
    made = []
    make = relay.make_rewrite
    monkeypatch.setattr(relay, "make_rewrite", lambda *given, **more: made.append(1) or make(*given, **more))
    arm = Arm(start, ros_harness, tf_rate=1e4)
    for second in range(1, 61):
        extra = {"name": ["hinge", "finger"], "position": [0.1, 0.2]} if second % 2 else {"position": [0.1]}
        arm.states.publish(message(second * 10**9, **extra))
        arm.wait_for(second * 10**9)
    assert not made
    for second in range(61, 121):
        arm.send(0.1, second * 10**9)
        arm.wait_for(second * 10**9)
    assert len(made) == 1
