"""Decompose one mesh, in a process of its own: `decompose_worker.py IN.npz OUT.npz`.

A process can be stopped at a time limit, and a crash of the native code ends only itself.
"""

import sys

import coacd
import numpy as np


def main(source: str, target: str) -> None:
    """Read `points`, `triangles`, `max_hulls` and `threshold`; write the points of each part, in order."""
    with np.load(source) as given:
        mesh = coacd.Mesh(given["points"], given["triangles"])
        threshold, max_hulls = float(given["threshold"]), int(given["max_hulls"])
    coacd.set_log_level("error")
    parts = coacd.run_coacd(mesh, threshold=threshold, max_convex_hull=max_hulls, seed=0)
    np.savez(target, *(np.asarray(points) for points, _ in parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
