"""Names that no schema has, and attributes without their schema: found with what was meant, and nothing else is.

The lists of names come from the schemas' own files: the generated schema of the Ros family, and the facts of
test/assets/schemas/.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pxr import Sdf

from builders.assets import ASSETS, EXAMPLES, plan_of
from builders.stage_text import header, prim
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.property_names import KNOWN, ROS_RECORDS, near_misses, suggestions
from usd_ros_bridge.planning.physics import degradation
from usd_ros_bridge.usd import open_stage, quiet, read_stage
from usd_ros_bridge.usd.read.stage_reader import SCHEMAS
from usd_ros_bridge.usd.schemas import DIRECTORY

SOLVERS: dict[str, dict[str, Any]] = {
    schema: facts
    for library in ("mjc", "newton")
    for schema, facts in json.loads((ASSETS / "schemas" / f"{library}.json").read_text(encoding="utf-8"))[
        "schemas"
    ].items()
}
LAYERS = sorted(
    path
    for folder in (ASSETS, EXAMPLES)
    for path in folder.rglob("*.usda")
    if path.stem != "secret" and path.parent.name != "findings"
)

ASSET = header("robot") + prim("Xform", "robot", "RosContextAPI", "%s")
TOPIC = """
    def Xform "it" (prepend apiSchemas = [%s]) {
        token ros:topic:role = "publisher"
        string ros:topic:type = "sensor_msgs/msg/LaserScan"
        double ros:topic:publish_rate = 10
        %s
    }
"""
NAMED = 'string ros:topic:name = "scan"\n        %s'

Find = Callable[[str], list[Diagnostic]]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Writes what is in a robot, each time to another file, plans it, and returns its diagnostics."""
    numbers = itertools.count()

    def plan(body: str) -> list[Diagnostic]:
        path = tmp_path / f"asset_{next(numbers)}.usda"
        path.write_text(ASSET % body, encoding="utf-8")
        with quiet():
            return list(load_plan(path, physics=True).diagnostics)

    return plan


def of_names(found: list[Diagnostic]) -> list[Diagnostic]:
    return [each for each in found if each.code.startswith("schema.")]


def line_of(found: Diagnostic) -> str:
    return Path(found.layer).read_text(encoding="utf-8").splitlines()[found.line - 1]


def test_a_topic_without_its_schema_is_an_error(find: Find) -> None:
    (found,) = of_names(find(TOPIC % ('"RosFrameAPI"', NAMED % "")))
    assert (found.code, found.severity, found.path) == ("schema.applied", "error", "/robot/it")
    assert "RosTopicAPI is not applied: there is no topic" in found.message
    assert found.remedy == 'apply it: prepend apiSchemas = ["RosTopicAPI"]'
    assert found.attribute in line_of(found)


@each_case("token", ["RosTopicApi", "RosTopicsAPI", "rosTopicAPI", "RosTopicAPI:front"])
def test_a_schema_that_does_not_exist_is_one_error(find: Find, token: str) -> None:
    (found,) = of_names(find(TOPIC % (f'"RosFrameAPI",\n            "{token}"', NAMED % "")))
    assert (found.severity, found.attribute) == ("error", "apiSchemas")
    assert found.message == f"there is no schema '{token}': there is no topic"
    assert found.remedy == "did you mean RosTopicAPI?"
    assert f'"{token}"' in line_of(found)


def test_a_schema_that_resembles_none_is_a_warning(find: Find) -> None:
    (found,) = of_names(find(TOPIC % ('"RosTopicAPI", "RosQuantumAPI"', NAMED % "")))
    assert (found.code, found.severity) == ("schema.applied", "warning")
    assert "'RosQuantumAPI'" in found.message


@each_case(
    ("authored", "meant", "without"),
    [
        ("token ros:topic:qos:reliabilty", "ros:topic:qos:reliability", "system_default, is used"),
        ("int ros:topic:depth", "ros:topic:qos:depth", "10, is used"),
        ("int ros:topic:qos:Depth", "ros:topic:qos:depth", "10, is used"),
        ("bool ros:topic:start_enabled", "ros:topic:starts_enabled", "true, is used"),
        ("string ros:topic:frame_id", "ros:topic:override_frame_id", "the frame at the prim"),
        ("int ros:topc:qos:depth", "ros:topic:qos:depth", "10, is used"),
        ("float usd_ros_bridge:lidar:range_mx", "usd_ros_bridge:lidar:range_max", "the default"),
        ("float usd_ros_bridge:laser:range_max", "usd_ros_bridge:lidar:range_max", "the default"),
        ("float usd_ros_bridge:Lidar:range_max", "usd_ros_bridge:lidar:range_max", "the default"),
        ("rel usd_ros_bridge:sorce", "usd_ros_bridge:source", "no effect"),
        ("string isaac:nameOveride", "isaac:nameOverride", "no effect"),
    ],
)
def test_a_misspelt_attribute_has_its_name_and_what_counts_instead(
    find: Find, authored: str, meant: str, without: str
) -> None:
    (found,) = of_names(find(TOPIC % ('"RosTopicAPI"', NAMED % authored)))
    name = authored.split()[1]
    assert (found.code, found.severity, found.attribute) == ("schema.attribute", "warning", name)
    assert found.remedy == f"did you mean {meant}?"
    assert without in found.message
    assert name in line_of(found)


def test_a_misspelt_namespace_is_empty(find: Find) -> None:
    (found,) = of_names(find('string ros:context:namespce = "bot"'))
    assert found.message.endswith("the namespace is empty because of it")
    assert found.remedy == "did you mean ros:context:namespace?"


def test_a_misspelt_name_of_a_joint_leaves_the_name_of_the_prim(find: Find) -> None:
    (found,) = of_names(
        find('def PhysicsRevoluteJoint "j"\n    {\n        string ros:joint:nam = "x"\n    }')
    )
    assert found.message.endswith("the joint has the name of its prim")
    assert found.remedy == "did you mean ros:joint:name?"


def test_the_cause_comes_before_what_follows_from_it(find: Find) -> None:
    all_found = find(TOPIC % ('"RosTopicAPI"', 'string ros:topic:nmae = "scan"'))
    codes = [each.code for each in all_found if each.path == "/robot/it"]
    assert codes[:2] == ["schema.attribute", "2.3.name"]
    assert of_names(all_found)[0].remedy == "did you mean ros:topic:name?"


def test_an_attribute_beside_the_right_one_has_no_effect(find: Find) -> None:
    (found,) = of_names(find(TOPIC % ('"RosTopicAPI"', NAMED % 'string ros:topic:nmae = "x"')))
    assert found.message.endswith("it has no effect")


def test_an_attribute_that_resembles_none_is_told_what_there_is(find: Find) -> None:
    (found,) = of_names(find(TOPIC % ('"RosTopicAPI", "RosFrameAPI"', NAMED % "int ros:frame:xyzzy")))
    assert found.remedy == "ros:frame: has id, static"


@each_case(
    ("schema", "name"),
    [
        (schema, next(name for name, each in KNOWN.items() if each.owners == (schema,)))
        for schema in ROS_RECORDS
        if any(each.owners == (schema,) for each in KNOWN.values())
    ],
)
def test_every_schema_is_missed_where_its_attributes_are(find: Find, schema: str, name: str) -> None:
    (found,) = of_names(find(f'def Xform "it"\n    {{\n        custom int {name}\n    }}'))
    assert (found.code, found.severity, found.attribute) == ("schema.applied", "error", name)
    assert f"{schema} is not applied" in found.message


@each_case(
    ("name", "state"),
    [
        ("ros:joint:name", "is not a joint of UsdPhysics"),
        ("usd_ros_bridge:camera:encoding", "RosTopicAPI is not applied"),
        ("usd_ros_bridge:lidar:samples", "RosTopicAPI is not applied"),
        ("usd_ros_bridge:gripper:max_effort", "RosActionAPI is not applied"),
        ("usd_ros_bridge:diff_drive:twist_covariance_diagonal", "RosControlDiffDriveAPI is not applied"),
    ],
)
def test_attributes_of_the_bridge_need_their_prims_too(find: Find, name: str, state: str) -> None:
    (found,) = of_names(find(f'def Xform "it"\n    {{\n        custom int {name}\n    }}'))
    assert (found.code, found.severity) == ("schema.applied", "error")
    assert state in found.message


@each_case(
    "taken_away", ['delete apiSchemas = ["RosTopicAPI"]', 'apiSchemas = ["RosFrameAPI"]', "apiSchemas = None"]
)
def test_a_schema_that_is_taken_away_is_not_missed(tmp_path: Path, taken_away: str) -> None:
    (tmp_path / "weak.usda").write_text(ASSET % (TOPIC % ('"RosTopicAPI"', NAMED % "")), encoding="utf-8")
    strong = tmp_path / "strong.usda"
    strong.write_text(
        '#usda 1.0\n(\n    defaultPrim = "robot"\n    subLayers = [@weak.usda@]\n)\n'
        f'over "robot"\n{{\n    over "it" (\n        {taken_away}\n    )\n    {{\n    }}\n}}\n',
        encoding="utf-8",
    )
    plan = load_plan(strong)
    assert not plan.topics
    assert of_names(list(plan.diagnostics)) == []


def test_attributes_of_other_tools_are_left_alone(find: Find) -> None:
    others = "\n        ".join(
        f"custom int {name}"
        for name in (
            "rosette:count", "usd_ros_bridge_2:lidar:samples", "isaac:physics:SomethingNew", "isaac:frobnicate",
            "userProperties:ros:topic:name", "physxRigidBody:minVelocityIterationCount", "newton:kq", "mjc:coef9",
        )
    )  # fmt: skip
    assert of_names(find(TOPIC % ('"RosTopicAPI", "RosettaAPI"', NAMED % others))) == []


def test_every_attribute_of_the_schemas_is_known() -> None:
    layer = Sdf.Layer.FindOrOpen(str(DIRECTORY / "generatedSchema.usda"))
    names = {
        name
        for prim in layer.rootPrims
        for name in map(str, prim.properties.keys())
        if name.startswith("ros:")
    }
    assert len(names) > 30
    assert names <= KNOWN.keys()


@each_case("asset", LAYERS)
def test_nothing_is_found_in_the_assets_here(asset: Path) -> None:
    assert of_names(list(plan_of(asset).diagnostics)) == []


# --- Solvers ---------------------------------------------------------------------------------------------------------

BODY = """
    def Cube "it" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"]
    ) {
        float physics:mass = 1
        custom %s
    }
"""


@each_case(
    ("authored", "meant"),
    [
        ("float physxCollision:contactOfset = 1", "physxCollision:contactOffset"),
        ("float newton:contactmargin = 1", "newton:contactMargin"),
        ("int mjc:condimm = 3", "mjc:condim"),
        ("bool physxRigidBody:disableGravty = 1", "physxRigidBody:disableGravity"),
    ],
)
def test_a_typing_error_in_a_solvers_name_is_a_warning(find: Find, authored: str, meant: str) -> None:
    (found,) = of_names(find(BODY % authored))
    assert (found.code, found.severity) == ("schema.attribute", "warning")
    assert found.attribute == authored.split()[1]
    assert found.remedy == f"did you mean {meant}?"


@each_case(
    ("type_name", "authored", "meant"),
    [
        ("MjcActuator", "double[] mjc:gainPrn", "mjc:gainPrm"),
        ("MjcTendon", "double mjc:stifness", "mjc:stiffness"),
        ("NewtonActuator", "float newton:maxEffrt", "newton:maxEffort"),
    ],
)
def test_a_typing_error_on_an_actuator_is_a_warning(
    find: Find, type_name: str, authored: str, meant: str
) -> None:
    (found,) = of_names(find(f'def {type_name} "it"\n    {{\n        custom {authored}\n    }}'))
    assert (found.severity, found.attribute) == ("warning", authored.split()[1])
    assert found.remedy == f"did you mean {meant}?"


@each_case("type_name", ["MjcActuator", "MjcTendon", "NewtonActuator"])
def test_every_name_of_a_solvers_schema_is_right_on_an_actuator(find: Find, type_name: str) -> None:
    authored = "\n        ".join(f"custom int {name}" for name in SOLVER_NAMES)
    assert of_names(find(f'def {type_name} "it"\n    {{\n        {authored}\n    }}')) == []


SOLVER_NAMES = sorted({name for attributes in SOLVERS.values() for name in attributes})
PHYSX_NAMES = [
    "physxScene:minVelocityIterationCount",
    "physxScene:maxPositionIterationCount",
    "physxRigidBody:maxLinearVelocity",
    "physxRigidBody:linearDamping",
    "physxRigidBody:cfmScale",
    "physxArticulation:solverPositionIterationCount",
    "physxSDFMeshCollision:sdfMargin",
    "physxCollision:torsionalPatchRadius",
    "physxMaterial:improvePatchFriction",
]
"""Names of PhysxSchema that nothing here reads."""


def test_a_name_that_a_solvers_schema_has_is_no_typing_error() -> None:
    assert [name for name in (*SOLVER_NAMES, *PHYSX_NAMES) if degradation.misspelt([name])] == []


@given(st.sampled_from(sorted(KNOWN)), st.data())
def test_a_known_name_with_one_typing_error_is_found(name: str, data: st.DataObject) -> None:
    head, _, last = name.rpartition(":")
    at = data.draw(st.integers(0, len(last) - 1))
    wrong = data.draw(
        st.sampled_from(
            [
                last[:at] + last[at + 1 :],
                last[:at] + "x" + last[at:],
                last[:at] + "x" + last[at + 1 :],
                last[:at] + last[at + 1 : at + 2] + last[at : at + 1] + last[at + 2 :],
                last.swapcase(),
            ]
        )
    )
    misspelt = f"{head}:{wrong}"
    if misspelt in KNOWN or len(wrong) < 4:
        return
    assert near_misses(misspelt, KNOWN)
    found = suggestions(misspelt)
    assert name in found or near_misses(misspelt, KNOWN) == found


def test_the_schemas_whose_names_are_checked_are_those_that_are_read() -> None:
    assert {name: each for name, (_, each) in SCHEMAS.items() if name.startswith("Ros")} == ROS_RECORDS


def test_names_that_an_edit_adds_or_corrects_are_checked_again(tmp_path: Path) -> None:
    path = tmp_path / "asset.usda"
    path.write_text(ASSET % (TOPIC % ('"RosTopicAPI"', NAMED % "")), encoding="utf-8")
    stage = open_stage(str(path))

    def found() -> list[str]:
        records = read_stage(stage, asset="asset", again=True)
        return [each.attribute for each in of_names(list(records.diagnostics))]

    prim = stage.GetPrimAtPath("/robot/it")
    assert found() == []
    prim.CreateAttribute("ros:topic:nmae", Sdf.ValueTypeNames.String)
    assert found() == ["ros:topic:nmae"]
    prim.RemoveProperty("ros:topic:nmae")
    assert found() == []
    prim.SetMetadata("apiSchemas", Sdf.TokenListOp.CreateExplicit(["RosTopicApi"]))
    assert found() == ["apiSchemas"]
