"""Callbacks of an OfflineBridge around the steps of its backend, and a tap that keeps messages that are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.state import StepCommands
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.ros.recording.latest_messages import LatestMessages
from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge
from usd_ros_bridge.runtime.step_callbacks import StepState

pytest.importorskip("pxr")
WORLD = Path(__file__).parents[2] / "examples/rover/world.usda"


def test_callbacks_are_called_around_each_step_until_they_are_removed() -> None:
    called: list[tuple[str, int]] = []
    speeds: list[Any] = []

    def before(time_ns: int, commands: StepCommands) -> None:
        called.append(("before", time_ns))
        speeds.append(commands.body_twist.copy())

    def after(time_ns: int, state: StepState) -> None:
        called.append(("after", time_ns))
        assert state.time_ns == time_ns

    bridge = OfflineBridge(load_plan(WORLD), "kinematic", options=BridgeOptions(), tap=LatestMessages())
    bindings = bridge.before_step(before), bridge.after_step(after)
    with bridge:
        bridge.step(10_000_000)
        bridge.send("/rover/cmd_vel", {"linear": {"x": 0.5}})
        bridge.step(20_000_000)
        for each in bindings:
            each.remove()
        bridge.step(30_000_000)
    assert called == [(when, time) for time in (10_000_000, 20_000_000) for when in ("before", "after")]
    assert len(speeds) == 2


def test_a_publisher_makes_no_message_that_nobody_reads() -> None:
    messages = LatestMessages()
    bridge = OfflineBridge(load_plan(WORLD), "kinematic", options=BridgeOptions(), tap=messages)
    with bridge:
        for row in range(1, 50):
            bridge.step(row * 10_000_000)
        assert all(each.published == 0 for each in bridge.runtime.status().publications)
        assert messages.read("odom") is None
        for row in range(50, 60):
            bridge.step(row * 10_000_000)
        stamp = messages.read("/rover/odom").header.stamp
        assert stamp.nanosec > 500_000_000
        assert {each.name for each in bridge.runtime.status().publications if each.published} == {
            "/World/rover/Interfaces/odom"
        }
        assert messages.read("tf_static").transforms
    with pytest.raises(BridgeError, match=r"nothing publishes on the topic 'odometry'; there are: .*odom"):
        messages.read("odometry")
