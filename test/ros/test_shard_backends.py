"""Backends in shards: two bridges publish of their robots exactly the messages that one bridge of all publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from usd_ros_bridge import ArrayBackend, BridgeOptions, BridgePlan, PlanOptions, load_plan
from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge

FLEET = Path(__file__).parents[2] / "examples" / "fleet" / "fleet.usda"
ROVERS = ("/rover_1", "/rover_2")
COMPARED = tuple(
    f"{robot}/{topic}"
    for robot in (*ROVERS, "/arm")
    for topic in ("tf", "tf_static", "joint_states", "robot_description")
) + tuple(f"{robot}/odom" for robot in ROVERS)
TICK_NS = 10_000_000
TICKS = 60


def shards(count: int = 2) -> list[PlanOptions]:
    return [PlanOptions(shard=f"{number}/{count}") for number in range(1, count + 1)]


def commands(plan: BridgePlan) -> dict[str, Any]:
    """Returns the messages to the robots of a plan, other ones for each robot."""
    there = {each.name for each in plan.topics if each.role == "subscription" and each.enabled}
    messages: dict[str, Any] = {}
    for number, robot in enumerate(ROVERS, 1):
        twist = Twist()
        twist.linear.x, twist.angular.z = 0.1 * number, 0.3 / number
        messages[f"{robot}/cmd_vel"] = twist
    messages["/arm/joint_commands"] = JointState(name=["joint_1", "joint_3"], position=[0.4, -0.3])
    return {topic: message for topic, message in messages.items() if topic in there}


class Heard:
    """Messages of the compared topics."""

    def __init__(self) -> None:
        self.messages: dict[str, list[Any]] = {}

    def add(self, bridge: Any) -> None:
        for topic in COMPARED:
            if bridge.publishes(topic):
                assert topic not in self.messages, f"{topic} has publishers in two shards"
                self.messages[topic] = bridge.messages(topic)


@dataclass(frozen=True)
class Source:
    """What moves the robots of one bridge, and what happens before each tick."""

    backend: Any
    commands: Mapping[str, Any] = field(default_factory=dict)
    advance: Callable[[int], None] = lambda _: None


def run(
    bridge: Any, plans: list[BridgePlan], source: Callable[[BridgePlan], Source], **options: Any
) -> Heard:
    """Runs each plan by itself. Returns what all published."""
    heard = Heard()
    for plan in plans:
        made = source(plan)
        opened = bridge(plan, backend=made.backend, tick=TICK_NS * 1e-9, options=BridgeOptions(**options))
        for tick in range(TICKS):
            made.advance(tick)
            for topic, message in made.commands.items() if tick % 10 == 0 else ():
                opened.send(topic, message)
            opened.step()
        heard.add(opened)
        opened.close()
    return heard


def run_both(
    bridge: Any, source: Callable[[BridgePlan], Source], *, physics: bool = False, **options: Any
) -> tuple[Heard, Heard]:
    """Returns what one bridge of all robots published, and what the shards did."""
    whole = run(bridge, [load_plan(FLEET, physics=physics)], source, **options)
    plans = [load_plan(FLEET, plan_options=each, physics=physics) for each in shards()]
    parts = run(bridge, plans, source, **options)
    assert whole.messages.keys() == parts.messages.keys() == set(COMPARED)
    return whole, parts


def check_equal(whole: Heard, parts: Heard) -> None:
    for topic, messages in whole.messages.items():
        assert parts.messages[topic] == messages, topic


def numbers(message: Any) -> str:
    """Returns what changes in a message when a robot moves, without the stamps."""
    if isinstance(message, JointState):
        return str(message.position)
    if isinstance(message, Odometry):
        return str(message.pose.pose)
    return str([each.transform for each in message.transforms])


def moves(heard: Heard, topic: str) -> bool:
    return len(set(map(numbers, heard.messages[topic]))) > 10


def test_kinematic(bridge: Any) -> None:
    whole, parts = run_both(bridge, lambda plan: Source("kinematic", commands(plan)))
    check_equal(whole, parts)
    assert all(moves(whole, f"{robot}/odom") for robot in ROVERS)
    assert moves(whole, "/arm/joint_states")


def test_array(bridge: Any) -> None:
    def host(plan: BridgePlan) -> Source:
        """Returns a host that has only the robots of its shard. A joint's motion follows from its path."""
        phases = np.array([sum(path.encode()) % 97 for path in plan.layout.dof_joints], dtype=float)
        position = np.zeros(len(phases))

        def advance(tick: int) -> None:
            position[:] = 0.1 * np.sin(0.05 * tick + phases)

        return Source(ArrayBackend(plan.layout, joint_position=position), advance=advance)

    whole, parts = run_both(bridge, host)
    check_equal(whole, parts)
    assert moves(whole, "/arm/tf")


def test_playback(bridge: Any, tmp_path: Path) -> None:
    pytest.importorskip("foxglove", reason="foxglove-sdk is not installed: make setup")
    pytest.importorskip("rosbags", reason="rosbags is not installed: make setup-tests")
    bag = tmp_path / "fleet.mcap"
    recorder = OfflineBridge(load_plan(FLEET), "kinematic", options=BridgeOptions(record=bag))
    with recorder:
        for tick in range(TICKS):
            for topic, message in commands(recorder.plan).items() if tick % 10 == 0 else ():
                recorder.send(topic, message)
            recorder.step(tick * TICK_NS)
    options = {"bag": str(bag), "loop": "false"}
    whole, parts = run_both(bridge, lambda _: Source("playback"), backend_options=options)
    check_equal(whole, parts)
    assert all(moves(whole, f"{robot}/tf") for robot in ROVERS)
    assert moves(whole, "/arm/joint_states")


STATES = {
    "/rover_1": JointState(name=["left_wheel_joint", "right_wheel_joint"], position=[0.3, 0.5]),
    "/rover_2": JointState(name=["left_wheel_joint", "right_wheel_joint"], position=[-0.2, 0.7]),
    "/arm": JointState(name=[f"joint_{number}" for number in range(1, 7)], position=[0.1] * 6),
}


def shown_states(active: Any, node: Any, plans: list[BridgePlan]) -> dict[str, str]:
    """Publishes joint states of all robots to open bridges. Returns the transforms that follow from them."""
    opened = [active.open_bridge(plan, "joint_states", ros=True) for plan in plans]
    publishers = {robot: node.create_publisher(JointState, f"{robot}/joint_states", 10) for robot in STATES}
    active.wait_for(
        lambda: all(each.get_subscription_count() for each in publishers.values()), what="the subscriptions"
    )
    nanosec = iter(range(1, 1_000_000_000))

    def shown() -> dict[str, str] | None:
        for robot, publisher in publishers.items():
            message = STATES[robot]
            message.header.stamp.sec, message.header.stamp.nanosec = 7, next(nanosec)
            publisher.publish(message)
        last = {
            robot: each.last(f"{robot}/tf")
            for robot in STATES
            for each in opened
            if each.publishes(f"{robot}/tf")
        }
        complete = len(last) == len(STATES) and all(last.values())
        return {robot: numbers(message) for robot, message in last.items()} if complete else None

    found: dict[str, str] = active.wait_for(shown, timeout=60.0, what="/tf of all robots")
    for publisher in publishers.values():
        node.destroy_publisher(publisher)
    for each in opened:
        each.close()
    return found


def test_joint_states(active_test: Any, ros_node: Any) -> None:
    whole = shown_states(active_test, ros_node, [load_plan(FLEET)])
    plans = [load_plan(FLEET, plan_options=each) for each in shards()]
    assert shown_states(active_test, ros_node, plans) == whole
    assert len(set(whole.values())) == len(STATES)
