"""Memory: the bridge as robot_state_publisher, resident a moment after its first /tf."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness import Options, Result, Target, median_result
from benchmarks.joint_states import (
    RATE,
    REFERENCE,
    bridge_command,
    find_reference,
    reference_command,
)
from benchmarks.processes import Child, peer

RESIDENT = Target(150.0)
SIZES = (10, 1000)

_SECONDS = 3.0
"""Until descriptions are made, and the planner process has ended."""


def run(options: Options) -> Iterator[Result]:
    """Yields VmRSS of the bridge with 10 and 1,000 joints, and of robot_state_publisher in turns with it."""
    executable = find_reference()
    values: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(options.repeats):
            for joints in SIZES:
                commands = {"bridge": bridge_command(folder, joints)}
                if executable is not None:
                    commands[REFERENCE] = reference_command(folder, joints, executable)
                for contender, command in commands.items():
                    values.setdefault((contender, joints), []).append(
                        _measure(command, contender, joints, folder)
                    )
    for joints in SIZES:
        words = f"VmRSS of the process {_SECONDS:g} s after its first /tf; MB of 10^6 bytes"
        beside = values.get((REFERENCE, joints))
        yield median_result(
            f"memory.{joints}.resident", values["bridge", joints], "MB", target=RESIDENT, compared_with=words
        )
        if beside:
            yield median_result(
                f"memory.{joints}.resident_reference",
                beside,
                "MB",
                compared_with=f"{REFERENCE}: the same",
            )


def _measure(command: Sequence[str], name: str, joints: int, folder: Path) -> float:
    """Returns the memory of a contender between a driver and a listener."""
    with (
        peer("listen", "/tf", "tf", str(folder / "heard.npy")) as listener,
        peer("drive", str(joints), str(RATE)) as driver,
    ):
        listener.wait_for("ready")
        driver.wait_for("ready")
        with Child(command, name=name) as contender:
            listener.wait_for("heard", timeout=60.0)
            time.sleep(_SECONDS)
            contender.check_alive()
            return _resident_mb(contender.pid)


def _resident_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) * 1024 / 1e6
