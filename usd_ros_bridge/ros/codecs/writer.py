"""Messages of an encoding: serialized ones written in place, or message objects where no template can be made."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.ros.cdr import Outlet, Template, TemplateError
from usd_ros_bridge.ros.codecs.protocol import SECOND_NS, Encoding, Values, set_stamp
from usd_ros_bridge.ros.domains import Report

Write = Callable[[Values, int], None]
PackStamp = Callable[[int, int], None]

MAX_TEMPLATES = 4
"""Shapes that are kept: with and without velocities and efforts of a JointState, the usual sizes of a cloud."""

_STRUCT_CODES = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
    "f4": "f", "f8": "d",
}  # fmt: skip


class MessageWriter:
    """Publishes what an encoding gives.

    Arrays of another shape or type make another template. A few are kept; where shapes come and go (a cloud that
    loses points), message objects are cheaper than templates that are used once.
    """

    def __init__(self, topic: TopicPlan, message_class: Any, encoding: Encoding, *, report: Report) -> None:
        """Stores what to write; templates are made when they are first needed.

        Args:
            topic: The publisher's plan.
            message_class: Class of its type.
            encoding: How its messages are made.
            report: For a template that is not possible.
        """
        self._topic = topic
        self._class = message_class
        self._encoding = encoding
        self._report = report
        self._first = len(encoding.blocks)
        self._many = bool(encoding.sequences)
        self._key: Hashable = None
        self._written: _Serialized | None = None
        self._kept: dict[Hashable, _Serialized] = {}
        self._templates = True

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
        if written is None:
            outlet.publisher.publish(self.message(values, time_ns))
            return
        written.write(values, time_ns)
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

    def _choose(self, key: Hashable, values: Values) -> _Serialized | None:
        written = self._kept.get(key)
        if written is not None or not self._templates:
            return written
        if len(self._kept) >= MAX_TEMPLATES:
            if key != self._key:
                return None
            # The same shape twice in a row: it stays.
            del self._kept[next(iter(self._kept))]
        try:
            written = _Serialized(self.message(values, 0), self._encoding, values)
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


class _Serialized:
    """One serialized message, and where its numbers go.

    Attributes:
        data: The message.
        write: `write(values, time_ns)` writes what an encoding's `values` returned, and the stamp.
    """

    __slots__ = ("data", "write")

    def __init__(self, message: Any, encoding: Encoding, values: Values) -> None:
        template = Template(message)
        self.data = template.data
        stamp = template.pack_stamp or _no_stamp
        packers = [_packer(template, path) for path in encoding.blocks]
        arrays = values[len(packers) :]
        targets = [
            _target(template, path, value) for path, value in zip(encoding.sequences, arrays, strict=True)
        ]
        self.write: Write = _sequences(stamp, packers, targets) if targets else _blocks(stamp, packers)


def _no_stamp(seconds: int, nanoseconds: int) -> None:
    """Stands for the stamp of a message without a header."""


def _blocks(stamp: PackStamp, packers: list[Callable[..., None]]) -> Write:
    """Writes blocks; one and two, what most messages have, without a loop, which costs as much as they do."""
    if len(packers) == 1:
        (only,) = packers

        def write_one(values: Values, time_ns: int) -> None:
            stamp(*divmod(time_ns, SECOND_NS))
            only(*values[0])

        return write_one
    if len(packers) == 2:
        first, second = packers

        def write_two(values: Values, time_ns: int) -> None:
            stamp(*divmod(time_ns, SECOND_NS))
            first(*values[0])
            second(*values[1])

        return write_two

    def write(values: Values, time_ns: int) -> None:
        stamp(*divmod(time_ns, SECOND_NS))
        for pack, value in zip(packers, values):  # noqa: B905 - the hot path; the same length by contract
            pack(*value)

    return write


def _sequences(
    stamp: PackStamp, packers: list[Callable[..., None]], targets: list[NDArray[Any] | None]
) -> Write:
    """Writes blocks and the sequences behind them, those left out that are empty."""
    blocks = _blocks(stamp, packers)
    filled = [(index, each) for index, each in enumerate(targets, len(packers)) if each is not None]

    def write(values: Values, time_ns: int) -> None:
        blocks(values, time_ns)
        for index, target in filled:
            target[...] = values[index]

    return write


def _packer(template: Template, path: str) -> Callable[..., None]:
    view = template.view(path)
    layout = struct.Struct(f"<{view.size}{_STRUCT_CODES[view.dtype.str[1:]]}")
    return partial(layout.pack_into, template.data, template.offset(path))


def _target(template: Template, path: str, value: NDArray[Any]) -> NDArray[Any] | None:
    if not value.size:
        return None
    view = template.view(path)
    if view.dtype == np.uint8 and value.dtype != np.uint8:
        view = view.view(value.dtype.newbyteorder("<"))
    return view.reshape(value.shape)


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
    else:
        setattr(message, name, type(current)(next(numbers)))


def _bytes(value: NDArray[Any], typecode: str) -> bytes:
    if typecode != "B":
        value = value.astype(typecode, copy=False)
    return value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
