"""The places where rclpy differs between ROS 2 releases, and where it needs a hand; nothing else knows of either."""

from __future__ import annotations

import faulthandler
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
        What sends a response, from any thread: `send(response, header)`.
    """
    send: Callable[[Any, Any], None] = service.send_response
    service.send_response = answer
    return send
