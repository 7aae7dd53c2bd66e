"""CDR reader: read serialized messages of a few types without message objects.

A reader reads one shape of one type: little-endian plain CDR
(Object Management Group DDS-XTypes 1.3, section 7.4.1; offsets count from
behind the 4-byte encapsulation header), with every length within the message. It returns None for anything else, which
rclpy's deserializer reads. Bytes behind the end are ignored, as there: `serialize_message` leaves some.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

MakeSample = Callable[..., object]
"""Makes a sample of the keyword arguments of model.state."""

SECOND_NS = 1_000_000_000
_HEADER = b"\x00\x01\x00\x00"
"""CDR_LE without options."""
_BODY = 4
_STAMP = Struct("<iI")
_COUNT = Struct("<I")
_NAMES = TEXT_BEGIN = 12
"""Where a stamped message's frame id begins."""
PLAIN_CDR = int.from_bytes(_HEADER, "little")
"""The encapsulation of every message that is read, as one number."""
_TWIST_SIZE = 48
_MAX_NAMES = 8
"""How many lists of names a reader keeps."""
MAX_JOINT_NAMES = 50_000
"""Names in a JointState: reading them takes some 20 ms, in the thread that ticks."""
MAX_NEW_NAMES = 100_000
"""Names that are read in a second where they differ from message to message; the same names again cost nothing."""
MAX_POINTS = 10_000
"""Points of a JointTrajectory, each of which becomes Python objects."""
_NO_VALUES = np.zeros(0)
_NO_VALUES.setflags(write=False)


class MessageLimitError(ValueError):
    """A message is larger than what is read in a tick."""


class JointStateReader:
    """Read sensor_msgs/msg/JointState. Names are decoded once: publishers hardly ever change theirs.

    Names of a few publishers are kept: an arm and its gripper often share a topic.
    """

    def __init__(self, make: MakeSample) -> None:
        """Args: make: Make a sample of stamp_ns, names, position, velocity and effort."""
        self._make = make
        self._names: tuple[str, ...] = ()
        self._text = b""
        self._kept: list[tuple[bytes, tuple[str, ...]]] = []
        self._budget, self._budget_s = float(MAX_NEW_NAMES), time.monotonic()

    def __call__(self, data: bytes) -> object | None:
        """Return the sample; its arrays are views on `data`."""
        if data[:_BODY] != _HEADER:
            self._count_names(data)
            return None
        text = self._text
        # Self-delimiting: counts and lengths come first, so equal bytes are equal names.
        if (
            not (text and data.startswith(text, _NAMES))
            and not self._recall(data)
            and not self._read_names(data)
        ):
            return None
        offset = _NAMES + len(self._text)
        arrays = []
        size = len(data)
        for _ in range(3):
            offset = (offset + 3) & ~3
            if offset + 4 > size:
                return None
            (count,) = _COUNT.unpack_from(data, offset)
            offset += 4
            if not count:
                arrays.append(_NO_VALUES)
                continue
            offset = _aligned(offset)
            if offset + 8 * count > size:
                return None
            arrays.append(_doubles(data, count, offset))
            offset += 8 * count
        seconds, nanoseconds = _STAMP.unpack_from(data, _BODY)
        return self._make(
            stamp_ns=seconds * SECOND_NS + nanoseconds,
            names=self._names,
            position=arrays[0],
            velocity=arrays[1],
            effort=arrays[2],
        )

    def _count_names(self, data: bytes) -> None:
        """Count the names of a message, before they become objects, here or in rclpy.

        Raises:
            MessageLimitError: They are too many.
        """
        found = _names_behind_stamp(data)
        if found is not None:
            self._spend(found[0])

    def _recall(self, data: bytes) -> bool:
        """Go back to names that were read before. Return False if the message has others."""
        for text, names in self._kept:
            if data.startswith(text, _NAMES):
                self._text, self._names = text, names
                return True
        return False

    def _read_names(self, data: bytes) -> bool:
        """Read frame id and names. Return False if they are not plain text."""
        self._count_names(data)
        offset = _text_end(data, _NAMES)
        start = (offset + 3) & ~3
        if offset < 0 or start + 4 > len(data):
            return False
        (count,) = _COUNT.unpack_from(data, start)
        offset = start + 4
        if offset + 4 * count > len(data):
            return False
        names = []
        for _ in range(count):
            offset = (offset + 3) & ~3
            end = _text_end(data, offset)
            if end < 0:
                return False
            names.append(data[offset + 4 : end - 1].decode("ascii"))
            offset = end
        found = tuple(names)
        # The same tuple for the same names: receivers compare by identity.
        self._names = next((each for _, each in self._kept if each == found), found)
        self._text = data[_NAMES:offset]
        self._kept = [(self._text, self._names), *self._kept[: _MAX_NAMES - 1]]
        return True

    def _spend(self, count: int) -> None:
        """Count names that are to be read.

        Raises:
            MessageLimitError: They are too many, or change too often.
        """
        if count > MAX_JOINT_NAMES:
            raise MessageLimitError(f"it has {count} names; at most {MAX_JOINT_NAMES} are read")
        now = time.monotonic()
        self._budget = min(MAX_NEW_NAMES, self._budget + (now - self._budget_s) * MAX_NEW_NAMES)
        self._budget_s = now
        if count > self._budget:
            raise MessageLimitError(
                f"its {count} names differ from those before; at most {MAX_NEW_NAMES} new names are read in a second"
            )
        self._budget -= count


@dataclass(frozen=True, slots=True)
class JointStateShape:
    """Where the numbers of a sensor_msgs/msg/JointState lie. Publishers hardly ever send another shape.

    Attributes:
        text: Frame id and names, from the byte `TEXT_BEGIN` on.
        count: Number of positions.
        first: Byte of the first position.
        places: Bytes of the numbers of positions, velocities and efforts.
        counts: Numbers of velocities and of efforts.
        size: Least length of the message in bytes.
    """

    text: bytes
    count: int
    first: int
    places: tuple[int, int, int]
    counts: tuple[int, int]
    size: int

    @classmethod
    def of(cls, data: bytes) -> JointStateShape | None:
        """Return the shape of a message, None if it is not plain, or cut off."""
        if len(data) < _NAMES or data[:_BODY] != _HEADER:
            return None
        offset = _text_end(data, _NAMES)
        names = _count_at(data, offset)
        if names is None:
            return None
        count, offset = names
        for _ in range(count):
            offset = _text_end(data, (offset + 3) & ~3)
            if offset < 0:
                return None
        text, first = data[_NAMES:offset], 0
        places, counts = [], []
        for number in range(3):
            found = _count_at(data, offset)
            if found is None:
                return None
            count, begin = found
            places.append(begin - _COUNT.size)
            counts.append(count)
            if count:
                begin = _aligned(begin)
            if number == 0:
                first = begin
            offset = begin + 8 * count
        if len(data) < offset:
            return None
        position, velocity, effort = places
        return cls(text, counts[0], first, (position, velocity, effort), (counts[1], counts[2]), offset)

    def layout(self, *, values: bool) -> str:
        """Return the format for `struct` of a message from its first byte to the last count.

        It gives the encapsulation, the stamp's two numbers, the number of positions, then, with `values`, the
        positions, and the numbers of velocities and efforts. All else is left out.
        """
        position, velocity, effort = self.places
        positions = f"{self.count}d" if values else f"{8 * self.count}x"
        begin, end = position + _COUNT.size, self.first + 8 * self.count
        return (
            f"<IiI{position - _NAMES}xI{self.first - begin}x{positions}"
            f"{velocity - end}xI{effort - velocity - _COUNT.size}xI"
        )


def _count_at(data: bytes, offset: int) -> tuple[int, int] | None:
    """Return the length of a sequence that follows at `offset`, and where it ends; None if the message ends before."""
    begin = (offset + 3) & ~3
    if offset < 0 or begin + 4 > len(data):
        return None
    return _COUNT.unpack_from(data, begin)[0], begin + 4


_WORDS = {b"\x00\x00": Struct(">I"), b"\x00\x01": Struct("<I")}
"""Counts in plain CDR, by its first bytes: CDR_BE and CDR_LE, with whatever options."""


def _sequence_at(data: bytes, offset: int, word: Struct) -> tuple[int, int] | None:
    """Return the length of a sequence or text, and where it begins; None where the message ends before."""
    begin = (offset + 3) & ~3
    if begin + 4 > len(data):
        return None
    (count,) = word.unpack_from(data, begin)
    return count, begin + 4


def _has_room(data: bytes, offset: int, count: int) -> bool:
    """Return whether rclpy makes so many texts or points, even if it then finds that they are cut off.

    It refuses at once only what has less than a byte for each.
    """
    return offset + count <= len(data)


def _names_behind_stamp(data: bytes) -> tuple[int, int, Struct] | None:
    """Return the number of names behind a header, where they begin, and the form of counts.

    Lengths alone are read, whatever the texts are. None: the message ends before, as for rclpy.

    Raises:
        MessageLimitError: It is large, and no plain CDR, whose lengths can be found.
    """
    word = _WORDS.get(bytes(data[:2]))
    if word is None:
        if len(data) > 4 * MAX_POINTS:
            raise MessageLimitError("it is large, and no plain CDR")
        return None
    frame = _sequence_at(data, _NAMES, word)
    found = None if frame is None else _sequence_at(data, sum(frame), word)
    if found is None or not _has_room(data, found[1], found[0]):
        return None
    return (*found, word)


def check_joint_trajectory(data: bytes) -> None:
    """Count the points of trajectory_msgs/msg/JointTrajectory, so that none are made of too many. Read nothing else.

    Raises:
        MessageLimitError: It has too many points, or is large and no plain CDR.
    """
    names = _names_behind_stamp(data)
    if names is None:
        return
    count, offset, word = names
    if count > MAX_JOINT_NAMES:
        raise MessageLimitError(f"it has {count} joint names; at most {MAX_JOINT_NAMES} are read")
    for _ in range(count):
        name = _sequence_at(data, offset, word)
        if name is None:
            return
        offset = sum(name)
    points = _sequence_at(data, offset, word)
    if points is not None and points[0] > MAX_POINTS and _has_room(data, points[1], points[0]):
        raise MessageLimitError(f"it has {points[0]} points; at most {MAX_POINTS} are read")


def read_float64_multi_array(data: bytes, make: MakeSample) -> object | None:
    """Read std_msgs/msg/Float64MultiArray without dimensions, as commands are written."""
    if len(data) < 16 or data[:8] != _HEADER + b"\x00\x00\x00\x00":
        return None
    (count,) = _COUNT.unpack_from(data, 12)
    if count == 0:
        return make(values=_NO_VALUES)
    return make(values=_doubles(data, count, 20)) if len(data) >= 20 + 8 * count else None


def read_twist(data: bytes, make: MakeSample) -> object | None:
    """Read geometry_msgs/msg/Twist."""
    if len(data) < _BODY + _TWIST_SIZE or data[:_BODY] != _HEADER:
        return None
    return make(stamp_ns=0, twist=_doubles(data, 6, _BODY))


def read_twist_stamped(data: bytes, make: MakeSample) -> object | None:
    """Read geometry_msgs/msg/TwistStamped."""
    if data[:_BODY] != _HEADER:
        return None
    end = _text_end(data, _NAMES)
    offset = _aligned(end)
    if end < 0 or len(data) < offset + _TWIST_SIZE:
        return None
    seconds, nanoseconds = _STAMP.unpack_from(data, _BODY)
    return make(stamp_ns=seconds * SECOND_NS + nanoseconds, twist=_doubles(data, 6, offset))


def _aligned(offset: int) -> int:
    """Return the next place for an 8-byte number: multiples of 8 from behind the header."""
    return ((offset - _BODY + 7) & ~7) + _BODY


def _doubles(data: bytes, count: int, offset: int) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.frombuffer(data, "<f8", count, offset)
    return values


def _text_end(data: bytes, offset: int) -> int:
    """Return where the string at `offset` ends; -1 if it is cut off, not ASCII, or has zeros inside."""
    if offset + 4 > len(data):
        return -1
    (length,) = _COUNT.unpack_from(data, offset)
    start, end = offset + 4, offset + 4 + length
    if length == 0 or end > len(data):
        return -1
    # Serialized with its final zero; one inside would end it early for some deserializers and not for others.
    return end if data.find(b"\x00", start, end) == end - 1 and data[start:end].isascii() else -1
