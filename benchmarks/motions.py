"""The motions that benchmarks of controllers ask for, and their closed forms."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Interpolation = Literal["cubic", "quintic"]

JOINTS = 7
SWEEP = 1.2
RIPPLE = 0.05


def sample_motion(times: Floats, duration: float) -> tuple[Floats, Floats, Floats]:
    """Returns positions, velocities and accelerations (N, JOINTS) of a motion that begins and ends at rest.

    Each joint sweeps to another position, with ripples of another frequency on its way: none of it is a polynomial.

    Args:
        times: (N,) seconds since the beginning.
        duration: Seconds.
    """
    rate = math.tau / duration
    phase = rate * times[:, None]
    sweep = np.linspace(-SWEEP, SWEEP, JOINTS)
    position = sweep * (phase - np.sin(phase)) / math.tau
    velocity = sweep * rate * (1.0 - np.cos(phase)) / math.tau
    acceleration = sweep * rate**2 * np.sin(phase) / math.tau
    # (1 - cos)^2: position, velocity and acceleration are zero at both ends.
    waves = 2.0 + np.arange(JOINTS)
    fast = waves * rate
    rest = 1.0 - np.cos(waves * phase)
    slope, bend = fast * np.sin(waves * phase), fast**2 * np.cos(waves * phase)
    position = position + RIPPLE * rest**2
    velocity = velocity + RIPPLE * 2.0 * rest * slope
    acceleration = acceleration + RIPPLE * 2.0 * (slope**2 + rest * bend)
    return position, velocity, acceleration


def trajectory_times(points: int, duration: float) -> NDArray[np.int64]:
    """Returns the (N,) times from start of a trajectory's points, nanoseconds: the first is at 0."""
    return np.round(np.linspace(0.0, duration * 1e9, points)).astype(np.int64)


def spline(points: int, duration: float, interpolation: Interpolation) -> Any:
    """Returns what a trajectory's points are joined by: `f(seconds)` is (N, JOINTS), by scipy."""
    from scipy.interpolate import BPoly, CubicHermiteSpline

    times = trajectory_times(points, duration) * 1e-9
    position, velocity, acceleration = sample_motion(times, duration)
    if interpolation == "cubic":
        return CubicHermiteSpline(times, position, velocity)
    return BPoly.from_derivatives(times, np.stack([position, velocity, acceleration], axis=1))


def circle(distance: Floats, curvature: float) -> Floats:
    """Returns (N, 2) where a circle is after `distance` metres; it begins at the origin along X, and turns left."""
    angle = curvature * distance
    return np.stack([np.sin(angle), 1.0 - np.cos(angle)], axis=-1) / curvature


def clothoid(distance: Floats, sharpness: float) -> Floats:
    """Returns (N, 2) where a clothoid is after `distance` metres; it begins at the origin along X, straight.

    Its curvature is `sharpness` (1/m^2) times the distance: Fresnel integrals.
    """
    from scipy.special import fresnel

    scale = math.sqrt(math.pi / sharpness)
    sine, cosine = fresnel(distance / scale)
    return scale * np.stack([cosine, sine], axis=-1)
