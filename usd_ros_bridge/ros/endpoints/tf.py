"""Transforms: /tf per robot and tick, /tf_static as one latched whole per topic (REP 0158 section 2.7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from rclpy.event_handler import PublisherEventCallbacks
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.model.plan import FramePlan, RobotPlan, TfOutput
from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.ros import qos
from usd_ros_bridge.ros.codecs.protocol import set_stamp
from usd_ros_bridge.ros.compat import policy_name
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.runtime.frames import RobotFrames, TransformFeed, TransformSample
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import RateMeter

TF_TYPE = "tf2_msgs/msg/TFMessage"
_STAMPS_KEPT = 1024


def make_transform(robot: RobotPlan, frame: FramePlan, prefix: str) -> Any:
    """Returns a TransformStamped of a frame, its ids prefixed; the topmost `parent_frame` never is."""
    message = TransformStamped()
    topmost = frame.parent_index < 0 and frame.parent == robot.parent_frame
    message.header.frame_id = frame.parent if topmost else prefix + frame.parent
    message.child_frame_id = prefix + frame.id
    return message


def write_transforms(transforms: Iterable[Any], poses: FloatArray, stamp_ns: int) -> None:
    """Writes (N, 7) poses and a stamp into N TransformStamped."""
    for transform, (x, y, z, qx, qy, qz, qw) in zip(transforms, poses.tolist(), strict=True):
        set_stamp(transform.header.stamp, stamp_ns)
        translation, rotation = transform.transform.translation, transform.transform.rotation
        translation.x, translation.y, translation.z = x, y, z
        rotation.x, rotation.y, rotation.z, rotation.w = qx, qy, qz, qw


class TfTopic:
    """One publisher of TFMessage, shared by all robots of a domain that use the topic.

    Attributes:
        recent_stamps: Nanoseconds of what was sent lately.
    """

    def __init__(self, name: str, domain: Domain, *, static: bool, report: Report) -> None:
        """Stores what to publish on; `open` creates the publisher."""
        self.name = name
        self._domain = domain
        self._static = static
        self._report = report
        self._publisher: Any = None
        self._whole: dict[Hashable, list[Any]] = {}
        self._meter = RateMeter()
        self.recent_stamps: deque[int] = deque(maxlen=_STAMPS_KEPT)

    def open(self) -> None:
        """Creates the publisher, through the node so that remap rules apply."""
        callbacks = PublisherEventCallbacks(
            incompatible_qos=self._on_incompatible, use_default_callbacks=False
        )
        quality = qos.TF_STATIC_QOS if self._static else qos.TF_QOS
        self._publisher = self._domain.node.create_publisher(
            TFMessage, self.name, qos.profile(quality), event_callbacks=callbacks
        )

    def publish(self, message: Any, time_ns: int) -> None:
        """Publishes one message."""
        publisher = self._publisher
        if publisher is not None:
            self.recent_stamps.append(time_ns)
            publisher.publish(message)
            self._meter.mark(time_ns)

    def set_share(self, owner: Hashable, transforms: Sequence[Any]) -> None:
        """Replaces one owner's share of a latched topic; `publish_whole` sends it."""
        self._whole[owner] = list(transforms)

    def publish_whole(self, time_ns: int) -> None:
        """Sends all shares in one message: with depth 1, a late joiner gets the last message only."""
        if self._whole:
            self.publish(
                TFMessage(transforms=[each for share in self._whole.values() for each in share]), time_ns
            )

    def close(self) -> None:
        """Destroys the publisher. Idempotent."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            self._domain.node.destroy_publisher(publisher)

    def status(self, authored_rate: float | None, now_ns: int) -> InterfaceStatus:
        """Returns a row."""
        publisher = self._publisher
        rate = 0.0 if self._static else self._meter.rate(now_ns)
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path="",
            name=publisher.topic_name if publisher else self.name,
            type=TF_TYPE,
            domain_id=self._domain.domain_id,
            authored_rate=None if self._static else authored_rate,
            achieved_rate=rate,
            matched=publisher.get_subscription_count() if publisher else 0,
            count=self._meter.count,
            state="active" if rate > 0.0 or (self._static and self._meter.count) else "idle",
        )

    def _on_incompatible(self, event: Any) -> None:
        policy = policy_name(event.last_policy_kind)
        self._report(
            f"qos.publisher:{self.name}:{policy}",
            f"{self.name}: a subscription asks for another {policy} than /tf's usual: nothing reaches it",
        )


class TransformBroadcaster:
    """An `Emitter` for the runtime: one TFMessage per robot and tick, on each of the robot's TF topics."""

    def __init__(self, robot: RobotPlan, frames: RobotFrames, feed: TransformFeed) -> None:
        """Makes a broadcaster without outputs.

        Args:
            robot: Whose frames.
            frames: Which of them move.
            feed: What to send, tick by tick.
        """
        self._robot = robot
        self._frames = frames
        self._feed = feed
        self._outputs: list[tuple[TfTopic, Any, list[Any]]] = []

    def add_output(self, topic: TfTopic, output: TfOutput) -> None:
        """Sends to `topic` from here on, ids prefixed as `output` says."""
        plans = self._robot.frames
        transforms = [
            make_transform(self._robot, plans[index], output.prefix) for index in self._frames.moving
        ]
        self._outputs.append((topic, TFMessage(transforms=transforms), transforms))

    def emit(self, snapshot: Snapshot) -> bool:
        """Publishes the robot's moving frames where their state is new."""
        sample = self._feed.sample(snapshot)
        if sample is None:
            return False
        for topic, message, transforms in self._outputs:
            self._send(topic, message, transforms, sample)
        return bool(self._outputs)

    def _send(self, topic: TfTopic, message: Any, transforms: list[Any], sample: TransformSample) -> None:
        if sample.valid is None:
            write_transforms(transforms, sample.poses, sample.stamp_ns)
            topic.publish(message, sample.stamp_ns)
            return
        valid = [transforms[index] for index in np.flatnonzero(sample.valid)]
        write_transforms(valid, sample.poses[sample.valid], sample.stamp_ns)
        topic.publish(TFMessage(transforms=valid), sample.stamp_ns)


def static_transforms(robot: RobotPlan, frames: RobotFrames, output: TfOutput, time_ns: int) -> list[Any]:
    """Returns the TransformStamped of a robot's static frames."""
    transforms = [make_transform(robot, robot.frames[index], output.prefix) for index in frames.static]
    write_transforms(transforms, frames.static_poses, time_ns)
    return transforms
