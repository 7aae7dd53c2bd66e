"""Parameters of the bridge's node: declaration, refusals, and those of controllers.

`enabled.<prim path>` switches a controller, `<prim path>.<name>` is a number of it. Parameters that one request sets
change together.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterException
from rclpy.parameter import Parameter

from usd_ros_bridge.errors import BridgeError, OptionError, did_you_mean, escaped, quoted
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import OPTIONS, Option, RemoteControl
from usd_ros_bridge.ranges import NumberRange, shown
from usd_ros_bridge.ros.compat import parameter_overrides, take_integer_as_double
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange
from usd_ros_bridge.runtime.runtime import Runtime

ENABLED: Final = "enabled."
"""Prefix of parameters that switch a controller, or enable an interface."""

RATE: Final = "rate."
"""Prefix of parameters that are the rate of a publisher, Hz."""

_OF_PRIMS = (f"{ENABLED}/", f"{RATE}/", "/")
"""How parameters of single interfaces and controllers begin, which appear and go with the plan."""

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


def declare(
    node: Any, defaults: Mapping[str, object] | None = None, given: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Declare all parameters on `node`.

    Args:
        node: An rclpy node.
        defaults: Defaults that differ from those of the table, by name.
        given: Values of the command line, by name. They have precedence over ROS arguments and parameter files.
            A parameter shows its value if ROS 2 has the same type for it.

    Returns:
        The value of each option, by name, as the options of the bridge have it.

    Raises:
        OptionError: A value has the wrong type or form, or is not possible.
    """
    other = defaults or {}
    fixed = {
        name: value
        for name, value in (given or {}).items()
        if name in OPTIONS
        and type(value) is type(OPTIONS[name].parameter_default)
        and not isinstance(value, list)
    }
    declared = {
        name: _declare(
            node, option, fixed.get(name, other.get(name, option.parameter_default)), is_fixed=name in fixed
        )
        for name, option in OPTIONS.items()
    }
    sim_time = node.get_parameter(SIM_TIME).value
    node.add_on_set_parameters_callback(lambda parameters: _refuse_changes(parameters, sim_time=sim_time))
    return {name: OPTIONS[name].value(value) for name, value in declared.items()}


def possible_values(name: str, ros_args: Sequence[str]) -> frozenset[str] | None:
    """Return the values that ROS arguments give a parameter, of whatever node; None if a file cannot be read.

    For what must be known before there is a node. The node's own value is among them, or its default.

    Args:
        name: Name of the parameter.
        ros_args: Arguments, as rclpy gets them.
    """
    values = set[str]()
    for flag, argument in pairwise(ros_args):
        if flag in ("-p", "--param"):
            target, _, value = argument.partition(":=")
            if target.rpartition(":")[2] == name:
                values.add(value)
        elif flag == "--params-file":
            import yaml  # rclpy needs it, too

            try:
                content = Path(argument).read_text(encoding="utf-8")
                values.update(_values_in(name, yaml.safe_load(content)))
            except (OSError, ValueError, RecursionError, yaml.YAMLError):
                return None
    return frozenset(values)


def _values_in(name: str, content: Any) -> Iterator[str]:
    """Yield the values of a parameter in a parameter file."""
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        if key == "ros__parameters" and isinstance(value, dict) and name in value:
            yield str(value[name])
        else:
            yield from _values_in(name, value)


def remote_refusal(remote_control: RemoteControl, names: Collection[str]) -> str:
    """Return why parameters with these names cannot be set while the bridge runs, "" where they can."""
    if remote_control == "all" or not names:
        return ""
    return f"remote_control is {remote_control}: {', '.join(sorted(names)[:_NAMES_SHOWN])} cannot be set"


def as_double(node: Any, parameter: Any) -> Any:
    """Return a parameter that is about to be set: an integer as a double, where the declared one is a double."""
    name = parameter.name
    if (
        parameter.type_ == Parameter.Type.INTEGER
        and node.has_parameter(name)
        and node.get_parameter_or(name).type_ == Parameter.Type.DOUBLE
    ):
        return Parameter(name, Parameter.Type.DOUBLE, float(parameter.value))
    return parameter


def unknown_parameters(node: Any) -> list[tuple[str, bool]]:
    """Return a line about each value that a node was given at the start for a parameter that it does not have.

    Returns:
        Lines, and whether each is a warning: what is named after a prim may appear with another variant.
    """
    known = node.get_parameters_by_prefix("")
    found = []
    for name in sorted(parameter_overrides(node)):
        if node.has_parameter(name):
            continue
        question = did_you_mean(name, known)
        suggestion = f"; {question}" if question else ""
        of_prim = name.startswith(_OF_PRIMS)
        what = "no interface or controller has it now: it counts once one has" if of_prim else "it is ignored"
        found.append((f"the node has no parameter {quoted(name)}: {what}{suggestion}", not of_prim))
    return found


def _declare(node: Any, option: Option, default: object, *, is_fixed: bool = False) -> Any:
    if isinstance(default, float):
        take_integer_as_double(node, option.name)
    try:
        # [] in a parameter file unsets the parameter: its value is None.
        value = node.declare_parameter(option.name, default, descriptor(option), is_fixed).value
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


class NodeParameters:
    """Parameters of one component on a node.

    Attributes:
        node: The node.
        declared: Names of the parameters that the component declared.
    """

    def __init__(self, node: Any) -> None:
        self.node = node
        self.declared: set[str] = set()
        self._thread = threading.local()

    def declare(self, name: str, default: Any, descriptor: Any) -> Any:
        """Declare a parameter, unless it is there. Return its value: a host's node may have declared it already.

        Raises:
            OptionError: The value has another type than the default, or is refused.
        """
        if self.node.has_parameter(name):
            value = self.node.get_parameter(name).value
        else:
            if isinstance(default, float):
                take_integer_as_double(self.node, name)
            try:
                value = self.node.declare_parameter(name, default, descriptor).value
            except ParameterException as error:
                raise OptionError(f"parameter {name}: {' '.join(str(error).split())}") from error
            self.declared.add(name)
        if type(value) is not type(default):
            raise OptionError(f"parameter {name}: {value!r} is no {type(default).__name__}")
        return value

    def undeclare(self, names: Iterable[str]) -> None:
        """Undeclare parameters that the component declared."""
        for name in tuple(names):
            self.declared.discard(name)
            self.node.undeclare_parameter(name)

    def set(self, values: Mapping[str, Any]) -> None:
        """Set parameters to values that hold already; its own callbacks ignore that."""
        if not values:
            return
        make: Any = Parameter
        with self.silence():
            self.node.set_parameters_atomically([make(name, value=value) for name, value in values.items()])

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Set `silent` in this thread."""
        self._thread.silent = True
        try:
            yield
        finally:
            self._thread.silent = False

    @property
    def silent(self) -> bool:
        """Return whether callbacks in this thread are to ignore what is set."""
        return getattr(self._thread, "silent", False)


class ControllerParameters:
    """Keep a node's parameters and a runtime's controllers equal.

    A request that is not possible is refused, with the reason. All others are applied at the start of the next tick.
    Initial values (a parameter file) hold before the first tick.
    """

    def __init__(self, node: Any, runtime: Runtime) -> None:
        """Store the arguments; `open` declares."""
        self._node = node
        self._parameters = NodeParameters(node)
        self._runtime = runtime
        self._numbers: dict[str, tuple[str, str]] = {}
        self._wanted: dict[str, bool] = {}
        self._is_open = False

    def open(self) -> ControllerParameters:
        """Declare the parameters, and apply initial values at once.

        Raises:
            OptionError: A value is not possible.
        """
        given = self._declare_all()
        refusal = self._refusal(given)
        if refusal:
            raise OptionError(refusal)
        self._carry_out(self._switched(given), self._changed(given))
        self._wanted = {path: given[ENABLED + path] for path in self._wanted}
        self._node.add_on_set_parameters_callback(self._check)
        self._node.add_post_set_parameters_callback(self._apply)
        self._is_open = True
        return self

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Prepare for other controllers, as `PlanComponent.prepare`."""
        del plan, binding
        return PreparedChange(cleanup=self._declare_again)

    def _declare_again(self) -> None:
        """Declare parameters of new controllers and undeclare those of controllers that are gone."""
        if not self._is_open:
            return
        before = set(self._parameters.declared)
        given = self._declare_all()
        self._parameters.undeclare(before - given.keys())
        switched, changed = self._switched(given), self._changed(given)
        self._wanted |= switched
        came = {path for path in switched if ENABLED + path not in before}
        new = {full: value for full, value in changed.items() if full not in before}
        if (came or new) and not self._refusal(given):
            # A parameter file had a value for what was not there yet.
            asked = {path: switched[path] for path in came}
            self._post(asked, new)
        self.show(but=came)
        self._show_numbers(before & self._numbers.keys())

    def close(self) -> None:
        """Undeclare the parameters. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._node.remove_on_set_parameters_callback(self._check)
            self._node.remove_post_set_parameters_callback(self._apply)
        self._parameters.undeclare(self._parameters.declared)

    def show(self, *, but: Collection[str] = ()) -> None:
        """Set the parameters to which controllers are active, after a switch by other means.

        Args:
            but: Prim paths of controllers whose parameters are left alone.
        """
        active = {path: self._runtime.controllers.active(path) for path in self._wanted if path not in but}
        other = {path: now for path, now in active.items() if now != self._wanted[path]}
        if not self._is_open:
            return
        self._wanted |= other
        self._parameters.set({ENABLED + path: now for path, now in other.items()})

    # --- Own ---------------------------------------------------------------------------------------------------

    def _show_numbers(self, names: Collection[str]) -> None:
        """Show the numbers of controllers: a value that was set stays, the others are the asset's."""
        now = {full: self._runtime.controllers.parameter(*self._numbers[full]) for full in names}
        shown = {full: self._node.get_parameter(full).value for full in names}
        self._parameters.set(
            {
                full: value
                for full, value in now.items()
                if value != shown[full] and not (math.isnan(value) and math.isnan(shown[full]))
            }
        )

    def _declare_all(self) -> dict[str, Any]:
        """Declare what is not declared yet. Return the values of all parameters of the live controllers."""
        controllers = self._runtime.controllers
        names = controllers.parameter_names()
        self._wanted = {path: controllers.active(path) for path in names}
        numbers = [(path, name) for path in names for name in sorted(names[path])]
        self._numbers = {f"{path}.{name}": (path, name) for path, name in numbers}
        given: dict[str, Any] = {}
        for path, active in self._wanted.items():
            about = "Whether the controllers of this prim are active."
            given[ENABLED + path] = self._parameters.declare(
                ENABLED + path, active, ParameterDescriptor(description=about)
            )
        for full, (path, name) in self._numbers.items():
            possible = controllers.parameter_range(path, name)
            about = ParameterDescriptor(
                description=f"{name} of {path}.", additional_constraints=str(possible)
            )
            given[full] = self._parameters.declare(full, controllers.parameter(path, name), about)
        return given

    def _check(self, parameters: Sequence[Any]) -> Any:
        if self._parameters.silent:
            return SetParametersResult(successful=True)
        values = {parameter.name: parameter.value for parameter in parameters}
        ours = [
            name for name in values if name in self._numbers or name.removeprefix(ENABLED) in self._wanted
        ]
        reason = remote_refusal(self._runtime.options.remote_control, ours) or self._refusal(values)
        return SetParametersResult(successful=not reason, reason=escaped(reason))

    def _apply(self, parameters: Sequence[Any]) -> None:
        if self._parameters.silent:
            return
        values = {parameter.name: parameter.value for parameter in parameters}
        switched, changed = self._switched(values), self._changed(values)
        self._wanted |= switched
        if switched or changed:
            self._post(switched, changed)

    def _post(self, switched: Mapping[str, bool], changed: Mapping[str, float]) -> None:
        on = [path for path, wanted in switched.items() if wanted]
        off = [path for path, wanted in switched.items() if not wanted]
        self._runtime.controllers.announce(
            on, off, lambda: self._runtime.post(lambda: self._in_tick(switched, changed))
        )

    def _in_tick(self, switched: Mapping[str, bool], changed: Mapping[str, float]) -> None:
        try:
            self._carry_out(switched, changed)
        except BridgeError:
            on = [path for path, wanted in switched.items() if wanted]
            self._runtime.controllers.withdraw(on, switched.keys() - on)
            # Something else was switched since the request was checked; the report says what.
            self.show()
            raise

    def _carry_out(self, switched: Mapping[str, bool], changed: Mapping[str, float]) -> None:
        controllers = self._runtime.controllers
        for full, value in changed.items():
            controllers.set_parameter(*self._numbers[full], value)
        if switched:
            on = [path for path, wanted in switched.items() if wanted]
            controllers.switch(on, [path for path, wanted in switched.items() if not wanted])

    def _refusal(self, values: Mapping[str, Any]) -> str:
        """Return why parameters cannot have these values, "" where they can, or are none of these."""
        for full, value in values.items():
            if full in self._numbers and value is None:
                return f"{full} cannot be unset"
            if full in self._numbers and not self._is_possible(full, value):
                return f"{full}: {shown(value)} is not possible: {self._range(full)}"
            if full.removeprefix(ENABLED) in self._wanted and full.startswith(ENABLED) and value is None:
                return f"{full} cannot be unset"
        switched = self._switched(values)
        if not switched:
            return ""
        # With all that was asked for before, also what no tick has carried out yet.
        wanted = {**self._wanted, **switched}
        on = [path for path, is_on in switched.items() if is_on]
        on += [path for path, is_on in self._wanted.items() if is_on and path not in switched]
        off = [path for path, is_on in wanted.items() if not is_on]
        return self._runtime.controllers.refusal(on, off)

    def _is_possible(self, full: str, value: float) -> bool:
        if math.isnan(value):
            # What the asset leaves to the controller may stay so.
            return math.isnan(self._runtime.controllers.parameter(*self._numbers[full]))
        return value in self._range(full)

    def _range(self, full: str) -> NumberRange:
        return self._runtime.controllers.parameter_range(*self._numbers[full])

    def _switched(self, values: Mapping[str, Any]) -> dict[str, bool]:
        return {
            path: values[ENABLED + path]
            for path, wanted in self._wanted.items()
            if values.get(ENABLED + path, wanted) is not wanted
        }

    def _changed(self, values: Mapping[str, Any]) -> dict[str, float]:
        parameter = self._runtime.controllers.parameter
        return {
            full: value
            for full, value in values.items()
            if full in self._numbers and not math.isnan(value) and value != parameter(*self._numbers[full])
        }
