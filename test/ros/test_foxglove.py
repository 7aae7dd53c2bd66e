"""The server for the Foxglove app, with a client of its protocol: topics, parameters, services, meshes and driving."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("foxglove", reason="foxglove-sdk is not installed: make setup")
pytest.importorskip("websockets", reason="websockets is not installed: make setup-tests")

from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from parameter_client import ParameterClient
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from tf2_msgs.msg import TFMessage
from websockets.exceptions import ConnectionClosed

from foxglove_client import FoxgloveClient, connected, wait_until
from free_ports import free_port
from ros_plans import JOINT_STATES, plan, subscription
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.foxglove import server_link, service_calls
from usd_ros_bridge.ros.foxglove.push_connection import PushConnection

pytestmark = pytest.mark.app

ROOT = Path(__file__).parents[2]
ROVER = ROOT / "examples" / "rover" / "rover.usda"
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
HANG_S = 30.0
"""What takes longer hangs, however busy the machine is."""

CONTROL: dict[str, Any] = {"foxglove": 0, "foxglove_control": True}
Serve = Callable[..., tuple[Any, FoxgloveClient]]


@pytest.fixture
def serve(start: Any) -> Iterator[Serve]:
    """`serve(**options)`: a running rover with a server, and a client of it that may drive."""
    with ExitStack() as stack:

        def run(
            backend: str = "kinematic", asset: Path = ROVER, **options: Any
        ) -> tuple[Any, FoxgloveClient]:
            plan = load_plan(asset, physics=backend == "mujoco")
            running = start(plan, backend, **(CONTROL | options))
            return running, stack.enter_context(connected(port_of(running.bridge)))

        yield run


def port_of(bridge: Bridge) -> int:
    server = bridge.parts.foxglove
    assert server is not None
    return server.port


def last(client: FoxgloveClient, topic: str, kind: Any) -> Any:
    return deserialize_message(client.messages[topic][-1][1], kind)


# --- Topics ----------------------------------------------------------------------------------------------------


def test_messages_are_those_of_the_topics(serve: Serve, ros_harness: Any) -> None:
    _, client = serve()
    kinds = {"/rover/joint_states": JointState, "/rover/odom": Odometry, "/rover/tf": TFMessage}
    heard: dict[str, list[bytes]] = {topic: [] for topic in kinds}
    for topic, kind in kinds.items():
        ros_harness.node.create_subscription(kind, topic, heard[topic].append, 100, raw=True)
    client.subscribe(*kinds)

    def common(topic: str) -> list[bytes]:
        received = {bytes(data) for _, data in client.messages[topic]}
        return [each for each in heard[topic] if bytes(each) in received]

    ros_harness.wait_for(
        lambda: all(len(common(topic)) >= 10 for topic in kinds), what="ten messages of each", timeout=30.0
    )
    # From the first that both had, byte for byte, each of them, in order.
    for topic in kinds:
        received = [bytes(data) for _, data in client.messages[topic]]
        expected = [bytes(each) for each in heard[topic]]
        begin = common(topic)[0]
        count = min(len(received) - received.index(begin), len(expected) - expected.index(begin))
        assert received[received.index(begin) :][:count] == expected[expected.index(begin) :][:count]


def test_schemas_describe_the_messages(serve: Serve) -> None:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    _, client = serve()
    client.subscribe("/rover/odom", "/rover/robot_description")
    client.wait_for(lambda: all(client.messages.values()), "messages")
    for topic, kind in (("/rover/odom", Odometry), ("/rover/robot_description", String)):
        row = client.channels[topic]
        assert (row["encoding"], row["schemaEncoding"]) == ("cdr", "ros2msg")
        store = get_typestore(Stores.EMPTY)
        store.register(get_types_from_msg(row["schema"], row["schemaName"]))
        read = store.deserialize_cdr(client.messages[topic][0][1], row["schemaName"])
        expected = deserialize_message(client.messages[topic][0][1], kind)
        if kind is String:
            assert read.data == expected.data
        else:
            assert read.pose.pose.position.x == expected.pose.pose.position.x
            assert list(read.pose.covariance) == list(expected.pose.covariance)
            assert read.child_frame_id == expected.child_frame_id


def test_latched_messages_reach_clients_that_come_late(serve: Serve, ros_harness: Any) -> None:
    running, first = serve()
    topics = ("/rover/tf_static", "/rover/robot_description", "/usd_ros_bridge/plan")
    texts: list[String] = ros_harness.listen(String, "/rover/robot_description", LATCHED)
    for client in (first, FoxgloveClient(port_of(running.bridge))):
        client.subscribe(*topics)
        client.wait_for(lambda client=client: all(client.messages.values()), "the latched messages")
        assert last(client, "/rover/tf_static", TFMessage).transforms
    ros_harness.wait_for(lambda: bool(texts), what="the description")
    assert last(first, "/rover/robot_description", String).data == texts[-1].data
    client.close()


def test_nothing_is_copied_without_a_client_of_the_topic(serve: Serve) -> None:
    running, client = serve()
    client.subscribe("/rover/odom")
    client.wait_for(lambda: len(client.messages["/rover/odom"]) > 20, "odometry")
    assert running.row("/rover/joint_states").count == 0
    assert running.row("/rover/odom").count > 20
    client.unsubscribe("/rover/odom")
    client.subscribe("/rover/joint_states")
    client.wait_for(lambda: len(client.messages["/rover/joint_states"]) > 5, "joint states")
    count = running.row("/rover/odom").count
    seen = len(client.messages["/rover/joint_states"])
    client.wait_for(lambda: len(client.messages["/rover/joint_states"]) > seen + 20, "more of them")
    assert running.row("/rover/odom").count <= count + 1


def test_topics_go_and_come_back_while_the_bridge_runs(serve: Serve) -> None:
    running, client = serve()
    client.subscribe("/rover/imu")
    client.wait_for(lambda: bool(client.messages["/rover/imu"]), "imu")
    path = next(each.path for each in running.bridge.plan.topics if each.name == "/rover/imu")
    client.set_parameters({"name": f"enabled.{path}", "value": False})
    client.wait_for(lambda: "/rover/imu" not in client.channels, "the topic to go")
    client.set_parameters({"name": f"enabled.{path}", "value": True})
    client.subscribe("/rover/imu")
    seen = len(client.messages["/rover/imu"])
    client.wait_for(lambda: len(client.messages["/rover/imu"]) > seen, "messages of the new publisher")


def test_services_come_with_a_variant(serve: Serve, ros_harness: Any) -> None:
    _, client = serve(asset=ROOT / "examples" / "arm" / "arm.usda")
    client.wait_for(lambda: "/usd_ros_bridge/reload" in client.services, "services")
    assert "/arm/vacuum" not in client.services
    assert ParameterClient(ros_harness).set("variants", ["/arm:gripper=suction"]) == ""
    client.wait_for(lambda: "/arm/vacuum" in client.services, "the service of the variant")
    assert ParameterClient(ros_harness).set("variants", ["/arm:gripper=none"]) == ""
    client.wait_for(lambda: "/arm/vacuum" in client.gone, "the service to go")


def test_time_is_that_of_the_simulation(serve: Serve) -> None:
    running, client = serve("mujoco", backend_options={"gl": "none"})
    assert "time" in client.info["capabilities"]
    client.subscribe("/rover/joint_states")
    client.wait_for(lambda: len(client.times) > 5 and len(client.messages["/rover/joint_states"]) > 5, "time")
    assert client.times == sorted(client.times)
    assert 0 < client.times[-1] <= running.bridge.status().time_ns
    for log_time, data in client.messages["/rover/joint_states"]:
        stamp = deserialize_message(data, JointState).header.stamp
        assert 0 <= log_time - (stamp.sec * 10**9 + stamp.nanosec) < 10**8


def test_time_is_wall_time_where_the_bridge_follows_it(serve: Serve) -> None:
    _, client = serve()
    assert "time" not in client.info["capabilities"]
    client.subscribe("/rover/joint_states")
    client.wait_for(lambda: bool(client.messages["/rover/joint_states"]), "a message")
    assert abs(client.messages["/rover/joint_states"][-1][0] - time.time_ns()) < 60 * 10**9


# --- Publishing ------------------------------------------------------------------------------------------------


def drive(client: FoxgloveClient, channel: int, data: bytes) -> None:
    """Send a command again and again until the rover is elsewhere."""
    client.subscribe("/rover/odom")
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        client.publish(channel, data)
        if (
            client.messages["/rover/odom"]
            and last(client, "/rover/odom", Odometry).pose.pose.position.x > 0.05
        ):
            return
        time.sleep(0.05)
    pytest.fail(f"the rover does not drive: {client.statuses}")


@pytest.mark.parametrize("encoding", ["cdr", "json"])
def test_a_client_drives_the_rover(serve: Serve, encoding: str) -> None:
    _, client = serve()
    twist = Twist()
    twist.linear.x = 0.5
    data = serialize_message(twist) if encoding == "cdr" else json.dumps({"linear": {"x": 0.5}}).encode()
    drive(client, client.advertise("/rover/cmd_vel", "geometry_msgs/msg/Twist", encoding), data)
    assert not client.statuses


def test_one_message_at_once_after_the_announcement_arrives(
    serve: Serve, ros_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long discovery takes on a busy machine: the bridge keeps the message until somebody listens.
    monkeypatch.setattr("usd_ros_bridge.ros.foxglove.client_publishing._MATCH_S", 60.0)
    _, client = serve()
    heard: list[String] = []
    client.publish(client.advertise("/told", "std_msgs/String", "json"), b'{"data": "only once"}')
    # Within one process a message is lost that is sent before the subscription knows its publisher.
    ros_harness.wait_for(lambda: ros_harness.node.count_publishers("/told") == 1, what="the publisher")
    ros_harness.node.create_subscription(String, "/told", heard.append, 10)
    ros_harness.wait_for(lambda: bool(heard), what="the message")
    assert [each.data for each in heard] == ["only once"]


def test_publishers_go_with_their_client(serve: Serve, ros_harness: Any) -> None:
    running, client = serve()
    with connected(port_of(running.bridge)) as other:
        other.advertise("/one", "std_msgs/msg/String")
        channel = other.advertise("/two", "std_msgs/msg/String")
        count = ros_harness.node.count_publishers
        ros_harness.wait_for(lambda: count("/one") == 1 and count("/two") == 1, what="two publishers")
        other.unadvertise(channel)
        ros_harness.wait_for(lambda: count("/one") == 1 and count("/two") == 0, what="one to go")
    ros_harness.wait_for(lambda: count("/one") == 0, what="the other one to go")
    assert client.info


@pytest.mark.parametrize(
    ("topic", "schema", "encoding", "reason"),
    [
        ("/rover/odom", "nav_msgs/msg/Odometry", "cdr", "the bridge itself publishes /rover/odom"),
        ("/rover/tf", "tf2_msgs/msg/TFMessage", "cdr", "the bridge itself publishes /rover/tf"),
        ("/clock", "rosgraph_msgs/msg/Clock", "cdr", "interface of the simulator"),
        ("/x", "simulation_interfaces/msg/Result", "cdr", "interface of the simulator"),
        ("/rover/cmd_vel", "std_msgs/msg/String", "cdr", "has the type geometry_msgs/msg/Twist here"),
        ("/x", "os/msg/System", "cdr", "is not installed"),
        ("/x", "std_msgs", "cdr", "package/msg/Type"),
        ("/a b", "std_msgs/msg/String", "cdr", "character other than"),
        ("x", "std_msgs/msg/String", "cdr", "write /x"),
        ("/x/_action/status", "std_msgs/msg/String", "cdr", "hidden"),
        ("/x", "std_msgs/msg/String", "protobuf", "use cdr or json"),
    ],
)
def test_what_may_not_be_published_is_said(
    serve: Serve, ros_harness: Any, topic: str, schema: str, encoding: str, reason: str
) -> None:
    _, client = serve()
    client.wait_for(lambda: "/rover/odom" in client.channels, "topics")
    channel = client.advertise(topic, schema, encoding)
    client.wait_for(lambda: bool(client.warnings(reason)), f"the reason {reason}: {client.statuses}")
    client.publish(channel, b"anything")
    (row,) = client.statuses
    assert row["level"] == 1


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("cdr", b""),
        ("cdr", b"\0\1\0\0"),
        ("cdr", b"\0\1\0\0" + b"\1" * 20),
        ("cdr", b"\7\7\0\0" + bytes(48)),
        ("json", b""),
        ("json", b"[" * 100_000),
        ("json", b"[]"),
        ("json", b'{"linear": {"x": "fast"}}'),
        ("json", b'{"linear": {"x": true}}'),
        ("json", b'{"linera": {"x": 1}}'),
        ("json", b"\xff\xfe"),
    ],
)
def test_messages_that_cannot_be_read_do_no_harm(serve: Serve, encoding: str, data: bytes) -> None:
    _, client = serve()
    channel = client.advertise("/rover/cmd_vel", "geometry_msgs/msg/Twist", encoding)
    client.publish(channel, data)
    client.wait_for(lambda: bool(client.warnings("cannot be read")), "a warning")
    good = serialize_message(Twist()) if encoding == "cdr" else b'{"linear": {"x": 1}}'
    client.publish(channel, good)
    client.subscribe("/rover/odom")
    client.wait_for(lambda: bool(client.messages["/rover/odom"]), "odometry")


def test_a_flood_of_messages_is_limited(serve: Serve, ros_harness: Any) -> None:
    _, client = serve()
    heard: list[String] = ros_harness.listen(String, "/flood")
    channel = client.advertise("/flood", "std_msgs/msg/String")
    data = serialize_message(String(data="x"))
    ros_harness.wait_for(lambda: ros_harness.knows_publisher("/flood"), what="the publisher of the flood")
    # How many it takes depends on how fast this machine sends. The server takes its time for each that is too much.
    for count in (3000, 6000, 12_000):
        for _ in range(count):
            client.publish(channel, data)
        with suppress(AssertionError):
            client.wait_for(lambda: bool(client.statuses), "a warning", timeout=5.0)
            break
    assert client.warnings("more than 1000 messages a second")

    def is_heard() -> bool:
        # The publisher may know the subscription only after the flood.
        client.publish(channel, data)
        return bool(heard)

    ros_harness.wait_for(is_heard, what="some messages")


# --- Parameters ------------------------------------------------------------------------------------------------


def test_parameters_are_those_of_the_node(serve: Serve, ros_harness: Any) -> None:
    _, client = serve()
    shown = client.parameters()
    others = ParameterClient(ros_harness)
    assert set(others.names()) <= set(shown) | {"qos_overrides"}
    assert (shown["tf_rate"]["value"], shown["tf_rate"]["type"]) == (50.0, "float64")
    assert shown["asset"]["value"] if "asset" in shown else True
    assert shown["variants"]["value"] == [""]
    assert set(client.parameters("tf_rate", "nothing")) == {"tf_rate"}


def test_a_parameter_is_set_and_other_clients_are_told(serve: Serve, ros_harness: Any) -> None:
    running, client = serve()
    others = ParameterClient(ros_harness)
    with connected(port_of(running.bridge)) as second:
        for each in (client, second):
            each.follow_parameters("tf_rate")
        # JSON has one kind of numbers.
        assert client.set_parameters({"name": "tf_rate", "value": 20})["tf_rate"]["value"] == 20.0
        assert others.get("tf_rate") == 20.0
        for each in (client, second):
            each.wait_for(lambda each=each: _values(each, "tf_rate")[-1:] == [20.0], "the change")
        assert others.set("tf_rate", 30.0) == ""
        for each in (client, second):
            each.wait_for(lambda each=each: _values(each, "tf_rate")[-1:] == [30.0], "the change of others")
    assert not client.statuses


def _values(client: FoxgloveClient, name: str) -> list[Any]:
    return [each["value"] for each in client.updates if each["name"] == name]


def test_mistakes_of_one_client_do_not_cut_off_others(serve: Serve, ros_harness: Any) -> None:
    running, client = serve()
    client.follow_parameters("tf_rate")
    client.subscribe("/rover/odom")
    client.wait_for(lambda: bool(client.messages["/rover/odom"]), "odometry", timeout=60.0)
    with connected(port_of(running.bridge)) as careless:
        careless.set_parameters(*({"name": f"no_{number}", "value": 1} for number in range(1000)))
    client.wait_for(lambda: bool(client.statuses), "a warning", timeout=60.0)
    heard = len(client.messages["/rover/odom"])
    client.wait_for(lambda: len(client.messages["/rover/odom"]) > heard + 20, "more odometry", timeout=60.0)
    assert ParameterClient(ros_harness).set("tf_rate", 30.0) == ""
    client.wait_for(lambda: _values(client, "tf_rate")[-1:] == [30.0], "the change", timeout=60.0)


def test_warnings_of_all_names_share_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, jobs = [100.0], []
    monkeypatch.setattr(server_link, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    link = server_link.ServerLink(SimpleNamespace(defer=jobs.append), report=print)

    def warn() -> int:
        jobs.clear()
        for number in range(100):
            link.warn(f"parameter_{clock[0]}_{number}", "unknown")
        return len(jobs)

    assert warn() == server_link.MOST_AT_ONCE
    clock[0] += 0.5
    assert warn() == server_link.MOST_AT_ONCE // 2
    clock[0] += 100.0
    assert warn() == server_link.MOST_AT_ONCE


def _accept_push(server: socket.socket) -> socket.socket:
    connection, _ = server.accept()
    connection.settimeout(60.0)
    asked = b""
    while b"\r\n\r\n" not in asked:
        asked += connection.recv(4096)
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    return connection


def test_a_connection_that_the_server_ends_is_made_again_and_nothing_is_lost() -> None:
    failures: list[str] = []
    push = PushConnection(failed=failures.append)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60.0)
        push.set_address("127.0.0.1", server.getsockname()[1])
        push.start()
        try:
            with _accept_push(server) as connection:
                push.notify(frozenset({"tf_rate"}))
                assert connection.recv(1) == b"\x81"
            # It was asked, and has sent nothing.
            with _accept_push(server) as connection:
                assert connection.recv(1) == b"\x81"
                assert push.take_changed() == {"tf_rate"}
                assert failures == []
                push.close()
        finally:
            push.close()


@pytest.mark.parametrize(
    ("name", "value", "held", "reason"),
    [
        ("tf_rate", -1.0, 50.0, "tf_rate"),
        ("tf_rate", "fast", 50.0, "tf_rate"),
        ("tf_rate", [1, 2], 50.0, "tf_rate"),
        ("tf_rate", {"a": 1}, 50.0, "tf_rate"),
        ("variants", ["/rover:nothing=no"], [""], "nothing"),
        ("tf_output", "nowhere", "namespaced", "nowhere"),
        ("tf_rat", 1.0, None, "did you mean tf_rate"),
    ],
)
def test_a_refused_parameter_keeps_its_value(
    serve: Serve, name: str, value: Any, held: Any, reason: str
) -> None:
    _, client = serve()
    answer = client.set_parameters({"name": name, "value": value})
    assert answer.get(name, {"value": None})["value"] == held
    client.wait_for(lambda: bool(client.warnings(reason)), "the reason")


@pytest.mark.parametrize("level", ["read_only", "none"])
def test_remote_control_holds_for_clients(serve: Serve, level: str) -> None:
    _, client = serve(remote_control=level)
    assert "clientPublish" not in client.info["capabilities"]
    client.wait_for(lambda: "/rover/odom" in client.channels, "topics")
    assert not {name for name in client.services if "/get_" not in name}
    assert client.set_parameters({"name": "tf_rate", "value": 20.0})["tf_rate"]["value"] == 50.0
    client.wait_for(lambda: bool(client.warnings(f"remote_control is {level}")), "the reason")
    client.advertise("/rover/cmd_vel", "geometry_msgs/msg/Twist")
    client.wait_for(lambda: bool(client.warnings("clientPublish")), "a refusal")


# --- Services --------------------------------------------------------------------------------------------------


def test_a_client_calls_services(serve: Serve) -> None:
    running, client = serve()
    client.wait_for(lambda: "/rover/set_headlights" in client.services, "services")
    row = client.services["/rover/set_headlights"]
    assert row["type"] == "std_srvs/srv/SetBool"
    assert (row["request"]["encoding"], row["request"]["schemaEncoding"]) == ("cdr", "ros2msg")
    assert "bool data" in row["request"]["schema"]
    assert "string message" in row["response"]["schema"]
    answer = client.call("/rover/set_headlights", serialize_message(SetBool.Request(data=True)))
    assert deserialize_message(answer, SetBool.Response).success
    # A request without fields: with the byte that rclpy writes, and without.
    for request in (serialize_message(Trigger.Request()), b"\0\1\0\0"):
        answer = deserialize_message(client.call("/usd_ros_bridge/reload", request), Trigger.Response)
        assert answer.success, answer.message
    assert running.bridge.status().ticks


def test_a_pause_by_a_client_stops_time(serve: Serve) -> None:
    running, client = serve("mujoco", backend_options={"gl": "none"})
    answer = client.call("/usd_ros_bridge/set_paused", serialize_message(SetBool.Request(data=True)))
    assert deserialize_message(answer, SetBool.Response).success
    assert running.bridge.time.state == "paused"


def test_requests_that_fail_say_why(serve: Serve) -> None:
    _, client = serve()
    with pytest.raises(RuntimeError, match="cannot be read"):
        client.call("/rover/set_headlights", b"")
    with pytest.raises(RuntimeError, match="encoding"):
        client.call("/rover/set_headlights", b"{}", "json")


# --- Meshes ----------------------------------------------------------------------------------------------------


def test_meshes_of_the_description_are_served_and_no_other_file(serve: Serve, tmp_path: Path) -> None:
    meshes = tmp_path / "meshes"
    secret = tmp_path / "secret.stl"
    secret.write_bytes(b"secret")
    _, client = serve(mesh_directory=str(meshes))
    client.subscribe("/rover/robot_description")
    client.wait_for(
        lambda: bool(client.messages["/rover/robot_description"]), "the description", timeout=30.0
    )
    uris = set(re.findall(r'filename="([^"]+)"', last(client, "/rover/robot_description", String).data))
    assert uris
    for uri in uris:
        assert client.asset(uri) == Path(uri.removeprefix("file://")).read_bytes()
    (meshes / "link.stl").symlink_to(secret)
    (meshes / "folder.stl").mkdir()
    (meshes / "notes.txt").write_text("text", encoding="utf-8")
    base = meshes.as_uri()
    for uri in (
        secret.as_uri(), f"{base}/../secret.stl", f"{base}/%2e%2e/secret.stl", f"{base}/..%2fsecret.stl",
        f"{base}/link.stl", f"{base}/folder.stl", f"{base}/notes.txt", f"{base}/", base, "file:///etc/passwd",
        "/etc/passwd", "package://usd_ros_bridge/package.xml", "", "file://", "http://127.0.0.1/x.stl",
        f"{base}/nothing.stl", f"{base}/a\0b.stl",
    ):  # fmt: skip
        assert client.asset(uri) is None, uri


# --- Clients that misbehave ------------------------------------------------------------------------------------


def test_frames_of_any_content_do_no_harm(serve: Serve) -> None:
    running, client = serve()
    random_bytes = random.Random(19)
    operations = [
        "subscribe", "unsubscribe", "advertise", "unadvertise", "getParameters", "setParameters", "fetchAsset",
        "subscribeParameterUpdates", "unsubscribeParameterUpdates", "subscribeConnectionGraph", "nothing", "",
    ]  # fmt: skip
    values: list[Any] = [
        None,
        -1,
        2**63,
        "x",
        [],
        {},
        [None],
        [{}],
        [{"id": 1}],
        [{"name": "tf_rate"}],
        1e300,
        True,
    ]
    keys = [
        "subscriptions",
        "channels",
        "channelIds",
        "subscriptionIds",
        "parameterNames",
        "parameters",
        "uri",
        "id",
    ]
    for _ in range(10):
        # The server ends a connection that it has too many complaints about.
        with connected(port_of(running.bridge)) as hostile, suppress(ConnectionClosed):
            for _ in range(30):
                hostile.socket.send(
                    bytes([random_bytes.randrange(6)]) + random_bytes.randbytes(random_bytes.randrange(40))
                )
                message = {key: random_bytes.choice(values) for key in random_bytes.sample(keys, 3)}
                hostile.socket.send(json.dumps({"op": random_bytes.choice(operations), **message}))
            hostile.socket.send("{")
            hostile.socket.send("[" * 10_000)
            hostile.socket.send(struct.pack("<BIII", 2, 2**32 - 1, 1, 2**32 - 1))
    with closing(socket.create_connection(("127.0.0.1", port_of(running.bridge)))) as raw:
        raw.sendall(random_bytes.randbytes(4000))
    client.subscribe("/rover/odom")
    client.wait_for(lambda: len(client.messages["/rover/odom"]) > 10, "odometry")
    assert not [text for kind, text in running.warnings.faults if kind.startswith("ros.")]


class SilentClient:
    """A client that subscribes to everything, and reads nothing after that."""

    def __init__(self, port: int) -> None:
        client = FoxgloveClient(port)
        client.wait_for(lambda: "/rover/odom" in client.channels, "topics")
        rows = [{"id": each["id"], "channelId": each["id"]} for each in client.channels.values()]
        client.close()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.sendall(
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: foxglove.sdk.v1\r\n\r\n"
        )
        self.socket.recv(100)
        text = json.dumps({"op": "subscribe", "subscriptions": rows}).encode()
        self.socket.sendall(b"\x81\xfe" + struct.pack(">H", len(text)) + bytes(4) + text)


def test_a_client_that_does_not_read_delays_nothing(serve: Serve) -> None:
    running, client = serve(
        "mujoco", ROOT / "examples" / "rover" / "world.usda", backend_options={"gl": "none"}
    )
    silent = SilentClient(port_of(running.bridge))
    client.subscribe("/rover/imu")
    client.wait_for(lambda: len(client.messages["/rover/imu"]) > 600, "three seconds of imu", timeout=60.0)
    stamps = np.array([time_ns for time_ns, _ in client.messages["/rover/imu"]])
    # Published in every period, whatever the other one does.
    assert np.median(np.diff(stamps)) < 10**7
    began = time.monotonic()
    running.close()
    assert time.monotonic() - began < HANG_S
    silent.socket.close()


# --- Life cycle ------------------------------------------------------------------------------------------------


def test_closing_while_clients_publish_never_hangs(start: Any, ros_harness: Any) -> None:
    plan = load_plan(ROVER)
    durations = []
    for _ in range(20):
        running = start(plan, "kinematic", **CONTROL)
        client = FoxgloveClient(port_of(running.bridge))
        stopped = threading.Event()
        client.subscribe("/rover/odom")
        client.follow_parameters("tf_rate")
        client.wait_for(lambda client=client: bool(client.messages["/rover/odom"]), "odometry")
        sender = threading.Thread(target=_send_until_closed, args=(client, stopped, 0.001), daemon=True)
        sender.start()
        seen = len(client.messages["/rover/odom"])
        client.wait_for(
            lambda client=client, seen=seen: len(client.messages["/rover/odom"]) > seen, "more of it"
        )
        began = time.monotonic()
        running.bridge.parts.foxglove.close()
        durations.append(time.monotonic() - began)
        running.close()
        stopped.set()
        sender.join(HANG_S)
        assert not sender.is_alive()
        client.close()
    assert max(durations) < HANG_S
    # Any of them may meet a machine that is busy, but not half of them.
    assert np.median(durations) < 2.5


def test_closing_beside_a_client_that_sends_as_fast_as_it_can(start: Any) -> None:
    running = start(load_plan(ROVER), **CONTROL)
    with connected(port_of(running.bridge)) as client, connected(port_of(running.bridge)) as other:
        stopped = threading.Event()
        sender = threading.Thread(target=_send_until_closed, args=(client, stopped, 0.0), daemon=True)
        sender.start()
        # Others are served meanwhile.
        other.subscribe("/rover/odom")
        other.wait_for(lambda: len(other.messages["/rover/odom"]) > 50, "odometry")
        other.wait_for(
            lambda: bool(other.warnings("more than 1000 messages a second")), "the warning", timeout=60.0
        )
        began = time.monotonic()
        running.bridge.parts.foxglove.close()
        assert time.monotonic() - began < HANG_S
        stopped.set()
        running.close()


def _send_until_closed(client: FoxgloveClient, stopped: threading.Event, pause_s: float) -> None:
    channel = client.advertise("/rover/cmd_vel", "geometry_msgs/msg/Twist")
    data = serialize_message(Twist())
    number = 0
    try:
        while not stopped.is_set():
            client.publish(channel, data)
            number += 1
            stopped.wait(pause_s)
            if number % 50 == 0:
                client.send(op="setParameters", parameters=[{"name": "tf_rate", "value": 20 + number % 7}])
                client.send(op="getParameters", parameterNames=[], id="x")
    except Exception:  # noqa: BLE001 - the server has ended
        return


@pytest.mark.storm
def test_clients_and_topics_that_come_and_go_never_stop_the_process(serve: Serve) -> None:
    """foxglove-sdk's locks and Python's: every order in which threads may wait for them."""
    running, client = serve()
    port, ended = port_of(running.bridge), time.monotonic() + 6.0
    faults: list[str] = []

    def change_subscriptions(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < ended:
            try:
                with connected(port) as other:
                    for _ in range(20):
                        names = [f"name_{rng.randrange(50)}", "tf_rate", f"only_{number}"]
                        other.follow_parameters(*names)
                        topics = [topic for topic in tuple(other.channels) if rng.random() < 0.5]
                        other.subscribe(*[topic for topic in topics if topic not in other.gone])
                        other.send(op="unsubscribeParameterUpdates", parameterNames=names)
                        other.send(op="getParameters", parameterNames=[], id="x")
                        other.advertise(f"/topic_{rng.randrange(9)}", "std_msgs/msg/String")
                        time.sleep(0.005)
            except (AssertionError, ConnectionClosed, OSError) as error:
                faults.append(repr(error))

    threads = [threading.Thread(target=change_subscriptions, args=(each,), daemon=True) for each in range(3)]
    for each in threads:
        each.start()
    paths = [each.path for each in running.bridge.plan.topics if each.role == "publisher"]
    count = 0
    while time.monotonic() < ended or count <= 10:
        count += 1
        client.set_parameters(
            {"name": "tf_rate", "value": 20.0 + count % 5},
            {"name": f"enabled.{paths[count % len(paths)]}", "value": bool(count // len(paths) % 2)},
        )
    for each in threads:
        each.join(90.0)
        assert not each.is_alive()
    # A topic may go while a client subscribes to it; nothing else goes wrong.
    assert not [each for each in faults if "to be advertised" not in each], faults
    ticks = running.bridge.status().ticks
    wait_until(lambda: running.bridge.status().ticks > ticks + 10, "ticks")
    assert client.parameters("tf_rate")


@pytest.mark.parametrize("reads", [True, False])
def test_a_closed_bridge_is_freed(start: Any, reads: bool) -> None:
    gc.collect()
    gc.disable()
    try:
        bridge = Bridge(load_plan(ROVER), options=BridgeOptions(**CONTROL), report=print, inform=print).open()
        server = weakref.ref(bridge.parts.foxglove)
        client: Any = FoxgloveClient(port_of(bridge)) if reads else SilentClient(port_of(bridge))
        if reads:
            client.parameters("tf_rate")
            # Nothing steps the bridge: there is no answer yet when it is closed.
            client.request("/rover/set_headlights", serialize_message(SetBool.Request(data=True)))
            client.parameters("tf_rate")
            client.advertise("/told", "std_msgs/msg/String")
            client.follow_parameters("tf_rate")
        began = time.monotonic()
        bridge.close()
        del bridge
        wait_until(lambda: server() is None, "the server to be freed", timeout=HANG_S)
        wait_until(
            lambda: (
                not any(each.name.startswith("usd_ros_bridge-foxglove") for each in threading.enumerate())
            ),
            "the threads of the server to end",
            timeout=HANG_S,
        )
        assert time.monotonic() - began < HANG_S
        if reads:
            client.close()
        else:
            client.socket.close()
    finally:
        gc.enable()


def test_two_domains_have_channels_and_publishers_of_their_own(start: Any, other_domain_id: int) -> None:
    topics = [
        replace(each, domain_id=domain) for each in (JOINT_STATES,) for domain in (None, other_domain_id)
    ]
    topics[1] = replace(topics[1], path="/arm/second")
    told = subscription("/told", "std_msgs/msg/String", domain_id=other_domain_id)
    running = start(plan(*topics, told), **CONTROL)
    heard: list[String] = []
    observer = Domains(node_name="observer", domain_id=other_domain_id, report=print)
    try:
        observer.main.node.create_subscription(String, "/told", heard.append, 10)
        observer.main.start()
        with connected(port_of(running.bridge)) as client:
            names = ("/arm/joint_states", f"/domain_{other_domain_id}/arm/joint_states")
            client.subscribe(*names)
            client.wait_for(lambda: all(client.messages.values()), "joint states of both domains")
            channel = client.advertise("/told", "std_msgs/msg/String")
            data = serialize_message(String(data="there"))

            def arrived() -> bool:
                client.publish(channel, data)
                return bool(heard)

            wait_until(arrived, "the message in the other domain")
    finally:
        observer.stop()
        observer.close()


def test_a_port_in_use_is_refused_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        bridge = Bridge(load_plan(ROVER), options=BridgeOptions(foxglove=port))
        with pytest.raises(
            OptionError, match=f"the port {port} for Foxglove is in use.*--foxglove {port + 1}"
        ):
            bridge.open()
        bridge.close()


def test_an_address_that_is_none_is_refused() -> None:
    for host, reason in (("192.0.2.1", "cannot be used"), ("no such host", "is no address")):
        bridge = Bridge(load_plan(ROVER), options=BridgeOptions(foxglove=0, foxglove_host=host))
        with pytest.raises(OptionError, match=reason):
            bridge.open()
        bridge.close()


def test_foxglove_sdk_missing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from usd_ros_bridge.ros.foxglove import server_address

    monkeypatch.setattr(server_address, "is_installed", lambda _: False)
    with pytest.raises(BridgeError, match=r"foxglove-sdk is not installed.*pip install .*\[record\]"):
        Bridge(load_plan(ROVER), options=BridgeOptions(foxglove=0)).open()


def test_only_an_address_beyond_the_loopback_warns(start: Any) -> None:
    quiet = start(load_plan(ROVER), foxglove=0)
    assert not quiet.warnings.containing("password")
    assert quiet.infos.containing(f"ws://127.0.0.1:{port_of(quiet.bridge)}")
    quiet.close()
    everywhere = {"foxglove_host": "0.0.0.0"}
    looking = start(load_plan(ROVER), foxglove=0, **everywhere)
    assert looking.warnings.containing("can see everything", "no password")
    looking.close()
    loud = start(load_plan(ROVER), **CONTROL, **everywhere)
    assert loud.warnings.containing("can drive the robots", "no password")


def test_a_recording_and_a_server_get_the_same_messages(start: Any, tmp_path: Path) -> None:
    from mcap.reader import make_reader

    file = tmp_path / "run.mcap"
    running = start(load_plan(ROVER), record=str(file), foxglove=0)
    with connected(port_of(running.bridge)) as client:
        client.subscribe("/rover/odom", "/rover/tf_static")
        client.wait_for(lambda: len(client.messages["/rover/odom"]) > 10, "odometry")
        heard = [data for _, data in client.messages["/rover/odom"]]
    running.close()
    with file.open("rb") as stream:
        rows = [(channel.topic, message.data) for _, channel, message in make_reader(stream).iter_messages()]
    recorded = [data for topic, data in rows if topic == "/rover/odom"]
    begin = recorded.index(heard[0])
    assert recorded[begin : begin + len(heard)] == heard
    # What a client that came late was sent again is in the file once.
    assert sum(topic == "/rover/tf_static" for topic, _ in rows) == 1


def test_a_host_without_threads_serves_in_its_polls(ros_harness: Any) -> None:
    options = BridgeOptions(**CONTROL, threaded=False)
    with Bridge(load_plan(ROVER), options=options) as bridge, connected(port_of(bridge)) as client:
        ended = threading.Event()
        answers: list[dict[str, Any]] = []

        def ask() -> None:
            answers.append(client.set_parameters({"name": "tf_rate", "value": 25}))
            ended.set()

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()

        def polled() -> bool:
            bridge.step()
            bridge.poll()
            return ended.is_set()

        wait_until(polled, "the answer")
        assert answers[0]["tf_rate"]["value"] == 25.0


def test_a_call_that_has_failed_is_not_made_later(domain_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[bool] = []

    def switch(request: Any, response: Any) -> Any:
        got.append(request.data)
        response.success = True
        return response

    options = BridgeOptions(**CONTROL, threaded=False)
    with Bridge(load_plan(ROVER), options=options) as bridge, connected(port_of(bridge)) as client:
        bridge.on_service("/rover/set_headlights", switch)
        monkeypatch.setattr(service_calls, "TIMEOUT_S", 0.1)
        monkeypatch.setattr(service_calls, "_MARGIN_S", 0.0)
        # The host stands still: nobody polls.
        with pytest.raises(RuntimeError, match="gave no answer"):
            client.call("/rover/set_headlights", serialize_message(SetBool.Request(data=True)), timeout=60.0)
        monkeypatch.setattr(service_calls, "TIMEOUT_S", 60.0)
        answers: list[bytes] = []
        second = serialize_message(SetBool.Request(data=False))
        asking = threading.Thread(
            target=lambda: answers.append(client.call("/rover/set_headlights", second, timeout=60.0)),
            daemon=True,
        )
        asking.start()

        def answered() -> bool:
            bridge.step()
            bridge.poll()
            return bool(answers)

        wait_until(answered, "the answer", timeout=60.0)
        assert got == [False]


def test_the_command_of_the_tour_serves_and_ends(domain_id: int, tmp_path: Path) -> None:
    tour = (ROOT / "docs" / "start" / "tour.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^usd_ros_bridge (run .* --foxglove)$", tour, re.MULTILINE)
    port = free_port()
    environment = {
        **os.environ,
        "ROS_DOMAIN_ID": str(domain_id),
        "XDG_CACHE_HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "usd_ros_bridge", *line.split(), str(port)],
        # As after `usd_ros_bridge examples copy`.
        cwd=ROOT / "examples",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = []
        for each in process.stdout:
            lines.append(each)
            if each.rstrip().endswith(": ready"):
                break
        assert any(f"ws://127.0.0.1:{port}" in each for each in lines), lines
        with connected(port) as client:
            client.subscribe("/rover/scan", "/rover/image_raw")
            client.wait_for(lambda: all(client.messages.values()), "a scan and an image", timeout=40.0)
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=30)
        assert process.returncode == 0, rest
        assert "Traceback" not in rest
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_the_port_may_be_left_out_before_the_asset() -> None:
    import click

    from usd_ros_bridge.cli.subcommands import run

    for given, port in (
        (["--foxglove", "robot.usda"], 8765),
        (["--foxglove", "9000", "robot.usda"], 9000),
        (["robot.usda", "--foxglove"], 8765),
        (["--foxglove=9000", "robot.usda"], 9000),
        (["robot.usda"], None),
    ):
        context = run.make_context("run", list(given))
        assert context.params["foxglove"] == port, given
        assert context.params["asset"] == "robot.usda"
    with pytest.raises(click.UsageError):
        run.make_context("run", ["--foxglove", "70000", "robot.usda"])
