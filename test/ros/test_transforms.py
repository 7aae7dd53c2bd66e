"""/tf and /tf_static over DDS: topics, quality of service, stamps, prefixes, shared topics, faults."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from builders.plans import PlanBuilder
from ros_plans import JOINT_COMMANDS, JOINT_STATES, arm, layout, plan
from usd_ros_bridge import ArrayBackend, Bridge, BridgeOptions, load_plan
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.model.plan import TfOutput
from usd_ros_bridge.ros.codecs.encoding import MessageCodec
from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessages, MessageEncoder
from usd_ros_bridge.ros.tf.broadcaster import (
    TransformPublisher,
    encode_transforms,
    make_transform,
    write_transforms,
)
from usd_ros_bridge.ros.wire.cdr_layout import TemplateError
from usd_ros_bridge.runtime.publications import Publication, Publications
from usd_ros_bridge.spatial.pose import Pose

ASSETS = Path(__file__).parents[1] / "assets"
STATIC = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
GLOBAL = TfOutput(tf="/tf", tf_static="/tf_static", prefix="arm/")


def parents(message):
    return {each.child_frame_id: each.header.frame_id for each in message.transforms}


def stamps(message):
    return {each.header.stamp.sec * 1_000_000_000 + each.header.stamp.nanosec for each in message.transforms}


def test_declared_transforms_are_served_by_the_bridges_own(start, ros_harness):
    moving, static = (
        ros_harness.listen(TFMessage, "/robot/tf"),
        ros_harness.listen(TFMessage, "/robot/tf_static", STATIC),
    )
    start(load_plan(str(ASSETS / "topic_offered.usda")))
    ros_harness.wait_for(lambda: len(moving) > 5 and static, what="transforms")
    assert parents(moving[-1]) == {"link": "base"}
    assert parents(static[-1]) == {"robot": "world", "base": "robot"}
    for topic in ("/robot/tf", "/robot/tf_static"):
        assert ros_harness.node.count_publishers(topic) == 1


def test_moving_frames_go_to_tf_and_static_ones_to_tf_static(start, ros_harness):
    moving, static = (
        ros_harness.listen(TFMessage, "/arm/tf"),
        ros_harness.listen(TFMessage, "/arm/tf_static", STATIC),
    )
    start(plan())
    ros_harness.wait_for(lambda: len(moving) > 5 and static, what="transforms")
    assert parents(moving[0]) == {"base": "world", "link": "base"}
    assert parents(static[0]) == {"tool": "link"}
    assert static[0].transforms[0].transform.translation.x == 0.5
    all_stamps = [stamps(message) for message in moving]
    assert all(len(each) == 1 for each in all_stamps)
    flat = [each.pop() for each in all_stamps]
    assert flat == sorted(set(flat))


def test_transforms_follow_the_joint(start, ros_harness):
    moving = ros_harness.listen(TFMessage, "/arm/tf")
    commands = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    running = start(plan(JOINT_COMMANDS))
    ros_harness.wait_for(
        lambda: moving and ros_harness.are_connected(commands, running.bridge), what="the bridge"
    )
    commands.publish(JointState(name=["hinge"], position=[1.0]))

    def rotation():
        return next(
            each.transform.rotation for each in moving[-1].transforms if each.child_frame_id == "link"
        )

    ros_harness.wait_for(lambda: rotation().z == pytest.approx(np.sin(0.5)), what="the link's rotation")
    assert rotation().w == pytest.approx(np.cos(0.5))


def test_quality_of_service_is_that_of_tf2(start, ros_harness):
    moving = ros_harness.listen(TFMessage, "/arm/tf")
    start(plan())
    ros_harness.wait_for(lambda: bool(moving), what="transforms")
    # It is made after the other one, and announced after it.
    ros_harness.wait_for(
        lambda: ros_harness.node.count_publishers("/arm/tf_static") == 1,
        what="the publisher of /arm/tf_static",
    )
    (tf,) = ros_harness.node.get_publishers_info_by_topic("/arm/tf")
    (static,) = ros_harness.node.get_publishers_info_by_topic("/arm/tf_static")
    assert (tf.qos_profile.reliability, tf.qos_profile.durability) == (
        ReliabilityPolicy.RELIABLE,
        DurabilityPolicy.VOLATILE,
    )
    assert (static.qos_profile.reliability, static.qos_profile.durability) == (
        ReliabilityPolicy.RELIABLE,
        DurabilityPolicy.TRANSIENT_LOCAL,
    )


def test_a_late_joiner_gets_every_robot_of_a_shared_static_topic(start, ros_harness):
    second = TfOutput(tf="/tf", tf_static="/tf_static", prefix="second/")
    robots = (
        arm(outputs=(GLOBAL,)),
        arm("/second", path="/second", row=1, index=1, outputs=(second,)),
    )
    moving = ros_harness.listen(TFMessage, "/tf")
    start(plan(robots=robots, layout=layout("/arm", "/second")))
    ros_harness.wait_for(lambda: len(moving) > 4, what="the bridge to run")
    late = ros_harness.listen(TFMessage, "/tf_static", STATIC)
    ros_harness.wait_for(lambda: bool(late), what="static transforms")
    assert parents(late[0]) == {"arm/tool": "arm/link", "second/tool": "second/link"}
    shown = {frozenset(parents(message).items()) for message in moving}
    assert shown == {
        frozenset({("arm/base", "world"), ("arm/link", "arm/base")}),
        frozenset({("second/base", "world"), ("second/link", "second/base")}),
    }


def test_both_outputs_come_from_one_computation(start, ros_harness):
    outputs = (TfOutput(tf="/arm/tf", tf_static="/arm/tf_static"), GLOBAL)
    namespaced, everywhere = ros_harness.listen(TFMessage, "/arm/tf"), ros_harness.listen(TFMessage, "/tf")
    start(plan(robots=(arm(outputs=outputs),)))

    def common():
        return {frozenset(stamps(m)) for m in namespaced} & {frozenset(stamps(m)) for m in everywhere}

    ros_harness.wait_for(lambda: len(common()) > 3, what="the same states on both topics")
    assert parents(everywhere[0]) == {"arm/base": "world", "arm/link": "arm/base"}


def test_a_base_that_something_else_places_is_left_out(start, ros_harness):
    moving = ros_harness.listen(TFMessage, "/arm/tf")
    start(plan(robots=(replace(arm(), base_transform="none"),)))
    ros_harness.wait_for(lambda: bool(moving), what="transforms")
    assert parents(moving[0]) == {"link": "base"}


class BrokenBackend(NullBackend):
    """Shows a joint that is not finite, and raises in every third step."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def step(self, time_ns, commands):
        self.steps += 1
        if self.steps % 3 == 0:
            raise RuntimeError("a gear is stuck")
        state = super().step(time_ns, commands)
        state.joint_position = np.array([np.nan])
        return state


def test_a_frame_that_is_not_finite_is_dropped_and_a_backend_that_raises_stops_nothing(start, ros_harness):
    moving = ros_harness.listen(TFMessage, "/arm/tf")
    running = start(plan(JOINT_STATES), BrokenBackend())
    ros_harness.wait_for(lambda: len(moving) > 5, what="transforms")
    assert {frozenset(parents(message)) for message in moving} == {frozenset({"base"})}
    assert len(running.warnings.containing("a gear is stuck")) == 1
    assert len(running.warnings.containing("not finite", "link")) == 1
    assert running.bridge.status().backend_errors > 1


def test_an_emitter_or_a_callback_that_raises_does_not_stop_tf(start, ros_harness, monkeypatch):
    def broken(_):
        raise ValueError("cannot read this")

    codec = MessageCodec(decode=broken)
    monkeypatch.setattr("usd_ros_bridge.ros.endpoints.factory.CODECS", {"sensor_msgs/msg/JointState": codec})
    moving = ros_harness.listen(TFMessage, "/arm/tf")
    commands = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    running = start(plan(JOINT_COMMANDS))

    class Broken(Publication):
        def publish(self, snapshot):
            raise ValueError(f"cannot send this at {snapshot.time_ns}")

    running.bridge.parts.runtime.add_publication(Broken(), name="broken")
    ros_harness.wait_for(lambda: ros_harness.are_connected(commands, running.bridge), what="the subscription")
    for _ in range(3):
        commands.publish(JointState(name=["hinge"], position=[0.1]))
    ros_harness.wait_for(
        lambda: running.row("/arm/joint_commands", "subscription").errors == 3, what="three failed decodings"
    )
    count = len(moving)
    ros_harness.wait_for(lambda: len(moving) > count + 5, what="more transforms")
    assert len(running.warnings.containing("cannot read this")) == 1
    assert len(running.warnings.containing("cannot send this")) == 1


@pytest.mark.parametrize("topic", ["/arm/tf", "/arm/tf_static"])
@pytest.mark.parametrize("parent", ["base", "somewhere"])
def test_another_publisher_of_the_same_frame_is_reported_once_by_name(
    start, ros_harness, monkeypatch, topic, parent
):
    monkeypatch.setattr("usd_ros_bridge.ros.tf.broadcaster.CHECK_RATE", 20.0)
    running = start(plan())
    qos = STATIC if topic.endswith("static") else 10
    other = ros_harness.node.create_publisher(TFMessage, topic, qos)
    transform = TransformStamped()
    transform.header.frame_id, transform.child_frame_id = parent, "link"

    def reported():
        other.publish(TFMessage(transforms=[transform]))
        return running.warnings.containing("/observer", topic, "link")

    ros_harness.wait_for(reported, what="the report")
    assert len(running.warnings.containing("one parent")) == 1


def test_another_publisher_of_other_frames_is_welcome(start, ros_harness, monkeypatch):
    monkeypatch.setattr("usd_ros_bridge.ros.tf.monitor.SUBSCRIBED_S", 0.2)
    # Again and again: the test may get no time to run while the guard listens.
    monkeypatch.setattr("usd_ros_bridge.ros.tf.monitor.AGAIN_S", 0.3)
    monkeypatch.setattr("usd_ros_bridge.ros.tf.broadcaster.CHECK_RATE", 20.0)
    moving = ros_harness.listen(TFMessage, "/arm/tf")
    running = start(plan())
    other = ros_harness.node.create_publisher(TFMessage, "/arm/tf", 10)
    transform = TransformStamped()
    transform.header.frame_id, transform.child_frame_id = "base", "hat"

    def heard():
        other.publish(TFMessage(transforms=[transform]))
        return other.get_subscription_count() == 2

    ros_harness.wait_for(heard, what="the guard to listen")
    ros_harness.wait_for(lambda: other.get_subscription_count() == 1, what="the guard to stop listening")
    assert any("hat" in parents(message) for message in moving)
    assert not running.warnings.containing("one parent")


def test_transforms_without_a_template_are_message_objects_with_the_same_content(
    start, ros_harness, monkeypatch
):
    def refuse(message):
        raise TemplateError("no template today")

    monkeypatch.setattr("usd_ros_bridge.ros.codecs.message_encoder.Template", refuse)
    moving = ros_harness.listen(TFMessage, "/arm/tf")
    running = start(plan())
    ros_harness.wait_for(lambda: len(moving) > 3, what="transforms")
    assert parents(moving[-1]) == {"base": "world", "link": "base"}
    assert [each.transform.translation.x for each in moving[-1].transforms] == [0.0, 1.0]
    assert len(running.warnings.containing("no template today")) == 1


class Posed:
    """Stands for a snapshot with these poses of one robot's moving frames."""

    def __init__(self, poses, stamp_ns=0, *, by_topic=False):
        self.poses = poses
        self.frames_finite = bool(np.isfinite(poses).all())
        self.stamp_ns = stamp_ns
        self.common_ns = None if by_topic else stamp_ns

    def robot_time_ns(self, _):
        return self.stamp_ns

    def frame_poses(self, _):
        return self.poses


class Encoded:
    """The messages of a robot with two moving frames, beside message objects that say the same."""

    def __init__(self, *, rotate_only, messages=None):
        self.robot, self.reports = arm(outputs=(GLOBAL,)), []
        frames = SimpleNamespace(moving=(0, 1), rotate_only=rotate_only, span=slice(0, 2))
        report = lambda *each: self.reports.append(each)  # noqa: E731
        messages = EncodedMessages() if messages is None else messages
        self.encoding = encode_transforms(self.robot, frames, GLOBAL, 0, report)
        self.encoder = MessageEncoder("/arm", TFMessage, self.encoding, report=report, messages=messages)

    def check(self, poses, stamp_ns, shown=(0, 1)):
        """Compares the message with message objects; returns it as it is sent."""
        values = self.encoding.values(Posed(poses))
        data = self.encoder.encode(values, stamp_ns)
        objects = [make_transform(self.robot, self.robot.frames[index], "arm/") for index in shown]
        write_transforms(objects, poses[list(shown)], stamp_ns)
        assert deserialize_message(bytes(data), TFMessage) == TFMessage(transforms=objects)
        assert self.encoder.make_message(values, stamp_ns) == TFMessage(transforms=objects)
        return data


@pytest.mark.parametrize("rotate_only", [False, True])
def test_what_is_written_in_place_is_what_message_objects_say(rotate_only):
    encoded = Encoded(rotate_only=rotate_only)
    poses = np.arange(28.0).reshape(2, 2, 7)
    if rotate_only:
        poses[1, :, :3] = poses[0, :, :3]
    whole = encoded.check(poses[0], 5)
    assert encoded.check(poses[1], 7_000_000_123) is whole
    poses[1, 0, 4] = np.nan
    encoded.check(poses[1], 8, shown=(1,))
    assert [kind for kind, _ in encoded.reports] == ["tf.finite:/arm"]
    assert encoded.check(poses[0], 9) is whole
    poses[1] = np.inf
    assert encoded.encoding.values(Posed(poses[1])) is None


@pytest.mark.parametrize("rotate_only", [False, True])
def test_robots_with_the_same_frames_write_into_one_message(rotate_only):
    """But not where what only rotates is translated differently."""
    messages = EncodedMessages()
    poses = np.arange(42.0).reshape(3, 2, 7)
    poses[1, :, :3] = poses[0, :, :3]
    robots = [Encoded(rotate_only=rotate_only, messages=messages) for _ in poses]
    for stamp_ns in (5, 7_000_000_123):
        poses[:, :, 3:] += 0.5
        sent = [each.check(pose, stamp_ns) for each, pose in zip(robots, poses, strict=True)]
        assert sent[0] is sent[1]
        assert (sent[0] is sent[2]) == (not rotate_only)


class Topic:
    """Stands for a TF topic, and notes the stamps that are sent."""

    def __init__(self):
        self.name, self.always, self.handle = "/tf", True, self
        self.recent_stamps, self.publishers, self.sent = deque(), [], []

    def send(self, data):
        assert list(self.recent_stamps)[-1:] == list(stamps(deserialize_message(bytes(data), TFMessage)))
        self.sent.append(self.recent_stamps[-1])


def test_each_state_is_sent_once_with_its_own_stamp_and_again_after_a_reset():
    topic, reports = Topic(), []
    publisher = TransformPublisher(
        topic, messages=EncodedMessages(), report=lambda *each: reports.append(each)
    )
    frames = SimpleNamespace(moving=(0, 1), rotate_only=False, span=slice(0, 2))
    publisher.update(arm(outputs=(GLOBAL,)), frames, GLOBAL, 0)
    poses, lost = np.ones((2, 7)), np.full((2, 7), np.nan)
    for by_topic in (False, True):
        publisher.reset()
        asked = [(poses, 5), (poses, 5), (poses, -1), (lost, 6), (poses, 6), (poses, 6), (lost, 7)]
        sent = [publisher.publish(Posed(*each, by_topic=by_topic)) for each in asked]
        assert sent == [True, False, False, False, True, False, False]
    publisher.reset()
    assert publisher.publish(Posed(poses, 6))
    assert topic.sent == [5, 6, 5, 6, 6]
    assert {kind for kind, _ in reports} == {"tf.finite:/arm"}


class ByTopic:
    """Stands for a snapshot of two robots whose states came by topic: each has a time of its own, -1 for none."""

    common_ns, frames_finite, all_frame_poses = None, True, np.ones((4, 7))

    def __init__(self, *times_ns):
        self.times_ns, self.time_ns = times_ns, max(times_ns)

    def robot_time_ns(self, robot):
        return self.times_ns[robot]

    def frame_poses(self, robot):
        return self.all_frame_poses[2 * robot : 2 * robot + 2]


@pytest.mark.parametrize("as_batch", [False, True])
def test_each_robot_is_sent_with_its_own_stamp_where_states_come_by_topic(as_batch):
    topic, reports, messages = Topic(), [], EncodedMessages()
    publications = Publications(lambda *each: reports.append(each))
    publishers = []
    for robot in range(2):
        each = TransformPublisher(topic, messages=messages, report=lambda *each: reports.append(each))
        frames = SimpleNamespace(moving=(0, 1), rotate_only=False, span=slice(2 * robot, 2 * robot + 2))
        each.update(arm(outputs=(GLOBAL,)), frames, GLOBAL, robot)
        publications.add(each, name=str(robot))
        publishers.append(each)
    assert publishers[0].batch_key == publishers[1].batch_key is not None
    publish_batch = publishers[0].make_batch(publishers, publications)

    def publish(snapshot):
        """Tells which of the robots published."""
        before = [each.count for each in publishers]
        if as_batch:
            publish_batch(snapshot)
        else:
            for each in publishers:
                publications.publish_each((each,), snapshot)
        return [each.count > count for each, count in zip(publishers, before, strict=True)]

    assert publish(ByTopic(-1, 70)) == [False, True]
    assert topic.sent == [70]
    assert publish(ByTopic(-1, 70)) == [False, False]
    assert publish(ByTopic(71, 70)) == [True, False]
    assert publish(ByTopic(72, 73)) == [True, True]
    assert topic.sent == [70, 71, 72, 73]
    assert not reports


def test_a_robot_whose_frames_are_all_static_has_no_publisher_of_moving_ones(start, ros_harness):
    robot = PlanBuilder().robot("/post", tf_outputs=(TfOutput(tf="/post/tf", tf_static="/post/tf_static"),))
    robot.body("base")
    robot.joint("anchor", "", "base", kind="fixed")
    robot.fixed_frame("lamp", "base", Pose((0.0, 0.0, 2.0)))
    static = ros_harness.listen(TFMessage, "/post/tf_static", STATIC)
    running = start(robot.plan.build())
    ros_harness.wait_for(lambda: bool(static), what="static transforms")
    assert "lamp" in parents(static[0])
    rows = {row.name for row in running.bridge.status().interfaces if row.type == "tf2_msgs/msg/TFMessage"}
    assert rows == {"/post/tf_static"}
    assert running.bridge.node.count_publishers("/post/tf_static") == 1
    assert running.bridge.node.count_publishers("/post/tf") == 0


def anchored_arm():
    """Two joints on a base that is fixed to the world: no state changes a translation, and each frame has one."""
    robot = PlanBuilder().robot("/arm", tf_outputs=(TfOutput(tf="/arm/tf", tf_static="/arm/tf_static"),))
    robot.body("base")
    robot.joint("anchor", "", "base", kind="fixed")
    for name, parent, translation in (
        ("upper", "base", (0.1, 0.2, 0.3)),
        ("lower", "upper", (0.0, -0.4, 0.0)),
    ):
        robot.body(name)
        robot.joint(f"{name}_joint", parent, name, axis="Y", body0_from_joint=Pose(translation))
    return robot.plan.build()


def test_frames_that_only_rotate_have_their_translations_after_a_reset_and_from_the_next_bridge(ros_harness):
    moving = ros_harness.listen(TFMessage, "/arm/tf", 100)
    described = anchored_arm()
    position = np.zeros(2)
    warnings = []

    def check_two(step):
        moving.clear()
        for second, angle in enumerate((0.5, -0.5), start=1):
            position[:] = angle
            step(second * 1_000_000_000)
            ros_harness.wait_for(lambda expected=second: len(moving) == expected, what="transforms")
        for message, angle in zip(moving, (0.5, -0.5), strict=True):
            assert [each.child_frame_id for each in message.transforms] == ["upper", "lower"]
            for each, translation in zip(
                message.transforms, ((0.1, 0.2, 0.3), (0.0, -0.4, 0.0)), strict=True
            ):
                vector, rotation = each.transform.translation, each.transform.rotation
                assert (vector.x, vector.y, vector.z) == translation
                found = (rotation.x, rotation.y, rotation.z, rotation.w)
                assert found == pytest.approx((0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)), abs=1e-15)

    for _ in range(2):
        # That of the bridge before may still be known.
        ros_harness.wait_for(lambda: not ros_harness.knows_publisher("/arm/tf"), what="no publisher")
        backend = ArrayBackend(described.layout, joint_position=position, commands=False)
        with Bridge(
            described,
            backend,
            options=BridgeOptions(tf_rate=None),
            report=lambda *each: warnings.append(each),
            inform=lambda *_: None,
        ) as bridge:
            ros_harness.wait_for(
                lambda: (
                    any(r.name == "/arm/tf" and r.matched for r in bridge.status().interfaces)
                    and ros_harness.knows_publisher("/arm/tf")
                ),
                what="the listener",
            )
            check_two(bridge.step)
            bridge.reset()
            check_two(bridge.step)
    assert not warnings
