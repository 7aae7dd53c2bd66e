"""Where prims are: poses in the ROS world, in metres and Z-up, and the scales that joints must fold in.

The ROS world is the stage's world, turned once where the stage is Y-up (REP 103, REP 0158 section 1.1).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model import transforms
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.plan import Pose
from usd_ros_bridge.model.stage import StageMetrics, StageRecords
from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.paths import parent_path

_HALF = float(np.sqrt(0.5))
_TURN_TO_Z_UP = np.array([0.0, 0.0, 0.0, _HALF, 0.0, 0.0, _HALF])
_SCALE_TOLERANCE = 1e-5

MAX_MAGNITUDE = 1e9
"""Largest coordinate, scale, unit or joint position that is taken for meant."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """What turns a stage's lengths and directions into those of the ROS world.

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


def read_units(metrics: StageMetrics, findings: Findings) -> Units:
    """Returns the stage's units; one that is not a positive number counts as 1, with an error."""

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
    """Returns poses in the ROS world (N, 7) and world scales (N, 3) of local-to-world matrices (N, 4, 4)."""
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
    """

    rows: Mapping[str, int]
    world_from_prim: FloatArray
    scale: FloatArray
    usable: NDArray[np.bool_]

    def row(self, path: str) -> int:
        """Returns the row of a prim, -1 (the world) for "" and for a prim that is not there."""
        return self.rows.get(path, -1)

    def find_rows(self, paths: Collection[str]) -> NDArray[np.intp]:
        """Returns the row of each prim, as `row` does."""
        return np.fromiter(map(self.rows.get, paths, repeat(-1)), dtype=np.intp, count=len(paths))

    def is_usable(self, path: str) -> bool:
        """Returns whether the prim exists and has a finite, invertible transform."""
        row = self.rows.get(path)
        return row is not None and bool(self.usable[row])


def read_poses(records: StageRecords, units: Units, findings: Findings) -> WorldPoses:
    """Returns the poses of all prims; each topmost transform that cannot be used gives one error."""
    paths = list(records.xforms)
    matrices = np.array([records.xforms[path].world_from_prim for path in paths], dtype=np.float64)
    poses, scales = to_world(matrices.reshape(-1, 4, 4), units)
    usable: NDArray[np.bool_] = np.logical_and.reduce(
        np.abs(np.hstack((poses, scales))) <= MAX_MAGNITUDE, axis=-1
    )
    rows = {path: row for row, path in enumerate(paths)}
    for row in np.flatnonzero(~usable).tolist():
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
    return WorldPoses(
        rows,
        np.concatenate((poses, transforms.IDENTITY[None])),
        np.concatenate((scales, np.ones((1, 3)))),
        np.append(usable, True),
    )


def _report_unusable(matrix: FloatArray, path: str, findings: Findings) -> None:
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
    """Returns poses (N, 7) as plan values, quaternions with w not negative, no negative zeros.

    Equal poses are one object: a thousand equal robots have as many poses as one.
    """
    flipped = np.where(poses[:, 6:7] < 0.0, -1.0, 1.0)
    clean = np.concatenate((poses[:, :3], poses[:, 3:] * flipped), axis=-1) + 0.0
    known: dict[bytes, Pose] = {}
    keys = clean.view(f"V{7 * clean.itemsize}").ravel().tolist()
    for key, (x, y, z, i, j, k, w) in zip(keys, clean.tolist(), strict=True):
        if key not in known:
            known[key] = Pose((x, y, z), (i, j, k, w))
    return [known[key] for key in keys]
