"""Goals: a storm of them, with random cancellations, preemptions and clients killed midway, on one bridge.

The storm is the tests' own (test/ros/goal_storm.py): what is a test with few goals is a benchmark with a thousand.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.harness import ROOT, BenchmarkError, Options, Result, Target, median_result
from benchmarks.processes import child_environment

GOALS = 1000
KILLS = 40
NONE = Target(0.0)
MEMORY = Target(1.0)
PAUSE = Target(2.0)
STORM = ROOT / "test" / "ros" / "goal_storm.py"
_TIMEOUT = 1800.0


def run(options: Options) -> Iterator[Result]:
    """Yields what went wrong with goals, what stays behind, and the longest pauses of /tf by both transports."""
    goals = options.scaled(GOALS, 40)
    storm = _storm(goals)
    before, after = storm["before"], storm["after"]
    name = f"goals.{goals}"
    asked = ", ".join(f"{count} x {what}" for what, count in sorted(storm["asked"].items()))
    how = f"{storm['goals']} goals accepted: {asked}"
    stamps = f"two stamps on /tf at {1 / storm['period']:g} Hz"
    yield median_result(
        f"{name}.astray",
        [storm["unfinished"] + storm["changed"]],
        "goals",
        target=NONE,
        compared_with=f"goals that did not end in exactly one terminal state; {how}",
    )
    yield median_result(
        f"{name}.unanswered",
        [storm["unanswered"]],
        "goals",
        target=NONE,
        compared_with="goals whose client was alive and never got the result",
    )
    left = sum(max(0, after[key] - before[key]) for key in ("entities", "threads", "descriptors", "goals"))
    yield median_result(
        f"{name}.left",
        [left],
        "objects",
        target=NONE,
        compared_with="entities, threads, file descriptors and goals more than before, as results have expired",
    )
    yield median_result(
        f"{name}.memory",
        [(after["rss"] - before["rss"]) / 1e6],
        "MB",
        target=MEMORY,
        compared_with="VmRSS of the bridge's process more than before, after a collection of garbage",
    )
    yield median_result(
        f"{name}.tf_pause",
        [storm["longest_gap"] / storm["period"]],
        "periods",
        target=PAUSE,
        compared_with=f"longest time between {stamps}, over {storm['seconds']:.0f} s; by UDP on the loopback",
    )
    kills = options.scaled(KILLS, 4)
    shared = _storm(2 * kills, "--kills", str(kills), "--shared-memory")
    yield median_result(
        f"{name}.tf_pause_shared_memory",
        [shared["longest_gap"] / shared["period"]],
        "periods",
        target=PAUSE,
        compared_with=f"the same in a storm with {kills} killed clients, by shared memory, which is ROS 2's default",
    )


def _storm(goals: int, *arguments: str) -> dict[str, Any]:
    """Runs a storm in a process of its own, which starts the bridge and the clients in others."""
    command = [sys.executable, str(STORM), "--goals", str(goals), *arguments]
    try:
        done = subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"the storm did not end within {_TIMEOUT:g} s") from None
    if done.returncode != 0:
        words = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise BenchmarkError(f"the storm ended with status {done.returncode}: {words[-1]}")
    storm: dict[str, Any] = json.loads(done.stdout)
    if storm["goals"] < goals:
        raise BenchmarkError(f"{storm['goals']} of {goals} goals were accepted")
    return storm
