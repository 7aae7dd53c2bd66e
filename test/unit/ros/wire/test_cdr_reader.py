"""Readers against rclpy's deserializer: equal for what is written, never wrong for what is damaged."""

from __future__ import annotations

import struct
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Twist, TwistStamped
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from case_tables import each_case
from usd_ros_bridge.model.state import JointStateSample
from usd_ros_bridge.ros.codecs import CODECS
from usd_ros_bridge.ros.wire import cdr_reader
from usd_ros_bridge.ros.wire.cdr_reader import (
    MAX_JOINT_NAMES,
    MAX_NEW_NAMES,
    MAX_POINTS,
    PLAIN_CDR,
    TEXT_BEGIN,
    JointStateReader,
    JointStateShape,
    MessageLimitError,
    check_joint_trajectory,
)

NUMBERS = st.floats(allow_nan=True, width=64)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
CLASSES = {
    "geometry_msgs/msg/Twist": Twist,
    "geometry_msgs/msg/TwistStamped": TwistStamped,
    "sensor_msgs/msg/JointState": JointState,
    "std_msgs/msg/Float64MultiArray": Float64MultiArray,
}


def stamped(draw: st.DrawFn, message: Any) -> Any:
    message.header.stamp.sec = draw(st.integers(-(2**31), 2**31 - 1))
    message.header.stamp.nanosec = draw(st.integers(0, 2**32 - 1))
    message.header.frame_id = draw(NAMES)
    return message


def with_twist(draw: st.DrawFn, twist: Twist) -> None:
    for vector in (twist.linear, twist.angular):
        vector.x, vector.y, vector.z = draw(st.tuples(NUMBERS, NUMBERS, NUMBERS))


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, Any]:
    """A message of a type that has a reader."""
    name = draw(st.sampled_from(sorted(CLASSES)))
    message = CLASSES[name]()
    if isinstance(message, JointState):
        stamped(draw, message)
        message.name = draw(st.lists(st.sampled_from(["a", "joint_1", "Gelenk-ß"]) | NAMES, max_size=6))
        for field in ("position", "velocity", "effort"):
            setattr(message, field, draw(st.lists(NUMBERS, max_size=6)))
    elif isinstance(message, TwistStamped):
        with_twist(draw, stamped(draw, message).twist)
    elif isinstance(message, Twist):
        with_twist(draw, message)
    else:
        message.data = draw(st.lists(NUMBERS, max_size=9))
        if draw(st.booleans()):
            message.layout.dim = [MultiArrayDimension(label=draw(NAMES), size=2, stride=1)]
        message.layout.data_offset = draw(st.integers(0, 2**32 - 1))
    return name, message


def same(left: Any, right: Any) -> bool:
    assert type(left) is type(right)
    for name in left.__slots__:
        one, other = getattr(left, name), getattr(right, name)
        if isinstance(one, np.ndarray):
            if one.tobytes() != other.tobytes():
                return False
        elif one != other:
            return False
    return True


def deserialized(name: str, data: bytes) -> object:
    return CODECS[name].decode(deserialize_message(data, CLASSES[name]))


@settings(max_examples=300, deadline=None)
@given(messages())
def test_a_reader_gives_what_the_deserializer_gives(drawn: tuple[str, Any]) -> None:
    name, message = drawn
    data = bytes(serialize_message(message))
    reader = CODECS[name].make_reader(CLASSES[name])
    expected = CODECS[name].decode(message)
    assert same(reader(data), expected)
    assert same(reader(data), expected), "with what it remembers of the first"


@settings(max_examples=400, deadline=None)
@given(messages(), st.data())
def test_damaged_bytes_give_the_deserializers_answer_or_none(
    drawn: tuple[str, Any], data: st.DataObject
) -> None:
    """The reader has seen the sound message first, so that its memory is tested, too."""
    name, message = drawn
    sound = bytes(serialize_message(message))
    read = CODECS[name].reader()
    read(sound)
    damaged = bytearray(sound[: data.draw(st.integers(0, len(sound)))])
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.sampled_from([0, 1, 2, 127, 255]))
    sample = read(bytes(damaged))
    if sample is not None:
        assert same(sample, deserialized(name, bytes(damaged)))


@each_case("name", sorted(CLASSES))
def test_the_usual_message_needs_no_deserializer(name: str) -> None:
    message = CLASSES[name]()
    if isinstance(message, JointState):
        message.name, message.position = ["a", "b"], [0.5, -0.5]
    sample = CODECS[name].reader()(bytes(serialize_message(message)))
    assert sample is not None
    assert same(sample, CODECS[name].decode(message))


def test_joint_names_are_decoded_once_and_again_when_they_change() -> None:
    read = JointStateReader(JointStateSample)
    first = read(bytes(serialize_message(JointState(name=["a", "bc"], position=[1.0, 2.0]))))
    again = read(bytes(serialize_message(JointState(name=["a", "bc"], position=[3.0, 4.0]))))
    other = read(bytes(serialize_message(JointState(name=["a", "bd"], position=[3.0, 4.0]))))
    assert first is not None
    assert again is not None
    assert other is not None
    assert again.names is first.names
    assert again.position.tolist() == [3.0, 4.0]
    assert other.names == ("a", "bd")


def test_big_endian_is_left_to_the_deserializer() -> None:
    data = bytes(serialize_message(Twist()))
    assert CODECS["geometry_msgs/msg/Twist"].reader()(b"\x00\x00\x00\x00" + data[4:]) is None


def test_a_message_with_too_many_names_is_refused_before_they_are_read() -> None:
    names = [f"joint_{index}" for index in range(MAX_JOINT_NAMES + 1)]
    with pytest.raises(MessageLimitError, match="50001 names"):
        JointStateReader(JointStateSample)(bytes(serialize_message(JointState(name=names))))


def test_names_that_change_from_message_to_message_have_a_budget_and_others_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=5.0)
    monkeypatch.setattr(cdr_reader, "time", SimpleNamespace(monotonic=lambda: clock.now))
    read = JointStateReader(JointStateSample)
    count = 12_500
    for turn, wait_s in enumerate([0.0] * (MAX_NEW_NAMES // count) + [count / MAX_NEW_NAMES]):
        clock.now += wait_s
        for more in range(2):
            names = [f"joint_{turn}_{more}_{index}" for index in range(count // 2)]
            read(bytes(serialize_message(JointState(name=names))))
        if turn + 1 >= MAX_NEW_NAMES // count:
            with pytest.raises(MessageLimitError, match="new names are read in a second"):
                read(bytes(serialize_message(JointState(name=["another"]))))
    known = bytes(serialize_message(JointState(name=["a"])))
    kept = JointStateReader(JointStateSample)
    for _ in range(1000):
        sample = kept(known)
        assert sample is not None
        assert sample.names == ("a",)


@each_case(
    ("points", "names", "why"),
    [(MAX_POINTS, 3, ""), (MAX_POINTS + 1, 3, "points"), (1, 50_001, "joint names")],
)
def test_a_trajectory_with_too_many_points_is_refused_before_they_are_made(
    points: int, names: int, why: str
) -> None:
    message = JointTrajectory(
        joint_names=[f"joint_{index}" for index in range(names)], points=[JointTrajectoryPoint()] * points
    )
    data = bytes(serialize_message(message))
    if why:
        with pytest.raises(MessageLimitError, match=why):
            check_joint_trajectory(data)
    else:
        check_joint_trajectory(data)


ENCAPSULATIONS = [b"\x00\x01\x00\x00", b"\x00\x01\x00\x03", b"\x00\x00\x00\x00", b"\x00\x07\x00\x00"]


def encapsulated(message: Any, header: bytes) -> bytes:
    """A serialized message with another header, and with its counts in the order of bytes that it says."""
    data = bytes(serialize_message(message))
    if header[1] != 0:
        return header + data[4:]
    words = np.frombuffer(data[4 : 4 + (len(data) - 4) // 4 * 4], dtype="<u4")
    return header + words.astype(">u4").tobytes()


@each_case("header", ENCAPSULATIONS)
@each_case("frame", ["", "base", "ä"])
def test_no_encoding_and_no_text_evades_the_limits(header: bytes, frame: str) -> None:
    point = JointTrajectoryPoint()
    trajectory = JointTrajectory(joint_names=["", "ä"], points=[point] * (MAX_POINTS + 1))
    states = JointState(name=[""] * (MAX_JOINT_NAMES + 1))
    if header[1] == 0:
        # The bytes of texts would be turned, too.
        frame, trajectory.joint_names = "", []
    trajectory.header.frame_id = states.header.frame_id = frame
    with pytest.raises(MessageLimitError):
        check_joint_trajectory(encapsulated(trajectory, header))
    with pytest.raises(MessageLimitError):
        JointStateReader(JointStateSample)(encapsulated(states, header))
    trajectory.points = [point] * 100
    check_joint_trajectory(encapsulated(trajectory, header))


def test_points_that_are_cut_off_are_refused_before_they_are_made() -> None:
    count = 10 * MAX_POINTS
    data = bytes(serialize_message(JointTrajectory()))
    begin = len(data) - 4 & ~3
    assert data[begin : begin + 4] == bytes(4)
    # rclpy makes all of them before it finds that they have a byte each.
    with pytest.raises(MessageLimitError, match="points"):
        check_joint_trajectory(data[:begin] + struct.pack("<I", count) + bytes(count))


def test_names_of_any_text_count_once() -> None:
    reader = JointStateReader(JointStateSample)
    data = bytes(serialize_message(JointState(name=["ä"] * (MAX_JOINT_NAMES - 1))))
    # Twice as many are read in a second.
    assert reader(data) is None
    assert reader(data) is None


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=80), size=st.integers(0, 200))
def test_a_damaged_trajectory_is_left_to_the_deserializer(data: bytes, size: int) -> None:
    sound = bytes(serialize_message(JointTrajectory(joint_names=["a", "b"], points=[JointTrajectoryPoint()])))
    for damaged in (sound[:4] + data, sound[:size], sound[:size] + data):
        with suppress(MessageLimitError):
            check_joint_trajectory(damaged)


@given(messages(), st.binary(max_size=9), st.integers(0, 400))
def test_the_shape_of_joint_states_is_where_the_deserializer_finds_the_numbers(made, tail, cut) -> None:
    name, message = made
    data = bytes(serialize_message(message))
    shape = JointStateShape.of(data + tail)
    if (
        name != "sensor_msgs/msg/JointState"
        or not "".join([message.header.frame_id, *message.name]).isascii()
    ):
        return
    assert shape is not None
    assert (shape.count, *shape.counts) == tuple(
        map(len, (message.position, message.velocity, message.effort))
    )
    whole = struct.unpack_from(shape.layout(values=True), data)
    assert whole[0] == PLAIN_CDR
    assert whole[1:3] == (message.header.stamp.sec, message.header.stamp.nanosec)
    assert whole[3] == shape.count
    assert np.array_equal(whole[4 : 4 + shape.count], message.position, equal_nan=True)
    assert whole[4 + shape.count :] == shape.counts
    assert struct.unpack_from(shape.layout(values=False), data) == (*whole[:4], *whole[-2:])
    assert data.startswith(shape.text, TEXT_BEGIN)
    # A message that is cut off has no shape, or the whole one, where only what means nothing was cut.
    assert JointStateShape.of(data[: min(cut, shape.size - 1)]) is None
