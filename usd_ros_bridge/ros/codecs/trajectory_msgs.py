"""trajectory_msgs: JointTrajectory, the topic of joint trajectory controllers and what their goals carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from usd_ros_bridge.model.goals import TrajectorySample
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.ros.codecs.encoding import MessageCodec, stamp_ns
from usd_ros_bridge.ros.wire.cdr_reader import check_joint_trajectory
from usd_ros_bridge.spatial.transforms import FloatArray

_NONE: FloatArray = np.empty(0)
_NONE.flags.writeable = False


def duration_ns(duration: Any) -> int:
    """Return the nanoseconds of a builtin_interfaces Duration, which may be negative."""
    return int(duration.sec) * SECOND_NS + int(duration.nanosec)


def decode_joint_trajectory(message: Any) -> TrajectorySample:
    """JointTrajectory: as it came. Lengths, order and finiteness are for the controller to judge."""
    points = message.points
    return TrajectorySample(
        stamp_ns=stamp_ns(message),
        joint_names=tuple(message.joint_names),
        times_ns=np.array([duration_ns(point.time_from_start) for point in points], dtype=np.int64),
        positions=_arrays(point.positions for point in points),
        velocities=_arrays(point.velocities for point in points),
        accelerations=_arrays(point.accelerations for point in points),
        efforts=_arrays(point.effort for point in points),
    )


def _arrays(columns: Iterable[Any]) -> tuple[FloatArray, ...]:
    """Copy each sequence: a message may be reused by its sender."""
    return tuple(np.array(column, dtype=np.float64) if len(column) else _NONE for column in columns)


CODECS: Mapping[str, MessageCodec] = {
    "trajectory_msgs/msg/JointTrajectory": MessageCodec(
        decode=decode_joint_trajectory, reader=lambda: check_joint_trajectory
    )
}
