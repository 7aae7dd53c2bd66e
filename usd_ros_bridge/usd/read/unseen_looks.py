"""Looks that pictures of cameras do not show: textures, parts with materials of their own, colours of points, lights.

The engine draws each shape in one colour. Materials are looked through once for all prims that are seen, and only
where the stage has a camera and an interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from pxr import Sdf, Tf, Usd, UsdGeom, UsdShade

from usd_ros_bridge.model.appearance import Unseen, UnseenKind
from usd_ros_bridge.usd.read.materials import (
    ASSET_INPUTS,
    BINDING_FAMILY,
    CONNECTED_INPUTS,
    RENDER_CONTEXTS,
    materials_of_parts,
)
from usd_ros_bridge.usd.read.properties import EARLIEST, PREDICATE, plain

EMISSION: Final[Mapping[str, tuple[Any, ...]]] = {
    "emissiveColor": ((0.0, 0.0, 0.0),),
    "emission": (0.0,),
    "emission_luminance": (0.0,),
    "enable_emission": (False,),
}
"""Inputs that make a surface shine, and values that say nothing: those of UsdPreviewSurface, MaterialX' standard and
OpenPBR surfaces, and MDL's OmniPBR."""

SURFACE_IMAGES: Final = (
    *("opacity", "metallic", "roughness", "clearcoat", "occlusion", "displacement", "normal"),
    *("metalness", "specular_roughness", "base_metalness", "geometry_normal"),
    *("normalmap_texture", "metallic_texture", "reflectionroughness_texture", "ORM_texture"),
)
"""Inputs other than colour that take their values from images, of the same surfaces. Their plain numbers say nothing:
how a surface of one colour shines is left to each renderer."""


def unseen_looks(
    prims: Sequence[Usd.Prim], lights: Iterable[Usd.Prim], *, cameras: bool
) -> tuple[Unseen, ...]:
    """Return what is authored and not shown, each once.

    Args:
        prims: Gprims that are seen.
        lights: Prims with LightAPI.
        cameras: Whether there may be pictures; False returns an empty result.
    """
    if not cameras:
        return ()
    found = dict.fromkeys(_of_shapes(prims))
    found.update(dict.fromkeys(_light(prim) for prim in lights if _shines(prim)))
    return tuple(found)


def _of_shapes(prims: Sequence[Usd.Prim]) -> Iterator[Unseen]:
    parts = [_material_subsets(prim) for prim in prims]
    bearers = [*prims, *(subset for each in parts for subset in each)]
    # Bindings that OpenUSD cannot follow are reported where colours are read.
    materials = materials_of_parts(bearers, "preview", [])
    surfaces: dict[str, tuple[Unseen, ...]] = {}
    of_parts = iter(materials[len(prims) :])
    for prim, material, subsets in zip(prims, materials, parts, strict=False):
        bound = [material, *(next(of_parts) for _ in subsets)]
        for each in bound:
            path = each.GetPath().pathString if each else ""
            if each and path not in surfaces:
                surfaces[path] = _of_material(each)
                yield from surfaces[path]
        if len({each.GetPath() if each else None for each in bound}) > 1:
            for subset in subsets:
                yield _unseen("part", subset, "indices", f"{_length(subset, 'indices')} faces")
        elif material is None and (count := _colors(prim)) > 1:
            yield _unseen("colors", prim, "primvars:displayColor", f"{count} colours")


def _material_subsets(prim: Usd.Prim) -> list[Usd.Prim]:
    """Return the parts of a mesh that materials may be bound to."""
    if not prim.IsA(UsdGeom.Mesh):
        return []
    return [
        child
        for child in prim.GetFilteredChildren(PREDICATE)
        if child.IsA(UsdGeom.Subset) and child.GetAttribute("familyName").Get() == BINDING_FAMILY
    ]


def _colors(prim: Usd.Prim) -> int:
    """Return how many different colours the points or faces of a prim have; 1 where they have none of their own."""
    primvar = UsdGeom.PrimvarsAPI(prim).GetPrimvar("displayColor")
    if not primvar or not primvar.HasAuthoredValue() or primvar.GetInterpolation() == UsdGeom.Tokens.constant:
        return 1
    try:
        values = np.array(primvar.Get(EARLIEST), dtype=np.float64)
    except (TypeError, ValueError, Tf.ErrorException):
        return 1
    return len(np.unique(values, axis=0)) if values.ndim == 2 else 1


def _of_material(prim: Usd.Prim) -> tuple[Unseen, ...]:
    material = UsdShade.Material(prim)
    try:
        for context in RENDER_CONTEXTS:
            surface, _, _ = material.ComputeSurfaceSource(context)
            if surface:
                return tuple(_of_surface(surface))
    except Tf.ErrorException:
        # Reported where colours are read.
        return ()
    return ()


def _of_surface(surface: Any) -> Iterator[Unseen]:
    for name in (*CONNECTED_INPUTS, *ASSET_INPUTS, *SURFACE_IMAGES):
        image = _image(surface, name)
        if image is not None:
            yield _unseen("texture", image.GetPrim(), image.GetName(), image.Get(EARLIEST).path)
    for name, silent in EMISSION.items():
        authored = _authored(surface, name)
        if authored is not None and not _is_one_of(authored, silent):
            yield _unseen("emission", surface.GetPrim(), f"inputs:{name}", authored)


def _image(surface: Any, name: str) -> Usd.Attribute | None:
    """Return the attribute that names the image of an input; None for none, and where 1.3.texture reports it."""
    producer = _producer(surface, name)
    if producer is not None and UsdShade.Output.IsOutput(producer):
        producer = _producer(UsdShade.Shader(producer.GetPrim()), "file")
    value = None if producer is None else producer.Get(EARLIEST)
    return producer if isinstance(value, Sdf.AssetPath) and value.resolvedPath else None


def _authored(surface: Any, name: str) -> Any:
    """Return the value of an input, the path of the shader where one gives it, None for no opinion."""
    producer = _producer(surface, name)
    if producer is None:
        return None
    if UsdShade.Output.IsOutput(producer):
        return producer.GetPrim().GetPath().pathString
    value = producer.Get(EARLIEST)
    return value.path if isinstance(value, Sdf.AssetPath) else plain(value)


def _producer(shader: Any, name: str) -> Usd.Attribute | None:
    shader_input = shader.GetInput(name) if shader else None
    attributes = shader_input.GetValueProducingAttributes() if shader_input else ()
    return attributes[0] if attributes else None


def _is_one_of(value: Any, silent: tuple[Any, ...]) -> bool:
    """Return whether a value says nothing; a float differs from the authored number by rounding."""
    for each in silent:
        if isinstance(value, str) or isinstance(each, str):
            if value == each:
                return True
        elif np.shape(value) == np.shape(each) and np.allclose(value, each, rtol=1e-6, atol=0.0):
            return True
    return False


def _length(prim: Usd.Prim, name: str) -> int:
    try:
        return len(prim.GetAttribute(name).Get(EARLIEST) or ())
    except TypeError:
        return 0


def _shines(prim: Usd.Prim) -> bool:
    imageable = UsdGeom.Imageable(prim)
    return not imageable or imageable.ComputeVisibility(EARLIEST) != UsdGeom.Tokens.invisible


def _light(prim: Usd.Prim) -> Unseen:
    return _unseen("light", prim, "", str(prim.GetTypeName()))


def _unseen(kind: UnseenKind, prim: Usd.Prim, attribute: str, value: Any) -> Unseen:
    return Unseen(kind, prim.GetPath().pathString, attribute, value)
