"""Messages of an encoding: serialized ones written in place, or message objects where no template can be made."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.ros.cdr import (
    Outlet,
    Place,
    Row,
    SharedMessages,
    Template,
    TemplateError,
    Together,
)
from usd_ros_bridge.ros.codecs.protocol import Encoding, Values, set_stamp
from usd_ros_bridge.ros.codecs.serialized import Serialized
from usd_ros_bridge.ros.domains import Report
from usd_ros_bridge.runtime.snapshot import Snapshot

MAX_TEMPLATES = 4
"""Shapes that are kept: with and without velocities and efforts of a JointState, the usual sizes of a cloud."""
MAX_SHARED_BYTES = 16_384
"""Up to which size messages are shared: what few robots have, and what takes long to compare, is not worth it."""


class MessageWriter:
    """Publishes what an encoding gives.

    Arrays of another shape or type make another template. A few are kept; where shapes come and go (a cloud that
    loses points), message objects are cheaper than templates that are used once.

    Attributes:
        values: The encoding's: returns what a snapshot shows.
        fixed: The message of an encoding without sequences, once there is one: `publish` would write it and send it.
        frame: The header's frame: UTF-8 with a zero at its end.
        row: Of the robots whose messages can be written `together`.
    """

    __slots__ = (
        "_class", "_encoding", "_first", "_kept", "_key", "_many", "_number", "_report", "_shared", "_templates",
        "_together", "_topic", "_written", "fixed", "frame", "row", "values",
    )  # fmt: skip

    def __init__(
        self, topic: TopicPlan, message_class: Any, encoding: Encoding, *, report: Report,
        shared: SharedMessages[Serialized] | None = None,
    ) -> None:  # fmt: skip
        """Stores what to write; templates are made when they are first needed.

        Args:
            topic: The publisher's plan.
            message_class: Class of its type.
            encoding: How its messages are made.
            report: For a template that is not possible.
            shared: Messages that writers of the same thread write in turn; None for none.
        """
        self._shared = shared
        self._topic = topic
        self._class = message_class
        self._encoding = encoding
        self.values = encoding.values
        self._report = report
        self._first = len(encoding.blocks)
        self._many = bool(encoding.sequences)
        self.frame = topic.frame_id.encode() + b"\0"
        self.fixed: Serialized | None = None
        self._key: Hashable = None
        self._written: Serialized | None = None
        self._kept: dict[Hashable, Serialized] = {}
        self._templates = not encoding.varying
        self.row = Row(0)
        self._number = 0
        self._together: Together | None = None

    def together(self, snapshot: Snapshot, time_ns: int) -> bytearray | None:
        """Returns the message of what a snapshot shows, written along with those of robots of the same kind.

        Args:
            snapshot: The snapshot.
            time_ns: Its stamp, nanoseconds.

        Returns:
            The caller's own; None where the message is to be published alone.
        """
        if self._together is None or snapshot.common_ns is None:
            return None
        message = self._together.message(self.row, self._number, snapshot, time_ns)
        if message is not None and self._written is not None and self._written.frame is not None:
            message[self._written.frame] = self.frame
        return message

    @property
    def place(self) -> Place | None:
        """Where its messages are written along with others'; None where they are not."""
        if self._together is None or not self.row.several:
            return None
        return Place(self._together, self.row, self._number)

    @property
    def frame_place(self) -> slice | None:
        """Where the header's frame is in a message; None where there is none."""
        return None if self._written is None else self._written.frame

    def publish(self, outlet: Outlet, values: Values, time_ns: int) -> None:
        """Publishes one message.

        Args:
            outlet: Where to.
            values: What the encoding returned.
            time_ns: Its stamp, nanoseconds.
        """
        key = _shapes(values, self._first) if self._many else ()
        written = self._written
        if written is None or key != self._key:
            written = self._written = self._choose(key, values)
            self._key = key
            self._join(written)
            self.fixed = None if self._many else written
        if written is None:
            outlet.publisher.publish(self.message(values, time_ns))
            return
        written.write(values, time_ns, self.frame)
        outlet.send(written.data)

    def message(self, values: Values, time_ns: int) -> Any:
        """Returns a message object that says what `values` say."""
        message = self._class()
        self._encoding.prepare(message, values)
        for path, value in zip((*self._encoding.blocks, *self._encoding.sequences), values, strict=True):
            fill(message, path, value)
        if hasattr(message, "header"):
            message.header.frame_id = self._topic.frame_id
            set_stamp(message.header.stamp, time_ns)
        return message

    def follow(self, old: MessageWriter) -> None:
        """Gets ready what another writer of the same type has made, as the first tick would: what is alike stays."""
        if (old._encoding.blocks, old._encoding.sequences) != (
            self._encoding.blocks,
            self._encoding.sequences,
        ):
            return
        for key, written in tuple(old._kept.items()):
            if written.blank:
                try:
                    self._kept[key] = self._make(key, written.values, written)
                except Exception:  # noqa: BLE001 - it is made when it is needed, which tells what is wrong
                    return

    def _join(self, written: Serialized | None) -> None:
        """Joins the robots whose messages are written as this one's are now."""
        rows = self._encoding.rows
        self._together = None if written is None or rows is None else written.together
        if rows is not None and self._together is not None:
            self.row, self._number = self._together.join(rows)

    def _choose(self, key: Hashable, values: Values) -> Serialized | None:
        written = self._kept.get(key)
        if written is not None or not self._templates:
            return written
        if len(self._kept) >= MAX_TEMPLATES:
            if key != self._key:
                return None
            # The same shape twice in a row: it stays.
            del self._kept[next(iter(self._kept))]
        try:
            written = self._make(key, values)
        except TemplateError as error:
            self._templates = False
            self._report(
                f"template:{self._topic.path}",
                f"{self._topic.path}: {self._topic.type} is published by way of message objects, which is slower: "
                f"{error}",
            )
            return None
        self._kept[key] = written
        return written

    def _make(self, key: Hashable, values: Values, like: Serialized | None = None) -> Serialized:
        # Without its numbers and its frame, all of which `write` writes: the rest is the same for robots of a kind.
        blank = _blank(values, self._first)
        message = self.message(blank, 0)
        if hasattr(message, "header"):
            message.header.frame_id = " " * (len(self.frame) - 1)
        encoding = self._encoding
        if like is not None and like.template.begins(message, like.blank):
            make, data = partial(like.renewed, encoding), like.blank
        else:
            template = Template(message)
            data = bytes(template.data) if template.size <= MAX_SHARED_BYTES else b""
            frame = self.frame if hasattr(message, "header") else None
            make = partial(Serialized, template, encoding, blank, frame, data)
        if self._shared is None or not data:
            return make()
        return self._shared.find((self._class, encoding.blocks, encoding.sequences, key, data), make)


def _blank(values: Values, first: int) -> Values:
    """Returns zeros of the same shapes and types."""
    blocks = [tuple(type(number)() for number in block) for block in values[:first]]
    return (*blocks, *map(np.zeros_like, values[first:]))


def _shapes(values: Values, first: int) -> Hashable:
    if len(values) - first == 1:
        value = values[first]
        return value.shape, value.dtype
    # Several sequences are rows of numbers: their lengths say all.
    return tuple(map(len, values[first:] if first else values))


def fill(message: Any, path: str, value: Any) -> None:
    """Writes what stands at one path of an encoding into a message object.

    Args:
        message: A message object.
        path: Fields joined by dots.
        value: Numbers for the fields there and below, in their order; or an array for a sequence.
    """
    *outer, name = path.split(".")
    for each in outer:
        message = getattr(message, each)
    if isinstance(value, np.ndarray):
        kind = array(getattr(message, name).typecode)
        kind.frombytes(_bytes(value, kind.typecode))
        setattr(message, name, kind)
        return
    numbers = iter(value)
    _fill(message, name, numbers)


def _fill(message: Any, name: str, numbers: Any) -> None:
    current = getattr(message, name)
    if hasattr(current, "get_fields_and_field_types"):
        for inner in current.get_fields_and_field_types():
            _fill(current, inner, numbers)
    elif isinstance(current, np.ndarray):
        setattr(message, name, [next(numbers) for _ in range(current.size)])
    else:
        setattr(message, name, type(current)(next(numbers)))


def _bytes(value: NDArray[Any], typecode: str) -> bytes:
    if typecode != "B":
        value = value.astype(typecode, copy=False)
    return value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
