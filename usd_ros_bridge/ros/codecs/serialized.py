"""One serialized message of an encoding, and where its numbers go in it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.ros.cdr import Copies, Template, Together
from usd_ros_bridge.ros.codecs.protocol import SECOND_NS, Encoding, Values
from usd_ros_bridge.runtime.snapshot import Snapshot

Write = Callable[[Values, int, bytes], None]
PackHeader = Callable[[int, bytes], None]

_STRUCT_CODES = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
    "f4": "f", "f8": "d",
}  # fmt: skip


class Serialized:
    """One serialized message, and where its numbers go.

    Attributes:
        data: The message.
        write: `write(values, time_ns, frame)` writes what an encoding's `values` returned, the stamp, and the header's
            frame: UTF-8 with a zero at its end.
        frame: Where that is in the message; None where it has no header.
        together: Writes it for several robots at once, but for the frame; None where nothing does.
        template: What it is made of.
        blank: What it was before it was written for the first time; b"" where it is large.
        values: Of the shapes and types that `write` gets; () where it is large.
    """

    __slots__ = ("__weakref__", "blank", "data", "frame", "template", "together", "values", "write")

    def __init__(
        self, template: Template, encoding: Encoding, values: Values, frame: bytes | None, blank: bytes = b""
    ) -> None:
        """Finds the places.

        Args:
            template: The message.
            encoding: How it is made.
            values: Of the shapes and types that `write` gets.
            frame: Of the length that `write` gets; None where the message has no header.
            blank: What the message is now, where another one may be compared with it.
        """
        self.template, self.blank = template, blank
        self.values = values if blank else ()
        self.data = template.data
        self.frame = None if frame is None else _frame_place(template, frame)
        header = _no_header if frame is None else _header_packer(template, frame)
        packers = [_packer(template, path) for path in encoding.blocks]
        arrays = values[len(packers) :]
        targets = [
            _target(template, path, value) for path, value in zip(encoding.sequences, arrays, strict=True)
        ]
        self.together = _together(template, encoding, values)
        self.write: Write = _sequences(header, packers, targets) if targets else _blocks(header, packers)

    def renewed(self, encoding: Encoding) -> Serialized:
        """Returns the same message for robots of another plan; only one of the two may be written from then on."""
        new = Serialized.__new__(Serialized)
        for name in ("blank", "data", "frame", "template", "values", "write"):
            setattr(new, name, getattr(self, name))
        new.together = _together(self.template, encoding, self.values)
        return new


def _together(template: Template, encoding: Encoding, values: Values) -> Together | None:
    return None if encoding.whole is None else Together(_RowOfArrays(template, encoding, values))


class _RowOfArrays:
    """Writes messages of robots of a kind, rows of the same arrays; copied when the first row is written."""

    def __init__(self, template: Template, encoding: Encoding, values: Values) -> None:
        self.most = Copies.fitting(template)
        self._template = template
        self._encoding = encoding
        self._widths = [len(each) for each in values]
        self._copies: Copies | None = None

    def write(self, snapshot: Snapshot, rows: slice, stamp_ns: int) -> Copies | None:
        whole = self._encoding.whole
        assert whole is not None
        copies = self._copies or self._copy()
        copies.write_stamp(stamp_ns)
        for view, width, numbers in zip(self._views, self._widths, whole(snapshot), strict=True):
            if (width == 0) != (numbers.size == 0):
                return None
            if width:
                values = numbers[rows].reshape(-1, width)
                first = values[:, 0]
                if (first != first).any():
                    return None
                view[: len(values)] = values
        return copies

    def _copy(self) -> Copies:
        copies = self._copies = Copies(self._template)
        fields = (*self._encoding.blocks, *self._encoding.sequences)
        paths = zip(fields, self._widths, strict=True)
        self._views = [copies.view(path) if width else np.zeros(0) for path, width in paths]
        return copies


def _no_header(time_ns: int, frame: bytes) -> None:
    """Stands for a message without a header."""


def _frame_place(template: Template, frame: bytes) -> slice:
    # In a std_msgs/Header the frame's name stands behind the stamp and the name's length: three numbers of four bytes.
    begin = template.offset("header.stamp.sec") + 12
    return slice(begin, begin + len(frame))


def _header_packer(template: Template, frame: bytes) -> PackHeader:
    # In a std_msgs/Header the length of the frame's name and the name follow the stamp.
    size = len(frame)
    pack = partial(
        struct.Struct(f"<iII{size}s").pack_into, template.data, template.offset("header.stamp.sec")
    )

    def header(time_ns: int, frame: bytes) -> None:
        pack(*divmod(time_ns, SECOND_NS), size, frame)

    return header


def _blocks(header: PackHeader, packers: list[Callable[..., None]]) -> Write:
    """Writes blocks; up to two, what most messages have, without a loop, which costs as much as they do."""
    if not packers:

        def write_none(_values: Values, time_ns: int, frame: bytes) -> None:
            header(time_ns, frame)

        return write_none
    if len(packers) == 1:
        (only,) = packers

        def write_one(values: Values, time_ns: int, frame: bytes) -> None:
            header(time_ns, frame)
            only(*values[0])

        return write_one
    if len(packers) == 2:
        first, second = packers

        def write_two(values: Values, time_ns: int, frame: bytes) -> None:
            header(time_ns, frame)
            first(*values[0])
            second(*values[1])

        return write_two

    def write(values: Values, time_ns: int, frame: bytes) -> None:
        header(time_ns, frame)
        for pack, value in zip(packers, values):  # noqa: B905 - the hot path; the same length by contract
            pack(*value)

    return write


def _sequences(
    header: PackHeader, packers: list[Callable[..., None]], targets: list[NDArray[Any] | None]
) -> Write:
    """Writes blocks and the sequences behind them, those left out that are empty."""
    blocks = _blocks(header, packers)
    filled = [(index, each) for index, each in enumerate(targets, len(packers)) if each is not None]

    def write(values: Values, time_ns: int, frame: bytes) -> None:
        blocks(values, time_ns, frame)
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
