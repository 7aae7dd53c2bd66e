"""Materials: colours, textures and normals of what is seen, and the physics materials of what collides."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pxr import Ar, Sdf, Tf, Usd, UsdGeom, UsdShade

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.appearance import GREY, Color, Look, Skin, unit
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.usd.packages import is_package_path, split_package_path
from usd_ros_bridge.usd.read.geometry import MESH_ARRAYS, Corners, read_corners, read_points
from usd_ros_bridge.usd.read.properties import EARLIEST, PREDICATE, PrimProperties, is_relationship, plain
from usd_ros_bridge.usd.tf_errors import first_line

CONNECTED_INPUTS: Final = ("diffuseColor", "base_color", "baseColor")
"""Inputs of surfaces that a texture is connected to: UsdPreviewSurface's, then those of MaterialX' surfaces."""

ASSET_INPUTS: Final = ("diffuse_texture", "base_color_texture", "diffuseTexture")
"""Inputs of surfaces that name an image themselves: those of MDL's common surfaces."""

COORDINATE_INPUTS: Final = ("st", "texcoord")
DEFAULT_PRIMVAR: Final = "st"
MOST_NODES: Final = 8
"""Nodes between a texture and the reader of its coordinates: more are a circle, or no asset's."""

WHITE: Final = (1.0, 1.0, 1.0)


class Placement(NamedTuple):
    """UsdTransform2d: coordinates are scaled, turned by `rotation` degrees counter-clockwise, and moved."""

    scale: tuple[float, float] = (1.0, 1.0)
    rotation: float = 0.0
    translation: tuple[float, float] = (0.0, 0.0)

    def apply(self, uv: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return (U, 2) coordinates after this transform."""
        angle = math.radians(self.rotation)
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        placed: NDArray[np.float32] = ((uv * self.scale) @ turn + self.translation).astype(np.float32)
        return placed


class Texture(NamedTuple):
    """An image on a surface.

    Attributes:
        file: Path of the image, `file.usdz[image.png]` within a package of OpenUSD's; "" where it cannot be used.
        scale: What its colours are multiplied by.
        fallback: Colour where there is no image, None where none is authored.
        primvar: Name of the texture coordinates.
        placements: Transforms of the coordinates, in the order in which they act.
    """

    file: str
    scale: tuple[float, float, float] = WHITE
    fallback: tuple[float, float, float] | None = None
    primvar: str = DEFAULT_PRIMVAR
    placements: tuple[Placement, ...] = ()


def texture_of(surface: Any, diagnostics: list[Diagnostic]) -> Texture | None:
    """Return the texture that a surface shader takes its colour from, None for none.

    Args:
        surface: The shader of a material's surface.
        diagnostics: Takes images that are missing or may not be used.
    """
    for name in CONNECTED_INPUTS:
        shader = _source(surface, name)
        if shader is not None and _value(shader, "file") is not None:
            primvar, placements = _texture_coordinates(shader)
            return Texture(
                _image(shader, "file", diagnostics),
                _color(_value(shader, "scale")) or WHITE,
                _color(_value(shader, "fallback")),
                primvar,
                placements,
            )
    for name in ASSET_INPUTS:
        value = _value(surface, name)
        if isinstance(value, Sdf.AssetPath) and value.path:
            return Texture(_image(surface, name, diagnostics))
    return None


def _source(shader: Any, name: str) -> Any:
    """Return the shader that an input is connected to, None for none."""
    attributes = _producers(shader, name)
    if not attributes or not UsdShade.Output.IsOutput(attributes[0]):
        return None
    return UsdShade.Shader(attributes[0].GetPrim()) or None


def _producers(shader: Any, name: str) -> Any:
    shader_input = shader.GetInput(name)
    return shader_input.GetValueProducingAttributes() if shader_input else ()


def _value(shader: Any, name: str) -> Any:
    attributes = _producers(shader, name)
    if not attributes or UsdShade.Output.IsOutput(attributes[0]):
        return None
    return attributes[0].Get(EARLIEST)


def _color(value: Any) -> tuple[float, float, float] | None:
    numbers = _numbers(value)
    if len(numbers) < 3:
        return None
    red, green, blue = numbers[:3]
    return red, green, blue


def _pair(value: Any, default: float) -> tuple[float, float]:
    numbers = _numbers(value)
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (default, default)


def _numbers(value: Any) -> tuple[float, ...]:
    """Return the components of a vector, () for any other value and where one is not finite."""
    components = plain(value)
    if not isinstance(components, tuple) or not all(isinstance(each, (int, float)) for each in components):
        return ()
    return tuple(map(float, components)) if all(map(math.isfinite, components)) else ()


def _texture_coordinates(shader: Any) -> tuple[str, tuple[Placement, ...]]:
    """Return the primvar that a texture's coordinates come from, and the transforms between."""
    placements: list[Placement] = []
    names: tuple[str, ...] = COORDINATE_INPUTS
    for _ in range(MOST_NODES):
        reader = next((found for name in names if (found := _source(shader, name)) is not None), None)
        if reader is None:
            break
        name = _value(reader, "varname") or _value(reader, "geomprop")
        if name:
            return str(name), tuple(reversed(placements))
        if str(reader.GetIdAttr().Get()) == "UsdTransform2d":
            angle = plain(_value(reader, "rotation"))
            placements.append(
                Placement(
                    _pair(_value(reader, "scale"), 1.0),
                    angle if isinstance(angle, float) and math.isfinite(angle) else 0.0,
                    _pair(_value(reader, "translation"), 0.0),
                )
            )
        shader, names = reader, ("in",)
    return DEFAULT_PRIMVAR, tuple(reversed(placements))


def _image(shader: Any, name: str, diagnostics: list[Diagnostic]) -> str:
    """Return the file that an input names, "" where it names none that can be read."""
    attribute = _producers(shader, name)[0]
    value = attribute.Get(EARLIEST)
    if not isinstance(value, Sdf.AssetPath):
        fault, remedy = f"is {quoted(value)} and no asset path", "author it as an asset"
    else:
        fault, remedy = _image_fault(value)
        if not fault:
            return str(value.resolvedPath)
    diagnostics.append(
        Diagnostic(
            code="1.3.texture",
            severity="warning",
            path=attribute.GetPrim().GetPath().pathString,
            attribute=attribute.GetName(),
            message=f"{fault}; the texture is left out",
            remedy=remedy,
        )
    )
    return ""


def _image_fault(value: Sdf.AssetPath) -> tuple[str, str]:
    """Return what is wrong with an image's path, "" for nothing, and what to do."""
    if is_package_path(value.path) and split_package_path(value.path)[1] is None:
        return f"{quoted(value.path)} leaves its package", "name the other package"
    if "<UDIM>" in value.path:
        return f"{quoted(value.path)} is in tiles (UDIM), which URDF cannot say", "use one image"
    outer = value.resolvedPath
    if Ar.IsPackageRelativePath(outer):
        outer = Ar.SplitPackageRelativePathOuter(outer)[0]
    if not outer or not Path(outer).is_file():
        return f"{quoted(value.path)} is not found", "correct the path, add the file"
    return "", ""


BINDING: Final = "material:binding"

RENDER_CONTEXTS: Final = ("", "mtlx", "mdl")
"""Outputs of a material that are searched for a surface, the universal one first."""

COLOR_INPUTS: Final = ("diffuseColor", "diffuse_color_constant", "base_color", "baseColor", "diffuse_color")
"""Names of a surface's colour: UsdPreviewSurface's, then those of MDL's and MaterialX' common surfaces."""

PREVIEW_COLOR: Final = (0.18, 0.18, 0.18)
"""What UsdPreviewSurface falls back to."""

BINDING_FAMILY: Final = "materialBind"
"""Family of the subsets of a mesh that materials are bound to."""


class Surface(NamedTuple):
    """The surface of a material.

    Attributes:
        color: Linear colour and opacity, None where there is none, or a texture gives it.
        opacity: 1 where it is not a number of its own.
        texture: Where the colour comes from, None for no image.
    """

    color: Color | None = None
    opacity: float = 1.0
    texture: Texture | None = None


class MaterialPart(NamedTuple):
    """Faces of a mesh that have one material.

    Attributes:
        surface: Of the material, all None where none is bound.
        faces: Rows of the faces, None for all that are in no other part.
    """

    surface: Surface
    faces: NDArray[np.int64] | None = None


class Appearance(NamedTuple):
    """Appearance of a gprim.

    Attributes:
        color: As a whole: that of its look, of the part with the most faces where it has several, else displayColor,
            else None.
        parts: What looks alike; the last one is what is in no subset.
    """

    color: Color | None
    parts: tuple[MaterialPart, ...]


def bound_materials(
    prims: Sequence[Usd.Prim], purpose: str, diagnostics: list[Diagnostic]
) -> list[Usd.Prim | None]:
    """Return the material that each prim is bound to for a purpose, else for all purposes, None for none.

    Of a mesh with several, it is the one with the most faces.

    Args:
        prims: Geometry.
        purpose: Material purpose: `physics`, `preview`.
        diagnostics: Takes bindings that OpenUSD cannot follow.
    """
    return materials_of_parts([_largest_part(prim) for prim in prims], purpose, diagnostics)


def materials_of_parts(
    bearers: Sequence[Usd.Prim], purpose: str, diagnostics: list[Diagnostic]
) -> list[Usd.Prim | None]:
    """Return the material of each prim as `bound_materials` does, but of gprims and subsets apart."""
    if not bearers:
        return []
    try:
        materials, _ = UsdShade.MaterialBindingAPI.ComputeBoundMaterials(list(bearers), purpose)
    except Tf.ErrorException:
        materials = [_bound_material(bearer, purpose, diagnostics) for bearer in bearers]
    return [material.GetPrim() if material else None for material in materials]


def _bound_material(prim: Usd.Prim, purpose: str, diagnostics: list[Diagnostic]) -> Any:
    try:
        return UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial(purpose)[0]
    except Tf.ErrorException:
        diagnostics.append(_broken_binding(prim))
        return None


def _broken_binding(prim: Usd.Prim) -> Diagnostic:
    path, name, above = prim.GetPath(), BINDING, prim
    while above and not above.IsPseudoRoot():
        for prop in (*above.GetAuthoredPropertiesInNamespace(BINDING), above.GetProperty(BINDING)):
            if prop and not is_relationship(prop):
                path, name = above.GetPath(), prop.GetName()
        above = above.GetParent()
    return Diagnostic(
        code="1.3.material_binding",
        severity="error",
        path=path.pathString,
        attribute=name,
        message="is no relationship that OpenUSD can follow; no material is bound to what it is for",
        remedy="author it as a relationship to a Material",
    )


def _largest_part(prim: Usd.Prim) -> Usd.Prim:
    """Return the part of a mesh that has the most faces: a subset, or what is in none, for which the mesh stands."""
    parts = _subsets(prim)
    return [*parts, prim][_largest(prim, parts)]


def _subsets(prim: Usd.Prim) -> list[Usd.Prim]:
    return [child for child in prim.GetFilteredChildren(PREDICATE) if child.IsA(UsdGeom.Subset)]


def _largest(prim: Usd.Prim, subsets: list[Usd.Prim]) -> int:
    """Return which subset has the most faces, how many there are where what is in none has more."""
    if not subsets:
        return 0
    sizes = [_length(part.GetAttribute("indices")) for part in subsets]
    largest = max(sizes)
    if largest <= _length(prim.GetAttribute("faceVertexCounts")) - sum(sizes):
        return len(subsets)
    return sizes.index(largest)


def _length(attribute: Usd.Attribute) -> int:
    try:
        return len(attribute.Get(EARLIEST) or ())
    except TypeError:
        return 0


def contact_materials(
    prims: Sequence[Usd.Prim], known: Container[str], diagnostics: list[Diagnostic]
) -> list[str]:
    """Return the path of the material that is bound to each prim, "" for none.

    Args:
        prims: Colliders.
        known: Paths of the prims with PhysicsMaterialAPI.
        diagnostics: Takes bindings that OpenUSD cannot follow.
    """
    materials = bound_materials(prims, "physics", diagnostics)
    paths = [material.GetPath().pathString if material else "" for material in materials]
    return [path if path in known else "" for path in paths]


def appearances(prims: Sequence[Usd.Prim], diagnostics: list[Diagnostic]) -> list[Appearance]:
    """Return the appearances of gprims. One call for all takes a fraction of the time.

    Args:
        prims: Gprims.
        diagnostics: Takes bindings that OpenUSD cannot follow, and images that are missing.
    """
    subsets = [_subsets(prim) for prim in prims]
    bearers = [*prims, *(subset for each in subsets for subset in each)]
    known: dict[str, Surface] = {}
    materials = iter(materials_of_parts(bearers, "preview", diagnostics))
    own = [_known_surface(next(materials), known, diagnostics) for _ in prims]
    found: list[Appearance] = []
    for prim, surface, parts in zip(prims, own, subsets, strict=True):
        of_parts = [_known_surface(next(materials), known, diagnostics) for _ in parts]
        shown = [*of_parts, surface][_largest(prim, parts)]
        whole = Appearance(shown.color or _display_color(prim), (MaterialPart(surface),))
        found.append(_with_parts(whole, parts, of_parts) if parts else whole)
    return found


def _with_parts(whole: Appearance, subsets: list[Usd.Prim], surfaces: list[Surface]) -> Appearance:
    parts = [
        MaterialPart(surface, _face_rows(subset))
        for subset, surface in zip(subsets, surfaces, strict=True)
        if subset.GetAttribute("familyName").Get() == BINDING_FAMILY
    ]
    return whole._replace(parts=(*parts, *whole.parts))


def _face_rows(subset: Usd.Prim) -> NDArray[np.int64]:
    try:
        return np.array(subset.GetAttribute("indices").Get(EARLIEST), dtype=np.int64).reshape(-1)
    except (TypeError, ValueError):
        return np.zeros(0, dtype=np.int64)


def _known_surface(
    material: Usd.Prim | None, known: dict[str, Surface], diagnostics: list[Diagnostic]
) -> Surface:
    if not material:
        return Surface()
    path = material.GetPath().pathString
    surface = known.get(path)
    if surface is None:
        try:
            surface = read_surface(material, diagnostics)
        except Tf.ErrorException as error:
            diagnostics.append(_broken_material(path, error))
            surface = Surface()
        known[path] = surface
    return surface


def _broken_material(path: str, error: Exception) -> Diagnostic:
    return Diagnostic(
        code="1.3.material_binding",
        severity="error",
        path=path,
        message=f"OpenUSD cannot follow the connections of the material: {first_line(error)}; it has no colour",
        remedy="connect inputs and outputs of shaders",
    )


def read_surface(prim: Usd.Prim, diagnostics: list[Diagnostic]) -> Surface:
    """Return the surface of a material: the first that has a colour, else the first that has a texture."""
    material = UsdShade.Material(prim)
    textured = Surface()
    for context in RENDER_CONTEXTS:
        surface, _, _ = material.ComputeSurfaceSource(context)
        if not surface:
            continue
        opacity = _input(surface, "opacity")
        opacity = opacity if isinstance(opacity, float) else 1.0
        texture = None if textured.texture else texture_of(surface, diagnostics)
        color = next((value for name in COLOR_INPUTS if (value := _input(surface, name))), None)
        if color is None and not _is_connected(surface, "diffuseColor") and _is_preview(surface):
            color = PREVIEW_COLOR
        if isinstance(color, tuple) and len(color) == 3:
            return Surface((*color, opacity), opacity, texture or textured.texture)
        if texture is not None:
            textured = Surface(None, opacity, texture)
    return textured


def _is_preview(surface: Any) -> bool:
    return str(surface.GetIdAttr().Get()) == "UsdPreviewSurface"


def _is_connected(surface: Any, name: str) -> bool:
    shader_input = surface.GetInput(name)
    return bool(shader_input) and bool(shader_input.HasConnectedSource())


def _input(surface: Any, name: str) -> Any:
    """Return the value of a shader's input, through what it is connected to, None where a texture gives it."""
    shader_input = surface.GetInput(name)
    if not shader_input:
        return None
    attributes = shader_input.GetValueProducingAttributes()
    if not attributes or UsdShade.Output.IsOutput(attributes[0]):
        return None
    return plain(attributes[0].Get(EARLIEST))


def _display_color(prim: Usd.Prim) -> Color | None:
    color = _mean(prim, "displayColor")
    if color is None or color.shape != (3,):
        return None
    opacity = _mean(prim, "displayOpacity")
    red, green, blue = color.tolist()
    return (red, green, blue, float(opacity) if opacity is not None and opacity.shape == () else 1.0)


def _mean(prim: Usd.Prim, name: str) -> Any:
    """Return the mean of a primvar over a prim, None where none is authored."""
    primvar = UsdGeom.PrimvarsAPI(prim).FindPrimvarWithInheritance(f"primvars:{name}")
    if not primvar:
        return None
    try:
        values = np.array(primvar.ComputeFlattened(EARLIEST), dtype=np.float64)
    except (TypeError, ValueError, Tf.ErrorException):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        return values.mean(axis=0) if values.ndim and len(values) else None


PRIMVAR: Final = "primvars:normals"
ATTRIBUTE: Final = "normals"
SMOOTH: Final = (UsdGeom.Tokens.vertex, UsdGeom.Tokens.varying, UsdGeom.Tokens.faceVarying)
"""Interpolations that give a triangle several normals."""

LOOKED_AT: Final = 256
"""Triangles by which a mesh of facets is recognised."""
FLAT: Final = 1.0 - 1e-4
"""Cosine of the angle, 0.8 degrees, within which a normal is that of its facet."""
FEW: Final = 0.02
"""Part of the corners that may be off in a mesh of facets: slivers have facets that rounding turns."""


class Normals(NamedTuple):
    """Normals of length 1, and their rows at the corners of triangles."""

    values: NDArray[np.float32]
    rows: NDArray[np.int32]


def has_normals(source: PrimProperties) -> bool:
    """Return whether a mesh has normals that count: one that is to be subdivided has none (UsdGeomMesh)."""
    properties = source.properties
    if PRIMVAR not in properties and ATTRIBUTE not in properties:
        return False
    return bool(UsdGeom.Mesh(source.prim).GetSubdivisionSchemeAttr().Get() == UsdGeom.Tokens.none)


def read_normals(source: PrimProperties, corners: Corners) -> Normals | None:
    """Return the normals of a mesh, None where it has none that can be used, or those of its facets.

    Normals affect appearance only: faulty ones are left out without a diagnostic, and facets are visible.
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
    """Return values, indices and interpolation; the primvar counts before the attribute (UsdGeomPointBased)."""
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
    """Return whether normals differ from those of the facets, by triangles from all over the mesh."""
    some = slice(None, None, max(1, len(rows) // LOOKED_AT))
    a, b, c = points[corners.points[some]].transpose(1, 0, 2)
    facets = unit(np.cross(b - a, c - a))
    cosines = np.abs(np.einsum("tcx,tx->tc", values[rows[some]], facets))
    return bool((cosines < FLAT)[facets.any(axis=1)].sum() > FEW * cosines.size)


_OF_SKINS: Final = ("normals", "primvars:", "subdivisionScheme")
"""Beginnings of the names of attributes that a skin follows from, apart from MESH_ARRAYS."""

MOST_COLORS: Final = 256
"""Colours of faces that are distinguished; a mesh with more has their mean."""


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
    """Return the appearance of a mesh, None where it has but one colour on facets, or no triangles.

    Args:
        source: The mesh's authored properties.
        appearance: Its colour as a whole, and its parts.
        flip: Whether its faces are left-handed.
        triangles: How many it has.
        diagnostics: Takes texture coordinates that cannot be used.
    """
    color, parts = appearance
    if not triangles:
        return None
    key = (Skin, flip, color, *(part.surface for part in parts))
    known = source.recall(key)
    if known is None:
        found: list[Diagnostic] = []
        # Texture coordinates may be inherited, and subsets are prims of their own.
        alone = len(parts) == 1 and not parts[0].surface.texture
        shown = not alone or _has_face_colors(source, parts) or has_normals(source)
        known = (_make_skin(source, appearance, flip, found) if shown else None), tuple(found)
        source.remember(key, known, MESH_ARRAYS if alone else None, prefixes=_OF_SKINS)
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
    """Return a skin with the looks that occur, each once; None where that is one colour on facets."""
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
    """Return a colour that can be shown, grey for what is not finite."""
    if not np.isfinite(color).all():
        return GREY
    red, green, blue, opacity = np.clip(color, 0.0, 1.0).tolist()
    return red, green, blue, opacity


# --- Texture coordinates ------------------------------------------------------------------------------------------


def _coordinates(
    source: PrimProperties, parts: tuple[MaterialPart, ...], corners: Corners, diagnostics: list[Diagnostic]
) -> _Uv | None:
    """Return the coordinates of the first texture; a mesh file has one set."""
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


def _has_face_colors(source: PrimProperties, parts: tuple[MaterialPart, ...]) -> bool:
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
    """Return the colours that faces have, and which of them each triangle has; None if that is not known."""
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
