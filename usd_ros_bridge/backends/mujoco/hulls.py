"""What a mesh collides as: MuJoCo collides convex hulls, so that everything else has to be made of those."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.built import Built
from usd_ros_bridge.backends.mujoco.decomposition import decompose
from usd_ros_bridge.backends.mujoco.poses import FloatArray
from usd_ros_bridge.model.physics import Box, Collider, Mesh, Shape, Sphere
from usd_ros_bridge.model.transforms import pose as make_pose

_FLAT = 1e-4
"""Thickness over extent below which a mesh is flat and has no hull."""
_SLAB = 0.05
"""Thickness over extent of what stands below a flat mesh that does not move."""
_DEEPEST = 0.02
"""m: most that the prism below a triangle of a static mesh is thick; walls that are thinner stick out behind."""
_PLATE = 1e-3
"""m: thickness of a flat mesh on a body that moves."""
_CONVEX = 0.99
"""Share of its hull's volume that a mesh fills when it counts as convex."""
MOST_PRISMS = 10_000
"""Triangles up to which a static mesh collides triangle by triangle."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A convex part of a collider.

    Attributes:
        shape: What collides.
        pose: `shape_from_part` (7,), None for the identity.
        faithful: Whether it looks like the collider, and may be shown for it.
    """

    shape: Shape
    pose: FloatArray | None = None
    faithful: bool = True


def convex_parts(built: Built, collider: Collider, mesh: Mesh, *, static: bool) -> list[Part]:
    """Returns what a mesh collides as, by its approximation; none where it has nothing to collide with.

    Args:
        built: What is being built.
        collider: The collider.
        mesh: Its triangles.
        static: Whether nothing moves it.
    """
    path = collider.path
    points, triangles = np.asarray(mesh.points, dtype=np.float64), np.asarray(mesh.triangles)
    used = points[np.unique(triangles)] if len(triangles) else points[:0]
    if len(used) < 3 or not np.all(np.isfinite(used)):
        _report(built, path, "the mesh has no triangles, or points that are not finite: it does not collide")
        return []
    if mesh.approximation == "boundingSphere":
        return [_bounding_sphere(used)]
    if mesh.approximation == "boundingCube":
        return [_bounding_box(used)]
    thin = _flatness(used)
    if thin is not None:
        return _flat_parts(points, triangles, thin, static=static, exact=mesh.approximation == "none")
    if mesh.approximation == "convexDecomposition":
        return _decomposed(built, collider, mesh)
    if mesh.approximation in ("none", "meshSimplification") and not _is_convex(points, triangles, used):
        if static and len(triangles) <= MOST_PRISMS:
            return _prisms(points, triangles)
        if static:
            _report(
                built,
                path,
                f"the mesh has {len(triangles)} triangles, more than the {MOST_PRISMS} that collide one by one: it is "
                "decomposed into convex parts",
            )
            return _decomposed(built, collider, mesh)
        _report(
            built,
            path,
            f"a mesh that moves cannot collide as it is (approximation {mesh.approximation}): its convex hull does; "
            "author convexDecomposition to keep its hollows",
        )
    return [Part(mesh)]


def _bounding_sphere(points: FloatArray) -> Part:
    center = 0.5 * (points.min(axis=0) + points.max(axis=0))
    radius = float(np.linalg.norm(points - center, axis=1).max())
    return Part(Sphere(max(radius, _PLATE)), pose=make_pose(center), faithful=False)


def _bounding_box(points: FloatArray) -> Part:
    low, high = points.min(axis=0), points.max(axis=0)
    x, y, z = np.maximum(0.5 * (high - low), 0.5 * _PLATE).tolist()
    return Part(Box((x, y, z)), pose=make_pose(0.5 * (low + high)), faithful=False)


def _flatness(points: FloatArray) -> FloatArray | None:
    """Returns the normal of points in a plane (of a plane through points on a line), None for others."""
    centered = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centered[:: max(1, len(centered) // 5000)], full_matrices=False)
    extents = np.ptp(centered @ axes.T, axis=0)
    return axes[2] if extents[2] <= _FLAT * max(extents[0], 1e-12) else None


def _flat_parts(
    points: FloatArray, triangles: NDArray[np.int32], normal: FloatArray, *, static: bool, exact: bool
) -> list[Part]:
    """Returns a plate: below the side that the triangles show where it is static, in the middle where it moves."""
    corners = points[triangles]
    areas = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    if float(np.sum(areas @ normal)) < 0.0:
        normal = -normal
    used = points[np.unique(triangles)]
    extent = float(np.linalg.norm(np.ptp(used, axis=0)))
    depth = _SLAB * extent if static else _PLATE
    lift = 0.0 if static else 0.5 * depth
    if not exact or not static or _fills_outline(used, normal, float(np.linalg.norm(areas, axis=1).sum())):
        return [Part(_extruded(used + lift * normal, normal, depth), faithful=False)]
    return [Part(_extruded(corner + lift * normal, normal, depth), faithful=False) for corner in corners]


def _fills_outline(points: FloatArray, normal: FloatArray, area: float) -> bool:
    """Returns whether flat triangles cover their convex outline."""
    first = np.cross(normal, [1.0, 0.0, 0.0] if abs(normal[0]) < 0.9 else [0.0, 1.0, 0.0])
    first /= np.linalg.norm(first)
    flat = np.column_stack([points @ first, points @ np.cross(normal, first)])
    return area >= _CONVEX * _outline_area(flat)


def _outline_area(points: FloatArray) -> float:
    """Returns the area of the convex outline of points in a plane (Andrew's monotone chain)."""
    ordered = sorted(map(tuple, points.tolist()))

    def chain(candidates: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
        kept: list[tuple[float, ...]] = []
        for x, y in candidates:
            while len(kept) >= 2 and _turn(kept[-2], kept[-1], (x, y)) <= 0.0:
                kept.pop()
            kept.append((x, y))
        return kept[:-1]

    outline = np.array(chain(ordered) + chain(ordered[::-1]))
    x, y = outline[:, 0], outline[:, 1]
    return 0.5 * abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))


def _turn(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _extruded(points: FloatArray, normal: FloatArray, depth: float) -> Mesh:
    return Mesh(np.vstack([points, points - depth * normal]), np.zeros((0, 3), dtype=np.int32), "convexHull")


def _is_convex(points: FloatArray, triangles: NDArray[np.int32], used: FloatArray) -> bool:
    """Returns whether a mesh is its own convex hull: closed, and none of its points above any of its triangles."""
    corners = points[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    # What is open has a side from which it is hollow; so has a room, whose triangles show its inside.
    if np.linalg.norm(normals.sum(axis=0)) > (1.0 - _CONVEX) * lengths.sum():
        return False
    proper = lengths > 0.0
    normals, origins = normals[proper] / lengths[proper, None], corners[proper, 0]
    size = float(np.linalg.norm(np.ptp(used, axis=0)))
    above = _farthest(used, normals) - np.einsum("ij,ij->i", normals, origins)
    return not bool(np.any(above > 0.5 * (1.0 - _CONVEX) * size))


def _farthest(points: FloatArray, normals: FloatArray) -> FloatArray:
    """Returns how far the points go along each normal, a block of normals at a time."""
    block = max(1, 4_000_000 // max(1, len(points)))
    return np.concatenate(
        [(normals[i : i + block] @ points.T).max(axis=1) for i in range(0, len(normals), block)]
    )


def _prisms(points: FloatArray, triangles: NDArray[np.int32]) -> list[Part]:
    """Returns a prism below each triangle: the surface collides as it is, from the side that it shows."""
    corners = points[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    extent = float(np.linalg.norm(np.ptp(corners.reshape(-1, 3), axis=0)))
    depth = min(_SLAB * extent, _DEEPEST)
    return [
        Part(_extruded(corner, normal / length, depth), faithful=False)
        for corner, normal, length in zip(corners, normals, lengths.tolist(), strict=True)
        if length > (_FLAT * extent) ** 2
    ]


def _decomposed(built: Built, collider: Collider, mesh: Mesh) -> list[Part]:
    hulls = decompose(
        mesh,
        built.options,
        lambda message: _report(built, collider.path, message),
        max_hulls=collider.solver.get("max_hulls"),
    )
    if len(hulls) == 1:
        return [Part(hulls[0])]
    return [Part(hull, faithful=False) for hull in hulls if _flatness(hull.points) is None]


def _report(built: Built, path: str, message: str) -> None:
    built.report(f"mujoco.shape:{path}", f"{path}: {message}")
