"""Arrays of many CDR messages against rosbags, which reads them one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="rosbags is not installed: make setup-tests")

from hypothesis import given, settings
from hypothesis import strategies as st

from bags import JOINT_STATE, START, STORE, TF_MESSAGE, joint_state, transforms
from usd_ros_bridge.backends.bag.cdr_columns import CdrColumns, UnreadableMessageError
from usd_ros_bridge.backends.bag.mcap_reader import BagChannel

pytestmark = pytest.mark.app

floats = st.floats(allow_nan=True, allow_infinity=True, width=64)
names = st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=6), max_size=4)


@st.composite
def joint_states(draw: st.DrawFn) -> bytes:
    given_names = draw(names)
    size = len(given_names)
    values = st.lists(floats, min_size=size, max_size=size)
    stamp = draw(st.integers(0, 2**31 * 10**9 - 1))
    optional = st.one_of(st.just([]), values)
    return joint_state("/j", stamp, given_names, draw(values), draw(optional), draw(optional)).data


@st.composite
def tf_messages(draw: st.DrawFn) -> bytes:
    frame = st.sampled_from(["world", "odom", "base_link", "a", ""])
    pose = st.lists(floats, min_size=7, max_size=7)
    stamp = st.integers(0, 2**31 * 10**9 - 1)
    return transforms("/tf", *draw(st.lists(st.tuples(stamp, frame, frame, pose), max_size=3))).data


def channel(kind: str, *, defined: bool = True) -> BagChannel:
    if not defined:
        return BagChannel(topic="/t", type=kind)
    definition, _ = STORE.generate_msgdef(kind, ros_version=2)
    return BagChannel(topic="/t", type=kind, definition=definition, definition_format="ros2msg")


def expect_joint_state(data: bytes, layout: Any, raw: Any) -> None:
    message: Any = STORE.deserialize_cdr(data, JOINT_STATE)
    assert layout.lengths["name",] == len(message.name)
    assert [layout.texts["name", i] for i in range(len(message.name))] == message.name
    for field in ("position", "velocity", "effort"):
        np.testing.assert_array_equal(layout.column(raw, field)[0], getattr(message, field))
    assert layout.column(raw, "header", "stamp", "sec")[0, 0] == message.header.stamp.sec
    assert layout.column(raw, "header", "stamp", "nanosec")[0, 0] == message.header.stamp.nanosec


@settings(deadline=None)
@given(st.lists(joint_states(), max_size=8), st.booleans())
def test_joint_states_are_those_that_rosbags_reads(messages: list[bytes], defined: bool) -> None:
    columns = CdrColumns(channel(JOINT_STATE, defined=defined))
    seen = []
    for layout, indices, raw in columns.split(messages):
        for place, index in enumerate(indices):
            expect_joint_state(messages[index], layout, raw[place : place + 1])
            seen.append(int(index))
    assert sorted(seen) == list(range(len(messages)))
    assert not columns.unreadable


@settings(deadline=None)
@given(st.lists(tf_messages(), max_size=8))
def test_transforms_are_those_that_rosbags_reads(messages: list[bytes]) -> None:
    for layout, indices, raw in CdrColumns(channel(TF_MESSAGE)).split(messages):
        for place, index in enumerate(indices):
            message: Any = STORE.deserialize_cdr(messages[index], TF_MESSAGE)
            assert layout.lengths["transforms",] == len(message.transforms)
            for number, each in enumerate(message.transforms):
                path = ("transforms", number)
                assert layout.texts[(*path, "child_frame_id")] == each.child_frame_id
                assert layout.texts[(*path, "header", "frame_id")] == each.header.frame_id
                for field in "xyzw":
                    found = layout.column(raw[place : place + 1], *path, "transform", "rotation", field)
                    np.testing.assert_array_equal(found[0], [getattr(each.transform.rotation, field)])


@settings(deadline=None)
@given(joint_states(), st.data())
def test_cut_off_messages_are_counted(message: bytes, data: st.DataObject) -> None:
    columns = CdrColumns(channel(JOINT_STATE))
    end = data.draw(st.integers(0, len(message) - 1))
    assert not list(columns.split([message[:end]]))
    assert columns.unreadable == 1


@settings(deadline=None)
@given(tf_messages(), st.data())
def test_changed_messages_are_read_or_counted(message: bytes, data: st.DataObject) -> None:
    changed = bytearray(message)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    columns = CdrColumns(channel(TF_MESSAGE))
    assert len(list(columns.split([bytes(changed)]))) + columns.unreadable == 1


def test_big_endian_messages_are_read() -> None:
    message: Any = STORE.deserialize_cdr(joint_state("/j", START, ["a"], [1.5], [2.5]).data, JOINT_STATE)
    data = bytes(STORE.serialize_cdr(message, JOINT_STATE, little_endian=False))
    ((layout, _, raw),) = CdrColumns(channel(JOINT_STATE)).split([data])
    expect_joint_state(data, layout, raw)
    assert layout.column(raw, "position").dtype.isnative


IDL = """{line}
IDL: builtin_interfaces/msg/Time
module builtin_interfaces {{ module msg {{ struct Time {{ int32 sec; uint32 nanosec; }}; }}; }};
{line}
IDL: std_msgs/msg/Header
module std_msgs {{ module msg {{ struct Header {{ builtin_interfaces::msg::Time stamp; string frame_id; }}; }}; }};
{line}
IDL: sensor_msgs/msg/JointState
module sensor_msgs {{ module msg {{ struct JointState {{
  std_msgs::msg::Header header;
  sequence<string> name;
  sequence<double> position;
  sequence<double> velocity;
  sequence<double> effort;
}}; }}; }};
""".format(line="=" * 80)


@pytest.mark.parametrize(
    "definition", [IDL, IDL.replace("sequence<double> effort", "sequence<float> effort")]
)
def test_definitions_in_idl_are_followed(definition: str) -> None:
    described = BagChannel(topic="/t", type=JOINT_STATE, definition=definition, definition_format="ros2idl")
    data = joint_state("/j", START, ["a", "b"], [1.5, 2.5], [3.5, 4.5]).data
    ((layout, _, raw),) = CdrColumns(described).split([data])
    expect_joint_state(data, layout, raw)
    assert layout.numbers["effort",].dtype == ("<f4" if "float>" in definition else "<f8")


def test_alike_messages_are_walked_once() -> None:
    messages = [joint_state("/j", START + k, ["a", "b"], [k, 0.0]).data for k in range(100)]
    ((layout, indices, raw),) = CdrColumns(channel(JOINT_STATE)).split(messages)
    assert indices.tolist() == list(range(100))
    np.testing.assert_array_equal(layout.column(raw, "position")[:, 0], np.arange(100.0))


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (BagChannel(topic="/t", type="my_msgs/msg/Unknown"), "definition is missing"),
        (
            BagChannel(topic="/t", type=JOINT_STATE, definition="int32[", definition_format="ros2msg"),
            "definition cannot be read",
        ),
    ],
)
def test_types_without_a_definition_are_refused(broken: BagChannel, what: str) -> None:
    with pytest.raises(UnreadableMessageError, match=what):
        CdrColumns(broken)
