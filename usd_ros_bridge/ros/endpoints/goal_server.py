"""Goals in progress: the rclpy server that takes them, and the way back to their clients."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Container
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from rclpy.action import ActionServer as RclpyActionServer
from rclpy.action import CancelResponse
from rclpy.exceptions import InvalidHandle

from usd_ros_bridge.model.goals import Outcome
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.codecs.control_msgs import ActionCodec
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.workers import is_coroutine_function

RESULT_TIMEOUT_S = 10
"""How long a result may be asked for: rclpy's default since Kilted, where Jazzy's is 900.

Clients that follow a goal ask as soon as it is accepted; every status message lists all goals that are kept.
"""


class GoalServer(RclpyActionServer):
    """rclpy's action server without a callback per goal.

    rclpy's own runs one: if it blocks, it starves its executor; if it awaits, it is polled.
    """

    def __init__(
        self,
        node: Any,
        action_class: Any,
        name: str,
        *,
        on_goal: Callable[[Any], Any],
        start: Callable[[Any], None],
        on_cancel: Callable[[Any], None],
    ) -> None:
        """Create the server.

        Args:
            node: Whose it is.
            action_class: Class of the action type.
            name: Action name; the node's remap rules apply.
            on_goal: Returns a GoalResponse for a goal message.
            start: Called with the handle of a goal that was accepted and is executing, or canceling already.
            on_cancel: Called with the handle of a goal that a client wants canceled.
        """
        self.result_requests: set[bytes] = set()
        """Ids of the goals whose result was requested."""
        self._start = start
        # rclpy sets it when an executor may use the server already.
        self._logger = node.get_logger().get_child("action_server")
        super().__init__(
            node,
            action_class,
            name,
            # Demanded, and never called: notify_execute is where rclpy would.
            execute_callback=_unused,
            goal_callback=on_goal,
            cancel_callback=partial(_accept_cancel, on_cancel),
            result_timeout=RESULT_TIMEOUT_S,
        )

    async def execute(self, taken_data: Any) -> None:
        """Handle what arrived, as rclpy does; notes who asks for results."""
        # A server that is being destroyed answers nobody; an exception would end a host's executor.
        with suppress(InvalidHandle):
            await super().execute(taken_data)
        if "result" in taken_data:
            self.result_requests.add(bytes(taken_data["result"][1].goal_id.uuid))
        for expired in taken_data.get("expired", ()):
            self.result_requests.discard(bytes(expired.goal_id.uuid))

    def notify_execute(self, goal_handle: Any, execute_callback: Any) -> None:  # noqa: ARG002 - rclpy's signature
        """Start a goal instead of running a callback for it."""
        self._start(goal_handle)

    def add_future(self, future: Any) -> None:
        """Leave the future of a result without an executor.

        Then results are sent by the thread that ends a goal, at once, also while the executor is stopped.
        """

    def remove_future(self, future: Any) -> None:
        """Do nothing; see `add_future`."""

    def conclude(self, goal_handle: Any, outcome: Outcome, result: Any) -> None:
        """Bring a goal to its terminal state and send the result to all who ask for it.

        Raises:
            RCLError: The goal cannot go there from where it is; it ended aborted.
        """
        try:
            if outcome == "succeeded":
                goal_handle.succeed()
            elif outcome == "canceled":
                goal_handle.canceled()
            else:
                goal_handle.abort()
        finally:
            # It suspends only where its callback does.
            with suppress(StopIteration):
                self._execute_goal(lambda _: result, goal_handle).send(None)

    def feedback_sender(self, goal_handle: Any) -> Callable[[Any], None]:
        """Return what publishes feedback messages of one goal, unless it is gone.

        rclpy's own way makes a message with a goal's id around each, and with it feedback that is thrown away.
        """
        message = self.action_type.Impl.FeedbackMessage()
        message.goal_id = goal_handle.goal_id
        kind = self.action_type.Feedback

        def send(feedback: Any) -> None:
            if not isinstance(feedback, kind):
                raise TypeError(f"{type(feedback).__name__} is no Feedback of this action")
            if goal_handle.is_active:
                message.feedback = feedback
                self._handle.publish_feedback(message)

        return send

    def stranded(self, followed: Container[bytes]) -> list[Any]:
        """Return the handles of goals that have not ended and that nobody follows.

        rclpy leaves a goal there when it could not inform the client that it was accepted.

        Args:
            followed: Goals, by their ids, that somebody follows.
        """
        return [
            handle
            for key, handle in tuple(self._goal_handles.items())
            if handle.is_active and key not in followed
        ]


def _accept_cancel(on_cancel: Callable[[Any], object], goal_handle: Any) -> CancelResponse:
    # Always: a goal that ends meanwhile may end in any way from CANCELING, and where one of several goals is
    # refused, rclpy's loop over them passes the next one by.
    on_cancel(goal_handle)
    return CancelResponse.ACCEPT


def _unused(_: Any) -> Any:
    raise AssertionError("goals are followed elsewhere")


_CANCEL_TRIES = 1000


class LiveGoal:
    """An accepted goal on its way to exactly one terminal state. From any thread."""

    def __init__(
        self,
        server: GoalServer,
        handle: Any,
        domain: Domain,
        *,
        path: str,
        report: Report,
        ended: Callable[[LiveGoal], None],
    ) -> None:
        """Store an accepted goal.

        Args:
            server: Where it came from.
            handle: rclpy's handle of it.
            domain: Where it is ended: in the executor's thread, where that is the bridge's own.
            path: Prim path of the action, for reports.
            report: For what rclpy raises.
            ended: Called once it ended.
        """
        self.handle = handle
        self.key = goal_key(handle)
        self.since = time.monotonic()
        self.outcome: Outcome | None = None
        self.cancel_requested = False
        self._server = server
        self._send = server.feedback_sender(handle)
        self._domain = domain
        self._path = path
        self._report = report
        self._ended = ended
        self._lock = threading.Lock()
        self._result: Any = None
        self._concluded = False
        self._tries = 0

    @property
    def request(self) -> Any:
        """Return the goal message."""
        return self.handle.request

    @property
    def over(self) -> bool:
        """Return whether the goal's end is decided."""
        return self.outcome is not None

    def publish(self, message: Any) -> None:
        """Send a feedback message, unless the goal is over."""
        if self.outcome is not None:
            return
        try:
            self._send(message)
        except Exception as error:  # noqa: BLE001 - the goal goes on
            self._report(
                f"action.feedback:{self._path}", f"{self._path}: no feedback sent: {describe(error)}"
            )

    def finish(self, outcome: Outcome, result: Any) -> bool:
        """Decide how the goal ends; notify the client soon. Return whether that was open."""
        if not self._settle(outcome, result):
            return False
        self._domain.defer(self.conclude)
        return True

    def finish_now(self, outcome: Outcome, result: Any) -> None:
        """End the goal here: so, or as it was settled before."""
        self._settle(outcome, result)
        self._tries = _CANCEL_TRIES
        self.conclude()

    def conclude(self) -> None:
        """Report the goal's end to rclpy, and so to the client. Idempotent."""
        outcome = self.outcome
        if outcome is None:
            return
        if outcome == "canceled" and not self.handle.is_cancel_requested:
            # CANCELED is legal from CANCELING only, and where the executor is a host's, its thread may be about to go
            # there. A controller that cancels a goal of its own accord aborts it.
            self._tries += 1
            if self.cancel_requested and self._tries < _CANCEL_TRIES:
                self._domain.defer(self.conclude)
                return
            outcome = "aborted"
        with self._lock:
            if self._concluded:
                return
            self._concluded = True
        try:
            self._server.conclude(self.handle, outcome, self._result)
        except Exception as error:  # noqa: BLE001 - other goals are still to be ended
            self._report(f"action.error:{self._path}", f"{self._path}: a goal ended oddly: {describe(error)}")
        finally:
            self._ended(self)

    def _settle(self, outcome: Outcome, result: Any) -> bool:
        with self._lock:
            if self.outcome is not None:
                return False
            self.outcome, self._result = outcome, result
            return True


class ControllerGoalPort:
    """The `GoalPort` of a goal that a controller follows: encodes feedback and the result for its client."""

    def __init__(self, live: LiveGoal, action_class: Any, codec: ActionCodec) -> None:
        """Store whose goal it is and how to reach its client."""
        self._live = live
        self._class = action_class
        self._codec = codec
        self._encode = codec.feedback(action_class)

    def feedback(self, feedback: object) -> None:
        """Publish feedback, in the tick's thread."""
        if not self._live.over:
            self._live.publish(self._encode(feedback))

    def finish(self, outcome: Outcome, result: object) -> None:
        """End the goal."""
        try:
            message = self._codec.result(self._class, result)
        except Exception as error:
            # The client gets its result all the same; the runtime reports.
            self._live.finish("aborted", self._codec.unfinished(self._class, describe(error)))
            raise
        self._live.finish(outcome, message)


class HandledGoal:
    """The `Goal` that a handler sees."""

    def __init__(self, live: LiveGoal, time_ns: Callable[[], int]) -> None:
        """Store whose goal it is and the clock."""
        self._live = live
        self.future: Future[Any] | None = None
        """What the handler returns, once it is with the workers."""
        self._time_ns = time_ns
        self._lock = threading.Lock()
        self._begun = self._stopped = False
        self._cancel: Callable[[], object] | None = None

    @property
    def request(self) -> Any:
        """Return the goal message."""
        return self._live.request

    @property
    def cancel_requested(self) -> bool:
        """Return whether the handler should end: the client canceled it, the time is over, or the bridge closes."""
        return self._stopped or self._live.over

    @property
    def time_ns(self) -> int:
        """Bridge time, nanoseconds."""
        return self._time_ns()

    def feedback(self, feedback: Any) -> None:
        """Send a feedback message to the client."""
        self._live.publish(feedback)

    def cancel(self) -> None:
        """Cancel the handler: a coroutine gets CancelledError, a function sees `cancel_requested`.

        One that waits for a thread never begins.
        """
        with self._lock:
            self._stopped = True
            cancel = self._cancel
            waiting = None if self._begun else self.future
        if cancel is not None:
            cancel()
        elif waiting is not None:
            waiting.cancel()

    def wrap(self, handler: Callable[[Any], Any]) -> Callable[[], Any]:
        """Return what runs `handler` on this goal, for workers."""
        if is_coroutine_function(handler):

            async def follow() -> Any:
                self._begun = True
                return await self._follow(handler(self))

            return follow

        def run() -> Any:
            self._begun = True
            result = handler(self)
            return self._follow(result) if hasattr(result, "__await__") else result

        return run

    async def _follow(self, awaitable: Any) -> Any:
        """Await a handler in a task of its own: canceled, it may still clean up and return a result."""
        task = asyncio.ensure_future(awaitable)
        loop = asyncio.get_running_loop()
        with self._lock:
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
            stopped = self._stopped
        if stopped:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled() and self._stopped:
                return None
            task.cancel()
            raise
        finally:
            with self._lock:
                self._cancel = None


def goal_key(handle: Any) -> bytes:
    """Return a goal's id."""
    return bytes(handle.goal_id.uuid)
