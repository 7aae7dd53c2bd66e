"""Start-up: from the start of the interpreter to the first /tf that another process hears: the rover, or ten joints."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness import ROOT, Options, Result, Target, median_result
from benchmarks.joint_states import RATE, bridge_command
from benchmarks.processes import Child, peer

FIRST_TF = Target(1.5)
ASSET = ROOT / "examples" / "rover" / "world.usda"
TOPIC = "/rover/tf"
JOINTS = 10
_LONGEST_S = 60.0


def run(options: Options) -> Iterator[Result]:
    """Yields the seconds from the start of the process to the arrival of the first message."""
    yield _result(
        options,
        "startup.first_tf",
        [sys.executable, "-m", "usd_ros_bridge.cli", "run", str(ASSET)],
        TOPIC,
        joints=0,
        what="the start of the interpreter: `usd_ros_bridge run examples/rover/world.usda`, files cached",
    )
    with tempfile.TemporaryDirectory() as folder:
        yield _result(
            options,
            "startup.first_tf_joint_states",
            bridge_command(Path(folder), JOINTS),
            "/tf",
            joints=JOINTS,
            what=f"the same, joint_states with {JOINTS} joints, which another process publishes already",
        )


def _result(
    options: Options, name: str, command: Sequence[str], topic: str, *, joints: int, what: str
) -> Result:
    """Returns the median of several starts. One more start before them fills the caches of files."""
    _first_tf(command, topic, joints=joints)
    values = [_first_tf(command, topic, joints=joints) for _ in range(options.repeats)]
    return median_result(name, values, "s", target=FIRST_TF, compared_with=what)


def _first_tf(command: Sequence[str], topic: str, *, joints: int) -> float:
    """Returns the seconds from the start of a bridge to the first message.

    Args:
        command: Starts the bridge.
        topic: Topic of the message.
        joints: Joints whose states another process publishes, 0 for none.
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
        stack.enter_context(Child(command, name="the bridge"))
        arrival: int = listener.wait_for("heard", timeout=_LONGEST_S)["arrival_ns"]
    return (arrival - begin) / 1e9
