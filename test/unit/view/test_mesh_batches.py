"""Surfaces of the page: the shapes of a plan, as the URDF of the same robot and trimesh have them."""

from __future__ import annotations

import io
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("viser", reason="viser is not installed: make setup-tests")

import trimesh
from PIL import Image

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.glb_file import geometry_glb
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.surface import RenderedSurface, SurfaceMaker
from usd_ros_bridge.export.urdf import robot_urdf
from usd_ros_bridge.model.appearance import Look, Skin
from usd_ros_bridge.model.physics import Box, Capsule, Cone, Cylinder, Mesh, Plane, Sphere
from usd_ros_bridge.view.mesh_batches import Instance, MeshBatches
from usd_ros_bridge.view.page_component import Layers, Picked, Picks
from usd_ros_bridge.view.scene import robot_instances
from usd_ros_bridge.view.tf_poses import FramePoses

EXAMPLES = Path(__file__).parents[3] / "examples"
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


def test_a_mesh_that_is_not_finite_is_left_out_with_a_report() -> None:
    reports: list[str] = []
    points = SQUARE.points.copy()
    points[1] = np.nan
    assert list(maker(reports).surfaces(Mesh(points, SQUARE.triangles), RED, path="/broken")) == []
    assert reports == ["/broken has points that are not finite: the page does not show it"]


# --- Against the URDF ---


def origins(document: str) -> dict[str, list[np.ndarray]]:
    """Positions of the visuals of each link."""
    found: dict[str, list[np.ndarray]] = {}
    for link in ET.fromstring(document).iter("link"):
        for visual in link.iter("visual"):
            origin = visual.find("origin")
            text = "0 0 0" if origin is None else origin.get("xyz", "0 0 0")
            found.setdefault(link.get("name"), []).append(np.array(text.split(), dtype=float))
    return found


@pytest.mark.parametrize("name", ["rover/rover.usda", "arm/arm.usda"])
def test_shapes_hang_from_the_frames_that_the_urdf_hangs_them_from(name: str, tmp_path: Path) -> None:
    plan = load_plan(EXAMPLES / name, physics=True)
    frames = FramePoses(plan)
    ids = {row: frame for (_, frame), row in frames.rows.items()}
    instances = list(robot_instances(plan, frames, lambda *_: None))
    expected = origins(robot_urdf(plan, 0, meshes=MeshCache(tmp_path)).text)
    found: dict[str, list[np.ndarray]] = {}
    for each in instances:
        found.setdefault(ids[each.source], []).append(each)
    compared = 0
    for link, positions in expected.items():
        for position in positions:
            distances = [
                float(np.linalg.norm(world_position(each) - position)) for each in found.get(link, [])
            ]
            # What no body carries, a pedestal for instance, belongs to the world here.
            if distances:
                assert min(distances) < 1e-6, (link, position)
                compared += 1
    assert compared >= 10


def world_position(instance: Instance) -> np.ndarray:
    pose = trimesh.transformations.quaternion_matrix(np.roll(instance.source_from_shape[3:], 1))
    return pose[:3, :3] @ instance.surface.shape_from_geometry[:3] + instance.source_from_shape[:3]


# --- Batches ---


class Recorder:
    """In place of viser's server: remembers nodes, and counts what is assigned to them."""

    def __init__(self) -> None:
        self.scene = self
        self.nodes: dict[str, Node] = {}

    def add_frame(self, name: str, **options) -> Node:
        return self.nodes.setdefault(name, Node(self, name, options))

    def add_batched_meshes_simple(self, name: str, *_, **options) -> Node:
        return self.nodes.setdefault(name, Node(self, name, options))


class Node:
    def __init__(self, server: Recorder, name: str, options) -> None:
        self.__dict__.update(options, server=server, name=name)

    def on_click(self, callback) -> None:
        self.__dict__["click"] = callback

    def remove(self) -> None:
        nodes = self.server.nodes
        for name in [each for each in nodes if f"{each}/".startswith(f"{self.name}/")]:
            del nodes[name]


def test_a_thousand_robots_are_one_scene_node_that_moves_hides_and_is_clicked() -> None:
    plan_rows = 1000
    (ball,) = maker().surfaces(Sphere(0.1), RED, path="/ball")
    identity = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    instances = [
        Instance(ball, row, identity, Picked(robot=row, frame="base", path=f"/robot_{row}/ball"))
        for row in range(plan_rows)
    ]
    server, picked = Recorder(), []
    batches = MeshBatches(server, "/meshes/robots", instances, pick=picked.append)
    sources = np.tile(identity, (plan_rows, 1))
    sources[:, 0] = np.arange(plan_rows)
    batches.open(sources)
    assert sorted(server.nodes) == ["/meshes/robots", "/meshes/robots/0"]
    node = server.nodes["/meshes/robots/0"]
    np.testing.assert_array_equal(node.batched_positions[:, 0], np.arange(plan_rows))
    np.testing.assert_allclose(batches.bounds, [[-0.1, -0.1, -0.1], [999.1, 0.1, 0.1]], atol=1e-6)
    sources[:, 2] = 5.0
    batches.update(sources)
    np.testing.assert_array_equal(node.batched_positions[:, 2], 5.0)
    batches.hide_robots({3})
    assert not node.batched_scales[3].any()
    assert node.batched_scales[4].all()
    node.click(type("Event", (), {"instance_index": 7}))
    assert picked == [Picked(robot=7, frame="base", path="/robot_7/ball")]
    batches.close()
    assert not server.nodes


# --- Layers and picks ---


def test_what_the_user_chose_to_see_stays_when_the_plan_changes() -> None:
    layers, shown = Layers(), []
    layers.add("axes", "frames", shown.append, visible=False)
    layers.set("axes", True)
    layers.clear()
    layers.add("axes", "frames", shown.append, visible=False)
    assert shown == [False, True, True]
    assert layers.all["axes"].visible


def test_picks_reach_all_listeners() -> None:
    picks, heard = Picks(), []
    picks.listen(heard.append)
    picks.listen(heard.append)
    picked = Picked(robot=0, frame="base", path="/r")
    picks.notify(picked)
    assert heard == [picked, picked]
    picks.clear()
    picks.notify(picked)
    assert len(heard) == 2
