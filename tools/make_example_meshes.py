#!/usr/bin/env python3
"""Write the meshes of the examples: examples/*/geometries.usdc (REP 0158 section 1.2.1).

Two kinds of shape are enough here: surfaces of revolution and profiles extruded with a bevel. All lengths
are in metres, Z up; the origin of a mesh is the origin of the link that shows it. Run from anywhere:

    python tools/make_example_meshes.py
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from pxr import Gf, Usd, UsdGeom, Vt

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
# Points (n, 3), faces (counter-clockwise from outside), normals (n, 3).
Mesh = tuple[np.ndarray, list[list[int]], np.ndarray]

_TURN_Z_TO = {
    "X": np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    "Y": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    "Z": np.eye(3),
}


def revolve(profile: list[tuple[float, float]], axis: str = "Z", segments: int = 40) -> Mesh:
    """Turn a profile about an axis: smooth around it, with a crease at every point of the profile.

    Args:
        profile: (radius, height) pairs in metres, from the bottom up, the solid on the left.
        axis: The axis of revolution, along which the heights count.
        segments: Facets around the axis.

    Returns:
        The mesh; faces look outwards.
    """
    angles = np.arange(segments) * 2.0 * np.pi / segments
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    points: list[np.ndarray] = []
    normals: list[np.ndarray] = []
    faces: list[list[int]] = []
    for (r0, z0), (r1, z1) in itertools.pairwise(profile):
        normal = np.array([z1 - z0, r0 - r1]) / np.hypot(z1 - z0, r0 - r1)
        first = sum(map(len, points))
        for radius, height in ((r0, z0), (r1, z1)):
            points.append(np.column_stack([radius * around, np.full(segments, height)]))
            normals.append(np.column_stack([normal[0] * around, np.full(segments, normal[1])]))
        for i in range(segments):
            j = (i + 1) % segments
            corners = [first + i, first + j, first + segments + j, first + segments + i]
            if r0 == 0.0:
                corners = [corners[0], corners[2], corners[3]]
            elif r1 == 0.0:
                corners = corners[:3]
            faces.append(corners)
    turn = _TURN_Z_TO[axis].T
    return np.concatenate(points) @ turn, faces, np.concatenate(normals) @ turn


def extrude(profile: list[tuple[float, float]], half_width: float, bevel: float) -> Mesh:
    """Extrude an outline in the XZ plane along Y, to both sides, with bevelled rims.

    Args:
        profile: (x, z) corners in metres, convex, counter-clockwise when seen from -Y.
        half_width: Half of the extent along Y, in metres.
        bevel: Size of the bevel, in metres.

    Returns:
        The mesh; every face is flat and looks outwards.
    """
    outline = np.asarray(profile)
    centre = outline.mean(axis=0)
    inset = centre + (outline - centre) * (1.0 - bevel / np.abs(outline - centre).max(axis=0))
    rings = [
        (inset, -half_width),
        (outline, bevel - half_width),
        (outline, half_width - bevel),
        (inset, half_width),
    ]
    loops = [np.column_stack([ring[:, 0], np.full(len(ring), y), ring[:, 1]]) for ring, y in rings]
    quads = [
        [low[i], low[(i + 1) % len(low)], high[(i + 1) % len(low)], high[i]][::-1]
        for low, high in itertools.pairwise(loops)
        for i in range(len(low))
    ]
    points: list[np.ndarray] = []
    normals: list[np.ndarray] = []
    faces: list[list[int]] = []
    for corners in [*quads, list(loops[0]), list(loops[-1])[::-1]]:
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        faces.append(list(range(len(points), len(points) + len(corners))))
        points.extend(corners)
        normals.extend([normal / np.linalg.norm(normal)] * len(corners))
    # The winding above depends on the handedness of the outline; settle it from the outside.
    if np.dot(normals[0], points[0] - np.mean(points, axis=0)) < 0.0:
        faces, normals = [face[::-1] for face in faces], [-normal for normal in normals]
    return np.array(points), faces, np.array(normals)


def write(path: Path, meshes: dict[str, Mesh]) -> None:
    """Write meshes as root prims of one binary layer."""
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    stage.SetMetadata("kilogramsPerUnit", 1.0)
    stage.SetTimeCodesPerSecond(1.0)
    for name, (points, faces, normals) in meshes.items():
        mesh = UsdGeom.Mesh.Define(stage, f"/{name}")
        mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(points.astype(np.float32)))
        mesh.CreateNormalsAttr(Vt.Vec3fArray.FromNumpy(normals.astype(np.float32)))
        mesh.SetNormalsInterpolation(UsdGeom.Tokens.vertex)
        mesh.CreateFaceVertexCountsAttr([len(face) for face in faces])
        mesh.CreateFaceVertexIndicesAttr([index for face in faces for index in face])
        mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
        mesh.CreateExtentAttr([Gf.Vec3f(*map(float, points.min(0))), Gf.Vec3f(*map(float, points.max(0)))])
    stage.SetDefaultPrim(stage.GetPrimAtPath(f"/{next(iter(meshes))}"))
    stage.GetRootLayer().Save()


def rover() -> dict[str, Mesh]:
    """Meshes of examples/rover."""
    hull = [
        (-0.30, 0.075),
        (-0.27, 0.06),
        (0.10, 0.06),
        (0.14, 0.09),
        (0.14, 0.13),
        (0.08, 0.19),
        (-0.28, 0.19),
    ]
    tread = [
        (0.070, -0.020),
        (0.085, -0.025),
        (0.096, -0.022),
        (0.100, -0.014),
        (0.100, 0.014),
        (0.096, 0.022),
        (0.085, 0.025),
        (0.070, 0.020),
    ]
    rim = [
        (0.0, -0.012),
        (0.018, -0.016),
        (0.060, -0.010),
        (0.068, -0.020),
        (0.072, -0.020),
        (0.072, 0.020),
        (0.068, 0.020),
        (0.060, 0.010),
        (0.018, 0.016),
        (0.0, 0.012),
    ]
    lidar_base = [
        (0.0, -0.035),
        (0.040, -0.035),
        (0.044, -0.030),
        (0.044, -0.015),
        (0.040, -0.012),
        (0.0, -0.012),
    ]
    lidar_cap = [(0.0, 0.012), (0.042, 0.012), (0.044, 0.016), (0.040, 0.024), (0.0, 0.028)]
    return {
        "hull": extrude(hull, 0.13, 0.012),
        "tyre": revolve(tread, "Y", 48),
        "rim": revolve(rim, "Y", 48),
        "lidar_base": revolve(lidar_base),
        "lidar_cap": revolve(lidar_cap),
    }


def arm() -> dict[str, Mesh]:
    """Meshes of examples/arm."""
    base = [(0.0, 0.0), (0.11, 0.0), (0.11, 0.012), (0.09, 0.02), (0.082, 0.085), (0.075, 0.10), (0.0, 0.10)]
    shoulder = [(0.0, 0.0), (0.070, 0.0), (0.070, 0.07), (0.060, 0.095), (0.0, 0.095)]
    hub = [(0.0, -0.075), (0.050, -0.075), (0.056, -0.068), (0.056, 0.068), (0.050, 0.075), (0.0, 0.075)]
    upper = [(0.0, 0.035), (0.048, 0.045), (0.038, 0.09), (0.038, 0.24), (0.045, 0.28), (0.0, 0.285)]
    elbow = [(0.0, -0.06), (0.044, -0.06), (0.049, -0.054), (0.049, 0.054), (0.044, 0.06), (0.0, 0.06)]
    fore = [(0.0, 0.03), (0.038, 0.04), (0.036, 0.15), (0.0, 0.158)]
    wrist = [(0.0, 0.0), (0.034, 0.002), (0.030, 0.05), (0.030, 0.10), (0.0, 0.11)]
    knuckle = [(0.0, -0.042), (0.030, -0.042), (0.034, -0.037), (0.034, 0.037), (0.030, 0.042), (0.0, 0.042)]
    return {
        "base": revolve(base),
        "shoulder": revolve(shoulder),
        "hub": revolve(hub, "Y"),
        "upper_arm": revolve(upper),
        "elbow": revolve(elbow, "Y"),
        "forearm": revolve(fore, "X"),
        "wrist": revolve(wrist, "X"),
        "knuckle": revolve(knuckle, "Y"),
    }


if __name__ == "__main__":
    write(EXAMPLES / "rover" / "geometries.usdc", rover())
    write(EXAMPLES / "arm" / "geometries.usdc", arm())
