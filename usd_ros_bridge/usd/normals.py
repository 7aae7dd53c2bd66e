"""Normals: how light falls on a mesh that is to look smooth."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pxr import Tf, UsdGeom

from usd_ros_bridge.model.looks import unit
from usd_ros_bridge.usd.attributes import EARLIEST, PrimProperties
from usd_ros_bridge.usd.geometry import Corners, read_points

PRIMVAR: Final = "primvars:normals"
ATTRIBUTE: Final = "normals"
SMOOTH: Final = (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying, UsdGeom.Tokens.faceVarying)
"""Interpolations that give a triangle several normals."""

LOOKED_AT: Final = 256
"""Triangles by which a mesh of facets is told."""
FLAT: Final = 1.0 - 1e-4
"""Cosine of the angle, 0.8 degrees, within which a normal is that of its facet."""
FEW: Final = 0.02
"""Part of the corners that may be off in a mesh of facets: slivers have facets that rounding turns."""


class Normals(NamedTuple):
    """Normals of length 1, and their rows at the corners of triangles."""

    values: NDArray[np.float32]
    rows: NDArray[np.int32]


def has_normals(source: PrimProperties) -> bool:
    """Returns whether a mesh has normals that count: one that is to be subdivided has none (UsdGeomMesh)."""
    properties = source.properties
    if PRIMVAR not in properties and ATTRIBUTE not in properties:
        return False
    return bool(UsdGeom.Mesh(source.prim).GetSubdivisionSchemeAttr().Get() == UsdGeom.Tokens.none)


def read_normals(source: PrimProperties, corners: Corners) -> Normals | None:
    """Returns the normals of a mesh, None where it has none that can be used, or those of its facets.

    Normals are a matter of looks: faulty ones are left out without a word, and facets are seen.
    """
    if not has_normals(source):
        return None
    try:
        values, indices, interpolation = _authored(source)
    except (TypeError, ValueError, Tf.ErrorException):
        return None
    rows = corners.elements(interpolation)
    if rows is None or interpolation not in SMOOTH or values.ndim != 2 or values.shape[1] != 3:
        return None
    if indices is not None:
        if not len(indices) or rows.max() >= len(indices):
            return None
        rows = indices[rows]
    if rows.min() < 0 or rows.max() >= len(values) or not np.isfinite(values).all():
        return None
    values, points = unit(values), read_points(source)
    if not np.isfinite(points).all() or not _are_smooth(values, rows, points, corners):
        return None
    used = rows.astype(np.int32)
    values.flags.writeable = used.flags.writeable = False
    return Normals(values, used)


def _authored(source: PrimProperties) -> tuple[NDArray[Any], NDArray[np.int64] | None, str]:
    """Returns values, indices and interpolation; the primvar counts before the attribute (UsdGeomPointBased)."""
    if PRIMVAR in source.properties:
        primvar = UsdGeom.PrimvarsAPI(source.prim).GetPrimvar(ATTRIBUTE)
        indices = np.array(primvar.GetIndices(EARLIEST), dtype=np.int64) if primvar.IsIndexed() else None
        return np.array(primvar.Get(EARLIEST), dtype=np.float64), indices, str(primvar.GetInterpolation())
    mesh = UsdGeom.Mesh(source.prim)
    values = np.array(mesh.GetNormalsAttr().Get(EARLIEST), dtype=np.float64)
    return values, None, str(mesh.GetNormalsInterpolation())


def _are_smooth(
    values: NDArray[np.float32], rows: NDArray[np.int64], points: NDArray[np.float64], corners: Corners
) -> bool:
    """Returns whether normals differ from those of the facets, by triangles from all over the mesh."""
    some = slice(None, None, max(1, len(rows) // LOOKED_AT))
    a, b, c = points[corners.points[some]].transpose(1, 0, 2)
    facets = unit(np.cross(b - a, c - a))
    cosines = np.abs(np.einsum("tcx,tx->tc", values[rows[some]], facets))
    return bool((cosines < FLAT)[facets.any(axis=1)].sum() > FEW * cosines.size)
