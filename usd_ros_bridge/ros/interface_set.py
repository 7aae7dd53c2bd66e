"""All endpoints of an open bridge. One that cannot be made is disabled; the others are not affected."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from usd_ros_bridge.errors import BridgeError, alternatives, quoted
from usd_ros_bridge.model.message_types import POSE_STAMPED, TypeCatalog
from usd_ros_bridge.model.plan import (
    BridgePlan,
    InterfaceKind,
    InterfacePlan,
    TopicPlan,
)
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.endpoints.action_client import ActionClient
from usd_ros_bridge.ros.endpoints.action_server import ActionServer
from usd_ros_bridge.ros.endpoints.backend_inputs import BackendInputs
from usd_ros_bridge.ros.endpoints.calls import Call
from usd_ros_bridge.ros.endpoints.factory import (
    Endpoint,
    EndpointFactory,
    InterfaceRow,
    codec_for,
    encoding_for,
    list_interfaces,
)
from usd_ros_bridge.ros.endpoints.handlers import Handlers
from usd_ros_bridge.ros.endpoints.publisher import TopicPublisher
from usd_ros_bridge.ros.endpoints.service import ServiceClient, ServiceServer
from usd_ros_bridge.ros.endpoints.service_handlers import Services, backend_handler
from usd_ros_bridge.ros.endpoints.subscription import TopicSubscription
from usd_ros_bridge.ros.interface_types import AmentCatalog, make_message
from usd_ros_bridge.ros.tf.listener import ForeignFrames
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange
from usd_ros_bridge.runtime.runtime import Runtime


@dataclass(slots=True, kw_only=True, eq=False)
class Reconciliation:
    """Interfaces on their way from one plan to the next.

    Attributes:
        plan: Plan to come.
        rows: Rows of its interfaces, in its order; None for one that is still to be opened.
        kept: Pairs of rows, old and new, whose endpoint stays open.
        dropped: Rows whose endpoints close.
        encoders: New encoder of kept publishers that need one; or None, and the reason.
    """

    plan: BridgePlan
    rows: list[InterfaceRow | None] = field(default_factory=list)
    kept: list[tuple[InterfaceRow, InterfaceRow]] = field(default_factory=list)
    dropped: list[InterfaceRow] = field(default_factory=list)
    encoders: dict[Any, tuple[Any, str]] = field(default_factory=dict)

    def reopen(self, old: InterfaceRow, new: InterfaceRow) -> None:
        """Close a kept endpoint after all, and open another one in its place."""
        self.kept.remove((old, new))
        self.dropped.append(old)
        self.rows[self.rows.index(new)] = None

    @property
    def added(self) -> list[InterfaceRow]:
        """Rows that were made for this plan so far."""
        kept = {id(row) for _, row in self.kept}
        return [row for row in self.rows if row is not None and id(row) not in kept]

    def opened(self) -> tuple[str, ...]:
        """Return the interfaces that opened, as `publisher /rover/scan`; complete at the end of the change."""
        return tuple(_describe(row) for row in self.added if row.is_open)

    def closed(self) -> tuple[str, ...]:
        """Return the interfaces that close, likewise."""
        return tuple(_describe(row) for row in self.dropped)


def reconcile(rows: list[InterfaceRow], plan: BridgePlan) -> Reconciliation:
    """Compare open interfaces with a plan to come.

    An endpoint stays open if prim, role, name, type, domain, quality of service and what it commands are the same: its
    peers notice nothing.
    """
    result = Reconciliation(plan=plan)
    live = {_key(row.plan, row.kind): row for row in rows if row.is_open}
    for new, kind in list_interfaces(plan):
        if not new.enabled:
            result.rows.append(InterfaceRow(new, kind, new.reason or "disabled"))
            continue
        old = live.pop(_key(new, kind), None)
        if old is None:
            result.rows.append(None)
            continue
        row = InterfaceRow(new, kind, old.endpoint)
        result.rows.append(row)
        result.kept.append((old, row))
    result.dropped = list(live.values())
    return result


def _describe(row: InterfaceRow) -> str:
    role = row.plan.role if row.kind == "topic" else f"{row.kind} {row.plan.role}"
    return f"{role} {row.plan.name}"


def _key(plan: InterfacePlan, kind: InterfaceKind) -> Hashable:
    more = (plan.qos, plan.command_interface) if isinstance(plan, TopicPlan) else None
    return kind, plan.path, plan.role, plan.name, plan.type, plan.domain_id, more


def clashes(
    interfaces: Iterable[tuple[InterfacePlan, InterfaceKind]], catalog: TypeCatalog, default_id: int
) -> dict[int, str]:
    """Return why interfaces cannot be, by their number: one before them has their name with another type.

    The first of them has it, so that it does not depend on what there was before. Publishers and subscriptions clash
    as well, clients and servers too.

    Args:
        interfaces: In the order of the plan.
        catalog: A type that is not installed takes no name.
        default_id: The domain of those that name none.
    """
    first: dict[Hashable, InterfacePlan] = {}
    reasons = {}
    for number, (plan, kind) in enumerate(interfaces):
        if not plan.enabled:
            continue
        key = kind, plan.name, default_id if plan.domain_id is None else plan.domain_id
        other = first.get(key)
        if other is None:
            if catalog.contains(plan.type):
                first[key] = plan
        elif other.type != plan.type:
            reasons[number] = f"{other.path} has the name {plan.name} with the type {other.type}"
    return reasons


SERVICE_TIMEOUT_S = 5.0


class Interfaces:
    """The endpoints of a plan."""

    def __init__(
        self,
        plan: BridgePlan,
        domains: Domains,
        runtime: Runtime,
        *,
        handlers: Handlers,
        workers: Workers,
        services: Services,
        forbidden: Callable[[Domain], str],
        inform: Report,
        publish_unmatched: bool = False,
    ) -> None:
        """Store what to make endpoints from.

        Args:
            plan: Which interfaces, after the backend's inputs have disabled those that conflict.
            domains: Where they live.
            runtime: What feeds publishers and takes samples; open.
            handlers: What is bound to interfaces.
            workers: Where it runs; closed by whoever made them.
            services: Handlers of services.
            forbidden: Returns why the calling thread must not wait for an answer, "" where it may.
            inform: For changes that people should see.
            publish_unmatched: Publish also while nobody subscribes.
        """
        self._plan = plan
        self._domains = domains
        self._runtime = runtime
        self._handlers = handlers
        self._services = services
        self._forbidden = forbidden
        self._report = runtime.reporter.report
        self._inform = inform
        self._factory = EndpointFactory(
            domains,
            runtime,
            handlers=handlers,
            workers=workers,
            services=services,
            inform=inform,
            publish_unmatched=publish_unmatched,
        )
        self._frames = self._make_frames(plan)
        self._made: list[InterfaceRow] = []
        self._catalog = AmentCatalog()
        self._inputs = BackendInputs(domains, runtime, inform=inform)

    @property
    def inputs(self) -> BackendInputs:
        """Return the backend's inputs."""
        return self._inputs

    def open(self) -> None:
        """Open everything that is enabled. An interface that fails is disabled, with a reason and a warning."""
        self._runtime.frame_resolver = self._frames
        self._inputs.open_missing()
        refused = self._clashes(self._plan)
        for number, (plan, kind) in enumerate(list_interfaces(self._plan)):
            reason = refused.get(number)
            row = self._factory.refuse(plan, kind, reason) if reason else self._factory.make(plan, kind)
            self._made.append(row)
            self._attach(row)
            self._listen(row)
        self._handlers.changed = self._on_bound

    def close(self) -> None:
        """Close all. Idempotent."""
        self._handlers.changed = None
        for row in self._made:
            self._detach(row)
            self._close_row(row)
        for subscription, _ in self._inputs:
            self._close(subscription)
        self._close(self._frames)

    # --- Change ------------------------------------------------------------------------------------------------

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Compare open interfaces with a plan to come, and open new publishers; as `PlanComponent.prepare`."""
        before = self._runtime.plan
        changed = self._reconcile(plan, binding)
        replaced = None if _has_same_origins(before, plan) else self._frames

        def commit() -> None:
            if replaced is not None:
                self._runtime.frame_resolver = self._frames = self._make_frames(plan)
            self._inputs.rebind()
            self._commit(changed)

        def cleanup() -> None:
            for row in changed.dropped:
                self._close_row(row)
            if replaced is not None:
                self._close(replaced)
            self._inputs.close_unused()

        def finish() -> None:
            self._inputs.open_missing()
            self._open_missing(changed)

        return PreparedChange(
            commit=commit,
            rollback=partial(self._rollback, changed),
            cleanup=cleanup,
            finish=finish,
            opened=changed.opened,
            closed=changed.closed,
            kept=len(changed.kept),
        )

    def _reconcile(self, plan: BridgePlan, binding: PlanBinding) -> Reconciliation:
        changed = reconcile(self._made, plan)
        try:
            self._prepare_rows(changed, binding)
        except BaseException:
            self._rollback(changed)
            raise
        return changed

    def _prepare_rows(self, changed: Reconciliation, binding: PlanBinding) -> None:
        """Make new encoders of kept publishers, and open new publishers."""
        plan, alike = changed.plan, binding.snapshot is self._runtime.snapshot
        refused = self._clashes(plan)
        clashing = {id(changed.rows[number]) for number in refused}
        for old, new in tuple(changed.kept):
            if id(new) in clashing:
                changed.reopen(old, new)
            elif isinstance(new.endpoint, TopicPublisher) and not (alike and old.plan == new.plan):
                try:
                    encoding, reason = encoding_for(new.plan, binding.plan, binding.capabilities)
                    encoder = None if encoding is None else new.endpoint.make_encoder(new.plan, encoding)
                except Exception:  # noqa: BLE001 - the publisher is made anew, which reports what is wrong
                    changed.reopen(old, new)
                else:
                    changed.encoders[new.endpoint] = encoder, reason
        # A participant has one type for a topic: a publisher of another type must close first.
        there = {_topic_key(row.plan): row.plan.type for row in changed.dropped if row.kind == "topic"}
        for index, (topic, kind) in enumerate(list_interfaces(plan)):
            if index in refused:
                changed.rows[index] = self._factory.refuse(topic, kind, refused[index])
            missing = changed.rows[index] is None and kind == "topic" and topic.role == "publisher"
            if missing and there.get(_topic_key(topic), topic.type) == topic.type:
                changed.rows[index] = self._factory.make(topic, kind, binding)

    def _commit(self, changed: Reconciliation) -> None:
        self._plan = changed.plan
        for row in changed.dropped:
            self._detach(row)
        for _, new in changed.kept:
            self._adapt(new, changed)
        for row in changed.added:
            self._attach(row)
        self._made = [row for row in changed.rows if row is not None]

    def _rollback(self, changed: Reconciliation) -> None:
        for row in changed.added:
            self._close_row(row)

    def _open_missing(self, changed: Reconciliation) -> None:
        """Open what could not be open beside the old plan: all but publishers, which the tick knows already."""
        for index, (plan, kind) in enumerate(list_interfaces(changed.plan)):
            if changed.rows[index] is None:
                changed.rows[index] = row = self._factory.make(plan, kind)
                self._runtime.post(partial(self._attach, row))
        self._made = [row for row in changed.rows if row is not None]
        for row in self._made:
            self._listen(row)
        for _, row in changed.kept:
            if isinstance(row.endpoint, ServiceServer):
                self._services.prepare(row.plan)
            elif isinstance(row.endpoint, ActionServer):
                row.endpoint.backend = backend_handler(self._runtime, row.plan)

    def _adapt(self, row: InterfaceRow, changed: Reconciliation) -> None:
        """Adapt a kept endpoint to its interface in the new plan."""
        endpoint, runtime = row.endpoint, self._runtime
        if isinstance(endpoint, TopicPublisher):
            was_silent = endpoint.is_silent
            if endpoint in changed.encoders:
                endpoint.update(row.plan, *changed.encoders[endpoint])
            if endpoint.is_silent != was_silent:
                runtime.remove_publication(endpoint)
                self._add_publication(endpoint)
            elif not was_silent:
                rate, robot = endpoint.schedule(runtime.capabilities)
                runtime.change_publication(endpoint, rate=rate, robot=robot)
        elif isinstance(endpoint, TopicSubscription):
            input_binding = runtime.bind_sink(row.plan, into=self._factory.input_bindings[endpoint])
            endpoint.update(*codec_for(row.plan, input_binding))
        else:
            endpoint.plan = row.plan

    def _listen(self, row: InterfaceRow) -> None:
        """Listen to other nodes' transforms where a subscription takes poses in their frames."""
        endpoint = row.endpoint
        places = row.plan.type == POSE_STAMPED and isinstance(endpoint, TopicSubscription)
        if places and self._factory.input_bindings[endpoint].accepted:
            self._frames.listen(row.plan)

    def _clashes(self, plan: BridgePlan) -> dict[int, str]:
        return clashes(list_interfaces(plan), self._catalog, self._domains.main.domain_id)

    def _make_frames(self, plan: BridgePlan) -> ForeignFrames:
        return ForeignFrames(plan, self._domains, report=self._report, inform=self._inform)

    # --- Asking ------------------------------------------------------------------------------------------------

    def call(
        self, target: str, request: Any, *, timeout: float | None, feedback: Callable[[Any], object] | None
    ) -> Call:
        """Call the server of a client of the plan.

        Args:
            target: Prim path or absolute name of the client.
            request: Request or goal, or a mapping of its fields.
            timeout: Seconds until the call fails; None for the default.
            feedback: Takes feedback of a goal.

        Raises:
            BridgeError: There is no such client, or it is disabled, or the request does not fit its type.
        """
        clients = [each for each in self._made if each.plan.role == "client"]
        named = [each for each in clients if each.plan.path == target] or [
            each for each in clients if each.plan.name == target
        ]
        if not named:
            there = alternatives(target, (f"{each.plan.path} ({each.plan.name})" for each in clients))
            raise BridgeError(f"{quoted(target)} names no client of {self._plan.asset}; {there}")
        plan, kind, endpoint = named[0].plan, named[0].kind, named[0].endpoint
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
        """Return a row for every interface of the plan, then one for every topic that the backend listens to."""
        return list(self.rows())

    def rows(self) -> Iterator[InterfaceStatus]:
        """Yield the rows of `status`, each made on demand, as thousands take a while."""
        publications, now_ns = self._runtime.publications, self._runtime.time_ns or 0
        for row in tuple(self._made):
            plan, kind, endpoint = row.plan, row.kind, row.endpoint
            if isinstance(endpoint, str):
                yield _disabled(plan, kind, endpoint)
            elif isinstance(endpoint, TopicPublisher):
                yield endpoint.status(publications.status_of(endpoint, now_ns))
            elif isinstance(endpoint, TopicSubscription):
                input_binding = self._factory.input_bindings.get(endpoint)
                yield endpoint.status(None if input_binding is None else input_binding.status())
            else:
                yield endpoint.status()
        for subscription, input_binding in self._inputs:
            yield subscription.status(input_binding.status())

    def refused(self) -> dict[str, str]:
        """Return by prim path why interfaces that the plan enables could not be opened."""
        made = tuple(self._made)
        return {
            row.plan.path: row.endpoint for row in made if row.plan.enabled and isinstance(row.endpoint, str)
        }

    def counts(self) -> dict[str, int]:
        """Return how many topics, services and actions are open."""
        counts = {"topic": len(self._inputs), "service": 0, "action": 0}
        for row in self._made:
            counts[row.kind] += not isinstance(row.endpoint, str)
        return counts

    # --- Own ---------------------------------------------------------------------------------------------------

    def _attach(self, row: InterfaceRow) -> None:
        """Publish what a publisher shows from now on; in the tick's thread, or before the first tick."""
        if isinstance(row.endpoint, TopicPublisher):
            self._add_publication(row.endpoint)

    def _detach(self, row: InterfaceRow) -> None:
        if isinstance(row.endpoint, TopicPublisher):
            self._runtime.remove_publication(row.endpoint)

    def _close_row(self, row: InterfaceRow) -> None:
        if isinstance(row.endpoint, str):
            return
        self._close(row.endpoint)
        if isinstance(row.endpoint, TopicSubscription):
            self._factory.forget(row.endpoint)
        elif isinstance(row.endpoint, ServiceServer):
            self._services.forget(row.plan)

    def _add_publication(self, publisher: TopicPublisher) -> None:
        if not publisher.is_silent:
            rate, robot = publisher.schedule(self._runtime.capabilities)
            self._runtime.add_publication(publisher, name=publisher.topic.path, rate=rate, robot=robot)

    def _on_bound(self, kind: InterfaceKind, path: str) -> None:
        """Look up a publisher's source, in the tick's thread."""
        for row in tuple(self._made) if kind == "topic" else ():
            if isinstance(row.endpoint, TopicPublisher) and row.plan.path == path:
                self._runtime.post(partial(self._change_source, row.endpoint))

    def _change_source(self, publisher: TopicPublisher) -> None:
        self._runtime.remove_publication(publisher)
        publisher.update_source()
        self._add_publication(publisher)

    def _close(self, endpoint: Endpoint | ForeignFrames) -> None:
        try:
            endpoint.close()
        except Exception as error:  # noqa: BLE001 - the others are still to be closed
            self._report("ros.close", f"an interface failed to close: {describe(error)}")


def _topic_key(topic: InterfacePlan) -> Hashable:
    return topic.name, topic.domain_id


def _has_same_origins(old: BridgePlan, new: BridgePlan) -> bool:
    """Return whether other nodes' frames mean the same in two plans."""
    return _origins(old) == _origins(new)


def _origins(plan: BridgePlan) -> tuple[object, ...]:
    robots = [(each.namespace, each.domain_id, each.tf_outputs, each.parent_frame) for each in plan.robots]
    poses = [(each.path, each.robot, each.domain_id) for each in plan.topics if each.type == POSE_STAMPED]
    return robots, poses


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
        qos=plan.qos if isinstance(plan, TopicPlan) else None,
    )
