"""The scene: cameras and time samples in SI units."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Gf

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
        vertical_aperture=20.25,
        horizontal_aperture_offset=3.6,
        vertical_aperture_offset=2.4,
        resolution=(1280, 720),
        clipping_range=(0.1, 50.0),
    ).plan()
    (camera,) = plan.scene.cameras
    assert topics(plan)["/robot/camera/optical/info"].camera == 0
    assert (camera.width, camera.height) == (1280, 720)
    assert (camera.near, camera.far) == (0.1, 50.0)
    # OpenUSD's own projection: -1 to 1 over the picture, whose first pixel has its centre half a pixel inside.
    lens = Gf.Camera(
        focalLength=24.0,
        horizontalAperture=36.0,
        verticalAperture=20.25,
        horizontalApertureOffset=3.6,
        verticalApertureOffset=2.4,
        clippingRange=Gf.Range1f(0.1, 50.0),
    )
    projection = lens.frustum.ComputeProjectionMatrix()
    for right, down, ahead in ((0.0, 0.0, 1.0), (0.4, -0.3, 2.0), (-1.0, 0.7, 3.0)):
        across, up, _ = projection.Transform(Gf.Vec3d(right, -down, -ahead))
        pixel = 1280 * (across + 1.0) / 2.0 - 0.5, 720 * (1.0 - up) / 2.0 - 0.5
        ours = camera.fx * right / ahead + camera.cx, camera.fy * down / ahead + camera.cy
        assert ours == pytest.approx(pixel, abs=1e-3)
    assert not found(plan, "2.8.camera")


@each_case(
    ("size", "aperture", "is_said"),
    [
        ((640, 480), None, False),
        ((1280, 720), None, False),
        ((1280, 720), 15.2908, True),
        ((1280, 720), 20.955 * 720 / 1280, False),
        ((480, 640), 15.2908, True),
    ],
)
def test_pixels_are_square(size: tuple[int, int], aperture: float | None, is_said: bool) -> None:
    plan = camera_stage(focal_length=24.0, vertical_aperture=aperture, resolution=size).plan()
    (camera,) = plan.scene.cameras
    assert camera.fx == camera.fy == pytest.approx(size[0] * 24.0 / 20.955)
    assert (camera.cx, camera.cy) == ((size[0] - 1) / 2, (size[1] - 1) / 2)
    assert [(each.severity, each.attribute) for each in found(plan, "2.8.camera")] == (
        [("info", "verticalAperture")] if is_said else []
    )


def test_lenses_that_do_not_fit_are_said_once_for_an_asset() -> None:
    stage = camera_stage(vertical_aperture=15.2908, resolution=(1280, 720))
    stage.camera("/robot/second", vertical_aperture=15.2908, resolution=(1280, 720))
    stage.topic("/robot/second/info", "sensor_msgs/msg/CameraInfo")
    said = [each for each in found(stage.plan(), "2.8.camera") if each.severity == "info"]
    assert [each.path for each in said] == ["/robot/camera"]
    assert "1 more" in said[0].message


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
