"""Read what sensor models of other distributions need: their own prims, and attributes of all others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pxr import Usd

from usd_ros_bridge.model.records import SensorModelRecord
from usd_ros_bridge.model.sensor_schemas import SENSOR_MODELS
from usd_ros_bridge.usd.read.properties import PREDICATE, PrimProperties, authored_value, plain


def sensor_schemas(applied: Iterable[str], type_name: str) -> tuple[str, ...]:
    """Return the sensor models of other distributions that stand for a schema or type of a prim. Imports none."""
    return tuple(name for name in (*applied, type_name) if SENSOR_MODELS.is_foreign(name))


def read_sensor_model(source: PrimProperties, schema: str) -> SensorModelRecord:
    """Return what a prim authors for a sensor model, which is imported now."""
    model = SENSOR_MODELS.get(schema)
    values: dict[str, Any] = {}
    if model is not None:
        names = {each.name for each in model.attributes.values()}
        namespaces = tuple({f"{name.rpartition(':')[0]}:" for name in names if ":" in name})
        for name, prop in source.properties.items():
            if name in names or (namespaces and name.startswith(namespaces)):
                values[name] = plain(authored_value(prop)) if isinstance(prop, Usd.Attribute) else None
    return SensorModelRecord(path=source.path, specs=source.specs, schema=schema, values=values)


def read_scene_values(
    stage: Usd.Stage, sensors: Iterable[SensorModelRecord]
) -> Mapping[str, Mapping[str, Any]]:
    """Return the scene attributes of sensor models, by USD name, by path of the prims that author them.

    Args:
        stage: The stage. It is traversed only if a model has such attributes.
        sensors: All prims of sensor models.
    """
    models = [SENSOR_MODELS.get(schema) for schema in {record.schema for record in sensors}]
    names = sorted({each.name for model in models if model for each in model.scene_attributes.values()})
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    if not names:
        return found
    prims = iter(Usd.PrimRange(stage.GetPseudoRoot(), PREDICATE))
    next(prims, None)
    for prim in prims:
        for name in names:
            attribute = prim.GetAttribute(name)
            if attribute and attribute.HasAuthoredValue():
                found[name][prim.GetPath().pathString] = plain(authored_value(attribute))
    return found
