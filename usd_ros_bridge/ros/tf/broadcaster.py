"""TF broadcaster of all robots: /tf in ticks, /tf_static as one latched whole per topic (REP 0158 section 2.7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped
from numpy.typing import NDArray
from rclpy.event_handler import PublisherEventCallbacks
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.model.message_types import TF_MESSAGE
from usd_ros_bridge.model.plan import BridgePlan, FramePlan, RobotPlan, TfOutput
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.codecs.encoding import Encoding, Values, set_stamp
from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessages, MessageEncoder
from usd_ros_bridge.ros.compat import policy_name
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.publisher import NO_SUBSCRIBER, MessagePublisher
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.tf.monitor import CHECK_RATE, BridgeTree, TfMonitor
from usd_ros_bridge.runtime.frame_poses import RobotFrames
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange
from usd_ros_bridge.runtime.runtime import Runtime
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
        self.handle = self._domain.open_publisher(TFMessage, self.name, profile, event_callbacks=callbacks)

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
            handle.publish(TFMessage(transforms=self.transforms))
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
        matched = handle.matched() if handle else 0
        has_no_subscriber = not (matched or self.always)
        rate = 0.0
        if not (self.is_static or has_no_subscriber):
            rate = sum(each.rate(now_ns) for each in publishers)
        count = self._meter.count + sum(each.count for each in publishers)
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path="",
            name=handle.topic_name if handle else self.name,
            type=TF_MESSAGE,
            domain_id=self._domain.domain_id,
            authored_rate=None if self.is_static else authored_rate,
            achieved_rate=rate,
            matched=matched,
            count=count,
            errors=self._errors + sum(each.errors for each in publishers),
            state="active" if rate > 0.0 or (self.is_static and count) else "idle",
            reason=NO_SUBSCRIBER if has_no_subscriber else "",
            qos=qos_profiles.TF_STATIC_QOS if self.is_static else qos_profiles.TF_QOS,
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
        return (poses[:, 3:] if rotate_only else poses,)

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


Key = tuple[int, str]
"""A domain, and the name of a topic there."""


@dataclass(slots=True, kw_only=True, eq=False)
class PreparedTransforms:
    """Transforms of a plan, ready to be sent.

    Attributes:
        plan: The plan.
        now_ns: Stamp of the static transforms.
        opened: Topics that were opened for it.
        shares: Static transforms by topic, and by whose they are.
        robots: Index, frames and places of each robot that has moving frames, by its path.
        trees: What is sent, for the monitor.
    """

    plan: BridgePlan
    now_ns: int
    opened: list[Key] = field(default_factory=list)
    shares: dict[TfTopic, dict[Hashable, list[Any]]] = field(default_factory=dict)
    robots: dict[str, tuple[int, RobotFrames, list[tuple[TfTopic, TfOutput]]]] = field(default_factory=dict)
    trees: list[BridgeTree] = field(default_factory=list)


class RobotTransforms:
    """Broadcasters of all robots, and the topics that they share.

    Attributes:
        monitor: Finds other senders of the same frames.
    """

    def __init__(
        self,
        plan: BridgePlan,
        domains: Domains,
        runtime: Runtime,
        *,
        rate: float | None,
        publish_unmatched: bool = False,
        watch: bool = True,
    ) -> None:
        """Store the arguments.

        Args:
            plan: The robots.
            domains: Where they live.
            runtime: What they are moved by; open.
            rate: Hz, None for every tick.
            publish_unmatched: Send moving transforms also while nobody subscribes.
            watch: Look for other senders of the same frames.
        """
        self._unmatched = publish_unmatched
        self._watches = watch
        self._plan = plan
        self._domains = domains
        self._runtime = runtime
        self._rate = rate
        self._topics: dict[Key, TfTopic] = {}
        self.monitor = TfMonitor(runtime.reporter.report)
        self._trees: list[BridgeTree] = []
        self._publishers: dict[tuple[str, TfTopic, TfOutput], TransformPublisher] = {}
        self._messages = EncodedMessages()

    def open(self, now_ns: int) -> None:
        """Create the publishers, send static transforms, and start to broadcast moving ones.

        Args:
            now_ns: Stamp of the static transforms.
        """
        self._broadcast(self._open_topics(self._plan, self._runtime.binding, now_ns))

    def close(self) -> None:
        """Stop broadcasting. Idempotent."""
        for publisher in self._publishers.values():
            self._end(publisher)
        self._publishers.clear()
        self._runtime.remove_publication(self.monitor)
        self.monitor.close()
        for topic in self._topics.values():
            topic.close()

    # --- Change ------------------------------------------------------------------------------------------------

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Open the topics that a plan to come needs; as `PlanComponent.prepare`."""
        prepared = self._open_topics(plan, binding, self._runtime.now_ns)
        alike = binding.snapshot is self._runtime.snapshot

        def commit() -> None:
            self._plan = plan
            if not alike:
                self._broadcast(prepared)

        return PreparedChange(
            commit=commit, rollback=partial(self._rollback, prepared), cleanup=self._close_unused
        )

    def _rollback(self, prepared: PreparedTransforms) -> None:
        for key in prepared.opened:
            self._topics.pop(key).close()

    def _close_unused(self) -> None:
        """Close topics without transforms."""
        used = dict.fromkeys((tree.domain.domain_id, name) for tree in self._trees for name in _names(tree))
        topics, self._topics = self._topics, {key: self._topics[key] for key in used}
        for key in topics.keys() - used.keys():
            topics[key].close()

    def _open_topics(self, plan: BridgePlan, binding: PlanBinding, now_ns: int) -> PreparedTransforms:
        """Find out which transforms a plan sends where, and open new topics; from any thread."""
        prepared = PreparedTransforms(plan=plan, now_ns=now_ns)
        try:
            self._open_robots(prepared, binding)
        except BaseException:
            self._rollback(prepared)
            raise
        return prepared

    def _open_robots(self, prepared: PreparedTransforms, binding: PlanBinding) -> None:
        for index, robot in enumerate(prepared.plan.robots):
            if not robot.tf_outputs:
                continue
            try:
                domain = self._domains.get(robot.domain_id)
            except DomainLimitError as error:
                self._runtime.reporter.report(f"tf:{robot.path}", f"{robot.path}: no transforms: {error}")
                continue
            self._prepare_robot(index, robot, binding.frames.robots[index], domain, prepared)

    def latched(self) -> dict[Key, tuple[Any, ...]]:
        """Return the static transforms that late joiners receive, by topic."""
        return {key: tuple(topic.transforms) for key, topic in tuple(self._topics.items())}

    def set_rate(self, rate: float | None) -> None:
        """Change how often moving transforms are sent, Hz, None for every tick; in the thread that ticks."""
        self._rate = rate
        for publisher in self._publishers.values():
            self._runtime.change_publication(publisher, rate=rate, robot=publisher.robot)

    # --- Asking ------------------------------------------------------------------------------------------------

    def status(self, now_ns: int) -> list[InterfaceStatus]:
        """Return a row for every TF topic."""
        return list(self.rows(now_ns))

    def rows(self, now_ns: int) -> Iterator[InterfaceStatus]:
        """Yield the rows of `status`, each made when it is needed."""
        for topic in tuple(self._topics.values()):
            yield topic.status(self._rate, now_ns)

    @property
    def moving(self) -> int:
        """Frames on /tf, of all robots that are broadcast."""
        return self._count(static=False)

    @property
    def static(self) -> int:
        """Frames on /tf_static, of all robots that are broadcast."""
        return self._count(static=True)

    def _count(self, *, static: bool) -> int:
        pairs = zip(self._plan.robots, self._runtime.frames.robots, strict=True)
        return sum(
            len(frames.static if static else frames.moving) for robot, frames in pairs if robot.tf_outputs
        )

    # --- Own ---------------------------------------------------------------------------------------------------

    def _prepare_robot(
        self,
        index: int,
        robot: RobotPlan,
        frames: RobotFrames,
        domain: Domain,
        prepared: PreparedTransforms,
    ) -> None:
        places = []
        for output in robot.tf_outputs:
            moving = self._topic(output.tf, domain, prepared, static=False) if frames.moving else None
            static = self._topic(output.tf_static, domain, prepared, static=True) if frames.static else None
            if static is not None:
                share = static_transforms(robot, frames, output, prepared.now_ns)
                prepared.shares.setdefault(static, {})[robot.path, output] = share
            if moving is not None:
                places.append((moving, output))
            ids = [frame_ids(robot, robot.frames[n], output.prefix) for n in (*frames.moving, *frames.static)]
            prepared.trees.append(
                BridgeTree(
                    domain=domain,
                    output=output,
                    namespace=robot.namespace,
                    parents={child: parent for parent, child in ids},
                    tf=moving,
                    tf_static=static,
                )
            )
        if places:
            prepared.robots[robot.path] = (index, frames, places)

    def _topic(self, name: str, domain: Domain, prepared: PreparedTransforms, *, static: bool) -> TfTopic:
        key = (domain.domain_id, name)
        topic = self._topics.get(key)
        if topic is None:
            topic = TfTopic(
                name, domain, static=static, unmatched=self._unmatched, report=self._runtime.reporter.report
            )
            topic.open()
            self._topics[key] = topic
            prepared.opened.append(key)
        return topic

    def _broadcast(self, prepared: PreparedTransforms) -> None:
        """Send these transforms from now on; publishers that exist stay, with their schedule."""
        had_trees, self._trees = bool(self._trees), prepared.trees
        for topic in self._topics.values():
            if topic.is_static and topic.set_static(prepared.shares.get(topic, {})):
                topic.publish_static(prepared.now_ns)
        wanted = {
            (path, topic, output): (index, frames)
            for path, (index, frames, places) in prepared.robots.items()
            for topic, output in places
        }
        for key in self._publishers.keys() - wanted.keys():
            self._end(self._publishers.pop(key))
        for key, (index, frames) in wanted.items():
            path, topic, output = key
            publisher = self._publishers.get(key)
            is_new = publisher is None
            if publisher is None:
                publisher = self._publishers[key] = TransformPublisher(
                    topic, messages=self._messages, report=self._runtime.reporter.report
                )
            publisher.update(self._plan.robots[index], frames, output, index)
            if is_new:
                name = f"{topic.name} of {path}"
                self._runtime.add_publication(publisher, name=name, rate=self._rate, robot=index)
            else:
                self._runtime.change_publication(publisher, rate=self._rate, robot=index)
        if not self._watches:
            return
        self.monitor.watch(self._trees)
        if had_trees and not self._trees:
            self._runtime.remove_publication(self.monitor)
        elif self._trees and not had_trees:
            self._runtime.add_publication(self.monitor, name="guard of tf", rate=CHECK_RATE)

    def _end(self, publisher: TransformPublisher) -> None:
        self._runtime.remove_publication(publisher)
        publisher.topic.remove(publisher)


def _names(tree: BridgeTree) -> tuple[str, ...]:
    return tuple(topic.name for topic in (tree.tf, tree.tf_static) if topic is not None)
