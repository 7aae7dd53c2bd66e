"""Obstacle poses: which messages are used, and the velocities between two of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from usd_ros_bridge.runtime.lockstep import Epoch
from usd_ros_bridge.runtime.obstacle_poses import KEPT, MAX_GAP_NS, MAX_SPEED, ObstaclePoses, ShardPoses

MS = 1_000_000
EPOCH = Epoch(5, 0)
NAMES = ("/a", "/b", "/prop")
STILL = np.tile((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), (3, 1))


def message(
    time_ns: int, poses: Any = STILL, names: tuple[str, ...] = NAMES, epoch: Epoch = EPOCH
) -> ShardPoses:
    return ShardPoses(epoch=epoch, time_ns=time_ns, names=names, poses=np.array(poses))


def moved(x: float) -> Any:
    poses = STILL.copy()
    poses[:, 0] = x
    return poses


def test_bodies_are_found_by_path_in_any_order() -> None:
    poses = ObstaclePoses(["/c", "/b", "/a"])
    there = STILL.copy()
    there[:, 1] = (1.0, 2.0, 3.0)
    poses.put("shard_2", message(0, there))
    poses.put("shard_3", message(0, moved(9.0)[:1], ("/c",)))
    motion = poses.at(["shard_2", "shard_3", "shard_4"], EPOCH, 0)
    found = dict(zip(motion.rows.tolist(), motion.poses[:, :2].tolist(), strict=True))
    assert found == {2: [0.0, 1.0], 1: [0.0, 2.0], 0: [9.0, 0.0]}
    assert not motion.twists.any()


@given(
    st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=3),
    st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3),
    st.lists(st.floats(-2.0, 2.0), min_size=3, max_size=3),
)
def test_twists_are_those_of_the_motion_between_two_messages(
    velocity: list[float], rate: list[float], turned: list[float]
) -> None:
    """SciPy turns the body at a constant rate in the world's axes."""
    poses, begin, seconds = ObstaclePoses(["/a"]), Rotation.from_rotvec(turned), 0.01
    for number in range(2):
        at = number * seconds
        turn = Rotation.from_rotvec(np.array(rate) * at) * begin
        pose = np.concatenate((np.array(velocity) * at, turn.as_quat()))
        poses.put("shard_2", message(number * 10 * MS, pose[None], ("/a",)))
        motion = poses.at(["shard_2"], EPOCH, number * 10 * MS)
    np.testing.assert_allclose(motion.twists[0], (*velocity, *rate), atol=1e-9)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (message(0, epoch=Epoch(5, 1)), message(10 * MS, moved(0.1))),
        (message(0), message(MAX_GAP_NS + 1, moved(0.1))),
        (message(10 * MS), message(0, moved(0.1))),
        (message(0), message(10 * MS, moved(0.01 * MAX_SPEED * 1.01))),
        (message(0, names=("/b", "/a", "/c")), message(10 * MS, moved(0.1))),
    ],
    ids=["reset", "gap", "back", "put", "others"],
)
def test_where_the_motion_is_unknown_there_is_none(first: ShardPoses, second: ShardPoses) -> None:
    poses = ObstaclePoses(["/a", "/b"])
    for each in (first, second):
        poses.put("shard_2", each)
        motion = poses.newest(["shard_2"])
    assert not motion.twists.any()
    assert motion.poses[0, 0] == second.poses[0, 0]


def test_exact_times_and_epochs_are_told_apart_and_old_ones_are_dropped() -> None:
    poses = ObstaclePoses(["/a"])
    for number in range(KEPT + 1):
        poses.put("shard_2", message(number * MS, moved(float(number))))
    poses.put("shard_2", message(5 * MS, moved(-1.0), epoch=Epoch(5, 1)))
    assert not poses.has("shard_2", EPOCH, 0)
    assert poses.has("shard_2", EPOCH, 5 * MS)
    assert not poses.has("shard_3", EPOCH, 5 * MS)
    assert poses.at(["shard_2"], EPOCH, 5 * MS).poses[0, 0] == 5.0
    assert poses.at(["shard_2"], Epoch(5, 1), 5 * MS).poses[0, 0] == -1.0
    assert poses.newest(["shard_2"]).poses[0, 0] == -1.0
    assert not poses.at(["shard_2"], Epoch(6, 0), 5 * MS).rows.size
    poses.forget("shard_2")
    assert not poses.newest(["shard_2"]).rows.size


def test_the_same_message_keeps_its_twists() -> None:
    poses = ObstaclePoses(["/a"])
    poses.put("shard_2", message(0))
    poses.newest(["shard_2"])
    poses.put("shard_2", message(10 * MS, moved(0.01)))
    for _ in range(2):
        assert poses.newest(["shard_2"]).twists[0, 0] == pytest.approx(1.0)
    poses.set_obstacles(["/b", "/a"])
    assert poses.newest(["shard_2"]).rows.tolist() == [1, 0]
