"""Pairs of colliders that are named one by one: where both have a material, UsdPhysics averages what they say.

PhysX lets a material ask for another way to combine, which is heeded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.backends.mujoco.contacts import FRICTIONLESS, set_bounce, sliding_friction
from usd_ros_bridge.backends.mujoco.statics import is_static, rigid_root
from usd_ros_bridge.model.physics import Collider

_COMBINE: dict[str, Callable[[float, float], float]] = {
    "average": lambda one, other: 0.5 * (one + other),
    "min": min,
    "multiply": lambda one, other: one * other,
    "max": max,
}
"""How materials combine; where two ask for different ways, the later one here wins, as in PhysX."""
MOST_PAIRS = 5000
"""Pairs of geoms up to which materials that differ are combined: each costs 10 ns in every step."""


def can_touch(built: Built, first: int, second: int) -> bool:
    """Returns whether two colliders could touch: on bodies that move against each other and are not kept apart."""
    bodies = sorted((built.scene.colliders[first].body, built.scene.colliders[second].body))
    roots = [rigid_root(built, body) for body in bodies]
    if roots[0] == roots[1] or (bodies[0], bodies[1]) in built.apart_bodies:
        return False
    return not (is_static(built, bodies[0]) and is_static(built, bodies[1]))


def combine_materials(built: Built) -> None:
    """Pairs up colliders whose materials differ: MuJoCo would let the rougher one win.

    Above MOST_PAIRS those come first that meet what does not move: the ground counts more than that robots touch.
    """
    colliders = built.scene.colliders
    bound = [
        index
        for index, collider in enumerate(colliders)
        if collider.material is not None and built.geom_names[index]
    ]
    statics = {index for index in bound if is_static(built, colliders[index].body)}
    wanted = [
        (first, second)
        for place, first in enumerate(bound)
        for second in bound[place + 1 :]
        if not (first in statics and second in statics)
        and _differ(colliders[first], colliders[second])
        and _alike(built, first, second)
        and can_touch(built, first, second)
    ]
    wanted.sort(key=statics.isdisjoint)
    count = 0
    for place, (first, second) in enumerate(wanted):
        count += len(built.geom_names[first]) * len(built.geom_names[second])
        if count > MOST_PAIRS:
            built.report(
                "mujoco.materials",
                f"more than {MOST_PAIRS} pairs of geoms have materials that differ: between "
                f"{len(wanted) - place} pairs of colliders the greater friction holds",
            )
            break
        add_pair(built, first, second)


def _differ(first: Collider, second: Collider) -> bool:
    """Returns whether what MuJoCo would take of two materials is not what they combine to."""
    assert first.material is not None
    assert second.material is not None
    if first.material == second.material and first.solver == second.solver == {}:
        return False
    return combined(first, second) != (
        max(sliding_friction(first.material), sliding_friction(second.material)),
        max(first.material.restitution, second.material.restitution),
    )


def combined(first: Collider, second: Collider) -> tuple[float, float]:
    """Returns the friction and restitution between two colliders that have materials."""
    assert first.material is not None
    assert second.material is not None
    friction, restitution = (
        _COMBINE[max((_mode(first, name), _mode(second, name)), key=list(_COMBINE).index)]
        for name in ("friction_combine", "restitution_combine")
    )
    return (
        friction(sliding_friction(first.material), sliding_friction(second.material)),
        restitution(first.material.restitution, second.material.restitution),
    )


def _mode(collider: Collider, name: str) -> str:
    value = str(collider.solver.get(name, "average")).lower()
    return value if value in _COMBINE else "average"


def _alike(built: Built, first: int, second: int) -> bool:
    """Returns whether two colliders may collide, and neither decides over the other by its priority."""
    names = built.geom_names[first][:1], built.geom_names[second][:1]
    if not (names[0] and names[1]):
        return False
    one, other = (built.spec.geom(name[0]) for name in names)
    return one.priority == other.priority and bool(
        one.contype & other.conaffinity or other.contype & one.conaffinity
    )


def add_pair(built: Built, first: int, second: int) -> None:
    """Adds the contacts of two colliders, with the parameters that MuJoCo would mix, materials combined."""
    colliders = built.scene.colliders[first], built.scene.colliders[second]
    for one in built.geom_names[first]:
        for other in built.geom_names[second]:
            pair = built.spec.add_pair(name=f"{one} {other}", geomname1=one, geomname2=other)
            geoms = built.spec.geom(one), built.spec.geom(other)
            _mix(pair, *geoms)
            bound = all(collider.material is not None for collider in colliders)
            if bound and geoms[0].priority == geoms[1].priority:
                _combine(built, pair, *combined(*colliders))


def _mix(pair: Any, first: Any, second: Any) -> None:
    """Mixes as MuJoCo mixes geoms: the higher priority decides, else the greater, or their weighted mean."""
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


def _combine(built: Built, pair: Any, friction: float, restitution: float) -> None:
    pair.friction[:2] = max(friction, FRICTIONLESS)
    pair.condim = max(pair.condim, 3) if friction > FRICTIONLESS else 1
    set_bounce(pair, restitution, built.spec.option.timestep)
