"""Contexts: namespaces, domains, parent frames, implicit contexts (REP 0158 section 2.1)."""

from __future__ import annotations

import pytest

from builders.records import Stage, arm, diff_drive, found, frames, rover, topics
from case_tables import each_case
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.records import IsaacJointRecord, IsaacLinkRecord, IsaacRobotRecord


def test_namespaces_concatenate_and_an_absolute_one_resets() -> None:
    stage = Stage()
    stage.context("/robot", "robot_1")
    stage.context("/robot/camera", "left_camera")
    stage.context("/robot/map", "/shared")
    stage.context("/robot/empty", None)
    for path in ("/robot/a", "/robot/camera/b", "/robot/map/c", "/robot/empty/d"):
        stage.topic(path)
    stage.topic("/robot/e", name="/absolute")
    plan = stage.plan(namespace="/fleet")
    assert [t.name for t in plan.topics] == [
        "/fleet/robot_1/a",
        "/fleet/robot_1/left_camera/b",
        "/shared/c",
        "/fleet/robot_1/d",
        "/absolute",
    ]
    assert [t.context_path for t in plan.topics][1:3] == ["/robot/camera", "/robot/map"]
    assert plan.robots[0].namespace == "/fleet/robot_1"


def test_a_context_on_the_interface_prim_itself_counts() -> None:
    stage = Stage()
    stage.context("/robot", "robot")
    stage.context("/robot/a", "own")
    stage.topic("/robot/a")
    assert stage.plan().topics[0].name == "/robot/own/a"


@each_case("namespace", ["~x", "{node}", "a//b", "a/", "1a", "a/2b", "a b"])
def test_an_invalid_namespace_disables_what_is_below_until_an_absolute_one(namespace: str) -> None:
    stage = Stage()
    stage.context("/robot", namespace)
    stage.context("/robot/good", "/good")
    for path in ("/robot/a", "/robot/good/b"):
        stage.topic(path)
    stage.topic("/robot/c", name="/c")
    plan = stage.plan()
    a, b, c = plan.topics
    assert not a.enabled
    assert "namespace" in a.reason
    assert b.enabled
    assert b.name == "/good/b"
    assert c.enabled
    (diagnostic,) = found(plan, "2.1.namespace")
    assert (diagnostic.severity, diagnostic.path, diagnostic.attribute) == (
        "error",
        "/robot",
        "ros:context:namespace",
    )
    assert namespace in diagnostic.message


def test_a_namespace_of_a_wrong_type_disables_what_is_below() -> None:
    stage = Stage()
    stage.context("/robot", None, invalid=("ros:context:namespace",))
    stage.topic("/robot/a")
    plan = stage.plan()
    assert not plan.topics[0].enabled
    assert "of a type that cannot be used" in plan.topics[0].reason
    assert found(plan, "2.1.namespace") == []


def test_a_namespace_leaves_room_for_the_robots_tf_topics() -> None:
    stage = Stage()
    stage.context("/robot", "x" * 240)
    stage.topic("/robot/a")
    plan = stage.plan()
    assert plan.robots[0].namespace == "/"
    assert not plan.topics[0].enabled
    assert "ROS 2 takes 247" in found(plan, "2.1.namespace")[0].message


def test_an_invalid_isaac_namespace_is_named_as_such() -> None:
    stage = Stage()
    stage.body("/robot")
    stage.add("isaac_robots", IsaacRobotRecord(path="/robot", namespace="my robot"))
    (diagnostic,) = found(stage.plan(), "2.1.namespace")
    assert diagnostic.attribute == "isaac:namespace"


def test_messages_about_endless_paths_are_bounded() -> None:
    stage = Stage()
    stage.context("/robot", "robot", domain_id=1)
    stage.context("/robot/" + "x" * 100_000, "long", domain_id=2)
    stage.context("/robot/" + "x" * 100_000 + "/y", "longer~")
    stage.joint("/robot/j", "/robot/" + "x" * 100_000 + "/gone")
    assert max(len(d.message) for d in stage.plan().diagnostics) < 1100


def test_the_nodes_own_namespace_must_be_valid() -> None:
    with pytest.raises(OptionError, match="1x"):
        Stage().plan(namespace="1x")


def test_domains_come_from_the_nearest_context() -> None:
    stage = Stage()
    stage.context("/robot", domain_id=5)
    stage.context("/robot/module", "module", domain_id=7)
    stage.context("/robot/plain", "plain")
    for path in ("/robot/a", "/robot/module/b", "/robot/plain/c"):
        stage.topic(path)
    plan = stage.plan()
    assert [t.domain_id for t in plan.topics] == [5, 7, 5]
    assert plan.robots[0].domain_id == 5
    assert [d.severity for d in found(plan, "2.1.domain_id")] == ["warning"]


@each_case("domain", [-1, 233, 10**9])
def test_an_impossible_domain_is_ignored_with_an_error(domain: int) -> None:
    stage = Stage()
    stage.context(domain_id=domain)
    stage.topic("/robot/a")
    plan = stage.plan()
    assert plan.topics[0].domain_id is None
    assert [d.severity for d in found(plan, "2.1.domain_id")] == ["error"]


def test_a_process_serves_sixteen_domains() -> None:
    stage = Stage(default_prim=None)
    for number in range(17):
        stage.context(f"/r{number}", f"r{number}", domain_id=number)
        stage.topic(f"/r{number}/a")
        stage.topic(f"/r{number}/b", name=f"/absolute_{number}")
    plan = stage.plan()
    # The process's own domain is one of them.
    assert [t.enabled for t in plan.topics] == [True] * 30 + [False] * 4
    assert "more than the 16" in plan.topics[-1].reason


def test_parent_frame_of_the_outermost_context_counts_alone() -> None:
    stage = Stage()
    stage.context(parent_frame="map")
    stage.context("/robot/nested", "nested", parent_frame="other")
    plan = stage.plan()
    assert plan.robots[0].parent_frame == "map"
    assert frames(plan)["robot"].parent == "map"
    (diagnostic,) = found(plan, "2.1.parent_frame")
    assert diagnostic.path == "/robot/nested"
    assert "'other'" in diagnostic.message


@each_case(("authored", "used"), [("/map", "map"), ("", "world"), ("my map", "my_map")])
def test_an_unusable_parent_frame_is_made_valid(authored: str, used: str) -> None:
    stage = Stage()
    stage.context(parent_frame=authored)
    plan = stage.plan()
    assert plan.robots[0].parent_frame == used
    assert found(plan, "2.1.parent_frame")[0].severity == "error"


@each_case("namespace", ["twin", None])
def test_two_robots_of_one_namespace_and_domain_are_an_error_on_the_second(namespace: str | None) -> None:
    stage = Stage(default_prim="/w")
    stage.context("/w/one", namespace)
    stage.context("/w/two", namespace)
    stage.context("/w/three", namespace, domain_id=3)
    (diagnostic,) = found(stage.plan(), "2.1.1")
    assert (diagnostic.severity, diagnostic.path) == ("error", "/w/two")


def test_an_interface_outside_every_context_gets_the_nodes_namespace_and_world() -> None:
    stage = Stage(default_prim="/w")
    stage.context("/w/robot", "robot")
    stage.topic("/w/outside", "sensor_msgs/msg/Imu")
    plan = stage.plan(namespace="fleet")
    (topic,) = plan.topics
    assert (topic.name, topic.frame_id, topic.robot, topic.enabled) == ("/fleet/outside", "world", -1, True)
    assert found(plan, "2.1.context")[0].severity == "warning"


def test_the_default_prim_is_the_implicit_context() -> None:
    plan = arm(context=False).plan()
    (robot,) = plan.robots
    assert (robot.path, robot.namespace, robot.implicit) == ("/robot", "/", True)
    assert found(plan, "2.1.implicit")[0].severity == "info"


def test_no_implicit_context_where_it_is_turned_off() -> None:
    plan = arm(context=False).plan(implicit_context=False)
    assert plan.robots == ()
    assert plan.topics == ()
    assert found(plan, "2.1.no_robot")


def test_the_only_root_prim_stands_in_for_a_missing_default_prim() -> None:
    stage = arm(Stage(default_prim=None), context=False)
    plan = stage.plan()
    assert plan.robots[0].path == "/robot"
    assert found(plan, "1.2.5.default_prim")[0].severity == "warning"


def test_several_root_prims_without_a_default_prim_give_no_robot() -> None:
    stage = arm(Stage(default_prim=None), context=False)
    stage.xform("/other")
    plan = stage.plan()
    assert plan.robots == ()
    assert found(plan, "1.2.5.default_prim")


def test_an_empty_stage_gives_an_empty_plan() -> None:
    plan = Stage(default_prim=None).plan()
    assert (plan.robots, plan.topics, plan.layout.bodies) == ((), (), ())


def test_an_implicit_context_needs_something_to_be_a_robot() -> None:
    stage = Stage()
    stage.xform("/robot/visual")
    assert stage.plan().robots == ()


def isaac_stage() -> Stage:
    stage = arm(context=False)
    stage.add(
        "isaac_robots",
        IsaacRobotRecord(path="/robot", namespace="isaac_bot", joints=("/robot/lift", "/robot/pan")),
    )
    stage.add("isaac_links", IsaacLinkRecord(path="/robot/base", name_override="base_link"))
    stage.add("isaac_joints", IsaacJointRecord(path="/robot/pan", name_override="panning"))
    return stage


def test_isaac_schemas_name_robots_without_ros_schemas() -> None:
    plan = isaac_stage().plan()
    (robot,) = plan.robots
    assert robot.namespace == "/isaac_bot"
    assert "base_link" in frames(plan)
    assert [plan.layout.dofs[row] for row in robot.joint_state_rows] == ["lift", "panning"]


def test_isaac_names_yield_to_ros_schemas_unless_asked_for() -> None:
    stage = isaac_stage()
    stage.context("/robot", "ros")
    plan = stage.plan()
    assert plan.robots[0].namespace == "/ros"
    assert "base" in frames(plan)
    assert [j.name for j in plan.robots[0].joints][1] == "pan"
    named = stage.plan(isaac_names=True)
    assert "base_link" in frames(named)
    assert [j.name for j in named.robots[0].joints][1] == "panning"


def test_each_isaac_robot_of_a_stage_is_a_robot() -> None:
    stage = Stage(default_prim="/w")
    for name in ("one", "two"):
        arm(stage, f"/w/{name}", context=False)
        stage.add("isaac_robots", IsaacRobotRecord(path=f"/w/{name}", namespace=name))
    plan = stage.plan()
    assert [robot.path for robot in plan.robots] == ["/w/one", "/w/two"]
    assert [t.name for t in plan.topics if t.role == "publisher"] == [
        "/one/joint_states",
        "/two/joint_states",
    ]
    assert topics(plan)["/w/one"].implicit


def test_a_parent_frame_that_odometry_replaces_is_said() -> None:
    for parent_frame, expected in (("map", ["/robot"]), (None, [])):
        stage = rover(context=False)
        stage.context(parent_frame=parent_frame)
        stage.controller(diff_drive())
        for options, count in (({}, len(expected)), ({"base_transform": "ground_truth"}, 0)):
            found_here = [d for d in stage.plan(**options).diagnostics if d.code == "2.1.parent_frame"]
            assert len(found_here) == count
            assert all(
                d.severity == "warning" and "'map'" in d.message and "'odom'" in d.message for d in found_here
            )
