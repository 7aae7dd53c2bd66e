"""Value clips: what OpenUSD does not survive in their metadata, found and left out before a layer is composed.

A clip number that is not finite ends the process (SIGSEGV), times that are not finite make reading raise, and a
template that stands for millions of clips keeps OpenUSD busy for minutes and gigabytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from pxr import Sdf

from usd_ros_bridge.model.diagnostics import Diagnostic, quoted
from usd_ros_bridge.usd.layer_files import layer_text

MOST_CLIPS: Final = 100_000
"""Clips that a template may stand for: OpenUSD takes about 10 us for each."""

_CLIPS: Final = "clips"
_RANGES: Final = ("templateStartTime", "templateEndTime", "templateStride")


def leave_out_clips(layer: Any) -> list[Diagnostic]:
    """Take value clips that OpenUSD does not survive out of a layer in memory; its file is not changed.

    Args:
        layer: A layer that no stage has composed yet.

    Returns:
        A diagnostic for each prim whose clips were taken out.
    """
    found = []
    for spec, fault in list(clip_faults(layer)):
        layer.SetPermissionToEdit(True)
        spec.ClearInfo(_CLIPS)
        found.append(
            Diagnostic(
                code="1.2.5.clips",
                severity="error",
                path="",
                message=f"the value clips of {spec.path} in the layer {quoted(layer.GetDisplayName())} are left out: "
                f"{fault}",
                remedy="author finite times and clip numbers, and a stride that fits the range",
            )
        )
    return found


def clip_faults(layer: Any) -> Iterator[tuple[Any, str]]:
    """Yield the prim specs of a layer, those in variants included, whose value clips cannot be used, and why."""
    text = layer_text(layer)
    if text is not None and _CLIPS.encode() not in text:
        return
    specs: list[Any] = []

    def note(path: Any) -> None:
        if path.IsPrimPath() or path.IsPrimVariantSelectionPath():
            spec = layer.GetPrimAtPath(path)
            if spec is not None and spec.HasInfo(_CLIPS):
                specs.append(spec)

    layer.Traverse(Sdf.Path.absoluteRootPath, note)
    for spec in specs:
        sets = spec.GetInfo(_CLIPS)
        for name in sorted(sets):
            fault = _fault(sets[name]) if isinstance(sets[name], Mapping) else ""
            if fault:
                yield spec, f"in the set {quoted(name)} {fault}"
                break


def _fault(clips: Mapping[str, Any]) -> str:
    """Return what is wrong with a set of clips, "" where nothing is."""
    for name, value in clips.items():
        if not _is_finite(value):
            return f"{name} has numbers that are not finite"
    given = [clips[name] for name in _RANGES if isinstance(clips.get(name), float)]
    if not given:
        return ""
    if len(given) < len(_RANGES):
        # What the other layers say would have to be known.
        return f"not all of {', '.join(_RANGES)} are numbers of the same layer"
    start, end, stride = given
    if stride > 0.0 and (end - start) / stride > MOST_CLIPS:
        return f"a stride of {stride:g} from {start:g} to {end:g} makes more than {MOST_CLIPS:,} clips"
    return ""


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str | bool | int | Sdf.AssetPath | Sdf.AssetPathArray):
        return True
    try:
        return bool(np.isfinite(np.asarray(value, dtype=np.float64)).all())
    except (TypeError, ValueError):
        return True  # No numbers: OpenUSD takes no notice of it.
