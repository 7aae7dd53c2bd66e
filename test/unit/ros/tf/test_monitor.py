"""What counts as a fault among transforms that were heard, and what does not."""

from __future__ import annotations

import pytest

from case_tables import each_case
from usd_ros_bridge.ros.tf.monitor import (
    MAX_FAULTS,
    MAX_PARENTS,
    MAX_RECEIVED,
    OwnFrames,
    ReceivedTransform,
    TfFault,
    TfJudge,
    inside,
    split_frames,
)

PARENTS = {"base": "world", "link": "base", "tool": "link"}
SENT = {10, 20}


@pytest.fixture
def own():
    frames = OwnFrames()
    assert frames.update(PARENTS)
    return frames


@pytest.fixture
def judge(own):
    return TfJudge(own, SENT.__contains__, static=False)


def hear(judge, *edges, stamp=99, other=None):
    return judge.check([ReceivedTransform(child, parent, stamp) for parent, child in edges], other)


def told(judge):
    return {kind: str(fault) for kind, fault in judge.faults.items()}


def test_what_the_bridge_sent_itself_is_no_fault(judge):
    for stamp in SENT:
        assert not hear(judge, *((parent, child) for child, parent in PARENTS.items()), stamp=stamp)
    assert not judge.faults


def test_a_stamp_that_was_never_sent_is_another_senders_and_so_is_one_that_comes_twice(judge):
    assert hear(judge, ("base", "link"), stamp=11) == {"guard"}
    assert not hear(judge, ("link", "tool"), stamp=10)
    assert hear(judge, ("link", "tool"), stamp=10) == {"guard"}
    assert told(judge) == {"guard": "link, tool"}


def test_another_parent_of_an_own_frame_is_a_fault_that_names_both(judge):
    assert hear(judge, ("odom", "base"), stamp=10) == {"parents"}
    assert told(judge) == {"parents": "base (world and odom)"}


def test_a_frame_that_hangs_from_one_below_it_is_a_loop(judge):
    assert hear(judge, ("tool", "base")) == {"loop"}
    assert hear(judge, ("tool", "world")) == {"loop"}
    assert told(judge) == {"loop": "base (world and tool), world (below tool)"}


def test_frames_of_others_are_welcome_above_and_below(judge):
    assert not hear(judge, ("map", "world"), ("tool", "camera"), ("nowhere", "table"))
    assert not hear(judge, ("map", "world"), ("tool", "camera"), ("nowhere", "table"))


def test_a_frame_of_others_that_is_handed_over_is_no_fault_but_going_back_and_forth_is(judge):
    for parent in ("left", "left", "right", "right", "right"):
        assert not hear(judge, (parent, "cup"))
    assert not hear(judge, ("left", "cup"))
    assert hear(judge, ("right", "cup")) == {"parents"}
    assert told(judge) == {"parents": "cup (left and right)"}


def test_two_latched_parents_are_two_publishers(own):
    judge = TfJudge(own, SENT.__contains__, static=True)
    assert not hear(judge, ("left", "cup"))
    assert hear(judge, ("right", "cup")) == {"parents"}


def test_one_parent_on_tf_and_another_on_tf_static_are_two(own, judge):
    static = TfJudge(own, SENT.__contains__, static=True)
    assert not hear(static, ("left", "cup"))
    assert not hear(judge, ("left", "cup"), other=static)
    assert hear(judge, ("right", "cup"), other=static) == {"parents"}
    assert told(judge) == {"parents": "cup (left and right)"}


def test_what_was_on_its_way_when_the_bridge_changed_is_no_fault(own, judge):
    assert own.update({"base": "world", "link": "world"})
    assert not hear(judge, ("base", "link"), ("link", "tool"), stamp=20)
    assert hear(judge, ("base", "link"), stamp=99) == {"parents"}
    assert not own.update({"base": "world", "link": "world"})


def test_it_forgets(judge):
    hear(judge, ("odom", "base"), ("left", "cup"))
    judge.begin()
    assert not judge.faults
    assert not hear(judge, ("right", "cup"))


def test_many_frames_are_reported_in_part_and_without_control_characters():
    assert str(TfFault("guard", dict.fromkeys("abcdefg", ""))) == "a, b, c, d, e and 2 more"
    assert str(TfFault("guard", {"a\x1b[2J": ""})) == "a\\x1b[2J"


def trees(**parents):
    found = {}
    for name, each in parents.items():
        found[f"/{name}"] = OwnFrames()
        found[f"/{name}"].update(each)
    return found


@each_case(
    ("edge", "frame"),
    [
        (("odom", "base"), "base"),
        (("tool", "camera"), "tool"),
        (("map", "world"), "world"),
        (("world", "table"), None),
        (("left", "cup"), None),
    ],
)
def test_frames_that_a_tree_has_in_common_with_the_global_topics(edge, frame):
    parent, child = edge
    found = split_frames([ReceivedTransform(child, parent, 1)], ["/"], trees(arm=PARENTS))
    assert found == ({"/arm": {frame}} if frame else {})


def test_namesakes_in_other_namespaces_are_told_apart():
    heard = [ReceivedTransform("base", "odom", 1)]
    both = trees(arm=PARENTS, cart=PARENTS)
    assert split_frames(heard, ["/"], both) == {}
    assert split_frames(heard, ["/cart/driver"], both) == {"/cart": {"base"}}
    assert split_frames(heard, ["/other"], both) == {}


def test_a_namespace_is_in_itself_and_not_in_one_that_begins_alike():
    assert inside("/arm", "/arm")
    assert inside("/arm/left", "/arm")
    assert not inside("/army", "/arm")


def test_a_tree_that_goes_round_ends():
    own = OwnFrames()
    own.update({"a": "b", "b": "a"})
    assert not own.above("a", "c")


def test_names_that_a_sender_makes_up_are_bounded_in_memory_and_words(judge):
    for turn in range(30):
        hear(judge, *((f"parent_{turn}", f"child_{turn}_{index}") for index in range(1000)))
        hear(judge, (f"odom_{turn}", "base"), (f"nowhere_{turn}", "table"), stamp=10)
        hear(judge, *((f"child_{turn}_{index}", "base") for index in range(3)))
    assert len(judge.received_parents) <= MAX_RECEIVED
    assert max(map(len, judge.received_parents.values())) <= MAX_PARENTS
    assert all(len(fault.frames) <= MAX_FAULTS for fault in judge.faults.values())
    assert all(len(text) < 2000 for text in told(judge).values())


def test_a_message_is_looked_at_in_part_where_it_is_huge(judge):
    edges = [(f"parent_{index}", f"child_{index}") for index in range(2 * MAX_RECEIVED)]
    hear(judge, *edges, ("odom", "base"), stamp=10)
    assert not judge.faults
    assert len(judge.received_parents) == MAX_RECEIVED
