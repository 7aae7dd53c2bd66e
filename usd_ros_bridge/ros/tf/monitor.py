"""Monitor TF topics: a frame has one parent and one sender (REP 105); foreign senders are reported."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, Protocol

from rclpy.event_handler import SubscriptionEventCallbacks
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.plan import QosPlan, TfOutput
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.snapshot import Snapshot

FaultKind = Literal["guard", "parents", "loop", "split"]

_SHOWN = 5
MAX_RECEIVED = 10_000
"""Foreign frames that are remembered while a topic is subscribed to, and transforms of a message that are judged.
Only a sender that makes up names has more."""
MAX_FAULTS = 100
"""Frames of a fault that are remembered."""
_MAX_SEEN = 100_000
MAX_PARENTS = 5
"""Parents of a foreign frame that are remembered."""
_TURNS = 2
"""A frame may be handed from one parent to another; it goes back and forth where two nodes disagree."""


class SentTopic(Protocol):
    """A publisher of the bridge on a TF topic."""

    @property
    def name(self) -> str:
        """Absolute topic name."""
        ...

    @property
    def recent_stamps(self) -> Collection[int]:
        """Stamps of its last messages, nanoseconds."""
        ...


@dataclass(frozen=True, slots=True)
class ReceivedTransform:
    """One transform that came by a topic.

    Attributes:
        child: Its child frame id.
        parent: Its parent's.
        stamp_ns: Its stamp, nanoseconds.
    """

    child: str
    parent: str
    stamp_ns: int


@dataclass(slots=True)
class OwnFrames:
    """The frames that the bridge sends in one TF tree: on a topic for what moves and one for what is static.

    Attributes:
        parents: Parent by child frame id, as they are sent.
        before: The same before the last change of the bridge: what was on its way then is no fault.
        roots: The frames that no other is above.
    """

    parents: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    roots: frozenset[str] = frozenset()

    def update(self, parents: Mapping[str, str]) -> bool:
        """Set the frames that are sent from now on. Return whether they differ."""
        if parents == self.parents:
            return False
        self.before, self.parents = self.parents, parents
        self.roots = frozenset(parents.values()) - parents.keys()
        return True

    def was_sent(self, child: str, parent: str) -> bool:
        """Return whether the bridge sent this transform before its last change."""
        return self.before.get(child) == parent

    def above(self, frame: str, wanted: str) -> bool:
        """Return whether `wanted` is `frame` or above it."""
        for _ in range(len(self.parents) + 1):
            if frame == wanted:
                return True
            if (parent := self.parents.get(frame)) is None:
                return False
            frame = parent
        return False


@dataclass(slots=True)
class TfFault:
    """A fault of one kind on a topic.

    Attributes:
        kind: What: `guard` (another sender of own frames), `parents` (two parents of a frame), `loop` or `split` (a
            frame is known on two topics that do not meet).
        frames: The frames, each with what is wrong about it.
    """

    kind: FaultKind
    frames: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the frames; of many, the first few."""
        shown = [f"{quoted(frame)[1:-1]}{about}" for frame, about in sorted(self.frames.items())]
        return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


class TfJudge:
    """Judge the transforms of one topic of a TF tree.

    Attributes:
        own: What the bridge sends in the tree.
        faults: What was found since `begin`, by kind.
        received_parents: Parents of frames that are not the bridge's own, as received since `begin`.
    """

    def __init__(self, own: OwnFrames, sent: Callable[[int], bool], *, static: bool) -> None:
        """Store the arguments.

        Args:
            own: The bridge's frames in the tree.
            sent: Return whether the bridge sent something with that stamp on the topic lately.
            static: Whether it is the topic for what is static.
        """
        self.own = own
        self._sent = sent
        self._static = static
        self._seen: set[tuple[str, int]] = set()
        self._turns: dict[str, int] = {}
        self._last: dict[str, str] = {}
        self.faults: dict[FaultKind, TfFault] = {}
        self.received_parents: dict[str, set[str]] = {}

    def begin(self) -> None:
        """Drop all received transforms."""
        self._seen.clear()
        self._turns.clear()
        self._last.clear()
        self.faults = {}
        self.received_parents = {}

    def check(self, transforms: Sequence[ReceivedTransform], other: TfJudge | None = None) -> set[FaultKind]:
        """Judge a message; return the kinds of faults that it showed.

        Args:
            transforms: The message's.
            other: The judge of the tree's other topic.
        """
        found: set[FaultKind] = set()
        sent: dict[int, bool] = {}
        for each in islice(transforms, MAX_RECEIVED):
            if each.stamp_ns not in sent:
                sent[each.stamp_ns] = self._sent(each.stamp_ns)
            own = self.own.parents.get(each.child)
            if own != each.parent and sent[each.stamp_ns] and self.own.was_sent(each.child, each.parent):
                continue
            if own is None:
                fault = self._foreign_frame(each, other)
            else:
                fault = self._own_frame(each, own, sent=sent[each.stamp_ns])
            if fault is not None:
                kind, about = fault
                frames = self.faults.setdefault(kind, TfFault(kind)).frames
                if len(frames) < MAX_FAULTS or each.child in frames:
                    frames.setdefault(each.child, about)
                found.add(kind)
        return found

    def _own_frame(
        self, received: ReceivedTransform, own: str, *, sent: bool
    ) -> tuple[FaultKind, str] | None:
        """Recognize foreign transforms: another parent, a stamp that the bridge never sent, or a stamp twice."""
        child, parent = received.child, received.parent
        if parent != own:
            kind: FaultKind = "loop" if self.own.above(parent, child) else "parents"
            return kind, f" ({_shown(own)} and {_shown(parent)})"
        key = (child, received.stamp_ns)
        again = key in self._seen
        if len(self._seen) < _MAX_SEEN:
            self._seen.add(key)
        return ("guard", "") if again or not sent else None

    def _foreign_frame(
        self, received: ReceivedTransform, other: TfJudge | None
    ) -> tuple[FaultKind, str] | None:
        child, parent = received.child, received.parent
        if child not in self.received_parents and len(self.received_parents) >= MAX_RECEIVED:
            return None
        parents = self.received_parents.setdefault(child, set())
        if parent not in parents and len(parents) < MAX_PARENTS:
            parents.add(parent)
            if self.own.above(parent, child):
                return "loop", f" (below {_shown(parent)})"
        elsewhere = () if other is None else other.received_parents.get(child, ())
        if any(each != parent for each in elsewhere):
            return "parents", _listed({parent, *elsewhere})
        if len(parents) == 1:
            return None
        last, self._last[child] = self._last.get(child), parent
        self._turns[child] = self._turns.get(child, 0) + (last not in (None, parent))
        return ("parents", _listed(parents)) if self._static or self._turns[child] >= _TURNS else None


def _shown(frame: str) -> str:
    return quoted(frame)[1:-1]


def _listed(parents: Iterable[str]) -> str:
    return f" ({' and '.join(sorted(map(_shown, parents)))})"


def split_frames(
    received: Iterable[ReceivedTransform], namespaces: Iterable[str], trees: Mapping[str, OwnFrames]
) -> dict[str, set[str]]:
    """Return which frames of transforms on the global topics are those of a tree on topics of its own.

    A frame counts where it, or the frame that it hangs from, is one of the tree's. What trees have above them all (the
    world) does not: namespaced robots share it. Nor does what more than one tree might mean.

    Args:
        received: Transforms on the global topics.
        namespaces: Of the nodes that send there.
        trees: The trees by namespace.

    Returns:
        Frames by namespace of the tree.
    """
    nodes = tuple(namespaces)
    near = {
        name: own for name, own in trees.items() if any(node == "/" or inside(node, name) for node in nodes)
    }
    found: dict[str, set[str]] = {}
    for each in received:
        named = [(name, frame) for name, own in near.items() if (frame := _common(own, each)) is not None]
        if len(named) == 1:
            name, frame = named[0]
            found.setdefault(name, set()).add(frame)
    return found


def inside(namespace: str, outer: str) -> bool:
    """Return whether a namespace is another one or in it."""
    return namespace == outer or namespace.startswith(f"{outer.rstrip('/')}/")


def _common(own: OwnFrames, received: ReceivedTransform) -> str | None:
    """Return the frame that a transform and a tree have in common, None for none."""
    if received.child in own.parents or received.child in own.roots:
        return received.child
    return received.parent if received.parent in own.parents else None


SUBSCRIBED_S = 5.0
AGAIN_S = 60.0
"""Time after which foreign publishers are checked again: some begin late, others stop."""
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
        nodes: Nodes that publish there beside the bridge: one of them is at fault.
        message: One line.
    """

    topic: str
    kind: str
    nodes: tuple[str, ...]
    message: str


class TopicMonitor:
    """Monitor one TF topic: who else publishes there and, sometimes, for a few seconds, what.

    Attributes:
        name: Resolved name.
        own: What the bridge itself publishes there.
        findings: What is wrong, as far as is known now.
        judge: Of its tree; None for a global topic on which the bridge sends nothing.
        other: The monitor of the tree's other topic.
        split: The bridge's trees on topics of their own, by namespace, where it is such a global topic.
    """

    def __init__(self, name: str, domain: Domain, *, static: bool, report: Report) -> None:
        """Store the arguments.

        Args:
            name: Resolved topic name.
            domain: Where.
            static: Whether it is a latched topic.
            report: For what is found, once per topic and set of nodes.
        """
        self.name = name
        self.own: tuple[SentTopic, ...] = ()
        self.findings: tuple[TfFinding, ...] = ()
        self.judge: TfJudge | None = None
        self.other: TopicMonitor | None = None
        self.split: dict[str, OwnFrames] = {}
        self._domain = domain
        self._qos = _STATIC_QOS if static else _MOVING_QOS
        self._report = report
        self._foreign: dict[bytes, tuple[str, str]] = {}
        self._count = -1
        self._checks = 0
        self._subscription: Any = None
        self._again = False
        self._from = 0.0
        self._until = 0.0
        self._found: dict[str, TfFinding] = {}

    @property
    def subscribed(self) -> bool:
        """Return whether it is subscribed."""
        return self._subscription is not None

    def sent(self, stamp_ns: int) -> bool:
        """Return whether the bridge published something with that stamp there lately."""
        return any(stamp_ns in each.recent_stamps for each in self.own)

    def watch_tree(self, own: OwnFrames) -> None:
        """Judge received transforms by the tree that the bridge sends; again where that has changed."""
        if self.judge is None or self.judge.own is not own:
            self.judge = TfJudge(own, self.sent, static=self._qos is _STATIC_QOS)
        self._again = True

    def check(self, *, may_subscribe: bool) -> None:
        """Check the graph, and subscribe or unsubscribe; as a job of the domain.

        Args:
            may_subscribe: Whether one more topic may be subscribed to.
        """
        now = time.monotonic()
        changed = self._check_publishers()
        if self._again or (changed and self._qos is _STATIC_QOS):
            # A latched message comes once: subscribe again to get those of the publishers that are there now.
            self._again, self._from = False, now
            self._unsubscribe()
        elif changed:
            self._from, self._until = now, now + SUBSCRIBED_S
        if not self._foreign:
            self._unsubscribe()
            self.findings = ()
        elif self.subscribed:
            if now >= self._until:
                self._unsubscribe()
                self._from = now + AGAIN_S
                self.findings = tuple(self._found.values())
        elif now >= self._from and may_subscribe:
            self._subscribe()
            self._until = now + SUBSCRIBED_S

    def close_later(self) -> None:
        """Close outside of callbacks of its domain."""
        self._foreign, self.findings = {}, ()
        self._domain.defer(self.close)

    def close(self) -> None:
        """Unsubscribe. Idempotent."""
        self._unsubscribe()
        self._foreign, self.judge, self.other = {}, None, None

    def _check_publishers(self) -> bool:
        """Find out who else publishes; return whether somebody came or went."""
        node = self._domain.node
        # Who publishes costs far more to ask than how many do; there may be thousands of topics.
        count = node.count_publishers(self.name)
        if count <= len(self.own):
            gone, self._foreign, self._count = bool(self._foreign), {}, count
            return gone
        self._checks += 1
        if count == self._count and self._foreign and self._checks % _ASK_EVERY:
            return False
        infos = node.get_publishers_info_by_topic(self.name)
        # Who has no name yet is asked for again.
        self._count = -1 if any(each.node_name == _UNKNOWN for each in infos) else count
        foreign = self._others(infos)
        if self.judge is None:
            foreign = {gid: who for gid, who in foreign.items() if self._concerns(who[0])}
        changed = foreign.keys() != self._foreign.keys()
        if self._foreign.keys() - foreign.keys():
            # Judge those that are left again: those that are gone are not at fault any more.
            self.findings, self._again = (), True
        self._foreign = foreign
        return changed

    def _others(self, infos: Sequence[Any]) -> dict[bytes, tuple[str, str]]:
        """Return namespace and name of those who publish beside the bridge, by endpoint.

        The node tells publishers apart. Where more of them have the bridge's name than the bridge itself has,
        another bridge or the host has them; which ones are whose is unknown.
        """
        node = self._domain.node
        me = (node.get_namespace(), node.get_name())
        named = {bytes(each.endpoint_gid): (each.node_namespace, each.node_name) for each in infos}
        known = {gid: who for gid, who in named.items() if who[1] != _UNKNOWN}
        namesakes = sum(who == me for who in known.values()) > len(self.own)
        return {gid: who for gid, who in known.items() if who != me or namesakes}

    def _concerns(self, namespace: str) -> bool:
        return namespace == "/" or any(inside(namespace, name) for name in self.split)

    def senders(self) -> tuple[str, ...]:
        """Return the names of the nodes that publish on the topic."""
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

    def _subscribe(self) -> None:
        if self.judge is not None:
            self.judge.begin()
        self._found = {}
        self._subscription = self._domain.node.create_subscription(
            TFMessage,
            self.name,
            self._receive,
            qos_profiles.profile(self._qos),
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
        )

    def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self._domain.destroy(subscription)

    def _receive(self, message: Any) -> None:
        # Who sent a message cannot be asked: EventsExecutor fails on callbacks that take a MessageInfo.
        if not self._foreign:
            return
        received = [
            ReceivedTransform(
                each.child_frame_id,
                each.header.frame_id,
                each.header.stamp.sec * 1_000_000_000 + each.header.stamp.nanosec,
            )
            for each in message.transforms[:MAX_RECEIVED]
        ]
        judge = self.judge
        if judge is None:
            namespaces = [who[0] for who in self._foreign.values()]
            for namespace, frames in split_frames(received, namespaces, self.split).items():
                self._report_split(namespace, frames)
            return
        beside = self.other
        other = None if beside is None else beside.judge
        for kind in judge.check(received, other):
            self._report_fault(judge.faults[kind])

    def _senders(self, fault: TfFault) -> tuple[str, ...]:
        """Return who may be at fault: those on the tree's other topic, too, where a frame was received there."""
        other = self.other
        if (
            other is None
            or other.judge is None
            or not fault.frames.keys() & other.judge.received_parents.keys()
        ):
            return self.senders()
        return tuple(sorted({*self.senders(), *other.senders()}))

    def _report_fault(self, fault: TfFault) -> None:
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

    def _report_split(self, namespace: str, frames: Iterable[str]) -> None:
        nodes = self.senders()
        who = _named(nodes)
        shown = TfFault("split", dict.fromkeys(frames, ""))
        message = (
            f"{who} publishes on {self.name}, the bridge's transforms of {namespace} are on topics of their own: a "
            f"listener of one does not receive the other: {shown}; remap {self.name} to {self.name[1:]} there, or see "
            "tf_output"
        )
        self._report(f"tf.split:{self.name}:{who}", message)
        self._keep(TfFinding(topic=self.name, kind="split", nodes=nodes, message=message))

    def _keep(self, finding: TfFinding) -> None:
        """Add a finding to those of before, which stand until a few seconds have passed without them."""
        self._found[finding.kind] = finding
        kept = {each.kind: each for each in self.findings}
        self.findings = tuple({**kept, **self._found}.values())


def _named(nodes: Sequence[str]) -> str:
    """Return the first few nodes, and how many more there are."""
    more = f" or {len(nodes) - _NODES_SHOWN} more" if len(nodes) > _NODES_SHOWN else ""
    return " or ".join(nodes[:_NODES_SHOWN]) + more


CHECK_RATE = 0.5
MAX_SUBSCRIBED = 16
"""Topics that are subscribed to at a time: receiving costs more than sending."""
_SLICE_S = 0.002
_SHARE = 0.02
"""Of the time that checks may take: the middleware goes through all publishers there are for each topic."""
_TreeKey = tuple[int, str, str]
_Monitors = dict[tuple[int, str], TopicMonitor]


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeTree:
    """Frames that the bridge sends to a pair of TF topics.

    Attributes:
        domain: Where.
        output: The topics.
        namespace: Of the robot; "" where it has none.
        parents: Parent by child frame id, as they are sent.
        tf: The bridge's publisher of what moves, where it has one.
        tf_static: The bridge's publisher of what is static, likewise.
    """

    domain: Domain
    output: TfOutput
    namespace: str
    parents: Mapping[str, str]
    tf: SentTopic | None
    tf_static: SentTopic | None

    def key(self) -> _TreeKey:
        """Return the domain and the resolved names of the topics, which tell trees apart."""
        resolve = self.domain.node.resolve_topic_name
        return self.domain.domain_id, str(resolve(self.output.tf)), str(resolve(self.output.tf_static))


class TfMonitor(Publication):
    """Monitor all TF topics of a bridge. A publication that publishes nothing: it has a rate.

    Checks are jobs of each topic's domain, in slices: a fleet has thousands of topics. A topic is subscribed to for a
    few seconds when a publisher comes or goes that is not the bridge's own, and every minute while one is there:
    decoding all of /tf all the time would cost more than sending it.
    """

    def __init__(self, report: Report) -> None:
        """Store the arguments.

        Args:
            report: For what is found, once per topic and set of nodes.
        """
        super().__init__()
        self._report = report
        self._topics: _Monitors = {}
        self._frames: dict[_TreeKey, OwnFrames] = {}
        self._rounds: dict[int, _Round] = {}
        self._closed = False

    def watch(self, trees: Sequence[BridgeTree]) -> None:
        """Watch these trees from here on, and no others; what is the same continues as before."""
        keyed = [(tree.key(), tree) for tree in trees]
        parents: dict[_TreeKey, dict[str, str]] = {}
        own: dict[tuple[int, str], dict[SentTopic, None]] = {}
        for key, tree in keyed:
            parents.setdefault(key, {}).update(tree.parents)
            for name, topic in ((key[1], tree.tf), (key[2], tree.tf_static)):
                own.setdefault((key[0], name), {}).update({} if topic is None else {topic: None})
        self._frames = {key: self._frames.get(key) or OwnFrames() for key in parents}
        moved = {key for key, frames in self._frames.items() if frames.update(parents[key])}
        before, self._topics = self._topics, {}
        domains = {tree.domain.domain_id: tree.domain for tree in trees}
        for key in parents:
            self._watch_tree(key, domains[key[0]], before, anew=key in moved)
        split: dict[int, dict[str, OwnFrames]] = {}
        for key, tree in keyed:
            if tree.namespace.strip("/"):
                split.setdefault(key[0], {})[tree.namespace.rstrip("/")] = self._frames[key]
        for domain_id, frames in split.items():
            self._watch_global(domains[domain_id], frames, before, own.keys())
        for topic_key, monitor in self._topics.items():
            monitor.own = tuple(own.get(topic_key, ()))
        for topic_key, monitor in before.items():
            if topic_key not in self._topics:
                monitor.close_later()
        rounds = self._rounds
        self._rounds = {n: rounds.get(n) or _Round(self.in_domain, domain) for n, domain in domains.items()}

    def publish(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 - Publication
        """Schedule a check of the graph, outside of the tick."""
        for each in tuple(self._rounds.values()):
            each.start()
        return False

    def close(self) -> None:
        """Unsubscribe. Idempotent."""
        self._closed = True
        self._rounds = {}
        for monitor in self._topics.values():
            monitor.close()

    @property
    def watched(self) -> int:
        """Return the number of monitored topics."""
        return len(self._topics)

    def findings(self) -> tuple[TfFinding, ...]:
        """Return what is wrong now, from any thread."""
        return tuple(finding for monitor in tuple(self._topics.values()) for finding in monitor.findings)

    def in_domain(self, domain_id: int) -> list[TopicMonitor]:
        """Return the monitors of a domain's topics; none once all is closed."""
        topics = tuple(self._topics.items())
        return [] if self._closed else [monitor for (domain, _), monitor in topics if domain == domain_id]

    def _watch_tree(self, key: _TreeKey, domain: Domain, before: _Monitors, *, anew: bool) -> None:
        domain_id, tf, tf_static = key
        moving = self._find_monitor((domain_id, tf), domain, before, static=False)
        static = self._find_monitor((domain_id, tf_static), domain, before, static=True)
        moving.other, static.other = static, moving
        for monitor in (moving, static):
            if anew or monitor.judge is None:
                monitor.watch_tree(self._frames[key])

    def _watch_global(
        self, domain: Domain, split: dict[str, OwnFrames], before: _Monitors, own: Collection[tuple[int, str]]
    ) -> None:
        """Watch the global topics, where nothing is the bridge's, on behalf of trees on topics of their own."""
        for name, static in (("/tf", False), ("/tf_static", True)):
            key = (domain.domain_id, str(domain.node.resolve_topic_name(name)))
            if key not in own:
                monitor = self._find_monitor(key, domain, before, static=static)
                monitor.judge, monitor.split = None, split

    def _find_monitor(
        self, key: tuple[int, str], domain: Domain, before: _Monitors, *, static: bool
    ) -> TopicMonitor:
        monitor = self._topics.get(key) or before.get(key)
        if monitor is None:
            monitor = TopicMonitor(key[1], domain, static=static, report=self._report)
        self._topics[key] = monitor
        return monitor


class _Round:
    """Check the topics of a domain, one slice at each of its executor's turns."""

    def __init__(self, monitors: Callable[[int], list[TopicMonitor]], domain: Domain) -> None:
        self._monitors = monitors
        self._domain = domain
        self._waiting: deque[TopicMonitor] = deque()
        self._subscribed = 0
        self._under_way = False
        self._took_s = 0.0
        self._not_before = 0.0

    def start(self) -> None:
        """Begin a round, unless one is under way or the last one took so long that it is too early."""
        if not self._under_way and time.monotonic() >= self._not_before:
            self._under_way = True
            self._domain.defer(self._begin, urgent=False)

    def _begin(self) -> None:
        self._waiting = deque(self._monitors(self._domain.domain_id))
        self._subscribed = sum(monitor.subscribed for monitor in self._waiting)
        self._took_s = 0.0
        self._go_on()

    def _go_on(self) -> None:
        began = now = time.monotonic()
        try:
            while self._waiting and now - began < _SLICE_S:
                monitor = self._waiting.popleft()
                was_subscribed = monitor.subscribed
                monitor.check(may_subscribe=self._subscribed < MAX_SUBSCRIBED)
                self._subscribed += monitor.subscribed - was_subscribed
                now = time.monotonic()
        except BaseException:
            self._under_way = False
            raise
        self._took_s += now - began
        if self._waiting:
            self._domain.defer(self._go_on, urgent=False)
        else:
            self._not_before = now + self._took_s / _SHARE
            self._under_way = False
