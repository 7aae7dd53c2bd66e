"""Joint trajectory controllers: goals and topics of trajectories to commands, with tolerances, feedback and results.

The behaviour is that of joint_trajectory_controller of ros2_controllers with position and velocity command and state
interfaces; RosControlJointTrajectoryAPI of ros-simulation/openusd-schemas. docs/controllers.md has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from usd_ros_bridge.controllers.limits import PositionLimits
from usd_ros_bridge.controllers.protocol import ControllerContext, GoalPort
from usd_ros_bridge.controllers.trajectory import BoolArray
from usd_ros_bridge.controllers.trajectory_follower import INVALID_GOAL, Follower, Request
from usd_ros_bridge.controllers.trajectory_points import Refusal, read_goal, read_trajectory
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.goals import FollowTrajectoryGoal, FollowTrajectoryResult, TrajectorySample
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import Commands, State


class JointTrajectoryControllers:
    """All joint trajectory controllers of a plan. Those that have nothing to do cost nothing."""

    dynamic: ClassVar[frozenset[str]] = frozenset({"stopped_velocity_tolerance", "timeout"})

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Makes a follower of each controller; those whose plan is enabled are active."""
        self._report = context.report
        wraps = _continuous(context.plan)
        self._followers = [
            Follower(
                plan,
                wraps[list(plan.dofs)],
                PositionLimits(context.plan, plan.dofs, plan.joints, plan.parameters.get("beyond_limits")),
                context,
            )
            for plan in plans
        ]
        self._active = [plan.enabled for plan in plans]
        self._busy: dict[int, Follower] = {}

    @property
    def busy(self) -> bool:
        """Whether a trajectory runs or is about to, or something has yet to be told to stand still."""
        return bool(self._busy)

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:  # noqa: ARG002
        """Switches a controller; either way its joints hold where they are."""
        if active == self._active[row]:
            return
        self._active[row] = active
        follower = self._followers[row]
        follower.abort("the controller was deactivated")
        if active or follower.busy:
            follower.hold()
            self._busy[row] = follower

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Changes the stopped velocity of goals to come, or the longest time of all, the one in progress included."""
        self._followers[row].set_parameter(name, value)

    def take(self, row: int, sample: object, *, time_ns: int) -> None:
        """Follows a JointTrajectory instead of what is followed now; a faulty one is reported and ignored."""
        follower = self._followers[row]
        try:
            if not isinstance(sample, TrajectorySample):
                raise Refusal(f"a {quoted(type(sample).__name__)} is no JointTrajectory")
            knots = read_trajectory(sample, follower.joints, time_ns=time_ns, limits=follower.limits)
        except Refusal as refusal:
            self._report(
                f"joint_trajectory.ignored:{follower.path}",
                f"{follower.path}: a trajectory was ignored: {refusal}",
            )
            return
        follower.begin(Request(knots=knots, stamp_ns=sample.stamp_ns, tolerances=follower.defaults))
        self._busy[row] = follower

    def check(self, row: int, goal: object, *, time_ns: int) -> str:
        """Returns why a goal is to be rejected, "" where it is acceptable. From any thread."""
        try:
            follower = self._followers[row]
            read_goal(goal, follower.joints, time_ns=time_ns, limits=follower.limits)
        except Refusal as refusal:
            return str(refusal)
        return ""

    def start(self, row: int, goal: object, port: GoalPort, *, time_ns: int, state: State) -> None:  # noqa: ARG002
        """Begins a goal that was checked, in the next `command`; what is followed now ends."""
        follower = self._followers[row]
        try:
            if not self._active[row]:
                raise Refusal("the controller is not active")
            knots = read_goal(goal, follower.joints, time_ns=None, limits=follower.limits)
        except Refusal as refusal:
            port.finish("aborted", FollowTrajectoryResult(error_code=INVALID_GOAL, error_string=str(refusal)))
            return
        assert isinstance(goal, FollowTrajectoryGoal)
        follower.begin(
            Request(
                knots=knots,
                stamp_ns=goal.trajectory.stamp_ns,
                tolerances=follower.tolerances_of(goal),
                port=port,
            )
        )
        self._busy[row] = follower

    def cancel(self, row: int, port: GoalPort) -> None:
        """Ends the goal of `port` canceled and holds the current position."""
        self._followers[row].cancel(port)

    def command(self, time_ns: int, state: State, commands: Commands) -> None:
        """Writes the positions and velocities of `time_ns`; holds what was told to."""
        busy = tuple(self._busy.items())
        # First those that only hold: joints may have gone over to another controller in this tick.
        for _, follower in busy:
            follower.command_hold(state, commands)
        for row, follower in busy:
            follower.command_motion(time_ns, state, commands)
            self._settle(row, follower)

    def observe(self, state: State) -> None:
        """Compares desired and actual states: feedback, tolerances, results."""
        for row, follower in tuple(self._busy.items()):
            follower.observe(state)
            self._settle(row, follower)

    def reset(self) -> None:
        """Ends all goals aborted and forgets all trajectories; nothing is commanded."""
        for row, follower in tuple(self._busy.items()):
            follower.reset()
            self._settle(row, follower)

    def _settle(self, row: int, follower: Follower) -> None:
        """Leaves a follower alone that has nothing more to do."""
        if not follower.busy:
            self._busy.pop(row, None)


def _continuous(plan: BridgePlan) -> BoolArray:
    """Returns which degrees of freedom a whole turn brings back, by their rows in the layout."""
    wraps = np.zeros(len(plan.layout.dofs), dtype=bool)
    for robot in plan.robots:
        for joint in robot.joints:
            if joint.type == "continuous":
                wraps[[dof.row for dof in joint.dofs]] = True
    return wraps
