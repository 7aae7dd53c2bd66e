"""All endpoints of an open bridge: made from the plan, one that cannot be made disabled alone, closed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.exceptions import InvalidServiceNameException, InvalidTopicNameException

from usd_ros_bridge.backends.protocol import BackendInput
from usd_ros_bridge.model.plan import (
    ActionPlan,
    BridgePlan,
    InterfaceKind,
    InterfacePlan,
    QosPlan,
    ServicePlan,
    TopicPlan,
)
from usd_ros_bridge.ros.cdr import SharedMessages
from usd_ros_bridge.ros.codecs import DECODERS, ENCODERS
from usd_ros_bridge.ros.codecs.protocol import NoSourceError
from usd_ros_bridge.ros.codecs.writer import Serialized
from usd_ros_bridge.ros.deadlines import Deadlines
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains, Report
from usd_ros_bridge.ros.endpoints.action import ActionServer
from usd_ros_bridge.ros.endpoints.action_client import ActionClient
from usd_ros_bridge.ros.endpoints.publisher import TopicPublisher
from usd_ros_bridge.ros.endpoints.service import ServiceClient, ServiceServer
from usd_ros_bridge.ros.endpoints.subscription import TopicSubscription
from usd_ros_bridge.ros.foreign_frames import ForeignFrames
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.ros.types import AmentCatalog, InterfaceTypeError, import_interface
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.report import describe

Endpoint = TopicPublisher | TopicSubscription | ServiceServer | ServiceClient | ActionServer | ActionClient

_UNAVAILABLE = (InterfaceTypeError, DomainLimitError)
POSE_TYPE = "geometry_msgs/msg/PoseStamped"
_MAX_DIRECT = 16
"""Each message costs a look at every direct subscription: with more of them an executor, which knows, is cheaper."""
_BAD_NAME = (InvalidTopicNameException, InvalidServiceNameException)


def input_topic(plan: BridgePlan, backend_input: BackendInput) -> str:
    """Returns the absolute topic name of what a backend listens to, before remaps."""
    if backend_input.topic.startswith("/"):
        return backend_input.topic
    return f"{plan.robots[backend_input.robot].namespace.rstrip('/')}/{backend_input.topic}"


class Interfaces:
    """The endpoints of a plan."""

    def __init__(
        self, plan: BridgePlan, domains: Domains, runtime: Runtime, *, inform: Report, publish_unmatched: bool = False,
        handlers: Handlers | None = None, workers: Workers | None = None, deadlines: Deadlines | None = None,
    ) -> None:  # fmt: skip
        """Stores what to make endpoints from.

        Args:
            plan: Which interfaces, after the backend's inputs have disabled those that conflict.
            domains: Where they live.
            runtime: What feeds publishers and takes samples; open.
            inform: For changes that people should see.
            publish_unmatched: Publish also while nobody subscribes.
            handlers: Who serves what; nobody by default.
            workers: Where handlers run; closed by whoever made them.
            deadlines: What ends calls that take too long; likewise.
        """
        self._handlers = handlers or Handlers(plan)
        self._workers = workers or Workers()
        self._deadlines = deadlines or Deadlines()
        self._unmatched = publish_unmatched
        self._plan = plan
        self._domains = domains
        self._runtime = runtime
        self._report = runtime.reporter.report
        self._inform = inform
        self._catalog = AmentCatalog()
        self._frames = ForeignFrames(plan, domains, report=self._report, inform=inform)
        self._shared: SharedMessages[Serialized] = SharedMessages()
        self._made: list[tuple[InterfacePlan, InterfaceKind, Endpoint | str]] = []
        self._inputs: list[TopicSubscription] = []

    def open(self) -> None:
        """Makes everything that is enabled. What fails is disabled with a reason and a warning, alone."""
        self._runtime.frame_resolver = self._frames
        for backend_input in self._runtime.inputs:
            self._open_input(backend_input)
        for topic in self._plan.topics:
            make = self._make_publisher if topic.role == "publisher" else self._make_subscription
            self._make(topic, "topic", make)
        for service in self._plan.services:
            self._make(service, "service", self._make_service)
        for action in self._plan.actions:
            self._make(action, "action", self._make_action)

    def close(self) -> None:
        """Closes all. Idempotent."""
        for _, _, endpoint in self._made:
            if isinstance(endpoint, TopicPublisher):
                self._runtime.remove_emitter(endpoint)
            if not isinstance(endpoint, str):
                self._close(endpoint)
        for subscription in self._inputs:
            self._close(subscription)
        self._close(self._frames)

    def status(self) -> list[InterfaceStatus]:
        """Returns a row for every interface of the plan, then one for every topic that the backend listens to."""
        emitted = {each.name: each for each in self._runtime.status().emitters}
        rows = []
        for plan, kind, endpoint in tuple(self._made):
            if isinstance(endpoint, str):
                rows.append(_disabled(plan, kind, endpoint))
            elif isinstance(endpoint, TopicPublisher):
                rows.append(endpoint.status(emitted.get(plan.path)))
            else:
                rows.append(endpoint.status())
        return [*rows, *(each.status() for each in tuple(self._inputs))]

    def counts(self) -> dict[str, int]:
        """Returns how many topics, services and actions are open."""
        counts = {"topic": len(self._inputs), "service": 0, "action": 0}
        for _, kind, endpoint in self._made:
            counts[kind] += not isinstance(endpoint, str)
        return counts

    def _make(self, plan: Any, kind: InterfaceKind, make: Callable[[Any, Any, Domain], Endpoint]) -> None:
        if not plan.enabled:
            self._made.append((plan, kind, plan.reason or "disabled"))
            return
        try:
            interface_class = import_interface(plan.type, self._catalog)
            endpoint = make(plan, interface_class, self._domains.get(plan.domain_id))
            endpoint.open()
            if isinstance(endpoint, TopicPublisher) and not endpoint.silent:
                # A sensor measures when it wants to, whenever the robot's state arrives.
                robot = None if plan.path in self._runtime.capabilities.sensors else plan.robot
                self._runtime.add_emitter(endpoint, name=plan.path, rate=plan.publish_rate, robot=robot)
                self._runtime.on_reset(endpoint.reset)
        except _UNAVAILABLE as error:
            self._refuse(plan, kind, str(error))
        except _BAD_NAME as error:
            self._refuse(plan, kind, f"the name {plan.name!r} is not valid: {error}")
        except Exception as error:  # noqa: BLE001 - one interface must not keep the others from working
            self._refuse(plan, kind, f"it could not be created: {describe(error)}")
        else:
            self._made.append((plan, kind, endpoint))

    def _refuse(self, plan: InterfacePlan, kind: InterfaceKind, reason: str) -> None:
        self._made.append((plan, kind, reason))
        self._report(f"interface:{plan.path}", f"{plan.path}: the {kind} {plan.name} is disabled: {reason}")

    def _make_publisher(self, topic: TopicPlan, message_class: Any, domain: Domain) -> TopicPublisher:
        encoding, reason = None, ""
        factory = ENCODERS.get(topic.type)
        try:
            if factory is None:
                raise NoSourceError(f"nothing here makes messages of type {topic.type}")
            encoding = factory(topic, self._plan)
            if encoding.sensed and topic.path not in self._runtime.capabilities.sensors:
                encoding = None
                raise NoSourceError("the backend serves no sensor there")
        except NoSourceError as error:
            reason = str(error)
            self._report(
                f"source:{topic.path}", f"{topic.path}: the publisher {topic.name} is silent: {reason}"
            )
        return TopicPublisher(
            topic, message_class, domain, encoding=encoding, reason=reason, unmatched=self._unmatched,
            report=self._report, shared=self._shared,
        )  # fmt: skip

    def _make_subscription(self, topic: TopicPlan, message_class: Any, domain: Domain) -> TopicSubscription:
        delivery = self._runtime.bind_sink(topic)
        if delivery.accepted and topic.type == POSE_TYPE:
            self._frames.listen(topic)
        decoder = DECODERS.get(topic.type) if delivery.accepted else None
        reason = delivery.reason
        if delivery.accepted and decoder is None:
            reason = f"messages of type {topic.type} are not understood here"
        if reason:
            self._report(
                f"sink:{topic.path}", f"{topic.path}: what arrives on {topic.name} is dropped: {reason}"
            )
        return TopicSubscription(
            path=topic.path,
            name=topic.name,
            type_name=topic.type,
            message_class=message_class,
            domain=domain,
            qos=topic.qos,
            decoder=decoder,
            deliver=delivery.deliver,
            reason=reason,
            report=self._report,
            inform=self._inform,
        )

    def _make_service(
        self, plan: ServicePlan, service_class: Any, domain: Domain
    ) -> ServiceServer | ServiceClient:
        if plan.role == "server":
            return ServiceServer(plan, service_class, domain, self._report)
        return ServiceClient(plan, service_class, domain)

    def _make_action(
        self, plan: ActionPlan, action_class: Any, domain: Domain
    ) -> ActionServer | ActionClient:
        if plan.role == "server":
            return ActionServer(
                plan, action_class, domain, self._report, handlers=self._handlers, workers=self._workers,
                desk=self._runtime.goal_desk, time_ns=lambda: self._runtime.snapshot.time_ns,
            )  # fmt: skip
        return ActionClient(
            plan, action_class, domain, self._report, workers=self._workers, deadlines=self._deadlines
        )

    def _open_input(self, backend_input: BackendInput) -> None:
        name = input_topic(self._plan, backend_input)
        try:
            message_class = import_interface(backend_input.type, self._catalog)
            delivery = self._runtime.bind_input(backend_input)
            direct = self._runtime.capabilities.topic_driven and len(self._runtime.inputs) <= _MAX_DIRECT
            subscription = TopicSubscription(
                path="",
                name=name,
                type_name=backend_input.type,
                message_class=message_class,
                domain=self._domains.get(self._plan.robots[backend_input.robot].domain_id),
                qos=QosPlan(reliability=backend_input.reliability, depth=backend_input.depth),
                decoder=DECODERS[backend_input.type],
                deliver=delivery.deliver,
                direct=delivery if direct else None,
                report=self._report,
                inform=self._inform,
            )
            subscription.open()
        except KeyError:
            self._report(f"input:{name}", f"the backend's topic {name}: {backend_input.type} has no decoder")
        except (*_UNAVAILABLE, *_BAD_NAME) as error:
            self._report(f"input:{name}", f"the backend's topic {name} cannot be subscribed to: {error}")
        else:
            self._inputs.append(subscription)

    def _close(self, endpoint: Endpoint | ForeignFrames) -> None:
        try:
            endpoint.close()
        except Exception as error:  # noqa: BLE001 - the others are still to be closed
            self._report("ros.close", f"an interface failed to close: {describe(error)}")


def _disabled(plan: InterfacePlan, kind: InterfaceKind, reason: str) -> InterfaceStatus:
    return InterfaceStatus(
        kind=kind,
        role=plan.role,
        path=plan.path,
        name=plan.name,
        type=plan.type,
        domain_id=plan.domain_id,
        authored_rate=plan.publish_rate if isinstance(plan, TopicPlan) else None,
        state="disabled",
        reason=reason,
    )
