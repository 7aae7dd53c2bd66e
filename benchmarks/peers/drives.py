"""A fleet of differential drives in one bridge, stepped at 100 Hz while another process commands each of them.

`python -m benchmarks.peers.drives STAGE TICKS FORCED`; FORCED is 1 where messages are written although nobody listens.
Steps follow the clock, one each 10 ms, and each is timed. Once the input says `go`, every robot has its commands.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.bridges import SteppedBridge, stepped
from benchmarks.harness import BenchmarkError, seconds_per_call
from benchmarks.peers import tell
from benchmarks.peers.command import command
from usd_ros_bridge import load_plan
from usd_ros_bridge.model.diagnostics import has_errors

RATE = 100.0
PERIOD_NS = int(1e9 / RATE)
MESSAGES = 3
"""Of each robot and tick: /tf, joint states, odometry."""
_WARM_UP = 100
_LONGEST_WAIT = 3000
_TOLERANCE = 1e-3


def main() -> None:
    """Opens, waits until all are driven, ticks, tells."""
    stage, ticks, forced = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1"
    plan = load_plan(stage)
    if has_errors(plan.diagnostics):
        raise BenchmarkError(f"the fleet has errors: {plan.diagnostics[0]}")
    robots = len(plan.robots)
    with stepped(plan, "kinematic", period_ns=PERIOD_NS, forced=forced, tf_rate=RATE) as fleet:
        tell("opened", robots=robots)
        clock = _Clock()
        for _ in range(_LONGEST_WAIT):
            clock.wait()
            fleet.step()
            if _commanded(fleet) == robots:
                break
        else:
            raise BenchmarkError(f"only {_commanded(fleet)} of {robots} robots were commanded")
        for _ in range(_WARM_UP):
            clock.wait()
            fleet.step()
        before, heard = _positions(fleet), _heard(fleet)
        seconds = _timed(fleet.step, ticks, clock)
        moved = np.linalg.norm(_positions(fleet) - before, axis=1)
        heard = _heard(fleet) - heard
        fleet.check_writes(MESSAGES * robots if forced else 0)
        in_a_row = seconds_per_call(fleet.step, max(ticks // 5, 1))
    expected = np.array([_distance(*command(number), ticks / RATE) for number in range(robots)])
    if not np.allclose(moved, expected, rtol=_TOLERANCE):
        worst = int(np.argmax(np.abs(moved - expected)))
        raise BenchmarkError(
            f"robot {worst} is {moved[worst]:.3g} m from where it was, not {expected[worst]:.3g} m: "
            "it was not driven as told"
        )
    tell(
        "ticked",
        median=float(np.median(seconds)),
        p99=float(np.percentile(seconds, 99)),
        in_a_row=in_a_row,
        heard=heard,
    )


def _distance(speed: float, turning: float, seconds: float) -> float:
    """Returns how far from its start an arc ends: its chord."""
    half = turning * seconds / 2.0
    return abs(speed * seconds * float(np.sinc(half / np.pi)))


class _Clock:
    """Waits for the next period."""

    def __init__(self) -> None:
        self._due = time.monotonic_ns()

    def wait(self) -> None:
        self._due += PERIOD_NS
        wait = self._due - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        else:
            self._due -= wait


def _timed(step: Callable[[], None], ticks: int, clock: _Clock) -> np.ndarray:
    """Returns what each of `ticks` steps took, seconds."""
    gc.collect()
    seconds = np.empty(ticks)
    for tick in range(ticks):
        clock.wait()
        begin = time.perf_counter_ns()
        step()
        seconds[tick] = (time.perf_counter_ns() - begin) / 1e9
    return seconds


def _subscriptions(fleet: SteppedBridge) -> list[int]:
    return [
        row.count
        for row in fleet.bridge.status().interfaces
        if row.role == "subscription" and row.name.endswith("/cmd_vel")
    ]


def _commanded(fleet: SteppedBridge) -> int:
    return sum(count > 0 for count in _subscriptions(fleet))


def _heard(fleet: SteppedBridge) -> int:
    return sum(_subscriptions(fleet))


def _positions(fleet: SteppedBridge) -> np.ndarray:
    runtime = fleet.bridge.parts.runtime
    rows = [robot.base_row for robot in runtime.plan.robots]
    return runtime.snapshot.state.body_pose[rows, :2].copy()


if __name__ == "__main__":
    main()
