"""sensor_msgs: JointState, Imu and CameraInfo."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import FloatArray, JointStateSample
from usd_ros_bridge.ros.codecs.protocol import (
    Carrier,
    Decoder,
    Encoder,
    EncoderFactory,
    NoSourceError,
    finite,
    set_quaternion,
    set_vector,
    stamp_ns,
)
from usd_ros_bridge.runtime.kinematics import selection
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.sources import imu

_NOTHING = array("d")


def _doubles(values: FloatArray) -> array[float]:
    """Returns a message's float64[]; empty, which means "not known", where every value is NaN."""
    if not len(values) or np.isnan(values).all():
        return _NOTHING
    return array("d", values.tobytes())


def encode_joint_state(topic: TopicPlan, plan: BridgePlan) -> Encoder:
    """JointState of the joints of the publisher's context: rad or m, per second, N m or N.

    Velocity and effort are empty where the backend knows none, and NaN for single joints that it does not know.
    """
    if not topic.dofs:
        raise NoSourceError("its context has no movable joint")
    names = [plan.layout.dofs[row] for row in topic.dofs]
    rows = selection(topic.dofs)

    def encode(snapshot: Snapshot, message: Any) -> bool:
        state = snapshot.state
        if not message.name:
            message.name = names
        message.position = _doubles(state.joint_position[rows])
        message.velocity = _doubles(state.joint_velocity[rows])
        message.effort = _doubles(state.joint_effort[rows])
        return True

    return encode


def decode_joint_state(message: Any) -> JointStateSample:
    """JointState to targets or states by name; what is wrong with its lengths is for the receiver to judge."""
    return JointStateSample(
        stamp_ns=stamp_ns(message),
        names=tuple(message.name),
        position=np.array(message.position, dtype=np.float64),
        velocity=np.array(message.velocity, dtype=np.float64),
        effort=np.array(message.effort, dtype=np.float64),
    )


def encode_imu(topic: TopicPlan, plan: BridgePlan) -> Encoder:  # noqa: ARG001 - EncoderFactory
    """Imu of an ideal sensor (REP 145): specific force in the sensor frame, so that gravity points up at rest.

    Covariances stay zero, which the message defines as unknown.
    """
    carrier = Carrier(topic)

    def encode(snapshot: Snapshot, message: Any) -> bool:
        orientation, angular_velocity, force = imu(
            carrier.pose(snapshot),
            carrier.twist(snapshot),
            carrier.acceleration(snapshot),
            carrier.body_from_prim,
        )
        if not (finite(orientation) and finite(force)):
            return False
        set_quaternion(message.orientation, orientation)
        set_vector(message.angular_velocity, angular_velocity)
        set_vector(message.linear_acceleration, force)
        return True

    return encode


def encode_camera_info(topic: TopicPlan, plan: BridgePlan) -> Encoder:
    """CameraInfo of an ideal pinhole camera: plumb_bob with zero distortion, R the identity, P = [K | 0]."""
    if not 0 <= topic.camera < len(plan.scene.cameras):
        raise NoSourceError("no UsdGeomCamera is at or above it")
    camera = plan.scene.cameras[topic.camera]
    width, height = int(camera.width), int(camera.height)
    fx, fy, cx, cy = (float(value) for value in (camera.fx, camera.fy, camera.cx, camera.cy))

    def encode(snapshot: Snapshot, message: Any) -> bool:  # noqa: ARG001 - Encoder
        if message.width == width and message.height == height:
            return True
        message.width, message.height = width, height
        message.distortion_model = "plumb_bob"
        message.d = array("d", [0.0] * 5)
        message.k = [fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0]
        message.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
        message.p = [fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0]
        return True

    return encode


ENCODERS: Mapping[str, EncoderFactory] = {
    "sensor_msgs/msg/CameraInfo": encode_camera_info,
    "sensor_msgs/msg/Imu": encode_imu,
    "sensor_msgs/msg/JointState": encode_joint_state,
}
DECODERS: Mapping[str, Decoder] = {
    "sensor_msgs/msg/JointState": decode_joint_state,
}
