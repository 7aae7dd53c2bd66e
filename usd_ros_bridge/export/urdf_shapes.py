"""Shapes of a plan as what URDF's geometry knows: boxes, cylinders, spheres, and meshes in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from usd_ros_bridge.model.physics import Box, Capsule, Cone, Cylinder, Mesh, Plane, Shape, Sphere
from usd_ros_bridge.model.plan import HERE, Pose

PLATE = 1e-3
"""Metres that a plane of finite size is thick: URDF has none without."""

CONE_SIDES = 32
"""Of the pyramid that stands for a cone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Primitive:
    """A geometry of URDF.

    Attributes:
        tag: `box`, `cylinder` or `sphere`.
        sizes: Attributes: metres, those of a box along X, Y and Z.
        shape_from_primitive: Where it is in the shape.
        suffix: What tells it apart from others of the same shape.
    """

    tag: str
    sizes: Mapping[str, tuple[float, ...]]
    shape_from_primitive: Pose = HERE
    suffix: str = ""


@singledispatch
def primitives(shape: Shape) -> tuple[Primitive, ...] | Mesh | None:
    """Returns what URDF has for a shape: primitives that are together the shape, a mesh, or None for nothing."""
    raise TypeError(f"no shape: {type(shape).__name__}")


@primitives.register
def _(shape: Sphere) -> tuple[Primitive, ...]:
    return (_ball(shape.radius),)


@primitives.register
def _(shape: Box) -> tuple[Primitive, ...]:
    x, y, z = shape.half
    return (Primitive(tag="box", sizes={"size": (2.0 * x, 2.0 * y, 2.0 * z)}),)


@primitives.register
def _(shape: Cylinder) -> tuple[Primitive, ...]:
    return (_rod(shape.radius, shape.half_height),)


@primitives.register
def _(shape: Capsule) -> tuple[Primitive, ...]:
    if shape.half_height <= 0.0:
        return (_ball(shape.radius),)
    return (
        _rod(shape.radius, shape.half_height),
        _ball(shape.radius, height=shape.half_height, suffix="_top"),
        _ball(shape.radius, height=-shape.half_height, suffix="_bottom"),
    )


@primitives.register
def _(shape: Plane) -> tuple[Primitive, ...] | None:
    x, y = shape.half
    if x <= 0.0 or y <= 0.0:
        return None
    below = Pose((0.0, 0.0, -0.5 * PLATE))
    return (Primitive(tag="box", sizes={"size": (2.0 * x, 2.0 * y, PLATE)}, shape_from_primitive=below),)


@primitives.register
def _(shape: Cone) -> Mesh:
    angle = np.linspace(0.0, 2.0 * np.pi, CONE_SIDES, endpoint=False)
    rim = np.stack((np.cos(angle), np.sin(angle)), axis=-1) * shape.radius
    low = np.full((CONE_SIDES, 1), -shape.half_height)
    ends = np.array([[0.0, 0.0, shape.half_height], [0.0, 0.0, -shape.half_height]])
    here = np.arange(CONE_SIDES)
    after = (here + 1) % CONE_SIDES
    top, bottom = np.full_like(here, CONE_SIDES), np.full_like(here, CONE_SIDES + 1)
    triangles = np.concatenate((np.stack((here, after, top), -1), np.stack((after, here, bottom), -1)))
    return Mesh(np.concatenate((np.hstack((rim, low)), ends)), triangles.astype(np.int32))


@primitives.register
def _(shape: Mesh) -> Mesh:
    return shape


def bounds(mesh: Mesh) -> tuple[Primitive, ...] | Mesh:
    """Returns what a mesh collides as: a box or a ball about it where its approximation says so, else itself."""
    if mesh.approximation not in ("boundingCube", "boundingSphere") or not len(mesh.triangles):
        return mesh
    points = mesh.points[np.unique(mesh.triangles)]
    low, high = points.min(axis=0), points.max(axis=0)
    x, y, z = (0.5 * (low + high)).tolist()
    centre = Pose((x, y, z))
    if mesh.approximation == "boundingCube":
        size = tuple((high - low).tolist())
        return (Primitive(tag="box", sizes={"size": size}, shape_from_primitive=centre),)
    radius = float(np.linalg.norm(points - (x, y, z), axis=-1).max())
    return (Primitive(tag="sphere", sizes={"radius": (radius,)}, shape_from_primitive=centre),)


def _ball(radius: float, *, height: float = 0.0, suffix: str = "") -> Primitive:
    place = Pose((0.0, 0.0, height))
    return Primitive(tag="sphere", sizes={"radius": (radius,)}, shape_from_primitive=place, suffix=suffix)


def _rod(radius: float, half_height: float) -> Primitive:
    return Primitive(tag="cylinder", sizes={"radius": (radius,), "length": (2.0 * half_height,)})
