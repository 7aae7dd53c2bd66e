"""The buffer of transforms that the fixtures use: what it knows, and what it says of what it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped

from usd_ros_bridge.testing.transform_buffer import TransformBuffer, UnknownTransformError, only_namespace

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")


def transform(parent: str, child: str, x: float, *, time_s: int = 0) -> Any:
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    message.header.stamp.sec = time_s
    message.transform.translation.x = x
    return message


@pytest.fixture
def buffer() -> TransformBuffer:
    """A cart that moves 1 m from 10 s to 12 s, with a mast on it."""
    made = TransformBuffer()
    made.add([transform("map", "cart", 1.0, time_s=10)], static=False)
    made.add([transform("map", "cart", 2.0, time_s=12)], static=False)
    made.add([transform("cart", "/mast", 0.5)], static=True)
    return made


def test_a_chain_at_a_time_and_at_the_latest(buffer: TransformBuffer) -> None:
    assert buffer.frames() == {"map", "cart", "mast"}
    found = buffer.lookup_transform("map", "/mast", time_ns=11_000_000_000)
    assert (found.header.frame_id, found.child_frame_id, found.header.stamp.sec) == ("map", "mast", 11)
    assert found.transform.translation.x == pytest.approx(2.0)
    np.testing.assert_allclose(buffer.pose("mast", "map"), [-2.5, 0, 0, 0, 0, 0, 1], atol=1e-12)


def test_old_transforms_are_dropped_and_time_may_start_again(buffer: TransformBuffer) -> None:
    buffer.add([transform("map", "cart", 3.0, time_s=21)], static=False)
    assert not buffer.can_transform("map", "cart", time_ns=10_000_000_000)
    assert buffer.can_transform("map", "cart", time_ns=12_000_000_000)
    buffer.add([transform("map", "cart", 4.0, time_s=1)], static=False)
    assert buffer.pose("map", "cart")[0] == 4.0


def test_what_is_not_known_is_named(buffer: TransformBuffer) -> None:
    buffer.add([transform("other", "island", 1.0), transform("ring", "ring_end", 1.0)], static=True)
    buffer.add([transform("ring_end", "ring", 1.0)], static=True)
    for source, time_ns, message in (
        ("cart", 9_000_000_000, r"'map' to 'cart' is not known at 9 s, but from 10 to 12 s"),
        ("crat", None, r"there is no frame 'crat' on /tf; did you mean '?cart"),
        ("island", None, r"'map' and 'island' are not connected on /tf"),
        ("ring", None, r"the frames of /tf are a loop: ring, ring_end"),
    ):
        with pytest.raises(UnknownTransformError, match=message):
            buffer.pose("map", source, time_ns=time_ns)


def test_the_namespace_that_a_test_means() -> None:
    assert only_namespace(["rover"], None, where="it") == "rover"
    assert only_namespace(["rover", ""], "/rover", where="it") == "rover"
    for found, wanted, message in (
        ([], None, "there are no transforms of it yet"),
        (["a", "b"], None, "several trees of transforms: say which, namespace= one of 'a', 'b'"),
        ([], "a", "no transforms of it in /a; namespaces with some: none"),
    ):
        with pytest.raises(UnknownTransformError, match=message):
            only_namespace(found, wanted, where="it")
