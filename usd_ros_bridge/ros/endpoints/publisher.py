"""Topic publisher: a publisher of the plan, which sends what a snapshot shows or what a source returns."""

from __future__ import annotations

from typing import Any

from rclpy.event_handler import PublisherEventCallbacks

from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.codecs.encoding import Encoding
from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessages, MessageEncoder
from usd_ros_bridge.ros.compat import policy_name
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.handlers import Bound, SourceFeed
from usd_ros_bridge.ros.endpoints.publisher_batch import MessagePublisher
from usd_ros_bridge.ros.wire.publisher_handle import PublisherHandle
from usd_ros_bridge.runtime.publications import PublicationStatus
from usd_ros_bridge.runtime.snapshot import Snapshot

NO_SUBSCRIBER = "no subscriber"
NOT_ENABLED = "its controller is inactive"


class TopicPublisher(MessagePublisher):
    """Publish on a topic of the plan. Without an encoding it exists, so that peers find it, and stays silent.

    Nothing is computed or written without subscribers, except for late joiners (transient local).
    """

    __slots__ = (
        "_class",
        "_domain",
        "_feed",
        "_messages",
        "_report",
        "_source",
        "_state_encoder",
        "reason",
        "topic",
    )

    def __init__(
        self,
        topic: TopicPlan,
        message_class: Any,
        domain: Domain,
        *,
        encoding: Encoding | None,
        reason: str = "",
        unmatched: bool = False,
        report: Report,
        messages: EncodedMessages,
        feed: SourceFeed | None = None,
    ) -> None:
        """Store the arguments; `open` creates the publisher.

        Args:
            topic: The publisher's plan.
            message_class: Class of its type.
            domain: Domain to publish in.
            encoding: Encoding of its messages; None: there is nothing to show.
            reason: Why there is nothing to show.
            unmatched: Publish also without subscribers.
            report: For incompatible quality of service, and for messages that cannot be written in place.
            messages: Messages that all publishers of the tick thread write in turn.
            feed: Asks a bound source for messages instead; None: no source can be bound.
        """
        super().__init__(always=unmatched or topic.qos.durability == "transient_local")
        self._class = message_class
        self._domain = domain
        self._report = report
        self._messages = messages
        self._feed = feed
        self._source: Bound[Any] | None = None
        self._state_encoder: MessageEncoder | None = None
        self.update(topic, None if encoding is None else self.make_encoder(topic, encoding), reason)

    @property
    def is_silent(self) -> bool:
        """Return whether there is nothing to publish."""
        return self._state_encoder is None and self._source is None

    @property
    def has_source(self) -> bool:
        """Return whether a source is bound."""
        return self._source is not None

    def update_source(self) -> None:
        """Look up the source; in the tick thread."""
        # Not looked up at every message: there are thousands a second, and sources hardly change.
        self._source = None if self._feed is None else self._feed.bound
        self.encoder = self._state_encoder if self._source is None else None

    def make_encoder(self, topic: TopicPlan, encoding: Encoding) -> MessageEncoder:
        """Return an encoder of other messages on the same topic, for `update`; from any thread."""
        encoder = MessageEncoder(
            topic.path,
            self._class,
            encoding,
            frame_id=topic.frame_id,
            report=self._report,
            messages=self._messages,
        )
        if self._state_encoder is not None:
            encoder.reuse(self._state_encoder)
        return encoder

    def update(self, topic: TopicPlan, encoder: MessageEncoder | None, reason: str) -> None:
        """Publish other messages from now on, on the same topic; between two ticks.

        Args:
            topic: The publisher's plan from now on.
            encoder: Encodes them; None: there is nothing to show.
            reason: Why there is nothing to show.
        """
        self.topic, self.robot, self.reason = topic, topic.robot, reason
        self._state_encoder = encoder
        self.update_source()

    def open(self) -> None:
        """Create the publisher, through the node so that remap rules apply."""
        callbacks = PublisherEventCallbacks(
            incompatible_qos=self._on_incompatible, use_default_callbacks=False
        )
        publisher = self._domain.node.create_publisher(
            self._class, self.topic.name, qos_profiles.profile(self.topic.qos), event_callbacks=callbacks
        )
        self.handle = PublisherHandle(publisher)

    def publish_from_source(self, snapshot: Snapshot) -> bool:
        """Ask the source for a message. Return whether it was free."""
        source, feed, handle = self._source, self._feed, self.handle
        if source is None or feed is None or handle is None:
            return False
        return feed.ask(source, snapshot.time_ns, handle.publisher.publish)

    def close(self) -> None:
        """Destroy the publisher. Idempotent."""
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.close(self._domain.destroy)

    def status(self, counters: PublicationStatus) -> InterfaceStatus:
        """Return a row of the status.

        Args:
            counters: Counters of this publication.
        """
        handle, source, feed = self.handle, self._source, self._feed
        matched = handle.subscriptions() if handle else 0
        has_no_subscriber = not (matched or self.always or self.is_silent)
        rate = 0.0 if has_no_subscriber else counters.achieved_rate
        reason = self.reason if source is None else ""
        if has_no_subscriber:
            reason = NO_SUBSCRIBER
        elif not counters.enabled:
            reason = NOT_ENABLED
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path=self.topic.path,
            name=handle.publisher.topic_name if handle else self.topic.name,
            type=self.topic.type,
            domain_id=self._domain.domain_id,
            authored_rate=self.topic.publish_rate,
            achieved_rate=rate,
            matched=matched,
            count=feed.published if source is not None and feed else counters.published,
            errors=counters.errors + (0 if feed is None else feed.errors),
            last_error=counters.last_error or ("" if feed is None else feed.last_error),
            dropped=counters.skipped + (0 if feed is None else feed.skipped),
            state="silent" if self.is_silent else "active" if rate > 0.0 else "idle",
            reason=reason,
            served_by="" if source is None else source.owner,
        )

    def _on_incompatible(self, event: Any) -> None:
        policy = policy_name(event.last_policy_kind)
        self._report(
            f"qos.publisher:{self.topic.path}:{policy}",
            f"{self.topic.path}: a subscription to {self.topic.name} asks for another {policy} than the publisher "
            f"offers ({describe_qos(self.topic)}): nothing reaches it",
        )


def describe_qos(topic: TopicPlan) -> str:
    """Return the policies that decide compatibility, for a message."""
    return f"reliability {topic.qos.reliability}, durability {topic.qos.durability}"
