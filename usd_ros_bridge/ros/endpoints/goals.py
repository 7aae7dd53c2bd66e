"""Goals in progress: the way back to a client, for controllers in the tick and for handlers beside it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from usd_ros_bridge.model.goals import Outcome
from usd_ros_bridge.ros.codecs.control_msgs import ActionCodec
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.goal_server import GoalServer
from usd_ros_bridge.ros.workers import is_coroutine_function
from usd_ros_bridge.runtime.report import describe

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
        """Takes over a goal.

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
        """The goal message."""
        return self.handle.request

    @property
    def over(self) -> bool:
        """Whether how it ends is settled."""
        return self.outcome is not None

    def publish(self, message: Any) -> None:
        """Sends a feedback message, unless the goal is over."""
        if self.outcome is not None:
            return
        try:
            self._send(message)
        except Exception as error:  # noqa: BLE001 - the goal goes on
            self._report(
                f"action.feedback:{self._path}", f"{self._path}: no feedback sent: {describe(error)}"
            )

    def finish(self, outcome: Outcome, result: Any) -> bool:
        """Settles how the goal ends; the client is told soon. Returns whether it was not settled before."""
        if not self._settle(outcome, result):
            return False
        self._domain.defer(self.conclude)
        return True

    def finish_now(self, outcome: Outcome, result: Any) -> None:
        """Ends the goal here: so, or as it was settled before."""
        self._settle(outcome, result)
        self._tries = _CANCEL_TRIES
        self.conclude()

    def conclude(self) -> None:
        """Tells rclpy, and so the client, how the goal ended. Idempotent."""
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


class DeskPort:
    """The `GoalPort` of a goal that a controller follows."""

    def __init__(self, live: LiveGoal, action_class: Any, codec: ActionCodec) -> None:
        """Takes whose goal it is and how to tell its client."""
        self._live = live
        self._class = action_class
        self._codec = codec
        self._encode = codec.feedback(action_class)

    def feedback(self, feedback: object) -> None:
        """Publishes feedback, in the tick's thread."""
        if not self._live.over:
            self._live.publish(self._encode(feedback))

    def finish(self, outcome: Outcome, result: object) -> None:
        """Ends the goal."""
        try:
            message = self._codec.result(self._class, result)
        except Exception as error:
            # The client is told all the same; the runtime reports.
            self._live.finish("aborted", self._codec.unfinished(self._class, describe(error)))
            raise
        self._live.finish(outcome, message)


class HandledGoal:
    """The `Goal` that a handler sees."""

    def __init__(self, live: LiveGoal, time_ns: Callable[[], int]) -> None:
        """Takes whose goal it is and where the time comes from."""
        self._live = live
        self.future: Future[Any] | None = None
        """What the handler returns, once it is with the workers."""
        self._time_ns = time_ns
        self._lock = threading.Lock()
        self._begun = self._stopped = False
        self._cancel: Callable[[], object] | None = None

    @property
    def request(self) -> Any:
        """The goal message."""
        return self._live.request

    @property
    def cancel_requested(self) -> bool:
        """Whether the handler should end: the client asked, the time is over, or the bridge closes."""
        return self._stopped or self._live.over

    @property
    def time_ns(self) -> int:
        """Bridge time, nanoseconds."""
        return self._time_ns()

    def feedback(self, feedback: Any) -> None:
        """Sends a feedback message to the client."""
        self._live.publish(feedback)

    def cancel(self) -> None:
        """Has the handler end: a coroutine gets CancelledError, a function sees `cancel_requested`.

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
        """Returns what runs `handler` on this goal, for workers."""
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
        """Awaits a handler in a task of its own: canceled, it may still clean up and return a result."""
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
    """Returns a goal's id."""
    return bytes(handle.goal_id.uuid)
