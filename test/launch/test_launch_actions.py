"""The actions in a launch of their own: events, what is missing, and an asset that is not there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("launch_testing", reason="launch_testing comes with a full ROS 2 installation only")
pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")

from launch import LaunchDescription, LaunchService
from launch.actions import EmitEvent, RegisterEventHandler
from launch.event_handlers import OnShutdown
from launch.events import Shutdown
from launch_ros.actions import Node

from usd_ros_bridge.testing.launch import (
    BridgeReady,
    OnBridgeReady,
    WaitForInterfaces,
    bridge_test_description,
)

ROVER = Path(__file__).resolve().parents[2] / "examples" / "rover" / "rover.usda"


def launched(*entities: Any) -> tuple[int, list[str]]:
    """Run a launch until it ends. Return its status, and why it ended."""
    reasons: list[str] = []
    service = LaunchService(noninteractive=True)
    watch = OnShutdown(on_shutdown=lambda event, _: reasons.append(event.reason))
    service.include_launch_description(LaunchDescription([RegisterEventHandler(watch), *entities]))
    return service.run(), reasons


def rover(**parameters: Any) -> Node:
    return Node(
        package="usd_ros_bridge",
        executable="bridge",
        namespace="fleet",
        name="one",
        parameters=[{"asset": str(ROVER), "backend": "kinematic", **parameters}],
    )


def test_each_action_tells_when_its_bridge_is_ready() -> None:
    """The events have the plan; the interfaces of the second one are those that were asked for."""
    ready = BridgeReady(node_name="/fleet/one")
    wanted = ["/fleet/rover/joint_states"]
    waiting = WaitForInterfaces(node_name="/fleet/one", interfaces=wanted, messages=True)
    events: list[Any] = []

    def end(event: Any, _: Any) -> Any:
        events.append(event)
        return EmitEvent(event=Shutdown(reason="done")) if len(events) == 2 else None

    status, reasons = launched(
        RegisterEventHandler(OnBridgeReady(target_action=ready, on_ready=end)),
        RegisterEventHandler(OnBridgeReady(target_action=waiting, on_ready=end)),
        rover(),
        ready,
        waiting,
    )
    assert (status, reasons) == (0, ["done"])
    assert {each.action for each in events} == {ready, waiting}
    assert {each.plan["digest"] for each in events} == {events[0].plan["digest"]}
    assert [row.name for row in next(e for e in events if e.action is waiting).interfaces] == wanted


def test_what_does_not_come_ends_the_launch_with_its_name() -> None:
    """The kinematic backend has no lidar."""
    waiting = WaitForInterfaces(node_name="/fleet/one", messages=["/fleet/rover/scan"], timeout=15.0)
    _, reasons = launched(rover(), waiting)
    assert reasons == ["/fleet/one: not ready within 15 s: no message on /fleet/rover/scan"]


def test_a_name_that_is_not_served_ends_the_launch_at_once() -> None:
    """A mistake is no time-out."""
    _, reasons = launched(
        rover(), WaitForInterfaces(node_name="/fleet/one", interfaces=["/fleet/rover/scam"])
    )
    assert len(reasons) == 1
    assert "serves no /fleet/rover/scam; did you mean /fleet/rover/scan," in reasons[0]


def test_a_bridge_without_the_topic_is_never_ready() -> None:
    _, reasons = launched(rover(publish_plan=False), BridgeReady(node_name="fleet/one", timeout=5.0))
    assert reasons == ["fleet/one: not ready within 5 s: no message on /fleet/one/plan"]


def test_an_asset_that_is_not_there_ends_the_launch_before_the_time_out() -> None:
    """The bridge's own line says why."""
    began = time.monotonic()
    _, reasons = launched(*bridge_test_description("/nowhere.usda", timeout=100.0).entities)
    assert reasons == ["the bridge ended with status 2"]
    assert time.monotonic() - began < 60.0
