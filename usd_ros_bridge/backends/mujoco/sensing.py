"""Sensors: what measures each of the scene's, in the loop or, where that takes long, beside it. Not the cameras."""

from __future__ import annotations

from typing import Any, Final, Protocol

import mujoco

from usd_ros_bridge.backends.mujoco.beside import Arrays, Beside
from usd_ros_bridge.backends.mujoco.compiled import Compiled
from usd_ros_bridge.backends.mujoco.earth import Barometer, Fix, Magnetometer, Thermometer
from usd_ros_bridge.backends.mujoco.imu import Imu
from usd_ros_bridge.backends.mujoco.noise import Noise
from usd_ros_bridge.backends.mujoco.rays import Cloud, RangeFinder, RayScene, Scan
from usd_ros_bridge.backends.mujoco.simulation import Simulation
from usd_ros_bridge.backends.mujoco.sites import equip
from usd_ros_bridge.backends.mujoco.wrench import ContactWrench, JointWrench, Touch
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

__all__ = ["MANY_RAYS", "Measure", "equip", "make_measures"]

MANY_RAYS: Final = 4096
"""A sensor with more rays is measured beside the loop."""


class Instrument(Protocol):
    """What measures one quantity."""

    def arrays(self, data: Any, time_ns: int) -> Arrays:
        """Returns what it shows of the state in `data` (MjData), by array."""
        ...


class Measure(Protocol):
    """What measures one interface."""

    def measure(self, time_ns: int) -> SensorSample | None:
        """Returns the newest sample, None while there is none; `time_ns` is the time of the simulation's state."""
        ...


def make_measures(
    simulation: Simulation, beside: Beside, *, seed: int = 0, noise: bool = True
) -> dict[str, Measure]:
    """Returns what measures the sensors of a simulation's scene but its cameras, by the prim path of the interface.

    An Imu on a kinematic body is left out: MuJoCo sees that body stand still, and the bridge itself knows how it moves.
    Noise depends on the seed, the prim and the stamp alone, so that there is nothing to reset.

    Args:
        simulation: Made from what `equip` has seen.
        beside: Measures what takes long.
        seed: Seed of the noise.
        noise: Whether authored noise acts.
    """
    compiled = simulation.compiled
    here, there = _Rays(compiled), _Rays(compiled)
    measures: dict[str, Measure] = {}
    for sensor in compiled.scene.sensors:
        if isinstance(sensor, CameraSensor) or (
            isinstance(sensor, ImuSensor) and _is_kinematic(compiled, sensor.body)
        ):
            continue
        own = Noise(seed, sensor.path) if noise else None
        if isinstance(sensor, RaySensor):
            heavy = sensor.samples * sensor.rings > MANY_RAYS
            rays = _ray_instrument(compiled, (there if heavy else here).scene, sensor, own)
            if heavy:
                measures[sensor.path] = beside.sensor(sensor.path, sensor.rate, _Job(rays))
            else:
                measures[sensor.path] = _Inline(simulation, sensor, rays)
        else:
            measures[sensor.path] = _instrument(simulation, sensor, own)
    return measures


def _is_kinematic(compiled: Compiled, body: int) -> bool:
    """Returns whether a body is kinematic, or fixed to one that is."""
    if body == WORLD_BODY:
        return False
    model, found = compiled.model, compiled.body_ids[body]
    return bool(model.body_treeid[found] < 0 and model.body_mocapid[model.body_rootid[found]] >= 0)


class _Rays:
    """The model that rays are cast in, made when the first sensor asks for it: one for each thread."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._scene: RayScene | None = None

    @property
    def scene(self) -> RayScene:
        if self._scene is None:
            self._scene = RayScene(self._compiled)
        return self._scene


class _Job:
    """An instrument read in another thread, from a snapshot."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument

    def __call__(self, data: Any) -> Arrays:
        return self._instrument.arrays(data, round(data.time * 1e9))


class _Inline:
    """An instrument read in the loop, where it needs poses and velocities alone."""

    def __init__(self, simulation: Simulation, sensor: Sensor, instrument: Instrument) -> None:
        self._simulation, self._prim, self._instrument = simulation, sensor.path, instrument

    def measure(self, time_ns: int) -> SensorSample | None:
        arrays = self._instrument.arrays(self._simulation.data, time_ns)
        return SensorSample(prim=self._prim, stamp_ns=time_ns, arrays=arrays)


class _Settled(_Inline):
    """An instrument that needs accelerations or forces: those of the same state."""

    def measure(self, time_ns: int) -> SensorSample | None:
        self._simulation.settle()
        return super().measure(time_ns)


class _Transmitted(_Inline):
    """An instrument that needs what bodies feel and joints transmit, which MuJoCo computes on demand."""

    def measure(self, time_ns: int) -> SensorSample | None:
        self._simulation.settle()
        mujoco.mj_rnePostConstraint(self._simulation.model, self._simulation.data)
        return super().measure(time_ns)


def _ray_instrument(
    compiled: Compiled, scene: RayScene, sensor: RaySensor, noise: Noise | None
) -> Instrument:
    if isinstance(sensor, RangeSensor):
        return RangeFinder(compiled, scene, sensor, noise)
    kind = Cloud if sensor.type == "sensor_msgs/msg/PointCloud2" else Scan
    return kind(compiled, scene, sensor, noise)


def _instrument(simulation: Simulation, sensor: Sensor, noise: Noise | None) -> Measure:
    compiled = simulation.compiled
    match sensor:
        case ImuSensor():
            return _Transmitted(simulation, sensor, Imu(compiled, sensor, noise))
        case WrenchSensor(joint=joint) if joint >= 0:
            return _Transmitted(simulation, sensor, JointWrench(compiled, sensor, noise))
        case WrenchSensor():
            return _Settled(simulation, sensor, ContactWrench(compiled, sensor, noise))
        case ContactSensor():
            return _Settled(simulation, sensor, Touch(compiled, sensor))
        case GnssSensor():
            return _Inline(simulation, sensor, Fix(compiled, sensor, noise))
        case MagnetometerSensor():
            return _Inline(simulation, sensor, Magnetometer(compiled, sensor, noise))
        case BarometerSensor():
            return _Inline(simulation, sensor, Barometer(compiled, sensor, noise))
        case ThermometerSensor():
            return _Inline(simulation, sensor, Thermometer(compiled, sensor, noise))
    raise TypeError(f"{sensor.path}: nothing measures a {type(sensor).__name__}")
