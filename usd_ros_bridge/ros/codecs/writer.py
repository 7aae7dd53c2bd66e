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
from usd_ros_bridge.ros.cdr import Template, TemplateError, publish_bytes
from usd_ros_bridge.ros.codecs.protocol import Encoding, Values, set_stamp
from usd_ros_bridge.ros.domains import Report

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
        self._many = bool(encoding.sequences)
        self._key: Hashable = None
        self._written: _Serialized | None = None
        self._kept: dict[Hashable, _Serialized] = {}
        self._templates = True

    def publish(self, publisher: Any, values: Values, time_ns: int) -> None:
        """Publishes one message.

        Args:
            publisher: The rclpy publisher.
            values: What the encoding returned.
            time_ns: Its stamp, nanoseconds.
        """
        written = self._written
        if written is None or self._many:
            key = _shapes(values, len(self._encoding.blocks)) if self._many else ()
            if written is None or key != self._key:
                written = self._written = self._choose(key, values)
                self._key = key
        if written is None:
            publisher.publish(self.message(values, time_ns))
            return
        written.write(values, time_ns)
        publish_bytes(publisher, written.data)

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
    """One serialized message, and where its numbers go."""

    __slots__ = ("_blocks", "_sequences", "_stamp", "data")

    def __init__(self, message: Any, encoding: Encoding, values: Values) -> None:
        template = Template(message)
        self.data = template.data
        self._stamp: Callable[[int], None] | None = (
            template.write_stamp if hasattr(message, "header") else None
        )
        self._blocks = [_packer(template, path) for path in encoding.blocks]
        arrays = values[len(encoding.blocks) :]
        self._sequences = [
            _target(template, path, value) for path, value in zip(encoding.sequences, arrays, strict=True)
        ]

    def write(self, values: Values, time_ns: int) -> None:
        if self._stamp is not None:
            self._stamp(time_ns)
        if not self._sequences:
            for pack, value in zip(self._blocks, values):  # noqa: B905 - the hot path; the same length by contract
                pack(*value)
            return
        index = 0
        for pack in self._blocks:
            pack(*values[index])
            index += 1
        for target in self._sequences:
            if target is not None:
                target[...] = values[index]
            index += 1


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
    return tuple([each.shape for each in values[first:]])


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
