"""Which of Newton's rows is which of the plan's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.backends.host_arrays import UNMAPPED
from usd_ros_bridge.backends.newton.engine import Engine
from usd_ros_bridge.model.plan import BridgePlan, DofPlan

RowArray = NDArray[np.intp]

_FREE_COORDINATES, _FREE_RATES = 7, 6
_PARALLEL = 0.999


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of the layout in Newton's arrays; -1 where Newton has none.

    Attributes:
        bodies: (B,) in body arrays.
        positions: (D,) in joint coordinates.
        velocities: (D,) in joint velocities.
        free: (B,) first joint coordinate of the free joint that carries the body.
        free_rates: (B,) its first rate.
    """

    bodies: RowArray
    positions: RowArray
    velocities: RowArray
    free: RowArray
    free_rates: RowArray


def find_rows(plan: BridgePlan, engine: Engine, report: Callable[[str, str], None]) -> Rows:
    """Looks everything up by prim path, once. Signs agree: Newton refuses stages with joints authored child first.

    Args:
        plan: The plan.
        engine: The stage as Newton has it.
        report: Told of joints that Newton's import has in a form that the plan does not know.
    """
    layout, model = plan.layout, engine.model
    bodies = np.array([engine.bodies.get(path, UNMAPPED) for path in layout.bodies], dtype=np.intp)
    count = len(layout.dofs)
    positions, velocities = np.full(count, UNMAPPED), np.full(count, UNMAPPED)
    joints = _Joints(model)
    missing = []
    for robot in plan.robots:
        for joint in robot.joints:
            index = engine.joints.get(joint.path, UNMAPPED)
            for dof in joint.dofs:
                found = joints.find(index, dof) if index != UNMAPPED else None
                if found is None:
                    missing.append(joint.path)
                    continue
                positions[dof.row], velocities[dof.row] = found
    if missing:
        named = ", ".join(dict.fromkeys(missing))
        report("newton.joints", f"joints that newton's import has in another form stay at rest: {named}")
    free, free_rates = joints.free_bodies(bodies)
    return Rows(bodies, positions.astype(np.intp), velocities.astype(np.intp), free, free_rates)


def find_free(engine: Engine, paths: Sequence[str]) -> tuple[RowArray, RowArray]:
    """Returns the first coordinate and the first rate of the free joints of bodies, -1 where there is none."""
    bodies = np.array([engine.bodies.get(path, UNMAPPED) for path in paths], dtype=np.intp)
    return _Joints(engine.model).free_bodies(bodies)


class _Joints:
    """The model's joint tables, as numpy arrays."""

    def __init__(self, model: Any) -> None:
        self._coordinate = _table(model.joint_q_start)
        self._rate = _table(model.joint_qd_start)
        self._parent = _table(model.joint_parent)
        self._child = _table(model.joint_child)
        self._axes = _table(model.joint_axis).reshape(-1, 3)
        self._dims = _table(model.joint_dof_dim).reshape(-1, 2)

    def find(self, joint: int, dof: DofPlan) -> tuple[int, int] | None:
        """Returns the coordinate and the rate of a degree of freedom, None where the joint has none like it."""
        coordinates = self._coordinate[joint + 1] - self._coordinate[joint]
        first, last = int(self._rate[joint]), int(self._rate[joint + 1])
        if coordinates != last - first:
            return None
        linear = int(self._dims[joint, 0])
        wanted = "XYZ".index(dof.axis[-1])
        span = range(first, first + linear) if dof.axis.startswith("trans") else range(first + linear, last)
        for rate in span:
            if abs(self._axes[rate, wanted]) > _PARALLEL:
                return int(self._coordinate[joint]) + rate - first, rate
        return None

    def free_bodies(self, bodies: RowArray) -> tuple[RowArray, RowArray]:
        """Returns the first coordinate and rate of the free joint of each body, -1 where it has none."""
        sizes = np.diff(self._coordinate), np.diff(self._rate)
        is_free = (sizes[0] == _FREE_COORDINATES) & (sizes[1] == _FREE_RATES) & (self._parent < 0)
        by_child = {int(self._child[joint]): int(joint) for joint in np.flatnonzero(is_free)}
        joints = [by_child.get(int(body), UNMAPPED) for body in bodies]
        coordinates = [UNMAPPED if joint < 0 else int(self._coordinate[joint]) for joint in joints]
        rates = [UNMAPPED if joint < 0 else int(self._rate[joint]) for joint in joints]
        return np.array(coordinates, dtype=np.intp), np.array(rates, dtype=np.intp)


def _table(array: Any) -> NDArray[Any]:
    return np.zeros(0, np.int32) if array is None else np.asarray(array.numpy())
