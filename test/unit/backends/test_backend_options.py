"""Options of backends: texts become values, mistakes name what is possible."""

from __future__ import annotations

import pytest

from case_tables import each_case
from usd_ros_bridge.backends.backend_options import BUILT_IN_BACKENDS
from usd_ros_bridge.backends.base import (
    count_in,
    flag,
    number_in,
    option_value,
    parse_options,
    topic_name,
)
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.ranges import NumberRange

PARSERS = {
    "rate": number_in(NumberRange(low=1e-3, high=1e3, unit="Hz")),
    "start": number_in(NumberRange(low=-10.0, high=10.0)),
    "samples": count_in(NumberRange(low=0, high=16)),
    "loop": flag,
    "topic": topic_name,
}


def test_texts_become_values() -> None:
    values = parse_options("x", {"rate": "2.5", "start": "-1e-3", "loop": "False", "topic": " a/b "}, PARSERS)
    assert values == {"rate": 2.5, "start": -1e-3, "loop": False, "topic": "a/b"}
    assert option_value(values, "rate", float, 1.0) == 2.5
    assert option_value({}, "rate", float, 1.0) == 1.0


@each_case(
    ("key", "text", "message"),
    [
        ("rate", "0", "option rate of backend x is '0', but must be a number: 0.001 to 1000 Hz"),
        ("rate", "5e-324", "a number: 0.001 to 1000 Hz"),
        ("rate", "fast", "a number: 0.001 to 1000 Hz"),
        ("start", "nan", "a number: -10 to 10"),
        ("start", "inf", "a number: -10 to 10"),
        ("samples", "17", "a whole number: 0 to 16"),
        ("samples", "-1", "a whole number: 0 to 16"),
        ("samples", "1.5", "a whole number: 0 to 16"),
        ("samples", "9" * 10_000, "a whole number: 0 to 16"),
        ("loop", "maybe", "true or false"),
        ("topic", " ", "a topic name"),
        ("topic", "a b", "a topic name"),
        ("topic", "/1a", "a topic name"),
        ("topic", "a//b", "a topic name"),
        ("speed", "1", "backend x has no option 'speed'; its options: loop, rate, samples, start, topic"),
    ],
)
def test_mistakes_name_what_is_possible(key: str, text: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        parse_options("x", {key: text}, PARSERS)


def test_a_backend_without_options_says_so() -> None:
    with pytest.raises(BackendError, match="its options: none"):
        parse_options("null", {"a": "b"}, {})


def test_a_misspelt_option_is_suggested() -> None:
    with pytest.raises(BackendError, match=r"no option 'smples'; did you mean samples\? its options: "):
        parse_options("x", {"smples": "1"}, PARSERS)


def test_an_option_of_another_backend_names_that_backend() -> None:
    for backend, options in ((name, info.options) for name, info in BUILT_IN_BACKENDS.items()):
        for option in options:
            with pytest.raises(BackendError) as refused:
                parse_options("null", {option: "1"}, {})
            owners = str(refused.value).partition("it is an option of ")[2].partition(";")[0]
            assert backend in owners.split(", ")
