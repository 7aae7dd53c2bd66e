"""Volumes, centres and moments of inertia of shapes: closed forms, and sums over the tetrahedra of meshes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.physics import Box, Capsule, Cone, Cylinder, Mesh, Plane, Shape, Sphere
from usd_ros_bridge.requirements import missing_requirement
from usd_ros_bridge.spatial.transforms import FloatArray

_CANONICAL: FloatArray = (np.ones((3, 3)) + np.eye(3)) / 120.0
"""Second moments of the tetrahedron of the origin and the three unit vectors."""

FLAT = 1e-9
"""Share of the cube around a mesh that its volume must have to be one."""


@dataclass(frozen=True, slots=True, eq=False)
class Solid:
    """Mass properties of a shape with a density of 1 kg/m^3.

    Attributes:
        volume: m^3.
        center: (3,) centre of mass in the shape's frame, m.
        inertia: (3, 3) about the centre, in the shape's axes, m^5.
    """

    volume: float
    center: FloatArray
    inertia: FloatArray


MassModel = Literal["", "shell", "legacy", "exact", "convex"]
"""How a shape's mass is distributed: "" as it collides; `shell` on its surface; the others are MuJoCo's of meshes: by
the volumes of tetrahedra, all counted as positive (`legacy`) or with their signs (`exact`), or that of the hull."""


def _about_origin(volume: float, x: float, y: float, z: float) -> Solid:
    """Return a solid about the origin from the moments of its second order about the planes, per volume."""
    return Solid(volume, np.zeros(3), volume * np.diag([y + z, x + z, x + y]))


def solid_of(shape: Shape) -> Solid:
    """Return volume, centre and inertia of a shape; nothing of a plane or a mesh that encloses nothing."""
    if isinstance(shape, Sphere):
        r = shape.radius
        return _about_origin(4.0 / 3.0 * math.pi * r**3, *[r * r / 5.0] * 3)
    if isinstance(shape, Box):
        x, y, z = shape.half
        return _about_origin(8.0 * x * y * z, x * x / 3.0, y * y / 3.0, z * z / 3.0)
    if isinstance(shape, Cylinder):
        r, h = shape.radius, shape.half_height
        return _about_origin(2.0 * math.pi * r * r * h, r * r / 4.0, r * r / 4.0, h * h / 3.0)
    if isinstance(shape, Capsule):
        return _capsule(shape.radius, shape.half_height)
    if isinstance(shape, Cone):
        return _cone(shape.radius, shape.half_height)
    if isinstance(shape, Mesh):
        return _mesh(shape)
    assert isinstance(shape, Plane)
    return _about_origin(0.0, 0.0, 0.0, 0.0)


def _capsule(r: float, h: float) -> Solid:
    cylinder, ball = 2.0 * math.pi * r * r * h, 4.0 / 3.0 * math.pi * r**3
    volume = cylinder + ball
    side = (cylinder * r * r / 4.0 + ball * r * r / 5.0) / volume
    # A half ball's centre is 3/8 r above its base.
    along = (cylinder * h * h / 3.0 + ball * (r * r / 5.0 + h * h + 0.75 * r * h)) / volume
    return _about_origin(volume, side, side, along)


def _cone(r: float, h: float) -> Solid:
    """Return a cone. Its centre is a quarter of the height above the base; moments of a cone of height 2 h."""
    volume = math.pi * r * r * 2.0 * h / 3.0
    side, along = 3.0 / 20.0 * r * r, 3.0 / 80.0 * (2.0 * h) ** 2
    solid = _about_origin(volume, side, side, along)
    return Solid(volume, np.array([0.0, 0.0, -0.5 * h]), solid.inertia)


# --- Other distributions ------------------------------------------------------------------------------------------


def distributed(shape: Shape, model: MassModel, thickness: float = 0.0) -> Solid:
    """Return what a shape is with its mass distributed in another way than it collides.

    Args:
        shape: The shape.
        model: How.
        thickness: m, of a shell's wall, inwards from the surface. 0 for a surface without thickness: its volume is an
            area then, and a density of 1 kg/m^2, as in MuJoCo.
    """
    if model == "shell":
        return _shell(shape, thickness)
    if model and isinstance(shape, Mesh):
        if model == "convex":
            return solid_of(replace(shape, approximation="convexHull"))
        return _tetrahedra(shape, signed=model == "exact")
    return solid_of(shape)


def _shell(shape: Shape, thickness: float) -> Solid:
    inside = _shrunk(shape, thickness) if thickness > 0.0 else None
    if inside is not None:
        whole, hollow = solid_of(shape), solid_of(inside)
        volume = whole.volume - hollow.volume
        center = (whole.volume * whole.center - hollow.volume * hollow.center) / volume
        inertia = whole.inertia - hollow.inertia
        for solid, sign in ((whole, 1.0), (hollow, -1.0)):
            offset = solid.center - center
            inertia = inertia + sign * solid.volume * (offset @ offset * np.eye(3) - np.outer(offset, offset))
        return Solid(volume, center, inertia)
    surface = _surface(shape)
    if thickness <= 0.0:
        return surface
    if isinstance(shape, Mesh | Cone):
        # A wall as thin as walls are, next to the surface.
        return Solid(surface.volume * thickness, surface.center, surface.inertia * thickness)
    # Thicker than the shape: nothing is hollow.
    return solid_of(shape)


def _shrunk(shape: Shape, by: float) -> Shape | None:
    """Return the hollow of a primitive whose walls have a thickness, None where nothing is left or it is a mesh."""
    if isinstance(shape, Sphere):
        return Sphere(shape.radius - by) if shape.radius > by else None
    if isinstance(shape, Box):
        x, y, z = (half - by for half in shape.half)
        return Box((x, y, z)) if min(x, y, z) > 0.0 else None
    if isinstance(shape, Capsule):
        return Capsule(shape.radius - by, shape.half_height) if shape.radius > by else None
    if isinstance(shape, Cylinder):
        radius, half = shape.radius - by, shape.half_height - by
        return Cylinder(radius, half) if min(radius, half) > 0.0 else None
    return None


def _surface(shape: Shape) -> Solid:
    """Return a surface without thickness: its area in place of a volume."""
    if isinstance(shape, Sphere):
        area = 4.0 * math.pi * shape.radius**2
        return _about_origin(area, *[shape.radius**2 / 3.0] * 3)
    if isinstance(shape, Box):
        return _box_surface(*shape.half)
    if isinstance(shape, Cylinder):
        return _round_surface(shape.radius, shape.half_height, ends="flat")
    if isinstance(shape, Capsule):
        return _round_surface(shape.radius, shape.half_height, ends="round")
    if isinstance(shape, Cone):
        return _cone_surface(shape.radius, shape.half_height)
    return _mesh_surface(shape) if isinstance(shape, Mesh) else solid_of(shape)


def _box_surface(x: float, y: float, z: float) -> Solid:
    faces = (8.0 * y * z, 8.0 * x * z, 8.0 * x * y)
    area = sum(faces)
    half = (x, y, z)
    # Second moment along each axis: the pair of faces across it is that far out, the others are spread along it.
    seconds = [
        (faces[axis] * half[axis] ** 2 + (area - faces[axis]) * half[axis] ** 2 / 3.0) / area
        for axis in range(3)
    ]
    return _about_origin(area, *seconds)


def _round_surface(r: float, h: float, *, ends: Literal["flat", "round"]) -> Solid:
    side = 4.0 * math.pi * r * h
    if ends == "flat":
        caps = 2.0 * math.pi * r * r
        across, along = caps * r * r / 4.0, caps * h * h
    else:
        caps = 4.0 * math.pi * r * r
        across, along = caps * r * r / 3.0, caps * (h * h + h * r + r * r / 3.0)
    area = side + caps
    across = (across + side * r * r / 2.0) / area
    return _about_origin(area, across, across, (along + side * h * h / 3.0) / area)


def _cone_surface(r: float, h: float) -> Solid:
    side, base = math.pi * r * math.hypot(r, 2.0 * h), math.pi * r * r
    area = side + base
    # The mantle's centre is a third of the height above the base, which is at -h.
    center = (side * (-h / 3.0) + base * -h) / area
    across = (side * r * r / 4.0 + base * r * r / 4.0) / area
    along = (side * (2.0 * h) ** 2 / 18.0 + side * (h / 3.0 + center) ** 2 + base * (h + center) ** 2) / area
    solid = _about_origin(area, across, across, along)
    return Solid(area, np.array([0.0, 0.0, center]), solid.inertia)


def _mesh_surface(mesh: Mesh) -> Solid:
    corners = mesh.points[mesh.triangles]
    areas = 0.5 * np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    area = float(areas.sum())
    if not area > 0.0:
        return Solid(0.0, np.zeros(3), np.zeros((3, 3)))
    center = (areas @ corners.mean(axis=1)) / area
    return Solid(area, center, _inertia(_seconds(corners - center, areas / 12.0)))


def _tetrahedra(mesh: Mesh, *, signed: bool) -> Solid:
    """Return a mesh as MuJoCo sums it up: tetrahedra over its triangles, about their centre by area, then by mass."""
    surface = _mesh_surface(mesh)
    corners = mesh.points[mesh.triangles]

    def volumes(about: FloatArray) -> FloatArray:
        found: FloatArray = np.linalg.det(corners - about) / 6.0
        return found if signed else np.abs(found)

    first = volumes(surface.center)
    volume = float(first.sum())
    extent = float(np.ptp(corners.reshape(-1, 3), axis=0).max()) if len(corners) else 0.0
    if not abs(volume) > FLAT * extent**3:
        return Solid(0.0, surface.center, np.zeros((3, 3)))
    center = first @ (0.75 * corners.mean(axis=1) + 0.25 * surface.center) / volume
    second = volumes(center)
    inertia = _inertia(_seconds(corners - center, second / 20.0))
    return Solid(abs(float(second.sum())), center, inertia * math.copysign(1.0, volume))


def _seconds(corners: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the second moments (3, 3) of triangles (T, 3, 3), or of the tetrahedra to the origin, by weight (T,)."""
    total = corners.sum(axis=1)
    single = np.einsum("t,tvi,tvj->ij", weights, corners, corners)
    result: FloatArray = single + np.einsum("t,ti,tj->ij", weights, total, total)
    return result


def _inertia(seconds: FloatArray) -> FloatArray:
    result: FloatArray = np.trace(seconds) * np.eye(3) - seconds
    return result


# --- Meshes -------------------------------------------------------------------------------------------------------


def bounding_box(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return centre and half extents of points (V, 3)."""
    low, high = points.min(axis=0), points.max(axis=0)
    return 0.5 * (low + high), 0.5 * (high - low)


def bounding_ball(points: FloatArray) -> tuple[FloatArray, float]:
    """Return centre and radius of a ball about the middle of the box around points (V, 3)."""
    center, _ = bounding_box(points)
    return center, float(np.linalg.norm(points - center, axis=1).max())


def _mesh(mesh: Mesh) -> Solid:
    """Return the volume that a mesh collides as: its hull or its box, its inside where it is closed, else its hull."""
    used = mesh.points[np.unique(mesh.triangles)]
    if mesh.approximation == "boundingCube":
        center, half = bounding_box(used)
        return _moved(solid_of(Box((float(half[0]), float(half[1]), float(half[2])))), center)
    if mesh.approximation == "boundingSphere":
        center, radius = bounding_ball(used)
        return _moved(solid_of(Sphere(radius)), center)
    if mesh.approximation != "convexHull" and is_closed(mesh.triangles):
        solid = enclosed(mesh.points, mesh.triangles)
        if solid is not None:
            return solid
    hull = convex_hull(used)
    solid = None if hull is None else enclosed(used, hull)
    return Solid(0.0, used.mean(axis=0), np.zeros((3, 3))) if solid is None else solid


def _moved(solid: Solid, center: FloatArray) -> Solid:
    return Solid(solid.volume, center, solid.inertia)


def is_closed(triangles: NDArray[np.int32]) -> bool:
    """Return whether every edge is shared by two triangles that agree on what is outside."""
    edges = np.concatenate((triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]])).astype(
        np.int64
    )
    size = int(triangles.max()) + 1
    forward, backward = edges[:, 0] * size + edges[:, 1], edges[:, 1] * size + edges[:, 0]
    return len(np.unique(forward)) == len(forward) and bool(
        np.array_equal(np.sort(forward), np.sort(backward))
    )


def enclosed(points: FloatArray, triangles: NDArray[np.int32]) -> Solid | None:
    """Return what a closed surface encloses, None where that is nothing.

    Args:
        points: (V, 3).
        triangles: (T, 3), all counter-clockwise, or all clockwise, seen from outside.
    """
    middle, half = bounding_box(points)
    corners = (points - middle)[triangles]
    six_volumes = np.linalg.det(corners)
    volume = float(six_volumes.sum()) / 6.0
    if not abs(volume) > FLAT * float(half.max()) ** 3 or not math.isfinite(volume):
        return None
    center = (six_volumes[:, None] * corners.sum(axis=1)).sum(axis=0) / 24.0 / volume
    shifted = corners - center
    # A tetrahedron's second moments are those of the canonical one, mapped by its three edges at the centre.
    weighted = np.linalg.det(shifted)[:, None, None] * shifted
    second = weighted.reshape(-1, 3).T @ (_CANONICAL @ shifted).reshape(-1, 3)
    second *= math.copysign(1.0, volume)
    inertia = np.trace(second) * np.eye(3) - second
    return Solid(abs(volume), middle + center, inertia)


def convex_hull(points: FloatArray) -> NDArray[np.int32] | None:
    """Return the triangles (T, 3) of the hull of points (V, 3), None where it is flat.

    They are counter-clockwise seen from outside.

    Raises:
        BridgeError: SciPy is missing. A mass is never taken from something else for that.
    """
    # Most assets have no mesh that needs it, and it takes as long to import as all others together.
    try:
        from scipy.spatial import ConvexHull, QhullError
    except ImportError as error:
        raise missing_requirement(error) or error from error
    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        return None
    triangles: NDArray[np.int32] = hull.simplices.astype(np.int32)
    corners = points[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inward = np.einsum("ta,ta->t", normals, hull.equations[:, :3]) < 0.0
    triangles[inward] = triangles[inward][:, [0, 2, 1]]
    return triangles
