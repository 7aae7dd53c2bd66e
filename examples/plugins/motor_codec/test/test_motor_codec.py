"""The codecs of motor_msgs against rclpy: byte by byte, and with a node of rclpy as the bridge's peer."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import rclpy
from motor_msgs.msg import MotorCommand, MotorStates, MotorTemperatures
from rclpy.qos import qos_profile_sensor_data

from usd_ros_bridge import ArrayBackend, Bridge, load_plan
from usd_ros_bridge.testing.codec_conformance import CodecConformance
from usd_ros_bridge.testing.ros_domains import reserve_domain

ASSET = Path(__file__).parent / "motors.usda"
ARMS = ("arm_1", "arm_2", "arm_3")
JOINTS = ["shoulder", "elbow"]
TIMEOUT_S = 30.0


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


# --- A bridge and a node of rclpy -----------------------------------------------------------------------------------


@pytest.fixture
def peer(monkeypatch):
    """A node of rclpy in a domain of this test."""
    domain = reserve_domain()
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain.domain_id))
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain.domain_id)
    node = rclpy.create_node("peer", context=context)
    executor = rclpy.executors.SingleThreadedExecutor(context=context)
    executor.add_node(node)
    node.wait_for = lambda condition: wait_for(executor, condition)
    yield node
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown(context=context)
    domain.close()


def wait_for(executor, condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        executor.spin_once(timeout_sec=0.02)


@pytest.fixture
def run(peer):
    """`run(plan, backend)`: an open bridge, which a thread steps, and its reports."""
    opened = []

    def start(plan, backend):
        reports = []
        bridge = Bridge(plan, backend, report=lambda *each: reports.append(each)).open()
        thread = threading.Thread(target=bridge.spin)
        thread.start()
        opened.append((bridge, thread))
        return reports

    yield start
    for bridge, thread in opened:
        bridge.stop()
        thread.join(TIMEOUT_S)
        bridge.close()


@pytest.fixture
def plan():
    made = load_plan(ASSET)
    assert not made.diagnostics
    return made


def test_planning_knows_what_the_types_mean(plan):
    topics = {each.name: each for each in plan.topics}
    assert len(topics["/arm_2/motor_states"].dofs) == len(JOINTS)
    assert topics["/arm_2/motor_states"].qos.reliability == "reliable"
    assert topics["/arm_2/motor_temperatures"].qos.reliability == "best_effort"


def test_a_plain_subscriber_reads_the_states_of_each_arm(plan, peer, run):
    position = np.linspace(0.1, 0.6, 6)
    run(plan, ArrayBackend(plan.layout, joint_position=position, joint_velocity=-position, commands=False))
    found = {}
    for arm in ARMS:
        peer.create_subscription(
            MotorStates, f"/{arm}/motor_states", lambda message, arm=arm: found.update({arm: message}), 10
        )
    peer.wait_for(lambda: len(found) == len(ARMS))
    for arm in ARMS:
        (topic,) = (each for each in plan.topics if each.name == f"/{arm}/motor_states")
        rows = list(topic.dofs)
        assert sorted(found[arm].name) == sorted(JOINTS)
        assert list(found[arm].position) == position[rows].tolist()
        assert list(found[arm].velocity) == (-position[rows]).tolist()
        assert found[arm].header.stamp.sec > 0


def test_a_host_measures_the_temperatures(plan, peer, run):
    celsius = np.array([40.5, 41.5], dtype=np.float32)
    sensors = {"/World/arm_2/temperatures": lambda: {"celsius": celsius}}
    backend = ArrayBackend(plan.layout, joint_position=np.zeros(6), sensors=sensors, commands=False)
    reports = run(plan, backend)
    found = []
    peer.create_subscription(
        MotorTemperatures, "/arm_2/motor_temperatures", found.append, qos_profile_sensor_data
    )
    peer.wait_for(lambda: found)
    assert list(found[0].celsius) == celsius.tolist()
    silent = [text for _, text in reports if "the backend serves no sensor there" in text]
    assert len(silent) == 2


def test_a_command_moves_the_joints_of_its_arm_alone(plan, peer, run):
    reports = run(plan, "kinematic")
    found = {}
    for arm in ARMS:
        peer.create_subscription(
            MotorStates, f"/{arm}/motor_states", lambda message, arm=arm: found.update({arm: message}), 10
        )
    publisher = peer.create_publisher(MotorCommand, "/arm_2/motor_command", 10)
    command = MotorCommand(mode=MotorCommand.POSITION, values=[0.5, -0.25])

    def has_moved():
        publisher.publish(command)
        return "arm_2" in found and np.allclose(found["arm_2"].position, command.values)

    peer.wait_for(has_moved)
    peer.wait_for(lambda: len(found) == len(ARMS))
    assert list(found["arm_1"].position) == list(found["arm_3"].position) == [0.0, 0.0]

    publisher.publish(MotorCommand(mode=MotorCommand.VELOCITY, values=[1.0]))
    peer.wait_for(lambda: any("1 values in mode 1 are ignored" in text for _, text in reports))
