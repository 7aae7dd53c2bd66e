"""The node in place of robot_state_publisher, in a process of its own: its name, its topics, its parameters."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.process

ARM = Path(__file__).parents[2] / "examples" / "arm" / "arm.usda"
NODE = [
    sys.executable,
    "-c",
    "from usd_ros_bridge.entry_points import robot_state_publisher; robot_state_publisher()",
]
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@pytest.fixture
def node(program, tmp_path):
    def begin(*parameters):
        options = [part for each in parameters for part in ("-p", each)]
        meshes = ["-p", f"mesh_directory:={tmp_path}"]
        program([*NODE, ARM, "--ros-args", *meshes, *options]).exit_status = 0

    return begin


def call(harness, service_class, name, request):
    client = harness.node.create_client(service_class, f"/robot_state_publisher/{name}")
    harness.wait_for(client.service_is_ready, timeout=90.0, what=name)
    future = client.call_async(request)
    harness.wait_for(future.done, what=f"the answer of {name}")
    return future.result()


def test_it_has_the_topics_of_the_cpp_node_and_no_others(node, ros_harness):
    moving, static, described = [], [], []
    ros_harness.node.create_subscription(TFMessage, "/tf", moving.append, 100)
    ros_harness.node.create_subscription(TFMessage, "/tf_static", static.append, LATCHED)
    ros_harness.node.create_subscription(String, "/arm/robot_description", described.append, LATCHED)
    states = ros_harness.node.create_publisher(JointState, "/arm/joint_states", 10)
    node("frame_prefix:=left_")
    ros_harness.wait_for(lambda: static and described, timeout=90.0, what="what is latched")
    ros_harness.wait_for(lambda: states.get_subscription_count() == 1, what="its subscription")
    assert moving == [], "nothing moves before a message says so"
    message = JointState(name=["joint_1"], position=[0.5])
    message.header.stamp = ros_harness.node.get_clock().now().to_msg()
    # Again and again: what comes before the subscription knows its publisher is lost.
    ros_harness.wait_for(lambda: states.publish(message) or moving, what="/tf")
    sent = [each for group in (moving[0], static[0]) for each in group.transforms]
    assert moving[0].transforms[0].header.stamp == message.header.stamp
    assert {each.child_frame_id[:5] for each in sent} == {"left_"}
    assert "world" not in {each.header.frame_id for each in sent}
    known = {"/tf", "/tf_static", "/arm/robot_description", "/arm/joint_states"}

    def topics() -> set[str]:
        # Others are of the middleware, and of other nodes of this domain.
        found = {name for name, _ in ros_harness.node.get_topic_names_and_types()}
        return {name for name in found if name.startswith(("/arm", "/tf"))}

    ros_harness.wait_for(lambda: topics() >= known, what="its topics")
    assert topics() == known
    asked = GetParameters.Request(names=["robot_description", "publish_frequency", "ignore_timestamp"])
    answers = []

    def is_described():
        answers[:] = call(ros_harness, GetParameters, "get_parameters", asked).values
        return answers[0].string_value == described[0].data

    # The executor's thread sets the parameter after the topic was sent.
    ros_harness.wait_for(is_described, what="the parameter robot_description")
    _, frequency, ignores = answers
    assert (frequency.double_value, ignores.bool_value) == (20.0, False)
    wanted = Parameter("robot_description", Parameter.Type.STRING, "<robot/>").to_parameter_msg()
    request = SetParameters.Request(parameters=[wanted])
    (result,) = call(ros_harness, SetParameters, "set_parameters", request).results
    assert not result.successful
    assert "asset" in result.reason


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "asset"),
        (("--ros-args", "-p", "robot_description:=<robot/>"), "asset"),
        ((str(ARM), "another.usda"), "another.usda"),
        ((str(ARM), "--ros-args", "-p", "publish_frequency:=2000.0"), "publish_frequency"),
        ((str(ARM), "--ros-args", "-p", "robot_description:=1"), "robot_description"),
    ],
)
def test_wrong_input_is_one_line_and_status_two(program, arguments, text):
    child = program([*NODE, *arguments])
    assert child.wait(timeout=90.0) == 2, child.output
    (line,) = [line for line in child.output.splitlines() if line.startswith("usd_ros_bridge: ")]
    assert text in line
    assert "Traceback" not in child.output
