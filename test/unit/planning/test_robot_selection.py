"""Robot selection: globs agree with OpenUSD's path expressions and Python's fnmatch; shards divide what is selected."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pxr import Sdf, Usd

from case_tables import each_case
from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.stage import RobotRoot
from usd_ros_bridge.options import PlanOptions, parse_contexts, parse_shard
from usd_ros_bridge.planning.robot_selection import select_robots

ROBOTS = (
    RobotRoot("/World/robot_1", "fleet/robot_1"),
    RobotRoot("/World/robot_2", "fleet/robot_2"),
    RobotRoot("/World/robot_10", "fleet/robot_10"),
    RobotRoot("/World/cell/arm", "cell/arm"),
    RobotRoot("/World/cell/deep/arm", "/cell/deep/arm"),
    RobotRoot("/World/nameless", ""),
    RobotRoot("/Hall/robot_1", "hall"),
    RobotRoot("/Hall/faulty", "1 no namespace"),
)


def chosen(*entries: str, shard: str = "") -> list[str]:
    options = PlanOptions(contexts=parse_contexts(entries), shard=shard)
    return list(select_robots(options, ROBOTS).robots)


@each_case(
    ("entries", "paths"),
    [
        (("/World/robot_1",), ["/World/robot_1"]),
        (("/World/cell/",), ["/World/cell/arm", "/World/cell/deep/arm"]),
        (("/World/robot_*",), ["/World/robot_1", "/World/robot_2", "/World/robot_10"]),
        (("/World/robot_?",), ["/World/robot_1", "/World/robot_2"]),
        (("/*/robot_1",), ["/World/robot_1", "/Hall/robot_1"]),
        (("/World/*/arm",), ["/World/cell/arm"]),
        (("/World/**/arm",), ["/World/cell/arm", "/World/cell/deep/arm"]),
        (("/**/deep",), ["/World/cell/deep/arm"]),
        (("robot_1", "hall"), None),
        (("fleet/robot_1",), ["/World/robot_1"]),
        (("fleet",), ["/World/robot_1", "/World/robot_2", "/World/robot_10"]),
        (("fleet/robot_[02-9]*",), ["/World/robot_2"]),
        (("*/robot_?, cell/deep",), ["/World/robot_1", "/World/robot_2", "/World/cell/deep/arm"]),
        (("hall/",), ["/Hall/robot_1"]),
        (("fleet/robot_[!1]",), ["/World/robot_2"]),
        (("**/arm",), ["/World/cell/arm", "/World/cell/deep/arm"]),
        (("/World", "!/World/robot_*", "!cell"), ["/World/nameless"]),
        (("!/World",), ["/Hall/robot_1", "/Hall/faulty"]),
        (("! /World, !hall",), ["/Hall/faulty"]),
        (("/",), []),
    ],
)
def test_selectors_choose_robots_in_the_order_of_the_stage(
    entries: tuple[str, ...], paths: list[str] | None
) -> None:
    if paths is None:
        with pytest.raises(OptionError, match=r"no robot has the namespace 'robot_1' \(did you mean"):
            chosen(*entries)
    else:
        assert chosen(*entries) == paths


def is_served_outside(*entries: str, shard: str = "") -> bool:
    return select_robots(PlanOptions(contexts=parse_contexts(entries), shard=shard), ROBOTS).outside


def test_interfaces_outside_of_robots_are_those_of_one_bridge() -> None:
    assert is_served_outside()
    assert is_served_outside("/")
    assert is_served_outside("/Hall", "/")
    assert is_served_outside("!/Hall")
    assert not is_served_outside("/Hall")
    assert not is_served_outside("!/Hall", "!/")
    assert [is_served_outside(shard=f"{number}/3") for number in (1, 2, 3)] == [True, False, False]


@each_case(
    ("entry", "said"),
    [
        ("/World/robot_9", "no context is at or below '/World/robot_9' (did you mean /World/robot_"),
        ("/World/x*", "no context is at or below what matches '/World/x*'; there is: /World/robot_1, "),
        ("!/World/x*", "no context is at or below what matches '/World/x*'; there is: /World/robot_1, "),
        ("/World/robot_1/base", "is inside of the robot /World/robot_1"),
        (
            "robot_*",
            "no robot has a namespace that matches 'robot_*' (did you mean fleet/robot_1?); there is: ",
        ),
        ("fleet/robot_3", "no robot has the namespace 'fleet/robot_3' (did you mean fleet/robot_"),
        ("World/robot_1", "did you mean /World/robot_1?"),
        ("*", None),
    ],
)
def test_a_selector_of_nothing_is_one_line_that_lists_what_exists(entry: str, said: str | None) -> None:
    if said is None:
        assert "/World/nameless" not in chosen(entry)
        return
    with pytest.raises(OptionError) as caught:
        chosen(entry)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@each_case("text", ["/World/{a,b}", "robot_[1,2]", "a[", "a]", "!", "!  "])
def test_what_commas_cut_apart_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="contexts: "):
        parse_contexts([text])


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match=r"contexts: 'robot_\[9-0\]' is no glob"):
        chosen("robot_[9-0]")


def test_lists_and_commas_are_the_same() -> None:
    assert parse_contexts(["/a, /b", "c*"]) == parse_contexts(["/a", "/b", "c*"]) == ("/a", "/b", "c*")
    assert parse_contexts([" ", ","]) == ()


@each_case("text", ["0/4", "5/4", "x", "1/0", "1", "/2", "1/2/3", "-1/2", "1.5/2", "٢/٤"])
def test_other_texts_are_no_shard(text: str) -> None:
    with pytest.raises(OptionError, match="write K/N") as caught:
        parse_shard(text)
    assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="write K/N"):
        chosen(shard=text)


@given(st.integers(1, 30), st.sampled_from([(), ("fleet",), ("/World/**", "!cell"), ("/",)]))
def test_shards_are_contiguous_blocks_of_what_is_selected(shards: int, entries: tuple[str, ...]) -> None:
    whole = chosen(*entries)
    parts = [chosen(*entries, shard=f"{number}/{shards}") for number in range(1, shards + 1)]
    assert [path for part in parts for path in part] == whole
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_spawned_robots_count_in_no_shard() -> None:
    robots = (*ROBOTS, RobotRoot("/new", "new"))
    for number in (1, 2):
        options = PlanOptions(shard=f"{number}/2")
        before = select_robots(options, ROBOTS).robots
        after = select_robots(PlanOptions(shard=f"{number}/2", spawned=("/new", "/gone")), robots).robots
        assert after == (*before, "/new")


# --- Oracles ---------------------------------------------------------------------------------------------------

_SEGMENTS = st.sampled_from(
    ["World", "Hall", "robot_1", "robot_2", "cell", "arm", "*", "robot_*", "?all", "[rc]*"]
)


@given(st.lists(_SEGMENTS, min_size=1, max_size=3))
def test_globs_of_paths_mean_what_path_expressions_of_openusd_mean(segments: list[str]) -> None:
    stage = Usd.Stage.CreateInMemory()
    for robot in ROBOTS:
        stage.DefinePrim(robot.path)
    pattern = "/" + "/".join(segments)
    # `//` at the end stands for everything at or below.
    collection = Usd.CollectionAPI.Apply(stage.DefinePrim("/Groups"), "fleet")
    collection.CreateMembershipExpressionAttr(Sdf.PathExpression(f"{pattern}//"))
    query = collection.ComputeMembershipQuery()
    members = {str(path) for path in Usd.CollectionAPI.ComputeIncludedPaths(query, stage)}
    expected = [robot.path for robot in ROBOTS if robot.path in members]
    if expected:
        assert chosen(pattern) == expected
    else:
        with pytest.raises(OptionError):
            chosen(pattern)


@given(st.lists(_SEGMENTS, min_size=1, max_size=3))
def test_globs_of_namespaces_mean_what_fnmatch_means_segment_by_segment(segments: list[str]) -> None:
    segments = [{"World": "fleet", "Hall": "hall"}.get(each, each) for each in segments]
    expected = []
    for robot in ROBOTS:
        names = [] if " " in robot.namespace or not robot.namespace else robot.namespace.strip("/").split("/")
        if len(names) >= len(segments) and all(map(fnmatchcase, names, segments)):
            expected.append(robot.path)
    if expected:
        assert chosen("/".join(segments)) == expected
    else:
        with pytest.raises(OptionError):
            chosen("/".join(segments))
