"""One joint trajectory controller: what it follows now, what it compares, and what it tells the client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from usd_ros_bridge.controllers.feedback_timer import FeedbackTimer
from usd_ros_bridge.controllers.limits import PositionLimits
from usd_ros_bridge.controllers.protocol import ControllerContext, GoalPort
from usd_ros_bridge.controllers.tolerances import (
    DEFAULT_STOPPED_VELOCITY,
    Tolerances,
    default_tolerances,
    resolve_tolerances,
    violation,
)
from usd_ros_bridge.controllers.trajectory import BoolArray, Knots, wrapped
from usd_ros_bridge.controllers.trajectory_motion import Motion, Start, plan_motion
from usd_ros_bridge.controllers.trajectory_points import BOUND
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.goals import (
    FollowTrajectoryFeedback,
    FollowTrajectoryGoal,
    FollowTrajectoryResult,
    Outcome,
)
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import Commands, FloatArray, State

SUCCESSFUL = 0
INVALID_GOAL = -1
PATH_TOLERANCE_VIOLATED = -4
GOAL_TOLERANCE_VIOLATED = -5
"""Error codes of control_msgs/action/FollowJointTrajectory."""

DEFAULT_MONITOR_RATE = 20.0
"""Hz (joint_trajectory_controller)."""

_LONGEST = 1e9
"""s. A time-out beyond this is none."""

_SECOND_NS = 1_000_000_000

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
        port: Whom to tell, None for a trajectory that came on the topic.
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
    """Follows one trajectory at a time with the joints of one controller.

    Attributes:
        path: Prim path of the controller.
        joints: J joint names.
        limits: Of their positions.
        defaults: Tolerances of those who do not ask for their own.
    """

    def __init__(
        self, plan: ControllerPlan, wraps: BoolArray, limits: PositionLimits, context: ControllerContext
    ) -> None:
        """Reads a plan.

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
        """Whether there is anything to command or to compare."""
        return self._holding or self._request is not None or self._course is not None

    def set_parameter(self, name: str, value: float) -> None:
        """Changes a parameter by its name in ControllerPlan."""
        if name == "timeout":
            self._timeout_ns = int(value * _SECOND_NS) if 0.0 < value < _LONGEST else None
        elif name == "stopped_velocity_tolerance":
            self.defaults = default_tolerances(len(self.joints), value)

    def tolerances_of(self, goal: FollowTrajectoryGoal) -> Tolerances:
        """Returns a goal's tolerances; illegal ones are reported and the defaults hold."""
        tolerances, fault = resolve_tolerances(self.defaults, goal, self.joints)
        if fault:
            self._report(
                f"joint_trajectory.tolerances:{self.path}",
                f"{self.path}: a goal is followed with the default tolerances: {fault}",
            )
        return tolerances

    # --- What is followed -------------------------------------------------------------------------------------

    def begin(self, request: Request) -> None:
        """Follows a request from the next command on; what was followed ends preempted."""
        preempted = self._current
        if request.knots.clamped:
            self._report(
                f"joint_trajectory.clamped:{self.path}", f"{self.path}: clamped: {request.knots.clamped}"
            )
        self._request, self._course, self._holding = request, None, False
        _tell(preempted, "aborted", INVALID_GOAL, "preempted by a new trajectory")

    def cancel(self, port: GoalPort) -> None:
        """Ends the goal of `port` canceled and holds, if it is in progress."""
        if self._current is not None and self._current.port is port:
            self._end("canceled", SUCCESSFUL, "canceled; the current position is held", hold=True)

    def abort(self, reason: str) -> None:
        """Ends what is followed, a goal as invalid, and holds."""
        if self._current is not None:
            self._end("aborted", INVALID_GOAL, reason, hold=True)

    def hold(self) -> None:
        """Holds the current position from the next command on."""
        self._holding = True

    def reset(self) -> None:
        """Ends what is followed, a goal as invalid, and commands nothing more."""
        self.abort("everything starts over")
        self._holding = self._pushes = False
        self._moved_ns = None

    @property
    def _current(self) -> Request | None:
        return self._request if self._course is None else self._course.request

    def _end(self, outcome: Outcome, code: int, text: str, *, hold: bool) -> None:
        """Ends what is followed and tells the client, last: what it does in answer must find the controller free."""
        request = self._current
        self._request = self._course = None
        self._holding = hold
        _tell(request, outcome, code, text)

    def _fail(self, code: int, reason: str) -> None:
        """Ends what is followed because it went wrong; nobody else would say so of a trajectory from the topic."""
        request = self._current
        if request is not None and request.port is None:
            self._report(
                f"joint_trajectory.held:{self.path}",
                f"{self.path}: a trajectory ended, the position is held: {reason}",
            )
        self._end("aborted", code, reason, hold=True)

    # --- Commands ---------------------------------------------------------------------------------------------

    def command_hold(self, state: State, commands: Commands) -> None:
        """Tells joints to stay where they are, once: a command holds. Where that is unknown, they only stop."""
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
        """Writes the desired position and velocity (and effort, where the client gave any) at a time."""
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
        """Takes back the effort of a trajectory that had some."""
        self._pushes = False
        commands.joint_effort[self._rows] = 0.0

    def _depart(self, request: Request, time_ns: int, state: State) -> None:
        """Begins a motion in the state that there is."""
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
        """Sends feedback if it is due, and ends what has gone wrong or is done."""
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
        """Ends a course that left its path, is at its goal, or takes too long."""
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
                    f"goal tolerance violated {late_ns / _SECOND_NS:.6g} s after the last point: {missed}",
                )
                return
        self._look_at_time(course, time_ns, missed)

    def _look_at_time(self, course: _Course, time_ns: int, missed: str = "") -> None:
        """Ends a course that takes longer than any may."""
        took_ns = time_ns - max(course.begun_ns, course.motion.start_ns)
        if self._timeout_ns is not None and took_ns > self._timeout_ns:
            self._fail(
                GOAL_TOLERANCE_VIOLATED,
                f"timeout: the goal was not reached within {self._timeout_ns / _SECOND_NS:.6g} s"
                + (f": {missed}" if missed else ""),
            )

    def _unknown(self, position: FloatArray, state: State) -> str:
        """Returns which joint's position is not known, "" where all are."""
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
    """Ends the goal of a request, where it is one."""
    if request is not None and request.port is not None:
        if request.knots.clamped:
            text = f"{text}; clamped: {request.knots.clamped}"
        request.port.finish(outcome, FollowTrajectoryResult(error_code=code, error_string=text))
