"""A publisher of the plan: sends what a snapshot shows, where someone listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks

from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.ros import qos
from usd_ros_bridge.ros.cdr import Outlet, Place, Row, SharedMessages
from usd_ros_bridge.ros.codecs.protocol import Encoding
from usd_ros_bridge.ros.codecs.serialized import Serialized
from usd_ros_bridge.ros.codecs.writer import MessageWriter
from usd_ros_bridge.ros.compat import policy_name
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.chorus import PublisherChorus, Voice
from usd_ros_bridge.ros.handlers import Bound
from usd_ros_bridge.ros.message_handlers import SourceFeed
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import EmitterStatus

NO_SUBSCRIBER = "no subscriber"
NOT_ASKED = "its controller is inactive"


class TopicPublisher:
    """An `Emitter` for the runtime. Without an encoding it exists, so that peers find it, and stays silent.

    Nothing is computed or written while nobody subscribes, except for what late joiners are to get (transient local).
    """

    __slots__ = (
        "_always", "_class", "_domain", "_encoding", "_feed", "_outlet", "_regroup", "_report", "_robot", "_sent_ns",
        "_source", "_stamp", "_writer", "reason", "topic",
    )  # fmt: skip

    def __init__(
        self, topic: TopicPlan, message_class: Any, domain: Domain, *, encoding: Encoding | None, reason: str = "",
        unmatched: bool = False, report: Report, regroup: Callable[[], None],
        shared: SharedMessages[Serialized] | None = None, feed: SourceFeed | None = None,
    ) -> None:  # fmt: skip
        """Stores what to publish; `open` creates the publisher.

        Args:
            topic: The publisher's plan.
            message_class: Class of its type.
            domain: Where it lives.
            encoding: Makes its messages; None where nothing feeds it.
            reason: Why nothing does.
            unmatched: Publish also while nobody subscribes.
            report: For incompatible quality of service, and where messages cannot be written in place.
            regroup: Called when it has got a `row`.
            shared: Messages that all publishers of the thread that ticks write in turn.
            feed: Gives messages instead, where a source is bound; None where none can be.
        """
        self.topic = topic
        self._robot = topic.robot
        self.reason = reason
        self._class = message_class
        self._domain = domain
        self._encoding = encoding
        self._writer = (
            None
            if encoding is None
            else MessageWriter(topic, message_class, encoding, report=report, shared=shared)
        )
        self._stamp = None if encoding is None else encoding.stamp_ns
        self._always = unmatched or topic.qos.durability == "transient_local"
        self._report = report
        self._outlet: Outlet | None = None
        self._sent_ns = -1
        self._feed = feed
        self._regroup = regroup
        self._source: Bound[Any] | None = None
        self.look_for_source()

    @property
    def silent(self) -> bool:
        """Whether nothing feeds it."""
        return self._encoding is None and self._source is None

    @property
    def sourced(self) -> bool:
        """Whether a source is bound."""
        return self._source is not None

    def look_for_source(self) -> None:
        """Asks what the source is now; from the thread that ticks."""
        # Not asked at every message: there are thousands a second, and sources hardly change.
        self._source = None if self._feed is None else self._feed.bound

    def prepare(
        self,
        topic: TopicPlan,
        encoding: Encoding,
        shared: SharedMessages[Serialized],
        *,
        ahead: bool,
    ) -> MessageWriter:
        """Returns what writes other messages on the same topic, for `revise`; from any thread.

        Args:
            topic: The publisher's plan to come.
            encoding: Makes its messages then.
            shared: Messages that are written in turn then.
            ahead: Whether messages may be made now, because nobody else uses `shared` yet.
        """
        writer = MessageWriter(topic, self._class, encoding, report=self._report, shared=shared)
        if ahead and self._writer is not None:
            writer.follow(self._writer)
        return writer

    def revise(
        self, topic: TopicPlan, encoding: Encoding | None, reason: str, writer: MessageWriter | None
    ) -> None:
        """Makes other messages from here on, on the same topic: what it shows has changed; between two ticks."""
        self.topic, self._robot = topic, topic.robot
        self._encoding, self.reason = encoding, reason
        self._writer = writer
        self._stamp = None if encoding is None else encoding.stamp_ns
        self._regroup()

    def open(self) -> None:
        """Creates the publisher, through the node so that remap rules apply."""
        callbacks = PublisherEventCallbacks(
            incompatible_qos=self._on_incompatible, use_default_callbacks=False
        )
        publisher = self._domain.node.create_publisher(
            self._class, self.topic.name, qos.profile(self.topic.qos), event_callbacks=callbacks
        )
        self._outlet = Outlet(publisher)

    def emit(self, snapshot: Snapshot) -> bool:
        """Publishes what `snapshot` shows, stamped with the time of its state; a state that came by topic once."""
        outlet, writer = self._outlet, self._writer
        if self._source is not None:
            return self._ask(self._source, snapshot.time_ns)
        if outlet is None or writer is None:
            return False
        if not (self._always or outlet.subscriptions()):
            return False
        time_ns = snapshot.common_ns if self._stamp is None else self._stamp(snapshot)
        if time_ns is None:
            time_ns = snapshot.robot_time_ns(self._robot)
        if time_ns < 0 or time_ns == self._sent_ns:
            return False
        together = writer.together(snapshot, time_ns) if writer.row.several else None
        if together is not None:
            outlet.send(together)
        else:
            values = writer.values(snapshot)
            if values is None:
                return False
            # Most messages have neither sequences nor rows: a call less.
            fixed = writer.fixed
            if fixed is None:
                row = writer.row
                writer.publish(outlet, values, time_ns)
                if writer.row is not row:
                    self._regroup()
            else:
                fixed.write(values, time_ns, writer.frame)
                outlet.send(fixed.data)
        self._sent_ns = time_ns
        return True

    @property
    def row(self) -> Row | None:
        """Publishers whose messages are written along with its own; None while there are none."""
        place = self._place
        return None if place is None else place.row

    def chorus(
        self, emitters: Sequence[TopicPublisher], failed: Callable[[int, Exception], None]
    ) -> PublisherChorus:
        """Returns what publishes for publishers of one row at once."""
        place, writer = self._place, self._writer
        assert place is not None
        assert writer is not None

        def sent(indices: Sequence[int], time_ns: int) -> None:
            for index in indices:
                emitters[index]._sent_ns = time_ns

        voices = [each._voice() for each in emitters]
        return PublisherChorus(
            voices, place.together, place.row, sent=sent, failed=failed, frame=writer.frame_place
        )

    @property
    def _place(self) -> Place | None:
        outlet, writer = self._outlet, self._writer
        if outlet is None or writer is None or self._stamp is not None or self._source is not None:
            return None
        return writer.place

    def _voice(self) -> Voice:
        place, outlet, writer = self._place, self._outlet, self._writer
        assert place is not None
        assert outlet is not None
        assert writer is not None
        return Voice(
            number=place.number,
            wanted=None if self._always else outlet.subscriptions,
            send=outlet.send,
            sent_ns=self._sent_ns,
            frame=b"" if writer.frame_place is None else writer.frame,
        )

    def _ask(self, source: Bound[Any], time_ns: int) -> bool:
        outlet, feed = self._outlet, self._feed
        if outlet is None or feed is None or not (self._always or outlet.subscriptions()):
            return False
        return feed.ask(source, time_ns, outlet.publisher.publish)

    def reset(self) -> None:
        """Allows the last stamp again: time may have started over."""
        self._sent_ns = -1

    def close(self) -> None:
        """Destroys the publisher. Idempotent."""
        outlet, self._outlet = self._outlet, None
        if outlet is not None:
            outlet.close(self._domain.destroy)

    def status(self, emitted: EmitterStatus | None) -> InterfaceStatus:
        """Returns a row; `emitted` holds the runtime's counters of this emitter."""
        outlet = self._outlet
        matched = outlet.subscriptions() if outlet else 0
        unheard = not (matched or self._always or self.silent)
        rate = emitted.achieved_rate if emitted and not unheard else 0.0
        errors = emitted.errors if emitted else 0
        last_error, skipped = (emitted.last_error, emitted.skipped) if emitted else ("", 0)
        source, feed = self._source, self._feed
        unasked = emitted is not None and not emitted.asked
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path=self.topic.path,
            name=outlet.publisher.topic_name if outlet else self.topic.name,
            type=self.topic.type,
            domain_id=self._domain.domain_id,
            authored_rate=self.topic.publish_rate,
            achieved_rate=rate,
            matched=matched,
            count=feed.published if source is not None and feed else emitted.published if emitted else 0,
            errors=errors + (0 if feed is None else feed.errors),
            last_error=last_error or ("" if feed is None else feed.last_error),
            dropped=skipped + (0 if feed is None else feed.skipped),
            state="silent" if self.silent else "active" if rate > 0.0 else "idle",
            reason=NO_SUBSCRIBER
            if unheard
            else NOT_ASKED
            if unasked
            else ""
            if source is not None
            else self.reason,
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
    """Returns the policies that decide compatibility, for a message."""
    return f"reliability {topic.qos.reliability}, durability {topic.qos.durability}"
