"""Switches: what parameters of a plan's interfaces are called, what they say, and the options that they make.

`enabled.<prim path>` is whether the interfaces of a prim are there, `rate.<prim path>` how often a publisher sends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from typing import Final, TypeVar

from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.plan import BridgePlan, InterfacePlan, TopicPlan
from usd_ros_bridge.model.ranges import RATE as RATES
from usd_ros_bridge.model.ranges import shown
from usd_ros_bridge.planning.interfaces import STARTS_DISABLED, SWITCHED_OFF

ENABLED: Final = "enabled."
RATE: Final = "rate."
_SWITCHABLE: Final = (STARTS_DISABLED, SWITCHED_OFF)
ABOUT_RATE: Final = str(RATES)

Value = bool | float
V = TypeVar("V", bool, float)


class Switches:
    """The values of the interfaces of one plan after another."""

    def __init__(self) -> None:
        """Knows no plan yet."""
        self._live = PlanOptions()
        self._interfaces: dict[str, list[InterfacePlan]] = {}
        self._controlled: dict[str, list[InterfacePlan]] = {}
        self._implied: frozenset[str] = frozenset()
        self._publishers: dict[str, TopicPlan] = {}
        self._authored: dict[str, float] = {}

    def follow(self, plan: BridgePlan, controlled: Collection[str]) -> None:
        """Goes on with a plan that is live.

        Args:
            plan: The plan.
            controlled: Prim paths that have another parameter of the name `enabled.<path>`.
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
        """Names of all that there are."""
        return (*self._interfaces, *self._publishers)

    def __contains__(self, name: str) -> bool:
        return name in self._interfaces or name in self._publishers

    @property
    def controlled(self) -> Set[str]:
        """Names of controllers' parameters whose prims have interfaces that are switched off.

        A controller that is to be active needs them: `change` knows these names, too.
        """
        return self._controlled.keys()

    def is_implied(self, name: str) -> bool:
        """Return whether a name of `controlled` belongs to a controller that only stands for an interface."""
        return name in self._implied

    def held(self, name: str, options: PlanOptions) -> Value:
        """Returns what holds, or was asked for and is not live yet.

        Args:
            name: One of the names.
            options: With what was asked for.
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
        """Returns why interfaces cannot be as wanted, "" where they can, as far as that is known without a plan."""
        switches_off = any(name in self._interfaces and value is False for name, value in values.items())
        for name, value in values.items():
            if name in self._publishers and value not in RATES:
                return f"{name}: {shown(value)} is not possible: {ABOUT_RATE}"
            # What is off because of another one may be possible without that.
            if name in self._interfaces and value is True and not switches_off:
                for each in self._interfaces[name]:
                    if not each.enabled and each.reason not in ("", *_SWITCHABLE):
                        return f"{name}: not possible: {each.reason}"
        return ""

    def change(
        self, values: Mapping[str, Value], options: PlanOptions
    ) -> Callable[[PlanOptions], PlanOptions] | None:
        """Returns what makes the options that interfaces as wanted need; None where they are so already.

        Args:
            values: As wanted, by name.
            options: With what was asked for before.
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
        if self.held(name, options) != value:
            return True
        # One that is wanted, and off for another reason, may be wanted no more.
        path = "" if name in self._publishers else self._at(name)[0].path
        return options.enabled.get(path, value) != value

    def _at(self, name: str) -> list[InterfacePlan]:
        return self._interfaces.get(name) or self._controlled[name]


def _merged(before: Mapping[str, V], changed: Mapping[str, V | None]) -> dict[str, V]:
    """Returns overrides with others, None for those that end."""
    merged = {**before, **changed}
    return {path: value for path, value in merged.items() if value is not None}
