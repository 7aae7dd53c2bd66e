"""Flat static meshes: floors and walls as plates, boxes where they are rectangles.

A plate has a thickness, a mesh has none: one of its sides is exact. That is the side that bodies start on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Box,
    Capsule,
    Collider,
    Cone,
    Cylinder,
    Mesh,
    Plane,
    Shape,
    Sphere,
)
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    compose,
    from_rotation_matrix,
    pose_array,
    rotate,
)
from usd_ros_bridge.spatial.transforms import pose as make_pose

SLAB: Final = 0.05
"""Thickness over extent of a plate."""
THICKEST: Final = 0.5
"""m: greatest thickness of a plate."""
DEEPEST: Final = 0.02
"""m: thickness of a plate with bodies close behind it, unless SLAB gives less."""
FLOOR: Final = 5.0
"""m: extent from which a flat mesh that looks down below all bodies is a floor with its faces turned over."""
_PLANAR: Final = 1e-6
"""Deviation over extent of points and lines that are straight: single precision."""
_FILLED: Final = 1.0 - 1e-6
"""Share of its convex outline that a convex flat mesh covers."""
_LEVEL: Final = 0.5
"""Least cosine between the normal of a floor and the vertical."""
MOST_CORNERS: Final = 2000
"""Most corners of an outline that is cut into convex pieces: the time grows with their square."""

Plate = tuple[Shape, FloatArray | None]
"""A shape, and `shape_from_part` (7,), None for the identity."""


def plates(
    builder: SpecBuilder, collider: Collider, mesh: Mesh, normal: FloatArray, *, exact: bool
) -> list[Plate]:
    """Return the plates of a flat mesh that the simulation never moves.

    Args:
        builder: The specification.
        collider: The collider.
        mesh: Its triangles.
        normal: (3,) of their plane; its sign has no meaning.
        exact: Outlines that are not convex, and holes, are kept. Otherwise the convex outline collides.
    """
    points, triangles = np.asarray(mesh.points, dtype=np.float64), np.asarray(mesh.triangles)
    corners = points[triangles]
    areas = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    if float(np.sum(areas @ normal)) < 0.0:
        normal = -normal
    used = points[np.unique(triangles)]
    center, extent = used.mean(axis=0), float(np.linalg.norm(np.ptp(used, axis=0)))
    axes = _axes(points, triangles, normal)
    flat = (points - center) @ axes.T
    facing, depth = _solid_side(builder, collider, center, axes, flat, extent)
    is_planar = float(np.ptp(flat[np.unique(triangles), 2])) <= _PLANAR * extent
    outline = _convex_outline(flat[np.unique(triangles), :2])
    covered = abs(float(np.sum(areas @ normal)))
    if not exact or covered >= _FILLED * _area(outline):
        if not is_planar:
            return [(extruded(used, facing * normal, depth), None)]
        return [_plate(outline, center, axes, facing, depth)]
    pieces = _pieces(flat[:, :2], triangles, _PLANAR * extent) if is_planar else None
    if pieces is None:
        least = (_PLANAR * extent) ** 2
        return [
            (extruded(corner, facing * normal, depth), None)
            for corner, area in zip(corners, np.linalg.norm(areas, axis=1).tolist(), strict=True)
            if area > least
        ]
    return [_plate(piece, center, axes, facing, depth) for piece in pieces]


def _axes(points: FloatArray, triangles: NDArray[np.int32], normal: FloatArray) -> FloatArray:
    """Return (3, 3) axes in rows: along the longest edge, across it, and the normal."""
    corners = points[triangles]
    edges = (np.roll(corners, -1, axis=1) - corners).reshape(-1, 3)
    first = edges[int(np.argmax(np.einsum("ij,ij->i", edges, edges)))]
    # Diagonals of quads are longer than their sides, but no side is parallel to them.
    outer = _outer_edges(triangles)
    if len(outer):
        sides = points[outer[:, 1]] - points[outer[:, 0]]
        first = sides[int(np.argmax(np.einsum("ij,ij->i", sides, sides)))]
    first = first - (first @ normal) * normal
    first /= np.linalg.norm(first)
    return np.array([first, np.cross(normal, first), normal])


def _outer_edges(triangles: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return (E, 2) directed edges that no other triangle has the other way round."""
    edges = np.vstack([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]).astype(np.int64)
    size = int(edges.max(initial=0)) + 1
    low, high = edges.min(axis=1), edges.max(axis=1)
    keys, where = np.unique(low * size + high, return_inverse=True)
    total = np.zeros(len(keys), dtype=np.int64)
    np.add.at(total, where.ravel(), np.where(edges[:, 0] == low, 1, -1))
    left = np.repeat(keys, np.abs(total))
    ways = np.repeat(np.sign(total), np.abs(total))
    ends = np.column_stack([left // size, left % size])
    return np.where(ways[:, None] > 0, ends, ends[:, ::-1])


# --- Which side ---------------------------------------------------------------------------------------------------


def _solid_side(
    builder: SpecBuilder,
    collider: Collider,
    center: FloatArray,
    axes: FloatArray,
    flat: FloatArray,
    extent: float,
) -> tuple[float, float]:
    """Return whether the plate is below the front (1) or above it (-1), and how thick it may be.

    Bodies decide where all of them start on one side: of a mesh with two sides, and of a floor that looks down.

    Args:
        builder: The specification.
        collider: The collider.
        center: (3,) origin of the plane, in the shape.
        axes: (3, 3) axes of the plane and its normal in rows, in the shape.
        flat: (V, 3) points along these axes.
        extent: m, of the mesh.
    """
    mesh = collider.shape
    assert isinstance(mesh, Mesh)
    # A hull has no front.
    is_double = mesh.double_sided or mesh.approximation != "none"
    most = min(SLAB * extent, THICKEST)
    size = np.ptp(flat[:, :2], axis=0)
    world_from_shape = start_pose(builder, collider)
    origin = world_from_shape[:3] + rotate(world_from_shape[3:], center)
    turned = rotate(world_from_shape[3:], axes)
    centers, radii = moving_spheres(builder)
    local = (centers - origin) @ turned.T
    within = (np.abs(local[:, :2]) <= size + radii[:, None]).all(axis=1)
    heights, radii = (local[within, 2], radii[within]) if within.any() else (local[:, 2], radii)
    gravity = np.array(builder.scene.gravity)
    strength = float(np.linalg.norm(gravity))
    looks_down = strength > 0.0 and float(turned[2] @ gravity) > _LEVEL * strength
    facing = 1.0
    if len(heights) and (heights <= 0.0).all():
        # Smaller ones than floors may be meant to be solid above: ceilings, undersides.
        is_floor = extent >= FLOOR or bool((heights + radii > -most).any())
        facing = -1.0 if is_double or (looks_down and is_floor) else 1.0
    elif is_double and looks_down and not (heights >= 0.0).all():
        facing = -1.0
    behind = facing * heights < 0.0
    clear = float((-facing * heights - radii)[behind].min(initial=math.inf))
    return facing, min(max(clear, DEEPEST), most)


def start_pose(builder: SpecBuilder, collider: Collider) -> FloatArray:
    """Return where the shape of a collider is at the start: `world_from_shape` (7,)."""
    body_from_shape = pose_array(collider.body_from_shape)
    if collider.body == WORLD_BODY:
        return body_from_shape
    return compose(pose_array(builder.scene.bodies[collider.body].world_from_body), body_from_shape)


def moving_spheres(builder: SpecBuilder) -> tuple[FloatArray, FloatArray]:
    """Return centres (N, 3) in the world and radii (N,) of balls around the colliders that move, at the start."""
    found = builder.moving_spheres
    if found is None:
        centers, radii = [], []
        for collider in builder.scene.colliders:
            if builder.is_static(collider.body):
                continue
            center, radius = _ball(collider.shape)
            world_from_shape = start_pose(builder, collider)
            centers.append(world_from_shape[:3] + rotate(world_from_shape[3:], center))
            radii.append(radius)
        found = builder.moving_spheres = np.array(centers).reshape(-1, 3), np.array(radii)
    return found


def _ball(shape: Shape) -> tuple[FloatArray, float]:
    """Return the centre and radius of a ball around a shape."""
    center = np.zeros(3)
    if isinstance(shape, Sphere):
        return center, shape.radius
    if isinstance(shape, Box):
        return center, math.hypot(*shape.half)
    if isinstance(shape, Capsule):
        return center, shape.radius + shape.half_height
    if isinstance(shape, Cylinder | Cone):
        return center, math.hypot(shape.radius, shape.half_height)
    if isinstance(shape, Plane) or not len(shape.points):
        return center, 0.0
    low, high = shape.points.min(axis=0), shape.points.max(axis=0)
    return 0.5 * (low + high), 0.5 * float(np.linalg.norm(high - low))


# --- Convex pieces ------------------------------------------------------------------------------------------------


def _plate(polygon: FloatArray, center: FloatArray, axes: FloatArray, facing: float, depth: float) -> Plate:
    """Return a plate below (above, for a facing of -1) a convex polygon (N, 2) in the plane: a box if it can be."""
    normal = facing * axes[2]
    points = center + polygon @ axes[:2]
    if len(polygon) == 4:
        sides = np.roll(polygon, -1, axis=0) - polygon
        lengths = np.linalg.norm(sides, axis=1)
        longest = float(lengths.max())
        is_box = float(np.abs(sides[0] + sides[2]).max()) <= 10.0 * _PLANAR * longest and abs(
            float(sides[0] @ sides[1])
        ) <= 10.0 * _PLANAR * longest * float(lengths[1])
        if is_box:
            first = (sides[0] / lengths[0]) @ axes[:2]
            rows = np.array([first, np.cross(normal, first), normal])
            place = make_pose(points.mean(axis=0) - 0.5 * depth * normal, from_rotation_matrix(rows.T))
            return Box((0.5 * float(lengths[0]), 0.5 * float(lengths[1]), 0.5 * depth)), place
    return extruded(points, normal, depth), None


def extruded(points: FloatArray, normal: FloatArray, depth: float) -> Mesh:
    """Return a convex prism: `points` (N, 3) on its front, and `depth` (m) against `normal` (3,) behind them."""
    return Mesh(np.vstack([points, points - depth * normal]), np.zeros((0, 3), dtype=np.int32), "convexHull")


def _convex_outline(points: FloatArray) -> FloatArray:
    """Return the corners (N, 2) of the convex outline of points in a plane, counter-clockwise (monotone chain).

    Corners that are straight within single precision are left out.
    """
    least = _PLANAR * float(np.prod(np.ptp(points, axis=0))) if len(points) else 0.0
    ordered = sorted(map(tuple, points.tolist()))

    def chain(candidates: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
        kept: list[tuple[float, ...]] = []
        for x, y in candidates:
            while len(kept) >= 2 and _turn(kept[-2], kept[-1], (x, y)) <= least:
                kept.pop()
            kept.append((x, y))
        return kept[:-1]

    return np.array(chain(ordered) + chain(ordered[::-1]))


def _turn(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _area(polygon: FloatArray) -> float:
    x, y = polygon[:, 0], polygon[:, 1]
    return 0.5 * abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))


def _pieces(points: FloatArray, triangles: NDArray[np.int32], tolerance: float) -> list[FloatArray] | None:
    """Return convex polygons that cover what flat triangles do, None for an outline that is too long, or none.

    Between two heights of corners the outline is straight: the region there is a row of trapezoids. One that continues
    straight in the next row is one with it. Fans of polygons that are not convex have triangles that are turned over,
    and the outline does not show them: its edges cancel.

    Args:
        points: (V, 2) in the plane.
        triangles: (T, 3) rows of `points`.
        tolerance: Lengths below it are rounding.
    """
    welded = _welded(points, tolerance)
    edges = _outer_edges(welded[triangles])
    if not 0 < len(edges) <= MOST_CORNERS:
        return None
    start, end = points[edges[:, 0]], points[edges[:, 1]]
    rising = end[:, 1] > start[:, 1]
    low, high = np.where(rising[:, None], start, end), np.where(rising[:, None], end, start)
    ways = np.where(rising, 1, -1)
    heights = np.unique(np.concatenate([low[:, 1], high[:, 1]]))
    heights = heights[np.concatenate([[True], np.diff(heights) > tolerance])]
    slope = (high[:, 0] - low[:, 0]) / np.maximum(high[:, 1] - low[:, 1], tolerance)
    done: list[FloatArray] = []
    open_pieces: list[FloatArray] = []
    for bottom, top in pairwise(heights.tolist()):
        middle = 0.5 * (bottom + top)
        crossed = (low[:, 1] < middle) & (high[:, 1] > middle)
        x0, s0 = low[crossed], slope[crossed]
        row = _intervals(x0[:, 0] + s0 * (middle - x0[:, 1]), ways[crossed], tolerance)
        lower, upper = (x0[:, 0] + s0 * (level - x0[:, 1]) for level in (bottom, top))
        made = [
            np.array([(lower[left], bottom), (lower[right], bottom), (upper[right], top), (upper[left], top)])
            for left, right in row
        ]
        open_pieces = _continued(open_pieces, made, done, tolerance)
    return [_convex_outline(piece) for piece in (*done, *open_pieces)]


def _welded(points: FloatArray, tolerance: float) -> NDArray[np.int32]:
    """Return for each point the first one at the same place."""
    keys = np.round(points / (10.0 * tolerance)).astype(np.int64)
    _, first, where = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first[where.ravel()].astype(np.int32)


def _intervals(crossings: FloatArray, ways: NDArray[np.int64], tolerance: float) -> list[tuple[int, int]]:
    """Return the edges at the left and right of what is inside of an outline, along a line that crosses it."""
    found: list[tuple[int, int]] = []
    inside, left = 0, -1
    for edge in np.argsort(crossings, kind="stable").tolist():
        before, inside = inside, inside + int(ways[edge])
        if before == 0:
            left = edge
        elif inside == 0:
            if found and crossings[left] - crossings[found[-1][1]] <= tolerance:
                left = found.pop()[0]
            if crossings[edge] - crossings[left] > tolerance:
                found.append((left, edge))
    return found


def _continued(
    above: Sequence[FloatArray], row: Sequence[FloatArray], done: list[FloatArray], tolerance: float
) -> list[FloatArray]:
    """Return the pieces of a row, each joined with the piece before it that continues straight; others are done."""
    left = list(above)
    result = []
    for piece in row:
        found = next((number for number, each in enumerate(left) if _is_straight(each, piece, tolerance)), -1)
        if found < 0:
            result.append(piece)
        else:
            before = left.pop(found)
            result.append(np.array([before[0], before[1], piece[2], piece[3]]))
    done += left
    return result


def _is_straight(below: FloatArray, above: FloatArray, tolerance: float) -> bool:
    """Return whether both sides of a trapezoid continue in the one above it."""
    for first, second in ((0, 3), (1, 2)):
        start, joint, end = below[first], below[second], above[second]
        if abs(float(joint[0] - above[first][0])) > 2.0 * tolerance:
            return False
        share = float((joint[1] - start[1]) / (end[1] - start[1]))
        if abs(float(start[0] + share * (end[0] - start[0]) - joint[0])) > 2.0 * tolerance:
            return False
    return True
