"""The recipe for silent topics: what the bridge's log says of the other side's mistakes."""

from __future__ import annotations

import pytest
from geometry_msgs.msg import TwistStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Imu

from markdown_docs import blocks, page_path
from usd_ros_bridge import load_plan

pytestmark = pytest.mark.docs

FILES = {block.title: block.text for block in blocks(page_path("silent_topic.md")) if block.title}
SAYS = page_path("silent_topic.md").read_text(encoding="utf-8")


@pytest.fixture
def running(tmp_path, start):
    asset = tmp_path / "station.usda"
    asset.write_text(FILES["station.usda"], encoding="utf-8")
    return start(load_plan(asset), "kinematic")


def test_a_reliable_subscription_to_a_sensor_is_reported(running, ros_harness):
    text = "asks for another reliability than the publisher offers"
    assert f"*{text}*" in SAYS
    reliable = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
    ros_harness.node.create_subscription(Imu, "/station/imu", lambda _: None, reliable)
    ros_harness.wait_for(lambda: bool(running.warnings.containing(text)), timeout=30.0, what=text)


def test_a_publisher_of_another_type_is_reported(running, ros_harness):
    ros_harness.node.create_publisher(TwistStamped, "/station/speed", 10)
    ros_harness.wait_for(
        lambda: bool(running.warnings.containing("/station/speed", "geometry_msgs/msg/TwistStamped")),
        timeout=30.0,
        what="the report of the type",
    )


def test_a_publisher_without_data_and_a_disabled_one_have_their_reasons(running):
    assert running.warnings.containing("/station/mood", "is silent")
    rows = {row.name: row for row in running.bridge.status().interfaces}
    assert rows["/station/charger"].reason == "starts_enabled is false"
    assert "is not installed" in rows["/station/radar"].reason
