"""Message tap: what gets a copy of each message that is published, such as a recording."""

from __future__ import annotations

from typing import Any, Protocol


class TapChannel(Protocol):
    """What takes the messages of one publisher.

    Attributes:
        takes_all: Whether every message is wanted, for as long as the channel is open.
    """

    takes_all: bool

    def is_wanted(self) -> bool:
        """Return whether a message would be of use now. Called before each message is made."""
        ...

    def write(self, data: bytes | bytearray) -> None:
        """Take a serialized message with its encapsulation header. The data is copied. Raise nothing."""
        ...

    def close(self) -> None:
        """End: the publisher is closed. Idempotent."""
        ...


class MessageTap(Protocol):
    """What opens a channel for each publisher."""

    def open_channel(
        self, *, topic: str, message_class: Any, profile: Any, domain_id: int
    ) -> TapChannel | None:
        """Open the channel of a publisher; None: its messages are not wanted.

        Args:
            topic: Resolved name.
            message_class: Class of its messages.
            profile: rclpy QoSProfile.
            domain_id: Domain of the publisher.
        """
        ...
