"""Cameras: the rover's picture of its world, 640x480, by each way of taking it that there is here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from benchmarks.harness import ROOT, BenchmarkError, Options, Result, Target, median_result
from usd_ros_bridge import load_plan
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.mujoco import MujocoBackend
from usd_ros_bridge.backends.mujoco.gl_context import find_gl
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.sensors import CameraSensor
from usd_ros_bridge.model.state import Commands

RATE = Target(30.0, "at least")
ASSET = ROOT / "examples" / "rover" / "world.usda"
WHAT = "640x480 of examples/rover/world.usda, taken and waited for one after another"
_WARM_UP = 3
_NANOSECONDS = 1_000_000_000


def run(options: Options) -> Iterator[Result]:
    """Yields pictures per second: colour and depth by OpenGL, with what is off by default, and by rays."""
    plan = load_plan(ASSET, physics=True)
    gl = find_gl("auto")
    ways: list[tuple[str, dict[str, str], bool, Target | None, str]] = []
    if gl.kind is not None:
        kind = gl.kind
        ways += [
            ("rgb", {"gl": kind}, False, RATE, f"{WHAT}, by {kind}"),
            ("depth", {"gl": kind}, True, None, "the same, 32FC1"),
            ("rgb_smooth", {"gl": kind, "samples": "4"}, False, None, "the same, rgb8 with samples=4"),
            ("rgb_shadows", {"gl": kind, "shadows": "true"}, False, None, "the same, rgb8 with shadows=true"),
        ]
    # Where there is nothing else, rays are what the target is for.
    rays = "the same without OpenGL" if gl.kind else f"{WHAT}; {gl.reason}"
    ways += [
        ("rgb_rays", {"gl": "none"}, False, None if gl.kind else RATE, f"{rays}, cast at 320x240"),
        ("depth_rays", {"gl": "none"}, True, None, "the same, 32FC1, every pixel cast"),
    ]
    for name, settings, depth, target, words in ways:
        with _opened(_with_depth(plan, depth=depth), settings) as backend:
            rates = [_rate(backend, plan, options.scaled(60, 5)) for _ in range(options.repeats)]
        yield median_result(f"cameras.{name}", rates, "Hz", target=target, compared_with=words)


def _with_depth(plan: BridgePlan, *, depth: bool) -> BridgePlan:
    """Returns the plan with its camera alone, and with one of depth where that is asked for."""
    assert plan.physics is not None
    cameras = [each for each in plan.physics.sensors if isinstance(each, CameraSensor)]
    if len(cameras) != 1:
        raise BenchmarkError(f"{ASSET.name} has {len(cameras)} cameras, and not one")
    return replace(plan, physics=replace(plan.physics, sensors=(replace(cameras[0], depth=depth),)))


@contextmanager
def _opened(plan: BridgePlan, settings: dict[str, str]) -> Iterator[MujocoBackend]:
    reports: list[str] = []
    context = BackendContext(
        plan=plan,
        options={**settings, "lockstep": "true"},
        report=lambda kind, message: reports.append(f"{kind}: {message}"),
    )
    backend = MujocoBackend()
    backend.open(context)
    try:
        yield backend
    finally:
        backend.close()
    faults = [each for each in reports if each.startswith(("camera.", "sensor."))]
    if faults:
        raise BenchmarkError(faults[0])


def _rate(backend: MujocoBackend, plan: BridgePlan, count: int) -> float:
    """Returns how many pictures a second are taken; the steps in between do not count."""
    assert plan.physics is not None
    (camera,) = (each for each in plan.physics.sensors if isinstance(each, CameraSensor))
    commands = Commands(plan.layout)
    taken: list[Any] = []
    spent = 0.0
    start_ns = backend.simulation.time_ns
    for number in range(count + _WARM_UP):
        time_ns = start_ns + round((number + 1) / camera.rate * _NANOSECONDS) + backend.capabilities.step_ns
        backend.step(time_ns, commands)
        begin = time.perf_counter()
        sample = backend.sense(camera.path)
        end = time.perf_counter()
        if sample is None or sample.arrays["data"].shape[:2] != (480, 640):
            raise BenchmarkError("no picture of 640x480 was taken")
        if number >= _WARM_UP:
            taken.append(sample.stamp_ns)
            spent += end - begin
    if len(set(taken)) != count:
        raise BenchmarkError(f"{len(set(taken))} of {count} pictures were taken")
    return count / spent
