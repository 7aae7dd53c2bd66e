"""Report what a stage's looks have that the pictures of its cameras do not show (REP 0158 section 1.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from usd_ros_bridge.model.appearance import Unseen, UnseenKind
from usd_ros_bridge.model.diagnostics import DiagnosticCollector, Reason, degraded
from usd_ros_bridge.model.message_types import COMPRESSED_IMAGE, IMAGE
from usd_ros_bridge.model.sensors import CameraSensor, Sensor

CODE: Final = "1.4.camera"


class _Effect(NamedTuple):
    """An approximation in pictures.

    Attributes:
        reason: Why.
        instead: A phrase that is the same for all prims, so that texts for people group them.
    """

    reason: Reason
    instead: str


EFFECTS: Final[Mapping[UnseenKind, _Effect]] = {
    "texture": _Effect(
        "not implemented", "images of cameras show the surface in one colour, without its textures"
    ),
    "part": _Effect(
        "approximated", "images of cameras show the whole mesh like the part with the most faces"
    ),
    "colors": _Effect("approximated", "images of cameras show the mean of the colours"),
    "emission": _Effect("not implemented", "images of cameras show a surface that does not shine"),
    "light": _Effect("not implemented", "images of cameras are lit by a sun and a light at the camera"),
}
"""Effects by kind."""


def report_unseen(unseen: Iterable[Unseen], sensors: Iterable[Sensor], findings: DiagnosticCollector) -> None:
    """Report what is authored and not shown, where an interface publishes colour images.

    Args:
        unseen: What the stage authors.
        sensors: Those of the plan.
        findings: Collector of faults.
    """
    if not any(_shows_colors(sensor) for sensor in sensors):
        return
    for each in unseen:
        effect = EFFECTS[each.kind]
        degraded(
            findings,
            {each.path: each.value},
            each.attribute,
            effect.instead,
            reason=effect.reason,
            code=CODE,
            severity="info",
            remedy="do not rely on it; depth images are not affected",
        )


def _shows_colors(sensor: Sensor) -> bool:
    return (
        isinstance(sensor, CameraSensor)
        and sensor.type in (IMAGE, COMPRESSED_IMAGE)
        and not sensor.depth
        and not sensor.segmentation
    )
