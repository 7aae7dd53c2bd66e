"""Convex decomposition of meshes through CoACD, cached in the user's cache directory.

The result depends on the mesh and the settings alone (a fixed seed), so that a simulation repeats itself.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from usd_ros_bridge.backends.mujoco.built import SpecOptions
from usd_ros_bridge.backends.mujoco.poses import FloatArray
from usd_ros_bridge.model.physics import Mesh

THRESHOLD = 0.05
"""CoACD's concavity up to which a part is convex enough, of the mesh scaled to a cube of size 2."""
_FORMAT = b"1"
"""Changed when the settings here change: what is cached is then made anew."""
_NO_TRIANGLES = np.zeros((0, 3), dtype=np.int32)


def decompose(
    mesh: Mesh, options: SpecOptions, explain: Callable[[str], None], *, max_hulls: int | None = None
) -> list[Mesh]:
    """Returns convex parts of a mesh, or the mesh itself (which collides as its convex hull) where that fails.

    Args:
        mesh: The triangles.
        options: Whether to do it, how many parts there may be, and how long it may take.
        explain: Told why it did not work.
        max_hulls: Most parts, where the asset says so.
    """
    if not options.decompose:
        return [mesh]
    most = max_hulls if max_hulls is not None and max_hulls > 0 else options.max_hulls
    file = cache_directory() / f"{_digest(mesh, most)}.npz"
    parts = _load(file)
    if parts is None:
        if importlib.util.find_spec("coacd") is None:
            explain("module coacd is missing (the extra [mujoco] has it): its convex hull collides")
            return [mesh]
        parts = _run(mesh, most, file, options.decompose_seconds, explain)
    return [Mesh(points, _NO_TRIANGLES, "convexHull") for points in parts] or [mesh]


def cache_directory() -> Path:
    """Returns where decompositions are kept: `usd_ros_bridge/coacd` in XDG_CACHE_HOME, else in ~/.cache."""
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path("~/.cache").expanduser()) / "usd_ros_bridge" / "coacd"


def _digest(mesh: Mesh, max_hulls: int) -> str:
    digest = hashlib.sha256(_FORMAT + f" {THRESHOLD} {max_hulls} ".encode())
    digest.update(np.ascontiguousarray(mesh.points, dtype=np.float64).tobytes())
    digest.update(b" ")
    digest.update(np.ascontiguousarray(mesh.triangles, dtype=np.int32).tobytes())
    return digest.hexdigest()


def _load(file: Path) -> list[FloatArray] | None:
    """Returns the parts in a file, None where there is none that can be read."""
    try:
        with np.load(file) as stored:
            return [np.asarray(stored[name], dtype=np.float64) for name in stored.files]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _run(
    mesh: Mesh, max_hulls: int, file: Path, seconds: float, explain: Callable[[str], None]
) -> list[FloatArray]:
    worker = Path(__file__).with_name("decompose_worker.py")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(
            source,
            points=np.asarray(mesh.points, dtype=np.float64),
            triangles=np.asarray(mesh.triangles, dtype=np.int32),
            threshold=THRESHOLD,
            max_hulls=max_hulls,
        )
        # An application that embeds Python may not say where its interpreter is.
        command = [sys.executable or "python3", str(worker), str(source), str(target)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=seconds)  # noqa: S603
        except subprocess.TimeoutExpired:
            explain(f"it takes more than {seconds:g} s to decompose: its convex hull collides")
            return []
        except (OSError, subprocess.CalledProcessError) as error:
            explain(f"CoACD could not decompose it ({type(error).__name__}): its convex hull collides")
            return []
        parts = _load(target)
        if parts:
            _keep(target, file)
        return parts or []


def _keep(made: Path, file: Path) -> None:
    """Puts a result into the cache, whole or not at all; a cache that cannot be written is none."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(made.read_bytes())
        Path(name).replace(file)
    except OSError:
        return
