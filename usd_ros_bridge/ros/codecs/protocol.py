"""What a codec is, and what codecs share: stamps, vectors and the body that carries an interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from usd_ros_bridge.model.plan import BridgePlan, RobotPlan, TopicPlan
from usd_ros_bridge.model.transforms import IDENTITY, FloatArray, compose
from usd_ros_bridge.runtime.kinematics import pose_array
from usd_ros_bridge.runtime.snapshot import Snapshot

Encoder = Callable[[Snapshot, Any], bool]
"""`encode(snapshot, message)` fills a reused message, its header excepted; False: there is nothing to show now."""

EncoderFactory = Callable[[TopicPlan, BridgePlan], Encoder]
"""Makes the encoder of one publisher; raises NoSourceError where the plan has nothing that it could show."""

Decoder = Callable[[Any], object]
"""Turns a message into a sample of model.state."""

SECOND_NS = 1_000_000_000
_STILL = np.zeros(6)
_STILL.setflags(write=False)


class NoSourceError(Exception):
    """A publisher has nothing to show; the message says what is missing."""


def set_stamp(stamp: Any, time_ns: int) -> None:
    """Writes nanoseconds into a builtin_interfaces Time."""
    seconds, nanoseconds = divmod(int(time_ns), SECOND_NS)
    stamp.sec = seconds
    stamp.nanosec = nanoseconds


def stamp_ns(message: Any) -> int:
    """Returns the nanoseconds of a message's header stamp."""
    stamp = message.header.stamp
    return int(stamp.sec) * SECOND_NS + int(stamp.nanosec)


def set_vector(target: Any, values: FloatArray) -> None:
    """Writes (3,) into a Vector3 or Point."""
    target.x, target.y, target.z = values.tolist()


def set_quaternion(target: Any, values: FloatArray) -> None:
    """Writes (4,) x y z w into a Quaternion."""
    target.x, target.y, target.z, target.w = values.tolist()


def set_twist(target: Any, values: FloatArray) -> None:
    """Writes (6,), linear then angular, into a Twist or Accel."""
    set_vector(target.linear, values[:3])
    set_vector(target.angular, values[3:])


def finite(values: FloatArray) -> bool:
    """Returns whether no value is NaN or infinite."""
    return bool(np.isfinite(values).all())


class Carrier:
    """The body that carries a topic's prim, or the world where none does.

    Attributes:
        body_from_prim: (7,) the prim in its body, or in the world.
    """

    def __init__(self, topic: TopicPlan) -> None:
        self._row = topic.body
        self.body_from_prim = pose_array(topic.body_from_prim)

    @property
    def fixed(self) -> bool:
        """Whether nothing moves the prim."""
        return self._row < 0

    def pose(self, snapshot: Snapshot) -> FloatArray:
        """Returns `world_from_body` (7,)."""
        return IDENTITY if self._row < 0 else snapshot.pose(self._row)

    def start(self, snapshot: Snapshot) -> FloatArray:
        """Returns `world_from_body` (7,) where odometry starts."""
        return IDENTITY if self._row < 0 else snapshot.start_pose(self._row)

    def twist(self, snapshot: Snapshot) -> FloatArray:
        """Returns the body's twist (6,) in the world frame."""
        return _STILL if self._row < 0 else snapshot.twist(self._row)

    def acceleration(self, snapshot: Snapshot) -> FloatArray:
        """Returns the body's acceleration (6,) in the world frame, without gravity."""
        if self._row < 0:
            return _STILL
        acceleration: FloatArray = snapshot.body_acceleration[self._row]
        return acceleration


class HeaderAxes:
    """The axes of a topic's header frame: of one of the robot's frames, else (an external frame) of the world."""

    def __init__(self, topic: TopicPlan, plan: BridgePlan) -> None:
        self._row = -1
        self._carrier_from_frame = IDENTITY
        if topic.robot < 0:
            return
        robot = plan.robots[topic.robot]
        for frame in robot.frames:
            if topic.frame_id in _shown_ids(robot, frame.id):
                self._row, self._carrier_from_frame = frame.carrier, pose_array(frame.carrier_from_frame)
                return

    def pose(self, snapshot: Snapshot) -> FloatArray:
        """Returns `world_from_frame` (7,)."""
        if self._row < 0:
            return self._carrier_from_frame
        return compose(snapshot.pose(self._row), self._carrier_from_frame)


def _shown_ids(robot: RobotPlan, frame_id: str) -> set[str]:
    return {frame_id, *(output.prefix + frame_id for output in robot.tf_outputs)}
