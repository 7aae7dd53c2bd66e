"""geometry_msgs: ground truth of bodies and measured forces out, velocity and pose commands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import PoseSample, TwistSample
from usd_ros_bridge.ros.codecs.encoding import (
    Carrier,
    Encoding,
    HeaderAxes,
    MessageCodec,
    Values,
    numbers_of,
    sensed,
    set_child_frame,
    stamp_ns,
)
from usd_ros_bridge.ros.wire.cdr_reader import read_twist, read_twist_stamped
from usd_ros_bridge.runtime.frame_poses import WORLD
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.scalar import acceleration_at, finite, in_axes, velocity_at
from usd_ros_bridge.spatial.transforms import FloatArray


def _pose_values(topic: TopicPlan) -> Callable[[Snapshot], Values | None]:
    """Ground truth of the body in the world, of the prim where no body carries it."""
    carrier = Carrier(topic)
    row = carrier.row
    if row == WORLD:
        still = (carrier.body_from_prim,)
        return lambda snapshot: still  # noqa: ARG005 - Encoding.values

    def values(snapshot: Snapshot) -> Values | None:
        pose = snapshot.body(row)
        return (pose,) if finite(pose) else None

    return values


def encode_pose(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """PoseStamped: ground truth of the body in the world, which the header's frame stands for."""
    return Encoding(values=_pose_values(topic), blocks=("pose",))


def encode_transform(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """TransformStamped: as PoseStamped, with the body's frame as child."""
    return Encoding(
        values=_pose_values(topic),
        prepare=set_child_frame(topic),
        blocks=("transform",),
        constants=lambda: topic.child_frame_id,
    )


def encode_twist(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """TwistStamped: velocity of the prim's origin relative to the world, in the axes of the header's frame."""
    carrier, axes = Carrier(topic), HeaderAxes(topic, plan)
    row, lever = carrier.row, carrier.lever
    # That of most robots: Odometry shows the same.
    is_local = lever is None and axes.are_of_body(row)

    def values(snapshot: Snapshot) -> Values | None:
        if is_local:
            twist = snapshot.local_twist(row)
        else:
            twist = snapshot.twist(row)
            if lever is not None:
                twist = velocity_at(snapshot.body(row)[3:], twist, lever)
            twist = in_axes(axes.rotation(snapshot), twist)
        return (twist,) if finite(twist) else None

    return Encoding(values=values, blocks=("twist",))


def encode_accel(topic: TopicPlan, plan: BridgePlan) -> Encoding:
    """AccelStamped: acceleration of the prim's origin, gravity left out, in the axes of the header's frame."""
    carrier, axes = Carrier(topic), HeaderAxes(topic, plan)
    row, lever = carrier.row, carrier.lever

    def values(snapshot: Snapshot) -> Values | None:
        accel = snapshot.acceleration(row)
        if lever is not None:
            rotation, twist = snapshot.body(row)[3:], snapshot.twist(row)
            accel = (*acceleration_at(rotation, twist, accel, lever), *accel[3:])
        accel = in_axes(axes.rotation(snapshot), accel)
        return (accel,) if finite(accel) else None

    return Encoding(values=values, blocks=("accel",))


def encode_wrench(topic: TopicPlan, plan: BridgePlan) -> Encoding:  # noqa: ARG001 - EncodingFactory
    """WrenchStamped of a backend's sensor: force in N and torque in N m, in the axes of the header's frame."""
    return sensed(topic, ("wrench",), lambda sample: (numbers_of(sample, "wrench", 6),))


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


CODECS: Mapping[str, MessageCodec] = {
    "geometry_msgs/msg/AccelStamped": MessageCodec(encode=encode_accel),
    "geometry_msgs/msg/PoseStamped": MessageCodec(encode=encode_pose, decode=decode_pose),
    "geometry_msgs/msg/TransformStamped": MessageCodec(encode=encode_transform),
    "geometry_msgs/msg/Twist": MessageCodec(
        decode=decode_twist, reader=lambda: partial(read_twist, make=TwistSample)
    ),
    "geometry_msgs/msg/TwistStamped": MessageCodec(
        encode=encode_twist,
        decode=decode_twist_stamped,
        reader=lambda: partial(read_twist_stamped, make=TwistSample),
    ),
    "geometry_msgs/msg/WrenchStamped": MessageCodec(encode=encode_wrench),
}
