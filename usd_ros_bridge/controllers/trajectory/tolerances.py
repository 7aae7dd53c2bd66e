"""Tolerances of a trajectory: the limits of a controller and a goal, and which of them are violated.

Rules of joint_trajectory_controller of ros2_controllers and of control_msgs/msg/JointTolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.goals import FollowTrajectoryGoal, JointTolerance
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.spatial.transforms import FloatArray

KINDS = ("position", "velocity", "acceleration")

DEFAULT_STOPPED_VELOCITY = 0.01
"""rad/s or m/s."""

_NONE = -1.0
_NONE_WITHIN = float(np.finfo(np.float32).eps)


class _IllegalTolerance(Exception):  # noqa: N818 (not an error of the program: the goal goes on with defaults)
    """What is wrong with a goal's tolerances."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tolerances:
    """Limits of the differences between desired and actual state; inf where a difference does not matter.

    Attributes:
        path: (3, J) position, velocity and acceleration, all the way.
        goal: (3, J) likewise, after the last point.
        goal_time_ns: How much later than the last point the goal may be reached; None for any time.
        checks_path: Whether any of `path` is finite.
    """

    path: FloatArray
    goal: FloatArray
    goal_time_ns: int | None
    checks_path: bool


def default_tolerances(joint_count: int, stopped_velocity: float) -> Tolerances:
    """Return a controller's own: everything unchecked but that joints stand still at the goal.

    Args:
        joint_count: J.
        stopped_velocity: rad/s or m/s; 0 leaves that unchecked as well.
    """
    unchecked = np.full((3, joint_count), np.inf)
    goal = unchecked.copy()
    goal[1] = stopped_velocity if stopped_velocity > 0.0 else np.inf
    return Tolerances(path=unchecked, goal=goal, goal_time_ns=None, checks_path=False)


def resolve_tolerances(
    defaults: Tolerances, goal: FollowTrajectoryGoal, joints: Sequence[str]
) -> tuple[Tolerances, str]:
    """Return the tolerances of a goal, and what was wrong with them, in which case they are the defaults.

    As in joint_trajectory_controller, a goal with illegal tolerances is followed with the defaults for all of them:
    names that are not the controller's, negative values other than -1. A value that is NaN counts as 0.
    """
    try:
        time_ns = _resolved_time(defaults.goal_time_ns, goal.goal_time_tolerance_ns)
        path = _resolved(defaults.path, goal.path_tolerance, joints, "path_tolerance")
        end = _resolved(defaults.goal, goal.goal_tolerance, joints, "goal_tolerance")
    except _IllegalTolerance as fault:
        return defaults, str(fault)
    checks_path = bool(np.isfinite(path).any())
    return Tolerances(path=path, goal=end, goal_time_ns=time_ns, checks_path=checks_path), ""


def violation(error: FloatArray, limits: FloatArray, joints: Sequence[str]) -> str:
    """Return which joint's error exceeds its limit and by how much, "" where none does.

    Args:
        error: (3, J) desired - actual; NaN where unknown, which exceeds nothing.
        limits: (3, J).
        joints: J names.
    """
    exceeded = np.abs(error) > limits
    if not exceeded.any():
        return ""
    kind, joint = np.argwhere(exceeded)[0]
    return (
        f"the {KINDS[kind]} error of joint {quoted(joints[joint])} is {error[kind, joint]:.6g}, "
        f"the limit {limits[kind, joint]:.6g}"
    )


def _resolved(
    defaults: FloatArray, wishes: Sequence[JointTolerance], joints: Sequence[str], field: str
) -> FloatArray:
    if not wishes:
        return defaults
    limits: FloatArray = defaults.copy()
    for wish in wishes:
        if wish.name not in joints:
            raise _IllegalTolerance(
                f"{field} names the joint {quoted(wish.name)}, which is not the controller's"
            )
        joint = joints.index(wish.name)
        for kind, name in enumerate(KINDS):
            limits[kind, joint] = _resolved_value(
                defaults[kind, joint], getattr(wish, name), wish.name, field
            )
    return limits


def _resolved_value(default: float, wish: float, joint: str, field: str) -> float:
    if wish > 0.0:
        return wish
    if abs(wish - _NONE) < _NONE_WITHIN:
        return math.inf
    if wish < 0.0:
        raise _IllegalTolerance(f"{field} of joint {quoted(joint)} is {wish:g}: neither positive, 0 nor -1")
    return default


def _resolved_time(default: int | None, wish: int) -> int | None:
    if wish > 0:
        return wish
    if wish == -SECOND_NS:
        return None
    if wish < 0:
        raise _IllegalTolerance(f"goal_time_tolerance is {wish / SECOND_NS:g} s: neither positive, 0 nor -1")
    return default
