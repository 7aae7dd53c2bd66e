"""Fleets for benchmarks: what is written loads without a remark, and both variants mean the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders.stages import (
    LINK_LENGTH,
    WHEEL_RADIUS,
    WHEEL_SEPARATION,
    write_arm,
    write_drives,
    write_fleet,
)
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.plan import BridgePlan


def plan_fleet(directory: Path, *, flat: bool) -> BridgePlan:
    return load_plan(write_fleet(directory, robots=5, links=4, publish_rate=50.0, flat=flat))


@pytest.mark.parametrize("flat", [False, True])
def test_a_fleet_has_the_robots_asked_for_and_no_fault(tmp_path: Path, flat: bool) -> None:
    plan = plan_fleet(tmp_path / "fleet", flat=flat)
    assert plan.diagnostics == ()
    assert [robot.namespace for robot in plan.robots] == [f"/robot_{number}" for number in range(5)]
    assert all(len(robot.bodies) == 4 for robot in plan.robots)
    assert len(plan.layout.dofs) == 5 * 3
    assert [topic.name for topic in plan.topics] == [f"/robot_{number}/joint_states" for number in range(5)]
    assert {(topic.publish_rate, len(topic.dofs)) for topic in plan.topics} == {(50.0, 3)}


def test_robots_stand_apart_and_links_stand_on_one_another(tmp_path: Path) -> None:
    plan = plan_fleet(tmp_path, flat=False)
    positions = np.asarray(plan.layout.body_pose)[:, :3].reshape(5, 4, 3)
    assert len({tuple(base) for base in positions[:, 0].tolist()}) == 5
    assert np.diff(positions, axis=1) == pytest.approx(
        np.broadcast_to([0.0, 0.0, LINK_LENGTH], (5, 3, 3)), abs=1e-9
    )


def test_the_flat_variant_means_the_same(tmp_path: Path) -> None:
    referenced, flat = (plan_fleet(tmp_path / str(flat), flat=flat) for flat in (False, True))
    assert replace(flat, asset="", layout=referenced.layout, scene=referenced.scene) == replace(
        referenced, asset=""
    )
    assert np.array_equal(flat.layout.body_pose, referenced.layout.body_pose)


@pytest.mark.parametrize("flat", [False, True])
def test_drives_have_a_controller_each_that_owns_its_odometry(tmp_path: Path, flat: bool) -> None:
    plan = load_plan(write_drives(tmp_path, robots=3, publish_rate=40.0, cmd_vel_timeout=0.25, flat=flat))
    assert plan.diagnostics == ()
    drives = [each for each in plan.controllers if each.schema == "RosControlDiffDriveAPI"]
    assert [each.robot for each in drives] == [0, 1, 2]
    assert all(each.enabled for each in drives)
    assert {each.parameters["wheel_radius"] for each in drives} == {WHEEL_RADIUS}
    assert {each.parameters["wheel_separation"] for each in drives} == {WHEEL_SEPARATION}
    assert {each.parameters["cmd_vel_timeout"] for each in drives} == {0.25}
    assert [robot.base_transform for robot in plan.robots] == ["odometry"] * 3
    published = {topic.name: topic.publish_rate for topic in plan.topics if topic.role == "publisher"}
    assert published == {f"/robot_{n}/{name}": 40.0 for n in range(3) for name in ("joint_states", "odom")}
    commands = [topic.name for topic in plan.topics if topic.role == "subscription"]
    assert commands == [f"/robot_{number}/cmd_vel" for number in range(3)]


def test_an_arm_has_a_controller_of_all_its_joints(tmp_path: Path) -> None:
    plan = load_plan(write_arm(tmp_path, joints=5, publish_rate=40.0, monitor_rate=10.0))
    assert plan.diagnostics == ()
    trajectory = next(each for each in plan.controllers if each.schema == "RosControlJointTrajectoryAPI")
    assert trajectory.enabled
    assert trajectory.joints == tuple(f"joint_{number}" for number in range(1, 6))
    assert trajectory.parameters["action_monitor_rate"] == 10.0
    assert [action.name for action in plan.actions] == ["/arm/follow_joint_trajectory"]
    assert np.isinf(plan.layout.upper).all()
    assert [topic.publish_rate for topic in plan.topics] == [40.0]
