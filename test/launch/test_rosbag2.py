"""Recordings in rosbag2's own reader: messages, types, definitions, QoS and times, and `ros2 bag info`."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rosbag2_py", reason="rosbag2 comes with a full ROS 2 installation only")
pytest.importorskip("foxglove", reason="foxglove-sdk is not installed: pip install 'usd_ros_bridge[record]'")
pytest.importorskip("mcap", reason="mcap is not installed: pip install 'usd_ros_bridge[record]'")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: pip install 'usd_ros_bridge[mujoco]'")

import rosbag2_py
from mcap.reader import make_reader
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROVER = EXAMPLES / "rover" / "world.usda"
ARM = EXAMPLES / "arm" / "arm.usda"
RUN_S = 100.0
DURATION_S = 2.0
ENOUGH_BYTES = 300_000

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
VOLATILE, TRANSIENT_LOCAL = DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL
TOPICS = {
    "/clock": ("rosgraph_msgs/msg/Clock", BEST_EFFORT, VOLATILE, 1),
    "/rover/camera_info": ("sensor_msgs/msg/CameraInfo", BEST_EFFORT, VOLATILE, 10),
    "/rover/image_raw": ("sensor_msgs/msg/Image", BEST_EFFORT, VOLATILE, 10),
    "/rover/imu": ("sensor_msgs/msg/Imu", BEST_EFFORT, VOLATILE, 10),
    "/rover/joint_states": ("sensor_msgs/msg/JointState", RELIABLE, VOLATILE, 10),
    "/rover/odom": ("nav_msgs/msg/Odometry", RELIABLE, VOLATILE, 10),
    "/rover/robot_description": ("std_msgs/msg/String", RELIABLE, TRANSIENT_LOCAL, 1),
    "/rover/scan": ("sensor_msgs/msg/LaserScan", BEST_EFFORT, VOLATILE, 5),
    "/rover/tf": ("tf2_msgs/msg/TFMessage", RELIABLE, VOLATILE, 100),
    "/rover/tf_static": ("tf2_msgs/msg/TFMessage", RELIABLE, TRANSIENT_LOCAL, 1),
    "/usd_ros_bridge/plan": ("std_msgs/msg/String", RELIABLE, TRANSIENT_LOCAL, 1),
}

Message = tuple[str, bytes, int]
"""Topic, bytes, and log time in nanoseconds."""


def bridge_command(asset: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "usd_ros_bridge", "run", str(asset), "--no-live", *arguments]


def record(asset: Path, path: Path, *arguments: str) -> None:
    command = bridge_command(asset, "--record", str(path), "--duration", str(DURATION_S), *arguments)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert ended.returncode == 0, ended.stderr


def open_bag(path: Path) -> rosbag2_py.SequentialReader:
    reader = rosbag2_py.SequentialReader()
    reader.open(
        rosbag2_py.StorageOptions(uri=str(path), storage_id="mcap"), rosbag2_py.ConverterOptions("cdr", "cdr")
    )
    return reader


def messages_in_rosbag2(path: Path) -> list[Message]:
    reader = open_bag(path)
    messages = []
    while reader.has_next():
        messages.append(reader.read_next())
    return messages


def messages_in_mcap(path: Path) -> list[Message]:
    with path.open("rb") as file:
        found = make_reader(file, validate_crcs=True).iter_messages(log_time_order=False)
        return [(channel.topic, message.data, message.log_time) for _, channel, message in found]


def qos_of(topic: Any) -> QoSProfile:
    (profile,) = topic.offered_qos_profiles
    return rosbag2_py.convert_rclcpp_qos_to_rclpy_qos(profile)


@pytest.fixture(scope="module")
def rover_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds of the rover under physics, over ROS 2, in real time."""
    path = tmp_path_factory.mktemp("rosbag2") / "rover.mcap"
    record(ROVER, path, "--backend", "mujoco")
    return path


def test_rosbag2_reads_every_message_as_mcap_does(rover_file: Path) -> None:
    messages = messages_in_rosbag2(rover_file)
    assert messages == messages_in_mcap(rover_file)
    assert Counter(topic for topic, _, _ in messages)["/rover/imu"] > 100
    (fixed,) = [data for topic, data, _ in messages if topic == "/rover/tf_static"]
    children = {each.child_frame_id for each in deserialize_message(fixed, TFMessage).transforms}
    assert {"lidar_link", "imu_link", "camera_optical_frame"} <= children
    joints = [
        deserialize_message(data, JointState) for topic, data, _ in messages if topic == "/rover/joint_states"
    ]
    assert {name for each in joints for name in each.name} == {"left_wheel_joint", "right_wheel_joint"}


def test_rosbag2_knows_the_types_and_qos_of_the_publishers(rover_file: Path) -> None:
    topics = {each.name: each for each in open_bag(rover_file).get_all_topics_and_types()}
    assert topics.keys() - {"/diagnostics"} == TOPICS.keys()
    for name, expected in TOPICS.items():
        qos = qos_of(topics[name])
        assert (topics[name].type, qos.reliability, qos.durability, qos.depth) == expected, name
        assert qos.history == HistoryPolicy.KEEP_LAST, name
        assert topics[name].serialization_format == "cdr", name


def test_rosbag2_finds_the_definitions_and_hashes_that_it_would_write_itself(rover_file: Path) -> None:
    reader = open_bag(rover_file)
    own = rosbag2_py.LocalMessageDefinitionSource()
    recorded = {each.topic_type: each for each in reader.get_all_message_definitions()}
    for topic in reader.get_all_topics_and_types():
        expected = own.get_full_text(topic.type)
        assert recorded[topic.type].encoding == expected.encoding == "ros2msg"
        assert text_of(recorded[topic.type]) == text_of(expected), topic.type
        assert topic.type_description_hash.startswith("RIHS01_"), topic.type


def text_of(definition: Any) -> dict[str, list[str]]:
    """Return the lines of a definition by type: the order of the types, and empty lines, mean nothing."""
    first, *others = definition.encoded_message_definition.split("=" * 80 + "\n")
    named = [(definition.topic_type, first), *(each.removeprefix("MSG: ").split("\n", 1) for each in others)]
    return {name: [line.rstrip() for line in text.splitlines() if line.strip()] for name, text in named}


def test_simulated_time_is_that_of_the_clock(rover_file: Path) -> None:
    metadata = open_bag(rover_file).get_metadata()
    assert metadata.message_count == len(messages_in_mcap(rover_file))
    assert metadata.starting_time.nanoseconds == 0
    assert metadata.duration.nanoseconds == pytest.approx(DURATION_S * 1e9, abs=1e8)
    # `ros2 bag play` keeps no order of messages of one time: time would jump back.
    clock = [time_ns for topic, _, time_ns in messages_in_rosbag2(rover_file) if topic == "/clock"]
    assert clock == sorted(set(clock))


def test_a_recording_in_wall_time_begins_when_the_bridge_does(tmp_path: Path) -> None:
    # `ros2 bag play` would wait for decades between a latched message of 1970 and the next one.
    path = tmp_path / "arm.mcap"
    begun_ns = time.time_ns()
    record(ARM, path, "--backend", "kinematic")
    metadata = open_bag(path).get_metadata()
    assert metadata.starting_time.nanoseconds > begun_ns
    assert metadata.duration.nanoseconds < RUN_S * 1e9


def test_rosbag2_reads_what_a_killed_bridge_left(tmp_path: Path) -> None:
    path = tmp_path / "killed.mcap"
    command = bridge_command(ROVER, "--record", str(path), "--backend", "mujoco")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bridge:
        deadline = time.monotonic() + RUN_S
        try:
            while not path.exists() or path.stat().st_size < ENOUGH_BYTES:
                assert time.monotonic() < deadline
                with suppress(subprocess.TimeoutExpired):
                    raise AssertionError(f"the bridge ended with status {bridge.wait(0.02)}")
        finally:
            bridge.send_signal(signal.SIGKILL)
    left = messages_in_rosbag2(path)
    assert {"/rover/tf_static", "/rover/robot_description", "/rover/odom"} <= {topic for topic, _, _ in left}
    recovery = [sys.executable, "-m", "usd_ros_bridge", "recover", str(path)]
    subprocess.run(recovery, capture_output=True, timeout=RUN_S, check=True)
    assert messages_in_rosbag2(path) == left
    assert open_bag(path).get_metadata().message_count == len(left)


@pytest.mark.skipif(importlib.util.find_spec("ros2bag") is None, reason="`ros2 bag` is not installed")
def test_ros2_bag_info_prints_the_topics(rover_file: Path) -> None:
    command = ["ros2", "bag", "info", str(rover_file)]
    info = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=True).stdout
    for name, (kind, *_) in TOPICS.items():
        assert f"Topic: {name} | Type: {kind} |" in info
