"""An rclpy action server whose goals are followed elsewhere: no thread, and no task of an executor, waits for one.

What is asked of rclpy beyond its public interface stands here alone, and is the same on Jazzy and Kilted.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from functools import partial
from typing import Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.exceptions import InvalidHandle

from usd_ros_bridge.model.goals import Outcome

RESULT_TIMEOUT_S = 10
"""How long a result may be asked for: rclpy's default since Kilted, where Jazzy's is 900.

Whoever follows a goal asks as soon as it is accepted; every status message lists all goals that are kept.
"""


class GoalServer(ActionServer):
    """Accepts goals, and ends them when it is told to.

    rclpy's own server runs a callback per goal: one that blocks starves its executor, one that awaits is polled.
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
        """Creates the server.

        Args:
            node: Whose it is.
            action_class: Class of the action type.
            name: Action name; the node's remap rules apply.
            on_goal: Returns a GoalResponse for a goal message.
            start: Called with the handle of a goal that was accepted and is executing, or canceling already.
            on_cancel: Called with the handle of a goal that a client wants canceled.
        """
        self.asked: set[bytes] = set()
        """Goals, by their ids, whose result somebody has asked for."""
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
        """Handles what arrived, as rclpy does; notes who asks for results."""
        # A server that is being destroyed answers nobody; an exception would end a host's executor.
        with suppress(InvalidHandle):
            await super().execute(taken_data)
        if "result" in taken_data:
            self.asked.add(bytes(taken_data["result"][1].goal_id.uuid))
        for expired in taken_data.get("expired", ()):
            self.asked.discard(bytes(expired.goal_id.uuid))

    def notify_execute(self, goal_handle: Any, execute_callback: Any) -> None:  # noqa: ARG002 - rclpy's signature
        """Starts a goal instead of running a callback for it."""
        self._start(goal_handle)

    def add_future(self, future: Any) -> None:
        """Leaves the future of a result without an executor.

        Then results are sent by the thread that ends a goal, at once, also while the executor is stopped.
        """

    def remove_future(self, future: Any) -> None:
        """Has nothing to remove; see `add_future`."""

    def conclude(self, goal_handle: Any, outcome: Outcome, result: Any) -> None:
        """Takes a goal to its terminal state and sends the result to whoever asked for it, or will.

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
        """Returns what publishes feedback messages of one goal, unless it is gone.

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
        """Returns the handles of goals that have not ended and that nobody follows.

        rclpy leaves a goal there when it could not tell the client that it was accepted.

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
