"""What a bridge makes from its plan: parameters, transforms and interfaces. All of it is made anew with a new plan."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planning import disable_conflicts
from usd_ros_bridge.ros.calls import Call
from usd_ros_bridge.ros.controller_parameters import ControllerParameters
from usd_ros_bridge.ros.description import DescriptionOptions, Descriptions
from usd_ros_bridge.ros.domains import Domains, Report
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime, forbidden_wait
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.ros.interfaces import Interfaces, input_conflicts
from usd_ros_bridge.ros.services import Services, run_in_tick, scene_access
from usd_ros_bridge.ros.transforms import Transforms
from usd_ros_bridge.ros.workers import Workers


class PlanParts:
    """The parts of a bridge that follow from its plan.

    Attributes:
        parameters: Of the controllers.
        transforms: What is broadcast.
        interfaces: Topics, services and actions.
        descriptions: Of the robots.
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
            inform: Shows something worth knowing `(kind, message)`.
        """
        self._runtime = runtime
        self._main = domains.main
        self._forbidden = partial(forbidden_wait, workers, runtime)
        self.parameters = ControllerParameters(self._main.node, runtime)
        plan_here = disable_conflicts(plan, input_conflicts(plan, runtime.inputs, self._main))
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
            report=runtime.reporter.report,
        )  # fmt: skip

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

    def close(self) -> None:
        """Ends all of it. Idempotent."""
        self.descriptions.close()
        self.parameters.close()
        self.interfaces.close()
        self.transforms.close()

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

        return Call(run_in_tick(runtime, switch), forbidden=partial(self._forbidden, self._main))
