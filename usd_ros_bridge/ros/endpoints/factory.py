"""Endpoint factory: open the endpoint of an interface, by kind and role. A failure disables that one alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rclpy.exceptions import InvalidServiceNameException, InvalidTopicNameException

from usd_ros_bridge.backends.base import Capabilities
from usd_ros_bridge.model.plan import (
    ActionPlan,
    BridgePlan,
    InterfaceKind,
    InterfacePlan,
    ServicePlan,
    TopicPlan,
)
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.codecs import CODECS, NO_CODEC
from usd_ros_bridge.ros.codecs.encoding import Encoding, MessageCodec, NoSourceError
from usd_ros_bridge.ros.codecs.message_encoder import EncodedMessages
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains
from usd_ros_bridge.ros.endpoints.action_client import ActionClient
from usd_ros_bridge.ros.endpoints.action_server import ActionServer
from usd_ros_bridge.ros.endpoints.handlers import Handlers, MessageFeed, SourceFeed
from usd_ros_bridge.ros.endpoints.publisher import TopicPublisher
from usd_ros_bridge.ros.endpoints.service import ServiceClient, ServiceServer
from usd_ros_bridge.ros.endpoints.service_handlers import Services, backend_handler
from usd_ros_bridge.ros.endpoints.subscription import TopicSubscription
from usd_ros_bridge.ros.interface_types import AmentCatalog, InterfaceTypeError, import_interface
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.plan_binding import PlanBinding
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.subscriptions import InputBinding

Endpoint = TopicPublisher | TopicSubscription | ServiceServer | ServiceClient | ActionServer | ActionClient

UNAVAILABLE = (InterfaceTypeError, DomainLimitError)
BAD_NAME = (InvalidTopicNameException, InvalidServiceNameException)


@dataclass(frozen=True, slots=True)
class InterfaceRow:
    """Interface of a plan and its endpoint.

    Attributes:
        plan: The interface.
        kind: Topic, service or action.
        endpoint: Open; or the reason why there is none.
    """

    plan: Any
    kind: InterfaceKind
    endpoint: Any

    @property
    def is_open(self) -> bool:
        """Return whether there is an endpoint."""
        return not isinstance(self.endpoint, str)


def list_interfaces(plan: BridgePlan) -> Iterator[tuple[InterfacePlan, InterfaceKind]]:
    """Yield all interfaces of a plan, in the order in which they are opened."""
    for topic in plan.topics:
        yield topic, "topic"
    for service in plan.services:
        yield service, "service"
    for action in plan.actions:
        yield action, "action"


def encoding_for(topic: TopicPlan, plan: BridgePlan, can: Capabilities) -> tuple[Encoding | None, str]:
    """Return the encoding of a publisher; None and why, where there is nothing to publish."""
    codec = CODECS.get(topic.type, NO_CODEC)
    served = topic.path in can.sensors
    factory = (codec.encode_measured if served else None) or codec.encode
    if topic.source:
        factory = codec.encode_attribute
    if factory is None:
        fault = CODECS.fault(topic.type)
        return None, fault or f"nothing here makes messages of type {topic.type}, and no source is bound"
    try:
        encoding = factory(topic, plan)
    except NoSourceError as error:
        return None, str(error)
    if encoding.sensed and not served:
        return None, "the backend serves no sensor there"
    if not encoding.sensed and any(sensor.path == topic.path for sensor in plan.sensors):
        return None, f"messages of type {topic.type} show no measurement of a sensor"
    return encoding, ""


def codec_for(topic: TopicPlan, input_binding: InputBinding) -> tuple[MessageCodec | None, str]:
    """Return the codec that decodes a subscription's messages; None and why, where nothing takes them."""
    codec = CODECS.get(topic.type, NO_CODEC)
    if input_binding.accepted and codec.decode is None:
        return None, CODECS.fault(topic.type) or f"messages of type {topic.type} are not understood here"
    return codec if input_binding.accepted else None, input_binding.reason


class EndpointFactory:
    """Make and open the endpoints of interfaces.

    Attributes:
        input_bindings: Where the samples of each subscription go.
    """

    def __init__(
        self,
        domains: Domains,
        runtime: Runtime,
        *,
        handlers: Handlers,
        workers: Workers,
        services: Services,
        inform: Report,
        publish_unmatched: bool,
    ) -> None:
        """Store what endpoints are made from; arguments as those of `Interfaces`."""
        self._domains = domains
        self._runtime = runtime
        self._handlers = handlers
        self._workers = workers
        self._services = services
        self._report = runtime.reporter.report
        self._inform = inform
        self._unmatched = publish_unmatched
        self._catalog = AmentCatalog()
        self._messages = EncodedMessages()
        self.input_bindings: dict[TopicSubscription, InputBinding] = {}

    def make(
        self,
        plan: Any,
        kind: InterfaceKind,
        binding: PlanBinding | None = None,
    ) -> InterfaceRow:
        """Open the endpoint of an interface; a row without one, with a report, where that is not possible.

        Args:
            plan: The interface.
            kind: Topic, service or action.
            binding: Runtime objects of its plan; the live ones by default.
        """
        if not plan.enabled:
            return InterfaceRow(plan, kind, plan.reason or "disabled")
        try:
            endpoint = self._make(plan, kind, binding or self._runtime.binding)
            self._open(endpoint)
        except UNAVAILABLE as error:
            return self.refuse(plan, kind, str(error))
        except BAD_NAME as error:
            return self.refuse(plan, kind, f"the name {plan.name!r} is not valid: {error}")
        except Exception as error:  # noqa: BLE001 - one interface must not keep the others from working
            return self.refuse(plan, kind, f"it could not be created: {describe(error)}")
        return InterfaceRow(plan, kind, endpoint)

    def refuse(self, plan: Any, kind: InterfaceKind, reason: str) -> InterfaceRow:
        """Return the row of an interface that cannot be, with a report."""
        self._report(f"interface:{plan.path}", f"{plan.path}: the {kind} {plan.name} is disabled: {reason}")
        return InterfaceRow(plan, kind, reason)

    def forget(self, subscription: TopicSubscription) -> None:
        """Unbind a closed subscription from its sink."""
        input_binding = self.input_bindings.pop(subscription, None)
        if input_binding is not None:
            self._runtime.unbind(input_binding)

    def _open(self, endpoint: Endpoint) -> None:
        try:
            endpoint.open()
        except BaseException:
            if isinstance(endpoint, TopicSubscription):
                self.forget(endpoint)
            raise

    def _make(self, plan: Any, kind: InterfaceKind, binding: PlanBinding) -> Endpoint:
        interface_class = import_interface(plan.type, self._catalog)
        domain = self._domains.get(plan.domain_id)
        if kind == "service":
            return self._make_service(plan, interface_class, domain)
        if kind == "action":
            return self._make_action(plan, interface_class, domain)
        if plan.role == "publisher":
            return self._make_publisher(plan, interface_class, domain, binding)
        return self._make_subscription(plan, interface_class, domain)

    def _make_publisher(
        self,
        topic: TopicPlan,
        message_class: Any,
        domain: Domain,
        binding: PlanBinding,
    ) -> TopicPublisher:
        encoding, reason = encoding_for(topic, binding.plan, binding.capabilities)
        feed = SourceFeed(
            topic.path, message_class, handlers=self._handlers, workers=self._workers, report=self._report
        )
        publisher = TopicPublisher(
            topic,
            message_class,
            domain,
            encoding=encoding,
            reason=reason,
            unmatched=self._unmatched,
            report=self._report,
            messages=self._messages,
            feed=feed,
        )
        if publisher.is_silent:
            self._report(
                f"source:{topic.path}", f"{topic.path}: the publisher {topic.name} is silent: {reason}"
            )
        return publisher

    def _make_subscription(self, topic: TopicPlan, message_class: Any, domain: Domain) -> TopicSubscription:
        input_binding = self._runtime.bind_sink(topic)
        codec, reason = codec_for(topic, input_binding)
        feed = MessageFeed(
            topic.path, message_class, handlers=self._handlers, workers=self._workers, report=self._report
        )
        if reason and feed.bound is None and not input_binding.is_reported:
            self._report(
                f"sink:{topic.path}", f"{topic.path}: what arrives on {topic.name} is dropped: {reason}"
            )
        subscription = TopicSubscription(
            path=topic.path,
            name=topic.name,
            type_name=topic.type,
            message_class=message_class,
            domain=domain,
            qos=topic.qos,
            codec=codec,
            deliver=input_binding.deliver,
            feed=feed,
            reason=reason,
            report=self._report,
            inform=self._inform,
        )
        self.input_bindings[subscription] = input_binding
        return subscription

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
                plan,
                action_class,
                domain,
                self._report,
                handlers=self._handlers,
                workers=self._workers,
                backend=backend_handler(self._runtime, plan),
                goal_queue=self._runtime.goal_queue,
                time_ns=lambda: self._runtime.time_ns or 0,
            )
        return ActionClient(plan, action_class, domain, self._report, workers=self._workers)
