"""Geoms of colliders and visuals: primitives directly, cones and meshes as MuJoCo's meshes."""

from __future__ import annotations

import hashlib
from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.contacts import set_contact
from usd_ros_bridge.backends.mujoco.convex_parts import ConvexPart, convex_parts, report_shape
from usd_ros_bridge.backends.mujoco.spec_builder import (
    COLLIDER_GROUP,
    HIDDEN_GROUP,
    VISUAL_GROUP,
    SpecBuilder,
    set_pose,
)
from usd_ros_bridge.model.appearance import Color
from usd_ros_bridge.model.physics import (
    Box,
    Capsule,
    Collider,
    Cone,
    Cylinder,
    Mesh,
    Plane,
    Shape,
    Sphere,
    Visual,
    cone_mesh,
)
from usd_ros_bridge.spatial.transforms import FloatArray, compose, pose_array
from usd_ros_bridge.spatial.transforms import pose as make_pose

_INFINITE = 50.0
"""m: half extent of the box that replaces an infinite plane on a body that moves."""
_PLANE_THICKNESS = 0.01
"""m: thickness of that box."""
_GRID = 1.0
"""m: grid spacing of planes in MuJoCo's viewer."""
_TYPES = {
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "plane": mujoco.mjtGeom.mjGEOM_PLANE,
    "mesh": mujoco.mjtGeom.mjGEOM_MESH,
}


def add_colliders(builder: SpecBuilder) -> None:
    """Add the geoms of all colliders. `contacts` decides which of them collide."""
    for collider in builder.scene.colliders:
        builder.geom_names.append(_add_collider(builder, collider))


def add_visuals(builder: SpecBuilder) -> None:
    """Add the geoms of all visuals: no mass, no contacts."""
    for visual in builder.scene.visuals:
        builder.visual_names.append(_add_visual(builder, visual.path, visual, visual.color))


def _add_collider(builder: SpecBuilder, collider: Collider) -> list[str]:
    if not _is_valid(collider.shape):
        report_shape(builder, collider.path, "its size is not positive: it does not collide")
        return []
    parts = _collider_parts(builder, collider)
    if not parts:
        return []
    faithful = len(parts) == 1 and parts[0].faithful
    group = COLLIDER_GROUP if faithful and collider.color is not None else HIDDEN_GROUP
    names = []
    for number, part in enumerate(parts):
        name = collider.path if len(parts) == 1 else f"{collider.path}:{number}"
        geom = _add_geom(builder, collider, name, part)
        geom.group = group
        if collider.color is not None:
            geom.rgba = collider.color
        set_contact(builder, geom, collider)
        names.append(name)
    if collider.color is not None and not faithful:
        _add_visual(builder, f"{collider.path}:seen", collider, collider.color)
    return names


def _collider_parts(builder: SpecBuilder, collider: Collider) -> list[ConvexPart]:
    shape = collider.shape
    static = builder.is_static(collider.body)
    if isinstance(shape, Mesh):
        return convex_parts(builder, collider, shape, static=static)
    if isinstance(shape, Plane) and not static:
        report_shape(builder, collider.path, "a plane on a body that moves collides as a thin box")
        return [_plane_box(shape)]
    return [ConvexPart(shape)]


def _add_visual(builder: SpecBuilder, name: str, visual: Visual | Collider, color: Color) -> list[str]:
    shape = visual.shape
    if not _is_valid(shape):
        return []
    if isinstance(shape, Mesh) and not len(shape.triangles):
        return []
    part = ConvexPart(shape)
    if isinstance(shape, Plane) and not builder.is_static(visual.body):
        part = _plane_box(shape)
    geom = _add_geom(builder, visual, name, part, visual_only=True)
    geom.group = VISUAL_GROUP
    geom.contype = geom.conaffinity = 0
    geom.rgba = color
    return [name]


def _add_geom(
    builder: SpecBuilder, owner: Visual | Collider, name: str, part: ConvexPart, *, visual_only: bool = False
) -> Any:
    kind, size = _primitive(part.shape)
    geom = builder.body(owner.body).add_geom(name=name, type=_TYPES[kind], size=size)
    geom.mass = 0.0
    body_from_shape = pose_array(owner.body_from_shape)
    set_pose(geom, compose(body_from_shape, part.pose) if part.pose is not None else body_from_shape)
    if kind == "mesh":
        assert isinstance(part.shape, Mesh | Cone)
        mesh = cone_mesh(part.shape) if isinstance(part.shape, Cone) else part.shape
        most = owner.solver.get("max_hull_vertices") if isinstance(owner, Collider) else None
        geom.meshname = add_mesh(builder, name, mesh, visual_only=visual_only, max_hull_vertices=most)
    return geom


def _primitive(shape: Shape) -> tuple[str, list[float]]:
    """Return MuJoCo's type and size of a shape."""
    if isinstance(shape, Sphere):
        return "sphere", [shape.radius, 0.0, 0.0]
    if isinstance(shape, Box):
        return "box", list(shape.half)
    if isinstance(shape, Capsule):
        # Without a cylindrical part a capsule is a sphere; MuJoCo refuses a length of zero.
        return "capsule", [shape.radius, max(shape.half_height, 1e-6), 0.0]
    if isinstance(shape, Cylinder):
        return "cylinder", [shape.radius, shape.half_height, 0.0]
    if isinstance(shape, Plane):
        return "plane", [*shape.half, _GRID]
    return "mesh", [0.0, 0.0, 0.0]


def _plane_box(plane: Plane) -> ConvexPart:
    """Return a box whose upper face is the plane."""
    half = (plane.half[0] or _INFINITE, plane.half[1] or _INFINITE, 0.5 * _PLANE_THICKNESS)
    return ConvexPart(Box(half), pose=make_pose((0.0, 0.0, -0.5 * _PLANE_THICKNESS)), faithful=False)


def _is_valid(shape: Shape) -> bool:
    if isinstance(shape, Mesh):
        return True
    if isinstance(shape, Plane):
        return bool(np.all(np.isfinite(shape.half)) and min(shape.half) >= 0.0)
    size = {"sphere": 1, "box": 3, "capsule": 2, "cylinder": 2}
    kind, values = _primitive(shape)
    if isinstance(shape, Cone):
        needed = [shape.radius, shape.half_height]
    elif isinstance(shape, Capsule):
        needed = [shape.radius]
    else:
        needed = values[: size[kind]]
    return bool(np.all(np.isfinite(needed)) and min(needed) > 0.0)


_LEAST_POINTS = 4
"""Least number of points of a mesh in MuJoCo."""


def add_mesh(
    builder: SpecBuilder, name: str, mesh: Mesh, *, visual_only: bool, max_hull_vertices: int | None = None
) -> str:
    """Add a mesh, unless there is an equal one.

    Args:
        builder: The specification.
        name: Name of the geom, and of the mesh if it is new.
        mesh: The triangles.
        visual_only: Nothing collides with it: it may be flat.
        max_hull_vertices: Most vertices of the convex hull; None without an authored limit.

    Returns:
        The mesh's name.
    """
    points = np.asarray(mesh.points, dtype=np.float64)
    triangles = np.asarray(mesh.triangles, dtype=np.int32)
    most = max(max_hull_vertices, _LEAST_POINTS) if max_hull_vertices is not None else -1
    key = f"{most} {_digest(points, triangles, visual_only=visual_only)}"
    if key in builder.meshes:
        return builder.meshes[key]
    if len(points) < _LEAST_POINTS:
        points = np.vstack([points, np.repeat(points[-1:], _LEAST_POINTS - len(points), axis=0)])
    # A shell has an inertia even if it is open or flat, a hull even if its faces are inverted. Bodies have their own.
    inertia = mujoco.mjtMeshInertia
    kind = inertia.mjMESH_INERTIA_SHELL if visual_only else inertia.mjMESH_INERTIA_CONVEX
    faces = {"userface": triangles.ravel()} if len(triangles) else {}
    builder.spec.add_mesh(name=name, uservert=points.ravel(), inertia=kind, maxhullvert=most, **faces)
    builder.meshes[key] = name
    return name


def _digest(
    points: FloatArray, triangles: np.ndarray[tuple[int, ...], np.dtype[np.int32]], *, visual_only: bool
) -> str:
    digest = hashlib.sha256(b"seen" if visual_only else b"collides")
    digest.update(np.ascontiguousarray(points).tobytes())
    digest.update(np.ascontiguousarray(triangles).tobytes())
    return digest.hexdigest()
