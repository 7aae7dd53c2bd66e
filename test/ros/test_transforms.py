"""/tf and /tf_static over DDS: topics, quality of service, stamps, prefixes, shared topics, faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from ros_plans import JOINT_COMMANDS, JOINT_STATES, arm, layout, plan
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from usd_ros_bridge import ArrayBackend, Bridge, load_plan
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.model.plan import Pose, TfOutput
from usd_ros_bridge.ros.cdr import SharedMessages, TemplateError
from usd_ros_bridge.ros.endpoints.tf_messages import RobotTransforms, make_transform, write_transforms
from usd_ros_bridge.testing.plans import PlanBuilder

ASSETS = Path(__file__).parents[1] / "assets"
STATIC = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
GLOBAL = TfOutput(tf="/tf", tf_static="/tf_static", prefix="arm/")


def parents(message):
    return {each.child_frame_id: each.header.frame_id for each in message.transforms}


def stamps(message):
    return {each.header.stamp.sec * 1_000_000_000 + each.header.stamp.nanosec for each in message.transforms}


@pytest.fixture
def listen(ros_harness):
    def subscribe(topic, qos=10):
        received = []
        ros_harness.node.create_subscription(TFMessage, topic, received.append, qos)
        return received

    return subscribe


def test_declared_transforms_are_served_by_the_bridges_own(start, listen, ros_harness):
    moving, static = listen("/robot/tf"), listen("/robot/tf_static", STATIC)
    start(load_plan(str(ASSETS / "topic_offered.usda")))
    ros_harness.wait_for(lambda: len(moving) > 5 and static, what="transforms")
    assert parents(moving[-1]) == {"link": "base"}
    assert parents(static[-1]) == {"robot": "world", "base": "robot"}
    for topic in ("/robot/tf", "/robot/tf_static"):
        assert ros_harness.node.count_publishers(topic) == 1


def test_moving_frames_go_to_tf_and_static_ones_to_tf_static(start, listen, ros_harness):
    moving, static = listen("/arm/tf"), listen("/arm/tf_static", STATIC)
    start(plan())
    ros_harness.wait_for(lambda: len(moving) > 5 and static, what="transforms")
    assert parents(moving[0]) == {"base": "world", "link": "base"}
    assert parents(static[0]) == {"tool": "link"}
    assert static[0].transforms[0].transform.translation.x == 0.5
    all_stamps = [stamps(message) for message in moving]
    assert all(len(each) == 1 for each in all_stamps)
    flat = [each.pop() for each in all_stamps]
    assert flat == sorted(set(flat))


def test_transforms_follow_the_joint(start, listen, ros_harness):
    moving = listen("/arm/tf")
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


def test_quality_of_service_is_that_of_tf2(start, listen, ros_harness):
    moving = listen("/arm/tf")
    start(plan())
    ros_harness.wait_for(lambda: bool(moving), what="transforms")
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


def test_a_late_joiner_gets_every_robot_of_a_shared_static_topic(start, listen, ros_harness):
    second = TfOutput(tf="/tf", tf_static="/tf_static", prefix="second/")
    robots = (
        arm(outputs=(GLOBAL,)),
        arm("/second", path="/second", row=1, index=1, outputs=(second,)),
    )
    moving = listen("/tf")
    start(plan(robots=robots, layout=layout("/arm", "/second")))
    ros_harness.wait_for(lambda: len(moving) > 4, what="the bridge to run")
    late = listen("/tf_static", STATIC)
    ros_harness.wait_for(lambda: bool(late), what="static transforms")
    assert parents(late[0]) == {"arm/tool": "arm/link", "second/tool": "second/link"}
    shown = {frozenset(parents(message).items()) for message in moving}
    assert shown == {
        frozenset({("arm/base", "world"), ("arm/link", "arm/base")}),
        frozenset({("second/base", "world"), ("second/link", "second/base")}),
    }


def test_both_outputs_come_from_one_computation(start, listen, ros_harness):
    outputs = (TfOutput(tf="/arm/tf", tf_static="/arm/tf_static"), GLOBAL)
    namespaced, everywhere = listen("/arm/tf"), listen("/tf")
    start(plan(robots=(arm(outputs=outputs),)))

    def common():
        return {frozenset(stamps(m)) for m in namespaced} & {frozenset(stamps(m)) for m in everywhere}

    ros_harness.wait_for(lambda: len(common()) > 3, what="the same states on both topics")
    assert parents(everywhere[0]) == {"arm/base": "world", "arm/link": "arm/base"}


def test_a_base_that_something_else_places_is_left_out(start, listen, ros_harness):
    moving = listen("/arm/tf")
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


def test_a_frame_that_is_not_finite_is_dropped_and_a_backend_that_raises_stops_nothing(
    start, listen, ros_harness
):
    moving = listen("/arm/tf")
    running = start(plan(JOINT_STATES), BrokenBackend())
    ros_harness.wait_for(lambda: len(moving) > 5, what="transforms")
    assert {frozenset(parents(message)) for message in moving} == {frozenset({"base"})}
    assert len(running.warnings.containing("a gear is stuck")) == 1
    assert len(running.warnings.containing("not finite", "link")) == 1
    assert running.bridge.status().backend_errors > 1


def test_an_emitter_or_a_callback_that_raises_does_not_stop_tf(start, listen, ros_harness, monkeypatch):
    def broken(_):
        raise ValueError("cannot read this")

    monkeypatch.setattr("usd_ros_bridge.ros.making.DECODERS", {"sensor_msgs/msg/JointState": broken})
    monkeypatch.setattr("usd_ros_bridge.ros.cdr.reader.READERS", {})
    moving = listen("/arm/tf")
    commands = ros_harness.node.create_publisher(JointState, "/arm/joint_commands", 10)
    running = start(plan(JOINT_COMMANDS))

    class Broken:
        def emit(self, snapshot):
            raise ValueError(f"cannot send this at {snapshot.time_ns}")

    running.bridge.runtime.add_emitter(Broken(), name="broken")
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
def test_another_publisher_of_the_same_frame_is_reported_once_by_name(start, ros_harness, topic, parent):
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


def test_another_publisher_of_other_frames_is_welcome(start, ros_harness, listen, monkeypatch):
    monkeypatch.setattr("usd_ros_bridge.ros.endpoints.tf_guard.LISTEN_S", 0.2)
    monkeypatch.setattr("usd_ros_bridge.ros.transforms.CHECK_RATE", 20.0)
    moving = listen("/arm/tf")
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
    start, listen, ros_harness, monkeypatch
):
    def refuse(message):
        raise TemplateError("no template today")

    monkeypatch.setattr("usd_ros_bridge.ros.endpoints.tf_messages.Template", refuse)
    moving = listen("/arm/tf")
    running = start(plan())
    ros_harness.wait_for(lambda: len(moving) > 3, what="transforms")
    assert parents(moving[-1]) == {"base": "world", "link": "base"}
    assert [each.transform.translation.x for each in moving[-1].transforms] == [0.0, 1.0]
    assert len(running.warnings.containing("no template today")) == 1


@pytest.mark.parametrize("rotate_only", [False, True])
def test_what_is_written_in_place_is_what_message_objects_say(rotate_only):
    robot = arm(outputs=(GLOBAL,))
    frames = SimpleNamespace(moving=(0, 1), rotate_only=rotate_only)
    written = RobotTransforms(
        robot, frames, GLOBAL, lambda *each: pytest.fail(str(each)), SharedMessages(), pytest.fail
    )
    poses = np.arange(28.0).reshape(2, 2, 7)
    if rotate_only:
        poses[1, :, :3] = poses[0, :, :3]
    for stamp_ns, pose in ((5, poses[0]), (7_000_000_123, poses[1])):
        data = written.message(stamp_ns, pose, None)
        assert isinstance(data, bytearray)
        objects = [make_transform(robot, robot.frames[index], "arm/") for index in frames.moving]
        write_transforms(objects, pose, stamp_ns)
        assert deserialize_message(bytes(data), TFMessage) == TFMessage(transforms=objects)
    message = written.message(8, poses[1], np.array([False, True]))
    assert parents(message) == {"arm/link": "arm/base"}
    assert message.transforms[0].transform.rotation.w == 27.0
    assert stamps(message) == {8}


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


def test_frames_that_only_rotate_have_their_translations_after_a_reset_and_from_the_next_bridge(
    listen, ros_harness
):
    moving = listen("/arm/tf", 100)
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
        backend = ArrayBackend(described.layout, joint_position=position, commands=False)
        with Bridge(
            described,
            backend,
            tf_rate=None,
            report=lambda *each: warnings.append(each),
            inform=lambda *_: None,
        ) as bridge:
            ros_harness.wait_for(
                lambda: any(r.name == "/arm/tf" and r.matched for r in bridge.status().interfaces),
                what="the listener",
            )
            check_two(bridge.step)
            bridge.reset()
            check_two(bridge.step)
    assert not warnings


@pytest.mark.parametrize("rotate_only", [False, True])
def test_robots_with_the_same_frames_write_into_one_message(rotate_only):
    """But not where what only rotates is translated differently."""
    robot, shared = arm(outputs=(GLOBAL,)), SharedMessages()
    frames = SimpleNamespace(moving=(0, 1), rotate_only=rotate_only)
    poses = np.arange(42.0).reshape(3, 2, 7)
    poses[1, :, :3] = poses[0, :, :3]
    robots = [RobotTransforms(robot, frames, GLOBAL, pytest.fail, shared, pytest.fail) for _ in poses]
    for stamp_ns in (5, 7_000_000_123):
        poses[:, :, 3:] += 0.5
        for written, pose in zip(robots, poses, strict=True):
            data = written.message(stamp_ns, pose, None)
            objects = [make_transform(robot, robot.frames[index], "arm/") for index in frames.moving]
            write_transforms(objects, pose, stamp_ns)
            assert deserialize_message(bytes(data), TFMessage) == TFMessage(transforms=objects)
    assert robots[0]._written is robots[1]._written
    assert (robots[0]._written is robots[2]._written) == (not rotate_only)
