"""Message block: copies of one serialized message side by side, written together and sent as slices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.ros.wire.cdr_template import Column, StampColumn, Template, aligned

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
