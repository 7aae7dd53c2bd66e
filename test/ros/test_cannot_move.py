"""Clients of a robot that cannot move: goals are rejected with the reason in the log, and accepted once it can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mujoco", reason="MuJoCo is not installed: make setup")

from action_plans import SUCCEEDED, Client
from control_msgs.action import FollowJointTrajectory
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Twist
from trajectory_msgs.msg import JointTrajectoryPoint

from usd_ros_bridge import ReadOptions, VariantSelection, load_plan
from usd_ros_bridge.model.plan import BridgePlan

ASSETS = Path(__file__).parents[1] / "assets"
FOLLOW = "/robot/follow"
TIMEOUT_S = 20.0


def drives(variant: str) -> list[VariantSelection]:
    return [VariantSelection("/robot", "drives", variant)]


def arm(variant: str) -> BridgePlan:
    options = ReadOptions(variants=tuple(drives(variant)))
    return load_plan(ASSETS / "actuation_drives.usda", read_options=options, physics=True)


def goal() -> FollowJointTrajectory.Goal:
    made = FollowJointTrajectory.Goal()
    made.trajectory.joint_names = ["elbow", "shoulder"]
    point = JointTrajectoryPoint(positions=[0.2, -0.2])
    point.time_from_start.nanosec = 300_000_000
    made.trajectory.points = [point]
    return made


@pytest.mark.parametrize("variant", ["none", "one"])
def test_a_goal_for_joints_without_drives_is_rejected_with_the_reason_in_the_log(
    start: Any, ros_harness: Any, variant: str
) -> None:
    running = start(arm(variant), "mujoco")
    reason = (
        "'elbow' (there is no drive)" if variant == "one" else "'shoulder' and 'elbow' (there is no drive)"
    )
    (said,) = running.warnings.containing("/robot/controller: position commands do not move", reason)
    assert "scaffold" in said
    client = Client(ros_harness, FollowJointTrajectory, FOLLOW)
    try:
        assert not client.send(goal()).handle.accepted
    finally:
        client.close()
    assert running.warnings.containing("a goal for /robot/follow was rejected", reason)
    row = running.row(FOLLOW, "server")
    assert row.state == "silent"
    assert reason in row.reason
    runtime = running.bridge.parts.runtime
    # A rejection needs no tick: on a loaded machine it may come before the first one.
    ros_harness.wait_for(lambda: hasattr(runtime.snapshot, "state"), what="the first tick")
    assert runtime.snapshot.state.joint_position == pytest.approx([0.0, 0.0], abs=1e-6)


def test_a_variant_with_drives_makes_the_same_goal_succeed(start: Any, ros_harness: Any) -> None:
    running = start(arm("none"), "mujoco")
    client = Client(ros_harness, FollowJointTrajectory, FOLLOW)
    try:
        assert not client.send(goal()).handle.accepted
        running.bridge.change(variants=drives("both")).result(TIMEOUT_S)
        assert running.row(FOLLOW, "server").state == "idle"
        assert client.run(goal()).status == SUCCEEDED
        running.bridge.change(variants=drives("damped")).result(TIMEOUT_S)
        assert not client.send(goal()).handle.accepted
    finally:
        client.close()
    assert running.warnings.containing("rejected", "'elbow' (the drive has no stiffness)")


def test_diagnostics_warn_of_a_controller_that_cannot_move_its_joints(start: Any, ros_harness: Any) -> None:
    levels: dict[str, DiagnosticStatus] = {}
    node = ros_harness.node
    subscription = node.create_subscription(
        DiagnosticArray,
        "/diagnostics",
        lambda message: levels.update({status.name: status for status in message.status}),
        10,
    )
    try:
        start(arm("none"), "mujoco")
        ros_harness.wait_for(
            lambda: any("controllers" in name for name in levels), what="a status of the controllers"
        )
    finally:
        node.destroy_subscription(subscription)
    (status,) = (each for name, each in levels.items() if "controllers" in name)
    assert status.level == DiagnosticStatus.WARN
    assert "there is no drive" in status.message


@pytest.mark.parametrize("backend", ["mujoco", "kinematic"])
def test_velocities_for_a_base_that_is_fixed_to_the_world_are_answered_in_the_log(
    start: Any, ros_harness: Any, backend: str
) -> None:
    plan = load_plan(ASSETS / "actuation_fixed_base.usda", physics=True)
    running = start(plan, backend)
    told = running.warnings.containing("/robot/base", "fixed to the world by /robot/anchor", "--free-base")
    assert len(told) == 2, "the drive's and the topic's own, once each"
    publisher = ros_harness.node.create_publisher(Twist, "/robot/cmd_vel", 10)
    runtime = running.bridge.parts.runtime

    def turning() -> bool:
        message = Twist()
        message.linear.x = 0.2
        publisher.publish(message)
        state = getattr(runtime.snapshot, "state", None)
        return state is not None and bool((state.joint_position > 0.05).all())

    try:
        ros_harness.wait_for(turning, what="the wheels to turn")
    finally:
        ros_harness.node.destroy_publisher(publisher)
    ros_harness.wait_for(lambda: running.infos.containing("no cmd_vel for 0.5 s"), what="the brake")
    assert not running.warnings.containing("no cmd_vel")
