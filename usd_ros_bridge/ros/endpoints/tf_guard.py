"""Finds other nodes that publish transforms of the bridge's own frames: a frame has one parent (REP 105)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.ros import qos
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.tf import TfTopic
from usd_ros_bridge.runtime.snapshot import Snapshot

CHECK_RATE = 0.5
LISTEN_S = 5.0
_UNKNOWN = "_NODE_NAME_UNKNOWN_"  # What rmw says of a publisher whose node it has yet to hear of.


class TfGuard:
    """Watches one TF topic. An `Emitter` for the runtime, which only gives it its turn.

    It looks at the graph, and listens to the topic for a few seconds when a publisher appears that is not the
    bridge's own: decoding all of /tf all the time would cost more than sending it.
    """

    def __init__(self, name: str, domain: Domain, *, static: bool, report: Report) -> None:
        """Stores what to watch.

        Args:
            name: Absolute topic name.
            domain: Where.
            static: Whether it is a latched topic.
            report: For what is found, once per topic and set of nodes.
        """
        self._name = name
        self._domain = domain
        self._qos = qos.TF_STATIC_QOS if static else qos.TF_QOS
        self._report = report
        self._parents: dict[str, str] = {}
        self._own: TfTopic | None = None
        self._resolved = ""
        self._seen: set[tuple[str, int]] = set()
        self._foreign: dict[bytes, str] = {}
        self._subscription: Any = None
        self._until = 0.0
        self._closed = False

    def add_frames(self, parents: Mapping[str, str], own: TfTopic | None) -> None:
        """Adds frames of the bridge's own.

        Args:
            parents: Parent by child frame id, as they are sent.
            own: What the bridge sends on this topic, where it sends anything.
        """
        self._parents.update(parents)
        self._own = own or self._own

    def emit(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 - Emitter
        """Has the graph looked at soon, outside of the tick; that was its turn."""
        self._domain.defer(self._check, urgent=False)
        return False

    def close(self) -> None:
        """Stops listening. Idempotent."""
        self._closed = True
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self._domain.node.destroy_subscription(subscription)

    def _check(self) -> None:
        if self._closed:
            return
        node = self._domain.node
        name = self._resolved = self._resolved or node.resolve_topic_name(self._name)
        # Who publishes costs a hundred times as much to ask as how many do; there may be thousands of topics.
        if not self._foreign and node.count_publishers(name) <= (self._own is not None):
            return
        me = (node.get_name(), node.get_namespace())
        foreign = {
            bytes(info.endpoint_gid): f"{info.node_namespace.rstrip('/')}/{info.node_name}"
            for info in node.get_publishers_info_by_topic(name)
            if (info.node_name, info.node_namespace) != me and info.node_name != _UNKNOWN
        }
        if foreign.keys() - self._foreign.keys():
            self._until = time.monotonic() + LISTEN_S
            self._seen.clear()
        self._foreign = foreign
        listen = bool(foreign) and time.monotonic() < self._until
        if listen and self._subscription is None:
            self._subscription = node.create_subscription(
                TFMessage,
                self._name,
                self._receive,
                qos.profile(self._qos),
                event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
            )
        elif not listen and self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            node.destroy_subscription(subscription)

    def _receive(self, message: Any) -> None:
        # Who sent a message cannot be asked: EventsExecutor fails on callbacks that take a MessageInfo.
        shared = sorted({each.child_frame_id for each in message.transforms if self._is_foreign(each)})
        if shared and self._foreign:
            nodes = " or ".join(sorted(set(self._foreign.values())))
            names = ", ".join(shared[:5]) + (" and more" if len(shared) > 5 else "")
            self._report(
                f"tf.guard:{self._name}:{nodes}",
                f"{nodes} publishes transforms of the bridge's own frames on {self._name}: {names}; "
                "a frame has one parent: stop it, or see publish_tf and base_transform",
            )

    def _is_foreign(self, transform: Any) -> bool:
        """Tells by what the bridge sends itself: another parent, a stamp that it never sent, or a stamp twice."""
        child = transform.child_frame_id
        parent = self._parents.get(child)
        if parent is None:
            return False
        key = (child, transform.header.stamp.sec * 1_000_000_000 + transform.header.stamp.nanosec)
        again = key in self._seen
        self._seen.add(key)
        sent = self._own is not None and key[1] in self._own.recent_stamps
        return again or not sent or transform.header.frame_id != parent
