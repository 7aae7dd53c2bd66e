"""Surfaces of the page: shapes of a plan as triangles, one colour or texture each."""

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
from usd_ros_bridge.export.urdf.urdf_visuals import Primitive, primitives
from usd_ros_bridge.model.appearance import Color, Look, Skin
from usd_ros_bridge.model.physics import Mesh, Shape
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, pose_array

MAX_TRIANGLES: Final = 1_000_000
"""Triangles of the largest mesh that is shown."""
MAX_TEXTURE: Final = 2048
"""Width and height of a texture in the browser, pixels; larger ones are scaled down."""
_BALL_SUBDIVISIONS: Final = 3
_CYLINDER_SIDES: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Triangles. Equal ones have the same key.

    Attributes:
        key: Digest of the content.
        vertices: (V, 3) float32, metres.
        faces: (T, 3) uint32.
        flat: Facets are to be seen.
        glb: With a texture: all of it as binary glTF.
    """

    key: str
    vertices: NDArray[np.float32]
    faces: NDArray[np.uint32]
    flat: bool = True
    glb: bytes = b""


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

    def __init__(self, report: Report) -> None:
        """Args: report: For meshes and textures that cannot be shown."""
        self._report = report
        self._made: dict[int, tuple[Mesh, tuple[tuple[Geometry, Look | None], ...]]] = {}
        self._geometries: dict[str, Geometry] = {}
        self._images: dict[str, Any] = {}

    def surfaces(self, shape: Shape, color: Color, *, path: str) -> Iterator[RenderedSurface]:
        """Yield the surfaces of a shape; none of a plane without end.

        Args:
            shape: The shape.
            color: Linear red, green, blue, and opacity, where the shape has no skin.
            path: Prim path, for reports.
        """
        found = primitives(shape)
        if found is None:
            return
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
            yield RenderedSurface(geometry, color=(255, 255, 255) if geometry.glb else rgb, opacity=opacity)

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
            yield self._keep(mesh.points, mesh.triangles, flat=True), None
            return
        for number, look in enumerate(skin.looks):
            chosen = slice(None) if skin.look_rows is None else np.flatnonzero(skin.look_rows == number)
            if len(mesh.triangles[chosen]):
                yield self._skinned(mesh, skin, look, chosen, path), look

    def _skinned(self, mesh: Mesh, skin: Skin, look: Look, chosen: Any, path: str) -> Geometry:
        image = self._image(look.texture, path) if look.texture and skin.uv is not None else None
        columns = [mesh.triangles[chosen].reshape(-1)]
        has_normals = skin.normals is not None and skin.normal_triangles is not None
        if has_normals:
            assert skin.normal_triangles is not None
            columns.append(skin.normal_triangles[chosen].reshape(-1))
        if image is not None:
            assert skin.uv_triangles is not None
            columns.append(skin.uv_triangles[chosen].reshape(-1))
        # One vertex for each combination: edges between normals stay sharp, seams of a texture stay seams.
        corners, of_corner = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        vertices, faces = mesh.points[corners[:, 0]], of_corner.reshape(-1, 3)
        if image is None:
            return self._keep(vertices, faces, flat=not has_normals)
        assert skin.uv is not None
        normals = skin.normals[corners[:, 1]] if skin.normals is not None and has_normals else None
        glb = _glb(vertices, faces, normals, skin.uv[corners[:, -1]], image, look.color)
        return self._keep(vertices, faces, flat=normals is None, glb=glb)

    def _keep(self, vertices: Any, faces: Any, *, flat: bool, glb: bytes = b"") -> Geometry:
        digest = hashlib.sha256(glb)
        shown = np.ascontiguousarray(vertices, np.float32), np.ascontiguousarray(faces, np.uint32)
        for array in shown:
            digest.update(array.data)
        key = f"{digest.hexdigest()[:16]}{'f' if flat else 's'}"
        return self._geometries.setdefault(key, Geometry(key, *shown, flat=flat, glb=glb))

    def _image(self, texture: str, path: str) -> Any:
        """Return a texture as a PIL image, None if it cannot be read."""
        if texture not in self._images:
            self._images[texture] = None
            from PIL import Image, UnidentifiedImageError

            try:
                image = Image.open(io.BytesIO(read_image(texture)[0]))
                image.thumbnail((MAX_TEXTURE, MAX_TEXTURE))
                self._images[texture] = image.convert("RGBA")
            except (
                ImageError,
                UnidentifiedImageError,
                OSError,
                ValueError,
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
    import trimesh

    mesh: Any
    if tag == "box":
        mesh = trimesh.creation.box((1.0, 1.0, 1.0))
    elif tag == "sphere":
        mesh = trimesh.creation.icosphere(subdivisions=_BALL_SUBDIVISIONS, radius=1.0)
    else:
        mesh = trimesh.creation.cylinder(radius=1.0, height=1.0, sections=_CYLINDER_SIDES)
    vertices, faces = np.asarray(mesh.vertices, np.float32), np.asarray(mesh.faces, np.uint32)
    return Geometry(tag, vertices, faces, flat=tag != "sphere")


def _glb(vertices: FloatArray, faces: Any, normals: Any, uv: Any, image: Any, color: Color) -> bytes:
    import trimesh

    red, green, blue, opacity = color
    material = trimesh.visual.material.PBRMaterial(
        baseColorTexture=image,
        baseColorFactor=[round(255.0 * each) for each in (red, green, blue, opacity)],
        metallicFactor=0.0,
        roughnessFactor=0.8,
        alphaMode="BLEND" if opacity < 1.0 else "OPAQUE",
    )
    mesh = trimesh.Trimesh(
        vertices=vertices,
        faces=faces,
        vertex_normals=normals,
        visual=trimesh.visual.TextureVisuals(uv=uv, material=material),
        process=False,
    )
    data: bytes = mesh.export(file_type="glb")
    return data
