"""std_msgs: values of attributes and contact sensors out; Float64MultiArray of forward controllers in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import ArraySample
from usd_ros_bridge.ros.codecs.attribute_values import show_array, show_color, show_number, show_text
from usd_ros_bridge.ros.codecs.encoding import Encoding, MessageCodec, numbers_of, sensed
from usd_ros_bridge.ros.wire.cdr_reader import read_float64_multi_array

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
