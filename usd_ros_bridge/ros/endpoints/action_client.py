"""Action clients of the plan: goals for servers elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient as RosActionClient

from usd_ros_bridge.errors import BridgeError, CallTimeoutError
from usd_ros_bridge.model.goals import Outcome
from usd_ros_bridge.model.plan import ActionPlan
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints.action_server import action_row
from usd_ros_bridge.ros.workers import Workers

SERVER_WAIT_S = 10.0
"""How long a call without a time-out of its own waits for a server."""
_LOOK_S = 0.02
_LOOK_AGAIN_S = 1.0
_OUTCOMES: dict[int, Outcome] = {
    GoalStatus.STATUS_SUCCEEDED: "succeeded",
    GoalStatus.STATUS_CANCELED: "canceled",
    GoalStatus.STATUS_ABORTED: "aborted",
}
_NO_CALLS = "nothing here has called it yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """Result of a goal that a server accepted.

    Attributes:
        status: How it ended: `succeeded`, `aborted` or `canceled`.
        result: The result message.
    """

    status: Outcome
    result: Any


class GoalClient(RosActionClient):
    """rclpy's action client with futures that run their callbacks at once, without an executor.

    On Kilted, sending a goal makes two futures, and the answer that is quicker than the second reaches the first.
    """

    def __init__(self, node: Any, action_class: Any, name: str) -> None:
        """Create the client.

        Args:
            node: Whose it is.
            action_class: Class of the action type.
            name: Action name; the node's remap rules apply.
        """
        self.made: list[Any] = []
        # rclpy sets them when an executor may use the client already: that would end the executor.
        self._lock = threading.Lock()
        self._logger = node.get_logger().get_child("action_client")
        super().__init__(node, action_class, name)

    def add_future(self, future: Any) -> None:
        """Note a future that was made."""
        self.made.append(future)

    def remove_future(self, future: Any) -> None:
        """Do nothing."""


class _GoalFuture(Future[ActionResult]):
    """The end of a call. Giving it up asks the server to cancel; how the goal ends is still reported."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        super().__init__()
        self._ask = ask

    def cancel(self) -> bool:
        return self._ask() or super().cancel()


class _GoalCall:
    """One goal, from the search for a server to its result."""

    def __init__(self, client: ActionClient, goal: Any, feedback: Any, timeout: float | None) -> None:
        self.future = _GoalFuture(self._give_up)
        self._client = client
        self._goal = goal
        self._feedback = feedback
        self._timeout = timeout
        self._lock = threading.Lock()
        self._sent = self._given_up = self._answered = False
        self._handle: Any = None
        self._waited = 0.0

    def begin(self) -> None:
        if self._timeout is not None:
            self._client.workers.set_deadline(self.future, self._timeout, self._expire)
        self._look()

    def _look(self) -> None:
        """Look for a server, and later whether it is still there."""
        if self.future.done():
            return
        client = self._client
        ready = client.ready()
        if ready and not self._sent:
            self._sent = True
            client.domain.defer(self._send)
        elif not ready and self._sent:
            self.fail(BridgeError(f"{client.words}: the server went away"))
        elif not self._sent and self._timeout is None and self._waited >= SERVER_WAIT_S:
            self._expire()
        if not self.future.done():
            wait = _LOOK_AGAIN_S if self._sent else _LOOK_S
            self._waited += wait
            client.workers.call_later(wait, self._look)

    def _send(self) -> None:
        if self.future.done():
            return
        try:
            made = self._client.send(self._goal, None if self._feedback is None else self._on_feedback)
        except Exception as error:  # noqa: BLE001 - whoever called waits
            self.fail(BridgeError(f"{self._client.words}: the goal could not be sent: {describe(error)}"))
            return
        for future in made:
            future.add_done_callback(self._on_answer)

    def _on_answer(self, future: Any) -> None:
        with self._lock:
            if self._answered:
                return
            self._answered = True
        handle = future.result()
        if handle is None or not handle.accepted:
            self.fail(BridgeError(f"{self._client.words}: the server rejected the goal"))
            return
        with self._lock:
            self._handle = handle
            given_up = self._given_up
        handle.get_result_async().add_done_callback(self._on_result)
        if given_up:
            handle.cancel_goal_async()

    def _on_result(self, future: Any) -> None:
        answer = future.result()
        outcome = None if answer is None else _OUTCOMES.get(answer.status)
        if outcome is None:
            self.fail(BridgeError(f"{self._client.words}: the server does not know the goal any more"))
            return
        with suppress(InvalidStateError):
            self.future.set_result(ActionResult(status=outcome, result=answer.result))

    def _on_feedback(self, message: Any) -> None:
        if not self.future.done():
            self._client.hand_on(self._feedback, message.feedback)

    def _give_up(self) -> bool:
        """Request cancellation; return whether there is, or may be, a goal to cancel."""
        with self._lock:
            handle, first = self._handle, not self._given_up
            self._given_up = True
        if handle is not None and first:
            self._client.domain.defer(handle.cancel_goal_async)
        return self._sent

    def _expire(self) -> None:
        seconds = SERVER_WAIT_S if self._timeout is None else self._timeout
        words = self._client.words
        what = "no result" if self._handle is not None else "no answer" if self._sent else "no server"
        self.fail(CallTimeoutError(f"{words}: {what} within {seconds:g} s"))
        self._give_up()

    def fail(self, error: Exception) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class ActionClient:
    """A client, there for whoever calls it."""

    def __init__(
        self,
        plan: ActionPlan,
        action_class: Any,
        domain: Domain,
        report: Report,
        *,
        workers: Workers,
    ) -> None:
        """Store what to call; `open` creates the client.

        Args:
            plan: The action's plan.
            action_class: Class of its type.
            domain: Where it lives; goals are sent from its executor's thread, where that is the bridge's own.
            report: For what takes feedback and raises.
            workers: Where feedback is taken.
        """
        self.plan = plan
        self.action_class = action_class
        self.domain = domain
        self.workers = workers
        self.words = f"action {plan.name} ({plan.type})"
        self._report = report
        self._client: GoalClient | None = None
        self._calls: set[_GoalCall] = set()
        self._lock = threading.Lock()
        self._count = 0
        self._failed = 0

    def open(self) -> None:
        """Create the client."""
        self._client = GoalClient(self.domain.node, self.action_class, self.plan.name)

    def close(self) -> None:
        """Fail calls in progress and destroys the client. Idempotent."""
        client, self._client = self._client, None
        for call in tuple(self._calls):
            call.fail(BridgeError(f"{self.words}: the bridge was closed"))
        if client is not None:
            self.domain.destroy(client)

    def call(
        self, goal: Any, *, feedback: Callable[[Any], object] | None = None, timeout: float | None = None
    ) -> Future[ActionResult]:
        """Send a goal as soon as there is a server. From any thread.

        Args:
            goal: The goal message.
            feedback: Called with each feedback message, in order, in a thread beside the tick; or is `async`.
            timeout: Seconds until the call fails and the goal is canceled; None for no limit on the result, and
                `SERVER_WAIT_S` for a server to be found.

        Returns:
            What the goal came to. It fails with CallTimeoutError where there was no server, or no result, in time, and
            with BridgeError where the server rejected the goal or went away. `cancel` has the server cancel the goal.
        """
        call = _GoalCall(self, goal, feedback, timeout)
        with self._lock:
            self._count += 1
            self._calls.add(call)
        call.future.add_done_callback(lambda future: self._on_done(call, future))
        if self._client is None:
            call.fail(BridgeError(f"{self.words}: the bridge was closed"))
        else:
            call.begin()
        return call.future

    def status(self) -> InterfaceStatus:
        """Return a row."""
        return action_row(
            self.plan,
            self.domain,
            count=self._count,
            errors=self._failed,
            state="active" if self._calls else "idle" if self._count else "silent",
            reason="" if self._count else _NO_CALLS,
        )

    # --- For calls ---------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Return whether there is a server."""
        client = self._client
        return client is not None and bool(client.server_is_ready())

    def send(self, goal: Any, on_feedback: Callable[[Any], None] | None) -> list[Any]:
        """Send a goal; return the futures of which one will hold the answer."""
        client = self._client
        if client is None:
            raise BridgeError("the bridge was closed")
        with self._lock:
            made: list[Any] = []
            client.made = made
            client.send_goal_async(goal, feedback_callback=on_feedback)
        return made

    def hand_on(self, feedback: Callable[[Any], object], message: Any) -> None:
        """Pass feedback on."""
        self.workers.submit(f"{self.plan.path}#feedback", feedback, message).add_done_callback(self._on_taken)

    def _on_taken(self, future: Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None and self._client is not None:
            self._report(
                f"call.feedback:{self.plan.path}",
                f"{self.plan.path}: what takes feedback of {self.plan.name} failed: {describe(error)}",
            )

    def _on_done(self, call: _GoalCall, future: Future[ActionResult]) -> None:
        with self._lock:
            self._calls.discard(call)
            self._failed += future.cancelled() or future.exception() is not None
