"""Tendons: fixed ones over joints, spatial ones over sites and shapes, and where those are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Capsule,
    Cylinder,
    Range,
    Site,
    Sphere,
    Tendon,
    TendonPoint,
    WrapShape,
)
from usd_ros_bridge.model.physics import Joint as SceneJoint
from usd_ros_bridge.model.physics_records import GeometryRecord, MjcTendonRecord, PhysicsRecords, SiteRecord
from usd_ros_bridge.model.records import Record, fallback
from usd_ros_bridge.planning.physics.bodies import BodyTable
from usd_ros_bridge.planning.physics.colliders import carrier
from usd_ros_bridge.planning.physics.shapes import SharedMeshes, place_shape, read_transforms
from usd_ros_bridge.planning.stage_index import MAX_MAGNITUDE, StageIndex, as_poses
from usd_ros_bridge.spatial.transforms import FloatArray, compose, relative

LIMITED = ("auto", "true", "false")
_SOLVER = ("solref_limit", "solimp_limit", "solref_friction", "solimp_friction")
_AMOUNTS = ("stiffness", "damping", "friction", "armature", "margin", "width")
_NAMES = {"friction": "frictionloss"}


class UnusableError(Exception):
    """A prim cannot be used and is left out. The message has the reason; `attribute` the place."""

    def __init__(self, message: str, attribute: str = "") -> None:
        super().__init__(message)
        self.attribute = attribute


def plan_sites(
    physics: PhysicsRecords, table: BodyTable, index: StageIndex, findings: DiagnosticCollector
) -> tuple[Site, ...]:
    """Return all sites; one whose transform cannot be used is left out."""
    poses, bodies = _places(physics.sites, table, index)
    usable = read_transforms(physics.sites, index.units).usable
    sites = []
    for record, pose, body, good in zip(physics.sites, as_poses(poses), bodies, usable.tolist(), strict=True):
        if good:
            sites.append(Site(path=record.path, body=body, body_from_site=pose))
        else:
            findings.warning(
                "1.3.site",
                record.path,
                "the site's transform cannot be used; it is left out",
                "author finite transforms, and scales that are not zero",
            )
    return tuple(sites)


def plan_wraps(
    physics: PhysicsRecords, table: BodyTable, index: StageIndex, findings: DiagnosticCollector
) -> tuple[WrapShape, ...]:
    """Return the shapes that tendons wrap around: balls, cylinders and capsules."""
    transforms = read_transforms(physics.wrapped, index.units)
    poses, bodies = _places(physics.wrapped, table, index)
    meshes, wraps = SharedMeshes(), []
    for number, (record, body) in enumerate(zip(physics.wrapped, bodies, strict=True)):
        placed = place_shape(record, number, transforms, index.units, meshes, findings)
        if placed is None or not isinstance(placed.shape, (Sphere, Cylinder, Capsule)):
            findings.warning(
                "1.3.tendon",
                record.path,
                f"no tendon wraps around a {quoted(record.type_name)} of this size; it is left out of its path",
                "use a Sphere, a Cylinder or a Capsule",
            )
            continue
        (pose,) = as_poses(compose(poses[number], placed.prim_from_shape)[None])
        wraps.append(WrapShape(path=record.path, body=body, body_from_shape=pose, shape=placed.shape))
    return tuple(wraps)


def _places(
    records: Sequence[SiteRecord | GeometryRecord], table: BodyTable, index: StageIndex
) -> tuple[FloatArray, list[int]]:
    """Return `body_from_prim` (N, 7) and the body of each prim."""
    carriers = [carrier(record, index) for record in records]
    world_from_body = index.poses.world_from_prim[index.poses.find_rows(carriers)]
    world_from_prim = read_transforms(records, index.units).world_from_prim
    return (
        relative(world_from_body.reshape(-1, 7), world_from_prim.reshape(-1, 7)),
        [table.indices.get(path, WORLD_BODY) for path in carriers],
    )


def plan_tendons(
    physics: PhysicsRecords,
    joints: Sequence[SceneJoint],
    sites: Sequence[Site],
    wraps: Sequence[WrapShape],
    findings: DiagnosticCollector,
) -> tuple[Tendon, ...]:
    """Return the tendons; one that cannot be used is left out.

    Args:
        physics: Records.
        joints: Joints of the scene.
        sites: Its sites.
        wraps: What tendons wrap around.
        findings: Collector of faults.
    """
    if not physics.tendons:
        return ()
    planner = _Planner(
        {each.path: number for number, each in enumerate(joints)},
        {each.path: number for number, each in enumerate(sites)},
        {each.path: number for number, each in enumerate(wraps)},
        joints,
    )
    tendons = []
    for record in physics.tendons:
        try:
            tendons.append(planner.tendon(record))
        except UnusableError as error:
            findings.error(
                "1.3.tendon", record.path, f"{error}; the tendon is left out", attribute=error.attribute
            )
    return tuple(tendons)


class _Planner:
    """Planner of tendons: joints, sites and shapes by path."""

    def __init__(
        self,
        joints: Mapping[str, int],
        sites: Mapping[str, int],
        wraps: Mapping[str, int],
        scene_joints: Sequence[SceneJoint],
    ) -> None:
        self._joints = joints
        self._sites = sites
        self._wraps = wraps
        self._scene_joints = scene_joints

    def tendon(self, record: MjcTendonRecord) -> Tendon:
        """Return a tendon.

        Raises:
            UnusableError: It cannot be used.
        """
        kind = fallback(record, "type")
        if kind not in ("fixed", "spatial"):
            raise UnusableError(f"{quoted(kind)} is no kind of tendon", "mjc:type")
        amounts = {name: finite(record, name, f"mjc:{_NAMES.get(name, name)}") for name in _AMOUNTS}
        slack = finites(record, "spring_length", "mjc:springlength")
        return Tendon(
            path=record.path,
            joints=self._fixed(record) if kind == "fixed" else (),
            points=self._spatial(record) if kind == "spatial" else (),
            spring_length=(slack[0], slack[-1]) if slack else (-1.0, -1.0),
            limits=bounds(record, "limited", "lower", "upper", "mjc:range"),
            force_limits=bounds(record, "force_limited", "force_min", "force_max", "mjc:actuatorfrcrange"),
            group=fallback(record, "group"),
            color=finites(record, "color", "mjc:rgba"),
            solver={name: finites(record, name, f"mjc:{name.replace('_', '')}") for name in _SOLVER},
            **amounts,
        )

    def _path(self, record: MjcTendonRecord) -> list[str]:
        """Return the prims of the path in order; one may come several times."""
        parts = record.parts or ()
        if not parts:
            raise UnusableError("the path names nothing", "mjc:path")
        indices = record.indices if record.indices is not None else tuple(range(len(parts)))
        if any(not 0 <= each < len(parts) for each in indices) or not indices:
            raise UnusableError(f"of {len(parts)} targets {quoted(indices)} are named", "mjc:path:indices")
        return [parts[each] for each in indices]

    def _fixed(self, record: MjcTendonRecord) -> tuple[tuple[int, float], ...]:
        path = self._path(record)
        coefficients = finites(record, "coefficients", "mjc:path:coef")
        if len(coefficients) != len(path):
            raise UnusableError(f"{len(path)} joints have {len(coefficients)} coefficients", "mjc:path:coef")
        for joint in path:
            number = self._joints.get(joint)
            if number is None or len(self._scene_joints[number].dofs) != 1:
                raise UnusableError(
                    f"{joint} is no joint with one degree of freedom that is simulated", "mjc:path"
                )
        return tuple((self._joints[joint], each) for joint, each in zip(path, coefficients, strict=True))

    def _spatial(self, record: MjcTendonRecord) -> tuple[TendonPoint, ...]:
        path = self._path(record)
        segments = record.segments if record.segments is not None else (0,) * len(path)
        divisors = finites(record, "divisors", "mjc:path:divisors") or (1.0,)
        if len(segments) != len(path) or any(not 0 <= each < len(divisors) for each in segments):
            raise UnusableError(
                f"{len(path)} points are in the segments {quoted(segments)} of {len(divisors)}",
                "mjc:path:segments",
            )
        sides = self._sides(record, len(path))
        points, before = list[TendonPoint](), 0
        for prim, segment, side in zip(path, segments, sides, strict=True):
            if segment != before or (not points and divisors[segment] != 1.0):
                points.append(TendonPoint(divisor=divisors[segment]))
                before = segment
            points.append(self._point(prim, side))
        return tuple(points)

    def _point(self, prim: str, side: int) -> TendonPoint:
        if prim in self._sites:
            return TendonPoint(site=self._sites[prim])
        if prim in self._wraps:
            return TendonPoint(shape=self._wraps[prim], side_site=side)
        raise UnusableError(f"{prim} is neither a site nor a shape that a tendon wraps around", "mjc:path")

    def _sides(self, record: MjcTendonRecord, count: int) -> tuple[int, ...]:
        """Return the site on whose side of each point the tendon runs, -1 where it has none."""
        targets = record.side_sites or ()
        indices = fallback(record, "side_indices") or (-1,) * count
        if len(indices) != count or any(not -1 <= each < len(targets) for each in indices):
            raise UnusableError(
                f"{count} points have the side sites {quoted(indices)} of {len(targets)}",
                "mjc:sideSites:indices",
            )
        missing = [targets[each] for each in indices if each >= 0 and targets[each] not in self._sites]
        if missing:
            raise UnusableError(f"{missing[0]} is no site", "mjc:sideSites")
        return tuple(self._sites[targets[each]] if each >= 0 else -1 for each in indices)


# --- Values -------------------------------------------------------------------------------------------------------


def finite(record: Record, field: str, attribute: str) -> float:
    """Return a number of a record.

    Raises:
        UnusableError: It is not finite, or far too large.
    """
    value = float(fallback(record, field))
    if not abs(value) <= MAX_MAGNITUDE:
        raise UnusableError(f"{quoted(value)} cannot be used", attribute)
    return value


def finites(record: Record, field: str, attribute: str) -> tuple[float, ...]:
    """Return numbers of a record.

    Raises:
        UnusableError: One of them is not finite, or far too large.
    """
    values = tuple(map(float, fallback(record, field)))
    if not np.all(np.abs(values) <= MAX_MAGNITUDE):
        raise UnusableError(f"{quoted(values)} cannot be used", attribute)
    return values


def bounds(record: Record, limited: str, lower: str, upper: str, attribute: str) -> Range | None:
    """Return a range of MuJoCo's, None where it does not count; `auto` has it count where it is not empty.

    Raises:
        UnusableError: The token is unknown, or a number is not finite.
    """
    switch = fallback(record, limited)
    if switch not in LIMITED:
        raise UnusableError(f"{quoted(switch)} is none of {', '.join(LIMITED)}", attribute)
    least, most = finite(record, lower, f"{attribute}:min"), finite(record, upper, f"{attribute}:max")
    if switch == "false" or (switch == "auto" and not least < most):
        return None
    return least, most
