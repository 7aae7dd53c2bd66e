"""Samples as subscriptions hand them on: of joints and of twists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from usd_ros_bridge.model.state import JointStateSample, TwistSample


def joint_sample(
    names: Iterable[str], position: Any = (), velocity: Any = (), effort: Any = (), *, stamp_ns: int = 0
) -> JointStateSample:
    """Return values of joints; there are none of what is left out."""
    position, velocity, effort = (np.array(each, dtype=np.float64) for each in (position, velocity, effort))
    return JointStateSample(
        stamp_ns=stamp_ns, names=tuple(names), position=position, velocity=velocity, effort=effort
    )


def twist_sample(linear: float, angular: float = 0.0) -> TwistSample:
    """Return a twist along X and about Z."""
    return TwistSample(stamp_ns=0, twist=np.array([linear, 0.0, 0.0, 0.0, 0.0, angular]))
