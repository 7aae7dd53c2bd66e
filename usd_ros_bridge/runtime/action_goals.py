"""Goal queues: goals and cancellations from any thread to the controller that follows them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from usd_ros_bridge.controllers.base import GoalPort
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.runtime.controller_groups import SWITCHED_OFF, ActiveGoal, ControllerSlot, TickContext
from usd_ros_bridge.runtime.inbox import Inbox


class _Start(NamedTuple):
    goal: object
    port: GoalPort


class _Cancel(NamedTuple):
    port: GoalPort


class GoalQueue:
    """Takes the goals of one action server, for the controller that serves it. Every goal ends exactly once."""

    def __init__(
        self,
        path: str,
        slots: Sequence[ControllerSlot],
        inbox: Inbox,
        tick: TickContext,
        waiting_queues: set[GoalQueue],
        now_ns: Callable[[], int],
    ) -> None:
        """Make the queue of an action; the runtime does.

        Args:
            path: Prim path of the action.
            slots: The controllers that name it: the one that is active follows goals.
            inbox: Where goals wait for the tick.
            tick: The tick in progress.
            waiting_queues: The desks at which goals wait for the first state.
            now_ns: Returns the bridge time, nanoseconds.
        """
        self.path = path
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

    def check(self, goal: object) -> str:
        """Return why a goal is to be rejected, "" where it is acceptable. From any thread."""
        # A switch that was asked for comes before a goal that arrives later.
        slot = next((each for each in self._slots if each.takes_goals), self._slots[0])
        if not slot.takes_goals:
            return _inactive(slot)
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
            port: What is told how it goes; `finish` is called exactly once.
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

    def take(self, request: object) -> None:
        """Begin or cancels a goal."""
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


def _inactive(slot: ControllerSlot) -> str:
    return f"controller {slot.plan.path} is inactive: {slot.reason or SWITCHED_OFF}"
