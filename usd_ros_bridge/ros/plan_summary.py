"""The plan in short on a latched topic: what the bridge offers, and why something of the asset is not live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks
from std_msgs.msg import String

from usd_ros_bridge.export.plan_summary import plan_summary_text
from usd_ros_bridge.model.plan import BridgePlan, QosPlan
from usd_ros_bridge.ros import qos
from usd_ros_bridge.ros.domains import Domain

TOPIC = "~/plan"
_QOS = QosPlan(reliability="reliable", durability="transient_local", depth=1)


class PlanSummary:
    """Publishes the summary once, and again where it has changed; as jobs of the main domain, off the tick."""

    def __init__(self, plan: BridgePlan, main: Domain, *, refused: Callable[[], Mapping[str, str]]) -> None:
        """Stores what to sum up; `open` begins.

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
        """Creates the publisher, and has the summary sent soon."""
        callbacks = PublisherEventCallbacks(use_default_callbacks=False)
        self._publisher = self._main.node.create_publisher(
            String, TOPIC, qos.profile(_QOS), event_callbacks=callbacks
        )
        self._main.defer(self._publish, urgent=False)

    def move_to(self, plan: BridgePlan) -> None:
        """Goes on with another plan, once its interfaces are open; from any thread."""
        self._plan = plan
        self._main.defer(self._publish, urgent=False)

    def close(self) -> None:
        """Ends it. Idempotent."""
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
