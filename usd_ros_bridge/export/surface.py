"""Surfaces for pages in a browser: shapes of a plan as triangles, one colour or texture each."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.export.mesh_files import ImageError, read_image
from usd_ros_bridge.export.urdf.urdf_visuals import Primitive, collision_geometry, primitives
from usd_ros_bridge.model.appearance import Color, Look, Skin
from usd_ros_bridge.model.physics import Mesh, Shape
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, pose_array

MAX_TRIANGLES: Final = 1_000_000
"""Triangles of the largest mesh that is shown."""
MAX_TEXTURE: Final = 2048
"""Width and height of a texture in the browser, pixels; larger ones are scaled down."""
_BALL_RINGS: Final = 16
_CYLINDER_SIDES: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class MeshTexture:
    """An image on a geometry.

    Attributes:
        png: The image.
        uv: (V, 2) float32 texture coordinates, (0, 0) the lower left corner of the image.
        color: Linear red, green, blue, and opacity, which the image is multiplied by.
    """

    png: bytes
    uv: NDArray[np.float32]
    color: Color


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Triangles. Equal ones have the same key.

    Attributes:
        key: Digest of the content.
        vertices: (V, 3) float32, metres.
        faces: (T, 3) uint32.
        normals: (V, 3) float32 unit vectors that light falls on; None where facets are to be seen.
        texture: The image that it takes its colour from.
    """

    key: str
    vertices: NDArray[np.float32]
    faces: NDArray[np.uint32]
    normals: NDArray[np.float32] | None = None
    texture: MeshTexture | None = None

    @property
    def flat(self) -> bool:
        """Return whether facets are to be seen."""
        return self.normals is None


@dataclass(frozen=True, slots=True, eq=False)
class RenderedSurface:
    """A geometry with its place and appearance.

    Attributes:
        geometry: The triangles.
        shape_from_geometry: (7,) pose.
        scale: Factors along X, Y and Z.
        color: Linear, 0 to 255, as viser has the colours of instances; white where the texture has the colour.
        opacity: 0 to 1.
    """

    geometry: Geometry
    shape_from_geometry: FloatArray = field(default_factory=lambda: IDENTITY)
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    color: tuple[int, int, int] = (153, 153, 153)
    opacity: float = 1.0


class SurfaceMaker:
    """Make the surfaces of shapes. Meshes that are the same become one geometry."""

    def __init__(self, report: Report, *, max_texture: int = MAX_TEXTURE) -> None:
        """Store the settings.

        Args:
            report: For meshes and textures that cannot be shown.
            max_texture: Width and height of textures, pixels; larger ones are scaled down.
        """
        self._report = report
        self._max_texture = max_texture
        self._made: dict[int, tuple[Mesh, tuple[tuple[Geometry, Look | None], ...]]] = {}
        self._geometries: dict[str, Geometry] = {}
        self._images: dict[str, bytes] = {}

    def surfaces(
        self, shape: Shape, color: Color, *, path: str, collision: bool = False
    ) -> Iterator[RenderedSurface]:
        """Yield the surfaces of a shape; none of a plane without end.

        Args:
            shape: The shape.
            color: Linear red, green, blue, and opacity, where the shape has no skin.
            path: Prim path, for reports.
            collision: Show what collides: the box or ball around a mesh whose approximation is one.
        """
        found = primitives(shape)
        if found is None:
            return
        if collision and isinstance(found, Mesh):
            found = collision_geometry(found)
        if isinstance(found, Mesh):
            yield from self._mesh_surfaces(found, color, path)
            return
        for primitive in found:
            yield _primitive_surface(primitive, color)

    def _mesh_surfaces(self, mesh: Mesh, color: Color, path: str) -> Iterator[RenderedSurface]:
        made = self._made.get(id(mesh))
        if made is None:
            # The mesh is kept: its identity is not given to another one.
            made = self._made[id(mesh)] = (mesh, tuple(self._geometries_of(mesh, path)))
        for geometry, look in made[1]:
            shown = color if look is None else look.color
            rgb, opacity = _color(shown)
            yield RenderedSurface(
                geometry, color=(255, 255, 255) if geometry.texture else rgb, opacity=opacity
            )

    def _geometries_of(self, mesh: Mesh, path: str) -> Iterator[tuple[Geometry, Look | None]]:
        if not len(mesh.triangles):
            return
        if len(mesh.triangles) > MAX_TRIANGLES:
            self._report(
                f"view.mesh:{path}",
                f"{path} has {len(mesh.triangles)} triangles, more than {MAX_TRIANGLES}: the page does not show it",
            )
            return
        points = mesh.points[mesh.triangles]
        if not np.isfinite(points).all():
            self._report(
                f"view.mesh:{path}", f"{path} has points that are not finite: the page does not show it"
            )
            return
        skin = mesh.skin
        if skin is None:
            yield self._keep(mesh.points, mesh.triangles), None
            return
        for number, look in enumerate(skin.looks):
            chosen = slice(None) if skin.look_rows is None else np.flatnonzero(skin.look_rows == number)
            if len(mesh.triangles[chosen]):
                yield self._skinned(mesh, skin, look, chosen, path), look

    def _skinned(self, mesh: Mesh, skin: Skin, look: Look, chosen: Any, path: str) -> Geometry:
        png = self._image(look.texture, path) if look.texture and skin.uv is not None else b""
        columns = [mesh.triangles[chosen].reshape(-1)]
        has_normals = skin.normals is not None and skin.normal_triangles is not None
        if has_normals:
            assert skin.normal_triangles is not None
            columns.append(skin.normal_triangles[chosen].reshape(-1))
        if png:
            assert skin.uv_triangles is not None
            columns.append(skin.uv_triangles[chosen].reshape(-1))
        # One vertex for each combination: edges between normals stay sharp, seams of a texture stay seams.
        corners, of_corner = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        vertices, faces = mesh.points[corners[:, 0]], of_corner.reshape(-1, 3)
        normals = skin.normals[corners[:, 1]] if skin.normals is not None and has_normals else None
        texture = None
        if png:
            assert skin.uv is not None
            texture = MeshTexture(png, np.ascontiguousarray(skin.uv[corners[:, -1]], np.float32), look.color)
        return self._keep(vertices, faces, normals, texture)

    def _keep(
        self, vertices: Any, faces: Any, normals: Any = None, texture: MeshTexture | None = None
    ) -> Geometry:
        digest = hashlib.sha256()
        shown = np.ascontiguousarray(vertices, np.float32), np.ascontiguousarray(faces, np.uint32)
        kept = None if normals is None else np.ascontiguousarray(normals, np.float32)
        arrays: list[Any] = [
            *shown,
            *([] if kept is None else [kept]),
            *([] if texture is None else [texture.uv]),
        ]
        for array in arrays:
            digest.update(array.data)
        if texture is not None:
            digest.update(texture.png + repr(texture.color).encode())
        # A mesh with normals and one with texture coordinates are never one, whatever their numbers.
        key = f"{digest.hexdigest()[:16]}{'f' if kept is None else 's'}{'t' if texture else ''}"
        return self._geometries.setdefault(key, Geometry(key, *shown, kept, texture))

    def _image(self, texture: str, path: str) -> bytes:
        """Return a texture as PNG, empty if it cannot be read."""
        if texture not in self._images:
            self._images[texture] = b""
            from PIL import Image, UnidentifiedImageError

            try:
                image = Image.open(io.BytesIO(read_image(texture)[0]))
                image.thumbnail((self._max_texture, self._max_texture))
                written = io.BytesIO()
                image.convert("RGBA" if image.has_transparency_data else "RGB").save(written, "PNG")
                self._images[texture] = written.getvalue()
            except (
                ImageError,
                UnidentifiedImageError,
                OSError,
                ValueError,
                # Of Pillow, for a damaged chunk.
                SyntaxError,
                Image.DecompressionBombError,
            ) as error:
                self._report(f"view.texture:{path}", f"the page shows {path} without its texture: {error}")
        return self._images[texture]


def _color(color: Color) -> tuple[tuple[int, int, int], float]:
    red, green, blue = (round(255.0 * min(max(each, 0.0), 1.0)) for each in color[:3])
    return (red, green, blue), color[3]


def _primitive_surface(primitive: Primitive, color: Color) -> RenderedSurface:
    rgb, opacity = _color(color)
    sizes = primitive.sizes
    if primitive.tag == "box":
        x, y, z = sizes["size"]
        scale = (x, y, z)
    elif primitive.tag == "sphere":
        (radius,) = sizes["radius"]
        scale = (radius, radius, radius)
    else:
        (radius,), (length,) = sizes["radius"], sizes["length"]
        scale = (radius, radius, length)
    return RenderedSurface(
        _unit(primitive.tag), pose_array(primitive.shape_from_primitive), scale, color=rgb, opacity=opacity
    )


@lru_cache(maxsize=8)
def _unit(tag: str) -> Geometry:
    """Return a box of side 1, a ball of radius 1, or a cylinder of radius and length 1: scales make all others."""
    if tag == "sphere":
        vertices, faces = _ball(_BALL_RINGS, 2 * _BALL_RINGS)
        # A point of the ball is its own normal.
        return Geometry(tag, vertices, faces, normals=vertices)
    vertices, faces = _prism(_SQUARE) if tag == "box" else _prism(_circle(_CYLINDER_SIDES))
    return Geometry(tag, vertices, faces)


_SQUARE: Final = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])


def _circle(sides: int) -> FloatArray:
    angles = np.arange(sides) * (2.0 * np.pi / sides)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _prism(outline: FloatArray) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """Return vertices and faces of a prism of height 1 over a convex outline, counter-clockwise."""
    sides = len(outline)
    low, high = np.full((sides, 1), -0.5), np.full((sides, 1), 0.5)
    vertices = np.vstack([np.hstack([outline, low]), np.hstack([outline, high])])
    first = np.arange(sides)
    second = (first + 1) % sides
    walls = np.vstack(
        [
            np.column_stack([first, second, second + sides]),
            np.column_stack([first, second + sides, first + sides]),
        ]
    )
    fan = np.arange(1, sides - 1)
    top = np.column_stack([np.full(sides - 2, sides), fan + sides, fan + sides + 1])
    bottom = np.column_stack([np.zeros(sides - 2, int), fan + 1, fan])
    return vertices.astype(np.float32), np.vstack([walls, top, bottom]).astype(np.uint32)


def _ball(rings: int, sides: int) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """Return vertices and faces of a ball of radius 1, by latitudes and longitudes."""
    latitudes = np.pi * (np.arange(1, rings) / rings - 0.5)
    circle = _circle(sides)
    between = [np.column_stack([np.cos(at) * circle, np.full(sides, np.sin(at))]) for at in latitudes]
    vertices = np.vstack([*between, [[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]])
    first = np.arange(sides)
    second = (first + 1) % sides
    south, north, last = len(vertices) - 2, len(vertices) - 1, (rings - 2) * sides
    faces = [np.column_stack([second, first, np.full(sides, south)])]
    for base in range(0, last, sides):
        above = base + sides
        faces.append(np.column_stack([base + first, base + second, above + second]))
        faces.append(np.column_stack([base + first, above + second, above + first]))
    faces.append(np.column_stack([last + first, last + second, np.full(sides, north)]))
    return vertices.astype(np.float32), np.vstack(faces).astype(np.uint32)
