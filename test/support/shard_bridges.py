"""Shards in one process: bridges of parts of a stage, each in a thread, that share a world and a clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from load_reports import says_busy
from usd_ros_bridge import Bridge, BridgeOptions, PlanOptions, load_plan
from usd_ros_bridge.backends.base import ObstacleBackend
from usd_ros_bridge.spatial.transforms import FloatArray


class RunningShard:
    """A bridge that spins in a thread, and where its bodies were after each step.

    Attributes:
        bridge: The bridge.
        warnings: What it warned of, but for a busy machine.
        news: What it logged besides.
        poses: Pose of each body, by bridge time (ns) and prim path.
    """

    def __init__(self, plan: Any, options: BridgeOptions) -> None:
        self.warnings: list[str] = []
        self.news: list[str] = []
        self.poses: dict[int, dict[str, FloatArray]] = {}
        self.bridge = Bridge(
            plan,
            "mujoco",
            options=options,
            report=self._warn,
            inform=lambda _, text: self.news.append(text),
        )
        self._thread = threading.Thread(target=self.bridge.spin)

    def open(self) -> None:
        self.bridge.open()
        self.bridge.after_step(self._record)
        self._thread.start()

    def close(self) -> None:
        self.bridge.stop()
        if self._thread.is_alive():
            self._thread.join(30.0)
        self.bridge.close()

    @property
    def backend(self) -> Any:
        return self.bridge.parts.runtime.backend

    @property
    def now_ns(self) -> int:
        return self.bridge.parts.runtime.now_ns

    def count(self, name: str) -> int:
        """Return how many messages a subscription has taken."""
        rows = self.bridge.status().interfaces
        return next(row.count for row in rows if row.name == name and row.role == "subscription")

    def _warn(self, kind: str, text: str) -> None:
        if not says_busy(kind):
            self.warnings.append(text)

    def _record(self, time_ns: int, _: Any) -> None:
        backend = self.backend
        assert isinstance(backend, ObstacleBackend)
        self.poses[time_ns] = dict(zip(backend.robot_bodies(), backend.body_poses().copy(), strict=True))


@contextmanager
def running_shards(
    asset: Path,
    count: int,
    *,
    options: BridgeOptions | None = None,
    plan_options: Sequence[PlanOptions] = (),
    roles: Sequence[str] = (),
) -> Iterator[list[RunningShard]]:
    """Open the bridges of all shards of a stage; the first one is the leader. One alone has no lockstep.

    Args:
        asset: The stage.
        count: How many shards there are.
        options: Options of all.
        plan_options: Options of each plan; by default, others are obstacles.
        roles: Lockstep of each; by default the first leads.
    """
    given = options or BridgeOptions(real_time_factor=0.0, start_paused=True)
    # A process that gets no time to run for a while is not to lose its shards.
    given = replace(given, lockstep_timeout=60.0)
    planned = plan_options or [PlanOptions(other_robots="obstacles")] * count
    with ExitStack() as stack:
        shards = []
        for number in range(1, count + 1):
            plan = load_plan(
                asset,
                plan_options=replace(planned[number - 1], shard=f"{number}/{count}"),
                physics=True,
            )
            role: Any = roles[number - 1] if roles else ("leader" if number == 1 else "follower")
            shard = RunningShard(
                plan,
                replace(
                    given,
                    node_name=f"shard_{number}",
                    lockstep=role if count > 1 else "off",
                    # Each bridge would serve the files of its meshes under the same name.
                    publish_description=False,
                    backend_options={"gl": "none", **given.backend_options},
                ),
            )
            stack.callback(shard.close)
            shard.open()
            shards.append(shard)
        yield shards


def largest_difference(one: dict[str, FloatArray], other: dict[str, FloatArray]) -> float:
    """Return the largest difference of the poses of the bodies of `other`, quaternions of either sign."""
    differences = []
    for name, pose in other.items():
        there = one[name]
        sign = 1.0 if there[3:] @ pose[3:] >= 0.0 else -1.0
        differences.append(np.abs(there[:3] - pose[:3]).max())
        differences.append(np.abs(there[3:] - sign * pose[3:]).max())
    return float(max(differences))
