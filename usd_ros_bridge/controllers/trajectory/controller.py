"""Joint trajectory controllers: goals and topics of trajectories to commands, with tolerances, feedback and results.

The behaviour is that of joint_trajectory_controller of ros2_controllers with position and velocity command and state
interfaces; RosControlJointTrajectoryAPI of ros-simulation/openusd-schemas. docs/reference/controllers.md has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from usd_ros_bridge.controllers.controller_group import ControllerContext, FeedbackTimer, GoalPort
from usd_ros_bridge.controllers.joint_commands import BOUND, PositionLimits
from usd_ros_bridge.controllers.trajectory.goal import (
    DEFAULT_STOPPED_VELOCITY,
    Refusal,
    Tolerances,
    default_tolerances,
    read_goal,
    read_trajectory,
    resolve_tolerances,
    violation,
)
from usd_ros_bridge.controllers.trajectory.spline import BoolArray, Knots, Motion, Start, plan_motion, wrapped
from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.goals import (
    FollowTrajectoryFeedback,
    FollowTrajectoryGoal,
    FollowTrajectoryResult,
    Outcome,
    TrajectorySample,
)
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.transforms import FloatArray


class JointTrajectoryControllers:
    """All joint trajectory controllers of a plan. Those that have nothing to do cost nothing."""

    dynamic: ClassVar[frozenset[str]] = frozenset({"stopped_velocity_tolerance", "timeout"})
    observes_at_rest: ClassVar[bool] = False

    def __init__(self, context: ControllerContext, plans: Sequence[ControllerPlan]) -> None:
        """Make a follower of each controller; those whose plan is enabled are active."""
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
        """Return whether a trajectory runs or is about to, or joints have yet to be held."""
        return bool(self._busy)

    def set_active(self, row: int, active: bool, *, time_ns: int, state: State | None) -> None:  # noqa: ARG002
        """Switch a controller; either way its joints hold where they are."""
        if active == self._active[row]:
            return
        self._active[row] = active
        follower = self._followers[row]
        follower.abort("the controller was deactivated")
        if active or follower.busy:
            follower.hold()
            self._busy[row] = follower

    def set_parameter(self, row: int, name: str, value: float) -> None:
        """Change the stopped velocity of goals to come, or the longest time of all, the one in progress included."""
        self._followers[row].set_parameter(name, value)

    def receive(self, row: int, sample: object, *, time_ns: int) -> None:
        """Follow a JointTrajectory instead of what is followed now; a faulty one is reported and ignored."""
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
        """Return why a goal is to be rejected, "" where it is acceptable. From any thread."""
        try:
            follower = self._followers[row]
            read_goal(goal, follower.joints, time_ns=time_ns, limits=follower.limits)
        except Refusal as refusal:
            return str(refusal)
        return ""

    def start(self, row: int, goal: object, port: GoalPort, *, time_ns: int, state: State) -> None:  # noqa: ARG002
        """Begin a goal that was checked, in the next `command`; what is followed now ends."""
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
        """End the goal of `port` canceled and hold the current position."""
        self._followers[row].cancel(port)

    def command(self, time_ns: int, state: State, commands: Commands) -> None:
        """Write the positions and velocities of `time_ns`. Hold joints that were commanded to hold."""
        busy = tuple(self._busy.items())
        # First those that only hold: joints may have gone over to another controller in this tick.
        for _, follower in busy:
            follower.command_hold(state, commands)
        for row, follower in busy:
            follower.command_motion(time_ns, state, commands)
            self._settle(row, follower)

    def observe(self, state: State) -> None:
        """Compare desired and actual states: feedback, tolerances, results."""
        for row, follower in tuple(self._busy.items()):
            follower.observe(state)
            self._settle(row, follower)

    def reset(self) -> None:
        """End all goals aborted and forget all trajectories; nothing is commanded."""
        for row, follower in tuple(self._busy.items()):
            follower.reset()
            self._settle(row, follower)

    def _settle(self, row: int, follower: Follower) -> None:
        """Leave a follower alone that has nothing more to do."""
        if not follower.busy:
            self._busy.pop(row, None)


def _continuous(plan: BridgePlan) -> BoolArray:
    """Return which degrees of freedom a whole turn brings back, by their rows in the layout."""
    wraps = np.zeros(len(plan.layout.dofs), dtype=bool)
    for robot in plan.robots:
        for joint in robot.joints:
            if joint.type == "continuous":
                wraps[[dof.row for dof in joint.dofs]] = True
    return wraps


SUCCESSFUL = 0
INVALID_GOAL = -1
PATH_TOLERANCE_VIOLATED = -4
GOAL_TOLERANCE_VIOLATED = -5
"""Error codes of control_msgs/action/FollowJointTrajectory."""

DEFAULT_MONITOR_RATE = 20.0
"""Hz (joint_trajectory_controller)."""

_LONGEST = 1e9
"""s. A time-out beyond this is none."""


_SURELY_KNOWN = BOUND
"""A sum of squares up to this has neither NaN in it nor anything beyond BOUND: one look instead of three."""

_States = tuple[FloatArray, FloatArray, FloatArray]
"""Desired, actual and error, (3, J) each: position, velocity, acceleration."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """A trajectory to follow, checked.

    Attributes:
        knots: Its points.
        stamp_ns: When it starts, 0 for now.
        tolerances: What it must keep to.
        port: Port of the goal; None for a trajectory of the topic.
    """

    knots: Knots
    stamp_ns: int
    tolerances: Tolerances
    port: GoalPort | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Course:
    """A request under way.

    Attributes:
        request: What is followed.
        motion: Desired states on bridge time.
        begun_ns: Time of the first command.
        timer: When feedback is due.
        seen: Whether a state was compared yet.
    """

    request: Request
    motion: Motion
    begun_ns: int
    timer: FeedbackTimer
    seen: bool = False


class Follower:
    """Follow one trajectory at a time with the joints of one controller.

    Attributes:
        path: Prim path of the controller.
        joints: J joint names.
        limits: Of their positions.
        defaults: Tolerances of those who do not ask for their own.
    """

    def __init__(
        self, plan: ControllerPlan, wraps: BoolArray, limits: PositionLimits, context: ControllerContext
    ) -> None:
        """Read a plan.

        Args:
            plan: The controller.
            wraps: (J,) joints that a turn brings back.
            limits: Of the joints' positions.
            context: What its group is made with.
        """
        self.path = plan.path
        self.joints = plan.joints
        self.limits = limits
        self._report = context.report
        self._wraps = wraps
        self._any_wraps = bool(wraps.any())
        self._rows = np.array(plan.dofs, dtype=np.intp)
        self._robot = plan.robot
        self._monitor_rate = plan.parameters.get("action_monitor_rate") or DEFAULT_MONITOR_RATE
        self._clock_period_ns = context.clock_period_ns
        self._timeout_ns: int | None = None
        self._request: Request | None = None
        self._course: _Course | None = None
        self._holding = False
        self._pushes = False
        self._moved_ns: int | None = None
        for name, default in (("stopped_velocity_tolerance", DEFAULT_STOPPED_VELOCITY), ("timeout", 0.0)):
            value = plan.parameters.get(name)
            self.set_parameter(name, default if value is None else value)

    @property
    def busy(self) -> bool:
        """Return whether there is anything to command or to compare."""
        return self._holding or self._request is not None or self._course is not None

    def set_parameter(self, name: str, value: float) -> None:
        """Change a parameter by its name in ControllerPlan."""
        if name == "timeout":
            self._timeout_ns = int(value * SECOND_NS) if 0.0 < value < _LONGEST else None
        elif name == "stopped_velocity_tolerance":
            self.defaults = default_tolerances(len(self.joints), value)

    def tolerances_of(self, goal: FollowTrajectoryGoal) -> Tolerances:
        """Return a goal's tolerances; illegal ones are reported and the defaults hold."""
        tolerances, fault = resolve_tolerances(self.defaults, goal, self.joints)
        if fault:
            self._report(
                f"joint_trajectory.tolerances:{self.path}",
                f"{self.path}: a goal is followed with the default tolerances: {fault}",
            )
        return tolerances

    # --- What is followed -------------------------------------------------------------------------------------

    def begin(self, request: Request) -> None:
        """Follow a request from the next command on; what was followed ends preempted."""
        preempted = self._current
        if request.knots.clamped:
            self._report(
                f"joint_trajectory.clamped:{self.path}", f"{self.path}: clamped: {request.knots.clamped}"
            )
        self._request, self._course, self._holding = request, None, False
        _tell(preempted, "aborted", INVALID_GOAL, "preempted by a new trajectory")

    def cancel(self, port: GoalPort) -> None:
        """End the goal of `port` canceled and hold, if it is in progress."""
        if self._current is not None and self._current.port is port:
            self._end("canceled", SUCCESSFUL, "canceled; the current position is held", hold=True)

    def abort(self, reason: str) -> None:
        """End what is followed, a goal as invalid, and hold."""
        if self._current is not None:
            self._end("aborted", INVALID_GOAL, reason, hold=True)

    def hold(self) -> None:
        """Hold the current position from the next command on."""
        self._holding = True

    def reset(self) -> None:
        """End what is followed, a goal as invalid, and command nothing more."""
        self.abort("everything starts over")
        self._holding = self._pushes = False
        self._moved_ns = None

    @property
    def _current(self) -> Request | None:
        return self._request if self._course is None else self._course.request

    def _end(self, outcome: Outcome, code: int, text: str, *, hold: bool) -> None:
        """End what is followed and notify the client, last: what it does in answer must find the controller free."""
        request = self._current
        self._request = self._course = None
        self._holding = hold
        _tell(request, outcome, code, text)

    def _fail(self, code: int, reason: str) -> None:
        """End what is followed because it went wrong; nobody else would say so of a trajectory from the topic."""
        request = self._current
        if request is not None and request.port is None:
            self._report(
                f"joint_trajectory.held:{self.path}",
                f"{self.path}: a trajectory ended, the position is held: {reason}",
            )
        self._end("aborted", code, reason, hold=True)

    # --- Commands ---------------------------------------------------------------------------------------------

    def command_hold(self, state: State, commands: Commands) -> None:
        """Command the joints to hold their positions, once. Where these are unknown, only stop them."""
        if not self._holding:
            return
        self._holding = False
        self._moved_ns = None
        position = state.joint_position[self._rows]
        commands.joint_position[self._rows] = np.where(np.abs(position) <= BOUND, position, np.nan)
        commands.joint_velocity[self._rows] = 0.0
        if self._pushes:
            self._release(commands)

    def command_motion(self, time_ns: int, state: State, commands: Commands) -> None:
        """Write the desired position and velocity (and effort, where the client gave any) at a time."""
        if self._request is not None:
            self._depart(self._request, time_ns, state)
            self.command_hold(state, commands)
        course = self._course
        if course is None:
            return
        self._moved_ns = time_ns
        desired = course.motion.spline.sample(time_ns)
        commands.joint_position[self._rows] = desired[0]
        commands.joint_velocity[self._rows] = desired[1]
        effort = course.motion.spline.effort(time_ns)
        if effort is not None:
            commands.joint_effort[self._rows] = effort
            self._pushes = True
        elif self._pushes:
            self._release(commands)

    def _release(self, commands: Commands) -> None:
        """Clear the effort of a trajectory that had some."""
        self._pushes = False
        commands.joint_effort[self._rows] = 0.0

    def _depart(self, request: Request, time_ns: int, state: State) -> None:
        """Begin a motion in the state that there is."""
        position = state.joint_position[self._rows]
        unknown = self._unknown(position, state)
        if unknown:
            self._fail(INVALID_GOAL, unknown)
            return
        velocity = state.joint_velocity[self._rows]
        # A robot that is on its way goes on from where it is seen; at rest there is nothing to catch up with.
        moving = self._moved_ns == state.time_ns
        start = Start(
            now_ns=time_ns,
            anchor_ns=min(state.time_ns, time_ns) if moving else time_ns,
            position=position,
            velocity=np.where(np.abs(velocity) <= BOUND, velocity, 0.0),
        )
        motion = plan_motion(request.knots, request.stamp_ns, start, self._wraps)
        timer = FeedbackTimer(self._monitor_rate, time_ns, self._clock_period_ns)
        self._course = _Course(request=request, motion=motion, begun_ns=time_ns, timer=timer)
        self._request = None

    # --- Observations -----------------------------------------------------------------------------------------

    def observe(self, state: State) -> None:
        """Send feedback if it is due, and end what has gone wrong or is done."""
        course = self._course
        if course is None:
            return
        position = state.joint_position[self._rows]
        unknown = self._unknown(position, state)
        if unknown:
            self._fail(PATH_TOLERANCE_VIOLATED, unknown)
            return
        time_ns, port = state.time_ns, course.request.port
        feeds = port is not None and course.timer.is_due(time_ns)
        judges = course.request.tolerances.checks_path or time_ns >= course.motion.spline.end_ns
        if not (feeds or judges):
            # Most ticks of most trajectories: nobody asks how far off it is.
            self._look_at_time(course, time_ns)
            return
        states = self._compare(course, position, state)
        if port is not None and feeds:
            self._feed_back(course, port, time_ns, states)
        if judges:
            self._judge(course, time_ns, states[2])
        else:
            self._look_at_time(course, time_ns)

    def _compare(self, course: _Course, position: FloatArray, state: State) -> _States:
        desired = course.motion.spline.sample(state.time_ns)
        actual = np.full((3, len(self.joints)), np.nan)
        actual[0] = position
        actual[1] = state.joint_velocity[self._rows]
        error = desired - actual
        if self._any_wraps:
            error[0] = wrapped(error[0], self._wraps)
        return desired, actual, error

    def _feed_back(self, course: _Course, port: GoalPort, time_ns: int, states: _States) -> None:
        course.timer.advance(time_ns)
        desired, actual, error = states
        port.feedback(
            FollowTrajectoryFeedback(
                stamp_ns=time_ns,
                joint_names=self.joints,
                desired=desired,
                actual=actual,
                error=error,
                index=course.motion.point_in_use(time_ns),
                time_from_start_ns=time_ns - course.motion.start_ns,
            )
        )

    def _judge(self, course: _Course, time_ns: int, error: FloatArray) -> None:
        """End a course that left its path, is at its goal, or takes too long."""
        tolerances, first = course.request.tolerances, not course.seen
        course.seen = True
        late_ns = time_ns - course.motion.spline.end_ns
        if tolerances.checks_path and (late_ns < 0 or first):
            left = violation(error, tolerances.path, self.joints)
            if left:
                self._fail(PATH_TOLERANCE_VIOLATED, f"path tolerance violated: {left}")
                return
        missed = ""
        if late_ns >= 0:
            if course.request.port is not None:
                missed = violation(error, tolerances.goal, self.joints)
            if not missed:
                self._moved_ns = None
                self._end("succeeded", SUCCESSFUL, "goal reached", hold=False)
                return
            if tolerances.goal_time_ns is not None and late_ns > tolerances.goal_time_ns:
                self._fail(
                    GOAL_TOLERANCE_VIOLATED,
                    f"goal tolerance violated {late_ns / SECOND_NS:.6g} s after the last point: {missed}",
                )
                return
        self._look_at_time(course, time_ns, missed)

    def _look_at_time(self, course: _Course, time_ns: int, missed: str = "") -> None:
        """End a course that takes longer than any may."""
        took_ns = time_ns - max(course.begun_ns, course.motion.start_ns)
        if self._timeout_ns is not None and took_ns > self._timeout_ns:
            self._fail(
                GOAL_TOLERANCE_VIOLATED,
                f"timeout: the goal was not reached within {self._timeout_ns / SECOND_NS:.6g} s"
                + (f": {missed}" if missed else ""),
            )

    def _unknown(self, position: FloatArray, state: State) -> str:
        """Return which joint's position is not known, "" where all are."""
        if state.robot_time_ns is not None and self._robot >= 0 and state.robot_time_ns[self._robot] < 0:
            return "the robot's state is not known"
        if position.dot(position) <= _SURELY_KNOWN:
            return ""
        known = np.abs(position) <= BOUND
        if known.all():
            return ""
        joint = int(np.argmin(known))
        return f"the position of joint {quoted(self.joints[joint])} is {position[joint]:g}, not known"


def _tell(request: Request | None, outcome: Outcome, code: int, text: str) -> None:
    """End the goal of a request, where it is one."""
    if request is not None and request.port is not None:
        if request.knots.clamped:
            text = f"{text}; clamped: {request.knots.clamped}"
        request.port.finish(outcome, FollowTrajectoryResult(error_code=code, error_string=text))
