"""Parameters of a plan's interfaces: names, values, and the plan options that they stand for.

`enabled.<prim path>` enables the interfaces of a prim; `rate.<prim path>` is the rate of a publisher, Hz.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from typing import Final, TypeVar

from usd_ros_bridge.model.plan import BridgePlan, InterfacePlan, TopicPlan
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning.interfaces import STARTS_DISABLED, SWITCHED_OFF
from usd_ros_bridge.ranges import RATE as RATES
from usd_ros_bridge.ranges import shown

ENABLED: Final = "enabled."
RATE: Final = "rate."
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
