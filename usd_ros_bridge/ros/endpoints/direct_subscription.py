"""Direct subscription: wake the loop's thread, which takes the serialized messages itself.

An executor would wake a thread of its own, which would hand the message over: 35 to 50 us more for every message. Here
the middleware's new-message callback is libc's `eventfd_write` itself: its signature, `int (int fd, uint64 value)`, is
that of the callback, `void (const void * user_data, size_t number_of_events)`, where the calling convention passes
both arguments in registers (x86-64, AArch64), so that no Python runs, and no GIL is taken, in the middleware's thread.
Everything else of the subscription (remaps, QoS events, counts) is rclpy's, and its node's executor goes on serving
its QoS events. Whatever is missing for that raises `DirectUnavailableError`: the caller subscribes as usual.
"""

from __future__ import annotations

import ctypes
import platform
from contextlib import suppress
from functools import lru_cache
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.subscription import Subscription
from rclpy.type_support import check_is_valid_msg_type

from usd_ros_bridge.runtime.inbox import Wakeup

_MACHINES = frozenset({"x86_64", "aarch64"})


class DirectUnavailableError(Exception):
    """This rclpy, middleware or system does not offer what a direct subscription needs."""


class DirectSubscription:
    """A subscription outside of the executor: a message sets the wake-up, and `take` takes it.

    Attributes:
        subscription: rclpy's, for its name and counts.
    """

    def __init__(
        self, node: Any, message_class: Any, name: str, profile: Any, *, events: Any, wakeup: Wakeup
    ) -> None:
        """Subscribe.

        Args:
            node: In whose name; its executor serves the QoS events.
            message_class: Class of the type.
            name: Topic name; the node's remap rules apply.
            profile: An rclpy QoSProfile.
            events: SubscriptionEventCallbacks.
            wakeup: Set when a message arrives.

        Raises:
            DirectUnavailableError: It cannot be done this way; nothing is left behind.
        """
        set_callback, write = _functions()
        if wakeup.fd is None:
            raise DirectUnavailableError("the loop waits on no file descriptor")
        self._class = message_class
        # The descriptor outlives the last write.
        self._wakeup = wakeup
        self._set_callback = set_callback
        handle: Any = None
        try:
            check_is_valid_msg_type(message_class)
            with node.handle:
                handle = rclpy_implementation.Subscription(
                    node.handle, message_class, name, profile.get_c_qos_profile()
                )
            self._handle: Any = handle
            self.subscription: Any = Subscription(
                handle,
                message_class,
                name,
                _never,
                node.default_callback_group,
                profile,
                True,
                event_callbacks=events,
            )
            self._install(write, wakeup.fd)
        except Exception as error:
            # A wrong name or profile fails the usual way, too, with the error that people know.
            if handle is not None:
                handle.destroy_when_not_in_use()
            raise DirectUnavailableError(str(error)) from error
        for handler in self.subscription.event_handlers:
            node.add_waitable(handler)

    def take(self, limit: int) -> list[bytes]:
        """Return the bytes of messages that wait, none where the subscription is gone.

        Args:
            limit: How many at most; where there may be more, the wake-up is set again.
        """
        handle, message_class = self._handle, self._class
        messages: list[bytes] = []
        if handle is None:
            return messages
        try:
            with handle:
                while len(messages) < limit:
                    taken = handle.take_message(message_class, True)
                    if taken is None:
                        return messages
                    messages.append(taken[0])
        except InvalidHandle:
            return messages
        self._wakeup.set()
        return messages

    def close(self) -> None:
        """End the wake-ups; the subscription is the caller's to destroy. Idempotent, also while a thread takes."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(InvalidHandle):
                self._install(None, None, handle)

    def _install(self, function: int | None, fd: int | None, handle: Any = None) -> None:
        handle = handle or self._handle
        # rcl holds a lock while it replaces the callback: none is running any more when this returns.
        with handle:
            code = self._set_callback(handle.pointer, function, fd)
        if code != 0:
            raise DirectUnavailableError(f"the middleware takes no new-message callback ({code})")


def _never(_: Any) -> None:
    raise AssertionError("no executor takes from this subscription")


@lru_cache(maxsize=1)
def _functions() -> tuple[Any, int]:
    """Return rcl_subscription_set_on_new_message_callback, and the address of eventfd_write."""
    if platform.machine() not in _MACHINES:
        raise DirectUnavailableError(f"not known to work on {platform.machine()}")
    try:
        # Both are loaded already, by rclpy and by Python.
        set_callback = ctypes.CDLL("librcl.so").rcl_subscription_set_on_new_message_callback
        write = ctypes.cast(ctypes.CDLL(None).eventfd_write, ctypes.c_void_p).value
    except (OSError, AttributeError) as error:
        raise DirectUnavailableError(str(error)) from error
    set_callback.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    set_callback.restype = ctypes.c_int
    assert write is not None
    return set_callback, write
