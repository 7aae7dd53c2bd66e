"""The codecs of motor_msgs against rclpy: byte by byte, and with a node of rclpy as the bridge's peer."""

from pathlib import Path

import numpy as np
import pytest
from motor_msgs.msg import MotorCommand, MotorStates, MotorTemperatures

from usd_ros_bridge import ArrayBackend, load_plan
from usd_ros_bridge.testing.codec_conformance import CodecConformance

ASSET = Path(__file__).parent / "motors.usda"
ARMS = ("arm_1", "arm_2", "arm_3")
JOINTS = ["shoulder", "elbow"]


class TestMotorStates(CodecConformance):
    type_name = "motor_msgs/msg/MotorStates"
    asset = ASSET


class TestMotorTemperatures(CodecConformance):
    type_name = "motor_msgs/msg/MotorTemperatures"
    asset = ASSET

    def measure(self, _topic, rng):
        return {"celsius": rng.uniform(20.0, 80.0, 2).astype(np.float32)}


class TestMotorCommand(CodecConformance):
    type_name = "motor_msgs/msg/MotorCommand"


# --- A bridge, and a node of rclpy that knows nothing of the plug-in --------------------------------------------------


@pytest.fixture
def states(ros_node):
    """The last MotorStates of each arm, as a subscriber reads them."""
    found = {}
    for arm in ARMS:
        ros_node.create_subscription(
            MotorStates, f"/{arm}/motor_states", lambda message, arm=arm: found.update({arm: message}), 10
        )
    return found


def test_planning_knows_what_the_types_mean():
    plan = load_plan(ASSET)
    assert not plan.diagnostics
    topics = {each.name: each for each in plan.topics}
    assert len(topics["/arm_2/motor_states"].dofs) == len(JOINTS)
    assert topics["/arm_2/motor_states"].qos.reliability == "reliable"
    assert topics["/arm_2/motor_temperatures"].qos.reliability == "best_effort"


def test_a_plain_subscriber_reads_the_states_of_each_arm(bridge, states, wait_for):
    plan = load_plan(ASSET)
    position = np.linspace(0.1, 0.6, 6)
    backend = ArrayBackend(plan.layout, joint_position=position, joint_velocity=-position, commands=False)
    bridge(plan, backend, ros=True)
    wait_for(lambda: len(states) == len(ARMS))
    for arm in ARMS:
        (topic,) = (each for each in plan.topics if each.name == f"/{arm}/motor_states")
        rows = list(topic.dofs)
        assert sorted(states[arm].name) == sorted(JOINTS)
        assert list(states[arm].position) == position[rows].tolist()
        assert list(states[arm].velocity) == (-position[rows]).tolist()


def test_a_host_measures_the_temperatures(bridge, wait_for_message):
    celsius = np.array([40.5, 41.5], dtype=np.float32)
    plan = load_plan(ASSET)
    sensors = {"/World/arm_2/temperatures": lambda: {"celsius": celsius}}
    backend = ArrayBackend(plan.layout, joint_position=np.zeros(6), sensors=sensors, commands=False)
    opened = bridge(plan, backend, ros=True)
    message = wait_for_message("/arm_2/motor_temperatures", MotorTemperatures)
    assert list(message.celsius) == celsius.tolist()
    silent = [text for _, text in opened.warnings if "the backend serves no sensor there" in text]
    assert len(silent) == len(ARMS) - 1


def test_a_command_moves_the_joints_of_its_arm_alone(bridge, ros_node, states, wait_for):
    opened = bridge(ASSET, "kinematic", ros=True)
    publisher = ros_node.create_publisher(MotorCommand, "/arm_2/motor_command", 10)
    command = MotorCommand(mode=MotorCommand.POSITION, values=[0.5, -0.25])

    def has_moved():
        publisher.publish(command)
        return "arm_2" in states and np.allclose(states["arm_2"].position, command.values)

    wait_for(has_moved)
    wait_for(lambda: len(states) == len(ARMS))
    assert list(states["arm_1"].position) == list(states["arm_3"].position) == [0.0, 0.0]

    publisher.publish(MotorCommand(mode=MotorCommand.VELOCITY, values=[1.0]))
    wait_for(lambda: any("1 values in mode 1 are ignored" in text for _, text in opened.warnings))


def test_it_works_without_a_middleware(bridge):
    opened = bridge(ASSET, "kinematic")
    opened.send("/arm_3/motor_command", {"mode": MotorCommand.POSITION, "values": [0.1, 0.2]})
    opened.run_for(0.5)
    assert list(opened.last("/arm_3/motor_states").position) == pytest.approx([0.1, 0.2])
