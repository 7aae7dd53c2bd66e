"""Bridge time: ROS time of the bridge's node, or simulation time where the backend owns it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool, Trigger

from usd_ros_bridge.errors import BridgeError, escaped
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.message_types import SET_BOOL, SIMULATOR_FEATURES, TRIGGER
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.bridge_status import InterfaceStatus, TimeStatus
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.endpoints.handlers import Handlers
from usd_ros_bridge.ros.endpoints.service import ServiceServer, make_built_in_server
from usd_ros_bridge.ros.interface_types import AmentCatalog
from usd_ros_bridge.ros.parameters import remote_refusal
from usd_ros_bridge.ros.time.clock_publisher import ClockPublisher
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.loop import ExternalClock, Loop, SystemClock
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.sim_time import SimTimeLoop, TimeControl, Timekeeper

if TYPE_CHECKING:
    from usd_ros_bridge.ros.simulation.simulation_interfaces import SimulationInterfaces

FACTOR = "real_time_factor"
"""The node's parameter that may be set while the bridge runs."""


class RosClock:
    """The `Clock` of the loop, which follows the node's. Which one is decided when it is opened, by `use_sim_time`.

    Simulated time stands still between two messages on /clock and is unknown until the first. The node's executor has
    to run, or no message on /clock arrives.
    """

    def __init__(self, node: Any) -> None:
        self._ros_clock = node.get_clock()
        self._handle: Any = None
        self._clock: SystemClock | ExternalClock = SystemClock()

    @property
    def simulated(self) -> bool:
        """Return whether time comes from /clock."""
        return isinstance(self._clock, ExternalClock)

    def open(self) -> None:
        """Begin to follow /clock where the node does."""
        if not self._ros_clock.ros_time_is_active:
            return
        self._clock = ExternalClock()
        threshold = JumpThreshold(
            min_forward=Duration(nanoseconds=1), min_backward=Duration(nanoseconds=-1), on_clock_change=True
        )
        self._handle = self._ros_clock.create_jump_callback(threshold, post_callback=self._on_jump)
        self._on_jump(None)

    def close(self) -> None:
        """Stop following. Idempotent."""
        if self._handle is not None:
            self._handle.unregister()
            self._handle = None

    def now_ns(self) -> int | None:
        """Return the time in nanoseconds, None while it is not known."""
        return self._clock.now_ns()

    @property
    def source(self) -> SystemClock | ExternalClock:
        """Return the clock that the loop waits on, once open."""
        return self._clock

    def _on_jump(self, _: Any) -> None:
        now = int(self._ros_clock.now().nanoseconds)
        # Zero is what a ROS clock shows before it has heard anything.
        if now > 0 and isinstance(self._clock, ExternalClock):
            self._clock.advance(now)


def with_sim_time(overrides: Sequence[Any], use_sim_time: bool | None) -> list[Any]:
    """Return parameter overrides with `use_sim_time` among them, unless it is None."""
    if use_sim_time is None:
        return list(overrides)
    make: Any = Parameter
    return [*overrides, make("use_sim_time", value=use_sim_time)]


class TimeServices:
    """Answer ~/set_paused, ~/step and ~/reset. They act between two ticks, and answer after that."""

    def __init__(self, control: TimeControl) -> None:
        self._control = control

    async def set_paused(self, request: Any, response: Any) -> Any:
        """Pause or resume."""
        if request.data:
            self._control.pause()
        else:
            self._control.resume()
        response.success, response.message = True, self._control.state
        return response

    async def step(self, _request: Any, response: Any) -> Any:
        """Step once, in a pause."""
        time_ns = await asyncio.wrap_future(self._control.step())
        response.success, response.message = True, _shown(time_ns)
        return response

    async def reset(self, _request: Any, response: Any) -> Any:
        """Reset everything to the state at rest."""
        time_ns = await asyncio.wrap_future(self._control.reset())
        response.success, response.message = True, _shown(time_ns)
        return response

    def servers(self, domain: Domain, workers: Workers, report: Report) -> list[ServiceServer]:
        """Return the servers of the services, to be opened."""
        rows = (
            ("~/set_paused", SET_BOOL, SetBool, self.set_paused),
            ("~/step", TRIGGER, Trigger, self.step),
            ("~/reset", TRIGGER, Trigger, self.reset),
        )
        return [
            make_built_in_server(
                name, type_name, service_class, domain, answer, workers=workers, report=report
            )
            for name, type_name, service_class, answer in rows
        ]


def _shown(time_ns: int) -> str:
    return f"time is {time_ns * 1e-9:.9g} s"


class SimTime:
    """Bridge time of a backend that owns it.

    Attributes:
        control: Pauses, steps and resets, from any thread.
    """

    def __init__(self, runtime: Runtime, domains: Domains, workers: Workers) -> None:
        """Store the arguments.

        Args:
                runtime: Open; its backend owns time.
                domains: Where the time is told.
                workers: Where requests to services wait.

        Raises:
            BridgeError: The node follows /clock, which this is to publish.
        """
        options = runtime.options
        main = domains.main
        if main.node.get_clock().ros_time_is_active:
            raise BridgeError(f"use_sim_time is true, but {self._follower_fault(runtime)}")
        self._runtime = runtime
        self._domains = domains
        self._workers = workers
        self._node: Any = main.node
        report = runtime.reporter.report
        self.control = TimeControl(
            step_ns=runtime.capabilities.step_ns,
            real_time_factor=options.real_time_factor,
            paused=options.start_paused,
            wake=runtime.inbox.wakeup.set,
        )
        self._clock = (
            ClockPublisher(rate=options.clock_rate, now_ns=lambda: runtime.now_ns, report=report)
            if options.publish_clock
            else None
        )
        self._keeper = Timekeeper(runtime, self.control)
        self._servers: list[ServiceServer] = []
        if options.remote_control == "all":
            self._servers = TimeServices(self.control).servers(main, workers, report)
        if self._clock is not None:
            # Before all others: who gets a message knows the time by then.
            runtime.add_publication(self._clock, name="/clock", rate=options.clock_rate)
        # /clock is due at its own rate only: time that stands still is told at once.
        self.control.before_steps_end = self._tell
        self._watched = False
        self._simulation: SimulationInterfaces | None = None

    def open(self) -> None:
        """Begin to tell the time and to serve; after all domains of the plan are open."""
        if self._clock is not None:
            self._clock.open(self._domains.opened)
        for server in self._servers:
            server.open()
        self._node.add_on_set_parameters_callback(self._check)
        self._node.add_post_set_parameters_callback(self._on_parameters)
        self._watched = True
        self._tell()

    def make_loop(self) -> SimTimeLoop:
        """Return what ticks."""
        return SimTimeLoop(self._runtime, self.control, keeper=self._keeper, idle=self._tell)

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Prepare for other entities and domains, as `PlanComponent.prepare`."""
        del plan

        def commit() -> None:
            if self._simulation is not None:
                self._simulation.update_entities()

        def cleanup() -> None:
            if self._clock is not None:
                self._clock.close_in(self._domains.unused(binding.plan))

        def finish() -> None:
            if self._clock is not None:
                self._clock.open(self._domains.opened)

        return PreparedChange(commit=commit, cleanup=cleanup, finish=finish)

    def serve_simulation(
        self,
        handlers: Handlers,
        *,
        quit_process: Callable[[], bool],
        request_change: Callable[..., Future[ChangeReport]],
        inform: Report,
    ) -> None:
        """Open the standard simulation interfaces, if their package is installed.

        Args:
            handlers: Handlers of the plan's interfaces.
            quit_process: End the process soon. Return False if it is not the bridge's to end.
            request_change: Change the plan to spawn something, as `ChangeCoordinator.request`.
            inform: For one line that says what is served, or why nothing is.

        Raises:
            OptionError: A directory to spawn from does not exist.
        """
        if self._runtime.options.remote_control == "none":
            return
        if not AmentCatalog().contains(SIMULATOR_FEATURES):
            inform(
                "simulation_interfaces",
                "simulation_interfaces is not installed, so its services are not offered "
                "(apt install ros-$ROS_DISTRO-simulation-interfaces)",
            )
            return
        # Here, as it needs the message package.
        from usd_ros_bridge.ros.simulation.simulation_interfaces import SimulationInterfaces

        self._simulation = SimulationInterfaces(
            self._runtime,
            self.control,
            self._domains.main,
            workers=self._workers,
            handlers=handlers,
            quit_process=quit_process,
            request_change=request_change,
        )
        inform("simulation_interfaces", self._simulation.summary())
        self._simulation.open()

    def close(self) -> None:
        """End all of it. Idempotent."""
        self.control.close()
        self.control.before_steps_end = _nothing
        if self._simulation is not None:
            self._simulation.close()
        if self._watched:
            self._watched = False
            self._node.remove_on_set_parameters_callback(self._check)
            self._node.remove_post_set_parameters_callback(self._on_parameters)
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        clock, self._clock = self._clock, None
        if clock is not None:
            self._runtime.remove_publication(clock)
            clock.close()

    def now_ns(self) -> int:
        """Return bridge time, nanoseconds; before the first tick, that of the first tick."""
        return self._runtime.now_ns or self.control.step_ns

    def step(self, time_ns: int | None) -> bool:
        """Tick once for a host, as `Timekeeper.step`."""
        return self._keeper.step(time_ns)

    def reset(self, *, spinning: bool) -> None:
        """Reset everything to the start; at once, unless a loop does that between two ticks."""
        if spinning:
            self.control.reset()
        else:
            self._runtime.reset()

    def interfaces(self) -> list[InterfaceStatus]:
        """Return rows of /clock and the services."""
        rows = [] if self._clock is None else self._clock.status(self._runtime.now_ns)
        return [*rows, *(server.status() for server in self._servers)]

    def status(self) -> TimeStatus:
        """Return how time passes."""
        control = self.control
        return TimeStatus(
            state=control.state,
            real_time_factor=control.real_time_factor,
            achieved_factor=control.achieved_factor,
        )

    def _tell(self) -> None:
        if self._clock is not None:
            self._clock.publish_now()

    @staticmethod
    def _follower_fault(runtime: Runtime) -> str:
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
        reason = remote_refusal(self._runtime.options.remote_control, ours)
        return SetParametersResult(successful=not reason, reason=escaped(reason))

    def _on_parameters(self, parameters: Sequence[Any]) -> None:
        for parameter in parameters:
            if parameter.name == FACTOR and parameter.value is not None:
                self.control.real_time_factor = parameter.value


def _nothing() -> None:
    pass


def find_time(
    runtime: Runtime, domains: Domains, workers: Workers
) -> tuple[RosClock | SimTime, Loop | SimTimeLoop]:
    """Return whose time a bridge goes by, and the loop that ticks by it: its backend's own, else its node's.

    Args:
        runtime: Open.
        domains: Where time is told, or heard.
        workers: Where requests to services wait.

    Raises:
        BridgeError: The node follows /clock, but the backend owns time.
    """
    if runtime.capabilities.step_ns > 0:
        own = SimTime(runtime, domains, workers)
        return own, own.make_loop()
    clock = RosClock(domains.main.node)
    clock.open()
    return clock, Loop(runtime, clock.source)
