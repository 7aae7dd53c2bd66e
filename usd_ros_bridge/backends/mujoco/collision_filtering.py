"""Collision filtering: excludes for pairs of bodies, collision bits of the geoms for groups and pairs of colliders.

MuJoCo's own rule, that parent and child bodies never collide, is disabled: in UsdPhysics a joint decides
(physics:collisionEnabled). The scene's pairs include the bodies that fixed joints weld to the ends of a joint.
"""

from __future__ import annotations

from collections.abc import Hashable

from usd_ros_bridge.backends.mujoco.contacts import add_pair, can_touch
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.model.physics import WORLD_BODY, PhysicsScene

MOST_CLASSES = 31
"""Classes of colliders that MuJoCo's bits can distinguish."""

Classes = list[list[int]]
"""Groups of colliders that collide with the same others."""


class CollisionFilter:
    """Pairs of colliders that collision groups and filtered pairs disable; pairs of bodies are left out."""

    def __init__(self, scene: PhysicsScene) -> None:
        self._groups = [collider.group for collider in scene.colliders]
        self._apart_groups = {frozenset(pair) for pair in scene.apart_groups}
        self.partners: list[set[int]] = [set() for _ in scene.colliders]
        for first, second in scene.apart_colliders:
            if first != second:
                self.partners[first].add(second)
                self.partners[second].add(first)

    def __call__(self, first: int, second: int) -> bool:
        """Return whether two colliders do not collide."""
        groups = self._groups[first], self._groups[second]
        return second in self.partners[first] or (
            -1 not in groups and frozenset(groups) in self._apart_groups
        )

    def classes(self) -> Classes:
        """Return classes of colliders that collide with the same others, the largest first."""
        closed_classes: dict[Hashable, list[int]] = {}
        for index, partners in enumerate(self.partners):
            # Colliders that do not collide with one another, and are equal otherwise, are one class, too.
            closed = self._groups[index], frozenset(partners | {index})
            closed_classes.setdefault(closed, []).append(index)
        kinds: dict[Hashable, list[int]] = {}
        for key, members in closed_classes.items():
            first = members[0]
            alone = len(members) == 1
            kind = (self._groups[first], frozenset(self.partners[first])) if alone else key
            kinds.setdefault((alone, kind), []).extend(members)
        return sorted(kinds.values(), key=lambda members: (-len(members), members[0]))


def filter_collisions(builder: SpecBuilder) -> None:
    """Add excludes for bodies, and set `contype` and `conaffinity` of all colliders."""
    for first, second in builder.scene.apart_bodies:
        if first != second:
            names = [_body_name(builder, body) for body in (first, second)]
            builder.spec.add_exclude(name=" ".join(names), bodyname1=names[0], bodyname2=names[1])
    filtered = CollisionFilter(builder.scene)
    classes = filtered.classes()
    chosen, left = classes, list[list[int]]()
    if len(classes) > MOST_CLASSES:
        chosen, left = classes[:MOST_CLASSES], classes[MOST_CLASSES:]
    for index, members in enumerate(chosen):
        affinity = sum(
            1 << other
            for other, other_members in enumerate(chosen)
            if not _classes_filtered(filtered, members, other_members)
        )
        for collider in members:
            _set_bits(builder, collider, 1 << index, affinity)
    if left:
        _add_pairs(builder, filtered, {collider for members in left for collider in members})


def _classes_filtered(filtered: CollisionFilter, first: list[int], second: list[int]) -> bool:
    if first is not second:
        return filtered(first[0], second[0])
    return filtered(first[0], first[1]) if len(first) > 1 else filtered(first[0], first[0])


def _add_pairs(builder: SpecBuilder, filtered: CollisionFilter, unclassified: set[int]) -> None:
    """Add pairs for colliders without bits."""
    for collider in unclassified:
        _set_bits(builder, collider, 0, 0)
    for collider in sorted(unclassified):
        for other in range(len(builder.scene.colliders)):
            if other in unclassified and other <= collider:
                continue
            if not filtered(collider, other) and can_touch(builder, collider, other):
                add_pair(builder, collider, other)
    builder.report(
        "mujoco.filter",
        f"collision filters tell more kinds of colliders apart than MuJoCo has bits for ({MOST_CLASSES}): "
        f"{len(unclassified)} colliders are paired one by one, which costs time",
    )


def _set_bits(builder: SpecBuilder, collider: int, contype: int, conaffinity: int) -> None:
    for name in builder.geom_names[collider]:
        geom = builder.spec.geom(name)
        geom.contype, geom.conaffinity = contype, conaffinity


def _body_name(builder: SpecBuilder, body: int) -> str:
    return "world" if body == WORLD_BODY else builder.scene.bodies[body].path
