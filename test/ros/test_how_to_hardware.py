"""The recipe for ros2_control: its tag, its parameters and its topics fit the robot; a message of the plugin works."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState

from markdown_docs import blocks, page_path
from usd_ros_bridge import load_plan

pytestmark = pytest.mark.docs

ARM = Path(__file__).parents[2] / "examples" / "arm"
FILES = {block.title: block.text for block in blocks(page_path("ros2_control_hardware.md")) if block.title}


@pytest.fixture
def plan(tmp_path: Path):
    (tmp_path / "arm").symlink_to(ARM)
    asset = tmp_path / "arm_ros2_control.usda"
    asset.write_text(FILES["arm_ros2_control.usda"], encoding="utf-8")
    return load_plan(asset, physics=True)


@pytest.fixture
def tag() -> ET.Element:
    return ET.fromstring(FILES["ros2_control.xml"])


def names(tag: ET.Element) -> list[str]:
    return [joint.attrib["name"] for joint in tag.iter("joint")]


def test_the_tag_names_the_topics_and_the_joints_of_the_bridge(plan, tag):
    parameters = {each.attrib["name"]: each.text for each in tag.iter("param")}
    topics = {topic.role: topic.name for topic in plan.topics}
    assert parameters["joint_states_topic"] == topics["publisher"]
    assert parameters["joint_commands_topic"] == topics["subscription"]
    (controller,) = plan.controllers
    assert controller.enabled
    movable = [joint.name for joint in plan.robots[0].joints if joint.type != "fixed"]
    assert sorted(names(tag)) == sorted(movable)


def test_the_controllers_use_joints_and_interfaces_of_the_tag(tag):
    parameters = yaml.safe_load(FILES["controllers.yaml"])["/**"]
    controller = parameters["joint_trajectory_controller"]["ros__parameters"]
    assert controller["joints"] == names(tag)
    for joint in tag.iter("joint"):
        assert [each.attrib["name"] for each in joint.iter("command_interface")] == controller[
            "command_interfaces"
        ]
        assert [each.attrib["name"] for each in joint.iter("state_interface")] == controller[
            "state_interfaces"
        ]


def test_a_message_of_the_plugin_moves_the_robot_and_one_of_mixed_interfaces_is_reported(
    plan, tag, start, ros_harness
):
    running = start(plan, "mujoco")
    states: list[JointState] = []
    ros_harness.node.create_subscription(
        JointState, "/arm/robot_joint_states", states.append, qos_profile_sensor_data
    )
    commands = ros_harness.node.create_publisher(JointState, "/arm/robot_joint_commands", QoSProfile(depth=1))
    ros_harness.wait_for(
        lambda: ros_harness.are_connected(commands, running.bridge), what="the bridge's subscription"
    )
    # The plugin sends only the positions of joints with that command interface.
    commands.publish(JointState(name=names(tag), position=[0.5, 0.0]))
    ros_harness.wait_for(
        lambda: bool(running.warnings.containing("/arm/robot_joint_commands")),
        what="the report of the lengths",
    )
    commands.publish(JointState(name=names(tag), position=[0.5, 0.0, 0.0, 0.0, 0.0, 0.0]))

    def arrived() -> bool:
        return (
            bool(states)
            and abs(dict(zip(states[-1].name, states[-1].position, strict=True))["joint_1"] - 0.5) < 0.02
        )

    ros_harness.wait_for(arrived, timeout=60.0, what="joint_1 at 0.5 rad")
