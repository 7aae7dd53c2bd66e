"""Served contexts: plans of shards together are the plan of the whole stage, at a fraction of its cost."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pxr import Usd

from builders.assets import FLEET, plan_of
from builders.stage_text import header
from builders.stages import write_fleet
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.export.plan_json import plan_to_json
from usd_ros_bridge.export.urdf import UrdfExporter
from usd_ros_bridge.model.change import same
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.make_plan import make_plan
from usd_ros_bridge.usd import read_stage

LISTS = ("robots", "topics", "services", "actions", "controllers", "diagnostics")
EMPTY = "2.1.shard"

WORLD = """
def Xform "World" {
    def Xform "camera" ( prepend apiSchemas = ["RosTopicAPI"] ) {
        token ros:topic:role = "publisher"
        string ros:topic:name = "overview"
        string ros:topic:type = "std_msgs/msg/Bool"
        double ros:topic:publish_rate = 1
    }
    def Xform "box" ( prepend apiSchemas = ["PhysicsRigidBodyAPI"] ) {}
    def Xform "trailer" ( prepend apiSchemas = ["PhysicsRigidBodyAPI"] ) {}
    def Xform "a" ( prepend apiSchemas = ["RosContextAPI"] ) {
        string ros:context:namespace = "a"
        def Xform "base" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"] ) {}
        def Xform "tool" ( prepend apiSchemas = ["RosContextAPI"] ) {}
        def PhysicsRevoluteJoint "to_other" {
            rel physics:body0 = </World/a/base>
            rel physics:body1 = </World/b/base>
        }
    }
    def Xform "b" ( prepend apiSchemas = ["RosContextAPI"] ) {
        string ros:context:namespace = "%s"
        def Xform "base" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"] ) {}
    }
    def PhysicsRevoluteJoint "hitch" {
        rel physics:body0 = </World/b/base>
        rel physics:body1 = </World/trailer>
    }
}
"""


def _plan(asset: Path, *contexts: str, physics: bool = False) -> BridgePlan:
    return plan_of(asset, physics=physics, contexts=contexts)


def _by_name(plan: BridgePlan) -> dict[str, Any]:
    """The plan's layout and everything that rows point at, by names that hold in every plan."""
    layout = plan.layout
    dofs = [f"{joint}:{name}" for joint, name in zip(layout.dof_joints, layout.dofs, strict=True)]
    found: dict[str, Any] = {}
    for row, body in enumerate(layout.bodies):
        found[f"body {body}"] = [*layout.body_pose[row].tolist(), bool(layout.kinematic[row])]
    for row, dof in enumerate(dofs):
        found[f"dof {dof}"] = [layout.joint_position[row], layout.lower[row], layout.upper[row]]
    for robot in plan.robots:
        found[f"robot {robot.path}"] = [
            [dofs[row] for row in robot.joint_state_rows],
            [layout.bodies[row] for row in robot.bodies],
            [(frame.id, frame.carrier >= 0 and layout.bodies[frame.carrier]) for frame in robot.frames],
            robot.base_transform,
        ]
    for topic in plan.topics:
        found[f"topic {topic.path} {topic.name}"] = [
            [dofs[row] for row in topic.dofs],
            topic.body >= 0 and layout.bodies[topic.body],
            topic.robot >= 0 and plan.robots[topic.robot].path,
            topic.camera >= 0 and plan.scene.cameras[topic.camera].path,
        ]
    for controller in plan.controllers:
        found[f"controller {controller.path}"] = [
            [dofs[row] for row in controller.dofs],
            repr(controller.parameters),
        ]
    return found


def _assert_same(whole: BridgePlan, shards: Sequence[BridgePlan]) -> None:
    expected, parts = plan_to_json(whole), [plan_to_json(shard) for shard in shards]
    for name in LISTS:
        found = [each for part in parts for each in part[name] if each.get("code") != EMPTY]
        got = [json.dumps(each, sort_keys=True) for each in found]
        assert sorted(got) == sorted(json.dumps(each, sort_keys=True) for each in expected[name]), name
    together: dict[str, Any] = {}
    for shard in shards:
        together |= _by_name(shard)
    assert together == _by_name(whole)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), min_size=3, max_size=3))
def test_plans_of_shards_of_the_fleet_example_are_the_whole_plan(shard_of: list[int]) -> None:
    whole = _plan(FLEET)
    shards = [
        tuple(path for path, number in zip(whole.contexts, shard_of, strict=True) if number == shard)
        for shard in sorted(set(shard_of))
    ]
    _assert_same(whole, [_plan(FLEET, *shard) for shard in shards])


@each_case("shards", [1, 2, 5, 12])
def test_plans_of_shards_of_a_repeated_robot_are_the_whole_plan(tmp_path: Path, shards: int) -> None:
    asset = write_fleet(tmp_path, robots=12, links=3)
    whole = load_plan(asset)
    parts = [
        load_plan(asset, plan_options=PlanOptions(contexts=whole.contexts[number::shards]))
        for number in range(shards)
    ]
    _assert_same(whole, parts)


SELECTORS = ((), ("rover_*",), ("/Fleet/*",), ("!rover_1",), ("arm", "/Fleet/rover_2"), ("/Fleet", "/"))


@each_case(("shards", "contexts"), [(3, ()), (4, ()), *((2, each) for each in SELECTORS)])
def test_shards_of_what_is_selected_are_the_plan_of_one_process(
    shards: int, contexts: tuple[str, ...]
) -> None:
    whole = _plan(FLEET, *contexts)
    parts = [_shard(FLEET, f"{number}/{shards}", *contexts) for number in range(1, shards + 1)]
    _assert_same(whole, parts)
    for part in parts:
        assert part.contexts == whole.contexts


@each_case(
    ("shards", "contexts"),
    [
        (1, ()),
        (2, ("robot_[0-9]*",)),
        (5, ()),
        (5, ("/fleet/robot_1*", "!robot_11")),
        (12, ("robot_[0-9]*",)),
        (15, ()),
    ],
)
def test_shards_of_a_fleet_have_the_numbers_of_one_process(
    tmp_path: Path, shards: int, contexts: tuple[str, ...]
) -> None:
    asset = write_fleet(tmp_path, robots=12, links=3, visible=True)
    whole = load_plan(asset, plan_options=PlanOptions(contexts=contexts), physics=True)
    parts = [_shard(asset, f"{number}/{shards}", *contexts, physics=True) for number in range(1, shards + 1)]
    _assert_same(whole, parts)
    _assert_same_physics(whole, parts)
    _assert_same_descriptions(whole, parts)
    empty = [part for part in parts if not part.robots]
    assert len(empty) == max(shards - len(whole.robots), 0)
    for part in empty:
        (found,) = [each for each in part.diagnostics if each.code == "2.1.shard"]
        assert found.severity == "info"
        assert "no robot" in found.message


def _shard(asset: Path, shard: str, *contexts: str, physics: bool = False) -> BridgePlan:
    return plan_of(asset, physics=physics, contexts=contexts, shard=shard)


def _assert_same_physics(whole: BridgePlan, shards: Sequence[BridgePlan]) -> None:
    """Compare all that engines get, by path and to the last bit: robots of one shard, and the world of each."""
    for name in ("bodies", "joints", "colliders"):
        expected = {each.path: each for each in getattr(whole.physics, name)}
        got = {each.path: each for shard in shards for each in getattr(shard.physics, name)}
        assert got.keys() == expected.keys(), name
        for path, each in got.items():
            assert same(_without_rows(each), _without_rows(expected[path])), path
    assert all(
        shard.physics is not None and shard.physics.gravity == whole.physics.gravity for shard in shards
    )


def _without_rows(item: Any) -> Any:
    """Return a physics item, but for rows of bodies, joints and degrees of freedom."""
    if isinstance(item, tuple):
        return tuple(_without_rows(each) for each in item)
    if dataclasses.is_dataclass(item):
        return {each.name: _without_rows(getattr(item, each.name)) for each in dataclasses.fields(item)}
    return None if isinstance(item, int) and not isinstance(item, bool) else item


def _assert_same_descriptions(whole: BridgePlan, shards: Sequence[BridgePlan]) -> None:
    def texts(plan: BridgePlan) -> dict[str, str]:
        exporter = UrdfExporter(plan)
        return {robot.path: exporter.robot(number).text for number, robot in enumerate(plan.robots)}

    together: dict[str, str] = {}
    for shard in shards:
        together |= texts(shard)
    assert together == texts(whole)


def test_physics_of_a_shard_has_its_robots_and_nothing_of_others() -> None:
    whole, shard = _plan(FLEET, physics=True), _plan(FLEET, "/Fleet/rover_2", physics=True)
    outside = [
        body for body in whole.physics.bodies if not body.path.startswith(("/Fleet/rover_1", "/Fleet/arm"))
    ]
    assert [body.path for body in shard.physics.bodies] == [body.path for body in outside]
    for got, expected in zip(shard.physics.bodies, outside, strict=True):
        assert got.inertial == expected.inertial
        assert got.world_from_body == expected.world_from_body
    assert len(shard.physics.colliders) > 0
    assert all(joint.path.startswith("/Fleet/rover_2/") for joint in shard.physics.joints)


def _world(folder: Path, namespace: str = "b") -> Path:
    asset = folder / "world.usda"
    asset.write_text(header() + WORLD % namespace, encoding="utf-8")
    return asset


def test_a_joint_to_a_robot_of_another_shard_is_left_out_and_said(tmp_path: Path) -> None:
    plan = _plan(_world(tmp_path), "/World/a", physics=True)
    (found,) = [each for each in plan.diagnostics if each.code == "2.1.contexts"]
    assert found.path == "/World/a/to_other"
    assert "/World/b" in found.message
    assert not plan.physics.joints
    # The trailer hangs on the other robot alone; the box is everybody's.
    assert [body.path for body in plan.physics.bodies] == ["/World/box", "/World/a/base"]


def test_the_other_shard_has_its_trailer(tmp_path: Path) -> None:
    plan = _plan(_world(tmp_path), "/World/b", physics=True)
    assert [joint.path for joint in plan.physics.joints] == ["/World/hitch"]
    assert {body.path for body in plan.physics.bodies} == {"/World/box", "/World/trailer", "/World/b/base"}


def test_interfaces_outside_of_every_context_are_those_of_the_shard_that_asks(tmp_path: Path) -> None:
    asset = _world(tmp_path)
    assert not _plan(asset, "/World/a").topics
    for contexts in (("/",), ("/World/a", "/")):
        assert [topic.name for topic in _plan(asset, *contexts).topics if not topic.implicit] == ["/overview"]
    alone = _plan(asset, "/")
    assert not alone.robots
    assert "2.1.no_robot" not in {each.code for each in alone.diagnostics}


def test_a_prim_above_robots_stands_for_them(tmp_path: Path) -> None:
    assert [robot.path for robot in _plan(_world(tmp_path), "/World/").robots] == ["/World/a", "/World/b"]


def test_robots_of_different_shards_with_one_namespace_are_still_a_fault(tmp_path: Path) -> None:
    asset = _world(tmp_path, namespace="a")
    assert "2.1.1" not in {each.code for each in _plan(asset, "/World/a").diagnostics}
    (found,) = [each for each in _plan(asset, "/World/b").diagnostics if each.code == "2.1.1"]
    assert (found.path, found.severity) == ("/World/b", "error")


@each_case(
    ("entry", "parts"),
    [
        ("/World/c", ("'/World/c'", "/World/a, /World/b")),
        ("/World/a/tool", ("inside of the robot /World/a",)),
        ("/Wrld", ("/World/a, /World/b",)),
    ],
)
def test_an_unknown_context_is_the_callers_mistake_and_lists_what_exists(
    tmp_path: Path, entry: str, parts: tuple[str, ...]
) -> None:
    with pytest.raises(OptionError) as caught:
        _plan(_world(tmp_path), entry)
    assert all(part in str(caught.value) for part in parts)


def test_the_list_of_what_exists_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        load_plan(
            write_fleet(tmp_path, robots=100, links=1), plan_options=PlanOptions(contexts=("/nowhere",))
        )
    assert "and 80 more" in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_overrides_of_other_shards_are_no_fault() -> None:
    options = PlanOptions(contexts=("/Fleet/arm",), enabled={"/Fleet/rover_1": False})
    assert not load_plan(FLEET, plan_options=options).diagnostics


def test_what_was_spawned_is_served_whatever_contexts_says(tmp_path: Path) -> None:
    options = PlanOptions(contexts=("/World/a",), spawned=("/World/b", "/gone"))
    assert [robot.path for robot in load_plan(_world(tmp_path), plan_options=options).robots] == [
        "/World/a",
        "/World/b",
    ]


def test_one_of_many_robots_is_planned_at_a_fraction_of_the_cost_of_all(
    tmp_path: Path, number_of_calls: Callable[[Callable[[], Any]], int]
) -> None:
    asset = write_fleet(tmp_path, robots=200, links=5)
    records = read_stage(Usd.Stage.Open(str(asset)), asset="fleet")
    whole = make_plan(records, PlanOptions())

    everything = number_of_calls(lambda: make_plan(records, PlanOptions()))
    one = number_of_calls(lambda: make_plan(records, PlanOptions(contexts=whole.contexts[100:101])))
    assert one < everything / 2, (one, everything)
    plan = make_plan(records, PlanOptions(contexts=whole.contexts[100:101]))
    assert dataclasses.replace(plan.robots[0], joint_state_rows=(), bodies=()).path == whole.contexts[100]
    assert np.allclose(
        plan.layout.body_pose[0], whole.layout.body_pose[whole.layout.bodies.index(plan.layout.bodies[0])]
    )
