"""Controllers: declared, implied, in conflict (REP 0158 section 4.2.3 and the control extension schemas)."""

from __future__ import annotations

import math
from typing import Any

from builders.records import Stage, arm, diff_drive, found, rover
from case_tables import each_case
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.records import (
    DriveRecord,
    ExternalControlRecord,
    JointStateBroadcasterRecord,
    JointTrajectoryRecord,
    RigidBodyTwistRecord,
)

BOTH = ("/robot/lift", "/robot/pan")


def controllers(plan: BridgePlan) -> dict[str, ControllerPlan]:
    return {controller.path: controller for controller in plan.controllers}


def trajectory(path: str = "/robot/c", **values: Any) -> JointTrajectoryRecord:
    return JointTrajectoryRecord(
        path=path, **{"server": ("/robot/follow",), "command_joints": BOTH, **values}
    )


def acting_arm(record: Any = None) -> Stage:
    stage = arm()
    stage.action("/robot/follow")
    if record is not None:
        stage.controller(record)
    return stage


def test_a_declared_trajectory_controller_keeps_the_authored_order() -> None:
    plan = acting_arm(trajectory(action_monitor_rate=30.0)).plan()
    (controller,) = plan.controllers
    assert (controller.schema, controller.interfaces) == ("RosControlJointTrajectoryAPI", ("/robot/follow",))
    assert controller.joints == ("lift", "pan")
    assert [plan.layout.dofs[row] for row in controller.dofs] == ["lift", "pan"]
    assert (controller.enabled, controller.implied, controller.robot) == (True, False, 0)
    assert controller.parameters == {
        "action_monitor_rate": 30.0,
        "stopped_velocity_tolerance": None,
        "timeout": None,
        "beyond_limits": "",
    }


@each_case(
    ("values", "reason"),
    [
        ({"server": None}, "names no interface"),
        ({"server": ("/robot/nowhere",)}, "'/robot/nowhere' does not exist"),
        ({"server": ("/robot/base",)}, "is no action server of"),
        ({"command_joints": None}, "names no joint"),
        ({"command_joints": ("/robot/nowhere",)}, "is no joint"),
        ({"command_joints": ("/robot/anchor",)}, "cannot move"),
        ({"command_joints": ("/robot/c.collection:x",)}, "collection"),
    ],
)
def test_faulty_relationships_keep_a_controller_inactive(values: Any, reason: str) -> None:
    plan = acting_arm(trajectory(**values)).plan()
    controller = controllers(plan)["/robot/c"]
    assert not controller.enabled
    assert reason in controller.reason
    (diagnostic,) = found(plan, "4.2.3.target")
    assert (diagnostic.severity, diagnostic.path) == ("error", "/robot/c")


def test_collections_are_expanded() -> None:
    stage = acting_arm(trajectory(command_joints=("/robot/c.collection:joints",)))
    stage.collections["/robot/c.collection:joints"] = ("/robot/pan", "/robot/base", "/robot/lift")
    assert controllers(stage.plan())["/robot/c"].joints == ("pan", "lift")


def test_a_controller_of_a_disabled_interface_is_inactive_without_a_second_diagnostic() -> None:
    stage = arm()
    stage.action("/robot/follow", name="1bad")
    stage.controller(trajectory())
    plan = stage.plan()
    assert "/robot/follow is disabled" in plan.controllers[0].reason
    assert [d.code for d in plan.diagnostics] == ["2.3.name"]


def test_two_active_controllers_cannot_share_a_joint() -> None:
    stage = acting_arm(trajectory())
    stage.action("/robot/second")
    stage.controller(trajectory("/robot/d", server=("/robot/second",), command_joints=("/robot/pan",)))
    plan = stage.plan()
    assert [c.enabled for c in plan.controllers] == [True, False]
    (diagnostic,) = found(plan, "4.2.3.conflict")
    assert (diagnostic.severity, diagnostic.path) == ("error", "/robot/d")
    assert "'pan'" in diagnostic.message
    assert "/robot/c" in diagnostic.message


def test_a_controller_that_starts_disabled_claims_nothing() -> None:
    stage = acting_arm(trajectory(starts_enabled=False))
    stage.action("/robot/second")
    stage.controller(trajectory("/robot/d", server=("/robot/second",)))
    plan = stage.plan()
    assert [(c.enabled, c.reason) for c in plan.controllers] == [
        (False, "starts_enabled is false"),
        (True, ""),
    ]
    assert plan.diagnostics == ()


def test_mimic_joints_are_not_commanded() -> None:
    stage = acting_arm()
    stage.body("/robot/finger")
    stage.joint(
        "/robot/follower", "/robot/base", "/robot/finger", solver_attributes={"newton:mimicJoint": BOTH[1:]}
    )
    stage.controller(trajectory(command_joints=("/robot/pan", "/robot/follower")))
    plan = stage.plan()
    assert plan.controllers[0].joints == ("pan",)
    assert found(plan, "4.2.3.target")[0].severity == "warning"


def test_joints_of_two_robots() -> None:
    stage = Stage(default_prim="/w")
    arm(stage, "/w/one")
    arm(stage, "/w/two")
    stage.action("/w/one/follow")
    stage.controller(
        trajectory("/w/c", server=("/w/one/follow",), command_joints=("/w/one/pan", "/w/two/pan"))
    )
    assert "more than one robot" in stage.plan().controllers[0].reason


def test_differential_drive() -> None:
    stage = rover()
    stage.controller(diff_drive(linear_max_velocity=1.5))
    plan = stage.plan()
    (controller,) = plan.controllers
    assert controller.interfaces == ("/robot/cmd_vel", "/robot/odom")
    assert controller.joints == ("left_wheel", "right_wheel")
    assert controller.parameters["left_wheels"] == ("left_wheel",)
    assert controller.parameters["right_wheels"] == ("right_wheel",)
    assert (controller.parameters["wheel_separation"], controller.parameters["cmd_vel_timeout"]) == (0.5, 0.5)
    assert controller.parameters["linear_max_velocity"] == 1.5
    assert plan.diagnostics == ()


@each_case("value", [None, 0.0, -0.1, math.nan])
def test_a_drive_without_a_wheel_radius_stays_inactive(value: float | None) -> None:
    stage = rover()
    stage.controller(diff_drive(wheel_radius=value))
    plan = stage.plan()
    assert "wheel_radius" in plan.controllers[0].reason
    assert found(plan, "4.2.3.target")[0].severity == "error"


def test_other_unusable_values_are_ignored() -> None:
    stage = rover()
    stage.controller(diff_drive(cmd_vel_timeout=math.nan, linear_max_velocity=-1.0))
    plan = stage.plan()
    assert plan.controllers[0].enabled
    assert plan.controllers[0].parameters["cmd_vel_timeout"] == 0.5
    assert plan.controllers[0].parameters["linear_max_velocity"] is None
    assert len(found(plan, "4.2.3.parameter")) == 2


@each_case(("authored", "kept"), [(None, ""), ("reject", "reject"), ("clamp", "clamp"), ("stop", "")])
def test_a_controller_may_say_what_becomes_of_positions_beyond_limits(authored: Any, kept: str) -> None:
    plan = acting_arm(trajectory(beyond_limits=authored)).plan()
    (controller,) = [each for each in plan.controllers if "beyond_limits" in each.parameters]
    assert controller.parameters["beyond_limits"] == kept
    reports = found(plan, "4.2.3.parameter")
    assert [each.remedy for each in reports] == (
        ["author one of reject, clamp"] if authored == "stop" else []
    )


def test_a_controller_of_mimic_joints_alone_is_inactive() -> None:
    stage = acting_arm()
    stage.body("/robot/finger", at=(0.0, 0.0, 2.0))
    stage.joint(
        "/robot/follower", "/robot/base", "/robot/finger", solver_attributes={"newton:mimicJoint": BOTH[1:]}
    )
    stage.controller(trajectory(command_joints=("/robot/follower",)))
    (controller,) = stage.plan().controllers
    assert (controller.enabled, controller.switchable) == (False, False)
    assert "mimic joints only" in controller.reason


def test_a_twist_of_a_base_that_is_tied_to_the_world_names_the_joint_and_the_remedy() -> None:
    stage = acting_arm()
    stage.topic("/robot/cmd_vel", "geometry_msgs/msg/Twist", role="subscription")
    stage.controller(RigidBodyTwistRecord(path="/robot/c", subscriber=("/robot/cmd_vel",)))
    (finding,) = found(stage.plan(), "4.2.3.target")
    assert "the robot's base '/robot/base' is tied to the world by /robot/anchor" in finding.message
    assert "--free-base" in finding.remedy


def test_a_body_that_is_none_cannot_be_moved() -> None:
    stage = rover()
    stage.controller(
        RigidBodyTwistRecord(path="/robot/c", subscriber=("/robot/cmd_vel",), body=("/robot/odom",))
    )
    assert "is no rigid body" in stage.plan().controllers[0].reason


def test_a_broadcaster_reads_and_claims_nothing() -> None:
    stage = acting_arm(trajectory())
    stage.topic("/robot/states", "sensor_msgs/msg/JointState")
    stage.controller(
        JointStateBroadcasterRecord(
            path="/robot/b", publisher=("/robot/states",), joints=("/robot/pan", "/robot/lift")
        )
    )
    plan = stage.plan()
    assert all(controller.enabled for controller in plan.controllers)
    assert controllers(plan)["/robot/b"].parameters == {"frame_id": ""}


def test_external_control_claims_all_joints() -> None:
    stage = acting_arm(ExternalControlRecord(path="/robot/x"))
    stage.controller(trajectory())
    plan = stage.plan()
    assert controllers(plan)["/robot/x"].joints == ("pan", "lift")
    assert [c.enabled for c in plan.controllers] == [True, False]


# --- Implied -----------------------------------------------------------------------------------------------------


def test_a_trajectory_server_alone_implies_a_controller_of_the_movable_joints() -> None:
    stage = acting_arm()
    stage.body("/robot/finger")
    stage.joint(
        "/robot/follower", "/robot/base", "/robot/finger", solver_attributes={"newton:mimicJoint": BOTH[1:]}
    )
    stage.body("/robot/ball")
    stage.joint("/robot/socket", "/robot/base", "/robot/ball", "Spherical")
    plan = stage.plan()
    (controller,) = plan.controllers
    assert (controller.path, controller.schema) == ("/robot/follow", "RosControlJointTrajectoryAPI")
    assert (controller.implied, controller.enabled, controller.joints) == (True, True, ("pan", "lift"))
    assert found(plan, "4.2.3.implied")[0].severity == "warning"


def test_where_some_joints_have_drives_those_without_are_passive() -> None:
    stage = acting_arm()
    stage.body("/robot/wheel")
    drive = DriveRecord(path="/robot/motor", axis="angular")
    stage.joint("/robot/motor", "/robot/base", "/robot/wheel", drives=(drive,))
    assert stage.plan().controllers[0].joints == ("motor",)


def test_interfaces_imply_broadcasters_and_twist_controllers() -> None:
    stage = rover()
    stage.topic("/robot/states", "sensor_msgs/msg/JointState")
    stage.topic("/robot/commands", "sensor_msgs/msg/JointState", role="subscription")
    plan = stage.plan()
    implied = {c.path: c for c in plan.controllers}
    assert set(implied) == {"/robot/cmd_vel", "/robot/states"}
    assert implied["/robot/cmd_vel"].schema == "RosControlRigidBodyTwistAPI"
    assert implied["/robot/cmd_vel"].parameters == {"body": "/robot/base"}
    assert implied["/robot/states"].joints == ("left_wheel", "right_wheel")
    assert plan.diagnostics == ()


def test_a_referenced_interface_implies_nothing() -> None:
    stage = rover()
    stage.controller(diff_drive(left_wheels=None))
    plan = stage.plan()
    assert [c.path for c in plan.controllers] == ["/robot/drive"]
