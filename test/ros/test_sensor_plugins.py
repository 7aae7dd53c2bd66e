"""Sensor models of plug-ins in a bridge: the thermal array of examples/plugins over DDS, and changed while it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image

from foreign_plugins import install_plugin
from usd_ros_bridge import VariantSelection, load_plan

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugins" / "thermal_array"
SEASONS = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)
def "World" (
    references = @{kiln}@
    variants = {{ string season = "summer" }}
    prepend variantSets = "season"
)
{{
    variantSet "season" = {{
        "summer"
        {{
            over "watcher"
            {{
                over "head"
                {{
                    over "thermal_optical_frame"
                    {{
                        double thermal:ambientTemperature = 30
                        double thermal:noise = 0
                    }}
                }}
            }}
        }}
        "winter"
        {{
            over "watcher"
            {{
                over "head"
                {{
                    over "thermal_optical_frame"
                    {{
                        double thermal:ambientTemperature = -5
                        double thermal:noise = 0
                    }}
                }}
            }}
        }}
    }}
}}
"""
TIMEOUT_S = 90.0


@pytest.fixture
def seasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stage with the kiln in summer and in winter; the plug-in is installed."""
    site = tmp_path / "site"
    install_plugin(
        site,
        "thermal-array",
        entry_points={"sensors": {"ThermalArrayAPI": "thermal_array:THERMAL_ARRAY"}},
        modules={},
    )
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(site))
    file = tmp_path / "seasons.usda"
    file.write_text(SEASONS.format(kiln=EXAMPLE / "thermal_array" / "kiln.usda"), encoding="utf-8")
    return file


def test_temperatures_arrive_and_follow_a_changed_attribute(start, ros_harness, seasons):
    heard: list[Image] = ros_harness.listen(Image, "/watcher/thermal", qos_profile_sensor_data)
    running = start(load_plan(seasons, physics=True), "mujoco")

    def shows(*temperatures: float) -> bool:
        if not heard:
            return False
        message = heard[-1]
        assert (message.header.frame_id, message.encoding) == ("thermal_optical_frame", "32FC1")
        pixels = np.frombuffer(bytes(message.data), dtype=np.float32)
        return np.allclose(np.unique(pixels.round(2)), sorted(temperatures), atol=0.02)

    ros_harness.wait_for(lambda: shows(30.0, 300.0), timeout=TIMEOUT_S, what="an image in summer")
    report = running.bridge.change(variants=[VariantSelection("/World", "season", "winter")]).result(
        TIMEOUT_S
    )
    assert (report.opened, report.closed) == ((), ())
    ros_harness.wait_for(lambda: shows(-5.0, 300.0), timeout=TIMEOUT_S, what="an image in winter")
    ros_harness.wait_for(
        lambda: running.row("/watcher/thermal").state == "active", timeout=TIMEOUT_S, what="a rate"
    )
    assert not running.warnings.faults
