"""Limits of position, speed and acceleration, for arrays of commands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.controllers.protocol import Report
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import FloatArray

LIMIT_TOLERANCE = 1e-3
"""rad or m. A position that is less beyond a limit is within it: clients round."""


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
            report: Told, by where it came from, of a position that is clamped.
        """
        found = self.find(position[None, :])
        if found is None:
            return position
        report(f"sink.limits:{label}", f"{label}: clamped: {self.describe(position[found[1]], found[1])}")
        return self.clamped(position)


def limit_change(target: FloatArray, previous: FloatArray, step: FloatArray) -> FloatArray:
    """Moves from `previous` towards `target`, by `step` at most.

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
    """Returns the largest change within `seconds` at rates of change up to `max_rate`; inf where that is inf."""
    return np.where(np.isinf(max_rate), np.inf, np.where(np.isinf(max_rate), 0.0, max_rate) * seconds)


def common_scale(values: FloatArray, limits: FloatArray) -> FloatArray:
    """Returns the factors, 1 at most, that bring every row of `values` within `limits` as a whole.

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
