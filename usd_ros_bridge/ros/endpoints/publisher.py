"""A publisher of the plan: encodes what a snapshot shows into one reused message."""

from __future__ import annotations

from typing import Any

from rclpy.event_handler import PublisherEventCallbacks

from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.ros import qos
from usd_ros_bridge.ros.codecs.protocol import Encoder, set_stamp
from usd_ros_bridge.ros.compat import policy_name
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import EmitterStatus


class TopicPublisher:
    """An `Emitter` for the runtime. Without an encoder it exists, so that peers find it, and stays silent."""

    def __init__(
        self, topic: TopicPlan, message_class: Any, domain: Domain, *, encoder: Encoder | None, reason: str = "",
        report: Report,
    ) -> None:  # fmt: skip
        """Stores what to publish; `open` creates the publisher.

        Args:
            topic: The publisher's plan.
            message_class: Class of its type.
            domain: Where it lives.
            encoder: Fills the message; None where nothing feeds it.
            reason: Why nothing does.
            report: For incompatible quality of service.
        """
        self.topic = topic
        self.reason = reason
        self._class = message_class
        self._domain = domain
        self._encoder = encoder
        self._report = report
        self._message = message_class()
        self._header = getattr(self._message, "header", None)
        self._publisher: Any = None
        self._sent_ns = -1

    @property
    def silent(self) -> bool:
        """Whether nothing feeds it."""
        return self._encoder is None

    def open(self) -> None:
        """Creates the publisher, through the node so that remap rules apply."""
        if self._header is not None:
            self._header.frame_id = self.topic.frame_id
        callbacks = PublisherEventCallbacks(
            incompatible_qos=self._on_incompatible, use_default_callbacks=False
        )
        self._publisher = self._domain.node.create_publisher(
            self._class, self.topic.name, qos.profile(self.topic.qos), event_callbacks=callbacks
        )

    def emit(self, snapshot: Snapshot) -> bool:
        """Publishes what `snapshot` shows, stamped with the time of its state; a state that came by topic once."""
        publisher = self._publisher
        if publisher is None or self._encoder is None:
            return False
        time_ns = snapshot.robot_time_ns(self.topic.robot)
        if time_ns < 0 or time_ns == self._sent_ns or not self._encoder(snapshot, self._message):
            return False
        if self._header is not None:
            set_stamp(self._header.stamp, time_ns)
        publisher.publish(self._message)
        self._sent_ns = time_ns
        return True

    def close(self) -> None:
        """Destroys the publisher. Idempotent."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            self._domain.node.destroy_publisher(publisher)

    def status(self, emitted: EmitterStatus | None) -> InterfaceStatus:
        """Returns a row; `emitted` holds the runtime's counters of this emitter."""
        publisher = self._publisher
        active = emitted is not None and emitted.achieved_rate > 0.0
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path=self.topic.path,
            name=publisher.topic_name if publisher else self.topic.name,
            type=self.topic.type,
            domain_id=self._domain.domain_id,
            authored_rate=self.topic.publish_rate,
            achieved_rate=emitted.achieved_rate if emitted else 0.0,
            matched=publisher.get_subscription_count() if publisher else 0,
            count=emitted.published if emitted else 0,
            errors=emitted.errors if emitted else 0,
            state="silent" if self.silent else "active" if active else "idle",
            reason=self.reason,
        )

    def _on_incompatible(self, event: Any) -> None:
        policy = policy_name(event.last_policy_kind)
        self._report(
            f"qos.publisher:{self.topic.path}:{policy}",
            f"{self.topic.path}: a subscription to {self.topic.name} asks for another {policy} than the publisher "
            f"offers ({describe_qos(self.topic)}): nothing reaches it",
        )


def describe_qos(topic: TopicPlan) -> str:
    """Returns the policies that decide compatibility, for a message."""
    return f"reliability {topic.qos.reliability}, durability {topic.qos.durability}"
