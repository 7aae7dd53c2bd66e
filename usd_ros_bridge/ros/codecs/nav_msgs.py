"""nav_msgs: Odometry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.ros.codecs.protocol import (
    Carrier,
    Encoder,
    EncoderFactory,
    NoSourceError,
    finite,
    set_quaternion,
    set_twist,
    set_vector,
)
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.sources import in_frame, odometry_pose


def encode_odometry(topic: TopicPlan, plan: BridgePlan) -> Encoder:  # noqa: ARG001 - EncoderFactory
    """Odometry of a body: its pose since the start (REP 105), its twist in the child frame.

    It is exact, and its covariances stay zero.
    """
    carrier = Carrier(topic)
    if carrier.fixed:
        raise NoSourceError("no rigid body is at or above it")

    def encode(snapshot: Snapshot, message: Any) -> bool:
        world_from_body = carrier.pose(snapshot)
        pose = odometry_pose(carrier.start(snapshot), world_from_body)
        if not finite(pose):
            return False
        message.child_frame_id = topic.child_frame_id
        set_vector(message.pose.pose.position, pose[:3])
        set_quaternion(message.pose.pose.orientation, pose[3:])
        set_twist(message.twist.twist, in_frame(world_from_body, carrier.twist(snapshot)))
        return True

    return encode


ENCODERS: Mapping[str, EncoderFactory] = {"nav_msgs/msg/Odometry": encode_odometry}
