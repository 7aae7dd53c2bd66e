"""TFMessage from its bytes: names once, numbers with one numpy call a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct, error

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.spatial.transforms import FloatArray

_HEADER = b"\x00\x01\x00\x00"
"""CDR_LE without options: what every rmw writes."""
_BODY = 4
_COUNT = Struct("<I")
_STAMP_BYTES = 8
_POSE_BYTES = 56
_WORD = 8
MAX_TRANSFORMS = 200_000
"""Transforms of one message that are read."""

ReadSlowly = Callable[[bytes], tuple[Sequence[str], Sequence[str], FloatArray]]
"""Return child ids, parent ids and (N, 7) poses of a message in any encapsulation."""


@dataclass(frozen=True, slots=True, eq=False)
class TransformNames:
    """Names in a message. The same object for the same names.

    Attributes:
        children: child_frame_id of each transform.
        parents: header.frame_id of each transform.
    """

    children: tuple[str, ...]
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Where the numbers of a message lie; all other bytes are the same in each message of this layout."""

    names: TransformNames
    size: int
    fixed: NDArray[np.intp]
    """Bytes that are neither numbers nor padding."""
    content: NDArray[np.uint8]
    poses: NDArray[np.intp]
    """(N, 7) doubles, counted from behind the encapsulation."""


class TfMessageReader:
    """Read the messages of one topic. A few layouts are remembered: robots may share a topic."""

    def __init__(self, read_slowly: ReadSlowly | None = None, *, remembered: int = 8) -> None:
        """Store the arguments.

        Args:
            read_slowly: For what is not plain little-endian CDR.
            remembered: How many layouts are kept; at least one for each publisher and robot on the topic.
        """
        self._read_slowly = read_slowly
        self._remembered = remembered
        self._layouts: dict[int, list[_Layout]] = {}
        self._count = 0

    def read(self, data: bytes) -> tuple[TransformNames, FloatArray] | None:
        """Return the names and the (N, 7) poses `parent_from_child` of a message, None if it cannot be read."""
        layout = self._layout(data)
        return self._other(data) if layout is None else (layout.names, _numbers(data, layout))

    def read_newest(self, messages: Sequence[bytes]) -> list[tuple[TransformNames, FloatArray]]:
        """Return what `read` does for the newest message of each layout, in the order of arrival.

        Args:
            messages: Messages of a topic in the order of arrival.
        """
        found = []
        layouts: set[int] = set()
        for data in reversed(messages):
            layout = self._layout(data)
            if layout is None:
                read = self._other(data)
                if read is not None:
                    found.append(read)
            elif id(layout) not in layouts:
                layouts.add(id(layout))
                found.append((layout.names, _numbers(data, layout)))
        found.reverse()
        return found

    def _layout(self, data: bytes) -> _Layout | None:
        """Return the layout of a message, None if it is not plain."""
        content = np.frombuffer(data, np.uint8)
        # Bytes behind the end are padding of some serializers.
        for layout in self._layouts.get(len(data), ()):
            if np.array_equal(content[layout.fixed], layout.content):
                return layout
        if data[:_BODY] != _HEADER:
            return None
        try:
            found = _parse(data)
        except (error, UnicodeDecodeError, ValueError):
            return None
        if self._count >= self._remembered:
            self._layouts.clear()
            self._count = 0
        self._layouts.setdefault(len(data), []).append(found)
        self._count += 1
        return found

    def _other(self, data: bytes) -> tuple[TransformNames, FloatArray] | None:
        """Read what is not plain little-endian CDR; what is, and has no layout, is cut off."""
        if self._read_slowly is None or data[:_BODY] == _HEADER or len(data) < _BODY:
            return None
        children, parents, poses = self._read_slowly(data)
        return TransformNames(tuple(children), tuple(parents)), poses


def _numbers(data: bytes, layout: _Layout) -> FloatArray:
    doubles = np.frombuffer(data, "<f8", (layout.size - _BODY) // _WORD, _BODY)
    return doubles[layout.poses]


def _parse(data: bytes) -> _Layout:
    """Find all numbers of a message.

    Raises:
        struct.error: It is cut off.
        ValueError: It has too many transforms, or a text without an end.
    """
    (count,) = _COUNT.unpack_from(data, _BODY)
    if count > MAX_TRANSFORMS:
        raise ValueError
    offset = _BODY + _COUNT.size
    fixed = [(0, offset)]
    children, parents, poses = [], [], []
    for _ in range(count):
        offset = (offset + 3) & ~3
        offset += _STAMP_BYTES
        begin = offset
        parent, offset = _text(data, offset)
        fixed.append((begin, offset))
        begin = offset = (offset + 3) & ~3
        child, offset = _text(data, offset)
        fixed.append((begin, offset))
        offset = ((offset - _BODY + 7) & ~7) + _BODY
        poses.append((offset - _BODY) // _WORD)
        offset += _POSE_BYTES
        children.append(child)
        parents.append(parent)
    if offset > len(data):
        raise ValueError
    rows = np.concatenate([np.arange(begin, end) for begin, end in fixed])
    first = np.array(poses, dtype=np.intp).reshape(-1, 1)
    return _Layout(
        names=TransformNames(tuple(children), tuple(parents)),
        size=offset,
        fixed=rows,
        content=np.frombuffer(data, np.uint8)[rows],
        poses=first + np.arange(7),
    )


def _text(data: bytes, offset: int) -> tuple[str, int]:
    (length,) = _COUNT.unpack_from(data, offset)
    begin, end = offset + _COUNT.size, offset + _COUNT.size + length
    if length == 0 or end > len(data):
        raise ValueError
    # Serialized with its final zero. tf2 ignores a slash in front.
    return data[begin : end - 1].decode().removeprefix("/"), end
