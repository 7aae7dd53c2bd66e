"""Goal desks: goals and cancellations from any thread, through the inbox, to the controller that follows them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from usd_ros_bridge.controllers.protocol import GoalPort
from usd_ros_bridge.runtime.hosting import SWITCHED_OFF, Member, Moment, Run
from usd_ros_bridge.runtime.inbox import Inbox
from usd_ros_bridge.runtime.report import describe


class _Start(NamedTuple):
    goal: object
    port: GoalPort


class _Cancel(NamedTuple):
    port: GoalPort


class GoalDesk:
    """Takes the goals of one action server, for the controller that serves it. Every goal ends exactly once."""

    def __init__(
        self,
        path: str,
        members: Sequence[Member],
        inbox: Inbox,
        moment: Moment,
        crowded: set[GoalDesk],
        now_ns: Callable[[], int],
    ) -> None:
        """Makes the desk of an action; the runtime does.

        Args:
            path: Prim path of the action.
            members: The controllers that name it: the one that is active follows goals.
            inbox: Where goals wait for the tick.
            moment: The tick in progress.
            crowded: The desks at which goals wait for the first state.
            now_ns: Returns the bridge time, nanoseconds.
        """
        self.path = path
        self._members = tuple(members)
        self._inbox = inbox
        self._moment = moment
        self._crowded = crowded
        self._now_ns = now_ns
        self._waiting: dict[int, tuple[Run, object]] = {}
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
        """Returns why a goal is to be rejected, "" where it is acceptable. From any thread."""
        # A switch that was asked for comes before a goal that arrives later.
        member = next((each for each in self._members if each.takes_goals), self._members[0])
        if not member.takes_goals:
            return _inactive(member)
        goals = member.host.goals
        assert goals is not None
        try:
            return goals.check(member.row, goal, time_ns=self._now_ns())
        except Exception as error:  # noqa: BLE001 - the runtime's edge
            text = describe(error)
            schema = member.host.schema
            member.host.report(
                f"controller.error:{schema}", f"controllers of {schema} failed to check a goal: {text}"
            )
            return f"the controller failed to check the goal: {text}"

    def start(self, goal: object, port: GoalPort) -> None:
        """Has a goal begun in the next tick, which begins at once. From any thread.

        Args:
            goal: Checked.
            port: What is told how it goes; `finish` is called exactly once.
        """
        with self._lock:
            if not self._closed:
                self._inbox.put(self, _Start(goal, port))
                return
        Run(self._serving(), goal, port).end("aborted", self._closed)

    def cancel(self, port: GoalPort) -> None:
        """Has a goal canceled in the next tick; one that has ended is ignored. From any thread."""
        with self._lock:
            if not self._closed:
                self._inbox.put(self, _Cancel(port))

    # --- In the tick -------------------------------------------------------------------------------------------

    def take(self, request: object) -> None:
        """Begins or cancels a goal."""
        if isinstance(request, _Start):
            run = Run(self._serving(), request.goal, request.port)
            self._waiting[run.key] = (run, request.goal)
            self.begin_waiting()
        elif isinstance(request, _Cancel):
            self._cancel(id(request.port))

    def failed(self, error: Exception) -> None:
        """Reports what went wrong at the desk itself."""
        self._members[0].host.fail(error)

    def begin_waiting(self) -> None:
        """Begins goals whose robot's state is known; those of a controller that was switched off meanwhile end."""
        for key, (run, goal) in tuple(self._waiting.items()):
            member = run.member
            if not member.active:
                del self._waiting[key]
                run.end("aborted", _inactive(member))
            elif self._moment.knows(member.plan.robot):
                del self._waiting[key]
                member.host.begin(run, goal)
        self._look()

    def end_waiting(self, why: str) -> None:
        """Ends goals that wait for the first state."""
        for run, _ in tuple(self._waiting.values()):
            run.end("aborted", why)
        self._waiting.clear()
        self._look()

    def close(self, why: str) -> None:
        """Ends everything that waits, and every goal that comes after that; leaves the inbox."""
        with self._lock:
            self._closed = why
        self.end_waiting(why)
        for request in self._inbox.withdraw(self):
            if isinstance(request, _Start):
                Run(self._serving(), request.goal, request.port).end("aborted", why)
        self._inbox.forget(self)

    def _cancel(self, key: int) -> None:
        if key in self._waiting:
            self._waiting.pop(key)[0].end("canceled", "canceled before it began")
            self._look()
            return
        for member in self._members:
            run = member.host.runs.get(key)
            if run is not None:
                member.host.cancel(run)
                return

    def _look(self) -> None:
        """Notes whether goals wait here."""
        if self._waiting:
            self._crowded.add(self)
        else:
            self._crowded.discard(self)

    def _serving(self) -> Member:
        """Returns the active controller, else the first."""
        return next((member for member in self._members if member.active), self._members[0])


def _inactive(member: Member) -> str:
    return f"controller {member.plan.path} is inactive: {member.reason or SWITCHED_OFF}"
