"""The scene: cameras and time samples in SI units."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from builders.records import Stage, arm, found, topics
from case_tables import each_case
from usd_ros_bridge.model.stage import StageMetrics


def camera_stage(**values: Any) -> Stage:
    stage = Stage()
    stage.context()
    stage.camera("/robot/camera", **values)
    stage.camera("/robot/unused")
    stage.frame("/robot/camera/optical")
    stage.topic("/robot/camera/optical/info", "sensor_msgs/msg/CameraInfo")
    return stage


def test_a_camera_is_a_pinhole_model() -> None:
    plan = camera_stage(
        focal_length=24.0,
        horizontal_aperture=36.0,
        vertical_aperture=24.0,
        horizontal_aperture_offset=3.6,
        vertical_aperture_offset=2.4,
        resolution=(1280, 720),
        clipping_range=(0.1, 50.0),
    ).plan()
    (camera,) = plan.scene.cameras
    assert topics(plan)["/robot/camera/optical/info"].camera == 0
    assert (camera.width, camera.height) == (1280, 720)
    assert (camera.fx, camera.fy) == pytest.approx((1280 * 24 / 36, 720.0))
    assert (camera.cx, camera.cy) == pytest.approx((1280 * 0.4, 720 * 0.6))
    assert (camera.near, camera.far) == (0.1, 50.0)


def test_fallbacks_and_units_of_a_camera() -> None:
    stage = camera_stage()
    stage.metrics = StageMetrics(meters_per_unit=0.01, up_axis="Z", time_codes_per_second=1.0)
    (camera,) = stage.plan().scene.cameras
    assert (camera.width, camera.height, camera.near) == (640, 480, 0.01)
    assert camera.fx == pytest.approx(640 * 50 / 20.955)


@each_case(
    ("values", "models"),
    [
        ({"projection": "orthographic"}, 0),
        ({"focal_length": 0.0}, 0),
        ({"horizontal_aperture": math.nan}, 0),
        ({"resolution": (0, 480)}, 1),
        ({"resolution": (9000, 480)}, 1),
    ],
)
def test_faulty_cameras(values: Any, models: int) -> None:
    plan = camera_stage(**values).plan()
    assert len(plan.scene.cameras) == models
    assert topics(plan)["/robot/camera/optical/info"].camera == models - 1
    assert found(plan, "2.8.camera")


def test_tracks_are_seconds_metres_and_radians() -> None:
    stage = arm(
        Stage(
            metrics=StageMetrics(
                meters_per_unit=0.01,
                up_axis="Z",
                time_codes_per_second=24.0,
                start_time_code=0.0,
                end_time_code=48.0,
            )
        )
    )
    matrices = np.tile(np.eye(4), (3, 1, 1))
    matrices[:, 0, 3] = [0.0, 50.0, np.nan]
    stage.pose_track("/robot/base", [0, 24, 48], matrices)
    stage.pose_track("/robot/elsewhere", [0], matrices[:1])
    stage.value_track("/robot/pan", "state:angular:physics:position", [0, 48], [0.0, 90.0])
    stage.value_track("/robot/pan", "newton:angular:position", [0], [10.0])
    stage.value_track("/robot/lift", "state:linear:physics:position", [0, 24], [1.0, math.inf])
    stage.value_track("/robot/pan", "drive:angular:physics:targetPosition", [0], [1.0])
    plan = stage.plan(schema_resolvers=("physx", "newton"))
    (poses,) = plan.scene.pose_tracks
    assert poses.time.tolist() == [0.0, 1.0]
    np.testing.assert_allclose(poses.world_from_body[:, 0], [0.0, 0.5])
    pan, lift = plan.scene.joint_tracks
    assert (plan.layout.dofs[pan.row], pan.time.tolist()) == ("pan", [0.0, 2.0])
    np.testing.assert_allclose(pan.position, [0.0, math.pi / 2])
    np.testing.assert_allclose(lift.position, [0.01])
    assert (plan.scene.start, plan.scene.end) == (0.0, 2.0)
    assert [d.path for d in found(plan, "1.1.samples")] == ["/robot/base", "/robot/lift"]
