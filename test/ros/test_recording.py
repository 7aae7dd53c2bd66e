"""Recordings: what is in the file is what a plain rclpy subscriber hears, and readers that others wrote read it."""

from __future__ import annotations

import itertools
import json
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
pytest.importorskip("foxglove", reason="foxglove-sdk is not installed: make setup")

from diagnostic_msgs.msg import DiagnosticArray
from mcap.reader import make_reader
from nav_msgs.msg import Odometry
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from usd_ros_bridge import Bridge, BridgeOptions, OptionError, load_plan
from usd_ros_bridge.ros.recording import message_channels
from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge

pytestmark = pytest.mark.app

EXAMPLES = Path(__file__).parents[2] / "examples"
ROVER = EXAMPLES / "rover" / "world.usda"
ARM = EXAMPLES / "arm" / "arm.usda"
MS = 1_000_000
LOCKSTEP = {"lockstep": "true"}
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
RELIABLE = QoSProfile(depth=1000)
FILE_SIZE_LIMIT = 500_000

Message = tuple[str, int, bytes]
"""Topic, log time in nanoseconds, and bytes."""


def messages_of(path: Path) -> list[Message]:
    with path.open("rb") as file:
        found = make_reader(file, validate_crcs=True).iter_messages(log_time_order=False)
        return [(channel.topic, message.log_time, message.data) for _, channel, message in found]


def of_topic(messages: list[Message], topic: str) -> list[bytes]:
    return [data for name, _, data in messages if name == topic]


def run_command(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "usd_ros_bridge", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, **more)


# --- What is in the file -------------------------------------------------------------------------------------------


def test_the_file_has_what_a_subscriber_hears(ros_harness: Any, tmp_path: Path) -> None:
    heard: dict[str, list[bytes]] = {}
    node = ros_harness.node

    def listen(name: str, message_class: Any, qos: QoSProfile) -> Any:
        heard[name] = []
        return node.create_subscription(message_class, name, heard[name].append, qos, raw=True)

    subscriptions = [
        listen("/rover/tf", TFMessage, RELIABLE),
        listen("/rover/joint_states", JointState, RELIABLE),
        listen("/rover/odom", Odometry, RELIABLE),
        listen("/rover/tf_static", TFMessage, LATCHED),
        listen("/rover/robot_description", String, LATCHED),
    ]
    path = tmp_path / "run.mcap"
    options = BridgeOptions(backend_options=LOCKSTEP, threaded=False, record=path)
    try:
        with Bridge(load_plan(ROVER), "mujoco", options=options, report=lambda *_: None) as bridge:

            def met() -> bool:
                bridge.poll()
                return all(each.get_publisher_count() == 1 for each in subscriptions) and all(
                    row.matched for row in bridge.status().interfaces if row.name in heard
                )

            ros_harness.wait_for(met, timeout=20.0, what="discovery")
            for number in range(1, 101):
                assert bridge.step(number * 10 * MS)
                ros_harness.executor.spin_once(timeout_sec=0.0)
            sent = {row.name: row.count for row in bridge.status().interfaces}
            ros_harness.wait_for(
                lambda: bridge.poll() or all(len(heard[name]) == sent[name] for name in heard),
                timeout=20.0,
                what="all messages",
            )
    finally:
        for each in subscriptions:
            node.destroy_subscription(each)
    recorded = messages_of(path)
    for name, messages in heard.items():
        # Fast DDS pads a message to a multiple of four bytes; the rest of both is the same.
        assert [each.ljust(-(-len(each) // 4) * 4, b"\0") for each in of_topic(recorded, name)] == messages, (
            name
        )
    # Nobody subscribed to these.
    assert len(of_topic(recorded, "/rover/imu")) == sent["/rover/imu"] > 50
    assert len(of_topic(recorded, "/rover/scan")) == sent["/rover/scan"] > 5
    assert len(of_topic(recorded, "/rover/image_raw")) == sent["/rover/image_raw"] > 5
    # Bridge time, as a host steps the bridge.
    assert {time_ns for topic, time_ns, _ in recorded if topic == "/rover/odom"} <= {
        number * 10 * MS for number in range(1, 101)
    }


@pytest.fixture(scope="module")
def rover_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a second of the rover, with commands."""
    path = tmp_path_factory.mktemp("recording") / "rover.mcap"
    record_rover(path)
    return path


def record_rover(path: Path) -> None:
    options = BridgeOptions(backend_options=LOCKSTEP, record=path)
    with OfflineBridge(load_plan(ROVER), "mujoco", options=options, inform=lambda *_: None) as bridge:
        for number in range(1, 101):
            if number == 10:
                bridge.send("/rover/cmd_vel", {"linear": {"x": 0.5}})
            assert bridge.step(number * 10 * MS)


def test_rosbags_reads_every_message_as_mcap_does(rover_file: Path) -> None:
    recorded = messages_of(rover_file)
    with AnyReader([rover_file]) as reader:
        found = [(each.topic, time_ns, data) for each, time_ns, data in reader.messages()]
        assert sorted(found) == sorted(recorded)
        # Types come from the definitions in the file.
        for connection, _, data in reader.messages():
            reader.deserialize(data, connection.msgtype)
        (odom,) = [each for each in reader.connections if each.topic == "/rover/odom"]
        positions = [
            reader.deserialize(data, odom.msgtype).pose.pose.position.x
            for _, _, data in reader.messages(connections=[odom])
        ]
    assert positions[0] == pytest.approx(0.0, abs=1e-3)
    assert positions[-1] > 0.1, "the command drives the rover"


def test_the_file_is_one_of_the_profile_ros2(rover_file: Path) -> None:
    with rover_file.open("rb") as file:
        reader = make_reader(file)
        header, summary = reader.get_header(), reader.get_summary()
        metadata = {each.name: each.metadata for each in reader.iter_metadata()}
        attachments = {each.name: each.data for each in reader.iter_attachments()}
    assert header.profile == "ros2"
    assert {each.message_encoding for each in summary.channels.values()} == {"cdr"}
    assert {each.encoding for each in summary.schemas.values()} == {"ros2msg"}
    assert {each.compression for each in summary.chunk_indexes} == {"zstd"}
    assert json.loads(attachments["plan.json"])["robots"][0]["path"] == "/World/rover"
    assert metadata == {}, "without a node there are no parameters"


def test_qos_is_kept_as_rosbag2_keeps_it(rover_file: Path) -> None:
    with AnyReader([rover_file]) as reader:
        qos = {each.topic: each.ext.offered_qos_profiles[0] for each in reader.connections}
    assert qos["/rover/tf_static"].durability.name == "TRANSIENT_LOCAL"
    assert qos["/rover/tf_static"].depth == 1
    assert qos["/rover/tf"].durability.name == "VOLATILE"
    assert qos["/rover/tf"].reliability.name == "RELIABLE"
    assert qos["/rover/scan"].reliability.name == "RELIABLE"


def test_parameters_are_kept_and_again_when_they_change(domain_id: int, tmp_path: Path) -> None:
    from rclpy.parameter import Parameter

    path = tmp_path / "run.mcap"
    options = BridgeOptions(threaded=False, record=path)
    with Bridge(load_plan(ARM), "kinematic", options=options, inform=lambda *_: None) as bridge:
        bridge.step(MS)
        bridge.node.set_parameters([Parameter("tf_rate", value=25.0)])
        bridge.step(2 * MS)
    with path.open("rb") as file:
        written = [each.metadata for each in make_reader(file).iter_metadata()]
    assert [each["tf_rate"] for each in written] == ["50.0", "25.0"]


def test_byte_arrays_of_a_hosts_node_are_kept(ros_harness: Any, tmp_path: Path) -> None:
    from rclpy.parameter import Parameter

    path = tmp_path / "run.mcap"
    node = ros_harness.node
    node.declare_parameter("key", [b"\x01", b"\xff"])
    options = BridgeOptions(threaded=False, record=path)
    with Bridge(load_plan(ARM), "kinematic", node=node, options=options, inform=lambda *_: None) as bridge:
        bridge.step(MS)
        (changed,) = node.set_parameters([Parameter("key", value=[b"\x03"])])
        assert changed.successful
        bridge.step(2 * MS)
    with path.open("rb") as file:
        written = [each.metadata for each in make_reader(file).iter_metadata()]
    assert [each["key"] for each in written] == ["[1, 255]", "[3]"]


def test_parameters_that_change_while_a_chunk_is_written_do_not_stop_the_process(
    domain_id: int, tmp_path: Path
) -> None:
    from rclpy.parameter import Parameter

    path = tmp_path / "run.mcap"
    options = BridgeOptions(record=path)
    with Bridge(load_plan(ROVER, physics=True), "mujoco", options=options, inform=lambda *_: None) as bridge:
        spinning = threading.Thread(target=bridge.spin, daemon=True)
        spinning.start()
        ended, count = time.monotonic() + 4.0, 0
        while time.monotonic() < ended:
            bridge.node.set_parameters([Parameter("tf_rate", value=20.0 + count % 5)])
            count += 1
    spinning.join(60.0)
    assert not spinning.is_alive()
    with path.open("rb") as file:
        assert sum(1 for _ in make_reader(file).iter_metadata()) == count + 1


def test_a_variant_that_is_switched_meanwhile_is_recorded(ros_harness: Any, tmp_path: Path) -> None:
    from usd_ros_bridge import VariantSelection

    path = tmp_path / "run.mcap"
    options = BridgeOptions(threaded=False, record=path)
    with Bridge(load_plan(ARM), "kinematic", options=options, inform=lambda *_: None) as bridge:
        bridge.step(20 * MS)
        call = bridge.change(variants=[VariantSelection("/arm", "gripper", "suction")])
        clock = iter(range(40, 10_000, 20))
        ros_harness.wait_for(
            lambda: bridge.poll() or (bridge.step(next(clock) * MS) and call.done()), what="the change"
        )
        assert call.result().opened or call.result().closed
        for _ in range(5):
            bridge.step(next(clock) * MS)
    recorded = messages_of(path)
    descriptions = of_topic(recorded, "/arm/robot_description")
    assert len(descriptions) >= 2 or b"suction" in descriptions[-1]
    assert len(of_topic(recorded, "/arm/tf_static")) >= 2


def test_latched_messages_have_the_time_of_a_hosts_first_tick(domain_id: int, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    options = BridgeOptions(threaded=False, record=path)
    first_ns = 1_700_000_000_000_000_000
    with Bridge(load_plan(ARM), "kinematic", options=options, inform=lambda *_: None) as bridge:
        bridge.step(first_ns)
        bridge.step(first_ns + 20 * MS)
    times = {topic: time_ns for topic, time_ns, _ in reversed(messages_of(path))}
    assert times["/arm/tf_static"] == times["/arm/robot_description"] == times["/arm/tf"] == first_ns


def test_latched_messages_have_the_time_of_the_first_tick_without_ros(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    first_ns = 1_700_000_000_000_000_000
    options = BridgeOptions(record=path)
    with OfflineBridge(load_plan(ARM), "kinematic", options=options, inform=lambda *_: None) as bridge:
        bridge.step(first_ns)
    assert {time_ns for _, time_ns, _ in messages_of(path)} == {first_ns}


def test_latched_messages_have_the_time_of_the_start_in_wall_time(domain_id: int, tmp_path: Path) -> None:
    # A player would wait for decades between a message of 1970 and the next one.
    path = tmp_path / "run.mcap"
    begun_ns = time.time_ns()
    done = run_command("run", str(ARM), "--backend", "kinematic", "--duration", "0.5", "--record", str(path))
    assert done.returncode == 0, done.stderr
    messages = messages_of(path)
    assert {"/arm/tf_static", "/arm/robot_description"} <= {topic for topic, _, _ in messages}
    assert all(begun_ns < time_ns < time.time_ns() for _, time_ns, _ in messages)


# --- The same bytes ------------------------------------------------------------------------------------------------


def test_the_same_run_writes_the_same_bytes(rover_file: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.mcap"
    record_rover(again)
    assert again.read_bytes() == rover_file.read_bytes()


@pytest.mark.heavy
def test_a_run_with_ros_writes_the_same_bytes_and_messages_as_one_without(
    domain_id: int, tmp_path: Path
) -> None:
    common = ["--duration", "1", "--backend", "mujoco", "--backend-option", "lockstep=true"]
    paced = ["--real-time-factor", "0", "--no-live"]
    files = [tmp_path / f"{name}.mcap" for name in ("first", "second", "offline")]
    for file, more in zip(files, (paced, paced, ["--no-ros"]), strict=True):
        done = run_command("run", str(ROVER), "--record", str(file), *common, *more)
        assert done.returncode == 0, done.stderr
    assert files[0].read_bytes() == files[1].read_bytes()
    first = messages_of(files[0])
    assert first == messages_of(files[2])
    assert Counter(topic for topic, _, _ in first)["/rover/tf"] == 50
    assert "/diagnostics" not in {topic for topic, _, _ in first}


def test_without_ros_there_is_no_participant(tmp_path: Path) -> None:
    code = (
        "import os, sys; from usd_ros_bridge import load_plan, BridgeOptions;"
        "from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge;"
        f"bridge = OfflineBridge(load_plan({str(ARM)!r}), 'kinematic',"
        f" options=BridgeOptions(record={str(tmp_path / 'run.mcap')!r})).open();"
        "bridge.step(1_000_000);"
        "links = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
        " if os.path.exists(f'/proc/self/fd/{n}')];"
        "maps = open('/proc/self/maps').read().replace('/dev/shm/lttng', '');"
        "print([each for each in links if 'socket' in each], '/dev/shm/' in maps);"
        "bridge.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "[] False", done.stderr
    assert of_topic(messages_of(tmp_path / "run.mcap"), "/arm/joint_states")


def test_a_run_ends_at_its_duration(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    done = run_command(
        "run", str(ARM), "--no-ros", "--backend", "kinematic", "--duration", "0.5", "--record", str(path)
    )
    assert (done.returncode, done.stdout) == (0, f"0.5 s recorded to {path}\n"), done.stderr
    times = [time_ns for topic, time_ns, _ in messages_of(path) if topic == "/arm/tf"]
    assert (times[0], times[-1], len(times)) == (0, 500 * MS, 26)


# --- Faults --------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_what_was_written_before_a_kill_can_be_recovered(domain_id: int, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    command = [sys.executable, "-m", "usd_ros_bridge", "run", str(ROVER), "--no-live", "--record", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            wait_until(lambda: path.exists() and path.stat().st_size > 100_000, process)
        finally:
            process.send_signal(signal.SIGKILL)
    damaged = path.read_bytes()
    done = run_command("recover", str(path), "-o", str(tmp_path / "whole.mcap"))
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == damaged
    recorded = messages_of(tmp_path / "whole.mcap")
    assert len(recorded) > 100
    with AnyReader([tmp_path / "whole.mcap"]) as reader:
        assert reader.message_count == len(recorded)
        assert "/rover/image_raw" in reader.topics
    # In place, too.
    assert run_command("recover", str(path)).returncode == 0
    assert messages_of(path) == recorded


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "nothing was written"
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE_LIMIT, FILE_SIZE_LIMIT))


def test_a_host_that_warms_up_before_time_0_is_recorded(ros_harness: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    heard: list[Any] = []
    steps = itertools.count(-1_000_000)
    with Bridge(
        load_plan(ARM), "kinematic", options=BridgeOptions(record=path), inform=lambda *_: None
    ) as bridge:
        ros_harness.node.create_subscription(DiagnosticArray, "/diagnostics", heard.append, 10)

        def warmed_up() -> bool:
            bridge.step(next(steps) * MS)
            return bool(heard)

        # They follow the wall clock: they are published before time 0, too.
        ros_harness.wait_for(warmed_up, timeout=60.0, what="diagnostics")
        for number in range(11):
            bridge.step(number * 20 * MS)
    messages = messages_of(path)
    # A file has no times before 0.
    assert ("/diagnostics", 0) in {(topic, time_ns) for topic, time_ns, _ in messages}
    assert [time_ns for topic, time_ns, _ in messages if topic == "/arm/tf"][-1] == 200 * MS


class Channel:
    """In place of that of foxglove-sdk: it refuses a message."""

    REFUSED = b"no"
    logged: list[tuple[bytes, int]]

    def __init__(self, topic: str, **_more: Any) -> None:
        self.name = topic

    def log(self, data: bytes, *, log_time: int) -> None:
        if data == self.REFUSED:
            raise ValueError("refused")
        self.logged.append((data, log_time))

    def has_sinks(self) -> bool:
        return True

    def close(self) -> None:
        pass


def test_what_cannot_be_written_is_reported_and_the_rest_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    Channel.logged = []
    monkeypatch.setattr(message_channels, "Channel", Channel)
    monkeypatch.setattr(message_channels, "MAX_WAITING_BYTES", 100)
    reports: list[tuple[str, str]] = []

    def fault() -> None:
        if len(Channel.logged) < 500:
            raise ValueError("a fault")

    channels = message_channels.MessageChannels(
        takes_all=True, lossless=True, report=lambda *report: reports.append(report)
    )
    channels.written = fault
    feed = channels.open_channel(
        topic="/told", message_class=String, profile=QoSProfile(depth=1), domain_id=0
    )
    channels.start()
    assert feed is not None

    def write() -> None:
        for number in range(1000):
            channels.time_ns = lambda number=number: number - 5
            feed.write(Channel.REFUSED if number == 7 else b"%d" % number)
        channels.drain()

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    writing.join(60.0)
    assert not writing.is_alive()
    assert channels.close()
    assert Channel.logged == [(b"%d" % number, max(number - 5, 0)) for number in range(1000) if number != 7]
    assert {kind for kind, _ in reports} == {"recording.write"}
    assert [text for _, text in reports if "refused" in text]
    assert [text for _, text in reports if "a fault" in text]


STANDING_DISK = """
import os, sys, threading
from rclpy.qos import QoSProfile
from std_msgs.msg import String
from usd_ros_bridge.ros.recording import mcap_file, message_channels, recorder

message_channels.CLOSE_S = 0.5
in_flush = sys.argv[2] == "flush"
recorder.FLUSH_S = 0.0 if in_flush else 1e9
stands = threading.Event()

def stand_still(*_):
    stands.set()
    threading.Event().wait()

channels = message_channels.MessageChannels(takes_all=True, lossless=False, report=print)
recording = recorder.Recorder(sys.argv[1], channels, report=print)
mcap_file._write_all = stand_still
channels.start()
feed = channels.open_channel(topic="/told", message_class=String, profile=QoSProfile(depth=1), domain_id=0)
for _ in range(1 if in_flush else 5):
    feed.write(os.urandom(1000 if in_flush else 2**20))
assert stands.wait(60)
recording.close(None)
recording.close(None)
print("closed", flush=True)
del recording, channels, feed
"""


@pytest.mark.parametrize("where", ["flush", "log"])
def test_closing_while_the_disk_stands_still_does_not_hang(where: str, tmp_path: Path) -> None:
    # It would hang with Python's global lock: no time-out of its own would end it.
    command = [sys.executable, "-c", STANDING_DISK, str(tmp_path / "run.mcap"), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "closed"
    assert done.stdout.count("recording.close") == 1
    assert "has no end" in done.stdout


def test_a_full_disk_ends_the_recording_with_one_warning_and_not_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    done = run_command(
        "run", str(ROVER), "--no-ros", "--duration", "6", "--record", str(path), preexec_fn=limit_file_size
    )
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if "recording" in line]
    assert len(warnings) == 1, done.stderr
    assert "File too large" in warnings[0]
    assert f"usd_ros_bridge recover {path}" in warnings[0]
    assert path.stat().st_size <= FILE_SIZE_LIMIT
    assert run_command("recover", str(path)).returncode == 0
    with AnyReader([path]) as reader:
        assert reader.message_count > 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--record", "{there}"], "{there} exists already: name another file, or remove it"),
        (
            ["--record", "{folder}/none/run.mcap"],
            "{folder}/none/run.mcap cannot be created: No such file or directory",
        ),
        (["--no-ros"], "--no-ros leaves only a recording: name its file (--record FILE.mcap)"),
        (
            ["--no-ros", "--record", "{folder}/run.mcap"],
            "without ROS, time passes as fast as possible: say when to end (--duration SECONDS)",
        ),
    ],
    ids=["exists", "no folder", "no file", "no end"],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, tmp_path: Path, domain_id: int) -> None:
    there = tmp_path / "there.mcap"
    there.write_text("mine", encoding="utf-8")
    names = {"there": str(there), "folder": str(tmp_path)}
    done = run_command("run", str(ARM), "--no-live", *(each.format(**names) for each in arguments))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"usd_ros_bridge: {message.format(**names)}"
    assert "Traceback" not in done.stderr
    assert there.read_text(encoding="utf-8") == "mine"


def test_a_bridge_refuses_a_file_that_exists_before_it_opens_anything(tmp_path: Path) -> None:
    there = tmp_path / "there.mcap"
    there.touch()
    with pytest.raises(OptionError, match="exists already"):
        Bridge(load_plan(ARM), "kinematic", options=BridgeOptions(record=there)).open()
    assert not there.read_bytes()


def test_what_is_no_recording_cannot_be_recovered(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("these are my notes, and no MCAP file", encoding="utf-8")
    done = run_command("recover", str(other))
    assert done.returncode == 2
    assert f"{other} is no MCAP file" in done.stderr
    assert other.read_text(encoding="utf-8").startswith("these are my notes")
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]
