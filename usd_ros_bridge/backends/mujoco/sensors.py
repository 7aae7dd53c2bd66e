"""Sensors of the scene, except cameras: measure them in the loop, or asynchronously where that takes long."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Protocol

from usd_ros_bridge.backends.mujoco.async_sensors import Arrays, SensorWorker
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.instruments import (
    Barometer,
    ContactSwitch,
    ContactWrench,
    Gnss,
    Imu,
    Instrument,
    JointWrench,
    Magnetometer,
    SensorNoise,
    Thermometer,
)
from usd_ros_bridge.backends.mujoco.rays import LaserScanner, PointCloudScanner, RangeFinder, RayScene
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

MANY_RAYS: Final = 4096
"""A sensor with more rays is measured asynchronously."""


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
