"""Publisher handle: an open rclpy publisher with cheap calls to count subscribers and send bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.exceptions import InvalidHandle

from usd_ros_bridge.ros.compat import subscription_count

_LOOK_S = 1.0
"""How often a publisher that counts no subscriptions looks for them in the graph."""


class PublisherHandle:
    """Keep an rclpy publisher valid until it is closed, whoever destroys it meanwhile.

    rclpy enters and leaves the publisher's handle at every call, so that no other thread destroys it half-way; for a
    small message that costs as much as sending it. This class enters it once.

    Attributes:
        publisher: The rclpy publisher; message objects go to its `publish`.
        subscriptions: `subscriptions()` returns how many subscriptions it is matched with.
        send: `send(data)` publishes a serialized message: a bytearray with its encapsulation header, copied before
            the call returns. Raises rclpy's RCLError if it cannot be sent.
    """

    __slots__ = ("_handle", "_look_at", "_node", "_uncounted", "publisher", "send", "subscriptions")

    def __init__(self, node: Any, publisher: Any) -> None:
        """Enter the publisher's handle.

        Args:
            node: The publisher's node.
            publisher: An rclpy publisher.

        Raises:
            rclpy.exceptions.InvalidHandle: It was destroyed.
        """
        self.publisher = publisher
        self._node = node
        self._look_at = 0.0
        self._uncounted = False
        self._handle = publisher.handle
        self._handle.__enter__()
        self.subscriptions: Callable[[], int] = self._handle.get_subscription_count
        self.send: Callable[[bytearray], None] = self._send_first

    def has_uncounted(self) -> bool:
        """Return whether the graph has subscriptions though `subscriptions` counts none; see `subscription_count`."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_S
            self._uncounted = self.matched() > 0
        return self._uncounted

    def matched(self) -> int:
        """Return how many subscriptions it is matched with; by the graph where that differs, which takes longer."""
        return subscription_count(self._node, self.publisher, self.subscriptions())

    def close(self, destroy: Callable[[Any], object]) -> None:
        """Release the publisher and destroy it; not twice.

        Args:
            destroy: Destroys the publisher, as `Domain.destroy` does.
        """
        self._handle.__exit__(None, None, None)
        # The bound method would be a reference cycle.
        self.send = _refuse
        destroy(self.publisher)

    def _send_first(self, data: bytearray) -> None:
        """Send, and find out how this rclpy takes bytes."""
        try:
            self._handle.publish_raw(data)
        except (AttributeError, TypeError):
            self.send = self._send_copy
            self._send_copy(data)
        else:
            self.send = self._handle.publish_raw

    def _send_copy(self, data: bytearray) -> None:
        self.publisher.publish(bytes(data))


def _refuse(data: bytearray) -> None:  # noqa: ARG001 - send's
    raise InvalidHandle("the publisher is closed")
