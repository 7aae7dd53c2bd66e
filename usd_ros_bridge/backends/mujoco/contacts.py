"""Contacts: parameters of geoms and of pairs of geoms, and which colliders collide.

UsdPhysics averages the coefficients of two colliders' materials; PhysX materials may author another combine mode. A
collider without a material has PhysX's default one. MuJoCo takes the greater coefficient, unless a pair has its own.

Excludes filter pairs of bodies, collision bits of the geoms filter groups and pairs of colliders. MuJoCo's own rule,
that parent and child bodies never collide, is disabled: in UsdPhysics a joint decides (physics:collisionEnabled). The
scene's pairs include the bodies that fixed joints weld to the ends of a joint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from itertools import combinations, islice, product
from typing import Any

import numpy as np

from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder, set_solver_values
from usd_ros_bridge.model.physics import WORLD_BODY, Collider, ContactMaterial, PhysicsScene

Coefficients = tuple[float, float]
"""Friction and restitution."""
_OWN_CONTACT = frozenset({"solref", "solimp", "contact_stiffness"})
"""Solver attributes for a contact's spring and damper, instead of a restitution."""
FRICTIONLESS = 1e-5
"""Friction that MuJoCo treats as zero."""
_STEPS_PER_BOUNCE = 12.0
"""Time steps in half an oscillation of a bouncing contact: fewer lose energy, more penetrate deeper."""
_PHASES = 16
_LEAST_BOUNCE = math.exp(-2.0)
"""Restitution of a critically damped contact, as MuJoCo's own contacts are."""


def set_contact(builder: SpecBuilder, geom: Any, collider: Collider) -> None:
    """Set the contact parameters of a collider's geom; those that are not authored keep MuJoCo's defaults."""
    _set_material(builder, geom, collider, _own(collider))
    # No gap: early contacts have no force in MuJoCo, and its versions measure the gap differently.
    geom.margin = max(0.0, float(collider.solver.get("margin", geom.margin)))
    geom.solmix = float(collider.solver.get("solmix", geom.solmix))
    geom.priority = _priority(collider)
    if {"contact_stiffness", "contact_damping"} <= collider.solver.keys():
        geom.solref = spring(collider.solver["contact_stiffness"], collider.solver["contact_damping"])
    for name in ("solref", "solimp"):
        if name in collider.solver:
            set_solver_values(geom, name, collider.solver[name])
    for place, name in ((1, "torsional_friction"), (2, "rolling_friction")):
        if name in collider.solver:
            geom.friction[place] = float(collider.solver[name])


def _set_material(builder: SpecBuilder, geom: Any, collider: Collider, values: Coefficients) -> None:
    """Set friction and restitution of a geom; a solver's own contact dimension has precedence."""
    friction, restitution = values
    geom.friction[0] = friction
    geom.condim = int(collider.solver.get("condim", 3 if friction > FRICTIONLESS else 1))
    set_bounce(geom, restitution, builder.spec.option.timestep)


def _priority(collider: Collider) -> int:
    return int(collider.solver.get("priority", 0))


def spring(stiffness: float, damping: float) -> list[float]:
    """Return MuJoCo's time constant and damping ratio of a stiffness and a damping, as Newton converts them."""
    return [2.0 / damping, 0.5 * damping / math.sqrt(stiffness)]


def set_bounce(element: Any, restitution: float, timestep: float) -> None:
    """Make a geom or pair bounce, where the restitution is higher than that of any contact."""
    if restitution > _LEAST_BOUNCE:
        element.solref = bouncing(restitution, timestep)
        # A constant impedance: one that grows with depth would make the spring nonlinear.
        element.solimp = [0.99, 0.99, 0.001, 0.5, 2.0]


def _forget_bounce(builder: SpecBuilder, element: Any) -> None:
    """Give a geom or pair MuJoCo's default contact."""
    default = builder.spec.default.geom
    element.solref, element.solimp = np.array(default.solref), np.array(default.solimp)


def sliding_friction(material: ContactMaterial) -> float:
    """Return MuJoCo's one coefficient of sliding friction: the dynamic one.

    A material with only a static coefficient (the schema's fallback of the other is 0) uses that one.
    """
    return material.dynamic_friction if material.dynamic_friction > 0.0 else material.static_friction


def bouncing(restitution: float, timestep: float) -> list[float]:
    """Return the contact's stiffness and damping, negative as in MuJoCo's `solref`.

    A body that hits such a spring and damper, which only pushes, leaves it with `restitution` times its speed. The time
    step limits the stiffness.
    """
    frequency = math.pi / (_STEPS_PER_BOUNCE * timestep)
    return [-(frequency**2), -2.0 * damping_ratio(min(restitution, 1.0)) * frequency]


@lru_cache(maxsize=256)
def damping_ratio(restitution: float) -> float:
    """Return the damping ratio of a contact with a restitution, in MuJoCo's own steps.

    In continuous time, with `r` the ratio and `s = sqrt(1 - r^2)`, it would be
    `e = exp(-r / s * (pi - atan2(2 r s, 1 - 2 r^2)))`; the few steps that a bounce takes lose some more.
    """
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        if stepped_restitution(middle) > restitution:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def stepped_restitution(ratio: float) -> float:
    """Return the restitution of a contact, averaged over its start within a step."""
    frequency = math.pi / _STEPS_PER_BOUNCE
    total = 0.0
    for phase in range(_PHASES):
        position, velocity = -(phase + 0.5) / _PHASES, -1.0
        while position < 0.0:
            push = -frequency * (frequency * position + 2.0 * ratio * velocity)
            if push <= 0.0 and velocity > 0.0:
                break
            velocity += max(push, 0.0)
            position += velocity
        total += velocity
    return total / _PHASES


_MODES = ("friction_combine", "restitution_combine")
_COMBINE: dict[str, Callable[[float, float], float]] = {
    "average": lambda one, other: 0.5 * (one + other),
    "min": min,
    "multiply": lambda one, other: one * other,
    "max": max,
}
"""Combine modes of materials; of two different ones the later one here wins, as in PhysX."""
MOST_PAIRS = 5000
"""Most pairs of geoms whose materials are combined: each costs 10 ns in every step."""


def can_touch(builder: SpecBuilder, first: int, second: int) -> bool:
    """Return whether two colliders could touch: their bodies move relative to each other and are not filtered."""
    bodies = sorted((builder.scene.colliders[first].body, builder.scene.colliders[second].body))
    roots = [builder.rigid_root(body) for body in bodies]
    if roots[0] == roots[1] or (bodies[0], bodies[1]) in builder.filtered_bodies:
        return False
    return not (builder.is_static(bodies[0]) and builder.is_static(bodies[1]))


def combine_materials(builder: SpecBuilder) -> None:
    """Add pairs of colliders where MuJoCo would combine materials otherwise: it takes the greater coefficient.

    Where that would be more than MOST_PAIRS, geoms that move get what their material and that of most static geoms make
    together, and a priority over static ones: only the other pairs are left. Of these, the first MOST_PAIRS are added.
    """
    pairs = _Pairs(builder)
    wanted = list(islice(pairs.unlike(), MOST_PAIRS + 1))
    if pairs.count_geoms(wanted) > MOST_PAIRS and pairs.lean_on_ground():
        wanted = list(islice(pairs.unlike(), MOST_PAIRS + 1))
    count = 0
    for first, second in wanted:
        count += pairs.count_geoms([(first, second)])
        if count > MOST_PAIRS:
            builder.report(
                "mujoco.materials",
                f"more than {MOST_PAIRS} pairs of geoms have materials that differ: the greater friction is used "
                "between the others",
            )
            break
        add_pair(builder, first, second)


class _Pairs:
    """Pairs of colliders that may touch, and how MuJoCo would mix their coefficients.

    Colliders with equal materials that are static, or that move, are one class, so that few classes are compared.
    """

    def __init__(self, builder: SpecBuilder) -> None:
        self._builder = builder
        self._colliders = builder.scene.colliders
        self._ground: Collider | None = None
        self._classes: dict[Hashable, list[int]] = {}
        self._statics: set[int] = set()
        for index, collider in enumerate(self._colliders):
            if builder.geom_names[index]:
                is_static = builder.is_static(collider.body)
                if is_static:
                    self._statics.add(index)
                modes = tuple(_mode(collider, name) for name in _MODES)
                key = collider.material, modes, _priority(collider), is_static
                self._classes.setdefault(key, []).append(index)

    def count_geoms(self, pairs: Iterable[tuple[int, int]]) -> int:
        names = self._builder.geom_names
        return sum(len(names[first]) * len(names[second]) for first, second in pairs)

    def unlike(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs that MuJoCo would not combine as authored, those with static colliders first."""
        members = list(self._classes.values())
        unlike = [
            (first, second)
            for place, first in enumerate(members)
            for second in members[place:]
            if self._differ(first[0], second[0])
        ]
        for with_static in (True, False):
            for ones, others in unlike:
                if (ones[0] in self._statics or others[0] in self._statics) == with_static:
                    for pair in combinations(ones, 2) if ones is others else product(ones, others):
                        first, second = sorted(pair)
                        if self._may_collide(first, second) and can_touch(self._builder, first, second):
                            yield first, second

    def lean_on_ground(self) -> bool:
        """Set geoms that move to what they have with most static geoms; return whether there are any static ones."""
        names = self._builder.geom_names
        statics = [each for each in self._classes.values() if each[0] in self._statics]
        if not statics:
            return False
        most = max(statics, key=lambda each: sum(len(names[index]) for index in each))
        self._ground = self._colliders[most[0]]
        for index, collider in enumerate(self._colliders):
            if index not in self._statics:
                for name in names[index]:
                    geom = self._builder.spec.geom(name)
                    friction, restitution = self._values(index)
                    if _OWN_CONTACT.isdisjoint(collider.solver):
                        _forget_bounce(self._builder, geom)
                    else:
                        restitution = 0.0
                    _set_material(self._builder, geom, collider, (friction, restitution))
                    geom.priority = _priority(collider) + self._rank(index)
        return True

    def _rank(self, index: int) -> int:
        """Return what is added to a collider's authored priority."""
        return int(self._ground is not None and index not in self._statics)

    def _values(self, index: int) -> Coefficients:
        collider = self._colliders[index]
        return combined(collider, self._ground) if self._ground and self._rank(index) else _own(collider)

    def _differ(self, first: int, second: int) -> bool:
        """Return whether MuJoCo's mixture of two colliders differs from their materials' combination."""
        one, other = self._colliders[first], self._colliders[second]
        if _priority(one) != _priority(other) or (first in self._statics and second in self._statics):
            return False
        values, ranks = (self._values(first), self._values(second)), (self._rank(first), self._rank(second))
        mixed = values[ranks[1] > ranks[0]] if ranks[0] != ranks[1] else tuple(map(max, *values))
        return combined(one, other) != mixed

    def _may_collide(self, first: int, second: int) -> bool:
        geoms = [self._builder.spec.geom(self._builder.geom_names[index][0]) for index in (first, second)]
        one, other = geoms
        return bool(one.contype & other.conaffinity or other.contype & one.conaffinity)


def _own(collider: Collider) -> Coefficients:
    material = collider.contact_material
    return sliding_friction(material), material.restitution


def combined(first: Collider, second: Collider) -> Coefficients:
    """Return the friction and restitution between two colliders.

    A material without any friction has none with a collider that has no material: casters have such materials to slide.
    A mean with PhysX's default would let them brake; PhysX takes load off a caster that brakes, MuJoCo does not.
    """
    friction, restitution = (
        max((_mode(first, name), _mode(second, name)), key=list(_COMBINE).index) for name in _MODES
    )
    one, other = _own(first), _own(second)
    slides = friction == "average" and 0.0 in (one[0], other[0]) and None in (first.material, second.material)
    return (
        0.0 if slides else _COMBINE[friction](one[0], other[0]),
        _COMBINE[restitution](one[1], other[1]),
    )


def _mode(collider: Collider, name: str) -> str:
    value = str(collider.solver.get(name, "average")).lower()
    return value if value in _COMBINE else "average"


def add_pair(builder: SpecBuilder, first: int, second: int) -> None:
    """Add pairs of the geoms of two colliders, with MuJoCo's mixture of parameters and their materials combined."""
    for one in builder.geom_names[first]:
        for other in builder.geom_names[second]:
            add_geom_pair(builder, (first, second), (one, other))


def add_geom_pair(builder: SpecBuilder, numbers: tuple[int, int], names: tuple[str, str]) -> Any:
    """Add a pair of two geoms, as `add_pair` does. Return it.

    Args:
        builder: The specification.
        numbers: Their colliders.
        names: The geoms.
    """
    first, second = (builder.scene.colliders[number] for number in numbers)
    pair = builder.spec.add_pair(name=" ".join(names), geomname1=names[0], geomname2=names[1])
    _mix(pair, *(builder.spec.geom(name) for name in names))
    if _priority(first) == _priority(second):
        if all(_OWN_CONTACT.isdisjoint(each.solver) for each in (first, second)):
            _forget_bounce(builder, pair)
        _combine(builder, pair, *combined(first, second))
    return pair


def _mix(pair: Any, first: Any, second: Any) -> None:
    """Mix parameters as MuJoCo does: those of the higher priority, else the greater ones, or their weighted mean."""
    pair.margin = max(first.margin, second.margin)
    if first.priority != second.priority:
        winner = first if first.priority > second.priority else second
        pair.condim, friction = winner.condim, np.array(winner.friction)
        pair.solref, pair.solimp = np.array(winner.solref), np.array(winner.solimp)
    else:
        pair.condim = max(first.condim, second.condim)
        friction = np.maximum(first.friction, second.friction)
        total = first.solmix + second.solmix
        share = first.solmix / total if total > 0.0 else 0.5
        pair.solimp = share * np.array(first.solimp) + (1.0 - share) * np.array(second.solimp)
        if first.solref[0] > 0.0 and second.solref[0] > 0.0:
            pair.solref = share * np.array(first.solref) + (1.0 - share) * np.array(second.solref)
        else:
            pair.solref = np.minimum(first.solref, second.solref)
    pair.friction = friction[[0, 0, 1, 2, 2]]


def _combine(builder: SpecBuilder, pair: Any, friction: float, restitution: float) -> None:
    pair.friction[:2] = max(friction, FRICTIONLESS)
    pair.condim = max(pair.condim, 3) if friction > FRICTIONLESS else 1
    set_bounce(pair, restitution, builder.spec.option.timestep)


MOST_CLASSES = 31
"""Classes of colliders that MuJoCo's bits can distinguish."""

Classes = list[list[int]]
"""Groups of colliders that collide with the same others."""


class CollisionFilter:
    """Pairs of colliders that collision groups and filtered pairs disable; pairs of bodies are left out."""

    def __init__(self, scene: PhysicsScene, apart: Iterable[tuple[int, int]] = ()) -> None:
        """Read the scene's filters; `apart` are more pairs of colliders."""
        self._groups = [collider.group for collider in scene.colliders]
        self._apart_groups = {frozenset(pair) for pair in scene.apart_groups}
        self.partners: list[set[int]] = [set() for _ in scene.colliders]
        for first, second in (*scene.apart_colliders, *apart):
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


def filter_collisions(builder: SpecBuilder, apart: Iterable[tuple[int, int]] = ()) -> None:
    """Add excludes for bodies, and set `contype` and `conaffinity` of all colliders.

    Args:
        builder: The specification.
        apart: Pairs of colliders that do not collide, beside those of the scene.
    """
    for first, second in builder.scene.apart_bodies:
        if first != second:
            names = [_body_name(builder, body) for body in (first, second)]
            builder.spec.add_exclude(name=" ".join(names), bodyname1=names[0], bodyname2=names[1])
    filtered = CollisionFilter(builder.scene, apart)
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
        f"collision filters distinguish more kinds of colliders than MuJoCo has bits for ({MOST_CLASSES}): "
        f"{len(unclassified)} colliders are paired one by one, which costs time",
    )


def _set_bits(builder: SpecBuilder, collider: int, contype: int, conaffinity: int) -> None:
    for name in builder.geom_names[collider]:
        geom = builder.spec.geom(name)
        geom.contype, geom.conaffinity = contype, conaffinity


def _body_name(builder: SpecBuilder, body: int) -> str:
    return "world" if body == WORLD_BODY else builder.scene.bodies[body].path
