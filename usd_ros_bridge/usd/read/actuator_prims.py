"""Actuators, tendons, sites and keyframes: the typed prims of mjcPhysics and newton-usd-schemas, registered or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pxr import UsdGeom

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.physics_records import (
    GeometryRecord,
    MjcActuatorRecord,
    MjcTendonRecord,
    NewtonActuatorRecord,
    SiteRecord,
)
from usd_ros_bridge.model.stage import XformRecord
from usd_ros_bridge.usd.read.geometry import geometry_type, read_sizes
from usd_ros_bridge.usd.read.properties import FieldReader, PrimProperties, PrimReader
from usd_ros_bridge.usd.read.xforms import XformReader

ACTUATOR_TYPES: Final = frozenset({"MjcActuator", "NewtonActuator", "MjcTendon", "MjcKeyframe"})
"""Prim types that are read here."""
SITE_APIS: Final = frozenset({"MjcSiteAPI", "NewtonSiteAPI"})
"""What makes a prim a site."""


class ActuatorReader:
    """Collect the prims of one pass, and read what they name afterwards.

    Attributes:
        actuators: In traversal order.
        tendons: Likewise.
        keyframes: Prim paths.
    """

    def __init__(self, prims: PrimReader, reader: FieldReader) -> None:
        self.actuators: list[MjcActuatorRecord | NewtonActuatorRecord] = []
        self.tendons: list[MjcTendonRecord] = []
        self.keyframes: list[str] = []
        self._prims = prims
        self._reader = reader
        self._sites: dict[str, PrimProperties] = {}

    def add(self, source: PrimProperties, type_name: str, *, is_site: bool) -> None:
        """Read a prim of one of ACTUATOR_TYPES, or note a site."""
        reader = self._reader
        if is_site:
            self._sites[source.path] = source
        if type_name == "MjcActuator":
            name = str(source.prim.GetDisplayName())
            self.actuators.append(reader.record(MjcActuatorRecord, source, display_name=name))
        elif type_name == "NewtonActuator":
            applied = tuple(source.prim.GetPrimTypeInfo().GetAppliedAPISchemas())
            self.actuators.append(reader.record(NewtonActuatorRecord, source, applied=applied))
        elif type_name == "MjcTendon":
            self.tendons.append(reader.record(MjcTendonRecord, source))
        elif type_name == "MjcKeyframe":
            self.keyframes.append(source.path)

    def places(
        self, xform_reader: XformReader, diagnostics: list[Diagnostic]
    ) -> tuple[tuple[SiteRecord, ...], tuple[GeometryRecord, ...]]:
        """Return all sites, and the gprims that tendons wrap around.

        Args:
            xform_reader: Reads where they are.
            diagnostics: Takes what is wrong with that.
        """
        parts = self._named(path for tendon in self.tendons for path in tendon.parts or ())
        wrapped = {path: each for path, each in parts.items() if geometry_type(each.prim)}
        sites = {**self._sites, **{path: each for path, each in parts.items() if path not in wrapped}}
        sites |= self._named(
            path for record in (*self.tendons, *self.actuators) for path in _named_sites(record)
        )
        if not (sites or wrapped):
            return (), ()
        xforms = xform_reader.add([*sites, *wrapped], diagnostics)
        resets = {path for path, xform in xforms.items() if xform.resets_stack}
        return (
            tuple(
                self._reader.record(SiteRecord, each, **_place(path, xforms, resets))
                for path, each in sites.items()
            ),
            tuple(self._shape(each, _place(path, xforms, resets)) for path, each in wrapped.items()),
        )

    def _shape(self, source: PrimProperties, place: dict[str, Any]) -> GeometryRecord:
        type_name, values = read_sizes(self._reader, source, geometry_type(source.prim))
        return GeometryRecord(
            path=source.path, specs=source.specs, type_name=type_name, values=values, seen=False, **place
        )

    def _named(self, paths: Iterable[str]) -> dict[str, PrimProperties]:
        """Return the prims that are somewhere, of those that relationships name and that are no sites by schema."""
        found = {}
        for path in dict.fromkeys(paths):
            prim = None if path in self._sites else self._prims.stage.GetPrimAtPath(path)
            if prim and prim.IsA(UsdGeom.Xformable):
                found[path] = self._prims.source(path, prim)
        return found


def _named_sites(record: MjcActuatorRecord | NewtonActuatorRecord | MjcTendonRecord) -> tuple[str, ...]:
    if isinstance(record, MjcTendonRecord):
        return record.side_sites or ()
    if isinstance(record, MjcActuatorRecord):
        return (*(record.reference_site or ()), *(record.slider_site or ()))
    return ()


def _place(path: str, xforms: Mapping[str, XformRecord], resets: set[str]) -> dict[str, Any]:
    at = path if resets else ""
    while at and at not in resets:
        at = at.rpartition("/")[0]
    return {"world_from_prim": xforms[path].world_from_prim, "detached_at": at}
