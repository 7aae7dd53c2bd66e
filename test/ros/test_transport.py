"""Messages of megabytes between two processes, and who decides how Fast DDS carries them."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.utilities import get_rmw_implementation_identifier
from sensor_msgs.msg import Image

import discovery_servers
from own_process import own_process
from programs import run_python
from ros_plans import plan
from usd_ros_bridge.ros import transport
from usd_ros_bridge.ros.bridge import Bridge

pytestmark = pytest.mark.skipif(
    not get_rmw_implementation_identifier().startswith("rmw_fastrtps"),
    reason="Fast DDS is not the middleware here",
)

ROBOT = Path(__file__).parents[1] / "assets" / "implicit_robot.usda"
NODE = [sys.executable, "-m", "usd_ros_bridge.ros.node", "--ros-args", "-p", f"asset:={ROBOT}"]
MODE = "RMW_FASTRTPS_PUBLICATION_MODE"
VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_BUILTIN_TRANSPORTS")
IMAGES = 60
MOST = 48

# The other process: says how it is set up, waits for a subscriber, then sends 1080p images at 30 Hz until it may stop.
SENDER = """
import array, os, sys, threading, time
import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image
import usd_ros_bridge

in_use = usd_ros_bridge.use_large_message_transport()
rclpy.init()
node = Node("sender")
quality = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
publisher = node.create_publisher(Image, "large_image", quality)
image = Image(height=1080, width=1920, encoding="rgb8", step=5760, data=array.array("B", bytes(1080 * 5760)))
buffer = bytearray(serialize_message(image))
profile = os.environ.get("FASTDDS_DEFAULT_PROFILES_FILE") or os.environ.get("FASTRTPS_DEFAULT_PROFILES_FILE")
print(in_use, profile, flush=True)
until = time.monotonic() + 20
while not publisher.get_subscription_count() and time.monotonic() < until:
    threading.Event().wait(0.01)
print("matched", publisher.get_subscription_count(), flush=True)
sys.stdin.readline()
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set())).start()
index = 0
while not stop.wait(1 / 30):
    buffer[4:8] = index.to_bytes(4, "little")
    publisher.publish(bytes(buffer))
    index += 1
print("sent", flush=True)
sys.stdin.readline()
node.destroy_node()
rclpy.shutdown()
"""


@contextmanager
def child(command: list[str], **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A process in an environment that says nothing of transports but `variables`."""
    environment = {key: value for key, value in os.environ.items() if key not in (*VARIABLES, MODE)}
    # The wheels' start-up mark would keep a child Python from finding its libraries.
    environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
    process = subprocess.Popen(
        command,
        env={**environment, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        if text in line:
            return line
        seen.append(line)
    pytest.fail(f"the process ended without a line with {text!r}:\n{''.join(seen)}")


def segments(process_id: int) -> dict[str, int]:
    """Shared-memory segments that a process maps, by size in bytes; ports, which readers open, are none."""
    maps = Path(f"/proc/{process_id}/maps").read_text(encoding="utf-8")
    names = {line.split()[-1] for line in maps.splitlines() if "/dev/shm/fast" in line}
    return {name: Path(name).stat().st_size for name in names if "_port" not in name and Path(name).exists()}


def has_room() -> bool:
    return transport.segment_bytes() >= 4 * 2**20


needs_room = pytest.mark.skipif(not has_room(), reason="less than 16 MiB of shared memory are free here")


@pytest.fixture
def discovery_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """By a server, nodes of this process and of those that it starts find each other."""
    with discovery_servers.discovery_server(tmp_path) as address:
        monkeypatch.setenv("ROS_DISCOVERY_SERVER", address)
        yield


@pytest.mark.process
@needs_room
def test_most_images_of_another_process_arrive(ros_harness: Any) -> None:
    most_images_arrive(ros_harness)


# Longer than the process may take that runs it: what that one prints is in the report.
@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.process
@needs_room
@own_process
def test_most_images_arrive_with_a_discovery_server(discovery_server: None, ros_harness: Any) -> None:
    most_images_arrive(ros_harness)


def most_images_arrive(ros_harness: Any) -> None:
    indices: list[int] = []
    quality = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    subscription = ros_harness.node.create_subscription(
        Image,
        "large_image",
        lambda message: indices.append(struct.unpack_from("<I", message, 4)[0]),
        quality,
        raw=True,
    )
    with child([sys.executable, "-c", SENDER]) as sender:
        in_use, profile = line_with(sender, "True").split()
        assert in_use == "True"
        assert "<segment_size>" in Path(profile).read_text(encoding="utf-8")
        name = subscription.topic_name
        ros_harness.wait_for(lambda: ros_harness.node.count_publishers(name) == 1, what="discovery")
        # Each side finds the other by itself: what a sender alone in its world sends reaches nobody.
        assert line_with(sender, "matched").split() == ["matched", "1"]
        say(sender)
        # On a busy machine it may take a while until it is quiet for two seconds.
        ros_harness.wait_for(
            lambda: len(indices) > MOST and indices[-1] - indices[-1 - MOST] < IMAGES,
            timeout=60.0,
            what=f"{MOST} of {IMAGES} images in a row",
        )
        say(sender)
        line_with(sender, "sent")
        own = {path for path, size in segments(sender.pid).items() if size >= transport.LEAST_SEGMENT_BYTES}
        assert own
        say(sender)
        assert sender.wait(60.0) == 0
    assert indices == sorted(indices)
    assert len(set(indices)) == len(indices)
    assert not Path(profile).exists()
    assert not [path for path in own if Path(path).exists()]


@pytest.mark.process
@needs_room
@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, True), ({"FASTDDS_BUILTIN_TRANSPORTS": "DEFAULT"}, False)],
    ids=["default", "chosen by the user"],
)
def test_the_node_uses_it_unless_the_user_chose(
    variables: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    with child(NODE, TMPDIR=str(tmp_path), **variables) as node:
        line_with(node, "ready")
        mapped = segments(node.pid)
        assert mapped, "the process mapped no shared memory: this test would show nothing"
        assert (max(mapped.values()) > 4 * 2**20) is expected
        assert bool(list(tmp_path.glob("usd_ros_bridge-*.xml"))) is expected
        node.send_signal(signal.SIGINT)
        assert node.wait(60.0) == 0
    assert not list(tmp_path.iterdir())
    assert not [path for path in mapped if Path(path).exists()]


@pytest.mark.process
@needs_room
@pytest.mark.parametrize(
    ("backend", "in_file", "expected"),
    [
        ("joint_states", False, transport.WITHOUT_IMAGES_BYTES),
        ("joint_states", True, transport.WITHOUT_IMAGES_BYTES),
        ("kinematic", True, transport.segment_bytes()),
    ],
)
def test_a_node_without_images_has_a_small_segment(
    backend: str, in_file: bool, expected: int, tmp_path: Path
) -> None:
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text(f"/**:\n  ros__parameters:\n    backend: {backend}\n", encoding="utf-8")
    given = ["--params-file", str(parameters)] if in_file else ["-p", f"backend:={backend}"]
    with child([*NODE, *given]) as node:
        line_with(node, "ready")
        # Fast DDS adds what it needs to manage the segment: three parts in 64.
        assert 0 <= max(segments(node.pid).values()) - expected < expected / 16


# --- What the user has chosen -------------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing is chosen, which nothing outside of Python sees."""
    chosen = {key: value for key, value in os.environ.items() if key not in (*VARIABLES, MODE)}
    monkeypatch.setattr(transport.os, "environ", chosen)
    monkeypatch.chdir(tmp_path)
    return chosen


@needs_room
def test_one_variable_is_set_once(environment: dict[str, str]) -> None:
    before = dict(environment)
    assert transport.use_large_message_transport()
    after = dict(environment)
    assert len(after.keys() - before.keys()) == 1
    assert transport.use_large_message_transport()
    assert environment == after


@needs_room
@pytest.mark.parametrize(
    ("variable", "is_newer"),
    [("FASTDDS_DEFAULT_PROFILES_FILE", True), ("FASTRTPS_DEFAULT_PROFILES_FILE", False)],
)
def test_a_thread_for_discovery_is_for_fast_dds_3(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, variable: str, is_newer: bool
) -> None:
    monkeypatch.setattr(transport, "_profiles_variable", lambda: variable)
    assert transport.use_large_message_transport(discovery_thread=True)
    assert transport.has_discovery_thread() == is_newer
    text = Path(environment[variable]).read_text(encoding="utf-8")
    assert ("<flow_controller_name>" in text) == is_newer
    assert ('profile_name="ros_discovery_info"' in text) == is_newer
    assert environment.get(MODE) == ("AUTO" if is_newer else None)
    del environment[variable]
    assert not transport.has_discovery_thread()
    assert transport.use_large_message_transport()
    assert not transport.has_discovery_thread()


@needs_room
@pytest.mark.parametrize("mode", ["SYNCHRONOUS", "ASYNCHRONOUS", "AUTO"])
def test_a_publication_mode_of_the_user_is_kept(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(transport, "_profiles_variable", lambda: "FASTDDS_DEFAULT_PROFILES_FILE")
    environment[MODE] = mode
    assert transport.use_large_message_transport(discovery_thread=True)
    assert environment[MODE] == mode
    text = Path(environment["FASTDDS_DEFAULT_PROFILES_FILE"]).read_text(encoding="utf-8")
    assert ('profile_name="ros_discovery_info"' in text) == (mode == "AUTO")
    assert transport.has_discovery_thread()


@pytest.mark.process
@needs_room
@pytest.mark.parametrize("mode", [None, "SYNCHRONOUS", "ASYNCHRONOUS", "AUTO"])
def test_a_node_starts_in_every_publication_mode(mode: str | None) -> None:
    # A profile that does not suit the mode lets rmw_fastrtps refuse the node.
    script = (
        "from usd_ros_bridge.ros import transport\n"
        "from usd_ros_bridge.ros.domains import Domains\n"
        "assert transport.use_large_message_transport(discovery_thread=True)\n"
        "domains = Domains(node_name='starts', report=print)\n"
        "print(domains.main.node.get_name())\n"
        "domains.close()\n"
    )
    done = run_python(script, env={} if mode is None else {MODE: mode}, without=(*VARIABLES, MODE))
    assert (done.returncode, done.stdout.split()) == (0, ["starts"]), done.stderr


MANY_PUBLISHERS = """
import sys, rclpy
from std_msgs.msg import Empty
from usd_ros_bridge.ros import transport
if sys.argv[1] == "limited":
    transport.use_large_message_transport(discovery_thread=True)
rclpy.init()
node = rclpy.create_node("many", enable_rosout=False, start_parameter_services=False)
sys.stdin.readline()
made = [node.create_publisher(Empty, f"many_{number}", 1) for number in range(int(sys.argv[2]))]
print("made", flush=True)
sys.stdin.readline()
"""
SEEN_BY_UDP = """
import subprocess, sys, time, rclpy
def sent():
    (line,) = (each for each in open("/proc/net/dev") if each.strip().startswith("lo:"))
    return int(line.split()[9])
def wait_for(condition):
    while not condition():
        time.sleep(0.1)
rclpy.init()
node = rclpy.create_node("observer", enable_rosout=False, start_parameter_services=False)
for way in ("plain", "limited"):
    command = [sys.executable, "-c", sys.argv[1], way, sys.argv[2]]
    # It has the middleware's own transports: nothing of the observer's goes by shared memory.
    many = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: "many" in node.get_node_names())
    before = sent()
    print(file=many.stdin, flush=True)
    many.stdout.readline()
    wait_for(lambda: sum("/many_" in name for name, _ in node.get_topic_names_and_types()) == int(sys.argv[2]))
    print(way, sent() - before, flush=True)
    many.communicate("")
    wait_for(lambda: "many" not in node.get_node_names())
"""


@pytest.mark.timeout(300)
@needs_room
def test_lists_of_endpoints_are_not_sent_with_each_endpoint(own_network: list[str]) -> None:
    """A process whose lists are limited sends far less than a plain one, which sends 8 E^2 bytes of lists."""
    if transport._profiles_variable() != "FASTDDS_DEFAULT_PROFILES_FILE":  # noqa: SLF001 - which Fast DDS this is
        pytest.skip("the limit needs Fast DDS 3")
    publishers = 2500
    variables = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "SYSTEM_DEFAULT"}
    variables.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
    done = subprocess.run(
        [
            # The loopback of a network namespace carries nothing else.
            *(*own_network, sys.executable, "-c", f"ENVIRONMENT = {variables!r}\n{SEEN_BY_UDP}"),
            *(MANY_PUBLISHERS, str(publishers)),
        ],
        env={**variables, "FASTDDS_DEFAULT_PROFILES_FILE": str(LOOPBACK_UDP)},
        capture_output=True,
        text=True,
        timeout=250,
        check=True,
    )
    sent = {way: int(count) for way, count in (line.split() for line in done.stdout.splitlines())}
    assert sent["plain"] > 8 * publishers**2 * 0.8
    assert sent["limited"] < sent["plain"] / 2


def test_a_variable_of_the_user_is_left_alone(environment: dict[str, str]) -> None:
    for value in ("somewhere.xml", ""):
        for variable in VARIABLES:
            environment[variable] = value
            before = dict(environment)
            assert not transport.use_large_message_transport()
            assert environment == before
            del environment[variable]


@pytest.mark.parametrize("name", ["DEFAULT_FASTDDS_PROFILES.xml", "DEFAULT_FASTRTPS_PROFILES.xml"])
def test_a_profile_in_the_working_directory_counts_as_the_users(
    environment: dict[str, str], tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("<profiles/>", encoding="utf-8")
    before = dict(environment)
    assert not transport.use_large_message_transport()
    assert environment == before


def test_another_middleware_is_left_alone(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "get_rmw_implementation_identifier", lambda: "rmw_zenoh_cpp")
    before = dict(environment)
    assert not transport.use_large_message_transport()
    assert environment == before


def test_a_segment_takes_a_quarter_of_what_is_free_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    for free_bytes, expected in ((8 * 2**30, 64 * 2**20), (64 * 2**20, 16 * 2**20), (0, 0)):
        free = SimpleNamespace(f_bavail=free_bytes // 4096, f_frsize=4096)
        monkeypatch.setattr(transport.os, "statvfs", lambda _, free=free: free)
        assert transport.segment_bytes() == expected


def _no_shared_memory(_: object) -> Any:
    raise FileNotFoundError


def _no_room(_: object) -> Any:
    return SimpleNamespace(f_bavail=100, f_frsize=4096)


@pytest.mark.parametrize("statvfs", [_no_shared_memory, _no_room])
def test_nothing_is_done_where_shared_memory_has_no_room(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, statvfs: Callable[[object], Any]
) -> None:
    monkeypatch.setattr(transport.os, "statvfs", statvfs)
    before = dict(environment)
    assert not transport.use_large_message_transport()
    assert environment == before


@pytest.mark.parametrize("discovery_range", ["LOCALHOST", "SUBNET"])
def test_udp_alone_where_shared_memory_is_nearly_full(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, discovery_range: str
) -> None:
    environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = discovery_range
    assert transport.keep_to_udp_where_shared_memory_is_full() == ""
    monkeypatch.setattr(transport.os, "statvfs", _no_room)
    before = dict(environment)
    assert "400 KiB free" in transport.keep_to_udp_where_shared_memory_is_full()
    new = {name: value for name, value in environment.items() if before.get(name) != value}
    if discovery_range == "SUBNET":
        assert new == {"FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"}
    else:
        assert new.pop("ROS_AUTOMATIC_DISCOVERY_RANGE") == "SYSTEM_DEFAULT"
        (profile,) = new.values()
        assert "loopback_udp" in Path(profile).read_text(encoding="utf-8")


def may_mount() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/dev/shm"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=20).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("discovery_range", ["LOCALHOST", "SUBNET"])
def test_a_node_with_shared_memory_that_is_nearly_full_says_so(
    own_network: list[str], discovery_range: str
) -> None:
    if not may_mount():
        pytest.skip("this user may not mount a small /dev/shm for a process")
    mounted = 'mount -t tmpfs -o size=600k none /dev/shm && exec "$@"'
    command = [*own_network, "unshare", "-rm", "sh", "-c", mounted, "sh", *NODE]
    with child(command, ROS_AUTOMATIC_DISCOVERY_RANGE=discovery_range) as node:
        assert "KiB free: messages go by UDP alone" in line_with(node, "KiB free")
        line_with(node, "ready")
        assert not segments(node.pid)
        node.send_signal(signal.SIGINT)
        assert node.wait(60.0) == 0


def test_the_loopback_profile_is_the_shipped_one() -> None:
    def lines(text: str) -> list[str]:
        return ElementTree.canonicalize(text, strip_text=True).splitlines()

    assert lines(transport.loopback_profile_xml()) == lines(LOOPBACK_UDP.read_text(encoding="utf-8"))


LOOPBACK_UDP = Path(__file__).parents[2] / "config" / "fastdds_loopback_udp.xml"

SOCKETS = """
import os, pathlib
import rclpy
from rclpy.node import Node

rclpy.init()
node = Node("quiet")
threads = {each.read_text().strip() for each in pathlib.Path("/proc/self/task").glob("*/comm")}
own = {os.stat(each).st_ino for each in pathlib.Path("/proc/self/fd").iterdir() if each.exists()}
rows = [line.split() for line in pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]]
print("addresses", *sorted({row[1].partition(":")[0] for row in rows if int(row[9]) in own}), flush=True)
print("shared memory", sum(each.startswith("dds.shm") for each in threads), flush=True)
node.destroy_node()
rclpy.shutdown()
"""


@pytest.mark.process
def test_the_shipped_profile_keeps_to_udp_on_the_loopback() -> None:
    variables = {f"{name}_DEFAULT_PROFILES_FILE": str(LOOPBACK_UDP) for name in ("FASTDDS", "FASTRTPS")}
    with child(
        [sys.executable, "-c", SOCKETS], **variables, ROS_AUTOMATIC_DISCOVERY_RANGE="SYSTEM_DEFAULT"
    ) as node:
        assert line_with(node, "addresses").split() == ["addresses", "0100007F"]
        assert line_with(node, "shared memory").split() == ["shared", "memory", "0"]
    with child([sys.executable, "-c", SOCKETS], FASTDDS_BUILTIN_TRANSPORTS="UDPv4") as node:
        # What the documentation says of LOCALHOST: the variable does not help there.
        assert line_with(node, "shared memory").split() != ["shared", "memory", "0"]


def test_a_bridge_in_a_host_leaves_the_environment_alone() -> None:
    before = dict(os.environ)
    with Bridge(plan(), "null") as bridge:
        bridge.step(0)
        assert dict(os.environ) == before
    assert dict(os.environ) == before
