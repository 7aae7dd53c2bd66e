"""Transforms of all robots of an open bridge: which robot sends to which TF topics, in which domain."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from usd_ros_bridge.model.plan import BridgePlan, RobotPlan, TfOutput
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessages
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains
from usd_ros_bridge.ros.tf.broadcaster import TfTopic, TransformPublisher, frame_ids, static_transforms
from usd_ros_bridge.ros.tf.monitor import CHECK_RATE, BridgeTree, TfMonitor
from usd_ros_bridge.runtime.frame_poses import RobotFrames
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange
from usd_ros_bridge.runtime.runtime import Runtime

Key = tuple[int, str]
"""A domain, and the name of a topic there."""


@dataclass(slots=True, kw_only=True, eq=False)
class TransformRevision:
    """Transforms of a plan, ready to be sent.

    Attributes:
        plan: The plan.
        now_ns: Stamp of the static transforms.
        fresh: Topics that were opened for it.
        shares: Static transforms by topic, and by whose they are.
        robots: Index, frames and places of each robot that has moving frames, by its path.
        trees: What is sent, for the monitor.
    """

    plan: BridgePlan
    now_ns: int
    fresh: list[Key] = field(default_factory=list)
    shares: dict[TfTopic, dict[Hashable, list[Any]]] = field(default_factory=dict)
    robots: dict[str, tuple[int, RobotFrames, list[tuple[TfTopic, TfOutput]]]] = field(default_factory=dict)
    trees: list[BridgeTree] = field(default_factory=list)


class RobotTransforms:
    """Broadcasters of all robots, and the topics that they share.

    Attributes:
        monitor: Finds other senders of the same frames.
    """

    def __init__(
        self,
        plan: BridgePlan,
        domains: Domains,
        runtime: Runtime,
        *,
        rate: float | None,
        publish_unmatched: bool = False,
    ) -> None:
        """Store the arguments.

        Args:
            plan: The robots.
            domains: Where they live.
            runtime: What they are moved by; open.
            rate: Hz, None for every tick.
            publish_unmatched: Send moving transforms also while nobody subscribes.
        """
        self._unmatched = publish_unmatched
        self._plan = plan
        self._domains = domains
        self._runtime = runtime
        self._rate = rate
        self._topics: dict[Key, TfTopic] = {}
        self.monitor = TfMonitor(runtime.reporter.report)
        self._trees: list[BridgeTree] = []
        self._publishers: dict[tuple[str, TfTopic, TfOutput], TransformPublisher] = {}
        self._messages = EncodedMessages()

    def open(self, now_ns: int) -> None:
        """Create the publishers, send static transforms, and start to broadcast moving ones.

        Args:
            now_ns: Stamp of the static transforms.
        """
        self._broadcast(self._open_topics(self._plan, self._runtime.binding, now_ns))

    def close(self) -> None:
        """Stop broadcasting. Idempotent."""
        for publisher in self._publishers.values():
            self._end(publisher)
        self._publishers.clear()
        self._runtime.remove_publication(self.monitor)
        self.monitor.close()
        for topic in self._topics.values():
            topic.close()

    # --- Change ------------------------------------------------------------------------------------------------

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Open the topics that a plan to come needs; as `PlanComponent.prepare`."""
        revision = self._open_topics(plan, binding, self._runtime.now_ns)
        alike = binding.snapshot is self._runtime.snapshot

        def commit() -> None:
            self._plan = plan
            if not alike:
                self._broadcast(revision)

        return PreparedChange(
            commit=commit, rollback=partial(self._rollback, revision), cleanup=self._close_unused
        )

    def _rollback(self, revision: TransformRevision) -> None:
        for key in revision.fresh:
            self._topics.pop(key).close()

    def _close_unused(self) -> None:
        """Close topics without transforms."""
        used = dict.fromkeys((tree.domain.domain_id, name) for tree in self._trees for name in _names(tree))
        topics, self._topics = self._topics, {key: self._topics[key] for key in used}
        for key in topics.keys() - used.keys():
            topics[key].close()

    def _open_topics(self, plan: BridgePlan, binding: PlanBinding, now_ns: int) -> TransformRevision:
        """Find out which transforms a plan sends where, and open new topics; from any thread."""
        revision = TransformRevision(plan=plan, now_ns=now_ns)
        try:
            self._open_robots(revision, binding)
        except BaseException:
            self._rollback(revision)
            raise
        return revision

    def _open_robots(self, revision: TransformRevision, binding: PlanBinding) -> None:
        for index, robot in enumerate(revision.plan.robots):
            if not robot.tf_outputs:
                continue
            try:
                domain = self._domains.get(robot.domain_id)
            except DomainLimitError as error:
                self._runtime.reporter.report(f"tf:{robot.path}", f"{robot.path}: no transforms: {error}")
                continue
            self._revise_robot(index, robot, binding.frames.robots[index], domain, revision)

    def set_rate(self, rate: float | None) -> None:
        """Change how often moving transforms are sent, Hz, None for every tick; in the thread that ticks."""
        self._rate = rate
        for publisher in self._publishers.values():
            self._runtime.change_publication(publisher, rate=rate, robot=publisher.robot)

    # --- Asking ------------------------------------------------------------------------------------------------

    def status(self, now_ns: int) -> list[InterfaceStatus]:
        """Return a row for every TF topic."""
        return list(self.rows(now_ns))

    def rows(self, now_ns: int) -> Iterator[InterfaceStatus]:
        """Yield the rows of `status`, each made when it is asked for."""
        for topic in tuple(self._topics.values()):
            yield topic.status(self._rate, now_ns)

    @property
    def moving(self) -> int:
        """Frames on /tf, of all robots that are broadcast."""
        return self._count(static=False)

    @property
    def static(self) -> int:
        """Frames on /tf_static, of all robots that are broadcast."""
        return self._count(static=True)

    def _count(self, *, static: bool) -> int:
        pairs = zip(self._plan.robots, self._runtime.frames.robots, strict=True)
        return sum(
            len(frames.static if static else frames.moving) for robot, frames in pairs if robot.tf_outputs
        )

    # --- Own ---------------------------------------------------------------------------------------------------

    def _revise_robot(
        self,
        index: int,
        robot: RobotPlan,
        frames: RobotFrames,
        domain: Domain,
        revision: TransformRevision,
    ) -> None:
        places = []
        for output in robot.tf_outputs:
            moving = self._topic(output.tf, domain, revision, static=False) if frames.moving else None
            static = self._topic(output.tf_static, domain, revision, static=True) if frames.static else None
            if static is not None:
                share = static_transforms(robot, frames, output, revision.now_ns)
                revision.shares.setdefault(static, {})[robot.path, output] = share
            if moving is not None:
                places.append((moving, output))
            ids = [frame_ids(robot, robot.frames[n], output.prefix) for n in (*frames.moving, *frames.static)]
            revision.trees.append(
                BridgeTree(
                    domain=domain,
                    output=output,
                    namespace=robot.namespace,
                    parents={child: parent for parent, child in ids},
                    tf=moving,
                    tf_static=static,
                )
            )
        if places:
            revision.robots[robot.path] = (index, frames, places)

    def _topic(self, name: str, domain: Domain, revision: TransformRevision, *, static: bool) -> TfTopic:
        key = (domain.domain_id, name)
        topic = self._topics.get(key)
        if topic is None:
            topic = TfTopic(
                name, domain, static=static, unmatched=self._unmatched, report=self._runtime.reporter.report
            )
            topic.open()
            self._topics[key] = topic
            revision.fresh.append(key)
        return topic

    def _broadcast(self, revision: TransformRevision) -> None:
        """Send what a revision says from here on; publishers and schedules that there were, stay."""
        had_trees, self._trees = bool(self._trees), revision.trees
        for topic in self._topics.values():
            if topic.is_static and topic.set_static(revision.shares.get(topic, {})):
                topic.publish_static(revision.now_ns)
        wanted = {
            (path, topic, output): (index, frames)
            for path, (index, frames, places) in revision.robots.items()
            for topic, output in places
        }
        for key in self._publishers.keys() - wanted.keys():
            self._end(self._publishers.pop(key))
        for key, (index, frames) in wanted.items():
            path, topic, output = key
            publisher = self._publishers.get(key)
            is_new = publisher is None
            if publisher is None:
                publisher = self._publishers[key] = TransformPublisher(
                    topic, messages=self._messages, report=self._runtime.reporter.report
                )
            publisher.update(self._plan.robots[index], frames, output, index)
            if is_new:
                name = f"{topic.name} of {path}"
                self._runtime.add_publication(publisher, name=name, rate=self._rate, robot=index)
            else:
                self._runtime.change_publication(publisher, rate=self._rate, robot=index)
        self.monitor.watch(self._trees)
        if had_trees and not self._trees:
            self._runtime.remove_publication(self.monitor)
        elif self._trees and not had_trees:
            self._runtime.add_publication(self.monitor, name="guard of tf", rate=CHECK_RATE)

    def _end(self, publisher: TransformPublisher) -> None:
        self._runtime.remove_publication(publisher)
        publisher.topic.remove(publisher)


def _names(tree: BridgeTree) -> tuple[str, ...]:
    return tuple(topic.name for topic in (tree.tf, tree.tf_static) if topic is not None)
