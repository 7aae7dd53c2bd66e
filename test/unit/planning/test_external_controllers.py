"""RosControlExternalAPI: whose interfaces an external controller has, and which joints it commands."""

from __future__ import annotations

from builders.records import Stage, arm, found
from usd_ros_bridge.model import records as r
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan

JOINT_STATE = "sensor_msgs/msg/JointState"
EXTERNAL = "RosControlExternalAPI"
INVENTED = {"/robot/robot_joint_states", "/robot/robot_joint_commands"}


def external(stage: Stage, path: str) -> None:
    stage.controller(r.ExternalControlRecord(path=path))


def externals(plan: BridgePlan) -> list[ControllerPlan]:
    return [each for each in plan.controllers if each.schema == EXTERNAL]


def names(plan: BridgePlan) -> list[str]:
    return [topic.name for topic in plan.topics]


def test_the_prims_own_interfaces_are_the_controllers() -> None:
    stage = arm()
    stage.topic("/robot/states", JOINT_STATE)
    stage.topic("/robot/commands", JOINT_STATE, role="subscription")
    external(stage, "/robot/states")
    external(stage, "/robot/commands")
    plan = stage.plan()
    assert names(plan) == ["/robot/states", "/robot/commands"]
    assert [(each.interfaces, each.joints, each.enabled) for each in externals(plan)] == [
        (("/robot/states",), (), True),
        (("/robot/commands",), ("pan", "lift"), True),
    ]
    assert found(plan, "4.2.3.conflict") == []
    # The publisher is the external controller's: no broadcaster is assumed.
    assert len(plan.controllers) == 2


def test_a_scope_has_the_interfaces_below_it() -> None:
    stage = arm()
    stage.topic("/robot/hardware/in/states", JOINT_STATE)
    stage.topic("/robot/hardware/out/commands", JOINT_STATE, role="subscription")
    external(stage, "/robot/hardware")
    plan = stage.plan()
    assert names(plan) == ["/robot/states", "/robot/commands"]
    (controller,) = plan.controllers
    assert controller.interfaces == ("/robot/hardware/in/states", "/robot/hardware/out/commands")
    assert controller.claims == controller.dofs == (0, 1)


def test_a_scope_without_interfaces_gets_the_default_ones() -> None:
    stage = arm()
    stage.topic("/robot/states", JOINT_STATE)
    external(stage, "/robot/hardware")
    plan = stage.plan()
    assert set(names(plan)) == {"/robot/states", *INVENTED}


def test_interfaces_of_other_types_contexts_and_controllers_are_not_the_controllers() -> None:
    stage = arm()
    stage.context("/robot/hardware/camera", "camera")
    stage.topic("/robot/hardware/camera/states", JOINT_STATE)
    stage.topic("/robot/hardware/text", "std_msgs/msg/String")
    stage.topic("/robot/hardware/broadcast", JOINT_STATE)
    stage.controller(
        r.JointStateBroadcasterRecord(
            path="/robot/broadcaster", publisher=("/robot/hardware/broadcast",), joints=("/robot/pan",)
        )
    )
    external(stage, "/robot/hardware")
    plan = stage.plan()
    (controller,) = externals(plan)
    assert controller.interfaces == ("/robot/hardware",)
    assert set(names(plan)) >= INVENTED


def test_joint_states_alone_command_nothing_and_say_so() -> None:
    stage = arm()
    stage.topic("/robot/hardware/states", JOINT_STATE)
    external(stage, "/robot/hardware")
    plan = stage.plan()
    (controller,) = plan.controllers
    assert (controller.enabled, controller.joints, controller.claims) == (True, (), ())
    (diagnostic,) = found(plan, "4.2.3.external")
    assert (diagnostic.severity, diagnostic.path) == ("info", "/robot/hardware")


def test_own_commands_and_a_trajectory_of_the_same_joint_conflict() -> None:
    stage = arm()
    stage.topic("/robot/commands", JOINT_STATE, role="subscription")
    external(stage, "/robot/commands")
    stage.action("/robot/follow")
    stage.controller(
        r.JointTrajectoryRecord(
            path="/robot/trajectory", server=("/robot/follow",), command_joints=("/robot/pan",)
        )
    )
    plan = stage.plan()
    (diagnostic,) = found(plan, "4.2.3.conflict")
    assert diagnostic.path == "/robot/trajectory"


def test_a_disabled_command_interface_leaves_the_controller_inactive() -> None:
    stage = arm()
    stage.topic("/robot/hardware/states", JOINT_STATE)
    stage.topic("/robot/hardware/commands", JOINT_STATE, role="subscription", name="a b")
    external(stage, "/robot/hardware")
    (controller,) = externals(stage.plan())
    assert (controller.enabled, controller.switchable) == (False, False)
    assert "/robot/hardware/commands is disabled" in controller.reason


def test_a_module_has_external_control_of_its_own_joints() -> None:
    stage = arm()
    stage.context("/robot/hand", "hand")
    stage.body("/robot/hand/tip")
    stage.joint("/robot/hand/joint", "/robot/link_2", "/robot/hand/tip", ros_name="pan")
    stage.topic("/robot/hand/commands", JOINT_STATE, role="subscription")
    external(stage, "/robot/hand/commands")
    (controller,) = externals(stage.plan())
    assert (controller.joints, controller.dofs) == (("pan",), (2,))
