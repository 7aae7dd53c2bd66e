"""Numbers that nobody means are refused with their range: parameters, options and the command line."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import rclpy
from parameter_client import ParameterClient
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from tf2_msgs.msg import TFMessage

from programs import Program
from ros_plans import JOINT_STATES, plan
from usd_ros_bridge.cli.main import main
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.options import OPTIONS, BridgeOptions
from usd_ros_bridge.ranges import NumberRange
from usd_ros_bridge.ros import parameters
from usd_ros_bridge.ros.bridge import Bridge
from usd_ros_bridge.ros.endpoints.handlers import Handlers
from usd_ros_bridge.runtime.sim_time import TimeControl

ROVER = Path(__file__).parents[2] / "examples" / "rover" / "rover.usda"
EXTREMES = (math.nan, math.inf, -math.inf, 5e-324, -5e-324, 1e-300, -1.0, 1e300, 1.7e308)
NUMBERS = [spec for spec in OPTIONS.values() if spec.kind == "double"]


@pytest.fixture(scope="module")
def context() -> Iterator[Context]:
    made = Context()
    rclpy.init(context=made, signal_handler_options=SignalHandlerOptions.NO)
    yield made
    made.try_shutdown()


def test_every_number_among_the_parameters_has_a_range() -> None:
    assert len(NUMBERS) >= 6
    counts = [spec for spec in OPTIONS.values() if spec.kind == "int"]
    assert all(isinstance(spec.range, NumberRange) for spec in (*NUMBERS, *counts))


def test_parameters_at_the_start(context: Context) -> None:
    for spec, value in product(NUMBERS, EXTREMES):
        node = Node(
            "numbers", context=context, start_parameter_services=False,
            parameter_overrides=[Parameter(spec.name, value=value)],
        )  # fmt: skip
        try:
            with pytest.raises(OptionError) as refused:
                parameters.declare(node)
            assert spec.name in str(refused.value)
            assert str(spec.range) in str(refused.value)
        finally:
            node.destroy_node()


def test_options_of_the_library() -> None:
    for name, value in product(("tf_rate", "controller_rate", "diagnostics_rate", "clock_rate"), EXTREMES):
        bridge = Bridge(plan(JOINT_STATES), "kinematic", options=BridgeOptions(**{name: value}))
        with pytest.raises(OptionError, match=f"{name} .* to "):
            bridge.open()
        bridge.close()
    for value in EXTREMES:
        with pytest.raises(OptionError, match=r"0, or 0\.001 to 1000"):
            TimeControl(step_ns=1, real_time_factor=value, wake=lambda: None)


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for value in EXTREMES:
        with pytest.raises(SystemExit) as ended:
            main(["run", str(ROVER), f"--real-time-factor={value!r}"])
        assert ended.value.code == 2
        assert "0, or 0.001 to 1000" in capsys.readouterr().err


def test_services_refuse_them_and_transforms_go_on(program: Callable[..., Program], ros_harness: Any) -> None:
    heard: list[TFMessage] = ros_harness.listen(TFMessage, "/rover/tf", 100)
    node = program([sys.executable, "-m", "usd_ros_bridge.ros.node", "--ros-args", "-p", f"asset:={ROVER}"])
    ros_harness.wait_for(lambda: heard, what="/rover/tf", timeout=60.0)
    client = ParameterClient(ros_harness)
    names = [
        "real_time_factor", "tf_rate", "publish_frequency", "clock_rate", "diagnostics_rate", "controller_rate",
        *(name for name in client.names() if name.startswith("rate.") or name.endswith("_timeout")),
    ]  # fmt: skip
    assert len(names) > 8
    for name in names:
        for value in EXTREMES:
            reason = client.set(name, value)
            assert name in reason, (name, value)
            assert " to " in reason or "Max" in reason, reason
    count = len(heard)
    ros_harness.wait_for(lambda: len(heard) > count + 5, what="more of /rover/tf")
    assert node.is_running
    assert node.interrupt() == 0


def test_time_outs_of_handlers() -> None:
    handlers = Handlers(plan(JOINT_STATES)).registry()
    for value in EXTREMES:
        with pytest.raises(OptionError, match="1e-06 to 1e\\+06 s"):
            handlers.on_service("/nothing", lambda _request, response: response, timeout=value)
