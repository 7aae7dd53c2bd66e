"""The TF side of an open bridge: which robot sends to which topics, in which domain."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from usd_ros_bridge.model.plan import BridgePlan, RobotPlan, TfOutput
from usd_ros_bridge.ros.cdr import SharedMessages
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains
from usd_ros_bridge.ros.endpoints.tf import TfTopic, TransformBroadcaster
from usd_ros_bridge.ros.endpoints.tf_guards import CHECK_RATE, OwnTree, TfGuards
from usd_ros_bridge.ros.endpoints.tf_messages import SerializedTransforms, frame_ids, static_transforms
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.frames import RobotFrames, TransformFeed
from usd_ros_bridge.runtime.parts import RuntimeParts

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
        trees: What is sent, for the guards.
    """

    plan: BridgePlan
    now_ns: int
    fresh: list[Key] = field(default_factory=list)
    shares: dict[TfTopic, dict[Hashable, list[Any]]] = field(default_factory=dict)
    robots: dict[str, tuple[int, RobotFrames, list[tuple[TfTopic, TfOutput]]]] = field(default_factory=dict)
    trees: list[OwnTree] = field(default_factory=list)


class Transforms:
    """Broadcasters of all robots, and the topics that they share.

    Attributes:
        guards: Watch the topics for others who send the same frames.
    """

    def __init__(
        self, plan: BridgePlan, domains: Domains, runtime: Runtime, *, rate: float | None,
        publish_unmatched: bool = False,
    ) -> None:  # fmt: skip
        """Stores what to broadcast.

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
        self.guards = TfGuards(runtime.reporter.report)
        self._trees: list[OwnTree] = []
        self._broadcasters: dict[str, TransformBroadcaster] = {}
        self._shown: dict[str, str] = {}
        self._shared: SharedMessages[SerializedTransforms] = SharedMessages()

    def open(self, now_ns: int) -> None:
        """Creates the publishers, sends what is static and begins to broadcast what moves.

        Args:
            now_ns: Stamp of the static transforms.
        """
        revision = self.revise(self._plan, self._runtime.parts, now_ns)
        self._broadcast(revision)

    def close(self) -> None:
        """Stops broadcasting. Idempotent."""
        for broadcaster in self._broadcasters.values():
            self._end(broadcaster)
        self._runtime.remove_emitter(self.guards)
        self.guards.close()
        for topic in self._topics.values():
            topic.close()

    # --- Change ------------------------------------------------------------------------------------------------

    def revise(self, plan: BridgePlan, parts: RuntimeParts, now_ns: int) -> TransformRevision:
        """Finds out what a plan sends where, and opens the topics that are new; from any thread.

        Args:
            plan: The plan to come.
            parts: What follows from it.
            now_ns: Stamp of the static transforms.
        """
        revision = TransformRevision(plan=plan, now_ns=now_ns)
        for index, robot in enumerate(plan.robots):
            if not robot.tf_outputs:
                continue
            try:
                domain = self._domains.get(robot.domain_id)
            except DomainLimitError as error:
                self._runtime.reporter.report(f"tf:{robot.path}", f"{robot.path}: no transforms: {error}")
                continue
            self._revise_robot(index, robot, parts.frames.robots[index], domain, revision)
        return revision

    def abandon(self, revision: TransformRevision) -> None:
        """Closes what was opened for a change that does not happen; where no callbacks run meanwhile."""
        for key in revision.fresh:
            self._topics.pop(key).close()

    def switch(self, revision: TransformRevision, before: RuntimeParts) -> None:
        """Goes on with a plan, which the runtime has begun to; between two ticks."""
        self._plan = revision.plan
        if self._runtime.parts.snapshot is not before.snapshot:
            self._broadcast(revision)

    def retire(self) -> None:
        """Closes topics that nothing is sent to any more; where no callbacks run meanwhile."""
        used = dict.fromkeys((tree.domain.domain_id, name) for tree in self._trees for name in _names(tree))
        topics, self._topics = self._topics, {key: self._topics[key] for key in used}
        for key in topics.keys() - used.keys():
            topics[key].close()

    def set_rate(self, rate: float | None) -> None:
        """Changes how often moving transforms are sent, Hz, None for every tick; in the thread that ticks."""
        self._rate = rate
        for index, robot in enumerate(self._plan.robots):
            broadcaster = self._broadcasters.get(robot.path)
            if broadcaster is not None:
                self._runtime.change_emitter(broadcaster, rate=rate, robot=index)

    # --- Asking ------------------------------------------------------------------------------------------------

    def status(self, now_ns: int) -> list[InterfaceStatus]:
        """Returns a row for every TF topic."""
        return list(self.rows(now_ns))

    def rows(self, now_ns: int) -> Iterator[InterfaceStatus]:
        """Yields the rows of `status`, each made when it is asked for."""
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
                OwnTree(
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
        """Sends what a revision says from here on; publishers and schedules that there were, stay."""
        had_trees, self._trees = bool(self._trees), revision.trees
        for topic in self._topics.values():
            if topic.static and topic.set_shares(revision.shares.get(topic, {})):
                topic.publish_whole(revision.now_ns)
        self._shared = SharedMessages(before=self._shared.made)
        for path in self._broadcasters.keys() - revision.robots.keys():
            self._end(self._broadcasters.pop(path))
            self._shown.pop(path)
        for path, (index, frames, places) in revision.robots.items():
            self._broadcast_robot(path, index, frames, places)
        self.guards.watch(self._trees)
        if had_trees and not self._trees:
            self._runtime.remove_emitter(self.guards)
        elif self._trees and not had_trees:
            self._runtime.add_emitter(self.guards, name="guard of tf", rate=CHECK_RATE)

    def _broadcast_robot(
        self, path: str, index: int, frames: RobotFrames, places: list[tuple[TfTopic, TfOutput]]
    ) -> None:
        plan, runtime = self._plan, self._runtime
        robot = plan.robots[index]
        feed = TransformFeed(plan, index, runtime.reporter.report)
        name = f"{robot.tf_outputs[0].tf} of {path}"
        if self._shown.get(path, name) != name:
            # Another topic is another row for people, and a schedule of its own.
            self._end(self._broadcasters.pop(path))
        self._shown[path] = name
        broadcaster = self._broadcasters.get(path)
        is_new = broadcaster is None
        if broadcaster is None:
            broadcaster = self._broadcasters[path] = TransformBroadcaster(
                robot,
                frames,
                feed,
                index=index,
                report=runtime.reporter.report,
                shared=self._shared,
                regroup=runtime.emissions.regroup,
            )
        else:
            broadcaster.revise(robot, frames, feed, index=index, shared=self._shared)
        for topic, output in places:
            broadcaster.add_output(topic, output)
        if is_new:
            runtime.on_reset(broadcaster.reset)
            runtime.add_emitter(broadcaster, name=name, rate=self._rate, robot=index)
        else:
            runtime.change_emitter(broadcaster, rate=self._rate, robot=index)

    def _end(self, broadcaster: TransformBroadcaster) -> None:
        self._runtime.remove_emitter(broadcaster)
        self._runtime.off_reset(broadcaster.reset)


def _names(tree: OwnTree) -> tuple[str, ...]:
    return tuple(topic.name for topic in (tree.tf, tree.tf_static) if topic is not None)
