"""TF broadcaster: /tf per robot and tick, /tf_static as one latched whole per topic (REP 0158 section 2.7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from numpy.typing import NDArray
from rclpy.event_handler import PublisherEventCallbacks
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.model.message_types import TF_MESSAGE
from usd_ros_bridge.model.plan import FramePlan, RobotPlan, TfOutput
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.codecs.encoding import Encoding, Values, set_stamp
from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessages, MessageEncoder
from usd_ros_bridge.ros.compat import policy_name
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.publisher import NO_SUBSCRIBER
from usd_ros_bridge.ros.endpoints.publisher_batch import MessagePublisher
from usd_ros_bridge.ros.wire.publisher_handle import PublisherHandle
from usd_ros_bridge.runtime.frame_poses import RobotFrames
from usd_ros_bridge.runtime.schedule import RateMeter
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.spatial.transforms import FloatArray

_STAMPS_KEPT = 1024
_MAX_NAMED = 5


class TfTopic:
    """One publisher of TFMessage, shared by all robots of a domain that use the topic.

    Attributes:
        name: Absolute topic name.
        is_static: Whether it is a latched topic.
        always: Publish also without subscribers.
        handle: Sends messages; None while it is closed.
        recent_stamps: Stamps of what was sent lately, nanoseconds.
        publishers: Those that send what moves.
        transforms: Those of a latched topic.
    """

    __slots__ = (
        "_domain",
        "_errors",
        "_meter",
        "_report",
        "always",
        "handle",
        "is_static",
        "name",
        "publishers",
        "recent_stamps",
        "transforms",
    )

    def __init__(
        self, name: str, domain: Domain, *, static: bool, unmatched: bool = False, report: Report
    ) -> None:
        """Store the arguments.

        Args:
            name: Absolute topic name.
            domain: Domain to publish in.
            static: Whether it is a latched topic.
            unmatched: Publish also without subscribers.
            report: For incompatible quality of service, and exceptions.
        """
        self.name = name
        self.is_static = static
        self.always = static or unmatched
        self.handle: PublisherHandle | None = None
        self.recent_stamps: deque[int] = deque(maxlen=_STAMPS_KEPT)
        self.publishers: list[TransformPublisher] = []
        self._domain = domain
        self._report = report
        self._meter = RateMeter()
        self._errors = 0
        self.transforms: list[Any] = []

    def open(self) -> None:
        """Create the publisher, through the node so that remap rules apply."""
        callbacks = PublisherEventCallbacks(
            incompatible_qos=self._on_incompatible, use_default_callbacks=False
        )
        profile = qos_profiles.profile(qos_profiles.TF_STATIC_QOS if self.is_static else qos_profiles.TF_QOS)
        node = self._domain.node
        self.handle = PublisherHandle(
            node.create_publisher(TFMessage, self.name, profile, event_callbacks=callbacks)
        )

    def set_static(self, shares: Mapping[Hashable, Sequence[Any]]) -> bool:
        """Set the transforms of a latched topic; `publish_static` sends them.

        Args:
            shares: Transforms of each robot.

        Returns:
            Whether they differ from what was sent last, stamps aside.
        """
        transforms = [each for share in shares.values() for each in share]
        changed = list(map(_content, transforms)) != list(map(_content, self.transforms))
        self.transforms = transforms
        return changed

    def publish_static(self, time_ns: int) -> None:
        """Send all transforms in one message: with depth 1, a late joiner gets the last message only.

        A message without a transform that was sent before supersedes it, also an empty one.
        """
        handle = self.handle
        if handle is None:
            return
        self.recent_stamps.append(time_ns)
        try:
            handle.publisher.publish(TFMessage(transforms=self.transforms))
        except Exception as error:  # noqa: BLE001 - the runtime's edge: what moves is still to be sent
            self._errors += 1
            self._report(f"tf.publish:{self.name}", f"publishing {self.name} failed: {describe(error)}")
        else:
            self._meter.mark(time_ns)

    def remove(self, publisher: TransformPublisher) -> None:
        """Remove a publisher; its messages still count."""
        self.publishers.remove(publisher)
        self._meter.count += publisher.count
        self._errors += publisher.errors

    def close(self) -> None:
        """Destroy the publisher. Idempotent."""
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.close(self._domain.destroy)

    def status(self, authored_rate: float | None, now_ns: int) -> InterfaceStatus:
        """Return a row of the status."""
        handle, publishers = self.handle, tuple(self.publishers)
        matched = handle.subscriptions() if handle else 0
        has_no_subscriber = not (matched or self.always)
        rate = 0.0
        if not (self.is_static or has_no_subscriber):
            rate = sum(each.rate(now_ns) for each in publishers)
        count = self._meter.count + sum(each.count for each in publishers)
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path="",
            name=handle.publisher.topic_name if handle else self.name,
            type=TF_MESSAGE,
            domain_id=self._domain.domain_id,
            authored_rate=None if self.is_static else authored_rate,
            achieved_rate=rate,
            matched=matched,
            count=count,
            errors=self._errors + sum(each.errors for each in publishers),
            state="active" if rate > 0.0 or (self.is_static and count) else "idle",
            reason=NO_SUBSCRIBER if has_no_subscriber else "",
        )

    def _on_incompatible(self, event: Any) -> None:
        policy = policy_name(event.last_policy_kind)
        self._report(
            f"qos.publisher:{self.name}:{policy}",
            f"{self.name}: a subscription asks for another {policy} than /tf's usual: nothing reaches it",
        )


class TransformPublisher(MessagePublisher):
    """Publish the moving frames of one robot on one of its TF topics."""

    __slots__ = ("_messages", "_report", "topic")

    def __init__(self, topic: TfTopic, *, messages: EncodedMessages, report: Report) -> None:
        """Store the arguments.

        Args:
            topic: Topic to publish on, open.
            messages: Messages that all publishers of the tick thread write in turn.
            report: For frames that are not finite, and messages that cannot be written in place.
        """
        super().__init__(always=topic.always)
        self.topic = topic
        self.handle = topic.handle
        self.sent_stamps = topic.recent_stamps
        self._messages = messages
        self._report = report
        topic.publishers.append(self)

    def update(self, robot: RobotPlan, frames: RobotFrames, output: TfOutput, index: int) -> None:
        """Publish the frames of a robot from now on.

        Args:
            robot: The robot.
            frames: Its frames.
            output: Prefix of their ids.
            index: Of the robot in BridgePlan.robots.
        """
        encoding = encode_transforms(robot, frames, output, index, self._report)
        encoder = MessageEncoder(
            robot.path, TFMessage, encoding, report=self._report, messages=self._messages
        )
        if self.encoder is not None:
            encoder.reuse(self.encoder)
        self.encoder, self.robot = encoder, index


def encode_transforms(
    robot: RobotPlan, frames: RobotFrames, output: TfOutput, index: int, report: Report
) -> Encoding:
    """TFMessage of the moving frames of a robot; those that are not finite are left out, with a report.

    Frames that only rotate are translated once: every other message differs in rotations alone.
    """
    plans = [robot.frames[number] for number in frames.moving]
    rotate_only = frames.rotate_only
    begin = 3 if rotate_only else 0
    ids: list[tuple[str, str]] = []
    poses: FloatArray = np.zeros((0, 7))
    shown: NDArray[np.intp] | None = None

    def values(snapshot: Snapshot) -> Values | None:
        nonlocal poses, shown
        poses, shown = snapshot.frame_poses(index), None
        # All robots' at once: which frames are not finite matters only where one is not.
        if not snapshot.frames_finite:
            finite = np.isfinite(poses).all(axis=1)
            if not finite.all():
                _report_dropped(robot, [plans[i] for i in np.flatnonzero(~finite)], report)
                if not finite.any():
                    return None
                shown = np.flatnonzero(finite)
                poses = poses[shown]
        return (poses[:, begin:],)

    def prepare(message: Any, values: Values) -> None:  # noqa: ARG001 - Encoding.prepare
        message.transforms = [
            make_transform(robot, plan, output.prefix)
            for number, plan in enumerate(plans)
            if shown is None or number in shown
        ]
        if rotate_only:
            write_transforms(message.transforms, poses, 0)

    def constants() -> Hashable:
        if not ids:
            ids.extend(frame_ids(robot, plan, output.prefix) for plan in plans)
        return tuple(ids), poses[:, :begin].tobytes()

    return Encoding(
        values=values,
        prepare=prepare,
        sequences=("transforms[].transform.rotation" if rotate_only else "transforms[].transform",),
        stamps="transforms[].header.stamp",
        constants=constants,
        key=lambda _: None if shown is None else shown.tobytes(),
        arrays=_all_rotations if rotate_only else _all_poses,
        rows=frames.span,
    )


def _all_poses(snapshot: Snapshot) -> tuple[FloatArray] | None:
    return (snapshot.all_frame_poses,) if snapshot.frames_finite else None


def _all_rotations(snapshot: Snapshot) -> tuple[FloatArray] | None:
    return (snapshot.all_frame_poses[:, 3:],) if snapshot.frames_finite else None


def _report_dropped(robot: RobotPlan, dropped: Sequence[FramePlan], report: Report) -> None:
    names = ", ".join(frame.id for frame in dropped[:_MAX_NAMED])
    report(
        f"tf.finite:{robot.path}",
        f"transforms of {robot.path} are not finite and left out: {names}"
        + (" and more" if len(dropped) > _MAX_NAMED else ""),
    )


def make_transform(robot: RobotPlan, frame: FramePlan, prefix: str) -> Any:
    """Return a TransformStamped of a frame, its ids prefixed; the topmost `parent_frame` never is."""
    message = TransformStamped()
    message.header.frame_id, message.child_frame_id = frame_ids(robot, frame, prefix)
    return message


def frame_ids(robot: RobotPlan, frame: FramePlan, prefix: str) -> tuple[str, str]:
    """Return the ids of a frame's parent and of the frame, as `make_transform` writes them."""
    topmost = frame.parent_index < 0 and frame.parent == robot.parent_frame
    return frame.parent if topmost else prefix + frame.parent, prefix + frame.id


def write_transforms(transforms: Iterable[Any], poses: FloatArray, stamp_ns: int) -> None:
    """Write (N, 7) poses and a stamp into N TransformStamped."""
    for transform, (x, y, z, qx, qy, qz, qw) in zip(transforms, poses.tolist(), strict=True):
        set_stamp(transform.header.stamp, stamp_ns)
        translation, rotation = transform.transform.translation, transform.transform.rotation
        translation.x, translation.y, translation.z = x, y, z
        rotation.x, rotation.y, rotation.z, rotation.w = qx, qy, qz, qw


def static_transforms(robot: RobotPlan, frames: RobotFrames, output: TfOutput, time_ns: int) -> list[Any]:
    """Return the TransformStamped of a robot's static frames."""
    transforms = [make_transform(robot, robot.frames[index], output.prefix) for index in frames.static]
    write_transforms(transforms, frames.static_poses, time_ns)
    return transforms


def _content(transform: Any) -> tuple[object, ...]:
    return transform.header.frame_id, transform.child_frame_id, transform.transform
