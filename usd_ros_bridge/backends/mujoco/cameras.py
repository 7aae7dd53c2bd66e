"""Cameras: add them and lights to the model, and measure images and CameraInfo."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import mujoco

from usd_ros_bridge.backends.async_sensors import AsyncSensor, period_at
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.image_compression import compressed_image
from usd_ros_bridge.backends.mujoco.gl_context import KINDS, PACKAGES, find_gl, gl_kinds
from usd_ros_bridge.backends.mujoco.instruments import Arrays
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.backends.mujoco.rendering import HORIZON, ZENITH, OpenGlRenderer, RayRenderer
from usd_ros_bridge.backends.mujoco.sensors import (
    Job,
    PoseSnapshot,
    SensorReader,
    SensorWorker,
)
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder, set_pose
from usd_ros_bridge.model.appearance import srgb
from usd_ros_bridge.model.message_types import CAMERA_INFO
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.sensors import CameraModel, CameraSensor
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import compose, pose, pose_array

_OPTICAL_FROM_CAMERA = pose(rotation=(1.0, 0.0, 0.0, 0.0))
"""Half a turn about X (REP 0158 section 2.8): cameras look along -Z with +Y up, in OpenUSD and in MuJoCo."""

_SHADOW_PIXELS = 2048
_SUN_DIRECTION = (-0.4, 0.3, -1.0)


# --- Before the model is compiled ---------------------------------------------------------------------------------


def add_cameras(
    builder: SpecBuilder, cameras: Sequence[CameraModel], *, samples: int = 0, shadows: bool = False
) -> None:
    """Add the cameras that sensors use, each named by its path, and lights.

    Without cameras nothing is added.

    Args:
        builder: Specification to add to, with its geoms.
        cameras: Scene.cameras of the plan.
        samples: Per pixel and side of a smoothed edge (multisampling); 0 for none.
        shadows: The sun casts shadows.
    """
    mounted = {sensor.camera: sensor for sensor in _camera_sensors(builder.scene)}
    if not mounted:
        return
    for index, sensor in mounted.items():
        _add_camera(builder.body(sensor.body), cameras[index], sensor)
    _add_light(builder.spec, shadows=shadows)
    for geom in builder.spec.geoms:
        geom.rgba = srgb(tuple(geom.rgba.tolist()))
    visual = builder.spec.visual
    visual.quality.offsamples = samples
    # Its allocation blocks all threads for a fifth of a second, used or not.
    visual.quality.shadowsize = _SHADOW_PIXELS if shadows else 0
    seen = [cameras[index] for index in mounted]
    visual.global_.offwidth = max(camera.width for camera in seen)
    visual.global_.offheight = max(camera.height for camera in seen)


def _camera_sensors(scene: PhysicsScene) -> tuple[CameraSensor, ...]:
    """Return the sensors of images."""
    return tuple(sensor for sensor in scene.sensors if isinstance(sensor, CameraSensor))


def _add_camera(body: Any, camera: CameraModel, sensor: CameraSensor) -> None:
    added = body.add_camera(name=camera.path)
    set_pose(added, compose(pose_array(sensor.body_from_sensor), _OPTICAL_FROM_CAMERA))
    # A sensor of one pixel per metre has all lengths in pixels. A positive principal point lies left and above.
    added.resolution = camera.width, camera.height
    added.sensor_size = camera.width, camera.height
    added.focal_pixel = camera.fx, camera.fy
    # MuJoCo measures it from the middle of the picture.
    added.principal_pixel = 0.5 * (camera.width - 1) - camera.cx, 0.5 * (camera.height - 1) - camera.cy


def _add_light(spec: Any, *, shadows: bool) -> None:
    headlight = spec.visual.headlight
    headlight.active = 1
    headlight.ambient, headlight.diffuse, headlight.specular = [0.42] * 3, [0.38] * 3, [0.03] * 3
    sun = spec.worldbody.add_light(name="usd_ros_bridge:sun")
    if hasattr(sun, "directional"):  # MuJoCo before 3.3.1
        sun.directional = True
    else:
        sun.type = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    sun.pos, sun.dir = (0.0, 0.0, 10.0), _SUN_DIRECTION
    sun.ambient, sun.diffuse, sun.specular = [0.0] * 3, [0.35] * 3, [0.05] * 3
    sun.castshadow = shadows
    sky = spec.add_texture(name="usd_ros_bridge:sky")
    sky.type = mujoco.mjtTexture.mjTEXTURE_SKYBOX
    sky.builtin = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT
    sky.rgb1, sky.rgb2 = ZENITH, HORIZON
    sky.width, sky.height = 64, 384
    # Without any material MuJoCo 3.3.0 shows a white sky.
    spec.add_material(name="usd_ros_bridge:sky")


# --- After the model is compiled ----------------------------------------------------------------------------------


def make_cameras(
    worker: SensorWorker, plan: BridgePlan, context: BackendContext, options: MujocoOptions
) -> dict[str, SensorReader]:
    """Return the sensors of the images and CameraInfos of a plan, by the prim path of the interface.

    Nothing is rendered, and OpenGL is not searched for, before the first image is requested.

    Args:
        worker: Measures the images; its model has the cameras that `add_cameras` adds.
        plan: With physics.
        context: For reports.
        options: Options of the backend.

    Raises:
        BackendError: The environment variable MUJOCO_GL has an unknown value.
    """
    assert plan.physics is not None
    camera_sensors = _camera_sensors(plan.physics)
    if not camera_sensors:
        return {}
    gl_kinds(options.gl, os.environ)
    cameras = plan.scene.cameras
    used = sorted({sensor.camera for sensor in camera_sensors})
    renderer = CameraRenderer(worker, [cameras[index] for index in used], options, context.report)
    worker.on_close(renderer.close)
    sensors: dict[str, SensorReader] = {}
    images: dict[int, list[AsyncSensor]] = {index: [] for index in used}
    peers: dict[tuple[int, bool, bool, float], list[AsyncSensor]] = {}
    for sensor in camera_sensors:
        render = renderer.depth if sensor.depth else renderer.color
        if sensor.segmentation:
            render = renderer.segmentation
        job: Job = partial(render, cameras[sensor.camera].path)
        if sensor.compression:
            job = partial(_render_compressed, sensor, job)
        image = worker.add_sensor(sensor.path, sensor.rate, job)
        images[sensor.camera].append(image)
        key = sensor.camera, sensor.depth, sensor.segmentation, sensor.rate
        peers.setdefault(key, []).append(image)
        sensors[sensor.path] = image
    for group in peers.values():
        for image in group:
            image.peers = tuple(other for other in group if other is not image)
    for topic in plan.topics:
        is_info = topic.type == CAMERA_INFO and topic.role == "publisher"
        if is_info and topic.camera in images and topic.enabled:
            info = CameraInfoSensor(worker, topic.path, topic.publish_rate or 0.0, images[topic.camera])
            worker.on_reset(info.reset)
            sensors[topic.path] = info
    return sensors


def _render_compressed(sensor: CameraSensor, render: Job, data: Any) -> Arrays:
    """Render and compress an image, in the worker's thread."""
    return compressed_image(
        render(data)["data"],
        sensor.compression,
        jpeg_quality=sensor.jpeg_quality,
        png_level=sensor.png_level,
    )


class CameraRenderer:
    """Render images with OpenGL, searched for at the first image, or by rays. For the worker's thread."""

    def __init__(
        self, worker: SensorWorker, cameras: Sequence[CameraModel], options: MujocoOptions, report: Report
    ) -> None:
        self._worker = worker
        self._cameras = cameras
        self._options = options
        self._report = report
        self._renderer: OpenGlRenderer | RayRenderer | None = None
        self._last: dict[tuple[str, str], tuple[PoseSnapshot | None, Arrays]] = {}

    def color(self, path: str, data: Any) -> Arrays:
        """Render an rgb8 image of the camera at `path`."""
        return self._render("color", data, path)

    def depth(self, path: str, data: Any) -> Arrays:
        """Render a 32FC1 image of the camera at `path`."""
        return self._render("depth", data, path)

    def segmentation(self, path: str, data: Any) -> Arrays:
        """Render the id of the geom that each pixel of the camera at `path` shows, (H, W) int32, -1 for none."""
        return self._render("segmentation", data, path)

    def close(self) -> None:
        """Free the GL context. Idempotent."""
        renderer, self._renderer = self._renderer, None
        if renderer is not None:
            renderer.close()

    def _render(self, kind: str, data: Any, path: str) -> Arrays:
        """Render once for each snapshot: Image and CompressedImage of a camera show the same state."""
        snapshot, (last, arrays) = self._worker.measured_snapshot, self._last.get((kind, path), (None, {}))
        if snapshot is None or snapshot is not last:
            if self._renderer is None:
                self._renderer = self._make_renderer()
            arrays = {"data": getattr(self._renderer, kind)(data, path)}
            self._last[kind, path] = snapshot, arrays
        return arrays

    def _make_renderer(self) -> OpenGlRenderer | RayRenderer:
        model, choice = self._worker.model, find_gl(self._options.gl)
        reason = choice.reason
        if choice.kind is not None:
            try:
                return OpenGlRenderer(model, self._cameras, choice.kind, shadows=self._options.shadows)
            except Exception as error:  # noqa: BLE001 - libraries raise anything, and rays need none of them
                reason = f"{choice.kind}: {' '.join(str(error).split())}"
        if gl_kinds(self._options.gl, os.environ):
            packages = ", or ".join(PACKAGES[kind] for kind in KINDS)
            self._report(
                "camera.no_gl",
                f"there is no OpenGL that renders without a window ({reason}): images are made by casting rays, with "
                f"plain colours and coarser; install the Debian packages {packages}",
            )
        return RayRenderer(model, self._cameras)


class CameraInfoSensor:
    """Stamp CameraInfo as the images of the same camera: subscribers match the stamps exactly.

    While no image is requested, it is stamped at its own rate.
    """

    def __init__(self, worker: SensorWorker, prim: str, rate: float, images: Iterable[AsyncSensor]) -> None:
        self._worker = worker
        self._prim = prim
        self._images = sorted(images, key=lambda image: -image.rate)
        self._rate = rate if rate > 0.0 else self._images[0].rate
        self._sample: SensorSample | None = None
        self._requested_ns = -1

    def measure(self, time_ns: int) -> SensorSample | None:
        """Return the newest stamp, without arrays; None before there is one."""
        self._worker.collect(time_ns)
        since = self._requested_ns if self._requested_ns >= 0 else time_ns
        self._requested_ns = time_ns
        image = next((each for each in self._images if each.requested_ns >= since), None)
        if image is None:
            self._update(time_ns, at_own_rate=True)
        elif image.sample is not None:
            # The stamp of every image, unless the authored rate is lower.
            self._update(image.sample.stamp_ns, at_own_rate=self._rate < 0.99 * image.rate)
        return self._sample

    def reset(self) -> None:
        """Drop the sample: time starts over."""
        self._sample = None
        self._requested_ns = -1

    def _update(self, stamp_ns: int, *, at_own_rate: bool) -> None:
        last_ns = -1 if self._sample is None else self._sample.stamp_ns
        same_period = period_at(stamp_ns, self._rate) == period_at(last_ns, self._rate)
        if stamp_ns > last_ns and not (at_own_rate and last_ns >= 0 and same_period):
            self._sample = SensorSample(prim=self._prim, stamp_ns=stamp_ns, arrays={})
