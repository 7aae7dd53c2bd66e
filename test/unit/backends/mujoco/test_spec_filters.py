"""What collides with what: excludes, groups, pairs and jointed bodies, by the contacts that MuJoCo makes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

from spec_scenes import UNIT, Reports, collider, simulated

from usd_ros_bridge.backends.mujoco import contacts
from usd_ros_bridge.backends.mujoco.contacts import MOST_CLASSES, CollisionFilter
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Body,
    Collider,
    ContactMaterial,
    Dof,
    Joint,
    PhysicsScene,
    Sphere,
)

Pair = tuple[int, int]


def heap(count: int, **others: Any) -> PhysicsScene:
    """Returns free balls, all in one place, one collider each."""
    groups = others.pop("group_of", [-1] * count)
    return PhysicsScene(
        bodies=tuple(Body(path=f"/body_{index}", inertial=UNIT) for index in range(count)),
        colliders=tuple(collider(index, Sphere(0.1), group=groups[index]) for index in range(count)),
        **others,
    )


def touching(scene: PhysicsScene, reports: Reports | None = None) -> list[Pair]:
    """Returns the pairs of colliders between which there are contacts, each as often as it has any."""
    compiled, _, data = simulated(scene, reports)
    owner = {int(geom): index for index, ids in enumerate(compiled.geom_ids) for geom in ids}
    found = [tuple(sorted((owner[int(c.geom1)], owner[int(c.geom2)]))) for c in data.contact[: data.ncon]]
    return sorted((first, second) for first, second in found)


def all_pairs(count: int, *, without: Iterable[Pair] = ()) -> list[Pair]:
    return [
        (first, second)
        for first in range(count)
        for second in range(first + 1, count)
        if (first, second) not in set(without)
    ]


def test_everything_collides_by_default() -> None:
    assert touching(heap(4)) == all_pairs(4)


def test_bodies_are_kept_apart() -> None:
    assert touching(heap(4, apart_bodies=((0, 1), (2, 3)))) == all_pairs(4, without=((0, 1), (2, 3)))


def test_colliders_are_kept_apart() -> None:
    apart = ((0, 1), (1, 2), (1, 3))
    assert touching(heap(5, apart_colliders=apart)) == all_pairs(5, without=apart)


def test_colliders_of_one_body_may_be_told_apart() -> None:
    bodies = tuple(Body(path=f"/body_{index}", inertial=UNIT) for index in range(2))
    shapes = tuple(collider(body, Sphere(0.1), path=f"/part_{n}") for n, body in enumerate((0, 0, 1)))
    assert touching(PhysicsScene(bodies=bodies, colliders=shapes, apart_colliders=((1, 2),))) == [(0, 2)]


def test_groups_are_kept_apart_from_others_and_from_themselves() -> None:
    scene = heap(
        6, group_of=[0, 0, 1, 1, 2, -1], groups=("/a", "/b", "/c"), apart_groups=((0, 1), (1, 1)),
    )  # fmt: skip
    without = ((0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    assert touching(scene) == all_pairs(6, without=without)


def test_pairs_come_on_top_of_groups() -> None:
    scene = heap(
        4, group_of=[0, 0, 1, 1], groups=("/a", "/b"), apart_groups=((0, 1),), apart_colliders=((0, 1),)
    )  # fmt: skip
    assert touching(scene) == [(2, 3)]


@each_case("seed", range(3))
def test_any_filter_is_kept(seed: int) -> None:
    """More kinds of colliders than MuJoCo has bits for, where need be: the rest is paired one by one."""
    random = np.random.default_rng(seed)
    count = 40
    apart = tuple(pair for pair in all_pairs(count) if random.random() < 0.3)
    bodies = tuple(pair for pair in all_pairs(count) if random.random() < 0.1)
    reports = Reports()
    scene = heap(count, apart_colliders=apart, apart_bodies=bodies)
    assert len(CollisionFilter(scene).classes()) > MOST_CLASSES
    assert touching(scene, reports) == all_pairs(count, without={*apart, *bodies})
    assert list(reports) == ["mujoco.filter"]


def test_a_clique_takes_one_bit() -> None:
    scene = heap(50, apart_colliders=tuple(all_pairs(50)))
    assert len(CollisionFilter(scene).classes()) == 1
    assert touching(scene) == []


def jointed(*, kind: Any = "revolute", **others: Any) -> PhysicsScene:
    """Returns three bodies in a row, in one place."""
    dofs = (Dof(axis="rotZ"),) if kind == "revolute" else ()
    joints = tuple(
        Joint(path=f"/joint_{index}", type=kind, body0=index, body1=index + 1, dofs=dofs)
        for index in range(2)
    )
    bodies = tuple(
        Body(path=f"/body_{index}", inertial=UNIT, parent=index - 1, joints=(index - 1,) if index else ())
        for index in range(3)
    )
    shapes: tuple[Collider, ...] = tuple(collider(index, Sphere(0.1)) for index in range(3))
    return PhysicsScene(bodies=bodies, joints=joints, colliders=shapes, **others)


def test_jointed_bodies_collide_unless_they_are_kept_apart() -> None:
    assert touching(jointed()) == all_pairs(3)
    assert touching(jointed(apart_bodies=((0, 1), (1, 2)))) == [(0, 2)]


def test_bodies_that_are_fixed_to_each_other_do_not_collide() -> None:
    scene = jointed(kind="fixed")
    assert touching(scene) == []
    materials = [ContactMaterial(dynamic_friction=friction) for friction in (0.2, 0.4, 0.6)]
    rubbing = tuple(collider(index, Sphere(0.1), material=materials[index]) for index in range(3))
    assert touching(PhysicsScene(bodies=scene.bodies, joints=scene.joints, colliders=rubbing)) == []


def test_the_world_can_be_kept_apart_from_a_body() -> None:
    scene = heap(1)
    floor = collider(WORLD_BODY, Sphere(0.1), path="/floor")
    both = PhysicsScene(bodies=scene.bodies, colliders=(*scene.colliders, floor))
    assert touching(both) == [(0, 1)]
    apart = PhysicsScene(
        bodies=scene.bodies, colliders=both.colliders, apart_bodies=((WORLD_BODY, 0),)
    )  # fmt: skip
    assert touching(apart) == []


def test_materials_that_are_averaged_make_each_contact_once() -> None:
    materials = [ContactMaterial(dynamic_friction=mu) for mu in (0.2, 0.6, 0.6)]
    scene = PhysicsScene(
        bodies=tuple(Body(path=f"/body_{index}", inertial=UNIT) for index in range(3)),
        colliders=tuple(collider(n, Sphere(0.1), material=material) for n, material in enumerate(materials)),
        apart_bodies=((0, 2),),
    )
    assert touching(scene) == [(0, 1), (1, 2)]
    compiled, _, data = simulated(scene)
    friction = {
        frozenset((int(c.geom1), int(c.geom2))): float(c.friction[0]) for c in data.contact[: data.ncon]
    }  # fmt: skip
    ids = [int(geoms[0]) for geoms in compiled.geom_ids]
    assert friction == {
        frozenset((ids[0], ids[1])): pytest.approx(0.4),
        frozenset((ids[1], ids[2])): pytest.approx(0.6),
    }


@each_case(
    ("modes", "expected"),
    [
        (("average", "average"), 0.5),
        (("min", "average"), 0.2),
        (("average", "multiply"), 0.16),
        (("max", "min"), 0.8),
        (("unheard-of", "min"), 0.2),
    ],
)
def test_materials_combine_as_they_ask(modes: tuple[str, str], expected: float) -> None:
    scene = heap(2)
    shapes = tuple(
        collider(
            index, Sphere(0.1), material=ContactMaterial(dynamic_friction=friction), solver={"friction_combine": mode}
        )
        for index, (friction, mode) in enumerate(zip((0.2, 0.8), modes, strict=True))
    )  # fmt: skip
    _, _, data = simulated(PhysicsScene(bodies=scene.bodies, colliders=shapes))
    assert data.ncon == 1
    assert data.contact.friction[0, 0] == pytest.approx(expected)


def test_the_higher_priority_decides_alone() -> None:
    scene = heap(2)
    shapes = tuple(
        collider(
            index, Sphere(0.1), material=ContactMaterial(dynamic_friction=friction), solver={"priority": priority}
        )
        for index, (friction, priority) in enumerate(((0.2, 2), (0.8, 1)))
    )  # fmt: skip
    _, _, data = simulated(PhysicsScene(bodies=scene.bodies, colliders=shapes))
    assert data.contact.friction[:, 0].tolist() == [0.2]


FRICTIONS = (0.1, 0.3, 0.5, 0.7)
"""Of three bodies and the ground."""


def frictions_of(scene: PhysicsScene, reports: Reports) -> dict[tuple[int, int], float]:
    """Returns the friction of each contact by its two colliders."""
    compiled, _, data = simulated(scene, reports)
    owner = {int(ids[0]): index for index, ids in enumerate(compiled.geom_ids)}
    return {
        tuple(sorted((owner[int(c.geom1)], owner[int(c.geom2)]))): round(float(c.friction[0]), 9)  # type: ignore[misc]
        for c in data.contact[: data.ncon]
    }


def differing() -> PhysicsScene:
    materials = [ContactMaterial(dynamic_friction=friction) for friction in FRICTIONS]
    shapes = (
        *(collider(index, Sphere(0.1), material=materials[index]) for index in range(3)),
        collider(WORLD_BODY, Sphere(0.1), path="/ground", material=materials[3]),
    )
    return PhysicsScene(bodies=heap(3).bodies, colliders=shapes)


@each_case("most", [6, 3])
def test_all_pairs_are_averaged_and_those_with_the_ground_need_no_pairs(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contacts, "MOST_PAIRS", most)
    reports = Reports()
    assert frictions_of(differing(), reports) == {
        (one, other): pytest.approx(0.5 * (FRICTIONS[one] + FRICTIONS[other])) for one, other in all_pairs(4)
    }
    assert dict(reports) == {}


def test_above_the_most_pairs_what_does_not_move_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contacts, "MOST_PAIRS", 2)
    reports = Reports()
    found = frictions_of(differing(), reports)
    assert list(reports) == ["mujoco.materials"]
    # Between two bodies without a pair, the greater of what each has with the ground.
    assert found == {(0, 3): 0.4, (1, 3): 0.5, (2, 3): 0.6, (0, 1): 0.2, (0, 2): 0.3, (1, 2): 0.6}


def test_a_collider_without_a_material_has_the_default_and_nothing_brakes_what_slides() -> None:
    shapes = (
        collider(0, Sphere(0.1), material=ContactMaterial(static_friction=0.9, dynamic_friction=0.9)),
        collider(1, Sphere(0.1), material=ContactMaterial()),
        collider(2, Sphere(0.1)),
        collider(WORLD_BODY, Sphere(0.1), path="/ground"),
    )
    found = frictions_of(PhysicsScene(bodies=heap(3).bodies, colliders=shapes), Reports())
    slippery = contacts.FRICTIONLESS
    assert found == {
        (0, 1): 0.45, (0, 2): 0.7, (0, 3): 0.7, (1, 2): slippery, (1, 3): slippery, (2, 3): 0.5
    }  # fmt: skip


def test_a_bounce_is_averaged_with_what_does_not_bounce() -> None:
    """0.2 and 0 make 0.1, which is less than any contact has: MuJoCo's own spring and damper."""
    shapes = tuple(
        collider(index, Sphere(0.1), material=ContactMaterial(dynamic_friction=0.5, restitution=restitution))
        for index, restitution in enumerate((0.2, 0.0, 0.2))
    )
    _, _, data = simulated(PhysicsScene(bodies=heap(3).bodies, colliders=shapes))
    springs = {
        frozenset((int(c.geom1), int(c.geom2))): float(c.solref[0]) for c in data.contact[: data.ncon]
    }  # fmt: skip
    assert sorted(value > 0.0 for value in springs.values()) == [False, True, True]
