"""std_msgs: Float64MultiArray, as ros2_control's forward command controllers take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from usd_ros_bridge.model.state import ArraySample
from usd_ros_bridge.ros.codecs.protocol import Decoder


def decode_float64_multi_array(message: Any) -> ArraySample:
    """Values in the order of the subscription's joints; the layout, which those controllers ignore, is ignored."""
    return ArraySample(values=np.array(message.data, dtype=np.float64))


DECODERS: Mapping[str, Decoder] = {"std_msgs/msg/Float64MultiArray": decode_float64_multi_array}
