"""Offline bridge: a plan and a backend whose messages go to a recording or a tap only. No participant is opened."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from usd_ros_bridge.backends.base import Backend, needs_physics
from usd_ros_bridge.backends.registry import lockstep_options
from usd_ros_bridge.errors import BridgeError, OptionError, alternatives, quoted
from usd_ros_bridge.model.periods import SECOND_NS, nanoseconds
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.planning.conflicts import leave_offered
from usd_ros_bridge.process_settings import close_at_exit
from usd_ros_bridge.reporting import OnceReporter, Report, limited, log_info, log_warning
from usd_ros_bridge.requirements import missing_requirement
from usd_ros_bridge.ros.backend_choice import Choice, check_plan, choose, open_chosen
from usd_ros_bridge.ros.bridge_time import ClockPublisher
from usd_ros_bridge.ros.codecs import CODECS, NO_CODEC
from usd_ros_bridge.ros.description.robot_description import Descriptions, PlanSummary
from usd_ros_bridge.ros.endpoints.factory import EndpointFactory
from usd_ros_bridge.ros.endpoints.handlers import Binding, Handlers
from usd_ros_bridge.ros.endpoints.publisher import TopicPublisher
from usd_ros_bridge.ros.endpoints.service_handlers import Services, run_in_tick, scene_access
from usd_ros_bridge.ros.interface_types import AmentCatalog, import_interface, make_message
from usd_ros_bridge.ros.message_tap import MessageTap, join_taps
from usd_ros_bridge.ros.recording.offline_domains import OfflineDomains
from usd_ros_bridge.ros.tf.broadcaster import RobotTransforms
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.loop import Loop, SteppedClock
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.sim_time import SimTimeLoop, TimeControl, Timekeeper
from usd_ros_bridge.runtime.step_callbacks import AfterStep, BeforeStep, StepCallbacks
from usd_ros_bridge.start_phases import BACKEND, COMPILING, Progress

if TYPE_CHECKING:
    from usd_ros_bridge.ros.recording.message_channels import MessageChannels


class OfflineBridge:
    """Run a plan without ROS 2's middleware, and record what a bridge would publish, or hand it to a message tap.

    Time begins at 0 and passes as fast as possible. The same plan, backend and commands write the same file, byte for
    byte. There are no subscriptions, services, actions, parameters and diagnostics: `send` takes the messages of peers.
    Use it as a context manager, or call `open` and `close`.
    """

    def __init__(
        self,
        plan: BridgePlan,
        backend: str | Backend = "auto",
        *,
        options: BridgeOptions,
        tap: MessageTap | None = None,
        report: Report = log_warning,
        inform: Report = log_info,
    ) -> None:
        """Store the arguments; `open` acquires.

        Args:
            plan: Plan to run.
            backend: Name of an installed backend, `auto`, or a backend that is not open yet.
            options: With `record`, unless there is a tap. Those of the node, of remote control and of pace have no
                effect.
            tap: Gets all messages, in the thread that steps.
            report: Show a warning `(kind, message)`.
            inform: Show news `(kind, message)`.

        Raises:
            BridgeError: `plan` is a path, a stage, or anything else than a plan.
        """
        check_plan(plan, type(self).__name__)
        self._plan = plan
        self._backend = backend
        self._options = options
        self._tap = tap
        self._reporter = OnceReporter(report)
        self._inform = limited(inform)
        self._step_callbacks = StepCallbacks(self._reporter.report)
        self._resources = ExitStack()
        self._runtime: Runtime | None = None
        self._loop: Loop | SimTimeLoop | None = None
        self._step: Callable[[int | None], bool] = _not_open
        self._clock: ClockPublisher | None = None

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self, *, progress: Progress | None = None) -> OfflineBridge:
        """Create the file, and open the backend and all publishers. Return the bridge.

        Args:
            progress: Called with the name of each phase when it begins.

        Raises:
            OptionError: There is no file to record to, or it exists.
            BackendError: The backend is unknown, not installed, or refuses its options.
            BridgeError: There is a file to record to, and foxglove-sdk is not installed.
        """
        self._options.check()
        self._resources.callback(close_at_exit(self.close))
        try:
            self._open(progress or (lambda _: None))
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Write the end of the file, and close everything. Idempotent."""
        self._resources.close()
        self._runtime = self._loop = None
        self._step = _not_open
        self._step_callbacks.clear()

    def __enter__(self) -> OfflineBridge:
        return self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- Running -----------------------------------------------------------------------------------------------

    @property
    def plan(self) -> BridgePlan:
        """The plan, with the physics that the backend needs."""
        return self._plan

    @property
    def runtime(self) -> Runtime:
        """The runtime.

        Raises:
            BridgeError: The bridge is not open.
        """
        if self._runtime is None:
            raise BridgeError("the bridge is not open")
        return self._runtime

    def step(self, time_ns: int | None = None) -> bool:
        """Tick once.

        Args:
            time_ns: As of `Bridge.step`. Where the backend does not own time, it is needed.

        Returns:
            Whether the backend gave a state.

        Raises:
            BridgeError: The bridge is not open, or the time is missing or no int.
        """
        if time_ns is not None and type(time_ns) is not int:
            time_ns = nanoseconds(time_ns)
        return self._step(time_ns)

    def before_step(self, callback: BeforeStep) -> Binding:
        """Call a function before each step of the backend, as `Bridge.before_step`. Return what removes it."""
        return Binding(self._step_callbacks.add_before(callback))

    def after_step(self, callback: AfterStep) -> Binding:
        """Call a function after each step of the backend, as `Bridge.after_step`. Return what removes it."""
        return Binding(self._step_callbacks.add_after(callback))

    def spin(self) -> None:
        """Run for `BridgeOptions.duration`, or until `stop`.

        Raises:
            BridgeError: The bridge is not open.
        """
        loop = self._loop
        if loop is None:
            raise BridgeError("the bridge is not open")
        loop.run()

    def stop(self) -> None:
        """End `spin` after the tick in progress; from any thread or signal handler."""
        loop = self._loop
        if loop is not None:
            loop.stop()

    def send(self, target: str, message: Any) -> None:
        """Deliver a message to a subscription of the plan, as a peer's would be: the next tick applies it.

        Args:
            target: Prim path or absolute name of the subscription.
            message: A message, or a mapping of its fields.

        Raises:
            BridgeError: There is no such subscription, nothing takes its messages, or the message does not fit.
        """
        deliver_message(self.runtime, self._plan, target, message)

    # --- Opening -----------------------------------------------------------------------------------------------

    def _open(self, progress: Progress) -> None:
        report = self._reporter.report
        channels, tap = self._open_recording()
        domains = OfflineDomains(tap, node_name=self._options.node_name)
        choice = choose(self._plan, self._backend, inform=self._inform)
        progress(COMPILING if needs_physics(choice.backend) else f"{BACKEND} {choice.name}")
        runtime, _ = open_chosen(choice, partial(self._make_runtime, domains, choice), report)
        self._runtime = runtime
        self._resources.callback(runtime.close)
        self._plan = runtime.plan
        owns_time = runtime.capabilities.step_ns > 0
        if channels is not None:
            channels.time_ns = lambda: runtime.now_ns if owns_time else runtime.time_ns
        self._open_time(runtime)
        self._open_publishers(leave_offered(runtime.plan, describes=True, sourced=set()), domains, runtime)
        if self._clock is not None:
            self._clock.open([domains.main])
            self._clock.publish_now()
        if channels is not None:
            channels.start()

    def _open_recording(self) -> tuple[MessageChannels | None, MessageTap]:
        """Create the file, if there is to be one. Return its channels, and what gets all messages."""
        path, tap = self._options.record, self._tap
        if path is None:
            if tap is None:
                raise OptionError("there is only the recording: name a file (--record FILE.mcap)")
            return None, tap
        try:
            # Only now: a tap needs no foxglove-sdk.
            from usd_ros_bridge.ros.recording.message_channels import MessageChannels
            from usd_ros_bridge.ros.recording.recorder import Recorder
        except ImportError as error:
            raise missing_requirement(error) or error from error
        report = self._reporter.report
        channels = MessageChannels(takes_all=True, lossless=True, report=report)
        recorder = Recorder(path, channels, report=report)
        self._resources.callback(lambda: recorder.close(self._plan))
        return channels, join_taps(tap, channels)

    def _make_runtime(
        self, domains: OfflineDomains, choice: Choice, plan: BridgePlan, backend: Backend
    ) -> Runtime:
        options = self._options
        if backend is choice.backend:
            options = replace(options, backend_options=lockstep_options(choice.name, options.backend_options))
        return Runtime(
            plan,
            backend,
            options=options,
            reporter=self._reporter,
            inform=self._inform,
            deferred_jobs=domains,
            step_callbacks=self._step_callbacks,
        )

    def _open_time(self, runtime: Runtime) -> None:
        """Make the loop, and publish /clock where the backend owns time."""
        step_ns = runtime.capabilities.step_ns
        if step_ns <= 0:
            self._loop = Loop(runtime, SteppedClock())
            self._step = partial(_step_at, runtime)
            return
        control = TimeControl(step_ns=step_ns, real_time_factor=0.0, wake=runtime.inbox.wakeup.set)
        self._resources.callback(control.close)
        keeper = Timekeeper(runtime, control)
        self._loop = SimTimeLoop(runtime, control, keeper=keeper)
        self._step = keeper.step
        if self._options.publish_clock:
            clock = ClockPublisher(
                rate=self._options.clock_rate, now_ns=lambda: runtime.now_ns, report=self._reporter.report
            )
            self._resources.callback(clock.close)
            # Before all other publications: readers know the time when another message comes.
            runtime.add_publication(clock, name="/clock", rate=self._options.clock_rate)
            self._clock = clock

    def _open_publishers(self, plan: BridgePlan, domains: OfflineDomains, runtime: Runtime) -> None:
        options, report = self._options, self._reporter.report
        transforms = RobotTransforms(plan, domains, runtime, rate=options.tf_rate, watch=False)
        self._resources.callback(transforms.close)
        transforms.open(runtime.now_ns or runtime.capabilities.step_ns)
        workers, handlers = Workers(), Handlers(plan)
        self._resources.callback(workers.close)
        scene, no_scene = scene_access(plan, edits=False)
        factory = EndpointFactory(
            domains,
            runtime,
            handlers=handlers,
            workers=workers,
            services=Services(handlers, runtime, scene, no_scene),
            inform=self._inform,
            publish_unmatched=False,
        )
        for topic in plan.topics:
            if topic.role != "publisher" or not topic.enabled:
                continue
            publisher = factory.make(topic, "topic").endpoint
            if isinstance(publisher, TopicPublisher):
                self._resources.callback(publisher.close)
                schedule_publisher(runtime, publisher)
        descriptions = Descriptions(
            plan,
            domains,
            options=options,
            in_tick=partial(run_in_tick, runtime),
            wait_for_tick=runtime.wait_for_tick,
            report=report,
        )
        self._resources.callback(descriptions.close)
        descriptions.open()
        summary = PlanSummary(plan, domains.main, refused=dict, enabled=options.publish_plan)
        self._resources.callback(summary.close)
        summary.open()
        summary.publish()


class SubscriptionWriter(NamedTuple):
    """What writes messages to a subscription.

    Attributes:
        message_class: Class of its messages.
        take: Takes a message: the next tick applies it.
    """

    message_class: Any
    take: Callable[[Any], object]

    def write(self, message: Any) -> None:
        """Write a message, or a mapping of its fields.

        Raises:
            BridgeError: It does not fit.
        """
        self.take(make_message(self.message_class, message))


def find_writers(runtime: Runtime, plan: BridgePlan, target: str) -> tuple[SubscriptionWriter, ...]:
    """Return what writes messages to the subscriptions of a name. It holds as long as the plan runs.

    Args:
        runtime: Open.
        plan: The plan that it runs.
        target: Prim path or absolute name of the subscription.

    Raises:
        BridgeError: There is no such subscription, or nothing takes its messages.
    """
    topics = [each for each in plan.topics if each.role == "subscription" and each.enabled]
    named = [each for each in topics if target in (each.path, each.name)]
    if not named:
        there = alternatives(target, (f"{each.path} ({each.name})" for each in topics))
        raise BridgeError(f"{quoted(target)} names no subscription of {plan.asset}; {there}")
    return tuple(_make_writer(runtime, topic) for topic in named)


def deliver_message(runtime: Runtime, plan: BridgePlan, target: str, message: Any) -> None:
    """Deliver a message to a subscription of a plan, as a peer's would be: the next tick applies it.

    Args:
        runtime: Open.
        plan: The plan that it runs.
        target: Prim path or absolute name of the subscription.
        message: A message, or a mapping of its fields.

    Raises:
        BridgeError: There is no such subscription, nothing takes its messages, or the message does not fit.
    """
    for each in find_writers(runtime, plan, target):
        each.write(message)


def _make_writer(runtime: Runtime, topic: TopicPlan) -> SubscriptionWriter:
    decode = CODECS.get(topic.type, NO_CODEC).decode
    binding = runtime.bind_sink(topic)
    if decode is None or not binding.accepted:
        raise BridgeError(f"{topic.name} takes no messages: {binding.reason or topic.type}")
    message_class = import_interface(topic.type, AmentCatalog())
    return SubscriptionWriter(message_class, lambda message: binding.deliver(decode(message)))


def schedule_publisher(runtime: Runtime, publisher: TopicPublisher) -> None:
    """Publish what a publisher shows, at its rate, from the next tick on."""
    if publisher.is_silent:
        return
    rate, robot = publisher.schedule(runtime.capabilities)
    runtime.add_publication(publisher, name=publisher.topic.path, rate=rate, robot=robot)


def _step_at(runtime: Runtime, time_ns: int | None) -> bool:
    if time_ns is None:
        raise BridgeError("the backend does not own time: say which time it is to be")
    runtime.follow_host(time_ns)
    return runtime.tick(time_ns)


def _not_open(_: int | None) -> bool:
    raise BridgeError("the bridge is not open")


def check_duration(options: BridgeOptions) -> None:
    """Check that a run ends by itself.

    Raises:
        OptionError: It does not: nobody could end it but by a signal, and it fills the disk until then.
    """
    if options.duration * SECOND_NS <= 0:
        raise OptionError(
            "without ROS, time passes as fast as possible: say when to end (--duration SECONDS)"
        )
