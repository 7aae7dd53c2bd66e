"""Sensors of the scene, except cameras: measure them in the loop, or asynchronously where that takes long."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Protocol

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.async_sensors import Arrays, SensorWorker
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.gnss_mag_baro import Barometer, Gnss, Magnetometer, Thermometer
from usd_ros_bridge.backends.mujoco.rays import LaserScanner, PointCloudScanner, RangeFinder, RayScene
from usd_ros_bridge.backends.mujoco.sensor_site import SensorNoise, site_id
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.model.message_types import POINT_CLOUD
from usd_ros_bridge.model.physics import WORLD_BODY
from usd_ros_bridge.model.sensors import (
    BarometerSensor,
    CameraSensor,
    ContactSensor,
    GnssSensor,
    ImuSensor,
    MagnetometerSensor,
    RangeSensor,
    RaySensor,
    Sensor,
    ThermometerSensor,
    WrenchSensor,
)
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray, exponential, quaternion_multiply

MANY_RAYS: Final = 4096
"""A sensor with more rays is measured asynchronously."""


class Instrument(Protocol):
    """Measure one quantity."""

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the measurement of the state in `data` (MjData), by name of the array."""
        ...


class SensorReader(Protocol):
    """Measure one interface."""

    def measure(self, time_ns: int) -> SensorSample | None:
        """Return the newest sample, None while there is none; `time_ns` is the time of the simulation's state."""
        ...


def make_sensors(
    simulation: Simulation, worker: SensorWorker, *, seed: int = 0, noise: bool = True
) -> dict[str, SensorReader]:
    """Return the sensors of a simulation's scene, except cameras, by the prim path of the interface.

    An Imu on a kinematic body is left out: for MuJoCo that body has no velocity, and the bridge knows its motion.
    Noise depends on the seed, the prim and the stamp alone: a reset changes nothing about it.

    Args:
        simulation: The simulation; its specification has gone through `add_sensor_sites`.
        worker: Measures sensors that take long.
        seed: Seed of the noise.
        noise: Apply authored noise.
    """
    compiled = simulation.compiled

    @cache
    def ray_scene(*, asynchronous: bool) -> RayScene:  # noqa: ARG001 - a scene for each thread
        return RayScene(compiled)

    sensors: dict[str, SensorReader] = {}
    for sensor in compiled.scene.sensors:
        if isinstance(sensor, CameraSensor) or (
            isinstance(sensor, ImuSensor) and _is_kinematic(compiled, sensor.body)
        ):
            continue
        own_noise = SensorNoise(seed, sensor.path) if noise else None
        if not isinstance(sensor, RaySensor):
            sensors[sensor.path] = _make_sync_sensor(simulation, sensor, own_noise)
            continue
        asynchronous = sensor.samples * sensor.rings > MANY_RAYS
        rays = _make_ray_instrument(compiled, ray_scene(asynchronous=asynchronous), sensor, own_noise)
        sensors[sensor.path] = (
            worker.add_sensor(sensor.path, sensor.rate, _job(rays))
            if asynchronous
            else SyncSensor(simulation, sensor.path, rays)
        )
    return sensors


class SyncSensor:
    """A sensor that is measured in the loop."""

    def __init__(
        self,
        simulation: Simulation,
        prim: str,
        instrument: Instrument,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """Initialize.

        Args:
            simulation: The simulation.
            prim: Prim path of the interface.
            instrument: Measures.
            prepare: Computes what the instrument needs besides poses and velocities.
        """
        self._simulation, self._prim, self._instrument = simulation, prim, instrument
        self._prepare = prepare

    def measure(self, time_ns: int) -> SensorSample | None:
        """Measure the simulation's state."""
        if self._prepare is not None:
            self._prepare()
        arrays = self._instrument.arrays(self._simulation.data, time_ns)
        return SensorSample(prim=self._prim, stamp_ns=time_ns, arrays=arrays)


def _is_kinematic(compiled: CompiledModel, body: int) -> bool:
    """Return whether a body is kinematic, or fixed to one that is."""
    if body == WORLD_BODY:
        return False
    model, body_id = compiled.model, compiled.body_ids[body]
    return bool(model.body_treeid[body_id] < 0 and model.body_mocapid[model.body_rootid[body_id]] >= 0)


def _job(instrument: Instrument) -> Callable[[Any], Arrays]:
    return lambda data: instrument.arrays(data, round(data.time * 1e9))


def _make_ray_instrument(
    compiled: CompiledModel, scene: RayScene, sensor: RaySensor, noise: SensorNoise | None
) -> Instrument:
    if isinstance(sensor, RangeSensor):
        return RangeFinder(compiled, scene, sensor, noise)
    kind = PointCloudScanner if sensor.type == POINT_CLOUD else LaserScanner
    return kind(compiled, scene, sensor, noise)


def _make_sync_sensor(simulation: Simulation, sensor: Sensor, noise: SensorNoise | None) -> SyncSensor:
    compiled = simulation.compiled
    prepare: Callable[[], None] | None = None
    instrument: Instrument
    match sensor:
        case ImuSensor():
            instrument, prepare = Imu(compiled, sensor, noise), simulation.update_joint_forces
        case WrenchSensor(joint=joint) if joint >= 0:
            instrument, prepare = JointWrench(compiled, sensor, noise), simulation.update_joint_forces
        case WrenchSensor():
            instrument, prepare = ContactWrench(compiled, sensor, noise), simulation.update_forces
        case ContactSensor():
            instrument, prepare = ContactSwitch(compiled, sensor), simulation.update_forces
        case GnssSensor():
            instrument = Gnss(compiled, sensor, noise)
        case MagnetometerSensor():
            instrument = Magnetometer(compiled, sensor, noise)
        case BarometerSensor():
            instrument = Barometer(compiled, sensor, noise)
        case ThermometerSensor():
            instrument = Thermometer(compiled, sensor, noise)
        case _:
            raise TypeError(f"{sensor.path}: nothing measures a {type(sensor).__name__}")
    return SyncSensor(simulation, sensor.path, instrument, prepare)


class Imu:
    """An Imu: orientation, angular velocity and specific force of a site, gravity included (REP 145)."""

    def __init__(self, compiled: CompiledModel, sensor: ImuSensor, noise: SensorNoise | None) -> None:
        self._model = compiled.model
        self._site = site_id(compiled, sensor)
        body = int(compiled.model.site_bodyid[self._site])
        # Some releases of MuJoCo have no acceleration, and so no gravity, for bodies that no joint moves.
        self._static = body if compiled.model.body_treeid[body] < 0 else -1
        deviations = (sensor.gyro_stddev, sensor.accel_stddev, sensor.orientation_stddev)
        self._noise = noise if any(deviations) else None
        self._deviation = np.repeat(deviations, 3)
        self._covariances = {
            f"{name}_covariance": np.diag(diagonal).reshape(9)
            for name, diagonal in (
                ("orientation", sensor.orientation_covariance),
                ("angular_velocity", sensor.angular_velocity_covariance),
                ("linear_acceleration", sensor.linear_acceleration_covariance),
            )
        }

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the measurement of the state in `data`, whose accelerations (`cacc`) are current."""
        model, site, kind = self._model, self._site, mujoco.mjtObj.mjOBJ_SITE
        velocity, acceleration, w_first = np.empty(6), np.empty(6), np.empty(4)
        mujoco.mj_objectVelocity(model, data, kind, site, velocity, 1)
        # `cacc` is relative to free fall: it includes gravity.
        if self._static < 0:
            mujoco.mj_objectAcceleration(model, data, kind, site, acceleration, 1)
        else:
            acceleration[3:] = data.site_xmat[site].reshape(3, 3).T @ data.cacc[self._static, 3:]
        mujoco.mju_mat2Quat(w_first, data.site_xmat[site])
        orientation, rate, force = w_first[[1, 2, 3, 0]], velocity[:3], acceleration[3:]
        if self._noise is not None:
            error = self._deviation * self._noise.normal(9, time_ns)
            rate, force = rate + error[:3], force + error[3:6]
            orientation = quaternion_multiply(orientation, exponential(error[6:]))
        return {
            "orientation": orientation,
            "angular_velocity": rate,
            "linear_acceleration": force,
            **self._covariances,
        }


_WORLD: Final = 0
"""Id of MuJoCo's world body."""


class _Frame:
    """A frame fixed to a body, or to the world."""

    def __init__(self, compiled: CompiledModel, body: int, body_from_frame: Pose) -> None:
        self._body = _WORLD if body == WORLD_BODY else int(compiled.body_ids[body])
        x, y, z, w = body_from_frame.rotation
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, np.array([w, x, y, z]))
        self._rotation = matrix.reshape(3, 3)
        self._translation = np.array(body_from_frame.translation)

    def origin(self, data: Any) -> FloatArray:
        """Return the origin in the world, m."""
        world_from_body = data.xmat[self._body].reshape(3, 3)
        result: FloatArray = data.xpos[self._body] + world_from_body @ self._translation
        return result

    def rotate(self, data: Any, vector: FloatArray) -> FloatArray:
        """Return a vector of the world frame in the axes of this frame."""
        world_from_body = data.xmat[self._body].reshape(3, 3)
        result: FloatArray = self._rotation.T @ (world_from_body.T @ vector)
        return result


class _Wrench:
    """A wrench in the axes of the header's frame, with noise."""

    def __init__(self, compiled: CompiledModel, sensor: WrenchSensor, noise: SensorNoise | None) -> None:
        self._axes = _Frame(compiled, sensor.frame_body, sensor.body_from_frame)
        deviations = (sensor.noise_stddev, sensor.torque_stddev)
        self._noise = noise if any(deviations) else None
        self._deviation = np.repeat(deviations, 3)

    def _arrays(self, data: Any, time_ns: int, force: FloatArray, torque: FloatArray) -> Arrays:
        wrench = np.concatenate((self._axes.rotate(data, force), self._axes.rotate(data, torque)))
        if self._noise is not None:
            wrench += self._deviation * self._noise.normal(6, time_ns)
        return {"wrench": wrench}


class JointWrench(_Wrench):
    """The wrench that body1 of a joint exerts on body0, the torque about the joint frame's origin in body1."""

    def __init__(self, compiled: CompiledModel, sensor: WrenchSensor, noise: SensorNoise | None) -> None:
        super().__init__(compiled, sensor, noise)
        scene, joint = compiled.scene, compiled.scene.joints[sensor.joint]
        child = next(index for index, body in enumerate(scene.bodies) if sensor.joint in body.joints)
        self._child = int(compiled.body_ids[child])
        self._root = int(compiled.model.body_rootid[self._child])
        # `cfrc_int` is exerted by the parent on the child: where the tree runs child first, by body1 on body0.
        self._sign = -1.0 if joint.body1 == child else 1.0
        self._anchor = _Frame(compiled, joint.body1, joint.body1_from_joint)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the wrench in the state in `data`, whose forces (`cfrc_int`) are current."""
        spatial = self._sign * data.cfrc_int[self._child]
        arm = data.subtree_com[self._root] - self._anchor.origin(data)
        return self._arrays(data, time_ns, spatial[3:], spatial[:3] + np.cross(arm, spatial[3:]))


class _BodyContacts:
    """The contacts of one body."""

    def __init__(self, compiled: CompiledModel, body: int) -> None:
        self._model = compiled.model
        self._is_own = compiled.model.geom_bodyid == compiled.body_ids[body]

    def forces(self, data: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the contacts of the body, in the world frame.

        Returns:
            Points (N, 3) m, forces (N, 3) N, torques (N, 3) N m about those points, normal forces (N,) N.
        """
        contact = data.contact
        pairs = contact.geom
        # Flexible bodies have no geom.
        own = self._is_own[pairs] & (pairs >= 0) if len(pairs) else np.zeros((0, 2), dtype=bool)
        ids = np.flatnonzero(own[:, 0] != own[:, 1])
        local = np.zeros((len(ids), 6))
        for row, number in enumerate(ids.tolist()):
            mujoco.mj_contactForce(self._model, data, number, local[row])
        # The rows of `frame` are the contact's axes; the first is the normal, from the first geom to the second. The
        # force acts on the second one.
        frames = contact.frame[ids].reshape(-1, 3, 3)
        sign = np.where(own[ids, 1], 1.0, -1.0)[:, None]
        force = sign * np.einsum("nij,ni->nj", frames, local[:, :3])
        torque = sign * np.einsum("nij,ni->nj", frames, local[:, 3:])
        return contact.pos[ids], force, torque, local[:, 0]


class ContactWrench(_Wrench):
    """The sum of all contact wrenches of a body, the torque about the sensor's origin."""

    def __init__(self, compiled: CompiledModel, sensor: WrenchSensor, noise: SensorNoise | None) -> None:
        super().__init__(compiled, sensor, noise)
        self._contacts = _BodyContacts(compiled, sensor.body)
        self._site = site_id(compiled, sensor)

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Return the wrench in the state in `data`, whose constraint forces are current."""
        points, forces, torques, _ = self._contacts.forces(data)
        about = torques + np.cross(points - data.site_xpos[self._site], forces)
        return self._arrays(data, time_ns, forces.sum(axis=0), about.sum(axis=0))


class ContactSwitch:
    """A Bool: the contact force on a body is above a threshold."""

    def __init__(self, compiled: CompiledModel, sensor: ContactSensor) -> None:
        self._threshold = sensor.threshold
        self._contacts = _BodyContacts(compiled, sensor.body)

    def arrays(self, data: Any, time_ns: int) -> Arrays:  # noqa: ARG002 - Instrument
        """Return the value for the state in `data`, whose constraint forces are current."""
        *_, normal = self._contacts.forces(data)
        return {"data": np.array(bool(normal.sum() > self._threshold))}
