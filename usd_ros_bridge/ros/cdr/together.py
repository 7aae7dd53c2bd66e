"""Messages of robots of a kind whose numbers lie side by side, written at once."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from usd_ros_bridge.ros.cdr.copies import Copies
from usd_ros_bridge.runtime.snapshot import Snapshot


class RowWriter(Protocol):
    """Writes the messages of robots in a row."""

    @property
    def most(self) -> int:
        """How many robots there may be in a row."""

    def write(self, snapshot: Snapshot, rows: slice, stamp_ns: int) -> Copies | None:
        """Writes the messages of the robots whose numbers are `rows` of all robots'.

        Returns:
            Copies that hold them, in the order of the robots; None where it cannot be done.
        """


class Row:
    """Robots whose numbers lie one behind another among those of all robots.

    Attributes:
        start: Where the numbers of the first begin.
        stop: Where those of the last end.
        several: Whether it is more than one robot: else nothing is gained.
    """

    __slots__ = ("several", "start", "stop")

    def __init__(self, start: int) -> None:
        """Is empty.

        Args:
            start: Where its numbers begin.
        """
        self.start = self.stop = start
        self.several = False


class Place(NamedTuple):
    """Where one robot's messages are written along with others'.

    Attributes:
        together: What writes them.
        row: The robot's row.
        number: Which robot of it it is.
    """

    together: Together
    row: Row
    number: int


class Together:
    """Messages of robots of a kind: one is asked for, and those of its whole row are written.

    A robot joins when it sends: those that nobody listened to yet are not written for the others' sake. All rows
    are written to the same place, whose turn it is, as robots are asked in the order of the plan.
    """

    __slots__ = ("_last", "_places", "_row", "_stop", "_tick", "_writer", "_written")

    def __init__(self, writer: RowWriter) -> None:
        """Has no robots yet.

        Args:
            writer: Writes their messages.
        """
        self._writer = writer
        self._places: dict[int, tuple[Row, int]] = {}
        self._last: Row | None = None
        # Of which row, up to where and at which tick messages were written last.
        self._row: Row | None = None
        self._stop = self._tick = -1
        self._written: Copies | None = None

    def join(self, span: slice) -> tuple[Row, int]:
        """Adds a robot, once.

        Args:
            span: Of its numbers among those of all robots; as many as every other has.

        Returns:
            Its row, and which robot of it it is: what `message` takes.
        """
        place = self._places.get(span.start)
        if place is None:
            size, row = span.stop - span.start, self._last
            if row is None or row.stop != span.start or row.stop - row.start >= self._writer.most * size:
                row = self._last = Row(span.start)
            place = self._places[span.start] = row, (span.start - row.start) // size
            row.stop = span.stop
            row.several = row.stop - row.start > size
        return place

    def message(self, row: Row, number: int, snapshot: Snapshot, stamp_ns: int) -> bytearray | None:
        """Returns the message of one robot, the caller's own; None where it is to be made alone.

        Args:
            row: As `join` returned it.
            number: As `join` returned it.
            snapshot: Where all states have one time.
            stamp_ns: That time, nanoseconds.
        """
        # One by one: to compare tuples costs as much as the rest, and thousands may be asked for in a tick.
        if row is not self._row or snapshot.tick != self._tick or row.stop != self._stop:
            self.write(row, snapshot, stamp_ns)
        written = self._written
        return None if written is None else written.message(number)

    def write(self, row: Row, snapshot: Snapshot, stamp_ns: int) -> Copies | None:
        """Writes the messages of all robots of a row; arguments and reasons for None as those of `message`."""
        self._row, self._stop, self._tick = row, row.stop, snapshot.tick
        self._written = None  # Also where the next line raises.
        self._written = self._writer.write(snapshot, slice(row.start, row.stop), stamp_ns)
        return self._written
