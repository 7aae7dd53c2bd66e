"""Index of a stage: poses, bodies, carriers and order of prims, for all of planning."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.records import RigidBodyRecord
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning.diagnostic_collector import DiagnosticCollector
from usd_ros_bridge.planning.paths import Nearest
from usd_ros_bridge.planning.prim_poses import Units, WorldPoses, read_poses, read_units

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
        animated: Prims whose own transform has time samples.
        body_at: Nearest body at or above a prim; a prim that resets the transform stack is below none.
        carrier_at: Nearest body or animated prim at or above a prim: what moves it.
    """

    records: StageRecords
    units: Units
    poses: WorldPoses
    bodies: Mapping[str, RigidBodyRecord]
    articulation_roots: frozenset[str]
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
