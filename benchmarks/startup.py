"""Start-up: from the start of the interpreter to the first /tf that another process hears: the rover, or ten joints."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import ROOT, Options, Result, Target, median_result
from benchmarks.joint_states import RATE, bridge_command
from benchmarks.processes import Child, peer

FIRST_TF = Target(1.5)
ASSET = ROOT / "examples" / "rover" / "world.usda"
TOPIC = "/rover/tf"
JOINTS = 10


def run(options: Options) -> Iterator[Result]:
    """Yields the seconds from the start of the process to the arrival of the first message."""
    command = [sys.executable, "-m", "usd_ros_bridge.cli", "run", str(ASSET)]
    values = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats):
            with peer("listen", TOPIC, "tf", str(Path(folder, "heard.npy"))) as listener:
                listener.wait_for("ready")
                begin = time.time_ns()
                with Child(command, name="the bridge on the rover"):
                    first = listener.wait_for("heard", timeout=60.0)["arrival_ns"]
                values.append((first - begin) / 1e9)
    yield median_result(
        "startup.first_tf",
        values,
        "s",
        target=FIRST_TF,
        compared_with="the start of the interpreter: `usd_ros_bridge run examples/rover/world.usda`, files cached",
    )
    yield median_result(
        "startup.first_tf_joint_states",
        [_first_tf_of_joint_states() for _ in range(options.repeats)],
        "s",
        target=FIRST_TF,
        compared_with=f"the same, joint_states with {JOINTS} joints, which another process publishes already",
    )


def _first_tf_of_joint_states() -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = bridge_command(Path(folder), JOINTS)
        with (
            peer("listen", "/tf", "tf", str(Path(folder, "heard.npy"))) as listener,
            peer("drive", str(JOINTS), str(RATE)) as driver,
        ):
            listener.wait_for("ready")
            driver.wait_for("ready")
            begin = time.time_ns()
            with Child(command, name="the bridge on joint states"):
                arrival: int = listener.wait_for("heard", timeout=60.0)["arrival_ns"]
    return (arrival - begin) / 1e9
