"""Faults of single prims: they disable one part of an asset, and what raises all the same becomes a diagnostic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Sdf, Usd

from builders.stage_text import header, prim, stage_of
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.export.urdf import UrdfExporter
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planning import controller_planner, interfaces
from usd_ros_bridge.usd.read import geometry, materials, physics_reader, stage_reader, xforms

ROBOT = """
def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
    def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
        rel material:binding = </robot/paint>
    }
}
def Xform "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {}
def PhysicsRevoluteJoint "joint" {
    rel physics:body0 = </robot/base>
    rel physics:body1 = </robot/link>
}
def Xform "states" (prepend apiSchemas = ["RosTopicAPI"]) {
    token ros:topic:role = "publisher"
    string ros:topic:name = "joint_states"
    string ros:topic:type = "sensor_msgs/msg/JointState"
    double ros:topic:publish_rate = 10
}
def Material "paint" {}
"""


def robot_with(text: str) -> Usd.Stage:
    return stage_of(prim("Xform", "robot", "RosContextAPI", text, ROBOT), header("robot"))


def check(stage: Usd.Stage, *, code: str, path: str) -> BridgePlan:
    """Check that a fault has its own diagnostic, none of the net's, and that the rest of the robot works."""
    plan = load_plan(stage, physics=True)
    found = [(each.code, each.path) for each in plan.diagnostics]
    assert (code, path) in found, found
    assert "internal" not in {each for each, _ in found}, list(map(str, plan.diagnostics))
    assert [topic.name for topic in plan.topics if topic.enabled] == ["/joint_states"]
    assert {"joint"} <= {joint.name for joint in plan.robots[0].joints}
    json.dumps(plan_to_json(plan), allow_nan=False)
    UrdfExporter(plan).robot(0)
    return plan


@each_case(
    "value", ["float xformOp:orient = 1", "matrix4d xformOp:orient", "string xformOp:orient = 'x'",
              "double3[] xformOp:orient = [(0, 0, 0)]", "quatf xformOp:orient = (0, 0, 0, 0)"]
)  # fmt: skip
def test_an_orient_op_of_a_wrong_type_disables_what_it_places(value: str) -> None:
    value = value.replace("matrix4d xformOp:orient", "matrix4d xformOp:orient = " + str(((0.0,) * 4,) * 4))
    camera = f"""def Xform "odd" (prepend apiSchemas = ["RosFrameAPI"]) {{
        {value}
        uniform token[] xformOpOrder = ["xformOp:orient"]
    }}"""
    plan = check(robot_with(camera), code="1.1.transform", path="/robot/odd")
    assert "odd" not in {frame.id for frame in plan.robots[0].frames}


ANIMATED = """
def Xform "moving" (prepend apiSchemas = ["RosFrameAPI"]) {
    uniform bool ros:frame:static = 0
    double3 xformOp:translate.timeSamples = { 0: (0, 0, 0), 1: (1, 0, 0), 2: (2, 0, 0) }
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def Xform "below" (prepend apiSchemas = ["RosFrameAPI"]) {
        %s
        uniform token[] xformOpOrder = ["xformOp:rotateXYZ"]
    }
}
"""


def test_an_op_of_a_wrong_type_below_an_animated_prim_disables_what_it_places() -> None:
    stage = robot_with(ANIMATED % "quatf xformOp:rotateXYZ = (1, 0, 0, 0)")
    plan = check(stage, code="1.1.transform", path="/robot/moving/below")
    assert {"moving"} <= {frame.id for frame in plan.robots[0].frames}


def test_a_sample_of_a_wrong_type_in_a_later_clip_is_left_out(tmp_path: Path) -> None:
    stage = robot_with(ANIMATED % "float3 xformOp:rotateXYZ = (0, 0, 0)")
    prim = stage.GetPrimAtPath("/robot/moving")
    for number, value in enumerate(
        ("double3 x.timeSamples = { 0: (0, 0, 0), 1: (1, 0, 0) }", "string x.timeSamples = { 1: 'x' }")
    ):
        clip = f'#usda 1.0\ndef "moving" {{\n{value.replace("x.", "xformOp:translate.")}\n}}\n'
        (tmp_path / f"{number}.usda").write_text(clip, encoding="utf-8")
    manifest = '#usda 1.0\ndef "moving" {\ndouble3 xformOp:translate.timeSamples = { 0: (0, 0, 0) }\n}\n'
    (tmp_path / "manifest.usda").write_text(manifest, encoding="utf-8")
    prim.RemoveProperty("xformOp:translate")
    prim.CreateAttribute("xformOp:translate", Sdf.ValueTypeNames.Double3)
    clips = Usd.ClipsAPI(prim)
    clips.SetClipAssetPaths([Sdf.AssetPath(str(tmp_path / f"{number}.usda")) for number in range(2)])
    clips.SetClipManifestAssetPath(Sdf.AssetPath(str(tmp_path / "manifest.usda")))
    clips.SetClipPrimPath("/moving")
    clips.SetClipActive([(0, 0), (2, 1)])
    clips.SetClipTimes([(0, 0), (1, 1), (2, 0), (3, 1)])
    plan = check(stage, code="1.1.samples", path="/robot/moving")
    assert {"moving", "below"} <= {frame.id for frame in plan.robots[0].frames}


def test_a_schema_without_an_instance_name_names_no_axis() -> None:
    stage = robot_with("")
    joint = stage.GetPrimAtPath("/robot/joint")
    schemas = Sdf.TokenListOp.CreateExplicit(["PhysicsDriveAPI:", "PhysicsLimitAPI:"])
    joint.SetMetadata("apiSchemas", schemas)
    check(stage, code="1.3.drive", path="/robot/joint")


def test_a_connection_to_what_is_no_attribute_takes_the_colour() -> None:
    paint = """over "paint" {
        rel outputs:to = </robot>
        token outputs:surface.connect = </robot/paint/shader.outputs:surface>
        def Shader "shader" {
            rel outputs:surface = </robot>
        }
    }"""
    stage = robot_with("")
    over = Sdf.Layer.CreateAnonymous("over.usda")
    assert over.ImportFromString(f'#usda 1.0\nover "robot" {{\n{paint}\n}}\n')
    stage.GetRootLayer().subLayerPaths.append(over.identifier)
    plan = load_plan(stage, physics=True)
    assert "internal" not in {each.code for each in plan.diagnostics}, list(map(str, plan.diagnostics))


def broken(*_: object, **__: object) -> None:
    raise ValueError("a bug\nof two lines \x1b[31m")


NETS = [
    (stage_reader, "read_joint", "/robot/joint"), (xforms, "_motion", "/robot/base"),
    (geometry, "fallback", "/robot/base/ball"), (materials, "read_surface", "/robot/base/ball"),
    (physics_reader, "solver_attributes", "/robot/base"),
    (interfaces, "resolve_qos", "/robot/states"), (controller_planner, "load_class", "/robot/drive"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name", "path"), NETS, ids=[name for _, name, _ in NETS])
def test_what_a_prim_raises_is_a_diagnostic_of_that_prim(
    module: object, name: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = 'def Scope "drive" (prepend apiSchemas = ["RosControlDiffDriveAPI"]) {\n}'
    stage = robot_with(drive)
    monkeypatch.setattr(module, name, broken)
    plan = load_plan(stage, physics=True)
    (found,) = {
        each.path: each for each in plan.diagnostics if each.code == "internal" and each.path == path
    }.values()
    assert found.severity == "error"
    assert "ValueError: a bug of two lines" in found.message
    assert found.remedy
    assert plan.robots


def test_a_robot_that_cannot_be_exported_has_an_empty_description(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = load_plan(robot_with(""), physics=True)
    monkeypatch.setattr("usd_ros_bridge.export.urdf.document.link_tree", broken)
    urdf = UrdfExporter(plan).robot(0)
    assert [each.code for each in urdf.diagnostics] == ["internal"]
    assert '<robot name="robot"' in urdf.text
