"""Rows that two plans have in common, by name: state is transferred along them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.plan import BridgePlan

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
    """Return what two plans have in common: degrees of freedom by joint, else by name; bodies by prim path.

    A name may go from one joint to another: the second `finger` of a robot is the only one when the first has gone.
    """
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for keys_of in (_dof_joints, _dof_names):
        of_old = keys_of(old)
        for key, row in keys_of(new).items():
            known = of_old.get(key, -1)
            if known >= 0 and row not in pairs and known not in taken:
                pairs[row] = known
                taken.add(known)
    bodies = {
        row: old.layout.body_index[path]
        for path, row in new.layout.body_index.items()
        if path in old.layout.body_index
    }
    return CommonRows(*_arrays(pairs), *_arrays(bodies))


def _dof_names(plan: BridgePlan) -> dict[tuple[str, str], int]:
    return {
        (robot.path, dof.name): dof.row
        for robot in plan.robots
        for joint in robot.joints
        for dof in joint.dofs
    }


def _dof_joints(plan: BridgePlan) -> dict[tuple[str, str], int]:
    """A joint with one degree of freedom has it whatever its axis is now."""
    return {
        (joint.path, dof.axis if len(joint.dofs) > 1 else "transX"): dof.row
        for robot in plan.robots
        for joint in robot.joints
        for dof in joint.dofs
    }


def _arrays(pairs: dict[int, int]) -> tuple[Rows, Rows]:
    return np.array(list(pairs), dtype=np.intp), np.array(list(pairs.values()), dtype=np.intp)
