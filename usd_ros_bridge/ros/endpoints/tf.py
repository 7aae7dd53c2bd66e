"""Transforms: /tf per robot and tick, /tf_static as one latched whole per topic (REP 0158 section 2.7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks
from tf2_msgs.msg import TFMessage

from usd_ros_bridge.model.plan import RobotPlan, TfOutput
from usd_ros_bridge.ros import qos
from usd_ros_bridge.ros.cdr import Outlet, Place, Row, SharedMessages
from usd_ros_bridge.ros.compat import policy_name
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.chorus import PublisherChorus, Voice
from usd_ros_bridge.ros.endpoints.publisher import NO_SUBSCRIBER
from usd_ros_bridge.ros.endpoints.tf_messages import RobotTransforms, SerializedTransforms
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.runtime.frames import RobotFrames, TransformFeed
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.status import RateMeter, mark_each

TF_TYPE = "tf2_msgs/msg/TFMessage"
_STAMPS_KEPT = 1024


class TfTopic:
    """One publisher of TFMessage, shared by all robots of a domain that use the topic.

    Attributes:
        meter: Counts what was sent; whoever uses `send` marks it.
        recent_stamps: Nanoseconds of what was sent lately; whoever uses `send` adds them before.
    """

    __slots__ = (
        "_always", "_domain", "_errors", "_outlet", "_report", "_static", "_whole", "meter", "name",
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
        self._whole: list[Any] = []
        self.meter = RateMeter()
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
        self.meter.mark(time_ns)

    @property
    def listeners(self) -> Callable[[], object] | None:
        """What returns how many subscriptions there are; None where messages are sent in any case."""
        return None if self._always or self._outlet is None else self._outlet.subscriptions

    @property
    def send(self) -> Callable[[bytearray], None] | None:
        """What sends a serialized message, and does nothing else that `publish` does; None while it is closed."""
        return None if self._outlet is None else self._outlet.send

    def failed(self) -> None:
        """Counts what could not be sent by `send`."""
        self._errors += 1

    @property
    def static(self) -> bool:
        """Whether it is a latched topic."""
        return self._static

    def set_shares(self, shares: Mapping[Hashable, Sequence[Any]]) -> bool:
        """Sets what everybody sends on a latched topic; `publish_whole` sends it.

        Args:
            shares: Transforms, by whose they are.

        Returns:
            Whether that is anything else than what was sent last, stamps aside.
        """
        whole = [each for share in shares.values() for each in share]
        changed = list(map(_content, whole)) != list(map(_content, self._whole))
        self._whole = whole
        return changed

    def publish_whole(self, time_ns: int) -> None:
        """Sends all shares in one message: with depth 1, a late joiner gets the last message only.

        What is not in it any more is superseded by that, also where nothing is left.
        """
        try:
            self.publish(TFMessage(transforms=self._whole), time_ns)
        except Exception as error:  # noqa: BLE001 - the runtime's edge: what moves is still to be sent
            self._report(f"tf.publish:{self.name}", f"publishing {self.name} failed: {describe(error)}")

    def close(self) -> None:
        """Destroys the publisher. Idempotent."""
        outlet, self._outlet = self._outlet, None
        if outlet is not None:
            outlet.close(self._domain.destroy)

    def status(self, authored_rate: float | None, now_ns: int) -> InterfaceStatus:
        """Returns a row."""
        outlet = self._outlet
        matched = outlet.subscriptions() if outlet else 0
        unheard = not (matched or self._always)
        rate = 0.0 if self._static or unheard else self.meter.rate(now_ns)
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
            count=self.meter.count,
            errors=self._errors,
            state="active" if rate > 0.0 or (self._static and self.meter.count) else "idle",
            reason=NO_SUBSCRIBER if unheard else "",
        )

    def _on_incompatible(self, event: Any) -> None:
        policy = policy_name(event.last_policy_kind)
        self._report(
            f"qos.publisher:{self.name}:{policy}",
            f"{self.name}: a subscription asks for another {policy} than /tf's usual: nothing reaches it",
        )


def _content(transform: Any) -> tuple[object, ...]:
    return transform.header.frame_id, transform.child_frame_id, transform.transform


class TransformBroadcaster:
    """An `Emitter` for the runtime: one TFMessage per robot and tick, on each of the robot's TF topics."""

    __slots__ = ("_feed", "_frames", "_index", "_outputs", "_regroup", "_report", "_robot", "_shared")

    def __init__(
        self, robot: RobotPlan, frames: RobotFrames, feed: TransformFeed, *, index: int, report: Report,
        regroup: Callable[[], None], shared: SharedMessages[SerializedTransforms] | None = None,
    ) -> None:  # fmt: skip
        """Makes a broadcaster without outputs.

        Args:
            robot: Whose frames.
            frames: Which of them move.
            feed: What to send, tick by tick.
            index: Of the robot in BridgePlan.robots.
            report: For messages that cannot be written in place.
            regroup: Called when it has got a `row`.
            shared: Messages that all broadcasters of the thread that ticks write in turn; None for none.
        """
        self._regroup = regroup
        self._shared = SharedMessages[SerializedTransforms]() if shared is None else shared
        self._robot = robot
        self._frames = frames
        self._feed = feed
        self._index = index
        self._report = report
        self._outputs: tuple[tuple[TfTopic, RobotTransforms], ...] = ()

    def revise(
        self,
        robot: RobotPlan,
        frames: RobotFrames,
        feed: TransformFeed,
        *,
        index: int,
        shared: SharedMessages[SerializedTransforms],
    ) -> None:
        """Sends other frames from here on, and has no outputs; arguments as those of the constructor."""
        feed.stamp_ns = self._feed.stamp_ns
        self._robot, self._frames, self._feed, self._index = robot, frames, feed, index
        self._shared, self._outputs = shared, ()
        self._regroup()

    def reset(self) -> None:
        """Allows the last stamp again: time may have started over."""
        self._feed.reset()

    def add_output(self, topic: TfTopic, output: TfOutput) -> None:
        """Sends to `topic` from here on, ids prefixed as `output` says."""
        transforms = RobotTransforms(
            self._robot, self._frames, output, self._report, self._shared, self._regroup
        )
        self._outputs = (*self._outputs, (topic, transforms))

    def emit(self, snapshot: Snapshot) -> bool:
        """Publishes the robot's moving frames where their state is new and someone listens."""
        feed = self._feed
        due = False
        failed: Exception | None = None
        for topic, transforms in self._outputs:
            if not topic.wanted():
                continue
            if not due and not (due := feed.due(snapshot)):
                return False
            time_ns = feed.stamp_ns
            try:
                topic.publish(transforms.show(snapshot, self._index, time_ns, feed.valid), time_ns)
            except Exception as error:  # noqa: BLE001 - the other topics get theirs; the runtime counts it
                failed = failed or error
        if failed is not None:
            raise failed
        return due

    @property
    def row(self) -> Row | None:
        """Broadcasters whose messages are written along with its own; None while there are none."""
        place = self._place
        return None if place is None else place.row

    def chorus(
        self, emitters: Sequence[TransformBroadcaster], failed: Callable[[int, Exception], None]
    ) -> PublisherChorus:
        """Returns what broadcasts for broadcasters of one row at once."""
        place = self._place
        assert place is not None
        topics = [each._outputs[0][0] for each in emitters]
        feeds = [each._feed for each in emitters]

        meters = [each.meter for each in topics]
        stamps = [each.recent_stamps for each in dict.fromkeys(topics)]

        def announce(time_ns: int) -> None:
            for each in stamps:
                if not each or each[-1] != time_ns:
                    each.append(time_ns)

        def sent(indices: Sequence[int], time_ns: int) -> None:
            for index in indices:
                feed = feeds[index]
                feed.stamp_ns, feed.valid = time_ns, None
            mark_each(meters, indices, time_ns)

        def count(index: int, error: Exception) -> None:
            topics[index].failed()
            failed(index, error)

        return PublisherChorus(
            [each._voice() for each in emitters],
            place.together,
            place.row,
            sent=sent,
            failed=count,
            announce=announce,
            transforms=True,
        )

    @property
    def _place(self) -> Place | None:
        # One that sends to several topics is asked alone.
        if len(self._outputs) != 1:
            return None
        topic, transforms = self._outputs[0]
        return None if topic.send is None else transforms.place

    def _voice(self) -> Voice:
        place, topic = self._place, self._outputs[0][0]
        assert place is not None
        assert topic.send is not None
        return Voice(
            number=place.number,
            wanted=topic.listeners,
            send=topic.send,
            sent_ns=self._feed.stamp_ns,
        )
