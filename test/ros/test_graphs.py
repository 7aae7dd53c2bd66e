"""The comparer that tests of change rely on: equal for two fresh bridges, and different for what differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from usd_ros_bridge import Bridge, BridgeOptions, load_plan
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.testing.graphs import Graph, graph_of

EXAMPLES = Path(__file__).parents[2] / "examples"


def graph(plan: BridgePlan, **options) -> Graph:
    with Bridge(
        plan, options=BridgeOptions(threaded=False, **options), report=lambda *_: None, inform=lambda *_: None
    ) as bridge:
        return graph_of(bridge)


@pytest.mark.parametrize("asset", ["rover/rover.usda", "arm/arm.usda", "fleet/fleet.usda"])
def test_two_fresh_starts_are_equal(asset):
    first, second = (graph(load_plan(EXAMPLES / asset)) for _ in range(2))
    assert first == second
    assert first.difference(second) == ""


def test_entities_of_all_kinds_are_there():
    lines = graph(load_plan(EXAMPLES / "arm" / "arm.usda")).lines
    follow = "/arm/joint_trajectory_controller/follow_joint_trajectory"
    assert f"action server {follow} [control_msgs/action/FollowJointTrajectory]" in lines
    states = "publisher /arm/joint_states [sensor_msgs/msg/JointState] reliable volatile keep_last 10"
    assert states in lines
    assert any(line.startswith("static frame on /arm/tf_static: ") for line in lines)
    assert any(line.startswith("subscription /arm/") for line in lines)
    assert any(line.startswith("server ") for line in lines)


def test_what_differs_is_said_from_both_sides():
    plan = load_plan(EXAMPLES / "rover" / "rover.usda")
    scan = next(each for each in plan.topics if each.name == "/rover/scan")
    slower = replace(
        plan,
        topics=tuple(replace(each, publish_rate=5.0) if each is scan else each for each in plan.topics),
    )
    named = replace(
        plan,
        topics=tuple(replace(each, name="/rover/range") if each is scan else each for each in plan.topics),
    )
    usual = graph(plan)
    assert "+ row: topic publisher /rover/scan" in graph(slower).difference(usual)
    difference = graph(named).difference(usual)
    quality = "reliable volatile keep_last 5"
    assert f"+ publisher /rover/range [sensor_msgs/msg/LaserScan] {quality}" in difference
    assert f"- publisher /rover/scan [sensor_msgs/msg/LaserScan] {quality}" in difference


def test_a_frame_elsewhere_is_seen():
    plan = load_plan(EXAMPLES / "rover" / "rover.usda")
    (robot,) = plan.robots
    lidar = next(each for each in robot.frames if each.id == "lidar_link")
    moved = replace(lidar, parent_from_frame=replace(lidar.parent_from_frame, translation=(0.0, 0.0, 1.0)))
    frames = tuple(moved if each is lidar else each for each in robot.frames)
    difference = graph(replace(plan, robots=(replace(robot, frames=frames),))).difference(graph(plan))
    assert "+ static frame on /rover/tf_static: base_link -> lidar_link" in difference


def test_a_rate_of_transforms_and_a_parameter_are_seen():
    plan = load_plan(EXAMPLES / "rover" / "rover.usda")
    difference = graph(plan, tf_rate=10.0).difference(graph(plan))
    assert "+ publication /rover/tf of /rover: 10 Hz" in difference
    from rclpy.parameter import Parameter

    controller = "/rover/Controllers/diff_drive"
    off = Parameter(f"enabled.{controller}", value=False)
    difference = graph(plan, parameter_overrides=[off]).difference(graph(plan))
    assert f"+ controller {controller} [RosControlDiffDriveAPI]" in difference
    assert f"+ parameter enabled.{controller} = False" in difference
