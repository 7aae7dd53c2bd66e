"""Watches one TF topic for other nodes that send the bridge's own frames: a frame has one parent (REP 105)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.model.plan import QosPlan
from usd_ros_bridge.ros import qos
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.tf import TfTopic
from usd_ros_bridge.ros.endpoints.tf_judge import (
    MAX_HEARD,
    Fault,
    Heard,
    OwnFrames,
    TfJudge,
    inside,
    split_frames,
)

LISTEN_S = 5.0
AGAIN_S = 60.0
"""How long after a look at foreign publishers they are looked at again: some begin late, or come to their senses."""
_ASK_EVERY = 5
_NODES_SHOWN = 5
_UNKNOWN = "_NODE_NAME_UNKNOWN_"  # What rmw says of a publisher whose node it has yet to hear of.
# A latched topic has as many messages at once as it has publishers: with a depth of 1 the last one would win.
_STATIC_QOS = QosPlan(reliability="reliable", durability="transient_local", depth=1000)
_MOVING_QOS = QosPlan(reliability="best_effort", durability="volatile", depth=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class TfFinding:
    """Something that is wrong with what reaches a TF topic.

    Attributes:
        topic: Resolved name.
        kind: As in reports: `guard`, `parents`, `loop` or `split`.
        nodes: Who publishes there beside the bridge: one of them is at fault.
        message: One line.
    """

    topic: str
    kind: str
    nodes: tuple[str, ...]
    message: str


class TopicGuard:
    """Watches one TF topic: who else publishes there and, for a few seconds now and then, what.

    Attributes:
        name: Resolved name.
        own: What the bridge itself publishes there.
        findings: What is wrong, as far as is known now.
        judge: Of its tree; None for a global topic on which the bridge sends nothing.
        other: The guard of the tree's other topic.
        split: The bridge's trees on topics of their own, by namespace, where it is such a global topic.
    """

    def __init__(self, name: str, domain: Domain, *, static: bool, report: Report) -> None:
        """Stores what to watch.

        Args:
            name: Resolved topic name.
            domain: Where.
            static: Whether it is a latched topic.
            report: For what is found, once per topic and set of nodes.
        """
        self.name = name
        self.own: tuple[TfTopic, ...] = ()
        self.findings: tuple[TfFinding, ...] = ()
        self.judge: TfJudge | None = None
        self.other: TopicGuard | None = None
        self.split: dict[str, OwnFrames] = {}
        self._domain = domain
        self._qos = _STATIC_QOS if static else _MOVING_QOS
        self._report = report
        self._foreign: dict[bytes, tuple[str, str]] = {}
        self._count = -1
        self._looks = 0
        self._subscription: Any = None
        self._again = False
        self._from = 0.0
        self._until = 0.0
        self._found: dict[str, TfFinding] = {}

    @property
    def listening(self) -> bool:
        """Whether it listens now."""
        return self._subscription is not None

    def sent(self, stamp_ns: int) -> bool:
        """Returns whether the bridge published something with that stamp there lately."""
        return any(stamp_ns in each.recent_stamps for each in self.own)

    def watch_tree(self, own: OwnFrames) -> None:
        """Has what is heard judged by what the bridge sends in a tree; anew, where that has changed."""
        if self.judge is None or self.judge.own is not own:
            self.judge = TfJudge(own, self.sent, static=self._qos is _STATIC_QOS)
        self._again = True

    def check(self, *, room: bool) -> None:
        """Looks at the graph, and begins or ends to listen; as a job of the domain.

        Args:
            room: Whether one more topic may be listened to.
        """
        now = time.monotonic()
        changed = self._look()
        if self._again or (changed and self._qos is _STATIC_QOS):
            # What is latched comes once: to be told by who is there now, it is to come again.
            self._again, self._from = False, now
            self._end()
        elif changed:
            self._from, self._until = now, now + LISTEN_S
        if not self._foreign:
            self._end()
            self.findings = ()
        elif self.listening:
            if now >= self._until:
                self._end()
                self._from = now + AGAIN_S
                self.findings = tuple(self._found.values())
        elif now >= self._from and room:
            self._begin()
            self._until = now + LISTEN_S

    def leave(self) -> None:
        """Stops listening for good, outside of callbacks of its domain."""
        self._foreign, self.findings = {}, ()
        self._domain.defer(self.close)

    def close(self) -> None:
        """Stops listening. Idempotent."""
        self._end()
        self._foreign, self.judge, self.other = {}, None, None

    def _look(self) -> bool:
        """Finds out who else publishes; returns whether somebody came or went."""
        node = self._domain.node
        # Who publishes costs far more to ask than how many do; there may be thousands of topics.
        count = node.count_publishers(self.name)
        if count <= len(self.own):
            gone, self._foreign, self._count = bool(self._foreign), {}, count
            return gone
        self._looks += 1
        if count == self._count and self._foreign and self._looks % _ASK_EVERY:
            return False
        infos = node.get_publishers_info_by_topic(self.name)
        # Who has no name yet is asked for again.
        self._count = -1 if any(each.node_name == _UNKNOWN for each in infos) else count
        foreign = self._others(infos)
        if self.judge is None:
            foreign = {gid: who for gid, who in foreign.items() if self._concerns(who[0])}
        changed = foreign.keys() != self._foreign.keys()
        if self._foreign.keys() - foreign.keys():
            # Who is left is heard anew: who has gone is not to blame any more.
            self.findings, self._again = (), True
        self._foreign = foreign
        return changed

    def _others(self, infos: Sequence[Any]) -> dict[bytes, tuple[str, str]]:
        """Returns namespace and name of those who publish beside the bridge, by endpoint.

        A publisher is told apart by its node. Where more of them have the bridge's name than the bridge itself has,
        another bridge or the host has them; which ones are whose nobody can tell.
        """
        node = self._domain.node
        me = (node.get_namespace(), node.get_name())
        named = {bytes(each.endpoint_gid): (each.node_namespace, each.node_name) for each in infos}
        known = {gid: who for gid, who in named.items() if who[1] != _UNKNOWN}
        namesakes = sum(who == me for who in known.values()) > len(self.own)
        return {gid: who for gid, who in known.items() if who != me or namesakes}

    def _concerns(self, namespace: str) -> bool:
        return namespace == "/" or any(inside(namespace, name) for name in self.split)

    def _nodes(self) -> tuple[str, ...]:
        node = self._domain.node
        me = (node.get_namespace(), node.get_name())
        return tuple(
            sorted(
                {
                    ("another " if who == me else "") + f"{who[0].rstrip('/')}/{who[1]}"
                    for who in self._foreign.values()
                }
            )
        )

    def _begin(self) -> None:
        if self.judge is not None:
            self.judge.begin()
        self._found = {}
        self._subscription = self._domain.node.create_subscription(
            TFMessage,
            self.name,
            self._receive,
            qos.profile(self._qos),
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
        )

    def _end(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self._domain.destroy(subscription)

    def _receive(self, message: Any) -> None:
        # Who sent a message cannot be asked: EventsExecutor fails on callbacks that take a MessageInfo.
        if not self._foreign:
            return
        heard = [
            Heard(
                each.child_frame_id,
                each.header.frame_id,
                each.header.stamp.sec * 1_000_000_000 + each.header.stamp.nanosec,
            )
            for each in message.transforms[:MAX_HEARD]
        ]
        judge = self.judge
        if judge is None:
            namespaces = [who[0] for who in self._foreign.values()]
            for namespace, frames in split_frames(heard, namespaces, self.split).items():
                self._tell_split(namespace, frames)
            return
        beside = self.other
        other = None if beside is None else beside.judge
        for kind in judge.hear(heard, other):
            self._tell(judge.faults[kind])

    def _senders(self, fault: Fault) -> tuple[str, ...]:
        """Returns who may be at fault: those on the tree's other topic, too, where a frame was heard there."""
        other = self.other
        if other is None or other.judge is None or not fault.frames.keys() & other.judge.heard_parents.keys():
            return self._nodes()
        return tuple(sorted({*self._nodes(), *other._nodes()}))

    def _tell(self, fault: Fault) -> None:
        nodes = self._senders(fault)
        who = _named(nodes)
        if fault.kind == "guard":
            message = (
                f"{who} publishes transforms of the bridge's own frames on {self.name}: {fault}; "
                "a frame has one parent: stop it, or see publish_tf and base_transform"
            )
            self._report(f"tf.guard:{self.name}:{who}", message)
        elif fault.kind == "parents":
            message = (
                f"frames have two parents on {self.name}: {fault}; {who} publishes there; a frame has one parent: "
                "stop one of the two, or see publish_tf, base_transform and frame_prefix"
            )
            self._report(f"tf.parents:{self.name}:{who}", message)
        else:
            message = (
                f"frames are above themselves on {self.name}: {fault}; {who} publishes there; a frame has one parent: "
                "stop one of the two"
            )
            self._report(f"tf.loop:{self.name}:{who}", message)
        self._keep(TfFinding(topic=self.name, kind=fault.kind, nodes=nodes, message=message))

    def _tell_split(self, namespace: str, frames: Iterable[str]) -> None:
        nodes = self._nodes()
        who = _named(nodes)
        told = Fault("split", dict.fromkeys(frames, ""))
        message = (
            f"{who} publishes on {self.name}, the bridge's transforms of {namespace} are on topics of their own: who "
            f"listens to one knows nothing of the other: {told}; remap {self.name} to {self.name[1:]} there, or see "
            "tf_output"
        )
        self._report(f"tf.split:{self.name}:{who}", message)
        self._keep(TfFinding(topic=self.name, kind="split", nodes=nodes, message=message))

    def _keep(self, finding: TfFinding) -> None:
        """Adds a finding to those of before, which stand until a few seconds have passed without them."""
        self._found[finding.kind] = finding
        kept = {each.kind: each for each in self.findings}
        self.findings = tuple({**kept, **self._found}.values())


def _named(nodes: Sequence[str]) -> str:
    """Return the first few nodes, and how many more there are."""
    more = f" or {len(nodes) - _NODES_SHOWN} more" if len(nodes) > _NODES_SHOWN else ""
    return " or ".join(nodes[:_NODES_SHOWN]) + more
