"""What differs between two plans: found, matched and named as a reviewer of the ROS interface would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pxr import Sdf, Usd

from builders.assets import ARM, ASSETS, FLEET, ROVER, plan_of
from case_tables import each_case
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.change import ItemDifference, PlanDifference
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import PlanOptions, ReadOptions, VariantSelection
from usd_ros_bridge.planning import diff
from usd_ros_bridge.planning.diff import difference
from usd_ros_bridge.spatial.pose import Pose

FILES = sorted(ASSETS.glob("*.usda"))
PLANNED = st.sampled_from([*FILES[::4], ROVER, ARM]).map(plan_of)


def opened(path: Path) -> Usd.Stage:
    """A stage of its own whose edits go to the session layer."""
    stage = Usd.Stage.Open(str(path))
    stage.SetEditTarget(stage.GetSessionLayer())
    return stage


def after(path: Path, edit: Callable[[Usd.Stage], object]) -> PlanDifference:
    stage = opened(path)
    old = load_plan(stage)
    edit(stage)
    return difference(old, load_plan(stage))


def only(found: PlanDifference) -> ItemDifference:
    assert len(found) == 1, [str(item) for item in found]
    return next(iter(found))


def changes(item: ItemDifference) -> dict[str, tuple[Any, Any]]:
    return {change.field: (change.old, change.new) for change in item.fields}


def lines(found: PlanDifference) -> list[str]:
    return [str(item) for item in found]


def set_attribute(path: str, name: str, value: Any) -> Callable[[Usd.Stage], object]:
    return lambda stage: stage.GetPrimAtPath(path).GetAttribute(name).Set(value)


# --- Nothing ------------------------------------------------------------------------------------------------------


@each_case("path", FILES)
def test_a_plan_does_not_differ_from_itself_made_again(path: Path) -> None:
    found = difference(plan_of(path), load_plan(path))
    assert not found
    assert lines(found) == []
    assert str(found) == "no difference"


def test_rounding_of_transforms_and_the_sign_of_quaternions_are_no_difference() -> None:
    plan = load_plan(ROVER)
    robot = plan.robots[0]
    frame = next(frame for frame in robot.frames if frame.id == "camera_optical_frame")

    def with_pose(pose: Pose) -> BridgePlan:
        frames = tuple(replace(f, parent_from_frame=pose) if f is frame else f for f in robot.frames)
        return replace(plan, robots=(replace(robot, frames=frames),))

    x, y, z = frame.parent_from_frame.translation
    turned = tuple(-part for part in frame.parent_from_frame.rotation)
    assert not difference(plan, with_pose(Pose((x + 5e-10, y, z), turned)))  # type: ignore[arg-type]
    item = only(difference(plan, with_pose(Pose((x + 5e-9, y, z), frame.parent_from_frame.rotation))))
    assert changes(item) == {"translation": ((x, y, z), (x + 5e-9, y, z))}


# --- Fields -------------------------------------------------------------------------------------------------------


@each_case(
    ("path", "attribute", "value", "kind", "expected"),
    [
        ("/rover/lidar_link", "ros:topic:publish_rate", 20.0, "topic", {"publish_rate": (10.0, 20.0)}),
        ("/rover/lidar_link", "ros:topic:qos:depth", 7, "topic", {"qos.depth": (5, 7)}),
        ("/rover/lidar_link", "ros:topic:name", "laser", "topic", {"name": ("/rover/scan", "/rover/laser")}),
        (
            "/rover/lidar_link", "ros:topic:qos:reliability", "best_effort", "topic",
            {"qos.reliability": ("reliable", "best_effort")},
        ),
        (
            "/rover/imu_link", "ros:topic:override_frame_id", "map", "topic", {"frame_id": ("imu_link", "map")},
        ),
        (
            "/rover/headlights/set_headlights", "ros:service:type", "std_srvs/srv/Trigger", "service",
            {"type": ("std_srvs/srv/SetBool", "std_srvs/srv/Trigger")},
        ),
        (
            "/rover/Controllers/diff_drive", "ros:diff_drive:wheel_radius", 0.2, "controller",
            {"parameters.wheel_radius": (0.1, 0.2)},
        ),
    ],
)  # fmt: skip
def test_an_attribute_is_a_field(
    path: str, attribute: str, value: Any, kind: str, expected: dict[str, Any]
) -> None:
    def edit(stage: Usd.Stage) -> None:
        prim = stage.GetPrimAtPath(path)
        name = attribute
        if not prim.GetAttribute(name):
            prim.CreateAttribute(name, Sdf.ValueTypeNames.String)
        prim.GetAttribute(name).Set(value)

    item = only(after(ROVER, edit))
    assert (item.kind, item.change, item.path) == (kind, "changed", path)
    assert changes(item) == expected


def test_what_is_switched_off_says_why() -> None:
    def edit(stage: Usd.Stage) -> None:
        prim = stage.GetPrimAtPath("/rover/lidar_link")
        prim.CreateAttribute("ros:topic:starts_enabled", Sdf.ValueTypeNames.Bool).Set(False)

    assert changes(only(after(ROVER, edit))) == {
        "enabled": (True, False),
        "reason": ("", "starts_enabled is false"),
    }


def test_a_limit_that_is_no_more_is_none() -> None:
    joint = "/arm/base_link/link_1/joint_2"
    stage = opened(ARM)
    limit = stage.GetPrimAtPath(joint).GetAttribute("physics:lowerLimit").Get()
    found = after(ARM, set_attribute(joint, "physics:lowerLimit", float("-inf")))
    item = only(found)
    assert (item.kind, item.name, item.robot) == ("joint", "joint_2", "/arm")
    (old, new) = changes(item)["lower"]
    assert old == pytest.approx(limit * 0.017453292519943295)
    assert new is None


def test_mimic_names_its_leader() -> None:
    selected = ReadOptions(variants=(VariantSelection("/arm", "gripper", "parallel"),))
    plan = load_plan(ARM, read_options=selected)
    robot = plan.robots[0]
    joint = next(joint for joint in robot.joints if joint.dofs and joint.dofs[0].mimic is not None)
    free = replace(joint, dofs=(replace(joint.dofs[0], mimic=None),))
    joints = tuple(free if each is joint else each for each in robot.joints)
    fields = changes(only(difference(plan, replace(plan, robots=(replace(robot, joints=joints),)))))
    assert fields["mimic.leader"] == ("left_finger_joint", None)
    assert set(fields) == {"mimic.leader", "mimic.multiplier", "mimic.offset"}


# --- Matching -----------------------------------------------------------------------------------------------------


def moved(stage: Usd.Stage, old: str, new: str) -> None:
    """Moves a prim, and what refers to it, of a stage with one layer."""
    editor = Usd.NamespaceEditor(stage)
    assert editor.MovePrimAtPath(old, new)
    assert editor.ApplyEdits()


def flat(path: Path) -> Usd.Stage:
    return Usd.Stage.Open(Usd.Stage.Open(str(path)).Flatten())


def test_a_prim_that_moved_under_its_name_changed_its_path() -> None:
    stage = flat(ROVER)
    old = load_plan(stage)
    moved(stage, "/rover/headlights/set_headlights", "/rover/Interfaces/lights")
    item = only(difference(old, load_plan(stage)))
    assert changes(item) == {"path": ("/rover/headlights/set_headlights", "/rover/Interfaces/lights")}


def test_a_robot_that_moved_as_a_whole_changed_one_path() -> None:
    stage = flat(ROVER)
    old = load_plan(stage)
    moved(stage, "/rover", "/other")
    stage.GetRootLayer().defaultPrim = "other"
    item = only(difference(old, load_plan(stage)))
    assert item.kind == "robot"
    assert changes(item) == {"path": ("/rover", "/other")}


def test_a_namespace_renames_what_is_in_it_and_nothing_else() -> None:
    found = difference(load_plan(ROVER), load_plan(ROVER, plan_options=PlanOptions(namespace="fleet")))
    assert {item.change for item in found} == {"changed"}
    for item in found:
        fields = changes(item)
        if item.kind == "robot":
            assert set(fields) == {"namespace", "tf", "tf_static"}
        else:
            assert set(fields) == {"name"}
            assert fields["name"][1] == "/fleet" + fields["name"][0]


def test_two_interfaces_that_swap_their_prims_swap_paths() -> None:
    def edit(stage: Usd.Stage) -> None:
        set_attribute("/rover/lidar_link", "ros:topic:name", "imu")(stage)
        set_attribute("/rover/imu_link", "ros:topic:name", "scan")(stage)

    found = after(ROVER, edit)
    assert {(item.name, item.change) for item in found} == {
        ("/rover/imu", "changed"),
        ("/rover/scan", "changed"),
    }
    assert all("name" not in changes(item) for item in found)
    assert all("path" in changes(item) for item in found)


def test_a_subscription_and_a_publisher_of_one_name_are_two() -> None:
    def edit(stage: Usd.Stage) -> None:
        prim = stage.DefinePrim("/rover/Interfaces/echo", "Scope")
        prim.AddAppliedSchema("RosTopicAPI")
        for name, value in (
            ("role", "subscription"),
            ("name", "scan"),
            ("type", "sensor_msgs/msg/LaserScan"),
        ):
            prim.CreateAttribute(f"ros:topic:{name}", Sdf.ValueTypeNames.String).Set(value)

    item = only(after(ROVER, edit))
    assert str(item) == "+ subscription /rover/scan (sensor_msgs/msg/LaserScan)"


def test_what_came_and_went_between_variants() -> None:
    def of(variant: str) -> BridgePlan:
        return load_plan(
            ARM, read_options=ReadOptions(variants=(VariantSelection("/arm", "gripper", variant),))
        )

    found = difference(of("parallel"), of("suction"))
    assert "+ service server /arm/vacuum (std_srvs/srv/SetBool)" in lines(found)
    assert "- frame gripper_tcp of /arm (in gripper_base)" in lines(found)
    assert "~ joint gripper_mount_joint of /arm: child gripper_base -> suction_gripper" in lines(found)
    assert str(found) == "3 added, 8 removed, 4 changed"
    assert [item.kind for item in found] == sorted(
        (item.kind for item in found),
        key=("robot", "topic", "service", "action", "controller", "joint", "frame").index,
    )


def test_one_of_several_robots_that_goes_takes_only_its_own() -> None:
    gone = plan_of(FLEET).robots[0]
    found = after(FLEET, lambda stage: stage.GetPrimAtPath(gone.path).SetActive(False))
    assert {item.change for item in found} == {"removed"}
    assert {item.robot for item in found} == {gone.namespace}
    assert sum(item.kind == "frame" for item in found) == len(gone.frames)


# --- Properties ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(PLANNED, PLANNED)
def test_backwards_is_the_opposite(old: BridgePlan, new: BridgePlan) -> None:
    there, back = difference(old, new), difference(new, old)
    assert (len(there.of("added")), len(there.of("removed"))) == (
        len(back.of("removed")),
        len(back.of("added")),
    )
    assert len(there.of("changed")) == len(back.of("changed"))
    assert {(i.kind, i.label, i.name, i.path) for i in there.of("added")} == {
        (i.kind, i.label, i.name, i.path) for i in back.of("removed")
    }


@settings(max_examples=40, deadline=None)
@given(PLANNED, PLANNED)
def test_robots_without_a_closer_look_differ_in_nothing(old: BridgePlan, new: BridgePlan) -> None:
    quick = difference(old, new)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff, "_alike", lambda *_: {})
        assert difference(old, new) == quick


def test_a_leader_of_another_name_is_seen_though_its_row_is_the_same() -> None:
    plan = load_plan(ARM)
    names = tuple("thumb" if name == "left_finger_joint" else name for name in plan.layout.dofs)
    found = difference(plan, replace(plan, layout=replace(plan.layout, dofs=names)))
    followers = [item for item in found if item.kind == "joint"]
    assert [changes(item) for item in followers] == [{"mimic.leader": ("left_finger_joint", "thumb")}]
