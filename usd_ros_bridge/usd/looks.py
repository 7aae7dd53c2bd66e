"""Looks: the colours that prims are seen in, and the materials that they are in contact with."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

import numpy as np
from pxr import Tf, Usd, UsdGeom, UsdShade

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.usd.attributes import EARLIEST, is_relationship
from usd_ros_bridge.usd.traversal import PREDICATE
from usd_ros_bridge.usd.values import plain

Color = tuple[float, float, float, float]

BINDING: Final = "material:binding"

RENDER_CONTEXTS: Final = ("", "mtlx", "mdl")
"""Outputs of a material that are looked at for a surface, the universal one first."""

COLOR_INPUTS: Final = ("diffuseColor", "diffuse_color_constant", "base_color", "baseColor", "diffuse_color")
"""Names of a surface's colour: UsdPreviewSurface's, then those of MDL's and MaterialX' common surfaces."""

PREVIEW_COLOR: Final = (0.18, 0.18, 0.18)
"""What UsdPreviewSurface falls back to."""


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
    if not prims:
        return []
    bearers = [_largest_part(prim) for prim in prims]
    try:
        materials, _ = UsdShade.MaterialBindingAPI.ComputeBoundMaterials(bearers, purpose)
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
    parts = [child for child in prim.GetFilteredChildren(PREDICATE) if child.IsA(UsdGeom.Subset)]
    if not parts:
        return prim
    sizes = [_length(part.GetAttribute("indices")) for part in parts]
    largest = max(sizes)
    if largest <= _length(prim.GetAttribute("faceVertexCounts")) - sum(sizes):
        return prim
    return parts[sizes.index(largest)]


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


def colors(prims: Sequence[Usd.Prim], diagnostics: list[Diagnostic]) -> list[Color | None]:
    """Returns the linear colour and opacity of each prim: that of its look, else displayColor, else None."""
    known: dict[str, Color | None] = {}
    found: list[Color | None] = []
    for prim, material in zip(prims, bound_materials(prims, "preview", diagnostics), strict=True):
        color = None
        if material:
            path = material.GetPath().pathString
            if path not in known:
                known[path] = look_color(material)
            color = known[path]
        found.append(color or _display_color(prim))
    return found


def look_color(prim: Usd.Prim) -> Color | None:
    """Returns the colour and opacity of a material's surface, None where it has none or takes it from a texture."""
    material = UsdShade.Material(prim)
    for context in RENDER_CONTEXTS:
        surface, _, _ = material.ComputeSurfaceSource(context)
        if not surface:
            continue
        color = next((value for name in COLOR_INPUTS if (value := _input(surface, name))), None)
        if color is None and not _is_connected(surface, "diffuseColor") and _is_preview(surface):
            color = PREVIEW_COLOR
        if isinstance(color, tuple) and len(color) == 3:
            opacity = _input(surface, "opacity")
            return (*color, opacity if isinstance(opacity, float) else 1.0)
    return None


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
    try:
        values = np.array(primvar.ComputeFlattened(EARLIEST) if primvar else None, dtype=np.float64)
    except (TypeError, ValueError, Tf.ErrorException):
        return None
    return values.mean(axis=0) if values.ndim and len(values) else None
