"""Templates: views, columns, stamps, and what has no view."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Point32, PoseStamped, TransformStamped
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import (
    CameraInfo,
    Image,
    Imu,
    JointState,
    LaserEcho,
    LaserScan,
    MultiEchoLaserScan,
    PointCloud2,
)
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker

from case_tables import each_case
from usd_ros_bridge.ros.wire import cdr_template as template_module
from usd_ros_bridge.ros.wire.cdr_layout import TemplateError
from usd_ros_bridge.ros.wire.cdr_template import Template, pack_stamp

TIME_NS = 1_700_000_123_456_789_012
STAMP = (1_700_000_123, 456_789_012)
NAMES = ("", "a", "base", "base_link", "a_frame_with_a_long_name", "гусеница")


def decode(template: Template, message_class: Any) -> Any:
    return deserialize_message(bytes(template.data), message_class)


def transforms(count: int, names: tuple[str, ...] = NAMES) -> TFMessage:
    message = TFMessage()
    for index in range(count):
        transform = TransformStamped()
        transform.header.frame_id = names[index % len(names)]
        transform.child_frame_id = f"{names[(index * 7 + 3) % len(names)]}_{index}"
        message.transforms.append(transform)
    return message


def poses(message: TFMessage) -> list[list[float]]:
    return [
        [
            getattr(part, axis)
            for part in (item.transform.translation, item.transform.rotation)
            for axis in "xyzw"
            if hasattr(part, axis)
        ]
        for item in message.transforms
    ]


# 1 has no second element, 150 is past the size from which blocks move as items.
@each_case("count", [1, 2, 30, 150])
@each_case("names", [NAMES, ("base",)])
@each_case("kind", ["array", "list", "float32", "columns", "every other row"])
def test_column_writes_every_transform(count: int, names: tuple[str, ...], kind: str) -> None:
    message = transforms(count, names)
    template = Template(message)
    values = np.random.default_rng(count).standard_normal((count, 7)).astype(np.float32).astype(float)
    given: Any = {
        "array": values,
        "list": values.tolist(),
        "float32": values.astype(np.float32),
        "columns": np.asfortranarray(values),
        "every other row": np.repeat(values, 2, axis=0)[::2],
    }[kind]
    column = template.column("transforms[].transform")
    column.write(given)
    template.stamps("transforms[].header.stamp").write(pack_stamp(TIME_NS))
    found = decode(template, TFMessage)
    assert poses(found) == values.tolist()
    assert [(item.header.stamp.sec, item.header.stamp.nanosec) for item in found.transforms] == [
        STAMP
    ] * count
    assert [item.child_frame_id for item in found.transforms] == [
        item.child_frame_id for item in message.transforms
    ]


def test_column_of_a_part_leaves_the_rest() -> None:
    template = Template(transforms(3))
    template.column("transforms[].transform").write(np.ones((3, 7)))
    template.column("transforms[].transform.translation").write(np.zeros((3, 3)))
    template.column("transforms[].transform.rotation.w").write([[2.0], [3.0], [4.0]])
    assert poses(decode(template, TFMessage)) == [[0, 0, 0, 1, 1, 1, w] for w in (2.0, 3.0, 4.0)]


def test_column_of_an_empty_sequence_takes_no_rows() -> None:
    template = Template(TFMessage())
    column = template.column("transforms[].transform")
    for width in (0, 7):
        column.write(np.zeros((0, width)))
    template.stamps("transforms[].header.stamp").write(pack_stamp(TIME_NS))
    assert decode(template, TFMessage) == TFMessage()


@pytest.mark.parametrize("count", [2, 150])
def test_column_refuses_values_of_another_shape(count: int) -> None:
    column = Template(transforms(count)).column("transforms[].transform")
    with pytest.raises(ValueError, match="shape"):
        column.write(np.zeros((count + 1, 7)))
    with pytest.raises(ValueError, match="shape"):
        column.write(np.zeros((count, 6)))


@each_case("time_ns", [0, 999_999_999, TIME_NS, (1 << 31) * 10**9 - 1, -1])
def test_stamps_take_every_time(time_ns: int) -> None:
    expected = divmod(time_ns, 10**9)
    template = Template(transforms(3))
    template.stamps("transforms[].header.stamp").write(pack_stamp(time_ns))
    found = decode(template, TFMessage)
    assert [(item.header.stamp.sec, item.header.stamp.nanosec) for item in found.transforms] == [expected] * 3
    template = Template(Odometry())
    template.stamps("header.stamp").write(pack_stamp(time_ns))
    stamp = decode(template, Odometry).header.stamp
    assert (stamp.sec, stamp.nanosec) == expected


def test_stamps_need_a_header() -> None:
    with pytest.raises(TemplateError, match=r"header\.stamp"):
        Template(TFMessage()).stamps("header.stamp")


def test_the_same_stamp_again_writes_nothing() -> None:
    template = Template(Odometry())
    stamps = template.stamps("header.stamp")
    stamps.write(pack_stamp(TIME_NS))
    template.view("header.stamp.sec")[:] = 0
    stamps.write(pack_stamp(TIME_NS))
    assert decode(template, Odometry).header.stamp.sec == 0
    stamps.write(pack_stamp(TIME_NS + 1))
    assert decode(template, Odometry).header.stamp.sec == STAMP[0]


@each_case("frame", ["", "a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"])
def test_float64_fields_are_aligned_whatever_the_names(frame: str) -> None:
    message = Odometry(child_frame_id="c")
    message.header.frame_id = frame
    template = Template(message)
    pose = template.view("pose.pose")
    assert pose.flags.aligned
    assert pose.__array_interface__["data"][0] % 8 == 0
    pose[:] = range(1, 8)
    template.view("twist.twist")[:] = range(10, 16)
    template.view("pose.covariance")[35] = 0.5
    found = decode(template, Odometry)
    assert (found.pose.pose.position.x, found.pose.pose.orientation.w) == (1.0, 7.0)
    assert (found.twist.twist.linear.x, found.twist.twist.angular.z) == (10.0, 15.0)
    assert found.pose.covariance[35] == 0.5
    assert found.header.frame_id == frame


@each_case(
    ("message", "path", "dtype", "count"),
    [
        (Imu(), "orientation", "float64", 4),
        (Imu(), "angular_velocity", "float64", 3),
        (Imu(), "orientation_covariance", "float64", 9),
        (PoseStamped(), "pose", "float64", 7),
        (PoseStamped(), "header.stamp.nanosec", "uint32", 1),
        (Point32(), "", "float32", 3),
        (CameraInfo(), "k", "float64", 9),
        (CameraInfo(height=2, width=3), "width", "uint32", 1),
        (LaserScan(ranges=[1.0] * 5), "ranges", "float32", 5),
        (LaserScan(ranges=[1.0] * 5), "intensities", "float32", 0),
        (LaserScan(), "angle_min", "float32", 1),
        (Image(data=bytes(12)), "data", "uint8", 12),
        (Image(), "is_bigendian", "uint8", 1),
        (PointCloud2(data=bytes(33)), "data", "uint8", 33),
        (PointCloud2(), "is_dense", "bool", 1),
        (Marker(points=[Marker().pose.position] * 4), "points", "float64", 12),
        (Marker(points=[Marker().pose.position] * 4), "points[2]", "float64", 3),
        (transforms(3), "transforms[1].transform.translation", "float64", 3),
    ],
)
def test_view_is_one_array(message: Any, path: str, dtype: str, count: int) -> None:
    template = Template(message)
    view = template.view(path)
    assert (view.dtype, view.shape, view.flags.writeable) == (np.dtype(dtype), (count,), True)
    if count:
        assert (
            view.__array_interface__["data"][0]
            == np.frombuffer(template.data, np.uint8)[template.offset(path) :].__array_interface__["data"][0]
        )


@each_case(
    ("message", "path", "reason"),
    [
        (Odometry(), "pose.orientation", "no numbers"),
        (Odometry(), "header.frame_id", "no numbers"),
        (Odometry(), "pose.pos", "no numbers"),
        (Odometry(), "header.stamp", "several types"),
        (Odometry(), "", "several types"),
        (transforms(3), "transforms[].transform", "3 elements"),
        (transforms(3), "transforms[3].transform", "no element 3"),
        (transforms(3), "transforms", "several types"),
        (JointState(position=[1.0], velocity=[1.0]), "position[0]", "no numbers"),
        (CameraInfo(k=[0.0] * 9), "roi", "several types"),
    ],
)
def test_view_refuses_what_is_not_one_array(message: Any, path: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        Template(message).view(path)


def echoes(*counts: int) -> MultiEchoLaserScan:
    return MultiEchoLaserScan(ranges=[LaserEcho(echoes=[1.0] * count) for count in counts])


def test_numbers_with_counts_between_them_are_a_column_and_no_view() -> None:
    template = Template(echoes(2, 2, 2))
    with pytest.raises(TemplateError, match="side by side"):
        template.view("ranges")
    template.column("ranges[].echoes").write([[1, 2], [3, 4], [5, 6]])
    template.view("ranges[1].echoes")[:] = [7, 8]
    found = decode(template, MultiEchoLaserScan)
    assert [list(item.echoes) for item in found.ranges] == [[1, 2], [7, 8], [5, 6]]


def test_elements_of_different_lengths_are_no_column() -> None:
    template = Template(echoes(2, 0, 3))
    with pytest.raises(TemplateError, match="different amounts"):
        template.column("ranges[].echoes")
    assert template.view("ranges[1].echoes").size == 0
    template.view("ranges[2].echoes")[:] = [4, 5, 6]
    found = decode(template, MultiEchoLaserScan)
    assert [list(item.echoes) for item in found.ranges] == [[1, 1], [], [4, 5, 6]]
    assert template.lengths() == {
        "ranges": 3,
        "intensities": 0,
        "ranges[0].echoes": 2,
        "ranges[1].echoes": 0,
        "ranges[2].echoes": 3,
    }


def test_lengths_are_those_of_sequences_not_of_arrays() -> None:
    message = JointState(name=["one", "two"], position=[1.0, 2.0])
    assert Template(message).lengths() == {"name": 2, "position": 2, "velocity": 0, "effort": 0}
    assert Template(CameraInfo()).lengths() == {"d": 0}


def test_data_is_never_resized_and_views_share_it() -> None:
    message = JointState(name=["one", "two"], position=[1.0, 2.0])
    template = Template(message)
    data, size = template.data, template.size
    position = template.view("position")
    assert position.tolist() == [1.0, 2.0]
    position[:] = [3.0, 4.0]
    assert template.data is data
    assert len(data) == size == template.size
    with pytest.raises(BufferError):
        data.append(0)
    assert list(decode(template, JointState).position) == [3.0, 4.0]
    assert list(message.position) == [1.0, 2.0], "the prototype is nobody's business afterwards"


def test_bytes_without_meaning_are_zero_and_the_length_is_exact() -> None:
    message = JointState(name=["abc"], position=[1.0])
    message.header.frame_id = "ab"
    # Header; stamp, "ab", one name "abc"; positions behind padding; two empty sequences of eight-byte numbers.
    expected = (
        b"\0\1\0\0"
        + struct.pack("<iII3sx", 0, 0, 3, b"ab\0")
        + struct.pack("<II4s", 1, 4, b"abc\0")
        + struct.pack("<Id", 1, 1.0)
        + struct.pack("<II", 0, 0)
    )
    for _ in range(20):
        assert bytes(Template(message).data) == expected


def test_an_empty_sequence_of_eight_byte_numbers_adds_no_padding() -> None:
    template = Template(Float64MultiArray())
    assert template.size == 4 + 3 * 4
    assert template.view("data").shape == (0,)


def test_empty_messages_are_one_byte_rounded_up() -> None:
    template = Template(Trigger.Request())
    assert bytes(template.data) == b"\0\1\0\0\0\0\0\0"
    assert template.lengths() == {}
    assert decode(template, Trigger.Request) == Trigger.Request()


def test_a_text_that_is_cut_at_a_zero_is_no_template() -> None:
    # C strings end at the zero: what is serialized is not what the message says.
    with pytest.raises(TemplateError, match="length or text"):
        Template(String(data="before\0after"))


def test_what_cannot_be_serialized_is_no_template() -> None:
    with pytest.raises(TemplateError, match="int cannot be serialized"):
        Template(3)


def test_nan_and_infinity_in_a_prototype_stay() -> None:
    template = Template(LaserScan(ranges=[float("nan"), float("inf"), 1.0]))
    assert np.array_equal(
        template.view("ranges"), np.array([np.nan, np.inf, 1.0], np.float32), equal_nan=True
    )


def test_wide_and_bounded_texts_and_sequences() -> None:
    msgs = pytest.importorskip("test_msgs.msg", reason="test_msgs is not installed: make setup")
    wide = msgs.WStrings(wstring_value="🦾 arm", array_of_wstrings=["a", "", "関節"])
    assert decode(Template(wide), msgs.WStrings) == wide
    bounded = msgs.BoundedSequences(
        float64_values=[1.0, 2.0], bool_values=[True, False, True], byte_values=[b"\x01"], char_values=[3, 4]
    )
    template = Template(bounded)
    assert template.view("bool_values").dtype == bool
    template.view("float64_values")[:] = [5.0, 6.0]
    template.view("bool_values")[:] = [False, True, False]
    template.view("byte_values")[:] = 255
    template.view("char_values")[:] = [7, 8]
    found = decode(template, msgs.BoundedSequences)
    assert list(found.float64_values) == [5.0, 6.0]
    assert list(found.bool_values) == [False, True, False]
    assert list(found.byte_values) == [b"\xff"]
    assert list(found.char_values) == [7, 8]


def test_booleans_bytes_and_chars() -> None:
    msgs = pytest.importorskip("test_msgs.msg", reason="test_msgs is not installed: make setup")
    template = Template(msgs.BasicTypes())
    template.view("bool_value")[0] = True
    template.view("byte_value")[0] = 200
    template.view("char_value")[0] = 100
    template.view("int8_value")[0] = -3
    template.view("uint64_value")[0] = 2**64 - 1
    found = decode(template, msgs.BasicTypes)
    assert (found.bool_value, found.byte_value, found.char_value) == (True, b"\xc8", 100)
    assert (found.int8_value, found.uint64_value) == (-3, 2**64 - 1)


def test_checks_messages_that_are_laid_out_alike_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[type] = []

    def read_back(data: bytes, message_class: type) -> object:
        checked.append(message_class)
        return deserialize_message(data, message_class)

    monkeypatch.setattr(template_module, "_PROVEN", set())
    monkeypatch.setattr(template_module, "deserialize_message", read_back)
    first, second, other = (JointState(name=[name], position=[0.0]) for name in ("left", "left", "elbow"))
    second.position = [1.5]
    templates = [Template(message) for message in (first, second, other)]
    assert checked == [JointState, JointState]
    templates[1].view("position")[0] = 2.5
    assert deserialize_message(bytes(templates[1].data), JointState).position[0] == 2.5
    assert templates[0].view("position")[0] == 0.0
