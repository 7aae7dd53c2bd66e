"""nav_msgs: Odometry."""

from __future__ import annotations

from collections.abc import Mapping

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.ros.codecs.protocol import (
    Carrier,
    Encoding,
    EncodingFactory,
    NoSourceError,
    Values,
    set_child_frame,
)
from usd_ros_bridge.runtime.scalar import finite, in_axes, relative
from usd_ros_bridge.runtime.snapshot import Snapshot


def encode_odometry(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """Odometry of a body: its pose since the start (REP 105), its twist in the child frame.

    It is exact, and its covariances stay zero.
    """
    carrier = Carrier(topic)
    if carrier.fixed:
        raise NoSourceError("no rigid body is at or above it")

    def values(snapshot: Snapshot) -> Values | None:
        world_from_body = carrier.pose(snapshot)
        pose = relative(carrier.start(snapshot), world_from_body)
        if not finite(pose):
            return None
        return pose, in_axes(world_from_body[3:], carrier.twist(snapshot))

    return Encoding(values=values, prepare=set_child_frame(topic), blocks=("pose.pose", "twist.twist"))


ENCODERS: Mapping[str, EncodingFactory] = {"nav_msgs/msg/Odometry": encode_odometry}
