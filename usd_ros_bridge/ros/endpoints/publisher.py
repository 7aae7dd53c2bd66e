"""Publishers of messages: one at a time, in batches of robots of one kind, and those of the plan's topics."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.event_handler import PublisherEventCallbacks

from usd_ros_bridge.backends.base import Capabilities
from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.codecs.encoding import Encoding, Values
from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessage, EncodedMessages, MessageEncoder
from usd_ros_bridge.ros.compat import policy_name
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.handlers import Bound, SourceFeed
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.wire.cdr_template import pack_stamp
from usd_ros_bridge.runtime.publications import Publication, Publications, PublicationStatus, Publish
from usd_ros_bridge.runtime.schedule import mark_each
from usd_ros_bridge.runtime.snapshot import Snapshot


class MessagePublisher(Publication):
    """Encode what a snapshot shows and send it, each state once.

    Attributes:
        encoder: Encodes the messages; None: there is nothing to publish.
        handle: Sends them; None while it is closed.
        always: Publish also without subscribers.
        robot: Index of the robot whose state is shown; -1 for none.
        sent_ns: Stamp of the last message, nanoseconds; -1 before.
        sent_stamps: Gets the stamp of each message before it is sent; None: nobody needs it.
    """

    __slots__ = ("always", "encoder", "handle", "robot", "sent_ns", "sent_stamps")

    def __init__(self, *, always: bool) -> None:
        """Store the arguments.

        Args:
            always: Publish also without subscribers.
        """
        super().__init__()
        self.encoder: MessageEncoder | None = None
        self.handle: PublisherHandle | None = None
        self.always = always
        self.robot = -1
        self.sent_ns = -1
        self.sent_stamps: deque[int] | None = None

    @property
    def batch_key(self) -> Hashable | None:  # type: ignore[override]
        """Return the function that returns the arrays of all robots, if the encoding has one."""
        encoder = self.encoder
        return None if encoder is None or self.handle is None else encoder.encoding.arrays

    @property
    def sequence_key(self) -> Hashable | None:  # type: ignore[override]
        """Return the same for all that show a state with the time of that state."""
        encoder = self.encoder
        return PublisherSequence if encoder and self.handle and encoder.stamp_ns is None else None

    def publish(self, snapshot: Snapshot) -> bool:
        """Publish what a snapshot shows, if that is new and there are subscribers."""
        handle, encoder = self.handle, self.encoder
        if handle is None or not (self.always or handle.subscriptions() or handle.has_uncounted()):
            return False
        if encoder is None:
            return self.publish_from_source(snapshot)
        stamp_ns = encoder.stamp_ns
        time_ns = snapshot.common_ns if stamp_ns is None else stamp_ns(snapshot)
        if time_ns is None:
            time_ns = snapshot.robot_time_ns(self.robot)
        if time_ns < 0 or time_ns == self.sent_ns:
            return False
        values = encoder.values(snapshot)
        if values is None:
            return False
        fixed = encoder.fixed
        if fixed is not None:
            # Most messages have no sequences: a call less.
            fixed.write(values, pack_stamp(time_ns), encoder.frame)
            handle.send(fixed.data)
        else:
            self.send_encoded(encoder, handle, values, time_ns, pack_stamp(time_ns))
        self.sent_ns = time_ns
        return True

    def send_encoded(
        self, encoder: MessageEncoder, handle: PublisherHandle, values: Values, time_ns: int, stamp: bytes
    ) -> None:
        """Encode a message whose shape may change, and send it.

        Args:
            encoder: Encodes it.
            handle: Sends it.
            values: What the encoding returned.
            time_ns: Stamp, nanoseconds.
            stamp: The same as `pack_stamp` returns it.
        """
        message = encoder.encode(values, time_ns, stamp)
        stamps = self.sent_stamps
        if stamps is not None and (not stamps or stamps[-1] != time_ns):
            stamps.append(time_ns)
        if type(message) is bytearray:
            handle.send(message)
        else:
            handle.publish(message)

    def publish_from_source(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 - for subclasses
        """Publish a message that no encoder makes. Return whether there is one."""
        return False

    def reset(self) -> None:
        """Allow the last stamp again: time starts over."""
        self.sent_ns = -1

    def make_batch(self, members: Sequence[Any], publications: Publications) -> Publish:
        """Return a function that publishes publishers with the same `batch_key` as a batch."""
        return PublisherBatch(members, publications).publish

    def make_sequence(self, members: Sequence[Any], publications: Publications) -> Publish:
        """Return a function that publishes publishers with a `sequence_key` one after another."""
        return PublisherSequence(members, publications).publish


Member = tuple[MessagePublisher, MessageEncoder, PublisherHandle]
Piece = tuple[MessagePublisher, PublisherHandle, slice]
"""A publisher, what sends its message, and the place of that in the block."""


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """Publishers in consecutive rows whose messages fit into one block.

    Attributes:
        message: Their message, but for numbers and frames.
        rows: Rows of all of them.
        pieces: The publishers.
        frames: (N, n) bytes of the frames of their headers; None without a header.
    """

    message: EncodedMessage
    rows: slice
    pieces: list[Piece]
    frames: NDArray[np.uint8] | None

    def write(self, arrays: Sequence[NDArray[np.float64]], stamp: bytes) -> bytearray | None:
        """Write all messages. Return the data of the block; None if a message cannot be written.

        Args:
            arrays: Arrays of all robots.
            stamp: As `pack_stamp` returns it.
        """
        block = self.message.block
        if not block.write(arrays, self.rows, len(self.pieces), stamp):
            return None
        if self.frames is not None and self.message.frame is not None:
            block.messages.write_bytes(self.message.frame, self.frames)
        return block.messages.data


class PublisherBatch:
    """Publishers whose numbers are rows of the same arrays: a block of messages is written at once.

    All blocks of one kind of robots are written to the same memory, one after another.
    """

    def __init__(self, members: Sequence[MessagePublisher], publications: Publications) -> None:
        """Store the arguments.

        Args:
            members: In the order of their rows.
            publications: Counts what fails, and publishes members alone that cannot be written together.
        """
        self._members = [
            (each, each.encoder, each.handle)
            for each in members
            if each.encoder is not None and each.handle is not None
        ]
        self._publications = publications
        self._arrays = self._members[0][1].encoding.arrays
        self._all = list(members)
        self._generation = publications.generation
        # By which of the arrays have numbers: chunks, and publishers that are published alone.
        self._chunks: dict[tuple[bool, ...], tuple[list[_Chunk], list[MessagePublisher]]] = {}

    def publish(self, snapshot: Snapshot) -> None:
        """Publish what is new and has subscribers, and count it. Raise nothing."""
        time_ns = snapshot.common_ns
        if time_ns is not None and time_ns < 0:
            return
        wanted = self._all
        try:
            # Otherwise a member was removed or changed earlier in this tick.
            done = self._publications.generation == self._generation
            if done:
                # Another batch, of more or fewer members, may have sent this state for some.
                wanted = [
                    each
                    for each, _, handle in self._members
                    if each.sent_ns != time_ns
                    and (each.always or handle.subscriptions() or handle.has_uncounted())
                ]
                if not wanted:
                    return
                done = time_ns is not None and len(wanted) > 1 and self._publish(wanted, snapshot, time_ns)
        except Exception:  # noqa: BLE001 - whoever is at fault raises again alone, and is counted then
            done = False
        if not done:
            self._publications.publish_each(wanted, snapshot)

    def _publish(self, wanted: list[MessagePublisher], snapshot: Snapshot, time_ns: int) -> bool:
        """Publish for those that have subscribers. Return False if each is to be published alone."""
        arrays = None if self._arrays is None else self._arrays(snapshot)
        if arrays is None:
            return False
        shape = tuple([each.size > 0 for each in arrays])
        split = self._chunks.get(shape)
        if split is None:
            split = self._chunks[shape] = self._split(arrays, snapshot)
        chunks, alone = split
        stamp = pack_stamp(time_ns)
        subscribed = None if len(wanted) == len(self._members) else set(wanted)
        for chunk in chunks:
            pieces = chunk.pieces
            if subscribed is not None:
                pieces = [each for each in pieces if each[0] in subscribed]
            data = chunk.write(arrays, stamp) if len(pieces) > 1 else None
            if data is not None:
                self._send(data, pieces, time_ns)
            elif pieces:
                self._publications.publish_each([each for each, _, _ in pieces], snapshot)
        if alone:
            self._publications.publish_each(alone, snapshot)
        return True

    def _send(self, data: bytearray, pieces: list[Piece], time_ns: int) -> None:
        failed: set[MessagePublisher] = set()
        for publisher, handle, place in pieces:
            stamps = publisher.sent_stamps
            if stamps is not None and (not stamps or stamps[-1] != time_ns):
                stamps.append(time_ns)
            try:
                handle.send(data[place])
            except Exception as error:  # noqa: BLE001 - one publisher's fault stops no other
                failed.add(publisher)
                self._publications.fail(publisher, error)
            else:
                publisher.sent_ns = time_ns
        mark_each([each for each, _, _ in pieces if each not in failed], time_ns)

    def _split(
        self, arrays: Sequence[NDArray[np.float64]], snapshot: Snapshot
    ) -> tuple[list[_Chunk], list[MessagePublisher]]:
        """Split the members into chunks for arrays of these shapes. Return also those that are published alone."""
        runs: list[tuple[EncodedMessage, list[Member]]] = []
        newest: dict[EncodedMessage, list[Member]] = {}
        alone: list[MessagePublisher] = []
        for member in self._members:
            publisher, encoder, _ = member
            try:
                message = encoder.find_row(arrays, snapshot)
            except Exception:  # noqa: BLE001 - it raises again alone, and is counted then
                message = None
            if message is None:
                alone.append(publisher)
                continue
            run = newest.get(message)
            if (
                run is None
                or len(run) >= message.block.messages.count
                or run[-1][1].rows.stop != encoder.rows.start
            ):
                run = newest[message] = []
                runs.append((message, run))
            run.append(member)
        alone += [run[0][0] for _, run in runs if len(run) == 1]
        return [_chunk(message, run) for message, run in runs if len(run) > 1], alone


def _chunk(message: EncodedMessage, run: list[Member]) -> _Chunk:
    frames = None
    if message.frame is not None:
        frames = np.frombuffer(b"".join(encoder.frame for _, encoder, _ in run), np.uint8).reshape(
            len(run), -1
        )
    places = message.block.messages.slices
    return _Chunk(
        message=message,
        rows=slice(run[0][1].rows.start, run[-1][1].rows.stop),
        pieces=[(each, handle, place) for (each, _, handle), place in zip(run, places, strict=False)],
        frames=frames,
    )


class PublisherSequence:
    """Publish one publisher after another, as `MessagePublisher.publish` does, with what stays looked up once."""

    def __init__(self, members: Sequence[MessagePublisher], publications: Publications) -> None:
        """Store the arguments.

        Args:
            members: Show a state with the time of that state.
            publications: Counts what fails.
        """
        self._all = list(members)
        self._members = [
            (each, each.always, each.handle, each.encoder, each.encoder.values, each.encoder.frame)
            for each in members
            if each.encoder is not None and each.handle is not None
        ]
        self._publications = publications
        self._generation = publications.generation

    def publish(self, snapshot: Snapshot) -> None:
        """Publish what is new and has subscribers, and count it. Raise nothing."""
        time_ns, publications = snapshot.common_ns, self._publications
        if time_ns is None or time_ns < 0 or publications.generation != self._generation:
            # Each has a time of its own, or a member was removed or changed earlier in this tick.
            publications.publish_each(self._all, snapshot)
            return
        stamp = b""
        for publisher, always, handle, encoder, values_of, frame in self._members:
            if publisher.sent_ns == time_ns or not publisher.is_added:
                continue
            try:
                if not (always or handle.subscriptions() or handle.has_uncounted()):
                    continue
                values = values_of(snapshot)
                if values is None:
                    continue
                # Once for all of them, and only if there is a message.
                stamp = stamp or pack_stamp(time_ns)
                fixed = encoder.fixed
                if fixed is not None:
                    fixed.write(values, stamp, frame)
                    handle.send(fixed.data)
                else:
                    publisher.send_encoded(encoder, handle, values, time_ns, stamp)
                publisher.sent_ns = time_ns
                # `mark`, written out.
                publisher.count += 1
                if not publisher.start_ns <= time_ns < publisher.end_ns:
                    publisher.turn(time_ns)
            except Exception as error:  # noqa: BLE001 - one publisher's fault stops no other
                publications.fail(publisher, error)


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

    def schedule(self, can: Capabilities) -> tuple[float | None, int | None]:
        """Return its rate, Hz, None for every tick, and the robot whose state alone it shows.

        Args:
            can: Capabilities of the backend.
        """
        topic = self.topic
        # A sensor measures when it wants to, and so does a source, whenever the robot's state arrives.
        free = self.has_source or topic.path in can.sensors
        # An asynchronous sensor measures at the authored rate: a new sample is sent in the next tick.
        is_async = topic.path in can.async_sensors and not self.has_source
        return None if is_async else topic.publish_rate, None if free else topic.robot

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
        self.handle = self._domain.open_publisher(
            self._class, self.topic.name, qos_profiles.profile(self.topic.qos), event_callbacks=callbacks
        )

    def publish_from_source(self, snapshot: Snapshot) -> bool:
        """Ask the source for a message. Return whether it was free."""
        source, feed, handle = self._source, self._feed, self.handle
        if source is None or feed is None or handle is None:
            return False
        return feed.ask(source, snapshot.time_ns, handle.publish)

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
        matched = handle.matched() if handle else 0
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
            name=handle.topic_name if handle else self.topic.name,
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
            qos=self.topic.qos,
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
