"""Parameters between ROS 2 and foxglove-sdk: types both ways."""

from __future__ import annotations

import math
from typing import Any

import pytest

from case_tables import each_case

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("foxglove", reason="foxglove-sdk is not installed: make setup")

from foxglove.websocket import ParameterType
from rclpy.parameter import Parameter

from usd_ros_bridge.ros.foxglove.parameter_access import from_foxglove, to_foxglove

VALUES: dict[Any, Any] = {
    Parameter.Type.BOOL: True,
    Parameter.Type.INTEGER: 2**60,
    Parameter.Type.DOUBLE: 3.0,
    Parameter.Type.STRING: "text",
    Parameter.Type.BYTE_ARRAY: [b"a", b"\0"],
    Parameter.Type.BOOL_ARRAY: [True, False],
    Parameter.Type.INTEGER_ARRAY: [1, -2],
    Parameter.Type.DOUBLE_ARRAY: [1.0, 2.0],
    Parameter.Type.STRING_ARRAY: ["a", ""],
}


def declared(kind: Any, value: Any) -> Any:
    return Parameter("name", kind, value)


@each_case("kind", VALUES)
def test_a_value_comes_back_as_it_was(kind: Any) -> None:
    value = VALUES[kind]
    shown = to_foxglove("name", value)
    assert shown.name == "name"
    back = from_foxglove(shown.get_value(), declared(kind, value))
    assert (back.type_, back.value) == (kind, value)


def test_doubles_are_marked_as_such() -> None:
    assert to_foxglove("name", 1.0).type == ParameterType.Float64
    assert to_foxglove("name", [1.0]).type == ParameterType.Float64Array
    assert to_foxglove("name", 1).type is None


@each_case(
    ("kind", "given", "expected"),
    [
        (Parameter.Type.DOUBLE, 3, 3.0),
        (Parameter.Type.INTEGER, 3.0, 3),
        (Parameter.Type.DOUBLE_ARRAY, [1, 2.5], [1.0, 2.5]),
        (Parameter.Type.INTEGER_ARRAY, [1.0, 2.0], [1, 2]),
        (Parameter.Type.STRING_ARRAY, [], []),
        (Parameter.Type.DOUBLE_ARRAY, [], []),
    ],
)
def test_numbers_of_json_get_the_declared_type(kind: Any, given: Any, expected: Any) -> None:
    back = from_foxglove(given, declared(kind, VALUES[kind]))
    assert (back.type_, back.value) == (kind, expected)
    numbers = back.value if isinstance(back.value, list) else [back.value]
    wanted = expected if isinstance(expected, list) else [expected]
    assert [type(each) for each in numbers] == [type(each) for each in wanted]


@each_case(
    ("kind", "given"),
    [
        (Parameter.Type.INTEGER, 3.5),
        (Parameter.Type.INTEGER, math.inf),
        (Parameter.Type.BOOL, 1),
        (Parameter.Type.DOUBLE, True),
        (Parameter.Type.STRING, 1),
    ],
)
def test_a_value_that_does_not_fit_keeps_its_own_type(kind: Any, given: Any) -> None:
    back = from_foxglove(given, declared(kind, VALUES[kind]))
    assert back.type_ != kind
    assert back.value == given


def test_a_value_of_no_type_of_ros_is_refused() -> None:
    for given in ({"a": 1}, [1, "x"], [[1]]):
        with pytest.raises((TypeError, ValueError)):
            from_foxglove(given, declared(Parameter.Type.DOUBLE, 1.0))
