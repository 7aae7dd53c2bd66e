"""Groups of controllers at the runtime's edge: what one raises is reported, ends its goals and stops nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import numpy as np

from usd_ros_bridge.backends.protocol import Report
from usd_ros_bridge.controllers.protocol import ControllerGroup, GoalGroup, GoalPort
from usd_ros_bridge.controllers.registry import MadeGroup
from usd_ros_bridge.model.goals import (
    FollowTrajectoryGoal,
    FollowTrajectoryResult,
    GripperGoal,
    GripperState,
    Outcome,
)
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.runtime.report import describe

_INVALID_GOAL = -1
"""control_msgs/action/FollowJointTrajectory: what joint_trajectory_controller says where it is deactivated, too."""

SWITCHED_OFF = "switched off"
"""Why a controller that somebody switched off is inactive."""


class Moment:
    """What the tick in progress is about.

    Attributes:
        time_ns: Bridge time, nanoseconds; 0 before the first tick.
        state: What the last step left; None before the first.
    """

    __slots__ = ("state", "time_ns")

    def __init__(self) -> None:
        """No tick yet."""
        self.time_ns = 0
        self.state: State | None = None

    def knows(self, robot: int) -> bool:
        """Returns whether anything was measured of a robot; -1 for none."""
        if self.state is None:
            return False
        times = self.state.robot_time_ns
        return times is None or robot < 0 or bool(times[robot] >= 0)


class Member:
    """One controller.

    Attributes:
        plan: Its plan.
        host: Its group.
        row: Its row in the group.
        active: Whether it commands.
        reason: Why not, "" where active.
        asked: Whether it is to be active, where the next tick has yet to switch it; None where it has not.
        values: Parameters that were changed.
    """

    __slots__ = ("active", "asked", "host", "plan", "reason", "row", "values")

    def __init__(self, plan: ControllerPlan, host: Host, row: int, reason: str) -> None:
        """Takes where it belongs, and why it is inactive."""
        self.plan = plan
        self.host = host
        self.row = row
        self.active = not reason
        self.reason = reason
        self.asked: bool | None = None
        self.values: dict[str, float] = {}

    @property
    def takes_goals(self) -> bool:
        """Return whether it is active once all that was asked for is done. From any thread."""
        return self.active if self.asked is None else self.asked

    def take(self, sample: object) -> None:
        """Gives the group what arrived."""
        host = self.host
        host.touched = True
        try:
            host.group.take(self.row, sample, time_ns=host.moment.time_ns)
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            host.fail(error)

    def switch(self, active: bool, reason: str = "") -> None:
        """Switches the controller on or off; `reason` says why it is off."""
        self.active, self.reason = active, reason
        host = self.host
        host.call(
            lambda: host.group.set_active(
                self.row, active, time_ns=host.moment.time_ns, state=host.moment.state
            )
        )
        if not active:
            for run in host.runs_of(self):
                run.end("aborted", f"controller {self.plan.path} is inactive: {reason}")


class Run:
    """The port of one goal, as its group sees it: it ends once, and what the client's side raises stays here."""

    __slots__ = ("_done", "_goal", "_port", "member")

    def __init__(self, member: Member, goal: object, port: GoalPort) -> None:
        """Takes whose goal it is."""
        self.member = member
        self._goal = goal
        self._port = port
        self._done = False

    @property
    def key(self) -> int:
        """Tells ports apart, whatever they compare equal to."""
        return id(self._port)

    def feedback(self, feedback: object) -> None:
        """Passes feedback on."""
        if self._done:
            return
        try:
            self._port.feedback(feedback)
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.member.host.report(
                f"goal.error:{self.member.plan.path}", f"feedback of a goal failed: {describe(error)}"
            )

    def finish(self, outcome: Outcome, result: object) -> None:
        """Ends the goal; any but the first call is ignored."""
        if self._done:
            return
        self._done = True
        self.member.host.runs.pop(self.key, None)
        try:
            self._port.finish(outcome, result)
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.member.host.report(
                f"goal.error:{self.member.plan.path}", f"ending a goal failed: {describe(error)}"
            )

    def end(self, outcome: Outcome, why: str) -> None:
        """Ends the goal for a reason that its controller does not know of."""
        if not self._done:
            self.finish(outcome, unmet(self._goal, why, self.member.plan, self.member.host.moment.state))


class Host:
    """One group.

    Attributes:
        schema: Of its controllers.
        group: The group.
        moment: The tick in progress.
        report: For what it raises.
        members: Its controllers, by row.
        runs: Goals in progress, by `Run.key`.
        busy: Whether it needs the next tick; as of the end of the last one.
        touched: Whether something reached it since it commanded last.
    """

    def __init__(
        self, made: MadeGroup, moment: Moment, report: Report, inactive: Callable[[ControllerPlan], str]
    ) -> None:
        """Takes a group; `inactive` says why a controller is, "" for active."""
        self.schema = made.schema
        self.group: ControllerGroup = made.group
        self.goals: GoalGroup | None = made.group if isinstance(made.group, GoalGroup) else None
        self.moment = moment
        self.report = report
        self.members = [Member(plan, self, row, inactive(plan)) for row, plan in enumerate(made.plans)]
        self.runs: dict[int, Run] = {}
        self.busy = False
        self.touched = False

    def call(self, act: Callable[[], None]) -> None:
        """Has something done to the group; it commands in this tick."""
        self.touched = True
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.fail(error)

    def look(self) -> bool:
        """Returns and notes whether the group is busy."""
        try:
            self.busy = self.group.busy
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.busy = False
            self.fail(error)
        return self.busy

    def begin(self, run: Run, goal: object) -> None:
        """Begins a goal of an active controller; there is a state."""
        goals, state = self.goals, self.moment.state
        assert goals is not None
        assert state is not None
        self.runs[run.key] = run
        self.call(lambda: goals.start(run.member.row, goal, run, time_ns=self.moment.time_ns, state=state))

    def cancel(self, run: Run) -> None:
        """Has a goal in progress canceled."""
        goals = self.goals
        assert goals is not None
        self.call(lambda: goals.cancel(run.member.row, run))

    def runs_of(self, member: Member) -> tuple[Run, ...]:
        """Returns the goals of one controller that are in progress."""
        return tuple(run for run in self.runs.values() if run.member is member)

    def fail(self, error: Exception) -> None:
        """Reports what the group raised; its goals end aborted, and their controllers start over."""
        text = describe(error)
        self.report(f"controller.error:{self.schema}", f"controllers of {self.schema} failed: {text}")
        runs = tuple(self.runs.values())
        self.end_all(f"the controller failed: {text}")
        for member in {run.member for run in runs}:
            self._restart(member)

    def end_all(self, why: str) -> None:
        """Ends all goals aborted."""
        for run in tuple(self.runs.values()):
            run.end("aborted", why)

    def _restart(self, member: Member) -> None:
        moment = self.moment
        for active in (False, True) if member.active else (False,):
            # Reported already: the group that fails here has just failed.
            with suppress(Exception):
                self.group.set_active(member.row, active, time_ns=moment.time_ns, state=moment.state)


def unmet(goal: object, why: str, plan: ControllerPlan, state: State | None) -> object:
    """Returns the result of a goal that ends for a reason that its controller does not know of.

    Args:
        goal: What was asked for; its type decides the type of the result.
        why: For people.
        plan: Of the controller.
        state: The last one.
    """
    if isinstance(goal, FollowTrajectoryGoal):
        return FollowTrajectoryResult(error_code=_INVALID_GOAL, error_string=why)
    if isinstance(goal, GripperGoal):
        rows = list(plan.dofs)
        unknown = np.full(len(rows), np.nan)
        return GripperState(
            names=plan.joints,
            position=unknown if state is None else state.joint_position[rows],
            velocity=unknown if state is None else state.joint_velocity[rows],
            effort=unknown if state is None else state.joint_effort[rows],
            stalled=False,
            reached_goal=False,
        )
    return None


def any_active(members: Iterable[Member]) -> bool:
    """Returns whether any of some controllers is active."""
    return any(member.active for member in members)
