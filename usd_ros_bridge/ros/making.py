"""Makes endpoints: what an interface of a plan needs to live, by its kind and role. One that fails fails alone."""

from __future__ import annotations

from typing import Any

from rclpy.exceptions import InvalidServiceNameException, InvalidTopicNameException

from usd_ros_bridge.backends.protocol import Capabilities
from usd_ros_bridge.model.plan import ActionPlan, BridgePlan, InterfaceKind, ServicePlan, TopicPlan
from usd_ros_bridge.ros.cdr import SharedMessages
from usd_ros_bridge.ros.codecs import DECODERS, ENCODERS, MEASURED, SOURCE
from usd_ros_bridge.ros.codecs.protocol import Decoder, Encoding, EncodingFactory, NoSourceError
from usd_ros_bridge.ros.codecs.serialized import Serialized
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains, Report
from usd_ros_bridge.ros.endpoints.action import ActionServer
from usd_ros_bridge.ros.endpoints.action_client import ActionClient
from usd_ros_bridge.ros.endpoints.publisher import TopicPublisher
from usd_ros_bridge.ros.endpoints.service import ServiceClient, ServiceServer
from usd_ros_bridge.ros.endpoints.subscription import TopicSubscription
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.ros.live.revision import Row
from usd_ros_bridge.ros.message_handlers import MessageFeed, SourceFeed
from usd_ros_bridge.ros.services import Services, backend_handler
from usd_ros_bridge.ros.types import AmentCatalog, InterfaceTypeError, import_interface
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.delivery import Delivery
from usd_ros_bridge.runtime.parts import RuntimeParts
from usd_ros_bridge.runtime.report import describe

Endpoint = TopicPublisher | TopicSubscription | ServiceServer | ServiceClient | ActionServer | ActionClient

UNAVAILABLE = (InterfaceTypeError, DomainLimitError)
BAD_NAME = (InvalidTopicNameException, InvalidServiceNameException)


def encoding_for(topic: TopicPlan, plan: BridgePlan, can: Capabilities) -> tuple[Encoding | None, str]:
    """Returns what makes a publisher's messages; None and why, where nothing does."""
    served = topic.path in can.sensors
    if topic.source:
        factory: EncodingFactory | None = SOURCE
    else:
        factory = (MEASURED.get(topic.type) if served else None) or ENCODERS.get(topic.type)
    if factory is None:
        return None, f"nothing here makes messages of type {topic.type}, and no source is bound"
    try:
        encoding = factory(topic, plan)
    except NoSourceError as error:
        return None, str(error)
    if encoding.sensed and not served:
        return None, "the backend serves no sensor there"
    return encoding, ""


def decoding_for(topic: TopicPlan, delivery: Delivery) -> tuple[Decoder | None, str]:
    """Returns what makes samples of a subscription's messages; None and why, where nothing takes any."""
    decoder = DECODERS.get(topic.type) if delivery.accepted else None
    if delivery.accepted and decoder is None:
        return None, f"messages of type {topic.type} are not understood here"
    return decoder, delivery.reason


class EndpointMaker:
    """Makes endpoints of interfaces, and opens them.

    Attributes:
        deliveries: Where the samples of each subscription go.
    """

    def __init__(
        self, domains: Domains, runtime: Runtime, *, handlers: Handlers, workers: Workers, services: Services,
        inform: Report, publish_unmatched: bool,
    ) -> None:  # fmt: skip
        """Stores what endpoints are made from; arguments as those of `Interfaces`."""
        self._domains = domains
        self._runtime = runtime
        self._handlers = handlers
        self._workers = workers
        self._services = services
        self._report = runtime.reporter.report
        self._inform = inform
        self._unmatched = publish_unmatched
        self._catalog = AmentCatalog()
        self.deliveries: dict[TopicSubscription, Delivery] = {}

    def make(
        self,
        plan: Any,
        kind: InterfaceKind,
        shared: SharedMessages[Serialized],
        parts: RuntimeParts | None = None,
    ) -> Row:
        """Opens the endpoint of an interface; a row without one, with a report, where that is not possible.

        Args:
            plan: The interface.
            kind: Topic, service or action.
            shared: Messages that publishers write in turn.
            parts: What follows from its plan; the runtime's by default.
        """
        if not plan.enabled:
            return Row(plan, kind, plan.reason or "disabled")
        try:
            endpoint = self._make(plan, kind, shared, parts or self._runtime.parts)
            self._open(endpoint)
        except UNAVAILABLE as error:
            return self.refuse(plan, kind, str(error))
        except BAD_NAME as error:
            return self.refuse(plan, kind, f"the name {plan.name!r} is not valid: {error}")
        except Exception as error:  # noqa: BLE001 - one interface must not keep the others from working
            return self.refuse(plan, kind, f"it could not be created: {describe(error)}")
        return Row(plan, kind, endpoint)

    def refuse(self, plan: Any, kind: InterfaceKind, reason: str) -> Row:
        """Returns the row of an interface that cannot be, with a report."""
        self._report(f"interface:{plan.path}", f"{plan.path}: the {kind} {plan.name} is disabled: {reason}")
        return Row(plan, kind, reason)

    def forget(self, subscription: TopicSubscription) -> None:
        """Has nothing take what a subscription delivers, which is closed."""
        delivery = self.deliveries.pop(subscription, None)
        if delivery is not None:
            self._runtime.unbind(delivery)

    def _open(self, endpoint: Endpoint) -> None:
        try:
            endpoint.open()
        except BaseException:
            if isinstance(endpoint, TopicSubscription):
                self.forget(endpoint)
            raise

    def _make(
        self, plan: Any, kind: InterfaceKind, shared: SharedMessages[Serialized], parts: RuntimeParts
    ) -> Endpoint:
        interface_class = import_interface(plan.type, self._catalog)
        domain = self._domains.get(plan.domain_id)
        if kind == "service":
            return self._make_service(plan, interface_class, domain)
        if kind == "action":
            return self._make_action(plan, interface_class, domain)
        if plan.role == "publisher":
            return self._make_publisher(plan, interface_class, domain, shared, parts)
        return self._make_subscription(plan, interface_class, domain)

    def _make_publisher(
        self,
        topic: TopicPlan,
        message_class: Any,
        domain: Domain,
        shared: SharedMessages[Serialized],
        parts: RuntimeParts,
    ) -> TopicPublisher:
        encoding, reason = encoding_for(topic, parts.plan, parts.capabilities)
        feed = SourceFeed(
            topic.path, message_class, handlers=self._handlers, workers=self._workers, report=self._report
        )
        publisher = TopicPublisher(
            topic, message_class, domain, encoding=encoding, reason=reason, unmatched=self._unmatched,
            report=self._report, shared=shared, feed=feed, regroup=self._runtime.emissions.regroup,
        )  # fmt: skip
        if publisher.silent:
            self._report(
                f"source:{topic.path}", f"{topic.path}: the publisher {topic.name} is silent: {reason}"
            )
        return publisher

    def _make_subscription(self, topic: TopicPlan, message_class: Any, domain: Domain) -> TopicSubscription:
        delivery = self._runtime.bind_sink(topic)
        decoder, reason = decoding_for(topic, delivery)
        feed = MessageFeed(
            topic.path, message_class, handlers=self._handlers, workers=self._workers, report=self._report
        )
        if reason and feed.bound is None:
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
            decoder=decoder,
            deliver=delivery.deliver,
            feed=feed,
            reason=reason,
            report=self._report,
            inform=self._inform,
        )
        self.deliveries[subscription] = delivery
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
                plan, action_class, domain, self._report, handlers=self._handlers, workers=self._workers,
                backend=backend_handler(self._runtime, plan), desk=self._runtime.goal_desk,
                time_ns=lambda: self._runtime.time_ns or 0,
            )  # fmt: skip
        return ActionClient(
            plan, action_class, domain, self._report, workers=self._workers, deadlines=self._workers.deadlines
        )
