"""Plans of the page: the asset as the bridge runs it, planned again when the bridge's plan changes."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan, QosPlan
from usd_ros_bridge.options import PlanOptions, ReadOptions, VariantSelection
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.view.graph_client import GraphClient

PLAN_TOPIC = "plan"
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

    def load(self, variants: tuple[VariantSelection, ...] | None = None) -> BridgePlan:
        """Plan the asset with its physics.

        Args:
            variants: Selections in place of those of `read`.

        Raises:
            BridgeError: As `load_plan`.
        """
        from usd_ros_bridge.api import load_plan
        from usd_ros_bridge.ros.interface_types import AmentCatalog
        from usd_ros_bridge.usd import quiet
        from usd_ros_bridge.usd.session import StageSession

        read = self.read if variants is None else replace(self.read, variants=variants)
        load = partial(
            load_plan, read_options=read, plan_options=self.options, catalog=AmentCatalog(), physics=True
        )
        plan: BridgePlan = quiet()(load)(self.asset)
        sets = StageSession(plan.stage).variant_sets(most=MAX_VARIANT_SETS)
        # Nothing reads the stage again; it holds memory, and files.
        return replace(plan, stage=None, variant_sets=sets)


class PlanFollower:
    """Follow the bridge's latched summary of its plan (`~/plan`), and plan again in a thread when that has changed."""

    def __init__(self, graph: GraphClient, bridge: str, source: PlanSource, *, report: Report) -> None:
        """Store the arguments.

        Args:
            graph: The client.
            bridge: Fully qualified name of the bridge's node.
            source: What to plan.
            report: For an asset that cannot be planned any more, and a bridge that runs another one.
        """
        self._graph = graph
        self._bridge = bridge
        self._source = source
        self._report = report
        self._subscription: Any = None
        self._seen: object = None
        self._variants: tuple[VariantSelection, ...] = source.read.variants
        self._wanted: tuple[VariantSelection, ...] | None = None
        self._thread: threading.Thread | None = None
        self._made: BridgePlan | None = None
        self._lock = threading.Lock()

    def resume(self) -> None:
        """Subscribe."""
        if self._subscription is None:
            self._subscription = self._graph.subscribe(
                f"{self._bridge}/{PLAN_TOPIC}", "std_msgs/msg/String", self._receive, qos=_LATCHED
            )

    def pause(self) -> None:
        """Unsubscribe. Idempotent."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self._graph.destroy(subscription)

    def take(self) -> BridgePlan | None:
        """Return a new plan, once; None as long as there is none."""
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
        if summary.get("asset") != self._source.asset:
            self._report(
                "view.asset",
                f"{self._bridge} runs {summary.get('asset')}, and the page shows {self._source.asset}",
            )
            return
        seen = {key: value for key, value in summary.items() if key not in _IGNORED}
        first = self._seen is None
        same = set(variants) == set(self._variants) and (first or seen == self._seen)
        self._seen = seen
        if not same:
            self._plan(variants)

    def _plan(self, variants: tuple[VariantSelection, ...]) -> None:
        with self._lock:
            self._variants = self._wanted = variants
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
                plan = self._source.load(wanted)
            except BridgeError as error:
                self._report("view.replan", f"the page shows the plan before this one: {error}")
            except Exception as error:  # noqa: BLE001 - the page goes on with the plan that it has
                self._report("view.replan", f"the page shows the plan before this one: {describe(error)}")
            else:
                with self._lock:
                    self._made = plan
