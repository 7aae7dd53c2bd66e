"""Controllers as parameters: switched over the parameter services, several in one tick, refused with the reason."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import rclpy
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

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.model.errors import BridgeError, OptionError
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.usd import quiet

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
        client = self._harness.node.create_client(kind, f"/usd_ros_bridge/{name}")
        try:
            self._harness.wait_for(client.service_is_ready, what=name)
            future = client.call_async(request)
            self._harness.wait_for(future.done, what=name)
            return future.result()
        finally:
            self._harness.node.destroy_client(client)

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
    assert "finite" in described.additional_constraints


def test_a_controller_is_switched_off_and_on(
    start: Any, services: Services, ros_harness: Any, arm_plan: Any
) -> None:
    bridge = start(arm_plan).bridge
    for wanted in (False, True, False):
        assert services.set({f"enabled.{ARM}": wanted}) == ""
        ros_harness.wait_for(lambda wanted=wanted: active(bridge)[ARM] is wanted, what=f"active is {wanted}")
        assert services.get(f"enabled.{ARM}") is wanted


def test_what_would_claim_the_same_is_refused(start: Any, services: Services, arm_plan: Any) -> None:
    bridge = start(arm_plan).bridge
    reason = services.set({f"enabled.{WRIST}": True})
    assert "wrist" in reason
    assert ARM in reason
    assert services.get(f"enabled.{WRIST}") is False
    assert active(bridge) == {ARM: True, WRIST: False, STATES: False}


def test_two_change_places_within_a_tick(services: Services, arm_plan: Any) -> None:
    with Bridge(arm_plan, tf_rate=None) as bridge:
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
    with Bridge(arm_plan, tf_rate=None) as bridge:
        bridge.step(1_000_000)
        assert services.set({f"enabled.{ARM}": False, f"enabled.{WRIST}": True}) == ""
        assert "wrist" in services.set({f"enabled.{ARM}": True})
        bridge.step(2_000_000)
        assert active(bridge) == {ARM: False, WRIST: True, STATES: False}


def test_what_is_refused_of_an_atomic_request_changes_nothing(services: Services, arm_plan: Any) -> None:
    with Bridge(arm_plan, tf_rate=None) as bridge:
        bridge.step(1_000_000)
        reason = services.set_atomically({f"enabled.{ARM}": False, f"{ARM}.timeout": -1.0})
        assert "not possible" in reason
        bridge.step(2_000_000)
        assert active(bridge)[ARM]
        assert services.get(f"enabled.{ARM}") is True


@pytest.mark.parametrize("value", [-0.5, math.nan, math.inf, True, "soon"])
def test_numbers_are_checked(start: Any, services: Services, rover_plan: Any, value: Any) -> None:
    start(rover_plan)
    assert services.set({f"{DRIVE}.cmd_vel_timeout": value}) != ""
    assert services.get(f"{DRIVE}.cmd_vel_timeout") == 0.5


def test_a_number_reaches_its_controller(
    start: Any, services: Services, ros_harness: Any, rover_plan: Any
) -> None:
    bridge = start(rover_plan).bridge
    assert services.set({f"{DRIVE}.cmd_vel_timeout": 2.0}) == ""
    controllers = bridge.runtime.controllers
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


# --- Values given at the start -----------------------------------------------------------------------------------


def test_a_parameter_file_holds_before_the_first_tick(tmp_path: Path, rover_plan: Any) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text(
        f"/**:\n  ros__parameters:\n    enabled:\n      {DRIVE}: false\n    {DRIVE}:\n      cmd_vel_timeout: 1.5\n"
    )
    with Bridge(rover_plan, ros_args=["--ros-args", "--params-file", str(file)]) as bridge:
        assert active(bridge)[DRIVE] is False
        assert bridge.runtime.controllers.parameter(DRIVE, "cmd_vel_timeout") == 1.5


def test_parameters_on_the_command_line(rover_plan: Any) -> None:
    ros_args = ["--ros-args", "-p", f"enabled.{DRIVE}:=false", "-p", f"{DRIVE}.cmd_vel_timeout:=0.0"]
    with Bridge(rover_plan, ros_args=ros_args) as bridge:
        assert active(bridge)[DRIVE] is False
        assert bridge.runtime.controllers.parameter(DRIVE, "cmd_vel_timeout") == 0.0


def test_two_change_places_at_the_start(arm_plan: Any) -> None:
    ros_args = ["--ros-args", "-p", f"enabled.{ARM}:=false", "-p", f"enabled.{WRIST}:=true"]
    with Bridge(arm_plan, ros_args=ros_args) as bridge:
        assert active(bridge) == {ARM: False, WRIST: True, STATES: False}


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        (f"enabled.{WRIST}:=true", "wrist"),
        (f"{ARM}.timeout:=-1.0", "not possible"),
        (f"{ARM}.timeout:=soon", "timeout"),
        (f"enabled.{ARM}:=1", "enabled"),
    ],
)
def test_an_impossible_value_at_the_start_is_the_callers_mistake(
    arm_plan: Any, parameter: str, text: str
) -> None:
    bridge = Bridge(arm_plan, ros_args=["--ros-args", "-p", parameter])
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
    with Bridge(arm_plan, tf_rate=None, report=lambda _kind, message: reports.append(message)) as bridge:
        bridge.step(1_000_000)
        assert services.set({f"enabled.{ARM}": False}) == ""
        assert services.set({f"enabled.{WRIST}": True}) == ""
        # Someone else is first: the request below cannot be carried out any more.
        bridge.step(2_000_000)
        bridge.runtime.post(lambda: bridge.runtime.controllers.switch([ARM], [WRIST]))
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
