"""std_msgs: values of attributes and contact sensors out; Float64MultiArray of forward controllers in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import ArraySample
from usd_ros_bridge.ros.codecs.protocol import (
    Decoder,
    Encoding,
    EncodingFactory,
    NoSourceError,
    Values,
    numbers_of,
    sensed,
)
from usd_ros_bridge.runtime.snapshot import Snapshot


def encode_bool(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """Bool of a backend's sensor: whether anything touches it."""
    return sensed(topic, ("data",), lambda sample: (numbers_of(sample, "data", 1),))


def encode_source(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """The value of an attribute of the stage: `rel usd_ros_bridge:source`."""
    if plan.stage is None:
        raise NoSourceError("the plan has no stage whose attributes could be read")
    shown = _Shown(plan, topic.source)
    name = topic.type.rpartition("/")[2]
    if name == "String":
        return _encode_text(shown)
    if name == "ColorRGBA":
        return Encoding(values=lambda snapshot: _color(shown.value(snapshot)), blocks=("r", "g", "b", "a"))
    if name.endswith("MultiArray"):
        dtype = np.dtype(_DTYPES[name.removesuffix("MultiArray")])
        return Encoding(values=lambda snapshot: _array(shown.value(snapshot), dtype), sequences=("data",))
    block, kind = _FIELDS.get(name, "data"), _KINDS.get(name, "int")

    def values(snapshot: Snapshot) -> Values | None:
        value = shown.value(snapshot)
        return None if value is None else ((_number(value, kind, name),),)

    return Encoding(values=values, blocks=(block,))


class _Shown:
    """The value of one attribute, at the time of the stage that a snapshot shows."""

    def __init__(self, plan: BridgePlan, path: str) -> None:
        self._plan = plan
        self._path = path
        self._value: Any = None

    def value(self, snapshot: Snapshot) -> Any:
        """Returns the value now: time samples go round from the first to the last, as playback does at its defaults."""
        source = self._value
        if source is None:
            # In the thread that ticks, which is the host's where the stage is.
            from usd_ros_bridge.usd.source_values import follow_source

            source = self._value = follow_source(self._plan.stage, self._path)
        if not source.is_animated:
            return source.at(0.0)
        start, end = source.span
        scene = self._plan.scene
        if scene.start is not None and scene.end is not None and scene.start < scene.end:
            start, end = scene.start, scene.end
        elapsed = (snapshot.time_ns - snapshot.first_ns) * 1e-9
        return source.at(start + elapsed % (end - start) if end > start else start)


def _encode_text(shown: _Shown) -> Encoding:
    text = ""

    def values(snapshot: Snapshot) -> Values | None:
        nonlocal text
        value = shown.value(snapshot)
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


def _number(value: Any, kind: str, name: str) -> Any:
    if kind == "bool":
        return bool(value)
    if kind == "float":
        return float(value)
    _check_range(value, np.dtype(_DTYPES[name]))
    return int(value)


def _check_range(value: int, dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise ValueError(f"{value} is not in {limits.min} to {limits.max}, what the message can hold")


_DTYPES = {"Char": "u1", "Float32": "f4", "Float64": "f8"} | {
    f"{name}{8 * size}": f"{code}{size}"
    for name, code in (("Int", "i"), ("UInt", "u"))
    for size in (1, 2, 4, 8)
}
_KINDS = {"Bool": "bool"} | dict.fromkeys(
    ("Float32", "Float64", "Temperature", "RelativeHumidity", "Illuminance"), "float"
)
_FIELDS = {
    "Temperature": "temperature",
    "RelativeHumidity": "relative_humidity",
    "Illuminance": "illuminance",
}


def decode_float64_multi_array(message: Any) -> ArraySample:
    """Values in the order of the subscription's joints; the layout, which those controllers ignore, is ignored."""
    return ArraySample(values=np.array(message.data, dtype=np.float64))


ENCODERS: Mapping[str, EncodingFactory] = {"std_msgs/msg/Bool": encode_bool}
DECODERS: Mapping[str, Decoder] = {"std_msgs/msg/Float64MultiArray": decode_float64_multi_array}
