"""A gripper module that is referenced twice, over DDS: each context commands and shows its own finger alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory, ParallelGripperCommand
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from usd_ros_bridge.api import load_plan

ASSET = Path(__file__).parents[1] / "assets/context_modules.usda"
FINGERS = ("finger", "right_finger")


class Joints:
    """The last JointState of a topic."""

    def __init__(self, harness: Any, topic: str) -> None:
        self.last: JointState | None = None
        harness.node.create_subscription(JointState, topic, self._take, 10)

    def _take(self, message: JointState) -> None:
        self.last = message

    @property
    def positions(self) -> dict[str, float]:
        return {} if self.last is None else dict(zip(self.last.name, self.last.position, strict=True))


@pytest.fixture
def modules(start: Any) -> Any:
    return start(load_plan(str(ASSET)))


@pytest.mark.parametrize(
    ("topic", "name", "moved"),
    [
        ("/bot/left/joint_commands", "finger", "finger"),
        ("/bot/right/joint_commands", "finger", "right_finger"),
        ("/bot/joint_commands", "right_finger", "right_finger"),
    ],
)
def test_a_command_moves_the_finger_of_its_context_alone(
    modules: Any, ros_harness: Any, topic: str, name: str, moved: str
) -> None:
    robot, left, right = (Joints(ros_harness, f"/bot{each}/joint_states") for each in ("", "/left", "/right"))
    commands = ros_harness.node.create_publisher(JointState, topic, 10)

    def reached() -> bool:
        commands.publish(JointState(name=[name], position=[0.03]))
        return robot.positions.get(moved) == pytest.approx(0.03)

    ros_harness.wait_for(reached, what=f"{moved} at 0.03")
    other = next(each for each in FINGERS if each != moved)
    assert robot.positions[other] == pytest.approx(0.0)
    # Each topic is received at its own time.
    ros_harness.wait_for(
        lambda: (
            left.positions == {"finger": pytest.approx(robot.positions["finger"])}
            and right.positions == {"finger": pytest.approx(robot.positions["right_finger"])}
        ),
        what="the same positions in both contexts",
    )


def test_a_context_does_not_take_the_robots_names(modules: Any, ros_harness: Any) -> None:
    robot = Joints(ros_harness, "/bot/joint_states")
    commands = ros_harness.node.create_publisher(JointState, "/bot/right/joint_commands", 10)

    def refused() -> bool:
        commands.publish(JointState(name=["right_finger"], position=[0.03]))
        return bool(modules.warnings.containing("/bot/right/joint_commands", "right_finger"))

    ros_harness.wait_for(refused, what="a report of the unknown name")
    ros_harness.wait_for(lambda: bool(robot.positions), what="joint states")
    assert robot.positions == {"finger": pytest.approx(0.0), "right_finger": pytest.approx(0.0)}


def test_a_gripper_goal_names_the_joint_as_its_context_does(modules: Any, ros_harness: Any) -> None:
    goal = ParallelGripperCommand.Goal(command=JointState(name=["finger"], position=[0.02]))
    answer = ros_harness.run_goal(ParallelGripperCommand, "/bot/right/gripper_cmd", goal)
    assert answer.status == GoalStatus.STATUS_SUCCEEDED
    assert list(answer.result.state.name) == ["finger"]
    position = modules.bridge.parts.runtime.snapshot.state.joint_position
    assert position[1] == pytest.approx(0.02, abs=0.01)
    assert position[0] == pytest.approx(0.0)


def test_a_trajectory_names_the_joint_as_its_context_does(modules: Any, ros_harness: Any) -> None:
    switch = modules.bridge.switch_controllers(
        activate=["/bot/right/trajectory_controller"], deactivate=["/bot/right/grip"]
    )
    switch.result(60.0)
    point = JointTrajectoryPoint(positions=[0.025], time_from_start=Duration(nanosec=200_000_000))
    goal = FollowJointTrajectory.Goal(trajectory=JointTrajectory(joint_names=["finger"], points=[point]))
    answer = ros_harness.run_goal(FollowJointTrajectory, "/bot/right/follow_joint_trajectory", goal)
    assert answer.status == GoalStatus.STATUS_SUCCEEDED
    state = modules.bridge.parts.runtime.snapshot.state
    ros_harness.wait_for(
        lambda: state.joint_position.tolist() == [pytest.approx(0.0), pytest.approx(0.025)],
        what="the right finger",
    )


def test_a_context_without_joints_is_silent_and_says_why(modules: Any, ros_harness: Any) -> None:
    for name, role in (
        ("/bot/lidar/joint_states", "publisher"),
        ("/bot/lidar/joint_commands", "subscription"),
    ):
        row = modules.row(name, role)
        assert (row.state, "no" in row.reason and "joint" in row.reason) == ("silent", True), row


def test_description_states_and_transforms_agree_on_the_robots_names(modules: Any, ros_harness: Any) -> None:
    """What robot_state_publisher or MoveIt needs: robot_description, joint_states and tf of the whole robot."""
    robot = Joints(ros_harness, "/bot/joint_states")
    texts: list[str] = []
    frames: set[str] = set()
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    ros_harness.node.create_subscription(
        String, "/bot/robot_description", lambda message: texts.append(message.data), latched
    )
    ros_harness.node.create_subscription(
        TFMessage,
        "/bot/tf",
        lambda message: frames.update(each.child_frame_id for each in message.transforms),
        10,
    )
    ros_harness.wait_for(lambda: bool(texts and robot.last), what="a description and joint states")
    ros_harness.wait_for(lambda: {"finger", "right_finger"} <= frames, what="both fingers in /bot/tf")
    movable = [
        joint.get("name")
        for joint in ElementTree.fromstring(texts[-1]).iter("joint")
        if joint.get("type") != "fixed"
    ]
    assert sorted(movable) == sorted(robot.positions) == sorted(FINGERS)
