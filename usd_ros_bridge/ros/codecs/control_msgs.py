"""control_msgs: goals of the actions that controllers follow, their feedback and results.

What a distribution's definition lacks is left out: `index` in the feedback of FollowJointTrajectory came with
control_msgs 6.3.0.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from usd_ros_bridge.errors import escaped
from usd_ros_bridge.model.goals import (
    FollowTrajectoryFeedback,
    FollowTrajectoryGoal,
    FollowTrajectoryResult,
    GripperGoal,
    GripperState,
    JointTolerance,
)
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.ros.codecs.encoding import set_stamp
from usd_ros_bridge.ros.codecs.trajectory_msgs import decode_joint_trajectory, duration_ns
from usd_ros_bridge.spatial.transforms import FloatArray

INVALID_GOAL = -1
_MAX_INDEX = 2**31 - 1
_ROWS = ("positions", "velocities", "accelerations")

Encode = Callable[[Any], Any]
"""Turns feedback of model.goals into a message, which is the same object at every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCodec:
    """Decode goals of one action type, and encode its feedback and results.

    Attributes:
        decode: Turns a goal message into a goal of model.goals. Never raises for what a field may hold.
        feedback: `feedback(action_class)` returns what makes feedback messages of one goal; they are reused.
        result: `result(action_class, result)` makes a result message.
        unfinished: The result of a goal that nothing could finish: says why, where the type can.
    """

    decode: Callable[[Any], object]
    feedback: Callable[[Any], Encode]
    result: Callable[[Any, Any], Any]
    unfinished: Callable[[Any, str], Any]


# --- FollowJointTrajectory -------------------------------------------------------------------------------------------


def decode_follow_joint_trajectory(goal: Any) -> FollowTrajectoryGoal:
    """Decode a goal. Of the parts for planar and floating joints, only their presence."""
    multi_dof = goal.multi_dof_trajectory
    return FollowTrajectoryGoal(
        trajectory=decode_joint_trajectory(goal.trajectory),
        path_tolerance=_tolerances(goal.path_tolerance),
        goal_tolerance=_tolerances(goal.goal_tolerance),
        goal_time_tolerance_ns=duration_ns(goal.goal_time_tolerance),
        multi_dof=any(
            len(part)
            for part in (
                multi_dof.joint_names,
                multi_dof.points,
                goal.component_path_tolerance,
                goal.component_goal_tolerance,
            )
        ),
    )


def _tolerances(messages: Any) -> tuple[JointTolerance, ...]:
    return tuple(
        JointTolerance(
            name=each.name,
            position=each.position,
            velocity=each.velocity,
            acceleration=each.acceleration,
        )
        for each in messages
    )


class _Rows:
    """Write rows of positions, velocities and accelerations into the three points of one message, in place."""

    def __init__(self, points: tuple[Any, ...]) -> None:
        self._points = points
        self._time = points[0].time_from_start
        for point in points:
            point.time_from_start = self._time
        self._size = -1
        self._views: list[list[tuple[int, FloatArray]]] = []
        self._shown: list[list[bool]] = []

    def write(self, tables: tuple[FloatArray, ...], time_ns: int) -> None:
        """Write tables (3, J); a row that is NaN all over is shown as empty, as what is not known."""
        if tables[0].shape[1] != self._size:
            self._size = tables[0].shape[1]
            self._views = [[] for _ in self._points]
            self._shown = [[] for _ in self._points]
        self._time.sec, self._time.nanosec = divmod(time_ns, SECOND_NS)
        for number, table in enumerate(tables):
            known: list[bool] = np.logical_not(np.isnan(table).all(axis=1)).tolist()
            if known != self._shown[number]:
                self._show(number, known)
            for row, view in self._views[number]:
                view[:] = table[row]

    def _show(self, number: int, known: list[bool]) -> None:
        """Give a point arrays for the rows that are known, and empty ones for the others."""
        self._shown[number] = known
        point = self._points[number]
        for name, shown in zip(_ROWS, known, strict=True):
            setattr(point, name, array("d", bytes(8 * self._size if shown else 0)))
        # What the message holds now: its fields take arrays as they are only where it checks them.
        self._views[number] = [
            (row, np.frombuffer(getattr(point, _ROWS[row]))) for row, shown in enumerate(known) if shown
        ]


def follow_joint_trajectory_feedback(action_class: Any) -> Encode:
    """Return what fills one feedback message, as joint_trajectory_controller of ros2_controllers does."""
    message = action_class.Feedback()
    rows = _Rows((message.desired, message.actual, message.error))
    indexed = hasattr(message, "index")
    names: tuple[str, ...] = ()

    def encode(feedback: FollowTrajectoryFeedback) -> Any:
        nonlocal names
        if feedback.joint_names != names:
            names = feedback.joint_names
            message.joint_names = list(names)
        set_stamp(message.header.stamp, feedback.stamp_ns)
        rows.write((feedback.desired, feedback.actual, feedback.error), feedback.time_from_start_ns)
        if indexed:
            message.index = min(feedback.index, _MAX_INDEX)
        return message

    return encode


def follow_joint_trajectory_result(action_class: Any, result: FollowTrajectoryResult) -> Any:
    """Make a result."""
    return action_class.Result(error_code=result.error_code, error_string=escaped(result.error_string))


def _trajectory_unfinished(action_class: Any, reason: str) -> Any:
    return action_class.Result(error_code=INVALID_GOAL, error_string=escaped(reason))


# --- Grippers --------------------------------------------------------------------------------------------------------


def decode_gripper_command(goal: Any) -> GripperGoal:
    """GripperCommand: one position; a `max_effort` of 0, which is what clients send that ask for none, is no limit."""
    effort = goal.command.max_effort
    return GripperGoal(
        names=(),
        position=np.array([goal.command.position]),
        velocity=np.empty(0),
        effort=np.array([effort] if effort != 0.0 else [], dtype=np.float64),
    )


def decode_parallel_gripper_command(goal: Any) -> GripperGoal:
    """ParallelGripperCommand: a joint state; its velocities and efforts are limits, where given."""
    command = goal.command
    return GripperGoal(
        names=tuple(command.name),
        position=np.array(command.position, dtype=np.float64),
        velocity=np.array(command.velocity, dtype=np.float64),
        effort=np.array(command.effort, dtype=np.float64),
    )


def _fill_gripper_command(message: Any, state: GripperState) -> Any:
    """Fill in a GripperCommand, which has one joint: the first."""
    message.position = float(state.position[0]) if state.position.size else 0.0
    message.effort = float(state.effort[0]) if state.effort.size else 0.0
    message.stalled = bool(state.stalled)
    message.reached_goal = bool(state.reached_goal)
    return message


def gripper_command_feedback(action_class: Any) -> Encode:
    """Return what fills one feedback message."""
    message = action_class.Feedback()
    return lambda state: _fill_gripper_command(message, state)


def gripper_command_result(action_class: Any, state: GripperState) -> Any:
    """Make a result."""
    return _fill_gripper_command(action_class.Result(), state)


def _fill_joint_state(message: Any, state: GripperState) -> None:
    message.name = list(state.names)
    message.position = array("d", state.position)
    message.velocity = array("d", state.velocity)
    message.effort = array("d") if np.isnan(state.effort).all() else array("d", state.effort)


def parallel_gripper_command_feedback(action_class: Any) -> Encode:
    """Return what fills one feedback message."""
    message = action_class.Feedback()

    def encode(state: GripperState) -> Any:
        _fill_joint_state(message.state, state)
        return message

    return encode


def parallel_gripper_command_result(action_class: Any, state: GripperState) -> Any:
    """Make a result."""
    message = action_class.Result(stalled=bool(state.stalled), reached_goal=bool(state.reached_goal))
    _fill_joint_state(message.state, state)
    return message


def _nothing_to_say(action_class: Any, reason: str) -> Any:  # noqa: ARG001 - ActionCodec.unfinished
    return action_class.Result()


ACTIONS: Mapping[str, ActionCodec] = {
    "control_msgs/action/FollowJointTrajectory": ActionCodec(
        decode=decode_follow_joint_trajectory,
        feedback=follow_joint_trajectory_feedback,
        result=follow_joint_trajectory_result,
        unfinished=_trajectory_unfinished,
    ),
    "control_msgs/action/GripperCommand": ActionCodec(
        decode=decode_gripper_command,
        feedback=gripper_command_feedback,
        result=gripper_command_result,
        unfinished=_nothing_to_say,
    ),
    "control_msgs/action/ParallelGripperCommand": ActionCodec(
        decode=decode_parallel_gripper_command,
        feedback=parallel_gripper_command_feedback,
        result=parallel_gripper_command_result,
        unfinished=_nothing_to_say,
    ),
}
