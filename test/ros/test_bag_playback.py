"""Recordings of live bridges, played back: what a plain subscriber receives is what was recorded."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("rosbags", reason="rosbags is not installed: make setup-tests")
pytest.importorskip("foxglove", reason="foxglove-sdk is not installed: make setup")

import rclpy
import record_controllers
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message
from record_controllers import PERIOD_NS, Stage
from recorder import Topic
from rosbags.rosbag2 import Reader, ReaderError
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from bags import SECOND, START, joint_state, transforms, write_rosbag2
from usd_ros_bridge import Bridge, BridgeOptions, PlanOptions, load_plan
from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge
from usd_ros_bridge.testing.logged_process import LoggedProcess

pytestmark = pytest.mark.app

DRIVE = ((0.2, 0.0, 0.0), (0.6, 0.6, 0.0), (0.7, 0.5, 0.7))
CLASSES = {
    "sensor_msgs/msg/JointState": JointState,
    "tf2_msgs/msg/TFMessage": TFMessage,
    "nav_msgs/msg/Odometry": Odometry,
}
ROVER = record_controllers.ROVER
EXAMPLES = ROVER.parents[1]
COMMAND = "import sys; from usd_ros_bridge.entry_points import usd_ros_bridge; sys.exit(usd_ros_bridge())"


def stamp_ns(header: Any) -> int:
    return int(header.stamp.sec) * SECOND + int(header.stamp.nanosec)


def numbers_of(message: Any) -> tuple[int, dict[str, list[float]]]:
    """Returns a message's stamp, and its numbers by what they are of."""
    if isinstance(message, JointState):
        columns = zip(message.position, message.velocity, strict=True)
        return stamp_ns(message.header), dict(zip(message.name, map(list, columns), strict=True))
    if isinstance(message, Odometry):
        return stamp_ns(message.header), {
            "pose": _pose(message.pose.pose.position, message.pose.pose.orientation)
        }
    return stamp_ns(message.transforms[0].header), {
        f"{each.header.frame_id}>{each.child_frame_id}": _pose(
            each.transform.translation, each.transform.rotation
        )
        for each in message.transforms
    }


def _pose(position: Any, rotation: Any) -> list[float]:
    return [position.x, position.y, position.z, rotation.x, rotation.y, rotation.z, rotation.w]


def read(path: Path, topics: dict[str, Any]) -> dict[str, list[tuple[int, dict[str, list[float]]]]]:
    """Reads a recording: rows of each topic, with times since the first of all."""
    found: dict[str, list[tuple[int, dict[str, list[float]]]]] = {name: [] for name in topics}
    with Reader(path) as reader:
        for connection, _, data in reader.messages([c for c in reader.connections if c.topic in topics]):
            found[connection.topic].append(numbers_of(deserialize_message(data, CLASSES[connection.msgtype])))
    first = min(rows[0][0] for rows in found.values())
    return {name: [(time - first, row) for time, row in rows] for name, rows in found.items()}


def play(asset: Path, bag: Path, played: Path, topics: dict[str, Any], ticks: int, static: str) -> list[str]:
    """Steps a bridge that plays a bag, records it with plain subscriptions, and returns what it warned of."""
    context = rclpy.Context()
    rclpy.init(context=context)
    warnings: list[str] = []
    options = BridgeOptions(backend_options={"bag": str(bag), "loop": "false"})
    try:
        with Bridge(
            load_plan(asset),
            "playback",
            options=options,
            report=lambda kind, _message: warnings.append(kind),
            inform=lambda *_: None,
        ) as bridge:
            stage = Stage(bridge, context)
            try:
                stage.listen(topics, [Topic(static, TFMessage)])
                for _ in range(ticks):
                    stage.step()
                stage.recorder.write(played)
            finally:
                stage.close()
    finally:
        rclpy.shutdown(context=context)
    return warnings


def compare(recorded: Path, played: Path, topics: dict[str, Any]) -> int:
    """Compares every message, and returns how many there were."""
    before, after = read(recorded, topics), read(played, topics)
    for name, rows in before.items():
        assert [time for time, _ in after[name]] == [time for time, _ in rows], name
        for (_, expected), (_, found) in zip(rows, after[name], strict=True):
            assert found.keys() == expected.keys()
            for key, values in expected.items():
                np.testing.assert_allclose(found[key], values, rtol=0.0, atol=1e-12, err_msg=f"{name} {key}")
    return sum(map(len, before.values()))


def test_the_rover_drives_again_as_it_was_recorded(tmp_path: Path) -> None:
    topics = {"/rover/joint_states": JointState, "/rover/tf": TFMessage, "/rover/odom": Odometry}
    recorded, played = tmp_path / "recorded", tmp_path / "played"
    record_controllers.record_rover(recorded, drive=DRIVE)
    with Reader(recorded) as reader:
        ticks = (reader.end_time - record_controllers.START_NS) // PERIOD_NS + 1
    warnings = play(ROVER, recorded, played, topics, ticks, "/rover/tf_static")
    assert [kind for kind in warnings if kind.startswith("playback")] == []
    assert compare(recorded, played, topics) > 400
    last = read(played, topics)["/rover/tf"][-1][1]["odom>base_link"]
    assert np.hypot(last[0], last[1]) > 0.5


def test_the_arm_moves_again_as_it_was_recorded(tmp_path: Path) -> None:
    topics = {"/arm/joint_states": JointState, "/arm/tf": TFMessage}
    recorded, played = tmp_path / "recorded", tmp_path / "played"
    record_controllers.record_arm(recorded)
    with Reader(recorded) as reader:
        ticks = (reader.end_time - record_controllers.START_NS) // PERIOD_NS + 1
    # A file of the directory is a bag, too.
    bag = next(recorded.glob("*.mcap"))
    warnings = play(record_controllers.ARM, bag, played, topics, ticks, "/arm/tf_static")
    assert [kind for kind in warnings if kind.startswith("playback")] == []
    assert compare(recorded, played, topics) > 900


def record(
    path: Path,
    plan: Any,
    backend: str,
    commands: dict[str, dict[str, Any]],
    ticks: int,
    **backend_options: str,
) -> list[str]:
    """Writes what a bridge without a participant publishes, and returns what it warned of."""
    warnings: list[str] = []
    options = BridgeOptions(record=str(path), backend_options=backend_options)
    with OfflineBridge(
        plan,
        backend,
        options=options,
        report=lambda kind, _message: warnings.append(kind),
        inform=lambda *_: None,
    ) as bridge:
        for tick in range(ticks):
            for topic, command in commands.items() if tick % 10 == 0 else ():
                bridge.send(topic, command)
            bridge.step(time_ns=tick * PERIOD_NS)
    return [kind for kind in warnings if kind.startswith("playback")]


def motion_topics(path: Path) -> dict[str, Any]:
    with Reader(path) as reader:
        return {
            c.topic: CLASSES[c.msgtype]
            for c in reader.connections
            if c.msgtype in CLASSES and not c.topic.endswith("tf_static")
        }


@pytest.mark.parametrize("tf_output", ["namespaced", "global", "both"])
def test_recordings_of_a_fleet_play_back_as_they_are(tmp_path: Path, tf_output: Any) -> None:
    """Two rovers that drive and an arm; recorded and played without DDS, so that every message is compared."""
    plan = load_plan(EXAMPLES / "fleet" / "fleet.usda", plan_options=PlanOptions(tf_output=tf_output))
    commands: dict[str, dict[str, Any]] = {
        f"/rover_{n}/cmd_vel": {"linear": {"x": 0.2 * n}, "angular": {"z": 0.3 * n}} for n in (1, 2)
    }
    commands["/arm/joint_commands"] = {"name": ["joint_1", "joint_3"], "position": [0.7, -0.4]}
    recorded, played = tmp_path / "recorded.mcap", tmp_path / "played.mcap"
    record(recorded, plan, "kinematic", commands, 150)
    assert record(played, plan, "playback", {}, 150, bag=str(recorded), loop="false") == []
    topics = motion_topics(recorded)
    assert {"/rover_1/joint_states", "/arm/joint_states"} <= topics.keys()
    compare(recorded, played, topics)
    ends = {name: rows[-1][1] for name, rows in read(played, topics).items()}
    assert ends["/arm/joint_states"]["joint_1"][0] == pytest.approx(0.7)
    assert max(abs(value) for values in ends["/rover_2/odom"].values() for value in values[:2]) > 0.2


def test_a_simulation_plays_back_without_physics(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup-tests")
    asset = EXAMPLES / "rover" / "world.usda"
    command = {"/rover/cmd_vel": {"linear": {"x": 0.5}, "angular": {"z": 0.4}}}
    recorded, played = tmp_path / "recorded.mcap", tmp_path / "played.mcap"
    record(recorded, load_plan(asset, physics=True), "mujoco", command, 200)
    assert record(played, load_plan(asset), "playback", {}, 200, bag=str(recorded), loop="false") == []
    compare(recorded, played, motion_topics(recorded))


KILLED = """
import os, signal, sys
from usd_ros_bridge import BridgeOptions, load_plan
from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge
bridge = OfflineBridge(load_plan(sys.argv[1]), "kinematic", options=BridgeOptions(record=sys.argv[2])).open()
for tick in range(int(sys.argv[3])):
    if tick % 20 == 0:
        bridge.send("/rover/cmd_vel", {"linear": {"x": 0.5}, "angular": {"z": 0.3}})
    bridge.step(time_ns=tick * 10_000_000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_recording_that_was_killed_is_played_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "killed.mcap"
    code = subprocess.run(
        [sys.executable, "-c", KILLED, str(ROVER), str(path), "9000"], check=False
    ).returncode
    assert code == -signal.SIGKILL
    with pytest.raises(ReaderError):
        Reader(path).open()
    plan = load_plan(ROVER)
    played = tmp_path / "played.mcap"
    assert record(played, plan, "playback", {}, 3000, bag=str(path)) == ["playback.bag_damaged:killed.mcap"]
    again = tmp_path / "again.mcap"
    subprocess.run(
        [sys.executable, "-c", COMMAND, "recover", str(path), "-o", str(again)],
        check=True,
        capture_output=True,
    )
    repeated = tmp_path / "repeated.mcap"
    assert record(repeated, plan, "playback", {}, 3000, bag=str(again)) == []
    topics = {"/rover/joint_states": JointState, "/rover/tf": TFMessage}
    assert compare(played, repeated, topics) > 1000
    assert read(played, topics)["/rover/joint_states"][-1][1]["left_wheel_joint"][0] > 10.0


@pytest.fixture
def run(bridge_process: Callable[..., LoggedProcess]) -> Callable[..., LoggedProcess]:
    """`run(*arguments)`: `usd_ros_bridge run` on the rover in a process of its own, interrupted at the end."""

    def begin(*arguments: str) -> LoggedProcess:
        given = ("--backend", "playback", "--no-live", *arguments)
        return bridge_process(ROVER, *given, ready=False, exit_status=None)

    return begin


def options(**given: object) -> list[str]:
    return [part for key, value in given.items() for part in ("--backend-option", f"{key}={value}")]


def test_run_plays_a_bag_at_any_rate_of_its_own(
    tmp_path: Path, run: Callable[..., LoggedProcess], ros_harness: Any
) -> None:
    """The recording is of linear functions: between messages, too, positions are those of the stamps."""
    wheels = ("left_wheel_joint", "right_wheel_joint")
    period = 37_000_000
    messages = [
        each
        # Longer than the test may take.
        for k in range(6000)
        for each in (
            joint_state("/bot/joint_states", START + k * period, wheels, [0.37 * k, -0.74 * k]),
            transforms("/bot/tf", (START + k * period, "odom", "base_link", (0.037 * k, 0, 0, 0, 0, 0, 1))),
        )
    ]
    bag = write_rosbag2(tmp_path / "bag", messages)
    states: list[JointState] = []
    moving: list[TFMessage] = []
    ros_harness.node.create_subscription(JointState, "/rover/joint_states", states.append, 100)
    ros_harness.node.create_subscription(TFMessage, "/rover/tf", moving.append, 100)
    remap = "/bot/joint_states:=/rover/joint_states,/bot/tf:=/rover/tf"
    child = run(*options(bag=bag, remap=remap, rate=2, start=3))
    ros_harness.wait_for(
        lambda: (len(states) > 60 and len(moving) > 60) or not child.is_running, timeout=60.0, what="/tf"
    )
    assert child.is_running, child.log
    times = np.array([stamp_ns(each.header) for each in states])
    positions = np.array([each.position for each in states])
    np.testing.assert_allclose(positions[:, 0] * -2.0, positions[:, 1], atol=1e-9)
    np.testing.assert_allclose(np.diff(positions[:, 0]), np.diff(times) * 2e-8, atol=1e-6)
    assert positions[0, 0] >= 30.0 - 1e-9
    np.testing.assert_allclose([each.velocity for each in states], [[20.0, -40.0]] * len(states), atol=1e-6)
    ways = np.array(
        [
            next(t.transform.translation.x for t in m.transforms if t.child_frame_id == "base_link")
            for m in moving
        ]
    )
    stamps = np.array([stamp_ns(each.transforms[0].header) for each in moving])
    np.testing.assert_allclose(np.diff(ways), np.diff(stamps) * 2e-9, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bag": "nothing.mcap"}, "bag 'nothing.mcap' does not exist"),
        ({"bg": "a.mcap"}, "backend playback has no option 'bg'; did you mean bag?"),
        ({"remap": "/a:=/b"}, "option remap of backend playback needs the option bag"),
    ],
)
def test_a_bag_that_cannot_be_played_ends_with_one_line(
    run: Callable[..., LoggedProcess], given: dict[str, str], message: str
) -> None:
    child = run(*options(**given))
    assert child.wait(timeout=60.0) == 2
    assert message in child.log
    assert "Traceback" not in child.log
