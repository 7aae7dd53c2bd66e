"""What controllers claim, which could work, and which may be active: REP 0158 section 4.2.3."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from builders.records import Stage, arm, diff_drive, found, rover
from case_tables import each_case
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.records import (
    ExternalControlRecord,
    JointStateBroadcasterRecord,
    JointTrajectoryRecord,
    RigidBodyTwistRecord,
)


def test_a_drive_claims_its_wheels_and_its_free_base() -> None:
    stage = rover()
    stage.controller(diff_drive())
    (controller,) = stage.plan().controllers
    assert controller.claims == (*controller.dofs, "/robot/base")
    assert controller.switchable


def test_a_drive_on_a_stand_claims_no_base() -> None:
    stage = rover()
    stage.joint("/robot/stand", None, "/robot/base", "Fixed")
    stage.controller(diff_drive())
    (controller,) = stage.plan().controllers
    assert controller.claims == controller.dofs


def test_two_drives_of_one_robot_are_not_both_active() -> None:
    stage = rover()
    for side, y in (("third", 0.5), ("fourth", -0.5)):
        stage.body(f"/robot/{side}", (1.0, 2.0 + y, 0.1))
        stage.joint(f"/robot/{side}_wheel", "/robot/base", f"/robot/{side}", axis="Y", local_pos0=(0, y, 0))
    stage.topic("/robot/second", "geometry_msgs/msg/Twist", role="subscription")
    stage.topic("/robot/odom_2", "nav_msgs/msg/Odometry", publish_rate=50.0, override_frame_id="odom_2")
    stage.controller(diff_drive())
    stage.controller(
        replace(
            diff_drive(
                subscriber=("/robot/second",),
                odom=("/robot/odom_2",),
                left_wheels=("/robot/third_wheel",),
                right_wheels=("/robot/fourth_wheel",),
            ),
            path="/robot/drive_2",
        )
    )
    plan = stage.plan()
    assert [(c.enabled, c.switchable) for c in plan.controllers] == [(True, True), (False, True)]
    assert (plan.robots[0].base_transform, plan.robots[0].odom_frame) == ("odometry", "odom")


def test_a_drive_that_is_off_at_the_start_does_not_own_the_base_transform() -> None:
    stage = rover()
    stage.controller(diff_drive(starts_enabled=False))
    plan = stage.plan()
    (controller,) = plan.controllers
    assert (controller.enabled, controller.switchable, controller.reason) == (
        False,
        True,
        "starts_enabled is false",
    )
    assert controller.claims == (*controller.dofs, "/robot/base")
    assert plan.robots[0].base_transform == "ground_truth"


@each_case("chosen", ["ground_truth", "none", "odometry"])
def test_the_parameter_decides_over_a_drive(chosen: str) -> None:
    stage = rover()
    stage.controller(diff_drive())
    assert stage.plan(base_transform=chosen).robots[0].base_transform == chosen


def test_a_faulty_controller_claims_nothing_and_cannot_be_switched_on() -> None:
    stage = rover()
    stage.controller(diff_drive(wheel_radius=0.0))
    (controller,) = stage.plan().controllers
    assert (controller.enabled, controller.switchable, controller.claims) == (False, False, ())


def test_one_that_waits_for_another_can_be_switched_on() -> None:
    stage = arm()
    stage.action("/robot/a")
    stage.action("/robot/b")
    for name in "ab":
        stage.controller(
            JointTrajectoryRecord(
                path=f"/robot/c_{name}", server=(f"/robot/{name}",), command_joints=("/robot/pan",)
            )
        )
    first, second = stage.plan().controllers
    assert (first.enabled, second.enabled, second.switchable) == (True, False, True)
    assert first.claims == second.claims == first.dofs


def test_a_server_serves_one_controller() -> None:
    stage = arm()
    stage.action("/robot/a")
    for number, joint in enumerate(("/robot/pan", "/robot/lift")):
        stage.controller(
            JointTrajectoryRecord(path=f"/robot/c{number}", server=("/robot/a",), command_joints=(joint,))
        )
    plan = stage.plan()
    assert [c.switchable for c in plan.controllers] == [True, False]
    assert "is the server of /robot/c0 already" in found(plan, "4.2.3.target")[0].message


def test_a_broadcaster_claims_nothing() -> None:
    stage = arm()
    stage.topic("/robot/states", "sensor_msgs/msg/JointState")
    stage.controller(
        JointStateBroadcasterRecord(path="/robot/b", publisher=("/robot/states",), joints=("/robot/pan",))
    )
    assert stage.plan().controllers[0].claims == ()


def test_a_body_that_a_joint_holds_is_not_moved_by_twists() -> None:
    stage = rover()
    stage.controller(
        RigidBodyTwistRecord(path="/robot/c", subscriber=("/robot/cmd_vel",), body=("/robot/left",))
    )
    (controller,) = stage.plan().controllers
    assert not controller.switchable
    assert "is held by a joint" in controller.reason


def test_a_free_body_beside_the_robot_is_moved_by_twists() -> None:
    stage = rover()
    stage.body("/robot/crate", (3.0, 0.0, 0.0))
    stage.controller(
        RigidBodyTwistRecord(path="/robot/c", subscriber=("/robot/cmd_vel",), body=("/robot/crate",))
    )
    plan = stage.plan()
    (controller,) = plan.controllers
    assert (controller.enabled, controller.claims) == (True, ("/robot/crate",))
    assert "/robot/crate" in plan.layout.bodies


# --- Wheels and numbers ------------------------------------------------------------------------------------------


@each_case(
    ("values", "reason"),
    [
        ({"left_wheels": ("/robot/left_wheel", "/robot/right_wheel")}, "on the left and on the right"),
        ({"left_wheels": ("/robot/slide",)}, "does not turn about one axis"),
        ({"wheel_radius": math.inf}, "not in 1e-06 to 1e+06"),
        ({"wheel_separation": 0.0}, "not in 1e-06 to 1e+06"),
        ({"wheel_separation": None}, "must be authored"),
        ({"subscriber": ("/robot/odom",)}, "is no topic subscription"),
    ],
)
def test_drives_that_cannot_be(values: Any, reason: str) -> None:
    stage = rover()
    stage.body("/robot/mast")
    stage.joint("/robot/slide", "/robot/base", "/robot/mast", "Prismatic")
    stage.controller(diff_drive(**values))
    plan = stage.plan()
    (controller,) = (c for c in plan.controllers if c.path == "/robot/drive")
    assert not controller.switchable
    assert reason in controller.reason
    assert found(plan, "4.2.3.target")[0].path == "/robot/drive"


def test_wheels_by_collections_in_traversal_order() -> None:
    stage = rover()
    stage.collections["/robot.collection:right"] = ("/robot/base", "/robot/right_wheel")
    stage.controller(diff_drive(right_wheels=("/robot.collection:right",)))
    (controller,) = stage.plan().controllers
    assert controller.parameters["right_wheels"] == ("right_wheel",)
    assert controller.joints == ("left_wheel", "right_wheel")


@each_case("value", [(1.0,) * 5, (), (0.0,) * 5 + (-1.0,), (0.0,) * 5 + (math.nan,)])
def test_covariances_that_are_none_are_ignored(value: Any) -> None:
    stage = rover()
    stage.controller(diff_drive(pose_covariance_diagonal=value))
    plan = stage.plan()
    assert plan.controllers[0].enabled
    assert plan.controllers[0].parameters["pose_covariance_diagonal"] == (0.0,) * 6
    assert found(plan, "4.2.3.parameter")[0].attribute == "usd_ros_bridge:diff_drive:pose_covariance_diagonal"


def test_authored_covariances_count() -> None:
    stage = rover()
    diagonal = (0.001, 0.001, 0.0, 0.0, 0.0, 0.01)
    stage.controller(diff_drive(twist_covariance_diagonal=diagonal))
    assert stage.plan().controllers[0].parameters["twist_covariance_diagonal"] == diagonal


# --- External controllers ----------------------------------------------------------------------------------------


def external(root: str = "/robot") -> ExternalControlRecord:
    return ExternalControlRecord(path=f"{root}/x")


def test_an_external_controller_has_states_and_commands_as_topics() -> None:
    stage = arm()
    stage.controller(external())
    plan = stage.plan()
    (controller,) = plan.controllers
    assert (controller.interfaces, controller.joints) == (("/robot/x",), ("pan", "lift"))
    states, commands = plan.topics
    assert (states.path, states.role, states.name, states.publish_rate) == (
        "/robot/x", "publisher", "/robot/robot_joint_states", 100.0,
    )  # fmt: skip
    assert (commands.path, commands.role, commands.name) == (
        "/robot/x", "subscription", "/robot/robot_joint_commands",
    )  # fmt: skip
    assert states.implicit
    assert commands.implicit
    assert states.dofs == commands.dofs == controller.dofs
    assert plan.diagnostics == ()


def test_names_and_rate_of_external_topics_are_options() -> None:
    stage = arm()
    stage.controller(external())
    topics = stage.plan(
        external_joint_states="/hw/states", external_joint_commands="hw/commands", controller_rate=250.0
    ).topics
    assert [topic.name for topic in topics] == ["/hw/states", "/robot/hw/commands"]
    assert topics[0].publish_rate == 250.0


@each_case(
    "options", [{"external_joint_states": "~/x"}, {"external_joint_commands": ""}, {"controller_rate": 0.0}]
)
def test_options_of_external_topics_are_checked(options: Any) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        arm().plan(**options)


def test_an_external_topics_name_that_is_taken_is_found() -> None:
    stage = arm()
    stage.topic("/robot/states", "sensor_msgs/msg/JointState", name="robot_joint_states")
    stage.topic("/robot/other", "std_msgs/msg/String", name="robot_joint_commands")
    stage.controller(external())
    plan = stage.plan()
    first, second = found(plan, "2.3.duplicate")
    assert first.path == second.path == "/robot/x"
    assert "external_joint_states" in first.remedy


def test_an_external_controller_outside_of_any_robot_has_nothing() -> None:
    stage = Stage(default_prim="/w")
    arm(stage, "/w/robot")
    stage.controller(ExternalControlRecord(path="/w/x"))
    plan = stage.plan(implicit_interfaces=False)
    assert plan.topics == ()
    assert not plan.controllers[0].switchable
