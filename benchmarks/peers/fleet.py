"""Plans a fleet in a fresh process, and where asked opens a bridge on it, ticks it and reads the memory that it takes.

`python -m benchmarks.peers.fleet STAGE TICKS tuned|untuned`; with 0 ticks the fleet is planned only. A tuned process is
as that of `usd_ros_bridge run`, an untuned one as that of a host that does not call `tune_process`.
"""

from __future__ import annotations

import gc
import re
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.bridges import SteppedBridge, stepped
from benchmarks.harness import BenchmarkError, seconds_per_call
from benchmarks.peers import tell
from benchmarks.robots import SwayingBackend
from usd_ros_bridge import load_plan, tune_process
from usd_ros_bridge.model.diagnostics import has_errors
from usd_ros_bridge.model.plan import BridgePlan

RATE = 100.0
_PERIOD_NS = int(1e9 / RATE)


def main() -> None:
    """Plans, ticks, tells."""
    stage, ticks, tuned = sys.argv[1], int(sys.argv[2]), {"tuned": True, "untuned": False}[sys.argv[3]]
    if tuned:
        tune_process()
    _import_early()
    gc.collect()
    begin = time.perf_counter()
    plan = load_plan(stage)
    seconds = time.perf_counter() - begin
    if has_errors(plan.diagnostics):
        raise BenchmarkError(f"the fleet has errors: {plan.diagnostics[0]}")
    tell("planned", seconds=seconds, robots=len(plan.robots), resident_mb=_resident_mb())
    if ticks:
        _tick(plan, ticks)


def _import_early() -> None:
    """Imports OpenUSD and what reads it: the figure is the reading, not Python's imports."""
    from pxr import Usd, UsdGeom, UsdPhysics  # noqa: F401

    from usd_ros_bridge.planning import make_plan  # noqa: F401
    from usd_ros_bridge.usd import open_stage, read_stage  # noqa: F401

    Usd.SchemaRegistry()


def _tick(plan: BridgePlan, ticks: int) -> None:
    messages = 2 * len(plan.robots)
    with _open(plan, forced=True) as forced:
        forced.step()
        forced.check_writes(messages)
        written = seconds_per_call(forced.step, ticks)
        resident = _resident_mb()
    with _open(plan, forced=False) as idle:
        idle.step()
        idle.check_writes(0)
        left_out = seconds_per_call(idle.step, ticks)
    tell("ticked", seconds=written, idle_seconds=left_out, resident_mb=resident)


def _open(plan: BridgePlan, *, forced: bool) -> AbstractContextManager[SteppedBridge]:
    return stepped(plan, SwayingBackend(), period_ns=_PERIOD_NS, forced=forced, tf_rate=RATE)


def _resident_mb() -> float:
    """Returns the resident memory of this process, MB of 10^6 bytes."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise BenchmarkError("/proc/self/status tells no VmRSS")
    return int(found[1]) * 1024 / 1e6


if __name__ == "__main__":
    main()
