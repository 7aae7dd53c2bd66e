"""What does not collide with what, groups against UsdPhysics.CollisionGroup.ComputeCollisionGroupTable."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, combinations_with_replacement

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import UsdPhysics

from builders.stage_text import BALL, at, body, findings, header, plan_text, prim, scene_of, stage_of, world
from case_tables import each_case
from usd_ros_bridge.model.physics import PhysicsScene
from usd_ros_bridge.planning.physics import filters

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


def test_a_body_that_is_the_root_of_an_articulation_is_meant_alone() -> None:
    """Converters of MJCF apply the root to the outermost body, and name bodies in what they exclude."""
    hinge = prim(
        "PhysicsRevoluteJoint", "j", "", "rel physics:body0 = </World/a>", "rel physics:body1 = </World/b>"
    )
    root = body("a", filtered("c"), BALL, schemas=f"{PAIRS} PhysicsArticulationRootAPI")
    scene = scene_of(world(root, body("b", BALL, at(0, 0, 1)), hinge, body("c", BALL)))
    assert pairs_of_bodies(scene) == {frozenset("ab"), frozenset("ac")}


@each_case(
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


# --- Welded bodies ------------------------------------------------------------------------------------------------


def link(kind: str, first: str, second: str, *content: str) -> str:
    ends = f"rel physics:body0 = </World/{first}>" if first else ""
    return prim(
        f"Physics{kind}Joint", f"{first or 'world'}_{second}".replace("/", "_"), "",
        ends, f"rel physics:body1 = </World/{second}>", *content,
    )  # fmt: skip


def row_of(names: str, *content: str) -> str:
    """Bodies in a row, each with a ball."""
    return world(*(body(name, BALL, at(place, 0, 0)) for place, name in enumerate(names)), *content)


def all_of(*names: str) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in names}


COLLIDES = "bool physics:collisionEnabled = 1"


def test_a_joint_keeps_apart_what_is_welded_to_its_ends() -> None:
    scene = scene_of(
        row_of(
            "abcde",
            link("Fixed", "a", "b"),
            link("Revolute", "b", "c"),
            link("Fixed", "c", "d"),
            link("Revolute", "d", "e"),
        )
    )
    assert pairs_of_bodies(scene) == all_of("ab", "bc", "ac", "ad", "bd", "cd", "de", "ce")


def test_bodies_without_colliders_make_no_further_pairs() -> None:
    free_of_colliders = [body(name, at(place, 0, 0)) for place, name in enumerate("xyz")]
    links = [link("Fixed", "a", name) for name in "xyz"]
    scene = scene_of(row_of("ab", link("Revolute", "a", "b"), *free_of_colliders, *links))
    assert pairs_of_bodies(scene) == all_of("ab", "ax", "ay", "az")


def test_the_world_welds_nothing_together() -> None:
    """Two bases on one floor: the first link of each collides with the floor and the other's base."""
    scene = scene_of(
        row_of(
            "abcd",
            link("Fixed", "", "a"),
            link("Fixed", "", "c"),
            link("Revolute", "a", "b"),
            link("Revolute", "", "d"),
            ball("floor"),
        )
    )
    assert pairs_of_bodies(scene) == all_of("ab")
    assert pairs_of_colliders(scene) == set()


def test_links_of_a_base_without_mass_are_welded() -> None:
    """The base is a frame, as converters leave it, and the head turns between two bumpers on it."""
    parts = [body(name, BALL, at(place, 0, 0)) for place, name in enumerate(("torso", "bumper"))]
    base = prim("Xform", "base", "RosFrameAPI", *parts)
    scene = scene_of(
        prim(
            "Xform", "World", "RosContextAPI", base, body("head", BALL), body("table", BALL),
            link("Fixed", "", "base/torso"), link("Fixed", "", "base/bumper"), link("Fixed", "", "table"),
            link("Revolute", "base/torso", "head"),
        )
    )  # fmt: skip
    assert pairs_of_bodies(scene) == {frozenset(("base/torso", "head")), frozenset(("base/bumper", "head"))}


def test_a_joint_that_lets_its_ends_collide_keeps_nothing_apart() -> None:
    scene = scene_of(row_of("abc", link("Fixed", "a", "b"), link("Revolute", "b", "c", COLLIDES)))
    assert pairs_of_bodies(scene) == all_of("ab")


def test_two_bodies_whose_own_joint_lets_them_collide_do() -> None:
    """Two joints between the same groups: one keeps them apart, but not the two bodies of the other."""
    scene = scene_of(
        row_of(
            "abcd",
            link("Fixed", "a", "b"),
            link("Revolute", "b", "c"),
            link("Fixed", "c", "d"),
            link("Revolute", "a", "d", COLLIDES, "bool physics:excludeFromArticulation = 1"),
        )
    )
    assert pairs_of_bodies(scene) == all_of("ab", "cd", "bc", "ac", "bd")


def test_a_joint_that_closes_a_loop_keeps_groups_apart_and_welds_nothing() -> None:
    out = "bool physics:excludeFromArticulation = 1"
    scene = scene_of(
        row_of(
            "abcd",
            link("Fixed", "a", "b"),
            link("Revolute", "a", "c"),
            link("Revolute", "c", "d"),
            link("Fixed", "b", "d", out),
        )
    )
    assert pairs_of_bodies(scene) == all_of("ab", "ac", "bc", "cd", "bd", "ad")


def test_the_number_of_pairs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "MOST_WELDED_PAIRS", 3)
    plan = plan_text(
        row_of("abcd", link("Fixed", "a", "b"), link("Revolute", "b", "c"), link("Fixed", "c", "d"))
    )
    assert pairs_of_bodies(plan.physics) == all_of("ab", "bc", "cd")
    assert [finding.path for finding in findings(plan, "1.3.filter")] == ["/World/b_c"]


def test_the_number_of_pairs_of_one_prim_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = "\n".join(body(name, BALL) for name in "abc")
    hinges = "\n".join(
        prim("PhysicsRevoluteJoint", f"j_{name}", "", f"rel physics:body0 = <{a}>", f"rel physics:body1 = <{b}>")
        for name, a, b in (
            ("ab", "/World/arm/a", "/World/arm/b"), ("bc", "/World/arm/b", "/World/arm/c")
        )
    )  # fmt: skip
    arm = prim(
        "Xform",
        "arm",
        "PhysicsArticulationRootAPI",
        "bool physxArticulation:enabledSelfCollisions = 0",
        bodies,
        hinges,
    )
    whole = plan_text(world(arm))
    assert pairs_of_bodies(whole.physics) == {
        frozenset(f"arm/{name}" for name in pair) for pair in ("ab", "bc", "ac")
    }
    assert findings(whole, "1.3.filter") == []
    monkeypatch.setattr(filters, "MOST_WELDED_PAIRS", 2)
    plan = plan_text(world(arm))
    assert pairs_of_bodies(plan.physics) == {
        frozenset(f"arm/{name}" for name in pair) for pair in ("ab", "bc")
    }
    assert [finding.path for finding in findings(plan, "1.3.filter")] == ["/World/arm"]


def test_the_number_of_filtered_pairs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    group = prim("Xform", "group", "", body("b", BALL), body("c", BALL))
    text = world(body("a", filtered("group"), BALL, schemas=PAIRS), group)
    whole = plan_text(text)
    assert pairs_of_colliders(whole.physics) == {
        frozenset(("a/ball", "group/b/ball")),
        frozenset(("a/ball", "group/c/ball")),
    }
    for name in ("MOST_WELDED_PAIRS", "MOST_PAIRS"):
        with monkeypatch.context() as patch:
            patch.setattr(filters, name, 1)
            plan = plan_text(text)
        assert pairs_of_colliders(plan.physics) == set()
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
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(stage_of(text, header()))
    found = apart(scene_of(text))
    for first, second in combinations_with_replacement(range(3), 2):
        collide = table.IsCollisionEnabled(f"/World/g{first}", f"/World/g{second}")
        assert (frozenset((NAMES[first], OTHERS[second])) not in found) == collide
