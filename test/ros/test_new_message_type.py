"""The recipe of docs/architecture.md: a message type is one row in model/message_types.py and one in ros/codecs/."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from geometry_msgs.msg import PointStamped, Vector3Stamped
from pxr import Sdf, Usd
from rclpy.qos import qos_profile_sensor_data

from usd_ros_bridge import load_plan
from usd_ros_bridge.model.message_types import MESSAGE_TYPES, MessageType
from usd_ros_bridge.model.state import TwistSample
from usd_ros_bridge.ros.codecs import CODECS
from usd_ros_bridge.ros.codecs.encoding import Encoding, MessageCodec, stamp_ns

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
}
"""


def encode_point(topic, plan):
    return Encoding(values=lambda snapshot: (snapshot.body(topic.body)[:3],), blocks=("point",))


def decode_velocity(message):
    linear = message.vector
    return TwistSample(
        stamp_ns=stamp_ns(message), twist=np.array([linear.x, linear.y, linear.z, 0.0, 0.0, 0.0])
    )


def make_plan():
    layer = Sdf.Layer.CreateAnonymous("rover.usda")
    assert layer.ImportFromString(STAGE)
    return load_plan(Usd.Stage.Open(layer))


def test_two_rows_add_a_message_type(start, ros_harness, monkeypatch):
    point, velocity = "geometry_msgs/msg/PointStamped", "geometry_msgs/msg/Vector3Stamped"
    monkeypatch.setitem(MESSAGE_TYPES, point, MessageType(of_body=True, in_world=True, best_effort=True))
    monkeypatch.setitem(MESSAGE_TYPES, velocity, MessageType(of_body=True, commands="body_twist"))
    monkeypatch.setitem(CODECS, point, MessageCodec(encode=encode_point))
    monkeypatch.setitem(CODECS, velocity, MessageCodec(decode=decode_velocity))
    plan = make_plan()
    (where,) = (topic for topic in plan.topics if topic.name == "/rover/where")
    assert where.qos.reliability == "best_effort"
    assert where.frame_id == plan.robots[0].parent_frame
    running = start(plan)
    shown = []
    ros_harness.node.create_subscription(PointStamped, "/rover/where", shown.append, qos_profile_sensor_data)
    commands = ros_harness.node.create_publisher(Vector3Stamped, "/rover/go", 10)
    ros_harness.wait_for(lambda: shown)
    assert (shown[0].point.x, shown[0].point.y, shown[0].point.z) == (1.0, 2.0, 3.0)
    command = Vector3Stamped()
    command.vector.x = 2.0
    ros_harness.wait_for(lambda: commands.publish(command) or shown[-1].point.x > 1.5)
    assert not running.warnings.faults


def test_without_the_rows_both_are_reported(start):
    running = start(make_plan())
    assert running.warnings.containing("/rover/where", "nothing here makes messages")
    assert running.warnings.containing("/rover/go", "nothing takes messages")
