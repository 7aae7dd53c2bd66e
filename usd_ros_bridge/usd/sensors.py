"""Sensors: what is authored in the bridge's own namespace, on interfaces, on their cameras and for georeferencing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pxr import Usd

from usd_ros_bridge.model.physics_records import SensorRecord
from usd_ros_bridge.usd.attributes import PrimProperties, authored_value, is_relationship
from usd_ros_bridge.usd.values import plain

OWN: Final = "usd_ros_bridge:"
GEOREFERENCE: Final = "usd_ros_bridge:georeference:"


def own_values(source: PrimProperties, prefix: str = OWN) -> dict[str, Any]:
    """Returns a prim's authored properties below `prefix` by USD name; relationships as tuples of paths."""
    values: dict[str, Any] = {}
    for name, prop in source.properties.items():
        if not name.startswith(prefix):
            continue
        if is_relationship(prop):
            value: Any = source.targets(name)
        else:
            value = plain(authored_value(prop)) if isinstance(prop, Usd.Attribute) else None
        if value is not None:
            values[name] = value
    return values


def read_sensor(source: PrimProperties, cameras: Mapping[str, PrimProperties]) -> SensorRecord | None:
    """Returns what an interface and the camera that it is on author, None where that is nothing.

    Args:
        source: The interface's prim; what it authors comes before what its camera does.
        cameras: Every camera above any interface, by path.
    """
    camera, path = None, source.path
    while path and camera is None:
        camera = cameras.get(path)
        path = path.rpartition("/")[0]
    values = {**(own_values(camera) if camera else {}), **own_values(source)}
    return SensorRecord(path=source.path, specs=source.specs, values=values) if values else None


def read_origin(sources: Iterable[PrimProperties]) -> SensorRecord | None:
    """Returns the georeference of the first prim that authors one."""
    for source in sources:
        values = own_values(source, GEOREFERENCE)
        if values:
            return SensorRecord(path=source.path, values=values)
    return None
