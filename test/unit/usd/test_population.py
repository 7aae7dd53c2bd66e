"""Population: robots that nobody serves are not composed, and nothing of the plan of the others is different."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pxr import Usd

from builders.assets import FLEET
from builders.stage_text import header
from builders.stages import write_fleet
from case_tables import each_case
from usd_ros_bridge.api import load_plan, read_opinions, reread
from usd_ros_bridge.errors import AssetError, OptionError, VariantError
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.model.change import same
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions, ReadOptions, VariantSelection
from usd_ros_bridge.usd import open_stage, quiet
from usd_ros_bridge.usd.edit.reload import asset_files, reload
from usd_ros_bridge.usd.edit.spawn import Spawner
from usd_ros_bridge.usd.edit.variants import VariantEditor
from usd_ros_bridge.usd.population import left_out

HEAD = header()
ROBOT = """
    def Xform "%(name)s" ( prepend apiSchemas = ["RosContextAPI"] ) {
        string ros:context:namespace = "%(name)s"
        double3 xformOp:translate = (%(x)s, 0.1, 0)
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Xform "base" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"] ) {}
        def Xform "arm" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"] ) {}
        def PhysicsRevoluteJoint "joint" {
            rel physics:body0 = <../base>
            rel physics:body1 = <../arm>
        }
        %(more)s
    }
"""
NAMES = ("a", "b", "c")


def world(folder: Path, *, outside: str = "", head: str = HEAD, **more: str) -> str:
    """Write a stage with the robots a, b and c, something more in some of them, and something outside of all."""
    robots = "".join(
        ROBOT % {"name": name, "x": number / 3, "more": more.get(name, "")}
        for number, name in enumerate(NAMES)
    )
    file = folder / "world.usda"
    file.write_text(head + 'def Xform "World"\n{' + robots + outside + "\n}\n", encoding="utf-8")
    return str(file)


def plan(asset: str | Path | Usd.Stage, *contexts: str, physics: bool = True, shard: str = "") -> BridgePlan:
    with quiet():
        return load_plan(asset, plan_options=PlanOptions(contexts=contexts, shard=shard), physics=physics)


def cut(asset: str | Path, *contexts: str, shard: str = "") -> BridgePlan:
    """Plan a part of a host's stage: it is composed as a whole, and its records are cut."""
    with quiet():
        return plan(open_stage(str(asset)), *contexts, shard=shard)


def hidden(of: BridgePlan) -> list[str]:
    return sorted(left_out(of.stage))


def prims_below(stage: Any, path: str) -> list[str]:
    return [str(prim.GetPath()) for prim in stage.TraverseAll() if str(prim.GetPath()).startswith(f"{path}/")]


def assert_same(got: BridgePlan, expected: BridgePlan) -> None:
    """Compare plans to the last bit."""
    assert json.dumps(plan_to_json(got), sort_keys=True) == json.dumps(plan_to_json(expected), sort_keys=True)
    for name in (
        "robots",
        "topics",
        "services",
        "actions",
        "controllers",
        "layout",
        "scene",
        "physics",
        "contexts",
    ):
        assert same(getattr(got, name), getattr(expected, name)), name


# --- What is composed ------------------------------------------------------------------------------------------


def test_prims_of_robots_of_others_are_not_composed(tmp_path: Path) -> None:
    asset = write_fleet(tmp_path, robots=12, links=3)
    got = plan(asset, shard="2/4")
    served = [robot.path for robot in got.robots]
    assert served == [f"/fleet/robot_{number}" for number in (3, 4, 5)]
    robots = {
        str(prim.GetPath()).split("/")[2]
        for prim in got.stage.Traverse()
        if prim.GetPath().pathElementCount > 1
    }
    assert {f"robot_{number}" for number in (3, 4, 5)} <= robots
    assert not {f"robot_{number}" for number in (0, 1, 2, 6, 7, 8, 9, 10, 11)} & robots
    assert not prims_below(got.stage, "/fleet/robot_0")
    assert len(got.contexts) == 12
    assert_same(got, cut(asset, shard="2/4"))


@each_case(("shards", "flat"), [(1, False), (3, False), (14, False), (5, True)])
def test_a_fleet_that_is_composed_in_part_equals_the_part_of_the_whole(
    tmp_path: Path, shards: int, flat: bool
) -> None:
    asset = write_fleet(tmp_path, robots=12, links=3, flat=flat)
    for number in range(1, shards + 1):
        shard = f"{number}/{shards}"
        assert_same(plan(asset, shard=shard), cut(asset, shard=shard))


@each_case("contexts", [("/Fleet/arm",), ("rover_*",), ("!rover_1",), ("/",), ("/Fleet/rover_1", "/")])
def test_the_fleet_example_in_part_equals_the_part_of_the_whole(contexts: tuple[str, ...]) -> None:
    got = plan(FLEET, *contexts)
    assert_same(got, cut(FLEET, *contexts))
    assert len(got.robots) + len(hidden(got)) == 3


def test_robots_without_ros_schemas_are_left_out_by_their_isaac_schema(tmp_path: Path) -> None:
    asset = Path(world(tmp_path))
    text = (
        asset.read_text(encoding="utf-8")
        .replace("RosContextAPI", "IsaacRobotAPI")
        .replace(', "RosFrameAPI"', "")
    )
    asset.write_text(text.replace("ros:context:namespace", "isaac:namespace"), encoding="utf-8")
    for entries in (("b",), ("/World/[ab]",), ()):
        shard = "" if entries else "3/3"
        got = plan(asset, *entries, shard=shard)
        assert_same(got, cut(asset, *entries, shard=shard))
        assert len(hidden(got)) == 3 - len(got.robots)
    # One Ros*API anywhere, and the default prim is the robot.
    other = tmp_path / "other.usda"
    other.write_text(
        asset.read_text(encoding="utf-8").replace('"IsaacRobotAPI"]', '"IsaacRobotAPI", "RosFrameAPI"]', 1),
        encoding="utf-8",
    )
    got = plan(other, "/World")
    assert ([robot.path for robot in got.robots], hidden(got)) == (["/World"], [])


@each_case("payloads", ["all", "none"])
def test_payloads_of_other_robots_are_not_composed(tmp_path: Path, payloads: Any) -> None:
    write_fleet(tmp_path, robots=4, links=3)
    asset = tmp_path / "fleet.usda"
    text = asset.read_text(encoding="utf-8").replace("references = @", "payload = @")
    asset.write_text(
        text.replace(
            "(\n        prepend payload",
            '(\n        prepend apiSchemas = ["RosContextAPI"]\n        prepend payload',
        ),
        encoding="utf-8",
    )
    got = load_plan(asset, read_options=ReadOptions(payloads=payloads), plan_options=PlanOptions(shard="1/2"))
    with quiet():
        host = open_stage(str(asset), ReadOptions(payloads=payloads))
    assert_same(got, load_plan(host, plan_options=PlanOptions(shard="1/2")))
    assert hidden(got) == ["/fleet/robot_2", "/fleet/robot_3"]
    assert not prims_below(got.stage, "/fleet/robot_3")


def test_a_whole_stage_and_a_hosts_leave_nothing_out(tmp_path: Path) -> None:
    asset = world(tmp_path)
    assert hidden(plan(asset)) == []
    with quiet():
        stage = open_stage(asset)
    before = stage.GetSessionLayer().ExportToString()
    assert len(plan(stage, "/World/a").robots) == 1
    assert stage.GetSessionLayer().ExportToString() == before


def test_an_unknown_robot_is_said_before_anything_is_composed(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"no context is at or below '/World/d'.*/World/a, /World/b, /World/c"
    ):
        plan(world(tmp_path), "/World/d")


def test_a_stage_that_another_bridge_opened_has_no_more_robots_than_it_composed(tmp_path: Path) -> None:
    stage = plan(world(tmp_path), "/World/a").stage
    assert [robot.path for robot in plan(stage, "/World/a").robots] == ["/World/a"]
    with pytest.raises(OptionError, match="/World/b is not composed"):
        plan(stage, "/World/b")


def test_limits_hold_for_the_whole_stage(tmp_path: Path) -> None:
    asset = write_fleet(tmp_path, robots=12, links=3)
    with pytest.raises(AssetError, match="prims"):
        load_plan(asset, read_options=ReadOptions(max_prims=50), plan_options=PlanOptions(shard="1/12"))


# --- Robots that the rest of the stage needs -------------------------------------------------------------------

JOINT = """def PhysicsFixedJoint "%s" {
    rel physics:body0 = <%s>
    rel physics:body1 = <%s>
}"""
GROUP = """def PhysicsCollisionGroup "group" {
    %s
}"""
SCENE = """def PhysicsScene "scene" {
    float physics:gravityMagnitude = %s
}"""
SOURCE = """def Scope "topic" ( prepend apiSchemas = ["RosTopicAPI"] ) {
    token ros:topic:role = "publisher"
    string ros:topic:name = "topic"
    string ros:topic:type = "std_msgs/msg/Float64"
    double ros:topic:publish_rate = 1
    rel usd_ros_bridge:source = </World/c/arm.level>
}"""
TIES: dict[str, tuple[dict[str, str], str, str]] = {
    "a joint between robots": ({"b": JOINT % ("tie", "/World/b/base", "/World/c/base")}, "", "bc"),
    "a joint of the world to a robot": ({}, JOINT % ("tie", "/World/trailer", "/World/b/base"), "b"),
    "a joint of a robot to a loose body": (
        {"c": JOINT % ("tie", "/World/c/base", "/World/trailer")},
        "",
        "c",
    ),
    "a joint to what never moves": ({"c": JOINT % ("tie", "/World", "/World/c/base")}, "", ""),
    "a source in another robot": ({"a": SOURCE}, "", "c"),
    "a collection of everything": (
        {},
        """def Scope "groups" ( prepend apiSchemas = ["CollectionAPI:all"] ) {
            rel collection:all:includes = </World>
        }""",
        "abc",
    ),
    "a group of colliders": ({}, GROUP % "rel collection:colliders:includes = [</World/b>, </World/c>]", ""),
    "a robot's group of others": (
        {"b": GROUP % "rel collection:colliders:includes = </World/trailer>"},
        "",
        "b",
    ),
    "a group that is merged": ({"b": GROUP % 'string physics:mergeGroup = "x"'}, "", "b"),
    "the first scene": ({"b": SCENE % 1, "c": SCENE % 2}, "", "b"),
    "a scene of all": ({}, SCENE % 3, ""),
    "a reference to a robot": (
        {},
        """def Xform "copy" ( prepend references = </World/b> ) {
            string ros:context:namespace = "copy"
        }""",
        "b",
    ),
    "an inherit from a robot's part": (
        {},
        'def Xform "copy" ( prepend inherits = </World/b/base> ) {\n}',
        "",
    ),
    "a copy of the world": ({}, '}\ndef Xform "Copy" (\nprepend references = </World>\n) {', "abc"),
    "an instance around robots": (
        {},
        '}\ndef Xform "Copy" (\nprepend references = </World>\ninstanceable = true\n) {',
        "abc",
    ),
}


@each_case("tie", TIES)
def test_robots_that_others_need_are_composed(tmp_path: Path, tie: str) -> None:
    more, outside, needed = TIES[tie]
    trailer = 'def Xform "trailer" ( prepend apiSchemas = ["PhysicsRigidBodyAPI"] ) {}\n'
    asset = world(tmp_path, outside=trailer + outside, **more)
    for name in NAMES:
        got = plan(asset, f"/World/{name}")
        assert_same(got, cut(asset, f"/World/{name}"))
        expected = [f"/World/{each}" for each in NAMES if each != name and each not in needed]
        assert [path for path in hidden(got) if path in {f"/World/{each}" for each in NAMES}] == expected, (
            name
        )


def test_robots_below_the_default_prim_or_in_an_instance_or_relocated_are_composed(tmp_path: Path) -> None:
    asset = world(tmp_path, head=HEAD.replace('"World"', '"/World/b"'))
    assert hidden(plan(asset, "/World/a")) == ["/World/c"]
    asset = world(tmp_path)
    hall = tmp_path / "hall.usda"
    hall.write_text(
        HEAD + f'def Xform "World" ( instanceable = true\n prepend references = @{asset}@</World> ) {{}}\n'
        f'def Xform "Second" ( prepend references = @{asset}@</World> ) {{}}\n',
        encoding="utf-8",
    )
    got = plan(hall, "/World/a")
    assert hidden(got) == ["/Second/a", "/Second/b", "/Second/c"]
    assert_same(got, cut(hall, "/World/a"))
    relocated = tmp_path / "relocated.usda"
    relocated.write_text(
        hall.read_text(encoding="utf-8").replace(
            "upAxis", "relocates = { </Second/b>: </Second/moved> }\n upAxis", 1
        ),
        encoding="utf-8",
    )
    got = plan(relocated, "/World/a")
    assert hidden(got) == []
    assert_same(got, cut(relocated, "/World/a"))


def test_robots_in_what_is_referenced_twice_are_found_each_time(tmp_path: Path) -> None:
    asset = world(tmp_path, b=JOINT % ("tie", "/World/b/base", "/World/c/base"))
    hall = tmp_path / "hall.usda"
    cells = "".join(
        f'def Xform "cell_{number}" ( prepend references = @{asset}@</World> ) {{}}\n' for number in range(3)
    )
    hall.write_text(HEAD + 'def Xform "World" {\n' + cells + "}\n", encoding="utf-8")
    got = plan(hall, "/World/cell_1/a")
    assert hidden(got) == ["/World/cell_0/a", "/World/cell_2/a"]
    assert len(got.contexts) == 9
    assert_same(got, cut(hall, "/World/cell_1/a"))


def test_robots_that_are_none_count_in_no_shard(tmp_path: Path) -> None:
    asset = Path(
        world(
            tmp_path,
            outside='class "d" ( prepend apiSchemas = ["RosContextAPI"] ) {}\n'
            'over "e" ( prepend apiSchemas = ["RosContextAPI"] ) {}',
        )
    )
    asset.write_text(
        asset.read_text(encoding="utf-8").replace('def Xform "b" (', 'def Xform "b" ( active = false\n', 1),
        encoding="utf-8",
    )
    for number, robot in ((1, "a"), (2, "c")):
        got = plan(asset, shard=f"{number}/2")
        assert [each.path for each in got.robots] == [f"/World/{robot}"]
        assert_same(got, cut(asset, shard=f"{number}/2"))


def test_a_clash_with_a_robot_that_is_not_composed_is_said(tmp_path: Path) -> None:
    asset = Path(world(tmp_path))
    asset.write_text(
        asset.read_text(encoding="utf-8").replace('namespace = "c"', 'namespace = "a"'), encoding="utf-8"
    )
    got = plan(asset, "/World/c")
    assert hidden(got) == ["/World/a", "/World/b"]
    assert ["/World/a" in each.message for each in got.diagnostics if each.code == "2.1.1"] == [True]
    assert_same(got, cut(asset, "/World/c"))


_PIECES = st.fixed_dictionaries(
    {
        name: st.lists(st.sampled_from(["joint", "scene", "group", "source"]), max_size=2, unique=True)
        for name in NAMES
    }
)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_PIECES, st.sampled_from(NAMES), st.integers(1, 4), st.integers(1, 4))
def test_whatever_ties_robots_the_part_is_that_of_the_whole(
    tmp_path: Path, pieces: dict[str, list[str]], other: str, number: int, shards: int
) -> None:
    content = {
        "joint": JOINT % ("tie", "../base", f"/World/{other}/base"),
        "scene": SCENE % 2,
        "group": GROUP % "rel collection:colliders:includes = </World>",
        "source": f'def Scope "s" {{\n rel other = </World/{other}/arm>\n}}',
    }
    asset = world(tmp_path, **{name: "\n".join(content[each] for each in of) for name, of in pieces.items()})
    shard = f"{min(number, shards)}/{shards}"
    assert_same(plan(asset, shard=shard), cut(asset, shard=shard))


# --- Changes ---------------------------------------------------------------------------------------------------


def again(before: BridgePlan, variants: Sequence[VariantSelection] = (), **options: Any) -> BridgePlan:
    """Plan the stage of a plan again, as a running bridge does."""
    with quiet():
        return read_opinions(reread(before, PlanOptions(**options), variants=tuple(variants))())()


def test_other_options_compose_other_robots(tmp_path: Path) -> None:
    asset = write_fleet(tmp_path, robots=6, links=2)
    running = plan(asset, shard="1/3")
    for options in (
        {"shard": "2/3"},
        {"contexts": ("*_[35]",)},
        {"contexts": ("/fleet/robot_0",)},
        {"contexts": ("!robot_0",), "shard": "2/2"},
        {},
        {"shard": "3/3"},
    ):
        running = again(running, **options)
        expected = cut(asset, *options.get("contexts", ()), shard=str(options.get("shard", "")))
        assert_same(running, expected)
        assert len(hidden(running)) == 6 - len(running.robots)
    with pytest.raises(OptionError):
        again(running, contexts=("/fleet/robot_6",))


def test_undoing_a_change_composes_what_was_composed(tmp_path: Path) -> None:
    running = plan(world(tmp_path), "/World/a")
    session = running.stage.GetSessionLayer()
    editor, before = VariantEditor(running.stage), session.ExportToString()
    undo = editor.savepoint()
    again(running, contexts=("/World/b",))
    assert hidden(running) == ["/World/a", "/World/c"]
    undo()
    assert hidden(running) == ["/World/b", "/World/c"]
    assert session.ExportToString() == before
    assert prims_below(running.stage, "/World/a")
    assert not prims_below(running.stage, "/World/b")
    again(running)
    assert "active" not in session.ExportToString()


VARIANTS = """
    def Xform "d" ( prepend apiSchemas = ["RosContextAPI"]
        variants = { string kind = "one" }
        prepend variantSets = "kind" ) {
        variantSet "kind" = {
            "one" {
                string ros:context:namespace = "d"
                def Xform "base" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"] ) {}
            }
            "two" {
                string ros:context:namespace = "other"
                def Xform "body" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"] ) {}
            }
        }
    }
    def Scope "more" ( variants = { string robots = "few" }
        prepend variantSets = "robots" ) {
        variantSet "robots" = {
            "few" {}
            "many" {
                def Xform "e" ( prepend apiSchemas = ["RosContextAPI"] ) {
                    string ros:context:namespace = "e"
                    def Xform "base" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"] ) {}
                }
            }
        }
    }
"""


def test_variants_that_change_robots_are_seen(tmp_path: Path) -> None:
    asset = world(tmp_path, outside=VARIANTS)
    selected = (
        VariantSelection("/World/d", "kind", "two"),
        VariantSelection("/World/more", "robots", "many"),
    )
    with quiet():
        opened = load_plan(asset, variants=selected, plan_options=PlanOptions(contexts=("other", "e")))
        assert [robot.path for robot in opened.robots] == ["/World/d", "/World/more/e"]
        # Of a robot that is left out, too.
        opened = load_plan(asset, variants=selected, plan_options=PlanOptions(contexts=("/World/a",)))
        assert hidden(opened) == ["/World/b", "/World/c", "/World/d", "/World/more/e"]
        with pytest.raises(VariantError, match=r"has no variant 'three'.*one, two"):
            load_plan(
                asset, variants={"/World/d:kind": "three"}, plan_options=PlanOptions(contexts=("/World/a",))
            )


def test_variants_that_are_selected_later_change_robots(tmp_path: Path) -> None:
    running = plan(world(tmp_path, outside=VARIANTS), "/World/a")
    assert hidden(running) == ["/World/b", "/World/c", "/World/d"]
    editor = VariantEditor(running.stage)
    selected = (
        VariantSelection("/World/d", "kind", "two"),
        VariantSelection("/World/more", "robots", "many"),
    )
    wrong = VariantSelection("/World/d", "kind", "three")
    with quiet():
        assert editor.refuse_variants(selected) == ""
        assert "has no variant 'three'" in editor.refuse_variants((wrong,))
        with pytest.raises(VariantError, match="has no variant 'three'"):
            editor.select((wrong,))
        editor.select(selected)
    running = again(running, selected, contexts=("/World/a",))
    assert hidden(running) == ["/World/b", "/World/c", "/World/d", "/World/more/e"]
    running = again(running, selected, contexts=("other", "e"))
    assert [robot.path for robot in running.robots] == ["/World/d", "/World/more/e"]


def test_what_is_spawned_is_composed_and_names_of_left_out_robots_are_taken(tmp_path: Path) -> None:
    write_fleet(tmp_path, robots=2, links=2)
    asset = world(tmp_path, outside='}\ndef Xform "z" ( prepend apiSchemas = ["RosContextAPI"] ) {')
    running = plan(asset, "/World/a", physics=False)
    assert "/z" in hidden(running)
    spawner = Spawner(running.stage)
    assert not spawner.is_free("z")
    path = spawner.spawn(
        "new", tmp_path / "robot.usda", namespace="new", world_from_prim=np.array([0.0, 0, 0, 0, 0, 0, 1])
    )
    running = again(running, contexts=("/World/a",), spawned=(path,))
    assert [robot.path for robot in running.robots] == ["/World/a", "/new"]
    assert hidden(running) == ["/World/b", "/World/c", "/z"]
    running = again(running, shard="4/4", spawned=(path,))
    assert {robot.path for robot in running.robots} == {"/new", "/z"}
    spawner.remove(path)
    assert [robot.path for robot in again(running, shard="4/4").robots] == ["/z"]


# --- Files -----------------------------------------------------------------------------------------------------


def robots_in_files(folder: Path, count: int = 3) -> Path:
    """Write a fleet whose robots have a file each, which has a file for its arm."""
    members = ""
    for number in range(count):
        (folder / f"arm_{number}.usda").write_text(
            HEAD.replace("World", "arm")
            + 'def Xform "arm" ( prepend apiSchemas = ["PhysicsRigidBodyAPI"] ) {}\n',
            encoding="utf-8",
        )
        (folder / f"robot_{number}.usda").write_text(
            HEAD.replace("World", "robot")
            + f"""def Xform "robot" ( prepend apiSchemas = ["RosContextAPI"] ) {{
                string ros:context:namespace = "r{number}"
                def Xform "arm" ( prepend references = @./arm_{number}.usda@ ) {{}}
            }}\n""",
            encoding="utf-8",
        )
        members += f'def Xform "r{number}" ( prepend references = @./robot_{number}.usda@ ) {{}}\n'
    asset = folder / "world.usda"
    asset.write_text(HEAD + 'def Xform "World" {\n' + members + "}\n", encoding="utf-8")
    return asset


@each_case("private_copies", [False, True])
def test_files_of_robots_that_are_left_out_are_watched_and_read_again(
    tmp_path: Path, private_copies: bool
) -> None:
    asset = robots_in_files(tmp_path)
    options = ReadOptions(private_copies=private_copies)
    running = load_plan(asset, read_options=options, plan_options=PlanOptions(contexts=("r0",)))
    gc.collect()
    files = {str(each) for each in tmp_path.glob("*.usda")}
    assert asset_files(running.stage) == files
    arm = tmp_path / "arm_2.usda"
    hand = '{\n def Xform "hand" ( prepend apiSchemas = ["PhysicsRigidBodyAPI"] ) {\n }\n}'
    arm.write_text(arm.read_text(encoding="utf-8").replace("{}", hand), encoding="utf-8")
    robot = tmp_path / "robot_1.usda"
    robot.write_text(robot.read_text(encoding="utf-8").replace('"r1"', '"renamed"'), encoding="utf-8")
    assert set(reload(running.stage)) == files
    running = again(running, contexts=("r2",))
    assert running.stage.GetPrimAtPath("/World/r2/arm/hand")
    running = again(running, contexts=("renamed",))
    assert [each.path for each in running.robots] == ["/World/r1"]


def test_a_reload_that_brings_robots_moves_the_shards(tmp_path: Path) -> None:
    asset = robots_in_files(tmp_path)
    running = plan(asset, shard="2/3")
    assert [each.path for each in running.robots] == ["/World/r1"]
    new = "".join(
        f'def Xform "{name}" ( prepend references = @./robot_1.usda@ ) {{}}\n' for name in ("r7", "r8", "r9")
    )
    asset.write_text(
        asset.read_text(encoding="utf-8").replace('def Xform "r0"', f'{new}def Xform "r0"'), encoding="utf-8"
    )
    reload(running.stage)
    running = again(running, shard="2/3")
    assert [each.path for each in running.robots] == ["/World/r9", "/World/r0"]
    assert_same(running, cut(asset, shard="2/3"))
