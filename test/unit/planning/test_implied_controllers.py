"""Controllers that an interface alone stands for: trajectories, their topics, grippers, twists."""

from __future__ import annotations

import math
from typing import Any

from builders.records import Stage, arm, diff_drive, found, rover
from case_tables import each_case
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan
from usd_ros_bridge.model.records import ExternalControlRecord, JointTrajectoryRecord

TOPIC = "trajectory_msgs/msg/JointTrajectory"
GRIPPER = "control_msgs/action/ParallelGripperCommand"


def controllers(plan: BridgePlan) -> dict[str, ControllerPlan]:
    return {controller.path: controller for controller in plan.controllers}


def with_fingers(stage: Stage, *, mimic: bool = True) -> Stage:
    """Adds two fingers to `arm`; the right one mimics the left."""
    for side in ("left", "right"):
        stage.body(f"/robot/{side}", (0.0, 0.0, 1.1))
        values: dict[str, Any] = (
            {"solver_attributes": {"newton:mimicJoint": ("/robot/left_finger",)}}
            if mimic and side == "right"
            else {}
        )
        stage.joint(f"/robot/{side}_finger", "/robot/link_2", f"/robot/{side}", "Prismatic", **values)
    return stage


def declared(path: str, server: str, *joints: str, **values: Any) -> JointTrajectoryRecord:
    return JointTrajectoryRecord(path=path, server=(server,), command_joints=joints, **values)


def subscription(stage: Stage, path: str, name: str) -> None:
    stage.topic(path, TOPIC, role="subscription", name=name)


# --- JointTrajectory subscriptions -------------------------------------------------------------------------------


def test_a_command_topic_belongs_to_the_action_with_the_same_prefix() -> None:
    stage = arm()
    stage.action("/robot/one", name="one/follow_joint_trajectory")
    stage.action("/robot/two", name="two/follow_joint_trajectory")
    subscription(stage, "/robot/command", "two/joint_trajectory")
    stage.controller(declared("/robot/c1", "/robot/one", "/robot/pan"))
    stage.controller(declared("/robot/c2", "/robot/two", "/robot/lift"))
    plan = stage.plan()
    assert controllers(plan)["/robot/c1"].interfaces == ("/robot/one",)
    assert controllers(plan)["/robot/c2"].interfaces == ("/robot/two", "/robot/command")
    assert plan.diagnostics == ()


def test_a_command_topic_belongs_to_the_only_controller_of_its_robot_whatever_its_name() -> None:
    stage = arm()
    stage.action("/robot/follow")
    subscription(stage, "/robot/command", "somewhere/else")
    stage.controller(declared("/robot/c", "/robot/follow", "/robot/pan"))
    (controller,) = stage.plan().controllers
    assert controller.interfaces == ("/robot/follow", "/robot/command")


def test_a_command_topic_belongs_to_an_implied_controller_just_the_same() -> None:
    stage = arm()
    stage.action("/robot/follow")
    subscription(stage, "/robot/command", "joint_trajectory")
    (controller,) = stage.plan().controllers
    assert (controller.path, controller.interfaces) == ("/robot/follow", ("/robot/follow", "/robot/command"))


def test_a_command_topic_alone_implies_a_controller() -> None:
    stage = arm()
    subscription(stage, "/robot/command", "joint_trajectory")
    plan = stage.plan()
    (controller,) = plan.controllers
    assert (controller.schema, controller.implied) == ("RosControlJointTrajectoryAPI", True)
    assert (controller.interfaces, controller.joints) == (("/robot/command",), ("pan", "lift"))
    assert found(plan, "4.2.3.implied")[0].severity == "warning"


def test_of_several_the_one_of_the_topics_own_context_has_it() -> None:
    stage = arm()
    stage.context("/robot/hand", "hand")
    stage.action("/robot/one", name="one/follow")
    stage.action("/robot/hand/two", name="two/follow")
    subscription(stage, "/robot/hand/command", "joint_trajectory")
    stage.controller(declared("/robot/c1", "/robot/one", "/robot/pan"))
    stage.controller(declared("/robot/hand/c2", "/robot/hand/two", "/robot/lift"))
    plan = stage.plan()
    assert controllers(plan)["/robot/hand/c2"].interfaces == ("/robot/hand/two", "/robot/hand/command")


def test_a_command_topic_that_could_be_anyones_is_disabled() -> None:
    stage = arm()
    stage.action("/robot/one", name="one/follow")
    stage.action("/robot/two", name="two/follow")
    subscription(stage, "/robot/command", "three/joint_trajectory")
    stage.controller(declared("/robot/c1", "/robot/one", "/robot/pan"))
    stage.controller(declared("/robot/c2", "/robot/two", "/robot/lift"))
    plan = stage.plan()
    assert all(controller.interfaces != () and controller.enabled for controller in plan.controllers)
    assert not any("/robot/command" in controller.interfaces for controller in plan.controllers)
    (topic,) = plan.topics
    assert not topic.enabled
    assert found(plan, "4.2.3.trajectory_topic")[0].path == "/robot/command"


def test_a_controller_without_a_working_action_is_no_rival_for_a_topic() -> None:
    stage = arm()
    stage.action("/robot/one", name="one/follow")
    subscription(stage, "/robot/command", "joint_trajectory")
    stage.controller(declared("/robot/c1", "/robot/one", "/robot/pan"))
    stage.controller(declared("/robot/c2", "/robot/nowhere", "/robot/lift"))
    assert controllers(stage.plan())["/robot/c1"].interfaces == ("/robot/one", "/robot/command")


def test_another_robots_controller_has_no_part_in_it() -> None:
    stage = Stage(default_prim="/w")
    for name in ("one", "two"):
        arm(stage, f"/w/{name}")
    stage.action("/w/one/follow")
    subscription(stage, "/w/two/command", "joint_trajectory")
    plan = stage.plan()
    assert [(c.path, c.robot, c.interfaces) for c in plan.controllers] == [
        ("/w/one/follow", 0, ("/w/one/follow",)),
        ("/w/two/command", 1, ("/w/two/command",)),
    ]


# --- Grippers ----------------------------------------------------------------------------------------------------


def test_the_named_joints_are_the_grippers_and_the_arm_leaves_them_out() -> None:
    stage = arm()
    stage.action("/robot/follow")
    stage.action("/robot/grip", GRIPPER, gripper_joints=("/robot/lift",))
    plan = stage.plan()
    gripper = controllers(plan)["/robot/grip"]
    assert (gripper.schema, gripper.joints, gripper.implied, gripper.enabled) == (
        "gripper",
        ("lift",),
        True,
        True,
    )
    assert controllers(plan)["/robot/follow"].joints == ("pan",)
    assert [finding.path for finding in found(plan, "4.2.3.implied")] == ["/robot/follow"]


def test_a_grippers_numbers_have_the_defaults_of_parallel_gripper_controller() -> None:
    """But the goal tolerance: without one, it depends on the stroke."""
    stage = arm()
    stage.action(
        "/robot/grip",
        "control_msgs/action/GripperCommand",
        gripper_joints=("/robot/lift",),
        gripper_stall_timeout=0.25,
        gripper_goal_tolerance=math.nan,
    )
    plan = stage.plan()
    (controller,) = plan.controllers
    assert controller.parameters == {
        "goal_tolerance": None,
        "stall_velocity_threshold": 0.001,
        "stall_timeout": 0.25,
        "allow_stalling": False,
        "max_effort": 0.0,
        "action_monitor_rate": 20.0,
        "beyond_limits": "",
    }
    assert found(plan, "4.2.3.parameter")[0].attribute == "usd_ros_bridge:gripper:goal_tolerance"


def test_a_gripper_takes_the_finger_that_another_follows() -> None:
    stage = with_fingers(arm())
    stage.action("/robot/follow")
    stage.action("/robot/grip", GRIPPER)
    plan = stage.plan()
    assert controllers(plan)["/robot/grip"].joints == ("left_finger",)
    assert controllers(plan)["/robot/follow"].joints == ("pan", "lift")
    assert len(found(plan, "4.2.3.implied")) == 2


def test_a_gripper_takes_what_declared_controllers_leave() -> None:
    stage = with_fingers(arm(), mimic=False)
    stage.action("/robot/follow")
    stage.action("/robot/grip", GRIPPER)
    stage.controller(declared("/robot/c", "/robot/follow", "/robot/pan", "/robot/lift"))
    plan = stage.plan()
    assert controllers(plan)["/robot/grip"].joints == ("left_finger", "right_finger")
    assert all(controller.enabled for controller in plan.controllers)


def test_a_gripper_in_a_nested_context_takes_that_contexts_joints() -> None:
    stage = arm()
    stage.context("/robot/hand", "hand")
    stage.body("/robot/hand/palm", (0.0, 0.0, 1.0))
    stage.body("/robot/hand/finger", (0.0, 0.0, 1.1))
    stage.joint("/robot/hand/mount", "/robot/link_2", "/robot/hand/palm", "Fixed")
    stage.joint("/robot/hand/grasp", "/robot/hand/palm", "/robot/hand/finger", "Prismatic")
    stage.action("/robot/hand/grip", GRIPPER)
    stage.action("/robot/follow")
    plan = stage.plan()
    assert controllers(plan)["/robot/hand/grip"].joints == ("grasp",)
    assert controllers(plan)["/robot/follow"].joints == ("pan", "lift")


def test_a_gripper_without_a_sign_of_its_joints_is_inactive() -> None:
    stage = arm()
    stage.action("/robot/follow")
    stage.action("/robot/grip", GRIPPER)
    plan = stage.plan()
    gripper = controllers(plan)["/robot/grip"]
    assert (gripper.enabled, gripper.switchable, gripper.joints) == (False, False, ())
    (finding,) = found(plan, "4.2.3.target")
    assert (finding.severity, finding.path) == ("error", "/robot/grip")
    assert finding.attribute == "usd_ros_bridge:gripper:joints"
    assert controllers(plan)["/robot/follow"].joints == ("pan", "lift")


@each_case(
    ("joints", "reason"),
    [
        (("/robot/nowhere",), "is no joint"),
        (("/robot/anchor",), "cannot move"),
        (("/robot/right_finger",), "mimic joints only"),
        (("/robot/c.collection:x",), "collection"),
        (("/other/pan",), "another robot"),
    ],
)
def test_joints_that_cannot_be_a_grippers(joints: Any, reason: str) -> None:
    stage = with_fingers(arm())
    arm(stage, "/other")
    stage.action("/robot/grip", GRIPPER, gripper_joints=joints)
    gripper = controllers(stage.plan())["/robot/grip"]
    assert not gripper.switchable
    assert reason in gripper.reason


def test_what_an_external_controller_has_is_not_taken_from_it() -> None:
    stage = arm()
    stage.controller(ExternalControlRecord(path="/robot/x"))
    stage.action("/robot/follow")
    plan = stage.plan()
    follow = controllers(plan)["/robot/follow"]
    assert (follow.enabled, follow.switchable, follow.joints) == (False, True, ("pan", "lift"))
    assert "/robot/x" in follow.reason


# --- Twists ------------------------------------------------------------------------------------------------------


def test_a_second_twist_beside_a_drive_does_not_move_the_base() -> None:
    stage = rover()
    stage.topic("/robot/push", "geometry_msgs/msg/TwistStamped", role="subscription")
    stage.controller(diff_drive())
    plan = stage.plan()
    assert [(c.path, c.enabled, c.switchable) for c in plan.controllers] == [
        ("/robot/drive", True, True),
        ("/robot/push", False, True),
    ]
    assert "/robot/base" in found(plan, "4.2.3.conflict")[0].message


def test_a_twist_does_not_imply_that_a_bolted_arm_moves() -> None:
    stage = arm()
    stage.topic("/robot/cmd_vel", "geometry_msgs/msg/Twist", role="subscription")
    assert stage.plan().controllers == ()


def test_implied_controllers_come_in_traversal_order() -> None:
    stage = rover()
    stage.action("/robot/follow")
    stage.topic("/robot/states", "sensor_msgs/msg/JointState")
    assert [c.path for c in stage.plan().controllers] == ["/robot/cmd_vel", "/robot/follow", "/robot/states"]
