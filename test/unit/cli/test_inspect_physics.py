"""`inspect --physics`: tables for people, keys for machines."""

from __future__ import annotations

import io
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from rich.console import Console

from cli_calls import call_cli

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from usd_ros_bridge.api import add_physics, load_plan
from usd_ros_bridge.cli.common import engine_settings
from usd_ros_bridge.cli.views import print_engine, print_plan
from usd_ros_bridge.export.plan_json import engine_to_json, plan_to_json
from usd_ros_bridge.model.physics import Body, Collider, Joint, Mesh, PhysicsScene, Visual
from usd_ros_bridge.model.plan import BridgePlan

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def rover() -> BridgePlan:
    return load_plan(ROOT / "examples" / "rover" / "world.usda", physics=True)


@pytest.fixture(scope="module")
def arm() -> BridgePlan:
    return load_plan(ROOT / "examples" / "arm" / "arm.usda", physics=True)


def printed(plan: BridgePlan) -> str:
    stream = io.StringIO()
    print_plan(plan, Console(file=stream, width=200, highlight=False))
    return stream.getvalue()


def test_tables_of_a_world(rover: BridgePlan) -> None:
    text = printed(rover)
    assert "gravity [0, 0, -9.81] m/s^2" in text
    assert "13.9 kg" in text
    for word in (
        "/World/Environment/crate",
        "continuous",
        "0, 100, at most 6",
        "Cylinder",
        "/World/rover/lidar_link",
    ):
        assert word in text


def test_tables_of_an_arm(arm: BridgePlan) -> None:
    text = printed(arm)
    assert "mimic" in text
    assert "-2.967 to 2.967" in text


def test_nothing_is_reported_that_nobody_asked_for() -> None:
    plan = load_plan(ROOT / "examples" / "rover" / "rover.usda")
    assert plan.physics is None
    assert "gravity" not in printed(plan)
    assert "physics" not in plan_to_json(plan)


def test_json_has_the_attributes_of_the_model(rover: BridgePlan) -> None:
    physics = plan_to_json(rover)["physics"]
    assert list(physics) == [each.name for each in fields(PhysicsScene)]
    for name, kind in (("bodies", Body), ("joints", Joint), ("colliders", Collider), ("visuals", Visual)):
        assert [list(each) for each in physics[name]] == [[f.name for f in fields(kind)]] * len(physics[name])
    assert json.loads(json.dumps(physics, allow_nan=False)) == physics


def test_json_names_prims(rover: BridgePlan, arm: BridgePlan) -> None:
    physics = plan_to_json(rover)["physics"]
    wheel = next(each for each in physics["bodies"] if each["path"].endswith("left_wheel"))
    assert wheel["parent"] == "/World/rover"
    assert wheel["joints"] == ["/World/rover/left_wheel_joint"]
    assert physics["joints"][0]["body0"] == "/World/rover"
    ground = next(each for each in physics["colliders"] if "ground" in each["path"])
    assert ground["body"] == ""
    assert ground["shape"]["type"] == "Box"
    (follower,) = [
        dof for each in plan_to_json(arm)["physics"]["joints"] for dof in each["dofs"] if dof["mimic"]
    ]
    assert follower["mimic"]["joint"].endswith("/left_finger_joint")


def test_meshes_are_counted(rover: BridgePlan) -> None:
    assert rover.physics is not None
    meshes = [each.shape for each in rover.physics.visuals if isinstance(each.shape, Mesh)]
    told = [
        each["shape"] for each in plan_to_json(rover)["physics"]["visuals"] if each["shape"]["type"] == "Mesh"
    ]
    assert [each["triangles"] for each in told] == [len(mesh.triangles) for mesh in meshes]


def test_what_mujoco_makes_of_drives_and_colliders_is_told(rover: BridgePlan) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    settings = engine_settings(rover)
    stream = io.StringIO()
    print_plan(rover, Console(file=stream, width=200, highlight=False), settings)
    lines = stream.getvalue().splitlines()
    (wheel,) = [line for line in lines if "left_wheel_joint" in line and "row of the solver" in line]
    # g w: h D over the inertia that a free wheel has.
    assert [part.strip() for part in wheel.split("│")[3:6]] == ["0, 100", "-6 to 6", "51.1"]
    assert any("several contacts for a pair of convex shapes" in line for line in lines)
    found = engine_to_json(settings)["mujoco"]
    assert [drive["actuator_because"] for drive in found["drives"]] == ["", ""]
    assert {each["path"] for each in found["contacts"]} == {each.path for each in rover.physics.colliders}
    assert engine_to_json("not installed") == {"mujoco": {"unknown": "not installed"}}
    assert engine_to_json(None) == {}


def test_an_asset_that_mujoco_does_not_get_says_why() -> None:
    stream = io.StringIO()
    print_engine("mujoco is not installed", Console(file=stream, width=200, highlight=False))
    assert stream.getvalue().strip() == "in MuJoCo  not known: mujoco is not installed"


def test_physics_can_be_added_later(rover: BridgePlan) -> None:
    plan = load_plan(ROOT / "examples" / "rover" / "world.usda")
    later = add_physics(plan)
    assert plan_to_json(later) == plan_to_json(rover)
    assert add_physics(later) is later
    assert replace(later, diagnostics=plan.diagnostics) == plan


LIDAR = """#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
    timeCodesPerSecond = 1
)
def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI"]
)
{
    def Xform "scan" (
        prepend apiSchemas = ["RosTopicAPI", "RosFrameAPI"]
    )
    {
        token ros:topic:role = "publisher"
        string ros:topic:name = "scan"
        string ros:topic:type = "sensor_msgs/msg/LaserScan"
        double ros:topic:publish_rate = 10
        custom %s
    }
}
"""


def test_a_sensor_is_checked_without_physics_too(tmp_path: Path) -> None:
    asset = tmp_path / "lidar.usda"
    asset.write_text(LIDAR % 'string usd_ros_bridge:lidar:range_max = "far"', encoding="utf-8")
    done = call_cli("inspect", "--json", asset)
    data = json.loads(done.stdout)
    assert "physics" not in data
    (found,) = [each for each in data["diagnostics"] if each["severity"] == "error"]
    assert (found["code"], found["attribute"]) == ("1.4.sensor", "usd_ros_bridge:lidar:range_max")
    assert found["layer"] == str(asset)
    assert '"far"' in asset.read_text(encoding="utf-8").splitlines()[found["line"] - 1]
    assert (done.returncode, call_cli("inspect", "--strict", asset).returncode) == (0, 1)


def test_the_same_is_found_with_and_without_physics() -> None:
    asset = ROOT / "test/assets/physics_bad_input.usda"
    alone, whole = (
        json.loads(call_cli("inspect", "--json", *option, asset).stdout) for option in ((), ("--physics",))
    )
    assert whole.pop("physics")
    assert whole.pop("mujoco")
    assert alone == whole
    assert alone["diagnostics"]
