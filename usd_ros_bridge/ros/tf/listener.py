"""TF listener: poses in frames of other nodes, from tf2_ros where that is installed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
from rclpy.duration import Duration
from rclpy.time import Time
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.message_types import TF_MESSAGE
from usd_ros_bridge.model.plan import WORLD, BridgePlan, QosPlan, TopicPlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.codecs.encoding import MessageCodec
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.subscription import TopicSubscription
from usd_ros_bridge.runtime.command_sinks import UnknownFrameError
from usd_ros_bridge.spatial.transforms import FloatArray

MAX_FRAMES = 100_000
"""Frames of a TF tree that are remembered: tf2 forgets old transforms, but never a frame."""
KEPT_NS: Final = 10_000_000_000
"""How long transforms are kept, in nanoseconds: the default of tf2."""
NORM_TOLERANCE: Final = 10e-3
"""How far the square of a quaternion's norm may be from 1 (tf2, BufferCore::setTransform)."""
# A static topic has as many latched messages as it has publishers; tf2's own listeners keep 100, too.
_STATIC_QOS = replace(qos_profiles.TF_STATIC_QOS, depth=100)


class ForeignFrames:
    """A `FrameResolver` for the runtime: asks the trees on the robot's own TF topics, then the one on /tf.

    Each pair of topics is a tree of its own: where robots have namespaces, one frame id means another frame in each.
    """

    def __init__(self, plan: BridgePlan, domains: Domains, *, report: Report, inform: Report) -> None:
        """Store the arguments.

        Args:
            plan: The robots.
            domains: Where their transforms are.
            report: For faults.
            inform: For changes that people should see.
        """
        self._plan = plan
        self._domains = domains
        self._report = report
        self._inform = inform
        self._missing = False
        self._trees: dict[tuple[int, str, str], _Tree] = {}
        self._trees_by_origin: dict[tuple[int, int | None], tuple[_Tree, ...]] = {}

    def listen(self, topic: TopicPlan) -> None:
        """Listen to the transforms that poses on `topic` may need, from here on: they can be there before a pose."""
        origin = (topic.robot, topic.domain_id)
        if origin in self._trees_by_origin or self._missing:
            return
        try:
            import tf2_ros
        except ImportError:
            # It comes with a full ROS 2 installation only.
            self._missing = True
            return
        robot = self._plan.robots[topic.robot] if topic.robot >= 0 else None
        pairs = [(output.tf, output.tf_static) for output in robot.tf_outputs] if robot else []
        if robot:
            # Also where the bridge sends nothing there: then others do.
            namespace = robot.namespace.rstrip("/")
            pairs.append((f"{namespace}/tf", f"{namespace}/tf_static"))
        try:
            domain = self._domains.get(robot.domain_id if robot else topic.domain_id)
        except DomainLimitError:
            # The robot's transforms, or the topic itself, are refused with this reason already.
            return
        trees = [self._tree(domain, *pair, tf2_ros) for pair in (*pairs, ("/tf", "/tf_static"))]
        self._trees_by_origin[origin] = tuple(dict.fromkeys(trees))

    def resolve(self, topic: TopicPlan, frame_id: str, stamp_ns: int) -> FloatArray:
        """Return `world_from_frame` (7,) through the robot's `parent_frame`. Never waits."""
        if self._missing:
            raise UnknownFrameError("tf2_ros, which knows frames of other nodes, is not installed")
        parent = self._plan.robots[topic.robot].parent_frame if topic.robot >= 0 else WORLD
        trees = self._trees_by_origin.get((topic.robot, topic.domain_id), ())
        for tree in trees:
            parent_from_frame = tree.look_up(parent, frame_id, stamp_ns)
            if parent_from_frame is not None:
                return parent_from_frame
        names = " or ".join(tree.name for tree in trees)
        raise UnknownFrameError(
            f"no transform from {quoted(parent)} to it is known" + (f" on {names}" if names else "")
        )

    def reset(self) -> None:
        """Drop moving transforms: tf2 refuses transforms that are older than what it has."""
        for tree in self._trees.values():
            tree.clear()

    def close(self) -> None:
        """Stop listening. Idempotent."""
        for tree in self._trees.values():
            tree.close()

    def _tree(self, domain: Domain, tf: str, tf_static: str, tf2_ros: Any) -> _Tree:
        resolve = domain.node.resolve_topic_name
        key = (domain.domain_id, resolve(tf), resolve(tf_static))
        if key not in self._trees:
            tree = self._trees[key] = _Tree(key[1], tf2_ros, self._report)
            tree.open(
                self._subscription(domain, tf, qos_profiles.TF_QOS, tree.take),
                self._subscription(domain, tf_static, _STATIC_QOS, tree.take_static),
            )
        return self._trees[key]

    def _subscription(
        self, domain: Domain, name: str, quality: QosPlan, take: Callable[[Any], None]
    ) -> TopicSubscription:
        # Not tf2_ros.TransformListener: in Jazzy it knows no topics but /tf and /tf_static.
        return TopicSubscription(
            path="",
            name=name,
            type_name=TF_MESSAGE,
            message_class=TFMessage,
            domain=domain,
            qos=quality,
            codec=MessageCodec(decode=lambda message: message),
            deliver=take,
            report=self._report,
            inform=self._inform,
        )


class _Tree:
    """Transforms of one pair of TF topics, in a buffer that any thread may use."""

    def __init__(self, name: str, tf2_ros: Any, report: Report) -> None:
        self.name = name
        self._report = report
        self._frames: set[str] = set()
        self._latest_ns: dict[str, int] = {}
        self._buffer = tf2_ros.Buffer(cache_time=Duration(nanoseconds=KEPT_NS))
        self._unknown = tf2_ros.TransformException
        self._subscriptions: tuple[TopicSubscription, ...] = ()

    def open(self, *subscriptions: TopicSubscription) -> None:
        self._subscriptions = subscriptions
        for subscription in subscriptions:
            subscription.open()

    def take(self, message: Any) -> None:
        for transform in message.transforms:
            if self._admit(transform) and self._is_recent(transform):
                self._buffer.set_transform(transform, "")

    def take_static(self, message: Any) -> None:
        for transform in message.transforms:
            if self._admit(transform):
                self._buffer.set_transform_static(transform, "")

    def _admit(self, transform: Any) -> bool:
        """Return whether a transform is taken: not if it is unusable, or if its frames are new and too many.

        tf2 checks the same, and logs a line for each transform that it refuses, at whatever rate a peer sends them.
        """
        fault = transform_fault(transform)
        if fault:
            self._report(f"tf.unusable:{self.name}", f"{self.name}: unusable transforms are ignored: {fault}")
            return False
        frames = self._frames
        for name in (transform.child_frame_id, transform.header.frame_id):
            if name in frames:
                continue
            if len(frames) >= MAX_FRAMES:
                self._report(
                    f"tf.frames:{self.name}",
                    f"{self.name}: more than {MAX_FRAMES} frames: further ones are ignored",
                )
                return False
            frames.add(name)
        return True

    def _is_recent(self, transform: Any) -> bool:
        """Return whether tf2 still keeps transforms of this stamp."""
        name, stamp = transform.child_frame_id, transform.header.stamp
        time_ns = stamp.sec * 1_000_000_000 + stamp.nanosec
        latest_ns = self._latest_ns.get(name, time_ns)
        if time_ns < latest_ns - KEPT_NS:
            self._report(
                f"tf.old:{self.name}",
                f"{self.name}: a transform of {quoted(name)} is ignored: it is {(latest_ns - time_ns) * 1e-9:.1f} s "
                "older than the latest one; does another clock, or a second publisher, set its stamps?",
            )
            return False
        self._latest_ns[name] = max(time_ns, latest_ns)
        return True

    def look_up(self, parent: str, frame_id: str, stamp_ns: int) -> FloatArray | None:
        """Return `parent_from_frame` (7,) at the stamp, at the latest time where that one is not there, else None."""
        for time_ns in (stamp_ns, 0) if stamp_ns > 0 else (0,):
            try:
                found = self._buffer.lookup_transform(parent, frame_id, Time(nanoseconds=time_ns)).transform
            except self._unknown:
                continue
            t, q = found.translation, found.rotation
            return np.array([t.x, t.y, t.z, q.x, q.y, q.z, q.w])
        return None

    def clear(self) -> None:
        self._latest_ns.clear()
        self._buffer.clear()

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()


def transform_fault(transform: Any) -> str:
    """Return why tf2 refuses a TransformStamped (BufferCore::setTransform), "" if it does not.

    Beyond that, infinite numbers are a fault.
    """
    parent, child = transform.header.frame_id.removeprefix("/"), transform.child_frame_id.removeprefix("/")
    if not parent or not child:
        return f"{quoted(child or parent)} has no {'parent' if child else 'child'}"
    if parent == child:
        return f"{quoted(child)} is its own parent"
    translation, rotation = transform.transform.translation, transform.transform.rotation
    quaternion = (rotation.x, rotation.y, rotation.z, rotation.w)
    if not all(map(math.isfinite, (translation.x, translation.y, translation.z, *quaternion))):
        return f"that of {quoted(child)} is not finite"
    # Not math.hypot: the square of great numbers is infinite, and must not raise.
    if not abs(sum(each * each for each in quaternion) - 1.0) < NORM_TOLERANCE:
        return f"the quaternion of {quoted(child)} is not of length 1"
    return ""
