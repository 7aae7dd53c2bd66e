"""Geometry: sizes of UsdGeom's shapes, and meshes as triangles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pxr import Usd, UsdGeom

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.records import Record, attribute, attribute_fields, fallback
from usd_ros_bridge.usd.read.properties import (
    FieldReader,
    PrimProperties,
    authored_value,
    is_relationship,
    strongest_spec,
)

# --- Sizes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CubeRecord(Record):
    """UsdGeomCube."""

    size: float | None = attribute("size", "double", 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SphereRecord(Record):
    """UsdGeomSphere."""

    radius: float | None = attribute("radius", "double", 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CylinderRecord(Record):
    """UsdGeomCylinder."""

    radius: float | None = attribute("radius", "double", 1.0)
    height: float | None = attribute("height", "double", 2.0)
    axis: str | None = attribute("axis", "token", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConeRecord(CylinderRecord):
    """UsdGeomCone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleRecord(Record):
    """UsdGeomCapsule."""

    radius: float | None = attribute("radius", "double", 0.5)
    height: float | None = attribute("height", "double", 1.0)
    axis: str | None = attribute("axis", "token", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneRecord(Record):
    """UsdGeomPlane."""

    width: float | None = attribute("width", "double", 2.0)
    length: float | None = attribute("length", "double", 2.0)
    axis: str | None = attribute("axis", "token", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaperedCylinderRecord(Record):
    """UsdGeomCylinder_1, which has a radius at either end."""

    radius_top: float | None = attribute("radiusTop", "double", 1.0)
    radius_bottom: float | None = attribute("radiusBottom", "double", 1.0)
    height: float | None = attribute("height", "double", 2.0)
    axis: str | None = attribute("axis", "token", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaperedCapsuleRecord(Record):
    """UsdGeomCapsule_1, which has a radius at either end."""

    radius_top: float | None = attribute("radiusTop", "double", 0.5)
    radius_bottom: float | None = attribute("radiusBottom", "double", 0.5)
    height: float | None = attribute("height", "double", 1.0)
    axis: str | None = attribute("axis", "token", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshRecord(Record):
    """Small attributes of a UsdGeomMesh."""

    orientation: str | None = attribute("orientation", "token", "rightHanded")
    double_sided: bool | None = attribute("doubleSided", "bool", False)


GEOMETRIES: Final[dict[str, tuple[Any, type[Record]]]] = {
    "Cube": (UsdGeom.Cube, CubeRecord),
    "Sphere": (UsdGeom.Sphere, SphereRecord),
    "Cylinder": (UsdGeom.Cylinder, CylinderRecord),
    "Capsule": (UsdGeom.Capsule, CapsuleRecord),
    "Cone": (UsdGeom.Cone, ConeRecord),
    "Plane": (UsdGeom.Plane, PlaneRecord),
    "Mesh": (UsdGeom.Mesh, MeshRecord),
    "Cylinder_1": (UsdGeom.Cylinder_1, TaperedCylinderRecord),
    "Capsule_1": (UsdGeom.Capsule_1, TaperedCapsuleRecord),
}
"""Types of geometry that have a shape, and the records of their sizes."""

UNTAPERED: Final = {"Cylinder_1": "Cylinder", "Capsule_1": "Capsule"}
"""What a shape with two radii is where both are equal."""


def geometry_type(prim: Usd.Prim) -> str:
    """Return the type in GEOMETRIES that a prim is of or derives from, "" for none."""
    type_name = str(prim.GetTypeName())
    if type_name in GEOMETRIES:
        return type_name
    return next((name for name, (schema, _) in GEOMETRIES.items() if prim.IsA(schema)), "")


def read_sizes(reader: FieldReader, source: PrimProperties, type_name: str) -> tuple[str, dict[str, Any]]:
    """Return the type of a prim of one of GEOMETRIES, the plain one where it is not tapered, and its sizes.

    Sizes are in stage units, by name, fallbacks applied.
    """
    _, record_type = GEOMETRIES[type_name]
    record = reader.record(record_type, source)
    sizes = {name: fallback(record, name) for name, _ in attribute_fields(record_type)}
    if type_name in UNTAPERED and sizes["radius_top"] == sizes["radius_bottom"]:
        plain = {"radius": sizes["radius_top"], "height": sizes["height"], "axis": sizes["axis"]}
        return UNTAPERED[type_name], plain
    return type_name, sizes


MESH_ARRAYS: Final = ("points", "faceVertexCounts", "faceVertexIndices", "holeIndices")
"""Attributes that the triangles of a mesh follow from."""

# --- Meshes -------------------------------------------------------------------------------------------------------


class Triangles(NamedTuple):
    """A mesh as triangles.

    Attributes:
        points: (V, 3) float64 in the prim's frame, stage units, read-only.
        triangles: (T, 3) int32 rows of `points`, counter-clockwise seen from outside, read-only.
        left_out: How many faces name points that are not there.
        faces: How many faces there are, holes apart.
    """

    points: NDArray[np.float64]
    triangles: NDArray[np.int32]
    left_out: int
    faces: int


class _Unreadable(NamedTuple):
    """An array that is not of the type that the schema gives it."""

    attribute: str
    authored: str
    wanted: str


def _array(source: PrimProperties, name: str, wanted: str, shape: tuple[int, ...]) -> Any:
    """Return an attribute of the schema's as an array, empty where nothing is authored, or what is wrong with it."""
    prop = source.properties.get(name)
    empty: NDArray[Any] = np.zeros((0, *shape))
    if prop is None:
        return empty
    if is_relationship(prop):
        return _Unreadable(name, "rel", wanted)
    value = authored_value(prop)
    if value is None:
        return empty
    try:
        array = np.array(value)
    except (TypeError, ValueError):
        array = np.zeros(0, dtype=object)
    kinds = "iuf" if wanted == "point3f[]" else "iu"
    if array.size == 0 and array.dtype != object:
        return empty
    if array.dtype.kind not in kinds or array.ndim != 1 + len(shape) or array.shape[1:] != shape:
        return _Unreadable(name, str(strongest_spec(prop).typeName), wanted)
    return array


def triangulated(
    counts: NDArray[Any], indices: NDArray[Any], holes: NDArray[Any], points: int, *, flip: bool = False
) -> tuple[NDArray[np.int32], int, int]:
    """Return polygons as fans of triangles.

    Args:
        counts: (F,) vertices of each face.
        indices: Points of the faces, one face after another.
        holes: Faces that are holes.
        points: How many points there are.
        flip: Whether faces are authored clockwise.

    Returns:
        (T, 3) rows of points; how many faces name points that are not there, and are left out; how many faces there
        are, holes apart.
    """
    corners, left_out, faces = fans(counts, indices, holes, points, flip=flip)
    triangles = indices.astype(np.int64)[corners] if len(corners) else np.zeros((0, 3))
    return triangles.astype(np.int32), left_out, faces


def fans(
    counts: NDArray[Any], indices: NDArray[Any], holes: NDArray[Any], points: int, *, flip: bool = False
) -> tuple[NDArray[np.int64], int, int]:
    """Return (T, 3) rows of `indices` at the corners of triangles, and what else `triangulated` does; see there."""
    if _are_triangles(counts, indices, holes, points):
        rows = np.arange(len(indices)).reshape(-1, 3)
        return (rows[:, [0, 2, 1]] if flip else rows), 0, len(counts)
    counts = np.maximum(counts.astype(np.int64), 0)
    indices = indices.astype(np.int64)
    ends = np.cumsum(counts)
    starts = ends - counts
    solid = np.ones(len(counts), dtype=bool)
    solid[holes[(holes >= 0) & (holes < len(counts))].astype(np.intp)] = False
    usable = ends <= len(indices)
    named = np.concatenate(([0], np.cumsum((indices < 0) | (indices >= points))))
    usable[usable] = named[ends[usable]] == named[starts[usable]]
    usable |= counts == 0
    triangles = np.where(solid & usable, np.maximum(counts - 2, 0), 0)
    first = np.repeat(starts, triangles)
    step = np.arange(triangles.sum()) - np.repeat(np.cumsum(triangles) - triangles, triangles)
    corners = (first, first + step + 1, first + step + 2)
    if flip:
        corners = (corners[0], corners[2], corners[1])
    return np.stack(corners, axis=1), int((solid & ~usable).sum()), int(solid.sum())


def _are_triangles(counts: NDArray[Any], indices: NDArray[Any], holes: NDArray[Any], points: int) -> bool:
    """Return whether faces are triangles that can be used as they are, as most converters write them."""
    return bool(
        len(counts)
        and not len(holes)
        and len(indices) == 3 * len(counts)
        and (counts == 3).all()
        and indices.min() >= 0
        and indices.max() < points
    )


class Corners(NamedTuple):
    """Rows of the corners of a mesh's triangles in its arrays.

    Attributes:
        rows: (T, 3) rows of faceVertexIndices.
        points: (T, 3) rows of points.
        face_of_triangle: (T,) rows of faceVertexCounts.
        faces: How many faces are authored.
    """

    rows: NDArray[np.int64]
    points: NDArray[np.int64]
    face_of_triangle: NDArray[np.int64]
    faces: int

    def elements(self, interpolation: str) -> NDArray[np.int64] | None:
        """Return (T, 3) elements of a primvar at the corners, None for an interpolation that there is not."""
        if interpolation == UsdGeom.Tokens.faceVarying:
            return self.rows
        if interpolation in (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying):
            return self.points
        if interpolation == UsdGeom.Tokens.uniform:
            return np.repeat(self.face_of_triangle[:, None], 3, axis=1)
        return np.zeros_like(self.rows) if interpolation == UsdGeom.Tokens.constant else None


def read_corners(source: PrimProperties, *, flip: bool) -> Corners | None:
    """Return the corners of the triangles that `read_mesh` gives, None where it gives none."""
    points = _array(source, "points", "point3f[]", (3,))
    counts = _array(source, "faceVertexCounts", "int[]", ())
    indices = _array(source, "faceVertexIndices", "int[]", ())
    holes = _array(source, "holeIndices", "int[]", ())
    if any(isinstance(array, _Unreadable) for array in (points, counts, indices, holes)):
        return None
    rows, _, _ = fans(counts, indices, holes, len(points), flip=flip)
    if not len(rows):
        return None
    ends = np.cumsum(np.maximum(counts.astype(np.int64), 0))
    faces = np.searchsorted(ends, rows[:, 0], side="right")
    return Corners(rows, indices.astype(np.int64)[rows], faces, len(counts))


def read_points(source: PrimProperties) -> NDArray[np.float64]:
    """Return (V, 3) points of a mesh, none where they are no points."""
    points = _array(source, "points", "point3f[]", (3,))
    return np.zeros((0, 3)) if isinstance(points, _Unreadable) else points.astype(np.float64)


def read_mesh(source: PrimProperties, *, flip: bool, diagnostics: list[Diagnostic]) -> Triangles:
    """Return a mesh as authored at the earliest time, without subdivision.

    Args:
        source: The prim's authored properties.
        flip: Whether its faces are left-handed.
        diagnostics: Collector of faults of its arrays. Points that are not finite and a mesh without triangles are
            left to whoever needs them.
    """
    # The orientation is one of the specs', too, but a sample of it may be a clip's.
    key = (Triangles, flip)
    mesh = source.recall(key)
    if mesh is None:
        mesh = _read_mesh(source, flip)
        source.remember(key, mesh, MESH_ARRAYS)
    if isinstance(mesh, _Unreadable):
        diagnostics.append(_wrong_array(source.path, mesh))
        return Triangles(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int32), 0, 0)
    result: Triangles = mesh
    if result.left_out:
        diagnostics.append(_missing_points(source.path, result))
    return result


def _read_mesh(source: PrimProperties, flip: bool) -> Triangles | _Unreadable:
    points = _array(source, "points", "point3f[]", (3,))
    counts = _array(source, "faceVertexCounts", "int[]", ())
    indices = _array(source, "faceVertexIndices", "int[]", ())
    holes = _array(source, "holeIndices", "int[]", ())
    for array in (points, counts, indices, holes):
        if isinstance(array, _Unreadable):
            return array
    triangles, left_out, faces = triangulated(counts, indices, holes, len(points), flip=flip)
    points = points.astype(np.float64)
    # All prims that are composed from the same specs have these.
    points.flags.writeable = triangles.flags.writeable = False
    return Triangles(points, triangles, left_out, faces)


def _wrong_array(path: str, array: _Unreadable) -> Diagnostic:
    return Diagnostic(
        code="1.3.mesh.data",
        severity="error",
        path=path,
        attribute=array.attribute,
        message=f"has the type {quoted(array.authored)} instead of {array.wanted}; the mesh has no triangles",
        remedy=f"author it as {array.wanted}",
    )


def _missing_points(path: str, mesh: Triangles) -> Diagnostic:
    return Diagnostic(
        code="1.3.mesh.data",
        severity="warning",
        path=path,
        attribute="faceVertexIndices",
        message=f"{mesh.left_out} of {mesh.faces} faces name points that are not there; they are left out",
        remedy="author faceVertexCounts and faceVertexIndices that agree with points",
    )
