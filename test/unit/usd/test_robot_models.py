"""Robots composed from the same specs: what is read once, and what must not be."""

from __future__ import annotations

from pathlib import Path

import pytest
from pxr import Sdf, Usd
from reading import check_reading

from builders.stage_text import stage_of
from builders.stages import write_fleet
from case_tables import each_case
from usd_ros_bridge.usd import read_stage
from usd_ros_bridge.usd.read.properties import UNREPEATED, PrimReader

LINK = """
        def Xform "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
            double3 xformOp:translate = (0, 0, 0.5)
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }
"""


def joint(body0: str, body1: str, *, name: str = "joint") -> str:
    return f"""
        def PhysicsRevoluteJoint "{name}" {{
            rel physics:body0 = <{body0}>
            rel physics:body1 = <{body1}>
        }}
"""


def robot(path: str, content: str, *, kind: str = "def", name: str = "robot") -> str:
    body = f'def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{}}{LINK}{content}'
    return f"""
    {kind} Xform "{name}" (prepend apiSchemas = ["RosContextAPI"])
    {{
        {body.replace("<ROBOT", f"<{path}")}
    }}
"""


def members(arc: str, count: int = 3, more: str = "") -> str:
    return "".join(
        f"""
    def Xform "r{number}" (
        prepend {arc}
        {more if number == 1 else ""}
    ) {{
        string ros:context:namespace = "r{number}"
        double3 xformOp:translate = ({number}.5, 0.25, -7)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }}
"""
        for number in range(count)
    )


def layer_of(text: str) -> Sdf.Layer:
    layer = Sdf.Layer.CreateAnonymous(".usda")
    assert layer.ImportFromString(f"#usda 1.0\n{text}")
    return layer


OWN_JOINT = joint("ROBOT/base", "ROBOT/link")


@each_case("arc", ["references", "payload", "inherits", "specializes"])
def test_robots_by_any_arc_are_read_once(arc: str) -> None:
    text = robot("/_robot", OWN_JOINT, kind="class", name="_robot")
    records = check_reading(
        stage_of(f'{text}\ndef Xform "w" {{ {members(f"{arc} = </_robot>")} }}'), repeats=True
    )
    assert [record.body1 for record in records.joints] == [(f"/w/r{number}/link",) for number in range(3)]


@each_case("arc", ["references", "inherits", "specializes"])
@each_case("target", ["/w/r0/link", "/w/ground", "/w/r1/link"])
def test_a_target_that_stays_where_it_is_keeps_robots_from_being_read_once(arc: str, target: str) -> None:
    text = robot("/_robot", joint("ROBOT/base", target), kind="class", name="_robot")
    ground = 'def Xform "ground" {}\n'
    check_reading(
        stage_of(f'{text}\ndef Xform "w" {{ {members(f"{arc} = </_robot>")} {ground} }}'), repeats=False
    )


@each_case("target", ["/w/r0/link", "/w/_robot/link"])
def test_a_class_beside_its_robots_says_not_whose_target_it_names(target: str) -> None:
    text = robot("/w/_robot", joint("ROBOT/base", target), kind="class", name="_robot")
    check_reading(stage_of(f'def Xform "w" {{ {text} {members("inherits = </w/_robot>")} }}'))


def test_modules_referenced_twice_within_a_robot_are_read_right() -> None:
    arm = layer_of(
        'def Xform "arm" { def Xform "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {}\n'
        'def Xform "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {}\n'
        f"{joint('/arm/a', '/arm/b')} }}"
    )
    text = "".join(
        f'def Xform "{side}" (prepend references = @{arm.identifier}@</arm>) {{}}\n'
        for side in ("left", "arm")
    )
    outer = layer_of(robot("/robot", text + OWN_JOINT))
    stage = stage_of(f'def Xform "w" {{ {members(f"references = @{outer.identifier}@</robot>")} }}')
    records = check_reading(stage)
    assert records.joints[4].body1 == ("/w/r1/arm/b",)


@each_case(
    "difference",
    [
        "instanceable = true",
        "active = true",
        'variants = { string size = "big" }',
        'prepend apiSchemas = ["Foo"]',
    ],
)
def test_a_robot_whose_root_differs_is_read_right(difference: str) -> None:
    variant = """
    def Xform "robot" (
        prepend apiSchemas = ["RosContextAPI"]
        variants = { string size = "small" }
        prepend variantSets = "size"
    ) {
        variantSet "size" = {
            "small" { def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {} LINK }
            "big" { def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) { double scale = 2 } LINK }
        }
        JOINT
    }
"""
    layer = layer_of(
        variant.replace("LINK", LINK)
        .replace("JOINT", OWN_JOINT.replace("<ROBOT", "</robot"))
        .replace("{ d", "{\n d")
        .replace("= 2 }", "= 2\n }")
    )
    more = difference.replace("prepend", "append")
    stage = stage_of(
        f'def Xform "w" {{ {members(f"references = @{layer.identifier}@</robot>", more=more)} }}'
    )
    records = check_reading(stage)
    assert len(records.joints) == 3


def test_a_payload_that_one_robot_has_not_loaded_is_missing_there() -> None:
    part = layer_of(f'def Xform "part" {{ {LINK} }}')
    inner = f'def Xform "arm" (prepend payload = @{part.identifier}@</part>) {{}}\n{OWN_JOINT}'
    layer = layer_of(robot("/robot", inner))
    stage = stage_of(f'def Xform "w" {{ {members(f"references = @{layer.identifier}@</robot>")} }}')
    stage.Unload("/w/r1/arm")
    records = check_reading(stage)
    assert [path for path in records.xforms if path.endswith("arm/link")] == [
        "/w/r0/arm/link",
        "/w/r2/arm/link",
    ]


def test_relocated_prims_are_read_where_they_are() -> None:
    layer = layer_of(robot("/robot", OWN_JOINT))
    stage = stage_of(
        "( relocates = { </w/r1/link>: </w/r1/moved> } )\n"
        f'def Xform "w" {{ {members(f"references = @{layer.identifier}@</robot>")} }}'
    )
    records = check_reading(stage)
    assert "/w/r1/moved" in records.xforms
    assert "/w/r1/link" not in records.xforms


def test_a_masked_stage_has_the_prims_it_has(tmp_path: Path) -> None:
    path = str(write_fleet(tmp_path, robots=3, links=3))
    mask = Usd.StagePopulationMask(["/fleet/robot_0", "/fleet/robot_1/link_1", "/fleet/robot_2"])
    records = check_reading(Usd.Stage.OpenMasked(path, mask))
    assert [joint.path.split("/")[2] for joint in records.joints] == ["robot_0"] * 3 + ["robot_2"] * 3


@each_case("flattened", [0, 1])
def test_a_robot_scaled_to_nothing_is_no_measure_for_others(flattened: int) -> None:
    layer = layer_of(robot("/robot", OWN_JOINT))
    text = members(f"references = @{layer.identifier}@</robot>")
    order = 'uniform token[] xformOpOrder = ["xformOp:translate"]'
    parts = text.split(order)
    parts[flattened] += 'float3 xformOp:scale = (1, 1, 0)\n uniform token[] xformOpOrder = ["xformOp:scale"]'
    for number in (0, 1, 2):
        if number != flattened:
            parts[number] += order
    check_reading(stage_of(f'def Xform "w" {{ {"".join(parts)} }}'))


def test_specs_of_a_great_scene_below_a_robot_are_not_compared_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []
    memo = PrimReader.memo
    monkeypatch.setattr(PrimReader, "memo", lambda self, prim: compared.append(prim) or memo(self, prim))
    scenery = "\n".join(f'def Scope "rock_{number}" {{}}' for number in range(2 * UNREPEATED))
    content = f'def Xform "base" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {{}}\n{scenery}\n{LINK}'
    stage = stage_of(
        f'def Xform "w" (prepend apiSchemas = ["RosContextAPI"])\n{{ {content} {joint("/w/base", "/w/link")} }}'
    )
    records = read_stage(stage, asset="scene")
    assert [body.path for body in records.bodies] == ["/w/base", "/w/link"]
    assert records.joints[0].body1 == ("/w/link",)
    assert records.order["/w/link"] == 2 * UNREPEATED + 2
    assert len(compared) < UNREPEATED + 10
