"""Message store: a tap that keeps the messages of a bridge in this process, for tests to read them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from rclpy.qos import DurabilityPolicy
from rclpy.serialization import deserialize_message

SHOWN_CHARACTERS = 400
"""Characters of a message that messages to people show."""
MAX_TOPIC_BYTES = 64 * 2**20
"""Bytes of messages that are kept of a topic; the newest are kept."""


def brief(message: Any) -> str:
    """Return a message as one line, cut where it gets long."""
    text = " ".join(str(message).split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} ..."


class StoredMessage(NamedTuple):
    """A message of a topic.

    Attributes:
        number: Number of messages of the topic before it.
        data: Serialized message.
    """

    number: int
    data: bytes


class StoredTopic:
    """Messages of a topic, oldest first.

    Attributes:
        name: Absolute name.
        message_class: Class of its messages.
        latched: Whether subscriptions that come late get the last message.
        count: Number of messages so far.
    """

    takes_all = True

    def __init__(self, name: str, message_class: Any, *, latched: bool) -> None:
        """Args: name: Absolute name. message_class: Class of its messages. latched: As of the class."""
        self.name = name
        self.message_class = message_class
        self.latched = latched
        self.count = 0
        self._kept: deque[StoredMessage] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def is_wanted(self) -> bool:
        """Return True, as a `TapChannel`."""
        return True

    def write(self, data: bytes | bytearray) -> None:
        """Keep a message, as a `TapChannel`."""
        with self._lock:
            self._kept.append(StoredMessage(self.count, bytes(data)))
            self.count += 1
            self._bytes += len(data)
            while self._bytes > MAX_TOPIC_BYTES and len(self._kept) > 1:
                self._bytes -= len(self._kept.popleft().data)

    def close(self) -> None:
        """Do nothing, as a `TapChannel`: the messages stay readable."""

    def since(self, number: int) -> list[Any]:
        """Return the messages that are kept, without those before a number."""
        with self._lock:
            data = [each.data for each in self._kept if each.number >= number]
        return [deserialize_message(each, self.message_class) for each in data]

    def last(self) -> Any:
        """Return the newest message, None for none."""
        with self._lock:
            data = self._kept[-1].data if self._kept else None
        return None if data is None else deserialize_message(data, self.message_class)


class MessageStore:
    """A `MessageTap` that keeps what is published, topic by topic. Thread-safe."""

    def __init__(self, *, named: Callable[[str, int], str] = lambda topic, _: topic) -> None:
        """Args: named: Return the name of a topic of a domain: topics of two domains may have one name."""
        self._named = named
        self._topics: dict[str, StoredTopic] = {}
        self._lock = threading.Lock()

    def open_channel(self, *, topic: str, message_class: Any, profile: Any, domain_id: int) -> StoredTopic:
        """Return where the messages of a publisher go, as a `MessageTap`. Publishers of one topic share it."""
        name = self._named(topic, domain_id)
        with self._lock:
            found = self._topics.get(name)
            if found is None or found.message_class is not message_class:
                latched = profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
                found = self._topics[name] = StoredTopic(name, message_class, latched=latched)
            return found

    def get(self, topic: str) -> StoredTopic | None:
        """Return a topic by its absolute name, None if nothing publishes on it."""
        with self._lock:
            return self._topics.get(topic)

    def topics(self) -> tuple[StoredTopic, ...]:
        """Return all topics, sorted by name."""
        with self._lock:
            return tuple(self._topics[name] for name in sorted(self._topics))
