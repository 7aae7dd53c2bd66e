"""Message publishers in a tick: one message at a time, or those of robots of one kind as a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessage, MessageEncoder
from usd_ros_bridge.ros.wire.publisher_handle import PublisherHandle
from usd_ros_bridge.runtime.publications import Publication, Publications, Publish
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

    def publish(self, snapshot: Snapshot) -> bool:
        """Publish what a snapshot shows, if that is new and there are subscribers."""
        handle, encoder = self.handle, self.encoder
        if handle is None or not (self.always or handle.subscriptions()):
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
            fixed.write(values, time_ns, encoder.frame)
            handle.send(fixed.data)
        else:
            message = encoder.encode(values, time_ns)
            stamps = self.sent_stamps
            if stamps is not None and (not stamps or stamps[-1] != time_ns):
                stamps.append(time_ns)
            if type(message) is bytearray:
                handle.send(message)
            else:
                handle.publisher.publish(message)
        self.sent_ns = time_ns
        return True

    def publish_from_source(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 - for subclasses
        """Publish a message that no encoder makes. Return whether there is one."""
        return False

    def reset(self) -> None:
        """Allow the last stamp again: time starts over."""
        self.sent_ns = -1

    def make_batch(self, members: Sequence[Any], publications: Publications) -> Publish:
        """Return a function that publishes publishers with the same `batch_key` as a batch."""
        return PublisherBatch(members, publications).publish


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

    def write(self, arrays: Sequence[NDArray[np.float64]], time_ns: int) -> bytearray | None:
        """Write all messages. Return the data of the block; None if a message cannot be written.

        Args:
            arrays: Arrays of all robots.
            time_ns: Stamp, nanoseconds.
        """
        block = self.message.block
        if not block.write(arrays, self.rows, len(self.pieces), time_ns):
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
                    if each.sent_ns != time_ns and (each.always or handle.subscriptions())
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
        subscribed = None if len(wanted) == len(self._members) else set(wanted)
        for chunk in chunks:
            pieces = chunk.pieces
            if subscribed is not None:
                pieces = [each for each in pieces if each[0] in subscribed]
            data = chunk.write(arrays, time_ns) if len(pieces) > 1 else None
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
