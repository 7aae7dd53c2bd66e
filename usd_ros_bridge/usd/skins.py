"""Skins: textures, the looks of a mesh's parts and normals, where one colour on facets does not say it all."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pxr import Tf, UsdGeom

from usd_ros_bridge.model.diagnostics import Diagnostic, quoted
from usd_ros_bridge.model.looks import GREY, Color, Look, Skin
from usd_ros_bridge.usd.attributes import EARLIEST, PrimProperties
from usd_ros_bridge.usd.geometry import Corners, read_corners
from usd_ros_bridge.usd.looks import Appearance, Part, Surface
from usd_ros_bridge.usd.normals import Normals, has_normals, read_normals
from usd_ros_bridge.usd.textures import Texture

MOST_COLORS: Final = 256
"""Colours of faces that are told apart; a mesh with more has their mean."""


class _Uv(NamedTuple):
    """Texture coordinates of a mesh and their rows at the corners of its triangles."""

    values: NDArray[np.float32]
    rows: NDArray[np.int32]


def read_skin(
    source: PrimProperties,
    appearance: Appearance,
    *,
    flip: bool,
    triangles: int,
    diagnostics: list[Diagnostic],
) -> Skin | None:
    """Returns what a mesh looks like, None where it has but one colour on facets, or no triangles.

    Args:
        source: The mesh's authored properties.
        appearance: Its colour as a whole, and its parts.
        flip: Whether its faces are left-handed.
        triangles: How many it has.
        diagnostics: Takes texture coordinates that cannot be used.
    """
    color, parts = appearance
    textured = any(part.surface.texture for part in parts)
    shown = textured or len(parts) > 1 or _has_face_colors(source, parts) or has_normals(source)
    if not triangles or not shown:
        return None
    key = (Skin, flip, color, *(part.surface for part in parts))
    known = source.memo.get(key)
    if known is None:
        found: list[Diagnostic] = []
        known = source.memo[key] = (_make_skin(source, appearance, flip, found), tuple(found))
    skin, found_before = known
    diagnostics.extend(replace(each, path=source.path) for each in found_before)
    result: Skin | None = skin
    return result


def _make_skin(
    source: PrimProperties,
    appearance: Appearance,
    flip: bool,
    diagnostics: list[Diagnostic],
) -> Skin | None:
    color, parts = appearance
    corners = read_corners(source, flip=flip)
    if corners is None:
        return None
    plain_color = color or GREY
    normals = read_normals(source, corners)
    if _has_face_colors(source, parts):
        kinds = _face_colors(source, corners, plain_color[3])
        if kinds is not None:
            return _skin(*kinds, None, normals)
    uv = _coordinates(source, parts, corners, diagnostics)
    looks = [_look(part.surface, plain_color, textured=uv is not None) for part in parts]
    rows = np.full(corners.faces, len(parts) - 1, dtype=np.int32)
    for row, part in enumerate(parts):
        if part.faces is not None:
            rows[part.faces[(part.faces >= 0) & (part.faces < corners.faces)]] = row
    return _skin(looks, rows[corners.face_of_triangle], uv, normals)


def _skin(looks: list[Look], rows: NDArray[np.int32], uv: _Uv | None, normals: Normals | None) -> Skin | None:
    """Returns a skin with the looks that occur, each once; None where that is one colour on facets."""
    kinds = list(dict.fromkeys(looks))
    of_row = np.array([kinds.index(look) for look in looks])
    used, left_rows = np.unique(of_row[rows], return_inverse=True)
    left = tuple(kinds[row] for row in used)
    textured = any(look.texture for look in left)
    if len(left) == 1 and not textured and normals is None:
        return None
    return Skin(
        left,
        left_rows.astype(np.int32) if len(left) > 1 else None,
        uv.values if uv is not None and textured else None,
        uv.rows if uv is not None and textured else None,
        normals.values if normals is not None else None,
        normals.rows if normals is not None else None,
    )


def _look(surface: Surface, color: Color, *, textured: bool) -> Look:
    texture = surface.texture
    own = surface.color or color
    if texture is None:
        return Look(_bounded(own))
    if texture.file and textured:
        return Look(_bounded((*texture.scale, surface.opacity)), texture.file)
    return Look(_bounded((*texture.fallback, surface.opacity)) if texture.fallback else _bounded(own))


def _bounded(color: Color) -> Color:
    """Returns a colour that can be shown, grey for what is not finite."""
    if not np.isfinite(color).all():
        return GREY
    red, green, blue, opacity = np.clip(color, 0.0, 1.0).tolist()
    return red, green, blue, opacity


# --- Texture coordinates ------------------------------------------------------------------------------------------


def _coordinates(
    source: PrimProperties, parts: tuple[Part, ...], corners: Corners, diagnostics: list[Diagnostic]
) -> _Uv | None:
    """Returns the coordinates of the first texture; a mesh file has one set."""
    textures = [part.surface.texture for part in parts]
    texture = next((each for each in textures if each is not None and each.file), None)
    if texture is None:
        return None
    found = _read_coordinates(source, texture, corners)
    if isinstance(found, _Uv):
        return found
    diagnostics.append(
        Diagnostic(
            code="1.3.texture",
            severity="warning",
            path=source.path,
            attribute=f"primvars:{texture.primvar}",
            message=f"{found}; the mesh is without its texture",
            remedy="author texture coordinates as texCoord2f[], one for each point or each corner of a face",
        )
    )
    return None


def _read_coordinates(source: PrimProperties, texture: Texture, corners: Corners) -> _Uv | str:
    primvar = UsdGeom.PrimvarsAPI(source.prim).FindPrimvarWithInheritance(f"primvars:{texture.primvar}")
    if not primvar or not primvar.HasAuthoredValue():
        return f"there are no texture coordinates {quoted(texture.primvar)}"
    try:
        values = np.array(primvar.Get(EARLIEST), dtype=np.float32)
        indices = np.array(primvar.GetIndices(EARLIEST), dtype=np.int64) if primvar.IsIndexed() else None
    except (TypeError, ValueError, Tf.ErrorException):
        values, indices = np.zeros(0, dtype=np.float32), None
    if values.ndim != 2 or values.shape[1] != 2 or not len(values):
        return f"texture coordinates are {quoted(primvar.GetTypeName())}"
    rows = corners.elements(str(primvar.GetInterpolation()))
    if rows is None:
        return f"{quoted(primvar.GetInterpolation())} is no interpolation that OpenUSD knows"
    if indices is not None:
        if not len(rows) or rows.max() >= len(indices):
            return f"there are {len(indices)} indices of texture coordinates, which are too few"
        rows = indices[rows]
    if rows.min(initial=0) < 0 or rows.max(initial=0) >= len(values):
        return f"there are {len(values)} texture coordinates, which are too few"
    for placement in texture.placements:
        values = placement.apply(values)
    if not np.isfinite(values).all():
        return "texture coordinates are not finite"
    used = rows.astype(np.int32)
    values.flags.writeable = used.flags.writeable = False
    return _Uv(values, used)


# --- Colours of faces ---------------------------------------------------------------------------------------------


def _has_face_colors(source: PrimProperties, parts: tuple[Part, ...]) -> bool:
    surface = parts[0].surface
    if len(parts) > 1 or surface.texture or surface.color is not None:
        return False
    if "primvars:displayColor" not in source.properties:
        return False
    primvar = UsdGeom.PrimvarsAPI(source.prim).GetPrimvar("displayColor")
    return bool(primvar) and str(primvar.GetInterpolation()) == UsdGeom.Tokens.uniform


def _face_colors(
    source: PrimProperties, corners: Corners, opacity: float
) -> tuple[list[Look], NDArray[np.int32]] | None:
    """Returns the colours that faces have, and which of them each triangle has; None where that is not to be told."""
    primvar = UsdGeom.PrimvarsAPI(source.prim).GetPrimvar("displayColor")
    try:
        values = np.array(primvar.ComputeFlattened(EARLIEST), dtype=np.float64)
    except (TypeError, ValueError, Tf.ErrorException):
        return None
    if values.shape != (corners.faces, 3) or not np.isfinite(values).all():
        return None
    kinds, rows = np.unique(values, axis=0, return_inverse=True)
    if len(kinds) > MOST_COLORS:
        return None
    looks = [Look(_bounded((*kind, opacity))) for kind in kinds.tolist()]
    return looks, rows.ravel().astype(np.int32)[corners.face_of_triangle]
