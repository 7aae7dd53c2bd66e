"""Controllers as parameters: switched over the parameter services, several in one tick, refused with the reason."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rclpy
from action_plans import Client
from control_msgs.action import FollowJointTrajectory
from parameter_client import call
from pxr import Sdf, Usd, UsdGeom, UsdPhysics
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter as NodeParameter
from rclpy.signals import SignalHandlerOptions
from trajectory_msgs.msg import JointTrajectoryPoint

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.options import BridgeOptions, PlanOptions
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.usd import quiet
from usd_ros_bridge.usd.edit.lock import lock_of

ROOT = Path(__file__).parents[2]
ARM, WRIST, STATES = "/robot/arm", "/robot/wrist_only", "/robot/states"
DRIVE = "/rover/Controllers/diff_drive"


def plan_of(asset: str) -> Any:
    with quiet():
        return load_plan(str(ROOT / asset))


@pytest.fixture(scope="module")
def arm_plan() -> Any:
    return plan_of("test/assets/controller_switched_off.usda")


@pytest.fixture(scope="module")
def rover_plan() -> Any:
    return plan_of("examples/rover/rover.usda")


def value_of(value: Any) -> ParameterValue:
    if isinstance(value, bool):
        return ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=value)
    if isinstance(value, str):
        return ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=value)
    return ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)


class Services:
    """The bridge's parameter services, as `ros2 param` uses them."""

    def __init__(self, harness: Any) -> None:
        self._harness = harness

    def call(self, kind: Any, name: str, request: Any) -> Any:
        return call(self._harness, "/usd_ros_bridge", kind, name, request)

    def set(self, values: dict[str, Any]) -> str:
        """Sets one by one; returns the first reason why not."""
        parameters = [Parameter(name=name, value=value_of(value)) for name, value in values.items()]
        results = self.call(
            SetParameters, "set_parameters", SetParameters.Request(parameters=parameters)
        ).results
        return next((result.reason for result in results if not result.successful), "")

    def set_atomically(self, values: dict[str, Any]) -> str:
        parameters = [Parameter(name=name, value=value_of(value)) for name, value in values.items()]
        request = SetParametersAtomically.Request(parameters=parameters)
        result = self.call(SetParametersAtomically, "set_parameters_atomically", request).result
        assert result.successful is (result.reason == "")
        return result.reason

    def get(self, name: str) -> Any:
        (value,) = self.call(GetParameters, "get_parameters", GetParameters.Request(names=[name])).values
        return value.bool_value if value.type == ParameterType.PARAMETER_BOOL else value.double_value


@pytest.fixture
def services(ros_harness: Any) -> Services:
    return Services(ros_harness)


def active(bridge: Bridge) -> dict[str, bool]:
    return {status.path: status.active for status in bridge.controllers()}


def test_every_controller_has_a_parameter(start: Any, services: Services, arm_plan: Any) -> None:
    start(arm_plan)
    listed = services.call(ListParameters, "list_parameters", ListParameters.Request()).result.names
    controllers = {f"enabled.{path}" for path in (ARM, WRIST, STATES)}
    # Interfaces have parameters, too: `rate.`, and `enabled.` where no controller has it.
    own = {name for name in listed if name in controllers or name.startswith("/")}
    assert own == {
        f"enabled.{ARM}",
        f"enabled.{WRIST}",
        f"enabled.{STATES}",
        *(f"{path}.{name}" for path in (ARM, WRIST) for name in ("stopped_velocity_tolerance", "timeout")),
    }
    assert services.get(f"enabled.{ARM}") is True
    assert services.get(f"enabled.{WRIST}") is False
    request = DescribeParameters.Request(names=[f"{ARM}.timeout"])
    (described,) = services.call(DescribeParameters, "describe_parameters", request).descriptors
    assert ARM in described.description
    assert " to " in described.additional_constraints


def test_a_controller_is_switched_off_and_on(
    start: Any, services: Services, ros_harness: Any, arm_plan: Any
) -> None:
    bridge = start(arm_plan).bridge
    for wanted in (False, True, False):
        assert services.set({f"enabled.{ARM}": wanted}) == ""
        ros_harness.wait_for(lambda wanted=wanted: active(bridge)[ARM] is wanted, what=f"active is {wanted}")
        assert services.get(f"enabled.{ARM}") is wanted


def send_goal(harness: Any, bridge: Bridge) -> Any:
    """Sends the arm's trajectory controller a goal; returns its handle."""
    (controller,) = [each for each in bridge.plan.controllers if each.path == ARM]
    (name,) = [each.name for each in bridge.plan.actions if each.path in controller.interfaces]
    joints = controller.joints
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.joint_names = list(joints)
    goal.trajectory.points = [JointTrajectoryPoint(positions=[0.1] * len(joints))]
    # Closed with the harness: a goal in progress has its result when the bridge closes, and somebody to take it.
    return Client(harness, FollowJointTrajectory, name).send(goal).handle


def test_a_goal_after_a_switch_finds_it_done_also_before_the_tick(
    services: Services, ros_harness: Any, arm_plan: Any
) -> None:
    warnings: list[str] = []
    with Bridge(
        arm_plan, options=BridgeOptions(tf_rate=None), report=lambda _kind, message: warnings.append(message)
    ) as bridge:
        bridge.step(1_000_000)
        assert services.set({f"enabled.{ARM}": False}) == ""
        assert active(bridge)[ARM], "no tick has come yet"
        assert not send_goal(ros_harness, bridge).accepted
        assert any("inactive: switched off" in message for message in warnings)
        bridge.step(2_000_000)
        assert services.set({f"enabled.{ARM}": True}) == ""
        assert send_goal(ros_harness, bridge).accepted
        bridge.step(3_000_000)
        assert active(bridge)[ARM]


def test_a_switch_that_is_taken_back_lets_goals_in(
    services: Services, ros_harness: Any, arm_plan: Any
) -> None:
    with Bridge(arm_plan, options=BridgeOptions(tf_rate=None)) as bridge:
        bridge.step(1_000_000)
        assert services.set({f"enabled.{ARM}": False}) == ""
        assert services.set({f"enabled.{ARM}": True}) == ""
        assert send_goal(ros_harness, bridge).accepted
        bridge.step(2_000_000)
        assert send_goal(ros_harness, bridge).accepted


def test_what_would_claim_the_same_is_refused(start: Any, services: Services, arm_plan: Any) -> None:
    bridge = start(arm_plan).bridge
    reason = services.set({f"enabled.{WRIST}": True})
    assert "wrist" in reason
    assert ARM in reason
    assert services.get(f"enabled.{WRIST}") is False
    assert active(bridge) == {ARM: True, WRIST: False, STATES: False}


def test_two_change_places_within_a_tick(services: Services, arm_plan: Any) -> None:
    with Bridge(arm_plan, options=BridgeOptions(tf_rate=None)) as bridge:
        bridge.step(1_000_000)
        before = active(bridge)
        assert before == {ARM: True, WRIST: False, STATES: False}
        reason = services.set_atomically({f"enabled.{WRIST}": True, f"enabled.{ARM}": False})
        assert reason == ""
        # Nothing between two ticks.
        assert active(bridge) == before
        bridge.step(2_000_000)
        assert active(bridge) == {ARM: False, WRIST: True, STATES: False}


def test_requests_before_a_tick_build_on_one_another(services: Services, arm_plan: Any) -> None:
    with Bridge(arm_plan, options=BridgeOptions(tf_rate=None)) as bridge:
        bridge.step(1_000_000)
        assert services.set({f"enabled.{ARM}": False, f"enabled.{WRIST}": True}) == ""
        assert "wrist" in services.set({f"enabled.{ARM}": True})
        bridge.step(2_000_000)
        assert active(bridge) == {ARM: False, WRIST: True, STATES: False}


def test_what_is_refused_of_an_atomic_request_changes_nothing(services: Services, arm_plan: Any) -> None:
    with Bridge(arm_plan, options=BridgeOptions(tf_rate=None)) as bridge:
        bridge.step(1_000_000)
        reason = services.set_atomically({f"enabled.{ARM}": False, f"{ARM}.timeout": -1.0})
        assert "not possible" in reason
        bridge.step(2_000_000)
        assert active(bridge)[ARM]
        assert services.get(f"enabled.{ARM}") is True


def test_numbers_are_checked(start: Any, services: Services, rover_plan: Any) -> None:
    start(rover_plan)
    for value in (-0.5, math.nan, math.inf, True, "soon"):
        assert services.set({f"{DRIVE}.cmd_vel_timeout": value}) != ""
        assert services.get(f"{DRIVE}.cmd_vel_timeout") == 0.5


def test_a_number_reaches_its_controller(
    start: Any, services: Services, ros_harness: Any, rover_plan: Any
) -> None:
    bridge = start(rover_plan).bridge
    assert services.set({f"{DRIVE}.cmd_vel_timeout": 2.0}) == ""
    controllers = bridge.parts.runtime.controllers
    ros_harness.wait_for(lambda: controllers.parameter(DRIVE, "cmd_vel_timeout") == 2.0, what="the value")


def test_what_the_asset_leaves_open_may_stay_so(start: Any, services: Services, arm_plan: Any) -> None:
    start(arm_plan)
    assert math.isnan(services.get(f"{ARM}.timeout"))
    assert services.set({f"{ARM}.timeout": math.nan}) == ""


def test_a_switch_from_python_shows_in_the_parameters(start: Any, services: Services, arm_plan: Any) -> None:
    bridge = start(arm_plan).bridge
    bridge.switch_controllers(activate=[WRIST], deactivate=[ARM]).result()
    assert services.get(f"enabled.{ARM}") is False
    assert services.get(f"enabled.{WRIST}") is True
    assert services.set({f"enabled.{WRIST}": False}) == ""


def test_a_faulty_controller_says_why_it_cannot_be_switched_on(start: Any, services: Services) -> None:
    start(plan_of("test/assets/error_gripper.usda"))
    assert "no joint is known to be the gripper's" in services.set({"enabled./robot/nothing": True})


# --- Interfaces that start disabled and imply a controller --------------------------------------------------------


FOLLOW, POINTS, GRIP, PUSH, SHOWN, AGAIN = (
    f"/robot/{name}" for name in ("follow", "points", "grip", "push", "shown", "again")
)
IMPLYING = {
    FOLLOW: ("action", "server", "control_msgs/action/FollowJointTrajectory"),
    POINTS: ("topic", "subscription", "trajectory_msgs/msg/JointTrajectory"),
    GRIP: ("action", "server", "control_msgs/action/GripperCommand"),
    PUSH: ("topic", "subscription", "geometry_msgs/msg/Twist"),
    SHOWN: ("topic", "publisher", "sensor_msgs/msg/JointState"),
    AGAIN: ("action", "server", "control_msgs/action/FollowJointTrajectory"),
}
each_of_a_kind = pytest.mark.parametrize("path", [FOLLOW, POINTS, GRIP, PUSH, SHOWN])


def disabled_interfaces(*paths: str) -> Any:
    """A floating base with an arm and a finger, below it interfaces whose starts_enabled is false."""
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    robot = stage.DefinePrim("/robot", "Xform")
    stage.SetDefaultPrim(robot)
    robot.AddAppliedSchema("RosContextAPI")
    for link in ("base", "link", "finger"):
        UsdPhysics.RigidBodyAPI.Apply(stage.DefinePrim(f"/robot/{link}", "Xform"))
    for name, parent, child in (("shoulder", "base", "link"), ("grasp", "link", "finger")):
        joint = UsdPhysics.RevoluteJoint.Define(stage, f"/robot/{name}")
        joint.CreateBody0Rel().SetTargets([f"/robot/{parent}"])
        joint.CreateBody1Rel().SetTargets([f"/robot/{child}"])
    for path in paths:
        kind, role, type_name = IMPLYING[path]
        prim = stage.DefinePrim(path, "Scope")
        prim.AddAppliedSchema(f"Ros{kind.title()}API")
        for attribute, value_type, value in (
            ("role", Sdf.ValueTypeNames.Token, role),
            ("name", Sdf.ValueTypeNames.String, prim.GetName()),
            ("type", Sdf.ValueTypeNames.String, type_name),
            ("starts_enabled", Sdf.ValueTypeNames.Bool, False),
        ):
            prim.CreateAttribute(f"ros:{kind}:{attribute}", value_type).Set(value)
        if role == "publisher":
            prim.CreateAttribute("ros:topic:publish_rate", Sdf.ValueTypeNames.Double).Set(50.0)
        if path == GRIP:
            prim.CreateRelationship("usd_ros_bridge:gripper:joints").SetTargets(["/robot/grasp"])
    return stage


@pytest.fixture
def disabled_plan(tmp_path: Path) -> Any:
    """Plan a file with such interfaces, which the bridge may read again."""

    def plan(*paths: str) -> Any:
        stage = disabled_interfaces(*paths)
        stage.GetRootLayer().Export(str(tmp_path / "robot.usda"))
        return plan_of(str(tmp_path / "robot.usda"))

    return plan


def live_interfaces(bridge: Bridge) -> set[str]:
    return {
        row.path for row in bridge.status().interfaces if row.state != "disabled" and row.path in IMPLYING
    }


@each_of_a_kind
def test_a_disabled_interface_is_enabled_with_the_controller_it_implies(
    start: Any, services: Services, ros_harness: Any, disabled_plan: Any, path: str
) -> None:
    bridge = start(disabled_plan(path)).bridge
    assert (live_interfaces(bridge), active(bridge)) == (set(), {path: False})
    assert services.set({f"enabled.{path}": True}) == ""
    ros_harness.wait_for(lambda: live_interfaces(bridge) == {path}, what="the interface")
    ros_harness.wait_for(lambda: active(bridge) == {path: True}, what="the controller")
    ros_harness.wait_for(lambda: services.get(f"enabled.{path}") is True, what="the parameter")
    assert services.set({f"enabled.{path}": False}) == ""
    ros_harness.wait_for(lambda: active(bridge) == {path: False}, what="the controller switched off")
    assert services.set({f"enabled.{path}": True}) == ""
    ros_harness.wait_for(lambda: active(bridge) == {path: True}, what="the controller switched on again")


@each_of_a_kind
def test_a_disabled_interface_is_enabled_at_the_start_with_the_controller_it_implies(
    start: Any, ros_harness: Any, disabled_plan: Any, path: str
) -> None:
    bridge = start(
        disabled_plan(path), parameter_overrides=[NodeParameter(f"enabled.{path}", value=True)]
    ).bridge
    ros_harness.wait_for(lambda: live_interfaces(bridge) == {path}, what="the interface")
    assert active(bridge) == {path: True}


def test_interfaces_switched_off_by_a_plan_option_are_enabled_as_well(
    start: Any, services: Services, ros_harness: Any, disabled_plan: Any
) -> None:
    plan = disabled_plan(PUSH)
    plan.stage.GetPrimAtPath(PUSH).GetAttribute("ros:topic:starts_enabled").Set(True)
    bridge = start(load_plan(plan.stage, plan_options=PlanOptions(enabled={PUSH: False}))).bridge
    assert services.set({f"enabled.{PUSH}": True}) == ""
    ros_harness.wait_for(lambda: live_interfaces(bridge) == {PUSH}, what="the interface")
    ros_harness.wait_for(lambda: active(bridge) == {PUSH: True}, what="the controller")


def test_controllers_of_disabled_interfaces_claim_joints(
    start: Any, services: Services, ros_harness: Any, disabled_plan: Any
) -> None:
    bridge = start(disabled_plan(FOLLOW, AGAIN)).bridge
    assert services.set({f"enabled.{FOLLOW}": True}) == ""
    ros_harness.wait_for(lambda: active(bridge)[FOLLOW], what="the first controller")
    assert "would be commanded by" in services.set({f"enabled.{AGAIN}": True})
    ros_harness.wait_for(lambda: live_interfaces(bridge) == {FOLLOW}, what="the first interface alone")
    assert services.set_atomically({f"enabled.{FOLLOW}": False, f"enabled.{AGAIN}": True}) == ""
    ros_harness.wait_for(lambda: live_interfaces(bridge) == {FOLLOW, AGAIN}, what="the other interface")
    ros_harness.wait_for(lambda: active(bridge) == {FOLLOW: False, AGAIN: True}, what="the other controller")


def test_a_disabled_interface_that_is_taken_back_at_once_stays_off(
    start: Any, services: Services, ros_harness: Any, disabled_plan: Any
) -> None:
    running = start(disabled_plan(FOLLOW))
    bridge = running.bridge
    assert services.set({f"enabled.{FOLLOW}": True}) == ""
    assert services.set({f"enabled.{FOLLOW}": False}) == ""
    ros_harness.wait_for(lambda: running.infos.containing("enabled."), what="the change")
    ros_harness.wait_for(lambda: not active(bridge)[FOLLOW], what="no active controller")
    assert services.get(f"enabled.{FOLLOW}") is False


def test_a_refused_change_switches_the_controller_off_again(
    start: Any, services: Services, ros_harness: Any, disabled_plan: Any
) -> None:
    running = start(disabled_plan(FOLLOW), follow_edits=False)
    # The stage is no robot any more, which no edit was followed for: the change below is refused.
    stage = running.bridge.plan.stage
    # The thread that describes the robot may be reading the stage.
    with lock_of(stage):
        stage.GetPrimAtPath("/robot").SetActive(False)
    assert services.set({f"enabled.{FOLLOW}": True}) == ""
    ros_harness.wait_for(lambda: running.warnings.containing("set back"), what="the report")
    ros_harness.wait_for(lambda: services.get(f"enabled.{FOLLOW}") is False, what="the parameter")
    ros_harness.wait_for(lambda: not active(running.bridge)[FOLLOW], what="no active controller")


def test_a_plan_without_a_stage_says_that_it_cannot_enable(
    start: Any, services: Services, disabled_plan: Any
) -> None:
    start(replace(disabled_plan(FOLLOW), stage=None))
    assert "no stage" in services.set({f"enabled.{FOLLOW}": True})
    assert services.get(f"enabled.{FOLLOW}") is False


# --- Values given at the start -----------------------------------------------------------------------------------


def test_a_parameter_file_holds_before_the_first_tick(tmp_path: Path, rover_plan: Any) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(
        f"/**:\n  ros__parameters:\n    enabled:\n      {DRIVE}: false\n    {DRIVE}:\n      cmd_vel_timeout: 1.5\n",
        encoding="utf-8",
    )
    with Bridge(
        rover_plan, options=BridgeOptions(ros_args=["--ros-args", "--params-file", str(file)])
    ) as bridge:
        assert active(bridge)[DRIVE] is False
        assert bridge.parts.runtime.controllers.parameter(DRIVE, "cmd_vel_timeout") == 1.5


def test_parameters_on_the_command_line(rover_plan: Any) -> None:
    ros_args = ["--ros-args", "-p", f"enabled.{DRIVE}:=false", "-p", f"{DRIVE}.cmd_vel_timeout:=0.0"]
    with Bridge(rover_plan, options=BridgeOptions(ros_args=ros_args)) as bridge:
        assert active(bridge)[DRIVE] is False
        assert bridge.parts.runtime.controllers.parameter(DRIVE, "cmd_vel_timeout") == 0.0


def test_two_change_places_at_the_start(arm_plan: Any) -> None:
    ros_args = ["--ros-args", "-p", f"enabled.{ARM}:=false", "-p", f"enabled.{WRIST}:=true"]
    with Bridge(arm_plan, options=BridgeOptions(ros_args=ros_args)) as bridge:
        assert active(bridge) == {ARM: False, WRIST: True, STATES: False}


def test_an_impossible_value_at_the_start_is_the_callers_mistake(arm_plan: Any) -> None:
    for parameter, text in (
        (f"enabled.{WRIST}:=true", "wrist"),
        (f"{ARM}.timeout:=-1.0", "not possible"),
        (f"{ARM}.timeout:=soon", "timeout"),
        (f"enabled.{ARM}:=1", "enabled"),
    ):
        bridge = Bridge(arm_plan, options=BridgeOptions(ros_args=["--ros-args", "-p", parameter]))
        with pytest.raises(OptionError, match=text) as caught:
            bridge.open()
        assert "\n" not in str(caught.value)


# --- A host's node -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("automatic", [False, True])
def test_a_hosts_node_has_them_while_the_bridge_is_open(
    domain_id: int, rover_plan: Any, automatic: bool
) -> None:
    context = Context()
    rclpy.init(context=context, domain_id=domain_id, signal_handler_options=SignalHandlerOptions.NO)
    node = Node(
        "host",
        context=context,
        parameter_overrides=[NodeParameter(f"enabled.{DRIVE}", value=False)],
        automatically_declare_parameters_from_overrides=automatic,
    )
    try:
        for _ in range(2):
            with Bridge(rover_plan, node=node) as bridge:
                assert active(bridge)[DRIVE] is False
                (result,) = node.set_parameters([NodeParameter(f"enabled.{DRIVE}", value=True)])
                assert result.successful
                bridge.step()
                assert active(bridge)[DRIVE] is True
                (result,) = node.set_parameters([NodeParameter(f"enabled.{DRIVE}", value=False)])
            assert node.has_parameter(f"enabled.{DRIVE}") is automatic
            assert not node.has_parameter(f"{DRIVE}.cmd_vel_timeout")
            assert node.set_parameters([NodeParameter("use_sim_time", value=False)])[0].successful
    finally:
        node.destroy_node()
        context.try_shutdown()


def test_a_switch_that_lost_a_race_is_reported_and_taken_back(arm_plan: Any, services: Services) -> None:
    reports: list[str] = []
    with Bridge(
        arm_plan, options=BridgeOptions(tf_rate=None), report=lambda _kind, message: reports.append(message)
    ) as bridge:
        bridge.step(1_000_000)
        assert services.set({f"enabled.{ARM}": False}) == ""
        assert services.set({f"enabled.{WRIST}": True}) == ""
        # Someone else is first: the request below cannot be carried out any more.
        bridge.step(2_000_000)
        bridge.parts.runtime.post(lambda: bridge.parts.runtime.controllers.switch([ARM], [WRIST]))
        assert services.set({f"enabled.{WRIST}": False}) == ""
        assert services.set({f"enabled.{WRIST}": True}) == ""
        bridge.step(3_000_000)
        assert active(bridge)[ARM] is True
        assert active(bridge)[WRIST] is False
        assert services.get(f"enabled.{WRIST}") is False
        assert services.get(f"enabled.{ARM}") is True
        assert any("would be commanded by" in message for message in reports)
    with pytest.raises(BridgeError):
        bridge.controllers()
