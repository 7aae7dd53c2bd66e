"""Messages as YAML and comma-separated values, and from YAML: every installed type, with random contents."""

from __future__ import annotations

import random
import sys
from dataclasses import asdict
from typing import Any

import pytest

from case_tables import each_case

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup")
pytest.importorskip("yaml", reason="PyYAML is not installed: make setup-tests")

import yaml
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, TransformStamped, Twist, TwistStamped
from sensor_msgs.msg import CameraInfo, JointState, PointCloud2
from std_msgs.msg import Bool, Byte, Float64MultiArray, Int8, String, UInt8
from tf2_msgs.msg import TFMessage

from some_types import SOME_TYPES
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.ros.message_text import TextLimits, message_to_csv, message_to_yaml
from usd_ros_bridge.ros.message_values import WrittenMessage
from usd_ros_bridge.testing.random_messages import fill, installed_types

TYPES = installed_types()
LIMITS = (
    TextLimits(),
    TextLimits(truncate_length=2),
    TextLimits(no_arr=True),
    TextLimits(no_str=True, truncate_length=3),
)


@pytest.fixture
def without_rosidl(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the wheels of rclpy are all there is."""
    monkeypatch.setitem(sys.modules, "rosidl_runtime_py", None)


def filled(name: str, seed: int) -> Any:
    return fill(TYPES[name](), random.Random(f"{name} {seed}"))


@each_case("name", SOME_TYPES)
def test_yaml_of_a_message_makes_the_same_message(name: str, without_rosidl: None) -> None:
    check_yaml(name)


@pytest.mark.every_type
@each_case("name", sorted(TYPES))
def test_yaml_of_any_message_makes_the_same_message(name: str, without_rosidl: None) -> None:
    check_yaml(name)


def check_yaml(name: str) -> None:
    for seed in range(3):
        message = filled(name, seed)
        text = message_to_yaml(message)
        if "\x85" in text:
            continue  # PyYAML writes this character, a byte here, so that it reads it as a space.
        assert WrittenMessage(type(message), yaml.safe_load(text)).message == message
        assert message_to_yaml(message) == text
        flow = message_to_yaml(message, flow_style=True)
        assert yaml.safe_load(flow) == yaml.safe_load(text)


@pytest.mark.every_type
def test_texts_are_those_of_rosidl_runtime_py(monkeypatch: pytest.MonkeyPatch) -> None:
    rosidl = pytest.importorskip(
        "rosidl_runtime_py", reason="rosidl_runtime_py is not installed: source ROS 2"
    )
    monkeypatch.setitem(sys.modules, "rosidl_runtime_py", None)
    for name in sorted(TYPES):
        message = filled(name, 0)
        for limits in LIMITS:
            options = asdict(limits)
            assert message_to_yaml(message, limits) == rosidl.message_to_yaml(message, **options), name
            expected = rosidl.message_to_yaml(message, flow_style=True, **options)
            assert message_to_yaml(message, limits, flow_style=True) == expected, name
            assert message_to_csv(message, limits) == rosidl.message_to_csv(message, **options), name


def test_the_forms_of_arrays_and_strings(without_rosidl: None) -> None:
    message = JointState(name=["a", "bcd"], position=[1.0, 2.5, 3.0])
    assert message_to_yaml(message).splitlines()[5:13] == [
        "name:",
        "- a",
        "- bcd",
        "position:",
        "- 1.0",
        "- 2.5",
        "- 3.0",
        "velocity: []",
    ]
    short = TextLimits(truncate_length=2)
    assert yaml.safe_load(message_to_yaml(message, short))["position"] == [1.0, 2.5, "..."]
    assert yaml.safe_load(message_to_yaml(message, short))["name"] == ["a", "bc..."]
    assert message_to_csv(message, short) == "0,0,,a,bc...,1.0,2.5,...,,"
    summary = yaml.safe_load(message_to_yaml(message, TextLimits(no_arr=True)))
    assert summary["name"] == "<sequence type: string, length: 2>"
    assert summary["position"] == "<sequence type: double, length: 3>"
    summary = yaml.safe_load(message_to_yaml(CameraInfo(), TextLimits(no_arr=True)))
    assert summary["k"] == "<array type: double[9]>"
    summary = yaml.safe_load(message_to_yaml(PointCloud2(), TextLimits(no_arr=True)))
    assert summary["fields"] == "<sequence type: sensor_msgs/msg/PointField, length: 0>"
    hidden = yaml.safe_load(message_to_yaml(String(data="secret"), TextLimits(no_str=True)))
    assert hidden == {"data": "<string length: <6>>"}
    transform = TFMessage(transforms=[TransformStamped(child_frame_id="a")])
    (line,) = message_to_yaml(transform, flow_style=True).splitlines()
    assert line.startswith(
        "transforms: [{header: {stamp: {sec: 0, nanosec: 0}, frame_id: ''}, child_frame_id: a,"
    )


# --- Messages that people write -----------------------------------------------------------------------------------


@each_case(
    ("kind", "text", "expected"),
    [
        (Twist, "{linear: {x: 1e-3}}", 0.001),
        (Twist, "{linear: {x: 2}}", 2.0),
        (Twist, "{linear: {x: '2'}}", 2.0),
        (String, "data: 5", "5"),
        (String, "data: 1.5", "1.5"),
        (String, "data: 2026-01-02", "2026-01-02"),
        (UInt8, "data: '7'", 7),
        (UInt8, "data: 7.0", 7),
        (Int8, "data: true", 1),
        (Bool, "data: 0", False),
        (Byte, "data: 255", b"\xff"),
        (Byte, "data: a", b"a"),
    ],
)
def test_scalars_are_taken_as_people_write_them(kind: Any, text: str, expected: Any) -> None:
    message = WrittenMessage(kind, yaml.safe_load(text)).message
    assert (message.linear.x if kind is Twist else message.data) == expected


def test_elements_of_arrays() -> None:
    written = yaml.safe_load("{data: [1e-3, 2, '3'], layout: {dim: [{label: 5, size: '2'}]}}")
    message = WrittenMessage(Float64MultiArray, written).message
    assert list(message.data) == [0.001, 2.0, 3.0]
    assert (message.layout.dim[0].label, message.layout.dim[0].size) == ("5", 2)


def test_now_and_auto_are_filled_in_each_time() -> None:
    written = WrittenMessage(TwistStamped, {"header": "auto", "twist": {"linear": {"x": 1}}})
    assert written.message.header.stamp == Time()
    for second in (3, 4):
        written.stamp(Time(sec=second))
        assert written.message.header.stamp == Time(sec=second)
    assert written.message.twist.linear.x == 1.0
    written = WrittenMessage(PoseStamped, {"header": {"stamp": "now", "frame_id": "map"}})
    written.stamp(Time(sec=5))
    assert (written.message.header.stamp.sec, written.message.header.frame_id) == (5, "map")
    written = WrittenMessage(TFMessage, {"transforms": [{"header": "auto"}, {"child_frame_id": "b"}]})
    written.stamp(Time(sec=6))
    assert [each.header.stamp.sec for each in written.message.transforms] == [6, 0]
    written = WrittenMessage(Time, {"sec": 1})
    written.stamp(Time(sec=7))
    assert written.message == Time(sec=1)


@each_case(
    ("kind", "values", "expected"),
    [
        (Twist, {"linear": 5}, "the field linear: it is Vector3, not int"),
        (Twist, {"linear": {"x": "fast"}}, "the field x: it is float, not str"),
        (Twist, {"linear": {"x": None}}, "the field x: it is float, not NoneType"),
        (Twist, {"liner": {}}, "Twist has no field 'liner'; did you mean linear"),
        (String, {"data": None}, "it is str, not NoneType"),
        (String, {"data": [1]}, "it is str, not list"),
        (Bool, {"data": "false"}, "it is bool, not str"),
        (UInt8, {"data": 1.5}, "it is int, not float"),
        (UInt8, {"data": 256}, "unsigned integer in [0, 255]"),
        (TwistStamped, {"header": "now"}, "the field header: it is Header, not str"),
        (JointState, {"position": {"x": 1}}, "the field position: it is array, not dict"),
        (TFMessage, {"transforms": [1]}, "TFMessage: "),
        (JointState, {"position": [{"x": 1}]}, "its elements are double, no messages"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(kind: Any, values: Any, expected: str) -> None:
    with pytest.raises(BridgeError) as error:
        WrittenMessage(kind, values)
    assert expected in str(error.value)
