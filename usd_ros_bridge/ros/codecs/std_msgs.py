"""std_msgs: values of attributes (for other packages, too) and of contact sensors; commands of forward controllers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import ArraySample
from usd_ros_bridge.ros.codecs.encoding import (
    Encoding,
    EncodingFactory,
    MessageCodec,
    NoSourceError,
    Values,
    numbers_of,
    sensed,
)
from usd_ros_bridge.ros.wire.cdr_reader import read_float64_multi_array
from usd_ros_bridge.runtime.snapshot import Snapshot


class AttributeValue:
    """Read the value of a publisher's source, at the stage time that a snapshot shows."""

    def __init__(self, topic: TopicPlan, plan: BridgePlan) -> None:
        """Store the source; nothing is read.

        Args:
            topic: The publisher.
            plan: The plan.

        Raises:
            NoSourceError: The plan has no stage.
        """
        if plan.stage is None:
            raise NoSourceError("the plan has no stage whose attributes could be read")
        self._plan = plan
        self._path = topic.source
        self._source: Any = None

    def at(self, snapshot: Snapshot) -> Any:
        """Return the value. Time samples go round from the first to the last, as playback does at its defaults."""
        source = self._source
        if source is None:
            # In the thread that ticks, which is the host's where the stage is.
            from usd_ros_bridge.usd.session import StageSession

            source = self._source = StageSession(self._plan.stage).follow_source(self._path)
        if not source.is_animated:
            return source.at(0.0)
        start, end = source.span
        scene = self._plan.scene
        if scene.start is not None and scene.end is not None and scene.start < scene.end:
            start, end = scene.start, scene.end
        elapsed = (snapshot.time_ns - snapshot.first_ns) * 1e-9
        return source.at(start + elapsed % (end - start) if end > start else start)


def show_number(field: str, dtype: str = "f8") -> EncodingFactory:
    """Return the factory for messages with one number.

    Args:
        field: The message's field.
        dtype: Its type: a truth value, an integer whose range is checked, or a float.
    """
    kind = np.dtype(dtype)

    def encode(topic: TopicPlan, plan: BridgePlan) -> Encoding:
        shown = AttributeValue(topic, plan)

        def values(snapshot: Snapshot) -> Values | None:
            value = shown.at(snapshot)
            return None if value is None else ((_number(value, kind),),)

        return Encoding(values=values, blocks=(field,))

    return encode


def show_array(dtype: str) -> EncodingFactory:
    """Return the factory for a MultiArray of numbers of a type."""
    kind = np.dtype(dtype)

    def encode(topic: TopicPlan, plan: BridgePlan) -> Encoding:
        shown = AttributeValue(topic, plan)
        return Encoding(values=lambda snapshot: _array(shown.at(snapshot), kind), sequences=("data",))

    return encode


def show_color(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """Encode a colour, opaque where the attribute has three numbers."""
    shown = AttributeValue(topic, plan)
    return Encoding(values=lambda snapshot: _color(shown.at(snapshot)), blocks=("r", "g", "b", "a"))


def show_text(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """Encode a text."""
    shown = AttributeValue(topic, plan)
    text = ""

    def values(snapshot: Snapshot) -> Values | None:
        nonlocal text
        value = shown.at(snapshot)
        text = value if isinstance(value, str) else ""
        return () if isinstance(value, str) else None

    def prepare(message: Any, values: Values) -> None:  # noqa: ARG001 - Encoding.prepare
        message.data = text

    return Encoding(values=values, prepare=prepare, varying=True)


def _color(value: Any) -> Values | None:
    if not isinstance(value, tuple) or len(value) not in (3, 4):
        return None
    red, green, blue, alpha = (*value, 1.0)[:4]
    return (float(red),), (float(green),), (float(blue),), (float(alpha),)


def _array(value: Any, dtype: np.dtype[Any]) -> Values | None:
    if not isinstance(value, tuple):
        return None
    numbers = np.array(value, dtype=np.float64 if dtype.kind == "f" else object)
    if dtype.kind != "f":
        for each in value:
            _check_range(each, dtype)
    return (numbers.astype(dtype).reshape(-1),)


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind == "f":
        return float(value)
    _check_range(value, dtype)
    return int(value)


def _check_range(value: int, dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise ValueError(f"{value} is not in {limits.min} to {limits.max}, what the message can hold")


_INTEGERS = {
    f"{name}{8 * size}": f"{code}{size}"
    for name, code in (("Int", "i"), ("UInt", "u"))
    for size in (1, 2, 4, 8)
}


def encode_bool(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """Bool of a backend's sensor: whether anything touches it."""
    return sensed(topic, ("data",), lambda sample: (numbers_of(sample, "data", 1),))


def decode_float64_multi_array(message: Any) -> ArraySample:
    """Values in the order of the subscription's joints; the layout, which those controllers ignore, is ignored."""
    return ArraySample(values=np.array(message.data, dtype=np.float64))


CODECS: Mapping[str, MessageCodec] = {
    "std_msgs/msg/Bool": MessageCodec(encode=encode_bool, encode_attribute=show_number("data", "?")),
    "std_msgs/msg/Char": MessageCodec(encode_attribute=show_number("data", "u1")),
    "std_msgs/msg/ColorRGBA": MessageCodec(encode_attribute=show_color),
    "std_msgs/msg/Float32": MessageCodec(encode_attribute=show_number("data")),
    "std_msgs/msg/Float32MultiArray": MessageCodec(encode_attribute=show_array("f4")),
    "std_msgs/msg/Float64": MessageCodec(encode_attribute=show_number("data")),
    "std_msgs/msg/Float64MultiArray": MessageCodec(
        encode_attribute=show_array("f8"),
        decode=decode_float64_multi_array,
        reader=lambda: partial(read_float64_multi_array, make=ArraySample),
    ),
    "std_msgs/msg/String": MessageCodec(encode_attribute=show_text),
    **{
        f"std_msgs/msg/{name}": MessageCodec(encode_attribute=show_number("data", dtype))
        for name, dtype in _INTEGERS.items()
    },
    **{
        f"std_msgs/msg/{name}MultiArray": MessageCodec(encode_attribute=show_array(dtype))
        for name, dtype in _INTEGERS.items()
    },
}
