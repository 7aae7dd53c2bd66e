"""Live channels: a tap whose messages go to the clients of a server, latched ones to those that come late, too."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from rclpy.qos import DurabilityPolicy

from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.recording.message_channels import ChannelFeed, MessageChannels

_MOST_KEPT = 100
"""Messages that a latched channel keeps, at most. The bridge's own latched topics have a depth of 1."""


class LiveChannels:
    """Open a channel for each topic. Without a client of the topic, no message is made or copied.

    Latched topics are the exception: foxglove-sdk keeps no message for clients that subscribe later, so these channels
    take all messages and keep the last ones.
    """

    def __init__(self, *, report: Report) -> None:
        """Args: report: For messages that are dropped."""
        self._channels = MessageChannels(takes_all=False, lossless=False, report=report)
        self._lock = threading.Lock()
        self._latched: dict[str, list[LatchedFeed]] = {}
        self._topics: Counter[tuple[int, str]] = Counter()

    @property
    def context(self) -> Any:
        """The foxglove-sdk Context of the channels."""
        return self._channels.context

    def set_time(self, time_ns: Callable[[], int]) -> None:
        """Set the clock of the messages' log times, nanoseconds."""
        self._channels.time_ns = time_ns

    def start(self) -> None:
        """Start to hand messages to clients."""
        self._channels.start()

    def close(self) -> None:
        """Close all channels. Idempotent."""
        self._channels.close()

    def has_topic(self, topic: str, domain_id: int) -> bool:
        """Return whether the bridge publishes a topic."""
        return self._topics[domain_id, topic] > 0

    def open_channel(
        self, *, topic: str, message_class: Any, profile: Any, domain_id: int
    ) -> LiveFeed | None:
        """Open the channel of a publisher, as `MessageTap.open_channel`."""
        feed = self._channels.open_channel(
            topic=topic, message_class=message_class, profile=profile, domain_id=domain_id
        )
        if feed is None:
            return None
        key = domain_id, topic
        with self._lock:
            self._topics[key] += 1
            if profile.durability != DurabilityPolicy.TRANSIENT_LOCAL:
                return LiveFeed(feed, lambda: self._forget(key))
            latched = LatchedFeed(feed, lambda: self._forget(key, latched), depth=profile.depth)
            self._latched.setdefault(feed.topic, []).append(latched)
        return latched

    def send_latched(self, topic: str) -> None:
        """Send what a latched channel keeps again: a client has just subscribed to it.

        Clients that had it get it once more: foxglove-sdk cannot send to one client alone.

        Args:
            topic: Name of the channel.
        """
        with self._lock:
            feeds = tuple(self._latched.get(topic, ()))
        for feed in feeds:
            feed.send_again()

    def _forget(self, key: tuple[int, str], latched: LatchedFeed | None = None) -> None:
        with self._lock:
            self._topics[key] -= 1
            if not self._topics[key]:
                del self._topics[key]
            if latched is not None:
                feeds = self._latched[latched.topic]
                feeds.remove(latched)
                if not feeds:
                    del self._latched[latched.topic]


class LiveFeed:
    """The `TapChannel` of one publisher."""

    __slots__ = ("_close", "_feed", "is_wanted", "takes_all", "write")

    def __init__(self, feed: ChannelFeed, close: Callable[[], None]) -> None:
        """Args: feed: Feed of the publisher's channel. close: Called once, when the publisher is closed."""
        self._feed = feed
        self._close: Callable[[], None] | None = close
        self.takes_all = False
        self.is_wanted: Callable[[], bool] = feed.is_wanted
        self.write: Callable[[bytes | bytearray], None] = feed.write

    @property
    def topic(self) -> str:
        """Name of the channel."""
        return self._feed.topic

    def close(self) -> None:
        """Release the channel. Idempotent."""
        close, self._close = self._close, None
        if close is not None:
            close()
            self._feed.close()


class LatchedFeed(LiveFeed):
    """The `TapChannel` of a publisher whose last messages are kept."""

    __slots__ = ("_kept",)

    def __init__(self, feed: ChannelFeed, close: Callable[[], None], *, depth: int) -> None:
        """Args: feed, close: As of `LiveFeed`. depth: Messages to keep."""
        super().__init__(feed, close)
        self._kept: deque[bytes] = deque(maxlen=min(max(depth, 1), _MOST_KEPT))
        self.takes_all = True
        self.write = self._keep

    def send_again(self) -> None:
        """Send what is kept."""
        for data in tuple(self._kept):
            self._feed.write(data)

    def _keep(self, data: bytes | bytearray) -> None:
        self._kept.append(bytes(data))
        if self.is_wanted():
            self._feed.write(data)
