"""Bridge time: ROS time of the bridge's node; or simulated time, with /clock and services, if the backend owns it."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool, Trigger

from usd_ros_bridge.backends.base import EntityBackend, StateTransferBackend
from usd_ros_bridge.errors import BridgeError, OptionError, escaped
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.message_types import CLOCK, SET_BOOL, SIMULATOR_FEATURES, TRIGGER
from usd_ros_bridge.model.periods import SECOND_NS
from usd_ros_bridge.model.plan import BridgePlan, QosPlan
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.bridge_status import InterfaceStatus, TimeStatus
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.endpoints.handlers import Handlers
from usd_ros_bridge.ros.endpoints.publisher import NO_SUBSCRIBER
from usd_ros_bridge.ros.endpoints.service import ServiceServer, make_built_in_server
from usd_ros_bridge.ros.interface_types import AmentCatalog
from usd_ros_bridge.ros.parameters import remote_refusal
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.loop import ExternalClock, Loop, SystemClock
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange
from usd_ros_bridge.runtime.publications import Publication
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.schedule import RateMeter
from usd_ros_bridge.runtime.sim_time import SimTimeLoop, TimeControl, Timekeeper
from usd_ros_bridge.runtime.snapshot import Snapshot

if TYPE_CHECKING:
    from usd_ros_bridge.ros.simulation.simulation_interfaces import SimulationInterfaces

FACTOR = "real_time_factor"
"""The node's parameter that may be set while the bridge runs."""
CLOCK_TOPIC = "/clock"
CLOCK_QOS = QosPlan(reliability="reliable", durability="volatile", depth=10)
"""ROS 2's default QoS, as of ros_gz_bridge and Isaac Sim. The subscriptions of rclpy and rclcpp are best effort."""
_CHECK_NS = SECOND_NS

# Plain CDR, little endian: builtin_interfaces/Time of whole seconds and nanoseconds.
_LAYOUT = struct.Struct("<4siI")
_LITTLE_ENDIAN = b"\x00\x01\x00\x00"


class ClockPublisher(Publication):
    """Publish bridge time in each domain, also while it stands still."""

    def __init__(self, *, rate: float, now_ns: Callable[[], int], report: Report) -> None:
        """Store the arguments.

        Args:
            rate: Hz of bridge time, for status.
            now_ns: Return bridge time, nanoseconds.
            report: For other nodes that publish /clock, too.
        """
        super().__init__()
        self._rate = rate
        self._now_ns = now_ns
        self._report = report
        self._handles: list[tuple[Domain, PublisherHandle, RateMeter]] = []
        self._data = bytearray(_LAYOUT.size)
        self._next_check_ns = 0

    def open(self, domains: Iterable[Domain]) -> None:
        """Create a publisher in each domain that has none yet."""
        there = {id(domain) for domain, _, _ in self._handles}
        for domain in domains:
            if id(domain) in there:
                continue
            handle = domain.open_publisher(Clock, CLOCK_TOPIC, qos_profiles.profile(CLOCK_QOS))
            self._handles.append((domain, handle, RateMeter()))

    def publish(self, snapshot: Snapshot) -> bool:
        """Publish the time of the state."""
        self._publish(snapshot.time_ns)
        return True

    def publish_now(self) -> None:
        """Publish bridge time at once: its rate does not pass while time stands still."""
        self._publish(self._now_ns())

    def reset(self) -> None:
        """Publish the time that starts over."""
        self.publish_now()

    def _publish(self, time_ns: int) -> None:
        _LAYOUT.pack_into(self._data, 0, _LITTLE_ENDIAN, *divmod(time_ns, SECOND_NS))
        for _, handle, meter in self._handles:
            handle.send(self._data)
            meter.mark(time_ns)
        now = time.monotonic_ns()
        if now >= self._next_check_ns:
            self._next_check_ns = now + _CHECK_NS
            self._find_other_clocks()

    def close_in(self, domains: Collection[Domain]) -> None:
        """Destroy the publishers in some domains."""
        left = [each for each in self._handles if each[0] in domains]
        self._handles = [each for each in self._handles if each[0] not in domains]
        for domain, handle, _ in left:
            handle.close(domain.destroy)

    def close(self) -> None:
        """Destroy the publishers. Idempotent."""
        handles, self._handles = self._handles, []
        for domain, handle, _ in handles:
            handle.close(domain.destroy)

    def status(self, time_ns: int) -> list[InterfaceStatus]:
        """Return the status in each domain, at a bridge time in nanoseconds."""
        return [self._row(domain, handle, meter, time_ns) for domain, handle, meter in tuple(self._handles)]

    def _row(
        self, domain: Domain, handle: PublisherHandle, meter: RateMeter, time_ns: int
    ) -> InterfaceStatus:
        rate, matched = meter.rate(time_ns), handle.matched()
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path="",
            name=handle.topic_name,
            type=CLOCK,
            domain_id=domain.domain_id,
            authored_rate=self._rate,
            achieved_rate=rate,
            matched=matched,
            count=meter.count,
            state="active" if rate > 0.0 else "idle",
            reason="" if matched else NO_SUBSCRIBER,
            qos=CLOCK_QOS,
        )

    def _find_other_clocks(self) -> None:
        """Report a second clock: nodes that follow both see time jump back and forth."""
        for domain, handle, _ in self._handles:
            name = handle.topic_name
            if handle.publisher_count() > 1:
                self._report(
                    f"clock.taken:{domain.domain_id}",
                    f"another node publishes {name} in domain {domain.domain_id}, too: whoever follows it sees time "
                    "jump back and forth (publish_clock:=false switches this one off)",
                )


class RosClock:
    """Clock of the loop that follows the node's clock. `use_sim_time` decides at `open` which one it is.

    Simulated time stands still between two messages on /clock and is unknown until the first. Messages on /clock
    arrive only while the node's executor runs.
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
        # A ROS clock shows zero before the first message.
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
        control: Pause, step and reset, from any thread.
    """

    def __init__(self, runtime: Runtime, domains: Domains, workers: Workers) -> None:
        """Store the arguments.

        Args:
            runtime: Open; its backend owns time.
            domains: Domains with /clock.
            workers: Run requests to services.

        Raises:
            BridgeError: The node follows /clock, which the bridge publishes.
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
            # Before all other publications: peers know the time when another message arrives.
            runtime.add_publication(self._clock, name="/clock", rate=options.clock_rate)
        # /clock is due at its own rate only: time that stands still is published at once.
        self.control.before_steps_end = self._publish_clock
        self._watched = False
        self._simulation: SimulationInterfaces | None = None

    def open(self) -> None:
        """Publish /clock and open the services; after all domains of the plan are open."""
        if self._clock is not None:
            self._clock.open(self._domains.opened)
        for server in self._servers:
            server.open()
        self._node.add_on_set_parameters_callback(self._check)
        self._node.add_post_set_parameters_callback(self._on_parameters)
        self._watched = True
        self._publish_clock()

    def make_loop(self) -> SimTimeLoop:
        """Return the loop."""
        return SimTimeLoop(self._runtime, self.control, keeper=self._keeper, idle=self._publish_clock)

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
        # First: a wrong option is reported wherever it would be used.
        roots = find_spawn_roots(self._runtime)
        options = self._runtime.options
        if options.remote_control == "none" or not options.simulation_services:
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
            spawn_roots=roots,
        )
        inform("simulation_interfaces", self._simulation.summary())
        self._simulation.open()

    def close(self) -> None:
        """Close all of it. Idempotent."""
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
        """Return the status of /clock, the bridge's own services and those of simulation_interfaces."""
        rows = [] if self._clock is None else self._clock.status(self._runtime.now_ns)
        standard = [] if self._simulation is None else self._simulation.status()
        return [*rows, *(server.status() for server in self._servers), *standard]

    def status(self) -> TimeStatus:
        """Return the status of time."""
        control = self.control
        return TimeStatus(
            state=control.state,
            real_time_factor=control.real_time_factor,
            achieved_factor=control.achieved_factor,
        )

    def _publish_clock(self) -> None:
        if self._clock is not None:
            self._clock.publish_now()

    @staticmethod
    def _follower_fault(runtime: Runtime) -> str:
        """Return why the node cannot follow /clock."""
        return (
            f"the backend {type(runtime.backend).__name__} owns time and publishes it on /clock: leave "
            "use_sim_time of the bridge's node false"
        )

    def _check(self, parameters: Sequence[Any]) -> Any:
        if any(parameter.name == "use_sim_time" and parameter.value for parameter in parameters):
            # As at the start. This callback runs before rclpy's own, which would change the node's clock.
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


def find_spawn_roots(runtime: Runtime) -> tuple[Path, ...]:
    """Return the directories to spawn from, links resolved; none if, with a report, nothing can be spawned.

    Args:
        runtime: Open.

    Raises:
        OptionError: One of them is no directory.
    """
    roots = runtime.options.spawn_roots
    for root in roots:
        if not Path(root).is_dir():
            raise OptionError(f"spawn root {root!r} is no directory")
    if roots and (reason := _spawn_refusal(runtime)):
        runtime.reporter.report("spawn.unavailable", f"nothing can be spawned: {reason}")
        return ()
    return tuple(Path(root).resolve() for root in roots)


def _spawn_refusal(runtime: Runtime) -> str:
    """Return why nothing can be spawned, "" if something can."""
    plan, backend = runtime.plan, runtime.backend
    if not isinstance(backend, StateTransferBackend):
        return f"the backend {type(backend).__name__} cannot go on with another scene"
    if not isinstance(backend, EntityBackend):
        return f"the backend {type(backend).__name__} has no entities"
    if plan.stage is None:
        return "the plan has no stage to spawn anything on"
    if not (plan.stage_owned or runtime.options.scene_edits):
        return (
            "the stage is the host's and read only (scene_edits=True lets the bridge edit its session layer)"
        )
    return ""


def find_time(
    runtime: Runtime, domains: Domains, workers: Workers
) -> tuple[RosClock | SimTime, Loop | SimTimeLoop]:
    """Return the time of a bridge and its loop: those of a backend that owns time, else those of the node.

    Args:
        runtime: Open.
        domains: Domains of the bridge.
        workers: Run requests to services.

    Raises:
        BridgeError: The node follows /clock, but the backend owns time.
    """
    if runtime.capabilities.step_ns > 0:
        own = SimTime(runtime, domains, workers)
        return own, own.make_loop()
    clock = RosClock(domains.main.node)
    clock.open()
    return clock, Loop(runtime, clock.source)
