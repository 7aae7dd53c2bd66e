"""Sensor models, one row each: those of other distributions by schema or prim type, and the kinds that are built in.

A row says what is read, what the model needs of a backend, and which class measures. Built-in kinds are measured by
backends; their rows say which message types they feed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.message_types import MESSAGE_TYPES
from usd_ros_bridge.model.sensors import SENSOR_ATTRIBUTES
from usd_ros_bridge.plugins import Registry

SensorNeed = Literal["rays", "contacts", "motion", "bodies", "color", "depth", "segmentation"]
"""Part of the simulation's state that a model reads besides the pose of its prim and the joints of its robot.

- rays: what rays hit. - contacts: contacts of the body that carries the sensor. - motion: its twist and acceleration.
- bodies: poses of other bodies. - color, depth, segmentation: images of the camera at or above the prim.
"""
IMAGES: Final[tuple[SensorNeed, ...]] = ("color", "depth", "segmentation")
"""Needs that are images of a camera."""
DEGREE: Final = "degree"
"""Unit of angles: they are authored in degrees, and the model gets radians."""

_NEEDS: Final = frozenset(get_args(SensorNeed))


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorAttribute:
    """An attribute that a sensor model reads.

    Attributes:
        name: USD name: `thermal:fieldOfView`.
        default: Value where nothing is authored, or what is authored is not possible. Its type is that of the value: a
            number (float), a whole number (int), a truth value (bool), a text (str), or a tuple of as many numbers.
        unit: Unit of the authored value, for messages and lists. `degree`: the model gets radians.
        low: Lowest possible number, as it is authored.
        high: Highest possible number.
        choices: Possible texts; empty for all.
    """

    name: str
    default: float | int | bool | str | tuple[float, ...]
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()

    def fault(self, value: object) -> str:
        """Return what an authored value should be, "" if it is that."""
        default = self.default
        if isinstance(default, bool):
            return "" if isinstance(value, bool) else "true or false"
        if isinstance(default, str):
            if isinstance(value, str) and (not self.choices or value in self.choices):
                return ""
            return " or ".join(self.choices) or "text"
        if isinstance(default, tuple):
            fits = (
                isinstance(value, tuple) and len(value) == len(default) and all(map(self._is_number, value))
            )
            return "" if fits else f"{len(default)} {self._wanted('numbers')}"
        whole = isinstance(default, int)
        fits = self._is_number(value) and not (whole and value != int(value))  # type: ignore[call-overload]
        return "" if fits else f"a {'whole ' if whole else ''}{self._wanted('number')}"

    def value(self, authored: Any) -> Any:
        """Return what a model gets for a possible value: radians for degrees."""
        default = self.default
        if isinstance(default, (bool, str)):
            return authored
        if isinstance(default, tuple):
            return tuple(self._si(each) for each in authored)
        return int(authored) if isinstance(default, int) else self._si(authored)

    def _si(self, number: float) -> float:
        return math.radians(number) if self.unit == DEGREE else float(number)

    def _is_number(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return math.isfinite(value) and self.low <= value <= self.high

    def _wanted(self, noun: str) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if math.isinf(self.low) and math.isinf(self.high):
            return f"{noun}{f', in{unit}' if unit else ''}"
        if math.isinf(self.high):
            return f"{noun} of at least {self.low:g}{unit}"
        return f"{noun} of {self.low:g} to {self.high:g}{unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorModel:
    """A sensor model: what an entry point of the group `usd_ros_bridge.sensors` names.

    The entry point's name is an applied API schema or a prim type. The model serves publishers of its types on prims
    with the schema, or below them.

    Attributes:
        types: Message types that it feeds: `sensor_msgs/msg/Image`. The measured arrays are those of `SensorBackend`.
        measure: `module:class` that measures (protocol `MeasuringSensor`); imported when a plan has such a sensor. ""
            for built-in kinds, which backends measure.
        attributes: Attributes of the prim, by the name under which the class gets them.
        scene_attributes: Attributes of any prim, such as the temperature of what rays hit, likewise. One that a prim
            authors counts for all prims below it, too.
        needs: What it reads besides the pose of its prim and the joints of its robot.
        max_rate: Highest rate that the device has, Hz. Topics with a higher one are published at this one.
        beside_loop: Measure on a copy of the state in a thread of its own: a slow sensor does not delay the loop.
    """

    types: frozenset[str]
    measure: str = ""
    attributes: Mapping[str, SensorAttribute] = field(default_factory=dict)
    scene_attributes: Mapping[str, SensorAttribute] = field(default_factory=dict)
    needs: frozenset[SensorNeed] = frozenset()
    max_rate: float = math.inf
    beside_loop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorPlan:
    """A publisher that a sensor model feeds.

    Attributes:
        path: Prim path of the publisher.
        prim: Prim path of what has the schema: the publisher's, or one above.
        schema: The model's name in SENSOR_MODELS.
        values: The model's attributes, by its own names, in SI units.
        scene: Values of its scene attributes, by its own names, by prim path.
    """

    path: str
    prim: str
    schema: str
    values: Mapping[str, Any] = field(default_factory=dict)
    scene: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


_BUILT_IN_NEEDS: Final[Mapping[str, frozenset[SensorNeed]]] = {
    "lidar": frozenset({"rays"}),
    "range": frozenset({"rays"}),
    "imu": frozenset({"motion"}),
    "wrench": frozenset({"contacts"}),
    "contact": frozenset({"contacts"}),
    "camera": frozenset({"color", "depth"}),
}


def _built_in() -> dict[str, SensorModel]:
    """Return a row for each kind of docs/reference/sensors.md."""
    return {
        kind: SensorModel(
            types=frozenset(name for name, each in MESSAGE_TYPES.items() if each.sensor == kind),
            needs=_BUILT_IN_NEEDS.get(kind, frozenset()),
            beside_loop=kind == "camera",
        )
        for kind in SENSOR_ATTRIBUTES
        if kind != "georeference"
    }


def _fault(found: object) -> str:
    """Return what is wrong with a loaded plug-in, "" if nothing is."""
    if not isinstance(found, SensorModel):
        return f"it is a {type(found).__name__}, and must be a SensorModel"
    if not isinstance(found.types, (frozenset, set)) or not found.types:
        return "types must be a set of message types"
    if ":" not in found.measure:
        return f"measure is {quoted(found.measure)}, and must be module:class"
    if unknown := sorted(set(found.needs) - _NEEDS):
        return f"it needs {quoted(unknown[0])}, and can need {', '.join(get_args(SensorNeed))}"
    if not found.max_rate > 0.0:
        return f"max_rate is {found.max_rate}, and must be positive"
    for attribute in (*found.attributes.values(), *found.scene_attributes.values()):
        if wanted := attribute.fault(attribute.default):
            return f"the default of {attribute.name} is {quoted(attribute.default)}, and must be {wanted}"
    return ""


SENSOR_MODELS: Final = Registry[SensorModel]("sensors", "sensor model", _built_in(), check=_fault)
"""By API schema or prim type; the built-in kinds by the name of their attributes (`lidar`)."""
