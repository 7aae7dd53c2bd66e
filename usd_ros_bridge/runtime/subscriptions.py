"""Subscriptions: deliver samples from any thread, through the inbox, to their sinks in the tick."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from usd_ros_bridge.backends.base import Backend, BackendInput
from usd_ros_bridge.model.plan import TopicPlan
from usd_ros_bridge.model.state import Commands
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.runtime.command_sinks import MovingSink, Sink, SinkContext, SinkRefusal, make_sink
from usd_ros_bridge.runtime.controller_manager import ControllerManager
from usd_ros_bridge.runtime.inbox import Inbox, Poll, Wakeup, apply_items

if TYPE_CHECKING:
    from usd_ros_bridge.runtime.controller_manager import Route


Job = Callable[[], None]


class Jobs:
    """Run jobs of other threads in the tick thread."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def apply(self, payload: object) -> None:
        """Run a job."""
        assert callable(payload)
        payload()

    def failed(self, error: Exception) -> None:
        """Report what a job raised."""
        self._report("runtime.job", f"a job in the tick failed: {describe(error)}")


class InputQueue:
    """Bind subscriptions, inputs of the backend and posted jobs to their handlers in the tick."""

    def __init__(self, inbox: Inbox, report: Report) -> None:
        """Store the arguments.

        Args:
            inbox: Where things wait for the tick.
            report: For what sinks and jobs raise.
        """
        self._inbox = inbox
        self._report = report
        self._bindings: list[InputBinding] = []
        self._jobs = Jobs(report)
        # A job that gave way to another one unread would be missed by whoever waits for it.
        inbox.configure(self._jobs, depth=sys.maxsize, wakes=True)

    def post(self, job: Job) -> None:
        """Run a job at the start of the next tick. Thread-safe."""
        self._inbox.put(self._jobs, job)

    def run_posted(self) -> None:
        """Run the posted jobs, and nothing else that arrived."""
        apply_items((self._jobs, job) for job in self._inbox.withdraw(self._jobs))

    def bind_sink(
        self,
        topic: TopicPlan,
        sink: Sink | None,
        controllers: ControllerManager,
        context: SinkContext,
        commands: Callable[[], Commands],
        *,
        into: InputBinding | None = None,
    ) -> InputBinding:
        """Bind a subscription: to `sink`, else to the controllers that name it, else to the built-in of its type.

        Args:
            topic: The subscription.
            sink: An embedder's own.
            controllers: Those of the plan. A topic that one of them names acts only through it.
            context: What built-in sinks are made from.
            commands: What sinks write to.
            into: What delivered before, which goes on to: what waits there is taken by who takes it from here on.
        """
        route = None if sink is not None else controllers.route(topic)
        if route is not None:
            apply = None if route.refusal else route.receive
            made = InputBinding(
                self._inbox, topic.name, apply, route.refusal, route=route, report=self._report
            )
            return self._add(made, into, wakes=True)
        reason = ""
        if sink is None:
            try:
                sink = make_sink(context, topic)
            except SinkRefusal as refusal:
                reason = str(refusal)
        apply = None
        if sink is not None:
            target = sink
            apply = lambda sample: target.apply(sample, commands())  # noqa: E731
        made = InputBinding(self._inbox, topic.name, apply, reason, report=self._report)
        made.moving = sink if isinstance(sink, MovingSink) else None
        return self._add(made, into)

    def bind_input(
        self, backend: Backend, backend_input: BackendInput, *, into: InputBinding | None = None
    ) -> InputBinding:
        """Bind a topic that the backend needs; an arrival ends the loop's wait where the state arrives by topic."""
        receive = partial(backend.receive, backend_input.key)
        made = InputBinding(self._inbox, backend_input.topic, receive, report=self._report)
        return self._add(made, into, wakes=backend.capabilities.topic_driven)

    def unbind(self, input_binding: InputBinding) -> None:
        """Unbind an input and drop its samples; ignore one that is not bound."""
        if input_binding in self._bindings:
            self._bindings.remove(input_binding)
        self._inbox.forget(input_binding)

    def close(self) -> None:
        """Unbind all inputs. Drop their samples, and jobs that no tick runs any more. Idempotent."""
        for input_binding in tuple(self._bindings):
            self.unbind(input_binding)
        self._inbox.withdraw(self._jobs)

    def status(self) -> tuple[SinkStatus, ...]:
        """Return the counters of every subscription, from any thread."""
        return tuple(input_binding.status() for input_binding in tuple(self._bindings))

    def _add(self, made: InputBinding, into: InputBinding | None, *, wakes: bool = False) -> InputBinding:
        if into is not None:
            into.rebind(made)
            made = into
        else:
            self._bindings.append(made)
        if wakes or into is not None:
            self._inbox.configure(made, wakes=wakes)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """One input: a subscription's sink or a backend's topic.

    Attributes:
        name: Resolved topic name, or the backend's key.
        received: Samples that arrived.
        dropped: Samples that gave way to newer ones unread, or that nothing takes.
        errors: How often taking one raised.
        last_error: One line, "" where it never raised.
        reason: Why nothing takes the samples, "" where something does.
    """

    name: str
    received: int
    dropped: int
    errors: int
    last_error: str
    reason: str


class InputBinding:
    """Bind one subscription to the sink of its samples. `deliver` may be called from any thread; the tick applies.

    Attributes:
        apply: `apply(sample)` applies one sample, in the tick.
        moving: The sink, if what it moves continues when no samples come any more.
    """

    def __init__(
        self,
        inbox: Inbox,
        name: str,
        apply: Callable[[object], None] | None,
        reason: str = "",
        *,
        route: Route | None = None,
        report: Report | None = None,
    ) -> None:
        """Store the arguments.

        Args:
            inbox: Where samples wait for the tick.
            name: For people.
            apply: Apply one sample in the tick; None: nothing does.
            reason: Why not.
            route: The way to controllers, if `apply` is theirs.
            report: For exceptions of `apply`.
        """
        self.name = name
        self._reason = reason
        self._route = route
        self._report = report
        self._inbox = inbox
        self._accepted = apply is not None
        self.apply: Callable[[object], None] = apply or _refuse
        self.moving: MovingSink | None = None
        self.errors = 0
        self.last_error = ""
        self._refused = 0

    def rebind(self, other: InputBinding) -> None:
        """Deliver samples, queued ones included, as another binding does; keep the counters."""
        self.name, self._reason, self._route = other.name, other._reason, other._route
        self.apply, self._accepted = other.apply, other._accepted
        if self.moving is not None and type(self.moving) is type(other.moving):
            other.moving.continue_from(self.moving)
        if other.moving is not None or other._accepted:
            self.moving = other.moving

    @property
    def accepted(self) -> bool:
        """Return whether anything takes the samples."""
        return self._accepted

    @property
    def reason(self) -> str:
        """Why samples are dropped now, "" where something takes them."""
        return self._reason if self._route is None or self._reason else self._route.reason

    @property
    def is_reported(self) -> bool:
        """Return whether the controllers have reported already why nothing takes the samples."""
        return self._route is not None and self._route.is_reported

    def deliver(self, sample: object) -> None:
        """Put one decoded sample into the inbox; drop and count it if nothing takes it."""
        if self._accepted:
            self._inbox.put(self, sample)
        else:
            self._refused += 1

    @property
    def wakeup(self) -> Wakeup:
        """Return the wake-up that an attached source sets."""
        return self._inbox.wakeup

    def attach(self, source: Poll) -> None:
        """Attach `source`: every tick takes its samples, in the tick's thread."""
        self._inbox.add_source(self, source)

    def detach(self, source: Poll) -> None:
        """Detach the source. Idempotent."""
        self._inbox.remove_source(self, source)

    def failed(self, error: Exception) -> None:
        """Count and report an exception of `apply`."""
        self.errors += 1
        self.last_error = describe(error)
        if self._report is not None:
            self._report(f"sink.error:{self.name}", f"what takes {self.name} failed: {self.last_error}")

    def status(self) -> SinkStatus:
        """Return the counters."""
        counts = self._inbox.counts(self)
        undelivered = 0 if self._route is None else self._route.dropped
        return SinkStatus(
            name=self.name,
            received=counts.received + self._refused,
            dropped=counts.dropped + self._refused + undelivered,
            errors=self.errors,
            last_error=self.last_error,
            reason=self.reason,
        )


def _refuse(_: object) -> None:
    """Drop samples that were accepted before the binding lost its sink."""
