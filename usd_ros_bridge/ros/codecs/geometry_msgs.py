"""geometry_msgs: ground truth of bodies out, velocity and pose commands in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import PoseSample, TwistSample
from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.ros.codecs.protocol import (
    Carrier,
    Decoder,
    Encoder,
    EncoderFactory,
    HeaderAxes,
    finite,
    set_quaternion,
    set_twist,
    set_vector,
    stamp_ns,
)
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.sources import acceleration_at, in_frame, twist_at


def encode_pose(topic: TopicPlan, plan: BridgePlan) -> Encoder:  # noqa: ARG001 - EncoderFactory
    """PoseStamped: ground truth of the body in the world, which the header's frame stands for."""
    carrier = Carrier(topic)

    def encode(snapshot: Snapshot, message: Any) -> bool:
        pose = carrier.body_from_prim if carrier.fixed else carrier.pose(snapshot)
        if not finite(pose):
            return False
        set_vector(message.pose.position, pose[:3])
        set_quaternion(message.pose.orientation, pose[3:])
        return True

    return encode


def encode_transform(topic: TopicPlan, plan: BridgePlan) -> Encoder:  # noqa: ARG001 - EncoderFactory
    """TransformStamped: as PoseStamped, with the body's frame as child."""
    carrier = Carrier(topic)

    def encode(snapshot: Snapshot, message: Any) -> bool:
        pose = carrier.body_from_prim if carrier.fixed else carrier.pose(snapshot)
        if not finite(pose):
            return False
        message.child_frame_id = topic.child_frame_id
        set_vector(message.transform.translation, pose[:3])
        set_quaternion(message.transform.rotation, pose[3:])
        return True

    return encode


def encode_twist(topic: TopicPlan, plan: BridgePlan) -> Encoder:
    """TwistStamped: velocity of the prim's origin relative to the world, in the axes of the header's frame."""
    carrier, axes = Carrier(topic), HeaderAxes(topic, plan)

    def encode(snapshot: Snapshot, message: Any) -> bool:
        twist = twist_at(carrier.pose(snapshot), carrier.twist(snapshot), carrier.body_from_prim)
        twist = in_frame(axes.pose(snapshot), twist)
        if not finite(twist):
            return False
        set_twist(message.twist, twist)
        return True

    return encode


def encode_accel(topic: TopicPlan, plan: BridgePlan) -> Encoder:
    """AccelStamped: acceleration of the prim's origin, gravity left out, in the axes of the header's frame."""
    carrier, axes = Carrier(topic), HeaderAxes(topic, plan)

    def encode(snapshot: Snapshot, message: Any) -> bool:
        change = carrier.acceleration(snapshot)
        linear = acceleration_at(
            carrier.pose(snapshot), carrier.twist(snapshot), change, carrier.body_from_prim
        )
        accel = in_frame(axes.pose(snapshot), np.concatenate((linear, change[3:])))
        if not finite(accel):
            return False
        set_twist(message.accel, accel)
        return True

    return encode


def _twist_array(twist: Any) -> FloatArray:
    linear, angular = twist.linear, twist.angular
    return np.array([linear.x, linear.y, linear.z, angular.x, angular.y, angular.z], dtype=np.float64)


def decode_twist(message: Any) -> TwistSample:
    """Twist: in the body's own frame, now."""
    return TwistSample(stamp_ns=0, twist=_twist_array(message))


def decode_twist_stamped(message: Any) -> TwistSample:
    """TwistStamped: in the body's own frame; the header's frame is not asked."""
    return TwistSample(stamp_ns=stamp_ns(message), twist=_twist_array(message.twist))


def decode_pose(message: Any) -> PoseSample:
    """PoseStamped: a pose in the header's frame."""
    position, orientation = message.pose.position, message.pose.orientation
    values = (position.x, position.y, position.z, orientation.x, orientation.y, orientation.z, orientation.w)
    return PoseSample(
        stamp_ns=stamp_ns(message),
        frame_id=str(message.header.frame_id),
        frame_from_body=np.array(values, dtype=np.float64),
    )


ENCODERS: Mapping[str, EncoderFactory] = {
    "geometry_msgs/msg/AccelStamped": encode_accel,
    "geometry_msgs/msg/PoseStamped": encode_pose,
    "geometry_msgs/msg/TransformStamped": encode_transform,
    "geometry_msgs/msg/TwistStamped": encode_twist,
}
DECODERS: Mapping[str, Decoder] = {
    "geometry_msgs/msg/PoseStamped": decode_pose,
    "geometry_msgs/msg/Twist": decode_twist,
    "geometry_msgs/msg/TwistStamped": decode_twist_stamped,
}
