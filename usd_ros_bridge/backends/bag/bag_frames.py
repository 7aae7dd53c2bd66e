"""Recorded transforms of a robot as a tree: which topics have its frames, and the chain from one frame to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from usd_ros_bridge.backends.bag.bag_source import FramePair
from usd_ros_bridge.model.plan import BridgePlan, RobotPlan, TfOutput
from usd_ros_bridge.reporting import Report

_TF, _TF_STATIC = "tf", "tf_static"
_LONGEST: Final = 100_000
"""Frames of a chain. More are a cycle."""


class RecordedLink(NamedTuple):
    """A transform that the bag has, once or many times.

    Attributes:
        topic: Topic in the bag.
        pair: Parent and child, as recorded.
        static: It came from /tf_static: the last one holds all the time.
    """

    topic: str
    pair: FramePair
    static: bool


class BagFrameTree:
    """Recorded frames of a robot; none if the bag has none of it."""

    def __init__(self, prefix: str = "") -> None:
        """Store what the bag puts before the robot's frame ids."""
        self._prefix = prefix
        self._links: dict[str, tuple[int, RecordedLink]] = {}
        self.ambiguous: dict[str, tuple[str, str]] = {}
        """Two parents of a frame, by child; the second one is used."""

    def __bool__(self) -> bool:
        return bool(self._links)

    def add(self, topic: str, pairs: Mapping[FramePair, int], *, static: bool) -> None:
        """Add the transforms of a topic with their counts. Of several parents of a frame the most frequent counts."""
        for pair, count in pairs.items():
            before = self._links.get(pair[1])
            if before is not None and before[1].pair[0] != pair[0]:
                used = (pair[0], before[1].pair[0]) if before[0] >= count else (before[1].pair[0], pair[0])
                self.ambiguous[pair[1]] = used
            if before is None or count > before[0]:
                self._links[pair[1]] = count, RecordedLink(topic, pair, static)

    def has(self, frame: str) -> bool:
        """Return whether the bag says where a frame is in its parent."""
        return self._prefix + frame in self._links

    def chain(self, frame: str, ancestor: str) -> tuple[tuple[RecordedLink, ...], str]:
        """Return the transforms that lead to a frame.

        Args:
            frame: Frame id as in the plan.
            ancestor: Where to begin, likewise; where the chain does not come from it, it begins at its root.

        Returns:
            The transforms, parents first, and the frame that they begin in.
        """
        links: list[RecordedLink] = []
        at = self._prefix + frame
        ends = {ancestor, self._prefix + ancestor}
        while at in self._links and at not in ends and len(links) < _LONGEST:
            links.append(self._links[at][1])
            at = links[-1].pair[0]
            if len(links) == len(self._links) + 1:
                # A cycle leads nowhere.
                return (), ""
        return tuple(reversed(links)), ancestor if at in ends else at

    def between(
        self, parent: str, child: str
    ) -> tuple[tuple[RecordedLink, ...], tuple[RecordedLink, ...]] | None:
        """Return the chains that lead from the nearest common ancestor to two frames; None without one."""
        to_child, start = self.chain(child, parent)
        if not to_child:
            return None
        if start == parent:
            return (), to_child
        to_parent, other = self.chain(parent, child)
        if other != start:
            return None
        common = 0
        while common < min(len(to_parent), len(to_child)) and to_parent[common] == to_child[common]:
            common += 1
        return to_parent[common:], to_child[common:]


def tf_candidates(plan: BridgePlan, robot: RobotPlan) -> tuple[TfOutput, ...]:
    """Return the topics that may have a robot's transforms, and the prefixes of its frame ids there, the best first."""
    namespace = robot.namespace.strip("/")
    found = [*robot.tf_outputs]
    if namespace:
        found.append(TfOutput(tf=f"/{namespace}/{_TF}", tf_static=f"/{namespace}/{_TF_STATIC}"))
        found.append(TfOutput(tf=f"/{_TF}", tf_static=f"/{_TF_STATIC}", prefix=f"{namespace}/"))
    if not namespace or len(plan.robots) == 1:
        found.append(TfOutput(tf=f"/{_TF}", tf_static=f"/{_TF_STATIC}"))
    return tuple(dict.fromkeys(found))


def frame_tree(
    plan: BridgePlan,
    robot: RobotPlan,
    pairs: Mapping[str, Counter[FramePair]],
    recorded: Callable[[str], str | None],
    report: Report,
) -> BagFrameTree:
    """Return the recorded frames of a robot.

    Args:
        plan: The plan.
        robot: The robot.
        pairs: How many transforms there are of each parent and child, by topic in the bag.
        recorded: Returns the name in the bag of a topic, None if it is not there.
        report: Reports frames with several parents.
    """
    ids = [frame.id for frame in robot.frames]
    for candidate in tf_candidates(plan, robot):
        tree = BagFrameTree(candidate.prefix)
        for topic, static in ((candidate.tf_static, True), (candidate.tf, False)):
            name = recorded(topic)
            if name is not None:
                tree.add(name, pairs.get(name, {}), static=static)
        if any(map(tree.has, ids)):
            if tree.ambiguous:
                child, (other, used) = next(iter(tree.ambiguous.items()))
                report(
                    f"playback.bag_parents:{robot.path}",
                    f"the bag has several parents of a frame of {robot.path}: {child} in {other} and in {used}, "
                    "which is more frequent and used",
                )
            return tree
    return BagFrameTree()
