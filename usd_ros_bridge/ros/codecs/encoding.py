"""Encodings and codecs: the row of a message type, and helpers that codecs share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message

from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.model.plan import BridgePlan, RobotPlan, TopicPlan
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.runtime.frame_poses import WORLD
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.scalar import Floats, multiply
from usd_ros_bridge.spatial.transforms import IDENTITY, pose_array

Values = Sequence[Any]
"""What changes in a message now: floats for every block of an encoding, then an array for every sequence."""


def prepare_nothing(message: Any, values: Values) -> None:
    """Leave a prototype as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """Encoding of one publisher's messages: a constant prototype, and the few numbers that change.

    One description serves both ways to publish: numbers written into a serialized message, and message objects.

    Attributes:
        values: Returns what a snapshot shows, one entry per block and then one per sequence; None: there is nothing to
            show now. Arrays may be read-only views; they are copied before the next tick.
        prepare: `prepare(message, values)` fills a prototype with what does not change (names, child frame, camera
            matrices), the header's frame excepted. Called again for every shape and type that the arrays take.
        blocks: Fields of numbers of one type that lie side by side ("pose.pose", "range_max"); each entry is a
            sequence of as many numbers.
        sequences: Fields that are a sequence of numbers ("position", "data"); each entry is an array of any length and
            shape. One of another type than the field's stands for its bytes.
        stamp_ns: Returns the time of what is shown, nanoseconds, -1 where there is nothing; None for the time of the
            robot's state.
        sensed: Whether a backend's sensor feeds it (`Capabilities.sensors`).
        constants: Return what `prepare` writes besides what follows from shapes and types of the values. Publishers
            with equal constants share one serialized message. Called after `values`.
        key: Return what else than numbers differs between two messages; None: shapes and types of the sequences.
        stamps: Path of the stamps in a sequence's elements, for messages without a header of their own.
        arrays: Return arrays of all robots: one per block (N, size) and then one per sequence (N,) or, of a sequence's
            elements, (N, size). `values` returns the same `rows` of them. Empty arrays stand for empty sequences; a
            message whose row begins with NaN is encoded alone. None for this tick: every message is. Publishers with
            the same function are published as a batch. None: each is encoded alone.
        rows: Rows of `arrays`.
        varying: Whether messages hardly ever have one length, as texts and compressed images: they are published as
            message objects, and `prepare` may fill in what changes, too.
    """

    values: Callable[[Snapshot], Values | None]
    prepare: Callable[[Any, Values], None] = prepare_nothing
    blocks: tuple[str, ...] = ()
    sequences: tuple[str, ...] = ()
    stamp_ns: Callable[[Snapshot], int] | None = None
    sensed: bool = False
    constants: Callable[[], Hashable] = tuple
    key: Callable[[Values], Hashable] | None = None
    stamps: str = ""
    arrays: Callable[[Snapshot], Sequence[NDArray[np.float64]] | None] | None = None
    rows: slice | None = None
    varying: bool = False


EncodingFactory = Callable[[TopicPlan, BridgePlan], Encoding]
"""Makes the encoding of one publisher; raises NoSourceError where the plan has nothing that it could show."""

Reader = Callable[[bytes], object | None]
"""Turns a serialized message into a sample of model.state; None: not the shape that it reads."""

Decoder = Callable[[Any], object]
"""Turns a message into a sample of model.state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCodec:
    """Encode and decode messages of one type: its row in the codec table.

    Attributes:
        encode: Makes the encoding of a publisher that shows the state. None: there is none.
        encode_measured: Makes it where a backend's sensor serves the publisher, for types that `encode` shows, too.
        encode_attribute: Makes it where the publisher names an attribute of the stage as its source.
        decode: Turns a message into a sample. None: subscriptions of the type are not understood.
        reader: Makes what reads serialized messages faster than `decode`, for one subscription. Both give equal
            samples; it returns None for bytes that it does not know, which `decode` then reads.
    """

    encode: EncodingFactory | None = None
    encode_measured: EncodingFactory | None = None
    encode_attribute: EncodingFactory | None = None
    decode: Decoder | None = None
    reader: Callable[[], Reader] | None = None

    def make_reader(self, message_class: Any) -> Callable[[bytes], object]:
        """Return a function that turns serialized messages into samples, for one subscription.

        Args:
            message_class: Class of the type.
        """
        decode = self.decode
        assert decode is not None
        if self.reader is None:
            return lambda data: decode(deserialize_message(data, message_class))
        read = self.reader()

        def read_or_decode(data: bytes) -> object:
            sample = read(data)
            return decode(deserialize_message(data, message_class)) if sample is None else sample

        return read_or_decode


class NoSourceError(Exception):
    """A publisher has nothing to show; the message says what is missing."""


def set_stamp(stamp: Any, time_ns: int) -> None:
    """Write nanoseconds into a builtin_interfaces Time."""
    seconds, nanoseconds = divmod(int(time_ns), SECOND_NS)
    stamp.sec = seconds
    stamp.nanosec = nanoseconds


def stamp_ns(message: Any) -> int:
    """Return the nanoseconds of a message's header stamp."""
    stamp = message.header.stamp
    return int(stamp.sec) * SECOND_NS + int(stamp.nanosec)


def set_child_frame(topic: TopicPlan) -> Callable[[Any, Values], None]:
    """Return a `prepare` that names the child frame."""

    def prepare(message: Any, values: Values) -> None:  # noqa: ARG001 - Encoding.prepare
        message.child_frame_id = topic.child_frame_id

    return prepare


def plain(values: NDArray[np.float64]) -> list[float]:
    """Return a row as Python floats."""
    result: list[float] = values.tolist()
    return result


def sensed_at(topic: TopicPlan) -> Callable[[Snapshot], int]:
    """Return the `stamp_ns` of what a backend's sensor measures."""

    def stamp(snapshot: Snapshot) -> int:
        sample = snapshot.sense(topic.path)
        return -1 if sample is None else sample.stamp_ns

    return stamp


def sensed(
    topic: TopicPlan,
    blocks: Sequence[str],
    read: Callable[[SensorSample], Values],
    *,
    prepare: Callable[[Any, Values], None] = prepare_nothing,
    sequences: Sequence[str] = (),
) -> Encoding:
    """Return the encoding of what a backend's sensor measures.

    Args:
        topic: The publisher.
        blocks: As in `Encoding`.
        read: Returns what a sample shows; raises ValueError where its arrays are not what they should be.
        prepare: As in `Encoding`.
        sequences: As in `Encoding`.
    """

    def values(snapshot: Snapshot) -> Values | None:
        sample = snapshot.sense(topic.path)
        return None if sample is None else read(sample)

    return Encoding(
        values=values,
        prepare=prepare,
        blocks=tuple(blocks),
        sequences=tuple(sequences),
        stamp_ns=sensed_at(topic),
        sensed=True,
    )


def array_of(sample: SensorSample, name: str) -> NDArray[Any]:
    """Return an array that a sample must have.

    Raises:
        ValueError: It has none of that name.
    """
    values = sample.arrays.get(name)
    if values is None:
        raise ValueError(f"the sensor at {sample.prim} gives no array named {name!r}")
    return values


def numbers_of(sample: SensorSample, name: str, count: int, default: Sequence[float] = ()) -> Sequence[Any]:
    """Return `count` plain numbers of an array that a sample must have, or `default` where that is given.

    Raises:
        ValueError: There are more or fewer, or none and no default.
    """
    if default and name not in sample.arrays:
        return default
    array = array_of(sample, name)
    if array.size != count:
        raise ValueError(
            f"{name} of the sensor at {sample.prim} has {array.size} numbers, and should have {count}"
        )
    numbers: list[Any] = array.reshape(-1).tolist()
    return numbers


class Carrier:
    """The body that carries a topic's prim, or the world where none does; numbers are lists of Python floats.

    Attributes:
        row: Row of the body, as `Snapshot.body` takes it; WORLD where nothing moves the prim.
        body_from_prim: The prim in its body, or in the world: 7 floats.
        lever: Its position, None where it is the body's origin.
    """

    __slots__ = ("body_from_prim", "lever", "row")

    def __init__(self, topic: TopicPlan) -> None:
        self.row = topic.body
        self.body_from_prim = plain(pose_array(topic.body_from_prim))
        self.lever = self.body_from_prim[:3] if any(self.body_from_prim[:3]) else None


class HeaderAxes:
    """The axes of a topic's header frame: of one of the robot's frames, else (an external frame) of the world."""

    def __init__(self, topic: TopicPlan, plan: BridgePlan) -> None:
        self._row = WORLD
        self._carrier_from_frame = plain(IDENTITY[3:])
        self._aligned = True
        if topic.robot < 0:
            return
        robot = plan.robots[topic.robot]
        for frame in robot.frames:
            if topic.frame_id in _shown_ids(robot, frame.id):
                self._row = frame.carrier
                self._carrier_from_frame = plain(pose_array(frame.carrier_from_frame)[3:])
                self._aligned = self._carrier_from_frame[:3] == [0.0, 0.0, 0.0]
                return

    def are_of_body(self, row: int) -> bool:
        """Return whether they are the axes of a body."""
        return self._row == row and self._aligned

    def rotation(self, snapshot: Snapshot) -> Floats:
        """Return the quaternion of `world_from_frame`."""
        if self._row == WORLD:
            return self._carrier_from_frame
        rotation = snapshot.body(self._row)[3:]
        return rotation if self._aligned else multiply(rotation, self._carrier_from_frame)


def _shown_ids(robot: RobotPlan, frame_id: str) -> set[str]:
    return {frame_id, *(output.prefix + frame_id for output in robot.tf_outputs)}
