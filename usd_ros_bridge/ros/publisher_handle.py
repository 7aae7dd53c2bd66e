"""Publisher handles: what sends the messages of a topic, to rclpy, to a message tap, or to both."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

from rclpy.exceptions import InvalidHandle

from usd_ros_bridge.ros.compat import subscription_count
from usd_ros_bridge.ros.message_tap import TapChannel
from usd_ros_bridge.ros.wire.cdr_template import serialize_defined

_LOOK_S = 1.0
"""How often a publisher that counts no subscriptions searches them in the graph."""


class PublisherHandle:
    """Keep an rclpy publisher valid until it is closed, whoever destroys it meanwhile.

    rclpy enters and leaves the publisher's handle at every call, so that no other thread destroys it half-way; for a
    small message that costs as much as sending it. This class enters it once.

    Attributes:
        publisher: The rclpy publisher.
        topic_name: The topic, after remaps.
        subscriptions: `subscriptions()` returns whether anybody wants a message: how many subscriptions the publisher
            is matched with, and the tap.
        send: `send(data)` publishes a serialized message: a bytearray with its encapsulation header, copied before
            the call returns. Raises rclpy's RCLError if it cannot be sent.
    """

    __slots__ = (
        "_channel",
        "_count",
        "_handle",
        "_look_at",
        "_node",
        "_uncounted",
        "publisher",
        "send",
        "subscriptions",
        "topic_name",
    )

    def __init__(self, node: Any, publisher: Any, *, channel: TapChannel | None = None) -> None:
        """Enter the publisher's handle.

        Args:
            node: The publisher's node.
            publisher: An rclpy publisher.
            channel: Takes a copy of each message, too.

        Raises:
            rclpy.exceptions.InvalidHandle: It was destroyed.
        """
        self.publisher = publisher
        self._node = node
        self._look_at = 0.0
        self._uncounted = False
        self._handle = publisher.handle
        self._handle.__enter__()
        self.topic_name = str(publisher.topic_name)
        self._count: Callable[[], int] = self._handle.get_subscription_count
        self.subscriptions = self._count
        self.send: Callable[[bytearray], None] = self._send_first
        self._channel = channel
        if channel is not None:
            self.send = self._send_and_copy
            # Called for every message that is due: without a call of Python's where the answer is known.
            self.subscriptions = repeat(1).__next__ if channel.takes_all else self._count_with_tap

    def publish(self, message: Any) -> None:
        """Publish a message object."""
        channel = self._channel
        if channel is None:
            self.publisher.publish(message)
        else:
            self.send(serialize_defined(message))

    def has_uncounted(self) -> bool:
        """Return whether the graph has subscriptions though `subscriptions` counts none; see `subscription_count`."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_S
            self._uncounted = self.matched() > 0
        return self._uncounted

    def matched(self) -> int:
        """Return how many subscriptions it is matched with; by the graph where that differs, which takes longer."""
        return subscription_count(self._node, self.publisher, self._count())

    def publisher_count(self) -> int:
        """Return how many publishers the graph has on the topic, this one included."""
        return int(self._node.count_publishers(self.topic_name))

    def close(self, destroy: Callable[[Any], object]) -> None:
        """Release the publisher and destroy it; not twice.

        Args:
            destroy: Destroys the publisher, as `Domain.destroy` does.
        """
        self._handle.__exit__(None, None, None)
        # The bound methods would be reference cycles.
        self.send, self.subscriptions = _refuse, self._count
        if self._channel is not None:
            self._channel.close()
        destroy(self.publisher)

    def _count_with_tap(self) -> int:
        channel = self._channel
        return self._count() or (channel is not None and channel.is_wanted())

    def _send_and_copy(self, data: bytearray) -> None:
        """Hand a copy to the tap, and send."""
        channel = self._channel
        if channel is not None and (channel.takes_all or channel.is_wanted()):
            channel.write(data)
        try:
            self._handle.publish_raw(data)
        except (AttributeError, TypeError):
            self._send_copy(data)

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


class TapHandle(PublisherHandle):
    """Handle of a topic that only a message tap gets: there is no rclpy publisher, and no middleware."""

    __slots__ = ()

    def __init__(self, topic_name: str, channel: TapChannel | None) -> None:
        """Args: topic_name: The topic. channel: Takes the messages; None: nothing does."""
        # Not the constructor of the base, which needs a publisher.
        self.publisher = self._node = self._handle = None
        self._look_at, self._uncounted = float("inf"), False
        self.topic_name = topic_name
        self._channel = channel
        self._count = repeat(0).__next__
        self.subscriptions = self._count
        if channel is not None:
            self.subscriptions = repeat(1).__next__ if channel.takes_all else self._count_with_tap
        self.send = _drop if channel is None else channel.write

    def publish(self, message: Any) -> None:
        """Write a message object to the tap."""
        self.send(serialize_defined(message))

    def matched(self) -> int:
        """Return 0: there is no graph."""
        return 0

    def publisher_count(self) -> int:
        """Return 1: there is no graph."""
        return 1

    def close(self, destroy: Callable[[Any], object]) -> None:
        """Close the channel. Idempotent."""
        del destroy
        self.send, self.subscriptions = _refuse, self._count
        if self._channel is not None:
            self._channel.close()


def _drop(data: bytearray) -> None:
    pass


def _refuse(data: bytearray) -> None:  # noqa: ARG001 - send's
    raise InvalidHandle("the publisher is closed")
