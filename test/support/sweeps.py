"""Sweeps of short runs whose driver does what a parameter says, also what no driver should do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from usd_ros_bridge.sweep.run_record import TIMES
from usd_ros_bridge.sweep.sweep_description import FunctionDriver, RunMetric, Signal, Sweep

ROOT = Path(__file__).parents[2]
WORLD = ROOT / "examples" / "rover" / "world.usda"

DRIVER = '''
"""Drives a run: `act` says how it ends."""
import os, signal, time
from pathlib import Path

HERE = Path(__file__).parent

def drive(run):
    act = run.parameters.get("act", "drive")
    yield 0.02
    run.send("/rover/cmd_vel", {"linear": {"x": float(run.parameters.get("speed", 0.5))}})
    if act == "raise":
        raise ValueError("the <b>driver</b> gave up")
    if act == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "die once":
        try:
            (HERE / "died").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    if act == "hang":
        time.sleep(600)
    if act == "wait":
        (HERE / "waiting").touch()
        while not (HERE / "go on").exists():
            time.sleep(0.01)
    yield 10.0
'''


def write_driver(directory: Path) -> None:
    """Write the driver into the directory of a sweep."""
    directory.mkdir(exist_ok=True)
    (directory / "driver.py").write_text(DRIVER, encoding="utf-8")


def small_sweep(directory: Path, **fields: Any) -> Sweep:
    """Return a sweep of runs of 0.1 s of the rover: two speeds, unless it has other parameters."""
    write_driver(directory)
    return Sweep(
        **{
            "name": "small",
            "asset": str(WORLD),
            "duration": 0.1,
            "backend": "mujoco",
            "driver": FunctionDriver(function="driver.py:drive"),
            "parameters": {"speed": (0.2, 0.4)},
            "metrics": {
                "x": RunMetric(signal=Signal(kind="position", body="/World/rover", axis="x")),
                "speed": RunMetric(signal=Signal(kind="speed", body="/World/rover"), statistic="max"),
            },
            "directory": str(directory),
            **fields,
        }
    )


FILE = f"""\
name: small
asset: {WORLD}
duration: 0.1
backend: mujoco
driver: {{function: "driver.py:drive"}}
parameters:
  speed: {{linspace: [0.1, 0.5, COUNT]}}
  act: [ACT]
metrics:
  x: {{signal: position, body: /World/rover, axis: x}}
"""


def write_sweep(directory: Path, *, count: int = 2, acts: Sequence[str] = ("drive",), more: str = "") -> Path:
    """Write a sweep file: `count` speeds, times `acts`. Return it."""
    write_driver(directory)
    path = directory / "small.yaml"
    path.write_text(
        FILE.replace("COUNT", str(count)).replace("[ACT]", f"[{', '.join(acts)}]") + more, encoding="utf-8"
    )
    return path


def without_times(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table of results without what depends on the machine, as text so that NaN equals NaN."""
    return [
        {name: repr(value) for name, value in row.items() if name not in TIMES} for row in table.to_pylist()
    ]
