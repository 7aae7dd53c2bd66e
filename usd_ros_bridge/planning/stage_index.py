"""Index of a stage: poses, bodies, carriers and order of prims, for all of planning.

Poses are in the ROS world, in metres: the stage's world, turned once where the stage is Y-up (REP 103, REP 0158 section
1.1). Joints fold in the scales.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.records import RigidBodyRecord
from usd_ros_bridge.model.stage import StageMetrics, StageRecords
from usd_ros_bridge.planning.names import Nearest, parent_path
from usd_ros_bridge.spatial import transforms
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray

_HALF = float(np.sqrt(0.5))
_TURN_TO_Z_UP = np.array([0.0, 0.0, 0.0, _HALF, 0.0, 0.0, _HALF])
_SCALE_TOLERANCE = 1e-5

_SAME_POSE = 1e-9
"""Metres, scales and components of unit quaternions by which poses in equal robots differ at most: rounding."""

MAX_MAGNITUDE = 1e9
"""Largest coordinate, scale, unit or joint position that is accepted."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Factors and rotation from the stage's units and axes to those of the ROS world.

    Attributes:
        meters: Metres per stage unit.
        kilograms: Kilograms per stage unit of mass.
        seconds: Seconds per time code.
        world_from_stage: (7,) pose of the stage in the ROS world.
        mjc_angle: Radians per unit of `mjc:ref` and `mjc:springref` of what turns.
    """

    meters: float
    kilograms: float
    seconds: float
    world_from_stage: FloatArray
    mjc_angle: float = math.pi / 180.0


def read_units(metrics: StageMetrics, findings: DiagnosticCollector) -> Units:
    """Return the stage's units; one that is not a positive number counts as 1, with an error."""

    def positive(name: str, value: float) -> float:
        if 1.0 / MAX_MAGNITUDE <= value <= MAX_MAGNITUDE:
            return float(value)
        findings.error(
            "1.1.units",
            "",
            f"{name} is {quoted(value)}, no usable positive number; 1 is used",
            f"set {name} = 1",
            attribute=name,
        )
        return 1.0

    return Units(
        meters=positive("metersPerUnit", metrics.meters_per_unit),
        kilograms=positive("kilogramsPerUnit", metrics.kilograms_per_unit),
        seconds=1.0 / positive("timeCodesPerSecond", metrics.time_codes_per_second),
        world_from_stage=_TURN_TO_Z_UP if metrics.up_axis.upper() == "Y" else transforms.IDENTITY,
        mjc_angle=1.0 if metrics.mjc_angle == "radian" else math.pi / 180.0,
    )


def to_world(stage_from_prim: FloatArray, units: Units) -> tuple[FloatArray, FloatArray]:
    """Return poses in the ROS world (N, 7) and world scales (N, 3) of local-to-world matrices (N, 4, 4)."""
    if not len(stage_from_prim):
        return np.zeros((0, 7)), np.zeros((0, 3))
    with np.errstate(all="ignore"):
        poses, scales = transforms.decompose(stage_from_prim)
    poses[..., :3] *= units.meters
    if units.world_from_stage is not transforms.IDENTITY:
        poses = transforms.compose(np.broadcast_to(units.world_from_stage, poses.shape), poses)
    return poses, scales


@dataclass(frozen=True, slots=True, eq=False)
class WorldPoses:
    """Poses and scales of all prims of interest.

    The arrays have one row more than there are prims: the last row, also row -1, is the world itself.

    Attributes:
        rows: Row by prim path.
        world_from_prim: (N + 1, 7) poses; identity where a prim's transform cannot be used.
        scale: (N + 1, 3) world scale; 1 where a prim's transform cannot be used.
        usable: (N + 1,) whether the prim's transform can be used.
        robots: (N + 1,) row of the root of the robot that a prim is in, -1 outside of robots that repeat another.
        models: (N + 1,) row of the same prim in the robot that is repeated, a prim's own row outside of such robots.
        lost: Prims whose transform cannot be used.
    """

    rows: Mapping[str, int]
    world_from_prim: FloatArray
    scale: FloatArray
    usable: NDArray[np.bool_]
    robots: NDArray[np.intp]
    models: NDArray[np.intp]
    lost: frozenset[str]

    def row(self, path: str) -> int:
        """Return the row of a prim, -1 (the world) for "" and for a prim that is not there."""
        return self.rows.get(path, -1)

    def find_rows(self, paths: Collection[str]) -> NDArray[np.intp]:
        """Return the row of each prim, as `row` does."""
        return np.fromiter(map(self.rows.get, paths, repeat(-1)), dtype=np.intp, count=len(paths))

    def model_rows(self, *rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...]:
        """Return rows to compute with instead of `rows`, whose n-th prims stand in one relation.

        Prims of one robot are replaced by those of the robot that it repeats. Equal robots get equal numbers that way,
        to the last bit, wherever they stand.
        """
        robots = self.robots[rows[0]]
        same = np.logical_and.reduce([self.robots[each] == robots for each in rows[1:]])
        return tuple(np.where(same, self.models[each], each) for each in rows)

    def relative(self, parents: NDArray[np.intp], children: NDArray[np.intp]) -> FloatArray:
        """Return `parent_from_child` (N, 7) as authored, of prims by row: see `model_rows`."""
        parents, children = self.model_rows(parents, children)
        return transforms.relative(self.world_from_prim[parents], self.world_from_prim[children])

    def is_usable(self, path: str) -> bool:
        """Return whether the prim exists and has a finite, invertible transform."""
        return path in self.rows and path not in self.lost


def read_poses(records: StageRecords, units: Units, findings: DiagnosticCollector) -> WorldPoses:
    """Return the poses of all prims; each topmost transform that cannot be used gives one error."""
    paths = list(records.xforms)
    matrices = np.array([records.xforms[path].world_from_prim for path in paths], dtype=np.float64)
    poses, scales = to_world(matrices.reshape(-1, 4, 4), units)
    usable: NDArray[np.bool_] = np.logical_and.reduce(
        np.abs(np.hstack((poses, scales))) <= MAX_MAGNITUDE, axis=-1
    )
    rows = {path: row for row, path in enumerate(paths)}
    lost = np.flatnonzero(~usable).tolist()
    for row in lost:
        above = rows.get(parent_path(paths[row]))
        if above is None or usable[above]:
            _report_unusable(matrices[row], paths[row], findings)
    # Clean up float32 noise, so that positions along the axes come out as authored.
    with np.errstate(invalid="ignore"):
        unit: NDArray[np.bool_] = np.logical_and.reduce(
            np.abs(np.abs(scales) - 1.0) < _SCALE_TOLERANCE, axis=-1
        )
    scales[unit] = np.sign(scales[unit])
    poses[~usable], scales[~usable] = transforms.IDENTITY, 1.0
    poses = np.concatenate((poses, transforms.IDENTITY[None]))
    scales = np.concatenate((scales, np.ones((1, 3))))
    usable = np.append(usable, True)
    robots, models = _find_models(records, rows, np.hstack((poses, scales)), usable)
    return WorldPoses(rows, poses, scales, usable, robots, models, frozenset(paths[row] for row in lost))


def _find_models(
    records: StageRecords, rows: Mapping[str, int], poses: FloatArray, usable: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return WorldPoses.robots and WorldPoses.models; `poses` (N + 1, 10) have the scale behind them.

    A robot that reading found to repeat another has its prims where the other has them. Its root may differ: a robot
    with another scale repeats none here.
    """
    robots = np.full(len(rows) + 1, -1, dtype=np.intp)
    models = np.append(np.arange(len(rows)), -1)
    # Flat lists: the garbage collector would traverse a tuple for each prim.
    columns: tuple[list[int], ...] = ([], [], [], [])
    for path, robot, row in _prims_below(rows, records.repeats):
        repeated = records.repeats[robot]
        columns[0].append(row)
        columns[1].append(rows.get(repeated + path[len(robot) :], -1))
        columns[2].append(rows[robot])
        columns[3].append(rows[repeated])
    if not columns[0]:
        return robots, models
    own, model, root, model_root = np.array(columns, dtype=np.intp)
    here, there = poses[own], poses[model]
    turned = (
        transforms.relative(poses[root, :7], here[:, :7]),
        transforms.relative(poses[model_root, :7], there[:, :7]),
    )
    misses = np.abs(np.hstack((turned[0][:, :3] - turned[1][:, :3], here[:, 7:] - there[:, 7:]))).max(axis=-1)
    turns = np.minimum(
        *(np.abs(turned[0][:, 3:] + sign * turned[1][:, 3:]).max(axis=-1) for sign in (1.0, -1.0))
    )
    same = (model >= 0) & usable[own] & usable[model] & (misses <= _SAME_POSE) & (turns <= _SAME_POSE)
    same &= ~np.isin(root, root[~same])
    robots[own[same]], models[own[same]] = root[same], model[same]
    return robots, models


def _prims_below(rows: Mapping[str, int], roots: Container[str]) -> Iterator[tuple[str, str, int]]:
    """Yield the prims at or below one of `roots`, which do not nest, with that root; `rows` are in traversal order."""
    root, below = "", "//"
    for path, row in rows.items():
        if path in roots:
            root, below = path, path + "/"
        elif not path.startswith(below):
            continue
        yield path, root, row


def _report_unusable(matrix: FloatArray, path: str, findings: DiagnosticCollector) -> None:
    if not np.isfinite(matrix).all():
        what = "a value that is not finite, a quaternion of zero length, or an op that OpenUSD cannot use"
    else:
        what = (
            "a zero scale" if (np.abs(matrix) <= MAX_MAGNITUDE).all() else f"a value above {MAX_MAGNITUDE:g}"
        )
    findings.error(
        "1.1.transform",
        path,
        f"the prim's transform has {what}; frames at and below it are left out",
        "author one xformOp:translate and one xformOp:orient with finite values",
    )


def as_poses(poses: FloatArray) -> list[Pose]:
    """Return poses (N, 7) as plan values, quaternions with w not negative, no negative zeros.

    Equal poses are one object: a thousand equal robots have as many poses as one.
    """
    flipped = np.where(poses[:, 6:7] < 0.0, -1.0, 1.0)
    clean = np.concatenate((poses[:, :3], poses[:, 3:] * flipped), axis=-1) + 0.0
    keys = clean.view(f"V{7 * clean.itemsize}").ravel().tolist()
    rows = {key: row for row, key in enumerate(keys)}
    known: dict[bytes, Pose] = {}
    for key, row in rows.items():
        x, y, z, i, j, k, w = clean[row].tolist()
        known[key] = Pose((x, y, z), (i, j, k, w))
    return [known[key] for key in keys]


_SCALE_WARNING = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class StageIndex:
    """Look-ups over a stage's records.

    Attributes:
        records: The records.
        units: The stage's units.
        poses: Where prims are in the ROS world.
        bodies: Enabled rigid bodies by path, in traversal order.
        articulation_roots: Bodies with PhysicsArticulationRootAPI.
        joint_articulations: Other prims with it: a joint to the world at or below one is the root.
        animated: Prims whose own transform has time samples.
        body_at: Nearest body at or above a prim; a prim that resets the transform stack is below none.
        carrier_at: Nearest body or animated prim at or above a prim: what moves it.
    """

    records: StageRecords
    units: Units
    poses: WorldPoses
    bodies: Mapping[str, RigidBodyRecord]
    articulation_roots: frozenset[str]
    joint_articulations: frozenset[str]
    animated: frozenset[str]
    body_at: Nearest
    carrier_at: Nearest

    def order(self, path: str) -> tuple[int, str]:
        """Return a sort key for traversal order; prims that reading did not number come last, by path."""
        return self.records.order.get(path, 1 << 60), path

    def sort(self, paths: Collection[str]) -> list[str]:
        """Return paths in the order of `order`, at less cost where all are numbered."""
        numbers = self.records.order
        try:
            return sorted(paths, key=numbers.__getitem__)
        except KeyError:
            return sorted(paths, key=self.order)


def index_stage(records: StageRecords, findings: DiagnosticCollector) -> StageIndex:
    """Build the look-ups."""
    units = read_units(records.metrics, findings)
    poses = read_poses(records, units, findings)
    bodies = {
        record.path: record
        for record in records.bodies
        if record.enabled is not False and record.path in records.xforms
    }
    animated = frozenset(path for path, xform in records.xforms.items() if xform.animated)
    resets = frozenset(path for path, xform in records.xforms.items() if xform.resets_stack)
    _check_scales(poses, bodies, findings)
    return StageIndex(
        records=records,
        units=units,
        poses=poses,
        bodies=bodies,
        articulation_roots=frozenset(r.path for r in records.articulation_roots if r.path in bodies),
        joint_articulations=frozenset(r.path for r in records.articulation_roots if r.path not in bodies),
        animated=animated,
        body_at=Nearest(bodies, barriers=resets),
        carrier_at=Nearest(bodies.keys() | animated, barriers=resets),
    )


def _check_scales(
    poses: WorldPoses, bodies: Mapping[str, RigidBodyRecord], findings: DiagnosticCollector
) -> None:
    scaled: NDArray[np.bool_] = np.logical_or.reduce(np.abs(poses.scale - 1.0) > _SCALE_WARNING, axis=-1)
    if not scaled.any():
        return
    for path in bodies:
        if scaled[poses.row(path)]:
            scale = ", ".join(f"{value:g}" for value in poses.scale[poses.row(path)])
            findings.warning(
                "1.1.scale",
                path,
                f"a rigid body has the world scale ({scale}); it is folded into translations",
                "apply the scale to the geometry and leave bodies unscaled",
                attribute="xformOp:scale",
            )
