"""Sensor models of plug-ins: what is read and planned of them, what they can ask, and who comes first."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

from foreign_plugins import install_plugin
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.backends.mujoco import MujocoBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.sensor_schemas import SENSOR_MODELS
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.runtime import Runtime

STAGE = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
def Xform "World"
{{
    def PhysicsScene "physics" {{ }}
    def Plane "ground" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {{ }}
    def Xform "robot" (prepend apiSchemas = ["RosContextAPI"])
    {{
        def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
        {{
            float physics:mass = 2
            double3 xformOp:translate = (0, 0, {height})
            uniform token[] xformOpOrder = ["xformOp:translate"]
            def Cube "shell" (prepend apiSchemas = ["PhysicsCollisionAPI"])
            {{
                double size = 0.2
            }}
            def {type_name} "probe" (prepend apiSchemas = ["RosFrameAPI", "RosTopicAPI", "ProbeAPI"])
            {{
                token ros:topic:role = "publisher"
                string ros:topic:name = "probe"
                string ros:topic:type = "{message}"
                double ros:topic:publish_rate = {rate}
                {authored}
                double3 xformOp:translate = (0.3, 0, 0)
                uniform token[] xformOpOrder = ["xformOp:translate"]
            }}
        }}
    }}
}}
"""
PROBE = "/World/robot/base/probe"

ROW = """
from usd_ros_bridge import SensorAttribute, SensorModel

PROBE = SensorModel(
    types=frozenset({{"sensor_msgs/msg/Range"}}),
    measure="{module}:Probe",
    attributes={{
        "angle": SensorAttribute(name="probe:angle", default=90.0, unit="degree", low=0.0, high=360.0),
        "count": SensorAttribute(name="probe:count", default=3, low=1),
        "mode": SensorAttribute(name="probe:mode", default="fast", choices=("fast", "slow")),
        "gain": SensorAttribute(name="probe:gain", default=(1.0, 2.0)),
        "armed": SensorAttribute(name="probe:armed", default=True),
    }},
    needs=frozenset({{{needs}}}),
    max_rate=50.0,
    beside_loop={beside_loop},
)


class Probe:
    setups = []
    calls = []

    def __init__(self, setup):
        self.setups.append(setup)

    def measure(self, context):
{body}
        return {{"range": value, "min_range": 0.0, "max_range": 9.0, "field_of_view": 0.1}}

    def reset(self):
        self.calls.append("reset")

    def close(self):
        self.calls.append("close")
"""


class Site:
    """A folder of `sys.path` with a plug-in, and a stage that uses it."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.module = f"sensor_probe_{number}"

    def install(
        self,
        body: str = "value = 1.0",
        *,
        needs: str = "",
        beside_loop: bool = False,
        text: str = "",
        schema: str = "ProbeAPI",
    ) -> None:
        row = ROW.format(module=self.module, body=f"        {body}", needs=needs, beside_loop=beside_loop)
        install_plugin(
            self.folder,
            f"probe-{self.module}",
            entry_points={"sensors": {schema: f"{self.module}:PROBE"}},
            modules={self.module: text or row},
        )

    def plan(self, authored: str = "", **values: Any) -> BridgePlan:
        chosen = {
            "message": "sensor_msgs/msg/Range",
            "rate": 50,
            "height": 1.0,
            "type_name": "Xform",
            **values,
        }
        # A layer that is open is not read again.
        file = self.folder / f"stage_{len(list(self.folder.iterdir()))}.usda"
        file.write_text(STAGE.format(authored=authored, **chosen), encoding="utf-8")
        return load_plan(file, physics=True)

    @property
    def probe(self) -> Any:
        return sys.modules[self.module].Probe


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Site:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Site(tmp_path, abs(hash(request.node.nodeid)))


class Opened:
    """A runtime that is open, and what it reported."""

    def __init__(self, plan: BridgePlan, backend: Backend, **options: str) -> None:
        self.reports: dict[str, str] = {}
        self.runtime = Runtime(
            plan,
            backend,
            options=BridgeOptions(backend_options=options, seed=3),
            reporter=OnceReporter(self.reports.setdefault),
        )
        self.runtime.open()

    def sense(self, time_ns: int) -> Mapping[str, Any] | None:
        self.runtime.tick(time_ns)
        sample = self.runtime.snapshot.sense(PROBE)
        assert sample is None or sample.stamp_ns == time_ns
        return None if sample is None else sample.arrays


@pytest.fixture
def opened() -> Iterator[Any]:
    """Opens runtimes that are closed at the end."""
    found: list[Opened] = []

    def make(plan: BridgePlan, backend: Backend | None = None, **options: str) -> Opened:
        found.append(Opened(plan, backend or MujocoBackend(), **options))
        return found[-1]

    yield make
    for each in found:
        each.runtime.close()


def findings(plan: BridgePlan) -> set[tuple[str, str]]:
    return {(each.code, each.attribute) for each in plan.diagnostics if each.path == PROBE}


def test_built_in_kinds_are_rows_of_the_registry() -> None:
    assert {"lidar", "imu", "camera", "contact", "gnss"} <= set(SENSOR_MODELS.names())
    assert SENSOR_MODELS["lidar"].types == {"sensor_msgs/msg/LaserScan", "sensor_msgs/msg/PointCloud2"}
    assert SENSOR_MODELS["lidar"].needs == {"rays"}
    assert all(entry.builtin for entry in SENSOR_MODELS.entries() if entry.name == "lidar")


def test_attributes_are_checked_and_in_si_units(site: Site) -> None:
    site.install()
    plan = site.plan("""
                custom double probe:angle = 180
                custom int probe:count = 5
                custom token probe:mode = "slow"
                custom double2 probe:gain = (3, 4)
                custom bool probe:armed = 0""")

    assert not findings(plan)
    (sensor,) = plan.sensors
    assert sensor.values == {
        "angle": pytest.approx(np.pi), "count": 5, "mode": "slow", "gain": (3.0, 4.0), "armed": False,
    }  # fmt: skip
    assert (sensor.path, sensor.prim, sensor.schema) == (PROBE, PROBE, "ProbeAPI")


@pytest.mark.parametrize(
    ("authored", "attribute"),
    [
        ("custom double probe:angle = 361", "probe:angle"),
        ("custom double probe:angle = nan", "probe:angle"),
        ("custom int probe:count = 0", "probe:count"),
        ("custom double probe:count = 1.5", "probe:count"),
        ('custom token probe:mode = "quick"', "probe:mode"),
        ("custom double3 probe:gain = (1, 2, 3)", "probe:gain"),
        ('custom string probe:armed = "yes"', "probe:armed"),
    ],
)
def test_an_impossible_value_is_an_error_and_the_default(site: Site, authored: str, attribute: str) -> None:
    site.install()
    plan = site.plan(authored)

    assert findings(plan) == {("1.4.sensor", attribute)}
    assert plan.sensors[0].values == {
        "angle": pytest.approx(np.pi / 2.0), "count": 3, "mode": "fast", "gain": (1.0, 2.0), "armed": True,
    }  # fmt: skip


def test_an_unknown_name_has_a_suggestion(site: Site) -> None:
    site.install()
    plan = site.plan("custom double probe:angel = 1")

    (found,) = [each for each in plan.diagnostics if each.path == PROBE]
    assert (found.code, found.attribute) == ("1.4.sensor.name", "probe:angel")
    assert found.remedy == "did you mean probe:angle?"


def test_a_publisher_is_no_faster_than_its_sensor(site: Site) -> None:
    site.install()
    plan = site.plan(rate=200)

    assert findings(plan) == {("1.4.sensor.rate", "ros:topic:publish_rate")}
    assert plan.topics[0].publish_rate == 50.0


def test_a_sensor_that_nothing_publishes_is_a_warning(site: Site) -> None:
    site.install()
    plan = site.plan(message="sensor_msgs/msg/Temperature")

    assert findings(plan) == {("1.4.sensor.topic", "")}
    assert plan.sensors == ()


def test_a_faulty_plug_in_is_a_diagnostic_and_the_backend_measures(site: Site, opened: Any) -> None:
    site.install(text="import no_such_module\n")
    plan = site.plan()

    (found,) = [each for each in plan.diagnostics if each.path == PROBE]
    assert (found.code, found.severity) == ("1.4.sensor.plugin", "error")
    assert "no module no_such_module" in found.message
    bridge = opened(plan)
    # A range finder of MuJoCo's: it looks along X, where nothing is.
    assert bridge.sense(2_000_000)["range"] == np.inf


def test_a_prim_type_names_a_model_too(site: Site, opened: Any) -> None:
    site.install("value = 2.5", schema="ProbeThing")
    plan = site.plan(type_name="ProbeThing")

    assert [each.schema for each in plan.sensors] == ["ProbeThing"]
    assert opened(plan).sense(2_000_000)["range"] == 2.5


def test_a_publisher_below_the_prim_counts(site: Site) -> None:
    site.install(schema="CarrierAPI")
    plan = site.plan()
    assert plan.sensors == ()
    text = next(site.folder.glob("stage_*.usda")).read_text(encoding="utf-8")
    file = site.folder / "below.usda"
    file.write_text(
        text.replace('"PhysicsRigidBodyAPI", ', '"PhysicsRigidBodyAPI", "CarrierAPI", '), encoding="utf-8"
    )
    (sensor,) = load_plan(file, physics=True).sensors
    assert (sensor.path, sensor.prim) == (PROBE, "/World/robot/base")


def test_nothing_is_imported_without_its_schema(site: Site) -> None:
    site.install()
    (site.folder / "other.usda").write_text('#usda 1.0\ndef Xform "a" { }\n', encoding="utf-8")
    load_plan(site.folder / "other.usda")
    assert site.module not in sys.modules


def test_plug_ins_come_before_the_backend_and_hosts_before_them(site: Site, opened: Any) -> None:
    site.install("value = 4.25")
    plan = site.plan()
    assert opened(plan).sense(2_000_000)["range"] == 4.25

    pose = plan.layout.body_pose.copy()
    host = ArrayBackend(
        plan.layout, body_pose=pose, joint_position=np.zeros(len(plan.layout.dofs)),
        sensors={PROBE: lambda: {"range": 0.5}},
    )  # fmt: skip
    assert opened(plan, host).sense(1_000_000)["range"] == 0.5


def test_what_the_backend_does_not_have_is_one_report(site: Site, opened: Any) -> None:
    site.install(needs='"rays", "contacts"')
    bridge = opened(site.plan(), KinematicBackend())

    assert bridge.sense(1_000_000) is None
    assert bridge.runtime.capabilities.sensors == frozenset()
    assert bridge.reports["sensor.model:ProbeAPI"] == (
        f"{PROBE}: the sensor model ProbeAPI measures nothing: it needs contacts and rays, which KinematicBackend does "
        "not have: choose another backend"
    )


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("self.setups.append(setup)", "raise RuntimeError('out of order')", PROBE),
        (":Probe", ":Missing", "ProbeAPI"),
    ],
)
def test_a_class_that_cannot_be_made_is_a_report(
    site: Site, opened: Any, old: str, new: str, kind: str
) -> None:
    text = ROW.replace(old, new, 1)
    site.install(
        text=text.format(module=site.module, body="        value = 1.0", needs="", beside_loop=False)
    )
    bridge = opened(site.plan())

    assert bridge.sense(2_000_000) is None
    assert list(bridge.reports) == [f"sensor.model:{kind}"]


def test_motion_is_that_of_the_sensor(site: Site, opened: Any) -> None:
    site.install(
        "value = 1.0; self.calls.append((context.pose.copy(), context.twist.copy(), context.acceleration.copy()))",
        needs='"motion"',
    )
    bridge = opened(site.plan())
    bridge.runtime.tick(2_000_000)
    backend = bridge.runtime.backend
    spin = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 2.0])
    assert (
        backend.set_entity_state("/World/robot/base", pose=np.array([1.0, 2, 3, 0, 0, 0, 1]), twist=spin)
        == ""
    )
    bridge.sense(4_000_000)

    # In free fall for one step of 2 ms, turning at 2 rad/s with the sensor 0.3 m off the axis.
    pose, twist, acceleration = site.probe.calls[-1]
    np.testing.assert_allclose(pose[:3], (1.3, 2.0, 3.0), atol=3e-3)
    np.testing.assert_allclose(twist, (0.0, 0.6, -9.81 * 0.002, 0.0, 0.0, 2.0), atol=3e-3)
    np.testing.assert_allclose(acceleration, (-4.0 * 0.3, 0.0, -9.81, 0.0, 0.0, 0.0), atol=1e-2)


def test_contacts_carry_the_weight(site: Site, opened: Any) -> None:
    site.install(
        "value = context.contacts.force[:, 2].sum(); self.calls.append(context.contacts.surfaces)",
        needs='"contacts"',
    )
    bridge = opened(site.plan(height=0.1))
    bridge.runtime.tick(2_000_000)
    for step in range(2, 1000):
        bridge.runtime.tick(step * 2_000_000)

    assert bridge.sense(2_000_000_000)["range"] == pytest.approx(2 * 9.81, rel=0.01)
    assert set(site.probe.calls[-1]) == {"/World/ground"}


def test_rays_pass_through_the_carrying_body(site: Site, opened: Any) -> None:
    site.install(
        "hits = context.cast_rays([[-1.0, 0, 0], [0, 0, -1.0]], reach=5.0); value = hits.distance[1];"
        " self.calls.append((hits.distance, [setup_names(self)[each] for each in hits.surface]))",
        needs='"rays"',
    )
    module = site.folder / f"{site.module}.py"
    module.write_text(
        module.read_text(encoding="utf-8")
        + "\n\ndef setup_names(probe):\n    return (*probe.setups[-1].surfaces, '')\n",
        encoding="utf-8",
    )
    bridge = opened(site.plan())
    measured = bridge.sense(2_000_000)

    # It has fallen for one step.
    assert measured["range"] == pytest.approx(1.0, abs=1e-3)
    distances, surfaces = site.probe.calls[-1]
    assert (distances[0], surfaces) == (np.inf, ["", "/World/ground"])


def test_other_bodies_and_what_is_not_declared(site: Site, opened: Any) -> None:
    site.install("value = context.body_pose('/World/robot/base')[2]", needs='"bodies"')
    bridge = opened(site.plan(), KinematicBackend())
    assert bridge.sense(1_000_000)["range"] == 1.0


@pytest.mark.parametrize(
    "asked",
    [
        "context.twist",
        "context.contacts",
        "context.body_pose('/a')",
        "context.image('color')",
        "context.cast_rays([[1, 0, 0]])",
    ],
)
def test_needs_must_be_declared(site: Site, opened: Any, asked: str) -> None:
    site.install(f"{asked}; value = 1.0")
    bridge = opened(site.plan())
    with pytest.raises(Exception, match="does not declare that it needs"):
        bridge.sense(2_000_000)


@pytest.mark.parametrize("beside_loop", [False, True])
def test_noise_depends_on_seed_prim_and_stamp_alone(site: Site, opened: Any, beside_loop: bool) -> None:
    site.install("value = context.normal(0.1, 1)[0]", beside_loop=beside_loop)
    plan = site.plan()
    first, second = (opened(plan, None, lockstep="true") for _ in range(2))
    values = [first.sense(time_ns)["range"] for time_ns in (2_000_000, 20_000_000, 40_000_000)]
    # A reset, and other measurements before: the same stamps have the same noise.
    first.runtime.reset()
    first.runtime.tick(2_000_000)
    assert first.sense(40_000_000)["range"] == values[2]
    assert second.sense(20_000_000)["range"] == values[1]
    assert len(set(map(float, values))) == 3
    assert opened(plan, None, lockstep="true", noise="false").sense(2_000_000)["range"] == 0.0
    assert "reset" in site.probe.calls


def test_a_sensor_beside_the_loop_does_not_delay_it(site: Site, opened: Any) -> None:
    site.install("gate.wait(30); value = context.time_ns * 1e-9", beside_loop=True)
    module = site.folder / f"{site.module}.py"
    module.write_text(
        "import threading\n\ngate = threading.Event()\n" + module.read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    bridge = opened(site.plan())

    # The thread is held, and the loop goes on.
    for step in range(1, 100):
        bridge.runtime.tick(step * 2_000_000)
        assert bridge.runtime.snapshot.sense(PROBE) is None
    sys.modules[site.module].gate.set()
    sensor = bridge.runtime.binding.sensors
    for step in range(100, 100_000):
        bridge.runtime.tick(step * 2_000_000)
        sample = bridge.runtime.snapshot.sense(PROBE)
        if sample is not None:
            break
    assert sample is not None
    assert sample.arrays["range"] == sample.stamp_ns * 1e-9 == 0.002
    bridge.runtime.close()
    assert "close" in site.probe.calls
    assert sensor.capabilities.async_sensors == {PROBE}


def test_a_changed_attribute_makes_the_sensor_anew(site: Site, opened: Any) -> None:
    site.install("value = float(self.setups[-1].values['count'])")
    bridge = opened(site.plan())
    assert bridge.sense(2_000_000)["range"] == 3.0
    old = bridge.runtime.binding
    _, change = bridge.runtime.prepare(site.plan("custom int probe:count = 7"))
    change.commit()
    change.cleanup()
    assert bridge.sense(4_000_000)["range"] == 7.0
    assert bridge.runtime.binding.backend is old.backend


CAMERA = """
                int2 usd_ros_bridge:camera:resolution = (32, 24)
                float focalLength = 20
                float2 clippingRange = (0.05, 50)
                token visibility = "inherited\""""


# The first one with OpenGL starts a process: the probe of its library.
@pytest.mark.parametrize(
    ("gl", "samples"),
    [
        pytest.param("auto", "0", marks=[pytest.mark.process, pytest.mark.sample]),
        pytest.param("auto", "4", marks=[pytest.mark.process, pytest.mark.sample]),
        ("none", "0"),
    ],
)
def test_images_of_the_camera(site: Site, opened: Any, gl: str, samples: str) -> None:
    site.install(
        "color, depth, surfaces = (context.image(kind) for kind in ('color', 'depth', 'segmentation'));"
        " self.calls.append((color, depth, surfaces, context.time_ns)); value = depth[12, 16]",
        needs='"color", "depth", "segmentation"',
        beside_loop=True,
    )
    plan = site.plan(CAMERA, type_name="Camera")
    assert plan.topics[0].camera == 0
    bridge = opened(plan, None, lockstep="true", gl=gl, samples=samples)

    # The camera looks down on the ground from its body, which has fallen for one step.
    assert bridge.sense(2_000_000)["range"] == pytest.approx(1.0, abs=1e-3)
    color, depth, surfaces, stamp = site.probe.calls[-1]
    assert (color.shape, color.dtype, depth.shape, surfaces.shape) == (
        (24, 32, 3),
        np.uint8,
        (24, 32),
        (24, 32),
    )
    assert stamp == 2_000_000
    setup = site.probe.setups[-1]
    assert (setup.camera.width, setup.camera.height) == (32, 24)
    shown = {setup.surfaces[each] if each >= 0 else "" for each in np.unique(surfaces)}
    assert "/World/ground" in shown
    assert shown <= {"/World/ground", "/World/robot/base/shell"}
    assert ((surfaces >= 0) == np.isfinite(depth)).all()


def test_images_need_a_camera(site: Site) -> None:
    site.install(needs='"depth"')
    plan = site.plan()
    assert findings(plan) == {("1.4.sensor.camera", "")}
    assert plan.sensors == ()
