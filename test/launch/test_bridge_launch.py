"""The launch file on the rover: frames for tf2, joint states, described parameters, a clean end on SIGINT."""

from __future__ import annotations

import math
import re
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("launch_testing", reason="launch_testing comes with a full ROS 2 installation only")
pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")
pytest.importorskip("tf2_ros", reason="tf2_ros comes with a full ROS 2 installation only")

import launch_testing
import launch_testing.actions
import launch_testing.asserts
import rclpy
import tf2_ros
import yaml
from geometry_msgs.msg import Transform, TransformStamped
from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters
from rclpy.context import Context
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import qos_profile_sensor_data
from rclpy.time import Time
from sensor_msgs.msg import JointState

REPOSITORY = Path(__file__).resolve().parents[2]
ROVER = REPOSITORY / "examples" / "rover" / "rover.usda"
SHIPPED_PARAMETERS = REPOSITORY / "config" / "bridge.yaml"
TIMEOUT_S = 90.0

# What the rover declares.
ROBOT_NAMESPACE = "rover"
ODOM_FRAME = "odom"
BASE_FRAME = "base_link"
OPTICAL_FRAME = "camera_optical_frame"
FRAMES = {
    BASE_FRAME,
    "left_wheel",
    "right_wheel",
    "caster",
    "lidar_link",
    "imu_link",
    "camera_link",
    OPTICAL_FRAME,
}
JOINTS = {"left_wheel_joint", "right_wheel_joint"}
# The camera stands 0.125 m ahead of and 0.165 m above the base, its lens 0.02 m further ahead; it looks along the
# base's x axis, and its optical frame along its own z axis with x to the right (REP 103).
OPTICAL_IN_BASE_M = (0.145, 0.0, 0.165)
OPTICAL_ROTATION_XYZW = (-0.5, 0.5, -0.5, 0.5)

# The second run: tf_rate stands in the file as well, where the argument has to win.
OVERRIDING_ARGUMENTS = {
    "params_file": str(Path(__file__).with_name("overriding.yaml")),
    "tf_rate": "25",
    "log_level": "debug",
}
OVERRIDDEN = {"tf_rate": 25.0, "system_default_qos": "rmw"}
# Parameters that rclpy declares for every node, and those that are named after what the asset declares.
NOT_IN_THE_FILE = re.compile(r"start_type_description_service|qos_overrides\..*|enabled\..*|rate\..*|/.*")


@pytest.mark.launch_test
@launch_testing.parametrize("namespace, overriding", [("", False), ("fleet", True)])
def generate_test_description(namespace: str, overriding: bool) -> LaunchDescription:
    """Start the launch file: as it ships, then in a namespace with a user's file and arguments over it."""
    arguments = {"asset": str(ROVER), "namespace": namespace}
    if overriding:
        arguments |= OVERRIDING_ARGUMENTS
    launch_file = PythonLaunchDescriptionSource(str(REPOSITORY / "launch" / "bridge.launch.py"))
    return LaunchDescription(
        [
            IncludeLaunchDescription(launch_file, launch_arguments=arguments.items()),
            launch_testing.actions.ReadyToTest(),
        ]
    )


class Probe:
    """A node beside the bridge, with the robot's transforms remapped to, as a user's own node would be."""

    def __init__(self, context: Context, namespace: str) -> None:
        # The robot's namespace, not the probe's: the remappings have to be what makes tf2 hear it.
        self.namespace = "/".join(["", *filter(None, [namespace, ROBOT_NAMESPACE])])
        topics = ("/tf", "/tf_static")
        remaps = [part for topic in topics for part in ("-r", f"{topic}:={self.namespace}{topic}")]
        self.node = Node("probe", context=context, cli_args=["--ros-args", *remaps])
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self.node)

    def close(self) -> None:
        """Take the node out of the graph."""
        self._executor.shutdown()
        self.node.destroy_node()

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Run callbacks until the condition holds.

        Raises:
            AssertionError: It did not within the time-out; `what` says what was waited for.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"after {TIMEOUT_S:g} s: no {what}")
            self._executor.spin_once(timeout_sec=0.1)

    def call(self, service_type: Any, name: str, request: Any) -> Any:
        """Call a service of the bridge and return its response."""
        client = self.node.create_client(service_type, name)
        self.wait_until(client.service_is_ready, f"service {name}")
        future = client.call_async(request)
        self.wait_until(future.done, f"response of {name}")
        return future.result()

    def bridge_node(self) -> str:
        """Return the fully qualified name of the one other node that has parameters."""
        suffix = "/describe_parameters"

        def others() -> list[str]:
            services = [name for name, _ in self.node.get_service_names_and_types() if name.endswith(suffix)]
            names = [name.removesuffix(suffix) for name in services]
            return [name for name in names if name != self.node.get_fully_qualified_name()]

        self.wait_until(lambda: bool(others()), "other node with parameters")
        (bridge,) = others()
        return bridge

    def parameters(self, names: list[str]) -> dict[str, Any]:
        """Return the values that the bridge's parameters have."""
        request = GetParameters.Request(names=names)
        values = self.call(GetParameters, f"{self.bridge_node()}/get_parameters", request).values
        return dict(zip(names, map(parameter_value_to_python, values), strict=True))


def xyz(transform: Transform) -> tuple[float, float, float]:
    """Return a transform's translation, in metres."""
    return transform.translation.x, transform.translation.y, transform.translation.z


@contextmanager
def probe(namespace: str) -> Iterator[Probe]:
    """Yield a probe in a context of its own, so that the launch's own use of rclpy is left alone."""
    context = Context()
    rclpy.init(context=context)
    try:
        opened = Probe(context, namespace)
        try:
            yield opened
        finally:
            opened.close()
    finally:
        rclpy.shutdown(context=context)


def documented_parameters() -> set[str]:
    """Return the names in the shipped parameter file, those that are commented out included."""
    return set(
        re.findall(
            r"^    (?:# )?([a-z_]+): \S", SHIPPED_PARAMETERS.read_text(encoding="utf-8"), flags=re.MULTILINE
        )
    )


class TestBridge(unittest.TestCase):
    """While the bridge runs."""

    def test_frames_reach_tf2(self, namespace: str) -> None:
        """A TransformListener with /tf remapped to the robot's knows every frame and none besides."""
        with probe(namespace) as beside:
            buffer = tf2_ros.Buffer()
            tf2_ros.TransformListener(buffer, beside.node)

            def frames() -> set[str]:
                return set(yaml.safe_load(buffer.all_frames_as_yaml()) or ())

            beside.wait_until(lambda: frames() >= FRAMES, f"{sorted(FRAMES)} in {beside.namespace}")
            assert frames() == FRAMES
            for topic in ("tf", "tf_static"):
                assert beside.node.count_publishers(f"{beside.namespace}/{topic}") == 1, topic
                assert beside.node.count_publishers(f"/{topic}") == 0, f"/{topic} is not asked for"

    def test_transforms_are_looked_up(self, namespace: str) -> None:
        """The buffer chains static transforms, joins them to the moving ones, and keeps getting newer ones."""
        with probe(namespace) as beside:
            buffer = tf2_ros.Buffer()
            tf2_ros.TransformListener(buffer, beside.node)

            def wait_for(parent: str, child: str, when: Time) -> TransformStamped:
                beside.wait_until(
                    lambda: buffer.can_transform(parent, child, when), f"{parent} -> {child} at {when}"
                )
                return buffer.lookup_transform(parent, child, when)

            optical = wait_for(BASE_FRAME, OPTICAL_FRAME, Time()).transform
            assert xyz(optical) == pytest.approx(OPTICAL_IN_BASE_M, abs=1e-6)
            q = optical.rotation
            overlap = sum(a * b for a, b in zip((q.x, q.y, q.z, q.w), OPTICAL_ROTATION_XYZW, strict=True))
            assert abs(overlap) == pytest.approx(1.0, abs=1e-9), "the same rotation, of either sign"

            first = wait_for(ODOM_FRAME, BASE_FRAME, Time())
            assert (first.header.frame_id, first.child_frame_id) == (ODOM_FRAME, BASE_FRAME)
            assert xyz(first.transform) == pytest.approx((0.0, 0.0, 0.0), abs=1e-6), "it starts at rest"
            # Stamps are those of the clock: a time after the first transform is reached, not just the latest.
            later = Time.from_msg(first.header.stamp) + Duration(seconds=0.5)
            assert wait_for(ODOM_FRAME, OPTICAL_FRAME, later).header.stamp == later.to_msg()

    def test_joint_states(self, namespace: str) -> None:
        """Joint states name every wheel and go on in time."""
        received: list[JointState] = []
        with probe(namespace) as beside:
            beside.node.create_subscription(
                JointState, f"{beside.namespace}/joint_states", received.append, qos_profile_sensor_data
            )
            beside.wait_until(lambda: len(received) >= 3, f"joint states on {beside.namespace}/joint_states")
        for message in received:
            assert set(message.name) == JOINTS
            assert len(message.position) == len(message.name)
            assert all(map(math.isfinite, message.position))
        stamps = [Time.from_msg(message.header.stamp).nanoseconds for message in received]
        assert stamps == sorted(set(stamps))
        assert stamps[0] > 0

    def test_parameters_are_described(self, namespace: str) -> None:
        """Every parameter has a type and a description; config/bridge.yaml names them all and no other."""
        with probe(namespace) as beside:
            bridge = beside.bridge_node()
            listed = beside.call(ListParameters, f"{bridge}/list_parameters", ListParameters.Request()).result
            names = sorted(name for name in listed.names if not NOT_IN_THE_FILE.fullmatch(name))
            request = DescribeParameters.Request(names=names)
            described = beside.call(DescribeParameters, f"{bridge}/describe_parameters", request).descriptors
        assert set(names) == documented_parameters()
        own = [descriptor for descriptor in described if descriptor.name != "use_sim_time"]
        for descriptor in own:
            assert descriptor.type != ParameterType.PARAMETER_NOT_SET, descriptor.name
            assert descriptor.description != "", descriptor.name
        assert {d.name for d in own if d.read_only} & {"asset", "packages"} == {"asset", "packages"}

    def test_parameter_values(self, namespace: str, overriding: bool) -> None:
        """An argument wins over the parameter file, the file over the default; what ships is the default."""
        shipped = yaml.safe_load(SHIPPED_PARAMETERS.read_text(encoding="utf-8"))["/**"]["ros__parameters"]
        expected = {**shipped, "asset": str(ROVER), **(OVERRIDDEN if overriding else {})}
        with probe(namespace) as beside:
            assert beside.parameters(list(expected)) == expected


@launch_testing.post_shutdown_test()
class TestBridgeAfterSigint(unittest.TestCase):
    """After the launch has sent SIGINT to the bridge."""

    def test_exit_code(self, proc_info: Any) -> None:
        """The bridge ends with 0."""
        assert len(proc_info.processes()) == 1
        launch_testing.asserts.assertExitCodes(proc_info)

    def test_no_traceback(self, proc_output: Any) -> None:
        """Nothing that the bridge printed is a traceback."""
        assert "Traceback" not in "".join(output.text.decode() for output in proc_output)
