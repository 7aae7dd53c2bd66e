"""Bags of joint states and transforms, written by rosbags and by the mcap package: serialized by rosbags, not by us."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_JAZZY)
JOINT_STATE, TF_MESSAGE = "sensor_msgs/msg/JointState", "tf2_msgs/msg/TFMessage"
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


@dataclass(frozen=True)
class Message:
    """A message in a bag: topic, type, when it was recorded, and its bytes."""

    topic: str
    type: str
    log_ns: int
    data: bytes


def _new(kind: str, /, **fields: Any) -> Any:
    return STORE.types[kind](**fields)


def header(stamp_ns: int, frame: str = "") -> Any:
    stamp = _new("builtin_interfaces/msg/Time", sec=stamp_ns // SECOND, nanosec=stamp_ns % SECOND)
    return _new("std_msgs/msg/Header", stamp=stamp, frame_id=frame)


def joint_state(
    topic: str,
    stamp_ns: int,
    names: Sequence[str],
    position: Sequence[float],
    velocity: Sequence[float] = (),
    effort: Sequence[float] = (),
    *,
    log_ns: int | None = None,
) -> Message:
    """Returns a JointState, recorded a millisecond after its stamp unless said otherwise."""
    message = _new(
        JOINT_STATE,
        header=header(stamp_ns),
        name=list(names),
        position=np.array(position, dtype=np.float64),
        velocity=np.array(velocity, dtype=np.float64),
        effort=np.array(effort, dtype=np.float64),
    )
    log_ns = stamp_ns + 1_000_000 if log_ns is None else log_ns
    return Message(topic, JOINT_STATE, log_ns, bytes(STORE.serialize_cdr(message, JOINT_STATE)))


Transform = tuple[int, str, str, Sequence[float]]
"""Stamp, parent, child, and the pose (7,)."""


def transforms(topic: str, *given: Transform, log_ns: int | None = None) -> Message:
    """Returns a TFMessage."""
    found = []
    for stamp_ns, parent, child, pose in given:
        x, y, z, qx, qy, qz, qw = (float(value) for value in pose)
        found.append(
            _new(
                "geometry_msgs/msg/TransformStamped",
                header=header(stamp_ns, parent),
                child_frame_id=child,
                transform=_new(
                    "geometry_msgs/msg/Transform",
                    translation=_new("geometry_msgs/msg/Vector3", x=x, y=y, z=z),
                    rotation=_new("geometry_msgs/msg/Quaternion", x=qx, y=qy, z=qz, w=qw),
                ),
            )
        )
    log_ns = (given[0][0] if given else START) + 1_000_000 if log_ns is None else log_ns
    data = bytes(STORE.serialize_cdr(_new(TF_MESSAGE, transforms=found), TF_MESSAGE))
    return Message(topic, TF_MESSAGE, log_ns, data)


def text(topic: str, log_ns: int, content: str = "hello") -> Message:
    """Returns a message that moves nothing."""
    data = bytes(STORE.serialize_cdr(_new("std_msgs/msg/String", data=content), "std_msgs/msg/String"))
    return Message(topic, "std_msgs/msg/String", log_ns, data)


def write_rosbag2(
    path: Path,
    messages: Sequence[Message],
    *,
    storage: StoragePlugin = StoragePlugin.SQLITE3,
    compression: CompressionMode = CompressionMode.NONE,
) -> Path:
    """Writes a rosbag2 directory with rosbags, and returns it."""
    writer = Writer(path, version=9, storage_plugin=storage)
    writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        connections = {
            (topic, kind): writer.add_connection(topic, kind, typestore=STORE)
            for topic, kind in dict.fromkeys((each.topic, each.type) for each in messages)
        }
        for each in messages:
            writer.write(connections[each.topic, each.type], each.log_ns, each.data)
    return path


def write_mcap(path: Path, messages: Sequence[Message], *, encoding: str = "cdr", **options: Any) -> Path:
    """Writes a file with the mcap package, whose writer has the options, and returns it."""
    from mcap.writer import Writer as McapWriter

    with path.open("wb") as file:
        writer = McapWriter(file, **options)
        writer.start("ros2", "test")
        channels = {}
        for topic, kind in dict.fromkeys((each.topic, each.type) for each in messages):
            definition, _ = STORE.generate_msgdef(kind, ros_version=2)
            schema = writer.register_schema(kind, "ros2msg", definition.encode())
            channels[topic, kind] = writer.register_channel(topic, encoding, schema)
        for each in messages:
            writer.add_message(channels[each.topic, each.type], each.log_ns, each.data, each.log_ns)
        writer.finish()
    return path
