"""The 3D model of the page, read by trimesh: shapes and frames where the plan has them, within the limits."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from usd_ros_bridge.export.glb_file import Y_UP_FROM_ROS
from usd_ros_bridge.model.appearance import Look, Skin
from usd_ros_bridge.model.physics import Mesh
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.report.scene_model import MAX_FRAMES, SceneModel, build_scene

pytestmark = pytest.mark.app

LIMIT = 8_000_000
ROS_FROM_Y_UP = np.linalg.inv(trimesh.transformations.quaternion_matrix(np.roll(Y_UP_FROM_ROS, 1)))


def visible(model: SceneModel) -> trimesh.Scene:
    """The scene with Z up."""
    scene = trimesh.load(io.BytesIO(model.glb), file_type="glb", force="scene")
    return scene.apply_transform(ROS_FROM_Y_UP)


def test_the_arm_stands_on_the_ground_and_ends_at_its_gripper(arm: BridgePlan) -> None:
    model = build_scene(arm, max_bytes=LIMIT)
    low, high = visible(model).bounds
    # Fingers reach down to 0.38 m in front of the pedestal; the elbow is the highest point.
    assert low[2] == pytest.approx(0.0, abs=0.02)
    assert 0.55 < high[2] < 0.75
    assert not model.notes
    assert len(model.glb) < 300_000


def test_frames_are_where_the_plan_has_them_at_rest(arm: BridgePlan) -> None:
    found = {
        each["id"]: np.array(each["matrix"]).reshape(4, 4).T
        for each in build_scene(arm, max_bytes=LIMIT).settings["frames"]
    }
    assert set(found) == {frame.id for frame in arm.robots[0].frames}
    for frame in arm.robots[0].frames:
        above = found.get(frame.parent, np.eye(4))
        pose = trimesh.transformations.quaternion_matrix(np.roll(frame.parent_from_frame.rotation, 1))
        pose[:3, 3] = frame.parent_from_frame.translation
        np.testing.assert_allclose(found[frame.id], above @ pose, atol=2e-6)


def test_the_view_looks_at_the_robot_and_not_at_the_world_around_it(rover: BridgePlan) -> None:
    settings = build_scene(rover, max_bytes=LIMIT).settings
    assert settings["radius"] < 0.6
    assert np.linalg.norm(settings["center"]) < 0.3


def test_large_meshes_become_boxes_of_their_size(arm: BridgePlan) -> None:
    whole, boxed = (build_scene(arm, max_bytes=limit) for limit in (LIMIT, 1_000))
    assert len(boxed.glb) < len(whole.glb) / 3
    assert "as boxes" in boxed.notes[0]
    assert "(--max-mesh-mb)" in boxed.notes[0]
    np.testing.assert_allclose(visible(boxed).bounds, visible(whole).bounds, atol=0.03)


@pytest.mark.parametrize(("approximation", "faces"), [("boundingCube", 12), ("boundingSphere", 100), ("", 1)])
def test_what_collides_is_shown(arm: BridgePlan, approximation: str, faces: int) -> None:
    scene = arm.physics
    assert scene is not None
    mesh = Mesh(
        np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], dtype=np.int32), approximation=approximation
    )
    collider = replace(scene.colliders[0], shape=mesh, color=None)
    plan = replace(arm, physics=replace(scene, visuals=(), colliders=(collider,)))
    (shown,) = visible(build_scene(plan, max_bytes=LIMIT)).geometry.values()
    assert len(shown.faces) == faces if faces < 100 else len(shown.faces) >= faces


def test_an_image_that_meshes_share_counts_once(arm: BridgePlan, tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "atlas.png")
    size = (tmp_path / "atlas.png").stat().st_size
    triangle = np.array([[0, 1, 2]], dtype=np.int32)
    skin = Skin(
        looks=(Look(color=(1.0, 1.0, 1.0, 1.0), texture=str(tmp_path / "atlas.png")),),
        uv=np.eye(3, 2, dtype=np.float32),
        uv_triangles=triangle,
    )
    assert arm.physics is not None
    visual = replace(arm.physics.visuals[0], color=(1.0, 1.0, 1.0, 1.0))
    meshes = [Mesh((1.0 + row) * np.eye(3, dtype=np.float32), triangle, skin=skin) for row in range(4)]
    visuals = tuple(replace(visual, shape=mesh) for mesh in meshes)
    plan = replace(arm, physics=replace(arm.physics, visuals=visuals, colliders=()))
    whole = build_scene(plan, max_bytes=size + 10_000)
    assert whole.notes == ()
    assert size < len(whole.glb) < size + 20_000
    boxed = build_scene(plan, max_bytes=size // 2)
    assert "shows 4 of 4 meshes as boxes" in boxed.notes[0]
    assert len(boxed.glb) < 10_000


def test_frames_have_a_limit_that_the_page_names(arm: BridgePlan) -> None:
    robot = arm.robots[0]
    frames = tuple(replace(robot.frames[0], id=f"frame_{row}") for row in range(MAX_FRAMES + 5))
    model = build_scene(replace(arm, robots=(replace(robot, frames=frames),)), max_bytes=LIMIT)
    assert len(model.settings["frames"]) == MAX_FRAMES
    assert model.notes == (f"the 3D view shows {MAX_FRAMES} of {MAX_FRAMES + 5} frames",)


def test_a_plan_without_physics_shows_frames_alone(arm: BridgePlan) -> None:
    model = build_scene(replace(arm, physics=None), max_bytes=LIMIT)
    assert model.glb == b""
    assert model.settings["shapes"] == 0
    assert len(model.settings["frames"]) == len(arm.robots[0].frames)
