"""The runtime: drains what arrived, steps the backend, emits what is due. One tick after another, in one thread."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from usd_ros_bridge.backends.protocol import Backend, BackendInput
from usd_ros_bridge.backends.rest import rest_state
from usd_ros_bridge.controllers.registry import make_groups
from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.transforms import FloatArray
from usd_ros_bridge.runtime.between import BetweenTicks
from usd_ros_bridge.runtime.control_grid import ControlGrid
from usd_ros_bridge.runtime.controllers import GroupMaker
from usd_ros_bridge.runtime.delivery import Delivery
from usd_ros_bridge.runtime.emissions import Emissions
from usd_ros_bridge.runtime.endpoints import Emitter, Sink
from usd_ros_bridge.runtime.frames import TransformFeed
from usd_ros_bridge.runtime.goals import GoalDesk
from usd_ros_bridge.runtime.inbox import Inbox, Wakeup
from usd_ros_bridge.runtime.intake import Intake
from usd_ros_bridge.runtime.options import RuntimeOptions
from usd_ros_bridge.runtime.parts import RuntimeParts, Surroundings, make_parts, next_parts, take_over
from usd_ros_bridge.runtime.planned import Planned
from usd_ros_bridge.runtime.report import Reporter
from usd_ros_bridge.runtime.schedule import NEVER_NS, ClockPeriod
from usd_ros_bridge.runtime.sinks import FrameResolver, SinkContext, find_frame
from usd_ros_bridge.runtime.status import RuntimeStatus


class Runtime(Planned):
    """Holds a plan and an open backend and moves numbers between them.

    A tick in which nothing arrived, nothing is commanded and nobody is due costs next to nothing: unless the backend
    asks for every step (`Capabilities.every_step`), it is passed by, and the next one steps over it.

    `tick`, `add_emitter`, `bind_sink` and `reset` belong to one thread; `Delivery.deliver`, `post`, goal desks and
    `status` to any. What a backend, a sink, a controller or an emitter raises is reported once per kind, counted, and
    stops nothing else.
    """

    def __init__(
        self,
        plan: BridgePlan,
        backend: Backend,
        *,
        options: RuntimeOptions | None = None,
        reporter: Reporter | None = None,
        wakeup: Wakeup | None = None,
        groups: GroupMaker = make_groups,
    ) -> None:
        """Stores what to run; `open` acquires.

        Args:
            plan: The plan.
            backend: Not open yet.
            options: Defaults where None.
            reporter: Where warnings go; the standard library's logging by default.
            wakeup: Set when a sample arrives that the loop must not let wait.
            groups: Makes the groups of the plan's controllers.
        """
        super().__init__(plan, backend)
        self.options = options or RuntimeOptions()
        self.reporter = reporter or Reporter()
        self.inbox = Inbox(depth=self.options.queue_depth, wakeup=wakeup)
        self.intake = Intake(self.inbox, self.reporter.report)
        self.between = BetweenTicks(self.inbox.wakeup.set)
        self.emissions = Emissions(self.reporter.report)
        self._around = Surroundings(
            options=self.options,
            report=self.reporter.report,
            inbox=self.inbox,
            now_ns=_weakly(self, lambda runtime: runtime.time_ns or 0),
            clock_period_ns=_weakly(self, lambda runtime: runtime.clock_period_ns),
            groups=groups,
        )
        self.frame_resolver: FrameResolver | None = None
        self._clock_period_ns = 0
        self._host_period = ClockPeriod()
        self._control_grid = ControlGrid(self.options.controller_rate)
        self._forget: list[Callable[[], None]] = []
        self._last_time: int | None = None
        # Where the state at rest stands.
        self._start_ns = 0
        self._passed_by = False
        self._state_known = False
        self._can_rest = False
        self._ticks = 0
        self._open = False

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self) -> Runtime:
        """Opens the backend and prepares frames; returns itself.

        Raises:
            BackendError: The backend refuses its options, or fails to open.
            BridgeError: The runtime is open already.
        """
        if self._open:
            raise BridgeError("the runtime is open already")
        self._open = True
        try:
            self._adopt(make_parts(self.plan, self.backend, self._around))
        except BaseException:
            self._open = False
            raise
        return self

    def close(self) -> None:
        """Ends goals, closes the backend and lets go of emitters and subscriptions. Idempotent.

        Emitters belong to those who added them, who close them.
        """
        if not self._open:
            return
        self._open = False
        if self._parts is not None:
            self._parts.discard()
        # They know the runtime: together they would wait for the garbage collector, and the stage with them.
        self.emissions.close()
        self.intake.close()
        self._forget.clear()
        self.frame_resolver = None

    # --- Change ------------------------------------------------------------------------------------------------

    def prepare(self, plan: BridgePlan) -> RuntimeParts:
        """Makes what follows from a plan to come, while what runs goes on; from any thread.

        Raises:
            ChangeRefusedError: The backend can neither go on with it nor be followed by one that can.
            BackendError: The backend's successor cannot be opened on it.
        """
        return next_parts(self.parts, plan, self._around)

    def succeed(self, parts: RuntimeParts) -> RuntimeParts:
        """Goes on with what `prepare` made, from where things stand; between two ticks, in the thread that ticks.

        Emitters, subscriptions and time stay; who made them fits them to the plan.

        Returns:
            What was before, for `RuntimeParts.discard`.
        """
        old = self.parts
        if parts.backend is not old.backend:
            if self._passed_by and self._last_time is not None:
                self._stepper.catch_up(self._last_time)
            self._passed_by = False
        take_over(parts, old)
        self._state_known = self._state_known and hasattr(parts.snapshot, "state")
        self._can_rest = False
        self._adopt(parts)
        self.emissions.set_gates(parts.controllers.gate)
        return old

    def __enter__(self) -> Runtime:
        return self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def time_ns(self) -> int | None:
        """Bridge time of the last tick, nanoseconds, from any thread; None before the first."""
        return self._last_time

    @property
    def ticks(self) -> int:
        """How many ticks there were since it was opened, from any thread."""
        return self._ticks

    @property
    def now_ns(self) -> int:
        """Bridge time of the last tick, nanoseconds; before the first, that of the state at rest."""
        last = self._last_time
        return self._start_ns if last is None else last

    @property
    def clock_period_ns(self) -> int:
        """Period of the clock whose stamps the ticks have, nanoseconds; 0 where ticks come when they are asked for."""
        return self._clock_period_ns

    # --- Endpoints ---------------------------------------------------------------------------------------------

    def add_emitter(
        self, emitter: Emitter, *, name: str, rate: float | None = None, robot: int | None = None
    ) -> None:
        """Adds an emitter.

        Args:
            emitter: Asked when it is due.
            name: Prim path or topic, for status and reports. A publisher that a joint state broadcaster names is
                asked while that is active.
            rate: Hz; None asks it at every tick.
            robot: Index of the robot whose state alone it shows, None for anything else. Where that state arrives by
                topic it is asked when something arrived, at most at its rate, and no deadline wakes the loop for it.
        """
        gate = None if self._parts is None else self._parts.controllers.gate(name)
        self.emissions.add(emitter, name=name, rate=rate, on_arrival=self._arrives(robot), gate=gate)

    def change_emitter(
        self, emitter: Emitter, *, rate: float | None = None, robot: int | None = None
    ) -> None:
        """Changes when an emitter is asked, arguments as those of `add_emitter`; nothing else about it changes."""
        self.emissions.change(emitter, rate=rate, on_arrival=self._arrives(robot))

    def _arrives(self, robot: int | None) -> bool:
        return self._parts is not None and robot in self._parts.fed

    def remove_emitter(self, emitter: Emitter) -> None:
        """Removes an emitter; one that is not there is ignored."""
        self.emissions.remove(emitter)

    def transform_feed(self, robot: int) -> TransformFeed:
        """Returns what to send to /tf for a robot, re-armed by every reset."""
        feed = TransformFeed(self.plan, robot, self.reporter.report)
        self.on_reset(feed.reset)
        return feed

    def on_reset(self, forget: Callable[[], None]) -> None:
        """Has `forget` called at every reset: what was sent may be sent again, whatever its stamp."""
        self._forget.append(forget)

    def off_reset(self, forget: Callable[[], None]) -> None:
        """Calls it no more; one that is not there is ignored."""
        if forget in self._forget:
            self._forget.remove(forget)

    def bind_sink(
        self, topic: TopicPlan, *, sink: Sink | None = None, into: Delivery | None = None
    ) -> Delivery:
        """Binds a subscription to what takes its samples.

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
        return self.intake.bind_sink(topic, sink, self.controllers, context, lambda: self.commands, into=into)

    def bind_input(self, backend_input: BackendInput, *, into: Delivery | None = None) -> Delivery:
        """Binds a topic that the backend needs; an arrival ends the loop's wait where the state arrives by topic."""
        return self.intake.bind_input(self.backend, backend_input, into=into)

    def unbind(self, delivery: Delivery) -> None:
        """Forgets a delivery, and what waits there."""
        self.intake.unbind(delivery)

    def goal_desk(self, path: str) -> GoalDesk | None:
        """Returns where goals of an action server go, by its prim path; None where no controller serves it."""
        return self.controllers.desk(path)

    def post(self, job: Callable[[], None]) -> None:
        """Has a job done once in the tick's thread, at the start of the next tick, which is woken for; any thread."""
        self.intake.post(job)

    def do_jobs(self) -> None:
        """Does the jobs that wait without a tick: time stands still."""
        if self._passed_by and self._last_time is not None and self.inbox.pending:
            # They may look at the backend: it is to be where time is.
            state = self._stepper.catch_up(self._last_time)
            if state is not None:
                self.snapshot.begin(state)
            self._passed_by = False
        self.intake.do_jobs()

    # --- Time --------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> int | None:
        """Returns the bridge time at which a tick is needed: 0 means at once, None not before something arrives."""
        wake_ns = min(self.emissions.wake_ns, self._control_grid.due_ns)
        return None if wake_ns == NEVER_NS else wake_ns

    def follow_clock(self, period_ns: int) -> None:
        """Take the period of the clock whose stamps the ticks have; 0 where ticks come when they are asked for.

        A deadline counts as reached at the stamp nearest to it.

        Args:
            period_ns: Nanoseconds.
        """
        if period_ns != self._clock_period_ns:
            self._clock_period_ns = self._control_grid.clock_period_ns = period_ns
            self.emissions.set_clock_period(period_ns)

    def follow_host(self, time_ns: int) -> None:
        """Measure the period of a host that steps; to be called before each of its ticks.

        Args:
            time_ns: Bridge time of the tick, nanoseconds.
        """
        self._host_period.observe(time_ns)
        self.follow_clock(self._host_period.period_ns)

    def rest_until(self, time_ns: int) -> None:
        """Tells that time passed in which nothing happened: what is commanded at the next tick does not act on it.

        A loop that sleeps until something arrives would have a robot make up for its sleep at once.

        Args:
            time_ns: Bridge time, nanoseconds; at most that of the tick to come.
        """
        last = self._last_time
        if last is not None and last < time_ns and self._can_rest and self.inbox.pending:
            self._last_time = time_ns
            self._passed_by = True

    def tick(self, time_ns: int) -> bool:
        """Does everything once: what arrived, controllers, the backend's step, what is due.

        Args:
            time_ns: Bridge time, nanoseconds. Less than at the last tick means that time started over: a reset.

        Returns:
            Whether the backend gave a state. Where it failed, the last one is shown as standing still.
        """
        return self.pass_by(time_ns) or self._tick(time_ns)

    def pass_by(self, time_ns: int) -> bool:
        """Does a tick in which nothing happens; returns False, having done nothing, where something may.

        Args:
            time_ns: Bridge time, nanoseconds.
        """
        last = self._last_time
        if (
            last is None
            or not last <= time_ns < self.emissions.quiet_until_ns
            or self.inbox.pending
            or not (self._can_rest and self._commands.silent)
        ):
            return False
        self._last_time = time_ns
        self._ticks += 1
        self._passed_by = True
        return True

    def begin_at(self, time_ns: int) -> None:
        """Tells the time of the state that the backend starts with, before the first tick: one that it took over."""
        self._start_ns = time_ns

    def reset(self, *, keep_time: bool = False) -> None:
        """Goes back to the state at rest; everything is due again and time may be anything.

        Args:
            keep_time: The state at rest is that of now, where the backend owns time; else that of time zero.
        """
        self._start_ns = self.now_ns if keep_time else 0
        self._last_time = None
        self._passed_by = self._can_rest = False
        self.controllers.reset()
        self.emissions.reset()
        self.snapshot.reset()
        for forget in self._forget:
            forget()
        if self.frame_resolver is not None:
            self.frame_resolver.reset()
        self._stepper.reset()

    def status(self) -> RuntimeStatus:
        """Returns the counters, from any thread."""
        return RuntimeStatus(
            time_ns=self._last_time,
            ticks=self._ticks,
            backend_errors=self._stepper.errors,
            last_backend_error=self._stepper.last_error,
            emitters=self.emissions.status(self._last_time or 0),
            sinks=self.intake.status(),
            reports=self.reporter.reported(),
        )

    # --- Own ---------------------------------------------------------------------------------------------------

    def _tick(self, time_ns: int) -> bool:
        last = self._last_time
        if last is not None and time_ns < last:
            self.reporter.report(
                "time.backwards", f"time went back by {(last - time_ns) * 1e-9:.3f} s: starting over"
            )
            self.reset()
            last = None
        if last is None and self.capabilities.step_ns:
            # Those who publish begin here, too: one tick is for both.
            self._control_grid.origin_ns = time_ns
        self._ticks += 1
        self._can_rest = False
        if self._passed_by:
            self._passed_by = False
            if last is not None and (self.inbox.pending or not self._commands.silent):
                state = self._stepper.catch_up(last)
                if state is not None:
                    self.controllers.observe(state)
        self._last_time = time_ns
        controllers, snapshot = self._present, self._snapshot
        assert snapshot is not None
        if controllers is not None:
            controllers.begin(time_ns)
        arrived = self.inbox.drain()
        if arrived:
            self.intake.take(arrived)
        self.emissions.choose(time_ns, previous_ns=last, arrived=bool(arrived))
        if controllers is not None:
            controllers.command(time_ns, self._commands)
        stepped = self._stepper.step(time_ns, snapshot.begin)
        if stepped:
            self._state_known = True
        else:
            self._hold(time_ns)
        if controllers is not None:
            state = snapshot.state if self._state_known else None
            self._control_grid.end_tick(controllers, time_ns, state, stepped=stepped)
        if not self._state_known:
            self.emissions.move_on()
            return False
        self.emissions.emit(snapshot, time_ns)
        # A tick that controllers need is never passed by: no look at them is needed in those that are.
        busy = controllers is not None and controllers.busy
        self._can_rest = stepped and not (busy or self.backend.capabilities.every_step)
        return stepped

    def _hold(self, time_ns: int) -> None:
        """Holds the last state where the backend gave none, so that /tf goes on."""
        if not self._state_known and not self.capabilities.topic_driven:
            self.snapshot.begin(rest_state(self.plan))
            self._state_known = True
        if self._state_known:
            self.snapshot.hold(time_ns)

    def _resolve_frame(self, topic: TopicPlan, frame_id: str, stamp_ns: int) -> FloatArray:
        snapshot = self.snapshot if self._state_known else None
        return find_frame(self.plan, snapshot, self.frame_resolver, topic, frame_id, stamp_ns)


def _weakly(runtime: Runtime, ask: Callable[[Runtime], int]) -> Callable[[], int]:
    """Return what asks the runtime, as long as it is there: parts of it keep that, hence the weak reference."""
    reference = weakref.ref(runtime)

    def answer() -> int:
        living = reference()
        return 0 if living is None else ask(living)

    return answer
