"""Runners of controller groups, and goal queues: report what a controller raises, end its goals, and continue."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.controllers.controller_group import ControllerGroup, GoalGroup, GoalPort, MadeGroup
from usd_ros_bridge.model.goals import (
    FollowTrajectoryGoal,
    FollowTrajectoryResult,
    GripperGoal,
    GripperState,
    Outcome,
)
from usd_ros_bridge.model.plan import ControllerPlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.runtime.inbox import Inbox

_INVALID_GOAL = -1
"""control_msgs/action/FollowJointTrajectory: what joint_trajectory_controller says where it is deactivated, too."""

SWITCHED_OFF = "switched off"
"""Why a controller that somebody switched off is inactive."""

ASSET_CHANGED = "the asset has changed"
"""Why goals end, and controllers stop, that the next plan does not go on with."""

MOST_WAITING = 100
"""Goals and cancels of an action that wait for a tick: in a pause none comes."""


class TickContext:
    """Time and state of the tick in progress.

    Attributes:
        time_ns: Bridge time, nanoseconds; 0 before the first tick.
        state: What the last step left; None before the first.
    """

    __slots__ = ("state", "time_ns")

    def __init__(self) -> None:
        self.time_ns = 0
        self.state: State | None = None

    def knows(self, robot: int) -> bool:
        """Return whether anything was measured of a robot; -1 for none."""
        if self.state is None:
            return False
        times = self.state.robot_time_ns
        return times is None or robot < 0 or bool(times[robot] >= 0)


class ControllerSlot:
    """One controller in its group.

    Attributes:
        plan: Its plan.
        runner: Its group.
        row: Its row in the group.
        active: Whether it commands.
        reason: Why not, "" where active.
        requested: Whether the next tick is to switch it on or off; None: neither.
        chosen: What somebody switched it to, None where nobody did.
        values: Parameters that were changed.
    """

    __slots__ = ("active", "chosen", "plan", "reason", "requested", "row", "runner", "values")

    def __init__(self, plan: ControllerPlan, runner: ControllerGroupRunner, row: int, reason: str) -> None:
        """Store its group and row, and why it is inactive."""
        self.plan = plan
        self.runner = runner
        self.row = row
        self.active = not reason
        self.reason = reason
        self.chosen: bool | None = None
        self.requested: bool | None = None
        self.values: dict[str, float] = {}

    @property
    def takes_goals(self) -> bool:
        """Return whether it is active after all requested switches. From any thread."""
        return self.active if self.requested is None else self.requested

    def receive(self, sample: object) -> None:
        """Give the group what arrived."""
        runner = self.runner
        runner.touched = True
        try:
            runner.group.receive(self.row, sample, time_ns=runner.tick.time_ns)
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
    """The port of one goal, as its group sees it: it ends once, and what the client's side raises stays here.

    Attributes:
        slot: The goal's controller.
        key: Identity of the client's port, whatever that compares equal to.
    """

    __slots__ = ("_goal", "_port", "key", "slot")

    def __init__(self, slot: ControllerSlot, goal: object, port: GoalPort) -> None:
        """Store the controller, the goal and the port to its client."""
        self.slot = slot
        self.key = id(port)
        self._goal = goal
        # A group may keep the goal for longer: the port is let go at its end.
        self._port: GoalPort | None = port

    def feedback(self, feedback: object) -> None:
        """Pass feedback on."""
        if self._port is None:
            return
        try:
            self._port.feedback(feedback)
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.slot.runner.report(
                f"goal.error:{self.slot.plan.path}", f"feedback of a goal failed: {describe(error)}"
            )

    def finish(self, outcome: Outcome, result: object) -> None:
        """End the goal; any but the first call is ignored."""
        port, self._port = self._port, None
        if port is None:
            return
        self.slot.runner.active_goals.pop(self.key, None)
        try:
            port.finish(outcome, result)
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            self.slot.runner.report(
                f"goal.error:{self.slot.plan.path}", f"ending a goal failed: {describe(error)}"
            )

    def end(self, outcome: Outcome, why: str) -> None:
        """End the goal for a reason that its controller does not know of."""
        if self._port is not None:
            self.finish(outcome, unmet(self._goal, why, self.slot.plan, self.slot.runner.tick.state))


class ControllerGroupRunner:
    """Run one group of controllers: contain its exceptions and keep its goals.

    Attributes:
        schema: Of its controllers.
        group: The group.
        tick: The tick in progress.
        report: For what it raises.
        slots: Its controllers, by row.
        active_goals: Goals in progress, by `ActiveGoal.key`.
        observes_at_rest: As that of the group.
        busy: Whether it needs the next tick, as of the end of the last one; or is commanded in this one.
        touched: Whether something reached it since it commanded last.
        references: Slots of the references by which other controllers command its own; None where none does.
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
        self.observes_at_rest = made.group.observes_at_rest
        self.busy = False
        self.touched = False
        self.references: NDArray[np.intp] | None = None

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
            self.fail(error)
            self.busy = False
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
        # Controllers that start over may have joints to hold.
        self.busy = True
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
        goal: The goal; its type decides the type of the result.
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


class _Start(NamedTuple):
    goal: object
    port: GoalPort


class _Cancel(NamedTuple):
    port: GoalPort


class GoalQueue:
    """Queue the goals of one action server for the controller that serves it. Every goal ends exactly once."""

    def __init__(
        self,
        path: str,
        slots: Sequence[ControllerSlot],
        inbox: Inbox,
        tick: TickContext,
        waiting_queues: set[GoalQueue],
        now_ns: Callable[[], int],
        *,
        refusal: str = "",
    ) -> None:
        """Make the queue of an action; the runtime does.

        Args:
            path: Prim path of the action.
            slots: The controllers that name it: the one that is active follows goals.
            inbox: Where goals wait for the tick.
            tick: The tick in progress.
            waiting_queues: The queues in which goals wait for the first state.
            now_ns: Returns the bridge time, nanoseconds.
            refusal: Why none of the controllers can ever be active, "" where one can.
        """
        self.path = path
        self.refusal = refusal
        self._slots = tuple(slots)
        self._inbox = inbox
        self._tick = tick
        self._waiting_queues = waiting_queues
        self._now_ns = now_ns
        self._waiting: dict[int, tuple[ActiveGoal, object]] = {}
        self._lock = threading.Lock()
        self._closed = ""
        # A goal that gave way to another one unread would never end.
        inbox.configure(self, depth=sys.maxsize, wakes=True)

    # --- From any thread ---------------------------------------------------------------------------------------

    @property
    def controller(self) -> str:
        """Prim path of the controller that follows goals, if any does. From any thread."""
        return self._serving().plan.path

    @property
    def reason(self) -> str:
        """Why goals are rejected now, "" where they are not. From any thread."""
        return inactivity(self._slots)

    def check(self, goal: object) -> str:
        """Return why a goal is to be rejected, "" where it is acceptable. From any thread."""
        # A requested switch comes before a goal that arrives later.
        slot = next((each for each in self._slots if each.takes_goals), self._slots[0])
        if not slot.takes_goals:
            return _inactive(slot)
        if self._inbox.waiting(self) + len(self._waiting) >= MOST_WAITING:
            return f"{MOST_WAITING} goals and cancels wait for the next tick already; does time stand still?"
        goals = slot.runner.goals
        assert goals is not None
        try:
            return goals.check(slot.row, goal, time_ns=self._now_ns())
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            text = describe(error)
            schema = slot.runner.schema
            slot.runner.report(
                f"controller.error:{schema}", f"controllers of {schema} failed to check a goal: {text}"
            )
            return f"the controller failed to check the goal: {text}"

    def start(self, goal: object, port: GoalPort) -> None:
        """Begin a goal in the next tick, and wake the loop for it. From any thread.

        Args:
            goal: Checked.
            port: Gets feedback and the result; `finish` is called exactly once.
        """
        with self._lock:
            if not self._closed:
                self._inbox.put(self, _Start(goal, port))
                return
        ActiveGoal(self._serving(), goal, port).end("aborted", self._closed)

    def cancel(self, port: GoalPort) -> None:
        """Cancel a goal in the next tick. One that has ended is ignored. From any thread."""
        with self._lock:
            if not self._closed:
                self._inbox.put(self, _Cancel(port))

    # --- In the tick -------------------------------------------------------------------------------------------

    def apply(self, request: object) -> None:
        """Begin or cancel a goal."""
        if isinstance(request, _Start):
            run = ActiveGoal(self._serving(), request.goal, request.port)
            self._waiting[run.key] = (run, request.goal)
            self.begin_waiting()
        elif isinstance(request, _Cancel):
            self._cancel(id(request.port))

    def failed(self, error: Exception) -> None:
        """Report what went wrong at the queue itself."""
        self._slots[0].runner.fail(error)

    def begin_waiting(self) -> None:
        """Begin goals whose robot's state is known; those of a controller that was switched off meanwhile end."""
        for key, (run, goal) in tuple(self._waiting.items()):
            slot = run.slot
            if not slot.active:
                del self._waiting[key]
                run.end("aborted", _inactive(slot))
            elif self._tick.knows(slot.plan.robot):
                del self._waiting[key]
                slot.runner.begin(run, goal)
        self._note_waiting()

    def end_waiting(self, why: str) -> None:
        """End goals that wait for the first state."""
        for run, _ in tuple(self._waiting.values()):
            run.end("aborted", why)
        self._waiting.clear()
        self._note_waiting()

    def close(self, why: str) -> None:
        """End all queued and later goals, and leave the inbox."""
        with self._lock:
            self._closed = why
        self.end_waiting(why)
        for request in self._inbox.withdraw(self):
            if isinstance(request, _Start):
                ActiveGoal(self._serving(), request.goal, request.port).end("aborted", why)
        self._inbox.forget(self)

    def _cancel(self, key: int) -> None:
        if key in self._waiting:
            self._waiting.pop(key)[0].end("canceled", "canceled before it began")
            self._note_waiting()
            return
        for slot in self._slots:
            run = slot.runner.active_goals.get(key)
            if run is not None:
                slot.runner.cancel(run)
                return

    def _note_waiting(self) -> None:
        """Note whether goals wait here."""
        if self._waiting:
            self._waiting_queues.add(self)
        else:
            self._waiting_queues.discard(self)

    def _serving(self) -> ControllerSlot:
        """Return the active controller, else the first."""
        return next((slot for slot in self._slots if slot.active), self._slots[0])


def inactivity(slots: Sequence[ControllerSlot]) -> str:
    """Return why none of the controllers of an interface is active, "" where one is."""
    return "" if any_active(slots) else _inactive(slots[0])


def _inactive(slot: ControllerSlot) -> str:
    return f"controller {slot.plan.path} is inactive: {slot.reason or SWITCHED_OFF}"
