"""nav_msgs: Odometry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.ros.codecs.encoding import Encoding, MessageCodec, NoSourceError, Values
from usd_ros_bridge.runtime.frame_poses import WORLD
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.pose import IDENTITY_POSE
from usd_ros_bridge.spatial.scalar import Floats, compose, finite, in_axes, relative, velocity_at
from usd_ros_bridge.spatial.transforms import FloatArray

_UNTURNED = (0.0, 0.0, 0.0, 1.0)


def encode_odometry(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """Odometry: what a drive's controller measures for a topic that the drive names, else the true motion of the body.

    The pose is that of the child frame since the start (REP 105), the twist is in the child frame; covariances
    without a source stay zero.
    """
    row = topic.body
    driven = any(topic.path in each.interfaces for each in plan.controllers)
    if row == WORLD and not driven:
        raise NoSourceError("no rigid body is at or above it")
    robot = topic.robot
    child = topic.body_from_child
    body_from_child = None if child == IDENTITY_POSE else (*child.translation, *child.rotation)
    covariances: list[Floats] = []

    def values(snapshot: Snapshot) -> Values | None:
        odometry = snapshot.odometry(robot) if driven else None
        if odometry is not None:
            covariances[:] = (odometry.pose_covariance, odometry.twist_covariance)
            pose, twist = odometry.pose, odometry.twist
            return (pose, twist) if finite(pose) and finite(twist) else None
        if row == WORLD:
            return None
        start, now, twist = snapshot.start_pose(row), snapshot.body(row), snapshot.local_twist(row)
        if body_from_child is not None:
            start, now = compose(start, body_from_child), compose(now, body_from_child)
            twist = in_axes(body_from_child[3:], velocity_at(_UNTURNED, twist, body_from_child[:3]))
        pose = relative(start, now)
        return (pose, twist) if finite(pose) else None

    def prepare(message: Any, values: Values) -> None:  # noqa: ARG001 - Encoding.prepare
        message.child_frame_id = topic.child_frame_id
        for part, diagonal in zip((message.pose, message.twist), covariances, strict=False):
            part.covariance[::7] = diagonal

    return Encoding(
        values=values,
        prepare=prepare,
        blocks=("pose.pose", "twist.twist"),
        constants=lambda: (topic.child_frame_id, np.array(covariances).tobytes()),
        arrays=_odometry_arrays if driven and robot >= 0 else None,
        rows=slice(robot, robot + 1),
    )


def _odometry_arrays(snapshot: Snapshot) -> tuple[FloatArray, FloatArray]:
    return snapshot.odometry_of_all


CODECS: Mapping[str, MessageCodec] = {"nav_msgs/msg/Odometry": MessageCodec(encode=encode_odometry)}
