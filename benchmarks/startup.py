"""Start-up: from the start of the interpreter to the first /tf of the rover, as another process hears it."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import ROOT, Options, Result, Target, median_result
from benchmarks.processes import Child, peer

FIRST_TF = Target(1.5)
ASSET = ROOT / "examples" / "rover" / "world.usda"
TOPIC = "/rover/tf"


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
