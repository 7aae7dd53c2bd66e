"""Topic subscription: decode and deliver, and adapt the QoS to the publishers that it meets.

A direct subscription wakes the loop's thread, which takes the serialized messages itself. An executor would wake a
thread of its own, which would hand the message over: 35 to 50 us more for every message. The middleware's new-message
callback is libc's `eventfd_write` itself: its signature, `int (int fd, uint64 value)`, is that of the callback,
`void (const void * user_data, size_t number_of_events)`, where the calling convention passes both arguments in
registers (x86-64, AArch64), so that no Python runs, and no GIL is taken, in the middleware's thread. Everything else
of the subscription (remaps, QoS events, counts) is rclpy's, and its node's executor continues to serve its QoS events.
Whatever is missing for that raises `DirectUnavailableError`: the caller subscribes as usual.
"""

from __future__ import annotations

import ctypes
import platform
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.subscription import Subscription
from rclpy.type_support import check_is_valid_msg_type

from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.codecs.encoding import MessageCodec
from usd_ros_bridge.ros.compat import policy_name, publisher_count
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints import qos_profiles as quality
from usd_ros_bridge.ros.endpoints.handlers import MessageFeed
from usd_ros_bridge.runtime.inbox import Wakeup
from usd_ros_bridge.runtime.schedule import RateMeter
from usd_ros_bridge.runtime.subscriptions import InputBinding, SinkStatus

_GRAPH_LAG_S = 1.0
"""How long the graph may know fewer publishers than are matched."""
_MACHINES = frozenset({"x86_64", "aarch64"})


class DirectUnavailableError(Exception):
    """This rclpy, middleware or system does not offer what a direct subscription needs."""


class DirectSubscription:
    """A subscription outside of the executor: a message sets the wake-up, and `take` takes it.

    Attributes:
        subscription: rclpy's, for its name and counts.
        message_class: Class of the type.
    """

    def __init__(
        self, node: Any, message_class: Any, name: str, profile: Any, *, events: Any, wakeup: Wakeup
    ) -> None:
        """Subscribe.

        Args:
            node: In whose name; its executor serves the QoS events.
            message_class: Class of the type.
            name: Topic name; the node's remap rules apply.
            profile: An rclpy QoSProfile.
            events: SubscriptionEventCallbacks.
            wakeup: Set when a message arrives.

        Raises:
            DirectUnavailableError: It cannot be done this way; nothing is left behind.
        """
        set_callback, write = _functions()
        if wakeup.fd is None:
            raise DirectUnavailableError("the loop waits on no file descriptor")
        self.message_class = message_class
        # The descriptor outlives the last write.
        self._wakeup = wakeup
        self._set_callback = set_callback
        handle: Any = None
        try:
            check_is_valid_msg_type(message_class)
            with node.handle:
                handle = rclpy_implementation.Subscription(
                    node.handle, message_class, name, profile.get_c_qos_profile()
                )
            self._handle: Any = handle
            self.subscription: Any = Subscription(
                handle,
                message_class,
                name,
                _never,
                node.default_callback_group,
                profile,
                True,
                event_callbacks=events,
            )
            self._install(write, wakeup.fd)
        except Exception as error:
            # A wrong name or profile fails the usual way, too, with the error that people know.
            if handle is not None:
                handle.destroy_when_not_in_use()
            raise DirectUnavailableError(str(error)) from error
        for handler in self.subscription.event_handlers:
            node.add_waitable(handler)

    @property
    def handle(self) -> Any:
        """Return rclpy's handle: enter it, and `take_message(message_class, True)` takes one message or None.

        None if the subscription is gone.
        """
        return self._handle

    def take(self, limit: int) -> list[bytes]:
        """Return the bytes of messages that wait, none where the subscription is gone.

        Args:
            limit: How many at most; where there may be more, the wake-up is set again.
        """
        handle, message_class = self._handle, self.message_class
        messages: list[bytes] = []
        if handle is None:
            return messages
        try:
            with handle:
                while len(messages) < limit:
                    taken = handle.take_message(message_class, True)
                    if taken is None:
                        return messages
                    messages.append(taken[0])
        except InvalidHandle:
            return messages
        self._wakeup.set()
        return messages

    def close(self) -> None:
        """End the wake-ups; the subscription is the caller's to destroy. Idempotent, also while a thread takes."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(InvalidHandle):
                self._install(None, None, handle)

    def _install(self, function: int | None, fd: int | None, handle: Any = None) -> None:
        handle = handle or self._handle
        # rcl holds a lock while it replaces the callback: none is running any more when this returns.
        with handle:
            code = self._set_callback(handle.pointer, function, fd)
        if code != 0:
            raise DirectUnavailableError(f"the middleware takes no new-message callback ({code})")


def _never(_: Any) -> None:
    raise AssertionError("no executor takes from this subscription")


@lru_cache(maxsize=1)
def _functions() -> tuple[Any, int]:
    """Return rcl_subscription_set_on_new_message_callback, and the address of eventfd_write."""
    if platform.machine() not in _MACHINES:
        raise DirectUnavailableError(f"not known to work on {platform.machine()}")
    try:
        # Both are loaded already, by rclpy and by Python.
        set_callback = ctypes.CDLL("librcl.so").rcl_subscription_set_on_new_message_callback
        write = ctypes.cast(ctypes.CDLL(None).eventfd_write, ctypes.c_void_p).value
    except (OSError, AttributeError) as error:
        raise DirectUnavailableError(str(error)) from error
    set_callback.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    set_callback.restype = ctypes.c_int
    assert write is not None
    return set_callback, write


Deliver = Callable[[object], None]


class TopicSubscription:
    """Subscribe to one topic.

    A reliable subscription would receive nothing from a best-effort publisher: it is made again as best effort. With
    `match_publisher` it starts with the weakest request, which fits all, and is made again with the strongest that all
    discovered publishers fit, whenever they change. Both happen outside of callbacks, as jobs of the domain.

    Messages come serialized, through the executor, whose thread reads and delivers them; or, with `direct` set
    and all that is needed is there, straight to the loop's thread, which takes and reads them in its tick.
    """

    def __init__(
        self,
        *,
        path: str,
        name: str,
        type_name: str,
        message_class: Any,
        domain: Domain,
        qos: QosPlan,
        codec: MessageCodec | None,
        deliver: Deliver,
        direct: InputBinding | None = None,
        feed: MessageFeed | None = None,
        reason: str = "",
        report: Report,
        inform: Report,
    ) -> None:
        """Store what to listen to; `open` creates the subscription.

        Args:
            path: Prim path, "" for what the backend needs.
            name: Absolute topic name.
            type_name: Its type.
            message_class: Class of the type.
            domain: Where it lives.
            qos: What to ask for.
            codec: Decodes messages; None counts them without deserializing.
            deliver: Takes samples, from the executor's thread.
            direct: Binding that polls the subscription in each tick instead; None: through the executor.
            feed: Takes messages first, where a handler is bound; None where none can be.
            reason: Why nothing takes them, "" where something does.
            report: For faults.
            inform: For changes that people should see.
        """
        self.path = path
        self.name = name
        self.reason = reason
        self._type_name = type_name
        self._class = message_class
        self._domain = domain
        self._requested_qos = qos
        self._qos = quality.permissive(qos) if qos.match_publisher else qos
        self._read = None if codec is None else codec.make_reader(message_class)
        self._deliver = deliver
        self._binding = direct if direct is not None and domain.threaded else None
        self._direct: DirectSubscription | None = None
        self._latest = b""
        self._returned: list[bytes] = []
        self._feed = feed
        self._report = report
        self._inform = inform
        self._lock = threading.Lock()
        self._subscription: Any = None
        self._closed = False
        self._match_until = 0.0
        self._meter = RateMeter()
        self._errors = 0
        self._last_error = ""

    @property
    def qos(self) -> QosPlan:
        """Return the QoS that is requested now."""
        return self._qos

    def open(self) -> None:
        """Create the subscription, through the node so that remap rules apply."""
        with self._lock:
            self._create()
        if self._binding is not None:
            self._binding.attach(self.poll)

    def update(self, codec: MessageCodec | None, reason: str) -> None:
        """Use another decoder for the same binding."""
        if (codec is None) != (self._read is None):
            self._read = None if codec is None else codec.make_reader(self._class)
        self.reason = reason

    def close(self) -> None:
        """Destroy the subscription. Idempotent."""
        if self._binding is not None:
            self._binding.detach(self.poll)
        with self._lock:
            self._closed = True
            self._destroy()

    @property
    def direct(self) -> DirectSubscription | None:
        """Return that of which the loop's thread takes the messages itself; None: an executor does."""
        return self._direct

    def poll(self, limit: int) -> list[object]:
        """Return samples of a direct subscription, `limit` at most; in the tick's thread."""
        direct, samples = self._direct, []
        if direct is not None:
            taken = direct.take(limit)
            if self._returned:
                taken, self._returned = self._returned + taken, []
            for data in taken:
                sample = self.decode(data)
                if sample is not None:
                    samples.append(sample)
            if taken:
                self._latest = taken[-1]
        return samples

    @property
    def latest(self) -> bytes:
        """Return the last message that `poll` took, empty before the first."""
        return self._latest

    def give_back(self, data: bytes) -> None:
        """Leave a message that was taken from the direct subscription to the next `poll`; in the tick's thread."""
        self._returned.append(data)

    def decode(self, data: bytes, messages: int = 1) -> object | None:
        """Count messages and decode the last of them; None, with a report, if it is faulty.

        Args:
            data: The last message.
            messages: How many there were.
        """
        self._meter.mark(time.monotonic_ns(), messages)
        if self._closed or self._read is None:
            return None
        try:
            return self._read(data)
        except Exception as error:  # noqa: BLE001 - an exception here would end the executor's turn, or the tick
            self._errors += 1
            self._last_error = describe(error)
            self._report(f"decode:{self.name}", f"{self._where}: a message was dropped: {self._last_error}")
            return None

    def status(self, taken: SinkStatus | None = None) -> InterfaceStatus:
        """Return a row; `taken` holds the runtime's counters of what takes the samples."""
        # The domain's thread may be making the subscription anew.
        with self._lock:
            subscription = self._subscription
            name = subscription.topic_name if subscription else self.name
            matched = publisher_count(self._domain.node, subscription) if subscription else 0
        rate = self._meter.rate(time.monotonic_ns())
        feed = self._feed
        bound = None if feed is None else feed.bound
        reason = self.reason if bound is None else ""
        return InterfaceStatus(
            kind="topic",
            role="subscription",
            path=self.path,
            name=name,
            type=self._type_name,
            domain_id=self._domain.domain_id,
            achieved_rate=rate,
            matched=matched,
            count=self._meter.count,
            errors=self._errors
            + (0 if feed is None else feed.errors)
            + (0 if taken is None else taken.errors),
            last_error=self._last_error
            or ("" if feed is None else feed.last_error)
            or ("" if taken is None else taken.last_error),
            dropped=(0 if feed is None else feed.dropped) + (0 if taken is None else taken.dropped),
            state="silent" if reason else "active" if rate > 0.0 else "idle",
            reason=reason,
            served_by="" if bound is None else bound.owner,
            qos=self._requested_qos,
        )

    def _create(self) -> None:
        callbacks = SubscriptionEventCallbacks(
            incompatible_qos=self._on_incompatible,
            matched=self._on_matched if self._requested_qos.match_publisher else None,
            use_default_callbacks=False,
        )
        profile = quality.profile(self._qos)
        if self._binding is not None:
            try:
                self._direct = DirectSubscription(
                    self._domain.node,
                    self._class,
                    self.name,
                    profile,
                    events=callbacks,
                    wakeup=self._binding.wakeup,
                )
            except DirectUnavailableError:
                self._direct = None
            else:
                self._subscription = self._direct.subscription
                return
        self._subscription = self._domain.node.create_subscription(
            self._class, self.name, self._receive, profile, event_callbacks=callbacks, raw=True
        )

    def _destroy(self) -> None:
        subscription, self._subscription = self._subscription, None
        direct, self._direct = self._direct, None
        if direct is not None:
            direct.close()
        if subscription is not None:
            self._domain.destroy(subscription)

    def _receive(self, data: bytes) -> None:
        feed = self._feed
        if feed is not None and not self._closed and feed.put(data):
            self._meter.mark(time.monotonic_ns())
            return
        sample = self.decode(data)
        if sample is not None:
            self._deliver(sample)

    @property
    def _where(self) -> str:
        return f"{self.path} ({self.name})" if self.path else self.name

    def _on_matched(self, _: Any) -> None:
        self._match_until = time.monotonic() + _GRAPH_LAG_S
        self._domain.defer(self._match)

    def _on_incompatible(self, event: Any) -> None:
        policy = policy_name(event.last_policy_kind)
        if self._requested_qos.match_publisher:
            self._domain.defer(self._match)
        elif policy == "reliability" and self._requested_qos.reliability == "reliable":
            self._domain.defer(self._relax)
        else:
            self._report(
                f"qos.subscription:{self.name}:{policy}",
                f"{self._where}: a publisher offers another {policy} than the subscription asks for "
                f"(reliability {self._qos.reliability}, durability {self._qos.durability}): nothing comes from it",
            )

    def _relax(self) -> None:
        if self._qos.reliability == "reliable":
            self._change(replace(self._qos, reliability="best_effort"), "a publisher there offers no more")

    def _match(self) -> None:
        subscription = self._subscription
        if subscription is None:
            return
        found = self._domain.node.get_publishers_info_by_topic(subscription.topic_name)
        if len(found) < subscription.get_publisher_count() and time.monotonic() < self._match_until:
            # The graph is a moment behind the connection: look again. Longer, and the count is wrong for good.
            self._domain.defer(self._match, urgent=False)
            return
        self._change(
            quality.matching(self._requested_qos, (info.qos_profile for info in found)),
            "to match its publishers",
        )

    def _change(self, wanted: QosPlan, why: str) -> None:
        with self._lock:
            if self._closed or wanted == self._qos:
                return
            self._destroy()
            self._qos = wanted
            self._create()
        requested = f"{wanted.reliability.replace('_', ' ')}, {wanted.durability.replace('_', ' ')}"
        self._inform(f"qos.changed:{self.name}", f"{self._where}: subscribes as {requested} now, {why}")
