"""Plans of the page: the asset as the bridge runs it, planned again when the bridge's plan changes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rclpy.parameter import parameter_value_to_python

from usd_ros_bridge.errors import BridgeError, OptionError
from usd_ros_bridge.model.message_types import GET_PARAMETERS, STRING
from usd_ros_bridge.model.plan import BridgePlan, QosPlan
from usd_ros_bridge.options import OPTIONS, PlanOptions, ReadOptions, VariantSelection
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.change.live_parameters import LIVE_OPTIONS
from usd_ros_bridge.view.graph_client import GraphClient

PLAN_TOPIC = "plan"
ANSWER_S = 1.0
"""Time that the bridge has for an answer, seconds."""
MAX_TRIES = 10
"""Requests for parameters that the bridge does not have: one that shows a host's stage never has them."""
NOT_SET = 0
"""rcl_interfaces/msg/ParameterType: no such parameter."""
MAX_VARIANT_SETS = 1000
"""Variant sets that the page can switch."""
_LATCHED = QosPlan(reliability="reliable", durability="transient_local", depth=1)
_IGNORED = ("diagnostics", "version", "variants", "asset")
"""Keys of the bridge's summary that are no reason for another plan, or are compared apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSource:
    """What the page plans.

    Attributes:
        asset: The asset, as the bridge was given it.
        read: How it is opened.
        options: How it is planned.
    """

    asset: str
    read: ReadOptions
    options: PlanOptions

    def load(self) -> BridgePlan:
        """Plan the asset with its physics.

        Raises:
            BridgeError: As `load_plan`.
        """
        from usd_ros_bridge.api import load_plan
        from usd_ros_bridge.ros.interface_types import AmentCatalog
        from usd_ros_bridge.usd import quiet
        from usd_ros_bridge.usd.session import StageSession

        load = partial(
            load_plan, read_options=self.read, plan_options=self.options, catalog=AmentCatalog(), physics=True
        )
        plan: BridgePlan = quiet()(load)(self.asset)
        sets = StageSession(plan.stage).variant_sets(most=MAX_VARIANT_SETS)
        # Nothing reads the stage again; it holds memory, and files.
        return replace(plan, stage=None, variant_sets=sets)


class PlanFollower:
    """Plan again, in a thread, when the bridge's plan has changed.

    The bridge's latched summary (`~/plan`) says that it has, and which variants are selected; its parameters say how it
    plans.
    """

    def __init__(self, graph: GraphClient, bridge: str, source: PlanSource, *, report: Report) -> None:
        """Store the arguments.

        Args:
            graph: The client.
            bridge: Fully qualified name of the bridge's node.
            source: What the page has planned.
            report: For an asset that cannot be planned any more, and a bridge that runs another one.
        """
        self._graph = graph
        self._bridge = bridge
        self._source = source
        self._report = report
        self._subscription: Any = None
        self._parameters: Any = None
        self._summary: object = None
        self._news: tuple[object, tuple[VariantSelection, ...]] | None = None
        self._asked_s, self._tries = 0.0, 0
        self._wanted: PlanSource | None = None
        self._thread: threading.Thread | None = None
        self._made: BridgePlan | None = None
        self._lock = threading.Lock()

    def resume(self) -> None:
        """Subscribe."""
        if self._subscription is None:
            self._parameters = self._graph.client(f"{self._bridge}/get_parameters", GET_PARAMETERS)
            self._subscription = self._graph.subscribe(
                f"{self._bridge}/{PLAN_TOPIC}", STRING, self._receive, qos=_LATCHED
            )

    def pause(self) -> None:
        """Unsubscribe. Idempotent."""
        for entity in (self._subscription, self._parameters):
            if entity is not None:
                self._graph.destroy(entity)
        self._subscription = self._parameters = None

    def take(self) -> BridgePlan | None:
        """Return a new plan, once; None as long as there is none."""
        self._ask()
        with self._lock:
            made, self._made = self._made, None
        return made

    def _receive(self, message: Any) -> None:
        try:
            summary = json.loads(message.data)
            variants = tuple(
                VariantSelection(prim_path=prim, variant_set=name, variant=choice)
                for prim, chosen in summary.get("variants", {}).items()
                for name, choice in chosen.items()
            )
        except (ValueError, AttributeError, TypeError):
            self._report("view.plan", f"{self._bridge}/{PLAN_TOPIC} has something else than a plan: ignored")
            return
        if not _is_same_asset(summary.get("asset"), self._source.asset):
            self._report(
                "view.asset",
                f"{self._bridge} runs {summary.get('asset')}, and the page shows {self._source.asset}",
            )
            return
        seen = {key: value for key, value in summary.items() if key not in _IGNORED}
        self._news, self._asked_s, self._tries = (seen, variants), 0.0, 0

    def _ask(self) -> None:
        """Ask for the parameters of a plan that has changed; again where no answer comes."""
        now, news, parameters = time.monotonic(), self._news, self._parameters
        if news is None or parameters is None or now - self._asked_s < ANSWER_S:
            return
        if parameters.service_is_ready():
            self._asked_s = now
            request = self._graph.type_of(GET_PARAMETERS).Request(names=list(LIVE_OPTIONS))
            parameters.call_async(request).add_done_callback(partial(self._compare, news))

    def _compare(self, news: tuple[object, tuple[VariantSelection, ...]], answer: Any) -> None:
        """Plan again if the bridge's plan, or how it was made, differs from what the page has."""
        if answer.cancelled() or answer.exception() is not None or news is not self._news:
            return
        values = answer.result().values
        self._tries += 1
        if any(value.type == NOT_SET for value in values) and self._tries < MAX_TRIES:
            # The bridge is just starting.
            return
        self._news = None
        summary, variants = news
        source = self._source
        options = _with_parameters(source.options, values)
        read = source.read
        if set(variants) != set(read.variants):
            read = replace(read, variants=variants)
        wanted = replace(source, read=read, options=options)
        first = self._summary is None
        same = wanted == source and (first or summary == self._summary)
        self._source, self._summary = wanted, summary
        if same:
            return
        with self._lock:
            self._wanted = wanted
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="plan", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                wanted, self._wanted = self._wanted, None
                if wanted is None:
                    self._thread = None
                    return
            try:
                plan = wanted.load()
            except Exception as error:  # noqa: BLE001 - the page goes on with the plan that it has
                reason = str(error) if isinstance(error, BridgeError) else describe(error)
                self._report("view.replan", f"the page shows the plan before this one: {reason}")
            else:
                with self._lock:
                    self._made = plan


def _with_parameters(options: PlanOptions, values: Sequence[Any]) -> PlanOptions:
    """Return options with the values of the bridge's parameters LIVE_OPTIONS. Impossible values are ignored."""
    given = {}
    for name, value in zip(LIVE_OPTIONS, values, strict=False):
        found = parameter_value_to_python(value)
        if found is not None:
            with suppress(OptionError):
                given[name] = OPTIONS[name].value(found)
    return replace(options, **given)


def _is_same_asset(one: object, other: str) -> bool:
    """Return whether two names are of one asset: files may be spelled in several ways."""
    if one == other or not isinstance(one, str):
        return one == other
    return "://" not in one + other and os.path.realpath(one) == os.path.realpath(other)
