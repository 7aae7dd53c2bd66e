"""Joined taps: each message goes to each tap that wants it."""

from __future__ import annotations

from typing import Any

from usd_ros_bridge.ros.message_tap import join_taps


class Channel:
    """A tap with one channel, which notes what it gets; no channel for a topic that it ignores."""

    def __init__(self, *, takes_all: bool = False, wanted: bool = False, ignored: str = "") -> None:
        self.takes_all, self.wanted, self.ignored = takes_all, wanted, ignored
        self.got: list[bytes] = []
        self.is_closed = False

    def open_channel(self, *, topic: str, **_: Any) -> Channel | None:
        return None if topic == self.ignored else self

    def is_wanted(self) -> bool:
        return self.wanted

    def write(self, data: bytes | bytearray) -> None:
        self.got.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True


def open_channel(tap: Any, topic: str) -> Any:
    return tap.open_channel(topic=topic, message_class=None, profile=None, domain_id=0)


def test_two_taps_are_one() -> None:
    view, recording = Channel(), Channel(takes_all=True)
    both = open_channel(join_taps(view, recording), "/a")
    assert both.takes_all
    assert not both.is_wanted()
    both.write(b"1")
    view.wanted = True
    assert both.is_wanted()
    both.write(b"2")
    assert (view.got, recording.got) == ([b"2"], [b"1", b"2"])
    both.close()
    assert view.is_closed
    assert recording.is_closed


def test_a_tap_alone_is_itself() -> None:
    first, second = Channel(ignored="/a"), Channel(ignored="/b")
    assert join_taps(None, second) is second
    joined = join_taps(first, second)
    assert open_channel(joined, "/a") is second
    assert open_channel(joined, "/b") is first
    assert open_channel(join_taps(first, first), "/a") is None
