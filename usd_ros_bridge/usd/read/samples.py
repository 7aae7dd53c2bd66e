"""Time samples: OpenUSD is asked for them only where it answers.

`GetTimeSamples` and `GetNumTimeSamples` of usd-core (up to 26.11) never return, and hold Python's global lock, where
the times of a layer cannot be scaled to those of the stage and back: a timeCodesPerSecond of 0 in either, for one.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pxr import Tf, Usd

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import Diagnostic

GREATEST_RATE: Final = 1e9
"""Greatest timeCodesPerSecond, and that of its inverse."""

_VALUES: Final = ("timeSamples", "default", "spline")


def is_rate(time_codes_per_second: float) -> bool:
    """Return whether times can be measured in a layer's timeCodesPerSecond."""
    return 1.0 / GREATEST_RATE <= time_codes_per_second <= GREATEST_RATE


def sample_times(attribute: Usd.Attribute, diagnostics: list[Diagnostic] | None = None) -> list[float]:
    """Return the time codes of an attribute's samples, none where they are left out.

    Args:
        attribute: The attribute.
        diagnostics: Takes the reason for which they are left out.
    """
    if fault := _fault(attribute):
        if diagnostics is not None:
            diagnostics.append(_left_out(attribute, fault))
        return []
    try:
        return [time for time in attribute.GetTimeSamples() if math.isfinite(time)]
    except Tf.ErrorException:
        # Times of value clips that cannot be scaled.
        return []


def may_have_samples(attribute: Usd.Attribute) -> bool:
    """Return whether an attribute has time samples, those that are left out included."""
    return bool(_fault(attribute)) or attribute.GetNumTimeSamples() > 0


def _fault(attribute: Usd.Attribute) -> str:
    """Return why the time samples of an attribute are left out, "" if they can be read or do not exist."""
    stack = attribute.GetPropertyStackWithLayerOffsets(Usd.TimeCode.Default())
    found = next(((spec, offset) for spec, offset in stack if any(map(spec.HasInfo, _VALUES))), None)
    if found is None or not found[0].HasInfo(_VALUES[0]):
        return ""
    spec, stage_from_layer = found
    layer = spec.layer
    if not is_rate(layer.timeCodesPerSecond):
        return f"timeCodesPerSecond of the layer {quoted(layer.GetDisplayName())} is {layer.timeCodesPerSecond:g}"
    rate = attribute.GetStage().GetTimeCodesPerSecond()
    if not is_rate(rate):
        return f"timeCodesPerSecond of the stage is {rate:g}"
    if not (_is_invertible(stage_from_layer) and _is_invertible(stage_from_layer.GetInverse())):
        return (
            f"the times of the layer {quoted(layer.GetDisplayName())} cannot be scaled to those of the stage, by "
            f"{stage_from_layer.scale:g}"
        )
    return ""


def _is_invertible(offset: Any) -> bool:
    return math.isfinite(offset.offset) and math.isfinite(offset.scale) and offset.scale > 0.0


def _left_out(attribute: Usd.Attribute, fault: str) -> Diagnostic:
    return Diagnostic(
        code="1.1.samples",
        severity="error",
        path=attribute.GetPrim().GetPath().pathString,
        attribute=attribute.GetName(),
        message=f"its time samples are left out: {fault}",
        remedy="author timeCodesPerSecond = 1 in all layers, and usual scales of references and sublayers",
    )
