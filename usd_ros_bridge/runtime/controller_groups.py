"""Runners of controller groups: report what a controller raises, end its goals, and go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import numpy as np

from usd_ros_bridge.backends.base import Report
from usd_ros_bridge.controllers.base import ControllerGroup, GoalGroup, GoalPort
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
from usd_ros_bridge.reporting import describe

_INVALID_GOAL = -1
"""control_msgs/action/FollowJointTrajectory: what joint_trajectory_controller says where it is deactivated, too."""

SWITCHED_OFF = "switched off"
"""Why a controller that somebody switched off is inactive."""


class TickContext:
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
        """Return whether anything was measured of a robot; -1 for none."""
        if self.state is None:
            return False
        times = self.state.robot_time_ns
        return times is None or robot < 0 or bool(times[robot] >= 0)


class ControllerSlot:
    """One controller.

    Attributes:
        plan: Its plan.
        runner: Its group.
        row: Its row in the group.
        active: Whether it commands.
        reason: Why not, "" where active.
        asked: Whether it is to be active, where the next tick has yet to switch it; None where it has not.
        values: Parameters that were changed.
    """

    __slots__ = ("active", "asked", "plan", "reason", "row", "runner", "values")

    def __init__(self, plan: ControllerPlan, runner: ControllerGroupRunner, row: int, reason: str) -> None:
        """Store its group and row, and why it is inactive."""
        self.plan = plan
        self.runner = runner
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
        """Give the group what arrived."""
        runner = self.runner
        runner.touched = True
        try:
            runner.group.take(self.row, sample, time_ns=runner.tick.time_ns)
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            runner.fail(error)

    def switch(self, active: bool, reason: str = "") -> None:
        """Switch the controller on or off; `reason` says why it is off."""
        self.active, self.reason = active, reason
        runner = self.runner
        runner.call(
            lambda: runner.group.set_active(
                self.row, active, time_ns=runner.tick.time_ns, state=runner.tick.state
            )
        )
        if not active:
            for run in runner.goals_of(self):
                run.end("aborted", f"controller {self.plan.path} is inactive: {reason}")


class ActiveGoal:
    """The port of one goal, as its group sees it: it ends once, and what the client's side raises stays here."""

    __slots__ = ("_done", "_goal", "_port", "slot")

    def __init__(self, slot: ControllerSlot, goal: object, port: GoalPort) -> None:
        """Store the controller, the goal and the port to its client."""
        self.slot = slot
        self._goal = goal
        self._port = port
        self._done = False

    @property
    def key(self) -> int:
        """Return the identity of the port, whatever it compares equal to."""
        return id(self._port)

    def feedback(self, feedback: object) -> None:
        """Pass feedback on."""
        if self._done:
            return
        try:
            self._port.feedback(feedback)
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.slot.runner.report(
                f"goal.error:{self.slot.plan.path}", f"feedback of a goal failed: {describe(error)}"
            )

    def finish(self, outcome: Outcome, result: object) -> None:
        """End the goal; any but the first call is ignored."""
        if self._done:
            return
        self._done = True
        self.slot.runner.active_goals.pop(self.key, None)
        try:
            self._port.finish(outcome, result)
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.slot.runner.report(
                f"goal.error:{self.slot.plan.path}", f"ending a goal failed: {describe(error)}"
            )

    def end(self, outcome: Outcome, why: str) -> None:
        """End the goal for a reason that its controller does not know of."""
        if not self._done:
            self.finish(outcome, unmet(self._goal, why, self.slot.plan, self.slot.runner.tick.state))


class ControllerGroupRunner:
    """One group.

    Attributes:
        schema: Of its controllers.
        group: The group.
        tick: The tick in progress.
        report: For what it raises.
        slots: Its controllers, by row.
        active_goals: Goals in progress, by `Run.key`.
        busy: Whether it needs the next tick; as of the end of the last one.
        touched: Whether something reached it since it commanded last.
    """

    def __init__(
        self, made: MadeGroup, tick: TickContext, report: Report, inactive: Callable[[ControllerPlan], str]
    ) -> None:
        """Make a slot of each controller. `inactive` returns why one is inactive, "" for active."""
        self.schema = made.schema
        self.group: ControllerGroup = made.group
        self.goals: GoalGroup | None = made.group if isinstance(made.group, GoalGroup) else None
        self.tick = tick
        self.report = report
        self.slots = [ControllerSlot(plan, self, row, inactive(plan)) for row, plan in enumerate(made.plans)]
        self.active_goals: dict[int, ActiveGoal] = {}
        self.busy = False
        self.touched = False

    def call(self, act: Callable[[], None]) -> None:
        """Call `act`, which changes the group; it commands in this tick."""
        self.touched = True
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.fail(error)

    def update_busy(self) -> bool:
        """Note and return whether the group is busy."""
        try:
            self.busy = self.group.busy
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.busy = False
            self.fail(error)
        return self.busy

    def begin(self, run: ActiveGoal, goal: object) -> None:
        """Begin a goal of an active controller; there is a state."""
        goals, state = self.goals, self.tick.state
        assert goals is not None
        assert state is not None
        self.active_goals[run.key] = run
        self.call(lambda: goals.start(run.slot.row, goal, run, time_ns=self.tick.time_ns, state=state))

    def cancel(self, run: ActiveGoal) -> None:
        """Cancel a goal in progress."""
        goals = self.goals
        assert goals is not None
        self.call(lambda: goals.cancel(run.slot.row, run))

    def goals_of(self, slot: ControllerSlot) -> tuple[ActiveGoal, ...]:
        """Return the goals of one controller that are in progress."""
        return tuple(run for run in self.active_goals.values() if run.slot is slot)

    def fail(self, error: Exception) -> None:
        """Report what the group raised; its goals end aborted, and their controllers start over."""
        text = describe(error)
        self.report(f"controller.error:{self.schema}", f"controllers of {self.schema} failed: {text}")
        runs = tuple(self.active_goals.values())
        self.end_all(f"the controller failed: {text}")
        for slot in {run.slot for run in runs}:
            self._restart(slot)

    def end_all(self, why: str) -> None:
        """End all goals aborted."""
        for run in tuple(self.active_goals.values()):
            run.end("aborted", why)

    def _restart(self, slot: ControllerSlot) -> None:
        tick = self.tick
        for active in (False, True) if slot.active else (False,):
            # Reported already: the group that fails here has just failed.
            with suppress(Exception):
                self.group.set_active(slot.row, active, time_ns=tick.time_ns, state=tick.state)


def unmet(goal: object, why: str, plan: ControllerPlan, state: State | None) -> object:
    """Return the result of a goal that ends for a reason that its controller does not know of.

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


def any_active(slots: Iterable[ControllerSlot]) -> bool:
    """Return whether any of some controllers is active."""
    return any(slot.active for slot in slots)
