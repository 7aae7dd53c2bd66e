"""What a bag says about motion: joint states and transforms as arrays over time. Independent of any plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.bag.bag_file import BagFile
from usd_ros_bridge.backends.bag.cdr_columns import CdrColumns, ColumnLayout, UnreadableMessageError
from usd_ros_bridge.backends.bag.mcap_reader import BagChannel
from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.message_types import JOINT_STATE, TF_MESSAGE
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray

TimeArray = NDArray[np.int64]
FramePair = tuple[str, str]
"""Parent and child frame id."""

_BATCH: Final = 4096
_BATCH_BYTES: Final = 8_000_000
_SECOND_NS: Final = 1_000_000_000
_FLOAT64: Final = 8
_POSE_FIELDS: Final = (*(("translation", axis) for axis in "xyz"), *(("rotation", axis) for axis in "xyzw"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointSeries:
    """Joint states of one topic that name the same joints in the same order.

    Attributes:
        topic: Topic name.
        names: J joint names.
        stamp_ns: (N,) header stamps, nanoseconds; 0 where a message had none.
        log_ns: (N,) when the messages were recorded, nanoseconds.
        position: (N, J) rad or m.
        velocity: (N, J) rad/s or m/s, NaN where a message had none; None if no message had any.
        effort: (N, J) N m or N, likewise.
    """

    topic: str
    names: tuple[str, ...]
    stamp_ns: TimeArray
    log_ns: TimeArray
    position: FloatArray
    velocity: FloatArray | None = None
    effort: FloatArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformSeries:
    """Transforms of one topic between the same two frames.

    Attributes:
        topic: Topic name.
        parent: Frame id of the parent, without a slash in front.
        child: Frame id of the child, likewise.
        stamp_ns: (N,) header stamps, nanoseconds; 0 where a transform had none.
        log_ns: (N,) when the messages were recorded, nanoseconds.
        parent_from_child: (N, 7) poses as recorded.
    """

    topic: str
    parent: str
    child: str
    stamp_ns: TimeArray
    log_ns: TimeArray
    parent_from_child: FloatArray


class BagSource:
    """Read the motion of a bag: first which topics there are, then their messages.

    Attributes:
        name: Name of the bag, for people.
        topics: Interface type by topic name, of all topics.
    """

    def __init__(self, file: BagFile, report: Report) -> None:
        """List the topics.

        Args:
            file: The open bag.
            report: Reports messages that cannot be read.
        """
        self.name = quoted(file.path)
        self._file = file
        self._report = report
        self._columns: dict[BagChannel, CdrColumns | None] = {}
        self.topics: dict[str, str] = {}
        for channel in file.channels():
            # If a topic has two types, the one that can be played counts.
            if self.topics.get(channel.topic) not in {JOINT_STATE, TF_MESSAGE}:
                self.topics[channel.topic] = channel.type

    def topics_of(self, type_name: str) -> tuple[str, ...]:
        """Return the names of the topics of a type, in order."""
        return tuple(sorted(name for name, each in self.topics.items() if each == type_name))

    def survey(
        self, joint_topics: Collection[str], tf_topics: Collection[str]
    ) -> tuple[tuple[JointSeries, ...], Mapping[str, Counter[FramePair]]]:
        """Read joint states, and count the transforms between each two frames.

        Args:
            joint_topics: Topics of joint states.
            tf_topics: Topics of transforms.

        Returns:
            The joint states, and by topic how many transforms there are of each parent and child.
        """
        joints: dict[tuple[str, tuple[str, ...]], _JointRows] = {}
        pairs: dict[str, Counter[FramePair]] = {topic: Counter() for topic in tf_topics}

        def collect(
            channel: BagChannel, log_ns: TimeArray, layout: ColumnLayout, raw: NDArray[np.uint8]
        ) -> None:
            if channel.type == TF_MESSAGE:
                for pair in _pairs(layout):
                    pairs[channel.topic][pair] += len(raw)
                return
            names = tuple(layout.texts["name", index] for index in range(layout.lengths["name",]))
            key = (channel.topic, names)
            if key not in joints:
                joints[key] = _JointRows(len(names))
            if fault := joints[key].add(log_ns, layout, raw):
                self._report(
                    f"playback.bag_messages:{channel.topic}",
                    f"{channel.topic}: messages with {fault} are ignored",
                )

        def wanted(channel: BagChannel) -> bool:
            return (channel.type == JOINT_STATE and channel.topic in joint_topics) or (
                channel.type == TF_MESSAGE and channel.topic in pairs
            )

        self._read(wanted, collect)
        series = (rows.series(*key) for key, rows in joints.items())
        return tuple(each for each in series if each is not None), pairs

    def transforms(self, wanted: Mapping[str, Collection[FramePair]]) -> tuple[TransformSeries, ...]:
        """Read transforms.

        Args:
            wanted: Parents and children of interest, by topic.
        """
        parts: dict[tuple[str, FramePair], list[tuple[TimeArray, TimeArray, FloatArray]]] = {}

        def collect(
            channel: BagChannel, log_ns: TimeArray, layout: ColumnLayout, raw: NDArray[np.uint8]
        ) -> None:
            chosen = wanted[channel.topic]
            stamps: TimeArray | None = None
            for index, pair in enumerate(_pairs(layout)):
                if pair not in chosen:
                    continue
                found = _stamps(layout, raw, "transforms", index)
                # Mostly all have the same stamp: one array serves them.
                stamps = found if stamps is None or not np.array_equal(stamps, found) else stamps
                parts.setdefault((channel.topic, pair), []).append(
                    (stamps, log_ns, _poses(layout, raw, index))
                )

        self._read(lambda channel: channel.type == TF_MESSAGE and bool(wanted.get(channel.topic)), collect)
        shared: dict[tuple[int, ...], TimeArray] = {}

        def joined(arrays: Iterable[TimeArray]) -> TimeArray:
            """Concatenate; the same arrays give the same array."""
            each = tuple(arrays)
            return shared.setdefault(tuple(map(id, each)), np.concatenate(each))

        return tuple(
            TransformSeries(
                topic=topic,
                parent=parent,
                child=child,
                stamp_ns=joined(part[0] for part in found),
                log_ns=joined(part[1] for part in found),
                parent_from_child=np.concatenate([part[2] for part in found]),
            )
            for (topic, (parent, child)), found in parts.items()
        )

    def _read(
        self,
        wanted: Callable[[BagChannel], bool],
        collect: Callable[[BagChannel, TimeArray, ColumnLayout, NDArray[np.uint8]], None],
    ) -> None:
        """Read messages in batches, sorted by how they are laid out."""
        # By identity: the hash of a channel is that of its definition.
        batches: dict[int, _Batch] = {}
        for channel, log_ns, data in self._file.messages(wanted):
            batch = batches.get(id(channel))
            if batch is None:
                batch = batches[id(channel)] = _Batch(channel)
            batch.log_ns.append(log_ns)
            batch.messages.append(data)
            batch.size += len(data)
            if len(batch.messages) >= _BATCH or batch.size >= _BATCH_BYTES:
                self._collect(batch, collect)
        for batch in batches.values():
            self._collect(batch, collect)
        for channel, columns in self._columns.items():
            if columns is not None and columns.unreadable:
                self._report(
                    f"playback.bag_unreadable:{channel.topic}",
                    f"{channel.topic}: {columns.unreadable} messages are no {channel.type} and ignored",
                )

    def _collect(
        self, batch: _Batch, collect: Callable[[BagChannel, TimeArray, ColumnLayout, NDArray[np.uint8]], None]
    ) -> None:
        """Read the messages of a batch, and empty it."""
        channel, columns = batch.channel, self._columns_of(batch.channel)
        times = np.array(batch.log_ns, dtype=np.uint64).astype(np.int64)
        try:
            for layout, indices, raw in columns.split(batch.messages) if columns is not None else ():
                collect(channel, times[indices], layout, raw)
        except KeyError as error:
            self._columns[channel] = None
            self._report_ignored(channel, f"its definition has no field {error}")
        batch.clear()

    def _columns_of(self, channel: BagChannel) -> CdrColumns | None:
        if channel not in self._columns:
            try:
                if channel.encoding != "cdr":
                    raise UnreadableMessageError(
                        f"its messages have the encoding {quoted(channel.encoding)}, not cdr"
                    )
                self._columns[channel] = CdrColumns(channel)
            except UnreadableMessageError as error:
                self._columns[channel] = None
                self._report_ignored(channel, str(error))
        return self._columns[channel]

    def _report_ignored(self, channel: BagChannel, why: str) -> None:
        self._report(f"playback.bag_unreadable:{channel.topic}", f"{channel.topic} is ignored: {why}")


class _Batch:
    """Messages of a channel that wait to be read together."""

    def __init__(self, channel: BagChannel) -> None:
        self.channel = channel
        self.clear()

    def clear(self) -> None:
        """Forget the messages."""
        self.log_ns: list[int] = []
        self.messages: list[bytes] = []
        self.size = 0


class _Rows:
    """Rows of numbers that are added batch by batch. Memory that is not written yet takes no room."""

    def __init__(self, *shape: int, dtype: type[np.generic] = np.float64) -> None:
        """Store the shape of a row."""
        self._rows: NDArray[Any] = np.empty((_BATCH, *shape), dtype=dtype)
        self._count = 0

    def add(self, rows: NDArray[Any]) -> None:
        """Add rows."""
        self._reserve(len(rows))
        self._rows[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def add_unknown(self, count: int) -> None:
        """Add rows of NaN."""
        self._reserve(count)
        self._rows[self._count : self._count + count] = np.nan
        self._count += count

    def array(self) -> NDArray[Any]:
        """Return all rows."""
        return self._rows[: self._count]

    def _reserve(self, count: int) -> None:
        needed = self._count + count
        if needed > len(self._rows):
            more = np.empty((2 * needed, *self._rows.shape[1:]), dtype=self._rows.dtype)
            more[: self._count] = self.array()
            self._rows = more


class _JointRows:
    """Joint states of a topic with the same names."""

    def __init__(self, count: int) -> None:
        """Store the number of names."""
        self._width = count
        self._stamps, self._log = _Rows(dtype=np.int64), _Rows(dtype=np.int64)
        self._position = _Rows(count)
        self._velocity: _Rows | None = None
        self._effort: _Rows | None = None

    def add(self, log_ns: TimeArray, layout: ColumnLayout, raw: NDArray[np.uint8]) -> str:
        """Add messages, and return what is wrong with them, "" for nothing."""
        lengths = [layout.lengths[field,] for field in ("position", "velocity", "effort")]
        if lengths[0] != self._width or not {0, self._width}.issuperset(lengths):
            shown = "/".join(map(str, lengths))
            return f"{self._width} names and {shown} positions/velocities/efforts"
        if not self._width:
            return ""
        before = len(self._log.array())
        self._stamps.add(_stamps(layout, raw))
        self._log.add(log_ns)
        self._position.add(layout.column(raw, "position"))
        self._velocity = self._add(self._velocity, before, layout, raw, "velocity")
        self._effort = self._add(self._effort, before, layout, raw, "effort")
        return ""

    def _add(
        self, rows: _Rows | None, before: int, layout: ColumnLayout, raw: NDArray[np.uint8], field: str
    ) -> _Rows | None:
        """Add values that not every message has. There are none before the first message with some."""
        if layout.lengths[field,]:
            if rows is None:
                rows = _Rows(self._width)
                rows.add_unknown(before)
            rows.add(layout.column(raw, field))
        elif rows is not None:
            rows.add_unknown(len(raw))
        return rows

    def series(self, topic: str, names: tuple[str, ...]) -> JointSeries | None:
        """Return all of them; None for none."""
        if not len(self._log.array()):
            return None
        return JointSeries(
            topic=topic,
            names=names,
            stamp_ns=self._stamps.array(),
            log_ns=self._log.array(),
            position=self._position.array(),
            velocity=None if self._velocity is None else self._velocity.array(),
            effort=None if self._effort is None else self._effort.array(),
        )


def _stamps(layout: ColumnLayout, raw: NDArray[np.uint8], *path: str | int) -> TimeArray:
    """Return the stamps (N,) of headers, nanoseconds."""
    seconds = layout.column(raw, *path, "header", "stamp", "sec")[:, 0].astype(np.int64)
    found: TimeArray = seconds * _SECOND_NS + layout.column(raw, *path, "header", "stamp", "nanosec")[:, 0]
    return found


def _pairs(layout: ColumnLayout) -> list[FramePair]:
    """Return parent and child of each transform of a message; tf's slash in front is left out, as in tf2."""
    texts = layout.texts
    return [
        (
            texts["transforms", index, "header", "frame_id"].lstrip("/"),
            texts["transforms", index, "child_frame_id"].lstrip("/"),
        )
        for index in range(layout.lengths["transforms",])
    ]


def _poses(layout: ColumnLayout, raw: NDArray[np.uint8], index: int) -> FloatArray:
    """Return the poses (N, 7) of one transform."""
    paths = [("transforms", index, "transform", *field) for field in _POSE_FIELDS]
    first = layout.numbers[paths[0]]
    if first.dtype.itemsize == _FLOAT64 and all(
        layout.numbers[path].offset == first.offset + _FLOAT64 * number for number, path in enumerate(paths)
    ):
        whole = np.ascontiguousarray(raw[:, first.offset : first.offset + _FLOAT64 * len(paths)])
        return whole.view(first.dtype).astype(np.float64, copy=False)
    return np.concatenate([layout.column(raw, *path) for path in paths], axis=1).astype(
        np.float64, copy=False
    )
