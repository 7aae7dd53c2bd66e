"""Names: what ROS 2 accepts, how they join, become valid and unique."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_case
from usd_ros_bridge.planning import names

TOKEN = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
SEGMENT = st.lists(TOKEN, min_size=1, max_size=3).map("/".join)


@given(SEGMENT, st.booleans())
def test_joined_tokens_are_valid_names(segment: str, absolute: bool) -> None:
    name = f"/{segment}" if absolute else segment
    assert names.name_fault(name) == ""
    assert names.namespace_fault(name) == ""


@given(st.text(max_size=300))
def test_a_name_is_valid_exactly_where_ros_says_so(text: str) -> None:
    valid = (
        re.fullmatch(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*", text) is not None
        and len(text) <= 256
    )
    assert (names.name_fault(text) == "") is valid


@each_case(
    ("text", "fault"),
    [
        ("", "is empty"),
        ("~/a", "substitution"),
        ("{node}", "substitution"),
        ("a//b", "two slashes"),
        ("a/", "ends with a slash"),
        ("1a", "digit"),
        ("a/2b", "digit"),
        ("a b", "character"),
        ("a" * 257, "longer"),
        ("ä", "character"),
        ("a\n", "character"),
    ],
)
def test_faults_say_what_is_wrong(text: str, fault: str) -> None:
    assert fault in names.name_fault(text)


@given(st.lists(SEGMENT, max_size=5), st.integers(0, 4), SEGMENT)
def test_namespaces_concatenate_top_down_and_absolute_ones_reset(
    above: list[str], cut: int, last: str
) -> None:
    namespace = "/"
    for number, segment in enumerate(above):
        namespace = names.join(namespace, f"/{segment}" if number == cut else segment)
    kept = above[cut:] if cut < len(above) else above
    assert namespace == "/" + "/".join(kept)
    assert names.join(namespace, last) == "/" + "/".join([*kept, last])
    assert names.join(namespace, f"/{last}") == f"/{last}"
    assert names.join(namespace, "") == namespace


@each_case(
    ("text", "kind", "fault", "remedy"),
    [
        ("sensor_msgs/msg/Image", "topic", "", ""),
        ("std_srvs/srv/SetBool", "service", "", ""),
        ("control_msgs/action/FollowJointTrajectory", "action", "", ""),
        ("sensor_msgs/Image", "topic", "is not of the form", "write sensor_msgs/msg/Image"),
        ("Image", "topic", "is not of the form", "write package/msg/Type"),
        ("std_srvs/srv/SetBool", "topic", "is no topic type", "name a type of the form package/msg/Type"),
        ("../msg/Image", "topic", "is not of the form", "write package/msg/Type"),
        ("a/msg/" + "B" * 300, "topic", "is not of the form", "write package/msg/Type"),
        ("sensor_msgs/msg/Image\n", "topic", "is not of the form", "write package/msg/Type"),
    ],
)
def test_types(text: str, kind: str, fault: str, remedy: str) -> None:
    assert (names.type_fault(text, kind)[0].startswith(fault), names.type_fault(text, kind)[1]) == (
        True,
        remedy,
    )
    assert bool(names.type_fault(text, kind)[0]) is bool(fault)


@given(st.text(max_size=300))
def test_made_valid_names_are_valid_and_valid_ones_stay(text: str) -> None:
    assert names.name_fault(names.valid_name(text)) in ("", "is longer than 256 characters")
    assert "/" not in names.valid_name(text)
    frame = names.valid_frame_id(text)
    assert not frame.startswith("/")
    assert names.valid_frame_id(frame) == frame
    assert not re.search(r"\s", frame)


@given(TOKEN)
def test_valid_names_stay(name: str) -> None:
    assert names.valid_name(name) == name == names.valid_frame_id(name)


def test_the_second_gets_the_nearest_distinguishing_ancestor() -> None:
    unique = names.UniqueNames()
    assert unique.claim_near("optical", "/robot/left/camera/optical") == "optical"
    assert unique.claim_near("optical", "/robot/right/camera/optical") == "right_optical"
    assert unique.claim_near("optical", "/robot/right/module/optical") == "module_optical"


PATHS = st.lists(
    st.lists(TOKEN, min_size=1, max_size=4).map(lambda t: "/" + "/".join(t)), unique=True, max_size=30
)


@given(PATHS)
def test_unique_names_differ_are_valid_and_first_come_first_kept(paths: list[str]) -> None:
    unique = names.UniqueNames()
    given_names = [unique.claim_near(path.rpartition("/")[2], path) for path in paths]
    assert len(set(given_names)) == len(paths)
    firsts = {path.rpartition("/")[2]: path for path in reversed(paths)}
    for path, name in zip(paths, given_names, strict=True):
        assert names.name_fault(name) == ""
        if (
            firsts[path.rpartition("/")[2]] == path
            and path.rpartition("/")[2] not in given_names[: paths.index(path)]
        ):
            assert name == path.rpartition("/")[2]


def test_resolved_names_are_bounded_as_rmw_bounds_them() -> None:
    assert names.resolved_fault("/" + "a" * 246, "topic") == ""
    assert "247" in names.resolved_fault("/" + "a" * 247, "topic")


def test_thousands_of_equal_names_stay_apart() -> None:
    unique = names.UniqueNames()
    path, found = "", set()
    for _ in range(3000):
        path += "/n"
        found.add(unique.claim_near("n", path))
    assert len(found) == 3000


@each_case(
    ("text", "corrected"),
    [
        ("front scan", "front_scan"),
        ("~/scan", "scan"),
        ("{node}/scan", "scan"),
        ("/cell-1/scan/", "/cell_1/scan"),
        ("a//b", "a/b"),
        ("1st", "_1st"),
        ("~", ""),
        ("", ""),
    ],
)
def test_faulty_names_are_corrected(text: str, corrected: str) -> None:
    assert names.corrected_name(text) == corrected


@given(st.text(max_size=300))
def test_corrected_names_are_valid_or_nothing(text: str) -> None:
    corrected = names.corrected_name(text)
    assert not corrected or names.name_fault(corrected) == ""


def test_a_missing_prim_stands_for_one_like_it_else_the_nearest_above_is_named() -> None:
    prims = ["/rover", "/rover/left_wheel", "/rover/right_wheel", "/rover/arm/tool"]
    assert names.missing_prim("/rover/left_whel", prims).startswith("did you mean /rover/left_wheel")
    assert names.missing_prim("/rover/tool", prims).startswith("did you mean /rover/arm/tool")
    assert names.missing_prim("/rover/mast/top", prims) == "the nearest prim that exists is /rover; "
    assert names.missing_prim("/elsewhere", prims) == ""
