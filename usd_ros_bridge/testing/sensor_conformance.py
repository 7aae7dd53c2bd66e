"""Conformance test of sensor models, for authors of plug-ins: subclass `SensorConformance` in a test module.

The sensor is run in a bridge without a middleware: what it would publish is read back by rclpy. It needs pytest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pxr import Gf, Sdf, Usd, UsdGeom
from rclpy.serialization import deserialize_message, serialize_message

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.base import EntityBackend
from usd_ros_bridge.backends.registry import backend_options_of, load_backend, lockstep_options
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.sensor_schemas import SENSOR_MODELS, SensorPlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.ros.endpoints.factory import EndpointFactory
from usd_ros_bridge.ros.endpoints.handlers import Handlers
from usd_ros_bridge.ros.endpoints.publisher import TopicPublisher
from usd_ros_bridge.ros.endpoints.service_handlers import Services, scene_access
from usd_ros_bridge.ros.recording.offline_bridge import schedule_publisher
from usd_ros_bridge.ros.recording.offline_domains import OfflineDomains
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial.transforms import compose, exponential, pose

_TICK_NS = 10_000_000
"""Time between ticks of a backend without a time step of its own."""


class CollectedMessages:
    """Messages of all publishers, by topic: a MessageTap."""

    def __init__(self) -> None:
        self.of_topic: dict[str, list[bytes]] = {}
        self.classes: dict[str, Any] = {}

    def open_channel(self, *, topic: str, message_class: Any, profile: Any, domain_id: int) -> _Channel:
        """Return what takes the messages of a publisher."""
        del profile, domain_id
        self.classes[topic] = message_class
        return _Channel(self.of_topic.setdefault(topic, []))


class _Channel:
    takes_all = True

    def __init__(self, messages: list[bytes]) -> None:
        self._messages = messages

    def is_wanted(self) -> bool:
        return True

    def write(self, data: bytes | bytearray) -> None:
        self._messages.append(bytes(data))

    def close(self) -> None:
        pass


class SensorBench:
    """A bridge without a middleware that publishes the sensors of a plan, in lockstep and as fast as possible.

    Attributes:
        plan: The plan.
        runtime: The runtime, open.
        reports: What was reported, by kind.
        time_ns: Bridge time, nanoseconds.
    """

    def __init__(
        self, plan: BridgePlan, resources: ExitStack, *, backend: str, options: Mapping[str, str], seed: int
    ) -> None:
        """Open the bridge; arguments as those of `open_sensors`."""
        self.plan = plan
        self.reports: dict[str, str] = {}
        self.time_ns = 0
        self._messages = CollectedMessages()
        self.runtime = Runtime(
            plan,
            load_backend(backend),
            options=BridgeOptions(seed=seed, backend_options=lockstep_options(backend, options)),
            reporter=OnceReporter(self._note),
        )
        resources.callback(self.runtime.close)
        self.runtime.open()
        self._open_publishers(resources)

    def run(self, seconds: float) -> None:
        """Advance by some bridge time, in steps of the backend."""
        step_ns = self.runtime.capabilities.step_ns or _TICK_NS
        end_ns = self.time_ns + round(seconds * 1e9)
        while self.time_ns + step_ns <= end_ns:
            self.time_ns += step_ns
            self.runtime.tick(self.time_ns)

    def reset(self) -> None:
        """Go back to the state at rest and to time 0, and forget all messages."""
        self.runtime.reset()
        self.time_ns = 0
        for messages in self._messages.of_topic.values():
            messages.clear()

    def data(self, path: str) -> list[bytes]:
        """Return the serialized messages of the publisher at a prim so far."""
        return self._messages.of_topic[self._topic(path).name]

    def messages(self, path: str) -> list[Any]:
        """Return the messages of the publisher at a prim so far."""
        message_class = self._messages.classes[self._topic(path).name]
        return [deserialize_message(data, message_class) for data in self.data(path)]

    def texts(self, path: str) -> list[str]:
        """Return the messages as text, to compare them: serialized ones have bytes without a meaning."""
        return [repr(message) for message in self.messages(path)]

    def _note(self, kind: str, message: str) -> None:
        self.reports.setdefault(kind, message)

    def _topic(self, path: str) -> TopicPlan:
        return next(topic for topic in self.plan.topics if topic.path == path)

    def _open_publishers(self, resources: ExitStack) -> None:
        runtime, plan = self.runtime, self.runtime.plan
        workers, handlers = Workers(), Handlers(plan)
        resources.callback(workers.close)
        scene, no_scene = scene_access(plan, edits=False)
        factory = EndpointFactory(
            OfflineDomains(self._messages, node_name="sensors"),
            runtime,
            handlers=handlers,
            workers=workers,
            services=Services(handlers, runtime, scene, no_scene),
            inform=lambda kind, message: None,  # noqa: ARG005
            publish_unmatched=False,
        )
        sensors = {sensor.path for sensor in plan.sensors}
        for topic in plan.topics:
            if topic.path not in sensors:
                continue
            publisher = factory.make(topic, "topic").endpoint
            assert isinstance(publisher, TopicPublisher), publisher
            resources.callback(publisher.close)
            schedule_publisher(runtime, publisher)


@contextmanager
def open_sensors(
    plan: BridgePlan, *, backend: str = "mujoco", options: Mapping[str, str] | None = None, seed: int = 0
) -> Iterator[SensorBench]:
    """Open a bridge without a middleware that publishes the sensors of a plan.

    Args:
        plan: The plan, with physics if the backend needs it.
        backend: Name of the backend.
        options: Options of the backend.
        seed: Seed of the noise.
    """
    with ExitStack() as resources:
        yield SensorBench(plan, resources, backend=backend, options=options or {}, seed=seed)


class SensorConformance:
    """Check a sensor model. Subclass it in a test module with `asset` and `path`; pytest runs its tests.

    Attributes:
        asset: USD file with the sensor on a robot that stands in a scene where it measures something.
        path: Prim path of the publisher.
        noisy: The asset authors noise: another seed then makes other readings.
        backend: Name of the backend.
        step: How the robot's body is moved in its own axes: (6,) m and rad. The reading must change.
        copies: How many copies of the asset are run together.
        seconds: Bridge time of each run.
    """

    asset: str | Path
    path: str
    noisy = True
    backend = "mujoco"
    step: tuple[float, ...] = (0.1, 0.1, 0.0, 0.0, 0.0, 0.2)
    copies = 20
    seconds = 1.0

    def check_message(self, message: Any) -> None:
        """Check the fields of a message: sizes of images, clouds and scans. Override it for more."""
        if hasattr(message, "step") and hasattr(message, "encoding"):
            assert len(message.data) == message.step * message.height, "data, step and height do not fit"
            assert message.width > 0, "the image is empty"
        if hasattr(message, "point_step"):
            assert len(message.data) == message.row_step * message.height, (
                "data, row_step and height do not fit"
            )
        if hasattr(message, "angle_increment"):
            last = message.angle_min + message.angle_increment * (len(message.ranges) - 1)
            assert abs(last - message.angle_max) < 1e-3, "ranges and angles do not fit"

    def test_the_model_is_found(self, sensor_plan: BridgePlan) -> None:
        """The plan has the sensor, and its prim has no fault."""
        faults = [str(each) for each in sensor_plan.diagnostics if each.path == self.path]
        sensor = self._sensor(sensor_plan)
        assert SENSOR_MODELS.fault(sensor.schema) == ""
        assert not faults

    def test_messages_are_valid(self, sensor_plan: BridgePlan) -> None:
        """Stamps grow, the frame is that of the plan, and sizes fit."""
        with self._open(sensor_plan) as bench:
            bench.run(self.seconds)
            messages = bench.messages(self.path)
            assert not bench.reports
        assert len(messages) > 1, "nothing is published"
        topic = next(each for each in sensor_plan.topics if each.path == self.path)
        stamps = []
        for message in messages:
            self.check_message(message)
            again = deserialize_message(serialize_message(message), type(message))
            assert repr(again) == repr(message)
            if hasattr(message, "header"):
                assert message.header.frame_id == topic.frame_id
                stamps.append(message.header.stamp.sec * 10**9 + message.header.stamp.nanosec)
        assert stamps == sorted(set(stamps)), "stamps must grow"

    def test_it_has_its_rate(self, sensor_plan: BridgePlan) -> None:
        """It publishes once in each period of the topic's rate."""
        topic = next(each for each in sensor_plan.topics if each.path == self.path)
        assert topic.publish_rate is not None
        with self._open(sensor_plan) as bench:
            bench.run(self.seconds)
            assert abs(len(bench.data(self.path)) - self.seconds * topic.publish_rate) <= 1

    def test_a_seed_repeats_it(self, sensor_plan: BridgePlan) -> None:
        """The same seed makes the same messages, also after a reset; another one makes others if there is noise."""
        with self._open(sensor_plan, seed=1) as bench:
            bench.run(self.seconds)
            first = bench.texts(self.path)
            bench.reset()
            bench.run(self.seconds)
            assert bench.texts(self.path) == first, "after a reset"
        with self._open(sensor_plan, seed=1) as bench:
            bench.run(self.seconds)
            assert bench.texts(self.path) == first, "with the same seed"
        with self._open(sensor_plan, seed=2) as bench:
            bench.run(self.seconds)
            assert (bench.texts(self.path) != first) == self.noisy, "with another seed"

    def test_it_follows_the_robot(self, sensor_plan: BridgePlan) -> None:
        """The reading changes when the body that carries it moves."""
        body = self._body(sensor_plan)
        with self._open(sensor_plan, noise=False) as bench:
            backend = bench.runtime.backend
            assert isinstance(backend, EntityBackend), (
                f"{self.backend} cannot move bodies: override this test"
            )
            bench.run(self.seconds)
            before = _contents(bench.messages(self.path)[-1])
            step = np.array(self.step)
            moved = compose(backend.entity_state(body).pose, pose(step[:3], exponential(step[3:])))
            assert backend.set_entity_state(body, pose=moved) == ""
            bench.run(self.seconds)
            assert _contents(bench.messages(self.path)[-1]) != before

    def test_many_of_them(self, tmp_path: Path) -> None:
        """Copies of the asset, far apart: each publishes what the first one does."""
        plan = load_plan(self._write_copies(tmp_path), physics=True)
        paths = [sensor.path for sensor in plan.sensors if sensor.path.endswith(self._suffix())]
        assert len(paths) == self.copies
        with self._open(plan, noise=False) as bench:
            bench.run(self.seconds)
            assert not bench.reports
            lengths = {len(bench.data(path)) for path in paths}
        assert len(lengths) == 1
        assert lengths.pop() > 1

    def test_it_closes(self, sensor_plan: BridgePlan) -> None:
        """No thread of the bridge is left, whenever it is closed."""
        before = set(threading.enumerate())
        for seconds in (0.0, self.seconds):
            with self._open(sensor_plan) as bench:
                bench.run(seconds)
            bench.runtime.close()
        assert not [each.name for each in threading.enumerate() if each not in before and each.is_alive()]

    @pytest.fixture
    def sensor_plan(self) -> BridgePlan:
        """The plan of the asset, with physics."""
        return load_plan(self.asset, physics=True)

    def _open(self, plan: BridgePlan, *, noise: bool = True, seed: int = 0) -> Any:
        options = {} if noise or "noise" not in backend_options_of(self.backend) else {"noise": "false"}
        return open_sensors(plan, backend=self.backend, options=options, seed=seed)

    def _sensor(self, plan: BridgePlan) -> SensorPlan:
        found = [sensor for sensor in plan.sensors if sensor.path == self.path]
        assert found, f"no sensor model feeds {self.path}: {[str(each) for each in plan.diagnostics]}"
        return found[0]

    def _body(self, plan: BridgePlan) -> str:
        topic = next(each for each in plan.topics if each.path == self.path)
        assert topic.body >= 0, "no body carries the sensor: override test_it_follows_the_robot"
        return plan.layout.bodies[topic.body]

    def _suffix(self) -> str:
        """Return the path of the publisher below the asset's default prim."""
        default = load_plan(self.asset).default_prim
        return self.path[len(default) :]

    def _write_copies(self, folder: Path) -> Path:
        """Write a stage with copies of the asset, 1 km apart, and with robots of their own namespaces."""
        plan = load_plan(self.asset)
        file = folder / "copies.usda"
        stage = Usd.Stage.CreateNew(str(file))
        UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
        UsdGeom.SetStageMetersPerUnit(stage, 1.0)
        stage.SetMetadata("timeCodesPerSecond", 1.0)
        stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/copies").GetPrim())
        for number in range(self.copies):
            copy = UsdGeom.Xform.Define(stage, f"/copies/copy_{number}")
            UsdGeom.XformCommonAPI(copy).SetTranslate(Gf.Vec3d(1000.0 * number, 0.0, 0.0))
            copy.GetPrim().GetReferences().AddReference(str(Path(self.asset).resolve()))
            for robot in plan.robots:
                # The default prim of the asset is the copy.
                inside = robot.path[len(plan.default_prim) :]
                prim = stage.OverridePrim(f"/copies/copy_{number}{inside}")
                name = f"copy_{number}{robot.namespace.rstrip('/')}"
                prim.CreateAttribute("ros:context:namespace", Sdf.ValueTypeNames.String).Set(name)
        stage.Save()
        return file


def _contents(message: Any) -> str:
    """Return a message as text, without its stamp."""
    if hasattr(message, "header"):
        message.header.stamp.sec = message.header.stamp.nanosec = 0
    return repr(message)
