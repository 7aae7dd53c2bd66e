"""Copies of one serialized message side by side, whose numbers are written together: robots differ in nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.ros.cdr.template import NANOSECONDS, Template, aligned, flat_view

COPIES_BYTES = 65_536
"""How much memory copies take at most: more would not stay in the processor's caches from the write to the send."""


class Copies:
    """Copies of a template's message, written by column and cut out one by one.

    One write for many messages costs little more than one for each: what takes the time is to call numpy.

    Attributes:
        count: How many there are: `fitting`.
        data: All of them; `place` says where each is.
    """

    def __init__(self, template: Template) -> None:
        """Copies the message as it is now.

        Args:
            template: The message.
        """
        self._template = template
        self._stamp: tuple[NDArray[Any], NDArray[Any]] | None = None
        self._size = template.size
        self._stride = _stride(template)
        self.count = self.fitting(template)
        self.data = aligned(self.count * self._stride)
        for begin in range(0, len(self.data), self._stride):
            self.data[begin : begin + self._size] = template.data
        self._messages = np.frombuffer(self.data, np.uint8).reshape(self.count, self._stride)

    @staticmethod
    def fitting(template: Template) -> int:
        """Returns how many copies fit into `COPIES_BYTES`, at least one."""
        return max(1, COPIES_BYTES // _stride(template))

    def message(self, index: int) -> bytearray:
        """Returns a copy's bytes, which are the caller's own."""
        return self.data[self.place(index)]

    def place(self, index: int) -> slice:
        """Returns where a copy's bytes are in `data`."""
        begin = index * self._stride
        return slice(begin, begin + self._size)

    def write_bytes(self, place: slice, copies: NDArray[np.intp], values: NDArray[np.uint8]) -> None:
        """Writes bytes at a place of some copies.

        Args:
            place: Where in a message.
            copies: (N,) which.
            values: (N, n) bytes, as many for each as there is room.
        """
        self._messages[copies, place] = values

    def view(self, path: str) -> NDArray[Any]:
        """A writable view of the numbers at a path in every copy, (count, n), as `Template.view`.

        Raises:
            TemplateError: There are no numbers at the path, or they do not make one array.
        """
        view = self._template.view(path)
        strides = (self._stride, view.itemsize)
        place = self._template.offset(path)
        every: NDArray[Any] = np.ndarray((self.count, view.size), view.dtype, self.data, place, strides)
        return every

    def write_stamp(self, time_ns: int) -> None:
        """Writes header.stamp of every copy.

        Args:
            time_ns: Nanoseconds since the epoch of the clock in use.

        Raises:
            TemplateError: The message has no header.
        """
        if self._stamp is None:
            self._stamp = self.view("header.stamp.sec"), self.view("header.stamp.nanosec")
        self._stamp[0][...], self._stamp[1][...] = divmod(time_ns, NANOSECONDS)

    def column(self, path: str) -> CopiesColumn:
        """The block of numbers at a path in every element of a sequence of all copies, as `Template.column`.

        Raises:
            TemplateError: There are no numbers at the path, or those of one element do not lie side by side.
        """
        column = self._template.column(path)
        return CopiesColumn(
            flat_view(self.data, column.flat.dtype), self._spread(column.indices, column.flat)
        )

    def stamps(self, path: str) -> CopiesStamps:
        """The stamps at a path in every element of a sequence of all copies, as `Template.stamps`.

        Raises:
            TemplateError: There is no builtin_interfaces/Time at the path.
        """
        seconds = self._template.column(f"{path}.sec")
        # Both halves of a stamp lie side by side, and have the same bits as signed numbers.
        return CopiesStamps(
            flat_view(self.data, seconds.flat.dtype), self._spread(seconds.indices, seconds.flat)[0]
        )

    def _spread(self, indices: NDArray[np.intp], flat: NDArray[Any]) -> NDArray[np.intp]:
        """Returns the indices (k, count * N) into all copies of what has the indices (N, k) in the message."""
        starts = np.arange(self.count) * (self._stride // flat.dtype.itemsize)
        spread = starts[:, None] + indices.T[:, None, :]
        return np.ascontiguousarray(spread.reshape(indices.shape[1], -1))


def _stride(template: Template) -> int:
    """Returns the bytes from copy to copy: the numbers of each are as aligned as those of the first."""
    return -(-template.size // 8) * 8


class CopiesColumn:
    """One block of numbers in each of a sequence's elements, of all copies."""

    def __init__(self, flat: NDArray[Any], indices: NDArray[np.intp]) -> None:
        self._flat = flat
        self._components = list(indices)

    def write_components(self, components: NDArray[Any]) -> None:
        """Writes the blocks of the first copies: (k, M), copy by copy and element by element."""
        flat = self._flat
        for where, values in zip(self._components, components):  # noqa: B905 - the hot path; the same by contract
            flat[where[: values.size]] = values


class CopiesStamps:
    """The stamps of a sequence's elements, of all copies."""

    def __init__(self, flat: NDArray[Any], seconds: NDArray[np.intp]) -> None:
        self._flat = flat
        self._seconds = seconds
        self._nanoseconds = seconds + 1

    def write(self, time_ns: int) -> None:
        """Writes one time into every stamp.

        Args:
            time_ns: Nanoseconds since the epoch of the clock in use.
        """
        self._flat[self._seconds], self._flat[self._nanoseconds] = divmod(time_ns, NANOSECONDS)
