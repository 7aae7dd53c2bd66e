"""Binary glTF 2.0: placed surfaces as one file. Equal geometries, materials and images are written once."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from usd_ros_bridge.export.surface import Geometry
from usd_ros_bridge.model.appearance import Color
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray

WHITE: Final[Color] = (1.0, 1.0, 1.0, 1.0)
Y_UP_FROM_ROS: Final = (-0.7071067811865476, 0.0, 0.0, 0.7071067811865476)
"""Rotation (x, y, z, w) of the root node: Y is up in glTF, Z in ROS."""

_VERTICES, _INDICES = 34962, 34963
_FLOAT, _SHORT, _INT = 5126, 5123, 5125
_LINEAR, _MIPMAPS, _REPEAT = 9729, 9987, 10497
_MAX_SHORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GlbNode:
    """A geometry in its place.

    Attributes:
        geometry: Its triangles.
        color: Linear red, green, blue, and opacity; a texture is multiplied by its own colour instead.
        pose: (7,) `world_from_geometry`, Z up.
        scale: Factors along the geometry's axes.
        name: Name of the node.
        extras: More facts about it, as JSON.
    """

    geometry: Geometry
    color: Color = WHITE
    pose: FloatArray = field(default_factory=lambda: IDENTITY)
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    name: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)


def write_glb(nodes: Iterable[GlbNode]) -> bytes:
    """Return nodes as binary glTF, below one root that turns Z up to Y up."""
    return _GlbWriter().write(nodes)


def geometry_glb(geometry: Geometry) -> bytes:
    """Return one geometry as binary glTF, as it is: without a turn from Z up to Y up."""
    return _GlbWriter(turned=False).write([GlbNode(geometry=geometry)])


def geometry_bytes(geometry: Geometry) -> int:
    """Return about how many bytes a geometry takes in a file, without its image: others may have the same one."""
    width = 2 if len(geometry.vertices) <= _MAX_SHORT else 4
    texture = geometry.texture
    size = geometry.vertices.nbytes + geometry.faces.size * width
    size += 0 if geometry.normals is None else geometry.normals.nbytes
    return size + (0 if texture is None else texture.uv.nbytes)


class _GlbWriter:
    def __init__(self, *, turned: bool = True) -> None:
        self._turned = turned
        self._data = bytearray()
        self._views: list[dict[str, Any]] = []
        self._accessors: list[dict[str, Any]] = []
        self._materials: list[dict[str, Any]] = []
        self._meshes: list[dict[str, Any]] = []
        self._images: list[dict[str, Any]] = []
        self._attributes: dict[str, tuple[dict[str, int], int]] = {}
        self._material_rows: dict[Any, int] = {}
        self._mesh_rows: dict[tuple[str, int], int] = {}
        self._image_rows: dict[bytes, int] = {}

    def write(self, nodes: Iterable[GlbNode]) -> bytes:
        written = [self._node(each) for each in nodes]
        document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "usd_ros_bridge"},
            "scene": 0,
            "scenes": [{"nodes": list(range(len(written)))}],
            "nodes": written,
        }
        if self._turned:
            root = {"name": "ros", "rotation": list(Y_UP_FROM_ROS), "children": list(range(len(written)))}
            # A node has one child at least.
            document["nodes"] = [*written, root if written else {"name": "ros"}]
            document["scenes"] = [{"nodes": [len(written)]}]
        parts = {
            "meshes": self._meshes,
            "materials": self._materials,
            "accessors": self._accessors,
            "bufferViews": self._views,
            "images": self._images,
            "textures": [{"source": row, "sampler": 0} for row in range(len(self._images))],
            "samplers": [{"magFilter": _LINEAR, "minFilter": _MIPMAPS, "wrapS": _REPEAT, "wrapT": _REPEAT}]
            if self._images
            else [],
            "buffers": [{"byteLength": len(self._data)}] if self._data else [],
        }
        document.update({name: rows for name, rows in parts.items() if rows})
        return _container(document, bytes(self._data))

    def _node(self, node: GlbNode) -> dict[str, Any]:
        found: dict[str, Any] = {"mesh": self._mesh(node)}
        values = [float(each) for each in node.pose]
        if any(values[:3]):
            found["translation"] = values[:3]
        if values[3:] != [0.0, 0.0, 0.0, 1.0]:
            found["rotation"] = values[3:]
        if node.scale != (1.0, 1.0, 1.0):
            found["scale"] = [float(each) for each in node.scale]
        if node.name:
            found["name"] = node.name
        if node.extras:
            found["extras"] = dict(node.extras)
        return found

    def _mesh(self, node: GlbNode) -> int:
        material = self._material(node)
        key = (node.geometry.key, material)
        if key not in self._mesh_rows:
            attributes, indices = self._geometry(node.geometry)
            self._mesh_rows[key] = len(self._meshes)
            primitive = {"attributes": attributes, "indices": indices, "material": material}
            self._meshes.append({"primitives": [primitive]})
        return self._mesh_rows[key]

    def _geometry(self, geometry: Geometry) -> tuple[dict[str, int], int]:
        if geometry.key in self._attributes:
            return self._attributes[geometry.key]
        vertices = np.ascontiguousarray(geometry.vertices, "<f4")
        bounds = {"min": vertices.min(axis=0).tolist(), "max": vertices.max(axis=0).tolist()}
        attributes = {"POSITION": self._accessor(vertices, "VEC3", _FLOAT, _VERTICES, **bounds)}
        if geometry.normals is not None:
            normals = np.ascontiguousarray(geometry.normals, "<f4")
            attributes["NORMAL"] = self._accessor(normals, "VEC3", _FLOAT, _VERTICES)
        if geometry.texture is not None:
            # The upper left corner of an image is (0, 0) in glTF.
            uv = np.ascontiguousarray(geometry.texture.uv * [1.0, -1.0] + [0.0, 1.0], "<f4")
            attributes["TEXCOORD_0"] = self._accessor(uv, "VEC2", _FLOAT, _VERTICES)
        kind, width = (_SHORT, "<u2") if len(vertices) <= _MAX_SHORT else (_INT, "<u4")
        indices = self._accessor(geometry.faces.reshape(-1).astype(width), "SCALAR", kind, _INDICES)
        self._attributes[geometry.key] = attributes, indices
        return attributes, indices

    def _accessor(self, array: Any, shape: str, kind: int, target: int, **more: Any) -> int:
        view = self._view(array.tobytes(), target=target)
        self._accessors.append(
            {"bufferView": view, "componentType": kind, "count": len(array), "type": shape, **more}
        )
        return len(self._accessors) - 1

    def _view(self, data: bytes, **more: Any) -> int:
        self._views.append({"buffer": 0, "byteOffset": len(self._data), "byteLength": len(data), **more})
        self._data += data
        self._data += bytes(-len(data) % 4)
        return len(self._views) - 1

    def _material(self, node: GlbNode) -> int:
        texture = node.geometry.texture
        image = None if texture is None else self._image(texture.png)
        color = node.color if texture is None else texture.color
        factor = tuple(round(min(max(float(each), 0.0), 1.0), 4) for each in color)
        key = (factor, image)
        if key not in self._material_rows:
            surface: dict[str, Any] = {
                "baseColorFactor": list(factor),
                "metallicFactor": 0.0,
                "roughnessFactor": 0.8,
            }
            if image is not None:
                surface["baseColorTexture"] = {"index": image}
            made: dict[str, Any] = {"pbrMetallicRoughness": surface, "doubleSided": True}
            if factor[3] < 1.0:
                made["alphaMode"] = "BLEND"
            self._material_rows[key] = len(self._materials)
            self._materials.append(made)
        return self._material_rows[key]

    def _image(self, png: bytes) -> int:
        if png not in self._image_rows:
            self._image_rows[png] = len(self._images)
            self._images.append({"bufferView": self._view(png), "mimeType": "image/png"})
        return self._image_rows[png]


def _container(document: Mapping[str, Any], data: bytes) -> bytes:
    """Return the header, the JSON chunk and the binary chunk."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text
    if data:
        chunks += struct.pack("<II", len(data), 0x004E4942) + data
    return struct.pack("<III", 0x46546C67, 2, 12 + len(chunks)) + chunks
