"""Joint commands: targets by name, kept within the limits of joints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import did_you_mean, quoted
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import JointStateSample
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.spatial.transforms import FloatArray, IndexArray

LIMIT_TOLERANCE = 1e-3
"""rad or m. A position that is less beyond a limit is within it: clients round."""
BOUND = 1e30
"""Magnitudes beyond this are refused: polynomials would overflow, and velocities become NaN in what they move."""


class PositionLimits:
    """Find and clamp positions beyond the limits of some joints. Joints without limits take any position.

    Attributes:
        clamps: Whether positions beyond a limit are clamped, and not refused.
    """

    def __init__(
        self,
        plan: BridgePlan,
        rows: Sequence[int] | NDArray[np.intp],
        names: Sequence[str],
        beyond_limits: str | None = None,
    ) -> None:
        """Read the limits of the degrees of freedom of `rows`, in this order; `names` are what clients call them."""
        layout, which = plan.layout, np.array(rows, dtype=np.intp)
        self.clamps = (beyond_limits or plan.options.beyond_limits) == "clamp"
        self._names = tuple(names)
        lower, upper = layout.lower[which], layout.upper[which]
        # A lower limit above the upper one is no range that a client could keep to.
        given = lower <= upper
        self._lower = np.where(given, lower, -np.inf)
        self._upper = np.where(given, upper, np.inf)

    def find(self, position: FloatArray) -> tuple[int, int] | None:
        """Return the row and the column of the first of (N, J) positions that is beyond a limit; None where none is."""
        beyond = (position < self._lower - LIMIT_TOLERANCE) | (position > self._upper + LIMIT_TOLERANCE)
        if not beyond.any():
            return None
        row, column = np.argwhere(beyond)[0]
        return int(row), int(column)

    def describe(self, position: float, column: int, where: str = "") -> str:
        """Return in words which limit of the joint in `column` a position is beyond."""
        is_low = position < self._lower[column]
        limit = self._lower[column] if is_low else self._upper[column]
        return (
            f"the position of joint {quoted(self._names[column])}{where} is {position:g}, beyond its "
            f"{'lower' if is_low else 'upper'} limit {limit:g}"
        )

    def clamped(self, position: FloatArray) -> FloatArray:
        """Return (N, J) positions within the limits."""
        return np.clip(position, self._lower, self._upper)

    def clamp_command(self, position: FloatArray, label: str, report: Report) -> FloatArray:
        """Return the (J,) positions of a command within the limits; NaN stays.

        Args:
            position: rad or m.
            label: Where the command came from.
            report: Reports, by where it came from, a position that is clamped.
        """
        found = self.find(position[None, :])
        if found is None:
            return position
        report(f"sink.limits:{label}", f"{label}: clamped: {self.describe(position[found[1]], found[1])}")
        return self.clamped(position)


def limit_change(target: FloatArray, previous: FloatArray, step: FloatArray) -> FloatArray:
    """Move from `previous` towards `target`, by `step` at most.

    The symmetric first-derivative limit of control_toolbox's RateLimiter, which diff_drive_controller uses.

    Args:
        target: Wanted values.
        previous: Values of the last step.
        step: Largest change, not negative; inf for none.

    Returns:
        The limited values; the target itself, to the last bit, where it is within reach.
    """
    change = target - previous
    within = np.abs(change) <= step
    if within.all():
        return target
    return np.where(within, target, previous + np.clip(change, -step, step))


def largest_step(max_rate: FloatArray, seconds: float) -> FloatArray:
    """Return the largest change within `seconds` at rates of change up to `max_rate`; inf where that is inf."""
    return np.where(np.isinf(max_rate), np.inf, np.where(np.isinf(max_rate), 0.0, max_rate) * seconds)


def common_scale(values: FloatArray, limits: FloatArray) -> FloatArray:
    """Return the factors, 1 at most, that bring every row of `values` within `limits` as a whole.

    Args:
        values: (N, M).
        limits: (N, M) largest magnitudes; inf for none.

    Returns:
        (N,) factors. Scaling a whole row keeps the proportions: a robot's arc keeps its curvature.
    """
    size = np.abs(values)
    excess = size > limits
    if not excess.any():
        return np.ones(len(values))
    factors = np.divide(limits, size, out=np.ones_like(size), where=excess)
    scale: FloatArray = factors.min(axis=-1)
    return scale


_NAMES_SHOWN = 5


class NamedTargets:
    """Targets of joints by name, from messages whose names are mostly the same from one to the next."""

    def __init__(
        self,
        label: str,
        row_by_name: Mapping[str, int],
        plan: BridgePlan,
        report: Report,
        *,
        actuators: Mapping[str, int] | None = None,
    ) -> None:
        """Resolve names to the joints of `row_by_name`.

        Args:
            label: What reports call where the messages come from.
            row_by_name: Rows in the plan's layout, by the names that messages give them.
            plan: Has the joints' limits.
            report: For messages that cannot be taken as they are.
            actuators: Actuators of the plan's physics, by the names that messages give them.
        """
        self._label = label
        self._plan = plan
        self._limits = PositionLimits(plan, (), ())
        self._row_by_name = row_by_name
        self._report = report
        self._names: tuple[str, ...] = ()
        self._suggested = False
        self._indices = self._rows = np.zeros(0, dtype=np.intp)
        self._actuators = actuators or {}
        # Places in messages, and the actuators that are named there.
        self._places = self._controls = self._rows

    def write(self, sample: JointStateSample, targets: Iterable[FloatArray]) -> bool:
        """Write what a message asks for; an empty array, NaN and numbers beyond `BOUND` ask for nothing.

        Positions beyond a joint's limits are clamped and reported.

        Args:
            sample: The message. With an array whose length is neither zero nor that of `names` it is ignored as a
                whole; a joint that is none of these is ignored and reported.
            targets: (D,) positions, velocities and efforts, written to.

        Returns:
            Whether the message is not ignored.
        """
        arrays = (sample.position, sample.velocity, sample.effort)
        count = len(sample.names)
        if any(len(array) not in (0, count) for array in arrays):
            lengths = "/".join(str(len(array)) for array in arrays)
            self._report(
                f"sink.length:{self._label}",
                f"{self._label}: a JointState with {count} names and {lengths} positions/velocities/efforts is ignored",
            )
            return False
        if sample.names != self._names:
            self._look_up(sample.names)
        for array, target in zip(arrays, targets, strict=True):
            if len(array):
                values = array[self._indices]
                finite = np.abs(values) <= BOUND
                if array is sample.position:
                    values = np.where(finite, values, np.nan)
                    values = self._limits.clamp_command(values, self._label, self._report)
                target[self._rows[finite]] = values[finite]
        return True

    def find_controls(self, sample: JointStateSample) -> tuple[IndexArray, FloatArray]:
        """Return the actuators that the message written last names, and what it asks of them.

        The control of an actuator is its position in the message, else its velocity, else its effort.

        Args:
            sample: That message.
        """
        places = self._places
        values = np.full(places.size, np.nan)
        for array in (sample.position, sample.velocity, sample.effort):
            if places.size and len(array):
                values = np.where(np.isfinite(values), values, array[places])
        finite = np.isfinite(values)
        return self._controls[finite], values[finite]

    def _look_up(self, names: tuple[str, ...]) -> None:
        controls = [(i, self._actuators[name]) for i, name in enumerate(names) if name in self._actuators]
        known = [
            (i, self._row_by_name[name])
            for i, name in enumerate(names)
            if name in self._row_by_name and name not in self._actuators
        ]
        if len(known) + len(controls) < len(names):
            self._report_unknown(names, len(names) - len(known) - len(controls))
        self._places = np.array([place for place, _ in controls], dtype=np.intp)
        self._controls = np.array([actuator for _, actuator in controls], dtype=np.intp)
        self._names = names
        self._indices = np.array([index for index, _ in known], dtype=np.intp)
        self._rows = np.array([row for _, row in known], dtype=np.intp)
        self._limits = PositionLimits(self._plan, self._rows, [names[index] for index, _ in known])

    def _report_unknown(self, names: Iterable[str], count: int) -> None:
        """Report names that are none of the joints: how many, and the first few of them."""
        unknown = (name for name in names if name not in self._row_by_name and name not in self._actuators)
        first = ", ".join(quoted(name) for name in islice(unknown, _NAMES_SHOWN))
        more = f" and {count - _NAMES_SHOWN} more" if count > _NAMES_SHOWN else ""
        if not self._suggested:
            # Once: a publisher may change its names in every message.
            self._suggested = True
            wrong = next(
                name for name in names if name not in self._row_by_name and name not in self._actuators
            )
            question = did_you_mean(wrong, (*self._row_by_name, *self._actuators))
            more += f"; {question}" if question else ""
        self._report(
            f"sink.joint:{self._label}",
            f"{self._label}: {count} of the joints in a message cannot be commanded and are ignored: {first}{more}",
        )


def actuators_of(plan: BridgePlan, robot: int, context_path: str) -> dict[str, int]:
    """Return the actuators of the plan's physics that messages of a robot may name, by name.

    Args:
        plan: The plan.
        robot: Index in its robots.
        context_path: The context of the messages: of a nested one, only what is below it counts.
    """
    if plan.physics is None or robot < 0:
        return {}
    below = "" if context_path == plan.robots[robot].path else f"{context_path}/"
    return {
        name: number
        for number, actuator in enumerate(plan.physics.actuators)
        if actuator.robot == robot and actuator.path.startswith(below)
        for name in actuator.names
    }
