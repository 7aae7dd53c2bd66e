"""What other nodes do that keeps them from working with the bridge is said, once."""

from __future__ import annotations

from typing import Any

import pytest
from geometry_msgs.msg import TwistStamped

from ros_plans import plan
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.ros.diagnostics.graph_monitor import GraphMonitor


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look fifty times a second, and not only once in two, however long a look takes."""
    monkeypatch.setattr("usd_ros_bridge.ros.bridge.CHECK_RATE", 50.0)
    monkeypatch.setattr("usd_ros_bridge.ros.diagnostics.graph_monitor.CHECK_RATE", 50.0)
    monkeypatch.setattr("usd_ros_bridge.ros.diagnostics.graph_monitor._SHARE", 1.0)


def test_a_publisher_of_another_type_is_said(start: Any, ros_harness: Any, rover: Any) -> None:
    running = start(rover)
    publisher = ros_harness.node.create_publisher(TwistStamped, "/rover/cmd_vel", 1)
    try:
        ros_harness.wait_for(
            lambda: bool(running.warnings.containing("TwistStamped", "/rover/cmd_vel", "/observer")),
            timeout=30.0,
            what="the report of the type",
        )
        assert [kind for kind, _ in running.warnings.entries if kind.startswith("graph.")] == [
            f"graph.type:{topic.path}" for topic in rover.topics if topic.name == "/rover/cmd_vel"
        ]
    finally:
        ros_harness.node.destroy_publisher(publisher)


def test_a_second_node_of_the_same_name_is_said(start: Any, ros_harness: Any) -> None:
    first = start(plan(), "null", node_name="twice")
    start(plan(), "null", node_name="twice")
    ros_harness.wait_for(
        lambda: bool(first.warnings.containing("is called /twice, too")), timeout=30.0, what="the report"
    )


def test_a_second_server_of_the_bridges_own_services_is_said(
    start: Any, ros_harness: Any, rover: Any
) -> None:
    pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed")
    pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")
    from simulation_interfaces.srv import GetSimulatorFeatures

    running = start(rover, "mujoco")
    server = ros_harness.node.create_service(
        GetSimulatorFeatures, "/get_simulator_features", lambda _, response: response
    )
    try:
        ros_harness.wait_for(
            lambda: bool(running.warnings.containing("/get_simulator_features, too")),
            timeout=30.0,
            what="the report",
        )
    finally:
        ros_harness.node.destroy_service(server)


@pytest.fixture
def rover() -> Any:
    from pathlib import Path

    pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
    return load_plan(str(Path(__file__).parents[2] / "examples" / "rover" / "rover.usda"), physics=True)


def test_nothing_is_said_of_a_bridge_alone(
    start: Any, ros_harness: Any, rover: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(rover)
    looks = []

    def planned() -> Any:
        looks.append(1)
        return rover

    monkeypatch.setattr("usd_ros_bridge.ros.diagnostics.graph_monitor.CHECK_RATE", 1000.0)
    monitor = GraphMonitor(planned, running.bridge.parts.domains, report=running.warnings)
    snapshot = running.bridge.parts.runtime.snapshot
    # Each look asks for the plan twice. A finding would be reported by the second one.
    ros_harness.wait_for(lambda: monitor.publish(snapshot) or len(looks) > 6, what="three looks")
    assert not [kind for kind, _ in running.warnings.entries if kind.startswith("graph.")]
