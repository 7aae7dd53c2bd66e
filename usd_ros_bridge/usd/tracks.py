"""Tracks: time samples of scalar joint attributes (recorded positions, animated drive targets)."""

from __future__ import annotations

import numpy as np
from pxr import Usd

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.stage import ValueTrackRecord
from usd_ros_bridge.usd.attributes import PrimProperties
from usd_ros_bridge.usd.values import Unusable, convert

SAMPLED = (("state:", ":physics:position"), ("drive:", ":physics:targetPosition"))
PREFIXES = tuple(prefix for prefix, _ in SAMPLED)


def value_tracks(source: PrimProperties, diagnostics: list[Diagnostic]) -> list[ValueTrackRecord]:
    """Returns the time-sampled positions of one joint: PhysicsJointStateAPI's, and drive targets."""
    names = source.memo.get(value_tracks)
    if names is None:
        names = source.memo[value_tracks] = [name for name in source.properties if _is_sampled(source, name)]
    if not names:
        return []
    tracks = (_value_track(source.path, source.prim.GetAttribute(name), diagnostics) for name in names)
    return [track for track in tracks if track is not None]


def _is_sampled(source: PrimProperties, name: str) -> bool:
    if not name.startswith(PREFIXES) or not any(
        name.startswith(prefix) and name.endswith(suffix) for prefix, suffix in SAMPLED
    ):
        return False
    prop = source.properties[name]
    return isinstance(prop, Usd.Attribute) and prop.GetNumTimeSamples() > 0


def _value_track(
    path: str, attribute: Usd.Attribute, diagnostics: list[Diagnostic]
) -> ValueTrackRecord | None:
    name = attribute.GetName()
    # A query finds the samples' layer once, `attribute.Get` for each of thousands of samples.
    query = Usd.AttributeQuery(attribute)
    times: list[float] = []
    values: list[float] = []
    try:
        for time in query.GetTimeSamples():
            value = query.Get(Usd.TimeCode(time))
            if value is not None:
                values.append(convert(value, "double"))
                times.append(time)
    except Unusable:
        diagnostics.append(
            Diagnostic(
                code="1.3.time_samples",
                severity="error",
                path=path,
                attribute=name,
                message="has time samples that are no numbers; ignored",
                remedy="author them as float",
            )
        )
        return None
    if not times:
        return None
    return ValueTrackRecord(path=path, attribute=name, time_codes=np.array(times), values=np.array(values))
