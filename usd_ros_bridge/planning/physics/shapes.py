"""Shapes: UsdGeom's gprims in metres, their own scale folded in, lengths along Z."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector, degraded
from usd_ros_bridge.model.physics import (
    Approximation,
    Box,
    Capsule,
    Cone,
    Cylinder,
    Mesh,
    Plane,
    Shape,
    Sphere,
)
from usd_ros_bridge.model.physics_records import GeometryRecord, SiteRecord
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, Units, to_world
from usd_ros_bridge.spatial.transforms import IDENTITY, FloatArray, pose, to_matrix

_HALF: Final = math.sqrt(0.5)
_FROM_Z: Final[Mapping[str, FloatArray]] = {
    "X": pose(rotation=(0.0, _HALF, 0.0, _HALF)),
    "Y": pose(rotation=(-_HALF, 0.0, 0.0, _HALF)),
    "Z": IDENTITY,
}
"""`prim_from_shape`: what turns Z to the axis of a prim."""
_UPSIDE_DOWN: Final = pose(rotation=(1.0, 0.0, 0.0, 0.0))
_ACROSS: Final = {"X": (1, 2), "Y": (0, 2), "Z": (0, 1)}
_UNEVEN: Final = 1e-3
_SHEAR: Final = 1e-3
_DECIMALS: Final = 9
"""Of a scale: the rest is rounding, which differs with the place of a robot."""
_SMALLEST_SIZE: Final = 1.0 / MAX_MAGNITUDE
_SMALLEST_AREA: Final = 1e-12
_SLIMMEST: Final = 1e-9
"""Least area of a mesh, in m^2 and in squares of its largest side."""
_FEW: Final = 64

APPROXIMATIONS: Final[tuple[Approximation, ...]] = (
    "none",
    "convexHull",
    "convexDecomposition",
    "meshSimplification",
    "boundingSphere",
    "boundingCube",
)
_NEAREST: Final[Mapping[str, Approximation]] = {
    "": "none",
    "sdf": "none",
    "sphereFill": "convexDecomposition",
}
"""What stands for tokens that are not UsdPhysics' (PhysX: sdf, sphereFill)."""


@dataclass(frozen=True, slots=True, eq=False)
class ScaledShape:
    """A shape and where it is.

    Attributes:
        shape: The shape.
        prim_from_shape: (7,) pose in the gprim's own.
    """

    shape: Shape
    prim_from_shape: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Transforms:
    """Poses of N gprims, and how their transforms stretch them.

    Attributes:
        world_from_prim: (N, 7) poses in the ROS world.
        scale: (N, 3) world scales, the last negative where a prim is mirrored.
        pose_from_prim: (N, 3, 3) all of the matrices but position and rotation: scale and shear.
        usable: (N,) whether all that is finite.
        sheared: (N,) whether axes are not at right angles.
    """

    world_from_prim: FloatArray
    scale: FloatArray
    pose_from_prim: FloatArray
    usable: NDArray[np.bool_]
    sheared: NDArray[np.bool_]


def read_transforms(records: Sequence[GeometryRecord | SiteRecord], units: Units) -> Transforms:
    """Return the transforms of all gprims, which one at a time would take longer than all the rest."""
    matrices = np.array([record.world_from_prim for record in records], dtype=np.float64).reshape(-1, 4, 4)
    poses, scales = to_world(matrices, units)
    usable = np.logical_and.reduce(np.abs(np.hstack((poses, scales))) <= MAX_MAGNITUDE, axis=-1)
    linear = np.where(usable[:, None, None], matrices[:, :3, :3], np.eye(3))
    unit = linear / np.linalg.norm(linear, axis=1)[:, None, :]
    cosines = np.einsum("nai,naj->nij", unit, unit) - np.eye(3)
    rotations = to_matrix(np.where(usable[:, None], poses, IDENTITY))[:, :3, :3]
    turn = to_matrix(units.world_from_stage)[:3, :3]
    return Transforms(
        poses,
        scales,
        np.einsum("nai,ab,nbj->nij", rotations, turn, linear),
        usable,
        np.abs(cosines).max(axis=(1, 2), initial=0.0) > _SHEAR,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Prim:
    """A gprim, with what is needed to measure it.

    Attributes:
        record: As read.
        scale: (3,) scale in the world, unsigned, times metres per unit.
        mirrored: Whether the prim's Z points the other way round than its pose's.
        units: The stage's units.
        findings: Collector of faults.
    """

    record: GeometryRecord
    scale: FloatArray
    mirrored: bool
    units: Units
    findings: DiagnosticCollector

    def number(self, name: str) -> float:
        return float(self.record.values.get(name, math.nan))

    def axis(self) -> str:
        return str(self.record.values.get("axis", "Z"))

    def placed(self, shape: Shape) -> ScaledShape:
        axis = self.axis() if isinstance(shape, (Capsule, Cylinder, Cone, Plane)) else "Z"
        prim_from_shape = _FROM_Z[axis]
        if self.mirrored and axis == "Z" and isinstance(shape, (Cone, Plane)):
            prim_from_shape = _UPSIDE_DOWN
        return ScaledShape(shape, prim_from_shape)

    def across(self) -> float:
        """Return the larger scale at right angles to the axis."""
        scales = self.scale[list(_ACROSS[self.axis()])]
        self.check_even(scales)
        return float(scales.max())

    def along(self) -> float:
        return float(self.scale["XYZ".index(self.axis())])

    def check_even(self, scales: FloatArray) -> None:
        if self.record.collides and np.ptp(scales) > _UNEVEN * scales.max():
            self.findings.warning(
                "1.3.collider.scale",
                self.record.path,
                f"a {self.record.type_name} is scaled by {_list(scales / self.units.meters)} "
                "where its cross section is round; the largest counts",
                "scale it evenly, or use a mesh",
                attribute="xformOp:scale",
            )


class SharedMeshes(dict[tuple[object, ...], Mesh]):
    """Meshes by what they are made of: equal meshes of equal robots are one object."""


def place_shape(
    record: GeometryRecord,
    number: int,
    transforms: Transforms,
    units: Units,
    meshes: SharedMeshes,
    findings: DiagnosticCollector,
) -> ScaledShape | None:
    """Return the shape of a gprim, None where it has none that can be used; a collider's fault is reported.

    Args:
        record: The gprim.
        number: Which of the transforms is its own.
        transforms: Transforms of all gprims.
        units: The stage's units.
        meshes: Meshes that are known; grows.
        findings: Collector of faults.
    """
    if not transforms.usable[number]:
        # Reading and the plan have reported transforms of bodies and what is above them, not those of gprims.
        remedy = "author finite transforms, and scales that are not zero"
        if record.collides:
            findings.error(
                "1.3.collider",
                record.path,
                "the collider's transform cannot be used; it is left out",
                remedy,
            )
        else:
            findings.warning(
                "1.3.visual", record.path, "its transform cannot be used; it is not seen", remedy
            )
        return None
    scale = transforms.scale[number]
    prim = _Prim(record, np.abs(scale) * units.meters, bool(scale[2] < 0.0), units, findings)
    if record.type_name == "Mesh":
        return _mesh(prim, transforms.pose_from_prim[number], meshes)
    make = _MAKERS.get(record.type_name)
    if make is None:
        if record.collider == record.path:
            findings.warning(
                "1.3.collider",
                record.path,
                f"PhysicsCollisionAPI is on {quoted(record.type_name or 'a prim without a type')}, with no shape at or "
                "below it: nothing collides",
                "apply it to a gprim, or to a prim above gprims",
            )
        elif record.collides:
            findings.warning(
                "1.3.collider",
                record.path,
                f"{quoted(record.type_name)} is no shape that collides; it is left out",
                f"use one of {', '.join(shape_types())}",
            )
        return None
    if record.collides and transforms.sheared[number]:
        findings.warning(
            "1.3.collider.scale",
            record.path,
            "the collider is sheared; its axes are taken at right angles",
            "apply the scales above it to the geometry",
        )
    return _primitive(prim, make)


def _primitive(prim: _Prim, make: Callable[[_Prim], Shape]) -> ScaledShape | None:
    sizes = [v for name, v in prim.record.values.items() if name != "axis" and isinstance(v, (int, float))]
    if prim.axis() in _FROM_Z and all(_SMALLEST_SIZE <= size <= MAX_MAGNITUDE for size in sizes):
        return prim.placed(make(prim))
    description = f"a {prim.record.type_name} with {_describe(prim.record.values)}"
    remedy = "author sizes that are positive, and an axis of X, Y or Z"
    if prim.record.collides:
        prim.findings.error(
            "1.3.collider", prim.record.path, f"{description} cannot collide; it is left out", remedy
        )
    else:
        prim.findings.warning("1.3.visual", prim.record.path, f"{description} is not seen", remedy)
    return None


def _list(values: FloatArray) -> str:
    return ", ".join(f"{value:.6g}" for value in values.tolist())


def _describe(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {quoted(value)}" for name, value in values.items())


def _sphere(prim: _Prim) -> Shape:
    prim.check_even(prim.scale)
    return Sphere(prim.number("radius") * float(prim.scale.max()))


def _cube(prim: _Prim) -> Shape:
    x, y, z = (0.5 * prim.number("size") * prim.scale).tolist()
    return Box((x, y, z))


def _capsule(prim: _Prim) -> Shape:
    return Capsule(prim.number("radius") * prim.across(), 0.5 * prim.number("height") * prim.along())


def _cylinder(prim: _Prim) -> Shape:
    return Cylinder(prim.number("radius") * prim.across(), 0.5 * prim.number("height") * prim.along())


def _cone(prim: _Prim) -> Shape:
    return Cone(prim.number("radius") * prim.across(), 0.5 * prim.number("height") * prim.along())


def _plane(prim: _Prim) -> Shape:
    """As a collider a plane is endless (UsdPhysics knows its axis alone); to be seen it has its width and length."""
    if prim.record.collides:
        return Plane()
    width, length = 0.5 * prim.number("width"), 0.5 * prim.number("length")
    x, y, z = prim.scale.tolist()
    # Width is along X and length along Y; of a plane along X width is along Z, along Y length is. Z is turned to the
    # axis, X of the shape then is -Z or X of the prim.
    sides = {"X": (width * z, length * y), "Y": (width * x, length * z), "Z": (width * x, length * y)}
    return Plane(sides[prim.axis()])


_MAKERS: Final[Mapping[str, Callable[[_Prim], Shape]]] = {
    "Cube": _cube,
    "Sphere": _sphere,
    "Capsule": _capsule,
    "Cylinder": _cylinder,
    "Cone": _cone,
    "Plane": _plane,
}


def shape_types() -> tuple[str, ...]:
    """Return the UsdGeom types that collide."""
    return (*_MAKERS, "Mesh")


# --- Meshes -------------------------------------------------------------------------------------------------------


def _mesh(prim: _Prim, stretch: FloatArray, meshes: SharedMeshes) -> ScaledShape | None:
    record = prim.record
    points, triangles = record.points, record.triangles
    if points is None or triangles is None or not len(triangles):
        _report_mesh(prim, "the mesh has no triangles")
        return None
    pose_from_prim = _rounded(stretch) * prim.units.meters
    key = (
        *(id(points), id(triangles), pose_from_prim.tobytes(), record.approximation, id(record.skin)),
        record.double_sided,
    )
    known = meshes.get(key)
    if known is not None:
        return prim.placed(known)
    points, triangles = _used(points, triangles)
    if not (np.abs(points) <= MAX_MAGNITUDE).all():
        _report_mesh(prim, f"the mesh has points that are not finite, or above {MAX_MAGNITUDE:g}")
        return None
    placed = points @ pose_from_prim.T
    if not _has_area(placed, triangles):
        _report_mesh(prim, "the mesh has no area: its points are at one place or on one line")
        return None
    if prim.mirrored:
        triangles = np.ascontiguousarray(triangles[:, [0, 2, 1]])
    skin = None if record.skin is None else record.skin.placed(pose_from_prim, turned=prim.mirrored)
    before = len(prim.findings)
    approximation = _approximation(record, prim.findings)
    mesh = Mesh(placed, triangles, approximation, skin, record.double_sided)
    if len(prim.findings) == before:
        meshes[key] = mesh
    return prim.placed(mesh)


def _used(points: FloatArray, triangles: NDArray[np.int32]) -> tuple[FloatArray, NDArray[np.int32]]:
    """Return the points that triangles name, in their order, and the triangles that name these."""
    is_used = np.zeros(len(points), dtype=bool)
    is_used[triangles.ravel()] = True
    if is_used.all():
        return points, triangles
    rows = np.cumsum(is_used, dtype=np.int32) - 1
    return points[is_used], rows[triangles].astype(np.int32)


def _rounded(matrix: FloatArray) -> FloatArray:
    magnitude = 10.0 ** math.floor(math.log10(float(np.abs(matrix).max())))
    # Zeros have one sign only: equal matrices shall have equal bytes.
    result: FloatArray = np.round(matrix / magnitude, _DECIMALS) * magnitude + 0.0
    return result


def _has_area(points: FloatArray, triangles: NDArray[np.int32]) -> bool:
    """Return whether triangles span anything: engines refuse to make a body of what does not."""
    least = max(_SMALLEST_AREA, _SLIMMEST * float(np.ptp(points, axis=0).max()) ** 2)
    # Of an ordinary mesh a few triangles show it.
    return _area(points, triangles[:_FEW]) > least or _area(points, triangles) > least


def _area(points: FloatArray, triangles: NDArray[np.int32]) -> float:
    a, b, c = points[triangles].transpose(1, 0, 2)
    return float(0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())


def _report_mesh(prim: _Prim, fault: str) -> None:
    remedy = "author finite points and faces that name them"
    path, findings = prim.record.path, prim.findings
    if prim.record.collides:
        findings.error("1.3.mesh", path, f"{fault}; it does not collide", remedy, attribute="points")
    else:
        findings.warning("1.3.mesh", path, f"{fault}; it is not seen", remedy, attribute="points")


def _approximation(record: GeometryRecord, findings: DiagnosticCollector) -> Approximation:
    authored = record.approximation
    if authored in APPROXIMATIONS:
        return authored
    nearest = _NEAREST.get(authored, "convexHull")
    if authored and record.collides:
        degraded(
            findings,
            {record.collider or record.path: authored},
            "physics:approximation",
            f"UsdPhysics has no such approximation, and {nearest} is used",
            reason="approximated",
            code="1.3.mesh.approximation",
            remedy=f"use one of {', '.join(APPROXIMATIONS)}",
        )
    return nearest
