"""Textures: the image that a surface takes its colour from, and how it lies on a mesh."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pxr import Ar, Sdf, UsdShade

from usd_ros_bridge.model.diagnostics import Diagnostic, quoted
from usd_ros_bridge.usd.attributes import EARLIEST
from usd_ros_bridge.usd.packages import is_package_path, split_package_path
from usd_ros_bridge.usd.values import plain

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
        """Returns (U, 2) coordinates after this transform."""
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
    """Returns the texture that a surface shader takes its colour from, None for none.

    Args:
        surface: The shader of a material's surface.
        diagnostics: Takes images that are missing or may not be used.
    """
    for name in CONNECTED_INPUTS:
        shader = _source(surface, name)
        if shader is not None and _value(shader, "file") is not None:
            primvar, placements = _coordinates(shader)
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
    """Returns the shader that an input is connected to, None for none."""
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


def _coordinates(shader: Any) -> tuple[str, tuple[Placement, ...]]:
    """Returns the primvar that a texture's coordinates come from, and the transforms between."""
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
    """Returns the file that an input names, "" where it names none that can be read."""
    attribute = _producers(shader, name)[0]
    value = attribute.Get(EARLIEST)
    if not isinstance(value, Sdf.AssetPath):
        fault, remedy = f"is {quoted(value)} and no asset path", "author it as an asset"
    else:
        fault, remedy = _fault(value)
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


def _fault(value: Sdf.AssetPath) -> tuple[str, str]:
    """Returns what is wrong with an image's path, "" for nothing, and what to do."""
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
