"""All endpoints of an open bridge: made from the plan, one that cannot be made disabled alone, closed together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import BridgeError, choices
from usd_ros_bridge.model.plan import (
    BridgePlan,
    InterfaceKind,
    InterfacePlan,
    TopicPlan,
)
from usd_ros_bridge.ros.calls import Call
from usd_ros_bridge.ros.cdr import SharedMessages
from usd_ros_bridge.ros.clashes import clashes
from usd_ros_bridge.ros.codecs.serialized import Serialized
from usd_ros_bridge.ros.domains import Domain, Domains, Report
from usd_ros_bridge.ros.endpoints.action import ActionServer
from usd_ros_bridge.ros.endpoints.action_client import ActionClient
from usd_ros_bridge.ros.endpoints.publisher import TopicPublisher
from usd_ros_bridge.ros.endpoints.service import ServiceClient, ServiceServer
from usd_ros_bridge.ros.endpoints.subscription import TopicSubscription
from usd_ros_bridge.ros.foreign_frames import ForeignFrames
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.ros.inputs import BackendInputs
from usd_ros_bridge.ros.live.revision import Revision, Row, listed, revise
from usd_ros_bridge.ros.making import (
    Endpoint,
    EndpointMaker,
    decoding_for,
    encoding_for,
)
from usd_ros_bridge.ros.messages import make_message
from usd_ros_bridge.ros.services import Services, backend_handler
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.ros.types import AmentCatalog
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.parts import RuntimeParts
from usd_ros_bridge.runtime.report import describe

POSE_TYPE = "geometry_msgs/msg/PoseStamped"
SERVICE_TIMEOUT_S = 5.0


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
        self._plan = plan
        self._domains = domains
        self._runtime = runtime
        self._handlers = handlers
        self._services = services
        self._forbidden = forbidden
        self._report = runtime.reporter.report
        self._inform = inform
        self._maker = EndpointMaker(
            domains, runtime, handlers=handlers, workers=workers, services=services, inform=inform,
            publish_unmatched=publish_unmatched,
        )  # fmt: skip
        self._frames = self._make_frames(plan)
        self._retired: ForeignFrames | None = None
        self._shared: SharedMessages[Serialized] = SharedMessages()
        self._made: list[Row] = []
        self._catalog = AmentCatalog()
        self._inputs = BackendInputs(domains, runtime, inform=inform)

    def open(self) -> None:
        """Makes everything that is enabled. What fails is disabled with a reason and a warning, alone."""
        self._runtime.frame_resolver = self._frames
        self._inputs.complete()
        refused = self._clashes(self._plan)
        for number, (plan, kind) in enumerate(listed(self._plan)):
            reason = refused.get(number)
            make = self._maker.make
            row = self._maker.refuse(plan, kind, reason) if reason else make(plan, kind, self._shared)
            self._made.append(row)
            self._attach(row)
            self._listen(row)
        self._handlers.changed = self._on_bound

    def close(self) -> None:
        """Closes all. Idempotent."""
        self._handlers.changed = None
        for row in self._made:
            self._detach(row)
            self._close_row(row)
        for subscription, _ in self._inputs:
            self._close(subscription)
        self._close(self._frames)

    # --- Change ------------------------------------------------------------------------------------------------

    def revise(self, plan: BridgePlan, parts: RuntimeParts) -> Revision:
        """Compares what is open with a plan to come, and opens the publishers that are new; from any thread.

        Args:
            plan: The plan to come, after the backend's inputs have disabled those that conflict.
            parts: What follows from it.
        """
        alike = parts.snapshot is self._runtime.parts.snapshot
        revision = revise(self._made, plan, self._shared if alike else SharedMessages())
        refused = self._clashes(plan)
        clashing = {id(revision.rows[number]) for number in refused}
        for old, new in tuple(revision.kept):
            if id(new) in clashing:
                revision.drop(old, new)
            elif isinstance(new.endpoint, TopicPublisher) and not (alike and old.plan == new.plan):
                try:
                    encoding, reason = encoding_for(new.plan, parts.plan, parts.capabilities)
                    writer = (
                        None
                        if encoding is None
                        else new.endpoint.prepare(new.plan, encoding, revision.shared, ahead=not alike)
                    )
                except Exception:  # noqa: BLE001 - it is made anew then, which tells what is wrong, and fails alone
                    revision.drop(old, new)
                else:
                    revision.encodings[new.endpoint] = encoding, reason, writer
        # A participant has one type for a topic: what is there with another one is closed first.
        there = {_topic_key(row.plan): row.plan.type for row in revision.gone if row.kind == "topic"}
        for index, (topic, kind) in enumerate(listed(plan)):
            if index in refused:
                revision.rows[index] = self._maker.refuse(topic, kind, refused[index])
            missing = revision.rows[index] is None and kind == "topic" and topic.role == "publisher"
            if missing and there.get(_topic_key(topic), topic.type) == topic.type:
                revision.rows[index] = self._maker.make(topic, kind, revision.shared, parts)
        return revision

    def abandon(self, revision: Revision) -> None:
        """Closes what was opened for a change that does not happen; where no callbacks run meanwhile."""
        for row in revision.fresh:
            self._close_row(row)

    def switch(self, revision: Revision, before: RuntimeParts) -> None:
        """Goes on with a plan, which the runtime has begun to; between two ticks."""
        runtime, self._plan, self._shared = self._runtime, revision.plan, revision.shared
        if not _frames_alike(before.plan, revision.plan):
            self._retired, self._frames = self._frames, self._make_frames(revision.plan)
            runtime.frame_resolver = self._frames
        self._inputs.rebind()
        for row in revision.gone:
            self._detach(row)
        for _, new in revision.kept:
            self._adapt(new, revision)
        for row in revision.fresh:
            self._attach(row)
        self._made = [row for row in revision.rows if row is not None]

    def retire(self, revision: Revision) -> None:
        """Closes what a change has left; where no callbacks run meanwhile."""
        for row in revision.gone:
            self._close_row(row)
        retired, self._retired = self._retired, None
        if retired is not None:
            self._close(retired)
        self._inputs.retire(self._close)

    def complete(self, revision: Revision) -> None:
        """Opens what is still to be opened after a change; from any thread."""
        self._inputs.complete()
        for index, (plan, kind) in enumerate(listed(revision.plan)):
            if revision.rows[index] is None:
                revision.rows[index] = row = self._maker.make(plan, kind, self._shared)
                self._runtime.post(partial(self._attach, row))
        self._made = [row for row in revision.rows if row is not None]
        for row in self._made:
            self._listen(row)
        for _, row in revision.kept:
            if isinstance(row.endpoint, ServiceServer):
                self._services.prepare(row.plan)
            elif isinstance(row.endpoint, ActionServer):
                row.endpoint.backend = backend_handler(self._runtime, row.plan)

    def _adapt(self, row: Row, revision: Revision) -> None:
        """Fits an endpoint that stays to what its interface is now."""
        endpoint, runtime = row.endpoint, self._runtime
        if isinstance(endpoint, TopicPublisher):
            was_silent = endpoint.silent
            if endpoint in revision.encodings:
                endpoint.revise(row.plan, *revision.encodings[endpoint])
            if endpoint.silent != was_silent:
                runtime.remove_emitter(endpoint)
                self._add_emitter(endpoint)
            elif not was_silent:
                rate, robot = self._asked(endpoint)
                runtime.change_emitter(endpoint, rate=rate, robot=robot)
        elif isinstance(endpoint, TopicSubscription):
            delivery = runtime.bind_sink(row.plan, into=self._maker.deliveries[endpoint])
            endpoint.revise(*decoding_for(row.plan, delivery))
        else:
            endpoint.plan = row.plan

    def _listen(self, row: Row) -> None:
        """Listens to other nodes' transforms where a subscription takes poses in their frames."""
        endpoint = row.endpoint
        places = row.plan.type == POSE_TYPE and isinstance(endpoint, TopicSubscription)
        if places and self._maker.deliveries[endpoint].accepted:
            self._frames.listen(row.plan)

    def _clashes(self, plan: BridgePlan) -> dict[int, str]:
        return clashes(listed(plan), self._catalog, self._domains.main.domain_id)

    def _make_frames(self, plan: BridgePlan) -> ForeignFrames:
        return ForeignFrames(plan, self._domains, report=self._report, inform=self._inform)

    # --- Asking ------------------------------------------------------------------------------------------------

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
        clients = [each for each in self._made if each.plan.role == "client"]
        named = [each for each in clients if each.plan.path == target] or [
            each for each in clients if each.plan.name == target
        ]
        if not named:
            there = choices(f"{each.plan.path} ({each.plan.name})" for each in clients)
            raise BridgeError(f"{quoted(target)} names no client of {self._plan.asset}; there are: {there}")
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
        """Returns a row for every interface of the plan, then one for every topic that the backend listens to."""
        return list(self.rows())

    def rows(self) -> Iterator[InterfaceStatus]:
        """Yields the rows of `status`, each made when it is asked for: thousands take a while."""
        emissions, now_ns = self._runtime.emissions, self._runtime.time_ns or 0
        named = emissions.named()
        for row in tuple(self._made):
            plan, kind, endpoint = row.plan, row.kind, row.endpoint
            if isinstance(endpoint, str):
                yield _disabled(plan, kind, endpoint)
            elif isinstance(endpoint, TopicPublisher):
                emission = named.get(plan.path)
                yield endpoint.status(None if emission is None else emissions.status_of(emission, now_ns))
            elif isinstance(endpoint, TopicSubscription):
                delivery = self._maker.deliveries.get(endpoint)
                yield endpoint.status(None if delivery is None else delivery.status())
            else:
                yield endpoint.status()
        for subscription, delivery in self._inputs:
            yield subscription.status(delivery.status())

    def refused(self) -> dict[str, str]:
        """Returns by prim path why interfaces that the plan enables could not be opened."""
        made = tuple(self._made)
        return {
            row.plan.path: row.endpoint for row in made if row.plan.enabled and isinstance(row.endpoint, str)
        }

    def counts(self) -> dict[str, int]:
        """Returns how many topics, services and actions are open."""
        counts = {"topic": len(self._inputs), "service": 0, "action": 0}
        for row in self._made:
            counts[row.kind] += not isinstance(row.endpoint, str)
        return counts

    # --- Own ---------------------------------------------------------------------------------------------------

    def _attach(self, row: Row) -> None:
        """Has a publisher asked; in the tick's thread, or before the first tick."""
        if isinstance(row.endpoint, TopicPublisher):
            self._add_emitter(row.endpoint)
            self._runtime.on_reset(row.endpoint.reset)

    def _detach(self, row: Row) -> None:
        if isinstance(row.endpoint, TopicPublisher):
            self._runtime.remove_emitter(row.endpoint)
            self._runtime.off_reset(row.endpoint.reset)

    def _close_row(self, row: Row) -> None:
        if isinstance(row.endpoint, str):
            return
        self._close(row.endpoint)
        if isinstance(row.endpoint, TopicSubscription):
            self._maker.forget(row.endpoint)
        elif isinstance(row.endpoint, ServiceServer):
            self._services.forget(row.plan)

    def _add_emitter(self, publisher: TopicPublisher) -> None:
        if not publisher.silent:
            rate, robot = self._asked(publisher)
            self._runtime.add_emitter(publisher, name=publisher.topic.path, rate=rate, robot=robot)

    def _asked(self, publisher: TopicPublisher) -> tuple[float | None, int | None]:
        """Returns at which rate a publisher is asked, None at every tick, and the robot whose state alone it shows."""
        topic = publisher.topic
        # A sensor measures when it wants to, and so does a source, whenever the robot's state arrives.
        can = self._runtime.capabilities
        free = publisher.sourced or topic.path in can.sensors
        # Who measures beside the loop does so at the authored rate: what is there is sent in the next tick.
        beside = topic.path in can.beside and not publisher.sourced
        return None if beside else topic.publish_rate, None if free else topic.robot

    def _on_bound(self, kind: InterfaceKind, path: str) -> None:
        """Has a publisher look for its source, in the tick's thread."""
        for row in tuple(self._made) if kind == "topic" else ():
            if isinstance(row.endpoint, TopicPublisher) and row.plan.path == path:
                self._runtime.post(partial(self._change_source, row.endpoint))

    def _change_source(self, publisher: TopicPublisher) -> None:
        self._runtime.remove_emitter(publisher)
        publisher.look_for_source()
        self._add_emitter(publisher)

    def _close(self, endpoint: Endpoint | ForeignFrames) -> None:
        try:
            endpoint.close()
        except Exception as error:  # noqa: BLE001 - the others are still to be closed
            self._report("ros.close", f"an interface failed to close: {describe(error)}")


def _topic_key(topic: InterfacePlan) -> Hashable:
    return topic.name, topic.domain_id


def _frames_alike(old: BridgePlan, new: BridgePlan) -> bool:
    """Returns whether what is known of other nodes' frames in one plan holds in the next."""
    return _origins(old) == _origins(new)


def _origins(plan: BridgePlan) -> tuple[object, ...]:
    robots = [(each.namespace, each.domain_id, each.tf_outputs, each.parent_frame) for each in plan.robots]
    poses = [(each.path, each.robot, each.domain_id) for each in plan.topics if each.type == POSE_TYPE]
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
    )
