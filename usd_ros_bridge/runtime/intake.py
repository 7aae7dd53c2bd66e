"""The intake: everything that reaches the tick from outside, and what takes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from usd_ros_bridge.backends.protocol import Backend, BackendInput, Report
from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.model.state import Commands
from usd_ros_bridge.runtime.controllers import Controllers
from usd_ros_bridge.runtime.delivery import Delivery
from usd_ros_bridge.runtime.endpoints import Sink
from usd_ros_bridge.runtime.inbox import Inbox, Item
from usd_ros_bridge.runtime.report import describe
from usd_ros_bridge.runtime.sinks import SinkContext, SinkRefusal, make_sink
from usd_ros_bridge.runtime.status import SinkStatus

Job = Callable[[], None]


class Taker(Protocol):
    """A key of the inbox: what waits under it is its own to take."""

    def take(self, payload: object) -> None:
        """Takes one item, in the tick."""

    def failed(self, error: Exception) -> None:
        """Hears what `take` raised."""


class Jobs:
    """Takes what other threads want done in the tick's."""

    def __init__(self, report: Report) -> None:
        """Reports what jobs raise."""
        self._report = report

    def take(self, payload: object) -> None:
        """Does a job."""
        assert callable(payload)
        payload()

    def failed(self, error: Exception) -> None:
        """Reports what a job raised."""
        self._report("runtime.job", f"a job in the tick failed: {describe(error)}")


class Intake:
    """Binds what arrives to what takes it, and has it taken at the start of a tick."""

    def __init__(self, inbox: Inbox, report: Report) -> None:
        """Has nothing bound yet.

        Args:
            inbox: Where things wait for the tick.
            report: For what sinks and jobs raise.
        """
        self._inbox = inbox
        self._report = report
        self._deliveries: list[Delivery] = []
        self._jobs = Jobs(report)
        # A job that gave way to another one unread would be missed by whoever waits for it.
        inbox.configure(self._jobs, depth=sys.maxsize, wakes=True)

    def post(self, job: Job) -> None:
        """Has a job done at the start of the next tick; from any thread."""
        self._inbox.put(self._jobs, job)

    def do_jobs(self) -> None:
        """Does the jobs that wait, and takes nothing else."""
        self.take((self._jobs, job) for job in self._inbox.withdraw(self._jobs))

    def bind_sink(
        self,
        topic: TopicPlan,
        sink: Sink | None,
        controllers: Controllers,
        context: SinkContext,
        commands: Callable[[], Commands],
        *,
        into: Delivery | None = None,
    ) -> Delivery:
        """Binds a subscription: to `sink`, else to the controllers that name it, else to the built-in of its type.

        Args:
            topic: The subscription.
            sink: An embedder's own.
            controllers: Those of the plan. A topic that one of them names moves nothing but through it.
            context: What built-in sinks are made from.
            commands: What sinks write to.
            into: What delivered before, which goes on to: what waits there is taken by who takes it from here on.
        """
        route = None if sink is not None else controllers.route(topic)
        if route is not None:
            take = None if route.refusal else route.take
            made = Delivery(self._inbox, topic.name, take, route.refusal, route=route, report=self._report)
            return self._add(made, into, wakes=True)
        reason = ""
        if sink is None:
            try:
                sink = make_sink(context, topic)
            except SinkRefusal as refusal:
                reason = str(refusal)
        take = None
        if sink is not None:
            taker = sink
            take = lambda sample: taker.apply(sample, commands())  # noqa: E731
        return self._add(Delivery(self._inbox, topic.name, take, reason, report=self._report), into)

    def bind_input(
        self, backend: Backend, backend_input: BackendInput, *, into: Delivery | None = None
    ) -> Delivery:
        """Binds a topic that the backend needs; an arrival ends the loop's wait where the state arrives by topic."""
        take = partial(backend.receive, backend_input.key)
        made = Delivery(self._inbox, backend_input.topic, take, report=self._report)
        return self._add(made, into, wakes=backend.capabilities.topic_driven)

    def unbind(self, delivery: Delivery) -> None:
        """Forgets a delivery, and what waits there; one that is not there is ignored."""
        if delivery in self._deliveries:
            self._deliveries.remove(delivery)
        self._inbox.forget(delivery)

    def close(self) -> None:
        """Forgets all deliveries, and what waits there. Idempotent."""
        for delivery in tuple(self._deliveries):
            self.unbind(delivery)

    def take(self, arrived: Iterable[Item]) -> None:
        """Has what waited taken, in the order of arrival."""
        for key, payload in arrived:
            taker: Taker = key  # type: ignore[assignment]  # nothing else is put into a runtime's inbox
            try:
                taker.take(payload)
            except Exception as error:  # noqa: BLE001 - the runtime's edge: one taker's fault stops nothing else
                taker.failed(error)

    def status(self) -> tuple[SinkStatus, ...]:
        """Returns the counters of every subscription, from any thread."""
        return tuple(delivery.status() for delivery in tuple(self._deliveries))

    def _add(self, made: Delivery, into: Delivery | None, *, wakes: bool = False) -> Delivery:
        if into is not None:
            into.become(made)
            made = into
        else:
            self._deliveries.append(made)
        if wakes or into is not None:
            self._inbox.configure(made, wakes=wakes)
        return made
