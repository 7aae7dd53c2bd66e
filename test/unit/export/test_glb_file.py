"""Binary glTF, read by trimesh: places, colours, textures, and what is written once."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import trimesh
from PIL import Image

from usd_ros_bridge.export.glb_file import Y_UP_FROM_ROS, GlbNode, geometry_bytes, geometry_glb, write_glb
from usd_ros_bridge.export.surface import Geometry, MeshTexture
from usd_ros_bridge.spatial.transforms import pose

TRIANGLE = Geometry(
    "triangle",
    np.array([[0, 0, 0], [2, 0, 0], [0, 1, 0]], dtype=np.float32),
    np.array([[0, 1, 2]], dtype=np.uint32),
)
RED = (1.0, 0.0, 0.0, 1.0)
GLASS = (0.0, 0.0, 1.0, 0.25)


def document_of(data: bytes) -> dict:
    magic, version, length, size = struct.unpack_from("<IIII", data)
    assert (magic, version, length) == (0x46546C67, 2, len(data))
    return json.loads(data[20 : 20 + size])


def loaded(data: bytes) -> trimesh.Scene:
    return trimesh.load(io.BytesIO(data), file_type="glb", force="scene")


def test_nodes_are_where_they_are_with_y_up() -> None:
    quarter = (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))
    data = write_glb(
        [GlbNode(geometry=TRIANGLE, pose=pose((1, 2, 3), quarter), scale=(1.0, 4.0, 1.0), name="/robot/part")]
    )
    scene = loaded(data)
    matrix, _ = scene.graph["/robot/part"]
    placed = trimesh.transform_points(next(iter(scene.geometry.values())).vertices, matrix)
    # Turned by a quarter about Z, moved, then (x, y, z) of ROS is (x, z, -y).
    np.testing.assert_allclose(placed, [[1, 3, -2], [1, 3, -4], [-3, 3, -2]], atol=1e-6)
    np.testing.assert_allclose(
        trimesh.transformations.quaternion_matrix(np.roll(Y_UP_FROM_ROS, 1))[:3, :3] @ [0, 0, 1],
        [0, 1, 0],
        atol=1e-12,
    )


def test_equal_geometries_and_materials_are_written_once() -> None:
    nodes = [GlbNode(geometry=TRIANGLE, color=color) for color in (RED, RED, GLASS)]
    document = document_of(write_glb(nodes))
    assert len(document["nodes"]) == 4
    assert len(document["meshes"]) == 2
    assert len(document["bufferViews"]) == 2
    first, second = document["materials"]
    assert first["pbrMetallicRoughness"]["baseColorFactor"] == [1.0, 0.0, 0.0, 1.0]
    assert "alphaMode" not in first
    assert second["alphaMode"] == "BLEND"


def test_many_vertices_need_wide_indices() -> None:
    count = 70_000
    geometry = Geometry(
        "many", np.zeros((count, 3), np.float32), np.array([[0, 1, count - 1]], dtype=np.uint32)
    )
    document = document_of(write_glb([GlbNode(geometry=geometry)]))
    assert document["accessors"][1]["componentType"] == 5125
    faces = next(iter(loaded(write_glb([GlbNode(geometry=geometry)])).geometry.values()))
    assert len(faces.faces) in (0, 1)


def test_a_texture_keeps_its_corners_and_is_written_once() -> None:
    image = Image.new("RGB", (2, 2))
    image.putdata([(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)])
    png = io.BytesIO()
    image.save(png, "PNG")
    uv = np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float32)
    textured = Geometry(
        "textured",
        TRIANGLE.vertices,
        TRIANGLE.faces,
        texture=MeshTexture(png.getvalue(), uv, (1.0, 1.0, 1.0, 1.0)),
    )
    mesh = next(iter(loaded(geometry_glb(textured)).geometry.values()))
    np.testing.assert_allclose(mesh.visual.uv, uv, atol=1e-6)
    assert mesh.visual.material.baseColorTexture.convert("RGB").getpixel((0, 0)) == (255, 0, 0)
    twice = document_of(write_glb([GlbNode(geometry=textured), GlbNode(geometry=textured)]))
    assert len(twice["images"]) == 1
    assert geometry_bytes(textured) == 36 + 6 + 24, "without its image"


def test_no_nodes_are_a_valid_file() -> None:
    assert not loaded(write_glb([])).geometry
    assert document_of(write_glb([]))["nodes"] == [{"name": "ros"}]
