"""CDR template: a message is serialized once; stamps and numbers are written in place, in one copy or a block."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rclpy.serialization import deserialize_message, serialize_message

from usd_ros_bridge.ros.wire.cdr_layout import (
    ENCAPSULATION,
    HEADER_BYTES,
    Blocks,
    CdrLayout,
    Numbers,
    TemplateError,
)

NANOSECONDS = 1_000_000_000
FEW_NUMBERS = 16
"""Up to how many numbers per place one index array is faster than a view of each place."""
FEW_ITEMS = 100
"""Up to how many items an index array is faster than a slice."""
PROBE_PERIOD = 65_521
"""A prime: shifted by a row or a power of two, the numbers differ."""
MAX_PROVEN = 256
"""How many layouts are remembered as checked."""
_STAMP = struct.Struct("<iI")
STAMP_BYTES = _STAMP.size
_PROVEN: set[tuple[type, Hashable]] = set()


def pack_stamp(time_ns: int) -> bytes:
    """Return a serialized builtin_interfaces/Time: 8 bytes.

    Args:
        time_ns: Nanoseconds since the epoch of the clock in use.
    """
    return _STAMP.pack(*divmod(time_ns, NANOSECONDS))


def serialize_defined(message: Any) -> bytearray:
    """Serialize a message so that equal messages give equal bytes.

    `serialize_message` leaves memory as it was in padding and behind the end.

    Args:
        message: Of any type; one whose layout is not known is serialized as `serialize_message` does.
    """
    data = bytearray(serialize_message(message))
    try:
        layout = CdrLayout(message)
    except TemplateError:
        return data
    del data[layout.size :]
    for offset, count in layout.padding:
        data[offset : offset + count] = bytes(count)
    return data


class Template:
    """Keep the serialized form of one message, with a writable place for every number in it.

    Names, frame ids and the lengths of sequences stay as they were in the prototype; numbers may change. Views and
    columns write into `data` itself: publish it, or copy it, before the next write.

    Paths name fields from the message down: "pose.pose.position", "transforms[3].transform" (one element),
    "transforms[].transform" (every element, for `column`); "" is the whole message.

    Attributes:
        data: The serialized message with its encapsulation header. Never resized.
        size: Its length in bytes.

    Raises:
        TemplateError: The message cannot be serialized, or its bytes are not where its slot types put them; numbers
            written through the template would reach readers as garbage.
    """

    def __init__(self, message: Any) -> None:
        """Serialize the prototype, find its numbers and check both against the deserializer."""
        try:
            serialized = bytes(serialize_message(message))
            self._layout = CdrLayout(message)
        except TemplateError:
            raise
        except Exception as error:
            raise TemplateError(f"{type(message).__name__} cannot be serialized: {error}") from error
        self.size = self._layout.size
        self.data = aligned(self.size)
        self._fill(serialized)
        self._prove(type(message))
        self._layout.forget_contents()

    def _fill(self, serialized: bytes) -> None:
        # serialize_message returns an estimate of the length, and memory as it was in padding and behind the end.
        part = serialized[: self.size]
        self.data[: len(part)] = part
        for offset, count in self._layout.padding:
            self.data[offset : offset + count] = bytes(count)
        if self.data[:HEADER_BYTES] != ENCAPSULATION:
            raise TemplateError(
                f"the encapsulation {serialized[:HEADER_BYTES].hex()} is not little-endian plain CDR"
            )
        for offset, content in self._layout.fixed:
            if self.data[offset : offset + len(content)] != content:
                raise TemplateError(
                    f"byte {offset} does not hold the length or text that its fields put there"
                )

    def _prove(self, message_class: type) -> None:
        """Check the layout against the deserializer; once for all robots whose messages have the same layout."""
        key = (message_class, self._layout.places())
        if key in _PROVEN:
            return
        # One boolean in two equals its neighbour: more rounds tell them apart.
        rounds = 8 if any(numbers.dtype == bool for numbers in self._layout.numbers.values()) else 1
        for first in range(1, rounds + 1):
            _verify(message_class, self.data, self._layout, first)
        if len(_PROVEN) >= MAX_PROVEN:
            _PROVEN.clear()
        _PROVEN.add(key)

    def offset(self, path: str) -> int:
        """Return the byte offset in `data` of the first number at a path.

        Raises:
            TemplateError: There is no number.
        """
        offsets = [
            offset
            for name in self._layout.below(path)
            for offset in self._layout.occurrences(name, path)[0].ravel()
        ]
        if not offsets:
            raise TemplateError(f"there is no number at '{path}'")
        return int(min(offsets))

    def view(self, path: str) -> NDArray[Any]:
        """Return a writable view of the numbers at a path, (n,): one for a scalar, all of an array or sequence.

        Nested numbers of one type that lie side by side are one view: "pose.pose" is x, y, z, then the quaternion's
        x, y, z, w.

        Raises:
            TemplateError: There are no numbers at the path, or they do not make one array.
        """
        blocks = self._layout.blocks(path)
        if blocks.offsets.size != 1:
            raise TemplateError(f"'{path}' names {blocks.offsets.size} elements: take a column")
        return np.frombuffer(self.data, blocks.dtype, blocks.width, int(blocks.offsets[0]))

    def lengths(self) -> dict[str, int]:
        """Return the number of elements of every sequence, by its path ("transforms", "joint_values[2].values")."""
        return dict(self._layout.named_lengths())

    def blocks(self, path: str) -> Blocks:
        """Return where the numbers at a path lie: one block for each element of a sequence that the path names.

        Raises:
            TemplateError: There are no numbers at the path, or those of one element do not lie side by side.
        """
        return self._layout.blocks(path)

    def column(self, path: str) -> Column:
        """Return the block of numbers at a path in every element of a sequence: "transforms[].transform" is (N, 7).

        Raises:
            TemplateError: There are no numbers at the path, or those of one element do not lie side by side.
        """
        blocks = self.blocks(path)
        return Column(self.data, blocks.dtype, blocks.offsets, blocks.width)

    def stamps(self, path: str) -> StampColumn:
        """Return the stamp, or the stamps of a sequence's elements, at a path: "transforms[].header.stamp".

        Raises:
            TemplateError: There is no builtin_interfaces/Time at the path.
        """
        return StampColumn(self.data, self.blocks(f"{path}.sec").offsets)


class Column:
    """One block of numbers in each of many places."""

    def __init__(self, data: bytearray, dtype: np.dtype[Any], offsets: NDArray[np.intp], width: int) -> None:
        """Store the arguments.

        Args:
            data: Serialized messages.
            dtype: Type of the numbers.
            offsets: Bytes of `data` before each block, (N,).
            width: Numbers in a block, k.
        """
        self._flat = flat_view(data, dtype)
        indices = (offsets - HEADER_BYTES) // dtype.itemsize + np.arange(width)[:, None]
        self._where = np.ascontiguousarray(indices).ravel()

    def write(self, values: ArrayLike) -> None:
        """Write every block.

        Args:
            values: (N, k), in the units and frames of the message's fields.
        """
        self.write_components(np.asarray(values).T)

    def write_components(self, components: NDArray[Any]) -> None:
        """Write every block, given by component: (k, N)."""
        # numpy pairs numbers in the order of the indices; twice as fast, even with a copy before, in one piece.
        self._flat[self._where] = components.ravel()


class StampColumn:
    """Stamps in many places."""

    def __init__(self, data: bytearray, offsets: NDArray[np.intp]) -> None:
        """Store the arguments.

        Args:
            data: Serialized messages.
            offsets: Bytes of `data` before each stamp, (N,).
        """
        # A stamp is eight bytes aligned to four: that of the first element commonly lies between two 64-bit numbers.
        even = (offsets - HEADER_BYTES) % 8 == 0
        self._flat = flat_view(data, np.dtype("<i8"))
        self._where = _slice_or_indices((offsets[even] - HEADER_BYTES) // 8)
        copy = struct.Struct(f"{STAMP_BYTES}s").pack_into
        self._others = [partial(copy, data, offset) for offset in offsets[~even].tolist()]
        self._stamp = b""

    def write(self, stamp: bytes) -> None:
        """Write one time into every stamp; the same time again costs nothing.

        Args:
            stamp: As `pack_stamp` returns it.
        """
        if stamp == self._stamp:
            return
        self._stamp = stamp
        for copy in self._others:
            copy(stamp)
        if self._where is not None:
            self._flat[self._where] = int.from_bytes(stamp, "little")


def aligned(size: int) -> bytearray:
    """Return zeroes, placed so that the bytes behind the encapsulation header are aligned to eight bytes."""
    # Memory comes aligned to 16 bytes, and a bytearray gives up its first bytes without moving the rest.
    data = bytearray(size + HEADER_BYTES)
    del data[:HEADER_BYTES]
    return data


def flat_view(data: bytearray, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return all bytes behind the encapsulation header as numbers of a type."""
    return np.frombuffer(data, dtype, (len(data) - HEADER_BYTES) // dtype.itemsize, HEADER_BYTES)


def _slice_or_indices(indices: NDArray[np.intp]) -> slice | NDArray[np.intp] | None:
    """Return the cheapest index of the same items: one slice if they are many and evenly spaced."""
    if not indices.size:
        return None
    steps = np.diff(indices)
    if indices.size > FEW_ITEMS and (steps == steps[:1]).all():
        return slice(int(indices[0]), int(indices[-1]) + 1, int(steps[0]))
    return indices


def _verify(message_class: type, data: bytearray, layout: CdrLayout, first: int) -> None:
    """Overwrite every number of a copy, and compare what the deserializer reads with what was written.

    Raises:
        TemplateError: They differ.
    """
    name = message_class.__name__
    probe = bytearray(data)
    written = {}
    try:
        for path, numbers in layout.numbers.items():
            values = _probe_values(numbers.dtype, first, sum(numbers.counts))
            first += values.size
            written[path] = values
            _scatter(probe, numbers, values)
        found = CdrLayout(deserialize_message(bytes(probe), message_class))
    except Exception as error:
        raise TemplateError(f"{name}: numbers written in place do not read back: {error}") from error
    if found.fixed != layout.fixed:
        raise TemplateError(f"{name}: other lengths or texts are read back than were written")
    for path, values in written.items():
        if not np.array_equal(_decoded(found.numbers[path]), values):
            raise TemplateError(f"{name}: '{path}' reads back other numbers than were written")


def _probe_values(dtype: np.dtype[Any], first: int, count: int) -> NDArray[Any]:
    """Return numbers that differ from their neighbours in every byte of their type."""
    # Knuth's multiplicative hash: odd, so that no two of 2**64 agree. The many numbers of an image repeat themselves.
    index = np.arange(first, first + min(count, PROBE_PERIOD), dtype=np.uint64)
    bits = {"f": 53, "b": 1}.get(dtype.kind, 8 * dtype.itemsize)
    values = (index * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - bits)).astype(dtype)
    return np.resize(values, count)


def _scatter(data: bytearray, numbers: Numbers, values: NDArray[Any]) -> None:
    offsets = np.asarray(numbers.offsets, np.intp)
    counts = np.asarray(numbers.counts, np.intp)
    ends = np.cumsum(counts)
    if ((offsets - HEADER_BYTES) % numbers.dtype.itemsize)[counts > 0].any():
        raise ValueError("a number is not aligned to its size")
    if values.size > FEW_NUMBERS * counts.size:
        for offset, count, end in zip(numbers.offsets, numbers.counts, ends.tolist(), strict=True):
            np.frombuffer(data, numbers.dtype, count, offset)[:] = values[end - count : end]
        return
    starts = (offsets - HEADER_BYTES) // numbers.dtype.itemsize - (ends - counts)
    flat_view(data, numbers.dtype)[np.repeat(starts, counts) + np.arange(values.size)] = values


def _decoded(numbers: Numbers) -> NDArray[Any]:
    parts = [np.asarray(_plain(value), numbers.dtype).reshape(-1) for value in numbers.values]
    return np.concatenate(parts) if parts else np.zeros(0, numbers.dtype)


def _plain(value: Any) -> Any:
    """Return the number of a byte or char, for which rclpy has bytes or text."""
    if isinstance(value, bytes | str):
        return ord(value)
    if isinstance(value, list) and value and isinstance(value[0], bytes | str):
        return [ord(item) for item in value]
    return value


BLOCK_BYTES = 65_536
"""Memory of a block at most: more would not stay in the processor's caches from the write to the send."""


class MessageBlock:
    """Copies of a template's message. Most of the time of a write is numpy's call: it is the same for all copies.

    Attributes:
        count: Number of copies, at least one.
        data: All of them.
        slices: The place of each in `data`.
    """

    def __init__(self, template: Template) -> None:
        """Store the arguments.

        Args:
            template: Message to copy, as it is now.
        """
        self._template = template
        # The numbers of each copy are as aligned as those of the first.
        self._stride = -(-template.size // 8) * 8
        self.count = max(1, BLOCK_BYTES // self._stride)
        self.data = aligned(self.count * self._stride)
        self._starts = np.arange(self.count) * self._stride
        self.slices = tuple(slice(start, start + template.size) for start in self._starts.tolist())
        for each in self.slices:
            self.data[each] = template.data
        self._messages = np.frombuffer(self.data, np.uint8).reshape(self.count, self._stride)

    def write_bytes(self, place: slice, values: NDArray[np.uint8]) -> None:
        """Write bytes at one place of the first copies.

        Args:
            place: Place in a message.
            values: (N, n) bytes.
        """
        self._messages[: len(values), place] = values

    def view(self, path: str) -> NDArray[Any]:
        """Return a writable view of the numbers at a path in every copy, (count, n), as `Template.view`.

        Raises:
            TemplateError: There are no numbers at the path, or they do not make one array.
        """
        view = self._template.view(path)
        strides = (self._stride, view.itemsize)
        offset = self._template.offset(path)
        every: NDArray[Any] = np.ndarray((self.count, view.size), view.dtype, self.data, offset, strides)
        return every

    def column(self, path: str, copies: int) -> Column:
        """Return the block of numbers at a path in every element of a sequence, as `Template.column`.

        Args:
            path: Path with `[]`.
            copies: Of how many copies, from the first on.

        Raises:
            TemplateError: There are no numbers at the path, or those of one element do not lie side by side.
        """
        blocks = self._template.blocks(path)
        return Column(self.data, blocks.dtype, self._spread(blocks.offsets)[:copies].ravel(), blocks.width)

    def stamps(self, path: str) -> StampColumn:
        """Return the stamps at a path of every copy, as `Template.stamps`.

        Raises:
            TemplateError: There is no builtin_interfaces/Time at the path.
        """
        return StampColumn(self.data, self._spread(self._template.blocks(f"{path}.sec").offsets).ravel())

    def _spread(self, offsets: NDArray[np.intp]) -> NDArray[np.intp]:
        spread: NDArray[np.intp] = self._starts[:, None] + offsets
        return spread
