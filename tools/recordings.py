"""Read recordings of controllers as numbers. `record_controllers.py` writes them. ROS is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

SECOND_NS = 1e9
STATES = {1: "accepted", 2: "executing", 3: "canceling", 4: "succeeded", 5: "canceled", 6: "aborted"}
"""action_msgs/msg/GoalStatus."""


@dataclass
class Series:
    """Rows of numbers over time.

    Attributes:
        times: Seconds since the beginning of the recording.
        rows: As many rows of numbers.
    """

    times: list[float] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)

    def add(self, time: float, row: Any) -> None:
        """Adds a row."""
        self.times.append(time)
        self.rows.append([float(number) for number in row])

    @property
    def columns(self) -> np.ndarray:
        """(k, N) the numbers."""
        return np.array(self.rows).T


@dataclass
class Rover:
    """Recording of the rover: commanded and measured (v, w), (x, y) and wheel speeds (rad/s)."""

    commanded: Series = field(default_factory=Series)
    twist: Series = field(default_factory=Series)
    place: Series = field(default_factory=Series)
    wheels: Series = field(default_factory=Series)


@dataclass
class Arm:
    """Recording of the arm: joints (rad), and the states of goals.

    Attributes:
        joints: Names of those that are followed.
        actual: From joint states.
        desired: From feedback.
        ends: (seconds, number of the goal, state), in order.
    """

    joints: list[str] = field(default_factory=list)
    actual: Series = field(default_factory=Series)
    desired: Series = field(default_factory=Series)
    ends: list[tuple[float, int, str]] = field(default_factory=list)


def read_rover(path: Path) -> Rover:
    """Reads a recording of the rover."""
    rover = Rover()
    for topic, time, message in _timed(path):
        if topic.endswith("/cmd_vel"):
            rover.commanded.add(time, (message.linear.x, message.angular.z))
        elif topic.endswith("/odom"):
            twist, place = message.twist.twist, message.pose.pose.position
            rover.twist.add(time, (twist.linear.x, twist.angular.z))
            rover.place.add(time, (place.x, place.y))
        elif topic.endswith("/joint_states"):
            speed = dict(zip(message.name, message.velocity, strict=True))
            rover.wheels.add(time, (speed["left_wheel_joint"], speed["right_wheel_joint"]))
    return rover


def read_arm(path: Path) -> Arm:
    """Reads a recording of the arm."""
    arm = Arm()
    states: dict[bytes, int] = {}
    messages = list(_timed(path))
    arm.joints = next(list(m.feedback.joint_names) for topic, _, m in messages if topic.endswith("/feedback"))
    for topic, time, message in messages:
        if topic.endswith("/joint_states"):
            position = dict(zip(message.name, message.position, strict=True))
            arm.actual.add(time, [position[name] for name in arm.joints])
        elif topic.endswith("/feedback"):
            arm.desired.add(time, message.feedback.desired.positions)
        elif topic.endswith("/status"):
            for each in message.status_list:
                key = bytes(each.goal_info.goal_id.uuid)
                if states.get(key) != each.status:
                    states[key] = each.status
                    arm.ends.append((time, list(states).index(key) + 1, STATES[each.status]))
    return arm


def read(path: Path) -> Iterator[tuple[str, int, Any]]:
    """Yields topic, nanoseconds and message of all messages of a bag.

    Definitions are taken from the bag as they are: those of actions cannot agree with their types' hashes, as they are
    written like .msg files, in which every type is a message. rosbags' own AnyReader refuses them for that.
    """
    store = get_typestore(Stores.EMPTY)
    with Reader(path) as reader:
        for connection in reader.connections:
            store.register(get_types_from_msg(connection.msgdef.data, connection.msgtype))
        for connection, time_ns, data in reader.messages():
            yield connection.topic, time_ns, store.deserialize_cdr(data, connection.msgtype)


def _timed(path: Path) -> Iterator[tuple[str, float, Any]]:
    """Yields topic, seconds since the first message, and message."""
    begin = None
    for topic, time_ns, message in read(path):
        begin = time_ns if begin is None else begin
        yield topic, (time_ns - begin) / SECOND_NS, message
