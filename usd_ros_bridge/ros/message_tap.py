"""Message tap: what gets a copy of each message that is published, such as a recording."""

from __future__ import annotations

from collections.abc import Sequence
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


def join_taps(first: MessageTap | None, second: MessageTap) -> MessageTap:
    """Return a tap that gives each message to two taps; the second one if there is no first."""
    return second if first is None else _JoinedTap((first, second))


class _JoinedTap:
    """Tap that opens a channel of several taps for each publisher."""

    def __init__(self, taps: Sequence[MessageTap]) -> None:
        self._taps = taps

    def open_channel(
        self, *, topic: str, message_class: Any, profile: Any, domain_id: int
    ) -> TapChannel | None:
        """Open the channels of a publisher; None: nobody wants its messages."""
        made = (
            tap.open_channel(topic=topic, message_class=message_class, profile=profile, domain_id=domain_id)
            for tap in self._taps
        )
        channels = [channel for channel in made if channel is not None]
        return _JoinedChannel(channels) if len(channels) > 1 else next(iter(channels), None)


class _JoinedChannel:
    """Channels of several taps for one publisher."""

    def __init__(self, channels: Sequence[TapChannel]) -> None:
        self._channels = channels
        self.takes_all = any(channel.takes_all for channel in channels)

    def is_wanted(self) -> bool:
        """Return whether one of the taps wants a message now."""
        return any(channel.is_wanted() for channel in self._channels)

    def write(self, data: bytes | bytearray) -> None:
        """Give a copy to each tap that needs it."""
        for channel in self._channels:
            if channel.takes_all or channel.is_wanted():
                channel.write(data)

    def close(self) -> None:
        """Close the channels. Idempotent."""
        for channel in self._channels:
            channel.close()
