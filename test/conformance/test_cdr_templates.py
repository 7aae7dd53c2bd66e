"""Every installed message type through a template: what is written in place is what the deserializer reads."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from case_tables import each_case
from some_types import SOME_TYPES

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")

from rclpy.serialization import serialize_message

from usd_ros_bridge.ros.wire import cdr_template
from usd_ros_bridge.ros.wire.cdr_layout import CdrLayout, TemplateError
from usd_ros_bridge.ros.wire.cdr_template import Template
from usd_ros_bridge.testing import random_messages
from usd_ros_bridge.testing.codec_conformance import check_template

TYPES = random_messages.installed_types()
VARIANTS = 4


def test_finds_the_types_that_the_bridge_publishes() -> None:
    assert {"tf2_msgs/msg/TFMessage", "sensor_msgs/msg/PointCloud2", "nav_msgs/msg/Odometry"} <= set(TYPES)
    assert len(TYPES) > 200


@each_case("name", SOME_TYPES)
def test_reads_back_numbers_written_in_place(name: str) -> None:
    check_variants(name)


@pytest.mark.every_type
@each_case("name", TYPES)
def test_reads_back_every_number_written_in_place(name: str) -> None:
    check_variants(name)


def check_variants(name: str) -> None:
    cls = TYPES[name]
    for variant in range(VARIANTS):
        rng = random.Random(f"{name} {variant}")
        # The first variant is the message as it is born: zeroes, empty sequences.
        message = random_messages.fill(cls(), rng) if variant else cls()
        check_template(message, rng)


LIED_ABOUT = (
    "geometry_msgs/msg/TwistStamped",
    "geometry_msgs/msg/TransformStamped",
    "sensor_msgs/msg/JointState",
    "sensor_msgs/msg/BatteryState",
    "test_msgs/msg/Arrays",
    "test_msgs/msg/BasicTypes",
    "test_msgs/msg/UnboundedSequences",
    "visualization_msgs/msg/Marker",
)


def lied_about(name: str) -> Any:
    """A message with something in every sequence, and texts that leave the next number unaligned."""
    message = random_messages.fill(TYPES[name](), random.Random(name), least=2)
    if hasattr(message, "header"):
        message.header.frame_id = "frame"
    return message


@each_case("name", LIED_ABOUT)
def test_makes_templates_of_the_messages_it_lies_about_below(name: str) -> None:
    assert Template(lied_about(name)).size


@each_case("name", LIED_ABOUT)
def test_refuses_any_number_that_is_not_where_the_layout_says(name: str) -> None:
    message = lied_about(name)
    init = CdrLayout.__init__
    for path, numbers in CdrLayout(message).numbers.items():
        for step in (-numbers.dtype.itemsize, numbers.dtype.itemsize):

            def shifted(self: CdrLayout, laid_out: Any, path: str = path, step: int = step) -> None:
                init(self, laid_out)
                self.numbers[path].offsets[-1] += step

            with patched_layout(shifted), pytest.raises(TemplateError):
                Template(message)


@contextmanager
def patched_layout(init: Callable[..., None]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CdrLayout, "__init__", init)
        yield


@each_case("name", LIED_ABOUT)
def test_refuses_a_layout_that_exchanges_two_numbers(name: str) -> None:
    message = lied_about(name)
    numbers = CdrLayout(message).numbers
    pairs = [
        (one, other)
        for one, other in itertools.combinations(numbers, 2)
        if numbers[one].dtype == numbers[other].dtype and numbers[one].counts == numbers[other].counts
    ]
    assert pairs
    init = CdrLayout.__init__
    for one, other in pairs:

        def exchanged(self: CdrLayout, laid_out: Any, one: str = one, other: str = other) -> None:
            init(self, laid_out)
            first, second = self.numbers[one], self.numbers[other]
            first.offsets, second.offsets = second.offsets, first.offsets

        with patched_layout(exchanged), pytest.raises(TemplateError, match="reads back other numbers"):
            Template(message)


@pytest.mark.parametrize("align_to", [1, 4])
def test_refuses_a_layout_that_aligns_otherwise(align_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Misaligned(CdrLayout):
        def _align(self, size: int) -> None:
            super()._align(min(size, align_to))

    monkeypatch.setattr(cdr_template, "CdrLayout", Misaligned)
    with pytest.raises(TemplateError):
        Template(lied_about("geometry_msgs/msg/TwistStamped"))


def test_refuses_a_layout_that_forgets_the_closing_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unclosed(CdrLayout):
        def _fix(self, content: bytes) -> None:
            self._skip(len(content.rstrip(b"\0")))

    monkeypatch.setattr(cdr_template, "CdrLayout", Unclosed)
    with pytest.raises(TemplateError):
        Template(lied_about("sensor_msgs/msg/JointState"))


def test_refuses_a_layout_with_exchanged_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    init = CdrLayout.__init__

    def reversed_fields(self: CdrLayout, message: Any) -> None:
        init(self, message)
        numbers = list(self.numbers.values())
        for each, offsets in zip(numbers, [each.offsets for each in reversed(numbers)], strict=True):
            each.offsets = offsets

    monkeypatch.setattr(CdrLayout, "__init__", reversed_fields)
    for name in ("builtin_interfaces/msg/Time", "geometry_msgs/msg/Point", "std_msgs/msg/ColorRGBA"):
        with pytest.raises(TemplateError, match="reads back other numbers"):
            Template(TYPES[name]())


@pytest.mark.parametrize("header", [b"\0\0\0\0", b"\0\7\0\0"], ids=["big-endian", "delimited CDR 2"])
def test_refuses_another_encapsulation(header: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cdr_template, "serialize_message", lambda message: header + serialize_message(message)[4:]
    )
    with pytest.raises(TemplateError, match="encapsulation"):
        Template(lied_about("sensor_msgs/msg/JointState"))
