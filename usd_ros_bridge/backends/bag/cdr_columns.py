"""NumberColumns of many CDR messages as arrays: where they are is found once for all messages that are laid out alike.

Messages of a topic mostly differ in their numbers only: names and lengths stay. So one message is walked field by
field, as its definition says, and the places of its numbers are read from all the others at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.bag.mcap_reader import BagChannel
from usd_ros_bridge.errors import error_text

FieldPath = tuple[str | int, ...]
"""Names of fields, and indices in sequences, down to a value."""

_HEADER_SIZE: Final = 4
_LITTLE, _BIG = b"\x00\x01", b"\x00\x00"
_NUMPY: Final[Mapping[str, str]] = {
    **dict.fromkeys(("bool", "byte", "octet", "char"), "u1"),
    **{f"int{8 * size}": f"i{size}" for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": f"u{size}" for size in (1, 2, 4, 8)},
    **{f"float{8 * size}": f"f{size}" for size in (4, 8)},
}
_MAX_LAYOUTS: Final = 1000
"""Layouts of a type that are kept. A message that is laid out like no other costs a walk."""


class UnreadableMessageError(Exception):
    """A message is no CDR of its type, or the type has fields that are not supported."""


@dataclass(frozen=True, slots=True)
class NumberColumns:
    """Where numbers of one type stand in a message: `count` of them from byte `offset` on."""

    offset: int
    count: int
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnLayout:
    """Where the values of a message are, and of all messages that have the same bytes at `fixed`.

    Attributes:
        numbers: NumberColumns by field: of a sequence of numbers all.
        texts: Strings by field.
        lengths: Lengths of sequences by field.
        fixed: (K,) positions of bytes that hold lengths and strings.
        values: (K,) those bytes.
    """

    numbers: Mapping[FieldPath, NumberColumns]
    texts: Mapping[FieldPath, str]
    lengths: Mapping[FieldPath, int]
    fixed: NDArray[np.intp]
    values: NDArray[np.uint8]

    def column(self, messages: NDArray[np.uint8], *field: str | int) -> NDArray[Any]:
        """Return a field's numbers (N, count) of messages (N, L) with this layout."""
        place = self.numbers[field]
        part = np.ascontiguousarray(
            messages[:, place.offset : place.offset + place.count * place.dtype.itemsize]
        )
        if not place.count:
            return np.empty((len(messages), 0), dtype=place.dtype.newbyteorder("="))
        found = part.view(place.dtype)
        return found.astype(place.dtype.newbyteorder("="), copy=False)


class CdrColumns:
    """Sort messages of one type by their layout."""

    def __init__(self, channel: BagChannel) -> None:
        """Find the fields of a type: by the definition in the bag, else by that of the newest ROS 2 which rosbags has.

        Args:
            channel: A channel of the type.

        Raises:
            UnreadableMessageError: The definition cannot be read.
        """
        self._type = channel.type
        self._fields = _definitions(channel)
        self._layouts: dict[int, list[ColumnLayout]] = {}
        self._count = 0
        self.unreadable = 0

    def split(
        self, messages: Sequence[bytes]
    ) -> Iterator[tuple[ColumnLayout, NDArray[np.intp], NDArray[np.uint8]]]:
        """Sort messages by their layout; those that cannot be read are counted in `unreadable`.

        Returns:
            For each layout: which messages (N,), and their bytes (N, L).
        """
        by_length: dict[int, list[int]] = {}
        for index, message in enumerate(messages):
            by_length.setdefault(len(message), []).append(index)
        for length, members in by_length.items():
            raw = np.frombuffer(b"".join(messages[i] for i in members), dtype=np.uint8)
            yield from self._split_alike(np.array(members), raw.reshape(len(members), length))

    def _split_alike(
        self, indices: NDArray[np.intp], raw: NDArray[np.uint8]
    ) -> Iterator[tuple[ColumnLayout, NDArray[np.intp], NDArray[np.uint8]]]:
        """Sort messages (N, L) of the same length."""
        for layout in tuple(self._layouts.get(raw.shape[1], ())):
            alike = (raw[:, layout.fixed] == layout.values).all(axis=1)
            if alike.all():
                yield layout, indices, raw
                return
            if alike.any():
                yield layout, indices[alike], raw[alike]
                indices, raw = indices[~alike], raw[~alike]
        while len(raw):
            try:
                layout = _Walk(self._fields, raw[0].tobytes()).layout(self._type)
            except UnreadableMessageError:
                self.unreadable += 1
                indices, raw = indices[1:], raw[1:]
                continue
            self._keep(raw.shape[1], layout)
            alike = (raw[:, layout.fixed] == layout.values).all(axis=1)
            yield layout, indices[alike], raw[alike]
            indices, raw = indices[~alike], raw[~alike]

    def _keep(self, length: int, layout: ColumnLayout) -> None:
        if self._count >= _MAX_LAYOUTS:
            self._layouts.clear()
            self._count = 0
        self._count += 1
        self._layouts.setdefault(length, []).append(layout)


def _definitions(channel: BagChannel) -> Mapping[str, Any]:
    """Return fields by type, in rosbags' terms.

    Raises:
        UnreadableMessageError: The definition cannot be read, or there is none.
    """
    from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

    known: Mapping[str, Any] = get_typestore(Stores.LATEST).fielddefs
    try:
        if channel.definition_format == "ros2msg" and channel.definition:
            known = {**known, **get_types_from_msg(channel.definition, channel.type)}
        elif channel.definition_format == "ros2idl" and channel.definition:
            for part in channel.definition.split("=" * 80 + "\n"):
                text = part.partition("\n")[2] if part.startswith("IDL: ") else part
                known = {**known, **(get_types_from_idl(text) if text.strip() else {})}
    except Exception as error:  # noqa: BLE001 - what parsers raise for a text from outside
        raise UnreadableMessageError(f"its definition cannot be read: {error_text(error)}") from None
    if channel.type not in known:
        raise UnreadableMessageError("its definition is missing")
    return known


class _Walk:
    """One message, walked field by field."""

    def __init__(self, fields: Mapping[str, Any], message: bytes) -> None:
        representation = message[:2]
        if representation not in {_LITTLE, _BIG}:
            raise UnreadableMessageError("the message is no plain CDR")
        self._fields = fields
        self._order = "<" if representation == _LITTLE else ">"
        self._length = struct.Struct(f"{self._order}I")
        self._message = message
        self._at = _HEADER_SIZE
        self._numbers: dict[FieldPath, NumberColumns] = {}
        self._texts: dict[FieldPath, str] = {}
        self._lengths: dict[FieldPath, int] = {}
        self._fixed: list[tuple[int, int]] = [(0, 2)]

    def layout(self, type_name: str) -> ColumnLayout:
        """Walk the whole message.

        Raises:
            UnreadableMessageError: It ends too early, a string is no text, or a field has a type without a size.
        """
        try:
            self._walk_type(type_name, ())
        except (struct.error, UnicodeDecodeError, KeyError) as error:
            raise UnreadableMessageError(error_text(error)) from None
        fixed = np.concatenate([np.arange(start, end) for start, end in self._fixed])
        return ColumnLayout(
            self._numbers,
            self._texts,
            self._lengths,
            fixed,
            np.frombuffer(self._message, dtype=np.uint8)[fixed],
        )

    def _walk_type(self, name: str, path: FieldPath) -> None:
        for field, described in self._fields[name][1]:
            self._walk(described, (*path, field))

    def _walk(self, described: Any, path: FieldPath) -> None:
        kind, what = described[0].name, described[1]
        if kind == "NAME":
            self._walk_type(what, path)
        elif kind == "BASE":
            self._walk_base(what[0], path, 1)
        else:
            (element_kind, element), count = what[0], what[1]
            if kind == "SEQUENCE":
                count = self._lengths[path] = self._read_length()
            if element_kind.name == "BASE" and element[0] != "string":
                self._walk_base(element[0], path, count)
                return
            # Each element has a byte at least: a length from nowhere must not take memory.
            if count > len(self._message) - self._at:
                raise UnreadableMessageError("the message ends too early")
            for index in range(count):
                self._walk((element_kind, element), (*path, index))

    def _walk_base(self, name: str, path: FieldPath, count: int) -> None:
        if name == "string":
            length = self._read_length()
            text = self._take(length, 1)
            self._fixed.append((text, self._at))
            self._texts[path] = self._message[text : self._at].rstrip(b"\0").decode()
            return
        dtype = np.dtype(self._order + _NUMPY[name])
        start = self._take(count * dtype.itemsize, dtype.itemsize) if count else self._at
        self._numbers[path] = NumberColumns(start, count, dtype)

    def _read_length(self) -> int:
        start = self._take(4, 4)
        self._fixed.append((start, self._at))
        length: int = self._length.unpack_from(self._message, start)[0]
        return length

    def _take(self, size: int, alignment: int) -> int:
        """Skip `size` bytes, aligned as of the end of the header, and return where they start."""
        start = self._at + (_HEADER_SIZE - self._at) % alignment
        if start + size > len(self._message):
            raise UnreadableMessageError("the message ends too early")
        self._at = start + size
        return start
