"""What two plans have in common, by name: state carries over from one to the next by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import FloatArray

Rows = NDArray[np.intp]


class CommonRows(NamedTuple):
    """Rows of the layouts of two plans that are the same thing.

    Attributes:
        dofs: (N,) in the new plan.
        old_dofs: (N,) in the old one.
        bodies: (M,) in the new plan.
        old_bodies: (M,) in the old one.
    """

    dofs: Rows
    old_dofs: Rows
    bodies: Rows
    old_bodies: Rows


def common_rows(new: BridgePlan, old: BridgePlan) -> CommonRows:
    """Returns what two plans have in common: degrees of freedom by robot and name, bodies by prim path.

    A degree of freedom whose name is new is the old one of the same joint, where that has no other name left.
    """
    of_old = _dof_names(old)
    pairs = {row: of_old[name] for name, row in _dof_names(new).items() if name in of_old}
    taken = set(pairs.values())
    of_old_joint = _single_dofs(old)
    for joint, row in _single_dofs(new).items():
        known = of_old_joint.get(joint, -1)
        if row not in pairs and known >= 0 and known not in taken:
            pairs[row] = known
    bodies = {
        row: old.layout.body_index[path]
        for path, row in new.layout.body_index.items()
        if path in old.layout.body_index
    }
    return CommonRows(*_arrays(pairs), *_arrays(bodies))


def carry(target: FloatArray, rows: Rows, source: FloatArray, old_rows: Rows) -> None:
    """Copies rows of one array into another, in place."""
    target[rows] = source[old_rows]


def _dof_names(plan: BridgePlan) -> dict[tuple[str, str], int]:
    return {
        (robot.path, dof.name): dof.row
        for robot in plan.robots
        for joint in robot.joints
        for dof in joint.dofs
    }


def _single_dofs(plan: BridgePlan) -> dict[str, int]:
    return {
        joint.path: joint.dofs[0].row
        for robot in plan.robots
        for joint in robot.joints
        if len(joint.dofs) == 1
    }


def _arrays(pairs: dict[int, int]) -> tuple[Rows, Rows]:
    return np.array(list(pairs), dtype=np.intp), np.array(list(pairs.values()), dtype=np.intp)
