"""Topics of transforms: the newest messages, taken when the page draws and not when they arrive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.serialization import deserialize_message

from usd_ros_bridge.model.message_types import TF_MESSAGE
from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.subscription import DirectSubscription, DirectUnavailableError
from usd_ros_bridge.runtime.inbox import make_wakeup
from usd_ros_bridge.spatial.transforms import FloatArray
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.tf_messages import TfMessageReader, TransformNames

TreeKey = tuple[int | None, str, str]
"""Domain id, topic of transforms that move, topic of those that do not."""
_STATIC_DEPTH = 100
"""A latched topic has as many messages as publishers; tf2's listeners keep as many."""
_SPARE = 4
"""Messages that are kept beside one for each robot: other nodes publish transforms, too."""


@dataclass(slots=True, eq=False)
class _Source:
    key: TreeKey
    reader: TfMessageReader
    direct: DirectSubscription | None
    entity: Any
    waiting: deque[bytes]
    depth: int
    static: bool


class TfTopics:
    """Subscriptions to transforms.

    Messages wait in the middleware until `take`: a thousand topics of 50 Hz cost only what is drawn. Messages
    older than the newest message of each robot are dropped there.
    """

    def __init__(self, graph: GraphClient) -> None:
        """Args: graph: The client whose node subscribes."""
        self._graph = graph
        self._sources: list[_Source] = []
        self._wakeup = make_wakeup()
        # Set by news about frames that do not move, which is rare: else those topics are not looked at.
        self._static_wakeup = make_wakeup()
        self._type = graph.type_of(TF_MESSAGE)

    def subscribe(self, key: TreeKey, robots: int) -> None:
        """Subscribe to a pair of topics.

        Args:
            key: Domain and topics.
            robots: How many robots use the pair: each sends a message of its own.
        """
        domain_id, moving, static = key
        # Best effort: the bridge does not wait for a page that is slow.
        qos = replace(qos_profiles.TF_QOS, reliability="best_effort", depth=robots + _SPARE)
        self._add(key, moving, qos, domain_id, static=False)
        latched = replace(qos_profiles.TF_STATIC_QOS, depth=_STATIC_DEPTH)
        self._add(key, static, latched, domain_id, static=True)

    def take(self) -> Iterator[tuple[TreeKey, TransformNames, FloatArray]]:
        """Yield what has arrived, in the order of arrival for each topic."""
        with_static = self._static_wakeup.wait(0.0)
        for source in self._sources:
            if source.static and not with_static and source.direct is not None:
                continue
            waiting = self._waiting(source)
            # Where the page is slower than the topic, older messages are not read.
            for found in source.reader.read_newest(waiting) if waiting else ():
                yield source.key, *found

    def close(self) -> None:
        """Unsubscribe. Idempotent."""
        for source in self._sources:
            if source.direct is not None:
                source.direct.close()
                self._graph.destroy(source.entity)
            else:
                self._graph.destroy(source.entity)
        self._sources.clear()

    def _waiting(self, source: _Source) -> list[bytes]:
        if source.direct is not None:
            return source.direct.take(source.depth + 1)
        messages = list(source.waiting)
        source.waiting.clear()
        return messages

    def _add(self, key: TreeKey, topic: str, qos: QosPlan, domain_id: int | None, *, static: bool) -> None:
        reader = TfMessageReader(self._read_slowly, remembered=4 * max(qos.depth, 8))
        waiting: deque[bytes] = deque(maxlen=qos.depth)
        direct: DirectSubscription | None = None
        node = self._graph.node(domain_id)
        try:
            direct = DirectSubscription(
                node,
                self._type,
                topic,
                qos_profiles.profile(qos),
                events=SubscriptionEventCallbacks(use_default_callbacks=False),
                wakeup=self._static_wakeup if static else self._wakeup,
            )
            entity = self._graph.adopt(direct.subscription, domain_id=domain_id)
        except DirectUnavailableError:
            entity = self._graph.subscribe(
                topic, TF_MESSAGE, waiting.append, qos=qos, raw=True, domain_id=domain_id
            )
        self._sources.append(_Source(key, reader, direct, entity, waiting, qos.depth, static))

    def _read_slowly(self, data: bytes) -> tuple[list[str], list[str], FloatArray]:
        message = deserialize_message(data, self._type)
        poses = np.empty((len(message.transforms), 7))
        for number, each in enumerate(message.transforms):
            t, r = each.transform.translation, each.transform.rotation
            poses[number] = t.x, t.y, t.z, r.x, r.y, r.z, r.w
        return (
            [each.child_frame_id.removeprefix("/") for each in message.transforms],
            [each.header.frame_id.removeprefix("/") for each in message.transforms],
            poses,
        )
