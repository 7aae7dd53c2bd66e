"""Differential drives: 200 robots in one bridge at 100 Hz, each told where to go, and how exact odometry is."""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bridges import SteppedBridge, stepped
from benchmarks.harness import BenchmarkError, Options, Result, Target, median_result
from benchmarks.motions import Floats, circle, clothoid
from benchmarks.processes import peer
from builders.stages import write_drives
from usd_ros_bridge import load_plan

ROBOTS = 200
COMMAND_RATE = 10.0
COMMAND_TIMEOUT = 10.0
"""Seconds, longer than a busy machine keeps a process waiting: a drive that brakes would be no driven one."""
TICK = Target(4.0)
TICK_P99 = Target(6.0)
ERROR = Target(1.0)
SPEED = 0.5
CURVATURE = 0.8
SHARPNESS = 0.1
_PERIOD_NS = 10_000_000
_TIMEOUT = 120.0
_LEAST_HEARD = 0.5
_COMMANDED = f"cmd_vel at {COMMAND_RATE:g} Hz to each from another process"


def run(options: Options) -> Iterator[Result]:
    """Yields the fleet's tick, with its messages written and left out, and the odometry's error."""
    yield from _fleet(options)
    yield from _odometry(options)


# --- The fleet ------------------------------------------------------------------------------------------------------


def _fleet(options: Options) -> Iterator[Result]:
    robots = options.scaled(ROBOTS, 20)
    ticks = options.scaled(300, 30)
    with tempfile.TemporaryDirectory() as folder:
        stage = write_drives(Path(folder), robots=robots, publish_rate=100.0, cmd_vel_timeout=COMMAND_TIMEOUT)
        forced, idle = [], []
        for _ in range(options.repeats):
            forced.append(_drive(stage, robots, ticks, forced=True))
            idle.append(_drive(stage, robots, ticks, forced=False))
    name = "controllers.diff_drives"
    published = f"{robots} x /tf, joint_states and odom at 100 Hz"
    for key, target, words in (
        (
            "median",
            TICK,
            f"{published}, no subscriber, write forced; {_COMMANDED}; each step waits for its time",
        ),
        ("p99", TICK_P99, "the same, 99th percentile of the ticks of a run"),
        ("in_a_row", None, "the same fleet, mean of steps that do not wait for their time"),
    ):
        figure = {"median": "tick", "p99": "tick_p99", "in_a_row": "tick_in_a_row"}[key]
        values = [each[key] * 1e3 for each in forced]
        yield median_result(f"{name}.{figure}", values, "ms", target=target, compared_with=words)
    for key, figure in (("median", "tick_idle"), ("p99", "tick_idle_p99")):
        yield median_result(
            f"{name}.{figure}",
            [each[key] * 1e3 for each in idle],
            "ms",
            compared_with=f"the same with the writes left out, as nobody listens; {_COMMANDED}",
        )


def _drive(stage: Path, robots: int, ticks: int, *, forced: bool) -> dict[str, Any]:
    """Ticks a fleet in a fresh process while another one commands it."""
    with peer("drives", str(stage), str(ticks), str(int(forced))) as fleet:
        fleet.wait_for("opened", _TIMEOUT)
        with peer("command", str(robots), str(COMMAND_RATE)) as commander:
            ticked = fleet.wait_for("ticked", _TIMEOUT)
            commander.check_alive()
    expected = COMMAND_RATE * robots * ticks / 100.0
    if ticked["heard"] < _LEAST_HEARD * expected:
        raise BenchmarkError(f"{ticked['heard']} commands arrived where {expected:.0f} were expected")
    return ticked


# --- Odometry -------------------------------------------------------------------------------------------------------


def _odometry(options: Options) -> Iterator[Result]:
    metres = options.scaled(10, 2)
    circles: list[float] = []
    clothoids: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        plan = load_plan(write_drives(Path(folder), robots=1, cmd_vel_timeout=0.0))
        for _ in range(options.repeats):
            circles.append(_error(plan, metres, lambda _: CURVATURE, lambda s: circle(s, CURVATURE)))
            clothoids.append(_error(plan, metres, lambda s: SHARPNESS * s, lambda s: clothoid(s, SHARPNESS)))
    how = "through cmd_vel, controller and kinematic backend, 100 Hz; largest error of the way, micrometres per metre"
    yield median_result(
        "controllers.odometry_circle.error",
        circles,
        "um/m",
        target=ERROR,
        compared_with=f"a circle of {1 / CURVATURE:g} m at {SPEED:g} m/s in closed form; {how}",
    )
    yield median_result(
        "controllers.odometry_clothoid.error",
        clothoids,
        "um/m",
        target=ERROR,
        compared_with=f"a clothoid of {SHARPNESS:g} 1/m^2 at {SPEED:g} m/s by Fresnel integrals; {how}",
    )


def _error(
    plan: Any, metres: float, curvature: Callable[[float], float], closed_form: Callable[[Floats], Floats]
) -> float:
    """Drives a way, and returns the odometry's largest distance from its closed form, micrometres per metre driven.

    Every tick gets a command of its own, the curvature half-way through it: wheel speeds are constant within a tick.
    """
    step_length = SPEED * _PERIOD_NS / 1e9
    ticks = round(metres / step_length)
    with (
        stepped(plan, "kinematic", period_ns=_PERIOD_NS, forced=True, tf_rate=None) as robot,
        _Commander(robot) as command,
    ):
        robot.step()
        snapshot = robot.bridge.parts.runtime.snapshot
        places = np.empty((ticks, 2))
        for tick in range(ticks):
            command(SPEED, SPEED * curvature((tick + 0.5) * step_length))
            robot.step()
            odometry = snapshot.odometry(0)
            if odometry is None:
                raise BenchmarkError("no controller knows where the robot is")
            places[tick] = odometry.pose[:2]
    driven = step_length * np.arange(1, ticks + 1)
    errors = np.linalg.norm(places - closed_form(driven), axis=1)
    if not math.isclose(np.linalg.norm(np.diff(places, axis=0), axis=1).sum(), metres, rel_tol=0.01):
        raise BenchmarkError("the robot did not drive the way that it was told")
    return float(np.max(errors) / metres * 1e6)


class _Commander:
    """Publishes a robot's commands on its topic, and waits until the bridge has each."""

    def __init__(self, robot: SteppedBridge) -> None:
        from geometry_msgs.msg import Twist

        self._bridge = robot.bridge
        self._message = Twist()
        self._node = robot.bridge.node
        self._publisher = self._node.create_publisher(Twist, "/robot_0/cmd_vel", 10)
        self._pause = threading.Event()

    def __enter__(self) -> _Commander:
        self._wait(
            lambda: self._publisher.get_subscription_count() > 0, "the bridge does not listen to cmd_vel"
        )
        return self

    def __exit__(self, *exception: object) -> None:
        self._node.destroy_publisher(self._publisher)

    def __call__(self, speed: float, turning: float) -> None:
        self._message.linear.x, self._message.angular.z = speed, turning
        self._publisher.publish(self._message)
        inbox = self._bridge.parts.runtime.inbox
        self._wait(lambda: bool(inbox.pending), "a command did not arrive")

    def _wait(self, happened: Callable[[], bool], otherwise: str) -> None:
        for _ in range(100_000):
            if happened():
                return
            self._pause.wait(0.0001)
        raise BenchmarkError(otherwise)
