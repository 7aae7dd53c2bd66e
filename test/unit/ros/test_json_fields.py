"""Messages from JSON: every installed type, and values that do not fit."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from case_tables import each_case

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseWithCovariance, Twist
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, ByteMultiArray, Float64, Header, Int8, String, UInt64

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.ros.foxglove.json_fields import fields_from_json
from usd_ros_bridge.ros.interface_types import make_message
from usd_ros_bridge.ros.wire.cdr_template import serialize_defined
from usd_ros_bridge.testing.random_messages import fill, installed_types

pytestmark = pytest.mark.app

TYPES = {name: cls for name, cls in installed_types().items() if "/msg/" in name}


def read(message_class: Any, text: str | bytes) -> Any:
    return make_message(message_class, fields_from_json(message_class, text))


def as_json(value: Any) -> Any:
    if hasattr(value, "get_fields_and_field_types"):
        return {name: as_json(getattr(value, name)) for name in value.get_fields_and_field_types()}
    if isinstance(value, bytes):
        return value[0]
    if isinstance(value, (str, bool, int, float)):
        return value
    return [as_json(each) for each in (value.tolist() if hasattr(value, "tolist") else value)]


@each_case("name", TYPES)
def test_every_type_can_be_read(name: str) -> None:
    message = fill(TYPES[name](), random.Random(name))
    text = json.dumps(as_json(message))
    assert serialize_defined(read(TYPES[name], text)) == serialize_defined(message)


def test_fields_that_are_left_out_keep_their_defaults() -> None:
    assert read(Twist, '{"angular": {"z": 1}}').angular.z == 1.0
    assert read(Twist, "{}") == Twist()


def test_values_of_javascript() -> None:
    assert math.isnan(read(Float64, '{"data": null}').data)
    assert read(Int8, '{"data": 5.0}').data == 5
    assert read(UInt64, '{"data": 18446744073709551615}').data == 2**64 - 1
    assert read(Header, '{"stamp": {"sec": 3, "nsec": 4}}').stamp == Time(sec=3, nanosec=4)


@each_case(
    ("message_class", "text", "reason"),
    [
        (Twist, "", "no JSON"),
        (Twist, "[" * 100_000, "no JSON"),
        (Twist, b"\xff", "no JSON"),
        (Twist, "3", "an object is needed"),
        (Twist, '{"linaer": {}}', "did you mean linear"),
        (Twist, '{"linear": 3}', "an object is needed"),
        (Twist, '{"linear": {"x": "3"}}', "Twist.linear.x: '3' is no double"),
        (Twist, '{"linear": {"x": true}}', "is no double"),
        (Twist, '{"linear": {"x": ' + "9" * 400 + "}}", "too large"),
        (Int8, '{"data": 128}', "is no int8"),
        (Int8, '{"data": 0.5}', "is no int8"),
        (Int8, '{"data": true}', "is no int8"),
        (UInt64, '{"data": -1}', "is no uint64"),
        (Bool, '{"data": 1}', "is no boolean"),
        (String, '{"data": 1}', "is no string"),
        (String, '{"data": "a\\u0000b"}', "is no string"),
        (String, '{"data": "\\ud800"}', "is no string"),
        (PoseWithCovariance, '{"covariance": [1, 2]}', "a list of 36 is needed, not a list of 2"),
        (PoseWithCovariance, '{"covariance": {}}', "a list of 36"),
        (JointState, '{"name": "a"}', "a list is needed"),
        (JointState, '{"name": [1]}', "is no string"),
        (JointState, '{"position": ["a"]}', "is no double"),
        (ByteMultiArray, '{"data": [256]}', "is no octet"),
    ],
)
def test_what_does_not_fit_is_said(message_class: Any, text: str | bytes, reason: str) -> None:
    with pytest.raises(BridgeError) as caught:
        fields_from_json(message_class, text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
