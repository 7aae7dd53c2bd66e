"""Subscriptions to the topics that the backend needs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from usd_ros_bridge.backends.base import BackendInput
from usd_ros_bridge.model.plan import BridgePlan, QosPlan
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.codecs import CODECS, NO_CODEC
from usd_ros_bridge.ros.codecs.encoding import MessageCodec
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.endpoints.factory import BAD_NAME, UNAVAILABLE
from usd_ros_bridge.ros.endpoints.subscription import TopicSubscription
from usd_ros_bridge.ros.interface_types import AmentCatalog, import_interface
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.subscriptions import InputBinding

_MAX_DIRECT = 16
"""Each message costs a look at every direct subscription: with more of them an executor, which knows, is cheaper."""


def input_topic(plan: BridgePlan, backend_input: BackendInput) -> str:
    """Return the absolute topic name of what a backend listens to, before remaps."""
    if backend_input.topic.startswith("/"):
        return backend_input.topic
    return f"{plan.robots[backend_input.robot].namespace.rstrip('/')}/{backend_input.topic}"


def input_conflicts(
    plan: BridgePlan, inputs: Iterable[BackendInput], main: Domain
) -> Iterable[tuple[str, int | None]]:
    """Yield the topics that the backend listens to, and those of the plan that remaps turn into the same.

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


class BackendInputs:
    """Subscriptions to the backend's input topics."""

    def __init__(self, domains: Domains, runtime: Runtime, *, inform: Report) -> None:
        """Start without inputs.

        Args:
            domains: Where they live.
            runtime: Whose backend it is; open.
            inform: For changes that people should see.
        """
        self._domains = domains
        self._runtime = runtime
        self._report = runtime.reporter.report
        self._inform = inform
        self._catalog = AmentCatalog()
        self._open: dict[Hashable, tuple[TopicSubscription, InputBinding]] = {}

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def __iter__(self) -> Iterator[tuple[TopicSubscription, InputBinding]]:
        """Yield what is open, and where its samples go."""
        return iter(tuple(self._open.values()))

    def open_missing(self) -> None:
        """Open the inputs that are not open yet. One that fails is reported; the others are not affected."""
        for each in self._runtime.inputs:
            if self._key(each) not in self._open:
                self._make(each)

    def rebind(self) -> None:
        """Deliver to another backend, once it is live; between two ticks."""
        for each in self._runtime.inputs:
            known = self._open.get(self._key(each))
            if known is not None:
                self._runtime.bind_input(each, into=known[1])

    def close_unused(self) -> None:
        """Close the inputs that the live backend does not need; while no callback runs."""
        wanted = {self._key(each) for each in self._runtime.inputs}
        for key in self._open.keys() - wanted:
            subscription, input_binding = self._open.pop(key)
            try:
                subscription.close()
            except Exception as error:  # noqa: BLE001 - the others are still to be closed
                self._report("ros.close", f"an interface failed to close: {describe(error)}")
            self._runtime.unbind(input_binding)

    def _key(self, backend_input: BackendInput) -> Hashable:
        plan = self._runtime.plan
        domain_id = plan.robots[backend_input.robot].domain_id
        quality = backend_input.reliability, backend_input.depth
        return input_topic(plan, backend_input), backend_input.type, domain_id, quality

    def _make(self, backend_input: BackendInput) -> None:
        name = input_topic(self._runtime.plan, backend_input)
        try:
            message_class = import_interface(backend_input.type, self._catalog)
            codec = CODECS.get(backend_input.type, NO_CODEC)
            if codec.decode is None:
                self._report(
                    f"input:{name}", f"the backend's topic {name}: {backend_input.type} has no decoder"
                )
                return
            self._subscribe(backend_input, name, message_class, codec)
        except (*UNAVAILABLE, *BAD_NAME) as error:
            self._report(f"input:{name}", f"the backend's topic {name} cannot be subscribed to: {error}")

    def _subscribe(
        self, backend_input: BackendInput, name: str, message_class: Any, codec: MessageCodec
    ) -> None:
        plan = self._runtime.plan
        direct = self._runtime.capabilities.topic_driven and len(self._runtime.inputs) <= _MAX_DIRECT
        domain = self._domains.get(plan.robots[backend_input.robot].domain_id)
        input_binding = self._runtime.bind_input(backend_input)
        try:
            subscription = TopicSubscription(
                path="",
                name=name,
                type_name=backend_input.type,
                message_class=message_class,
                domain=domain,
                qos=QosPlan(reliability=backend_input.reliability, depth=backend_input.depth),
                codec=codec,
                deliver=input_binding.deliver,
                direct=input_binding if direct else None,
                report=self._report,
                inform=self._inform,
            )
            subscription.open()
        except BaseException:
            self._runtime.unbind(input_binding)
            raise
        self._open[self._key(backend_input)] = subscription, input_binding
