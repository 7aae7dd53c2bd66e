"""Bridge: a plan and a backend as live ROS 2 interfaces, in a process of its own or in a host's loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.base import Backend, BackendInput, needs_physics
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.actuation import REPORTED_AT_RUN_TIME
from usd_ros_bridge.model.change import ChangeReport
from usd_ros_bridge.model.periods import nanoseconds
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.options import BridgeOptions, Engine, PlanOptions, ReadOptions, VariantSelection
from usd_ros_bridge.planning.conflicts import disable_conflicts, leave_offered
from usd_ros_bridge.process_settings import close_at_exit
from usd_ros_bridge.ranges import TIMEOUT
from usd_ros_bridge.reporting import NodeLog, OnceReporter, Report, limited
from usd_ros_bridge.ros.backend_choice import AUTO, check_plan, choose, open_chosen, wants_physics
from usd_ros_bridge.ros.bridge_status import BridgeStatus, InterfaceStatus
from usd_ros_bridge.ros.bridge_time import RosClock, SimTime, find_time, with_sim_time
from usd_ros_bridge.ros.change.asset_reloader import AssetReloader
from usd_ros_bridge.ros.change.coordinator import ChangeCoordinator
from usd_ros_bridge.ros.change.live_parameters import LiveParameters
from usd_ros_bridge.ros.description.robot_description import Descriptions, PlanSummary
from usd_ros_bridge.ros.diagnostics.diagnostics_publisher import DiagnosticsPublisher
from usd_ros_bridge.ros.diagnostics.graph_monitor import CHECK_RATE, GraphMonitor
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.endpoints.backend_inputs import input_conflicts
from usd_ros_bridge.ros.endpoints.calls import Call
from usd_ros_bridge.ros.endpoints.handlers import Binding, HandlerRegistry, Handlers, bind_installed
from usd_ros_bridge.ros.endpoints.service_handlers import Services, run_in_tick, scene_access
from usd_ros_bridge.ros.foxglove.server_address import check_server
from usd_ros_bridge.ros.interface_set import Interfaces
from usd_ros_bridge.ros.message_tap import join_taps
from usd_ros_bridge.ros.parameters import ControllerParameters
from usd_ros_bridge.ros.recording.bridge_recording import BridgeRecording
from usd_ros_bridge.ros.tf.broadcaster import RobotTransforms
from usd_ros_bridge.ros.tf.relay import StateRelay
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.controller_manager import ControllerStatus
from usd_ros_bridge.runtime.loop import Loop
from usd_ros_bridge.runtime.plan_binding import PlanComponent
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.sim_time import SimTimeLoop, TimeControl
from usd_ros_bridge.runtime.step_callbacks import AfterStep, BeforeStep, StepCallbacks
from usd_ros_bridge.start_phases import BACKEND, COMPILING, DISCOVERY, Progress

if TYPE_CHECKING:
    from usd_ros_bridge.ros.foxglove.foxglove_server import FoxgloveServer
    from usd_ros_bridge.ros.foxglove.live_channels import LiveChannels

NODE_NAME = "usd_ros_bridge"
QUIT_S = 0.2
"""Delay of the end, so that the answer to the request is sent, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BridgeParts:
    """Parts of an open bridge. For tests and tools: they may differ in every release."""

    backend_name: str
    domains: Domains
    runtime: Runtime
    clock: RosClock | SimTime
    loop: Loop | SimTimeLoop
    transforms: RobotTransforms
    interfaces: Interfaces
    controller_parameters: ControllerParameters
    live_parameters: LiveParameters
    descriptions: Descriptions
    summary: PlanSummary
    diagnostics: DiagnosticsPublisher
    changes: ChangeCoordinator
    reloader: AssetReloader
    recording: BridgeRecording | None
    foxglove: FoxgloveServer | None


class Bridge(HandlerRegistry):
    """Live ROS 2 interfaces of a plan, moved by a backend.

    A process of its own calls `spin`. A host calls `step` from its own thread, as often as its simulation steps;
    subscriptions fill the inbox from background threads, or in `poll` with `threaded=False`. Use it as a context
    manager, or call `open` and `close`.

    Handlers may be bound before and after the opening; targets are prim paths and absolute names of the plan.

    rclpy's default context, signal handlers and the environment are left alone. A handed-in node serves its own domain
    and its executor stays the host's; other domains get contexts of the bridge's own.
    """

    def __init__(
        self,
        plan: BridgePlan,
        backend: str | Backend = "kinematic",
        *,
        options: BridgeOptions | None = None,
        node: Any = None,
        report: Report | None = None,
        inform: Report | None = None,
    ) -> None:
        """Store the arguments; `open` acquires.

        Args:
            plan: Plan to run.
            backend: Name of an installed backend, `auto`, or a backend of the caller's that is not open yet. `auto` is
                `mujoco` if that is installed and the asset has drives, actuators or bodies that fall, else
                `kinematic`.
            options: Everything else; the defaults if None.
            node: rclpy node of the host, in a running executor of the host, to use instead of an own one. Or open
                `Domains`, which the bridge closes.
            report: Show a warning `(kind, message)`; the node's logger by default.
            inform: Show news `(kind, message)`; the node's logger by default.

        Raises:
            BridgeError: `plan` is a path, a stage, or anything else than a plan.
        """
        check_plan(plan, type(self).__name__)
        super().__init__(Handlers(plan))
        self._options = options or BridgeOptions()
        self._chosen_backend = backend
        self._log = NodeLog(NODE_NAME)
        self._reporter, self._inform = (
            OnceReporter(report or self._log.warn),
            limited(inform or self._log.inform),
        )
        self._step_callbacks = StepCallbacks(self._reporter.report)
        self._progress: Progress = lambda _: None
        self._workers = Workers()
        # Held by ticks, and by the thread that closes the bridge.
        self._lock = threading.RLock()
        self._domains = node if isinstance(node, Domains) else self._make_domains(node)
        self._resources = ExitStack()
        self._resources.callback(self._domains.close)
        # Last first.
        self._stops: list[Callable[[], None]] = [self._domains.stop, self._workers.close]
        self._recording: BridgeRecording | None = None
        self._live_channels: LiveChannels | None = None
        self._opened: BridgeParts | None = None
        # Set before all is open: a signal handler may call `stop` meanwhile.
        self._loop: Loop | SimTimeLoop | None = None
        self._was_opened = False
        self._closed = False
        self._spinning = False

    # --- Life cycle --------------------------------------------------------------------------------------------

    @classmethod
    def open_asset(
        cls,
        asset: str | os.PathLike[str] | Any,
        *,
        backend: str | Backend = "kinematic",
        variants: Mapping[str, str] | Iterable[VariantSelection | str] | None = None,
        read_options: ReadOptions | None = None,
        plan_options: PlanOptions | None = None,
        options: BridgeOptions | None = None,
        node: Any = None,
        report: Report | None = None,
        inform: Report | None = None,
        progress: Progress | None = None,
    ) -> Bridge:
        """Load the plan of an asset, and open a bridge of it. Use the result as a context manager, or `close` it.

        Args:
            asset: Path of a USD file, or an open stage, as for `load_plan`.
            backend: As for `Bridge`.
            variants: As for `load_plan`.
            read_options: As for `load_plan`.
            plan_options: As for `load_plan`.
            options: As for `Bridge`.
            node: As for `Bridge`.
            report: As for `Bridge`.
            inform: As for `Bridge`.
            progress: Called with the name of each phase when it begins.

        Returns:
            The bridge, open.

        Raises:
            AssetError: The file is missing or cannot be opened.
            VariantError: A variant was asked for that the asset does not have.
            BackendError: The backend is unknown, not installed, or refuses its options.
            BridgeError: Another argument is not possible.
        """
        plan_options = plan_options or PlanOptions()
        if backend in get_args(Engine):
            plan_options = replace(plan_options, engine=cast(Engine, backend))
        plan = load_plan(
            asset,
            variants=variants,
            read_options=read_options,
            plan_options=plan_options,
            physics=wants_physics(backend),
            progress=progress,
        )
        bridge = cls(plan, backend, options=options, node=node, report=report, inform=inform)
        return bridge.open(progress=progress)

    def open(self, *, progress: Progress | None = None) -> Bridge:
        """Open the backend and all enabled interfaces. Return the bridge.

        Args:
            progress: Called with the name of each phase when it begins.

        Raises:
            BackendError: The backend is unknown, not installed, or refuses its options.
            BridgeError: The bridge was opened before, or the ROS arguments are not valid.
        """
        if self._was_opened or self._closed:
            raise BridgeError("a bridge is opened once; make another one")
        self._options.check()
        self._was_opened = True
        self._stops.append(close_at_exit(self.close))
        if progress is not None:
            self._progress = progress
        try:
            self._opened = self._open()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Close everything that `open` opened. Idempotent, from any thread, also while callbacks run."""
        # Objects that refer to each other, to the plan and to its stage are released here, in this thread. A stage
        # that waits for the garbage collector is freed in any thread, perhaps while OpenUSD notifies other stages of
        # changes in another one: the process would end.
        self._closed = True
        self._log.node = None
        # Threads end before what they use, and outside of the lock, which none of them needs to end.
        for stop in reversed(self._stops):
            stop()
        with self._lock:
            self._resources.close()
            self._opened = self._loop = None
            self._stops.clear()
            self._step_callbacks.clear()
            self._handlers.close()

    def __enter__(self) -> Bridge:
        # `open_asset` returns an open one.
        return self if self._opened is not None else self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- Running -----------------------------------------------------------------------------------------------

    def step(self, time_ns: int | None = None) -> bool:
        """Tick once, in the host's thread: apply what arrived, step the backend, publish what is due.

        Args:
            time_ns: Bridge time, nanoseconds, the stamp of messages; None for the ROS time of the bridge's node. If the
                backend owns time: the time to advance to, rounded down to the end of a step (with a tolerance of a
                hundredth of a step); None for one step of the backend.

        Returns:
            Whether the backend gave a state. False while time that the backend owns is paused.

        Raises:
            BridgeError: The bridge is not open, `spin` runs in another thread, or the time is no int.
        """
        if time_ns is not None and type(time_ns) is not int:
            time_ns = nanoseconds(time_ns)
        # Most steps have nothing due: without `parts`, a tenth of their time.
        parts = self._opened
        if parts is None or self._closed:
            parts = self.parts
        if self._spinning:
            raise BridgeError("step() while spin() runs: one of the two drives the bridge")
        clock = parts.clock
        if isinstance(clock, SimTime):
            return clock.step(time_ns)
        now = clock.now_ns() if time_ns is None else time_ns
        if now is None:
            return False
        runtime = parts.runtime
        runtime.follow_host(now)
        return runtime.tick(now)

    def before_step(self, callback: BeforeStep) -> Binding:
        """Call a function before each step of the backend, in the tick thread. Before and after the opening.

        Args:
            callback: Called with the time to step to, nanoseconds, and the commands of the step, whose arrays are
                read-only. Callbacks run in the order of these calls. The exception of one is reported once.

        Returns:
            What removes it.
        """
        return self._bind_step(self._step_callbacks.add_before(callback))

    def after_step(self, callback: AfterStep) -> Binding:
        """Call a function after each step of the backend, before anything is published, in the tick thread.

        Args:
            callback: Called with the time of the tick, nanoseconds, and the state, whose arrays are read-only. As for
                `before_step`. Not called where the backend gave no state.

        Returns:
            What removes it.
        """
        return self._bind_step(self._step_callbacks.add_after(callback))

    def _bind_step(self, remove: Callable[[], None]) -> Binding:
        if self._opened is not None and not self._closed:
            # The next tick is not skipped.
            self.post(lambda: None)
        return Binding(remove)

    def poll(self) -> None:
        """Run waiting callbacks if no background thread does (`threaded=False`). Return at once."""
        self.parts.domains.poll()

    def spin(self) -> None:
        """Run until `stop` or `close`, in the calling thread.

        Raises:
            BridgeError: The bridge is not open.
        """
        loop = self.parts.loop
        self._spinning = True
        if self._recording is not None:
            self._recording.channels.lossless = self._is_unpaced()
        try:
            loop.run()
        finally:
            self._spinning = False

    def stop(self) -> None:
        """End `spin` after the tick in progress; from any thread or signal handler."""
        loop = self._loop
        if loop is not None:
            loop.stop()

    def reset(self) -> None:
        """Reset the backend to the state at rest; the next `step` may be at any time.

        If the backend owns time, time starts over; while `spin` runs, between two ticks. `time.reset` returns when.
        """
        parts = self.parts
        if isinstance(parts.clock, SimTime):
            parts.clock.reset(spinning=self._spinning)
            return
        parts.runtime.reset()

    # --- Asking ------------------------------------------------------------------------------------------------

    def call(
        self,
        target: str,
        request: Any,
        *,
        timeout: float | None = None,
        feedback: Callable[[Any], object] | None = None,
    ) -> Call:
        """Call the server of a client of the plan, as soon as the server exists.

        Args:
            target: Prim path or absolute name of the client.
            request: Request or goal message, or a mapping of its fields.
            timeout: Seconds until the call fails. By default 5 for a service; no limit for a goal.
            feedback: Function or coroutine function, called with each feedback message of a goal, outside the tick.

        Returns:
            The call: `await` it, or call its `result()`: the response, or the `ActionResult` of a goal.

        Raises:
            BridgeError: The bridge is not open, there is no such client, or the request does not fit its type.
        """
        parts = self.parts
        if timeout is not None:
            TIMEOUT.check("timeout", timeout)
        return parts.interfaces.call(target, request, timeout=timeout, feedback=feedback)

    def controllers(self) -> tuple[ControllerStatus, ...]:
        """Return all controllers, and which of them are active."""
        return self.parts.runtime.controllers.status()

    def switch_controllers(self, *, activate: Iterable[str] = (), deactivate: Iterable[str] = ()) -> Call:
        """Switch controllers by prim path, at the start of the next tick: all of them, or none.

        Returns:
            The switch: `await` it, or call its `result()`, to know that it happened.

        Raises:
            BridgeError: It is not possible: a path is unknown, a controller faulty, or a joint claimed twice.
        """
        parts, on, off = self.parts, tuple(activate), tuple(deactivate)
        runtime, controllers = parts.runtime, parts.runtime.controllers
        if reason := controllers.refusal(on, off):
            raise BridgeError(reason)

        def switch() -> None:
            runtime.controllers.switch(on, off)
            parts.controller_parameters.show()

        posted: list[Future[None]] = []
        controllers.announce(on, off, lambda: posted.append(run_in_tick(runtime, switch)))
        posted[0].add_done_callback(
            lambda done: runtime.controllers.withdraw(on, off) if done.cancelled() else None
        )
        return self._make_call(posted[0])

    # --- Change ------------------------------------------------------------------------------------------------

    @property
    def changes(self) -> ChangeCoordinator:
        """Coordinator of all changes: requests of parameters, services, file watchers and the host.

        Raises:
            BridgeError: The bridge is not open.
        """
        return self.parts.changes

    def change(
        self,
        *,
        variants: Sequence[VariantSelection] | None = None,
        plan_options: PlanOptions | None = None,
        edit: Callable[[Any], None] | None = None,
    ) -> Call:
        """Change variants, options or the stage of the running bridge. Only differences close and open.

        Args:
            variants: All selections that override authored ones; None keeps them.
            plan_options: New options of the plan; None keeps them.
            edit: Edit the stage, on its session layer. Refused for a stage of the caller's, unless `scene_edits`
                allows it.

        Returns:
            The change: `await` it, or call its `result()`, a ChangeReport. It fails with
            ChangeRefusedError, or another BridgeError, if it is refused: the running version continues.

        Raises:
            BridgeError: The bridge is not open.
        """
        options = None if plan_options is None else (lambda _: plan_options)
        future = self.changes.request(why="a change", variants=variants, options=options, edit=edit)
        return self._make_call(future)

    def reload(self) -> Call:
        """Read the files of the asset again, and change to their content, as `change` does.

        Raises:
            BridgeError: The bridge is not open.
        """
        return self._make_call(self.parts.reloader.reload())

    # --- Looking in --------------------------------------------------------------------------------------------

    @property
    def node(self) -> Any:
        """The rclpy node of the default domain."""
        return self.parts.domains.main.node

    @property
    def time(self) -> TimeControl | None:
        """Pause, steps and resets, from any thread; None where the backend does not own time."""
        clock = self.parts.clock
        return clock.control if isinstance(clock, SimTime) else None

    @property
    def parts(self) -> BridgeParts:
        """The parts of the open bridge, for tests and tools.

        Raises:
            BridgeError: The bridge is not open.
        """
        parts = self._opened
        if parts is None or self._closed:
            raise BridgeError("the bridge is not open")
        return parts

    def status(self) -> BridgeStatus:
        """Return the status of the bridge, from any thread.

        Raises:
            BridgeError: The bridge is not open.
        """
        with self._lock:
            parts = self.parts
            runtime, transforms = parts.runtime, parts.transforms
            counters = runtime.status()
            own_time = parts.clock if isinstance(parts.clock, SimTime) else None
            rows = [
                *parts.interfaces.status(),
                *transforms.status(counters.time_ns or 0),
                *parts.descriptions.status(),
                *parts.reloader.status(),
                *(() if own_time is None else own_time.interfaces()),
            ]
            return BridgeStatus(
                asset=self.plan.asset,
                backend=parts.backend_name,
                time_ns=counters.time_ns,
                ticks=counters.ticks,
                tick_seconds=runtime.tick_seconds,
                backend_errors=counters.backend_errors,
                interfaces=tuple(rows),
                moving_frames=transforms.moving,
                static_frames=transforms.static,
                robots=self.plan.robots,
                diagnostics=self.plan.diagnostics,
                reports=counters.reports,
                time=None if own_time is None else own_time.status(),
            )

    def summary(self) -> str:
        """Return one line for a log: numbers of interfaces and frames.

        Raises:
            BridgeError: The bridge is not open.
        """
        parts = self.parts
        counts, transforms = parts.interfaces.counts(), parts.transforms
        words = [_counted(counts[kind], kind) for kind in ("topic", "service", "action")]
        frames = f"{_counted(transforms.moving, 'moving frame')} and {transforms.static} static"
        return f"{', '.join(words)}, {frames}: ready"

    # --- Opening -----------------------------------------------------------------------------------------------

    def _open(self) -> BridgeParts:
        """Open everything, in order. `close` closes what is open, in reverse, if something fails."""
        bind_installed(self._handlers, self._options.handlers, self._reporter.report)
        # First of all: a file that cannot be made is the one line that is printed.
        recording = self._open_recording()
        self._open_live_channels()
        runtime, backend_name = self._open_runtime()
        self._progress(DISCOVERY)
        served = self._served_plan(runtime.plan, runtime.inputs)
        parts = self._make_parts(served, runtime, backend_name)
        if recording is not None:
            self._follow_time(recording, parts)
        self._loop = parts.loop
        self._handlers.open(runtime, partial(self._bridge_time_ns, parts))
        self._stops += [runtime.stop, parts.loop.stop]
        self._open_interfaces(parts)
        self._register_components(parts)
        self._open_changes(parts)
        monitor = GraphMonitor(lambda: runtime.plan, self._domains, report=self._reporter.report)
        runtime.add_publication(monitor, name="graph monitor", rate=CHECK_RATE)
        if parts.foxglove is not None:
            self._open_foxglove(parts, parts.foxglove)
        # All is there. A recording may begin with this text, so it waits for it.
        parts.summary.publish()
        if recording is not None:
            recording.begin(parts.domains.main.node, wait_for=partial(self._are_texts_published, parts))
        return parts

    def _open_runtime(self) -> tuple[Runtime, str]:
        """Choose and open the backend. Return the runtime and the backend's name."""
        plan, name = self.plan, self._chosen_backend
        # Before there is a node: an unknown name gives one message only.
        choice = None if name == AUTO else choose(plan, name, inform=self._inform)
        node = self._log.node = self._domains.main.node
        if choice is None:
            follows_clock = bool(node.get_clock().ros_time_is_active)
            choice = choose(plan, AUTO, follows_clock=follows_clock, inform=self._inform)
        self._progress(COMPILING if needs_physics(choice.backend) else f"{BACKEND} {choice.name}")
        runtime, backend_name = open_chosen(choice, self._make_runtime, self._reporter.report)
        self._resources.callback(runtime.close)
        return runtime, backend_name

    def _make_domains(self, node: Any) -> Domains:
        """Return domains whose nodes are created at their first use."""
        options = self._options
        return Domains(
            node=node,
            node_name=options.node_name,
            namespace=options.node_namespace,
            domain_id=options.domain_id,
            ros_args=options.ros_args,
            parameter_overrides=with_sim_time(options.parameter_overrides, options.use_sim_time),
            threaded=options.threaded,
            report=self._reporter.report,
        )

    def _make_runtime(self, plan: BridgePlan, backend: Backend) -> Runtime:
        return Runtime(
            plan,
            backend,
            options=self._options,
            reporter=self._reporter,
            inform=self._inform,
            lock=self._lock,
            deferred_jobs=self._domains,
            step_callbacks=self._step_callbacks,
        )

    def _make_parts(self, served: BridgePlan, runtime: Runtime, backend_name: str) -> BridgeParts:
        """Make the parts, none of them open; served: the plan with the interfaces that the bridge serves."""
        options, domains, main, report = (
            self._options,
            self._domains,
            self._domains.main,
            self._reporter.report,
        )
        clock, loop = find_time(runtime, domains, self._workers)
        changes = ChangeCoordinator(runtime, domains, served_plan=self._served_plan)
        transforms = RobotTransforms(
            served, domains, runtime, rate=options.tf_rate, publish_unmatched=options.publish_unmatched
        )
        scene, no_scene = scene_access(runtime.plan, edits=options.scene_edits)
        interfaces = Interfaces(
            served,
            domains,
            runtime,
            handlers=self._handlers,
            workers=self._workers,
            services=Services(self._handlers, runtime, scene, no_scene),
            forbidden=partial(forbidden_wait, self._workers, runtime),
            inform=self._inform,
            publish_unmatched=options.publish_unmatched,
        )
        descriptions = Descriptions(
            served,
            domains,
            options=options,
            workers=self._workers,
            in_tick=partial(run_in_tick, runtime),
            wait_for_tick=runtime.wait_for_tick,
            report=report,
        )
        live_parameters = LiveParameters(
            main.node,
            changes,
            owned=main.owned,
            controlled=lambda: runtime.controllers.parameter_names().keys(),
            tf_rate=options.tf_rate,
            set_tf_rate=lambda rate: runtime.post(lambda: transforms.set_rate(rate)),
            defer=main.defer,
            remote_control=options.remote_control,
            report=report,
        )

        def rows() -> Iterator[InterfaceStatus]:
            yield from interfaces.rows()
            yield from transforms.rows(runtime.now_ns)
            yield from descriptions.status()

        return BridgeParts(
            backend_name=backend_name,
            domains=domains,
            runtime=runtime,
            clock=clock,
            loop=loop,
            transforms=transforms,
            interfaces=interfaces,
            controller_parameters=ControllerParameters(main.node, runtime),
            live_parameters=live_parameters,
            descriptions=descriptions,
            summary=PlanSummary(
                served,
                main,
                refused=interfaces.refused,
                resolve=main.resolve_interface,
                enabled=options.publish_plan,
            ),
            diagnostics=DiagnosticsPublisher(
                runtime.plan, served, main, runtime, rows=rows, monitor=transforms.monitor
            ),
            changes=changes,
            reloader=AssetReloader(changes, runtime, main, self._workers),
            recording=self._recording,
            foxglove=self._make_foxglove(runtime),
        )

    def _open_recording(self) -> BridgeRecording | None:
        """Create the file of a recording, if there is to be one."""
        if self._options.record is None:
            return None
        recording = self._recording = BridgeRecording(
            self._options, self._domains, report=self._reporter.report
        )
        self._resources.callback(lambda: recording.close(self.plan))
        return recording

    def _open_live_channels(self) -> None:
        """Give a copy of messages to the server for Foxglove, if there is to be one."""
        check_server(self._options)
        if self._options.foxglove < 0:
            return
        from usd_ros_bridge.ros.foxglove.live_channels import LiveChannels

        channels = self._live_channels = LiveChannels(report=self._reporter.report)
        self._resources.callback(channels.close)
        self._domains.set_tap(join_taps(self._domains.tap, channels))

    def _make_foxglove(self, runtime: Runtime) -> FoxgloveServer | None:
        if self._live_channels is None:
            return None
        from usd_ros_bridge.ros.foxglove.foxglove_server import FoxgloveServer

        return FoxgloveServer(
            self._options,
            self._domains,
            plan=lambda: runtime.plan,
            channels=self._live_channels,
            workers=self._workers,
            report=self._reporter.report,
            inform=self._inform,
        )

    def _open_foxglove(self, parts: BridgeParts, server: FoxgloveServer) -> None:
        """Open the server for Foxglove, after all that it serves. It closes first."""
        from usd_ros_bridge.ros.foxglove.foxglove_server import TIME_RATE, TimeBroadcast
        from usd_ros_bridge.ros.foxglove.service_calls import OfferedService, offered_services

        clock, runtime = parts.clock, parts.runtime

        def services() -> Iterable[OfferedService]:
            own = [*parts.reloader.status(), *(clock.interfaces() if isinstance(clock, SimTime) else ())]
            refused = parts.interfaces.refused()
            # Others may call them as they may set parameters, here: a reader changes nothing.
            planned = () if self._options.remote_control != "all" else runtime.plan.services
            return offered_services(
                (each for each in planned if each.path not in refused), own, parts.domains
            )

        self._stops.append(server.close)
        if isinstance(clock, SimTime) or clock.simulated:
            server.open(services(), now_ns=lambda: clock.now_ns() or 0)
            runtime.add_publication(TimeBroadcast(server.link), name="foxglove time", rate=TIME_RATE)
        else:
            server.open(services(), now_ns=None)
        parts.changes.on_change(lambda _: server.change_services(services()))

    def _bridge_time_ns(self, parts: BridgeParts) -> int:
        """Return bridge time: of a host that steps, and of a backend that owns time, that of the last tick."""
        clock, runtime = parts.clock, parts.runtime
        if isinstance(clock, SimTime) or not self._spinning:
            return runtime.now_ns
        return clock.now_ns() or 0

    def _follow_time(self, recording: BridgeRecording, parts: BridgeParts) -> None:
        """Stamp what is recorded with bridge time, in real time with that of publishing."""
        clock, runtime = parts.clock, parts.runtime

        def time_ns() -> int | None:
            if isinstance(clock, SimTime):
                # What /clock says, also before the first tick: players keep no order of messages of one time.
                return runtime.now_ns
            # Before the first tick, it is not known yet whether a host steps the bridge, and in which time.
            return clock.now_ns() if self._spinning else runtime.time_ns

        recording.set_time(time_ns)
        if self._is_unpaced(clock):
            recording.leave_out_diagnostics()

    def _is_unpaced(self, clock: RosClock | SimTime | None = None) -> bool:
        """Return whether bridge time passes as fast as possible, and follows no clock."""
        return isinstance(clock or self.parts.clock, SimTime) and not self._options.real_time_factor

    def _are_texts_published(self, parts: BridgeParts) -> bool:
        """Return whether the texts of latched topics are published that a recording waits for.

        Threads make them: only where time follows no clock does it matter when.
        """
        if not self._is_unpaced(parts.clock):
            return True
        return parts.descriptions.is_complete and parts.summary.is_published

    def _open_interfaces(self, parts: BridgeParts) -> None:
        """Open everything that follows from the plan."""
        for part in (
            parts.transforms,
            parts.interfaces,
            parts.controller_parameters,
            parts.descriptions,
            parts.summary,
            parts.diagnostics,
            parts.clock,
        ):
            self._resources.callback(part.close)
        parts.controller_parameters.open()
        parts.domains.main.start()
        parts.transforms.open(parts.clock.now_ns() or 0)
        parts.interfaces.open()
        parts.descriptions.open()
        parts.summary.open()
        parts.diagnostics.open()
        if isinstance(parts.clock, RosClock) and not parts.clock.simulated and parts.domains.threaded:
            parts.runtime.relay = StateRelay(parts.runtime, parts.interfaces.inputs)
        if isinstance(parts.clock, SimTime):
            parts.clock.open()
            parts.clock.serve_simulation(
                self._handlers,
                quit_process=self._quit,
                request_change=parts.changes.request,
                inform=self._inform,
            )

    def _register_components(self, parts: BridgeParts) -> None:
        """Register what changes with the plan, in the order in which it changes."""
        components: tuple[PlanComponent, ...] = (
            self._handlers,
            parts.transforms,
            parts.interfaces,
            parts.live_parameters,
            parts.controller_parameters,
            parts.descriptions,
            parts.diagnostics,
            *((parts.clock,) if isinstance(parts.clock, SimTime) else ()),
            # Last: it says that the others are ready.
            parts.summary,
        )
        for component in components:
            parts.changes.register(component)

    def _open_changes(self, parts: BridgeParts) -> None:
        """Accept requests for changes: by the host, edits, parameters, the service ~/reload, and changed files."""
        changes, reloader, live_parameters = parts.changes, parts.reloader, parts.live_parameters
        for part in (reloader, live_parameters, changes):
            self._resources.callback(part.close)
        # They stop after the loop, which changes wait for.
        self._stops[-2:-2] = [changes.stop, reloader.stop]
        changes.open()
        changes.on_change(self._report_change)
        live_parameters.open()
        reloader.open()

    # --- Own ---------------------------------------------------------------------------------------------------

    def _served_plan(self, plan: BridgePlan, inputs: Iterable[BackendInput]) -> BridgePlan:
        """Return a plan without the publishers of topics that the backend needs or the bridge itself publishes."""
        sourced = {topic.path for topic in plan.topics if self._handlers.get("topic", topic.path) is not None}
        plan = leave_offered(plan, describes=self._options.publish_description, sourced=sourced)
        return disable_conflicts(plan, input_conflicts(plan, inputs, self._domains.main))

    def _make_call(self, future: Future[Any]) -> Call:
        parts = self.parts
        return Call(
            future, forbidden=partial(forbidden_wait, self._workers, parts.runtime, parts.domains.main)
        )

    def _report_change(self, report: ChangeReport) -> None:
        self._inform(f"change:{report}", str(report))
        for each in report.found:
            if each.severity != "info" and each.code not in REPORTED_AT_RUN_TIME:
                self._reporter.report(f"change.found:{each}", str(each))

    def _quit(self) -> bool:
        """End `spin` soon, after the response to the request. Return False if `spin` does not run."""
        if self._spinning:
            threading.Timer(QUIT_S, self.stop).start()
        return self._spinning


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def forbidden_wait(workers: Workers, runtime: Runtime, domain: Domain) -> str:
    """Return why the calling thread must not wait for an answer of a domain, "" if it may."""
    if workers.in_event_loop():
        return "result() in a coroutine would stop all of them: await the call"
    if runtime.ticking == threading.get_ident():
        return "result() in the thread and in the midst of a step would stop the bridge: wait elsewhere"
    if domain.current:
        return "result() in the thread that runs the callbacks would wait for itself: poll() until done()"
    return ""
