"""Codecs of actions: what goals say arrives as it was sent, and what controllers say is what clients read."""

from __future__ import annotations

import importlib
import math
import random

import numpy as np
import pytest
from control_msgs.action import FollowJointTrajectory, GripperCommand, ParallelGripperCommand
from control_msgs.msg import JointTolerance
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import JointTrajectoryPoint

from foreign_plugins import install_plugin
from usd_ros_bridge.model.goals import (
    FollowTrajectoryFeedback,
    FollowTrajectoryGoal,
    FollowTrajectoryResult,
    GripperGoal,
    GripperState,
)
from usd_ros_bridge.ros.codecs import ACTIONS, ALL_CODECS, CODECS
from usd_ros_bridge.testing.random_messages import fill

FOLLOW = "control_msgs/action/FollowJointTrajectory"
GRIPPER = "control_msgs/action/GripperCommand"
PARALLEL = "control_msgs/action/ParallelGripperCommand"
CLASSES = {FOLLOW: FollowJointTrajectory, GRIPPER: GripperCommand, PARALLEL: ParallelGripperCommand}
NAN = math.nan


def over_the_wire(message):
    return deserialize_message(bytes(serialize_message(message)), type(message))


def trajectory_goal():
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.header.stamp.sec, goal.trajectory.header.stamp.nanosec = 3, 4
    goal.trajectory.joint_names = ["b", "a"]
    for number, (positions, velocities) in enumerate((([1.0, 2.0], []), ([3.0], [NAN, 4.0, 5.0]))):
        point = JointTrajectoryPoint(positions=positions, velocities=velocities)
        point.time_from_start.sec, point.time_from_start.nanosec = number - 1, 500_000_000
        goal.trajectory.points.append(point)
    return goal


def test_a_trajectory_is_taken_over_as_it_came():
    goal = ACTIONS[FOLLOW].decode(over_the_wire(trajectory_goal()))
    assert isinstance(goal, FollowTrajectoryGoal)
    trajectory = goal.trajectory
    assert (trajectory.stamp_ns, trajectory.joint_names) == (3_000_000_004, ("b", "a"))
    assert trajectory.times_ns.tolist() == [-500_000_000, 500_000_000]
    assert [each.tolist() for each in trajectory.positions] == [[1.0, 2.0], [3.0]]
    assert trajectory.velocities[0].size == 0
    assert np.isnan(trajectory.velocities[1][0])
    assert [each.size for each in (*trajectory.accelerations, *trajectory.efforts)] == [0] * 4
    assert goal.goal_time_tolerance_ns == 0
    assert not goal.multi_dof


def test_tolerances_and_planar_parts_are_noticed():
    message = trajectory_goal()
    message.path_tolerance = [JointTolerance(name="a", position=0.1, velocity=-1.0, acceleration=0.3)]
    message.goal_time_tolerance.sec = -2
    message.multi_dof_trajectory.joint_names = ["base"]
    goal = ACTIONS[FOLLOW].decode(over_the_wire(message))
    (read,) = goal.path_tolerance
    assert (read.name, read.position, read.velocity, read.acceleration) == ("a", 0.1, -1.0, 0.3)
    assert goal.goal_tolerance == ()
    assert goal.goal_time_tolerance_ns == -2_000_000_000
    assert goal.multi_dof


@pytest.mark.parametrize("type_name", sorted(ACTIONS))
def test_no_contents_make_a_decoder_raise(type_name):
    rng = random.Random(7)
    for _ in range(100):
        message = over_the_wire(fill(CLASSES[type_name].Goal(), rng))
        goal = ACTIONS[type_name].decode(message)
        assert isinstance(goal, FollowTrajectoryGoal if type_name == FOLLOW else GripperGoal)
    assert ACTIONS[type_name].decode(CLASSES[type_name].Goal()) is not None


def test_the_topic_is_decoded_as_the_goal_is():
    message = trajectory_goal().trajectory
    sample = CODECS["trajectory_msgs/msg/JointTrajectory"].decode(over_the_wire(message))
    assert sample.joint_names == ("b", "a")
    assert sample.positions[1].tolist() == [3.0]
    message.points[1].positions[0] = 9.0
    assert sample.positions[1].tolist() == [3.0]


def feedback(joints=2, **changes):
    table = np.arange(3.0 * joints).reshape(3, joints)
    values = {
        "stamp_ns": 5_000_000_006,
        "joint_names": tuple("abcdefg"[:joints]),
        "desired": table,
        "actual": table + 0.25,
        "error": np.full((3, joints), -0.25),
        "index": 3,
        "time_from_start_ns": 1_500_000_000,
    }
    return FollowTrajectoryFeedback(**{**values, **changes})


def test_feedback_shows_what_is_known_and_leaves_out_what_is_not():
    encode = ACTIONS[FOLLOW].feedback(FollowJointTrajectory)
    desired = np.array([[1.0, 2.0], [3.0, NAN], [NAN, NAN]])
    message = over_the_wire(encode(feedback(desired=desired)))
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (5, 6)
    assert message.joint_names == ["a", "b"]
    assert message.desired.positions.tolist() == [1.0, 2.0]
    assert message.desired.velocities[0] == 3.0
    assert math.isnan(message.desired.velocities[1])
    assert message.desired.accelerations.tolist() == []
    assert message.actual.accelerations.tolist() == [4.25, 5.25]
    assert message.error.positions.tolist() == [-0.25, -0.25]
    assert (message.desired.time_from_start.sec, message.desired.time_from_start.nanosec) == (1, 500_000_000)
    # control_msgs before 6.3.0 has no index.
    assert getattr(message, "index", 3) == 3


@pytest.mark.parametrize("checked", ["1", ""])
def test_feedback_is_written_again_and_again(monkeypatch, checked):
    # Messages keep the arrays that they are given where they check them (ROS_PYTHON_CHECK_FIELDS), else copies.
    module = importlib.import_module("trajectory_msgs.msg._joint_trajectory_point")
    monkeypatch.setattr(module, "ros_python_check_fields", checked)
    encode = ACTIONS[FOLLOW].feedback(FollowJointTrajectory)
    unknown = np.full((3, 2), NAN)
    first = encode(feedback())
    shown = [
        over_the_wire(encode(each)).actual.positions.tolist()
        for each in (
            feedback(),
            feedback(actual=np.full((3, 2), 7.0)),
            feedback(actual=unknown),
            feedback(actual=unknown + 1.0),
            feedback(joints=3),
            feedback(),
        )
    ]
    assert shown == [[0.25, 1.25], [7.0, 7.0], [], [], [0.25, 1.25, 2.25], [0.25, 1.25]]
    assert encode(feedback()) is first


def test_results_carry_code_and_text():
    codec = ACTIONS[FOLLOW]
    result = codec.result(
        FollowJointTrajectory, FollowTrajectoryResult(error_code=-4, error_string="far off")
    )
    assert (result.error_code, result.error_string) == (-4, "far off")
    unfinished = codec.unfinished(FollowJointTrajectory, "the bridge closes")
    assert (unfinished.error_code, unfinished.error_string) == (
        FollowJointTrajectory.Result.INVALID_GOAL,
        "the bridge closes",
    )


def gripper_goal(kind, **fields):
    goal = CLASSES[kind].Goal()
    for name, value in fields.items():
        setattr(goal.command, name, value)
    return ACTIONS[kind].decode(over_the_wire(goal))


def test_a_gripper_goal_without_effort_has_no_limit():
    goal = gripper_goal(GRIPPER, position=0.02)
    assert (goal.names, goal.position.tolist(), goal.velocity.size, goal.effort.size) == ((), [0.02], 0, 0)
    assert gripper_goal(GRIPPER, max_effort=5.0).effort.tolist() == [5.0]
    assert math.isnan(gripper_goal(GRIPPER, position=NAN).position[0])


def test_a_parallel_gripper_goal_may_hold_anything():
    goal = gripper_goal(
        PARALLEL, name=["left", "right"], position=[0.1], velocity=[NAN], effort=[1.0, 2.0, 3.0]
    )
    assert goal.names == ("left", "right")
    assert [each.size for each in (goal.position, goal.velocity, goal.effort)] == [1, 1, 3]


def gripper_state(effort=NAN):
    return GripperState(
        names=("left",),
        position=np.array([0.01]),
        velocity=np.array([0.2]),
        effort=np.array([effort]),
        stalled=True,
        reached_goal=False,
    )


def test_gripper_states_become_feedback_and_results():
    for make in (
        ACTIONS[GRIPPER].feedback(GripperCommand),
        lambda state: ACTIONS[GRIPPER].result(GripperCommand, state),
    ):
        message = over_the_wire(make(gripper_state(7.0)))
        assert (message.position, message.effort) == (0.01, 7.0)
        assert (message.stalled, message.reached_goal) == (True, False)
    shown = over_the_wire(ACTIONS[PARALLEL].feedback(ParallelGripperCommand)(gripper_state())).state
    assert (shown.name, shown.position.tolist(), shown.velocity.tolist()) == (["left"], [0.01], [0.2])
    assert shown.effort.tolist() == []
    result = over_the_wire(ACTIONS[PARALLEL].result(ParallelGripperCommand, gripper_state(3.0)))
    assert (result.stalled, result.reached_goal, result.state.effort.tolist()) == (True, False, [3.0])


def test_a_plugin_brings_the_codec_of_an_action(tmp_path, monkeypatch):
    """By the same group of entry points; codecs of messages and of actions are told apart by the type's name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    text = """
        from usd_ros_bridge import CodecPlugin

        ACTION = CodecPlugin(codec="plugin_of_actions_codecs:ACTION")
        MESSAGE = CodecPlugin(codec="plugin_of_actions_codecs:MESSAGE")
    """
    codecs = """
        from usd_ros_bridge import MessageCodec
        from usd_ros_bridge.ros.codecs.control_msgs import ACTIONS

        ACTION = ACTIONS["control_msgs/action/GripperCommand"]
        MESSAGE = MessageCodec(decode=str)
    """
    points = {
        "my_msgs.action.Grip": "plugin_of_actions:ACTION",
        "my_msgs.msg.Grip": "plugin_of_actions:MESSAGE",
        "my_msgs.action.Mixed": "plugin_of_actions:MESSAGE",
    }
    install_plugin(
        tmp_path,
        "plugin-of-actions",
        entry_points={"codecs": points},
        modules={"plugin_of_actions": text, "plugin_of_actions_codecs": codecs},
    )
    assert ACTIONS["my_msgs/action/Grip"] is ACTIONS[GRIPPER]
    assert CODECS["my_msgs/msg/Grip"].decode is str
    assert "my_msgs/action/Grip" not in CODECS.names()
    assert "my_msgs/msg/Grip" not in ACTIONS.names()
    assert set(points) <= {each.replace("/", ".") for each in ALL_CODECS.names()}
    assert ALL_CODECS.get("my_msgs/action/Grip") is ACTIONS[GRIPPER]
    assert "is a MessageCodec, no ActionCodec" in ACTIONS.fault("my_msgs/action/Mixed")
