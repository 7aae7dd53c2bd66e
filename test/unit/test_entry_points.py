"""The functions behind the scripts, in this process; test/ros/test_start.py runs the scripts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from usd_ros_bridge.options import ROBOT_STATE_PUBLISHER


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, which takes signals when it is imported; no planner starts."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    from usd_ros_bridge import entry_points

    monkeypatch.setattr("usd_ros_bridge.planner_process.start_planner", lambda: "planner")
    yield entry_points
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_each_script_calls_its_main(entry_points: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
    from usd_ros_bridge.start_phases import StartPhases

    calls: list[dict[str, Any]] = []
    monkeypatch.setattr("usd_ros_bridge.cli.main.main", lambda: calls.append({"planner": None}))
    monkeypatch.setattr("usd_ros_bridge.ros.node.main", lambda **given: calls.append(given))
    for script in ("usd_ros_bridge", "bridge", "robot_state_publisher"):
        getattr(entry_points, script)()
    assert [each["planner"] for each in calls] == [None, "planner", "planner"]
    assert [each.get("role") for each in calls] == [None, None, ROBOT_STATE_PUBLISHER]
    assert all(isinstance(each["phases"], StartPhases) for each in calls[1:])
