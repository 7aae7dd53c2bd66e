"""Transforms: /tf per robot and tick, /tf_static as one latched whole per topic (REP 0158 section 2.7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from numpy.typing import NDArray
from rclpy.event_handler import PublisherEventCallbacks
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.model.plan import FramePlan, RobotPlan, TfOutput
from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.ros import qos
from usd_ros_bridge.ros.cdr import Outlet, SharedMessages, Template, TemplateError
from usd_ros_bridge.ros.codecs.protocol import set_stamp
from usd_ros_bridge.ros.compat import policy_name
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.publisher import NO_SUBSCRIBER
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.runtime.frames import RobotFrames, TransformFeed
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import RateMeter

TF_TYPE = "tf2_msgs/msg/TFMessage"
_STAMPS_KEPT = 1024


def make_transform(robot: RobotPlan, frame: FramePlan, prefix: str) -> Any:
    """Returns a TransformStamped of a frame, its ids prefixed; the topmost `parent_frame` never is."""
    message = TransformStamped()
    message.header.frame_id, message.child_frame_id = _frame_ids(robot, frame, prefix)
    return message


def _frame_ids(robot: RobotPlan, frame: FramePlan, prefix: str) -> tuple[str, str]:
    topmost = frame.parent_index < 0 and frame.parent == robot.parent_frame
    return frame.parent if topmost else prefix + frame.parent, prefix + frame.id


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

    __slots__ = (
        "_always", "_domain", "_errors", "_meter", "_outlet", "_report", "_static", "_whole", "name",
        "recent_stamps",
    )  # fmt: skip

    def __init__(
        self, name: str, domain: Domain, *, static: bool, unmatched: bool = False, report: Report
    ) -> None:  # fmt: skip
        """Stores what to publish on; `open` creates the publisher.

        Args:
            name: Absolute topic name.
            domain: Where.
            static: Whether it is a latched topic.
            unmatched: Send also while nobody subscribes.
            report: For incompatible quality of service, and what fails.
        """
        self.name = name
        self._domain = domain
        self._static = static
        self._always = static or unmatched
        self._report = report
        self._errors = 0
        self._outlet: Outlet | None = None
        self._whole: dict[Hashable, list[Any]] = {}
        self._meter = RateMeter()
        self.recent_stamps: deque[int] = deque(maxlen=_STAMPS_KEPT)

    def open(self) -> None:
        """Creates the publisher, through the node so that remap rules apply."""
        callbacks = PublisherEventCallbacks(
            incompatible_qos=self._on_incompatible, use_default_callbacks=False
        )
        quality = qos.TF_STATIC_QOS if self._static else qos.TF_QOS
        publisher = self._domain.node.create_publisher(
            TFMessage, self.name, qos.profile(quality), event_callbacks=callbacks
        )
        self._outlet = Outlet(publisher)

    def wanted(self) -> bool:
        """Returns whether anyone is to get what is sent."""
        outlet = self._outlet
        return outlet is not None and (self._always or outlet.subscriptions() > 0)

    def publish(self, message: Any, time_ns: int) -> None:
        """Publishes one message.

        Args:
            message: A message object, or a serialized message.
            time_ns: Its stamp, nanoseconds.
        """
        outlet = self._outlet
        if outlet is None:
            return
        stamps = self.recent_stamps
        if not stamps or stamps[-1] != time_ns:
            stamps.append(time_ns)
        try:
            if type(message) is bytearray:
                outlet.send(message)
            else:
                outlet.publisher.publish(message)
        except Exception:
            self._errors += 1
            raise
        self._meter.mark(time_ns)

    def set_share(self, owner: Hashable, transforms: Sequence[Any]) -> None:
        """Replaces one owner's share of a latched topic; `publish_whole` sends it."""
        self._whole[owner] = list(transforms)

    def publish_whole(self, time_ns: int) -> None:
        """Sends all shares in one message: with depth 1, a late joiner gets the last message only."""
        if not self._whole:
            return
        whole = TFMessage(transforms=[each for share in self._whole.values() for each in share])
        try:
            self.publish(whole, time_ns)
        except Exception as error:  # noqa: BLE001 - the runtime's edge: what moves is still to be sent
            self._report(f"tf.publish:{self.name}", f"publishing {self.name} failed: {describe(error)}")

    def close(self) -> None:
        """Destroys the publisher. Idempotent."""
        outlet, self._outlet = self._outlet, None
        if outlet is not None:
            outlet.close(self._domain.node)

    def status(self, authored_rate: float | None, now_ns: int) -> InterfaceStatus:
        """Returns a row."""
        outlet = self._outlet
        matched = outlet.subscriptions() if outlet else 0
        unheard = not (matched or self._always)
        rate = 0.0 if self._static or unheard else self._meter.rate(now_ns)
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path="",
            name=outlet.publisher.topic_name if outlet else self.name,
            type=TF_TYPE,
            domain_id=self._domain.domain_id,
            authored_rate=None if self._static else authored_rate,
            achieved_rate=rate,
            matched=matched,
            count=self._meter.count,
            errors=self._errors,
            state="active" if rate > 0.0 or (self._static and self._meter.count) else "idle",
            reason=NO_SUBSCRIBER if unheard else "",
        )

    def _on_incompatible(self, event: Any) -> None:
        policy = policy_name(event.last_policy_kind)
        self._report(
            f"qos.publisher:{self.name}:{policy}",
            f"{self.name}: a subscription asks for another {policy} than /tf's usual: nothing reaches it",
        )


class TransformBroadcaster:
    """An `Emitter` for the runtime: one TFMessage per robot and tick, on each of the robot's TF topics."""

    __slots__ = ("_feed", "_frames", "_outputs", "_report", "_robot", "_shared")

    def __init__(
        self, robot: RobotPlan, frames: RobotFrames, feed: TransformFeed, *, report: Report,
        shared: SharedMessages[SerializedTransforms] | None = None,
    ) -> None:  # fmt: skip
        """Makes a broadcaster without outputs.

        Args:
            robot: Whose frames.
            frames: Which of them move.
            feed: What to send, tick by tick.
            report: For messages that cannot be written in place.
            shared: Messages that all broadcasters of the thread that ticks write in turn; None for none.
        """
        self._shared = SharedMessages[SerializedTransforms]() if shared is None else shared
        self._robot = robot
        self._frames = frames
        self._feed = feed
        self._report = report
        self._outputs: list[tuple[TfTopic, _Transforms]] = []

    def add_output(self, topic: TfTopic, output: TfOutput) -> None:
        """Sends to `topic` from here on, ids prefixed as `output` says."""
        self._outputs.append(
            (topic, _Transforms(self._robot, self._frames, output, self._report, self._shared))
        )

    def emit(self, snapshot: Snapshot) -> bool:
        """Publishes the robot's moving frames where their state is new and someone listens."""
        feed = self._feed
        poses: FloatArray | None = None
        failed: Exception | None = None
        for topic, transforms in self._outputs:
            if not topic.wanted():
                continue
            if poses is None and (poses := feed.take(snapshot)) is None:
                return False
            time_ns = feed.stamp_ns
            try:
                topic.publish(transforms.message(time_ns, poses, feed.valid), time_ns)
            except Exception as error:  # noqa: BLE001 - the other topics get theirs; the runtime counts it
                failed = failed or error
        if failed is not None:
            raise failed
        return poses is not None


class SerializedTransforms:
    """A TFMessage of the moving frames of one robot, or of all robots whose frames have the same names.

    Attributes:
        data: The message.
    """

    __slots__ = ("__weakref__", "_column", "_components", "_stamp_ns", "_stamps", "data")

    def __init__(self, message: Any, translated: FloatArray | None) -> None:
        """Finds the places.

        Args:
            message: TFMessage.
            translated: (F, 7) poses whose translations stay; None where translations change.

        Raises:
            TemplateError: It cannot be written in place.
        """
        template = Template(message)
        self.data = template.data
        self._stamps = template.stamps("transforms[].header.stamp")
        self._stamp_ns = -1
        self._column = template.column("transforms[].transform")
        self._components = slice(None)
        if translated is not None:
            self._column.write(translated)
            self._column = template.column("transforms[].transform.rotation")
            self._components = slice(3, None)

    def write(self, stamp_ns: int, poses: FloatArray) -> None:
        """Writes (F, 7) poses and their stamp."""
        if stamp_ns != self._stamp_ns:
            self._stamps.write(stamp_ns)
            self._stamp_ns = stamp_ns
        self._column.write_components(poses.T[self._components])


class _Transforms:
    """The moving frames of one robot under one prefix, as a serialized message that is written in place.

    Frames that are left out, and a TFMessage that cannot be written in place, take message objects.
    """

    __slots__ = ("_frames", "_objects", "_prefix", "_report", "_robot", "_shared", "_templates", "_written")

    def __init__(
        self, robot: RobotPlan, frames: RobotFrames, output: TfOutput, report: Report,
        shared: SharedMessages[SerializedTransforms],
    ) -> None:  # fmt: skip
        self._robot = robot
        self._frames = frames
        self._prefix = output.prefix
        self._report = report
        self._shared = shared
        self._objects: list[Any] | None = None
        self._written: SerializedTransforms | None = None
        self._templates = True

    def message(self, stamp_ns: int, poses: FloatArray, valid: NDArray[np.bool_] | None) -> Any:
        """Returns a message of what `TransformFeed` gives.

        Returns:
            A bytearray, valid until the next call for any robot, or a TFMessage.
        """
        if valid is None:
            written = self._written or self._find(poses)
            if written is not None:
                written.write(stamp_ns, poses)
                return written.data
        if self._objects is None:
            self._objects = self._make_objects()
        shown = self._objects
        if valid is not None:
            shown, poses = [shown[index] for index in np.flatnonzero(valid)], poses[valid]
        write_transforms(shown, poses, stamp_ns)
        return TFMessage(transforms=shown)

    def _make_objects(self) -> list[Any]:
        plans = self._robot.frames
        return [make_transform(self._robot, plans[index], self._prefix) for index in self._frames.moving]

    def _find(self, poses: FloatArray) -> SerializedTransforms | None:
        if not self._templates:
            return None
        frames = [self._robot.frames[index] for index in self._frames.moving]
        names = tuple(_frame_ids(self._robot, frame, self._prefix) for frame in frames)
        # What only rotates is translated once, as it is in every sample.
        translated = poses if self._frames.rotate_only else None
        key = (names, None if translated is None else translated[:, :3].tobytes())
        try:
            self._written = self._shared.find(
                key, lambda: SerializedTransforms(TFMessage(transforms=self._make_objects()), translated)
            )
        except TemplateError as error:
            self._templates = False
            self._report(
                f"template:{self._robot.path}",
                f"{self._robot.path}: transforms are published by way of message objects, which is slower: {error}",
            )
        return self._written


def static_transforms(robot: RobotPlan, frames: RobotFrames, output: TfOutput, time_ns: int) -> list[Any]:
    """Returns the TransformStamped of a robot's static frames."""
    transforms = [make_transform(robot, robot.frames[index], output.prefix) for index in frames.static]
    write_transforms(transforms, frames.static_poses, time_ns)
    return transforms
