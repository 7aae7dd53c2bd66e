"""Run the sensor models of plug-ins: copy what they read of the state, and measure in the tick or beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from usd_ros_bridge.backends.async_sensors import AsyncSensor, SensorNoise
from usd_ros_bridge.backends.base import (
    Backend,
    Capabilities,
    ContactBackend,
    EntityBackend,
    RayBackend,
    RayCaster,
    RenderBackend,
)
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.sensor_schemas import IMAGES, SENSOR_MODELS, SensorModel, SensorPlan
from usd_ros_bridge.model.sensors import image_path
from usd_ros_bridge.model.state import SensorSample
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.runtime.sensor_context import (
    Measured,
    MeasuringSensor,
    SensorContext,
    SensorInputs,
    SensorSetup,
)
from usd_ros_bridge.runtime.snapshot import Sense, Snapshot
from usd_ros_bridge.spatial.scalar import acceleration_at, velocity_at
from usd_ros_bridge.spatial.transforms import FloatArray, compose, pose_array

Measure = Callable[[SensorInputs], SensorSample | None]


class SensorRunner:
    """Measure the publishers that sensor models feed. For the thread that steps, except the constructor.

    What the host provides comes first, then plug-ins, then what the backend measures by itself.

    Attributes:
        capabilities: The backend's, with the sensors of plug-ins.
    """

    def __init__(
        self, plan: BridgePlan, backend: Backend, *, seed: int, report: Report, backend_sense: Sense | None
    ) -> None:
        """Make the sensors. One whose class cannot be made is reported and left out.

        Args:
            plan: The plan.
            backend: Open.
            seed: Seed of the noise.
            report: For warnings.
            backend_sense: Returns what the backend measures by itself; None if it measures nothing.
        """
        self._plan, self._backend = plan, backend
        self._seed, self._report, self._backend_sense = seed, report, backend_sense
        self._sensors: dict[str, _SyncSensor | AsyncSensor] = {}
        self._made: list[MeasuringSensor] = []
        self._workers: list[_SensorThread] = []
        self._snapshot: Snapshot | None = None
        self._poses: tuple[int, Any] = (-1, None)
        self._caster: RayCaster | None = None
        can = backend.capabilities
        self._can = can
        for schema, sensors in _by_schema(plan, can).items():
            self._add_model(schema, sensors)
        self.capabilities = can
        if self._sensors:
            ours = frozenset(self._sensors)
            # A loop without a time step of its own ticks at the rates of publishers alone.
            beside = {path for path, each in self._sensors.items() if isinstance(each, AsyncSensor)}
            self.capabilities = replace(
                can,
                sensors=can.sensors | ours,
                async_sensors=(can.async_sensors - ours) | (beside if can.step_ns else set()),
            )

    def bind(self, snapshot: Snapshot) -> None:
        """Read the state of a snapshot from now on. Called once, before the first tick."""
        self._snapshot = snapshot

    @property
    def sense(self) -> Sense | None:
        """Return the function that returns a sensor's newest sample; None if there are no sensors at all."""
        return self._sense if self._sensors else self._backend_sense

    def reset(self) -> None:
        """Drop samples and pending measurements: time starts over."""
        self._poses = (-1, None)
        for worker in self._workers:
            worker.reset()
        for measuring in self._made:
            self._call(measuring, "reset")

    def close(self) -> None:
        """End the threads and close the sensors. Idempotent."""
        for worker in self._workers:
            worker.close()
        for measuring in self._made:
            self._call(measuring, "close")
        for references in (self._workers, self._made, self._sensors):
            references.clear()
        self._caster = self._snapshot = None
        self._poses = (-1, None)

    def _sense(self, prim: str) -> SensorSample | None:
        sensor = self._sensors.get(prim)
        if sensor is not None:
            assert self._snapshot is not None
            return sensor.measure(self._snapshot.time_ns)
        return None if self._backend_sense is None else self._backend_sense(prim)

    def _call(self, measuring: MeasuringSensor, name: str) -> None:
        method = getattr(measuring, name, None)
        if method is None:
            return
        try:
            method()
        except Exception as error:  # noqa: BLE001 - the runtime's edge: what a plug-in raises ends nothing else
            kind = type(measuring).__name__
            self._report(f"sensor.failed:{kind}", f"a {kind} failed to {name}: {describe(error)}")

    # --- Making ------------------------------------------------------------------------------------------------

    def _add_model(self, schema: str, sensors: list[tuple[SensorPlan, TopicPlan]]) -> None:
        model = SENSOR_MODELS.get(schema)
        why = SENSOR_MODELS.fault(schema) if model is None else self._missing(model)
        if model is None or why:
            self._leave_out(schema, sensors, why or "there is no such sensor model any more")
            return
        try:
            module, _, name = model.measure.partition(":")
            make = getattr(import_module(module), name)
        except Exception as error:  # noqa: BLE001 - whatever an import raises disables this model alone
            self._leave_out(schema, sensors, f"{model.measure} cannot be imported: {describe(error)}")
            return
        caster = self._make_caster(model)
        worker = None
        if model.beside_loop:
            worker = _SensorThread(schema, report=self._report, lockstep=self._can.lockstep)
            self._workers.append(worker)
        for sensor, topic in sensors:
            self._add_sensor(model, make, sensor, topic, caster, worker)

    def _missing(self, model: SensorModel) -> str:
        """Return which need of a model the backend does not meet, "" for none."""
        has = {
            "rays": isinstance(self._backend, RayBackend),
            "contacts": isinstance(self._backend, ContactBackend),
            **dict.fromkeys(IMAGES, isinstance(self._backend, RenderBackend)),
        }
        missing = sorted(need for need in model.needs if not has.get(need, True))
        name = type(self._backend).__name__
        return (
            f"it needs {' and '.join(missing)}, which {name} does not have: choose another backend"
            if missing
            else ""
        )

    def _leave_out(self, schema: str, sensors: list[tuple[SensorPlan, TopicPlan]], why: str) -> None:
        first = sensors[0][0].path
        which = first if len(sensors) == 1 else f"{first} and {len(sensors) - 1} more"
        self._report(f"sensor.model:{schema}", f"{which}: the sensor model {schema} measures nothing: {why}")

    def _make_caster(self, model: SensorModel) -> RayCaster | None:
        if not isinstance(self._backend, RayBackend) or "rays" not in model.needs:
            return None
        if model.beside_loop:
            return self._backend.ray_caster()
        if self._caster is None:
            self._caster = self._backend.ray_caster()
        return self._caster

    def _add_sensor(
        self,
        model: SensorModel,
        make: Callable[[SensorSetup], MeasuringSensor],
        sensor: SensorPlan,
        topic: TopicPlan,
        caster: RayCaster | None,
        worker: _SensorThread | None,
    ) -> None:
        setup = self._setup(model, sensor, topic, caster)
        try:
            measuring = make(setup)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises disables this sensor alone
            self._report(
                f"sensor.model:{sensor.path}",
                f"{sensor.path}: the sensor model {sensor.schema} cannot be made: {describe(error)}",
            )
            return
        self._made.append(measuring)
        noise = SensorNoise(self._seed, sensor.path)
        noisy = self._can.noise

        def measure(inputs: SensorInputs) -> SensorSample | None:
            if None in inputs.images.values():
                return None
            context = SensorContext(setup, inputs, caster=caster, noise=noise, noisy=noisy)
            arrays = measuring.measure(context)
            return None if arrays is None else _sample(sensor.path, inputs.time_ns, arrays)

        def copy() -> SensorInputs:
            return self._copy_inputs(model, setup, topic)

        if worker is None:
            self._sensors[sensor.path] = _SyncSensor(copy, measure)
        else:
            self._sensors[sensor.path] = worker.add_sensor(sensor.path, setup.rate, (copy, measure))

    def _setup(
        self, model: SensorModel, sensor: SensorPlan, topic: TopicPlan, caster: RayCaster | None
    ) -> SensorSetup:
        plan = self._plan
        surfaces: tuple[str, ...] = () if caster is None else caster.surfaces
        bodies: tuple[str, ...] = () if caster is None else caster.bodies
        if caster is None and "segmentation" in model.needs and isinstance(self._backend, RenderBackend):
            surfaces = self._backend.image_surfaces()
        return SensorSetup(
            path=sensor.path,
            prim=sensor.prim,
            type=topic.type,
            rate=topic.publish_rate or 1.0,
            values=sensor.values,
            body="" if topic.body < 0 else plan.layout.bodies[topic.body],
            robot="" if topic.robot < 0 else plan.robots[topic.robot].path,
            joints=plan.joint_names(topic) if topic.dofs else self._joint_names(topic),
            camera=plan.scene.cameras[topic.camera] if topic.camera >= 0 else None,
            surfaces=surfaces,
            surface_bodies=bodies,
            scene=sensor.scene,
            report=self._report,
        )

    def _joint_names(self, topic: TopicPlan) -> tuple[str, ...]:
        return tuple(self._plan.layout.dofs[row] for row in self._joint_rows(topic))

    def _joint_rows(self, topic: TopicPlan) -> tuple[int, ...]:
        return topic.dofs or (() if topic.robot < 0 else self._plan.robots[topic.robot].joint_state_rows)

    # --- Copying the state -------------------------------------------------------------------------------------

    def _copy_inputs(self, model: SensorModel, setup: SensorSetup, topic: TopicPlan) -> SensorInputs:
        snapshot, needs = self._snapshot, model.needs
        assert snapshot is not None
        state, rows = snapshot.state, list(self._joint_rows(topic))
        joints = np.array([state.joint_position[rows], state.joint_velocity[rows], state.joint_effort[rows]])
        bodies = None
        if "bodies" in needs:
            bodies = dict(zip(self._plan.layout.bodies, snapshot.body_pose.copy(), strict=True))
        images: dict[str, SensorSample | None] = {
            kind: self._image(topic.path, kind) for kind in IMAGES if kind in needs
        }
        stamps = [sample.stamp_ns for sample in images.values() if sample is not None]
        return SensorInputs(
            time_ns=max(stamps, default=snapshot.time_ns),
            pose=compose(snapshot.pose(topic.body), pose_array(topic.body_from_prim)),
            joints=joints,
            motion=self._motion(snapshot, topic) if "motion" in needs else None,
            bodies=bodies,
            contacts=self._contacts(setup.body) if "contacts" in needs else None,
            images=images,
            poses=self._copy_poses(snapshot) if "rays" in needs else None,
        )

    def _motion(self, snapshot: Snapshot, topic: TopicPlan) -> tuple[FloatArray, FloatArray]:
        row, backend = topic.body, self._backend
        rotation, lever = snapshot.body(row)[3:], topic.body_from_prim.translation
        twist = [float(each) for each in snapshot.twist(row)]
        acceleration = None
        if row >= 0 and isinstance(backend, EntityBackend) and not self._plan.layout.kinematic[row]:
            with suppress(KeyError):
                acceleration = backend.entity_state(self._plan.layout.bodies[row]).acceleration
        change = list(snapshot.acceleration(row)) if acceleration is None else acceleration.tolist()
        linear = acceleration_at(rotation, twist, change, lever)
        return np.array(velocity_at(rotation, twist, lever)), np.array((*linear, *change[3:]))

    def _contacts(self, body: str) -> Any:
        assert isinstance(self._backend, ContactBackend)
        return self._backend.contacts(body)

    def _image(self, path: str, kind: str) -> SensorSample | None:
        assert isinstance(self._backend, RenderBackend)
        return self._backend.image(image_path(path, kind))

    def _copy_poses(self, snapshot: Snapshot) -> Any:
        """Return the state that rays are cast in, the same one for all sensors of a tick."""
        assert isinstance(self._backend, RayBackend)
        if self._poses[0] != snapshot.tick:
            self._poses = snapshot.tick, self._backend.copy_poses()
        return self._poses[1]


class _SyncSensor:
    """A sensor that is measured in the tick."""

    def __init__(self, copy: Callable[[], SensorInputs], measure: Measure) -> None:
        self._copy, self._measure = copy, measure

    def measure(self, time_ns: int) -> SensorSample | None:  # noqa: ARG002 - as AsyncSensor
        return self._measure(self._copy())


_Job = tuple[Callable[[], SensorInputs], Measure]


class _SensorThread:
    """The thread of one sensor model. It starts with the first measurement. A MeasuringWorker."""

    def __init__(self, name: str, *, report: Report, lockstep: bool) -> None:
        self.report, self.lockstep = report, lockstep
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"usd_ros_bridge.{name}")
        self._sensors: list[AsyncSensor] = []
        self._collected_ns = -1

    def add_sensor(self, prim: str, rate: float, job: _Job) -> AsyncSensor:
        sensor = AsyncSensor(self, prim, rate, job)
        self._sensors.append(sensor)
        return sensor

    def collect(self, time_ns: int) -> None:
        if time_ns == self._collected_ns:
            return
        self._collected_ns = time_ns
        for sensor in self._sensors:
            sensor.collect()

    def snapshot(self, time_ns: int) -> int:
        # Each sensor copies what it reads in `submit`, which follows at once.
        return time_ns

    def submit(self, prim: str, snapshot: int, job: _Job) -> Future[SensorSample | None]:  # noqa: ARG002
        copy, measure = job
        return self._executor.submit(measure, copy())

    def reset(self) -> None:
        for sensor in self._sensors:
            sensor.reset()
        self._collected_ns = -1

    def close(self) -> None:
        for sensor in self._sensors:
            sensor.reset()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._sensors.clear()


def _by_schema(plan: BridgePlan, can: Capabilities) -> dict[str, list[tuple[SensorPlan, TopicPlan]]]:
    """Return the sensors of each model with their publishers, except what the host measures."""
    topics = {topic.path: topic for topic in plan.topics if topic.enabled}
    of_host = can.sensors if can.sensors_of_host else frozenset()
    found: dict[str, list[tuple[SensorPlan, TopicPlan]]] = {}
    for sensor in plan.sensors:
        if sensor.path in topics and sensor.path not in of_host:
            found.setdefault(sensor.schema, []).append((sensor, topics[sensor.path]))
    return found


def _sample(path: str, time_ns: int, measured: Measured) -> SensorSample:
    arrays: Mapping[str, Any] = {name: np.asarray(value) for name, value in measured.items()}
    return SensorSample(prim=path, stamp_ns=time_ns, arrays=arrays)
