"""The places where rclpy differs between ROS 2 releases, and where it needs a hand; nothing else knows of either."""

from __future__ import annotations

import faulthandler
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from rclpy.exceptions import NameValidationException
from rclpy.executors import SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.qos import qos_policy_name_from_kind

ROS_ERRORS: tuple[type[Exception], ...] = (
    rclpy_implementation.RCLError,
    rclpy_implementation.UnknownROSArgsError,
    NameValidationException,
)
"""What rclpy raises when it does not like its arguments, a node's name or a namespace."""

_EVENTS_EXECUTORS = (
    ("rclpy.experimental", "EventsExecutor"),
    ("rclpy.experimental.events_executor", "EventsExecutor"),
    ("rclpy.executors", "EventsExecutor"),
)


_DROPPED_S = 0.09
_SEND_TRIES = 3


def make_executor(context: Any) -> Any:
    """Returns an EventsExecutor for `context` where this rclpy has one, else a SingleThreadedExecutor.

    The former costs a tenth per callback and does not slow down with the number of entities.
    """
    # Its Python wrapper enables faulthandler for the whole process, which is the host's to decide.
    enabled = faulthandler.is_enabled()
    try:
        for module, name in _EVENTS_EXECUTORS:
            try:
                events_executor = getattr(import_module(module), name)
            except (ImportError, AttributeError):
                continue
            return events_executor(context=context)
        return SingleThreadedExecutor(context=context)
    finally:
        if faulthandler.is_enabled() and not enabled:
            faulthandler.disable()


def wake(executor: Any) -> None:
    """Ends an executor's `spin_once`, from any thread. EventsExecutor's own `wake` has no effect on one that waits."""
    executor.create_task(_nothing)


def _nothing() -> None:
    """Is done."""


def policy_name(kind: Any) -> str:
    """Returns the name of a QoS policy as an event gives it, in lower case ("reliability")."""
    return str(qos_policy_name_from_kind(kind)).lower()


def publisher_count(subscription: Any) -> int:
    """Returns how many publishers are matched with `subscription`."""
    return int(subscription.get_publisher_count())


def defer_responses(service: Any, answer: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Lets a service answer later, whatever executor runs its callback.

    rclpy awaits coroutine callbacks in some executors and refuses them in others (Jazzy's EventsExecutor). All of them
    hand what the callback returned, and the request's header, to the service's `send_response`.

    Args:
        service: An rclpy service.
        answer: Called with what the callback returned and the header instead of sending it.

    Returns:
        What sends a response, from any thread: `send(response, header)`. rmw_fastrtps waits 0.1 s for a client whose
        reader it has not discovered yet, and then drops the response with nothing but a warning; a client that asks
        the moment it sees the server would wait for ever. What took that long is sent again; clients ignore a second
        answer.
    """
    send_once: Callable[[Any, Any], None] = service.send_response
    service.send_response = answer

    def send(response: Any, header: Any) -> None:
        for _ in range(_SEND_TRIES):
            began = time.monotonic()
            send_once(response, header)
            if time.monotonic() - began < _DROPPED_S:
                return
            time.sleep(_DROPPED_S)

    return send
