"""Tracks: time samples of scalar joint attributes (recorded positions, animated drive targets)."""

from __future__ import annotations

import numpy as np
from pxr import Usd

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.stage import ValueTrackRecord
from usd_ros_bridge.usd.attributes import PrimProperties, matching
from usd_ros_bridge.usd.values import Unusable, convert

SAMPLED = (("state:", ":physics:position"), ("drive:", ":physics:targetPosition"))


def value_tracks(source: PrimProperties, diagnostics: list[Diagnostic]) -> list[ValueTrackRecord]:
    """Returns the time-sampled positions of one joint: PhysicsJointStateAPI's, and drive targets."""
    tracks = []
    for prefix, suffix in SAMPLED:
        for name, attribute in matching(source, prefix, suffix):
            if attribute.GetNumTimeSamples() == 0:
                continue
            track = _value_track(source.path, name, attribute, diagnostics)
            if track is not None:
                tracks.append(track)
    return tracks


def _value_track(
    path: str, name: str, attribute: Usd.Attribute, diagnostics: list[Diagnostic]
) -> ValueTrackRecord | None:
    times: list[float] = []
    values: list[float] = []
    try:
        for time in attribute.GetTimeSamples():
            value = attribute.Get(Usd.TimeCode(time))
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
