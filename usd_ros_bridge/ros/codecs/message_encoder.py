"""Message encoder: turn what an encoding returns into serialized messages, whose numbers are written in place."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.codecs.encoding import Encoding, Values, set_stamp
from usd_ros_bridge.ros.compat import type_name
from usd_ros_bridge.ros.wire.cdr_layout import TemplateError
from usd_ros_bridge.ros.wire.cdr_template import STAMP_BYTES, Column, MessageBlock, Template, pack_stamp
from usd_ros_bridge.runtime.snapshot import Snapshot

MAX_TEMPLATES = 4
"""Shapes that an encoder keeps: with and without velocities and efforts of a JointState, the usual sizes of a cloud."""

Write = Callable[[Values, bytes, bytes], None]
_LENGTH = struct.Struct("<I")
_Block = tuple[int, int, str]
"""Numbers of one type side by side: offset in the message, how many, and their format for `struct`."""

_STRUCT_CODES = {np.dtype(code).str[1:]: code for code in "?bBhHiIqQfd"}
"""Format of `struct` by kind and size of a number."""


class EncodedMessage:
    """One serialized message of an encoding, and the places of its numbers.

    Attributes:
        template: The message and the places of all its numbers.
        data: The message.
        frame: Place of the header's frame in it; None without a header.
        write: `write(values, stamp, frame)` writes the values of the encoding, the stamp as `pack_stamp` returns it,
            and the header's frame as `pack_text` does.
    """

    def __init__(self, message: Any, encoding: Encoding, values: Values, frame: bytes) -> None:
        """Store the arguments.

        Args:
            message: Prototype: everything but numbers, stamp and frame is right.
            encoding: Encoding of the message.
            values: Values of the shapes and types that `write` gets.
            frame: Frame of the length that `write` gets.

        Raises:
            TemplateError: The message cannot be written in place.
        """
        template = self.template = Template(message)
        self._encoding = encoding
        self.data = template.data
        self.frame: slice | None = None
        if hasattr(message, "header"):
            # In a std_msgs/Header the frame follows the stamp.
            begin = template.offset("header.stamp.sec") + STAMP_BYTES
            self.frame = slice(begin, begin + len(frame))
        self.write = self._make_write(values, len(frame))

    @cached_property
    def block(self) -> EncodedBlock:
        """Copy of the message, for publishers whose messages differ in numbers and frames alone."""
        return EncodedBlock(self.template, self._encoding)

    def _make_write(self, values: Values, size: int) -> Write:
        """Return `write`: a function without look-ups of attributes, which would cost a tenth of a small message."""
        template, encoding, data = self.template, self._encoding, self.data
        blocks = [_find_block(template, path) for path in encoding.blocks]
        if self.frame is not None and not encoding.sequences:
            return _make_write_blocks(data, self.frame, blocks)
        packers = [
            (index, partial(struct.Struct(f"<{count}{code}").pack_into, data, offset))
            for index, (offset, count, code) in enumerate(blocks)
        ]
        stamps = template.stamps(encoding.stamps) if encoding.stamps else None
        pack_header = None
        if self.frame is not None:
            header = struct.Struct(f"<{STAMP_BYTES}s{size}s")
            pack_header = partial(header.pack_into, data, self.frame.start - STAMP_BYTES)
        arrays = list(enumerate(encoding.sequences, len(blocks)))
        arrays = [(index, path) for index, path in arrays if values[index].size]
        views = [(index, _view(template, path, values[index])) for index, path in arrays if "[]" not in path]
        columns = [(index, template.column(path)) for index, path in arrays if "[]" in path]

        def write(values: Values, stamp: bytes, frame: bytes) -> None:
            if pack_header is not None:
                pack_header(stamp, frame)
            elif stamps is not None:
                stamps.write(stamp)
            for index, pack in packers:
                pack(*values[index])
            for index, view in views:
                view[...] = values[index]
            for index, column in columns:
                column.write_components(values[index].T)

        return write


def _make_write_blocks(data: bytearray, frame: slice, blocks: Sequence[_Block]) -> Write:
    """Return the `write` of a message without sequences: one call of `struct` for the header and all blocks.

    It is written for the message, so that every number is an argument of that call. Packing block by block, and handing
    numbers over in tuples, takes half as long again.

    Args:
        data: The message.
        frame: Place of the header's frame.
        blocks: Places of the numbers.
    """
    layout, end = f"<{STAMP_BYTES}s{frame.stop - frame.start}s", frame.stop
    names: dict[str, object] = {"data": data, "begin": frame.start - STAMP_BYTES}
    arguments, lines = ["data", "begin", "stamp", "frame"], []
    for index, (offset, count, code) in sorted(enumerate(blocks), key=lambda each: each[1]):
        # Bytes between two blocks stay as they are.
        numbers = [f"v{index}_{number}" for number in range(count)]
        layout += f"{offset - end}s{count}{code}"
        names[f"c{index}"] = bytes(data[end:offset])
        lines.append(f"    {', '.join(numbers)}, = values[{index}]")
        arguments += [f"c{index}", *numbers]
        end = offset + struct.calcsize(f"<{count}{code}")
    names["pack"] = struct.Struct(layout).pack_into
    parameters = ", ".join(["values", "stamp", "frame", *(f"{each}={each}" for each in names)])
    made: dict[str, Write] = {}
    text = "\n".join([f"def write({parameters}):", *lines, f"    pack({', '.join(arguments)})"])
    exec(text, names, made)  # noqa: S102 - made of numbers and names of its own
    return made["write"]


class EncodedBlock:
    """Copies of one message of an encoding with `arrays`: rows of the arrays are written into them at once.

    Attributes:
        messages: The copies.
    """

    def __init__(self, template: Template, encoding: Encoding) -> None:
        """Store the arguments.

        Args:
            template: Message to copy.
            encoding: Encoding of the message, with `arrays`.
        """
        self.messages = MessageBlock(template)
        self._stamps = self.messages.stamps(encoding.stamps or "header.stamp")
        self._paths = (*encoding.blocks, *encoding.sequences)
        self._targets: dict[tuple[str, int], Any] = {}

    def write(self, arrays: Sequence[NDArray[np.float64]], rows: slice, copies: int, stamp: bytes) -> bool:
        """Write the first copies. Return False if a message cannot be written: its row begins with NaN.

        Args:
            arrays: Arrays of the encoding: of all robots.
            rows: Rows of the arrays for all these copies.
            copies: Number of messages.
            stamp: As `pack_stamp` returns it.
        """
        self._stamps.write(stamp)
        for path, numbers in zip(self._paths, arrays, strict=True):
            if not numbers.size:
                continue
            target = self._targets.get((path, copies))
            if target is None:
                target = self._targets[path, copies] = self._find_target(path, copies)
            if type(target) is Column:
                target.write_components(numbers.T[:, rows])
                continue
            values = numbers[rows].reshape(copies, -1)
            first = values[:, 0]
            if (first != first).any():
                return False
            target[...] = values
        return True

    def _find_target(self, path: str, copies: int) -> Any:
        if "[]" in path:
            return self.messages.column(path, copies)
        return self.messages.view(path)[:copies]


EncodedMessages = WeakValueDictionary[Hashable, EncodedMessage]
"""Messages that encoders of one tick thread write in turn, by what does not change in them.

A thousand robots of one kind then write into one message, which stays in the processor's caches.
"""


class MessageEncoder:
    """Encode the messages of one publisher.

    Arrays of another shape or type make another template. A few are kept; where shapes come and go (a cloud that
    loses points), message objects are cheaper than templates that are used once.

    Attributes:
        encoding: Encoding of the messages.
        values: The encoding's: return what a snapshot shows.
        stamp_ns: The encoding's: return the time of what is shown.
        fixed: The only message of an encoding without sequences, from its first `encode` on.
        frame: The header's frame, as `pack_text` returns it.
        rows: The encoding's: rows of the arrays of all robots.
    """

    def __init__(
        self,
        name: str,
        message_class: Any,
        encoding: Encoding,
        *,
        frame_id: str = "",
        report: Report,
        messages: EncodedMessages,
    ) -> None:
        """Store the arguments.

        Args:
            name: Prim path, for reports.
            message_class: Class of the messages.
            encoding: Encoding of the messages.
            frame_id: The header's frame.
            report: For messages that cannot be written in place.
            messages: Messages shared with other encoders.
        """
        self._name = name
        self._class = message_class
        self._report = report
        self._messages = messages
        self._key: Hashable = None
        self._key_of = encoding.key or (_shape if len(encoding.sequences) == 1 else _lengths)
        self._message: EncodedMessage | None = None
        self._kept: dict[Hashable, EncodedMessage] = {}
        self._before: tuple[EncodedMessage, ...] = ()
        self._templates = not encoding.varying
        self.encoding = encoding
        self.values = encoding.values
        self.stamp_ns = encoding.stamp_ns
        self.rows = encoding.rows or slice(0)
        self.fixed: EncodedMessage | None = None
        self.frame_id = frame_id
        self.frame = pack_text(frame_id)

    @property
    def latest(self) -> EncodedMessage | None:
        """Return the serialized message that `encode` wrote last; None if it made a message object."""
        return self._message

    def encode(self, values: Values, time_ns: int, stamp: bytes = b"") -> Any:
        """Return a message: a bytearray that is valid until the next call of any encoder, or a message object.

        Args:
            values: What the encoding returned.
            time_ns: Stamp, nanoseconds.
            stamp: The same as `pack_stamp` returns it, where the caller has that already.
        """
        key = self._key_of(values)
        message = self._message
        if message is None or key != self._key:
            message = self._select(key, values)
            if message is None:
                return self.make_message(values, time_ns)
        message.write(values, stamp or pack_stamp(time_ns), self.frame)
        return message.data

    def find_row(self, arrays: Sequence[NDArray[np.float64]], snapshot: Snapshot) -> EncodedMessage | None:
        """Return the serialized message for this publisher's rows of the arrays of all robots.

        None if its messages are to be encoded alone.
        """
        # The encoding learns its constants from its values.
        if self.values(snapshot) is None:
            return None
        rows = [each[self.rows] if each.size else each for each in arrays]
        if any(each.size and np.isnan(each.flat[0]) for each in rows):
            return None
        first = len(self.encoding.blocks)
        values = (*(each.ravel().tolist() for each in rows[:first]), *rows[first:])
        return self._select(self._key_of(values), values)

    def make_message(self, values: Values, time_ns: int) -> Any:
        """Return a message object of what the encoding returned."""
        encoding = self.encoding
        message = self._class()
        encoding.prepare(message, values)
        for path, value in zip((*encoding.blocks, *encoding.sequences), values, strict=True):
            fill(message, path, value)
        if encoding.stamps:
            for stamp in _each(message, encoding.stamps):
                set_stamp(stamp, time_ns)
        if hasattr(message, "header"):
            message.header.frame_id = self.frame_id
            set_stamp(message.header.stamp, time_ns)
        return message

    def reuse(self, old: MessageEncoder) -> None:
        """Keep the messages of the same publisher's encoder before, until this one has found those that are alike."""
        self._before = tuple(old._kept.values())

    def _select(self, key: Hashable, values: Values) -> EncodedMessage | None:
        """Select the serialized message for values of these shapes; None if message objects are to be made."""
        self._message = self._kept.get(key)
        if self._message is None and self._templates:
            self._message = self._make_kept(key, values)
        self._key = key
        if not self.encoding.sequences:
            self.fixed = self._message
        return self._message

    def _make_kept(self, key: Hashable, values: Values) -> EncodedMessage | None:
        if len(self._kept) >= MAX_TEMPLATES:
            if key != self._key:
                return None
            # The same shape twice in a row: it stays.
            del self._kept[next(iter(self._kept))]
        try:
            message = self._make(key, values)
        except TemplateError as error:
            self._templates = False
            self._report(
                f"template:{self._name}",
                f"{self._name}: {type_name(self._class)} is published by way of message objects, which is slower: "
                f"{error}",
            )
            return None
        self._kept[key] = message
        self._before = ()
        return message

    def _make(self, key: Hashable, values: Values) -> EncodedMessage:
        encoding = self.encoding
        everything = (
            self._class,
            encoding.blocks,
            encoding.sequences,
            key,
            len(self.frame),
            encoding.constants(),
        )
        message = self._messages.get(everything)
        if message is None:
            first = len(encoding.blocks)
            # Without its numbers and its frame, all of which `write` writes.
            blank = [tuple(type(number)() for number in block) for block in values[:first]]
            prototype = self.make_message((*blank, *map(np.zeros_like, values[first:])), 0)
            if hasattr(prototype, "header"):
                prototype.header.frame_id = " " * (len(self.frame) - len(pack_text("")))
            message = self._messages[everything] = EncodedMessage(prototype, encoding, values, self.frame)
        return message


def pack_text(text: str) -> bytes:
    """Return a serialized string: its length in four bytes, UTF-8, and a zero that counts."""
    content = text.encode() + b"\0"
    return _LENGTH.pack(len(content)) + content


def fill(message: Any, path: str, value: Any) -> None:
    """Write what stands at one path of an encoding into a message object.

    Args:
        message: A message object.
        path: Fields joined by dots; `[]` behind a sequence names each of its elements.
        value: Numbers for the fields there and below, in their order; or an array for a sequence of numbers, or with a
            row for each element.
    """
    outer, _, inner = path.partition("[].")
    *names, name = outer.split(".")
    for each in names:
        message = getattr(message, each)
    if inner:
        for element, row in zip(getattr(message, name), value.tolist(), strict=True):
            fill(element, inner, row)
    elif isinstance(value, np.ndarray):
        numbers = array(getattr(message, name).typecode)
        numbers.frombytes(_bytes(value, numbers.typecode))
        setattr(message, name, numbers)
    else:
        _fill(message, name, iter(value))


def _fill(message: Any, name: str, numbers: Any) -> None:
    current = getattr(message, name)
    if hasattr(current, "get_fields_and_field_types"):
        for inner in current.get_fields_and_field_types():
            _fill(current, inner, numbers)
    elif isinstance(current, np.ndarray):
        setattr(message, name, [next(numbers) for _ in range(current.size)])
    else:
        setattr(message, name, type(current)(next(numbers)))


def _each(message: Any, path: str) -> list[Any]:
    """Return what stands at a path with `[]` in every element of a sequence."""
    outer, _, inner = path.partition("[].")
    elements = list(getattr(message, outer))
    for name in inner.split("."):
        elements = [getattr(each, name) for each in elements]
    return elements


def _bytes(value: NDArray[Any], typecode: str) -> bytes:
    if typecode != "B":
        value = value.astype(typecode, copy=False)
    return value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()


def _shape(values: Values) -> Hashable:
    """Return what distinguishes the templates of an encoding with one sequence."""
    value = values[-1]
    return value.shape, value.dtype


def _lengths(values: Values) -> Hashable:
    """Return what distinguishes the templates of other encodings: several sequences are rows of numbers."""
    return tuple(map(len, values))


def _find_block(template: Template, path: str) -> _Block:
    """Return the place of the numbers at a path."""
    view = template.view(path)
    return template.offset(path), view.size, _STRUCT_CODES[view.dtype.str[1:]]


def _view(template: Template, path: str, value: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers at a path in the shape of `value`, and of its type if they stand for its bytes."""
    view = template.view(path)
    if view.dtype == np.uint8 and value.dtype != np.uint8:
        view = view.view(value.dtype.newbyteorder("<"))
    return view.reshape(value.shape)
