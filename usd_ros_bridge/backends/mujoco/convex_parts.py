"""Convex parts of colliding meshes: MuJoCo collides only convex hulls.

Meshes that ask for it are decomposed by CoACD, and cached in the user's cache directory. The result depends on the mesh
and the settings alone (a fixed seed), so that a simulation is repeatable.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.mujoco.flat_plates import (
    DEEPEST,
    SLAB,
    THICKEST,
    extruded,
    moving_spheres,
    plates,
    start_pose,
)
from usd_ros_bridge.backends.mujoco.mujoco_options import MujocoOptions
from usd_ros_bridge.backends.mujoco.spec_builder import SpecBuilder
from usd_ros_bridge.model.physics import Box, Collider, Mesh, Shape, Sphere
from usd_ros_bridge.process_settings import user_cache
from usd_ros_bridge.spatial.convexity import FLAT, flatness, is_convex
from usd_ros_bridge.spatial.transforms import FloatArray, quaternion_conjugate, rotate
from usd_ros_bridge.spatial.transforms import pose as make_pose

_PLATE = 1e-3
"""m: thickness of the plate of a flat mesh on a body that moves."""
_STEEPEST = 0.1
"""Least cosine between the normals of a terrain and the vertical: 84 degrees."""
MOST_PRISMS = 10_000
"""Most triangles of a static mesh that collides triangle by triangle."""


@dataclass(frozen=True, slots=True, eq=False)
class ConvexPart:
    """A convex part of a collider.

    Attributes:
        shape: The shape.
        pose: `shape_from_part` (7,), None for the identity.
        faithful: It looks like the collider, and may be shown instead of it.
    """

    shape: Shape
    pose: FloatArray | None = None
    faithful: bool = True


def convex_parts(builder: SpecBuilder, collider: Collider, mesh: Mesh, *, static: bool) -> list[ConvexPart]:
    """Return the convex parts of a colliding mesh, by its approximation; none for a mesh without triangles.

    Args:
        builder: The specification.
        collider: The collider.
        mesh: Its triangles.
        static: The simulation never moves it.
    """
    path = collider.path
    points, triangles = np.asarray(mesh.points, dtype=np.float64), np.asarray(mesh.triangles)
    used = points[np.unique(triangles)] if len(triangles) else points[:0]
    if len(used) < 3 or not np.all(np.isfinite(used)):
        report_shape(
            builder, path, "the mesh has no triangles, or points that are not finite: it does not collide"
        )
        return []
    if mesh.approximation == "boundingSphere":
        return [_bounding_sphere(used)]
    if mesh.approximation == "boundingCube":
        return [_bounding_box(used)]
    thin = flatness(used)
    if thin is not None:
        return _flat_parts(builder, collider, mesh, thin, static=static)
    if mesh.approximation == "convexDecomposition":
        return _decomposed(builder, collider, mesh)
    if mesh.approximation in ("none", "meshSimplification") and not is_convex(points, triangles):
        if static and len(triangles) <= MOST_PRISMS:
            return _prisms(points, triangles, _downwards(builder, collider, mesh))
        if static:
            report_shape(
                builder,
                path,
                f"the mesh has {len(triangles)} triangles, more than the {MOST_PRISMS} that collide one by one: it is "
                "decomposed into convex parts",
            )
            return _decomposed(builder, collider, mesh)
    return [ConvexPart(mesh)]


def _bounding_sphere(points: FloatArray) -> ConvexPart:
    center = 0.5 * (points.min(axis=0) + points.max(axis=0))
    radius = float(np.linalg.norm(points - center, axis=1).max())
    return ConvexPart(Sphere(max(radius, _PLATE)), pose=make_pose(center), faithful=False)


def _bounding_box(points: FloatArray) -> ConvexPart:
    low, high = points.min(axis=0), points.max(axis=0)
    x, y, z = np.maximum(0.5 * (high - low), 0.5 * _PLATE).tolist()
    return ConvexPart(Box((x, y, z)), pose=make_pose(0.5 * (low + high)), faithful=False)


def _flat_parts(
    builder: SpecBuilder, collider: Collider, mesh: Mesh, normal: FloatArray, *, static: bool
) -> list[ConvexPart]:
    """Return plates: below the front of the triangles where they are static, one that is centred where they move."""
    if static:
        found = plates(builder, collider, mesh, normal, exact=mesh.approximation == "none")
        return [ConvexPart(shape, pose=pose, faithful=False) for shape, pose in found]
    used = np.asarray(mesh.points, dtype=np.float64)[np.unique(mesh.triangles)]
    return [ConvexPart(extruded(used + 0.5 * _PLATE * normal, normal, _PLATE), faithful=False)]


def _prisms(points: FloatArray, triangles: NDArray[np.int32], down: FloatArray | None) -> list[ConvexPart]:
    """Return a prism behind each triangle: the surface itself collides, from its front.

    Args:
        points: (V, 3).
        triangles: (T, 3) rows of `points`.
        down: Of a terrain, where the prisms reach; thin ones let what is fast fall through.
    """
    corners = points[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    extent = float(np.linalg.norm(np.ptp(corners.reshape(-1, 3), axis=0)))
    depth = min(SLAB * extent, DEEPEST if down is None else THICKEST)
    return [
        ConvexPart(extruded(corner, normal / length if down is None else -down, depth), faithful=False)
        for corner, normal, length in zip(corners, normals, lengths.tolist(), strict=True)
        if length > (FLAT * extent) ** 2
    ]


def _downwards(builder: SpecBuilder, collider: Collider, mesh: Mesh) -> FloatArray | None:
    """Return the direction of gravity in a mesh's own frame if the mesh is a terrain, None for other meshes.

    All triangles of a terrain look up. Where all look down, it is one if the mesh has two sides, or if all that moves
    starts above it: nothing else would come to rest on it.
    """
    gravity = np.array(builder.scene.gravity)
    strength = float(np.linalg.norm(gravity))
    if not strength > 0.0:
        return None
    world_from_shape = start_pose(builder, collider)
    down: FloatArray = rotate(quaternion_conjugate(world_from_shape[3:]), gravity / strength)
    corners = np.asarray(mesh.points, dtype=np.float64)[mesh.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    slopes = normals @ down
    if (slopes <= -_STEEPEST * lengths).all():
        return down
    if not (slopes >= _STEEPEST * lengths).all():
        return None
    centers, _ = moving_spheres(builder)
    lowest = world_from_shape[:3] @ (gravity / strength) + float((corners @ down).max())
    is_below_all = len(centers) > 0 and float((centers @ (gravity / strength)).max()) < lowest
    return down if mesh.double_sided or is_below_all else None


def _decomposed(builder: SpecBuilder, collider: Collider, mesh: Mesh) -> list[ConvexPart]:
    hulls = decompose(
        mesh,
        builder.options,
        lambda message: report_shape(builder, collider.path, message),
        max_hulls=collider.solver.get("max_hulls"),
    )
    if len(hulls) == 1:
        return [ConvexPart(hulls[0])]
    return [ConvexPart(hull, faithful=False) for hull in hulls if flatness(hull.points) is None]


def report_shape(builder: SpecBuilder, path: str, message: str) -> None:
    """Report that a shape collides in another form, or not at all."""
    builder.report(f"mujoco.shape:{path}", f"{path}: {message}")


THRESHOLD = 0.05
"""Greatest concavity of a part in CoACD, of the mesh scaled to a cube of size 2."""
_FORMAT = b"1"
"""Version of the settings here: another one invalidates the cache."""
_NO_TRIANGLES = np.zeros((0, 3), dtype=np.int32)


def decompose(
    mesh: Mesh, options: MujocoOptions, explain: Callable[[str], None], *, max_hulls: int | None = None
) -> list[Mesh]:
    """Return convex parts of a mesh, or the mesh itself, whose convex hull collides, where that fails.

    Args:
        mesh: The triangles.
        options: Options of the backend.
        explain: Receives the reason of a failure.
        max_hulls: Authored number of parts at most.
    """
    if not options.decompose:
        return [mesh]
    most = max_hulls if max_hulls is not None and max_hulls > 0 else options.max_hulls
    file = user_cache("coacd") / f"{_digest(mesh, most)}.npz"
    parts = _load(file)
    if parts is None:
        if importlib.util.find_spec("coacd") is None:
            explain("module coacd is missing (the extra [mujoco] has it): its convex hull collides")
            return [mesh]
        parts = _run(mesh, most, file, options.decompose_seconds, explain)
    return [Mesh(points, _NO_TRIANGLES, "convexHull") for points in parts] or [mesh]


def _digest(mesh: Mesh, max_hulls: int) -> str:
    digest = hashlib.sha256(_FORMAT + f" {THRESHOLD} {max_hulls} ".encode())
    digest.update(np.ascontiguousarray(mesh.points, dtype=np.float64).tobytes())
    digest.update(b" ")
    digest.update(np.ascontiguousarray(mesh.triangles, dtype=np.int32).tobytes())
    return digest.hexdigest()


def _load(file: Path) -> list[FloatArray] | None:
    """Return the parts in a file, None for a file that is missing or broken."""
    try:
        with np.load(file) as stored:
            return [np.asarray(stored[name], dtype=np.float64) for name in stored.files]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _run(
    mesh: Mesh, max_hulls: int, file: Path, seconds: float, explain: Callable[[str], None]
) -> list[FloatArray]:
    worker = Path(__file__).with_name("decompose_worker.py")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(
            source,
            points=np.asarray(mesh.points, dtype=np.float64),
            triangles=np.asarray(mesh.triangles, dtype=np.int32),
            threshold=THRESHOLD,
            max_hulls=max_hulls,
        )
        # An application that embeds Python may have no path of an interpreter.
        command = [sys.executable or "python3", str(worker), str(source), str(target)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=seconds)  # noqa: S603
        except subprocess.TimeoutExpired:
            explain(f"it takes more than {seconds:g} s to decompose: its convex hull collides")
            return []
        except (OSError, subprocess.CalledProcessError) as error:
            explain(f"CoACD could not decompose it ({type(error).__name__}): its convex hull collides")
            return []
        parts = _load(target)
        if parts:
            _cache(target, file)
        return parts or []


def _cache(made: Path, file: Path) -> None:
    """Put a result into the cache, atomically; ignore a cache that cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(made.read_bytes())
        Path(name).replace(file)
    except OSError:
        return
