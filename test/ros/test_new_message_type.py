"""The recipe of docs/reference/plugins.md: another distribution adds message types, with their codecs and a sink."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from geometry_msgs.msg import Point, PointStamped, Quaternion, Vector3Stamped
from pxr import Sdf, Usd
from rclpy.qos import qos_profile_sensor_data

from foreign_plugins import install_plugin
from usd_ros_bridge import load_plan
from usd_ros_bridge.model.message_types import MESSAGE_TYPES
from usd_ros_bridge.ros.codecs import CODECS

STAGE = """#usda 1.0
(
    defaultPrim = "rover"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "rover" (
    prepend apiSchemas = ["RosContextAPI", "PhysicsRigidBodyAPI"]
)
{
    string ros:context:namespace = "rover"
    double3 xformOp:translate = (1, 2, 3)
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Scope "where" ( prepend apiSchemas = ["RosTopicAPI"] )
    {
        token ros:topic:role = "publisher"
        string ros:topic:name = "where"
        string ros:topic:type = "geometry_msgs/msg/PointStamped"
        double ros:topic:publish_rate = 50
    }
    def Scope "go" ( prepend apiSchemas = ["RosTopicAPI"] )
    {
        token ros:topic:role = "subscription"
        string ros:topic:name = "go"
        string ros:topic:type = "geometry_msgs/msg/Vector3Stamped"
    }
    custom double battery:voltage = 24.5
    def Scope "voltage" ( prepend apiSchemas = ["RosTopicAPI"] )
    {
        token ros:topic:role = "publisher"
        string ros:topic:name = "voltage"
        string ros:topic:type = "geometry_msgs/msg/Point"
        double ros:topic:publish_rate = 50
        custom rel usd_ros_bridge:source = </rover.battery:voltage>
    }
    def Scope "turn" ( prepend apiSchemas = ["RosTopicAPI"] )
    {
        token ros:topic:role = "subscription"
        string ros:topic:name = "turn"
        string ros:topic:type = "geometry_msgs/msg/Quaternion"
    }
}
"""


TYPES = """
from usd_ros_bridge.model.message_types import CodecPlugin, MessageType

POINT = CodecPlugin(
    meaning=MessageType(of_body=True, in_world=True, best_effort=True), codec="{name}_codecs:POINT"
)
VELOCITY = CodecPlugin(
    meaning=MessageType(of_body=True, commands="body_twist"), codec="{name}_codecs:VELOCITY"
)
VOLTAGE = CodecPlugin(meaning=MessageType(shows=frozenset(["double"])), codec="{name}_codecs:VOLTAGE")
TURN = CodecPlugin(
    meaning=MessageType(of_body=True), codec="{name}_codecs:TURN", sink="{name}_codecs:make_turn"
)
"""
CODEC_TEXT = """
import numpy as np

from usd_ros_bridge import AttributeValue, Encoding, MessageCodec, TwistSample
from usd_ros_bridge.ros.codecs.encoding import stamp_ns


def encode_point(topic, plan):
    return Encoding(values=lambda snapshot: (snapshot.body(topic.body)[:3],), blocks=("point",))


def encode_voltage(topic, plan):
    shown = AttributeValue(topic, plan)
    return Encoding(values=lambda snapshot: ((shown.at(snapshot),),), blocks=("x",))


def decode_velocity(message):
    linear = message.vector
    return TwistSample(
        stamp_ns=stamp_ns(message), twist=np.array([linear.x, linear.y, linear.z, 0.0, 0.0, 0.0])
    )


class Turn:
    def __init__(self, body):
        self._body = body

    def apply(self, sample, commands):
        commands.body_pose[self._body] = [4.0, 5.0, 6.0, *sample]


def make_turn(context, topic):
    return Turn(topic.body)


POINT = MessageCodec(encode=encode_point)
VELOCITY = MessageCodec(decode=decode_velocity)
VOLTAGE = MessageCodec(encode_attribute=encode_voltage)
TURN = MessageCodec(decode=lambda message: (message.x, message.y, message.z, message.w))
"""
POINTS = {
    "geometry_msgs.msg.PointStamped": "POINT",
    "geometry_msgs.msg.Vector3Stamped": "VELOCITY",
    "geometry_msgs.msg.Quaternion": "TURN",
    "geometry_msgs.msg.Point": "VOLTAGE",
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """`install(name, types, codecs)`: install a distribution with the three codecs."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name, types=TYPES, codecs=CODEC_TEXT):
        points = {point: f"{name}_types:{attribute}" for point, attribute in POINTS.items()}
        modules = {f"{name}_types": types.format(name=name), f"{name}_codecs": codecs}
        install_plugin(tmp_path, name, entry_points={"codecs": points}, modules=modules)

    return install


def make_plan():
    layer = Sdf.Layer.CreateAnonymous("rover.usda")
    assert layer.ImportFromString(STAGE)
    return load_plan(Usd.Stage.Open(layer))


def codec_faults(plan):
    return [each for each in plan.diagnostics if each.code == "2.3.codec"]


def test_a_plugin_adds_message_types(start, ros_harness, install):
    install("rover_codecs")
    assert "rover_codecs_types" not in sys.modules
    plan = make_plan()
    assert "rover_codecs_codecs" not in sys.modules, "planning does without rclpy"
    assert not codec_faults(plan)
    (where,) = (topic for topic in plan.topics if topic.name == "/rover/where")
    assert where.qos.reliability == "best_effort"
    assert where.frame_id == plan.robots[0].parent_frame
    running = start(plan)
    shown = ros_harness.listen(PointStamped, "/rover/where", qos_profile_sensor_data)
    commands = ros_harness.node.create_publisher(Vector3Stamped, "/rover/go", 10)
    ros_harness.wait_for(lambda: shown)
    assert (shown[0].point.x, shown[0].point.y, shown[0].point.z) == (1.0, 2.0, 3.0)
    command = Vector3Stamped()
    command.vector.x = 2.0
    ros_harness.wait_for(lambda: commands.publish(command) or shown[-1].point.x > 1.5)
    assert not running.warnings.faults


def test_the_sink_of_a_plugin_commands_the_backend(start, ros_harness, install):
    install("turning_codecs")
    running = start(make_plan())
    turns = ros_harness.node.create_publisher(Quaternion, "/rover/turn", 10)
    shown = ros_harness.listen(PointStamped, "/rover/where", qos_profile_sensor_data)
    half = Quaternion(z=1.0, w=0.0)
    ros_harness.wait_for(lambda: turns.publish(half) or (shown and shown[-1].point.x == 4.0))
    assert (shown[-1].point.y, shown[-1].point.z) == (5.0, 6.0)
    assert not running.warnings.faults


def test_a_codec_shows_the_value_of_an_attribute(start, ros_harness, install):
    install("voltage_codecs")
    running = start(make_plan())
    shown = ros_harness.listen(Point, "/rover/voltage")
    ros_harness.wait_for(lambda: shown)
    assert shown[0].x == 24.5
    assert not running.warnings.faults


@pytest.mark.parametrize(
    ("name", "types", "wanted"),
    [
        ("gone_codecs", "import no_such_module\n", "no module no_such_module"),
        ("odd_codecs", "POINT = VELOCITY = VOLTAGE = TURN = 3\n", "it is a int, no CodecPlugin"),
        (
            "later_codecs",
            "USD_ROS_BRIDGE_PROTOCOL = 9\n",
            "later_codecs_types is for version 9 of the plug-in protocols, and this bridge has 1",
        ),
        (
            "short_codecs",
            TYPES.replace(":POINT", "").replace(":VELOCITY", "").replace(":TURN", "").replace(":VOLTAGE", ""),
            "its codec 'short_codecs_codecs' is no module:attribute",
        ),
    ],
)
def test_a_faulty_plugin_is_a_diagnostic_of_each_prim(start, install, name, types, wanted):
    install(name, types)
    plan = make_plan()
    line = f"codec 'geometry_msgs/msg/PointStamped' of {name} 1.0 is disabled: {wanted}"
    found = codec_faults(plan)
    assert [each.path for each in found] == ["/rover/where", "/rover/go", "/rover/voltage", "/rover/turn"]
    assert (found[0].severity, found[0].message) == ("warning", line)
    running = start(plan)
    assert running.warnings.containing("/rover/where", line)
    assert running.warnings.containing("/rover/go", "is disabled", wanted)


@pytest.mark.parametrize(
    ("name", "codecs", "wanted"),
    [
        ("bare_codecs", "import no_such_module\n", "no module no_such_module"),
        (
            "few_codecs",
            "VELOCITY = TURN = VOLTAGE = POINT = 3\n",
            "few_codecs_codecs:POINT is a int, no MessageCodec",
        ),
    ],
)
def test_a_faulty_codec_module_leaves_the_topics_without_codec(start, install, name, codecs, wanted):
    install(name, codecs=codecs)
    running = start(make_plan())
    assert running.warnings.containing("/rover/where", wanted)
    assert running.warnings.containing("/rover/go", "is disabled")
    assert running.warnings.containing("/rover/turn", "is disabled")


def test_built_in_types_cannot_be_replaced(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    points = {"sensor_msgs.msg.Imu": "own_imu:IMU", "trajectory_msgs.msg.JointTrajectory": "own_imu:IMU"}
    install_plugin(tmp_path, "own-imu", entry_points={"codecs": points}, modules={})
    for registry in (MESSAGE_TYPES, CODECS):
        refused = [each for each in registry.entries() if each.origin == "own-imu"]
        assert [each.conflict for each in refused] == ["the name is built in"] * 2
        assert not registry.fault("sensor_msgs/msg/Imu")


def test_without_a_codec_both_are_reported(start):
    running = start(make_plan())
    assert running.warnings.containing("/rover/where", "nothing here makes messages")
    assert running.warnings.containing("/rover/go", "nothing takes messages")
