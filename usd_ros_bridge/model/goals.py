"""Goals of controllers, decoded and unchecked, and their feedback and results. SI units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.spatial.transforms import FloatArray

Outcome = Literal["succeeded", "aborted", "canceled"]
"""How a goal ended (action_msgs/msg/GoalStatus)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrajectorySample:
    """A decoded trajectory_msgs/msg/JointTrajectory. Nothing is checked: arrays of points may have any length.

    Attributes:
        stamp_ns: Header stamp, nanoseconds; 0 means "now".
        joint_names: J names.
        times_ns: (N,) int64, time from start of each point.
        positions: N arrays, rad or m.
        velocities: N arrays, rad/s or m/s; empty ones where none are given.
        accelerations: N arrays, rad/s^2 or m/s^2; empty ones where none are given.
        efforts: N arrays, N m or N; empty ones where none are given.
    """

    stamp_ns: int
    joint_names: tuple[str, ...]
    times_ns: NDArray[np.int64]
    positions: tuple[FloatArray, ...]
    velocities: tuple[FloatArray, ...]
    accelerations: tuple[FloatArray, ...]
    efforts: tuple[FloatArray, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTolerance:
    """A decoded control_msgs/msg/JointTolerance: 0 stands for the controller's default, -1 for none.

    Attributes:
        name: Joint name.
        position: rad or m.
        velocity: rad/s or m/s.
        acceleration: rad/s^2 or m/s^2.
    """

    name: str
    position: float = 0.0
    velocity: float = 0.0
    acceleration: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FollowTrajectoryGoal:
    """A decoded control_msgs/action/FollowJointTrajectory goal.

    Attributes:
        trajectory: The trajectory.
        path_tolerance: Tolerances all the way, by joint.
        goal_tolerance: Tolerances at the end, by joint.
        goal_time_tolerance_ns: How much later than its last point the goal may be reached; 0 for the default.
        multi_dof: The goal has values of planar or floating joints (multi_dof_trajectory, component_*).
    """

    trajectory: TrajectorySample
    path_tolerance: tuple[JointTolerance, ...] = ()
    goal_tolerance: tuple[JointTolerance, ...] = ()
    goal_time_tolerance_ns: int = 0
    multi_dof: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTrajectoryResult:
    """The result of a FollowJointTrajectory goal.

    Attributes:
        error_code: One of the action's constants (SUCCESSFUL 0 to GOAL_TOLERANCE_VIOLATED -5).
        error_string: For people.
    """

    error_code: int = 0
    error_string: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FollowTrajectoryFeedback:
    """Desired and actual state of a trajectory.

    Rows are position, velocity, acceleration; columns the controller's joints.

    Attributes:
        stamp_ns: Time of the state, nanoseconds.
        joint_names: J names.
        desired: (3, J); NaN rows where the trajectory does not say.
        actual: (3, J); NaN where unknown.
        error: (3, J) desired - actual, wrapped for continuous joints.
        index: Trajectory point in use.
        time_from_start_ns: Nanoseconds since the trajectory's start.
    """

    stamp_ns: int
    joint_names: tuple[str, ...]
    desired: FloatArray
    actual: FloatArray
    error: FloatArray
    index: int
    time_from_start_ns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GripperGoal:
    """A decoded GripperCommand or ParallelGripperCommand goal. Nothing is checked: arrays may have any length.

    Attributes:
        names: Joint names, empty where the type has none (GripperCommand) or the client gave none.
        position: Targets, rad or m.
        velocity: Speeds not to exceed, rad/s or m/s; empty for no limit.
        effort: Efforts not to exceed, N m or N; empty for no limit.
    """

    names: tuple[str, ...]
    position: FloatArray
    velocity: FloatArray
    effort: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GripperState:
    """Feedback and result of a gripper goal.

    Attributes:
        names: G joint names.
        position: (G,) rad or m.
        velocity: (G,) rad/s or m/s.
        effort: (G,) N m or N; NaN where unknown.
        stalled: Not moving short of its target.
        reached_goal: At its target.
    """

    names: tuple[str, ...]
    position: FloatArray
    velocity: FloatArray
    effort: FloatArray
    stalled: bool
    reached_goal: bool
