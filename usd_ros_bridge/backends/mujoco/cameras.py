"""Cameras: what the model needs to be seen by them, and the sensors that measure images and CameraInfo."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.image_compression import compressed_image
from usd_ros_bridge.backends.mujoco.beside import Arrays, Beside, BesideSensor, Job, Snapshot, period_at
from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.backends.mujoco.gl import KINDS, PACKAGES, find_gl, wanted_kinds
from usd_ros_bridge.backends.mujoco.poses import place, pose_of
from usd_ros_bridge.backends.mujoco.ray_camera import RayCamera
from usd_ros_bridge.backends.mujoco.rendering import HORIZON, ZENITH, Renderer
from usd_ros_bridge.backends.mujoco.sensing import Measure
from usd_ros_bridge.backends.protocol import BackendContext, Report
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.scene import CameraModel
from usd_ros_bridge.model.sensors import CameraSensor
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.model.transforms import compose, pose

CAMERA_INFO = "sensor_msgs/msg/CameraInfo"

_OPTICAL_FROM_CAMERA = pose(rotation=(1.0, 0.0, 0.0, 0.0))
"""Half a turn about X (REP 0158 section 2.8): cameras look along -Z with +Y up, in OpenUSD and in MuJoCo."""

_SHADOW_PIXELS = 2048
_SUN_DIRECTION = (-0.4, 0.3, -1.0)


class CameraOptions(Protocol):
    """What the caller decides.

    Attributes:
        gl: auto, egl, osmesa or none.
        shadows: Whether the sun casts shadows.
    """

    @property
    def gl(self) -> str: ...  # noqa: D102 - see the class

    @property
    def shadows(self) -> bool: ...  # noqa: D102


# --- Before the model is compiled ---------------------------------------------------------------------------------


def add_cameras(
    built: Built, cameras: Sequence[CameraModel], *, samples: int = 0, shadows: bool = False
) -> None:
    """Adds the cameras that images are taken with, each named by its path, and light to see by.

    Without cameras nothing is added: what nobody looks at needs no light.

    Args:
        built: Specification to add to, with its geoms.
        cameras: Scene.cameras of the plan.
        samples: Per pixel and side of a smoothed edge (multisampling); 0 for none.
        shadows: Whether the sun casts shadows.
    """
    mounted = {sensor.camera: sensor for sensor in camera_sensors(built.scene)}
    if not mounted:
        return
    for index, sensor in mounted.items():
        _add_camera(built.body(sensor.body), cameras[index], sensor)
    _add_light(built.spec, shadows=shadows)
    for geom in built.spec.geoms:
        geom.rgba = srgb(geom.rgba)
    visual = built.spec.visual
    visual.quality.offsamples = samples
    # Getting it ready holds up everybody for a fifth of a second, used or not.
    visual.quality.shadowsize = _SHADOW_PIXELS if shadows else 0
    seen = [cameras[index] for index in mounted]
    visual.global_.offwidth = max(camera.width for camera in seen)
    visual.global_.offheight = max(camera.height for camera in seen)


def camera_sensors(scene: PhysicsScene) -> tuple[CameraSensor, ...]:
    """Returns the sensors that take images."""
    return tuple(sensor for sensor in scene.sensors if isinstance(sensor, CameraSensor))


def srgb(color: NDArray[Any]) -> NDArray[np.float64]:
    """Returns linear red, green, blue, opacity (4,) as an image shows them (IEC 61966-2-1); opacity stays."""
    linear = np.clip(np.asarray(color, dtype=np.float64), 0.0, 1.0)
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.power(linear, 1.0 / 2.4) - 0.055)
    curved[3] = linear[3]
    return curved


def _add_camera(body: Any, camera: CameraModel, sensor: CameraSensor) -> None:
    added = body.add_camera(name=camera.path)
    place(added, compose(pose_of(sensor.body_from_sensor), _OPTICAL_FROM_CAMERA))
    # A sensor of one pixel per metre: all of it is in pixels then. The point lies left and above by what is positive.
    added.resolution = camera.width, camera.height
    added.sensor_size = camera.width, camera.height
    added.focal_pixel = camera.fx, camera.fy
    added.principal_pixel = 0.5 * camera.width - camera.cx, 0.5 * camera.height - camera.cy


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


# --- Afterwards ---------------------------------------------------------------------------------------------------


def make_cameras(
    beside: Beside, plan: BridgePlan, context: BackendContext, options: CameraOptions
) -> dict[str, Measure]:
    """Returns what measures the images and CameraInfos of a plan, by the prim path of the interface.

    Nothing is rendered, and no GL looked for, before somebody asks for an image.

    Args:
        beside: Measures them; the model of its simulation has what `add_cameras` adds.
        plan: With physics.
        context: For reports.
        options: What renders.

    Raises:
        BackendError: The environment variable MUJOCO_GL has a value that does not exist.
    """
    assert plan.physics is not None
    sensors = camera_sensors(plan.physics)
    if not sensors:
        return {}
    wanted_kinds(options.gl, os.environ)
    cameras = plan.scene.cameras
    used = sorted({sensor.camera for sensor in sensors})
    pictures = Pictures(beside, [cameras[index] for index in used], options, context.report)
    beside.at_close(pictures.close)
    measures: dict[str, Measure] = {}
    images: dict[int, list[BesideSensor]] = {index: [] for index in used}
    alike: dict[tuple[int, bool, float], list[BesideSensor]] = {}
    for sensor in sensors:
        take = pictures.depth if sensor.depth else pictures.color
        job = partial(take, cameras[sensor.camera].path)
        if sensor.compression:
            job = partial(_compressed, sensor, job)
        image = beside.sensor(sensor.path, sensor.rate, job)
        images[sensor.camera].append(image)
        alike.setdefault((sensor.camera, sensor.depth, sensor.rate), []).append(image)
        measures[sensor.path] = image
    for group in alike.values():
        for image in group:
            image.peers = tuple(other for other in group if other is not image)
    for topic in plan.topics:
        if (
            topic.type == CAMERA_INFO
            and topic.role == "publisher"
            and topic.camera in images
            and topic.enabled
        ):
            info = CameraInfoSensor(beside, topic.path, topic.publish_rate or 0.0, images[topic.camera])
            beside.at_reset(info.forget)
            measures[topic.path] = info
    return measures


def _compressed(sensor: CameraSensor, take: Job, data: Any) -> Arrays:
    """Render a picture and compress it, in the worker's thread."""
    return compressed_image(
        take(data)["data"],
        sensor.compression,
        jpeg_quality=sensor.jpeg_quality,
        png_level=sensor.png_level,
    )


class Pictures:
    """Takes pictures with what there is: OpenGL, found when the first one is asked for, or rays. The worker's own."""

    def __init__(
        self, beside: Beside, cameras: Sequence[CameraModel], options: CameraOptions, report: Report
    ) -> None:
        """Stores what to take pictures of."""
        self._beside = beside
        self._model = beside.model
        self._taken: dict[tuple[str, str], tuple[Snapshot | None, Arrays]] = {}
        self._cameras = cameras
        self._options = options
        self._report = report
        self._camera: Renderer | RayCamera | None = None

    def color(self, path: str, data: Any) -> Arrays:
        """Takes an rgb8 image with the camera at `path`."""
        return self._take("color", data, path)

    def depth(self, path: str, data: Any) -> Arrays:
        """Takes a 32FC1 image with the camera at `path`."""
        return self._take("depth", data, path)

    def _take(self, kind: str, data: Any, path: str) -> Arrays:
        """Render a picture once for each snapshot, so that Image and CompressedImage of a camera show the same."""
        shown, (taken, arrays) = self._beside.shown, self._taken.get((kind, path), (None, {}))
        if shown is None or shown is not taken:
            arrays = {"data": getattr(self._ready(), kind)(data, path)}
            self._taken[kind, path] = shown, arrays
        return arrays

    def close(self) -> None:
        """Releases the GL context. Idempotent."""
        camera, self._camera = self._camera, None
        if camera is not None:
            camera.close()

    def _ready(self) -> Renderer | RayCamera:
        if self._camera is None:
            self._camera = self._find()
        return self._camera

    def _find(self) -> Renderer | RayCamera:
        choice = find_gl(self._options.gl)
        reason = choice.reason
        if choice.kind is not None:
            try:
                return Renderer(self._model, self._cameras, choice.kind, shadows=self._options.shadows)
            except Exception as error:  # noqa: BLE001 - libraries raise what they like, and rays do without them
                reason = f"{choice.kind}: {' '.join(str(error).split())}"
        if wanted_kinds(self._options.gl, os.environ):
            packages = ", or ".join(PACKAGES[kind] for kind in KINDS)
            self._report(
                "camera.no_gl",
                f"there is no OpenGL that renders without a window ({reason}): images are made by casting rays, with "
                f"plain colours and coarser; install the Debian packages {packages}",
            )
        return RayCamera(self._model, self._cameras)


class CameraInfoSensor:
    """Gives CameraInfo the stamps of the images of the same camera, which subscribers match exactly.

    While nobody asks for an image, it is stamped at its own rate instead.
    """

    def __init__(self, beside: Beside, prim: str, rate: float, images: Iterable[BesideSensor]) -> None:
        """Stores whom to follow."""
        self._beside = beside
        self._prim = prim
        self._images = sorted(images, key=lambda image: -image.rate)
        self._rate = rate if rate > 0.0 else self._images[0].rate
        self._sample: SensorSample | None = None
        self._asked_ns = -1

    def measure(self, time_ns: int) -> SensorSample | None:
        """Returns the newest stamp, without arrays; None before there is one."""
        self._beside.latch(time_ns)
        since = self._asked_ns if self._asked_ns >= 0 else time_ns
        self._asked_ns = time_ns
        image = next((each for each in self._images if each.asked_ns >= since), None)
        if image is None:
            self._show(time_ns, seldom=True)
        elif image.sample is not None:
            # Every image's, unless fewer are asked for.
            self._show(image.sample.stamp_ns, seldom=self._rate < 0.99 * image.rate)
        return self._sample

    def forget(self) -> None:
        """Starts over with the time."""
        self._sample = None
        self._asked_ns = -1

    def _show(self, stamp_ns: int, *, seldom: bool) -> None:
        last_ns = -1 if self._sample is None else self._sample.stamp_ns
        same = seldom and last_ns >= 0 and period_at(stamp_ns, self._rate) == period_at(last_ns, self._rate)
        if stamp_ns > last_ns and not same:
            self._sample = SensorSample(prim=self._prim, stamp_ns=stamp_ns, arrays=_NOTHING)


_NOTHING: Mapping[str, NDArray[np.generic]] = {}
