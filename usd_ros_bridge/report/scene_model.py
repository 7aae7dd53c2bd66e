"""3D model of an asset at rest: its visible and colliding shapes as binary glTF, and its frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from usd_ros_bridge.export.glb_file import GlbNode, geometry_bytes, write_glb
from usd_ros_bridge.export.surface import Geometry, RenderedSurface, SurfaceMaker
from usd_ros_bridge.model.appearance import Color
from usd_ros_bridge.model.physics import Collider, PhysicsScene, Visual
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, compose, pose_array, rotate, to_matrix

MAX_TEXTURE: Final = 512
"""Width and height of textures, pixels."""
MAX_SHAPES: Final = 4000
"""Shapes of the model: a browser draws each on its own."""
MAX_FRAMES: Final = 1000
"""Frames of the model."""
_COLLISION: Final[Color] = (0.1, 0.75, 0.35, 0.45)
_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneModel:
    """What the 3D view shows.

    Attributes:
        glb: Binary glTF; empty if nothing is to be seen.
        settings: Frames, and the part of the scene to look at, as JSON.
        notes: What the model leaves out or simplifies.
    """

    glb: bytes
    settings: dict[str, Any]
    notes: tuple[str, ...] = ()


def build_scene(plan: BridgePlan, *, max_bytes: int) -> SceneModel:
    """Return the 3D model of a plan.

    Args:
        plan: With physics, else only frames are shown.
        max_bytes: Bytes of all meshes and textures; the largest meshes become boxes until the rest fits.
    """
    notes: list[str] = []
    nodes: list[GlbNode] = []
    if plan.physics is not None:
        surfaces = SurfaceMaker(lambda _, message: notes.append(message), max_texture=MAX_TEXTURE)
        nodes = list(_nodes(plan.physics, surfaces))
    nodes = _within(nodes, max_bytes, notes)
    frames = list(_frames(plan, notes))
    bounds = _bounds([each for each in nodes if each.extras["robot"]] or nodes, frames)
    return SceneModel(
        glb=write_glb(nodes) if nodes else b"",
        settings={"frames": frames, "center": bounds[0], "radius": bounds[1], "shapes": len(nodes)},
        notes=tuple(notes),
    )


# --- Shapes -------------------------------------------------------------------------------------------------------


def _nodes(scene: PhysicsScene, surfaces: SurfaceMaker) -> Iterator[GlbNode]:
    shapes: list[Visual | Collider] = [*scene.visuals, *scene.colliders]
    for each in shapes:
        if each.color is not None:
            yield from _shape_nodes(scene, surfaces, each, each.color, collision=False)
    for collider in scene.colliders:
        yield from _shape_nodes(scene, surfaces, collider, _COLLISION, collision=True)


def _shape_nodes(
    scene: PhysicsScene, surfaces: SurfaceMaker, each: Visual | Collider, color: Color, *, collision: bool
) -> Iterator[GlbNode]:
    body = scene.bodies[each.body] if each.body >= 0 else None
    pose = pose_array(each.body_from_shape)
    if body is not None:
        pose = compose(pose_array(body.world_from_body), pose)
    extras: dict[str, Any] = {"collision": collision, "robot": body is not None and body.robot >= 0}
    for surface in surfaces.surfaces(each.shape, color, path=each.path, collision=collision):
        yield GlbNode(
            geometry=_plain(surface.geometry) if collision else surface.geometry,
            color=color if collision else _color(surface),
            pose=compose(pose, surface.shape_from_geometry),
            scale=surface.scale,
            name=each.path,
            extras=extras,
        )


def _color(surface: RenderedSurface) -> Color:
    red, green, blue = (each / 255.0 for each in surface.color)
    return red, green, blue, surface.opacity


def _plain(geometry: Geometry) -> Geometry:
    """Return a geometry without its texture."""
    return geometry if geometry.texture is None else replace(geometry, key=f"{geometry.key}p", texture=None)


# --- Limits -------------------------------------------------------------------------------------------------------


def _within(nodes: list[GlbNode], max_bytes: int, notes: list[str]) -> list[GlbNode]:
    """Return nodes within the limits: the first MAX_SHAPES, and boxes in place of the largest meshes."""
    if len(nodes) > MAX_SHAPES:
        notes.append(f"the 3D view shows {MAX_SHAPES} of {len(nodes)} shapes")
        nodes = nodes[:MAX_SHAPES]
    sizes = {each.geometry.key: geometry_bytes(each.geometry) for each in nodes}
    images = {each.geometry.key: _image(each.geometry) for each in nodes}
    users = Counter(images.values())
    whole = total = sum(sizes.values()) + sum(map(len, users))
    boxed = set()
    for key in sorted(sizes, key=lambda key: -sizes[key] - len(images[key])):
        if total <= max_bytes:
            break
        boxed.add(key)
        total -= sizes[key]
        users[images[key]] -= 1
        if not users[images[key]]:
            total -= len(images[key])
    if not boxed:
        return nodes
    notes.append(
        f"the meshes are {whole / _MEGABYTE:.1f} MB, more than the limit of {max_bytes / _MEGABYTE:g} MB "
        f"(--max-mesh-mb): the 3D view shows {len(boxed)} of {len(sizes)} meshes as boxes"
    )
    return [_boxed(each) if each.geometry.key in boxed else each for each in nodes]


def _image(geometry: Geometry) -> bytes:
    return b"" if geometry.texture is None else geometry.texture.png


def _boxed(node: GlbNode) -> GlbNode:
    """Return a node whose geometry is the box around it."""
    vertices = node.geometry.vertices.astype(np.float64)
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    scale = np.array(node.scale)
    offset = IDENTITY.copy()
    offset[:3] = 0.5 * (low + high) * scale
    x, y, z = (float(each) for each in np.maximum(high - low, 1e-6) * scale)
    texture = node.geometry.texture
    return replace(
        node,
        geometry=_BOX,
        color=node.color if texture is None else texture.color,
        pose=compose(node.pose, offset),
        scale=(x, y, z),
    )


_CORNERS: Final = np.array(
    [[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)], dtype=np.float32
)
_SIDES: Final = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
_BOX: Final = Geometry(
    "box around a mesh",
    _CORNERS,
    np.array([row for a, b, c, d in _SIDES for row in ((a, b, c), (a, c, d))], dtype=np.uint32),
)


def _bounds(nodes: Sequence[GlbNode], frames: Sequence[dict[str, Any]]) -> tuple[list[float], float]:
    """Return the centre and the radius of what the view shows first."""
    points = [np.array(frame["matrix"][12:15])[None, :] for frame in frames]
    for each in nodes:
        vertices = each.geometry.vertices
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        box = (_CORNERS + 0.5) * (high - low) + low
        points.append(each.pose[:3] + rotate(each.pose[None, 3:], box * np.array(each.scale)))
    if not points:
        return [0.0, 0.0, 0.0], 1.0
    found = np.concatenate(points)
    low, high = found.min(axis=0), found.max(axis=0)
    radius = float(np.linalg.norm(high - low)) / 2.0
    return [float(value) for value in 0.5 * (low + high)], max(radius, 0.05)


# --- Frames -------------------------------------------------------------------------------------------------------


def _frames(plan: BridgePlan, notes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield frames with their matrix at rest, column after column."""
    total = sum(len(robot.frames) for robot in plan.robots)
    if total > MAX_FRAMES:
        notes.append(f"the 3D view shows {MAX_FRAMES} of {total} frames")
    count = 0
    for number, robot in enumerate(plan.robots):
        for frame in robot.frames[: MAX_FRAMES - count]:
            count += 1
            pose = _frame_pose(plan.layout.body_pose, frame.carrier, frame.carrier_from_frame)
            matrix = [round(float(value), 6) for value in to_matrix(pose).T.reshape(-1)]
            yield {"key": f"{number} {frame.id}", "id": frame.id, "matrix": matrix, "static": frame.static}


def _frame_pose(body_pose: FloatArray, carrier: int, carrier_from_frame: Pose) -> FloatArray:
    offset = pose_array(carrier_from_frame)
    return compose(body_pose[carrier], offset) if carrier >= 0 else offset
