"""Targets of joints by name, as JointState messages give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import numpy as np

from usd_ros_bridge.controllers.limits import PositionLimits
from usd_ros_bridge.controllers.protocol import Report
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import FloatArray, JointStateSample

_NAMES_SHOWN = 5


class NamedTargets:
    """Targets of joints by name, from messages whose names are mostly the same from one to the next."""

    def __init__(self, label: str, row_by_name: Mapping[str, int], plan: BridgePlan, report: Report) -> None:
        """Resolve names to the joints of `row_by_name`.

        Args:
            label: What reports call where the messages come from.
            row_by_name: Rows in the plan's layout, by the names that messages give them.
            plan: Has the joints' limits.
            report: For messages that cannot be taken as they are.
        """
        self._label = label
        self._plan = plan
        self._limits = PositionLimits(plan, (), ())
        self._row_by_name = row_by_name
        self._report = report
        self._names: tuple[str, ...] = ()
        self._indices = self._rows = np.zeros(0, dtype=np.intp)

    def write(self, sample: JointStateSample, targets: Iterable[FloatArray]) -> None:
        """Writes what a message asks for; an empty array, NaN and infinity ask for nothing.

        Positions beyond a joint's limits are clamped and reported.

        Args:
            sample: The message. With an array whose length is neither zero nor that of `names` it is ignored as a
                whole; a joint that is none of these is ignored and reported.
            targets: (D,) positions, velocities and efforts, written to.
        """
        arrays = (sample.position, sample.velocity, sample.effort)
        count = len(sample.names)
        if any(len(array) not in (0, count) for array in arrays):
            lengths = "/".join(str(len(array)) for array in arrays)
            self._report(
                f"sink.length:{self._label}",
                f"{self._label}: a JointState with {count} names and {lengths} positions/velocities/efforts is ignored",
            )
            return
        if sample.names != self._names:
            self._look_up(sample.names)
        for array, target in zip(arrays, targets, strict=True):
            if len(array):
                values = array[self._indices]
                finite = np.isfinite(values)
                if array is sample.position:
                    values = np.where(finite, values, np.nan)
                    values = self._limits.clamp_command(values, self._label, self._report)
                target[self._rows[finite]] = values[finite]

    def _look_up(self, names: tuple[str, ...]) -> None:
        known = [(i, self._row_by_name[name]) for i, name in enumerate(names) if name in self._row_by_name]
        if len(known) < len(names):
            self._report_unknown(names, len(names) - len(known))
        self._names = names
        self._indices = np.array([index for index, _ in known], dtype=np.intp)
        self._rows = np.array([row for _, row in known], dtype=np.intp)
        self._limits = PositionLimits(self._plan, self._rows, [names[index] for index, _ in known])

    def _report_unknown(self, names: Iterable[str], count: int) -> None:
        """Report names that are none of the joints: how many, and the first few of them."""
        unknown = (name for name in names if name not in self._row_by_name)
        first = ", ".join(quoted(name) for name in islice(unknown, _NAMES_SHOWN))
        more = f" and {count - _NAMES_SHOWN} more" if count > _NAMES_SHOWN else ""
        self._report(
            f"sink.joint:{self._label}",
            f"{self._label}: {count} of the joints in a message cannot be commanded and are ignored: {first}{more}",
        )


def followers_of(plan: BridgePlan) -> set[int]:
    """Returns the rows of degrees of freedom that follow others: they are not commanded."""
    return {
        dof.row
        for robot in plan.robots
        for joint in robot.joints
        for dof in joint.dofs
        if dof.mimic is not None
    }
