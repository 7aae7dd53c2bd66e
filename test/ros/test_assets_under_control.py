"""From asset to motion: what the small assets with controllers do when they are asked over ROS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from action_plans import Client, Sent
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory, GripperCommand, ParallelGripperCommand
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from parameter_client import ParameterClient
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.options import PlanOptions, ReadOptions, parse_variants
from usd_ros_bridge.usd import quiet

ROOT = Path(__file__).parents[2]


def plan_of(asset: str, *variants: str) -> Any:
    with quiet():
        return load_plan(str(ROOT / asset), read_options=ReadOptions(variants=parse_variants(variants)))


class Listener:
    """The last message of a topic, and how many came."""

    def __init__(self, harness: Any, kind: Any, topic: str) -> None:
        self.last: Any = None
        self.count = 0
        harness.node.create_subscription(kind, topic, self._take, 10)

    def _take(self, message: Any) -> None:
        self.last = message
        self.count += 1

    def position(self, joint: str) -> float:
        return float("nan") if self.last is None else self.last.position[list(self.last.name).index(joint)]


def point(*positions: float, seconds: float = 0.2) -> JointTrajectoryPoint:
    time = Duration(sec=int(seconds), nanosec=round(seconds % 1 * 1e9))
    return JointTrajectoryPoint(positions=list(positions), time_from_start=time)


def publish_until(harness: Any, publisher: Any, message: Any, condition: Any, what: str) -> None:
    """Publishes until it has its effect: a first message may go out before its subscription is matched."""

    def again() -> bool:
        if condition():
            return True
        publisher.publish(message)
        return False

    harness.wait_for(again, what=what)


def succeeded(harness: Any, kind: Any, name: str, goal: Any) -> Any:
    """Return the result of a goal that succeeds."""
    answer = harness.run_goal(kind, name, goal)
    assert answer.status == GoalStatus.STATUS_SUCCEEDED
    return answer.result


def send_arm_goal(harness: Any, running: Any, *positions: float) -> Sent:
    """Sends the example arm to a position; where the goal is accepted, waits for its end."""
    (controller,) = [
        each for each in running.bridge.controllers() if each.schema == "RosControlJointTrajectoryAPI"
    ]
    action = next(
        row.name for row in running.bridge.status().interfaces if row.type.endswith("FollowJointTrajectory")
    )
    client = Client(harness, FollowJointTrajectory, action)
    goal = FollowJointTrajectory.Goal()
    goal.trajectory = JointTrajectory(
        joint_names=list(controller.joints),
        points=[point(*positions, *[0.0] * (len(controller.joints) - len(positions)))],
    )
    sent = client.send(goal)
    if sent.handle.accepted:
        client.wait(sent)
    client.close()
    return sent


def test_a_goal_beyond_a_limit_is_rejected_or_clamped_as_the_parameter_says(
    start: Any, ros_harness: Any
) -> None:
    running = start(plan_of("examples/arm/arm.usda"))
    assert not send_arm_goal(ros_harness, running, 9.5).handle.accepted
    (reason,) = running.warnings.containing("rejected", "beyond its upper limit")
    assert "in point 0 is 9.5" in reason
    assert ParameterClient(ros_harness).set("beyond_limits", "clamp") == ""
    ros_harness.wait_for(lambda: running.bridge.plan.options.beyond_limits == "clamp", what="the change")
    sent = send_arm_goal(ros_harness, running, 9.5)
    assert sent.handle.accepted
    assert sent.status == GoalStatus.STATUS_SUCCEEDED
    assert "clamped: the position of joint" in sent.result.error_string
    assert running.warnings.containing("clamped", "beyond its upper limit")


def test_an_external_controller_reads_states_and_commands_joints(start: Any, ros_harness: Any) -> None:
    start(plan_of("test/assets/controller_external.usda"))
    states = Listener(ros_harness, JointState, "/robot/robot_joint_states")
    commands = ros_harness.node.create_publisher(JointState, "/robot/robot_joint_commands", 10)
    message = JointState(name=["wrist", "left_finger"], position=[0.25, 0.03])
    publish_until(
        ros_harness, commands, message, lambda: states.position("wrist") == pytest.approx(0.25), "the wrist"
    )
    assert list(states.last.name) == ["shoulder", "wrist", "left_finger", "right_finger"]
    assert states.position("left_finger") == pytest.approx(0.03)
    assert states.position("right_finger") == pytest.approx(-0.03)


def test_an_external_controller_has_the_interfaces_of_its_prim(start: Any, ros_harness: Any) -> None:
    running = start(plan_of("test/assets/controller_external_topics.usda"))
    states = Listener(ros_harness, JointState, "/robot/hardware/states")
    commands = ros_harness.node.create_publisher(JointState, "/robot/hardware/commands", 10)
    message = JointState(name=["wrist"], position=[0.25])
    publish_until(
        ros_harness, commands, message, lambda: states.position("wrist") == pytest.approx(0.25), "the wrist"
    )
    names = {name for name, _ in ros_harness.node.get_topic_names_and_types()}
    assert not {name for name in names if "robot_joint" in name}
    running.bridge.switch_controllers(deactivate=["/robot/ros2_control"]).result(60.0)
    assert not running.bridge.parts.runtime.controllers.active("/robot/ros2_control")


@pytest.mark.parametrize(
    ("asset", "topic", "joints"),
    [
        (
            "examples/arm/arm.usda",
            "/arm/joint_trajectory_controller/joint_trajectory",
            [f"joint_{i}" for i in range(1, 7)],
        ),
        ("test/assets/controller_trajectory_alone.usda", "/robot/joint_trajectory", ["shoulder", "wrist"]),
        ("test/assets/controller_trajectory_topic.usda", "/robot/b/joint_trajectory", ["wrist"]),
    ],
)
def test_a_trajectory_on_the_topic_is_followed(
    start: Any, ros_harness: Any, asset: str, topic: str, joints: list[str]
) -> None:
    bridge = start(plan_of(asset)).bridge
    publisher = ros_harness.node.create_publisher(JointTrajectory, topic, 10)
    ros_harness.wait_for(lambda: ros_harness.are_connected(publisher, bridge), what="the subscription")
    goal = [0.1 * number for number in range(1, len(joints) + 1)]
    publisher.publish(JointTrajectory(joint_names=joints, points=[point(*goal)]))
    rows = {bridge.plan.layout.dofs[row]: row for row in range(len(bridge.plan.layout.dofs))}
    ros_harness.wait_for(lambda: bridge.parts.runtime.time_ns is not None, what="the first tick")

    def there() -> bool:
        if not bridge.status().ticks:
            return False
        position = bridge.parts.runtime.snapshot.state.joint_position
        return all(abs(position[rows[name]] - want) < 1e-6 for name, want in zip(joints, goal, strict=True))

    ros_harness.wait_for(there, what="the end of the trajectory")


def test_arm_and_inferred_gripper_move_side_by_side(start: Any, ros_harness: Any) -> None:
    bridge = start(plan_of("test/assets/controller_gripper.usda")).bridge
    goal = FollowJointTrajectory.Goal()
    goal.trajectory = JointTrajectory(joint_names=["shoulder", "wrist"], points=[point(0.3, -0.2)])
    result = succeeded(
        ros_harness, FollowJointTrajectory, "/robot/arm_controller/follow_joint_trajectory", goal
    )
    assert result.error_code == FollowJointTrajectory.Result.SUCCESSFUL
    close = ParallelGripperCommand.Goal(command=JointState(name=["left_finger"], position=[0.02]))
    result = succeeded(ros_harness, ParallelGripperCommand, "/robot/gripper_controller/gripper_cmd", close)
    assert result.reached_goal
    assert list(result.state.name) == ["left_finger"]
    position = dict(
        zip(bridge.plan.layout.dofs, bridge.parts.runtime.snapshot.state.joint_position, strict=True)
    )
    assert position["shoulder"] == pytest.approx(0.3)
    assert position["wrist"] == pytest.approx(-0.2)
    assert position["left_finger"] == pytest.approx(0.02, abs=0.01)


def test_a_gripper_of_named_joints(start: Any, ros_harness: Any) -> None:
    start(plan_of("test/assets/controller_gripper_joints.usda"))
    goal = GripperCommand.Goal()
    goal.command.position = 0.015
    result = succeeded(ros_harness, GripperCommand, "/robot/gripper_controller/gripper_cmd", goal)
    assert result.reached_goal
    assert result.position == pytest.approx(0.015, abs=0.002)


def test_the_second_finger_of_the_example_arm_follows(start: Any, ros_harness: Any) -> None:
    bridge = start(plan_of("examples/arm/arm.usda", "/arm:gripper=parallel")).bridge
    goal = ParallelGripperCommand.Goal(command=JointState(name=["left_finger_joint"], position=[0.03]))
    assert succeeded(
        ros_harness, ParallelGripperCommand, "/arm/gripper_controller/gripper_cmd", goal
    ).reached_goal
    position = dict(
        zip(bridge.plan.layout.dofs, bridge.parts.runtime.snapshot.state.joint_position, strict=True)
    )
    assert position["left_finger_joint"] == pytest.approx(0.03, abs=1e-3)
    assert position["right_finger_joint"] == pytest.approx(position["left_finger_joint"])


def test_a_drive_by_collections_has_the_authored_covariances(start: Any, ros_harness: Any) -> None:
    start(plan_of("test/assets/controller_collections.usda"))
    odometry = Listener(ros_harness, Odometry, "/robot/odom")
    commands = ros_harness.node.create_publisher(TwistStamped, "/robot/cmd_vel", 10)
    message = TwistStamped()
    message.twist.linear.x = 0.5

    def driven() -> bool:
        return odometry.last is not None and odometry.last.pose.pose.position.x > 0.05

    publish_until(ros_harness, commands, message, driven, "the rover to drive")
    assert list(odometry.last.pose.covariance)[::7] == [0.001, 0.001, 0.0, 0.0, 0.0, 0.01]
    assert list(odometry.last.twist.covariance)[::7] == [0.001, 0.0, 0.0, 0.0, 0.0, 0.01]
    assert odometry.last.header.frame_id == "odom"
    assert odometry.last.child_frame_id == "base"


def test_a_robot_that_drives_stops_when_its_interfaces_are_taken_away(start: Any, ros_harness: Any) -> None:
    bridge = start(plan_of("examples/rover/world.usda")).bridge
    commands = ros_harness.node.create_publisher(Twist, "/rover/cmd_vel", 10)
    message = Twist()
    message.linear.x = 0.5

    def speed() -> float:
        return float(abs(bridge.parts.runtime.snapshot.state.joint_velocity).max())

    publish_until(ros_harness, commands, message, lambda: speed() > 1.0, "the rover to drive")
    bridge.change(plan_options=PlanOptions(interfaces="none")).result(60.0)
    ticks = bridge.parts.runtime.ticks
    ros_harness.wait_for(lambda: bridge.parts.runtime.ticks > ticks + 2, what="ticks")
    assert speed() == 0.0
