"""CDR layout: find the place of every number of a message in its serialization, from slot types and contents.

The rules are those of plain CDR, version 1 (Object Management Group DDSI-RTPS 2.3, section 10.2),
as Fast CDR writes them for ROS 2:
offsets count from behind the encapsulation header of four bytes, a number is aligned to its own size, a sequence is a
32-bit count and its elements, a string is a count that includes the closing zero, a wide string counts UTF-16 units and
spends four bytes on each, and a message without fields is one byte.
"""

from __future__ import annotations

import importlib
import re
from array import array
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosidl_parser import definition

HEADER_BYTES = 4
ENCAPSULATION = b"\x00\x01\x00\x00"
"""Plain CDR, little-endian, no options: what Fast CDR writes on the machines ROS 2 supports."""

_DTYPES = {
    "boolean": "?",
    "octet": "u1",
    "char": "u1",
    "float": "<f4",
    "double": "<f8",
    **{f"int{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
}
_INDEX = re.compile(r"\[(\d*)\]")


class TemplateError(Exception):
    """A message of which no template can be made, or a path at which it has no numbers to view."""


@dataclass(slots=True)
class Numbers:
    """All numbers that one field holds, in every element of the sequences around it.

    Attributes:
        dtype: Their type on the wire.
        offsets: Bytes from the start of the serialized message, header included, one per occurrence of the field.
        counts: How many numbers there are: 1, or the length of an array or sequence.
        values: The field's values in the message that was laid out, one per occurrence.
    """

    dtype: np.dtype[Any]
    offsets: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))
    values: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Lengths:
    """Lengths of an array or sequence, in every element of the sequences around it."""

    is_sequence: bool
    counts: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Slot:
    """One field of a message class: what it holds, and how often."""

    name: str
    kind: str
    """number, text, wide or message."""
    many: str
    """one, array or sequence."""
    dtype: np.dtype[Any]
    type_name: tuple[str, ...]


@cache
def _slots(message_class: Any) -> tuple[_Slot, ...]:
    return tuple(map(_slot, message_class.get_fields_and_field_types(), message_class.SLOT_TYPES))


def _slot(name: str, slot_type: Any) -> _Slot:
    many = "one"
    if isinstance(slot_type, definition.AbstractNestedType):
        many = "array" if isinstance(slot_type, definition.Array) else "sequence"
        slot_type = slot_type.value_type
    nothing = np.dtype("u1")
    if isinstance(slot_type, definition.BasicType):
        if slot_type.typename not in _DTYPES:
            raise TemplateError(
                f"field '{name}' is of the type '{slot_type.typename}', whose layout is not known"
            )
        return _Slot(name, "number", many, np.dtype(_DTYPES[slot_type.typename]), ())
    if isinstance(slot_type, definition.AbstractString):
        return _Slot(name, "text", many, nothing, ())
    if isinstance(slot_type, definition.AbstractWString):
        return _Slot(name, "wide", many, nothing, ())
    if isinstance(slot_type, definition.NamespacedType):
        return _Slot(name, "message", many, nothing, (*slot_type.namespaces, slot_type.name))
    raise TemplateError(f"field '{name}' is of a kind whose layout is not known: {slot_type}")


class CdrLayout:
    """Find the places of the numbers, lengths and texts of one message.

    Paths name fields from the message down, joined by dots; `[]` behind a name stands for every element of an array or
    sequence of messages.

    Attributes:
        size: Bytes of the serialized message, header included, rounded up to four.
        numbers: Path to the numbers there.
        lengths: Path to the lengths of the array or sequence there.
        fixed: Offsets and contents of what no write may change: counts and texts.
        padding: Offsets and lengths of the bytes that mean nothing.
    """

    def __init__(self, message: Any) -> None:
        self.numbers: dict[str, Numbers] = {}
        self.lengths: dict[str, Lengths] = {}
        self.fixed: list[tuple[int, bytes]] = []
        self.padding: list[tuple[int, int]] = []
        self._position = HEADER_BYTES
        self._message(message, "")
        self._skip(-self._position % 4)
        self.size = self._position

    def places(self) -> Hashable:
        """Return a value that is equal for layouts with every number, length and text at the same place."""
        numbers = (
            (path, each.dtype.str, each.offsets.tobytes(), each.counts.tobytes())
            for path, each in self.numbers.items()
        )
        return self.size, tuple(self.fixed), tuple(numbers)

    def _skip(self, count: int) -> None:
        if count:
            self.padding.append((self._position, count))
            self._position += count

    def _align(self, size: int) -> None:
        self._skip((HEADER_BYTES - self._position) % size)

    def _fix(self, content: bytes) -> None:
        self.fixed.append((self._position, content))
        self._position += len(content)

    def _count(self, count: int) -> None:
        self._align(4)
        self._fix(count.to_bytes(4, "little"))

    def _message(self, message: Any, prefix: str) -> None:
        message_class: Any = type(message)
        slots = _slots(message_class)
        if not slots:
            self._skip(1)
        for slot in slots:
            value = getattr(message, slot.name)
            path = prefix + slot.name
            if slot.many == "one":
                self._value(slot, value, path)
            else:
                self._values(slot, value, path)

    def _value(self, slot: _Slot, value: Any, path: str) -> None:
        if slot.kind == "number":
            self._numbers(slot, value, path, 1)
        elif slot.kind == "message":
            self._message(value, path + ".")
        elif slot.kind == "text":
            content = value.encode() + b"\x00"
            self._count(len(content))
            self._fix(content)
        else:
            units = np.frombuffer(value.encode("utf-16-le"), "<u2")
            self._count(units.size)
            self._fix(units.astype("<u4").tobytes())

    def _values(self, slot: _Slot, values: Any, path: str) -> None:
        count = len(values)
        is_sequence = slot.many == "sequence"
        if is_sequence:
            self._count(count)
        self.lengths.setdefault(path, Lengths(is_sequence)).counts.append(count)
        if slot.kind == "number":
            self._numbers(slot, values, path, count)
            return
        path += "[]"
        for value in values:
            self._value(slot, value, path)
        if slot.kind == "message" and not count:
            self._declare(slot, path)

    def _numbers(self, slot: _Slot, value: Any, path: str, count: int) -> None:
        if count:
            # Fast CDR aligns with the first element: an empty sequence ends behind its count.
            self._align(slot.dtype.itemsize)
        numbers = self.numbers.get(path)
        if numbers is None:
            numbers = self.numbers[path] = Numbers(slot.dtype)
        numbers.offsets.append(self._position)
        numbers.counts.append(count)
        numbers.values.append(value)
        self._position += count * slot.dtype.itemsize

    def _declare(self, slot: _Slot, path: str) -> None:
        """Name the fields of an empty sequence's elements, so that their columns exist and are empty."""
        *namespaces, name = slot.type_name
        try:
            element = getattr(importlib.import_module(".".join(namespaces)), name)()
        except (ImportError, AttributeError):
            return
        inner = CdrLayout(element)
        for inner_path, numbers in inner.numbers.items():
            self.numbers.setdefault(f"{path}.{inner_path}", Numbers(numbers.dtype))
        for inner_path, lengths in inner.lengths.items():
            self.lengths.setdefault(f"{path}.{inner_path}", Lengths(lengths.is_sequence))

    def forget_contents(self) -> None:
        """Release values, texts and padding, which no path needs."""
        self.fixed.clear()
        self.padding.clear()
        for numbers in self.numbers.values():
            numbers.values.clear()

    def blocks(self, path: str) -> Blocks:
        """Return the numbers at a path, side by side, once per element that the path names.

        Args:
            path: Fields joined by dots; `name[3]` is one element of a sequence, `name[]` every one.

        Raises:
            TemplateError: There are no numbers at the path, they are of several types, something lies between them, or
                the elements hold different amounts of them.
        """
        below = self.below(path)
        dtypes = {self.numbers[name].dtype for name in below}
        if len(dtypes) > 1:
            raise TemplateError(f"the numbers at '{path}' are of several types: {_listed(dtypes)}")
        columns = [self.occurrences(name, path) for name in below]
        offsets = np.concatenate([offset for offset, _ in columns], axis=1)
        counts = np.concatenate([count for _, count in columns], axis=1)
        return _side_by_side(path, dtypes.pop(), offsets, counts)

    def below(self, path: str) -> list[str]:
        """Return the fields with numbers at a path.

        Raises:
            TemplateError: There are none.
        """
        pattern = _INDEX.sub("[]", path)
        below = [name for name in self.numbers if _is_below(name, pattern)]
        if not below:
            raise TemplateError(f"there are no numbers at '{path}'")
        return below

    def occurrences(self, name: str, path: str) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return offsets and counts of the field `name`: a row per element that `path` names, a column per field in it.

        Raises:
            TemplateError: The path names an element that is not there, or the elements differ in length.
        """
        wanted = [int(index) if index else None for index in _INDEX.findall(path)]
        rows = np.zeros(1, np.intp)
        width = 1
        for level, prefix in enumerate(_sequences_around(name)):
            counts = np.asarray(self.lengths[prefix].counts, np.intp)
            starts = np.cumsum(counts) - counts
            here = counts[rows]
            index = wanted[level] if level < len(wanted) else None
            if index is not None:
                if (here <= index).any():
                    raise TemplateError(f"'{path}': '{prefix}' has no element {index}")
                rows = starts[rows] + index
                continue
            if level >= len(wanted) and here.size:
                if (here != here[0]).any():
                    raise TemplateError(f"the elements at '{path}' hold different amounts of numbers")
                width *= int(here[0])
            first = np.repeat(starts[rows] - (np.cumsum(here) - here), here)
            rows = first + np.arange(first.size)
        numbers = self.numbers[name]
        height = rows.size // width if width else 0
        shape = (height, width)
        return (
            np.asarray(numbers.offsets, np.intp)[rows].reshape(shape),
            np.asarray(numbers.counts, np.intp)[rows].reshape(shape),
        )

    def named_lengths(self) -> Iterator[tuple[str, int]]:
        """Yield the path of every sequence, with the index of every element around it, and its number of elements."""
        for name, lengths in self.lengths.items():
            if lengths.is_sequence:
                yield from zip(self._indexed(name), lengths.counts, strict=True)

    def _indexed(self, name: str) -> list[str]:
        paths = [name]
        for prefix in _sequences_around(name):
            counts = self.lengths[prefix].counts
            paths = [
                path.replace("[]", f"[{index}]", 1)
                for path, count in zip(paths, counts, strict=True)
                for index in range(count)
            ]
        return paths


@dataclass(frozen=True, slots=True)
class Blocks:
    """Numbers of one type, `width` side by side at each of `offsets` (bytes, header included)."""

    dtype: np.dtype[Any]
    offsets: NDArray[np.intp]
    width: int


def _side_by_side(
    path: str, dtype: np.dtype[Any], offsets: NDArray[np.intp], counts: NDArray[np.intp]
) -> Blocks:
    if not offsets.shape[0]:
        return Blocks(dtype, np.zeros(0, np.intp), 0)
    if (counts != counts[0]).any():
        raise TemplateError(f"the elements at '{path}' hold different amounts of numbers")
    if not offsets.shape[1]:
        return Blocks(dtype, np.full(offsets.shape[0], HEADER_BYTES, np.intp), 0)
    # Fields are listed in the order of the wire; only sequences inside an element interleave.
    order = np.argsort(offsets[0], kind="stable")
    offsets, counts = offsets[:, order], counts[:, order]
    if counts[0].any():
        filled = counts[0] > 0
        offsets, counts = offsets[:, filled], counts[:, filled]
    ends = offsets + counts * dtype.itemsize
    if (ends[:, :-1] != offsets[:, 1:]).any():
        raise TemplateError(f"the numbers at '{path}' do not lie side by side")
    return Blocks(dtype, offsets[:, 0].copy(), int(counts[0].sum()))


def _is_below(name: str, pattern: str) -> bool:
    return not pattern or name == pattern or name.startswith((f"{pattern}.", f"{pattern}[]"))


def _sequences_around(name: str) -> Iterator[str]:
    return (name[: match.start()] for match in _INDEX.finditer(name))


def _listed(dtypes: set[np.dtype[Any]]) -> str:
    return ", ".join(sorted(dtype.name for dtype in dtypes))
