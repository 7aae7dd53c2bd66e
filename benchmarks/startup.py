"""Start-up: from the start of the interpreter to the first /tf that another process hears: the rover, or ten joints.

Each with its plan in the plan cache, and without the plan cache.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness import ROOT, BenchmarkError, Options, Result, Target, median_result
from benchmarks.joint_states import RATE, bridge_command
from benchmarks.processes import Child, peer

FIRST_TF = Target(1.5)
FIRST_TF_CACHED = Target(1.0)
ASSET = ROOT / "examples" / "rover" / "world.usda"
TOPIC = "/rover/tf"
JOINTS = 10
_LONGEST_S = 60.0


def run(options: Options) -> Iterator[Result]:
    """Yields the seconds from the start of the process to the arrival of the first message."""
    rover = [sys.executable, "-m", "usd_ros_bridge.cli", "run", str(ASSET)]
    yield from _results(
        options,
        "startup.first_tf",
        rover,
        [*rover, "--no-plan-cache"],
        TOPIC,
        joints=0,
        what="the start of the interpreter: `usd_ros_bridge run examples/rover/world.usda`, files cached",
    )
    with tempfile.TemporaryDirectory() as folder:
        chain = bridge_command(Path(folder), JOINTS)
        yield from _results(
            options,
            "startup.first_tf_joint_states",
            chain,
            [*chain, "-p", "plan_cache:=false"],
            "/tf",
            joints=JOINTS,
            what=f"the same, joint_states with {JOINTS} joints, which another process publishes already",
        )


def _results(
    options: Options,
    name: str,
    cached: Sequence[str],
    uncached: Sequence[str],
    topic: str,
    *,
    joints: int,
    what: str,
) -> Iterator[Result]:
    """Yields the medians without and with the plan cache; both take turns."""
    with tempfile.TemporaryDirectory() as cache:
        _first_tf(cached, topic, joints=joints, cache=cache, fills=True)
        values = [
            [_first_tf(command, topic, joints=joints, cache=cache) for command in (uncached, cached)]
            for _ in range(options.repeats)
        ]
    for number, (suffix, target, how) in enumerate(
        (("", FIRST_TF, "without the plan cache"), ("_cached", FIRST_TF_CACHED, "its plan in the plan cache"))
    ):
        yield median_result(
            name + suffix,
            [each[number] for each in values],
            "s",
            target=target,
            compared_with=f"{what}, {how}",
        )


def _first_tf(command: Sequence[str], topic: str, *, joints: int, cache: str, fills: bool = False) -> float:
    """Returns the seconds from the start of a bridge to the first message.

    Args:
        command: Starts the bridge.
        topic: Topic of the message.
        joints: Joints whose states another process publishes, 0 for none.
        cache: Directory for XDG_CACHE_HOME.
        fills: Let the bridge run until its plan is in the plan cache.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        listener = stack.enter_context(peer("listen", topic, "tf", str(Path(folder, "heard.npy"))))
        peers = [listener]
        if joints:
            peers.append(stack.enter_context(peer("drive", str(joints), str(RATE))))
        for each in peers:
            each.wait_for("ready")
        begin = time.time_ns()
        environment = {"XDG_CACHE_HOME": cache}
        stack.enter_context(Child(command, name="the bridge", environment=environment))
        arrival: int = listener.wait_for("heard", timeout=_LONGEST_S)["arrival_ns"]
        if fills:
            _wait_for_plan(Path(cache))
    return (arrival - begin) / 1e9


def _wait_for_plan(cache: Path) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not list(cache.glob("usd_ros_bridge/plans/*.plan")):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"no plan in the plan cache within {_LONGEST_S:g} s")
        time.sleep(0.05)
