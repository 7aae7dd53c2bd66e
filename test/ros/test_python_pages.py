"""The Python of the documents that needs ROS, run unchanged against real rclpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosbags.highlevel import AnyReader
from tf2_msgs.msg import TFMessage

from doc_walk import is_walked
from markdown_docs import PAGES, ROOT, Block, blocks, page_path
from usd_ros_bridge.ros.bridge import Bridge

pytestmark = pytest.mark.docs

OFFLINE = "OfflineBridge("
ALL_BLOCKS = [
    block
    for page in PAGES
    if not is_walked(page)
    for block in blocks(page)
    if block.language == "python" and "Bridge(" in block.text and not (block.title or block.directive)
]
BLOCKS = [block for block in ALL_BLOCKS if OFFLINE not in block.text]
OFFLINE_BLOCKS = [block for block in ALL_BLOCKS if OFFLINE in block.text]
TF_QOS = QoSProfile(depth=200, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.VOLATILE)


def stamps_ns(messages: list[TFMessage]) -> list[int]:
    stamps = [message.transforms[0].header.stamp for message in messages]
    return [stamp.sec * 1_000_000_000 + stamp.nanosec for stamp in stamps]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Counts the steps that a bridge really makes, by their time."""
    made: list[int | None] = []
    original = Bridge.step

    def step(self: Bridge, time_ns: int | None = None) -> bool:
        stepped = original(self, time_ns)
        assert stepped
        assert not self.parts.runtime.reporter.count("backend.step")
        made.append(time_ns)
        return stepped

    monkeypatch.setattr(Bridge, "step", step)
    monkeypatch.chdir(ROOT)
    return made


def execute(block: Block) -> None:
    exec(compile(block.text, str(block), "exec"), {"__name__": "documented"})


def test_the_pages_have_bridges() -> None:
    assert [block.page for block in BLOCKS].count("embedding.md") >= 3


@pytest.mark.parametrize("block", OFFLINE_BLOCKS, ids=str)
def test_block_records_a_drive(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    execute(block)
    with AnyReader([tmp_path / "run.mcap"]) as reader:
        odometry = [
            reader.deserialize(data, connection.msgtype)
            for connection, _, data in reader.messages()
            if connection.topic == "/rover/odom"
        ]
    assert odometry[-1].pose.pose.position.x > 0.1


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_block_steps_a_bridge(block: Block, steps: list[int | None]) -> None:
    execute(block)
    assert len(steps) >= 100


def test_block_of_the_tour_sends_transforms(
    ros_harness: Any, steps: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node hears every transform of the block: at 50 Hz of the time that it hands over."""
    (block,) = [block for block in blocks(page_path("tour.md")) if "ArrayBackend" in block.text]
    # As after `usd_ros_bridge examples copy`.
    monkeypatch.chdir(ROOT / "examples")
    received: list[TFMessage] = []
    subscription = ros_harness.node.create_subscription(TFMessage, "/rover/tf", received.append, TF_QOS)
    counted = Bridge.step

    def step_once_heard(self: Bridge, time_ns: int | None = None) -> bool:
        # The block ends sooner than discovery: wait for it before the first step.
        if not steps:
            ros_harness.wait_for(
                lambda: subscription.get_publisher_count() == 1 and _row(self).matched == 1, what="discovery"
            )
        return counted(self, time_ns)

    monkeypatch.setattr(Bridge, "step", step_once_heard)
    execute(block)
    expected = list(range(0, 1_000_000_000, 20_000_000))
    ros_harness.wait_for(lambda: len(received) >= len(expected), what="all transforms")
    assert stamps_ns(received) == expected
    children = {transform.child_frame_id for transform in received[0].transforms}
    assert {"base_link", "left_wheel", "right_wheel"} <= children


def _row(bridge: Bridge) -> Any:
    (row,) = [row for row in bridge.status().interfaces if row.name == "/rover/tf"]
    return row
