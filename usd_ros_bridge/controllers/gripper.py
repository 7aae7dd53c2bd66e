"""Grippers: goals of GripperCommand and ParallelGripperCommand, as positions that their joints close or open to.

parallel_gripper_controller and gripper_controllers of ros2_controllers. No schema declares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.controllers.controller_group import (
    ControllerContext,
    FeedbackTimer,
    GoalPort,
    feedback_period_ns,
)
from usd_ros_bridge.controllers.joint_commands import PositionLimits
from usd_ros_bridge.errors import alternatives, quoted
from usd_ros_bridge.model.actuation import full_efforts, is_full_effort
from usd_ros_bridge.model.goals import GripperGoal, GripperState, Outcome
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.transforms import FloatArray

_SECONDS = 1e-9
_NANOSECONDS = 1e9
_DEFAULTS = {
    "stall_velocity_threshold": 0.001,
    "stall_timeout": 1.0,
    "action_monitor_rate": 20.0,
}
_TOLERANCE, _OF_THE_STROKE = 0.01, 0.02
"""Without an authored tolerance: that of parallel_gripper_controller (rad or m), at most a part of the stroke. Many
grippers have a stroke of 0.02 m: half open would count as closed."""
_OF_THE_SPEED = 0.5
"""A joint that does half of the speed that its goal allows has not stalled, however slow that is."""


class _Gripper:
    """Constants of one gripper."""

    def __init__(
        self,
        plan: ControllerPlan,
        limits: PositionLimits,
        *,
        stroke: FloatArray,
        full: tuple[FloatArray, FloatArray],
    ) -> None:
        self.limits = limits
        self.full = full
        self.path = plan.path
        self.robot = plan.robot
        self.names = plan.joints
        self.rows: NDArray[np.intp] = np.array(plan.dofs, dtype=np.intp)
        authored = plan.parameters.get("goal_tolerance")
        limited = np.isfinite(stroke) & (stroke > 0.0)
        by_stroke = np.minimum(_TOLERANCE, np.where(limited, _OF_THE_STROKE * stroke, np.inf))
        self.tolerance: FloatArray = by_stroke if authored is None else np.full(len(stroke), float(authored))
        self.threshold = _number(plan, "stall_velocity_threshold")
        self.stall_ns = round(_number(plan, "stall_timeout") * _NANOSECONDS)
        self.allow_stalling = bool(plan.parameters.get("allow_stalling"))
        self.monitor_rate = _number(plan, "action_monitor_rate")

    def time_ns(self, state: State) -> int:
        """Return the time of the gripper's own state."""
        if state.robot_time_ns is None or self.robot < 0:
            return state.time_ns
        return int(state.robot_time_ns[self.robot])


@dataclass(slots=True, kw_only=True)
class _Motion:
    """Commanded motion of the joints, all (G,): from `start` to `target` no faster than `speed`."""

    start: FloatArray
    target: FloatArray
    speed: FloatArray
    begin_ns: int

    def at(self, time_ns: int) -> tuple[FloatArray, bool]:
        """Return the commanded positions, and whether they are the last."""
        distance = self.target - self.start
        with np.errstate(invalid="ignore"):
            reach = self.speed * max(time_ns - self.begin_ns, 0) * _SECONDS
            # So, too, where the start is not known or the speed not limited.
            arrived = ~(np.abs(distance) > reach) | np.isinf(self.speed)
            position = np.where(arrived, self.target, self.start + np.copysign(reach, distance))
        return position, bool(arrived.all())


@dataclass(slots=True, kw_only=True)
class _Approach:
    """How joints approach their targets, all (G,): whether those that push with full effort get anywhere.

    Attributes:
        moved_ns: When each joint was last faster than its threshold, nanoseconds.
        nearest: Smallest distance from the target, rad or m.
        nearest_ns: When that was.
        observed: States since then.
        pushed: Those of them in which the joint pushed with full effort.
    """

    moved_ns: NDArray[np.int64]
    nearest: FloatArray
    nearest_ns: NDArray[np.int64]
    observed: NDArray[np.int64]
    pushed: NDArray[np.int64]

    @classmethod
    def begin(cls, distance: FloatArray, time_ns: int) -> _Approach:
        """Begin at a distance; NaN: unknown."""
        begun = np.full(distance.shape, time_ns, dtype=np.int64)
        counts = np.zeros((2, *distance.shape), dtype=np.int64)
        return cls(
            moved_ns=begun,
            nearest=np.where(np.isnan(distance), np.inf, distance),
            nearest_ns=begun.copy(),
            observed=counts[0],
            pushed=counts[1],
        )

    def observe(
        self,
        distance: FloatArray,
        speed: FloatArray,
        pushes: NDArray[np.bool_],
        least: FloatArray,
        time_ns: int,
    ) -> None:
        """Observe a state.

        Args:
            distance: From the targets, rad or m.
            speed: rad/s or m/s.
            pushes: Joints that push with full effort.
            least: Speeds below which a joint does not move.
            time_ns: Time of the state.
        """
        self.moved_ns[speed > least] = time_ns
        nearer = distance < self.nearest - least * (time_ns - self.nearest_ns) * _SECONDS
        self.nearest[nearer] = distance[nearer]
        self.nearest_ns[nearer] = time_ns
        self.observed[nearer] = self.pushed[nearer] = 0
        self.observed += 1
        self.pushed += pushes

    def has_stalled(self, time_ns: int, timeout_ns: int) -> bool:
        """Return whether each joint has stood still, or has pushed without effect, for longer than a time-out."""
        still = time_ns - self.moved_ns > timeout_ns
        in_vain = (time_ns - self.nearest_ns > timeout_ns) & (2 * self.pushed >= self.observed)
        return bool((still | in_vain).all())


@dataclass(slots=True, kw_only=True)
class _Goal:
    """A goal in progress, and what was measured last, all (G,)."""

    port: GoalPort
    target: FloatArray
    threshold: FloatArray
    position: FloatArray
    velocity: FloatArray
    effort: FloatArray
    seen_ns: int
    approach: _Approach
    timer: FeedbackTimer


class Grippers:
    """All grippers of a plan. A joint's command holds when its goal has ended, as in parallel_gripper_controller.

    A goal's velocities limit how fast the commanded positions move, 0 standing for no limit. Its efforts are
    not used: commands know no limit of efforts.
    """

    dynamic: ClassVar[frozenset[str]] = frozenset()
    observes_at_rest: ClassVar[bool] = False

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Make the grippers of `plans`, active where their plans are enabled."""
        self._report = context.report
        self._clock_period_ns = context.clock_period_ns
        self._grippers = _make_grippers(context.plan, plans)
        self._active = [plan.enabled for plan in plans]
        self._goals: dict[int, _Goal] = {}
        self._motions: dict[int, _Motion] = {}
        self._holds: set[int] = set()

    @property
    def busy(self) -> bool:
        """Return whether a goal is in progress or a command has yet to be written."""
        return bool(self._goals or self._motions or self._holds)

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:  # noqa: ARG002
        """Switch a gripper on, or end its goal and hold it where it is."""
        self._active[row] = active
        if not active:
            moved = row in self._goals or row in self._motions
            self._end(row, "aborted")
            if moved:
                self._hold(row)

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Do nothing: no parameter is dynamic."""

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:
        """Do nothing: there is no command topic."""

    # --- Goals ------------------------------------------------------------------------------------------------

    def check(self, row: int, goal: object, *, time_ns: int) -> str:  # noqa: ARG002
        """Return why a goal is to be rejected, "" where it is acceptable. From any thread."""
        if not isinstance(goal, GripperGoal):
            return f"{type(goal).__name__} is no goal of a gripper"
        gripper = self._grippers[row]
        count = len(gripper.names)
        if count == 0:
            return "the gripper has no joint"
        reason = _names_fault(goal.names, gripper.names)
        if reason:
            return reason
        if len(goal.position) not in ((count,) if goal.names else (count, 1)):
            return f"wrong number of position values: expects {count}, got {len(goal.position)}"
        for what, values in (("velocity", goal.velocity), ("effort", goal.effort)):
            if len(values) not in ((0, count) if goal.names else (0, 1, count)):
                return f"wrong number of {what} values: expects none or {count}, got {len(values)}"
        for what, values in (
            ("position", goal.position),
            ("velocity", goal.velocity),
            ("effort", goal.effort),
        ):
            if not np.isfinite(values).all():
                return f"not every {what} value is finite"
        if (goal.velocity < 0.0).any():
            return "a velocity is negative"
        return "" if gripper.limits.clamps else _beyond(gripper, _in_order(goal, gripper.names)[0])

    def start(self, row: int, goal: object, port: GoalPort, *, time_ns: int, state: State) -> None:
        """Begin a goal that was checked; the one in progress ends aborted."""
        assert isinstance(goal, GripperGoal)
        gripper = self._grippers[row]
        self._end(row, "aborted")
        self._holds.discard(row)
        target, speed = _in_order(goal, gripper.names)
        if beyond := _beyond(gripper, target):
            self._report(f"gripper.clamped:{gripper.path}", f"{gripper.path}: clamped: {beyond}")
            target = gripper.limits.clamped(target)
        measured = _measured(gripper, state)
        self._goals[row] = _Goal(
            port=port,
            target=target,
            threshold=np.minimum(gripper.threshold, _OF_THE_SPEED * speed),
            position=measured[0],
            velocity=measured[1],
            effort=measured[2],
            seen_ns=gripper.time_ns(state),
            approach=_Approach.begin(np.abs(target - measured[0]), time_ns),
            timer=FeedbackTimer(
                gripper.monitor_rate,
                time_ns + feedback_period_ns(gripper.monitor_rate),
                self._clock_period_ns,
            ),
        )
        self._motions[row] = _Motion(start=measured[0], target=target, speed=speed, begin_ns=time_ns)
        if not self._active[row]:
            self._end(row, "aborted")
            del self._motions[row]

    def cancel(self, row: int, port: GoalPort) -> None:
        """End the goal of `port` canceled and hold the gripper where it is; one that ended already is ignored."""
        goal = self._goals.get(row)
        if goal is not None and goal.port is port:
            self._end(row, "canceled")
            self._hold(row)

    # --- The tick ---------------------------------------------------------------------------------------------

    def command(self, time_ns: int, state: State, commands: Commands) -> None:
        """Write position targets."""
        for row in self._holds:
            rows = self._grippers[row].rows
            position = state.joint_position[rows]
            known = np.isfinite(position)
            commands.joint_position[rows[known]] = position[known]
        self._holds.clear()
        for row, motion in tuple(self._motions.items()):
            position, last = motion.at(time_ns)
            commands.joint_position[self._grippers[row].rows] = position
            if last:
                del self._motions[row]

    def observe(self, state: State) -> None:
        """Find out which goals are reached, and which joints have stalled; send feedback."""
        for row, goal in tuple(self._goals.items()):
            gripper = self._grippers[row]
            time_ns = gripper.time_ns(state)
            self._look(gripper, goal, state, time_ns)
            if (np.abs(goal.target - goal.position) < gripper.tolerance).all():
                self._end(row, "succeeded", reached_goal=True)
            elif goal.approach.has_stalled(time_ns, gripper.stall_ns):
                self._end(row, "succeeded" if gripper.allow_stalling else "aborted", stalled=True)
            if row in self._goals and goal.timer.is_due(time_ns):
                goal.timer.advance(time_ns)
                goal.port.feedback(_state_of(gripper, goal))

    def reset(self) -> None:
        """End all goals aborted and clear all commands; the backend clears its own, too."""
        for row in tuple(self._goals):
            self._end(row, "aborted")
        self._motions.clear()
        self._holds.clear()

    # --- Own --------------------------------------------------------------------------------------------------

    def _hold(self, row: int) -> None:
        self._motions.pop(row, None)
        self._holds.add(row)

    def _end(self, row: int, outcome: Outcome, *, stalled: bool = False, reached_goal: bool = False) -> None:
        goal = self._goals.pop(row, None)
        if goal is not None:
            state = _state_of(self._grippers[row], goal, stalled=stalled, reached_goal=reached_goal)
            goal.port.finish(outcome, state)

    @staticmethod
    def _look(gripper: _Gripper, goal: _Goal, state: State, time_ns: int) -> None:
        """Note what is measured."""
        before, seconds = goal.position, (time_ns - goal.seen_ns) * _SECONDS
        goal.position, goal.velocity, goal.effort = _measured(gripper, state)
        if seconds > 0.0 and np.isnan(goal.velocity).any():
            goal.velocity = np.where(
                np.isnan(goal.velocity), (goal.position - before) / seconds, goal.velocity
            )
        goal.seen_ns = time_ns
        goal.approach.observe(
            np.abs(goal.target - goal.position),
            np.abs(goal.velocity),
            is_full_effort(goal.effort, *gripper.full),
            goal.threshold,
            time_ns,
        )


def _make_grippers(plan: BridgePlan, controllers: Sequence[ControllerPlan]) -> tuple[_Gripper, ...]:
    least, most = full_efforts(plan)
    layout = plan.layout

    def made(controller: ControllerPlan) -> _Gripper:
        rows = np.array(controller.dofs, dtype=np.intp)
        beyond = controller.parameters.get("beyond_limits")
        return _Gripper(
            controller,
            PositionLimits(plan, controller.dofs, controller.joints, beyond),
            stroke=layout.upper[rows] - layout.lower[rows],
            full=(least[rows], most[rows]),
        )

    return tuple(map(made, controllers))


def _number(plan: ControllerPlan, name: str) -> float:
    value = plan.parameters.get(name)
    return _DEFAULTS[name] if value is None else float(value)


def _names_fault(names: Sequence[str], joints: Sequence[str]) -> str:
    """Return what is wrong with the names of a goal; none at all mean the joints in their order."""
    unknown = [name for name in names if name not in joints]
    if unknown:
        return f"{quoted(unknown[0])} is none of the gripper's joints; {alternatives(unknown[0], joints)}"
    if len(set(names)) != len(names):
        return "a joint is named twice"
    missing = [joint for joint in joints if joint not in names] if names else []
    return f"the joint {quoted(missing[0])} is missing" if missing else ""


def _in_order(goal: GripperGoal, joints: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Return targets and speeds (inf for no limit) in the order of the gripper's joints; one value is for all."""
    order = [goal.names.index(joint) for joint in joints] if goal.names else list(range(len(joints)))
    count = len(joints)
    target = np.broadcast_to(goal.position, count)[order].astype(np.float64)
    speed = np.full(count, np.inf)
    if len(goal.velocity):
        speed = np.broadcast_to(goal.velocity, count)[order].astype(np.float64)
        speed[speed == 0.0] = np.inf
    return target, speed


def _beyond(gripper: _Gripper, target: FloatArray) -> str:
    """Return which of the targets is beyond a limit, "" where none is."""
    found = gripper.limits.find(target[None, :])
    return "" if found is None else gripper.limits.describe(target[found[1]], found[1])


def _measured(gripper: _Gripper, state: State) -> tuple[FloatArray, FloatArray, FloatArray]:
    rows = gripper.rows
    return state.joint_position[rows], state.joint_velocity[rows], state.joint_effort[rows]


def _state_of(
    gripper: _Gripper, goal: _Goal, *, stalled: bool = False, reached_goal: bool = False
) -> GripperState:
    return GripperState(
        names=gripper.names,
        position=goal.position,
        velocity=goal.velocity,
        effort=goal.effort,
        stalled=stalled,
        reached_goal=reached_goal,
    )
