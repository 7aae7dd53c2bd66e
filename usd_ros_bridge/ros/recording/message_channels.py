"""Message channels: a tap whose copies go to recordings and servers of foxglove-sdk, in a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from foxglove import Channel, Context, Schema

from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.recording.message_definitions import message_definition, type_hash, type_name

MAX_WAITING_BYTES = 512 * 2**20
"""Bytes of messages that wait for the writer; 2.5 s of full HD images at 30 Hz and colour."""

GATHER_S = 0.005
"""The writer takes what has gathered in this time: it wakes up two hundred times a second at most."""

CLOSE_S = 60.0
"""Time for what waits to be written at the end, seconds."""

_INFINITE_NS = 9223372036854775807
_SECOND_NS = 1_000_000_000
_QOS_VERSION_8 = {
    "history": {"keep_last": 1, "keep_all": 2},
    "reliability": {"reliable": 1, "best_effort": 2},
    "durability": {"transient_local": 1, "volatile": 2},
}
"""Numbers of rmw's policies. Every rosbag2 reads them where a file has no metadata of rosbag2's own."""


class MessageChannels:
    """Open a channel for each topic, and hand the messages of all of them to the sinks of `context`.

    Publishing threads only copy and queue. Order is that of publishing.

    Attributes:
        context: Channels, and the sinks that get them.
        takes_all: Whether every message is wanted, as a recording does; else those that a sink subscribes to.
        time_ns: Return the time of a message that is published now, nanoseconds. None while no time is known: the
            message then gets the first one that is.
        lossless: Wait for the writer where too much waits; else drop messages.
        written: Called by the writer after each batch.
        dropped: Messages that were dropped.
        left_out: Topics whose publishers get no channel.
    """

    def __init__(self, *, takes_all: bool, lossless: bool, report: Report) -> None:
        """Store the arguments; `start` begins to write.

        Args:
            takes_all: Every message is wanted.
            lossless: Wait for the writer rather than drop messages.
            report: For messages that are dropped.
        """
        self.context = Context()
        self.takes_all = takes_all
        self.lossless = lossless
        self.time_ns: Callable[[], int | None] = lambda: 0
        self.written: Callable[[], object] = lambda: None
        self.dropped = 0
        self.left_out: frozenset[str] = frozenset()
        self._report = report
        self._topics: dict[tuple[str, int, str], _TopicChannel] = {}
        self._queue: deque[tuple[_TopicChannel, int, bytes]] = deque()
        self._undated: list[tuple[_TopicChannel, bytes]] = []
        self._lock = threading.Lock()
        self._drained = threading.Condition(self._lock)
        self._waiting_bytes = 0
        self._numbers = 0
        self._wakeup = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_left = False

    # --- For publishers ----------------------------------------------------------------------------------------

    def open_channel(
        self, *, topic: str, message_class: Any, profile: Any, domain_id: int
    ) -> ChannelFeed | None:
        """Open the channel of a publisher; publishers of one topic, type and domain share it.

        Args:
            topic: Resolved name.
            message_class: Class of the messages.
            profile: rclpy QoSProfile.
            domain_id: Domain of the publisher.
        """
        if topic in self.left_out:
            return None
        key = (topic, domain_id, type_name(message_class))
        with self._lock:
            shared = self._topics.get(key)
            if shared is None:
                shared = self._topics[key] = self._make(key, message_class, profile)
            shared.publishers += 1
        return ChannelFeed(self, shared)

    def put(self, channel: _TopicChannel, data: bytes) -> None:
        """Queue a message. Called in the tick: nothing here waits, unless `lossless` asks for it."""
        size = len(data)
        with self._lock:
            time_ns = self.time_ns()
            if time_ns is None:
                self._undated.append((channel, data))
                return
            if self._undated:
                self._date(time_ns)
            if self._waiting_bytes + size > MAX_WAITING_BYTES and not self._make_room(size):
                return
            self._waiting_bytes += size
            self._queue.append((channel, time_ns, data))
        if not self._wakeup.is_set():
            self._wakeup.set()

    def release(self, channel: _TopicChannel) -> None:
        """Release a publisher's share of a channel. The last one closes it, after its messages."""
        with self._lock:
            channel.publishers -= 1
            if not channel.publishers and self._undated:
                self._undated.append((channel, b""))
            elif not channel.publishers:
                self._queue.append((channel, 0, b""))
        self._wakeup.set()

    # --- For the owner -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the writer. Messages published before are written first, in the order of the channels.

        Latched texts are made in other threads: so their order is the same in every run.
        """
        with self._lock:
            begun = sorted(self._queue, key=lambda each: each[0].number)
            self._queue.clear()
            self._queue.extend(begun)
            self._undated.sort(key=lambda each: each[0].number)
        self._thread = threading.Thread(target=self._run, name="usd_ros_bridge-recording", daemon=True)
        self._thread.start()

    @property
    def is_writing(self) -> bool:
        """Return whether the writer's thread runs: no other one may use a sink that writes a file then."""
        return self._thread is not None

    def wake(self) -> None:
        """Have the writer call `written` soon."""
        self._wakeup.set()

    def drain(self) -> None:
        """Wait until all that was published is written."""
        with self._lock:
            self._drained.wait_for(lambda: self._closing.is_set() or not self._waiting_bytes)

    def close(self) -> bool:
        """Write what waits, and end the thread. Idempotent.

        Returns:
            Whether it has ended. It has not if the disk stands still: all that it writes to stays its own then.
        """
        with self._lock:
            if self._undated:
                # The bridge ends before its first tick.
                self._date(self.time_ns() or 0)
        self._closing.set()
        self._wakeup.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(0.0 if self._is_left else CLOSE_S)
            if thread.is_alive():
                self._is_left = True
                with self._lock:
                    self._drained.notify_all()
                return False
        self._thread = None
        with self._lock:
            topics, self._topics = self._topics, {}
            self._queue.clear()
            self._drained.notify_all()
        for each in topics.values():
            each.channel.close()
        return True

    # --- Own ---------------------------------------------------------------------------------------------------

    def _make(self, key: tuple[str, int, str], message_class: Any, profile: Any) -> _TopicChannel:
        topic, domain_id, name = key
        if any(each[0] == topic for each in self._topics):
            # A context has each topic once: that of another domain has another name.
            topic = f"/domain_{domain_id}{topic}"
        metadata = {"offered_qos_profiles": qos_profiles_text(profile), "domain_id": str(domain_id)}
        if hash_text := type_hash(message_class):
            metadata["topic_type_hash"] = hash_text
        schema = Schema(name=name, encoding="ros2msg", data=message_definition(message_class).encode())
        channel = Channel(
            topic, schema=schema, message_encoding="cdr", context=self.context, metadata=metadata
        )
        self._numbers += 1
        return _TopicChannel(key, channel, number=self._numbers)

    def _date(self, time_ns: int) -> None:
        """Queue what was published before a time was known. The lock is held."""
        undated, self._undated = self._undated, []
        for channel, data in undated:
            self._waiting_bytes += len(data)
            self._queue.append((channel, time_ns, data))

    def _make_room(self, size: int) -> bool:
        """Wait until a message has room, or count it as dropped. The lock is held."""
        if self.lossless:
            self._drained.wait_for(
                lambda: (
                    self._closing.is_set()
                    or not self._waiting_bytes
                    or self._waiting_bytes + size <= MAX_WAITING_BYTES
                )
            )
            return True
        self.dropped += 1
        self._report(
            "recording.behind",
            f"recording cannot keep up: more than {MAX_WAITING_BYTES // 2**20} MiB wait to be written, and messages "
            "are left out",
        )
        return False

    def _run(self) -> None:
        while True:
            self._wakeup.wait()
            self._closing.wait(GATHER_S)
            ending = self._closing.is_set()
            self._wakeup.clear()
            self._write_queued()
            if ending:
                return

    def _write_queued(self) -> None:
        queue = self._queue
        size = 0
        for _ in range(len(queue)):
            each, time_ns, data = queue.popleft()
            if data:
                self._log(each.channel, data, time_ns)
                size += len(data)
            else:
                self._close_unused(each)
            if size > _SHARE_BYTES:
                self._free(size)
                size = 0
        self._free(size)
        try:
            self.written()
        except Exception as error:  # noqa: BLE001 - the messages after it are to be written
            self._report("recording.write", f"the recording has a fault: {describe(error)}")

    def _log(self, channel: Any, data: bytes, time_ns: int) -> None:
        try:
            # A file has no times before 0, as of a simulator that warms up.
            channel.log(data, log_time=max(time_ns, 0))
        except Exception as error:  # noqa: BLE001 - the messages after it are to be written
            self._report("recording.write", f"a message is not recorded: {describe(error)}")

    def _close_unused(self, channel: _TopicChannel) -> None:
        with self._lock:
            # Another publisher may have come meanwhile.
            unused = not channel.publishers and self._topics.pop(channel.key, None) is not None
        if unused:
            channel.channel.close()

    def _free(self, size: int) -> None:
        with self._lock:
            self._waiting_bytes -= size
            self._drained.notify_all()


_SHARE_BYTES = 2**20


class _TopicChannel:
    """The channel of a topic, shared by its publishers."""

    __slots__ = ("channel", "key", "number", "publishers")

    def __init__(self, key: tuple[str, int, str], channel: Channel, *, number: int) -> None:
        self.key = key
        self.channel = channel
        self.number = number
        self.publishers = 0


class ChannelFeed:
    """The `TapChannel` of one publisher."""

    __slots__ = ("_channel", "_channels", "_closed", "is_wanted", "takes_all")

    def __init__(self, channels: MessageChannels, channel: _TopicChannel) -> None:
        """Args: channels: All channels. channel: That of the publisher's topic."""
        self._channels = channels
        self._channel = channel
        self._closed = False
        self.takes_all = channels.takes_all
        self.is_wanted: Callable[[], bool] = channel.channel.has_sinks

    @property
    def topic(self) -> str:
        """Name of the channel: that of the topic, or one that tells domains apart."""
        return str(self._channel.channel.topic())

    def write(self, data: bytes | bytearray) -> None:
        """Copy a serialized message."""
        self._channels.put(self._channel, bytes(data))

    def close(self) -> None:
        """Release the channel. Idempotent."""
        if not self._closed:
            self._closed = True
            self._channels.release(self._channel)


def qos_profiles_text(profile: Any) -> str:
    """Return a QoS profile as rosbag2 keeps it in the metadata of a channel (YAML, version 8 of its metadata)."""
    lines = [
        f"history: {_policy(profile, 'history')}",
        f"depth: {profile.depth}",
        f"reliability: {_policy(profile, 'reliability')}",
        f"durability: {_policy(profile, 'durability')}",
        *_duration("deadline", profile.deadline),
        *_duration("lifespan", profile.lifespan),
        "liveliness: 1",
        *_duration("liveliness_lease_duration", profile.liveliness_lease_duration),
        "avoid_ros_namespace_conventions: false",
    ]
    return "\n".join(("- " if not number else "  ") + line for number, line in enumerate(lines)) + "\n"


def _policy(profile: Any, name: str) -> int:
    return _QOS_VERSION_8[name].get(getattr(profile, name).name.lower(), 0)


def _duration(name: str, duration: Any) -> list[str]:
    # What a profile leaves open is infinite to the middleware.
    seconds, nanoseconds = divmod(int(duration.nanoseconds) or _INFINITE_NS, _SECOND_NS)
    return [f"{name}:", f"  sec: {seconds}", f"  nsec: {nanoseconds}"]
