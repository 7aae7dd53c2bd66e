"""Colliders and visuals become geoms: primitives as they are, cones and meshes as MuJoCo's meshes."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.built import COLLIDER_GROUP, HIDDEN_GROUP, VISUAL_GROUP, Built
from usd_ros_bridge.backends.mujoco.contacts import set_contact
from usd_ros_bridge.backends.mujoco.hulls import Part, convex_parts
from usd_ros_bridge.backends.mujoco.meshes import add_mesh, cone_mesh
from usd_ros_bridge.backends.mujoco.poses import FloatArray, place, pose_of
from usd_ros_bridge.backends.mujoco.statics import is_static
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
)
from usd_ros_bridge.model.transforms import compose
from usd_ros_bridge.model.transforms import pose as make_pose

Color = tuple[float, float, float, float]

_ENDLESS = 50.0
"""m: half extent of the slab that stands for an endless plane on a body that moves."""
_THIN = 0.01
"""m: thickness of that slab."""
_GRID = 1.0
"""m: spacing of the lines with which MuJoCo's viewer shows planes."""
_TYPES = {
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "plane": mujoco.mjtGeom.mjGEOM_PLANE,
    "mesh": mujoco.mjtGeom.mjGEOM_MESH,
}


def add_colliders(built: Built) -> None:
    """Adds the geoms of all colliders; what they collide with is `filters`' part."""
    for collider in built.scene.colliders:
        built.geom_names.append(_add_collider(built, collider))


def add_visuals(built: Built) -> None:
    """Adds the geoms of all that is only seen: no mass, no contacts."""
    for visual in built.scene.visuals:
        built.visual_names.append(_add_visual(built, visual.path, visual, visual.color))


def _add_collider(built: Built, collider: Collider) -> list[str]:
    if not _is_possible(collider.shape):
        _report(built, collider.path, "its size is not positive: it does not collide")
        return []
    parts = _parts(built, collider)
    if not parts:
        return []
    faithful = len(parts) == 1 and parts[0].faithful
    group = COLLIDER_GROUP if faithful and collider.color is not None else HIDDEN_GROUP
    names = []
    for number, part in enumerate(parts):
        name = collider.path if len(parts) == 1 else f"{collider.path}:{number}"
        geom = _add_geom(built, collider, name, part)
        geom.group = group
        if collider.color is not None:
            geom.rgba = collider.color
        set_contact(built, geom, collider)
        names.append(name)
    if collider.color is not None and not faithful:
        _add_visual(built, f"{collider.path}:seen", collider, collider.color)
    return names


def _parts(built: Built, collider: Collider) -> list[Part]:
    shape = collider.shape
    static = is_static(built, collider.body)
    if isinstance(shape, Mesh):
        return convex_parts(built, collider, shape, static=static)
    if isinstance(shape, Plane) and not static:
        _report(built, collider.path, "a plane on a body that moves collides as a thin box")
        return [_slab(shape)]
    return [Part(shape)]


def _add_visual(built: Built, name: str, visual: Visual | Collider, color: Color) -> list[str]:
    shape = visual.shape
    if not _is_possible(shape):
        return []
    if isinstance(shape, Mesh) and not len(shape.triangles):
        return []
    part = Part(shape)
    if isinstance(shape, Plane) and not is_static(built, visual.body):
        part = _slab(shape)
    geom = _add_geom(built, visual, name, part, seen_only=True)
    geom.group = VISUAL_GROUP
    geom.contype = geom.conaffinity = 0
    geom.rgba = color
    return [name]


def _add_geom(
    built: Built, owner: Visual | Collider, name: str, part: Part, *, seen_only: bool = False
) -> Any:
    kind, size = _primitive(part.shape)
    geom = built.body(owner.body).add_geom(name=name, type=_TYPES[kind], size=size)
    geom.mass = 0.0
    body_from_shape = pose_of(owner.body_from_shape)
    place(geom, compose(body_from_shape, part.pose) if part.pose is not None else body_from_shape)
    if kind == "mesh":
        assert isinstance(part.shape, Mesh | Cone)
        mesh = cone_mesh(part.shape) if isinstance(part.shape, Cone) else part.shape
        most = owner.solver.get("max_hull_vertices") if isinstance(owner, Collider) else None
        geom.meshname = add_mesh(built, name, mesh, seen_only=seen_only, max_hull_vertices=most)
    return geom


def _primitive(shape: Shape) -> tuple[str, list[float]]:
    """Returns MuJoCo's type and size of a shape."""
    if isinstance(shape, Sphere):
        return "sphere", [shape.radius, 0.0, 0.0]
    if isinstance(shape, Box):
        return "box", list(shape.half)
    if isinstance(shape, Capsule):
        # One without a cylindrical part is a ball; MuJoCo takes a length of nothing at all for a mistake.
        return "capsule", [shape.radius, max(shape.half_height, 1e-6), 0.0]
    if isinstance(shape, Cylinder):
        return "cylinder", [shape.radius, shape.half_height, 0.0]
    if isinstance(shape, Plane):
        return "plane", [*shape.half, _GRID]
    return "mesh", [0.0, 0.0, 0.0]


def _slab(plane: Plane) -> Part:
    """Returns the box whose upper face a plane is."""
    half = (plane.half[0] or _ENDLESS, plane.half[1] or _ENDLESS, 0.5 * _THIN)
    return Part(Box(half), pose=_below(0.5 * _THIN), faithful=False)


def _below(depth: float) -> FloatArray:
    return make_pose((0.0, 0.0, -depth))


def _is_possible(shape: Shape) -> bool:
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


def _report(built: Built, path: str, message: str) -> None:
    built.report(f"mujoco.shape:{path}", f"{path}: {message}")
