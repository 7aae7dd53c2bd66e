"""Meshes of the page in batches, and the frames that they follow, as the URDF of the same robot has them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("viser", reason="viser is not installed: make setup-tests")

import trimesh

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.surface import SurfaceMaker
from usd_ros_bridge.export.urdf import robot_urdf
from usd_ros_bridge.model.physics import Sphere
from usd_ros_bridge.view.mesh_batches import Instance, MeshBatches
from usd_ros_bridge.view.page_component import Layers, Picked, Picks
from usd_ros_bridge.view.scene import robot_instances
from usd_ros_bridge.view.tf_poses import FramePoses

pytestmark = pytest.mark.app

EXAMPLES = Path(__file__).parents[3] / "examples"
RED = (1.0, 0.0, 0.0, 1.0)


def maker() -> SurfaceMaker:
    return SurfaceMaker(lambda *_: None)


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
