"""Commanded poses in frames of other nodes: through tf2, refused by name where it is not installed.

Where it is not installed, the buffer of the pytest fixtures stands in for that of tf2.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, TransformStamped
from numpy.testing import assert_allclose
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage

from ros_plans import arm, layout, plan, subscription
from usd_ros_bridge.model.plan import TfOutput
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.testing.transform_buffer import TransformBuffer, UnknownTransformError

SECOND = 1_000_000_000
STATIC = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
POSE = subscription("/arm/pose", "geometry_msgs/msg/PoseStamped")
QUARTER_TURN = (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))


class StandInBuffer:
    """The part of tf2_ros.Buffer that the bridge uses."""

    def __init__(self, *, cache_time):
        assert cache_time.nanoseconds == 10 * SECOND
        self._static, self._buffer = [], TransformBuffer()

    def set_transform(self, transform, _):
        self._buffer.add([transform], static=False)

    def set_transform_static(self, transform, _):
        self._static.append(transform)
        self._buffer.add([transform], static=True)

    def lookup_transform(self, target, source, time):
        return self._buffer.lookup_transform(target, source, time_ns=time.nanoseconds or None)

    def clear(self):
        self._buffer = TransformBuffer()
        self._buffer.add(self._static, static=True)


@pytest.fixture(autouse=True)
def tf2(monkeypatch):
    """Set the stand-in where tf2_ros, which only a full ROS 2 has, is not installed."""
    if importlib.util.find_spec("tf2_ros") is None:
        module = ModuleType("tf2_ros")
        module.Buffer, module.TransformException = StandInBuffer, UnknownTransformError
        monkeypatch.setitem(sys.modules, "tf2_ros", module)


def set_stamp(header, time_ns):
    header.stamp.sec, header.stamp.nanosec = divmod(time_ns, SECOND)


def transform(parent, child, x, *, time_ns=SECOND, rotation=(0.0, 0.0, 0.0, 1.0)):
    message = TransformStamped()
    message.header.frame_id, message.child_frame_id = parent, child
    set_stamp(message.header, time_ns)
    message.transform.translation.x = x
    q = message.transform.rotation
    q.x, q.y, q.z, q.w = rotation
    return TFMessage(transforms=[message])


def pose_in(frame, x, time_ns=0):
    message = PoseStamped()
    message.header.frame_id = frame
    set_stamp(message.header, time_ns)
    message.pose.position.x = x
    return message


class Commander:
    """Another node: sends transforms and poses, and steps a bridge until they have done something."""

    def __init__(self, harness, bridge, *, topic="/arm/pose", node=None):
        self.harness = harness
        self.bridge = bridge
        self.node = node or harness.node
        self.poses = self.node.create_publisher(PoseStamped, topic, 10)
        self.connected(self.poses)
        self.time_ns = SECOND

    def connected(self, publisher):
        def reached():
            self.bridge.poll()
            return publisher.get_subscription_count() >= 1

        self.harness.wait_for(reached, what=f"a subscription to {publisher.topic_name}")

    def tf(self, name, qos=10):
        ends = [
            each
            for domain in self.bridge.parts.domains.opened
            for each in domain.node.subscriptions
            if each.topic_name == name
        ]
        # The bridge publishes transforms, too, and knows its own publishers at once.
        known = [each.get_publisher_count() for each in ends]
        publisher = self.node.create_publisher(TFMessage, name, qos)
        self.connected(publisher)

        def discovered():
            self.bridge.poll()
            return all(each.get_publisher_count() > before for each, before in zip(ends, known, strict=True))

        # What is sent before the bridge knows the publisher is lost, and a transform is sent only once.
        self.harness.wait_for(discovered, what=f"the bridge to know the publisher of {name}")
        return publisher

    def base(self, row=0):
        return self.bridge.parts.runtime.snapshot.state.body_pose[row]

    def sends_to(self, pose, expected, row=0):
        """The same pose again and again: its transforms come by other topics, in their own time."""

        def there():
            self.poses.publish(pose)
            self.step()
            return np.allclose(self.base(row)[:3], expected)

        self.harness.wait_for(there, what=f"the base at {expected}")

    def step(self):
        self.time_ns += 1_000_000
        self.bridge.poll()
        self.bridge.step(self.time_ns)


@pytest.mark.parametrize("topic", ["/arm/tf", "/tf"])
def test_a_pose_in_another_nodes_frame(ros_harness, topic):
    with Bridge(plan(POSE)) as bridge:
        other = Commander(ros_harness, bridge)
        other.tf(topic).publish(transform("world", "map", 5.0, rotation=QUARTER_TURN))
        other.sends_to(pose_in("map", 2.0), [5.0, 2.0, 0.0])
        assert_allclose(other.base()[3:], QUARTER_TURN, atol=1e-12)


def test_upwards_through_a_chain_of_static_and_moving_frames(ros_harness):
    with Bridge(plan(POSE)) as bridge:
        other = Commander(ros_harness, bridge)
        other.tf("/tf_static", STATIC).publish(transform("earth", "world", 100.0))
        other.tf("/tf").publish(transform("earth", "map", 103.0))
        other.sends_to(pose_in("map", 0.5), [3.5, 0.0, 0.0])


def test_a_frame_that_hangs_from_the_robot_itself_in_a_hosts_node(ros_harness):
    with Bridge(plan(POSE), options=BridgeOptions(tf_rate=None), node=ros_harness.node) as bridge:
        other = Commander(ros_harness, bridge)
        other.tf("/arm/tf_static", STATIC).publish(transform("link", "marker", 0.25))
        # The link is 1 m from the base; where the base goes, the marker goes along.
        other.sends_to(pose_in("marker", 0.0), [1.25, 0.0, 0.0])


def test_the_transform_at_the_stamp_else_the_latest(ros_harness):
    with Bridge(plan(POSE)) as bridge:
        other = Commander(ros_harness, bridge)
        moving = other.tf("/tf")
        moving.publish(transform("world", "cart", 1.0, time_ns=10 * SECOND))
        moving.publish(transform("world", "cart", 2.0, time_ns=12 * SECOND))
        other.sends_to(pose_in("cart", 0.0), [2.0, 0.0, 0.0])
        other.sends_to(pose_in("cart", 0.0, 11 * SECOND), [1.5, 0.0, 0.0])
        other.sends_to(pose_in("cart", 0.0, 13 * SECOND), [2.0, 0.0, 0.0])


def test_an_unknown_frame_is_refused_until_it_is_known(ros_harness):
    warnings = []
    with Bridge(plan(POSE), report=lambda _, message: warnings.append(message)) as bridge:
        other = Commander(ros_harness, bridge)

        def refused():
            other.poses.publish(pose_in("map", 1.0))
            other.step()
            return any("'map'" in message for message in warnings)

        ros_harness.wait_for(refused, what="a refusal")
        assert_allclose(other.base()[:3], 0.0)
        (warning,) = (message for message in warnings if "'map'" in message)
        assert "no transform from 'world' to it is known on /arm/tf or /tf" in warning
        other.tf("/tf").publish(transform("world", "map", 5.0))
        other.sends_to(pose_in("map", 1.0), [6.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("unusable", "said"),
    [
        (transform("", "cart", 1.0), "'cart' has no parent"),
        (transform("world", "", 1.0), "'world' has no child"),
        (transform("/cart", "cart", 1.0), "'cart' is its own parent"),
        (transform("world", "cart", float("nan")), "that of 'cart' is not finite"),
        (transform("world", "cart", float("inf")), "that of 'cart' is not finite"),
        (
            transform("world", "cart", 1.0, rotation=(0.0, 0.0, 0.0, 1.1)),
            "the quaternion of 'cart' is not of length 1",
        ),
        (
            transform("world", "cart", 1.0, rotation=(0.0, 0.0, 0.0, 1e300)),
            "the quaternion of 'cart' is not of length 1",
        ),
        (transform("world", "map", 9.0, time_ns=SECOND), "'map' is ignored: it is 98.0 s older"),
    ],
    ids=["no parent", "no child", "own parent", "nan", "inf", "length", "overflow", "old"],
)
def test_transforms_that_tf2_refuses_are_said_once_and_not_logged(ros_harness, capfd, unusable, said):
    """tf2 logs a line for each: a peer may send them at any rate."""
    warnings = []
    with Bridge(plan(POSE), report=lambda _, message: warnings.append(message)) as bridge:
        other = Commander(ros_harness, bridge)
        frames = other.tf("/tf", 100)
        frames.publish(transform("world", "map", 5.0, time_ns=99 * SECOND))
        other.sends_to(pose_in("map", 1.0), [6.0, 0.0, 0.0])
        for _ in range(20):
            frames.publish(unusable)
        # What was sent last arrives last.
        frames.publish(transform("world", "map", 7.0, time_ns=100 * SECOND))
        other.sends_to(pose_in("map", 1.0), [8.0, 0.0, 0.0])
    assert len([each for each in warnings if said in each]) == 1, warnings
    assert "TF_" not in capfd.readouterr().err


def test_moving_frames_are_forgotten_when_time_starts_over_and_static_ones_are_not(ros_harness):
    with Bridge(plan(POSE)) as bridge:
        other = Commander(ros_harness, bridge)
        moving = other.tf("/tf")
        other.tf("/tf_static", STATIC).publish(transform("world", "dock", 7.0))
        moving.publish(transform("world", "cart", 1.0, time_ns=100 * SECOND))
        other.sends_to(pose_in("cart", 0.0), [1.0, 0.0, 0.0])
        other.sends_to(pose_in("dock", 0.0), [7.0, 0.0, 0.0])
        other.time_ns = 0
        other.step()
        # More than tf2 keeps before the newest: without the reset this would be refused as too old.
        moving.publish(transform("world", "cart", 3.0, time_ns=SECOND))
        other.sends_to(pose_in("cart", 0.0), [3.0, 0.0, 0.0])
        other.sends_to(pose_in("dock", 0.0), [7.0, 0.0, 0.0])


def test_a_frame_id_means_another_frame_in_each_robots_namespace(ros_harness):
    robots = (arm(), arm("/second", path="/second", row=1, index=1))
    second = subscription("/second/pose", POSE.type, robot=1, body=2)
    with Bridge(plan(POSE, second, robots=robots, layout=layout("/arm", "/second"))) as bridge:
        first, other = Commander(ros_harness, bridge), Commander(ros_harness, bridge, topic="/second/pose")
        first.tf("/arm/tf").publish(transform("world", "map", 5.0))
        other.tf("/second/tf").publish(transform("world", "map", 8.0))
        first.sends_to(pose_in("map", 0.0), [5.0, 0.0, 0.0])
        other.time_ns = first.time_ns
        other.sends_to(pose_in("map", 0.0), [8.0, 0.0, 0.0], row=2)


@pytest.mark.parametrize("threaded", [True, False])
def test_a_robot_in_another_domain_is_asked_there(ros_harness, domain_id, other_domain_id, threaded):
    everyone = TfOutput(tf="/tf", tf_static="/tf_static", prefix="arm/")
    moved = plan(
        subscription("/arm/pose", POSE.type, domain_id=other_domain_id),
        robots=(arm(domain_id=other_domain_id, outputs=(everyone,)),),
    )
    with (
        Bridge(moved, options=BridgeOptions(domain_id=domain_id, threaded=threaded)) as bridge,
        Bridge(plan(), options=BridgeOptions(domain_id=other_domain_id)) as there,
    ):
        other = Commander(ros_harness, bridge, node=there.node)
        # The robot's own frames have a prefix on that topic.
        other.sends_to(pose_in("arm/base", 1.0), [1.0, 0.0, 0.0])
        other.tf("/tf").publish(transform("world", "map", 5.0))
        other.sends_to(pose_in("map", 1.0), [6.0, 0.0, 0.0])


def test_closing_ends_the_subscriptions_and_leaves_a_hosts_node_as_it_was(ros_harness):
    before = len(list(ros_harness.node.subscriptions))
    with Bridge(plan(POSE), node=ros_harness.node) as bridge:
        assert {"/tf", "/tf_static", "/arm/tf"} <= {
            each.topic_name for each in ros_harness.node.subscriptions
        }
        bridge.step(SECOND)
    assert len(list(ros_harness.node.subscriptions)) == before


def test_nothing_listens_to_transforms_without_a_pose_that_something_takes(ros_harness):
    for made in (Bridge(plan(), node=ros_harness.node), Bridge(plan(POSE), "null", node=ros_harness.node)):
        with made:
            assert "/tf" not in {each.topic_name for each in ros_harness.node.subscriptions}


def test_without_tf2_ros_the_frame_is_refused_by_name(ros_harness, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2_ros", None)
    warnings = []
    with Bridge(plan(POSE), report=lambda _, message: warnings.append(message)) as bridge:
        other = Commander(ros_harness, bridge)

        def refused():
            other.poses.publish(pose_in("map", 1.0))
            other.step()
            return any("'map'" in message and "tf2_ros" in message for message in warnings)

        ros_harness.wait_for(refused, what="a refusal")
        assert_allclose(other.base()[:3], 0.0)
        # Frames of the robot's own need no tf2.
        other.sends_to(pose_in("world", 1.0), [1.0, 0.0, 0.0])
        assert len([message for message in warnings if "tf2_ros" in message]) == 1
