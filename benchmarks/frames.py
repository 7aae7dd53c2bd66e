"""Frames: one /tf message of 1,000 and of 10,000 frames, computed, encoded and published, beside naive rclpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np

from benchmarks.bridges import SteppedBridge, stepped
from benchmarks.harness import Options, Result, Target, interleaved, median_result
from benchmarks.robots import SwayingBackend, limbs_plan

TARGETS_US = {1_000: 25.0, 10_000: 300.0}
NAIVE_RATIO = 250.0
NAIVE = "message objects in rclpy, built anew and published, interleaved with it"
_PERIOD_NS = 1_000_000


def run(options: Options) -> Iterator[Result]:
    """Yields, for each size, the forced tick, the idle one, naive rclpy and how many times slower that is."""
    for frames in TARGETS_US:
        yield from _measure(frames, options)


def _measure(frames: int, options: Options) -> Iterator[Result]:
    with (
        stepped(limbs_plan(frames, "/forced"), SwayingBackend(), period_ns=_PERIOD_NS, forced=True) as forced,
        stepped(limbs_plan(frames, "/idle"), SwayingBackend(), period_ns=_PERIOD_NS, forced=False) as idle,
    ):
        forced.check_writes(1)
        idle.check_writes(0)
        naive = _naive(forced, frames)
        runs = list(interleaved((forced.step, idle.step, naive), options))
    microseconds = np.array(runs) * 1e6
    ratios = (microseconds[:, 2] / microseconds[:, 0]).tolist()
    name = f"frames.{frames}"
    yield median_result(
        f"{name}.tick",
        microseconds[:, 0].tolist(),
        "us",
        target=Target(TARGETS_US[frames]),
        compared_with=f"{NAIVE}; compute, encode and publish, no subscriber, write forced",
    )
    yield median_result(
        f"{name}.tick_idle",
        microseconds[:, 1].tolist(),
        "us",
        compared_with="the same tick with the write left out, as nobody listens",
    )
    yield median_result(f"{name}.naive", microseconds[:, 2].tolist(), "us", compared_with=NAIVE)
    target = Target(NAIVE_RATIO, "at least") if frames == min(TARGETS_US) else None
    yield median_result(f"{name}.naive_ratio", ratios, "x", target=target, compared_with=NAIVE)


def _naive(bridge: SteppedBridge, frames: int) -> Callable[[], None]:
    """Returns a function that publishes as many transforms the usual way, computing none: they are given."""
    from geometry_msgs.msg import TransformStamped
    from tf2_msgs.msg import TFMessage

    node = bridge.bridge.node
    publisher = node.create_publisher(TFMessage, "naive_tf", 100)
    parents = ["base_link", *(f"link_{number}" for number in range(frames - 1))]
    children = [f"link_{number}" for number in range(frames)]
    poses = np.tile([0.1, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0], (frames, 1))
    ticks = count()

    def publish() -> None:
        stamp_ns = next(ticks) * _PERIOD_NS
        transforms: list[Any] = []
        for parent, child, pose in zip(parents, children, poses.tolist(), strict=True):
            transform = TransformStamped()
            transform.header.stamp.sec = stamp_ns // 1_000_000_000
            transform.header.stamp.nanosec = stamp_ns % 1_000_000_000
            transform.header.frame_id = parent
            transform.child_frame_id = child
            translation, rotation = transform.transform.translation, transform.transform.rotation
            translation.x, translation.y, translation.z = pose[:3]
            rotation.x, rotation.y, rotation.z, rotation.w = pose[3:]
            transforms.append(transform)
        publisher.publish(TFMessage(transforms=transforms))

    return publish
