"""Summary of the plan on a latched topic: all interfaces, and why some are disabled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks
from std_msgs.msg import String

from usd_ros_bridge.export.summary import plan_summary_text
from usd_ros_bridge.model.plan import BridgePlan, QosPlan
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange

TOPIC = "~/plan"
_QOS = QosPlan(reliability="reliable", durability="transient_local", depth=1)


class PlanSummary:
    """Publishes the summary once, and again where it has changed; as jobs of the main domain, off the tick."""

    def __init__(self, plan: BridgePlan, main: Domain, *, refused: Callable[[], Mapping[str, str]]) -> None:
        """Store the arguments.

        Args:
            plan: The plan.
            main: Where.
            refused: Returns by prim path why interfaces could not be opened.
        """
        self._plan = plan
        self._main = main
        self._refused = refused
        self._publisher: Any = None
        self._text = ""

    def open(self) -> None:
        """Create the publisher, and schedule the summary."""
        callbacks = PublisherEventCallbacks(use_default_callbacks=False)
        self._publisher = self._main.node.create_publisher(
            String, TOPIC, qos_profiles.profile(_QOS), event_callbacks=callbacks
        )
        self._main.defer(self._publish, urgent=False)

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Prepare to publish another plan, as `PlanComponent.prepare`, once its interfaces are open."""
        del binding

        def finish() -> None:
            self._plan = plan
            self._main.defer(self._publish, urgent=False)

        return PreparedChange(finish=finish)

    def close(self) -> None:
        """End it. Idempotent."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            self._main.destroy(publisher)

    def _publish(self) -> None:
        publisher = self._publisher
        if publisher is None:
            return
        text = plan_summary_text(self._plan, disabled=self._refused())
        if text != self._text:
            self._text = text
            publisher.publish(String(data=text))
