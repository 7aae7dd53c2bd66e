"""Parameters that change a running bridge: variants, plan options, and interfaces.

Parameters that one request sets together change the bridge together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any, Final, TypeVar

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterUninitializedException
from rclpy.parameter import Parameter

from usd_ros_bridge.errors import BridgeError, OptionError, escaped, quoted
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.plan import STARTS_DISABLED, SWITCHED_OFF, BridgePlan, InterfacePlan, TopicPlan
from usd_ros_bridge.model.stage import RobotRoot
from usd_ros_bridge.options import OPTIONS, PlanOptions, RemoteControl, rows
from usd_ros_bridge.planning.robot_selection import select_robots
from usd_ros_bridge.ranges import RATE as RATES
from usd_ros_bridge.ranges import shown
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.change.coordinator import ChangeCoordinator
from usd_ros_bridge.ros.compat import parameter_overrides
from usd_ros_bridge.ros.parameters import ENABLED, RATE, NodeParameters, as_double, descriptor, remote_refusal
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange

VARIANTS: Final = "variants"
TF_RATE: Final = "tf_rate"
FREQUENCY: Final = "publish_frequency"
SELECTORS: Final = ("contexts", "shard")
LIVE_OPTIONS: Final = tuple(option.name for option in rows(PlanOptions) if option.live)
"""Parameters that are fields of PlanOptions and may change while the bridge runs."""

MAX_DECLARED: Final = 1000
"""How many parameters of interfaces are declared at once, at 40 us each; of more, each when it is first set."""

_NAMES_SHOWN: Final = 3
_LONGEST_PREFIX: Final = 128

_SWITCHABLE: Final = (STARTS_DISABLED, SWITCHED_OFF)
ABOUT_RATE: Final = str(RATES)

Value = bool | float
V = TypeVar("V", bool, float)


class InterfaceParameters:
    """Values of the interface parameters of the live plan."""

    def __init__(self) -> None:
        """Start without a plan."""
        self._live = PlanOptions()
        self._interfaces: dict[str, list[InterfacePlan]] = {}
        self._controlled: dict[str, list[InterfacePlan]] = {}
        self._implied: frozenset[str] = frozenset()
        self._publishers: dict[str, TopicPlan] = {}
        self._authored: dict[str, float] = {}

    def set_plan(self, plan: BridgePlan, controlled: Collection[str]) -> None:
        """Use the plan that is live now.

        Args:
            plan: The plan.
            controlled: Prim paths of controllers, which have a parameter `enabled.<path>` of their own.
        """
        self._live = plan.options
        self._interfaces, self._controlled, self._publishers = {}, {}, {}
        self._implied = frozenset(ENABLED + each.path for each in plan.controllers if each.implied)
        for each in (*plan.topics, *plan.services, *plan.actions):
            if each.path not in controlled:
                self._interfaces.setdefault(ENABLED + each.path, []).append(each)
            elif not each.enabled and each.reason in _SWITCHABLE:
                self._controlled.setdefault(ENABLED + each.path, []).append(each)
            if isinstance(each, TopicPlan) and each.role == "publisher":
                self._publishers[RATE + each.path] = each
                if each.path not in plan.options.rates:
                    self._authored[each.path] = each.publish_rate or 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all interface parameters."""
        return (*self._interfaces, *self._publishers)

    def __contains__(self, name: str) -> bool:
        return name in self._interfaces or name in self._publishers

    @property
    def controlled(self) -> Set[str]:
        """Names of controllers' parameters whose prims have disabled interfaces.

        An active controller needs these interfaces: `change` accepts these names, too.
        """
        return self._controlled.keys()

    def is_implied(self, name: str) -> bool:
        """Return whether a name of `controlled` belongs to a controller that only stands for an interface."""
        return name in self._implied

    def value(self, name: str, options: PlanOptions) -> Value:
        """Return the value of a parameter, with requests that are not live yet.

        Args:
            name: One of the names.
            options: Plan options with those requests.
        """
        if name in self._publishers:
            topic = self._publishers[name]
            if topic.path in options.rates:
                return float(options.rates[topic.path])
            return float(self._authored.get(topic.path, 0.0))
        interfaces = self._at(name)
        path = interfaces[0].path
        asked = options.enabled.get(path)
        if asked == self._live.enabled.get(path):
            return any(each.enabled for each in interfaces)
        return all(each.starts_enabled for each in interfaces) if asked is None else asked

    def refusal(self, values: Mapping[str, Value]) -> str:
        """Return why values are not possible, "" if they are, as far as that is known without a plan."""
        switches_off = any(name in self._interfaces and value is False for name, value in values.items())
        for name, value in values.items():
            if name in self._publishers and value not in RATES:
                return f"{name}: {shown(value)} is not possible: {ABOUT_RATE}"
            # An interface that another one keeps off may be possible without that one.
            if name in self._interfaces and value is True and not switches_off:
                for each in self._interfaces[name]:
                    if not each.enabled and each.reason not in ("", *_SWITCHABLE):
                        return f"{name}: not possible: {each.reason}"
        return ""

    def change(
        self, values: Mapping[str, Value], options: PlanOptions
    ) -> Callable[[PlanOptions], PlanOptions] | None:
        """Return a function that changes plan options to the values; None if they hold already.

        Args:
            values: By name.
            options: Plan options with earlier requests.
        """
        other = {name: value for name, value in values.items() if self._differs(name, value, options)}
        if not other:
            return None
        enabled: dict[str, bool | None] = {}
        rates: dict[str, float | None] = {}
        for name, value in other.items():
            if name in self._publishers:
                path = self._publishers[name].path
                rates[path] = None if value == self._authored.get(path) else value
            else:
                interfaces = self._at(name)
                as_authored = all(each.starts_enabled is value for each in interfaces)
                enabled[interfaces[0].path] = None if as_authored else bool(value)

        def changed(before: PlanOptions) -> PlanOptions:
            return replace(
                before, enabled=_merged(before.enabled, enabled), rates=_merged(before.rates, rates)
            )

        return changed

    def _differs(self, name: str, value: Value, options: PlanOptions) -> bool:
        if self.value(name, options) != value:
            return True
        # An enable request that cannot succeed can be dropped.
        path = "" if name in self._publishers else self._at(name)[0].path
        return options.enabled.get(path, value) != value

    def _at(self, name: str) -> list[InterfacePlan]:
        return self._interfaces.get(name) or self._controlled[name]


def _merged(before: Mapping[str, V], changed: Mapping[str, V | None]) -> dict[str, V]:
    """Merge overrides; None ends one."""
    merged = {**before, **changed}
    return {path: value for path, value in merged.items() if value is not None}


class LiveParameters:
    """Keep a node's parameters and a running bridge equal.

    A request is refused, with the reason, if it is known at once that it is not possible. If it is refused later, once
    it is planned, the parameters are set back, and a report says why.
    """

    def __init__(
        self,
        node: Any,
        changes: ChangeCoordinator,
        *,
        owned: bool,
        controlled: Callable[[], Collection[str]],
        tf_rate: float | None,
        set_tf_rate: Callable[[float], None],
        defer: Callable[[Callable[[], None]], None],
        remote_control: RemoteControl,
        report: Report,
    ) -> None:
        """Store the arguments; `open` declares.

        Args:
            node: The node.
            changes: Changes the bridge.
            owned: Whether the node is the bridge's own. A host's node gets parameters of interfaces only.
            controlled: Return the prim paths whose parameter `enabled.<path>` belongs to controllers.
            tf_rate: Rate of moving transforms, Hz; None for every step, which no parameter shows.
            set_tf_rate: Set that rate, from any thread.
            defer: Run a job in the thread of the node's callbacks.
            remote_control: What other nodes may do.
            report: For changes that are refused later.
        """
        self._node = node
        self._parameters = NodeParameters(node)
        self._changes = changes
        self._is_owned = owned
        self._controlled = controlled
        self._tf_rate = tf_rate
        self._set_tf_rate = set_tf_rate
        self._defer = defer
        self._remote_control: RemoteControl = remote_control
        self._report = report
        self._started: set[str] = set()
        self._interfaces = InterfaceParameters()
        self._is_open = False

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self) -> LiveParameters:
        """Declare the parameters, and request what initial values say of interfaces. Return itself.

        Raises:
            OptionError: A value is not possible.
        """
        if self._is_owned:
            for name, value in self._held_options():
                if not self._node.has_parameter(name):
                    # What the caller's plan was made with counts, not what a parameter file might say.
                    self._node.declare_parameter(name, value, descriptor(OPTIONS[name]), True)
                    self._parameters.declared.add(name)
        given = self._declare_interfaces()
        if refusal := self._interfaces.refusal(given):
            raise OptionError(refusal)
        self._node.add_pre_set_parameters_callback(self._make_known)
        self._node.add_on_set_parameters_callback(self._check)
        self._node.add_post_set_parameters_callback(self._apply)
        self._is_open = True
        self._changes.on_change(self._changed)
        self._ask(given)
        self.show()
        return self

    def close(self) -> None:
        """Undeclare the parameters. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._node.remove_pre_set_parameters_callback(self._make_known)
            self._node.remove_on_set_parameters_callback(self._check)
            self._node.remove_post_set_parameters_callback(self._apply)
        self._parameters.undeclare(self._parameters.declared)

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Prepare for other interfaces, as `PlanComponent.prepare`; before the controllers declare theirs."""
        del plan, binding
        return PreparedChange(cleanup=self._undeclare_unused)

    def _undeclare_unused(self) -> None:
        """Undeclare parameters of interfaces that are gone, or that are parameters of controllers now."""
        self._interfaces.set_plan(self._changes.plan, frozenset(self._controlled()))
        declared = self._parameters.declared
        self._parameters.undeclare(
            [each for each in declared if each not in OPTIONS and each not in self._interfaces]
        )

    def show(self) -> None:
        """Set the parameters to the values that hold."""
        if not self._is_open:
            return
        options = self._changes.plan_options
        held = dict(self._held_options())
        shown = [name for name in self._interfaces.names if self._node.has_parameter(name)]
        held |= {name: self._interfaces.value(name, options) for name in shown}
        self._parameters.set(
            {
                name: value
                for name, value in held.items()
                if self._node.has_parameter(name) and not _same(_plain(self._now(name)), value)
            }
        )

    def _now(self, name: str) -> Any:
        try:
            return self._node.get_parameter(name).value
        except ParameterUninitializedException:
            # An array of nothing in a parameter file has no type in ROS 2: it unsets the parameter.
            return None

    # --- What there is -----------------------------------------------------------------------------------------

    def _held_options(self) -> Iterator[tuple[str, Any]]:
        if not self._is_owned:
            return
        options = self._changes.plan_options
        yield VARIANTS, [str(each) for each in self._changes.variants] or [""]
        for name in LIVE_OPTIONS:
            yield name, _plain(getattr(options, name))
        if self._tf_rate is not None and not self._frequency:
            yield TF_RATE, self._tf_rate

    def _declare_interfaces(self) -> dict[str, Any]:
        """Declare parameters of the plan's interfaces. Return those with values from the start."""
        self._undeclare_unused()
        names: Sequence[str] = self._interfaces.names
        if len(names) > MAX_DECLARED:
            overrides = parameter_overrides(self._node)
            names = [name for name in names if name in overrides]
        options = self._changes.plan_options
        given = {}
        for name in names:
            if name not in self._parameters.declared:
                held = self._interfaces.value(name, options)
                value = self._declare(name, held)
                if not _same(value, held):
                    given[name] = value
        return given | self._given_to_controllers()

    def _given_to_controllers(self) -> dict[str, Any]:
        """Return the controllers' parameters that were given as true and need an interface; each of them once."""
        given = {}
        for name in self._interfaces.controlled - self._started:
            override = parameter_overrides(self._node).get(name)
            if override is not None and override.value is True:
                given[name] = True
        self._started |= given.keys()
        return given

    def _declare(self, name: str, default: Any) -> Any:
        """Declare a parameter of an interface. Return its value, which may be an initial one."""
        is_switch = name.startswith(ENABLED)
        about = ParameterDescriptor(
            description="Whether the interfaces of this prim are there." if is_switch else "Hz.",
            additional_constraints="" if is_switch else ABOUT_RATE,
        )
        with self._parameters.silence():
            return self._parameters.declare(name, default, about)

    def _changed(self, _report: ChangeReport) -> None:
        """Adapt to the plan that is live now; in the node's executor."""
        if not self._is_open:
            return
        try:
            self._ask(self._declare_interfaces())
        except OptionError as error:
            self._report(f"parameter.start:{error}", str(error))
        self.show()

    # --- Being set ---------------------------------------------------------------------------------------------

    def _make_known(self, parameters: list[Any]) -> list[Any]:
        """Declare what is set for the first time, where there are too many to declare at once.

        Integers for numbers become doubles. rclpy hands on what every callback of this kind returns: one does both.
        """
        options = self._changes.plan_options
        for parameter in parameters:
            name = parameter.name
            if name in self._interfaces and not self._node.has_parameter(name):
                self._declare(name, self._interfaces.value(name, options))
        if all(each.type_ != Parameter.Type.INTEGER for each in parameters):
            return parameters
        controllers = frozenset(self._controlled())
        return [
            as_double(self._node, each)
            if self._is_owned or each.name in self._interfaces or each.name.rpartition(".")[0] in controllers
            else each
            for each in parameters
        ]

    def _check(self, parameters: Sequence[Any]) -> Any:
        if self._parameters.silent:
            return SetParametersResult(successful=True)
        values = self._mine(parameters)
        reason = next((f"{name} cannot be unset" for name, value in values.items() if value is None), "")
        reason = remote_refusal(self._remote_control, values) or reason or self._refusal(values)
        return SetParametersResult(successful=not reason, reason=escaped(reason))

    def _apply(self, parameters: Sequence[Any]) -> None:
        if not self._parameters.silent:
            self._ask(self._mine(parameters))

    def _mine(self, parameters: Sequence[Any]) -> dict[str, Any]:
        options = (VARIANTS, TF_RATE, FREQUENCY, *LIVE_OPTIONS) if self._is_owned else ()
        return {
            each.name: each.value
            for each in parameters
            if each.name in options
            or each.name in self._interfaces
            or (each.name in self._interfaces.controlled and self._needs_interfaces(each))
        }

    def _needs_interfaces(self, parameter: Any) -> bool:
        """Return whether a controller's parameter asks for interfaces that are off, or takes that back."""
        if parameter.value is True:
            return True
        return parameter.value is False and bool(
            self._interfaces.value(parameter.name, self._changes.plan_options)
        )

    def _refusal(self, values: Mapping[str, Any]) -> str:
        """Return why parameters cannot have these values, "" where they can as far as is known."""
        for name, value in values.items():
            option = OPTIONS.get(name)
            if option is not None and (fault := option.fault(value)):
                return f"{name}: {fault}"
            if name == "frame_prefix" and (fault := _prefix_fault(value)):
                return f"{name}: {fault}"
        if self._tf_rate is None and (TF_RATE in values or FREQUENCY in values):
            return "transforms are sent with every state, and have no rate"
        if self._changes.plan.stage is None and set(values) - {TF_RATE, FREQUENCY}:
            return "the plan has no stage that could be read again"
        if fault := self._selection_fault(values):
            return fault
        if VARIANTS in values:
            try:
                selections = OPTIONS[VARIANTS].value(values[VARIANTS])
            except OptionError as error:
                return str(error)
            if selections != self._changes.variants:
                reason = self._changes.refuse_variants(selections)
                if reason:
                    return reason
        return self._interfaces.refusal(
            {name: value for name, value in values.items() if name in self._interfaces}
        )

    def _selection_fault(self, values: Mapping[str, Any]) -> str:
        """Return why robots cannot be selected like that, "" where they can, or nothing is said of it."""
        given = [name for name in SELECTORS if name in values]
        if not given:
            return ""
        plan = self._changes.plan
        robots = [RobotRoot(*each) for each in zip(plan.contexts, plan.context_namespaces, strict=True)]
        try:
            selectors = {name: OPTIONS[name].value(values[name]) for name in given}
            options = replace(self._changes.plan_options, **selectors)
            select_robots(options, robots)
            self._changes.check_shard(options)
        except OptionError as error:
            return str(error)
        return ""

    def _ask(self, values: Mapping[str, Any]) -> None:
        """Request the changes that values mean."""
        if TF_RATE in values or FREQUENCY in values:
            self._change_tf_rate(values)
        now = self._changes.plan_options
        fields = {
            name: OPTIONS[name].value(values[name])
            for name in LIVE_OPTIONS
            if name in values and OPTIONS[name].value(values[name]) != getattr(now, name)
        }
        controlled = self._interfaces.controlled
        switch = self._interfaces.change(
            {name: value for name, value in values.items() if name in self._interfaces or name in controlled},
            now,
        )
        variants = OPTIONS[VARIANTS].value(values[VARIANTS]) if VARIANTS in values else None
        if variants == self._changes.variants:
            variants = None
        if not fields and switch is None and variants is None:
            return

        def options(before: PlanOptions) -> PlanOptions:
            return replace(before if switch is None else switch(before), **fields)

        why = _why([name for name in values if name not in (TF_RATE, FREQUENCY)])
        asked = self._changes.request(
            why=why, variants=variants, options=options if fields or switch is not None else None
        )
        implied = [
            name for name in controlled if values.get(name) is True and self._interfaces.is_implied(name)
        ]
        asked.add_done_callback(lambda done: self._done(why, done, implied))

    def _change_tf_rate(self, values: Mapping[str, Any]) -> None:
        own = self._now(TF_RATE) if self._node.has_parameter(TF_RATE) else self._tf_rate
        self._tf_rate = float(values.get(TF_RATE, own))
        self._set_tf_rate(float(values.get(FREQUENCY, self._frequency)) or self._tf_rate)

    @property
    def _frequency(self) -> float:
        """The rate of moving transforms by the name that robot_state_publisher has for it, 0 where it is not set."""
        value = self._node.get_parameter(FREQUENCY).value if self._node.has_parameter(FREQUENCY) else 0.0
        return float(value or 0.0)

    def _done(self, why: str, done: Future[ChangeReport], implied: Sequence[str]) -> None:
        refusal = CancelledError() if done.cancelled() else done.exception()
        if refusal is None or not self._is_open:
            return
        # What else may go wrong has been reported by whoever carries changes out.
        if isinstance(refusal, BridgeError):
            self._report(f"parameter.refused:{refusal}", f"{why}: set back: {refusal}")
        self._defer(lambda: self._set_back(implied))

    def _set_back(self, implied: Sequence[str]) -> None:
        """Show what holds after a refused change; switch controllers off whose interfaces did not come."""
        self.show()
        options = self._changes.plan_options
        off = [
            _parameter(name, False)
            for name in implied
            if name in self._interfaces.controlled and not self._interfaces.value(name, options)
        ]
        if self._is_open and off:
            self._node.set_parameters_atomically(off)


# --- Values ----------------------------------------------------------------------------------------------------


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same; a rate that an asset has as NaN is itself."""
    return bool(one == other) or (one != one and other != other)


def _prefix_fault(prefix: str) -> str:
    if prefix.startswith("/"):
        return f"{quoted(prefix)} is not possible: tf2 has no frame ids that begin with '/'"
    if len(prefix) > _LONGEST_PREFIX or not prefix.isprintable() or any(each.isspace() for each in prefix):
        return f"{prefix[:_LONGEST_PREFIX]!r} is not possible: letters, digits, '_' and '/'"
    return ""


def _plain(value: Any) -> Any:
    """Return a value as parameters have it: an empty array has one empty string in ROS 2."""
    if isinstance(value, (list, tuple)):
        return list(value) or [""]
    return value


def _parameter(name: str, value: Any) -> Any:
    make: Any = Parameter
    return make(name, value=value)


def _why(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN]) + (" and others" if len(names) > _NAMES_SHOWN else "")
    return f"the parameter{'s' if len(names) > 1 else ''} {shown}"
