"""Sensors of the scene: measured in the loop, or asynchronously in a thread of their own, at their own rates."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.async_sensors import AsyncSensor, SensorNoise
from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.instruments import (
    Arrays,
    Barometer,
    ContactSwitch,
    ContactWrench,
    Gnss,
    Imu,
    Instrument,
    JointWrench,
    Magnetometer,
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
from usd_ros_bridge.reporting import Report

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

    An Imu on a kinematic body is left out: for MuJoCo that body has no velocity, and the bridge computes its motion.
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


Job = Callable[[Any], Arrays]
"""Measure the worker's own MjData, whose poses are those of the snapshot; return arrays that nobody changes."""

_START_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoseSnapshot:
    """A copy of the state that all poses follow from.

    Attributes:
        time_ns: Bridge time of the state, nanoseconds.
        qpos: (nq,) positions.
        mocap_pos: (nmocap, 3) positions of kinematic bodies.
        mocap_quat: (nmocap, 4) their quaternions, w x y z.
    """

    time_ns: int
    qpos: NDArray[np.float64]
    mocap_pos: NDArray[np.float64]
    mocap_quat: NDArray[np.float64]

    @classmethod
    def of(cls, data: Any, time_ns: int) -> PoseSnapshot:
        """Copy the state of `data` (MjData)."""
        return cls(
            time_ns=time_ns,
            qpos=data.qpos.copy(),
            mocap_pos=data.mocap_pos.copy(),
            mocap_quat=data.mocap_quat.copy(),
        )

    def apply(self, model: Any, data: Any) -> None:
        """Set all poses of `data`: bodies, geoms, sites, cameras and lights."""
        data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = self.qpos, self.mocap_pos, self.mocap_quat
        data.time = self.time_ns * 1e-9
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)


class SensorWorker:
    """A thread with its own MjData, and GL context where it renders, that measures asynchronous sensors.

    All methods are for the thread that steps. The worker's thread starts with the first measurement.

    Attributes:
        report: Receives reports of sensors that are too slow.
        lockstep: Wait for measurements.
        model: The simulation's MjModel.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        report: Report,
        lockstep: bool = False,
        name: str = "usd_ros_bridge.sensors",
    ) -> None:
        """Initialize.

        Args:
            model: MjModel of the simulation.
            data: MjData of the simulation.
            report: Receives reports of sensors that are too slow.
            lockstep: Wait for each measurement: the same states then give the same samples at the same times.
            name: Name of the thread.
        """
        self.report = report
        self.lockstep = lockstep
        self.model = model
        self._simulated_data = data
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._sensors: list[AsyncSensor] = []
        self._close_callbacks: list[Callable[[], None]] = []
        self._reset_callbacks: list[Callable[[], None]] = []
        self._data: Any = None
        self._applied: PoseSnapshot | None = None
        self._snapshot: PoseSnapshot | None = None
        self._collected_ns = -1
        self._started = self._closed = False
        self._ended = threading.Event()
        self._predecessor: threading.Event | None = None

    def start_after(self, old: SensorWorker) -> None:
        """Wait with the first measurement until `old`, which will be closed soon, has freed what it owns."""
        self._predecessor = old._ended

    def add_sensor(self, prim: str, rate: float, job: Job) -> AsyncSensor:
        """Add a sensor.

        Args:
            prim: Prim path of the interface.
            rate: Hz.
            job: Measures; runs in the worker's thread.
        """
        sensor = AsyncSensor(self, prim, rate, job)
        self._sensors.append(sensor)
        return sensor

    @property
    def measured_snapshot(self) -> PoseSnapshot | None:
        """Return the snapshot that is being measured; for jobs, which run in the worker's thread."""
        return self._applied

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` at the end in the worker's thread, if that was started."""
        self._close_callbacks.append(callback)

    def on_reset(self, callback: Callable[[], None]) -> None:
        """Call `callback` in `reset`."""
        self._reset_callbacks.append(callback)

    def snapshot(self, time_ns: int) -> PoseSnapshot:
        """Return a copy of the simulation's state, the same one for all requests at one time."""
        if self._snapshot is None or self._snapshot.time_ns != time_ns:
            self._snapshot = PoseSnapshot.of(self._simulated_data, time_ns)
        return self._snapshot

    def submit(self, prim: str, snapshot: PoseSnapshot, job: Job) -> Future[SensorSample]:
        """Queue the measurement of a snapshot by `job`."""
        self._started = True
        return self._executor.submit(self._measure, prim, snapshot, job)

    def collect(self, time_ns: int) -> None:
        """Store all results that are done, once per time: requests at one time get results of the same moment."""
        if time_ns == self._collected_ns:
            return
        self._collected_ns = time_ns
        for sensor in self._sensors:
            sensor.collect()

    def reset(self) -> None:
        """Drop all samples and pending measurements: time may start over."""
        for sensor in self._sensors:
            sensor.reset()
        for callback in self._reset_callbacks:
            callback()
        self._snapshot = None
        self._collected_ns = -1

    def close(self) -> None:
        """End the thread after the current measurement, and free what it owns. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for sensor in self._sensors:
            sensor.reset()
            sensor.peers = ()
        freed = None
        if self._started:
            # Refused while the interpreter shuts down: the process then frees everything.
            with suppress(RuntimeError):
                freed = self._executor.submit(self._free)
        self._executor.shutdown(wait=True)
        if freed is not None:
            freed.result()
        # Break the reference cycles: the simulation is freed now, and not by a garbage collection that delays a tick.
        for references in (self._sensors, self._close_callbacks, self._reset_callbacks):
            references.clear()
        self._ended.set()

    def _measure(self, prim: str, snapshot: PoseSnapshot, job: Job) -> SensorSample:
        if self._predecessor is not None:
            self._predecessor.wait(_START_TIMEOUT_S)
            self._predecessor = None
        if self._data is None:
            self._data = mujoco.MjData(self.model)
        if self._applied is not snapshot:
            snapshot.apply(self.model, self._data)
            self._applied = snapshot
        return SensorSample(prim=prim, stamp_ns=snapshot.time_ns, arrays=job(self._data))

    def _free(self) -> None:
        for callback in self._close_callbacks:
            callback()
        self._data = self._applied = None
