"""Read and check trajectories and tolerances of clients: in the order of a controller's joints, or refused.

The rules are those of joint_trajectory_controller of ros2_controllers with its defaults; beyond them, every number
must be one that a joint can take, and no joint may be named twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.controllers.joint_commands import BOUND, PositionLimits
from usd_ros_bridge.controllers.trajectory.spline import BoolArray, Knots
from usd_ros_bridge.errors import alternatives, quoted
from usd_ros_bridge.model.goals import FollowTrajectoryGoal, JointTolerance, TrajectorySample
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.spatial.transforms import FloatArray

MAX_POINTS = 10_000
"""Points of a trajectory."""

_AT_REST = float(np.finfo(np.float32).eps)
"""rad/s or m/s. A last point that is slower counts as standing still (joint_trajectory_controller)."""


class Refusal(Exception):  # noqa: N818 (not an error of the program: the reason a client is told)
    """Why a trajectory cannot be followed."""


def read_goal(
    goal: object, joints: Sequence[str], *, time_ns: int | None, limits: PositionLimits | None = None
) -> Knots:
    """Return the points of a FollowTrajectoryGoal; `Refusal` where it is to be rejected.

    Args:
        goal: The goal, unchecked.
        joints: The controller's joints.
        time_ns: Bridge time, which the end must not lie before; None where that was checked.
        limits: Of the controller's joints; None for none.
    """
    if not isinstance(goal, FollowTrajectoryGoal):
        raise Refusal(f"a {quoted(type(goal).__name__)} is no FollowJointTrajectory goal")
    if goal.multi_dof:
        raise Refusal(
            "trajectories and tolerances of joints with several degrees of freedom are not supported"
        )
    return read_trajectory(goal.trajectory, joints, time_ns=time_ns, limits=limits)


def read_trajectory(
    sample: TrajectorySample,
    joints: Sequence[str],
    *,
    time_ns: int | None,
    limits: PositionLimits | None = None,
) -> Knots:
    """Return the points of a trajectory, their times from its start; `Refusal` where it cannot be followed.

    Args:
        sample: The trajectory, unchecked.
        joints: The controller's joints.
        time_ns: Bridge time, which the end must not lie before; None where that was checked.
        limits: Of the controller's joints; None for none.
    """
    order = _order(sample.joint_names, joints)
    times_ns = _times(sample)
    names = sample.joint_names
    position, has_position = _read("positions", sample.positions, names, len(times_ns))
    if not has_position.all():
        raise Refusal(f"point {int(np.argmin(has_position))} has no positions")
    velocity, has_velocity = _read("velocities", sample.velocities, names, len(times_ns))
    acceleration, has_acceleration = _read("accelerations", sample.accelerations, names, len(times_ns))
    effort, has_effort = _read("efforts", sample.efforts, names, len(times_ns))
    moving = np.abs(velocity[-1]) > _AT_REST
    if moving.any():
        joint = int(np.argmax(moving))
        raise Refusal(
            f"the last point's velocity of joint {quoted(names[joint])} is {velocity[-1, joint]:g}, not zero"
        )
    if time_ns is not None and sample.stamp_ns != 0 and sample.stamp_ns + times_ns[-1] < time_ns:
        late = (time_ns - sample.stamp_ns - times_ns[-1]) / SECOND_NS
        raise Refusal(f"the trajectory ended {late:g} s ago (stamp {sample.stamp_ns / SECOND_NS:.9f})")
    within, clamped = _within(position[:, order], limits)
    # A joint stands at the limit that holds it.
    goes = 1.0 if not clamped else within == position[:, order]
    return Knots(
        times_ns=times_ns,
        position=within,
        clamped=clamped,
        velocity=velocity[:, order] * goes,
        acceleration=acceleration[:, order] * goes,
        effort=effort[:, order] if has_effort.any() else None,
        has_velocity=has_velocity,
        has_acceleration=has_acceleration,
    )


def _within(position: FloatArray, limits: PositionLimits | None) -> tuple[FloatArray, str]:
    """Return (N, J) positions within limits, and which was the first beyond them; `Refusal` where none may be."""
    found = None if limits is None else limits.find(position)
    if limits is None or found is None:
        return position, ""
    point, joint = found
    fault = limits.describe(position[point, joint], joint, f" in point {point}")
    if not limits.clamps:
        raise Refusal(fault)
    return limits.clamped(position), fault


def _order(names: Sequence[str], joints: Sequence[str]) -> list[int]:
    """Return which of `names` is each of the controller's joints."""
    if not names:
        raise Refusal("no joint names")
    columns: dict[str, int] = {}
    for column, name in enumerate(names):
        if name not in joints:
            raise Refusal(f"joint {quoted(name)} is none of the controller's; {alternatives(name, joints)}")
        if columns.setdefault(name, column) != column:
            raise Refusal(f"joint {quoted(name)} is named twice")
    missing = [name for name in joints if name not in columns]
    if missing:
        raise Refusal(
            f"joint {quoted(missing[0])} is missing: all {len(joints)} joints of the controller must be named"
        )
    return [columns[name] for name in joints]


def _times(sample: TrajectorySample) -> list[int]:
    times_ns: list[int] = np.asarray(sample.times_ns).tolist()
    if not times_ns:
        raise Refusal("the trajectory has no points")
    if len(times_ns) > MAX_POINTS:
        raise Refusal(f"the trajectory has {len(times_ns)} points, at most {MAX_POINTS} are possible")
    if times_ns[0] < 0:
        raise Refusal(f"time_from_start of point 0 is {times_ns[0] / SECOND_NS:g} s, negative")
    for index in range(1, len(times_ns)):
        if times_ns[index] <= times_ns[index - 1]:
            raise Refusal(
                f"time_from_start is not strictly increasing: {times_ns[index] / SECOND_NS:.9g} s at point {index} "
                f"after {times_ns[index - 1] / SECOND_NS:.9g} s"
            )
    return times_ns


def _read(
    field: str, arrays: Sequence[FloatArray], names: Sequence[str], count: int
) -> tuple[FloatArray, BoolArray]:
    """Return (N, J) values in the goal's order, zeros where a point has none, and (N,) which points have them."""
    width = len(names)
    if len(arrays) != count:
        raise Refusal(f"{len(arrays)} points have {field}, {count} have times")
    lengths = np.array([array.size for array in arrays])
    wrong = (lengths != 0) & (lengths != width)
    if wrong.any():
        point = int(np.argmax(wrong))
        raise Refusal(f"point {point} has {lengths[point]} {field} for {width} joints")
    given = lengths != 0
    values = np.zeros((count, width))
    if given.any():
        values[given] = np.concatenate(arrays, axis=None).reshape(-1, width)
        unusable = ~(np.abs(values) <= BOUND)
        if unusable.any():
            point, joint = np.argwhere(unusable)[0]
            raise Refusal(
                f"{field} of joint {quoted(names[joint])} in point {point} is {values[point, joint]:g}, "
                "no number that can be followed"
            )
    return values, given


KINDS = ("position", "velocity", "acceleration")

DEFAULT_STOPPED_VELOCITY = 0.01
"""rad/s or m/s."""

_NONE = -1.0
_NONE_WITHIN = float(np.finfo(np.float32).eps)


class _IllegalTolerance(Exception):  # noqa: N818 (not an error of the program: the goal goes on with defaults)
    """A goal's tolerances are invalid; the message says why."""


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
