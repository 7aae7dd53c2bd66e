"""Cameras: what is seen stands where CameraInfo says, as far as it is, with OpenGL and without."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: pip install usd-ros-bridge[mujoco]")

import mujoco

from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.mujoco import gl_context
from usd_ros_bridge.backends.mujoco.backend import build_spec
from usd_ros_bridge.backends.mujoco.cameras import CAMERA_INFO, add_cameras, make_cameras
from usd_ros_bridge.backends.mujoco.compiled_model import compile_model
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.backends.mujoco.rays import pinhole_directions
from usd_ros_bridge.backends.mujoco.rendering import FULL_PIXELS, OpenGlRenderer, RayRenderer
from usd_ros_bridge.backends.mujoco.sensors import SensorWorker
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics import (
    Body,
    Box,
    Collider,
    Inertial,
    PhysicsScene,
    Plane,
    Sphere,
    Visual,
)
from usd_ros_bridge.model.plan import BridgePlan, QosPlan, Scene, TopicPlan
from usd_ros_bridge.model.sensors import CameraModel, CameraSensor, DepthCloudSensor
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.planning.physics.sensor_models import SensorValues, depth_cloud
from usd_ros_bridge.spatial.pose import Pose

IMAGE = "sensor_msgs/msg/Image"
FORWARD = (-0.5, 0.5, -0.5, 0.5)
"""An optical frame that looks along X of its body, with Z up."""
RED, GREEN, BLUE = (0.8, 0.05, 0.05, 1.0), (0.05, 0.8, 0.05, 1.0), (0.02, 0.02, 0.9, 1.0)
MS = 1_000_000


def camera(path: str = "/camera", **changes: Any) -> CameraModel:
    values: dict[str, Any] = {
        "width": 320, "height": 240, "fx": 250.0, "fy": 240.0, "cx": 169.5, "cy": 111.5, "near": 0.05, "far": 50.0,
    }  # fmt: skip
    return CameraModel(path=path, **(values | changes))


def mounted(
    index: int = 0,
    *,
    body: int = -1,
    depth: bool = False,
    rate: float = 30.0,
) -> CameraSensor:
    path = f"/camera{index}/{'depth' if depth else 'color'}"
    return CameraSensor(
        path=path,
        type=IMAGE,
        rate=rate,
        body=body,
        body_from_sensor=Pose((0.0, 0.0, 1.0), FORWARD),
        camera=index,
        depth=depth,
    )


def seen(shape: Any, at: tuple[float, float, float], color: Any, body: int = -1, path: str = "") -> Visual:
    where = Pose(at, (0.0, 0.0, 0.0, 1.0))
    return Visual(path=path or f"/seen{at}", body=body, body_from_shape=where, shape=shape, color=color)


def compiled(scene: PhysicsScene, cameras: Sequence[CameraModel]) -> tuple[Any, Any]:
    built = build_spec(scene, lambda kind, message: pytest.fail(f"{kind}: {message}"))
    add_cameras(built, cameras)
    model = compile_model(built).model
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


Maker = Callable[[Any, Sequence[CameraModel]], "OpenGlRenderer | RayRenderer"]


OPENGL = [pytest.mark.process, pytest.mark.sample]
"""Of tests that draw: the first one starts a process, the probe of the library."""


@pytest.fixture(params=[pytest.param("gl", marks=OPENGL), "rays"])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    """Makes what takes pictures, by either way."""
    choice = gl_context.find_gl("auto") if request.param == "gl" else gl_context.GlChoice(kind=None)
    if request.param == "gl" and choice.kind is None:
        pytest.skip(f"there is no OpenGL here: {choice.reason}")
    made: list[OpenGlRenderer | RayRenderer] = []

    def maker(model: Any, cameras: Sequence[CameraModel]) -> OpenGlRenderer | RayRenderer:
        kind = choice.kind
        made.append(RayRenderer(model, cameras) if kind is None else OpenGlRenderer(model, cameras, kind))
        return made[-1]

    yield maker
    for each in made:
        each.close()


def bluish(pixels: np.ndarray) -> np.ndarray:
    """Returns the middle (u, v) of what is blue, by the centres of pixels, as CameraInfo counts them."""
    red, green, blue = np.moveaxis(pixels.astype(int), 2, 0)
    rows, columns = np.nonzero((blue > red + 50) & (blue > green + 50))
    assert len(rows), "nothing is blue"
    return np.array([columns.mean(), rows.mean()])


# --- Geometry -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [(4.0, 0.5, 1.6), (3.0, -1.2, 0.2), (6.0, 2.0, 2.2)])
def test_a_point_is_where_camera_info_projects_it(make: Maker, point: tuple[float, float, float]) -> None:
    used = camera()
    floor = seen(Plane(), (0.0, 0.0, 0.0), (0.2, 0.2, 0.2, 1.0))
    scene = PhysicsScene(sensors=(mounted(),), visuals=(floor, seen(Sphere(0.06), point, BLUE)))
    model, data = compiled(scene, [used])
    found = bluish(make(model, [used]).color(data, used.path))
    # Optical axes: Z forward is X here, X right is -Y, Y down is -Z; the camera stands 1 m high.
    ahead, right, down = point[0], -point[1], 1.0 - point[2]
    expected = [used.fx * right / ahead + used.cx, used.fy * down / ahead + used.cy]
    assert_allclose(found, expected, atol=0.25)


@pytest.mark.skipif(
    tuple(int(part) for part in mujoco.__version__.split(".")[:2]) < (3, 17),
    reason="older releases count the principal point from the other side; pictures do not depend on it",
)
def test_mujocos_own_intrinsics_are_those_of_camera_info() -> None:
    used = camera()
    model, data = compiled(PhysicsScene(sensors=(mounted(),)), [used])
    scene, eye = mujoco.MjvScene(model, 10), mujoco.MjvCamera()
    eye.type, eye.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
    mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, eye, mujoco.mjtCatBit.mjCAT_ALL, scene)
    frustum = scene.camera[0]
    near = frustum.frustum_near
    left = (frustum.frustum_center - frustum.frustum_width) / near
    assert_allclose(left, -(used.cx + 0.5) / used.fx, rtol=1e-5)
    assert_allclose(frustum.frustum_width / near, 0.5 * used.width / used.fx, rtol=1e-5)
    assert_allclose(frustum.frustum_top / near, (used.cy + 0.5) / used.fy, rtol=1e-5)
    assert_allclose(frustum.frustum_bottom / near, (used.cy + 0.5 - used.height) / used.fy, rtol=1e-5)


def test_the_depth_of_a_wall_is_that_along_the_optical_axis(make: Maker) -> None:
    used = camera()
    wall = seen(Box((0.1, 50.0, 50.0)), (7.1, 0.0, 0.0), RED)
    model, data = compiled(PhysicsScene(sensors=(mounted(),), visuals=(wall,)), [used])
    depth = make(model, [used]).depth(data, used.path)
    assert depth.shape == (240, 320)
    assert depth.dtype == np.float32
    assert_allclose(depth, 7.0, atol=1e-3)


def test_the_depth_of_a_floor_grows_towards_the_horizon(make: Maker) -> None:
    used = camera(far=500.0)
    floor = seen(Plane(), (0.0, 0.0, 0.0), RED)
    model, data = compiled(PhysicsScene(sensors=(mounted(),), visuals=(floor,)), [used])
    depth = make(model, [used]).depth(data, used.path)
    down = (np.arange(used.height) - used.cy) / used.fy
    for row in (130, 170, 239):
        assert_allclose(depth[row], 1.0 / down[row], rtol=1e-3)
    assert np.isinf(depth[: math.ceil(used.cy)]).all()
    assert (depth[: math.ceil(used.cy)] > 0.0).all()


@pytest.mark.parametrize("stride", [1, 3, 4])
def test_a_cloud_of_the_depth_image_is_that_of_the_camera(make: Maker, stride: int) -> None:
    """What depth_image_proc makes of an image of depth and of K: `x = (u - cx) z / fx`, `y = (v - cy) z / fy`."""
    used = camera(fx=250.0, fy=250.0, cx=159.5, cy=119.5)
    turn = 0.6
    wall = Visual(
        path="/wall", body=-1, shape=Box((0.1, 50.0, 50.0)), color=RED,
        body_from_shape=Pose((9.0, 0.0, 0.0), (0.0, 0.0, math.sin(turn / 2), math.cos(turn / 2))),
    )  # fmt: skip
    floor = seen(Plane(), (0.0, 0.0, 0.0), RED)
    attribute = {"usd_ros_bridge:camera:cloud_stride": stride}
    sensor = depth_cloud(
        {"path": "/cloud", "type": "sensor_msgs/msg/PointCloud2", "rate": 1.0},
        SensorValues("/cloud", "camera", attribute, DiagnosticCollector()),
        used,
    )
    assert isinstance(sensor, DepthCloudSensor)
    model, data = compiled(PhysicsScene(sensors=(mounted(),), visuals=(floor, wall)), [used])
    z = make(model, [used]).depth(data, used.path)
    u, v = np.meshgrid(np.arange(320), np.arange(240))
    of_image = np.stack([(u - 159.5) * z / 250.0, (v - 119.5) * z / 250.0, z], axis=-1)
    first = (stride - 1) // 2
    of_image = of_image[first::stride, first::stride][: sensor.rings, : sensor.samples]

    rays = pinhole_directions(sensor).reshape(sensor.rings, sensor.samples, 3)
    right, down, ahead = np.moveaxis(rays, 2, 0)
    # 1 m above the floor; the wall's face lies 0.1 m before its middle.
    to_wall = (9.0 * math.cos(turn) - 0.1) / (math.cos(turn) * ahead - math.sin(turn) * right)
    to_floor = np.where(down > 0.0, 1.0 / np.maximum(down, 1e-9), np.inf)
    assert_allclose(of_image, rays * np.minimum(to_wall, to_floor)[..., None], rtol=2e-4, atol=1e-3)


def test_what_is_beyond_the_clipping_range_is_not_there(make: Maker) -> None:
    used = camera(near=1.0, far=5.0)
    things = (
        seen(Box((0.01, 5.0, 5.0)), (0.9, 0.0, 0.0), RED),
        seen(Box((0.01, 0.5, 5.0)), (3.01, 0.0, 0.0), GREEN),
        seen(Box((0.01, 5.0, 5.0)), (6.0, 0.0, 0.0), BLUE),
    )
    # Of the camera's own body, as a housing is: rays leave that out.
    body = Body(path="/rig", inertial=Inertial(mass=1.0, diagonal=(1.0, 1.0, 1.0)), kinematic=True)
    rig = tuple(
        seen(v.shape, v.body_from_shape.translation, v.color, 0) if i == 0 else v
        for i, v in enumerate(things)
    )
    scene = PhysicsScene(bodies=(body,), sensors=(mounted(body=0),), visuals=rig)
    model, data = compiled(scene, [used])
    depth = make(model, [used]).depth(data, used.path)
    assert_allclose(depth[:, 165:175], 3.0, atol=1e-3)
    assert np.isinf(depth[:, :100]).all()


def test_a_camera_moves_with_its_body(make: Maker) -> None:
    used = camera()
    body = Body(
        path="/rig", world_from_body=Pose((1.0, 2.0, 0.0), (0.0, 0.0, 0.7071067811865476, 0.7071067811865476)),
        kinematic=True,
    )  # fmt: skip
    wall = seen(Box((50.0, 0.5, 50.0)), (0.0, 9.5, 0.0), RED)
    scene = PhysicsScene(bodies=(body,), sensors=(mounted(body=0),), visuals=(wall,))
    model, data = compiled(scene, [used])
    assert_allclose(make(model, [used]).depth(data, used.path), 7.0, atol=1e-3)


def test_cameras_of_different_sizes_share_a_model(make: Maker) -> None:
    small = camera("/a", width=64, height=48, fx=60.0, fy=60.0, cx=31.5, cy=23.5)
    large = camera("/b", width=800, height=600, fx=700.0, fy=700.0, cx=399.5, cy=299.5)
    wall = seen(Box((0.1, 50.0, 50.0)), (4.1, 0.0, 0.0), RED)
    scene = PhysicsScene(sensors=(mounted(0), mounted(1)), visuals=(wall,))
    model, data = compiled(scene, [small, large])
    pictures = make(model, [small, large])
    for used in (large, small, large):
        color, depth = pictures.color(data, used.path), pictures.depth(data, used.path)
        assert color.shape == (used.height, used.width, 3)
        assert color.dtype == np.uint8
        assert depth.shape == (used.height, used.width)
        assert_allclose(depth, 4.0, atol=1e-3)
        assert (color[..., 0] > 100).all()


# --- What is seen -------------------------------------------------------------------------------------------------


def test_colliders_that_are_only_guides_are_not_seen(make: Maker) -> None:
    used = camera()
    here = Pose((3.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0))
    guide = Collider(path="/guide", body=-1, body_from_shape=here, shape=Box((0.1, 5.0, 5.0)))
    shown = Collider(
        path="/shown", body=-1, body_from_shape=Pose((5.1, 0.0, 1.0)), shape=Box((0.1, 9.0, 9.0)), color=GREEN
    )
    model, data = compiled(PhysicsScene(sensors=(mounted(),), colliders=(guide, shown)), [used])
    pictures = make(model, [used])
    assert_allclose(pictures.depth(data, used.path), 5.0, atol=1e-3)
    red, green, blue = pictures.color(data, used.path)[120, 160].astype(int)
    assert green > 100 > max(red, blue)


def test_the_sky_is_above(make: Maker) -> None:
    used = camera()
    floor = seen(Plane(), (0.0, 0.0, 0.0), (0.1, 0.1, 0.1, 1.0))
    model, data = compiled(PhysicsScene(sensors=(mounted(),), visuals=(floor,)), [used])
    color = make(model, [used]).color(data, used.path).astype(int)
    assert color[0].mean() > color[-1].mean() + 40
    assert (color[0, :, 2] > color[0, :, 0]).all()


def test_nothing_at_all_is_seen_as_well(make: Maker) -> None:
    used = camera()
    model, data = compiled(PhysicsScene(sensors=(mounted(),)), [used])
    pictures = make(model, [used])
    assert np.isinf(pictures.depth(data, used.path)).all()
    assert pictures.color(data, used.path).std() < 60


@pytest.mark.process
@pytest.mark.sample
def test_shadows_and_smooth_edges_are_there_where_they_are_asked_for() -> None:
    choice = gl_context.find_gl("auto")
    if choice.kind is None:
        pytest.skip(f"there is no OpenGL here: {choice.reason}")
    used = camera()
    # The sun stands in front on the right: the shadow falls to the left, on the floor before the camera.
    things = (
        seen(Plane((50.0, 50.0)), (0.0, 0.0, 0.0), (0.5, 0.5, 0.5, 1.0)),
        seen(Box((0.6, 0.6, 0.1)), (4.0, 0.0, 2.5), RED),
    )
    floors, shades = {}, {}
    for shadows, samples in ((False, 0), (True, 0), (False, 4)):
        built = build_spec(PhysicsScene(sensors=(mounted(),), visuals=things), lambda *_: None)
        add_cameras(built, [used], samples=samples, shadows=shadows)
        model = compile_model(built).model
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        renderer = OpenGlRenderer(model, [used], choice.kind, shadows=shadows)
        picture = renderer.color(data, used.path).astype(int)
        renderer.close()
        floors[shadows, samples] = picture[150:]
        shades[shadows, samples] = len(np.unique(picture.reshape(-1, 3), axis=0))
    darker = floors[False, 0].sum(axis=2) - floors[True, 0].sum(axis=2)
    assert (darker > 60).sum() > 200
    assert shades[False, 4] > shades[False, 0]


def test_large_pictures_by_rays_keep_their_size() -> None:
    used = camera(width=1001, height=701, fx=900.0, fy=900.0, cx=500.0, cy=350.0)
    assert used.width * used.height > FULL_PIXELS
    spot = seen(Sphere(0.2), (4.0, 0.0, 1.0), BLUE)
    floor = seen(Plane(), (0.0, 0.0, 0.0), (0.2, 0.2, 0.2, 1.0))
    model, data = compiled(PhysicsScene(sensors=(mounted(),), visuals=(spot, floor)), [used])
    pictures = RayRenderer(model, [used])
    color = pictures.color(data, used.path)
    assert color.shape == (701, 1001, 3)
    assert_allclose(bluish(color), [500.0, 350.0], atol=2.0)
    assert pictures.depth(data, used.path).shape == (701, 1001)


def test_without_cameras_a_model_is_left_alone() -> None:
    model, _ = compiled(PhysicsScene(visuals=(seen(Sphere(0.1), (0.0, 0.0, 1.0), (0.5, 0.5, 0.5, 1.0)),)), [])
    assert (model.ncam, model.nlight, model.ntex) == (0, 0, 0)
    assert_allclose(model.geom_rgba[0], [0.5, 0.5, 0.5, 1.0])


# --- Sensors ------------------------------------------------------------------------------------------------------


def topic(path: str, type_name: str, rate: float, index: int = 0) -> TopicPlan:
    return TopicPlan(
        path=path, name=path, type=type_name, role="publisher", publish_rate=rate, camera=index, qos=QosPlan()
    )


class Bench:
    """A world with a wall that is measured asynchronously; its time is what the test says."""

    def __init__(
        self, *sensors: CameraSensor, infos: Sequence[TopicPlan] = (), gl: Any = "none", **options: Any
    ):
        self.reports: list[tuple[str, str]] = []
        wall = seen(Box((0.1, 50.0, 50.0)), (4.1, 0.0, 0.0), RED)
        cameras = tuple(
            camera(f"/camera{i}", width=32, height=24, fx=30.0, fy=30.0, cx=15.5, cy=11.5) for i in range(2)
        )
        scene = PhysicsScene(sensors=sensors, visuals=(wall,))
        self.model, self.data = compiled(scene, cameras)
        plan = BridgePlan(asset="x", topics=tuple(infos), physics=scene, scene=Scene(cameras=cameras))
        context = BackendContext(plan=plan, report=lambda *report: self.reports.append(report))
        self.worker = SensorWorker(self.model, self.data, report=context.report, **options)
        self.measures = make_cameras(self.worker, plan, context, MujocoOptions(gl=gl))

    def sense(self, path: str, time_ns: int) -> SensorSample | None:
        return self.measures[path].measure(time_ns)


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    made = []

    def make_bench(*args: Any, **options: Any) -> Bench:
        made.append(Bench(*args, **options))
        return made[-1]

    yield make_bench
    for each in made:
        each.worker.close()


def test_images_carry_the_stamp_of_their_state(bench: Callable[..., Bench]) -> None:
    color, depth = mounted(rate=10.0), mounted(depth=True, rate=5.0)
    it = bench(color, depth, lockstep=True)
    stamps = []
    for tick in range(1, 51):
        now = tick * 10 * MS
        sample = it.sense(color.path, now)
        assert sample is not None
        assert sample.arrays["data"].shape == (24, 32, 3)
        stamps.append(sample.stamp_ns // MS)
        far = it.sense(depth.path, now)
        assert far is not None
        assert far.arrays["data"].dtype == np.float32
        assert far.stamp_ns // MS in (10, 200, 400)
    assert sorted(set(stamps)) == [10, 100, 200, 300, 400, 500]


@pytest.mark.parametrize("info_first", [True, False])
def test_camera_info_has_the_stamps_of_the_images(bench: Callable[..., Bench], info_first: bool) -> None:
    image = mounted(rate=15.0)
    it = bench(image, infos=[topic("/info", CAMERA_INFO, 15.0)], lockstep=True)
    order = ["/info", image.path] if info_first else [image.path, "/info"]
    stamps: dict[str, set[int]] = {path: set() for path in order}
    for tick in range(1, 400):
        for path in order:
            sample = it.sense(path, tick * 5 * MS)
            if sample is not None:
                stamps[path].add(sample.stamp_ns)
    assert len(stamps[image.path]) == 30
    assert stamps["/info"] == stamps[image.path]


def test_camera_info_may_come_less_often_than_images(bench: Callable[..., Bench]) -> None:
    image = mounted(rate=20.0)
    it = bench(image, infos=[topic("/info", CAMERA_INFO, 1.0)], lockstep=True)
    images, infos = set(), set()
    for tick in range(1, 601):
        for path, stamps in ((image.path, images), ("/info", infos)):
            sample = it.sense(path, tick * 5 * MS)
            assert sample is not None
            stamps.add(sample.stamp_ns)
    assert infos < images
    assert len(infos) == 4


def test_camera_info_alone_renders_nothing(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = bench(mounted(rate=10.0), infos=[topic("/info", CAMERA_INFO, 10.0)])
    monkeypatch.setattr(it.worker, "submit", lambda *_: pytest.fail("something was rendered"))
    stamps = {sample.stamp_ns for tick in range(1, 101) if (sample := it.sense("/info", tick * 10 * MS))}
    assert sorted(stamps) == [10 * MS, *(k * 100 * MS for k in range(1, 11))]


def test_images_and_camera_info_start_over_with_time(bench: Callable[..., Bench]) -> None:
    image = mounted(rate=10.0)
    it = bench(image, infos=[topic("/info", CAMERA_INFO, 10.0)], lockstep=True)
    for path in (image.path, "/info"):
        assert it.sense(path, 900 * MS) is not None
    it.worker.reset()
    for path in (image.path, "/info"):
        sample = it.sense(path, 10 * MS)
        assert sample is not None
        assert sample.stamp_ns == 10 * MS


def test_cameras_without_a_camera_info_and_infos_without_an_image(bench: Callable[..., Bench]) -> None:
    it = bench(mounted(0), infos=[topic("/info", CAMERA_INFO, 15.0, index=1)])
    assert set(it.measures) == {mounted(0).path}


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Libraries that cannot be loaded, for the processes that are started from here."""
    for library in ("libEGL.so.1", "libEGL.so", "libOSMesa.so", "libOSMesa.so.8", "libOSMesa.so.6"):
        (tmp_path / library).write_bytes(b"no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    gl_context.probe.cache_clear()
    yield
    gl_context.probe.cache_clear()


@pytest.mark.process
@pytest.mark.usefixtures("broken")
def test_where_opengl_is_broken_rays_keep_the_topic_alive(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    it = bench(mounted(rate=10.0), gl="auto", lockstep=True)
    sample = it.sense(mounted().path, 10 * MS)
    assert sample is not None
    assert (sample.arrays["data"][..., 0] > 100).all()
    ((kind, message),) = it.reports
    assert kind == "camera.no_gl"
    for package in ("libegl1", "libgl1-mesa-dri", "libosmesa6"):
        assert package in message
    assert "\n" not in message


def test_rays_that_were_asked_for_are_no_news(bench: Callable[..., Bench]) -> None:
    it = bench(mounted(), gl="none", lockstep=True)
    assert it.sense(mounted().path, 10 * MS) is not None
    assert it.reports == []


# --- Choosing an OpenGL -------------------------------------------------------------------------------------------


@each_case(
    ("option", "variable", "kinds"),
    [
        ("auto", "", ("egl", "osmesa")),
        ("auto", "glfw", ("egl", "osmesa")),
        ("auto", "osmesa", ("osmesa",)),
        ("auto", " EGL ", ("egl",)),
        ("auto", "off", ()),
        ("egl", "osmesa", ("egl",)),
        ("none", "egl", ()),
    ],
)
def test_the_option_decides_then_the_variable(option: str, variable: str, kinds: tuple[str, ...]) -> None:
    assert gl_context.gl_kinds(option, {"MUJOCO_GL": variable}) == kinds


@each_case(
    ("outcome", "reason"),
    [
        (0, ""),
        (-11, "its library crashes (signal 11)"),
        (3, "exit status 3"),
        (b"Traceback ...\nImportError: no display\n", "ImportError: no display"),
        (subprocess.TimeoutExpired("python", 30.0), "no answer within 30 s"),
        (OSError("out of memory"), "out of memory"),
    ],
)
def test_a_probe_says_why_there_is_no_opengl(outcome: Any, reason: str) -> None:
    def run(*_: Any, **__: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        status, stderr = (1, outcome) if isinstance(outcome, bytes) else (outcome, b"")
        return subprocess.CompletedProcess([], status, b"", stderr)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gl_context.subprocess, "run", run)
        patch.setattr(gl_context, "probe", gl_context.probe.__wrapped__)
        patch.delenv("MUJOCO_GL", raising=False)
        assert gl_context.probe("egl") == reason
        found = gl_context.find_gl("auto")
    if reason:
        assert found == gl_context.GlChoice(kind=None, reason=f"egl: {reason}; osmesa: {reason}")
    else:
        assert found == gl_context.GlChoice(kind="egl")


def test_a_variable_that_does_not_exist_is_one_message(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "vulkan")
    with pytest.raises(BackendError, match=r"MUJOCO_GL is 'vulkan'; there are: .*egl.*osmesa"):
        bench(mounted())


@pytest.mark.process
@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("egl", "MujocoBackend"),
        ("vulkan", "backend mujoco cannot be loaded: the environment variable MUJOCO_GL is"),
    ],
)
def test_the_variable_keeps_nobody_from_physics_or_is_one_message(variable: str, said: str) -> None:
    code = (
        "from usd_ros_bridge.backends.registry import load_backend\n"
        "from usd_ros_bridge.errors import BackendError\n"
        "try:\n    print(type(load_backend('mujoco')).__name__)\n"
        "except BackendError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "MUJOCO_GL": variable}
    environment.pop("PYOPENGL_PLATFORM", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60.0,
    )
    assert done.stdout.startswith(said)
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_a_library_that_crashes_takes_nobody_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    gl_context.probe.cache_clear()
    try:
        assert gl_context.probe("egl") == "its library crashes (signal 11)"
    finally:
        gl_context.probe.cache_clear()


@pytest.mark.process
def test_the_host_keeps_its_environment() -> None:
    choice = gl_context.find_gl("auto")
    if choice.kind is None:
        pytest.skip(f"there is no OpenGL here: {choice.reason}")
    before = dict(os.environ)
    context = gl_context.make_context(choice.kind, 16, 16)
    context.free()
    assert dict(os.environ) == before
