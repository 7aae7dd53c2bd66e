"""The 3D model of the page, read by trimesh: shapes and frames where the plan has them, within the limits."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import trimesh

from usd_ros_bridge.export.glb_file import Y_UP_FROM_ROS
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.report.scene_model import MAX_FRAMES, SceneModel, build_scene

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
