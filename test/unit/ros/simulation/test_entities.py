"""Entities of a simulation: names that are unique and readable, filters, and whether boxes overlap."""

from __future__ import annotations

import ctypes
import itertools
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import each_case

pytest.importorskip("simulation_interfaces", reason="simulation_interfaces is not installed")

from simulation_interfaces.srv import GetEntitiesStates, GetEntityInfo, SetEntityInfo

from usd_ros_bridge.backends.base import EntityState
from usd_ros_bridge.model.plan import BridgePlan, RobotPlan, Scene
from usd_ros_bridge.model.state import Layout, PoseTrack
from usd_ros_bridge.ros.simulation.entities import (
    OrientedBox,
    box_overlaps,
    make_table,
    sphere_overlaps,
    tags_pass,
    unique_names,
)
from usd_ros_bridge.ros.simulation.entity_services import EntityServices
from usd_ros_bridge.ros.simulation.name_patterns import NamePattern
from usd_ros_bridge.spatial.transforms import axis_rotation, compose, exponential, inverse, pose, to_matrix


def make_plan(
    bodies: list[str], robots: list[tuple[str, list[str]]], kinematic=(), animated=()
) -> BridgePlan:
    rows = {path: row for row, path in enumerate(bodies)}
    layout = Layout(
        bodies=tuple(bodies),
        body_pose=np.tile(pose(), (len(bodies), 1)),
        kinematic=np.array([path in kinematic for path in bodies]),
    )
    tracks = [PoseTrack(row=rows[path], time=np.zeros(1), world_from_body=pose()[None]) for path in animated]
    return BridgePlan(
        asset="world.usda",
        layout=layout,
        scene=Scene(pose_tracks=tuple(tracks)),
        robots=tuple(
            RobotPlan(path=path, namespace=f"/{path.split('/')[-1]}", domain_id=None,
                      bodies=tuple(rows[each] for each in own), base_row=rows[own[0]] if own else -1)
            for path, own in robots
        ),
    )  # fmt: skip


def names(plan: BridgePlan, paths: list[str]) -> list[str]:
    return [entity.name for entity in make_table(plan, paths).entities]


def test_robots_props_and_links_have_the_names_of_their_prims():
    bodies = ["/World/rover/base_link", "/World/rover/wheel_left", "/World/crate"]
    plan = make_plan(bodies, [("/World/rover", bodies[:2])])
    table = make_table(plan, bodies)
    assert [entity.name for entity in table.entities] == ["rover", "crate", "rover/wheel_left"]
    rover, crate, wheel = table.entities
    assert (rover.path, rover.category, rover.tags) == ("/World/rover/base_link", "robot", ("robot",))
    assert (crate.path, crate.category, crate.tags) == ("/World/crate", "object", ("prop",))
    assert (wheel.robot, wheel.tags) == (0, ("link",))


def test_an_entity_is_found_by_its_name_its_prim_and_its_context():
    bodies = ["/World/rover/base_link", "/World/rover/wheel_left"]
    table = make_table(make_plan(bodies, [("/World/rover", bodies)]), bodies)
    for name in ("rover", "/World/rover", "/World/rover/base_link"):
        assert table.get(name) is table.entities[0]
    assert table.get("rover/wheel_left") is table.get("/World/rover/wheel_left")
    for name in ("", "rover/base_link", "World", "/rover"):
        assert table.get(name) is None


def test_two_of_one_name_are_told_apart_by_the_prims_above():
    bodies = [
        "/W/left/arm/base",
        "/W/left/arm/link",
        "/W/right/arm/base",
        "/W/right/arm/link",
        "/W/a/box",
        "/W/b/box",
    ]
    plan = make_plan(bodies, [("/W/left/arm", bodies[:2]), ("/W/right/arm", bodies[2:4])])
    assert names(plan, bodies) == [
        "left/arm",
        "right/arm",
        "a/box",
        "b/box",
        "left/arm/link",
        "right/arm/link",
    ]


def test_links_of_one_robot_are_told_apart_inside_of_it():
    bodies = ["/arm/base", "/arm/left/finger", "/arm/right/finger"]
    assert names(make_plan(bodies, [("/arm", bodies)]), bodies) == [
        "arm",
        "arm/left/finger",
        "arm/right/finger",
    ]


def test_a_prop_does_not_take_the_name_of_a_robot():
    bodies = ["/W/rover/base", "/W/shelf/rover"]
    assert names(make_plan(bodies, [("/W/rover", bodies[:1])]), bodies) == ["rover", "shelf/rover"]


def test_bodies_of_a_robot_that_is_not_simulated_are_props():
    bodies = ["/W/rover/base", "/W/rover/wheel"]
    assert names(make_plan(bodies, [("/W/rover", bodies)]), bodies[1:]) == ["wheel"]


def test_kinematic_bodies_stay_and_animated_ones_move():
    bodies = ["/W/wall", "/W/door", "/W/crate"]
    table = make_table(make_plan(bodies, [], kinematic=bodies[:2], animated=bodies[1:2]), bodies)
    assert [entity.category for entity in table.entities] == ["static_object", "dynamic_object", "object"]
    assert [entity.kinematic for entity in table.entities] == [True, True, False]


def test_names_are_unique_whatever_the_paths():
    parts = ["a", "b", "ab"]
    paths = ["/" + "/".join(each) for n in (1, 2, 3) for each in itertools.product(parts, repeat=n)]
    candidates = [
        ["/".join(path.split("/")[-n:]) for n in range(1, path.count("/") + 1)] + [path] for path in paths
    ]
    taken = {"taken"}
    found = unique_names(candidates, taken)
    assert len(set(found)) == len(paths)
    assert taken == {"taken", *found}
    assert all(path.endswith(name) for path, name in zip(paths, found, strict=True))


@each_case(
    ("pattern", "name", "matches"),
    [
        ("", "rover", True),
        ("rov", "rover", True),
        ("^ov", "rover", False),
        ("^rover$", "rover/wheel", False),
        ("^[^/]+$", "rover/wheel", False),
        ("(crate|box)_[[:digit:]]+$", "crate_12", True),
        ("[[:upper:]]", "rover", False),
        ("[[:alpha:]_]{5}", "rover", True),
        ("wheel_(left|right)", "rover/wheel_right", True),
        ("^(a|b){2,3}$", "aba", True),
        ("^(a|b){2,3}$", "abab", False),
        ("^a{,2}$", "aaa", False),
        (r"^a\.b$", "axb", False),
        ("^[]a-]+$", "a]-", True),
        (r"^[\d]+$", "d", True),
        ("[[&&]", "&", True),
        ("^a$", "a\n", False),
        ("[[:alpha:]]", "\u00e9", False),
        ("x|", "rover", True),
        ("^$", "", True),
        ("b^a", "b^a", False),
    ],
)
def test_names_are_matched_by_posix_extended_expressions(pattern, name, matches):
    assert NamePattern(pattern).matches(name) is matches


@each_case(
    "pattern",
    [
        "(",
        ")",
        "a" * 257,
        "[[:nothing:]]",
        "*a",
        "a|*b",
        "(+a)",
        "^*",
        "a{99999999999}",
        "a{2,1}",
        "a{}",
        "a+?",
        "a{2}*",
        "(?R)",
        "[[=a=]]",
        "a{x}",
        "a{",
        "{2}",
        "[a",
        "[z-a]",
        "[[.ab.]]",
        r"\d",
        r"(a)\1",
        "\\",
        "(" * 33 + ")" * 33,
        "((a{255}){255}){255}",
    ],
)
def test_expressions_that_are_not_valid_say_why(pattern):
    with pytest.raises(ValueError, match=r"\w"):
        NamePattern(pattern)


_ATOMS = st.sampled_from(
    ["a", "b", "_", "/", ".", "[ab]", "[^a]", "[[:alpha:]]", "[b-c]", r"\.", "[]a]", "[a-]", "[^]/]"]
)
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("({0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,2}", "{1,}"])).map(
            "({0[0]}){0[1]}".format
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    start=st.sampled_from(["", "^"]),
    inner=_PATTERNS,
    end=st.sampled_from(["", "$"]),
    names=st.lists(st.text("abc/._-]", max_size=8), min_size=1, max_size=5),
)
def test_expressions_match_as_in_the_c_library(start, inner, end, names):
    """Anchors stay outside of repetitions: glibc lets `(^a){2}` match inside a name."""
    pattern = f"{start}{inner}{end}"
    ours = NamePattern(pattern)
    assert [ours.matches(name) for name in names] == regexec(pattern, names)


def regexec(pattern: str, names: list[str]) -> list[bool]:
    """Match with regcomp(3) and regexec(3) of the C library."""
    library, compiled = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    extended, no_groups = 1, 8
    assert library.regcomp(compiled, pattern.encode(), extended | no_groups) == 0, pattern
    try:
        return [library.regexec(compiled, name.encode(), 0, None, 0) == 0 for name in names]
    finally:
        library.regfree(compiled)


@pytest.mark.parametrize("pattern", ["((a|aa)+)+$", "(a|b)*a(a|b){120}X"])
def test_an_expression_that_takes_too_long_is_refused(pattern):
    expression, begin = NamePattern(pattern), time.thread_time()
    with pytest.raises(ValueError, match="simpler expression"):
        any(expression.matches("a" * 250 + f"!{index}") for index in range(100_000))
    assert time.thread_time() - begin < 2.0


def test_without_the_library_a_filter_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "regex", None)
    with pytest.raises(ValueError, match="apt install python3-regex"):
        NamePattern("a")


def test_tags_pass_where_any_or_all_are_there():
    assert tags_pass(["a", "b"], {"b", "c"}, every=False)
    assert not tags_pass(["a", "b"], {"b", "c"}, every=True)
    assert tags_pass(["a", "b"], {"b", "a"}, every=True)
    assert tags_pass([], set(), every=True)
    assert not tags_pass([], {"a"}, every=False)


def unit_box(at=(0.0, 0.0, 0.0), rotation=(0.0, 0.0, 0.0, 1.0)) -> OrientedBox:
    return OrientedBox(pose=pose(at, rotation), low=np.full(3, -0.5), high=np.full(3, 0.5))


def test_a_sphere_touches_a_turned_box_at_its_corner():
    turned = unit_box(rotation=axis_rotation(np.array([0.0, 0.0, 1.0]), np.array(np.pi / 4)))
    reach = np.sqrt(0.5)
    assert sphere_overlaps(turned, np.array([reach + 0.09, 0.0, 0.0]), 0.1)
    assert not sphere_overlaps(turned, np.array([reach + 0.11, 0.0, 0.0]), 0.1)
    assert sphere_overlaps(turned, np.zeros(3), 0.0)


def test_boxes_that_edges_alone_keep_apart_do_not_overlap():
    """Their projections on the normals of all faces overlap; only a cross product of edges separates them."""
    quarter, half = np.array(np.pi / 4), np.full(3, 0.5)
    tilted = compose(
        pose((0.0, 0.0, 0.0), axis_rotation(np.array([0.0, 0.0, 1.0]), quarter)),
        pose((0.0, 0.0, 0.0), axis_rotation(np.array([1.0, 0.0, 0.0]), quarter)),
    )
    shift = np.array([-0.97, 1.09, 0.12])
    rotation = to_matrix(tilted)[:3, :3]
    normals = np.concatenate((np.eye(3), rotation.T))
    assert (np.abs(normals @ shift) <= np.abs(normals) @ half + np.abs(normals @ rotation) @ half).all()
    apart = OrientedBox(pose=compose(pose(shift), tilted), low=-half, high=half)
    assert not box_overlaps(apart, -half, half)
    nearer = OrientedBox(pose=compose(pose(0.9 * shift), tilted), low=-half, high=half)
    assert box_overlaps(nearer, -half, half)


def test_overlap_agrees_with_points_of_both_boxes():
    """Where a point of a dense grid in one box lies in the other they overlap; where they do not, none does."""
    random = np.random.default_rng(7)
    grid = np.stack(np.meshgrid(*[np.linspace(-0.5, 0.5, 12)] * 3), axis=-1).reshape(-1, 3)
    seen = {True: 0, False: 0}
    for _ in range(300):
        box = unit_box(random.uniform(-1.3, 1.3, 3), exponential(random.uniform(-2.0, 2.0, 3)))
        overlaps = box_overlaps(box, np.full(3, -0.5), np.full(3, 0.5))
        points = np.tile(pose(), (len(grid), 1))
        points[:, :3] = grid
        inside = compose(inverse(box.pose), points)[:, :3]
        touched = bool((np.abs(inside) <= 0.5).all(axis=1).any())
        seen[overlaps] += 1
        assert overlaps or not touched
    assert min(seen.values()) > 30


class Bodies:
    """A backend of bodies that lie at the origin."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths

    def entities(self):
        return self._paths

    def entity_state(self, path: str) -> EntityState:
        if path not in self._paths:
            raise KeyError(path)
        return EntityState(pose=pose(), twist=np.zeros(6))


class World:
    """Services of entities whose world changes."""

    def __init__(self, *paths: str) -> None:
        self.runtime = SimpleNamespace(plan=make_plan(list(paths), []), now_ns=0)
        self.services = EntityServices(self.runtime, Bodies(*paths))

    def change(self, *paths: str) -> None:
        self.runtime.plan = make_plan(list(paths), [])
        self.services.set_backend(Bodies(*paths))

    def describe(self, entity: str, text: str) -> None:
        request = SetEntityInfo.Request(entity=entity)
        request.info.description = text
        self.services.set_entity_info(request, None)

    def description(self, entity: str) -> str:
        response = GetEntityInfo.Response()
        self.services.get_entity_info(GetEntityInfo.Request(entity=entity), response)
        return response.info.description

    def names(self) -> list[str]:
        response = GetEntitiesStates.Response()
        self.services.get_entities_states(GetEntitiesStates.Request(), response, None)
        assert len(response.states) == len(response.entities)
        return list(response.entities)


def test_what_was_said_of_an_entity_goes_with_it():
    world = World("/World/Box", "/World/Cup")
    world.describe("Box", "mine")
    world.describe("Cup", "to drink")
    world.change("/World/Shelf/Box", "/World/Cup")
    assert sorted(world.names()) == ["Box", "Cup"]
    assert world.description("Cup") == "to drink"
    assert world.description("Box") != "mine"
    world.change("/World/Cup")
    assert world.names() == ["Cup"]
    world.change("/World/Box", "/World/Cup")
    assert world.description("Box") != "mine"
    assert world.description("Cup") == "to drink"
