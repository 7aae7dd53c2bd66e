"""Messages of shards: what is sent is read back, and what strangers send does no harm."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import Int64MultiArray
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.ros.shard_exchange import PosesMessage, pack_grant, shard_name, shard_number, unpack_grant
from usd_ros_bridge.ros.wire.cdr_reader import TransformsLayout
from usd_ros_bridge.runtime.lockstep import Epoch, Grant, ShardReport

NUMBERS = st.integers(0, 2**62)
GRANTS = st.builds(
    Grant,
    st.builds(Epoch, NUMBERS, NUMBERS),
    NUMBERS,
    NUMBERS,
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(1, 10**6), max_size=5).map(tuple),
)


@given(GRANTS)
def test_a_grant_is_read_back_by_us_and_is_the_message_that_others_read(grant: Grant) -> None:
    data = bytes(pack_grant(grant))
    assert unpack_grant(data) == grant
    message = deserialize_message(data, Int64MultiArray)
    assert list(message.data[:4]) == [*grant.epoch, grant.from_ns, grant.limit_ns]
    # The serializer leaves bytes behind the end.
    assert unpack_grant(bytes(serialize_message(message))) == grant


@given(GRANTS, st.data())
def test_a_grant_that_is_cut_off_or_changed_is_none(grant: Grant, data: Any) -> None:
    whole = bytes(pack_grant(grant))
    assert unpack_grant(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None
    unpack_grant(bytes(data.draw(st.binary(max_size=200))))
    assert unpack_grant(bytes(serialize_message(Int64MultiArray(data=[1, 2, 3])))) is None
    assert unpack_grant(bytes(serialize_message(Int64MultiArray(data=[1, 0, 0, 0, 0, 2**62])))) is None


@given(
    st.lists(st.text(min_size=1, max_size=12).filter(lambda text: "\0" not in text), min_size=1, max_size=6)
)
def test_poses_are_read_as_rclpy_reads_them(names: list[str]) -> None:
    choose = np.random.default_rng(len(names))
    message = PosesMessage("shard_2", 7.0, names)
    poses = choose.normal(size=(len(names), 7))
    data = bytes(message.write(ShardReport(2, Epoch(3, 4), 5_000_000_006), poses))
    expected = deserialize_message(data, TFMessage)
    layout = TransformsLayout.of(data)
    assert layout is not None
    assert layout.names == ("shard_2", *names) == tuple(each.child_frame_id for each in expected.transforms)
    assert layout.frame_id == "world"
    assert layout.stamp_ns(data) == 5_000_000_006
    np.testing.assert_array_equal(layout.poses(data)[1:], poses)
    assert layout.poses(data)[0, :3].tolist() == [3.0, 4.0, 7.0]
    others = bytes(message.write(ShardReport(2, Epoch(3, 5), 6, leaves=True), poses + 1.0))
    assert layout.fits(others)
    assert layout.poses(others)[0, :3].tolist() == [3.0, 5.0, -7.0]
    longer = bytes(
        PosesMessage("shard_2", 7.0, [*names[:-1], names[-1] + "x"]).write(
            ShardReport(2, Epoch(3, 4), 0), poses
        )
    )
    assert not layout.fits(longer)


def test_any_bytes_can_be_read_as_poses_without_harm() -> None:
    choose = random.Random(5)
    message = TFMessage(
        transforms=[TransformStamped(child_frame_id=f"/World/a_{number}") for number in range(5)]
    )
    whole = bytes(serialize_message(message))
    for _ in range(2000):
        data = bytearray(whole[: choose.randint(0, len(whole))])
        for _ in range(choose.randint(0, 4)):
            if data:
                data[choose.randrange(len(data))] = choose.randrange(256)
        layout = TransformsLayout.of(bytes(data))
        if layout is not None:
            assert layout.fits(bytes(data))
            assert layout.poses(bytes(data)).shape == (len(layout.names), 7)


@pytest.mark.parametrize(
    "name", ["", "shard", "shard_", "shard_x", "shard_-1", "shard_1.5", "node", "shard_99999999999"]
)
def test_names_that_are_no_shards(name: str) -> None:
    assert shard_number(name) == 0
    assert shard_number(shard_name(12)) == 12
