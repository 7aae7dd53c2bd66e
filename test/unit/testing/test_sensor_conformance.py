"""The conformance test of sensor models finds what is wrong with a model, and nothing wrong with a good one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

from foreign_plugins import install_plugin
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.sensor_schemas import SENSOR_MODELS
from usd_ros_bridge.testing.sensor_conformance import SensorConformance

ASSET = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
def Xform "robot" (prepend apiSchemas = ["RosContextAPI"])
{
    string ros:context:namespace = "robot"
    def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
        bool physics:kinematicEnabled = 1
        def Xform "probe" (prepend apiSchemas = ["RosFrameAPI", "RosTopicAPI", "AltimeterAPI"])
        {
            token ros:topic:role = "publisher"
            string ros:topic:name = "height"
            string ros:topic:type = "sensor_msgs/msg/Range"
            double ros:topic:publish_rate = 20
        }
    }
}
"""

ROW = """
import threading

import numpy as np

from usd_ros_bridge import SensorModel

GATE = threading.Event()
ALTIMETER = SensorModel(types=frozenset({{"sensor_msgs/msg/Range"}}), measure="{module}:Altimeter")


class Altimeter:
    def __init__(self, setup):
        self.count = 0
{made}

    def measure(self, context):
        self.count += 1
        height = {height}
        return None if height is None else {{
            "range": height, "min_range": 0.0, "max_range": 9.0, "field_of_view": 0.1
        }}
"""

Make = Callable[..., SensorConformance]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Make:
    """Makes the conformance test of an altimeter."""
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"altimeter_{abs(hash(request.node.nodeid))}"

    def make_conformance(
        height: str = "context.pose[2] + 3.0 + context.normal(0.1, 1)[0]", made: str = ""
    ) -> SensorConformance:
        install_plugin(
            tmp_path,
            "altimeter",
            entry_points={"sensors": {"AltimeterAPI": f"{module}:ALTIMETER"}},
            modules={module: ROW.format(module=module, height=height, made=f"        {made}")},
        )
        conformance = SensorConformance()
        conformance.asset = tmp_path / "asset.usda"
        conformance.asset.write_text(ASSET, encoding="utf-8")
        conformance.path = "/robot/base/probe"
        conformance.step = (0.0, 0.0, 0.5, 0.0, 0.0, 0.0)
        conformance.copies = 3
        conformance.seconds = 0.5
        return conformance

    return make_conformance


def run(conformance: SensorConformance, name: str, tmp_path: Path) -> None:
    plan = load_plan(conformance.asset, physics=True)
    getattr(conformance, name)(tmp_path if name == "test_many_of_them" else plan)


TESTS = [name for name in dir(SensorConformance) if name.startswith("test_")]


@pytest.mark.parametrize("name", TESTS)
def test_a_good_model_passes(make: Make, name: str, tmp_path: Path) -> None:
    run(make(), name, tmp_path)


@pytest.mark.parametrize(
    ("height", "made", "name"),
    [
        ("float(np.random.default_rng().normal())", "", "test_a_seed_repeats_it"),
        ("context.pose[2] + self.count", "", "test_a_seed_repeats_it"),
        ("context.pose[2]", "", "test_a_seed_repeats_it"),
        ("2.0", "", "test_it_follows_the_robot"),
        ("2.0 if self.count % 2 else None", "", "test_it_has_its_rate"),
        ("None", "", "test_messages_are_valid"),
        ("'high'", "", "test_messages_are_valid"),
        ("2.0", "raise RuntimeError('out of order')", "test_messages_are_valid"),
    ],
)
def test_a_bad_model_fails(make: Make, height: str, made: str, name: str, tmp_path: Path) -> None:
    conformance = make(height, made)
    with pytest.raises((AssertionError, KeyError)):
        run(conformance, name, tmp_path)


def test_a_thread_that_is_left_is_found(make: Make, tmp_path: Path) -> None:
    conformance = make("2.0", "threading.Thread(target=GATE.wait, args=(60.0,)).start()")
    try:
        with pytest.raises(AssertionError):
            run(conformance, "test_it_closes", tmp_path)
    finally:
        entry = SENSOR_MODELS.entry("AltimeterAPI")
        assert entry is not None
        sys.modules[entry.value.partition(":")[0]].GATE.set()


def test_a_model_without_its_package_is_named(make: Make, tmp_path: Path) -> None:
    conformance = make()
    conformance.path = "/robot/base/nowhere"
    with pytest.raises(AssertionError, match="no sensor model feeds /robot/base/nowhere"):
        run(conformance, "test_the_model_is_found", tmp_path)
