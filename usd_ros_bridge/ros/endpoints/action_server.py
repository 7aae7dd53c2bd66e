"""Action servers of the plan: goals are followed by a handler, the backend or a controller, else rejected."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from rclpy.action import GoalResponse

from usd_ros_bridge.errors import GoalAbortedError, HandlerTimeoutError
from usd_ros_bridge.model.goals import Outcome
from usd_ros_bridge.model.plan import ActionPlan
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.codecs import ACTIONS
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints.goal_server import (
    ControllerGoalPort,
    GoalServer,
    HandledGoal,
    LiveGoal,
    goal_key,
)
from usd_ros_bridge.ros.endpoints.handlers import Bound, Handlers
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.group_runner import GoalQueue

NO_HANDLER = "no handler is bound to this action and no controller serves it"
CLOSED = "the bridge was closed"
_MAX_REASONS = 16
_YOUNG_S = 1.0
_LINGER_S = 0.2
_STRANDED_S = 1.0
"""rmw waits a tenth of that for a client that it cannot answer."""


class _Prepared(NamedTuple):
    """Checked request of a goal, before it is accepted."""

    request: Any
    since: float
    start: Callable[[LiveGoal], None]


class _RefusedError(Exception):
    """A goal is to be rejected; the message says why."""


class ActionServer:
    """Serve an action of the plan. The handler is looked up for each goal: it may be bound after the opening."""

    def __init__(
        self,
        plan: ActionPlan,
        action_class: Any,
        domain: Domain,
        report: Report,
        *,
        handlers: Handlers,
        workers: Workers,
        backend: Bound[Any] | None,
        goal_queue: Callable[[str], GoalQueue | None],
        time_ns: Callable[[], int],
    ) -> None:
        """Store what to serve; `open` creates the server.

        Args:
            plan: The action's plan.
            action_class: Class of its type.
            domain: Where it lives.
            report: For rejected goals and handlers that raise.
            handlers: Handlers of goals.
            workers: Where handlers run.
            backend: The backend's handler, None where it follows no goals of this action.
            goal_queue: Returns where goals of a prim's action go, None where no controller serves it.
            time_ns: Returns the bridge time.
        """
        self.plan = plan
        self._class = action_class
        self._domain = domain
        self._report = report
        self._handlers = handlers
        self._workers = workers
        self.backend = backend
        self._goal_queue = goal_queue
        self._time_ns = time_ns
        self._server: GoalServer | None = None
        self._closed = False
        self._lock = threading.Lock()
        # By identity of the request: rclpy names the goal to nobody before it is accepted.
        self._prepared: dict[int, _Prepared] = {}
        self._live: dict[bytes, LiveGoal] = {}
        # When each goal began that ended soon after: its client may not have requested the result yet.
        self._brief: dict[bytes, float] = {}
        self._cancels: dict[bytes, Callable[[], object]] = {}
        self._handled = 0
        self._reasons: dict[str, str] = {}
        self._goals = 0
        self._failed = 0
        self._last_error = ""

    def open(self) -> None:
        """Create the server."""
        self._server = GoalServer(
            self._domain.node,
            self._class,
            self.plan.name,
            on_goal=self._on_goal,
            start=self._on_accepted,
            on_cancel=self._on_cancel,
        )

    def close(self) -> None:
        """End goals aborted, inform clients where possible, and destroy the server. Idempotent."""
        server = self._server
        if server is None or self._closed:
            return
        self._closed = True
        with self._lock:
            goals = list(self._live.values())
            began = {**self._brief, **{live.key: live.since for live in goals}}
        # Handlers are ended first where a bridge closes, so that their goals are not live any more.
        young = {key for key, since in began.items() if time.monotonic() - since < _YOUNG_S}
        young |= self._start_stranded(server)
        for live in goals:
            live.finish_now("aborted", self._unfinished(CLOSED))
        self._linger(server, young)
        self._server = None
        self._domain.destroy(server)

    def status(self) -> InterfaceStatus:
        """Return a row."""
        self._look_for_others()
        bound, queue = self._handler(), self._serves()
        served = bound.owner if bound is not None else "" if queue is None else queue.controller
        reason = "" if served else NO_HANDLER
        if bound is None and queue is not None:
            reason = queue.reason
        acts = served and not (bound is None and queue is not None and queue.refusal)
        return action_row(
            self.plan,
            self._domain,
            count=self._goals,
            errors=self._failed,
            last_error=self._last_error,
            state="active" if self._live else "idle" if acts else "silent",
            reason=reason,
            served_by=served,
        )

    # --- Callbacks of rclpy ------------------------------------------------------------------------------------

    def _on_goal(self, request: Any) -> GoalResponse:
        self._goals += 1
        try:
            self._look_for_others()
            self._end_stranded()
            start = self._prepare(request)
        except _RefusedError as refusal:
            self._reject(str(refusal))
            return GoalResponse.REJECT
        except Exception as error:  # noqa: BLE001 - an exception here would leave the client waiting for ever
            self._reject(f"it could not be checked: {describe(error)}")
            return GoalResponse.REJECT
        with self._lock:
            self._prepared[id(request)] = _Prepared(request, time.monotonic(), start)
        return GoalResponse.ACCEPT

    def _on_accepted(self, handle: Any) -> None:
        server = self._server
        if server is None:
            return
        live = LiveGoal(
            server, handle, self._domain, path=self.plan.path, report=self._report, ended=self._on_ended
        )
        with self._lock:
            prepared = self._prepared.pop(id(handle.request), None)
            self._live[live.key] = live
        if self._closed:
            live.finish_now("aborted", self._unfinished(CLOSED))
            return
        if prepared is None or prepared.request is not handle.request:
            live.finish("aborted", self._unfinished("the client was not notified of the acceptance"))
            return
        try:
            prepared.start(live)
        except Exception as error:  # noqa: BLE001 - the client waits for a result
            self._report(
                f"action.error:{self.plan.path}", f"{self.plan.path}: a goal did not start: {describe(error)}"
            )
            live.finish("aborted", self._unfinished(describe(error)))
            return
        if handle.is_cancel_requested:
            self._on_cancel(handle)

    def _on_cancel(self, handle: Any) -> None:
        key = goal_key(handle)
        with self._lock:
            live, cancel = self._live.get(key), self._cancels.get(key)
        if live is not None:
            live.cancel_requested = True
        if cancel is not None:
            cancel()

    # --- Who follows a goal ------------------------------------------------------------------------------------

    def _prepare(self, request: Any) -> Callable[[LiveGoal], None]:
        """Return what starts a goal.

        Raises:
            _RefusedError: Nobody follows it.
        """
        if self._closed:
            raise _RefusedError(CLOSED)
        bound = self._handler()
        if bound is not None:
            self._ask(bound, request)
            return partial(self._start_handler, bound)
        queue = self._serves()
        if queue is None:
            raise _RefusedError(NO_HANDLER)
        goal = ACTIONS[self.plan.type].decode(request)
        reason = queue.check(goal)
        if reason:
            raise _RefusedError(reason)
        return partial(self._start_queued, queue, goal)

    def _handler(self) -> Bound[Any] | None:
        return self._handlers.get("action", self.plan.path) or self.backend

    def _serves(self) -> GoalQueue | None:
        return self._goal_queue(self.plan.path) if self.plan.type in ACTIONS else None

    def _ask(self, bound: Bound[Any], request: Any) -> None:
        if self._handled >= bound.concurrent:
            raise _RefusedError(f"its handler follows {bound.concurrent} at a time")
        if bound.accept is None:
            return
        try:
            answer = bound.accept(request)
        except Exception as error:
            self._report(
                f"action.error:{self.plan.path}",
                f"{self.plan.path}: what accepts goals of {self.plan.name} raised {describe(error)}",
            )
            raise _RefusedError("what accepts goals raised an exception") from error
        if answer is not True:
            raise _RefusedError(
                answer if isinstance(answer, str) and answer else "its handler does not accept it"
            )

    def _start_queued(self, queue: GoalQueue, goal: object, live: LiveGoal) -> None:
        port = ControllerGoalPort(live, self._class, ACTIONS[self.plan.type])
        with self._lock:
            self._cancels[live.key] = partial(queue.cancel, port)
        queue.start(goal, port)

    # --- Handlers ----------------------------------------------------------------------------------------------

    def _start_handler(self, bound: Bound[Any], live: LiveGoal) -> None:
        goal = HandledGoal(live, self._time_ns)
        with self._lock:
            self._cancels[live.key] = goal.cancel
            self._handled += 1
        # A key of its own: goals of one action wait for no other.
        goal.future = self._workers.submit(
            f"{self.plan.path}#{live.key.hex()}", goal.wrap(bound.handler), timeout=bound.timeout
        )
        goal.future.add_done_callback(partial(self._on_handled, live))

    def _on_handled(self, live: LiveGoal, future: Any) -> None:
        with self._lock:
            self._handled -= 1
        outcome: Outcome = "aborted"
        result = None
        try:
            result = future.result()
            outcome = "canceled" if live.cancel_requested else "succeeded"
        except CancelledError:
            outcome = "canceled"
        except GoalAbortedError as error:
            result = error.result
        except HandlerTimeoutError as error:
            self._complain("timeout", f"was aborted: {error}")
        except BaseException as error:  # noqa: BLE001 - whatever it was, the client waits for a result
            if self._workers.closed:
                result = self._unfinished(CLOSED)
            else:
                self._complain("error", f"was aborted: its handler raised {describe(error)}")
        if result is None:
            result = self._class.Result()
        elif not isinstance(result, self._class.Result):
            self._complain("error", f"was aborted: its handler returned {type(result).__name__}, no Result")
            outcome, result = "aborted", self._class.Result()
        live.finish(outcome, result)

    def _complain(self, what: str, text: str) -> None:
        self._report(
            f"action.{what}:{self.plan.path}", f"{self.plan.path}: a goal of {self.plan.name} {text}"
        )

    # --- Own ---------------------------------------------------------------------------------------------------

    def _linger(self, server: GoalServer, young: set[bytes]) -> None:
        """Wait a moment for clients that are about to ask for the result of a goal that they sent just now."""
        deadline = time.monotonic() + _LINGER_S
        while young - server.result_requests and time.monotonic() < deadline:
            # Callbacks of a node of the bridge's own wait for this, once its thread has ended; others run elsewhere.
            with suppress(Exception):
                self._domain.poll()
            time.sleep(0.002)

    def _on_ended(self, live: LiveGoal) -> None:
        with self._lock:
            self._live.pop(live.key, None)
            self._cancels.pop(live.key, None)
            if live.outcome == "aborted":
                self._failed += 1
                self._last_error = "a goal was aborted"
            now = time.monotonic()
            self._brief = {key: since for key, since in self._brief.items() if now - since < _YOUNG_S}
            if now - live.since < _YOUNG_S:
                self._brief[live.key] = live.since

    def _reject(self, reason: str) -> None:
        self._failed += 1
        self._last_error = f"rejected: {reason}"
        # The first goal of each reason is shown; a client that finds ever new ones does not fill the log.
        place = self._reasons.get(reason)
        if place is None:
            number = len(self._reasons)
            place = self.plan.path if number == 0 else f"{self.plan.path}#{min(number, _MAX_REASONS) + 1}"
            if number < _MAX_REASONS:
                self._reasons[reason] = place
        self._report(
            f"action.rejected:{place}",
            f"{self.plan.path}: a goal for {self.plan.name} was rejected: {reason}",
        )

    def _end_stranded(self) -> None:
        """End goals that were accepted, and whose client could not be notified, which rclpy would keep for ever."""
        with self._lock:
            late = time.monotonic() - _STRANDED_S
            stale = [key for key, each in self._prepared.items() if each.since < late]
            for key in stale:
                del self._prepared[key]
        if stale and self._server is not None:
            self._start_stranded(self._server)

    def _start_stranded(self, server: GoalServer) -> set[bytes]:
        """Start goals that no controller follows, which ends them. Return their ids."""
        handles = server.stranded(self._live)
        for handle in handles:
            handle.execute()
        return {goal_key(handle) for handle in handles}

    def _look_for_others(self) -> None:
        if count_servers(self.plan, self._domain) > 1:
            self._report(
                f"action.taken:{self.plan.path}",
                f"{self.plan.path}: another node serves the action {self.plan.name}, too: both answer the clients",
            )

    def _unfinished(self, why: str) -> Any:
        codec = ACTIONS.get(self.plan.type)
        return self._class.Result() if codec is None else codec.unfinished(self._class, why)


def count_servers(plan: ActionPlan, domain: Domain) -> int:
    """Return how many servers of an action the graph shows."""
    return int(domain.node.count_services(_goal_service(plan, domain)))


def action_row(plan: ActionPlan, domain: Domain, **values: Any) -> InterfaceStatus:
    """Return the row of a server or client; `values` are the fields that differ."""
    server = plan.role == "server"
    return InterfaceStatus(
        kind="action",
        role=plan.role,
        path=plan.path,
        name=plan.name,
        type=plan.type,
        domain_id=domain.domain_id,
        matched=int(domain.node.count_clients(_goal_service(plan, domain)))
        if server
        else count_servers(plan, domain),
        **values,
    )


def _goal_service(plan: ActionPlan, domain: Domain) -> str:
    # An action is three services and two topics; whoever uses it uses this one.
    name: str = domain.node.resolve_service_name(f"{plan.name}/_action/send_goal")
    return name
