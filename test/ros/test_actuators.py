"""Actuators of an asset, commanded over joint_commands: by the names of joints, by their own, and by prim path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

from sensor_msgs.msg import JointState

from usd_ros_bridge import Bridge, BridgeOptions, load_plan
from usd_ros_bridge.backends.mujoco import MujocoBackend

ASSET = Path(__file__).parents[1] / "assets" / "physics_actuators.usda"
MS = 1_000_000
NAN = float("nan")
TOPIC = "/robot/joint_commands"
Reports = list[tuple[str, str]]


@pytest.fixture
def commanded(ros_harness: Any) -> Callable[..., Reports]:
    """Steps a bridge once with a message; returns what it reported."""

    def run(backend: Any, message: JointState) -> Reports:
        reports: Reports = []
        publisher = ros_harness.node.create_publisher(JointState, TOPIC, 10)
        try:
            with Bridge(
                load_plan(ASSET, physics=True),
                backend,
                options=BridgeOptions(threaded=False),
                inform=lambda *_: None,
                report=lambda kind, text: reports.append((kind, text)),
            ) as bridge:

                def met() -> bool:
                    bridge.poll()
                    return ros_harness.are_connected(publisher, bridge)

                def arrived() -> bool:
                    bridge.poll()
                    return bridge.parts.runtime.inbox.pending

                ros_harness.wait_for(met, timeout=20.0, what="discovery")
                assert bridge.step(2 * MS)
                publisher.publish(message)
                ros_harness.wait_for(arrived, what="the command")
                assert bridge.step(4 * MS)
                if isinstance(backend, MujocoBackend):
                    data, model = backend.simulation.data, backend.simulation.model
                    reports += [
                        (model.actuator(number).name.rpartition("/")[2], f"{value:.6g}")
                        for number, value in enumerate(data.ctrl.tolist())
                        if value
                    ]
        finally:
            ros_harness.node.destroy_publisher(publisher)
        return [each for each in reports if not each[0].startswith("description")]

    return run


def test_names_of_joints_and_of_actuators_reach_controls(commanded: Callable[..., Reports]) -> None:
    message = JointState(
        name=["hinge", "slide", "muscle", "flap", "/robot/Physics/thrust", "grip"],
        position=[NAN, 0.125, 0.75, NAN, NAN, NAN],
        velocity=[NAN, NAN, NAN, 0.5, NAN, NAN],
        effort=[2.0, NAN, 0.25, NAN, 9.5, 7.0],
    )
    assert dict(commanded(MujocoBackend(), message)) == {
        "hinge": "0.5",
        "slide_position": "0.25",
        "muscle": "0.75",
        "flap": "0.5",
        "thrust": "9.5",
        "grip": "7",
    }


def test_a_prim_path_reaches_an_actuator_whose_name_is_its_joints(commanded: Callable[..., Reports]) -> None:
    message = JointState(name=["/robot/Physics/hinge", "slide_velocity"], effort=[0.25, -1.0])
    assert dict(commanded(MujocoBackend(), message)) == {"hinge": "0.25", "slide_velocity": "-1"}


def test_unequal_lengths_and_unknown_names_command_nothing(commanded: Callable[..., Reports]) -> None:
    message = JointState(name=["muscle", "flap"], position=[1.0])
    assert [kind for kind, _ in commanded(MujocoBackend(), message)] == [f"sink.length:{TOPIC}"]
    message = JointState(name=["nobody", "muscle"], position=[1.0, 0.5])
    assert dict(commanded(MujocoBackend(), message)).keys() == {f"sink.joint:{TOPIC}", "muscle"}


def test_the_kinematic_backend_lets_actuators_be(commanded: Callable[..., Reports]) -> None:
    message = JointState(name=["muscle", "slide"], position=[1.0, 0.125])
    assert commanded("kinematic", message) == []
