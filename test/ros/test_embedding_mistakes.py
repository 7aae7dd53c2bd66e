"""Mistakes of hosts: each is one line that says what to do. A bridge that nobody closes ends with its process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Usd

from programs import run_python
from ros_plans import plan as hand_made_plan
from ros_plans import publisher
from usd_ros_bridge import ArrayBackend, Bridge, BridgeOptions, ReadOptions, VariantSelection, load_plan
from usd_ros_bridge.errors import BridgeError, OptionError, VariantError
from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge

ROOT = Path(__file__).resolve().parents[2]
ARM = ROOT / "examples" / "arm" / "arm.usda"
ROVER = ROOT / "examples" / "rover" / "rover.usda"
MS = 1_000_000


def only_line(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    return text


# --- What a bridge is made of --------------------------------------------------------------------------------------


def test_a_path_or_a_stage_is_no_plan(tmp_path: Path) -> None:
    for given, shown in ((ARM, f"'{ARM}'"), (str(ARM), f"'{ARM}'"), (Usd.Stage.Open(str(ARM)), "a Stage")):
        with pytest.raises(BridgeError) as caught:
            Bridge(given)
        assert only_line(caught.value) == (
            f"Bridge({shown}): a bridge takes a plan. Call Bridge(load_plan(asset), ...), or Bridge.open_asset(asset)"
        )
    with pytest.raises(BridgeError, match=r"^OfflineBridge\('.*'\): a bridge takes a plan"):
        OfflineBridge(str(ARM), options=BridgeOptions(record=str(tmp_path / "run.mcap")))


def test_an_asset_is_opened_with_variants_and_options(ros_harness: Any) -> None:
    with Bridge.open_asset(
        ARM, variants={"/arm:gripper": "suction"}, options=BridgeOptions(threaded=False)
    ) as bridge:
        assert bridge.plan.variants == (VariantSelection("/arm", "gripper", "suction"),)
        assert bridge.step(10 * MS)
        assert bridge.parts.backend_name == "kinematic"
    with pytest.raises(BridgeError, match="not open"):
        bridge.step(20 * MS)


def test_an_engine_gets_the_physics_of_the_asset(ros_harness: Any) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed")
    with Bridge.open_asset(ARM, backend="mujoco") as bridge:
        assert bridge.plan.physics is not None
        assert bridge.step()


def test_a_bridge_that_cannot_be_opened_is_closed(ros_harness: Any) -> None:
    with pytest.raises(BridgeError, match="no option 'no_such'"):
        Bridge.open_asset(ARM, options=BridgeOptions(backend_options={"no_such": "1"}))


# --- Variants of a plan --------------------------------------------------------------------------------------------


def test_variants_are_chosen_in_load_plan() -> None:
    chosen = (VariantSelection("/arm", "gripper", "suction"),)
    others = ReadOptions(variants=(VariantSelection("/arm", "gripper", "none"),))
    for given in ({"/arm:gripper": "suction"}, ["/arm:gripper=suction"], "/arm:gripper=suction", chosen):
        assert load_plan(ARM, variants=given).variants == chosen
        assert load_plan(ARM, variants=given, read_options=others).variants == chosen


def test_variants_that_are_not_possible_are_refused() -> None:
    with pytest.raises(OptionError, match="has not the form /Prim/Path:set=choice") as caught:
        load_plan(ARM, variants={"gripper": "suction"})
    only_line(caught.value)
    with pytest.raises(VariantError) as refused:
        load_plan(ARM, variants={"/arm:gripper": "suctoin"})
    assert "suction" in only_line(refused.value)
    with pytest.raises(OptionError, match="a caller's stage is only read"):
        load_plan(Usd.Stage.Open(str(ARM)), variants={"/arm:gripper": "suction"})


# --- Time and measurements -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["kinematic", "mujoco"])
def test_time_is_in_whole_nanoseconds(ros_harness: Any, backend: str) -> None:
    if backend == "mujoco":
        pytest.importorskip("mujoco", reason="mujoco is not installed")
    with Bridge.open_asset(ARM, backend=backend) as bridge:
        for wrong in (1.5, np.float64(2.0), True, "3"):
            with pytest.raises(BridgeError, match="time is an int of nanoseconds") as caught:
                bridge.step(wrong)
            only_line(caught.value)
        assert bridge.step(np.int64(20 * MS))
        assert type(bridge.status().time_ns) is int


def test_a_scan_without_angles_is_reported_once(ros_harness: Any) -> None:
    laser = publisher("/arm/scan", "sensor_msgs/msg/LaserScan", rate=50.0)
    described = hand_made_plan(laser)
    scan = {"ranges": np.ones(3, np.float32), "range_min": 0.1, "range_max": 10.0}
    backend = ArrayBackend(described.layout, sensors={laser.path: lambda: scan})
    reports: list[str] = []
    with Bridge(
        described,
        backend,
        options=BridgeOptions(publish_unmatched=True),
        report=lambda _, message: reports.append(message),
    ) as bridge:
        for tick in range(1, 7):
            bridge.step(tick * 20 * MS)
    (line,) = [each for each in reports if "angle_min" in each]
    assert f"the sensor at {laser.path} gives no array named 'angle_min'" in line


# --- A bridge that is never closed ---------------------------------------------------------------------------------

_SETUP = f"""
from usd_ros_bridge import Bridge, BridgeOptions, PlanOptions, load_plan
ARM, ROVER, DOMAINS = {str(ARM)!r}, {str(ROVER)!r}, {str(ROOT / "test" / "assets" / "context_domain.usda")!r}
"""
_UNCLOSED = {
    "stepped": "bridge = Bridge(load_plan(ROVER)).open()\nfor i in range(5): bridge.step(i * 10_000_000)",
    "at once": "Bridge(load_plan(ROVER)).open()",
    "open_asset": "bridge = Bridge.open_asset(ARM)\nbridge.step(1)",
    "domains": "bridge = Bridge.open_asset(DOMAINS)\nassert len(bridge.parts.domains.opened) > 1\nbridge.step(1)",
    "without threads": "bridge = Bridge.open_asset(ARM, options=BridgeOptions(threaded=False))\nbridge.poll()",
    "spinning": "import threading\nbridge = Bridge.open_asset(ARM)\n"
    "threading.Thread(target=bridge.spin, daemon=True).start()\n"
    "while bridge.status().ticks < 3: pass",
    "the host's node": "import rclpy\nrclpy.init()\nnode = rclpy.create_node('host')\n"
    "bridge = Bridge(load_plan(ARM), node=node).open()\nbridge.step(1)",
    "handler": "bridge = Bridge.open_asset(ROVER)\n"
    "bridge.on_service('/rover/set_headlights', lambda request, response: response)\nbridge.step(1)",
    "offline": "from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge\n"
    "bridge = OfflineBridge(load_plan(ARM), 'kinematic', options=BridgeOptions(record='run.mcap')).open()\n"
    "bridge.step(1)",
    "sys.exit": "import sys\nbridge = Bridge.open_asset(ARM)\nsys.exit(3)",
    "exception": "bridge = Bridge.open_asset(ARM)\nraise RuntimeError('the host has failed')",
}
_STATUS = {"sys.exit": 3, "exception": 1}


@pytest.mark.process
@pytest.mark.parametrize("kind", _UNCLOSED)
def test_a_bridge_that_is_never_closed_ends_cleanly(kind: str, ros_harness: Any, tmp_path: Path) -> None:
    done = run_python(_SETUP + _UNCLOSED[kind], cwd=tmp_path)
    assert done.returncode == _STATUS.get(kind, 0), done.stderr
    assert "terminate called" not in done.stderr
    assert ("the host has failed" in done.stderr) == (kind == "exception")
    assert ("Traceback" in done.stderr) == (kind == "exception"), done.stderr
    if kind == "offline":
        # The file has its end: readers need no recovery.
        assert (tmp_path / "run.mcap").read_bytes().endswith(b"\x89MCAP0\r\n")
