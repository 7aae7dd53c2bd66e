"""Obstacle poses: where robots of other shards are, and how fast they move, from the poses that those shards send."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from usd_ros_bridge.backends.base import ObstacleMotion
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.runtime.lockstep import Epoch
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    IndexArray,
    quaternion_conjugate,
    quaternion_multiply,
    rotation_vector,
)

KEPT: Final = 10
"""Messages of a shard that are kept: two are enough between two stops."""
MAX_GAP_NS: Final = SECOND_NS // 2
"""Bridge time between two messages above which they say nothing about velocities."""
MAX_SPEED: Final = 100.0
"""m/s; a body that seems to be faster was put somewhere else."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardPoses:
    """Poses of a shard's robots.

    Attributes:
        epoch: Epoch of the time.
        time_ns: Bridge time of the shard.
        names: Prim paths of the bodies; the same tuple as long as they do not change.
        poses: (N, 7) `world_from_body`.
    """

    epoch: Epoch
    time_ns: int
    names: tuple[str, ...]
    poses: FloatArray


@dataclass(slots=True, eq=False)
class _Shard:
    """What is known of a shard.

    Attributes:
        kept: The newest messages, the newest last.
        used: The message that was used last.
        twists: Twists of its obstacles.
        names: Those that `found` and `rows` are for.
        found: Rows of its messages with an obstacle.
        rows: Rows of those obstacles.
    """

    kept: deque[ShardPoses] = field(default_factory=lambda: deque(maxlen=KEPT))
    used: ShardPoses | None = None
    twists: FloatArray = field(default_factory=lambda: np.zeros((0, 6)))
    names: tuple[str, ...] | None = None
    found: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    rows: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


class ObstaclePoses:
    """Keep the poses that other shards send, and compute the motion of obstacles."""

    def __init__(self, obstacles: Sequence[str] = ()) -> None:
        """Args: obstacles: Prim paths, as `ObstacleBackend.obstacles`."""
        self._rows: dict[str, int] = {}
        self._shards: dict[str, _Shard] = {}
        self.set_obstacles(obstacles)

    def set_obstacles(self, obstacles: Sequence[str]) -> None:
        """Set the prim paths of the obstacles; messages are kept."""
        self._rows = {path: row for row, path in enumerate(obstacles)}
        for shard in self._shards.values():
            shard.names = shard.used = None

    def put(self, shard: str, poses: ShardPoses) -> None:
        """Keep the poses of a shard, by its name."""
        self._shards.setdefault(shard, _Shard()).kept.append(poses)

    def has(self, shard: str, epoch: Epoch, time_ns: int) -> bool:
        """Return whether the poses of a shard at a time are kept."""
        return self._find(shard, epoch, time_ns) is not None

    def at(self, shards: Iterable[str], epoch: Epoch, time_ns: int) -> ObstacleMotion:
        """Return the motion of the obstacles of shards at a time, as far as their poses are kept."""
        return self._motion((name, self._find(name, epoch, time_ns)) for name in shards)

    def newest(self, shards: Iterable[str]) -> ObstacleMotion:
        """Return the motion of the obstacles of shards by their newest messages."""
        return self._motion(
            (name, self._shards[name].kept[-1] if name in self._shards else None) for name in shards
        )

    def forget(self, shard: str) -> None:
        """Forget the messages of a shard."""
        self._shards.pop(shard, None)

    def _find(self, shard: str, epoch: Epoch, time_ns: int) -> ShardPoses | None:
        known = self._shards.get(shard)
        if known is None:
            return None
        for each in reversed(known.kept):
            if each.time_ns == time_ns and each.epoch == epoch:
                return each
        return None

    def _motion(self, found: Iterable[tuple[str, ShardPoses | None]]) -> ObstacleMotion:
        rows, poses, twists = [], [], []
        for name, message in found:
            if message is None:
                continue
            shard = self._shards[name]
            self._index(shard, message.names)
            if message is not shard.used:
                shard.twists = _twists(shard, message)
                shard.used = message
            rows.append(shard.rows)
            poses.append(message.poses[shard.found])
            twists.append(shard.twists)
        if not rows:
            return ObstacleMotion(
                rows=np.zeros(0, dtype=np.intp), poses=np.zeros((0, 7)), twists=np.zeros((0, 6))
            )
        return ObstacleMotion(
            rows=np.concatenate(rows), poses=np.concatenate(poses), twists=np.concatenate(twists)
        )

    def _index(self, shard: _Shard, names: tuple[str, ...]) -> None:
        """Find the obstacles among the bodies of a shard."""
        if names is shard.names:
            return
        pairs = [(place, self._rows[name]) for place, name in enumerate(names) if name in self._rows]
        shard.found = np.array([place for place, _ in pairs], dtype=np.intp)
        shard.rows = np.array([row for _, row in pairs], dtype=np.intp)
        shard.names, shard.used = names, None


def _twists(shard: _Shard, message: ShardPoses) -> FloatArray:
    """Return the twists (K, 6) in the world frame of a shard's obstacles since the message that was used before."""
    twists = np.zeros((shard.found.size, 6))
    before = shard.used
    if before is None or before.epoch != message.epoch:
        return twists
    gap_ns = message.time_ns - before.time_ns
    if not 0 < gap_ns <= MAX_GAP_NS:
        return twists
    old, new, seconds = before.poses[shard.found], message.poses[shard.found], gap_ns / SECOND_NS
    twists[:, :3] = (new[:, :3] - old[:, :3]) / seconds
    turn = quaternion_multiply(new[:, 3:], quaternion_conjugate(old[:, 3:]))
    twists[:, 3:] = rotation_vector(turn) / seconds
    twists[np.linalg.norm(twists[:, :3], axis=1) > MAX_SPEED] = 0.0
    return twists
