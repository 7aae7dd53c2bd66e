"""std_msgs: Bool of a contact sensor out; Float64MultiArray in, as ros2_control's forward controllers take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import ArraySample
from usd_ros_bridge.ros.codecs.protocol import Decoder, Encoding, EncodingFactory, numbers_of, sensed


def encode_bool(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """Bool of a backend's sensor: whether anything touches it."""
    return sensed(topic, ("data",), lambda sample: (numbers_of(sample, "data", 1),))


def decode_float64_multi_array(message: Any) -> ArraySample:
    """Values in the order of the subscription's joints; the layout, which those controllers ignore, is ignored."""
    return ArraySample(values=np.array(message.data, dtype=np.float64))


ENCODERS: Mapping[str, EncodingFactory] = {"std_msgs/msg/Bool": encode_bool}
DECODERS: Mapping[str, Decoder] = {"std_msgs/msg/Float64MultiArray": decode_float64_multi_array}
