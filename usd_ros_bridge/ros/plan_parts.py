"""What a bridge makes from its plan: parameters, transforms and interfaces. All of it is made anew with a new plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from usd_ros_bridge.backends.protocol import BackendInput
from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planning import disable_conflicts, leave_offered
from usd_ros_bridge.ros.calls import Call
from usd_ros_bridge.ros.controller_parameters import ControllerParameters
from usd_ros_bridge.ros.description import DescriptionOptions, Descriptions
from usd_ros_bridge.ros.diagnostics import DiagnosticsOptions, DiagnosticsPublisher
from usd_ros_bridge.ros.domains import Domains, Report
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime, forbidden_wait
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.ros.inputs import input_conflicts
from usd_ros_bridge.ros.interfaces import Interfaces
from usd_ros_bridge.ros.live.revision import Revision
from usd_ros_bridge.ros.plan_summary import PlanSummary
from usd_ros_bridge.ros.services import Services, run_in_tick, scene_access
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.ros.transforms import TransformRevision, Transforms
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.parts import RuntimeParts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartsRevision:
    """The parts of a bridge on their way to another plan.

    Attributes:
        plan: The plan.
        coming: What follows from it in the runtime.
        interfaces: Those that stay, close and open.
        transforms: What is sent.
    """

    plan: BridgePlan
    coming: RuntimeParts
    interfaces: Revision
    transforms: TransformRevision


class PlanParts:
    """The parts of a bridge that follow from its plan.

    Attributes:
        parameters: Of the controllers.
        transforms: What is broadcast.
        interfaces: Topics, services and actions.
        descriptions: Of the robots.
        summary: Of the plan, as JSON.
        diagnostics: How all of it is.
        release_parameters: Called before controllers declare parameters that others may have had until then.
    """

    def __init__(
        self,
        plan: BridgePlan,
        domains: Domains,
        runtime: GuardedRuntime,
        *,
        handlers: Handlers,
        workers: Workers,
        tf_rate: float | None,
        scene_edits: bool,
        publish_unmatched: bool,
        description: DescriptionOptions,
        diagnostics: DiagnosticsOptions,
        inform: Report,
    ) -> None:
        """Stores what to make; `open` creates it.

        Args:
            plan: The plan.
            domains: Where all of it lives.
            runtime: Open, on the plan.
            handlers: What is bound to interfaces.
            workers: Where that runs.
            tf_rate: How often moving transforms are sent, Hz; None at every step.
            scene_edits: Whether built-in services may edit the session layer of a stage that the caller opened.
            publish_unmatched: Publish also while nobody subscribes.
            description: How robots are described.
            diagnostics: How it is told how all of it is.
            inform: Shows something worth knowing `(kind, message)`.
        """
        self._handlers = handlers
        self._runtime = runtime
        self.release_parameters: Callable[[], None] = _nothing
        self._main = domains.main
        self._forbidden = partial(forbidden_wait, workers, runtime)
        self.parameters = ControllerParameters(self._main.node, runtime)
        self._describes = description.publish
        plan_here = self._served_plan(plan, runtime.inputs)
        self.transforms = Transforms(
            plan_here, domains, runtime, rate=tf_rate, publish_unmatched=publish_unmatched
        )
        scene, no_scene = scene_access(plan, edits=scene_edits)
        self.interfaces = Interfaces(
            plan_here,
            domains,
            runtime,
            handlers=handlers,
            workers=workers,
            services=Services(handlers, runtime, scene, no_scene),
            forbidden=self._forbidden,
            inform=inform,
            publish_unmatched=publish_unmatched,
        )
        self.descriptions = Descriptions(
            plan_here, domains, options=description, in_tick=partial(run_in_tick, runtime),
            make_way=runtime.make_way,
            report=runtime.reporter.report,
        )  # fmt: skip
        self.summary = PlanSummary(plan_here, self._main, refused=self.interfaces.refused)
        self.diagnostics = DiagnosticsPublisher(
            plan,
            plan_here,
            self._main,
            runtime,
            rows=self._rows,
            guards=self.transforms.guards,
            options=diagnostics,
        )

    def open(self, now_ns: Callable[[], int | None]) -> None:
        """Creates all of it and begins to listen.

        Args:
            now_ns: Returns bridge time, nanoseconds, None while it is not known: the stamp of static transforms.

        Raises:
            OptionError: The value that a parameter is given at the start is not possible.
        """
        self.parameters.open()
        self._main.start()
        self.transforms.open(now_ns() or 0)
        self.interfaces.open()
        self.descriptions.open()
        self.summary.open()
        self.diagnostics.open()

    def close(self) -> None:
        """Ends all of it. Idempotent."""
        self.diagnostics.close()
        self.summary.close()
        self.descriptions.close()
        self.parameters.close()
        self.interfaces.close()
        self.transforms.close()
        self.release_parameters = _nothing

    # --- Change ------------------------------------------------------------------------------------------------

    def revise(self, plan: BridgePlan, coming: RuntimeParts) -> PartsRevision:
        """Gets ready for a plan to come, and opens what can be opened before; from any thread.

        Args:
            plan: The plan to come.
            coming: What follows from it in the runtime.
        """
        plan_here = self._served_plan(plan, coming.inputs)
        transforms = self.transforms.revise(plan_here, coming, self._runtime.now_ns)
        interfaces = self.interfaces.revise(plan_here, coming)
        return PartsRevision(plan=plan, coming=coming, interfaces=interfaces, transforms=transforms)

    def abandon(self, revision: PartsRevision) -> None:
        """Closes what was opened for a change that does not happen; where no callbacks run meanwhile."""
        self.interfaces.abandon(revision.interfaces)
        self.transforms.abandon(revision.transforms)

    def switch(self, revision: PartsRevision, before: RuntimeParts) -> None:
        """Goes on with a plan, which the runtime has begun to; between two ticks."""
        self._handlers.adopt(revision.plan)
        self.transforms.switch(revision.transforms, before)
        self.interfaces.switch(revision.interfaces, before)

    def retire(self, revision: PartsRevision) -> None:
        """Closes what a change has left; where no callbacks run meanwhile."""
        self.interfaces.retire(revision.interfaces)
        self.transforms.retire()
        self.release_parameters()
        self.parameters.revise()
        self.descriptions.move_to(revision.plan)
        self.diagnostics.move_to(revision.plan, revision.interfaces.plan)

    def complete(self, revision: PartsRevision) -> None:
        """Opens what is still to be opened after a change; from any thread."""
        self.interfaces.complete(revision.interfaces)
        self.summary.move_to(revision.interfaces.plan)

    def _served_plan(self, plan: BridgePlan, inputs: Iterable[BackendInput]) -> BridgePlan:
        """Returns the plan without publishers of what the backend listens to or the bridge publishes itself."""
        sourced = {topic.path for topic in plan.topics if self._handlers.get("topic", topic.path) is not None}
        plan = leave_offered(plan, describes=self._describes, sourced=sourced)
        return disable_conflicts(plan, input_conflicts(plan, inputs, self._main))

    def _rows(self) -> Iterator[InterfaceStatus]:
        """Yields the rows of what the plan asks for, each made when it is asked for."""
        yield from self.interfaces.rows()
        yield from self.transforms.rows(self._runtime.now_ns)
        yield from self.descriptions.status()

    def switch_controllers(self, activate: Collection[str], deactivate: Collection[str]) -> Call:
        """Switches controllers by prim path, at the start of the next tick: all of them, or none.

        Raises:
            BridgeError: It is not possible: a path is unknown, a controller faulty, or a joint claimed twice.
        """
        runtime = self._runtime
        if reason := runtime.controllers.refusal(activate, deactivate):
            raise BridgeError(reason)

        def switch() -> None:
            runtime.controllers.switch(activate, deactivate)
            self.parameters.show()

        posted: list[Future[None]] = []
        runtime.controllers.announce(
            activate, deactivate, lambda: posted.append(run_in_tick(runtime, switch))
        )
        posted[0].add_done_callback(
            lambda done: runtime.controllers.withdraw(activate, deactivate) if done.cancelled() else None
        )
        return Call(posted[0], forbidden=partial(self._forbidden, self._main))


def _nothing() -> None:
    pass
