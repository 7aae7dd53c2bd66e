"""Triangles for MuJoCo: one mesh of the specification for all geoms that have the same points."""

from __future__ import annotations

import hashlib
import math

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.backends.mujoco.poses import FloatArray
from usd_ros_bridge.model.physics import Cone, Mesh

CONE_SIDES = 32
"""Sides of the pyramid that a cone is."""
_LEAST_POINTS = 4
"""As many points as MuJoCo asks of any mesh."""


def add_mesh(
    built: Built, name: str, mesh: Mesh, *, seen_only: bool, max_hull_vertices: int | None = None
) -> str:
    """Adds a mesh, unless there is one like it.

    Args:
        built: What is being built.
        name: Name of the geom that it is for; the mesh is named alike if it is new.
        mesh: The triangles.
        seen_only: Whether nothing collides with it: it may then be flat.
        max_hull_vertices: Most vertices of the convex hull that collides, where the asset says so.

    Returns:
        The mesh's name.
    """
    points = np.asarray(mesh.points, dtype=np.float64)
    triangles = np.asarray(mesh.triangles, dtype=np.int32)
    most = max(max_hull_vertices, _LEAST_POINTS) if max_hull_vertices is not None else -1
    key = f"{most} {_digest(points, triangles, seen_only=seen_only)}"
    if key in built.meshes:
        return built.meshes[key]
    if len(points) < _LEAST_POINTS:
        points = np.vstack([points, np.repeat(points[-1:], _LEAST_POINTS - len(points), axis=0)])
    # A shell has an inertia however open or flat it is, a hull however its faces are turned. Bodies have their own.
    inertia = mujoco.mjtMeshInertia
    kind = inertia.mjMESH_INERTIA_SHELL if seen_only else inertia.mjMESH_INERTIA_CONVEX
    faces = {"userface": triangles.ravel()} if len(triangles) else {}
    built.spec.add_mesh(name=name, uservert=points.ravel(), inertia=kind, maxhullvert=most, **faces)
    built.meshes[key] = name
    return name


def _digest(
    points: FloatArray, triangles: np.ndarray[tuple[int, ...], np.dtype[np.int32]], *, seen_only: bool
) -> str:
    digest = hashlib.sha256(b"seen" if seen_only else b"collides")
    digest.update(np.ascontiguousarray(points).tobytes())
    digest.update(np.ascontiguousarray(triangles).tobytes())
    return digest.hexdigest()


def cone_mesh(cone: Cone) -> Mesh:
    """Returns the pyramid with CONE_SIDES sides that stands for a cone; its corners are on the rim."""
    angles = np.arange(CONE_SIDES) * (2.0 * math.pi / CONE_SIDES)
    rim = np.column_stack(
        [
            cone.radius * np.cos(angles),
            cone.radius * np.sin(angles),
            np.full(CONE_SIDES, -cone.half_height),
        ]
    )
    points = np.vstack([rim, [[0.0, 0.0, cone.half_height], [0.0, 0.0, -cone.half_height]]])
    here = np.arange(CONE_SIDES)
    there = (here + 1) % CONE_SIDES
    apex, middle = np.full(CONE_SIDES, CONE_SIDES), np.full(CONE_SIDES, CONE_SIDES + 1)
    sides, base = np.column_stack([here, there, apex]), np.column_stack([there, here, middle])
    return Mesh(points, np.vstack([sides, base]).astype(np.int32), "convexHull")
