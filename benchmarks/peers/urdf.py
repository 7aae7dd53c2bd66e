"""Makes the URDF of an asset again and again, in a process that is tuned as those of the bridge's commands.

`python -m benchmarks.peers.urdf ASSET FILES RUNS`: each document has to name so many mesh files that are there.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pxr import Usd

from benchmarks.harness import BenchmarkError
from benchmarks.peers import tell
from usd_ros_bridge import load_plan, tune_process
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.urdf import robot_urdf


def main() -> None:
    """Measures with files to write and with files found, from an open stage and from the path; tells the seconds."""
    tune_process()
    asset, files, runs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    figures: dict[str, list[float]] = {"first": [], "again": [], "first_from_file": [], "again_from_file": []}
    _seconds(lambda: str(asset), asset.parent / "warm_up", files)
    for number in range(runs):
        for suffix, opened in (("", lambda: Usd.Stage.Open(str(asset))), ("_from_file", lambda: str(asset))):
            meshes = asset.parent / f"meshes_{number}{suffix}"
            figures[f"first{suffix}"].append(_seconds(opened, meshes, files))
            figures[f"again{suffix}"].append(_seconds(opened, meshes, files))
    tell("measured", seconds=figures)


def _seconds(asset: Callable[[], object], meshes: Path, count: int) -> float:
    """Returns the seconds from an asset to its URDF, with a look at whether it is all there."""
    stage = asset()
    begin = time.perf_counter()
    plan = load_plan(stage, physics=True)  # type: ignore[arg-type]
    urdf = robot_urdf(plan, 0, meshes=MeshCache(meshes))
    seconds = time.perf_counter() - begin
    files = set(re.findall(r'filename="file://([^"]+)"', urdf.text))
    if len(files) != count or not all(Path(file).is_file() for file in files):
        raise BenchmarkError(f"the URDF names {len(files)} mesh files that are there, not {count}")
    return seconds


if __name__ == "__main__":
    main()
