"""Limits of speed and acceleration, for arrays of commands."""

from __future__ import annotations

import numpy as np

from usd_ros_bridge.model.state import FloatArray


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
