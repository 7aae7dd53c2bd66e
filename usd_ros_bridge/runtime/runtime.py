"""Runtime: apply inputs, run controllers, step the backend, publish. One tick after another, in one thread."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from usd_ros_bridge.backends.base import Backend, BackendInput, Capabilities
from usd_ros_bridge.controllers.controller_group import make_groups
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.reporting import OnceReporter, Report, Reported, log_info
from usd_ros_bridge.runtime.backend_runner import BackendRunner
from usd_ros_bridge.runtime.command_sinks import FrameResolver, Sink, SinkContext, find_frame
from usd_ros_bridge.runtime.controller_manager import ControlGrid, ControllerManager, GroupMaker
from usd_ros_bridge.runtime.frame_poses import FrameTable
from usd_ros_bridge.runtime.group_runner import ControllerSlot, GoalQueue
from usd_ros_bridge.runtime.inbox import Inbox, TickQueue, Wakeup
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.motion_watch import MotionWatch
from usd_ros_bridge.runtime.plan_binding import (
    BindingContext,
    PlanBinding,
    PreparedChange,
    bind_next_plan,
    bind_plan,
)
from usd_ros_bridge.runtime.publications import Publication, Publications, PublicationStatus
from usd_ros_bridge.runtime.schedule import NEVER_NS, ClockPeriod, TickMeter
from usd_ros_bridge.runtime.snapshot import Snapshot
from usd_ros_bridge.runtime.step_callbacks import StepCallbacks
from usd_ros_bridge.runtime.subscriptions import InputBinding, InputQueue, SinkStatus
from usd_ros_bridge.spatial.transforms import FloatArray

_WAIT_S = 2e-3


class DeferredJobs(Protocol):
    """Jobs of callbacks that the tick thread runs."""

    @property
    def polled(self) -> Sequence[object]:
        """Sources of jobs; empty if other threads run all of them."""
        ...

    @property
    def deferred(self) -> bool:
        """Return whether jobs wait."""
        ...

    def poll(self, *, callbacks: bool = True) -> None:
        """Run the jobs, and callbacks unless that is False."""
        ...


class Relay(Protocol):
    """Publish states that arrive while the loop waits, without ticks.

    Attributes:
        is_ahead: Whether it published anything of which the runtime does not know.
    """

    is_ahead: bool

    def wait(self, deadline_ns: int | None) -> bool:
        """Wait until a tick is needed, as `Clock.wait` does. Return False at once if the caller is to wait itself.

        Args:
            deadline_ns: When a tick is needed at the latest, nanoseconds of wall time; None: not before something
                arrives.
        """
        ...

    def settle(self) -> None:
        """Bring the runtime up to date; the runtime's lock is held."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatus:
    """A running bridge at one moment.

    Attributes:
        time_ns: Bridge time of the last tick, None before the first.
        ticks: Ticks since the runtime was opened.
        backend_errors: Ticks in which the backend raised and the state did not change.
        last_backend_error: One line, "" where it never raised.
        publications: In the order they were added.
        sinks: In the order they were bound.
        reports: What was reported, each kind once.
    """

    time_ns: int | None
    ticks: int
    backend_errors: int
    last_backend_error: str
    publications: tuple[PublicationStatus, ...]
    sinks: tuple[SinkStatus, ...]
    reports: tuple[Reported, ...]


class Runtime:
    """Move numbers between a plan's interfaces and an open backend.

    A tick costs next to nothing if nothing arrived, nothing is commanded and nothing is due: the backend is not
    stepped, and the next tick steps over it. Backends with `Capabilities.every_step` are always stepped.

    `tick`, `add_publication`, `bind_sink` and `reset` belong to one thread. `InputBinding.deliver`, `post`, goal queues
    and `status` are thread-safe. An exception of a backend, sink, controller or publication is reported once per kind
    and counted; everything else continues.

    Attributes:
        plan: Plan that is live.
        backend: Backend that moves its robots.
        inputs: Topics that the backend needs.
        options: Options of the runtime.
        reporter: For warnings.
        inbox: Queue between callbacks and the tick.
        input_queue: Bindings of everything that arrives.
        tick_queue: Jobs to run between two ticks.
        publications: What is published, and when.
        frame_resolver: Finds poses of other nodes' frames.
        step_callbacks: Callbacks of a host around the steps of the backend. While there are any, no tick is skipped.
        relay: Publishes while the loop waits; None: nothing does.
        lock: Held by ticks. Hold it to keep ticks out.
        ticking: Identifier of the thread that is in a tick, None between two ticks.
        stopped: Whether `stop` was called.
    """

    def __init__(
        self,
        plan: BridgePlan,
        backend: Backend,
        *,
        options: BridgeOptions | None = None,
        reporter: OnceReporter | None = None,
        inform: Report | None = None,
        wakeup: Wakeup | None = None,
        groups: GroupMaker = make_groups,
        lock: threading.RLock | None = None,
        deferred_jobs: DeferredJobs | None = None,
        step_callbacks: StepCallbacks | None = None,
    ) -> None:
        """Store the arguments; `open` acquires.

        Args:
            plan: Plan to run.
            backend: Not open yet.
            options: Defaults if None.
            reporter: For warnings; the standard library's logging by default.
            inform: For news, of which each kind is shown once; likewise.
            wakeup: Set when a sample arrives that the loop must not let wait.
            groups: Make the groups of the plan's controllers.
            lock: Held by ticks; a lock of its own by default.
            deferred_jobs: Jobs to run at the start of a tick.
            step_callbacks: Callbacks around the steps of the backend; none if None.
        """
        self.lock = lock or threading.RLock()
        self.ticking: int | None = None
        self.stopped = False
        self._deferred_jobs = deferred_jobs
        self.plan = plan
        self.backend = backend
        self.inputs: tuple[BackendInput, ...] = ()
        self.options = options or BridgeOptions()
        self.reporter = reporter or OnceReporter()
        self.step_callbacks = step_callbacks or StepCallbacks(self.reporter.report)
        self._meter = TickMeter(self.reporter.report)
        self.inbox = Inbox(depth=self.options.queue_depth, wakeup=wakeup)
        self.input_queue = InputQueue(self.inbox, self.reporter.report)
        self.tick_queue = TickQueue(self.inbox.wakeup.set)
        self.publications = Publications(self.reporter.report)
        self.frame_resolver: FrameResolver | None = None
        self.relay: Relay | None = None
        self._context = BindingContext(
            options=self.options,
            report=self.reporter.report,
            inform=OnceReporter(inform or log_info).report,
            inbox=self.inbox,
            now_ns=_weakly(self, lambda runtime: runtime.time_ns or 0),
            clock_period_ns=_weakly(self, lambda runtime: runtime.clock_period_ns),
            groups=groups,
        )
        self._clock_period_ns = 0
        self._host_period = ClockPeriod()
        self._control_grid = ControlGrid(self.options.controller_rate)
        self._last_time: int | None = None
        # Time of the state at rest.
        self._start_ns = 0
        self._was_skipped = False
        self._has_state = False
        self._can_skip = False
        self._ticks = 0
        self._open = False
        # The parts of the binding that every tick needs are attributes of their own.
        self._binding: PlanBinding | None = None
        self._backend_runner: BackendRunner
        self._commands: Commands
        self._snapshot: Snapshot | None = None
        self._watch: MotionWatch | None = None
        self._present_controllers: ControllerManager | None = None
        self._running_controllers: ControllerManager | None = None

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self) -> Runtime:
        """Open the backend and bind the plan. Return the runtime.

        Raises:
            BackendError: The backend refuses its options or cannot be opened.
            BridgeError: The runtime is open already.
        """
        if self._open:
            raise BridgeError("the runtime is open already")
        self._open = True
        try:
            self._bind(bind_plan(self.plan, self.backend, self._context))
        except BaseException:
            self._open = False
            raise
        return self

    def stop(self) -> None:
        """Refuse further ticks, resets and jobs. Idempotent, from any thread."""
        with self.lock:
            self.stopped = True
        self.tick_queue.close()

    def close(self) -> None:
        """End goals, close the backend and release publications and subscriptions. Idempotent.

        The owner that added a publication closes it.
        """
        if not self._open:
            return
        self._open = False
        if self._binding is not None:
            self._binding.close()
        # They refer to the runtime: the cycle would wait for the garbage collector, and the stage with it.
        self.publications.close()
        self.input_queue.close()
        self.frame_resolver = self.relay = None

    def __enter__(self) -> Runtime:
        return self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- The plan and what follows from it ---------------------------------------------------------------------

    def prepare(self, plan: BridgePlan) -> tuple[PlanBinding, PreparedChange]:
        """Bind the plan to come while the runtime runs; from any thread.

        Publications, subscriptions and time stay; their owners update them.

        Raises:
            ChangeRefusedError: The backend can neither run the plan nor have a successor that can.
            BackendError: The successor of the backend cannot be opened on the plan.
        """
        old = self.binding
        new = bind_next_plan(old, plan, self._context)
        change = PreparedChange(
            commit=partial(self._commit, new),
            rollback=partial(new.close, used_by=old),
            cleanup=partial(old.close, used_by=new),
        )
        return new, change

    def _commit(self, new: PlanBinding) -> None:
        """Continue with another binding; between two ticks, in the tick thread."""
        old = self.binding
        if new.backend is not old.backend or new.controllers is not old.controllers:
            if self._was_skipped and self._last_time is not None:
                self._backend_runner.catch_up(self._last_time)
            self._was_skipped = False
        left: Sequence[ControllerSlot] = ()
        if new.controllers is not old.controllers and self._last_time is not None:
            left = old.controllers.leave(new.controllers, self._commands)
            if not self._commands.silent:
                # No time passes: the backend takes the commands, and gives them on with its state.
                self._backend_runner.step(self._last_time, lambda _: None)
        try:
            new.transfer_state(old)
        except BaseException:
            # The old plan goes on.
            old.controllers.stay(left)
            raise
        self._has_state = self._has_state and hasattr(new.snapshot, "state")
        self._can_skip = False
        self._bind(new)
        self.publications.disable(new.controllers.disabled)
        self.publications.regroup()

    def _bind(self, binding: PlanBinding) -> None:
        self._binding = binding
        self.plan, self.backend, self.inputs = binding.plan, binding.backend, binding.inputs
        self._backend_runner, self._commands = binding.backend_runner, binding.backend_runner.commands
        self._present_controllers = binding.controllers if binding.controllers.present else None
        self._running_controllers = binding.controllers if binding.controllers.runs else None
        if self._running_controllers is None:
            # No tick ends that of controllers that are gone.
            self._control_grid.due_ns = NEVER_NS
        self._snapshot = binding.snapshot
        kinematic = binding.capabilities.kinematic
        watch = MotionWatch(binding.plan, self.reporter.report, kinematic=kinematic)
        self._watch = watch if watch.watches else None

    @property
    def binding(self) -> PlanBinding:
        """The plan with its backend and runtime objects; once open."""
        assert self._binding is not None, "the runtime is not open"
        return self._binding

    @property
    def capabilities(self) -> Capabilities:
        """Return the open backend's capabilities, with the sensors of plug-ins."""
        return self.binding.capabilities

    @property
    def commands(self) -> Commands:
        """Command of the next step. Ask for them in each tick: whoever asks counts as a writer."""
        self._commands.silent = False
        return self._commands

    @property
    def kinematics(self) -> Kinematics:
        """The plan's kinematics; once open."""
        return self.binding.kinematics

    @property
    def frames(self) -> FrameTable:
        """The frames of all robots; once open."""
        return self.binding.frames

    @property
    def controllers(self) -> ControllerManager:
        """The controllers; once open."""
        return self.binding.controllers

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the last tick that was not skipped; once open. It has a state after the first tick."""
        assert self._snapshot is not None, "the runtime is not open"
        return self._snapshot

    @property
    def tick_seconds(self) -> float:
        """Mean wall time of recent ticks, seconds."""
        return self._meter.seconds

    # --- Time of the last tick ---------------------------------------------------------------------------------

    @property
    def time_ns(self) -> int | None:
        """Bridge time of the last tick, nanoseconds, from any thread; None before the first."""
        return self._last_time

    @property
    def ticks(self) -> int:
        """Number of ticks since the runtime was opened, from any thread."""
        return self._ticks

    @property
    def now_ns(self) -> int:
        """Bridge time of the last tick, nanoseconds; before the first, that of the state at rest."""
        last = self._last_time
        return self._start_ns if last is None else last

    @property
    def clock_period_ns(self) -> int:
        """Period of the clock that ticks follow, nanoseconds; 0 without one."""
        return self._clock_period_ns

    # --- Endpoints ---------------------------------------------------------------------------------------------

    def add_publication(
        self, publication: Publication, *, name: str, rate: float | None = None, robot: int | None = None
    ) -> None:
        """Add a publication.

        Args:
            publication: Published when it is due.
            name: Prim path or topic, for status and reports. A publisher that a joint state broadcaster names is
                enabled while that is active.
            rate: Hz; None: every tick.
            robot: Index of the robot whose state alone it shows, None for anything else. If that state arrives by
                topic, it is published when something arrived, at `rate` at most, and no deadline wakes the loop for it.
        """
        if self._binding is not None:
            self.publications.disable(self._binding.controllers.disabled)
        self.publications.add(publication, name=name, rate=rate, on_arrival=self._arrives(robot))

    def change_publication(
        self, publication: Publication, *, rate: float | None = None, robot: int | None = None
    ) -> None:
        """Change when a publication is due, arguments as those of `add_publication`; nothing else changes."""
        self.publications.change(publication, rate=rate, on_arrival=self._arrives(robot))

    def _arrives(self, robot: int | None) -> bool:
        return self._binding is not None and robot in self._binding.topic_driven

    def remove_publication(self, publication: Publication) -> None:
        """Remove a publication; one that is not there is ignored."""
        self.publications.remove(publication)

    def bind_sink(
        self, topic: TopicPlan, *, sink: Sink | None = None, into: InputBinding | None = None
    ) -> InputBinding:
        """Bind a subscription to what takes its samples.

        Args:
            topic: The subscription.
            sink: An embedder's own; by default the controllers that name the topic, else what its type has built in.
            into: What delivered so far, where the subscription stays while what takes its samples changes.

        Returns:
            Where to deliver samples: `into`, where that was given. `accepted` is false, with a reason, where nothing
            takes them: they are counted and dropped.
        """
        context = SinkContext(
            plan=self.plan,
            kinematics=self.kinematics,
            capabilities=self.capabilities,
            report=self.reporter.report,
            resolve=self._resolve_frame,
        )
        return self.input_queue.bind_sink(
            topic, sink, self.controllers, context, lambda: self.commands, into=into
        )

    def bind_input(self, backend_input: BackendInput, *, into: InputBinding | None = None) -> InputBinding:
        """Bind a topic that the backend needs; an arrival ends the loop's wait where the state arrives by topic."""
        return self.input_queue.bind_input(self.backend, backend_input, into=into)

    def unbind(self, input_binding: InputBinding) -> None:
        """Unbind an input and drop its samples. What they moved stops: nobody could stop it any more."""
        self.input_queue.unbind(input_binding)
        moving = input_binding.moving
        if moving is not None and self._open:
            # In the tick: interfaces close in another thread.
            self.post(lambda: moving.release(self.plan.layout, self.commands))

    def goal_queue(self, path: str) -> GoalQueue | None:
        """Return where goals of an action server go, by its prim path; None where no controller serves it."""
        return self.controllers.goal_queue(path)

    def post(self, job: Callable[[], None]) -> None:
        """Run a job once in the tick thread, at the start of the next tick, which comes at once. Thread-safe."""
        self.input_queue.post(job)

    def run_posted(self) -> None:
        """Run the posted jobs without a tick; time does not pass."""
        with self.lock:
            if self.stopped:
                return
            self._settle()
            self.ticking = threading.get_ident()
            try:
                if self._deferred_jobs is not None:
                    self._deferred_jobs.poll(callbacks=False)
                if self._was_skipped and self._last_time is not None and self.inbox.pending:
                    # Jobs may read the backend's state: bring it up to date.
                    state = self._backend_runner.catch_up(self._last_time)
                    if state is not None:
                        self.snapshot.begin(state)
                    self._was_skipped = False
                self.input_queue.run_posted()
                self.publications.disable(self.controllers.disabled)
            finally:
                self.ticking = None

    # --- Time --------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> int | None:
        """Return the bridge time at which a tick is needed: 0 means at once, None not before something arrives."""
        wake_ns = min(self.publications.wake_ns, self._control_grid.due_ns)
        return None if wake_ns == NEVER_NS else wake_ns

    def follow_clock(self, period_ns: int) -> None:
        """Set the period of the clock that ticks follow; 0 without one.

        A deadline counts as reached at the stamp nearest to it.

        Args:
            period_ns: Nanoseconds.
        """
        if period_ns != self._clock_period_ns:
            self._clock_period_ns = self._control_grid.clock_period_ns = period_ns
            self.publications.set_clock_period(period_ns)

    def follow_host(self, time_ns: int) -> None:
        """Measure the period of a host that steps; to be called before each of its ticks.

        Args:
            time_ns: Bridge time of the tick, nanoseconds.
        """
        clock = self._host_period
        clock.observe(time_ns)
        if clock.period_ns != self._clock_period_ns:
            self.follow_clock(clock.period_ns)

    def skip_until(self, time_ns: int) -> None:
        """Let time pass without a tick: commands of the next tick do not act on it.

        A loop that sleeps until something arrives would have a robot make up for its sleep at once.

        Args:
            time_ns: Bridge time, nanoseconds; at most that of the tick to come.
        """
        last = self._last_time
        if last is not None and last < time_ns and self._can_skip and self.inbox.pending:
            self._last_time = time_ns
            self._was_skipped = True

    def tick(self, time_ns: int) -> bool:
        """Advance to `time_ns` and publish what is due.

        Args:
            time_ns: Bridge time, nanoseconds. A time before that of the last tick is a reset.

        Returns:
            Whether the backend gave a state. If it failed, the last state is published as standing still. False
            after `stop`.
        """
        if self.tick_queue.pending:
            with self.lock:
                self._settle()
            self.tick_queue.run_pending()
        # `with` costs a tenth of a tick in which nothing happens more than these two calls.
        lock = self.lock
        lock.acquire()
        try:
            if self.stopped:
                return False
            self._settle()
            jobs = self._deferred_jobs
            if jobs is not None and not (jobs.polled and jobs.deferred):
                jobs = None
            if jobs is None and self._skip_tick(time_ns):
                return True
            start = time.perf_counter()
            self.ticking = threading.get_ident()
            try:
                if jobs is not None:
                    jobs.poll(callbacks=False)
                stepped = self._run_tick(time_ns)
            finally:
                # A host may catch what ends a tick (KeyboardInterrupt), and go on.
                self.ticking = None
            self._meter.record(time.perf_counter() - start, self._shortest_period_ns)
            return stepped
        finally:
            lock.release()

    def wait_for_tick(self, wants: Callable[[int], bool]) -> None:
        """Wait until the tick in progress ends, or `stop`. Background threads share the interpreter with it.

        Return at once within that tick.

        Args:
            wants: Return whether a thread, by its identifier, waits for the caller. The caller does not wait for its
                tick then.
        """
        while not self.stopped:
            ticking = self.ticking
            if ticking is None or ticking == threading.get_ident() or wants(ticking):
                return
            if self.lock.acquire(timeout=_WAIT_S):
                self.lock.release()
                return

    def _skip_tick(self, time_ns: int) -> bool:
        """Pass a tick in which nothing happens, without a step of the backend. Return False if something may happen.

        Args:
            time_ns: Bridge time, nanoseconds.
        """
        last = self._last_time
        if (
            last is None
            or not last <= time_ns < self.publications.quiet_until_ns
            or self.inbox.pending
            or not (self._can_skip and self._commands.silent)
        ):
            return False
        self._last_time = time_ns
        self._ticks += 1
        self._was_skipped = True
        return True

    def _run_tick(self, time_ns: int) -> bool:
        """Run a tick that cannot be skipped; arguments and result as those of `tick`."""
        last = self._begin_tick(time_ns)
        controllers, snapshot = self._running_controllers, self._snapshot
        assert snapshot is not None
        if controllers is not None:
            controllers.begin(time_ns)
        arrived = self.inbox.apply()
        if self._present_controllers is not None:
            # A job may have switched one.
            self.publications.disable(self._present_controllers.disabled)
        self.publications.choose(time_ns, previous_ns=last, arrived=arrived)
        if controllers is not None:
            controllers.command(time_ns, self._commands)
        callbacks = self.step_callbacks
        if callbacks.before:
            callbacks.run_before(time_ns, self._commands)
        stepped = self._backend_runner.step(time_ns, snapshot.begin)
        self._has_state = stepped or self._hold_state(time_ns)
        if self._watch is not None and stepped:
            self._watch.observe(snapshot.state)
        if callbacks.after and stepped:
            callbacks.run_after(time_ns, snapshot)
        if controllers is not None:
            state = snapshot.state if self._has_state else None
            self._control_grid.end_tick(controllers, time_ns, state, stepped=stepped)
        if not self._has_state:
            self.publications.update_wake_time()
            return False
        self.publications.publish(snapshot, time_ns)
        # A tick that controllers need is never skipped: skipped ticks need not ask them.
        busy = callbacks.present or (controllers is not None and controllers.busy)
        self._can_skip = stepped and not (busy or self.backend.capabilities.every_step)
        return stepped

    def reset(self, *, start_ns: int = 0) -> None:
        """Reset to the state at rest; everything is due again and time may start anywhere.

        Args:
            start_ns: Bridge time of the state at rest, nanoseconds, where the backend owns time.
        """
        with self.lock:
            if self.stopped:
                return
            self._settle()
            self._start_ns = start_ns
            self._last_time = None
            self._was_skipped = self._can_skip = False
            self.controllers.reset()
            self.publications.reset()
            self.snapshot.reset()
            self.binding.sensors.reset()
            if self._watch is not None:
                self._watch.reset()
            if self.frame_resolver is not None:
                self.frame_resolver.reset()
            self._backend_runner.reset()

    def status(self) -> RuntimeStatus:
        """Return the counters, from any thread."""
        if self.relay is not None and self.relay.is_ahead:
            with self.lock:
                self._settle()
        return RuntimeStatus(
            time_ns=self._last_time,
            ticks=self._ticks,
            backend_errors=self._backend_runner.errors,
            last_backend_error=self._backend_runner.last_error,
            publications=self.publications.status(self._last_time or 0),
            sinks=self.input_queue.status(),
            reports=self.reporter.reported(),
        )

    # --- Own ---------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        if self.relay is not None and self.relay.is_ahead:
            self.relay.settle()

    def _begin_tick(self, time_ns: int) -> int | None:
        """Reset if time went back, and catch up with skipped ticks. Return the time of the last tick, nanoseconds."""
        last = self._last_time
        if last is not None and time_ns < last:
            self.reporter.report(
                "time.backwards", f"time went back by {(last - time_ns) * 1e-9:.3f} s: starting over"
            )
            self.reset()
            last = None
        if last is None and self.capabilities.step_ns:
            # Publishers start here, too: controllers and publishers share ticks.
            self._control_grid.origin_ns = time_ns
        self._ticks += 1
        self._can_skip = False
        if self._was_skipped:
            self._was_skipped = False
            if last is not None and (self.inbox.pending or not self._commands.silent):
                state = self._backend_runner.catch_up(last)
                if state is not None and self._running_controllers is not None:
                    self._running_controllers.observe(state)
        self._last_time = time_ns
        return last

    def _shortest_period_ns(self) -> int | None:
        # Where the backend owns time, its pacer reports ticks that take too long.
        return None if self.capabilities.step_ns else self.publications.shortest_period_ns

    def _hold_state(self, time_ns: int) -> bool:
        """Hold the last state if the backend gave none, so that /tf continues. Return whether there is a state."""
        if not self._has_state:
            if self.capabilities.topic_driven:
                return False
            self.snapshot.begin(State.initial(self.plan.layout))
        self.snapshot.hold(time_ns)
        return True

    def _resolve_frame(self, topic: TopicPlan, frame_id: str, stamp_ns: int) -> FloatArray:
        snapshot = self.snapshot if self._has_state else None
        return find_frame(self.plan, snapshot, self.frame_resolver, topic, frame_id, stamp_ns)


def _weakly(runtime: Runtime, ask: Callable[[Runtime], int]) -> Callable[[], int]:
    """Return what asks the runtime, as long as it is there: parts of it keep that, so the weak reference."""
    reference = weakref.ref(runtime)

    def answer() -> int:
        living = reference()
        return 0 if living is None else ask(living)

    return answer
