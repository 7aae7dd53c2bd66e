"""Latest messages: a tap that keeps the newest message of each topic that somebody reads."""

from __future__ import annotations

from typing import Any

from rclpy.qos import DurabilityPolicy
from rclpy.serialization import deserialize_message

from usd_ros_bridge.errors import BridgeError, alternatives, quoted


class LatestTopic:
    """The newest message of a topic, as a `TapChannel`. Publishers of one topic share it.

    Attributes:
        message_class: Class of its messages.
        takes_all: Whether it takes messages that nobody has asked for: of latched topics, which may be sent once.
    """

    def __init__(self, message_class: Any, *, latched: bool) -> None:
        """Args: message_class: Class of its messages. latched: Whether late subscriptions get the last message."""
        self.message_class = message_class
        self.takes_all = latched
        self._wanted = latched
        self._data: bytes | None = None

    def is_wanted(self) -> bool:
        """Return whether somebody has read the topic."""
        return self._wanted

    def write(self, data: bytes | bytearray) -> None:
        """Keep a message."""
        self._data = bytes(data)

    def close(self) -> None:
        """Do nothing: the message stays readable."""

    def read(self) -> Any:
        """Return the newest message since the first call, None for none. The first call starts the measuring."""
        self._wanted = True
        return None if self._data is None else deserialize_message(self._data, self.message_class)


class LatestMessages:
    """Message tap that keeps the newest message of each topic that is read. Nothing else is made.

    Use it in the thread that steps.
    """

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._topics: dict[str, LatestTopic] = {}

    def open_channel(self, *, topic: str, message_class: Any, profile: Any, **_: Any) -> LatestTopic:
        """Return where the messages of a publisher go, as a `MessageTap`."""
        found = self._topics.get(topic)
        if found is None or found.message_class is not message_class:
            latched = profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
            found = self._topics[topic] = LatestTopic(message_class, latched=latched)
        return found

    def read(self, topic: str) -> Any:
        """Return the newest message of a topic since the first call, None for none.

        Args:
            topic: Absolute name, or the end of one that only one topic has.

        Raises:
            BridgeError: Nothing publishes on it, or several topics end so.
        """
        return self._find(topic).read()

    def _find(self, topic: str) -> LatestTopic:
        found = self._topics.get(topic)
        if found is not None:
            return found
        names = [] if topic.startswith("/") else [name for name in self._topics if name.endswith(f"/{topic}")]
        if len(names) > 1:
            raise BridgeError(
                f"{quoted(topic)} may be {' or '.join(sorted(names)[:4])}: write the whole name"
            )
        if not names:
            raise BridgeError(
                f"nothing publishes on the topic {quoted(topic)}; {alternatives(topic, self._topics)}"
            )
        return self._topics[names[0]]
