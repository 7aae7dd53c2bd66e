"""Time that the bridge owns, because its backend does: the loop, the control, /clock and the node's services for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from rcl_interfaces.msg import SetParametersResult

from usd_ros_bridge.model.diagnostics import escaped
from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.model.ranges import RATE
from usd_ros_bridge.ros.clock import RosClock
from usd_ros_bridge.ros.clock_publisher import ClockPublisher
from usd_ros_bridge.ros.domains import Domain, Domains, Report
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.ros.parameters import remote_refusal
from usd_ros_bridge.ros.simulation.offer import offer_simulation
from usd_ros_bridge.ros.simulation.spawn_options import Succession
from usd_ros_bridge.ros.status import InterfaceStatus, TimeStatus
from usd_ros_bridge.ros.time_services import TimeServices
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.loop import Loop
from usd_ros_bridge.runtime.time_control import TimeControl, TimeOptions
from usd_ros_bridge.runtime.timekeeper import OwnTimeLoop, Timekeeper

if TYPE_CHECKING:
    from usd_ros_bridge.ros.simulation.servers import SimulationInterfaces

FACTOR = "real_time_factor"
"""The node's parameter that may be set while the bridge runs."""


class OwnTime:
    """Bridge time of a backend that owns it.

    Attributes:
        control: Pauses, steps and resets, from any thread.
    """

    def __init__(
        self, runtime: GuardedRuntime, domains: Domains, workers: Workers, options: TimeOptions
    ) -> None:
        """Stores what time is for; `open` begins to tell it.

        Args:
            runtime: Open; its backend owns time.
            domains: Where the time is told.
            workers: Where requests to services wait.
            options: How time passes.

        Raises:
            OptionError: An option is not possible.
            BridgeError: The node follows /clock, which this is to publish.
        """
        RATE.check("clock_rate", options.clock_rate)
        main = domains.main
        if main.node.get_clock().ros_time_is_active:
            raise BridgeError(f"use_sim_time is true, but {self._follower_fault(runtime)}")
        self._runtime = runtime
        self._domains = domains
        self._workers = workers
        self._clock_rate = options.clock_rate
        self._node: Any = main.node
        report = runtime.reporter.report
        self.control = TimeControl(
            step_ns=runtime.capabilities.step_ns, options=options, wake=runtime.inbox.wakeup.set
        )
        self._clock = (
            ClockPublisher(rate=options.clock_rate, report=report) if options.publish_clock else None
        )
        self._keeper = Timekeeper(runtime, self.control)
        self._services = (
            TimeServices(self.control, main, workers, report) if runtime.remote_control == "all" else None
        )
        if self._clock is not None:
            # Before all others: who gets a message knows the time by then.
            runtime.add_emitter(self._clock, name="/clock", rate=options.clock_rate)
        runtime.on_reset(self._tell)
        # /clock is due at its own rate only: time that stands still is told at once.
        self.control.before_steps_end = self._tell
        self._watched = False
        self._simulation: SimulationInterfaces | None = None

    def open(self) -> None:
        """Begins to tell the time and to serve; after all domains of the plan are open."""
        if self._clock is not None:
            self._clock.open(self._domains.opened)
        if self._services is not None:
            self._services.open()
        self._node.add_on_set_parameters_callback(self._check)
        self._node.add_post_set_parameters_callback(self._on_parameters)
        self._watched = True
        self._tell()

    def make_loop(self) -> OwnTimeLoop:
        """Return what ticks."""
        return OwnTimeLoop(self._runtime, self.control, keeper=self._keeper, idle=self._tell)

    def revise(self) -> None:
        """Goes on after the runtime has gone on to another plan: entities came or went; between two ticks."""
        if self._simulation is not None:
            self._simulation.revise()

    def leave(self, domains: Collection[Domain]) -> None:
        """Tells no time in domains that are to be closed."""
        if self._clock is not None:
            self._clock.leave(domains)

    def join(self) -> None:
        """Tells the time in domains that were opened, too."""
        if self._clock is not None:
            self._clock.open(self._domains.opened)

    def offer(
        self,
        handlers: Handlers,
        *,
        quit_process: Callable[[], bool],
        inform: Report,
        succession: Succession | None = None,
    ) -> None:
        """Begins to serve the standard simulation interfaces, where their package is installed.

        Args:
            handlers: What is bound to interfaces of the plan.
            quit_process: Has the process end soon; returns False where it is not the bridge's to end.
            inform: Told what is offered, or why nothing is.
            succession: How entities are spawned; None where they cannot be.
        """
        self._simulation = offer_simulation(
            self._runtime, self.control, self._domains.main,
            workers=self._workers, handlers=handlers, quit_process=quit_process, inform=inform,
            succession=succession,
        )  # fmt: skip
        if self._simulation is not None:
            self._simulation.open()

    def close(self) -> None:
        """Ends all of it. Idempotent."""
        self.control.close()
        self.control.before_steps_end = _nothing
        if self._simulation is not None:
            self._simulation.close()
        if self._watched:
            self._watched = False
            self._node.remove_on_set_parameters_callback(self._check)
            self._node.remove_post_set_parameters_callback(self._on_parameters)
        if self._services is not None:
            self._services.close()
        clock, self._clock = self._clock, None
        if clock is not None:
            self._runtime.remove_emitter(clock)
            clock.close()

    def now_ns(self) -> int:
        """Returns bridge time, nanoseconds; before the first tick, that of the first tick."""
        return self._runtime.now_ns or self.control.step_ns

    def step(self, time_ns: int | None) -> bool:
        """Ticks once for a host, as `Timekeeper.step`."""
        return self._keeper.step(time_ns)

    def reset(self, *, spinning: bool) -> None:
        """Takes everything back to the start; at once, unless a loop does that between two ticks."""
        if spinning:
            self.control.reset()
        else:
            self._runtime.reset()

    def interfaces(self) -> list[InterfaceStatus]:
        """Returns rows of /clock and the services."""
        rows = [] if self._clock is None else self._clock.status(self._runtime.now_ns)
        return rows if self._services is None else [*rows, *self._services.status()]

    def status(self) -> TimeStatus:
        """Returns how time passes."""
        control = self.control
        return TimeStatus(
            state=control.state,
            real_time_factor=control.real_time_factor,
            achieved_factor=control.achieved_factor,
        )

    def _tell(self) -> None:
        if self._clock is not None:
            self._clock.tell(self._runtime.now_ns)

    @staticmethod
    def _follower_fault(runtime: GuardedRuntime) -> str:
        """Return why the node cannot follow /clock."""
        return (
            f"the backend {type(runtime.backend).__name__} owns time and tells it to others on /clock: leave "
            "use_sim_time of the bridge's node false"
        )

    def _check(self, parameters: Sequence[Any]) -> Any:
        if any(parameter.name == "use_sim_time" and parameter.value for parameter in parameters):
            # As at the start. The node's clock changes with the answer: this callback is asked before rclpy's own.
            return SetParametersResult(
                successful=False, reason=f"use_sim_time cannot be true: {self._follower_fault(self._runtime)}"
            )
        ours = [parameter.name for parameter in parameters if parameter.name == FACTOR]
        reason = remote_refusal(self._runtime.remote_control, ours)
        return SetParametersResult(successful=not reason, reason=escaped(reason))

    def _on_parameters(self, parameters: Sequence[Any]) -> None:
        for parameter in parameters:
            if parameter.name == FACTOR and parameter.value is not None:
                self.control.real_time_factor = parameter.value


def _nothing() -> None:
    pass


def find_time(
    runtime: GuardedRuntime, domains: Domains, workers: Workers, options: TimeOptions
) -> tuple[RosClock | OwnTime, Loop | OwnTimeLoop]:
    """Returns whose time a bridge goes by, and the loop that ticks by it: its backend's own, else its node's.

    Args:
        runtime: Open.
        domains: Where time is told, or heard.
        workers: Where requests to services wait.
        options: How time passes where the backend owns it.

    Raises:
        OptionError: An option is not possible.
        BridgeError: The node follows /clock, but the backend owns time.
    """
    if runtime.capabilities.step_ns > 0:
        own = OwnTime(runtime, domains, workers, options)
        return own, own.make_loop()
    clock = RosClock(domains.main.node)
    clock.open()
    return clock, Loop(runtime, clock.source)
