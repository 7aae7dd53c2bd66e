"""Rays: what a scanner, a cloud and a range finder see, against geometry that is solved by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

from sensor_scenes import at, body, room, solid, world

from usd_ros_bridge.model.physics import WORLD_BODY, Box, Plane, Sphere
from usd_ros_bridge.model.sensors import DepthCloudSensor, RangeSensor, RaySensor
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose

LENGTH, WIDTH = 8.0, 6.0


def scanner(
    path: str = "/scan", *, on: int = WORLD_BODY, pose: Pose = IDENTITY_POSE, **others: Any
) -> RaySensor:
    options: dict[str, Any] = {
        "angle_min": -np.pi, "angle_max": np.pi * 179.0 / 180.0, "samples": 360, "range_min": 0.1, "range_max": 20.0,
    }  # fmt: skip
    return RaySensor(
        path=path, type="sensor_msgs/msg/LaserScan", rate=10.0, body=on, body_from_sensor=pose, **options | others
    )  # fmt: skip


def cloud(
    path: str = "/points", *, on: int = WORLD_BODY, pose: Pose = IDENTITY_POSE, **others: Any
) -> RaySensor:
    options: dict[str, Any] = {
        "angle_min": -np.pi, "angle_max": np.pi * 0.75, "samples": 8, "rings": 3, "elevation_min": -0.5,
        "elevation_max": 0.5, "range_min": 0.1, "range_max": 20.0,
    }  # fmt: skip
    return RaySensor(
        path=path, type="sensor_msgs/msg/PointCloud2", rate=10.0, body=on, body_from_sensor=pose, **options | others
    )  # fmt: skip


def range_finder(*, field_of_view: float = 0.3, **others: Any) -> RangeSensor:
    return RangeSensor(
        path="/range", type="sensor_msgs/msg/Range", rate=10.0, angle_min=-field_of_view / 2.0,
        angle_max=field_of_view / 2.0, samples=32, rings=8, range_min=0.02, range_max=4.0,
        field_of_view=field_of_view, **others,
    )  # fmt: skip


def in_room(x: float, y: float, yaw: float, azimuth: np.ndarray) -> np.ndarray:
    """Returns distances from a place in the room to its walls."""
    cosine, sine = np.cos(azimuth + yaw), np.sin(azimuth + yaw)
    with np.errstate(divide="ignore"):
        across = np.where(cosine > 0.0, (LENGTH / 2.0 - x) / cosine, (-LENGTH / 2.0 - x) / cosine)
        along = np.where(sine > 0.0, (WIDTH / 2.0 - y) / sine, (-WIDTH / 2.0 - y) / sine)
    return np.minimum(np.where(across > 0.0, across, np.inf), np.where(along > 0.0, along, np.inf))


@each_case(("x", "y", "yaw"), [(0.0, 0.0, 0.0), (1.3, -0.7, 0.4), (-3.0, 2.0, -2.0)])
def test_scan_of_a_room(x: float, y: float, yaw: float) -> None:
    found = world(scanner(pose=at(x, y, 0.3, turn=yaw)), colliders=room(LENGTH, WIDTH)).sense("/scan")
    azimuth = np.linspace(-np.pi, np.pi * 179.0 / 180.0, 360)
    np.testing.assert_allclose(found["ranges"], in_room(x, y, yaw, azimuth), atol=2e-6)
    assert found["ranges"].dtype == np.float32
    assert float(found["angle_min"]) == -np.pi
    assert float(found["angle_max"]) == azimuth[-1]
    assert (float(found["range_min"]), float(found["range_max"]), float(found["scan_time"])) == (
        0.1, 20.0, 0.1,
    )  # fmt: skip


def test_scan_says_too_near_and_nothing_as_rep_117_does() -> None:
    near = solid("/near", Sphere(0.1), at=at(0.15))
    far = solid("/far", Box((1.0, 0.1, 1.0)), at=at(0.0, 5.1))
    sensor = scanner(samples=4, angle_min=0.0, angle_max=1.5 * np.pi, range_max=4.9)
    ranges = world(sensor, colliders=(near, far)).sense("/scan")["ranges"]
    assert ranges.tolist() == [-np.inf, np.inf, np.inf, np.inf]


def test_range_max_itself_is_valid() -> None:
    wall = solid("/wall", Box((0.1, 1.0, 1.0)), at=at(5.1))
    sensor = scanner(samples=1, angle_min=0.0, angle_max=0.0, range_max=5.0001)
    assert world(sensor, colliders=(wall,)).sense("/scan")["ranges"] == pytest.approx([5.0], abs=1e-5)


def hidden_mast() -> dict[str, Any]:
    """Returns two robots on a line along X: a lidar with a mast of its own robot before it, then another robot."""
    return {
        "bodies": (
            body("/robot", robot=0),
            body("/robot/mast", robot=0, kinematic=True, world_from_body=at(1.0)),
            body("/other", robot=1, kinematic=True, world_from_body=at(3.0)),
        ),
        "colliders": (
            solid("/robot/shell", Sphere(0.2), on=0, color=(1.0, 0.0, 0.0, 0.0)),
            solid("/robot/mast/pole", Sphere(0.25), on=1),
            solid("/other/shell", Sphere(0.5), on=2),
        ),
        "gravity": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(("exclude_robot", "first"), [(True, 2.5), (False, 0.75)])
def test_rays_pass_through_the_robot_or_what_carries_them(exclude_robot: bool, first: float) -> None:
    sensor = scanner(on=0, samples=1, angle_min=0.0, angle_max=0.0, exclude_robot=exclude_robot)
    assert world(sensor, **hidden_mast()).sense("/scan")["ranges"] == pytest.approx([first], abs=1e-6)


def test_each_robot_passes_through_itself_alone() -> None:
    ahead: dict[str, Any] = {"samples": 1, "angle_min": 0.0, "angle_max": 0.0}
    there = world(
        scanner("/a", on=0, **ahead),
        scanner("/b", on=2, pose=at(turn=np.pi), **ahead),
        scanner("/c", pose=at(-2.0), **ahead),
        **hidden_mast(),
    )
    for _ in range(2):
        measured = [float(there.sense(prim)["ranges"][0]) for prim in ("/a", "/b", "/c")]
        assert measured == pytest.approx([2.5, 1.75, 1.8], abs=1e-6)


def test_what_nobody_sees_is_hit() -> None:
    glass = solid("/glass", Box((0.1, 1.0, 1.0)), at=at(2.1), color=(1.0, 1.0, 1.0, 0.0))
    guide = solid("/guide", Box((0.1, 1.0, 1.0)), at=at(-3.1))
    sensor = scanner(samples=2, angle_min=0.0, angle_max=np.pi)
    assert world(sensor, colliders=(glass, guide)).sense("/scan")["ranges"] == pytest.approx(
        [2.0, 3.0], abs=1e-6
    )


def test_scan_shows_the_state_of_its_stamp() -> None:
    falling = body("/falling", world_from_body=at(0.0, 0.0, 100.0))
    down = at(axis="Y", turn=np.pi / 2.0)
    sensor = scanner(on=0, pose=down, samples=1, angle_min=0.0, angle_max=0.0, range_max=1000.0)
    there = world(sensor, bodies=(falling,), colliders=(solid("/ground", Plane()),))
    there.run(0.5)
    height = float(there.simulation.world_from_body(0)[2])
    assert 95.0 < height < 99.0
    assert there.sense("/scan")["ranges"] == pytest.approx([height], abs=1e-5)


def test_cloud_is_organised_from_the_lowest_ring_up() -> None:
    there = world(cloud(pose=at(0.5, -0.2, 1.0, turn=0.3)), colliders=(solid("/ground", Plane()),))
    found = there.sense("/points")
    points, height = found["points"].reshape(3, 8, 3), int(found["height"])
    assert height == 3
    assert found["points"].dtype == np.float32
    azimuth = np.linspace(-np.pi, np.pi * 0.75, 8)
    flat = 1.0 / np.tan(0.5)
    expected = np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.full(8, -1.0)], axis=-1)
    np.testing.assert_allclose(points[0], expected, atol=1e-6)
    assert np.isnan(points[1:]).all()


def test_cloud_of_a_camera_is_what_its_pixels_see() -> None:
    """A camera that looks along X at a wall 3 m ahead: the optical frame has Z forward, X right and Y down."""
    optical = Pose((0.0, 0.0, 1.0), (-0.5, 0.5, -0.5, 0.5))
    sensor = DepthCloudSensor(
        path="/points", type="sensor_msgs/msg/PointCloud2", rate=10.0, body_from_sensor=optical, angle_min=0.0,
        angle_max=0.0, samples=8, rings=6, range_max=20.0, fx=8.0, fy=8.0, cx=3.5, cy=2.5,
    )  # fmt: skip
    wall = solid("/wall", Box((0.1, 10.0, 10.0)), at=at(3.1))
    post = solid("/post", Box((0.001, 0.2, 10.0)), at=at(2.001, 0.6))
    found = world(sensor, colliders=(wall, post)).sense("/points")
    assert int(found["height"]) == 6
    points = found["points"].reshape(6, 8, 3)
    column, row = np.meshgrid((np.arange(8) - 3.5) / 8.0, (np.arange(6) - 2.5) / 8.0)
    # The post stands to the left: its face, 2 m ahead, spans -0.8 to -0.4 m.
    depth = np.where((column * 2.0 > -0.8) & (column * 2.0 < -0.4), 2.0, 3.0)
    np.testing.assert_allclose(points, np.stack([column * depth, row * depth, depth], axis=-1), atol=1e-5)


def test_many_rays_are_cast_asynchronously_with_the_same_result() -> None:
    few = cloud("/few", samples=512, rings=8, pose=at(0.3, 0.2, 0.5))
    many = cloud("/many", samples=512, rings=9, elevation_max=0.5 + 1.0 / 7.0, pose=at(0.3, 0.2, 0.5))
    there = world(few, many, colliders=(*room(LENGTH, WIDTH), solid("/ground", Plane())))
    try:
        there.run(0.1)
        inline, asynchronous = there.sense("/few")["points"], there.sense("/many")["points"]
    finally:
        there.worker.close()
    assert np.isfinite(inline).any()
    np.testing.assert_allclose(asynchronous[: len(inline)], inline, atol=1e-6)


def test_range_of_a_wall_is_the_distance() -> None:
    wall = solid("/wall", Box((0.1, 4.0, 4.0)), at=at(1.6))
    found = world(range_finder(), colliders=(wall,)).sense("/range")
    assert float(found["range"]) == pytest.approx(1.5, abs=1e-9)
    assert float(found["field_of_view"]) == 0.3
    assert (float(found["min_range"]), float(found["max_range"]), int(found["radiation_type"])) == (
        0.02,
        4.0,
        0,
    )


def test_range_of_a_slanted_wall_is_that_at_the_edge_of_the_cone() -> None:
    slant = 0.5
    # The face goes through (1.5, 0, 0), turned by `slant` about Z: what is nearest is towards its normal.
    normal = np.array([np.cos(slant), np.sin(slant), 0.0])
    center = np.array([1.5, 0.0, 0.0]) + 0.1 * normal
    wall = solid("/wall", Box((0.1, 4.0, 4.0)), at=at(*center, turn=slant))
    found = world(range_finder(), colliders=(wall,)).sense("/range")
    assert float(found["range"]) == pytest.approx(1.5 * np.cos(slant) / np.cos(slant - 0.15), rel=1e-3)


def test_range_sees_what_is_off_its_axis_and_says_nothing_and_too_near() -> None:
    ball = solid("/ball", Sphere(0.05), at=at(1.0, 0.1))
    assert float(world(range_finder(), colliders=(ball,)).sense("/range")["range"]) < 1.0
    assert (
        float(world(range_finder(field_of_view=0.01), colliders=(ball,)).sense("/range")["range"]) == np.inf
    )
    touching = solid("/ball", Sphere(0.05), at=at(0.06))
    assert float(world(range_finder(), colliders=(touching,)).sense("/range")["range"]) == -np.inf


def test_noise_is_on_valid_ranges_alone() -> None:
    wall = solid("/wall", Box((0.1, 50.0, 50.0)), at=at(5.1))
    sensor = scanner(samples=2001, angle_min=-0.5, angle_max=np.pi, noise_stddev=0.03)
    ranges = world(sensor, colliders=(wall,)).sense("/scan")["ranges"].astype(np.float64)
    exact = world(sensor, colliders=(wall,), noise=False).sense("/scan")["ranges"].astype(np.float64)
    assert np.array_equal(np.isinf(ranges), np.isinf(exact))
    hit = np.isfinite(exact)
    assert hit.sum() > 800
    error = ranges[hit] - exact[hit]
    assert abs(error.mean()) < 5.0 * 0.03 / np.sqrt(hit.sum())
    assert error.std() == pytest.approx(0.03, rel=0.1)


def test_noise_of_a_range_is_that_of_the_nearest_ray() -> None:
    wall = solid("/wall", Box((0.1, 4.0, 4.0)), at=at(1.6))
    there = world(range_finder(noise_stddev=0.02), colliders=(wall,))
    drawn = []
    for _ in range(500):
        there.run(0.001)
        drawn.append(float(there.sense("/range")["range"]))
    assert np.mean(drawn) == pytest.approx(1.5, abs=5.0 * 0.02 / np.sqrt(500))
    assert np.std(drawn) == pytest.approx(0.02, rel=0.15)
    assert float(world(range_finder(noise_stddev=0.02)).sense("/range")["range"]) == np.inf
