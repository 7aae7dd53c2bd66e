"""Stage metrics: units, axes and time of a stage, and departures from REP 0158 section 1.1."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pxr import Sdf, Usd, UsdGeom, UsdPhysics

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.stage import StageMetrics


class Metric(NamedTuple):
    """A layer's metadata, the value that REP 0158 section 1.1 wants, and OpenUSD's where none is authored."""

    name: str
    wanted: Any
    fallback: Any
    code: str


METRICS: Final = (
    Metric("metersPerUnit", 1.0, 0.01, "1.1.meters_per_unit"),
    Metric("kilogramsPerUnit", 1.0, 1.0, "1.1.kilograms_per_unit"),
    Metric("upAxis", "Z", "Y", "1.1.up_axis"),
    Metric("timeCodesPerSecond", 1.0, 24.0, "1.1.time_codes_per_second"),
)


def _root_layers(stage: Usd.Stage) -> tuple[Any, ...]:
    # Stage metadata comes from the session layer or the root layer, never from a sublayer.
    return tuple(layer for layer in (stage.GetSessionLayer(), stage.GetRootLayer()) if layer)


def _authored(layer: Any, metric: Metric) -> Any:
    root = layer.pseudoRoot
    if root.HasInfo(metric.name):
        return root.GetInfo(metric.name)
    # OpenUSD reads a layer's framesPerSecond where timeCodesPerSecond is not authored.
    if metric.name == "timeCodesPerSecond" and root.HasInfo("framesPerSecond"):
        return root.GetInfo("framesPerSecond")
    return None


def stage_metrics(stage: Usd.Stage) -> StageMetrics:
    """Return the units and axes of a stage (OpenUSD's fallbacks where nothing is authored)."""
    authored = {
        metric.name
        for metric in METRICS
        if any(layer.pseudoRoot.HasInfo(metric.name) for layer in _root_layers(stage))
    }
    ranged = (
        any(layer.pseudoRoot.HasInfo("startTimeCode") for layer in _root_layers(stage)),
        any(layer.pseudoRoot.HasInfo("endTimeCode") for layer in _root_layers(stage)),
    )
    return StageMetrics(
        meters_per_unit=float(UsdGeom.GetStageMetersPerUnit(stage)),
        kilograms_per_unit=float(UsdPhysics.GetStageKilogramsPerUnit(stage)),
        up_axis=str(UsdGeom.GetStageUpAxis(stage)),
        time_codes_per_second=float(stage.GetTimeCodesPerSecond()),
        authored=frozenset(authored),
        start_time_code=float(stage.GetStartTimeCode()) if ranged[0] else None,
        end_time_code=float(stage.GetEndTimeCode()) if ranged[1] else None,
    )


def metric_diagnostics(stage: Usd.Stage, metrics: StageMetrics) -> list[Diagnostic]:
    """Return what departs from REP 0158 section 1.1: on the stage, and between its layers."""
    values = {
        "metersPerUnit": metrics.meters_per_unit,
        "kilogramsPerUnit": metrics.kilograms_per_unit,
        "upAxis": metrics.up_axis,
        "timeCodesPerSecond": metrics.time_codes_per_second,
    }
    found = []
    for metric in METRICS:
        authored = metric.name in metrics.authored
        if authored and values[metric.name] == metric.wanted:
            continue
        value = values[metric.name]
        state = "is" if authored else "is not authored, which means"
        effect = "" if value == metric.wanted else "; it is converted"
        found.append(
            Diagnostic(
                code=metric.code,
                severity="warning",
                path="",
                attribute=metric.name,
                message=f"{metric.name} {state} {quoted(value)}{effect}",
                remedy=f"author {metric.name} = {metric.wanted} on the root layer, and bake other units into the asset",
            )
        )
    return found + _layer_diagnostics(stage, values)


def _layer_diagnostics(stage: Usd.Stage, values: dict[str, Any]) -> list[Diagnostic]:
    """Warn of layers in other units or axes than the stage's: composition converts time codes and nothing else."""
    found = []
    own = {layer.identifier for layer in _root_layers(stage)}
    for layer in sorted(
        stage.GetUsedLayers(includeClipLayers=False), key=lambda layer: str(layer.identifier)
    ):
        if layer.identifier in own or layer.empty:
            continue
        for metric in METRICS[:3]:
            value = _authored(layer, metric)
            if value is None or value == values[metric.name]:
                continue
            found.append(
                Diagnostic(
                    code=metric.code,
                    severity="warning",
                    path="",
                    attribute=metric.name,
                    message=f"the layer {quoted(layer_name(layer))} has {metric.name} {quoted(value)}, the stage "
                    f"{quoted(values[metric.name])}; OpenUSD does not convert between layers",
                    remedy="give all layers of an asset the same units and axes",
                )
            )
    return found


def layer_name(layer: Sdf.Layer) -> str:
    """Return a layer's file name for messages."""
    return str(layer.GetDisplayName() or layer.identifier)
