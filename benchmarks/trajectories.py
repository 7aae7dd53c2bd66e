"""Trajectories: an arm of 7 joints follows 500 points at 500 Hz, for a real action client in another process."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bridges import SteppedBridge, stepped
from benchmarks.harness import BenchmarkError, Options, Result, Target, median_result, seconds_per_call
from benchmarks.motions import JOINTS, Interpolation, spline
from benchmarks.processes import Child, peer
from builders.stages import write_arm
from usd_ros_bridge import load_plan

POINTS = 500
SECONDS = 5.0
RATE = 500.0
FEEDBACK_RATE = 20.0
TICK = Target(60.0)
DEVIATION = Target(1e-9)
KINDS: tuple[Interpolation, ...] = ("cubic", "quintic")
_PERIOD_NS = int(1e9 / RATE)
_SUCCEEDED = 4
_END_TICKS = 500
_LEAST_FEEDBACK = 0.8


@dataclass(frozen=True, slots=True)
class _Run:
    """One trajectory followed: mean microseconds of a tick with it and without, and the largest deviation in rad."""

    tick_us: float
    rest_us: float
    deviation: float


def run(options: Options) -> Iterator[Result]:
    """Yields, for cubic and quintic segments, a tick, what the trajectory adds to it, and how exact it is."""
    arm = (
        f"{JOINTS} joints, {options.scaled(POINTS, 50)} points, {RATE:g} Hz, feedback at {FEEDBACK_RATE:g} Hz"
    )
    for kind in KINDS:
        with _Arm(kind, options) as arm_bridge:
            in_a_row = [arm_bridge.follow(paced=False) for _ in range(options.repeats)]
            paced = [arm_bridge.follow(paced=True) for _ in range(options.repeats)]
        name = f"controllers.trajectory.{kind}"
        yield median_result(
            f"{name}.tick",
            [each.tick_us for each in in_a_row],
            "us",
            target=TICK,
            compared_with=f"{arm}; the whole tick, joint states at 100 Hz and /tf at 50 Hz written; steps in a row",
        )
        yield median_result(
            f"{name}.cost",
            [each.tick_us - each.rest_us for each in in_a_row],
            "us",
            compared_with="that less a tick of the same bridge without a goal, run by run",
        )
        yield median_result(
            f"{name}.tick_paced",
            [each.tick_us for each in paced],
            "us",
            compared_with=f"the whole tick where each step waits for its time, {RATE:g} a second",
        )
        yield median_result(
            f"controllers.trajectory_deviation.{kind}",
            [each.deviation for each in (*in_a_row, *paced)],
            "rad",
            target=DEVIATION,
            compared_with="the spline through the same points by scipy, at every tick; largest of all joints",
        )


class _Arm:
    """A bridge on an arm, and a client that has it follow a trajectory."""

    def __init__(self, kind: Interpolation, options: Options) -> None:
        self._points = options.scaled(POINTS, 50)
        self._seconds = SECONDS * self._points / POINTS
        self._kind = kind
        self._spline = spline(self._points, self._seconds, kind)
        self._times = np.arange(round(self._seconds * RATE) + 1) / RATE
        self._parts: Any = None

    def __enter__(self) -> _Arm:
        self._parts = self._open()
        self._bridge, self._client = next(self._parts)
        return self

    def __exit__(self, *exception: object) -> None:
        self._parts.close()

    def _open(self) -> Iterator[tuple[SteppedBridge, Child]]:
        with tempfile.TemporaryDirectory() as folder:
            plan = load_plan(write_arm(Path(folder), joints=JOINTS, monitor_rate=FEEDBACK_RATE))
        with (
            stepped(plan, "kinematic", period_ns=_PERIOD_NS, forced=True, tf_rate=50.0) as bridge,
            peer("follow", str(self._points), str(self._seconds), self._kind) as client,
        ):
            bridge.step()
            client.wait_for("ready")
            yield bridge, client

    def follow(self, *, paced: bool) -> _Run:
        """Let the arm follow the trajectory once.

        Raises:
            BenchmarkError: It did not end well, or the client heard too little of it.
        """
        bridge, client = self._bridge, self._client
        ticks = len(self._times)
        rest = seconds_per_call(bridge.step, ticks)
        client.say("follow")
        client.wait_for("accepted")
        positions, seconds = self._timed(paced)
        answer = self._end()
        if (answer["status"], answer["code"]) != (_SUCCEEDED, 0):
            raise BenchmarkError(f"the trajectory failed: status {answer['status']}, {answer['words']!r}")
        heard, expected = answer["feedback"], FEEDBACK_RATE * self._seconds
        # Steps in a row are faster than time: of so many messages at once a client keeps its queue's depth.
        if heard < (_LEAST_FEEDBACK * expected if paced else 1):
            raise BenchmarkError(f"{heard} feedback messages arrived where {expected:.0f} were expected")
        deviation = np.abs(positions - self._spline(self._times)).max()
        return _Run(tick_us=seconds / ticks * 1e6, rest_us=rest * 1e6, deviation=float(deviation))

    def _timed(self, paced: bool) -> tuple[np.ndarray, float]:
        """Steps through the trajectory. Returns the joints at each tick, and the seconds that the steps took."""
        bridge = self._bridge
        snapshot = bridge.bridge.parts.runtime.snapshot
        positions = np.empty((len(self._times), JOINTS))
        gc.collect()
        spent, due = 0, time.monotonic_ns()
        for tick in range(len(positions)):
            if paced:
                due += _PERIOD_NS
                time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
            begin = time.perf_counter_ns()
            bridge.step()
            spent += time.perf_counter_ns() - begin
            positions[tick] = snapshot.state.joint_position
        return positions, spent / 1e9

    def _end(self) -> dict[str, Any]:
        """Steps on until the goal is over."""
        for _ in range(_END_TICKS):
            self._bridge.step()
        return self._client.wait_for("done")
