"""The TF side of an open bridge: which robot sends to which topics, in which domain."""

from __future__ import annotations

from usd_ros_bridge.model.plan import BridgePlan, RobotPlan, TfOutput
from usd_ros_bridge.ros.cdr import SharedMessages
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains
from usd_ros_bridge.ros.endpoints.tf import TfTopic, TransformBroadcaster
from usd_ros_bridge.ros.endpoints.tf_guard import CHECK_RATE, TfGuard
from usd_ros_bridge.ros.endpoints.tf_messages import SerializedTransforms, make_transform, static_transforms
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.frames import RobotFrames


class Transforms:
    """Broadcasters of all robots, and the topics that they share."""

    def __init__(
        self, plan: BridgePlan, domains: Domains, runtime: Runtime, *, rate: float | None,
        publish_unmatched: bool = False,
    ) -> None:  # fmt: skip
        """Stores what to broadcast.

        Args:
            plan: The robots.
            domains: Where they live.
            runtime: What they are moved by; open.
            rate: Hz, None for every tick.
            publish_unmatched: Send moving transforms also while nobody subscribes.
        """
        self._unmatched = publish_unmatched
        self._plan = plan
        self._domains = domains
        self._runtime = runtime
        self._rate = rate
        self._topics: dict[tuple[int, str], TfTopic] = {}
        self._guards: dict[tuple[int, str], TfGuard] = {}
        self._broadcasters: list[TransformBroadcaster] = []
        self._shared: SharedMessages[SerializedTransforms] = SharedMessages()

    def open(self, now_ns: int) -> None:
        """Creates the publishers, sends what is static and begins to broadcast what moves.

        Args:
            now_ns: Stamp of the static transforms.
        """
        for index, robot in enumerate(self._plan.robots):
            if not robot.tf_outputs:
                continue
            try:
                domain = self._domains.get(robot.domain_id)
            except DomainLimitError as error:
                self._runtime.reporter.report(f"tf:{robot.path}", f"{robot.path}: no transforms: {error}")
                continue
            self._open_robot(index, robot, domain, now_ns)
        for topic in self._topics.values():
            topic.publish_whole(now_ns)
        for (_, name), guard in self._guards.items():
            self._runtime.add_emitter(guard, name=f"guard of {name}", rate=CHECK_RATE)

    def close(self) -> None:
        """Stops broadcasting. Idempotent."""
        for broadcaster in self._broadcasters:
            self._runtime.remove_emitter(broadcaster)
        for guard in self._guards.values():
            self._runtime.remove_emitter(guard)
            guard.close()
        for topic in self._topics.values():
            topic.close()

    def status(self, now_ns: int) -> list[InterfaceStatus]:
        """Returns a row for every TF topic."""
        return [topic.status(self._rate, now_ns) for topic in tuple(self._topics.values())]

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

    def _open_robot(self, index: int, robot: RobotPlan, domain: Domain, now_ns: int) -> None:
        frames = self._runtime.frames.robots[index]
        broadcaster = TransformBroadcaster(
            robot,
            frames,
            self._runtime.transform_feed(index),
            index=index,
            report=self._runtime.reporter.report,
            shared=self._shared,
            regroup=self._runtime.emissions.regroup,
        )
        for output in robot.tf_outputs:
            if frames.static:
                share = static_transforms(robot, frames, output, now_ns)
                self._topic(output.tf_static, domain, static=True).set_share((robot.path, output), share)
            if frames.moving:
                broadcaster.add_output(self._topic(output.tf, domain, static=False), output)
            self._watch(robot, frames, output, domain)
        if frames.moving:
            self._broadcasters.append(broadcaster)
            name = f"{robot.tf_outputs[0].tf} of {robot.path}"
            self._runtime.add_emitter(broadcaster, name=name, rate=self._rate, robot=index)

    def _topic(self, name: str, domain: Domain, *, static: bool) -> TfTopic:
        key = (domain.domain_id, name)
        topic = self._topics.get(key)
        if topic is None:
            topic = TfTopic(
                name, domain, static=static, unmatched=self._unmatched, report=self._runtime.reporter.report
            )
            topic.open()
            self._topics[key] = topic
        return topic

    def _watch(self, robot: RobotPlan, frames: RobotFrames, output: TfOutput, domain: Domain) -> None:
        sent = [
            make_transform(robot, robot.frames[n], output.prefix) for n in (*frames.moving, *frames.static)
        ]
        parents = {each.child_frame_id: each.header.frame_id for each in sent}
        for name, static in ((output.tf, False), (output.tf_static, True)):
            own = self._topics.get((domain.domain_id, name))
            self._guard(name, domain, static=static).add_frames(parents, own)

    def _guard(self, name: str, domain: Domain, *, static: bool) -> TfGuard:
        key = (domain.domain_id, name)
        if key not in self._guards:
            report = self._runtime.reporter.report
            self._guards[key] = TfGuard(name, domain, static=static, report=report)
        return self._guards[key]
