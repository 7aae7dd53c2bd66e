"""Values of attributes of the stage as messages: `rel usd_ros_bridge:source`."""

from __future__ import annotations

from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.ros.codecs.encoding import Encoding, EncodingFactory, NoSourceError, Values
from usd_ros_bridge.runtime.snapshot import Snapshot


class _AttributeValue:
    """Read the value of a publisher's source, at the stage time that a snapshot shows."""

    def __init__(self, topic: TopicPlan, plan: BridgePlan) -> None:
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
        shown = _AttributeValue(topic, plan)

        def values(snapshot: Snapshot) -> Values | None:
            value = shown.at(snapshot)
            return None if value is None else ((_number(value, kind),),)

        return Encoding(values=values, blocks=(field,))

    return encode


def show_array(dtype: str) -> EncodingFactory:
    """Return the factory for a MultiArray of numbers of a type."""
    kind = np.dtype(dtype)

    def encode(topic: TopicPlan, plan: BridgePlan) -> Encoding:
        shown = _AttributeValue(topic, plan)
        return Encoding(values=lambda snapshot: _array(shown.at(snapshot), kind), sequences=("data",))

    return encode


def show_color(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """Encode a colour, opaque where the attribute has three numbers."""
    shown = _AttributeValue(topic, plan)
    return Encoding(values=lambda snapshot: _color(shown.at(snapshot)), blocks=("r", "g", "b", "a"))


def show_text(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """Encode a text."""
    shown = _AttributeValue(topic, plan)
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
