"""All endpoints of an open bridge: made from the plan, one that cannot be made disabled alone, closed together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from rclpy.exceptions import InvalidServiceNameException, InvalidTopicNameException

from usd_ros_bridge.backends.protocol import BackendInput
from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import BridgeError, choices
from usd_ros_bridge.model.plan import (
    ActionPlan,
    BridgePlan,
    InterfaceKind,
    InterfacePlan,
    QosPlan,
    ServicePlan,
    TopicPlan,
)
from usd_ros_bridge.ros.calls import Call
from usd_ros_bridge.ros.cdr import SharedMessages
from usd_ros_bridge.ros.codecs import DECODERS, ENCODERS, MEASURED
from usd_ros_bridge.ros.codecs.protocol import NoSourceError
from usd_ros_bridge.ros.codecs.writer import Serialized
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains, Report
from usd_ros_bridge.ros.endpoints.action import ActionServer
from usd_ros_bridge.ros.endpoints.action_client import ActionClient
from usd_ros_bridge.ros.endpoints.publisher import TopicPublisher
from usd_ros_bridge.ros.endpoints.service import ServiceClient, ServiceServer
from usd_ros_bridge.ros.endpoints.subscription import TopicSubscription
from usd_ros_bridge.ros.foreign_frames import ForeignFrames
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.ros.message_handlers import MessageFeed, SourceFeed
from usd_ros_bridge.ros.messages import make_message
from usd_ros_bridge.ros.services import Services, backend_handler
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.ros.types import AmentCatalog, InterfaceTypeError, import_interface
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.report import describe

Endpoint = TopicPublisher | TopicSubscription | ServiceServer | ServiceClient | ActionServer | ActionClient

_UNAVAILABLE = (InterfaceTypeError, DomainLimitError)
POSE_TYPE = "geometry_msgs/msg/PoseStamped"
SERVICE_TIMEOUT_S = 5.0
_MAX_DIRECT = 16
"""Each message costs a look at every direct subscription: with more of them an executor, which knows, is cheaper."""
_BAD_NAME = (InvalidTopicNameException, InvalidServiceNameException)


def input_topic(plan: BridgePlan, backend_input: BackendInput) -> str:
    """Returns the absolute topic name of what a backend listens to, before remaps."""
    if backend_input.topic.startswith("/"):
        return backend_input.topic
    return f"{plan.robots[backend_input.robot].namespace.rstrip('/')}/{backend_input.topic}"


def input_conflicts(
    plan: BridgePlan, inputs: Iterable[BackendInput], main: Domain
) -> Iterable[tuple[str, int | None]]:
    """Yields the topics that the backend listens to, and those of the plan that remaps turn into the same.

    Args:
        plan: The plan.
        inputs: What the backend listens to.
        main: The default domain.
    """
    default_id, resolve = main.domain_id, main.node.resolve_topic_name
    heard = set()
    for each in inputs:
        domain_id = plan.robots[each.robot].domain_id
        name = input_topic(plan, each)
        heard.add((resolve(name), default_id if domain_id is None else domain_id))
        yield name, domain_id
    for topic in plan.topics:
        if not heard or not topic.enabled or topic.role != "publisher":
            continue
        if (resolve(topic.name), default_id if topic.domain_id is None else topic.domain_id) in heard:
            yield topic.name, topic.domain_id


class Interfaces:
    """The endpoints of a plan."""

    def __init__(
        self, plan: BridgePlan, domains: Domains, runtime: Runtime, *, handlers: Handlers, workers: Workers,
        services: Services, forbidden: Callable[[Domain], str], inform: Report, publish_unmatched: bool = False,
    ) -> None:  # fmt: skip
        """Stores what to make endpoints from.

        Args:
            plan: Which interfaces, after the backend's inputs have disabled those that conflict.
            domains: Where they live.
            runtime: What feeds publishers and takes samples; open.
            handlers: What is bound to interfaces.
            workers: Where it runs; closed by whoever made them.
            services: Who serves services.
            forbidden: Returns why the calling thread must not wait for an answer, "" where it may.
            inform: For changes that people should see.
            publish_unmatched: Publish also while nobody subscribes.
        """
        self._unmatched = publish_unmatched
        self._plan = plan
        self._domains = domains
        self._runtime = runtime
        self._handlers = handlers
        self._workers = workers
        self._services = services
        self._forbidden = forbidden
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
        self._handlers.changed = self._on_bound

    def close(self) -> None:
        """Closes all. Idempotent."""
        self._handlers.changed = None
        for _, _, endpoint in self._made:
            if isinstance(endpoint, TopicPublisher):
                self._runtime.remove_emitter(endpoint)
            if not isinstance(endpoint, str):
                self._close(endpoint)
        for subscription in self._inputs:
            self._close(subscription)
        self._close(self._frames)

    def call(
        self, target: str, request: Any, *, timeout: float | None, feedback: Callable[[Any], object] | None
    ) -> Call:
        """Calls the server that a client of the plan is for.

        Args:
            target: Prim path or absolute name of the client.
            request: Request or goal, or a mapping of its fields.
            timeout: Seconds until the call fails; None for the default.
            feedback: Takes feedback of a goal.

        Raises:
            BridgeError: There is no such client, or it is disabled, or the request does not fit its type.
        """
        clients = [each for each in self._made if each[0].role == "client"]
        named = [each for each in clients if each[0].path == target] or [
            each for each in clients if each[0].name == target
        ]
        if not named:
            there = choices(f"{each[0].path} ({each[0].name})" for each in clients)
            raise BridgeError(f"{quoted(target)} names no client of {self._plan.asset}; there are: {there}")
        plan, kind, endpoint = named[0]
        if isinstance(endpoint, ServiceClient):
            if feedback is not None:
                raise BridgeError(f"{plan.name} is a service: it gives no feedback")
            future = endpoint.call(request, timeout=SERVICE_TIMEOUT_S if timeout is None else timeout)
        elif isinstance(endpoint, ActionClient):
            goal = make_message(endpoint.action_class.Goal, request)
            future = endpoint.call(goal, feedback=feedback, timeout=timeout)
        else:
            raise BridgeError(f"the {kind} client {plan.name} is disabled: {endpoint}")
        return Call(future, forbidden=partial(self._forbidden, self._domains.get(plan.domain_id)))

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
            if isinstance(endpoint, TopicPublisher):
                self._add_emitter(endpoint)
                self._runtime.on_reset(endpoint.reset)
        except _UNAVAILABLE as error:
            self._refuse(plan, kind, str(error))
        except _BAD_NAME as error:
            self._refuse(plan, kind, f"the name {plan.name!r} is not valid: {error}")
        except Exception as error:  # noqa: BLE001 - one interface must not keep the others from working
            self._refuse(plan, kind, f"it could not be created: {describe(error)}")
        else:
            self._made.append((plan, kind, endpoint))

    def _add_emitter(self, publisher: TopicPublisher) -> None:
        if publisher.silent:
            return
        topic = publisher.topic
        # A sensor measures when it wants to, and so does a source, whenever the robot's state arrives.
        can = self._runtime.capabilities
        free = publisher.sourced or topic.path in can.sensors
        # Who measures beside the loop does so at the authored rate: what is there is sent in the next tick.
        beside = topic.path in can.beside and not publisher.sourced
        self._runtime.add_emitter(
            publisher,
            name=topic.path,
            rate=None if beside else topic.publish_rate,
            robot=None if free else topic.robot,
        )

    def _on_bound(self, kind: InterfaceKind, path: str) -> None:
        """Has a publisher look for its source, in the tick's thread."""
        for _, _, endpoint in tuple(self._made) if kind == "topic" else ():
            if isinstance(endpoint, TopicPublisher) and endpoint.topic.path == path:
                self._runtime.post(partial(self._change_source, endpoint))

    def _change_source(self, publisher: TopicPublisher) -> None:
        self._runtime.remove_emitter(publisher)
        publisher.look_for_source()
        self._add_emitter(publisher)

    def _refuse(self, plan: InterfacePlan, kind: InterfaceKind, reason: str) -> None:
        self._made.append((plan, kind, reason))
        self._report(f"interface:{plan.path}", f"{plan.path}: the {kind} {plan.name} is disabled: {reason}")

    def _make_publisher(self, topic: TopicPlan, message_class: Any, domain: Domain) -> TopicPublisher:
        encoding, reason = None, ""
        served = topic.path in self._runtime.capabilities.sensors
        factory = (MEASURED.get(topic.type) if served else None) or ENCODERS.get(topic.type)
        try:
            if factory is None:
                raise NoSourceError(
                    f"nothing here makes messages of type {topic.type}, and no source is bound"
                )
            encoding = factory(topic, self._plan)
            if encoding.sensed and not served:
                encoding = None
                raise NoSourceError("the backend serves no sensor there")
        except NoSourceError as error:
            reason = str(error)
        feed = SourceFeed(
            topic.path, message_class, handlers=self._handlers, workers=self._workers, report=self._report
        )
        publisher = TopicPublisher(
            topic, message_class, domain, encoding=encoding, reason=reason, unmatched=self._unmatched,
            report=self._report, shared=self._shared, feed=feed, regroup=self._runtime.emissions.regroup,
        )  # fmt: skip
        if publisher.silent:
            self._report(
                f"source:{topic.path}", f"{topic.path}: the publisher {topic.name} is silent: {reason}"
            )
        return publisher

    def _make_subscription(self, topic: TopicPlan, message_class: Any, domain: Domain) -> TopicSubscription:
        delivery = self._runtime.bind_sink(topic)
        if delivery.accepted and topic.type == POSE_TYPE:
            self._frames.listen(topic)
        decoder = DECODERS.get(topic.type) if delivery.accepted else None
        reason = delivery.reason
        if delivery.accepted and decoder is None:
            reason = f"messages of type {topic.type} are not understood here"
        feed = MessageFeed(
            topic.path, message_class, handlers=self._handlers, workers=self._workers, report=self._report
        )
        if reason and feed.bound is None:
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
            feed=feed,
            reason=reason,
            report=self._report,
            inform=self._inform,
        )

    def _make_service(
        self, plan: ServicePlan, service_class: Any, domain: Domain
    ) -> ServiceServer | ServiceClient:
        if plan.role == "server":
            return ServiceServer(
                plan,
                service_class,
                domain,
                services=self._services,
                workers=self._workers,
                report=self._report,
            )
        return ServiceClient(plan, service_class, domain, workers=self._workers)

    def _make_action(
        self, plan: ActionPlan, action_class: Any, domain: Domain
    ) -> ActionServer | ActionClient:
        if plan.role == "server":
            return ActionServer(
                plan, action_class, domain, self._report, handlers=self._handlers, workers=self._workers,
                backend=backend_handler(self._runtime, plan), desk=self._runtime.goal_desk,
                time_ns=lambda: self._runtime.time_ns or 0,
            )  # fmt: skip
        return ActionClient(
            plan, action_class, domain, self._report, workers=self._workers, deadlines=self._workers.deadlines
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
