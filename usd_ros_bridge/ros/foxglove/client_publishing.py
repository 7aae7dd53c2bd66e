"""Client publishing: messages from clients of the server, sent to topics as any other ROS 2 node would send them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from rclpy.event_handler import PublisherEventCallbacks
from rclpy.serialization import deserialize_message

from usd_ros_bridge.errors import BridgeError, quoted
from usd_ros_bridge.model.message_types import CLOCK, is_of_simulation
from usd_ros_bridge.model.plan import BridgePlan, QosPlan, TopicPlan
from usd_ros_bridge.planning import names
from usd_ros_bridge.reporting import describe
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.foxglove.json_fields import fields_from_json
from usd_ros_bridge.ros.interface_types import (
    AmentCatalog,
    InterfaceTypeError,
    import_interface,
    make_message,
)
from usd_ros_bridge.ros.workers import Workers

ENCODINGS: Final = ("cdr", "json")

MAX_PUBLISHERS: Final = 100
"""Publishers of one client."""

MAX_RATE: Final = 1000
"""Messages a second of one publisher; the others are dropped."""

MAX_BYTES: Final = 2**24
"""Size of a message."""

_MAX_WAITING = 20
"""Messages that wait for their publisher; the newest win."""

_MATCH_S, _LOOK_S = 1.0, 0.02
"""How long the first messages wait for a subscription to be discovered, and how often it is searched, seconds."""

_SLOW_DOWN_S = 0.005
"""How long a message beyond the rate holds up its client, seconds: each message that is read takes Python's global
lock from the ticks."""

_OWN = frozenset({"/rosout", "/parameter_events"})
"""Topics that every node publishes."""

_QOS = QosPlan(reliability="reliable", durability="volatile", depth=10)

Notify = Callable[[str, str], object]
"""`notify(id, message)`: show clients a warning, which replaces that of the same id."""


class ClientPublishers:
    """Publishers of clients. Methods for clients may be called from any thread.

    A publisher is created and destroyed in the thread of its domain. Its first messages wait until a subscription is
    discovered, so that a single one is not lost.
    """

    def __init__(
        self,
        domains: Domains,
        *,
        plan: Callable[[], BridgePlan],
        is_own: Callable[[str, int], bool],
        workers: Workers,
        notify: Notify,
    ) -> None:
        """Store the arguments.

        Args:
            domains: Domains of the topics.
            plan: Return the plan in use: its subscriptions give a topic's domain, type and QoS.
            is_own: `is_own(topic, domain_id)`: whether the bridge publishes a topic.
            workers: Look for subscriptions after a time.
            notify: For messages that cannot be published.
        """
        self._domains = domains
        self._plan = plan
        self._is_own = is_own
        self._workers = workers
        self._notify = notify
        self._catalog = AmentCatalog()
        self._lock = threading.Lock()
        self._publishers: dict[tuple[int, int], ClientPublisher] = {}
        self._closed = False

    def advertise(self, client: int, channel: int, *, topic: str, encoding: str, type_name: str) -> None:
        """Prepare to publish a client's messages.

        Args:
            client: Number of the client.
            channel: Number of the channel, given by the client.
            topic: Absolute name.
            encoding: Encoding of the messages.
            type_name: As `geometry_msgs/msg/Twist`, or without `msg`.
        """
        if type_name.count("/") == 1:
            type_name = type_name.replace("/", "/msg/")
        with self._lock:
            count = sum(1 for number, _ in self._publishers if number == client)
            if self._closed or (client, channel) in self._publishers:
                return
            publisher = ClientPublisher(topic, encoding, type_name, notify=self._notify)
            if count >= MAX_PUBLISHERS:
                publisher.refuse(f"a client has {MAX_PUBLISHERS} topics at most")
                return
            self._publishers[client, channel] = publisher
        self._domains.main.defer(partial(self._open, publisher))

    def unadvertise(self, client: int, channel: int) -> None:
        """End a publisher: its client does not need it any more, or has left."""
        with self._lock:
            publisher = self._publishers.pop((client, channel), None)
        if publisher is not None:
            self._domains.main.defer(publisher.close)

    def receive(self, client: int, channel: int, data: bytes) -> None:
        """Publish a message of a client."""
        publisher = self._publishers.get((client, channel))
        if publisher is not None:
            publisher.receive(data)

    def close(self) -> None:
        """Destroy all publishers. Idempotent."""
        with self._lock:
            self._closed = True
            publishers, self._publishers = tuple(self._publishers.values()), {}
        for publisher in publishers:
            publisher.close()

    # --- Own ---------------------------------------------------------------------------------------------------

    def _open(self, publisher: ClientPublisher) -> None:
        """Create a publisher, in the thread of the main domain."""
        try:
            domain, message_class, qos = self._resolve(publisher)
            publisher.open(domain, message_class, qos)
        except (BridgeError, InterfaceTypeError) as error:
            publisher.refuse(str(error))
            return
        except Exception as error:  # noqa: BLE001 - rclpy's own errors: a client is told of them
            publisher.refuse(f"it cannot be published: {describe(error)}")
            return
        self._send_first(publisher, time.monotonic() + _MATCH_S)

    def _send_first(self, publisher: ClientPublisher, deadline: float) -> None:
        """Publish what waits as soon as somebody listens."""
        if not publisher.is_matched() and time.monotonic() < deadline and not self._closed:
            self._workers.call_later(_LOOK_S, partial(self._send_first, publisher, deadline))
        else:
            publisher.begin()

    def _resolve(self, publisher: ClientPublisher) -> tuple[Domain, Any, QosPlan]:
        """Return the domain of a topic, its message class and its QoS.

        Raises:
            BridgeError: Clients may not publish it.
            InterfaceTypeError: The type is not installed.
        """
        topic, type_name = publisher.topic, publisher.type_name
        fault = names.name_fault(topic) or names.resolved_fault(topic, "topic")
        if not fault and not topic.startswith("/"):
            fault = f"is no absolute name: write /{topic}"
        if not fault and "/_" in topic:
            fault = "is a hidden name of ROS 2's own"
        if fault:
            raise BridgeError(f"the name {quoted(topic)} {fault}")
        fault, remedy = names.type_fault(type_name, "topic")
        if fault:
            raise BridgeError(f"the type {quoted(type_name)} {fault}; {remedy}")
        if publisher.encoding not in ENCODINGS:
            raise BridgeError(
                f"the encoding {quoted(publisher.encoding)} is not known: use {' or '.join(ENCODINGS)}"
            )
        if topic == "/clock" or type_name == CLOCK or is_of_simulation(type_name):
            raise BridgeError(
                f"{topic} ({type_name}) is an interface of the simulator: clients do not publish it"
            )
        planned = self._subscription(topic)
        domain = self._domains.get(None if planned is None else planned.domain_id)
        resolved = domain.resolve(topic)
        if resolved in _OWN or self._is_own(resolved, domain.domain_id):
            raise BridgeError(f"the bridge itself publishes {resolved}")
        if planned is not None and planned.type != type_name:
            raise BridgeError(f"{topic} has the type {planned.type} here, not {type_name}")
        durability = "volatile" if planned is None else planned.qos.durability
        qos = QosPlan(reliability=_QOS.reliability, durability=durability, depth=_QOS.depth)
        return domain, import_interface(type_name, self._catalog), qos

    def _subscription(self, topic: str) -> TopicPlan | None:
        for each in self._plan().topics:
            if each.enabled and each.role == "subscription":
                domain = self._domains.get(each.domain_id)
                if domain.resolve(each.name) == topic:
                    return each
        return None


class ClientPublisher:
    """Publisher of one topic for one client.

    Attributes:
        topic: Name of the topic, as the client gave it.
        encoding: Encoding of the client's messages.
        type_name: Type of the messages.
    """

    def __init__(self, topic: str, encoding: str, type_name: str, *, notify: Notify) -> None:
        """Args: topic, encoding, type_name: As the client gave them. notify: For messages that cannot be published."""
        self.topic = topic
        self.encoding = encoding
        self.type_name = type_name
        self._notify = notify
        self._lock = threading.Lock()
        self._waiting: deque[bytes] | None = deque(maxlen=_MAX_WAITING)
        self._domain: Domain | None = None
        self._class: Any = None
        self._publisher: Any = None
        self._refused = False
        self._closed = False
        self._tokens, self._filled_s = float(MAX_RATE), time.monotonic()

    def open(self, domain: Domain, message_class: Any, qos: QosPlan) -> None:
        """Create the rclpy publisher, in the thread of the main domain."""
        with self._lock:
            if self._closed:
                return
            self._domain, self._class = domain, message_class
            self._publisher = domain.node.create_publisher(
                message_class,
                self.topic,
                qos_profiles.profile(qos),
                event_callbacks=PublisherEventCallbacks(use_default_callbacks=False),
            )

    def is_matched(self) -> bool:
        """Return whether a subscription is discovered, or nothing waits for one any more."""
        with self._lock:
            return self._publisher is None or self._publisher.get_subscription_count() > 0

    def begin(self) -> None:
        """Publish what waits, and from here on each message when it arrives."""
        with self._lock:
            waiting, self._waiting = self._waiting or (), None
            for data in waiting:
                self._publish(data)

    def receive(self, data: bytes) -> None:
        """Publish a message, or drop it with a warning."""
        if self._refused:
            return
        if not self._is_allowed():
            self._warn(f"more than {MAX_RATE} messages a second: the others are dropped")
            time.sleep(_SLOW_DOWN_S)
            return
        if len(data) > MAX_BYTES:
            self._warn(f"a message of {len(data)} bytes was dropped: {MAX_BYTES} are possible")
            return
        with self._lock:
            if self._waiting is None:
                self._publish(data)
            else:
                self._waiting.append(data)

    def refuse(self, reason: str) -> None:
        """Drop all messages, and notify clients why."""
        with self._lock:
            self._refused = True
            self._waiting = None
        self._warn(f"nothing is published: {reason}")

    def close(self) -> None:
        """Destroy the rclpy publisher. Idempotent."""
        with self._lock:
            self._closed = self._refused = True
            publisher, self._publisher = self._publisher, None
            domain, self._waiting = self._domain, None
        if publisher is not None and domain is not None:
            domain.destroy(publisher)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _publish(self, data: bytes) -> None:
        """Publish a message, if it is one of the type. The lock is held."""
        if self._publisher is None:
            return
        try:
            message = self._decode(data)
        except Exception as error:  # noqa: BLE001 - bytes from a network; rclpy raises what it likes
            self._warn(
                f"a message cannot be read: {error if isinstance(error, BridgeError) else describe(error)}"
            )
            return
        try:
            # Not the client's bytes: other nodes get what rclpy has read and written.
            self._publisher.publish(message)
        except Exception as error:  # noqa: BLE001 - its context may have ended
            self._warn(f"a message cannot be published: {describe(error)}")

    def _decode(self, data: bytes) -> Any:
        if self.encoding == "json":
            return make_message(self._class, fields_from_json(self._class, data))
        if len(data) < 4 or data[:2] not in (b"\0\0", b"\0\1"):
            raise BridgeError("it does not begin as CDR does")
        return deserialize_message(data, self._class)

    def _is_allowed(self) -> bool:
        now = time.monotonic()
        self._tokens = min(MAX_RATE, self._tokens + (now - self._filled_s) * MAX_RATE)
        self._filled_s = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _warn(self, message: str) -> None:
        self._notify(f"publish:{self.topic}", f"{quoted(self.topic)}: {message}")
