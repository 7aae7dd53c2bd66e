"""Pairs of colliders that are named one by one: where both have a material, UsdPhysics averages what they say."""

from __future__ import annotations

from typing import Any

import numpy as np

from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.backends.mujoco.contacts import set_bounce, sliding_friction
from usd_ros_bridge.backends.mujoco.statics import is_static
from usd_ros_bridge.model.physics import ContactMaterial

MOST_PAIRS = 400
"""Pairs of geoms up to which materials that differ are averaged: MuJoCo looks at every one in every step."""


def can_touch(built: Built, first: int, second: int) -> bool:
    """Returns whether two colliders could touch: on different bodies, one of which moves, that are not kept apart."""
    bodies = sorted((built.scene.colliders[first].body, built.scene.colliders[second].body))
    if bodies[0] == bodies[1] or (bodies[0], bodies[1]) in built.apart_bodies:
        return False
    return not (is_static(built, bodies[0]) and is_static(built, bodies[1]))


def average_materials(built: Built) -> None:
    """Pairs up colliders whose materials differ: MuJoCo would let the rougher one win, UsdPhysics averages."""
    colliders = built.scene.colliders
    bound = [index for index, collider in enumerate(colliders) if collider.material is not None]
    wanted = [
        (first, second)
        for place, first in enumerate(bound)
        for second in bound[place + 1 :]
        if _differ(colliders[first].material, colliders[second].material)
        and _collide(built, first, second)
        and can_touch(built, first, second)
    ]
    geoms = sum(len(built.geom_names[first]) * len(built.geom_names[second]) for first, second in wanted)
    if geoms > MOST_PAIRS:
        built.report(
            "mujoco.materials",
            f"{geoms} pairs of geoms have materials that differ, more than the {MOST_PAIRS} that are averaged: the "
            "greater friction holds",
        )
        return
    for first, second in wanted:
        add_pair(built, first, second)


def _differ(first: ContactMaterial | None, second: ContactMaterial | None) -> bool:
    assert first is not None
    assert second is not None
    return sliding_friction(first) != sliding_friction(second) or first.restitution != second.restitution


def _collide(built: Built, first: int, second: int) -> bool:
    """Returns whether the bits of two colliders let them collide."""
    names = built.geom_names[first][:1], built.geom_names[second][:1]
    if not (names[0] and names[1]):
        return False
    one, other = (built.spec.geom(name[0]) for name in names)
    return bool(one.contype & other.conaffinity or other.contype & one.conaffinity)


def add_pair(built: Built, first: int, second: int) -> None:
    """Adds the contacts of two colliders, with the parameters that MuJoCo would mix, materials averaged."""
    materials = built.scene.colliders[first].material, built.scene.colliders[second].material
    for one in built.geom_names[first]:
        for other in built.geom_names[second]:
            pair = built.spec.add_pair(name=f"{one} {other}", geomname1=one, geomname2=other)
            _mix(pair, built.spec.geom(one), built.spec.geom(other))
            if materials[0] is not None and materials[1] is not None:
                _average(built, pair, materials[0], materials[1])


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


def _average(built: Built, pair: Any, first: ContactMaterial, second: ContactMaterial) -> None:
    friction = 0.5 * (sliding_friction(first) + sliding_friction(second))
    pair.friction[:2] = friction
    if friction > 0.0:
        pair.condim = max(pair.condim, 3)
    set_bounce(pair, 0.5 * (first.restitution + second.restitution), built.spec.option.timestep)
