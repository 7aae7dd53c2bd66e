"""topic, service, action and param against a running bridge: what they print is what a plain rclpy client gets."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")

import yaml
from geometry_msgs.msg import TwistStamped
from parameter_client import ParameterClient
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CameraInfo, Imu
from std_msgs.msg import String
from std_srvs.srv import SetBool
from tf2_msgs.msg import TFMessage

from cli_calls import call_cli
from hidden_modules import start_without
from programs import Program
from usd_ros_bridge.cli.graph import action_command, verb_group
from usd_ros_bridge.cli.graph.peer_client import PeerClient
from usd_ros_bridge.process_settings import Ending
from usd_ros_bridge.ros.message_text import message_to_csv
from usd_ros_bridge.ros_domains import reserve_domain

pytestmark = [
    pytest.mark.app,
    pytest.mark.skipif(
        importlib.util.find_spec("ros2cli") is not None, reason="with ros2cli, `ros2` is the one to use"
    ),
    # Several verbs in one test may each wait for a minute.
    pytest.mark.timeout(400),
]

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "usd_ros_bridge"]
WAIT = ("--spin-time", "60")
"""For what has a name: it is waited for, however busy the machine is."""
LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
TRAJECTORY = "/arm/joint_trajectory_controller/follow_joint_trajectory"
JOINTS = [f"joint_{number}" for number in range(1, 7)]


@dataclass(frozen=True)
class Running:
    """A bridge in a process of its own."""

    domain_id: int
    program: Program


def run_example(name: str) -> Iterator[Running]:
    reservation = reserve_domain()
    env = {**os.environ, "ROS_DOMAIN_ID": str(reservation.domain_id)}
    command = [*PROGRAM, "run", "--example", name, "--backend", "kinematic", "--no-live"]
    with Program(command, cwd=ROOT, env=env) as program:
        program.wait_for(": ready$")
        yield Running(reservation.domain_id, program)
        assert program.interrupt() == 0
    reservation.close()


@pytest.fixture(scope="module")
def arm() -> Iterator[Running]:
    yield from run_example("arm")


@pytest.fixture(scope="module")
def rover() -> Iterator[Running]:
    yield from run_example("rover")


@pytest.fixture(autouse=True)
def domain_id(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The domain of the arm where a test is about the arm, else that of the rover."""
    running = request.getfixturevalue("arm" if "arm" in request.fixturenames else "rover")
    monkeypatch.setenv("ROS_DOMAIN_ID", str(running.domain_id))
    # `ros2` of an installation that is not in this environment would be preferred.
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]))
    return int(running.domain_id)


def output(*arguments: str) -> str:
    """Run a verb that has to succeed. Return what it prints."""
    result = call_cli(*arguments)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def failure(*arguments: str, status: int = 1) -> str:
    """Run a verb that has to fail. Return its only line."""
    result = call_cli(*arguments)
    lines = result.stderr.splitlines()
    assert (result.returncode, len(lines)) == (status, 1), result
    return lines[0].removeprefix("usd_ros_bridge: ")


def eventually(*arguments: str, holds: Callable[[str], bool]) -> str:
    """Repeat a verb until its output holds: a list has no event that ends its discovery."""
    deadline = time.monotonic() + 90.0
    while not holds(found := output(*arguments)):
        assert time.monotonic() < deadline, found
    return found


def refusal(*arguments: str, begin: str) -> str:
    """Repeat a verb for a name that nobody has until its only line begins like this.

    It suggests names that it has discovered by then. The next tries give it more time.
    """
    deadline = time.monotonic() + 90.0
    wait: tuple[str, ...] = ()
    while not (line := failure(*arguments, *wait)).startswith(begin):
        assert time.monotonic() < deadline, line
        wait = ("--spin-time", "20")
    return line


def spawn(*arguments: str) -> Program:
    """Start a verb in a process of its own."""
    return Program([*PROGRAM, *arguments], cwd=ROOT)


def received(ros_harness: Any, kind: Any, name: str, qos: Any = LATCHED) -> Any:
    """Return the first message of a topic that a plain subscription gets."""
    messages: list[Any] = []
    subscription = ros_harness.node.create_subscription(kind, name, messages.append, qos)
    ros_harness.wait_for(lambda: bool(messages), timeout=60.0, what=name)
    ros_harness.node.destroy_subscription(subscription)
    return messages[0]


def mapping(message: Any) -> Any:
    """Return a message as plain values."""
    if hasattr(message, "get_fields_and_field_types"):
        return {name: mapping(getattr(message, name)) for name in message.get_fields_and_field_types()}
    if isinstance(message, (str, bool, int, float)):
        return message
    return [mapping(each) for each in message]


# --- topic: list, info, type, find --------------------------------------------------------------------------------


def own(lines: Iterable[str]) -> list[str]:
    """Return the lines of a list that are about the bridge's topics or services."""
    return [line for line in lines if line.startswith(("/rover/", "/usd_ros_bridge/"))]


def with_types(found: Iterable[tuple[str, list[str]]]) -> list[str]:
    """Return the lines of a list of what rclpy found."""
    return [f"{name} [{', '.join(types)}]" for name, types in found]


def agreed_list(
    harness: Any, group: str, find: Callable[[], list[tuple[str, list[str]]]], some: set[str]
) -> tuple[Callable[[], list[str]], str]:
    """Wait until `list -t` of a group prints what a node of the test discovers, `some` at least.

    Returns what that node discovers, asked at each call, and what was printed.
    """

    def expected() -> list[str]:
        return own(with_types(find()))

    harness.wait_for(lambda: some <= set(expected()), timeout=60.0, what=f"what {group} lists")
    # Each side may have discovered something that the other has yet to hear of: both are asked again.
    text = eventually(group, "list", "-t", holds=lambda text: own(text.splitlines()) == expected())
    return expected, text


def test_topic_list_has_what_a_node_discovers(ros_harness: Any) -> None:
    # Subscriptions are announced by another way than publishers.
    some = {
        "/rover/tf [tf2_msgs/msg/TFMessage]",
        "/rover/scan [sensor_msgs/msg/LaserScan]",
        "/rover/cmd_vel [geometry_msgs/msg/Twist]",
    }
    expected, _ = agreed_list(ros_harness, "topic", ros_harness.node.get_topic_names_and_types, some)

    def names_with_types() -> list[str]:
        return [line.partition(" ")[0] for line in output("topic", "list", "-t").splitlines()]

    def is_complete(names: list[str]) -> bool:
        wanted = [line.partition(" ")[0] for line in expected()]
        return own(names) == wanted and names == names_with_types()

    names = eventually("topic", "list", holds=lambda text: is_complete(text.splitlines())).splitlines()
    assert names == sorted(names)
    scan = " * /rover/scan [sensor_msgs/msg/LaserScan] 1 publisher\n"
    twist = " * /rover/cmd_vel [geometry_msgs/msg/Twist] 1 subscriber\n"
    verbose = eventually("topic", "list", "-v", holds=lambda text: scan in text and twist in text)
    published, _, subscribed = verbose.partition("\n\n")
    assert published.startswith("Published topics:\n")
    assert scan in published
    assert subscribed.startswith("Subscribed topics:\n")
    assert twist in subscribed
    eventually("topic", "list", "-c", holds=lambda text: text == f"{len(names_with_types())}\n")


def test_topic_info_describes_each_end(ros_harness: Any) -> None:
    node = ros_harness.node
    ros_harness.wait_for(lambda: node.count_publishers("/rover/scan") == 1, timeout=60.0)
    text = eventually(
        "topic", "info", "/rover/scan", *WAIT, holds=lambda text: "Publisher count: 1\n" in text
    )
    assert text == "Type: sensor_msgs/msg/LaserScan\nPublisher count: 1\nSubscription count: 0\n"
    ros_harness.wait_for(
        lambda: node.get_publishers_info_by_topic("/rover/scan")[0].node_name == "usd_ros_bridge",
        timeout=60.0,
    )
    (expected,) = node.get_publishers_info_by_topic("/rover/scan")
    # The name of a node arrives by another topic than its publishers.
    verbose = eventually("topic", "info", "-v", "rover/scan", *WAIT, holds=lambda text: str(expected) in text)
    assert verbose == (
        f"Type: sensor_msgs/msg/LaserScan\n\nPublisher count: 1\n\n{expected}\n\nSubscription count: 0\n\n"
    )


def test_topic_type_and_find() -> None:
    assert output("topic", "type", "/rover/imu", *WAIT) == "sensor_msgs/msg/Imu\n"
    arguments = ("topic", "find", "sensor_msgs/msg/Imu")
    assert eventually(*arguments, holds=bool) == "/rover/imu\n"
    assert eventually(*arguments, "-c", holds=lambda text: text != "0\n") == "1\n"


@pytest.mark.parametrize("verb", ["type", "info"])
def test_an_unknown_topic_is_one_line_with_names_like_it(verb: str, ros_harness: Any) -> None:
    ros_harness.wait_for(lambda: ros_harness.node.count_publishers("/rover/scan") == 1, timeout=60.0)
    begin = "Unknown topic '/rover/scam'; did you mean /rover/scan"
    assert re.match(rf"{begin}\b", refusal("topic", verb, "/rover/scam", begin=begin))


# --- topic echo ---------------------------------------------------------------------------------------------------


def test_echo_prints_every_field(ros_harness: Any) -> None:
    expected = received(ros_harness, TFMessage, "/rover/tf_static")
    text = output("topic", "echo", "/rover/tf_static", "--once", *WAIT)
    assert text.endswith("---\n")
    assert yaml.safe_load(text.removesuffix("---\n")) == mapping(expected)
    lines = text.splitlines()
    assert lines[:4] == ["transforms:", "- header:", "    stamp:", f"      sec: {stamp(expected).sec}"]
    flow = output("topic", "echo", "/rover/tf_static", "--once", "--flow-style", *WAIT)
    assert len(flow.splitlines()) == 2
    assert yaml.safe_load(flow.removesuffix("---\n")) == mapping(expected)


def stamp(message: TFMessage) -> Any:
    return message.transforms[0].header.stamp


def test_echo_prints_comma_separated_values(ros_harness: Any) -> None:
    expected = received(ros_harness, TFMessage, "/rover/tf_static")
    text = output("topic", "echo", "/rover/tf_static", "--once", "--csv", *WAIT)
    assert text == message_to_csv(expected) + "\n"
    first = stamp(expected)
    assert text.startswith(f"{first.sec},{first.nanosec},base_link,")


def test_echo_prints_chosen_fields(ros_harness: Any) -> None:
    expected = received(ros_harness, TFMessage, "/rover/tf_static").transforms[1]
    fields = ("transforms.[1].child_frame_id", "transforms.[1].transform.translation")
    options = [part for field in fields for part in ("--field", field)]
    text = output("topic", "echo", "/rover/tf_static", "--once", *options, *WAIT)
    at = expected.transform.translation
    assert text == f"{expected.child_frame_id}\nx: {at.x}\ny: {at.y}\nz: {at.z}\n---\n"
    line = failure("topic", "echo", "/rover/tf_static", "--once", "--field", "transform", *WAIT)
    assert line.startswith("Invalid field 'transform': ")
    assert line.endswith("did you mean transforms? there are: transforms")
    assert failure("topic", "echo", "/rover/tf_static", "--field", ".", *WAIT) == "Invalid field value '.'"


def test_echo_hears_best_effort_publishers_and_abbreviates_arrays(ros_harness: Any) -> None:
    received(ros_harness, CameraInfo, "/rover/camera_info", qos_profile_sensor_data)
    text = output("topic", "echo", "/rover/camera_info", "--once", "--no-arr", *WAIT)
    assert "d: '<sequence type: double, length: 5>'\nk: '<array type: double[9]>'\n" in text
    text = output("topic", "echo", "/rover/robot_description", "--once", "-l", "5", *WAIT)
    assert text == "data: <?xml...\n---\n"
    text = output("topic", "echo", "/rover/robot_description", "--once", "--no-str", *WAIT)
    assert re.fullmatch(r"data: '<string length: <\d{4,}>>'\n---\n", text)


def test_echo_prints_the_times_and_the_bytes_of_a_message(ros_harness: Any) -> None:
    expected = received(ros_harness, TFMessage, "/rover/tf_static")
    text = output("topic", "echo", "/rover/tf_static", "--once", "-i", *WAIT)
    info, _, message = text.partition("---\n")
    assert {"source_timestamp", "received_timestamp"} <= yaml.safe_load(info).keys()
    assert yaml.safe_load(message.removesuffix("---\n")) == mapping(expected)
    raw = output("topic", "echo", "/rover/tf_static", "--once", "--raw", *WAIT)
    data = ast.literal_eval(raw.removesuffix("\n---\n"))
    assert deserialize_message(data, TFMessage) == expected


def test_echo_takes_the_quality_of_service_that_is_asked_for() -> None:
    options = ("--qos-durability", "volatile", "--timeout", "1")
    assert output("topic", "echo", "/rover/tf_static", *options, *WAIT) == ""
    line = failure("topic", "echo", "/rover/tf_static", "--qos-reliability", "relable", *WAIT, status=2)
    assert line.startswith("--qos-reliability: there is no 'relable'; did you mean reliable?")


def test_echo_of_publishers_that_differ_hears_all_of_them(ros_harness: Any) -> None:
    node, reliable = ros_harness.node, QoSProfile(depth=5)
    for qos in (reliable, qos_profile_sensor_data):
        node.create_publisher(String, "/mixed", qos)
    with spawn("topic", "echo", "/mixed", *WAIT) as echo:
        line = echo.wait_for("^Some, but not all, publishers are offering")
        assert line.strip() == (
            "Some, but not all, publishers are offering QoSReliabilityPolicy.RELIABLE. Falling back to "
            "QoSReliabilityPolicy.BEST_EFFORT as it will connect to all publishers"
        )
        assert echo.interrupt() == 0


def test_echo_of_an_unknown_topic_needs_its_type() -> None:
    result = call_cli("topic", "echo", "/rover/nowhere", "--spin-time", "1")
    assert result.stdout == "WARNING: topic [/rover/nowhere] does not appear to be published yet\n"
    assert result.stderr.startswith(
        "usd_ros_bridge: Could not determine the type for the passed topic '/rover/nowhere'; "
    )
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    line = failure("topic", "echo", "/rover/nowhere", "std_msgs/msg/Strin", *WAIT)
    assert line.startswith(
        "The passed message type is invalid: 'std_msgs/msg/Strin' is not installed; did you mean"
    )
    assert (
        output("topic", "echo", "/nowhere", "std_msgs/String", "--timeout", "0.1", "--spin-time", "0") == ""
    )


@pytest.mark.parametrize("alone", [True, False])
def test_a_name_is_waited_for_longer_where_no_other_node_is_found(
    monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    monkeypatch.setattr(verb_group, "ALONE_S", 0.5 if alone else 60.0)
    monkeypatch.setattr(verb_group, "NAMED_WAIT_S", 0.25)
    waits: list[float | None] = []
    spin_until = PeerClient.spin_until

    def noted(client: PeerClient, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        waits.append(timeout)
        return spin_until(client, condition, timeout)

    monkeypatch.setattr(PeerClient, "spin_until", noted)
    graph = verb_group.GraphOptions(spin_time=None, use_sim_time=False, ros_arguments=(), ending=Ending())
    with ExitStack() as resources:
        if alone:
            reservation = resources.enter_context(closing(reserve_domain()))
            monkeypatch.setenv("ROS_DOMAIN_ID", str(reservation.domain_id))
        client = resources.enter_context(graph.open())
        assert not graph.find(client, lambda: False)
        assert client.is_alone() is alone
    assert waits == ([0.5, 0.0] if alone else [60.0, 0.25])


# --- topic hz and bw ----------------------------------------------------------------------------------------------


def test_hz_prints_the_rate_until_it_is_interrupted(ros_harness: Any) -> None:
    with spawn("topic", "hz", "/rover/imu") as hz:
        line = hz.wait_for("^average rate: ")
        assert 1.0 < float(line.split()[-1]) < 1000.0
        line = hz.wait_for("^\tmin: ")
        assert re.fullmatch(r"\tmin: \d\.\d{3}s max: \d+\.\d{3}s std dev: \d\.\d{5}s window: \d+\n", line)
        assert hz.interrupt() == 0
    assert "Traceback" not in hz.output


def test_hz_of_several_topics_is_a_table() -> None:
    with spawn("topic", "hz", "/rover/imu", "/rover/scan") as hz:
        assert hz.wait_for("^Subscribed").strip() == "Subscribed to [/rover/imu]"
        heads = hz.wait_for("topic .* rate .* min_delta .* max_delta .* std_dev .* window")
        line = hz.wait_for("^=").rstrip("\n")
        assert line == "=" * len(heads.rstrip("\n"))
        hz.wait_for(r"^/rover/imu +\d+\.\d{3} +\d\.\d{3} +\d+\.\d{3} +\d\.\d{5} +\d+ *$")
        assert hz.interrupt(signal.SIGTERM) == 0


def test_hz_waits_for_a_topic(ros_harness: Any) -> None:
    with spawn("topic", "hz", "/later", "--spin-time", "0.1") as hz:
        warning = hz.wait_for("^WARNING")
        assert warning == "WARNING: topic [/later] does not appear to be published yet\n"
        publisher = ros_harness.node.create_publisher(String, "/later", 10)
        ros_harness.wait_for(lambda: publisher.get_subscription_count() == 1, timeout=60.0)
        deadline = time.monotonic() + 60.0
        while "average rate" not in hz.output:
            assert time.monotonic() < deadline, hz.output
            publisher.publish(String())
            ros_harness.executor.spin_once(timeout_sec=0.05)
        assert hz.interrupt() == 0


def test_bw_prints_the_size_of_messages(ros_harness: Any) -> None:
    size = len(serialize_message(received(ros_harness, Imu, "/rover/imu", qos_profile_sensor_data)))
    with spawn("topic", "bw", "/rover/imu") as bw:
        bw.wait_for(r"^Subscribed to \[/rover/imu\]$")
        line = bw.wait_for("messages$")
        assert re.fullmatch(r"\d+(\.\d\d)? (K|M)?B/s from \d+ messages\n", line)
        line = bw.wait_for("Message size")
        shown = f"{size} B" if line.endswith(" B\n") else f"{size / 1000:.2f} KB"
        assert line == f"\tMessage size mean: {shown} min: {shown} max: {shown}\n"
        assert bw.interrupt() == 0


# --- topic pub ----------------------------------------------------------------------------------------------------


def test_pub_sends_what_is_written(ros_harness: Any) -> None:
    messages: list[Any] = ros_harness.listen(TwistStamped, "/written")
    values = "{header: auto, twist: {linear: {x: 1e-3}, angular: {z: 2}}}"
    before = ros_harness.node.get_clock().now().nanoseconds
    # In a process of its own: within one, a reliable message is lost that is sent before both ends are discovered.
    # It repeats the message as long as it lives, to those who discover it late, too.
    with spawn(
        "topic", "pub", "--once", "--keep-alive", "60", "/written", "geometry_msgs/TwistStamped", values
    ) as pub:
        ros_harness.wait_for(lambda: bool(messages), timeout=60.0, what="the message")
        assert pub.interrupt() == 0
    (message,) = messages
    assert (message.twist.linear.x, message.twist.angular.z) == (0.001, 2.0)
    assert message.header.stamp.sec * 10**9 + message.header.stamp.nanosec >= before
    assert pub.output.endswith(f"publisher: beginning loop\npublishing #1: {message!r}\n\n")


def test_pub_ends_after_the_last_message() -> None:
    text = output(
        "topic", "pub", "--times", "2", "-r", "50", "-w", "0", "/nowhere", "std_msgs/msg/String", "data: a"
    )
    assert text.count("publishing #") == 2


def test_pub_repeats_until_it_is_interrupted(ros_harness: Any) -> None:
    messages: list[Any] = ros_harness.listen(String, "/repeated")
    with spawn(
        "topic", "pub", "-r", "50", "-w", "1", "-p", "3", "/repeated", "std_msgs/msg/String", "data: 5"
    ) as pub:
        ros_harness.wait_for(lambda: len(messages) >= 5, timeout=60.0, what="messages")
        pub.wait_for("publishing #3: ")
        assert pub.interrupt() == 0
    assert {message.data for message in messages} == {"5"}
    assert "publishing #1:" not in pub.output


def test_pub_sends_the_messages_of_a_file(ros_harness: Any, tmp_path: Path) -> None:
    messages: list[Any] = ros_harness.listen(String, "/filed")
    file = tmp_path / "messages.yaml"
    file.write_text("data: one\n---\ndata: two\n---\n", encoding="utf-8")
    arguments = ("--yaml-file", str(file), "-w", "1", "-r", "20", "--keep-alive", "60")
    with spawn("topic", "pub", *arguments, "/filed", "std_msgs/msg/String") as pub:
        ros_harness.wait_for(lambda: len(messages) == 2, timeout=60.0, what="messages")
        assert pub.interrupt() == 0
    assert [message.data for message in messages] == ["one", "two"]


PUB_FAULTS = [
    (["/x", "std_msgs/msg/UInt8", "data: 300"], "Failed to populate field: UInt8: "),
    (
        ["/x", "std_msgs/msg/UInt8", "data: many"],
        "Failed to populate field: UInt8: the field data: it is int, not str",
    ),
    (
        ["/x", "std_msgs/msg/String", "date: x"],
        "Failed to populate field: String has no field 'date'; did you mean",
    ),
    (["/x", "std_msgs/msg/String", "[1"], "The passed value needs to be in YAML"),
    (["/x", "std_msgs/msg/String", "5"], "The passed value needs to be a dictionary in YAML format, not '5'"),
    (
        ["/x", "std_msgs/msg/Sting"],
        "The passed message type is invalid: 'std_msgs/msg/Sting' is not installed",
    ),
    (
        ["/x", "std_msg/msg/String"],
        "The passed message type is invalid: 'std_msg/msg/String' is not installed",
    ),
    (["/x", "std_srvs/srv/SetBool"], "The passed message type is invalid"),
    (
        ["/x", "std_msgs/msg/String", "--once", "--max-wait-time-secs", "0.1"],
        "Timed out waiting for subscribers: ",
    ),
    (
        ["/x", "std_msgs/msg/String", "--max-wait-time-secs", "0.1"],
        "--max-wait-time-secs option is only effective",
    ),
    (["/x", "std_msgs/msg/String", "--yaml-file", "/nowhere.yaml"], "cannot read /nowhere.yaml: "),
]


@pytest.mark.parametrize(("arguments", "expected"), PUB_FAULTS)
def test_what_cannot_be_published_is_one_line(arguments: list[str], expected: str) -> None:
    assert failure("topic", "pub", *arguments).startswith(expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["topic", "pub", "/bad name", "std_msgs/msg/String"], "Invalid topic name: "),
        (["topic", "pub", "/x", "std_msgs/msg/String", "-n", "bad name"], "Invalid node name: "),
        (["service", "call", "/bad name", "std_srvs/srv/Empty"], "Invalid service name: "),
        (
            ["action", "send_goal", "/bad name", "control_msgs/action/FollowJointTrajectory"],
            "Invalid topic name: ",
        ),
        (
            ["topic", "pub", "/x", "std_msgs/msg/String", "{}", "--stdin"],
            "values and --stdin exclude each other",
        ),
        (
            ["topic", "pub", "/x", "std_msgs/msg/String", "-1", "-t", "3"],
            "--once and --times exclude each other",
        ),
    ],
)
def test_mistakes_are_one_line_with_status_2(arguments: list[str], expected: str) -> None:
    assert failure(*arguments, status=2).startswith(expected)


def test_an_impossible_domain_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "999")
    assert failure("topic", "list", status=2) == "domain id 999 is not possible: 0 to 232"


# --- service ------------------------------------------------------------------------------------------------------


def test_service_list_has_what_a_node_discovers(ros_harness: Any) -> None:
    some = {
        "/rover/set_headlights [std_srvs/srv/SetBool]",
        "/usd_ros_bridge/reload [std_srvs/srv/Trigger]",
        "/usd_ros_bridge/set_parameters [rcl_interfaces/srv/SetParameters]",
    }
    expected, found = agreed_list(ros_harness, "service", ros_harness.node.get_service_names_and_types, some)
    assert not [line for line in found.splitlines() if "/_" in line]
    assert output("service", "type", "/rover/set_headlights", *WAIT) == "std_srvs/srv/SetBool\n"
    text = eventually(
        "service", "info", "/rover/set_headlights", *WAIT, holds=lambda text: "Services count: 1" in text
    )
    assert text == "Type: std_srvs/srv/SetBool\nClients count: 0\nServices count: 1\n"
    kind = " [std_srvs/srv/SetBool]"
    text = eventually(
        "service",
        "find",
        "std_srvs/srv/SetBool",
        holds=lambda text: (
            text.splitlines() == [line.removesuffix(kind) for line in expected() if line.endswith(kind)]
        ),
    )
    assert "/rover/set_headlights" in text.splitlines()
    refusal(
        "service",
        "type",
        "/rover/set_headlight",
        begin="Unknown service '/rover/set_headlight'; did you mean",
    )


def test_service_call_prints_request_and_response(ros_harness: Any) -> None:
    name, kind = "/rover/set_headlights", "std_srvs/srv/SetBool"
    client = ros_harness.node.create_client(SetBool, name)
    ros_harness.wait_for(client.service_is_ready, timeout=60.0)
    for lit in (False, True):
        request = SetBool.Request(data=lit)
        future = client.call_async(request)
        ros_harness.wait_for(future.done, timeout=60.0)
        text = output("service", "call", name, kind, f"data: {str(lit).lower()}")
        assert text.removeprefix("waiting for service to become available...\n") == (
            f"requester: making request: {request!r}\n\nresponse:\n{future.result()!r}\n\n"
        )
    line = failure("service", "call", name, kind, "data: maybe")
    assert line == "Failed to populate field: SetBool_Request: the field data: it is bool, not str"
    assert failure("service", "call", name, "std_srvs/srv/SetBol").startswith(
        "The passed service type is invalid: "
    )


def test_service_call_repeats_until_it_is_interrupted() -> None:
    with spawn("service", "call", "-r", "20", "/rover/set_headlights", "std_srvs/srv/SetBool") as call:
        for _ in range(3):
            call.wait_for("^std_srvs.srv.SetBool_Response")
        assert call.interrupt() == 0


# --- action -------------------------------------------------------------------------------------------------------


def goal(seconds: int) -> str:
    positions = [0.2, *[0.0] * 5]
    point = {"positions": positions, "time_from_start": {"sec": seconds}}
    return yaml.safe_dump({"trajectory": {"joint_names": JOINTS, "points": [point]}})


def test_action_list_info_type_and_find(arm: Running) -> None:
    kind = "control_msgs/action/FollowJointTrajectory"
    text = eventually("action", "list", "-t", holds=lambda text: TRAJECTORY in text)
    assert f"{TRAJECTORY} [{kind}]" in text.splitlines()
    assert output("action", "type", TRAJECTORY, *WAIT) == f"{kind}\n"
    assert eventually("action", "find", kind, holds=bool) == f"{TRAJECTORY}\n"
    text = eventually("action", "info", "-t", TRAJECTORY, *WAIT, holds=lambda text: "servers: 1" in text)
    assert (
        text == f"Action: {TRAJECTORY}\nAction clients: 0\nAction servers: 1\n    /usd_ros_bridge [{kind}]\n"
    )
    text = eventually("action", "info", "-c", TRAJECTORY, *WAIT, holds=lambda text: "servers: 1" in text)
    assert text == f"Action: {TRAJECTORY}\nAction clients: 0\nAction servers: 1\n"
    refusal("action", "type", TRAJECTORY + "s", begin=f"Unknown action '{TRAJECTORY}s'; did you mean")


def test_send_goal_prints_feedback_and_result(arm: Running) -> None:
    kind = "control_msgs/action/FollowJointTrajectory"
    text = output("action", "send_goal", "-f", TRAJECTORY, kind, goal(1))
    head, _, rest = text.partition("Goal accepted with ID: ")
    start = "Waiting for an action server to become available...\nSending goal:\n     "
    assert head.startswith(start)
    sent = yaml.safe_load(head.removeprefix(start))
    assert sent["trajectory"]["points"][0]["time_from_start"] == {"sec": 1, "nanosec": 0}
    assert re.match(r"[0-9a-f]{32}\n\n", rest)
    _, *feedback = rest.partition("Result:")[0].split("Feedback:\n    ")
    assert feedback
    assert all(yaml.safe_load(each)["joint_names"] == JOINTS for each in feedback)
    assert rest.partition("Result:")[2] == (
        "\n    error_code: 0\nerror_string: goal reached\n\nGoal finished with status: SUCCEEDED\n"
    )


def test_send_goal_tells_of_rejections_and_time_outs(arm: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "control_msgs/action/FollowJointTrajectory"
    sent = call_cli("action", "send_goal", TRAJECTORY, kind, "{trajectory: {joint_names: [elbow]}}")
    assert (sent.returncode, sent.stderr) == (1, "usd_ros_bridge: Goal was rejected.\n")
    with monkeypatch.context() as patch:
        # The result is late, not the server, however long it takes to find that one.
        patch.setattr(action_command, "NAMED_WAIT_S", 60.0)
        sent = call_cli("action", "send_goal", "-t", "1", TRAJECTORY, kind, goal(600))
    assert sent.stderr == "usd_ros_bridge: Timed out waiting for result after 1 seconds.\n"
    sent = call_cli("action", "send_goal", "-t", "1", "/nowhere", kind)
    assert sent.stderr == "usd_ros_bridge: Action server is not available after waiting 5 seconds.\n"
    line = failure("action", "send_goal", TRAJECTORY, kind, "{trajectry: {}}")
    assert line.startswith("Failed to populate field: FollowJointTrajectory_Goal has no field 'trajectry'")


def test_an_interrupted_send_goal_cancels_its_goal(arm: Running) -> None:
    kind = "control_msgs/action/FollowJointTrajectory"
    with spawn("action", "send_goal", TRAJECTORY, kind, goal(600)) as sent:
        sent.wait_for("^Goal accepted")
        assert sent.interrupt() == 0
    assert "Canceling goal...\nGoal canceled.\nResult:\n    error_code: 0\n" in sent.output
    assert sent.output.endswith("Goal finished with status: CANCELED\n")


# --- param --------------------------------------------------------------------------------------------------------


NODE = "/usd_ros_bridge"


def test_param_list_has_every_parameter(ros_harness: Any) -> None:
    client = ParameterClient(ros_harness)
    expected = sorted(client.names())
    assert output("param", "list", NODE, *WAIT).splitlines() == [f"  {name}" for name in expected]
    lines = output("param", "list", "usd_ros_bridge", "--param-type", "--filter", "tf_.*", *WAIT).splitlines()
    assert lines == ["  tf_output (type: string)", "  tf_rate (type: double)"]
    assert failure("param", "list", NODE, "--filter", "(", *WAIT).startswith(
        "--filter: '(' is no regular expression"
    )
    refusal(
        "param",
        "list",
        "/usd_ros_brige",
        begin="Node not found: '/usd_ros_brige'; did you mean /usd_ros_bridge?",
    )


def test_param_list_of_all_nodes_names_each() -> None:
    text = eventually("param", "list", holds=lambda text: NODE in text)
    assert text.splitlines()[0] == f"{NODE}:"
    assert "  tf_rate" in text.splitlines()


def test_param_get_and_set(ros_harness: Any) -> None:
    client = ParameterClient(ros_harness)
    assert output("param", "get", NODE, "tf_rate", *WAIT) == f"Double value is: {client.get('tf_rate')}\n"
    assert output("param", "get", NODE, "variants", *WAIT) == f"String values are: {client.get('variants')}\n"
    assert output("param", "get", NODE, "backend", "--hide-type", *WAIT) == f"{client.get('backend')}\n"
    assert output("param", "set", NODE, "tf_rate", "40.0", *WAIT) == "Set parameter successful\n"
    assert client.get("tf_rate") == 40.0
    assert failure("param", "set", NODE, "tf_rate", "-5.0", *WAIT).startswith("Setting parameter failed: ")
    assert client.get("tf_rate") == 40.0
    assert output("param", "set", NODE, "tf_rate", "50.0", *WAIT) == "Set parameter successful\n"
    line = failure("param", "get", NODE, "tf_rat", *WAIT)
    assert line.startswith("Parameter not set: 'tf_rat'; did you mean tf_rate")
    assert failure("param", "set", NODE, "tf_rat", "1.0", *WAIT).endswith("did you mean tf_rate?")


def test_param_describe_prints_type_and_limits(ros_harness: Any) -> None:
    expected = ParameterClient(ros_harness).describe("tf_rate")
    (limits,) = expected.floating_point_range
    assert output("param", "describe", NODE, "tf_rate", *WAIT) == (
        f"Parameter name: tf_rate\n  Type: double\n  Description: {expected.description}\n  Constraints:\n"
        f"    Min value: {limits.from_value}\n    Max value: {limits.to_value}\n"
        f"    Additional constraints: {expected.additional_constraints}\n"
    )
    assert "    Read only: true\n" in output("param", "describe", NODE, "tf_rate", "asset", *WAIT)


def test_param_dump_is_a_parameter_file(ros_harness: Any) -> None:
    client = ParameterClient(ros_harness)
    tree = yaml.safe_load(output("param", "dump", NODE, *WAIT))[NODE]["ros__parameters"]
    for name in client.names() & {"tf_rate", "backend", "variants", "use_sim_time"}:
        assert tree[name] == client.get(name)
    (controller,) = [name for name in tree if name.endswith("diff_drive")]
    assert tree[controller] == {"cmd_vel_timeout": 0.5}


# --- Ends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verb",
    [
        "topic echo --spin-time 60 /rover/imu",
        "topic list",
        "topic pub -r 50 /x std_msgs/msg/String",
        "topic hz --spin-time 60 /rover/imu",
    ],
)
def test_a_reader_that_goes_away_ends_a_verb(verb: str) -> None:
    command = f"{shlex.join(PROGRAM)} {verb} | head -n 1; echo ${{PIPESTATUS[0]}} >&2"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=100, check=False, cwd=ROOT
    )
    assert (result.stderr, result.stdout.count("\n")) == ("0\n", 1)


def test_an_interrupted_wait_ends_without_a_traceback() -> None:
    with spawn("service", "call", "/nowhere", "std_srvs/srv/Empty") as call:
        call.wait_for("^waiting for service to become available")
        assert call.interrupt() == 0
    assert call.output == "waiting for service to become available...\n"


def test_ros2cli_is_preferred_where_it_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ros2").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "ros2").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    line = failure("topic", "echo", "/rover/imu", "--field", "header.frame id", status=2)
    assert line == "ros2cli is installed: use `ros2 topic echo /rover/imu --field 'header.frame id'`"


def test_without_rclpy_a_verb_says_how_to_install_it(tmp_path: Path) -> None:
    program = "from usd_ros_bridge.entry_points import usd_ros_bridge; usd_ros_bridge()"
    result = start_without("rclpy", program, "topic", "list", directory=tmp_path)
    assert result.returncode == 2
    line = result.stderr.splitlines()[-1]
    assert line.startswith("usd_ros_bridge: ROS 2 for Python is not installed (no module rclpy)"), (
        result.stderr
    )
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("group", ["topic", "service", "action", "param"])
def test_a_group_without_a_verb_prints_its_help(group: str) -> None:
    text = output(group)
    assert text == output(group, "--help")
    assert "\n  list " in text
