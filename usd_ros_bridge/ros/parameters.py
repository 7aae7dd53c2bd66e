"""Parameters of the bridge's node: how they are declared, and which changes they refuse."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterException

from usd_ros_bridge.errors import OptionError, escaped
from usd_ros_bridge.options import OPTIONS, Option, RemoteControl

_NAMES_SHOWN = 3

SIM_TIME = "use_sim_time"
"""rclpy's parameter. The bridge follows its value at the start."""


def descriptor(option: Option) -> Any:
    """Return the rcl_interfaces ParameterDescriptor of an option."""
    made = ParameterDescriptor(
        description=option.help, read_only=option.read_only, dynamic_typing=option.takes_bool
    )
    if option.choices:
        made.additional_constraints = "one of: " + ", ".join(option.choices)
    if option.range is not None:
        low, high = option.range.limits
        made.additional_constraints = str(option.range)
        if option.kind == "int":
            made.integer_range = [IntegerRange(from_value=int(low), to_value=int(high))]
        else:
            made.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
    return made


def declare(node: Any, defaults: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Declare all parameters on `node`.

    Args:
        node: An rclpy node.
        defaults: Defaults that differ from those of the table, by name.

    Returns:
        The value of each option, by name, as the options of the bridge have it.

    Raises:
        OptionError: A value has the wrong type or form, or is not possible.
    """
    other = defaults or {}
    given = {
        name: _declare(node, option, other.get(name, option.parameter_default))
        for name, option in OPTIONS.items()
    }
    sim_time = node.get_parameter(SIM_TIME).value
    node.add_on_set_parameters_callback(lambda parameters: _refuse_changes(parameters, sim_time=sim_time))
    return {name: OPTIONS[name].value(value) for name, value in given.items()}


def remote_refusal(remote_control: RemoteControl, names: Collection[str]) -> str:
    """Return why parameters with these names cannot be set while the bridge runs, "" where they can."""
    if remote_control == "all" or not names:
        return ""
    return f"remote_control is {remote_control}: {', '.join(sorted(names)[:_NAMES_SHOWN])} cannot be set"


def _declare(node: Any, option: Option, default: object) -> Any:
    try:
        # [] in a parameter file unsets the parameter: its value is None.
        value = node.declare_parameter(option.name, default, descriptor(option)).value
    except ParameterException as error:
        possible = "" if option.range is None else f" (possible: {option.range})"
        raise OptionError(f"parameter {option.name}: {' '.join(str(error).split())}{possible}") from error
    # The descriptor cannot express a gap between 0 and the lowest number.
    if fault := option.fault(value):
        raise OptionError(f"parameter {option.name}: {fault}")
    return value


def _refuse_changes(parameters: Sequence[Any], *, sim_time: bool) -> Any:
    for parameter in parameters:
        name, value = parameter.name, parameter.value
        option = OPTIONS.get(name)
        reason = ""
        if name == SIM_TIME and value != sim_time:
            # Loops, schedules and the choice of a backend depend on it.
            reason = _read_at_start(name)
        elif option is not None and option.range is not None and value is not None and option.fault(value):
            reason = f"{name}: {option.fault(value)}"
        elif option is not None and not option.live:
            reason = _read_at_start(name)
        if reason:
            return SetParametersResult(successful=False, reason=escaped(reason))
    return SetParametersResult(successful=True)


def _read_at_start(name: str) -> str:
    return f"{name} is read when the bridge starts: start it again with another value"
