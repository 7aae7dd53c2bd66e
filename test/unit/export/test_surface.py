"""Surfaces of pages: the shapes of a plan, as trimesh has them."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from usd_ros_bridge.export.glb_file import geometry_glb
from usd_ros_bridge.export.surface import RenderedSurface, SurfaceMaker
from usd_ros_bridge.model.appearance import Look, Skin
from usd_ros_bridge.model.physics import Box, Capsule, Cone, Cylinder, Mesh, Plane, Sphere

RED = (1.0, 0.0, 0.0, 1.0)
SQUARE = Mesh(
    np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 0.0]]),
    np.array([[0, 1, 2], [0, 2, 3]], dtype=np.int32),
)


def maker(reports: list[str] | None = None) -> SurfaceMaker:
    return SurfaceMaker(lambda _, message: (reports if reports is not None else []).append(message))


def placed(surface: RenderedSurface) -> trimesh.Trimesh:
    """The triangles of a surface in its shape, by trimesh."""
    pose = trimesh.transformations.quaternion_matrix(np.roll(surface.shape_from_geometry[3:], 1))
    pose[:3, 3] = surface.shape_from_geometry[:3]
    mesh = trimesh.Trimesh(
        surface.geometry.vertices * np.array(surface.scale), surface.geometry.faces, process=False
    )
    return mesh.apply_transform(pose)


@pytest.mark.parametrize(
    ("shape", "volume", "extents"),
    [
        (Box((0.1, 0.2, 0.3)), 8 * 0.1 * 0.2 * 0.3, (0.2, 0.4, 0.6)),
        (Sphere(0.5), 4 / 3 * math.pi * 0.125, (1.0, 1.0, 1.0)),
        (Cylinder(0.2, 0.5), math.pi * 0.04, (0.4, 0.4, 1.0)),
        (Cone(0.3, 0.5), math.pi * 0.09 / 3, (0.6, 0.6, 1.0)),
    ],
)
def test_primitives_have_their_sizes(shape, volume: float, extents) -> None:
    (surface,) = maker().surfaces(shape, RED, path="/p")
    mesh = placed(surface)
    assert mesh.volume == pytest.approx(volume, rel=0.02)
    np.testing.assert_allclose(mesh.extents, extents, rtol=0.02)


def test_a_capsule_is_a_cylinder_and_two_balls() -> None:
    parts = [placed(each) for each in maker().surfaces(Capsule(0.2, 0.5), RED, path="/p")]
    whole = trimesh.util.concatenate(parts)
    np.testing.assert_allclose(whole.extents, (0.4, 0.4, 1.4), rtol=0.02)


def test_an_endless_plane_is_no_surface() -> None:
    assert list(maker().surfaces(Plane(), RED, path="/p")) == []


def test_colours_are_linear_numbers_of_eight_bits() -> None:
    (surface,) = maker().surfaces(Sphere(1.0), (0.5, 0.25, 2.0, 0.4), path="/p")
    assert surface.color == (128, 64, 255)
    assert surface.opacity == 0.4


def test_equal_meshes_of_different_robots_are_one_geometry() -> None:
    made = maker()
    copy = Mesh(SQUARE.points.copy(), SQUARE.triangles.copy())
    (first,), (second,) = (list(made.surfaces(mesh, RED, path="/p")) for mesh in (SQUARE, copy))
    assert first.geometry is second.geometry


def test_each_look_of_a_mesh_is_a_surface_with_its_triangles() -> None:
    skin = Skin(
        looks=(Look(color=(1.0, 0.0, 0.0, 1.0)), Look(color=(0.0, 1.0, 0.0, 0.5))),
        look_rows=np.array([0, 1], dtype=np.int32),
    )
    mesh = Mesh(SQUARE.points, SQUARE.triangles, skin=skin)
    surfaces = list(maker().surfaces(mesh, RED, path="/p"))
    assert [each.color for each in surfaces] == [(255, 0, 0), (0, 255, 0)]
    assert [each.opacity for each in surfaces] == [1.0, 0.5]
    assert [placed(each).area for each in surfaces] == pytest.approx([1.0, 1.0])


def test_a_texture_keeps_its_picture_coordinates_and_normals(tmp_path: Path) -> None:
    picture = Image.new("RGB", (2, 1))
    picture.putdata([(255, 0, 0), (0, 0, 255)])
    picture.save(tmp_path / "flag.png")
    skin = Skin(
        looks=(Look(color=(1.0, 1.0, 1.0, 1.0), texture=str(tmp_path / "flag.png")),),
        uv=np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], dtype=np.float32),
        uv_triangles=SQUARE.triangles,
        normals=np.array([[0.0, 0.0, 1.0]], dtype=np.float32),
        normal_triangles=np.zeros((2, 3), dtype=np.int32),
    )
    (surface,) = maker().surfaces(Mesh(SQUARE.points, SQUARE.triangles, skin=skin), RED, path="/p")
    loaded = trimesh.load(io.BytesIO(geometry_glb(surface.geometry)), file_type="glb", force="mesh")
    assert loaded.area == pytest.approx(2.0)
    np.testing.assert_allclose(loaded.vertex_normals, np.tile((0.0, 0.0, 1.0), (4, 1)), atol=1e-6)
    # Each corner of the square has the corner of the picture that it had.
    for point, uv in zip(loaded.vertices, loaded.visual.uv, strict=True):
        np.testing.assert_allclose(uv, (point[0] / 2.0, point[1]), atol=1e-6)
    assert loaded.visual.material.baseColorTexture.convert("RGB").getpixel((0, 0)) == (255, 0, 0)


def test_a_texture_that_is_missing_is_one_report_and_a_colour(tmp_path: Path) -> None:
    reports: list[str] = []
    look = Look(color=(0.0, 1.0, 0.0, 1.0), texture=str(tmp_path / "none.png"))
    skin = Skin(looks=(look,), uv=np.zeros((4, 2), dtype=np.float32), uv_triangles=SQUARE.triangles)
    made = maker(reports)
    for _ in range(2):
        (surface,) = made.surfaces(Mesh(SQUARE.points, SQUARE.triangles, skin=skin), RED, path="/p")
        assert surface.color == (0, 255, 0)
    assert len(reports) == 1
    assert "without its texture" in reports[0]


def test_a_damaged_texture_is_one_report_and_a_colour(tmp_path: Path) -> None:
    """As a tool left it that was killed: the second piece of the picture is no piece."""
    noise = np.random.default_rng(1).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    written = io.BytesIO()
    Image.fromarray(noise).save(written, "PNG")
    parts = written.getvalue().split(b"IDAT")
    assert len(parts) > 2
    (tmp_path / "broken.png").write_bytes(b"IDAT".join(parts[:2]) + b"\0\0\0\0" + b"IDAT".join(parts[2:]))
    reports: list[str] = []
    look = Look(color=(0.0, 1.0, 0.0, 1.0), texture=str(tmp_path / "broken.png"))
    skin = Skin(looks=(look,), uv=np.zeros((4, 2), dtype=np.float32), uv_triangles=SQUARE.triangles)
    (surface,) = maker(reports).surfaces(Mesh(SQUARE.points, SQUARE.triangles, skin=skin), RED, path="/p")
    assert surface.color == (0, 255, 0)
    assert len(reports) == 1


def test_a_mesh_that_is_not_finite_is_left_out_with_a_report() -> None:
    reports: list[str] = []
    points = SQUARE.points.copy()
    points[1] = np.nan
    assert list(maker(reports).surfaces(Mesh(points, SQUARE.triangles), RED, path="/broken")) == []
    assert reports == ["/broken has points that are not finite: the page does not show it"]


@pytest.mark.parametrize("shape", [Box((0.1, 0.2, 0.3)), Sphere(0.5), Cylinder(0.2, 0.5)])
def test_primitives_are_closed_and_face_outwards(shape) -> None:
    (surface,) = maker().surfaces(shape, RED, path="/p")
    mesh = placed(surface)
    assert mesh.is_watertight
    assert mesh.is_winding_consistent
    assert mesh.volume > 0.0
    normals = surface.geometry.normals
    if normals is not None:
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-6)
