"""docs/tutorials/mobile_robot_nav2.md without Nav2: its files against the parser of rcl and a running bridge."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    QoSCompatibility,
    QoSProfile,
    qos_check_compatible,
    qos_profile_sensor_data,
)
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import LaserScan
from tf2_msgs.msg import TFMessage

from page_files import write_page_files
from page_runs import ROVER
from usd_ros_bridge.api import load_plan

pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

pytestmark = pytest.mark.docs

PAGE = "mobile_robot_nav2.md"
NAMESPACE = "/rover"
COSTMAPS = ("local_costmap", "global_costmap")
TIMEOUT_S = 90.0


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return write_page_files(PAGE, tmp_path)


@pytest.fixture
def nav2(files: dict[str, Path]) -> dict[str, Any]:
    return yaml.safe_load(files["nav2.yaml"].read_text(encoding="utf-8"))["rover"]


@pytest.fixture
def rover(start: Any) -> Any:
    return start(load_plan(ROVER, physics=True), "mujoco")


def parameters(nav2: dict[str, Any], node: str) -> dict[str, Any]:
    found = nav2[node]
    return (found[node] if node in COSTMAPS else found)["ros__parameters"]


def test_every_node_gets_its_parameters_from_the_file(
    files: dict[str, Path], nav2: dict[str, Any], ros_harness: Any
) -> None:
    """A node with the name and namespace of the launch file reads them, with rcl's own parser."""
    for name in nav2:
        namespace = f"{NAMESPACE}/{name}" if name in COSTMAPS else NAMESPACE
        node = Node(
            name,
            namespace=namespace,
            context=ros_harness.context,
            cli_args=["--ros-args", "--params-file", str(files["nav2.yaml"])],
            automatically_declare_parameters_from_overrides=True,
            start_parameter_services=False,
        )
        try:
            assert node.get_parameter("use_sim_time").value is True, name
            for key, value in parameters(nav2, name).items():
                if not isinstance(value, dict):
                    assert node.get_parameter(key).value == value, (name, key)
        finally:
            node.destroy_node()


def test_the_launch_file_starts_the_nodes_of_the_parameter_file(
    files: dict[str, Path], nav2: dict[str, Any]
) -> None:
    tree = ast.parse(files["nav2.launch.py"].read_text(encoding="utf-8"))
    (packages,) = [
        ast.literal_eval(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "PACKAGES"
    ]
    assert set(packages) == set(nav2) - set(COSTMAPS)


def test_frames_of_the_parameters_are_those_of_the_bridge(
    nav2: dict[str, Any], rover: Any, ros_harness: Any
) -> None:
    """The bridge sends odom -> base_link -> lidar_link. It leaves map -> odom to AMCL."""
    parents: dict[str, str] = {}

    def keep(message: Any) -> None:
        parents.update({row.child_frame_id: row.header.frame_id for row in message.transforms})

    latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    ros_harness.node.create_subscription(TFMessage, f"{NAMESPACE}/tf", keep, 10)
    ros_harness.node.create_subscription(TFMessage, f"{NAMESPACE}/tf_static", keep, latched)
    ros_harness.wait_for(
        lambda: {"base_link", "lidar_link"} <= set(parents), timeout=TIMEOUT_S, what="frames"
    )
    amcl = parameters(nav2, "amcl")
    assert parents[amcl["base_frame_id"]] == amcl["odom_frame_id"]
    assert parents["lidar_link"] == amcl["base_frame_id"]
    assert amcl["odom_frame_id"] not in parents
    assert amcl["global_frame_id"] not in {*parents, *parents.values()}
    for name in ("behavior_server", "bt_navigator", *COSTMAPS):
        assert parameters(nav2, name)["robot_base_frame"] == amcl["base_frame_id"]
    assert parameters(nav2, "local_costmap")["global_frame"] == amcl["odom_frame_id"]
    assert parameters(nav2, "global_costmap")["global_frame"] == amcl["global_frame_id"]


def test_topics_of_the_parameters_have_the_types_and_qos_that_nav2_asks_for(
    nav2: dict[str, Any], rover: Any, ros_harness: Any
) -> None:
    node = ros_harness.node
    scans = {f"{NAMESPACE}/{parameters(nav2, 'amcl')['scan_topic']}"}
    scans |= {parameters(nav2, name)["obstacle_layer"]["scan"]["topic"] for name in COSTMAPS}
    assert scans == {f"{NAMESPACE}/scan"}
    odometry = {
        f"{NAMESPACE}/{parameters(nav2, name)['odom_topic']}"
        for name in ("controller_server", "bt_navigator")
    }
    assert odometry == {f"{NAMESPACE}/odom"}
    # Costmaps subscribe to scans with the QoS of sensor data, AMCL reliably since Kilted (message_filters' default).
    # Nav2 subscribes to odometry and /clock with the default or weaker.
    for topic, type_name, profile in (
        (f"{NAMESPACE}/scan", "sensor_msgs/msg/LaserScan", QoSProfile(depth=10)),
        (f"{NAMESPACE}/scan", "sensor_msgs/msg/LaserScan", qos_profile_sensor_data),
        (f"{NAMESPACE}/odom", "nav_msgs/msg/Odometry", QoSProfile(depth=10)),
        ("/clock", "rosgraph_msgs/msg/Clock", qos_profile_sensor_data),
    ):
        ros_harness.wait_for(
            lambda topic=topic: node.get_publishers_info_by_topic(topic), timeout=TIMEOUT_S, what=topic
        )
        (info,) = node.get_publishers_info_by_topic(topic)
        assert info.topic_type == type_name
        # A warning is about policies that discovery does not tell.
        assert qos_check_compatible(info.qos_profile, profile)[0] != QoSCompatibility.ERROR, topic
    clocks: list[Any] = []
    node.create_subscription(Clock, "/clock", clocks.append, qos_profile_sensor_data)
    ros_harness.wait_for(lambda: clocks, timeout=TIMEOUT_S, what="/clock")


def test_the_scan_is_within_the_limits_of_amcl(nav2: dict[str, Any], rover: Any, ros_harness: Any) -> None:
    scans: list[Any] = []
    ros_harness.node.create_subscription(
        LaserScan, f"{NAMESPACE}/scan", scans.append, qos_profile_sensor_data
    )
    ros_harness.wait_for(lambda: scans, timeout=TIMEOUT_S, what="a scan")
    amcl = parameters(nav2, "amcl")
    assert scans[0].range_min == pytest.approx(amcl["laser_min_range"])
    assert scans[0].range_max == pytest.approx(amcl["laser_max_range"])
    assert scans[0].angle_max - scans[0].angle_min == pytest.approx(math.tau, abs=0.02)
    assert scans[0].header.frame_id == "lidar_link"


@pytest.mark.parametrize("stamped", [False, True])
def test_the_rover_drives_on_what_nav2_sends(
    stamped: bool, files: dict[str, Path], nav2: dict[str, Any], start: Any, ros_harness: Any
) -> None:
    """Twist with `enable_stamped_cmd_vel: false`, as in nav2.yaml; TwistStamped with the layer of the page."""
    assert parameters(nav2, "controller_server")["enable_stamped_cmd_vel"] is False
    asset = ROVER
    if stamped:
        asset = files["stamped.usda"]
        (asset.parent / "rover").symlink_to(ROVER.parent)
    start(load_plan(asset, physics=True), "mujoco")
    odometry: list[Any] = ros_harness.listen(Odometry, f"{NAMESPACE}/odom")
    message_type = TwistStamped if stamped else Twist
    commands = ros_harness.node.create_publisher(message_type, f"{NAMESPACE}/cmd_vel", 10)
    message = message_type()
    (message.twist if stamped else message).linear.x = 0.5

    def drives() -> bool:
        commands.publish(message)
        return bool(odometry) and odometry[-1].twist.twist.linear.x > 0.4

    ros_harness.wait_for(drives, timeout=TIMEOUT_S, what="the rover at its speed")


def test_the_goal_of_the_page_is_free_in_its_world(files: dict[str, Path]) -> None:
    """The path of drive.py, which is also the goal of Nav2, keeps 0.35 m from every wall."""
    tree = ast.parse(files["drive.py"].read_text(encoding="utf-8"))
    (corners,) = [
        ast.literal_eval(statement.value.args[0])
        for statement in tree.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "CORNERS"
    ]
    assert corners[0] == (0.0, 0.0)
    assert all(abs(x - 2.4) < 4.0 - 0.35 and abs(y) < 4.0 - 0.35 for x, y in corners)
