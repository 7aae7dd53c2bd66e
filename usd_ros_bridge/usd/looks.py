"""Looks: the colours that prims are seen in, and the materials that they are in contact with."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pxr import Tf, Usd, UsdGeom, UsdShade

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.looks import Color
from usd_ros_bridge.usd.attributes import EARLIEST, is_relationship
from usd_ros_bridge.usd.opening import first_line
from usd_ros_bridge.usd.textures import Texture, texture_of
from usd_ros_bridge.usd.traversal import PREDICATE
from usd_ros_bridge.usd.values import plain

BINDING: Final = "material:binding"

RENDER_CONTEXTS: Final = ("", "mtlx", "mdl")
"""Outputs of a material that are looked at for a surface, the universal one first."""

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


class Part(NamedTuple):
    """Faces of a mesh that have one material.

    Attributes:
        surface: Of the material, all None where none is bound.
        faces: Rows of the faces, None for all that are in no other part.
    """

    surface: Surface
    faces: NDArray[np.int64] | None = None


class Appearance(NamedTuple):
    """What a gprim looks like.

    Attributes:
        color: As a whole: that of its look, of the part with the most faces where it has several, else displayColor,
            else None.
        parts: What looks alike; the last one is what is in no subset.
    """

    color: Color | None
    parts: tuple[Part, ...]


def bound_materials(
    prims: Sequence[Usd.Prim], purpose: str, diagnostics: list[Diagnostic]
) -> list[Usd.Prim | None]:
    """Returns the material that each prim is bound to for a purpose, else for all purposes, None for none.

    Of a mesh with several, it is the one with the most faces.

    Args:
        prims: Geometry.
        purpose: Material purpose: `physics`, `preview`.
        diagnostics: Takes bindings that OpenUSD cannot follow.
    """
    return _materials([_largest_part(prim) for prim in prims], purpose, diagnostics)


def _materials(
    bearers: Sequence[Usd.Prim], purpose: str, diagnostics: list[Diagnostic]
) -> list[Usd.Prim | None]:
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
    """Returns the part of a mesh that has the most faces: a subset, or what is in none, for which the mesh stands."""
    parts = _subsets(prim)
    return [*parts, prim][_largest(prim, parts)]


def _subsets(prim: Usd.Prim) -> list[Usd.Prim]:
    return [child for child in prim.GetFilteredChildren(PREDICATE) if child.IsA(UsdGeom.Subset)]


def _largest(prim: Usd.Prim, subsets: list[Usd.Prim]) -> int:
    """Returns which subset has the most faces, how many there are where what is in none has more."""
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
    """Returns the path of the material that is bound to each prim, "" for none.

    Args:
        prims: Colliders.
        known: Paths of the prims with PhysicsMaterialAPI.
        diagnostics: Takes bindings that OpenUSD cannot follow.
    """
    materials = bound_materials(prims, "physics", diagnostics)
    paths = [material.GetPath().pathString if material else "" for material in materials]
    return [path if path in known else "" for path in paths]


def appearances(prims: Sequence[Usd.Prim], diagnostics: list[Diagnostic]) -> list[Appearance]:
    """Returns what gprims look like, which takes a fraction of the time where all are asked for together.

    Args:
        prims: Gprims.
        diagnostics: Takes bindings that OpenUSD cannot follow, and images that are missing.
    """
    subsets = [_subsets(prim) for prim in prims]
    bearers = [*prims, *(subset for each in subsets for subset in each)]
    known: dict[str, Surface] = {}
    materials = iter(_materials(bearers, "preview", diagnostics))
    own = [_known_surface(next(materials), known, diagnostics) for _ in prims]
    found: list[Appearance] = []
    for prim, surface, parts in zip(prims, own, subsets, strict=True):
        of_parts = [_known_surface(next(materials), known, diagnostics) for _ in parts]
        shown = [*of_parts, surface][_largest(prim, parts)]
        whole = Appearance(shown.color or _display_color(prim), (Part(surface),))
        found.append(_with_parts(whole, parts, of_parts) if parts else whole)
    return found


def _with_parts(whole: Appearance, subsets: list[Usd.Prim], surfaces: list[Surface]) -> Appearance:
    parts = [
        Part(surface, _face_rows(subset))
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
    """Returns the surface of a material: the first that has a colour, else the first that has a texture."""
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
    """Returns the value of a shader's input, through what it is connected to, None where a texture gives it."""
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
    """Returns the mean of a primvar over a prim, None where none is authored."""
    primvar = UsdGeom.PrimvarsAPI(prim).FindPrimvarWithInheritance(f"primvars:{name}")
    if not primvar:
        return None
    try:
        values = np.array(primvar.ComputeFlattened(EARLIEST), dtype=np.float64)
    except (TypeError, ValueError, Tf.ErrorException):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        return values.mean(axis=0) if values.ndim and len(values) else None
