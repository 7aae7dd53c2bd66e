"""Ray sensors: LaserScan, PointCloud2 and Range, each with one call of `mj_multiRay`.

Ranges follow REP 117: inf where nothing is within `range_max`, -inf where something is nearer than `range_min`.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.async_sensors import SensorNoise
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.instruments import Arrays, site_id
from usd_ros_bridge.backends.mujoco.spec_builder import AUXILIARY_GROUP, COLLIDER_GROUP, HIDDEN_GROUP
from usd_ros_bridge.model.physics import WORLD_BODY
from usd_ros_bridge.model.sensors import DepthCloudSensor, RangeSensor, RaySensor
from usd_ros_bridge.spatial.transforms import FloatArray

_FAR: Final = 1e10
RAY_NORMALS: Final = "normal" in (mujoco.mj_multiRay.__doc__ or "")
"""`mj_multiRay` has an argument for normals (MuJoCo 3.5 and later)."""


class RayScene:
    """A copy of the model whose colliders rays hit; one robot at a time can be excluded.

    `mj_multiRay` excludes one body. To exclude a robot, its geoms are put into a group that the cast leaves out. The
    simulation's own model stays unchanged: renderers may read it in another thread. One thread at a time.
    """

    def __init__(self, compiled: CompiledModel) -> None:
        self._model = copy.copy(compiled.model)
        robots = np.array([body.robot for body in compiled.scene.bodies], dtype=np.intp)
        of_body = np.full(self._model.nbody, WORLD_BODY, dtype=np.intp)
        present = compiled.body_ids >= 0
        of_body[compiled.body_ids[present]] = robots[present]
        self._robot_of_geom = of_body[self._model.geom_bodyid]
        self._groups = self._model.geom_group.copy()
        hit = (self._groups == COLLIDER_GROUP) | (self._groups == HIDDEN_GROUP)
        # In MuJoCo rays pass through fully transparent geoms; a lidar ignores purposes and opacity.
        self._model.geom_rgba[hit, 3] = 1.0
        self._mask = np.zeros(6, dtype=np.uint8)
        self._mask[[COLLIDER_GROUP, HIDDEN_GROUP]] = 1
        self._excluded = -1

    def cast(
        self,
        data: Any,
        point: FloatArray,
        directions: FloatArray,
        *,
        distances: FloatArray,
        geoms: NDArray[np.int32],
        robot: int,
        body: int,
        reach: float,
        normals: FloatArray | None = None,
    ) -> None:
        """Cast rays from one point.

        Args:
            data: MjData whose poses are current, of this model or of the one it was copied from.
            point: (3,) in the world, m.
            directions: (N, 3) unit vectors in the world.
            distances: (N,) is overwritten: m, -1 without a hit.
            geoms: (N,) is overwritten: ids of the geoms that are hit, -1 without a hit.
            robot: Robot whose bodies are excluded, -1 for none.
            body: Id of the body that is excluded, -1 for none.
            reach: Longest distance of interest, m.
            normals: (N, 3) is overwritten: normals of the surfaces that are hit, in the world, if MuJoCo has them
                (`RAY_NORMALS`).
        """
        if robot != self._excluded:
            self._model.geom_group[:] = self._groups
            if robot >= 0:
                self._model.geom_group[self._robot_of_geom == robot] = AUXILIARY_GROUP
            self._excluded = robot
        flat = None if normals is None else normals.reshape(-1)
        extra = {"normal": flat} if RAY_NORMALS else {}
        mujoco.mj_multiRay(
            self._model,
            data,
            pnt=point,
            vec=directions.reshape(-1),
            geomgroup=self._mask,
            flg_static=True,
            bodyexclude=body,
            geomid=geoms,
            dist=distances,
            nray=len(distances),
            cutoff=min(reach, _FAR),
            **extra,
        )


class Rays:
    """The rays of one sensor. Its arrays change at the next cast.

    Attributes:
        directions: (N, 3) unit vectors in the sensor's frame.
        ranges: (N,) m, inf and -inf as in REP 117.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        scene: RayScene,
        sensor: RaySensor,
        directions: FloatArray,
        noise: SensorNoise | None,
    ) -> None:
        count = len(directions)
        self.directions = np.ascontiguousarray(directions)
        self.ranges = np.empty(count)
        self._sensor, self._scene = sensor, scene
        self._noise = noise if sensor.noise_stddev > 0.0 else None
        self._site = site_id(compiled, sensor)
        self._turned = np.empty((count, 3))
        self._geoms = np.empty(count, dtype=np.int32)
        self._distances = np.empty(count)
        self._robot = self._body = -1
        if sensor.body != WORLD_BODY:
            robot = compiled.scene.bodies[sensor.body].robot
            self._robot = robot if sensor.exclude_robot else -1
            self._body = int(compiled.body_ids[sensor.body])

    def cast(self, data: Any, time_ns: int) -> None:
        """Measure in the current poses of `data` (MjData)."""
        sensor, distances, ranges = self._sensor, self._distances, self.ranges
        world_from_sensor = data.site_xmat[self._site].reshape(3, 3)
        np.matmul(self.directions, world_from_sensor.T, out=self._turned)
        # A margin: noise may bring a hit that is just out of range into it.
        reach = sensor.range_max + 6.0 * sensor.noise_stddev
        self._scene.cast(
            data,
            data.site_xpos[self._site],
            self._turned,
            distances=distances,
            geoms=self._geoms,
            robot=self._robot,
            body=self._body,
            reach=reach,
        )
        missed = distances < 0.0
        if self._noise is not None:
            distances += sensor.noise_stddev * self._noise.normal(len(distances), time_ns)
        np.copyto(ranges, distances)
        ranges[ranges < sensor.range_min] = -np.inf
        ranges[missed | (ranges > sensor.range_max)] = np.inf


def scanner_directions(sensor: RaySensor) -> FloatArray:
    """Return the directions (rings * samples, 3) of a scanner: ring by ring, the lowest first, X forward, Z up."""
    azimuth = np.linspace(sensor.angle_min, sensor.angle_max, sensor.samples)
    elevation = np.linspace(sensor.elevation_min, sensor.elevation_max, sensor.rings)[:, None]
    flat = np.cos(elevation)
    directions = np.empty((sensor.rings, sensor.samples, 3))
    directions[..., 0] = flat * np.cos(azimuth)
    directions[..., 1] = flat * np.sin(azimuth)
    directions[..., 2] = np.sin(elevation)
    return directions.reshape(-1, 3)


def pinhole_directions(sensor: DepthCloudSensor) -> FloatArray:
    """Return the directions (rings * samples, 3) of a camera's points, row by row, in its optical frame."""
    right = (np.arange(sensor.samples) - sensor.cx) / sensor.fx
    down = (np.arange(sensor.rings) - sensor.cy) / sensor.fy
    directions = np.ones((sensor.rings, sensor.samples, 3))
    directions[..., 0], directions[..., 1] = right, down[:, None]
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    return directions.reshape(-1, 3)


def cone_directions(sensor: RangeSensor) -> FloatArray:
    """Return the directions (1 + rings * samples, 3) of a cone about X: its axis, then circles out to its edge."""
    off_axis = sensor.field_of_view / 2.0 * np.arange(1, sensor.rings + 1)[:, None] / sensor.rings
    around = 2.0 * np.pi * np.arange(sensor.samples) / sensor.samples
    directions = np.empty((sensor.rings, sensor.samples, 3))
    directions[..., 0] = np.cos(off_axis)
    directions[..., 1] = np.sin(off_axis) * np.cos(around)
    directions[..., 2] = np.sin(off_axis) * np.sin(around)
    return np.vstack(([1.0, 0.0, 0.0], directions.reshape(-1, 3)))


class LaserScanner:
    """A LaserScan: all rays at one moment, `time_increment` is zero."""

    def __init__(
        self, compiled: CompiledModel, scene: RayScene, sensor: RaySensor, noise: SensorNoise | None
    ) -> None:
        self._rays = Rays(compiled, scene, sensor, scanner_directions(sensor), noise)
        self._fixed = _scalars(
            angle_min=sensor.angle_min,
            angle_max=sensor.angle_max,
            range_min=sensor.range_min,
            range_max=sensor.range_max,
            scan_time=1.0 / sensor.rate if sensor.rate > 0.0 else 0.0,
        )

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the scan of the state in `data`, whose poses are current."""
        self._rays.cast(data, time_ns)
        ranges = self._rays.ranges.astype(np.float32)
        return {"ranges": ranges, **self._fixed}


class PointCloudScanner:
    """A PointCloud2, organised in rings or as the pixels of a camera; NaN without a valid range."""

    def __init__(
        self, compiled: CompiledModel, scene: RayScene, sensor: RaySensor, noise: SensorNoise | None
    ) -> None:
        directions = (
            pinhole_directions(sensor) if isinstance(sensor, DepthCloudSensor) else scanner_directions(sensor)
        )
        self._rays = Rays(compiled, scene, sensor, directions, noise)
        self._directions = self._rays.directions.astype(np.float32)
        self._height = np.array(sensor.rings)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the cloud of the state in `data`, whose poses are current."""
        self._rays.cast(data, time_ns)
        ranges = self._rays.ranges.astype(np.float32)
        ranges[np.isinf(ranges)] = np.nan
        points = self._directions * ranges[:, None]
        return {"points": points, "height": self._height}


class RangeFinder:
    """A Range: the shortest of its cone of rays."""

    def __init__(
        self, compiled: CompiledModel, scene: RayScene, sensor: RangeSensor, noise: SensorNoise | None
    ) -> None:
        self._rays = Rays(compiled, scene, sensor, cone_directions(sensor), None)
        self._sensor = sensor
        self._noise = noise if sensor.noise_stddev > 0.0 else None
        self._fixed = _scalars(
            field_of_view=sensor.field_of_view,
            min_range=sensor.range_min,
            max_range=sensor.range_max,
            radiation_type=("ultrasound", "infrared").index(sensor.radiation),
        )

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the range in the state in `data`, whose poses are current."""
        self._rays.cast(data, time_ns)
        sensor, nearest = self._sensor, float(self._rays.ranges.min())
        if self._noise is not None and np.isfinite(nearest):
            nearest += sensor.noise_stddev * float(self._noise.normal(1, time_ns)[0])
            if not sensor.range_min <= nearest <= sensor.range_max:
                nearest = -np.inf if nearest < sensor.range_min else np.inf
        return {"range": np.array(nearest), **self._fixed}


def _scalars(**numbers: float) -> dict[str, NDArray[Any]]:
    return {name: np.array(value) for name, value in numbers.items()}
