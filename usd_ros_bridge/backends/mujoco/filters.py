"""What does not collide with what: bodies become excludes, groups and pairs of colliders bits of the geoms.

MuJoCo's own rule, that bodies next to each other in the tree never collide, is switched off: UsdPhysics lets a joint
say so (physics:collisionEnabled). What fixed joints weld to the ends of a joint is among the scene's pairs.
"""

from __future__ import annotations

from collections.abc import Hashable

from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.backends.mujoco.pairs import add_pair, can_touch
from usd_ros_bridge.model.physics import WORLD_BODY, PhysicsScene

MOST_CLASSES = 31
"""Kinds of colliders that MuJoCo's bits can tell apart."""

Classes = list[list[int]]
"""Colliders that all collide with the same others."""


class Apartness:
    """Which colliders UsdPhysics keeps apart by groups and filtered pairs (those of bodies left out)."""

    def __init__(self, scene: PhysicsScene) -> None:
        self._groups = [collider.group for collider in scene.colliders]
        self._apart_groups = {frozenset(pair) for pair in scene.apart_groups}
        self.partners: list[set[int]] = [set() for _ in scene.colliders]
        for first, second in scene.apart_colliders:
            if first != second:
                self.partners[first].add(second)
                self.partners[second].add(first)

    def __call__(self, first: int, second: int) -> bool:
        """Returns whether two colliders are kept apart."""
        groups = self._groups[first], self._groups[second]
        return second in self.partners[first] or (
            -1 not in groups and frozenset(groups) in self._apart_groups
        )

    def classes(self) -> Classes:
        """Returns the colliders by what they collide with, the largest classes first."""
        twins: dict[Hashable, list[int]] = {}
        for index, partners in enumerate(self.partners):
            # Colliders that are all apart from one another, and alike otherwise, are of one kind too.
            closed = self._groups[index], frozenset(partners | {index})
            twins.setdefault(closed, []).append(index)
        kinds: dict[Hashable, list[int]] = {}
        for key, members in twins.items():
            first = members[0]
            alone = len(members) == 1
            kind = (self._groups[first], frozenset(self.partners[first])) if alone else key
            kinds.setdefault((alone, kind), []).extend(members)
        return sorted(kinds.values(), key=lambda members: (-len(members), members[0]))


def add_filters(built: Built) -> None:
    """Adds excludes for bodies, and sets `contype` and `conaffinity` of all colliders."""
    for first, second in built.scene.apart_bodies:
        if first != second:
            names = [_body_name(built, body) for body in (first, second)]
            built.spec.add_exclude(name=" ".join(names), bodyname1=names[0], bodyname2=names[1])
    apart = Apartness(built.scene)
    classes = apart.classes()
    chosen, left = classes, list[list[int]]()
    if len(classes) > MOST_CLASSES:
        chosen, left = classes[:MOST_CLASSES], classes[MOST_CLASSES:]
    for index, members in enumerate(chosen):
        affinity = sum(
            1 << other for other, fellows in enumerate(chosen) if not _classes_apart(apart, members, fellows)
        )
        for collider in members:
            _set_bits(built, collider, 1 << index, affinity)
    if left:
        _pair_up(built, apart, {collider for members in left for collider in members})


def _classes_apart(apart: Apartness, first: list[int], second: list[int]) -> bool:
    if first is not second:
        return apart(first[0], second[0])
    return apart(first[0], first[1]) if len(first) > 1 else apart(first[0], first[0])


def _pair_up(built: Built, apart: Apartness, loners: set[int]) -> None:
    """Names the pairs that collide, for colliders that there are no bits left for."""
    for loner in loners:
        _set_bits(built, loner, 0, 0)
    for loner in sorted(loners):
        for other in range(len(built.scene.colliders)):
            if other in loners and other <= loner:
                continue
            if not apart(loner, other) and can_touch(built, loner, other):
                add_pair(built, loner, other)
    built.report(
        "mujoco.filter",
        f"collision filters tell more kinds of colliders apart than MuJoCo has bits for ({MOST_CLASSES}): "
        f"{len(loners)} colliders are paired one by one, which costs time",
    )


def _set_bits(built: Built, collider: int, contype: int, conaffinity: int) -> None:
    for name in built.geom_names[collider]:
        geom = built.spec.geom(name)
        geom.contype, geom.conaffinity = contype, conaffinity


def _body_name(built: Built, body: int) -> str:
    return "world" if body == WORLD_BODY else built.scene.bodies[body].path
