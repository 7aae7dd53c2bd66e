"""The actions in a launch of their own: events, what is missing, and an asset that is not there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("launch_testing", reason="launch_testing comes with a full ROS 2 installation only")
pytest.importorskip("launch_ros", reason="launch_ros comes with a full ROS 2 installation only")

from launch import LaunchDescription, LaunchService
from launch.actions import EmitEvent, RegisterEventHandler
from launch.event_handlers import OnProcessExit, OnShutdown
from launch.events import Shutdown
from launch_ros.actions import Node

from usd_ros_bridge.testing.launch import (
    BridgeReady,
    OnBridgeReady,
    WaitForInterfaces,
    bridge_test_description,
)

ROOT = Path(__file__).resolve().parents[2]
ROVER = ROOT / "examples" / "rover" / "rover.usda"


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


def documented(word: str) -> str:
    """Return the block of docs/reference/testing.md with this word, for the rover."""
    found = re.findall(
        r"^```python\n(.*?)^```",
        (ROOT / "docs" / "reference" / "testing.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    (text,) = [block for block in found if word in block]
    return text.replace("robot.usda", str(ROVER.with_name("world.usda"))).replace("/robot/", "/rover/")


def test_the_documented_test_passes(tmp_path: Path) -> None:
    """As its reader runs it."""
    file = tmp_path / "test_robot.py"
    file.write_text(documented("bridge_test_description"), encoding="utf-8")
    assert "1 passed" in run(tmp_path, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(file))


def test_the_documented_launch_file_starts_a_node_when_the_bridge_is_ready() -> None:
    """The node of the reader is here one that ends at once."""
    node = 'package="usd_ros_bridge", executable="usd_ros_bridge", arguments=["--version"]'
    text = documented("BridgeReady()").replace('package="my_robot", executable="planner"', node)
    namespace: dict[str, Any] = {}
    exec(compile(text, "docs/reference/testing.md", "exec", dont_inherit=True), namespace)
    exits: list[tuple[str, int]] = []

    def end(event: Any, _: Any) -> Any:
        exits.append((Path(event.cmd[0]).name, event.returncode))
        return EmitEvent(event=Shutdown(reason="the node has ended"))

    _, reasons = launched(
        RegisterEventHandler(OnProcessExit(on_exit=end)), *namespace["generate_launch_description"]().entities
    )
    assert exits[0] == ("usd_ros_bridge", 0)
    assert reasons[0] == "the node has ended"


def run(folder: Path, *command: str) -> str:
    """Run a command that has to succeed. Return its output."""
    # colcon tells pytest what to run by PYTEST_ADDOPTS: that is for this run alone.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "ROS_DOMAIN_ID" and not name.startswith("PYTEST_")
    }
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Return a workspace with the package of examples/testing."""
    shutil.copytree(
        ROOT / "examples" / "testing",
        tmp_path / "src" / "rover_test",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return tmp_path


def test_the_example_passes_with_launch_test(example: Path) -> None:
    """It needs no pytest."""
    runner = shutil.which("launch_test")
    if runner is None:
        pytest.skip("launch_test is not on the path")
    ran = run(example, runner, str(example / "src" / "rover_test" / "test" / "test_rover_launch.py"))
    assert ran.count("Ran 1 test in") == 2
    assert ran.count("\nOK\n") == 2


def test_the_example_passes_with_colcon_test(example: Path) -> None:
    """All of its tests, those of pytest too, and colcon counts them."""
    colcon = shutil.which("colcon")
    if colcon is None:
        pytest.skip("colcon is not on the path")
    run(example, colcon, "build")
    run(example, colcon, "test", "--return-code-on-test-failure")
    assert "Summary: 3 tests, 0 errors, 0 failures, 0 skipped" in run(example, colcon, "test-result", "--all")
