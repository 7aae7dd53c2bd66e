"""Publisher handle: an open rclpy publisher with cheap calls to count subscribers and send bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.exceptions import InvalidHandle


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

    __slots__ = ("_handle", "publisher", "send", "subscriptions")

    def __init__(self, publisher: Any) -> None:
        """Enter the publisher's handle.

        Args:
            publisher: An rclpy publisher.

        Raises:
            rclpy.exceptions.InvalidHandle: It was destroyed.
        """
        self.publisher = publisher
        self._handle = publisher.handle
        self._handle.__enter__()
        self.subscriptions: Callable[[], int] = self._handle.get_subscription_count
        self.send: Callable[[bytearray], None] = self._send_first

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
