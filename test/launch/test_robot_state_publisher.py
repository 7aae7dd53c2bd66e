"""robot_state_publisher.launch.py: this package's node and the C++ one, changed by one argument, say the same."""

from __future__ import annotations

import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")
pytest.importorskip("ros2launch", reason="ros2 launch comes with a full ROS 2 installation only")
pytest.importorskip("tf2_ros", reason="tf2_ros comes with a full ROS 2 installation only")

import rclpy
import tf2_ros
from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch.launch_description_sources import get_launch_description_from_python_launch_file
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.context import Context
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.time import Time
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCH_FILE = REPOSITORY / "launch" / "robot_state_publisher.launch.py"
ARM = REPOSITORY / "examples" / "arm" / "arm.usda"
ROVER = REPOSITORY / "examples" / "rover" / "rover.usda"
PLAIN = REPOSITORY / "test" / "assets" / "implicit_robot.usda"
OURS, THEIRS = "usd_ros_bridge", "robot_state_publisher"
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
TIMEOUT_S = 90.0


def their_node_is_here() -> bool:
    """Return whether the package robot_state_publisher is installed."""
    try:
        get_package_prefix(THEIRS)
    except PackageNotFoundError:
        return False
    return True


needs_theirs = pytest.mark.skipif(
    not their_node_is_here(), reason="the package robot_state_publisher is not installed"
)


class Beside:
    """A node beside the publisher: sends joint states, and hears transforms and the description."""

    def __init__(self, namespace: str) -> None:
        self._context = Context()
        rclpy.init(context=self._context)
        self.node = Node("beside", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self.tf: list[TFMessage] = []
        self.descriptions: list[String] = []
        self.buffer = tf2_ros.Buffer()
        tf2_ros.TransformListener(self.buffer, self.node)
        self.node.create_subscription(TFMessage, "/tf", self.tf.append, 100)
        self.node.create_subscription(
            String, f"{namespace}/robot_description", self.descriptions.append, LATCHED
        )
        self._states = self.node.create_publisher(JointState, f"{namespace}/joint_states", 10)

    def close(self) -> None:
        """Take the node out of the graph."""
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)

    def wait_until(
        self, condition: Callable[[], bool], what: str, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Run callbacks, and something else, until a condition holds; fail at the time-out."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"after {TIMEOUT_S:g} s: no {what}"
            meanwhile()
            self._executor.spin_once(timeout_sec=0.02)

    def send(self, positions: dict[str, float], stamp: Time) -> None:
        """Send joint states."""
        message = JointState(name=list(positions), position=list(positions.values()))
        message.header.stamp = stamp.to_msg()
        self._states.publish(message)

    def wait_for_subscription(self) -> None:
        """Wait for who hears joint states."""
        self.wait_until(lambda: self._states.get_subscription_count() > 0, "subscription to joint_states")

    def call(self, service_class: Any, name: str, request: Any) -> Any:
        """Call a service of the publisher's node."""
        client = self.node.create_client(service_class, name)
        self.wait_until(client.service_is_ready, name)
        future = client.call_async(request)
        self.wait_until(future.done, f"answer of {name}")
        return future.result()

    def pose(self, parent: str, child: str, stamp: Time) -> np.ndarray:
        """Return `parent_from_child` at a time: position, and a quaternion of one sign."""
        found = self.buffer.lookup_transform(parent, child, stamp).transform
        t, q = found.translation, found.rotation
        rotation = np.array([q.x, q.y, q.z, q.w])
        return np.array([t.x, t.y, t.z, *(rotation * np.sign(rotation[np.abs(rotation).argmax()]))])


@contextmanager
def launched(tmp_path: Path, where: str, **arguments: str) -> Iterator[Beside]:
    """Yield a node beside what `ros2 launch` starts; it has to end well on Ctrl-C."""
    command = ["ros2", "launch", "usd_ros_bridge", "robot_state_publisher.launch.py"]
    command += [f"{name}:={value}" for name, value in arguments.items() if value]
    output = tmp_path / f"output_{arguments.get('package', OURS)}"
    beside = Beside(where)
    try:
        with output.open("w", encoding="utf-8") as stream:
            child = subprocess.Popen(command, cwd=tmp_path, stdout=stream, stderr=subprocess.STDOUT)
            try:
                yield beside
                child.send_signal(signal.SIGINT)
                status = child.wait(timeout=TIMEOUT_S)
            except BaseException:
                print(output.read_text(encoding="utf-8"))
                child.send_signal(signal.SIGINT)
                raise
            finally:
                try:
                    child.wait(timeout=TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
    finally:
        beside.close()
    assert status == 0, output.read_text(encoding="utf-8")
    assert "Traceback" not in output.read_text(encoding="utf-8")


def said(
    tmp_path: Path, package: str, namespace: str, node_namespace: str, **arguments: str
) -> dict[str, Any]:
    """Return all that a node says of a robot, in a namespace, in one position of its joints."""
    with launched(tmp_path, namespace, package=package, namespace=node_namespace, **arguments) as beside:
        beside.wait_until(lambda: bool(beside.descriptions), "description")
        text = beside.descriptions[-1].data
        document = ElementTree.fromstring(text)
        joints = [joint for joint in document.iter("joint") if joint.get("type") is not None]
        movable = sorted(
            joint.get("name")
            for joint in joints
            if joint.get("type") != "fixed" and joint.find("mimic") is None
        )
        positions = {name: 0.05 * (number + 1) for number, name in enumerate(movable)}
        children = {joint.find("child").get("link") for joint in joints}
        (root,) = {link.get("name") for link in document.iter("link")} - children
        prefix = arguments.get("frame_prefix", "")
        beside.wait_for_subscription()
        stamp = beside.node.get_clock().now()
        period = Duration(seconds=0.06)

        def known() -> bool:
            return all(
                beside.buffer.can_transform(prefix + root, prefix + child, stamp) for child in children
            )

        def send() -> None:
            # The first may be lost, and the C++ node takes none whose stamp comes too close to the last one's.
            beside.send(positions, beside.node.get_clock().now() - period)

        beside.wait_until(known, f"transforms of {sorted(children)}", meanwhile=send)
        asked = GetParameters.Request(names=["robot_description", "publish_frequency", "ignore_timestamp"])
        values = beside.call(
            GetParameters, f"{node_namespace}/robot_state_publisher/get_parameters", asked
        ).values
        topics = dict(beside.node.get_topic_names_and_types())
        return {
            "text": text,
            "parameter": values[0].string_value,
            "publish_frequency": values[1].double_value,
            "ignore_timestamp": values[2].bool_value,
            "topics": {name for name in topics if name not in ("/rosout", "/parameter_events")},
            "poses": {child: beside.pose(prefix + root, prefix + child, stamp) for child in sorted(children)},
        }


@needs_theirs
@pytest.mark.parametrize(
    ("asset", "namespace", "arguments"),
    [
        (PLAIN, "", {}),
        (ARM, "/arm", {"publish_frequency": "50.0", "frame_prefix": "left_"}),
        (ROVER, "/rover", {"ignore_timestamp": "true"}),
    ],
    ids=["plain", "arm", "rover"],
)
def test_both_nodes_say_the_same(
    tmp_path: Path, asset: Path, namespace: str, arguments: dict[str, str]
) -> None:
    """`namespace` is the asset's own: the C++ node, which knows no asset, has to be put there."""
    ours = said(tmp_path, OURS, namespace, "", asset=str(asset), **arguments)
    theirs = said(tmp_path, THEIRS, namespace, namespace, asset=str(asset), **arguments)
    assert len(ours["poses"]) > 1
    for frame, pose in theirs["poses"].items():
        np.testing.assert_allclose(ours["poses"][frame], pose, atol=1e-9, err_msg=frame)
    # How the node is, and what it does, is told beside.
    ours["topics"] -= {"/diagnostics", "/robot_state_publisher/plan"}
    assert {**ours, "poses": None} == {**theirs, "poses": None}
    assert ours["parameter"] == ours["text"]
    assert ours["publish_frequency"] == float(arguments.get("publish_frequency", "20.0"))
    assert ours["ignore_timestamp"] is ("ignore_timestamp" in arguments)


@pytest.mark.parametrize("package", [OURS, pytest.param(THEIRS, marks=needs_theirs)])
@pytest.mark.parametrize("ignore", ["false", "true"], ids=["in time", "any time"])
def test_what_comes_late_counts_where_stamps_are_ignored(tmp_path: Path, package: str, ignore: str) -> None:
    with launched(tmp_path, "", package=package, asset=str(PLAIN), ignore_timestamp=ignore) as beside:
        beside.wait_until(lambda: bool(beside.descriptions), "description")
        joints = ElementTree.fromstring(beside.descriptions[-1].data).iter("joint")
        name = next(joint.get("name") for joint in joints if joint.get("type") != "fixed")
        beside.wait_for_subscription()
        now = beside.node.get_clock().now()
        times = [now + Duration(seconds=seconds) for seconds in (0.0, -0.3, 0.2, -0.2, 0.4)]

        def stamps() -> list[Time]:
            return [Time.from_msg(message.transforms[0].header.stamp) for message in beside.tf]

        for number, stamp in enumerate(times):
            beside.send({name: 0.1}, stamp)
            if ignore == "true" or number % 2 == 0:
                beside.wait_until(lambda stamp=stamp: stamp in stamps(), f"transform {number}")
        expected = times if ignore == "true" else times[::2]
        assert stamps() == expected


def test_the_description_is_the_assets_to_change(tmp_path: Path) -> None:
    with launched(tmp_path, "", asset=str(PLAIN)) as beside:
        beside.wait_until(lambda: bool(beside.descriptions), "description")
        wanted = Parameter("robot_description", Parameter.Type.STRING, "<robot name='another'/>")
        request = SetParameters.Request(parameters=[wanted.to_parameter_msg()])
        (result,) = beside.call(SetParameters, "/robot_state_publisher/set_parameters", request).results
        assert not result.successful
        assert "asset" in result.reason


def test_it_needs_an_asset(tmp_path: Path) -> None:
    """What a launch file gave to the other node does not do; the executable takes an asset, as that takes a URDF."""
    ran = subprocess.run(
        ["ros2", "run", "usd_ros_bridge", "robot_state_publisher", "--ros-args", "-p", "robot_description:=<robot/>"],
        cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    # Where ROS 2 takes long to load, a line says so before.
    *_, line = [line for line in (ran.stdout + ran.stderr).splitlines() if line and "[ros2run]" not in line]
    assert "asset" in line


def test_every_argument_is_described() -> None:
    arguments = get_launch_description_from_python_launch_file(str(LAUNCH_FILE)).get_launch_arguments()
    assert {argument.name for argument in arguments} >= {
        "publish_frequency",
        "ignore_timestamp",
        "frame_prefix",
    }
    for argument in arguments:
        assert len(argument.description.split()) > 3, argument.name
        assert argument.default_value is not None, argument.name
