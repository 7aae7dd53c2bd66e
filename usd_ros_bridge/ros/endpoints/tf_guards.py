"""Watches all TF topics of a bridge: who else publishes there, and whether that tears a tree apart."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from usd_ros_bridge.model.plan import TfOutput
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.tf import TfTopic
from usd_ros_bridge.ros.endpoints.tf_guard import TfFinding, TopicGuard
from usd_ros_bridge.ros.endpoints.tf_judge import OwnFrames
from usd_ros_bridge.runtime.snapshot import Snapshot

CHECK_RATE = 0.5
MAX_LISTENING = 16
"""Topics that are listened to at a time: hearing costs more than sending."""
_SLICE_S = 0.002
_SHARE = 0.02
"""Of the time that looking may take: the middleware goes through all publishers there are for each topic."""
_TreeKey = tuple[int, str, str]
_Guards = dict[tuple[int, str], TopicGuard]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTree:
    """What the bridge sends to a pair of TF topics, or would be sending if it sent any there.

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
    tf: TfTopic | None
    tf_static: TfTopic | None

    def key(self) -> _TreeKey:
        """Returns the domain and the resolved names of the topics, which tell trees apart."""
        resolve = self.domain.node.resolve_topic_name
        return self.domain.domain_id, str(resolve(self.output.tf)), str(resolve(self.output.tf_static))


class TfGuards:
    """Watches all TF topics of a bridge. An `Emitter` for the runtime, which only gives it its turn.

    Looking is a job of each topic's domain, in slices: a fleet has thousands of topics. A topic is listened to for a
    few seconds when a publisher comes or goes that is not the bridge's own, and every minute while one is there:
    decoding all of /tf all the time would cost more than sending it.
    """

    def __init__(self, report: Report) -> None:
        """Watches nothing yet.

        Args:
            report: For what is found, once per topic and set of nodes.
        """
        self._report = report
        self._topics: _Guards = {}
        self._frames: dict[_TreeKey, OwnFrames] = {}
        self._rounds: dict[int, _Round] = {}
        self._closed = False

    def watch(self, trees: Sequence[OwnTree]) -> None:
        """Watches these trees from here on, and no others; what is the same goes on as before."""
        keyed = [(tree.key(), tree) for tree in trees]
        parents: dict[_TreeKey, dict[str, str]] = {}
        own: dict[tuple[int, str], dict[TfTopic, None]] = {}
        for key, tree in keyed:
            parents.setdefault(key, {}).update(tree.parents)
            for name, topic in ((key[1], tree.tf), (key[2], tree.tf_static)):
                own.setdefault((key[0], name), {}).update({} if topic is None else {topic: None})
        self._frames = {key: self._frames.get(key) or OwnFrames() for key in parents}
        moved = {key for key, frames in self._frames.items() if frames.move_to(parents[key])}
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
        for topic_key, guard in self._topics.items():
            guard.own = tuple(own.get(topic_key, ()))
        for topic_key, guard in before.items():
            if topic_key not in self._topics:
                guard.leave()
        rounds = self._rounds
        self._rounds = {n: rounds.get(n) or _Round(self.in_domain, domain) for n, domain in domains.items()}

    def emit(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 - Emitter
        """Has the graph looked at soon, outside of the tick; that was its turn."""
        for each in tuple(self._rounds.values()):
            each.start()
        return False

    def close(self) -> None:
        """Stops listening. Idempotent."""
        self._closed = True
        self._rounds = {}
        for guard in self._topics.values():
            guard.close()

    @property
    def watched(self) -> int:
        """How many topics are watched."""
        return len(self._topics)

    def findings(self) -> tuple[TfFinding, ...]:
        """Returns what is wrong now, from any thread."""
        return tuple(finding for guard in tuple(self._topics.values()) for finding in guard.findings)

    def in_domain(self, domain_id: int) -> list[TopicGuard]:
        """Returns the guards of a domain's topics; none once all is closed."""
        topics = tuple(self._topics.items())
        return [] if self._closed else [guard for (domain, _), guard in topics if domain == domain_id]

    def _watch_tree(self, key: _TreeKey, domain: Domain, before: _Guards, *, anew: bool) -> None:
        domain_id, tf, tf_static = key
        moving = self._guard((domain_id, tf), domain, before, static=False)
        static = self._guard((domain_id, tf_static), domain, before, static=True)
        moving.other, static.other = static, moving
        for guard in (moving, static):
            if anew or guard.judge is None:
                guard.watch_tree(self._frames[key])

    def _watch_global(
        self, domain: Domain, split: dict[str, OwnFrames], before: _Guards, own: Collection[tuple[int, str]]
    ) -> None:
        """Watches the global topics, where nothing is the bridge's, on behalf of trees on topics of their own."""
        for name, static in (("/tf", False), ("/tf_static", True)):
            key = (domain.domain_id, str(domain.node.resolve_topic_name(name)))
            if key not in own:
                guard = self._guard(key, domain, before, static=static)
                guard.judge, guard.split = None, split

    def _guard(self, key: tuple[int, str], domain: Domain, before: _Guards, *, static: bool) -> TopicGuard:
        guard = self._topics.get(key) or before.get(key)
        if guard is None:
            guard = TopicGuard(key[1], domain, static=static, report=self._report)
        self._topics[key] = guard
        return guard


class _Round:
    """Has the topics of a domain looked at, one slice at each of its executor's turns."""

    def __init__(self, guards: Callable[[int], list[TopicGuard]], domain: Domain) -> None:
        self._guards = guards
        self._domain = domain
        self._waiting: deque[TopicGuard] = deque()
        self._listening = 0
        self._under_way = False
        self._took_s = 0.0
        self._not_before = 0.0

    def start(self) -> None:
        """Begins a round, unless one is under way or the last one took so long that it is too early."""
        if not self._under_way and time.monotonic() >= self._not_before:
            self._under_way = True
            self._domain.defer(self._begin, urgent=False)

    def _begin(self) -> None:
        self._waiting = deque(self._guards(self._domain.domain_id))
        self._listening = sum(guard.listening for guard in self._waiting)
        self._took_s = 0.0
        self._go_on()

    def _go_on(self) -> None:
        began = now = time.monotonic()
        try:
            while self._waiting and now - began < _SLICE_S:
                guard = self._waiting.popleft()
                listened = guard.listening
                guard.check(room=self._listening < MAX_LISTENING)
                self._listening += guard.listening - listened
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
