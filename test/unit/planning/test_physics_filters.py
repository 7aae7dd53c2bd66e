"""What does not collide with what, groups against UsdPhysics.CollisionGroup.ComputeCollisionGroupTable."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, combinations_with_replacement

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from physics_stages import BALL, at, body, findings, open_text, plan_text, prim, scene_of, world
from pxr import UsdPhysics

from usd_ros_bridge.model.physics import PhysicsScene

COLLISION = "PhysicsCollisionAPI"
NAMES, OTHERS = "abcd", "xyz"


def ball(name: str, *content: str, schemas: str = COLLISION) -> str:
    return prim("Sphere", name, schemas, *content)


def filtered(*targets: str) -> str:
    return f"rel physics:filteredPairs = [{', '.join(f'</World/{target}>' for target in targets)}]"


def pairs_of_bodies(scene: PhysicsScene) -> set[frozenset[str]]:
    return {
        frozenset(scene.bodies[n].path.removeprefix("/World/") for n in pair) for pair in scene.apart_bodies
    }


def pairs_of_colliders(scene: PhysicsScene) -> set[frozenset[str]]:
    return {
        frozenset(scene.colliders[n].path.removeprefix("/World/") for n in pair)
        for pair in scene.apart_colliders
    }


PAIRS = "PhysicsFilteredPairsAPI"


def test_pairs_of_bodies() -> None:
    scene = scene_of(
        world(body("a", filtered("b", "c"), BALL, schemas=PAIRS), body("b", BALL), body("c", BALL))
    )
    assert pairs_of_bodies(scene) == {frozenset("ab"), frozenset("ac")}
    assert all(first < second for first, second in scene.apart_bodies)


def test_pairs_of_colliders() -> None:
    scene = scene_of(world(ball("a", filtered("b"), schemas=f"{COLLISION} {PAIRS}"), ball("b"), ball("c")))
    assert pairs_of_colliders(scene) == {frozenset("ab")}


def test_a_collider_and_a_body() -> None:
    ground = ball("ground", filtered("b"), schemas=f"{COLLISION} {PAIRS}")
    scene = scene_of(world(ground, body("b", ball("x"), ball("y"))))
    assert pairs_of_colliders(scene) == {frozenset(("ground", "b/x")), frozenset(("ground", "b/y"))}


def test_a_nested_body_is_not_its_parent() -> None:
    scene = scene_of(world(body("a", filtered("b"), BALL, body("n", BALL), schemas=PAIRS), body("b", BALL)))
    assert pairs_of_bodies(scene) == {frozenset("ab")}


def articulated(*content: str, schemas: str = "") -> str:
    joint = prim(
        "PhysicsRevoluteJoint",
        "j",
        "",
        "rel physics:body0 = </World/arm/a>",
        "rel physics:body1 = </World/arm/b>",
    )
    return prim(
        "Xform",
        "arm",
        f"PhysicsArticulationRootAPI {schemas}",
        *content,
        body("a", BALL),
        body("b", BALL, at(0, 0, 1)),
        joint,
    )


def test_an_articulation_is_all_of_its_bodies() -> None:
    scene = scene_of(world(articulated(filtered("c"), schemas=PAIRS), body("c", BALL)))
    assert {frozenset(("arm/a", "c")), frozenset(("arm/b", "c"))} <= pairs_of_bodies(scene)


@pytest.mark.parametrize(
    "attribute", ["bool newton:selfCollisionEnabled = 0", "bool physxArticulation:enabledSelfCollisions = 0"]
)
def test_articulations_without_self_collision(attribute: str) -> None:
    free = articulated().replace(
        "rel physics:body1 = </World/arm/b>",
        "rel physics:body1 = </World/arm/b>\nbool physics:collisionEnabled = 1",
    )
    assert pairs_of_bodies(scene_of(world(free))) == set()
    quiet = free.replace("{\n", "{\n" + attribute + "\n", 1)
    assert pairs_of_bodies(scene_of(world(quiet))) == {frozenset(("arm/a", "arm/b"))}


def test_targets_that_do_not_collide() -> None:
    plan = plan_text(world(body("a", filtered("nowhere"), BALL, schemas=PAIRS)))
    assert [finding.path for finding in findings(plan, "1.3.filter")] == ["/World/a"]


# --- Groups -------------------------------------------------------------------------------------------------------


def group(name: str, members: str, named: Iterable[str], *, invert: bool, merge: str) -> str:
    includes = ", ".join(f"</World/{member}>" for member in members)
    targets = ", ".join(f"</World/{target}>" for target in named)
    return prim(
        "PhysicsCollisionGroup",
        name,
        "CollectionAPI:colliders",
        f"rel collection:colliders:includes = [{includes}]",
        f"rel physics:filteredGroups = [{targets}]",
        f"bool physics:invertFilteredGroups = {int(invert)}",
        f'string physics:mergeGroup = "{merge}"' if merge else "",
    )


def apart(scene: PhysicsScene) -> set[frozenset[str]]:
    """Pairs of colliders that their groups keep apart."""
    found = set()
    for first, second in combinations(scene.colliders, 2):
        numbers = tuple(sorted((first.group, second.group)))
        if numbers in scene.apart_groups:
            found.add(frozenset(each.path.removeprefix("/World/") for each in (first, second)))
    return found


def test_groups_that_do_not_collide() -> None:
    text = world(
        *map(ball, "abc"),
        group("g", "a", "h", invert=False, merge=""),
        group("h", "b", "", invert=False, merge=""),
    )
    scene = scene_of(text)
    assert apart(scene) == {frozenset("ab")}
    assert [each.group for each in scene.colliders] == [0, 1, -1]
    assert scene.groups == ("/World/g", "/World/h")


def test_a_group_that_does_not_collide_with_itself() -> None:
    assert apart(scene_of(world(*map(ball, "abc"), group("g", "ab", "g", invert=False, merge="")))) == {
        frozenset("ab")
    }


def test_an_inverted_group_keeps_all_others_away() -> None:
    """Also colliders that are in no group."""
    text = world(
        *map(ball, "abc"),
        group("g", "a", "h", invert=True, merge=""),
        group("h", "b", "", invert=False, merge=""),
    )
    assert apart(scene_of(text)) == {frozenset("ac")}


def test_a_collider_in_two_groups_keeps_to_the_rules_of_both() -> None:
    text = world(
        *map(ball, "abc"),
        group("g", "a", "k", invert=False, merge=""),
        group("h", "a", "l", invert=False, merge=""),
        group("k", "b", "", invert=False, merge=""),
        group("l", "c", "", invert=False, merge=""),
    )
    assert apart(scene_of(text)) == {frozenset("ab"), frozenset("ac")}


def test_a_group_that_is_none() -> None:
    plan = plan_text(world(ball("a"), group("g", "a", "a", invert=False, merge="")))
    assert [finding.path for finding in findings(plan, "1.3.filter")] == ["/World/g"]


subsets = st.sets(st.sampled_from(["g0", "g1", "g2"])).map(sorted)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.tuples(subsets, st.booleans(), st.sampled_from(["", "", "m"])), min_size=3, max_size=3))
def test_groups_are_filtered_as_usd_has_it(rules: list[tuple[list[str], bool, str]]) -> None:
    groups = [
        group(f"g{n}", NAMES[n] + OTHERS[n], named, invert=invert, merge=merge)
        for n, (named, invert, merge) in enumerate(rules)
    ]
    text = world(*map(ball, NAMES + OTHERS), *groups)
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(open_text(text))
    found = apart(scene_of(text))
    for first, second in combinations_with_replacement(range(3), 2):
        collide = table.IsCollisionEnabled(f"/World/g{first}", f"/World/g{second}")
        assert (frozenset((NAMES[first], OTHERS[second])) not in found) == collide
