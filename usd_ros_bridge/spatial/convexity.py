"""Convexity: whether a mesh is its own convex hull, which engines collide instead of it, or flat, without a hull."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.spatial.transforms import FloatArray

_CONVEX: Final = 0.99
"""Share of its hull that a convex mesh fills."""
FLAT: Final = 1e-4
"""Thickness over extent below which a mesh is flat and has no hull."""
_BLOCK: Final = 1_000_000
"""Products of a point and a normal that are computed together."""


def is_convex(points: FloatArray, triangles: NDArray[np.integer]) -> bool:
    """Return whether a mesh is its own convex hull: closed, without a point above any of its triangles.

    Args:
        points: (V, 3) finite, any unit of length.
        triangles: (T, 3) rows of `points`, counter-clockwise seen from outside.
    """
    corners = points[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    # An open mesh is hollow from one side; so is a room, whose triangles face inwards.
    if np.linalg.norm(normals.sum(axis=0)) > (1.0 - _CONVEX) * lengths.sum():
        return False
    proper = lengths > 0.0
    normals, origins = normals[proper] / lengths[proper, None], corners[proper, 0]
    used = points[np.unique(triangles)]
    highest = 0.5 * (1.0 - _CONVEX) * float(np.linalg.norm(np.ptp(used, axis=0)))
    # A mesh that is not convex has points above many triangles: mostly the first block finds one.
    block = max(1, _BLOCK // max(1, len(used)))
    for start in range(0, len(normals), block):
        rows = slice(start, start + block)
        above = (normals[rows] @ used.T).max(axis=1) - np.einsum("ij,ij->i", normals[rows], origins[rows])
        if np.any(above > highest):
            return False
    return True


def flatness(points: FloatArray) -> FloatArray | None:
    """Return the normal (3,) of points in a plane, or of a plane through points on a line; None for others.

    Args:
        points: (V, 3) finite, at least one.
    """
    centered = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centered[:: max(1, len(centered) // 5000)], full_matrices=False)
    extents = np.ptp(centered @ axes.T, axis=0)
    normal: FloatArray = axes[2]
    return normal if extents[2] <= FLAT * max(extents[0], 1e-12) else None
