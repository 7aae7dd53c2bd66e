"""The facade: a plan and a backend as live ROS 2 interfaces, in a process of its own or in a host's loop."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from usd_ros_bridge.backends.protocol import Backend
from usd_ros_bridge.model.errors import BridgeError, OptionError
from usd_ros_bridge.model.options import PlanOptions, VariantSelection
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.ros.backend_choice import AUTO, choose, open_chosen
from usd_ros_bridge.ros.calls import Call
from usd_ros_bridge.ros.clock import RosClock, with_sim_time
from usd_ros_bridge.ros.description import DescriptionOptions
from usd_ros_bridge.ros.diagnostics import DEFAULT_RATE, DiagnosticsOptions
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.handlers import HandlerRegistry, Handlers
from usd_ros_bridge.ros.installed_handlers import bind_installed
from usd_ros_bridge.ros.live.live import Live, LiveOptions
from usd_ros_bridge.ros.live.protocol import Changes
from usd_ros_bridge.ros.node_log import NodeLog
from usd_ros_bridge.ros.overview import overview, summary
from usd_ros_bridge.ros.own_time import OwnTime, find_time
from usd_ros_bridge.ros.plan_parts import PlanParts
from usd_ros_bridge.ros.simulation.spawn_options import SpawnOptions
from usd_ros_bridge.ros.status import BridgeStatus
from usd_ros_bridge.ros.succession import find_succession
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.controllers import ControllerStatus
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.loop import Loop
from usd_ros_bridge.runtime.options import RuntimeOptions
from usd_ros_bridge.runtime.report import Reporter
from usd_ros_bridge.runtime.time_control import TimeControl, TimeOptions
from usd_ros_bridge.runtime.timekeeper import OwnTimeLoop

NODE_NAME = "usd_ros_bridge"
DEFAULT_TF_RATE = 50.0
QUIT_S = 0.2
"""So that the answer to who asked for the end still goes out."""
Show = Callable[[str, str], None]


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
        backend_options: Mapping[str, str] | None = None,
        node: Any = None,
        node_name: str = NODE_NAME,
        namespace: str | None = None,
        domain_id: int | None = None,
        tf_rate: float | None = DEFAULT_TF_RATE,
        use_sim_time: bool | None = None,
        parameter_overrides: Sequence[Any] = (),
        ros_args: Sequence[str] = (),
        threaded: bool = True,
        domains: Domains | None = None,
        seed: int = 0,
        controller_rate: float = 100.0,
        time_options: TimeOptions | None = None,
        spawning: SpawnOptions | None = None,
        handlers: Sequence[str] | None = None,
        scene_edits: bool = False,
        follow_edits: bool = True,
        watch: bool = False,
        publish_unmatched: bool = False,
        publish_description: bool = True,
        mesh_directory: str | os.PathLike[str] | None = None,
        publish_diagnostics: bool = True,
        diagnostics_rate: float = DEFAULT_RATE,
        report: Show | None = None,
        inform: Show | None = None,
    ) -> None:
        """Stores what to run; `open` acquires.

        Args:
            plan: What to bring to life.
            backend: Name of an installed backend, `auto`, or one made by the caller and not open yet. `auto` is
                `mujoco` where that is installed and the asset has drives or bodies that fall, else `kinematic`.
            backend_options: The backend's `key=value` options, as text.
            node: A host's rclpy node, in a running executor of the host's, to use instead of an own one.
            node_name: Name of the bridge's own node.
            namespace: Namespace of the bridge's own node. Names of interfaces are the plan's (PlanOptions.namespace).
            domain_id: Domain of what names none; None for the process's (ROS_DOMAIN_ID) or the handed-in node's.
            tf_rate: How often moving transforms are sent, Hz; None at every step.
            use_sim_time: Whether the bridge's own node follows /clock; None as the two below say.
            parameter_overrides: rclpy Parameters for the bridge's own node.
            ros_args: ROS arguments (`--ros-args -r ...`) for the bridge's own contexts.
            threaded: Run callbacks in background threads; False leaves them to `poll`.
            domains: Domains that are open already and are taken over, and closed, by the bridge; the options that
                make nodes are ignored then.
            seed: Seed for anything random in the backend.
            controller_rate: How often `spin` runs controllers while they are busy, Hz; `step` always does.
            time_options: How time passes where the backend owns it; the defaults where None.
            spawning: What may be spawned by simulation_interfaces where the backend owns time; nothing where None.
            handlers: Names of the installed packages' handlers that are asked to serve; None for all of them.
            scene_edits: Whether built-in services may edit the session layer of a stage that the caller opened.
            follow_edits: Go on with what edits make of the plan's stage while the bridge runs.
            watch: Read files of the asset again where they change, and go on with that.
            publish_unmatched: Publish also while nobody subscribes, as benchmarks must; else such topics stay idle.
            publish_description: Describe each robot as URDF on `<its namespace>/robot_description`, once it is open.
            mesh_directory: Where mesh files for descriptions are put; None for the user's cache.
            publish_diagnostics: Tell on /diagnostics how every interface, the backend and the TF trees are.
            diagnostics_rate: How often, Hz of wall time, 10 at most.
            report: Shows a warning `(kind, message)`; the node's logger by default.
            inform: Shows something worth knowing `(kind, message)`; the node's logger by default.
        """
        super().__init__(Handlers(plan))
        self._workers = Workers()
        self._installed = handlers
        self._scene_edits = scene_edits
        self._live_options = LiveOptions(edits=scene_edits, follow=follow_edits, watch=watch, tf_rate=tf_rate)
        self._backend = backend
        self._backend_name = ""
        self._time_options = time_options or TimeOptions()
        self._spawning = spawning or SpawnOptions()
        self._options = RuntimeOptions(
            backend_options=dict(backend_options or {}), seed=seed, controller_rate=controller_rate
        )
        self._tf_rate = tf_rate
        self._log = NodeLog(NODE_NAME)
        self._reporter = Reporter(report or self._log.warn)
        self._inform = inform or self._log.inform
        self._make_parts = partial(
            PlanParts, handlers=self._handlers, workers=self._workers, tf_rate=tf_rate, scene_edits=scene_edits,
            publish_unmatched=publish_unmatched, inform=self._inform,
            description=DescriptionOptions(publish=publish_description, meshes=mesh_directory),
            diagnostics=DiagnosticsOptions(publish=publish_diagnostics, rate=diagnostics_rate),
        )  # fmt: skip
        self._make_domains: Callable[[], Domains] = lambda: Domains(
            node=node,
            node_name=node_name,
            namespace=namespace,
            domain_id=domain_id,
            ros_args=ros_args,
            parameter_overrides=with_sim_time(parameter_overrides, use_sim_time),
            threaded=threaded,
            report=self._reporter.report,
        )
        self._domains = domains
        self._runtime: GuardedRuntime | None = None
        self._parts: PlanParts | None = None
        self._clock: RosClock | OwnTime | None = None
        self._loop: Loop | OwnTimeLoop | None = None
        self._live: Live | None = None
        self._spinning = False
        self._lock = threading.RLock()
        self._closed = False

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self) -> Bridge:
        """Opens the backend and creates every enabled interface; returns itself.

        Raises:
            BackendError: The backend is unknown, not installed, or refuses its options.
            BridgeError: The bridge was opened before, or the ROS arguments are not valid.
        """
        if self._runtime is not None or self._closed:
            raise BridgeError("a bridge is opened once; make another one")
        if self._tf_rate is not None and not self._tf_rate > 0.0:
            raise OptionError(
                f"tf_rate {self._tf_rate!r} is not possible: positive Hz, or None for every step"
            )
        if not 0.0 < self._options.controller_rate < math.inf:
            raise OptionError(
                f"controller_rate {self._options.controller_rate!r} is not possible: positive Hz"
            )
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Ends everything that `open` began. Idempotent, from any thread, also while callbacks run."""
        self._closed = True
        self._log.node = None
        if self._loop is not None:
            self._loop.stop()
        with self._lock:
            if self._runtime is not None:
                self._runtime.stopped = True
        if self._runtime is not None:
            self._runtime.between.close()
        if self._live is not None:
            self._live.stop()
        # Those who wait are told while there still is who tells them.
        self._workers.close()
        # Threads end before what they use goes away, and outside of the lock, which none of them needs to end.
        if self._domains is not None:
            self._domains.stop()
        with self._lock:
            parts, self._parts = self._parts, None
            for part in (self._live, self._clock, parts, self._runtime, self._domains):
                if part is not None:
                    part.close()

    def __enter__(self) -> Bridge:
        return self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- Running -----------------------------------------------------------------------------------------------

    def step(self, time_ns: int | None = None) -> bool:
        """Does everything once, from the host's thread: takes what arrived, steps the backend, sends what is due.

        Args:
            time_ns: Bridge time, nanoseconds, which stamps what is sent; None for the ROS time of the bridge's node.
                Where the backend owns time: the time to go to, the end of a step at or before it counts; None for one
                step of the backend.

        Returns:
            Whether the backend gave a state; not where time that the backend owns is paused.

        Raises:
            BridgeError: The bridge is not open, or `spin` runs in another thread.
        """
        runtime = self._runtime
        if runtime is None or self._clock is None or self._closed:
            raise BridgeError("the bridge is not open")
        if self._spinning:
            raise BridgeError("step() while spin() runs: one of the two drives the bridge")
        if isinstance(self._clock, OwnTime):
            return self._clock.step(None if time_ns is None else int(time_ns))
        now = self._clock.now_ns() if time_ns is None else int(time_ns)
        return False if now is None else runtime.tick(now)

    def poll(self) -> None:
        """Runs callbacks that wait, where no background thread does (`threaded=False`), and returns at once."""
        self._opened()
        assert self._domains is not None
        self._domains.poll()

    def spin(self) -> None:
        """Runs until `stop` or `close`, in the calling thread.

        Raises:
            BridgeError: The bridge is not open.
        """
        self._opened()
        assert self._loop is not None
        self._spinning = True
        try:
            self._loop.run()
        finally:
            self._spinning = False

    def stop(self) -> None:
        """Ends `spin` after the tick in progress; from any thread or signal handler."""
        if self._loop is not None:
            self._loop.stop()

    def reset(self) -> None:
        """Takes the backend back to the state at rest; the next `step` may be at any time.

        Where the backend owns time, it starts over, while `spin` runs between two ticks: `time.reset` tells when.
        """
        runtime, clock = self._opened()
        if isinstance(clock, OwnTime):
            clock.reset(spinning=self._spinning)
            return
        runtime.reset()

    # --- Asking ------------------------------------------------------------------------------------------------

    def call(
        self, target: str, request: Any, *, timeout: float | None = None,
        feedback: Callable[[Any], object] | None = None,
    ) -> Call:  # fmt: skip
        """Calls the server that a client of the plan is for, as soon as there is one.

        Args:
            target: Prim path or absolute name of the client.
            request: Request or goal message, or a mapping of its fields.
            timeout: Seconds until the call fails. By default 5 for a service; a goal takes as long as it takes.
            feedback: Called with each feedback message of a goal, off the tick; or is `async`.

        Returns:
            The call: `await` it, or ask for its `result()`: the response, or the `ActionResult` of a goal.

        Raises:
            BridgeError: The bridge is not open, there is no such client, or the request does not fit its type.
        """
        self._opened()
        assert self._parts is not None
        if timeout is not None and not timeout > 0.0:
            raise OptionError(f"timeout {timeout!r} is not possible: positive seconds")
        return self._parts.interfaces.call(target, request, timeout=timeout, feedback=feedback)

    def controllers(self) -> tuple[ControllerStatus, ...]:
        """Returns which controllers there are, and which of them are active."""
        return self._opened()[0].controllers.status()

    def switch_controllers(self, *, activate: Iterable[str] = (), deactivate: Iterable[str] = ()) -> Call:
        """Switches controllers by prim path, at the start of the next tick: all of them, or none.

        Returns:
            The switch under way: `await` it, or ask for its `result()`, to know that it happened.

        Raises:
            BridgeError: It is not possible: a path is unknown, a controller faulty, or a joint claimed twice.
        """
        self._opened()
        assert self._parts is not None
        return self._parts.switch_controllers(tuple(activate), tuple(deactivate))

    # --- Change ------------------------------------------------------------------------------------------------

    @property
    def changes(self) -> Changes:
        """The way to change what runs: what parameters, services and watchers of files ask.

        Raises:
            BridgeError: The bridge is not open.
        """
        self._opened()
        assert self._live is not None
        return self._live.changer

    def change(
        self,
        *,
        variants: Sequence[VariantSelection] | None = None,
        plan_options: PlanOptions | None = None,
        edit: Callable[[Any], None] | None = None,
    ) -> Call:
        """Goes on with another choice of variants, other options, or an edited stage. Only differences close and open.

        Args:
            variants: All selections that are to override authored ones; None for those that do.
            plan_options: How the plan is made; None for as it was.
            edit: Edits the stage, on its session layer; refused where the stage is the caller's, who edits it
                without asking, unless `scene_edits` allows it.

        Returns:
            The change under way: `await` it, or ask for its `result()`, a ChangeReport. It fails with
            ChangeRefusedError, or another BridgeError, where what runs goes on as it was.

        Raises:
            BridgeError: The bridge is not open.
        """
        options = None if plan_options is None else (lambda _: plan_options)
        future = self.changes.request(why="a change", variants=variants, options=options, edit=edit)
        assert self._live is not None
        return self._live.waited(future)

    def reload(self) -> Call:
        """Reads the files of the asset again, and goes on with what they are, as `change` does.

        Raises:
            BridgeError: The bridge is not open.
        """
        self._opened()
        assert self._live is not None
        return self._live.reload()

    # --- Looking in --------------------------------------------------------------------------------------------

    @property
    def node(self) -> Any:
        """The rclpy node of the default domain."""
        self._opened()
        assert self._domains is not None
        return self._domains.main.node

    @property
    def time(self) -> TimeControl | None:
        """Pauses, steps and resets, from any thread; None where the backend does not own time."""
        clock = self._opened()[1]
        return clock.control if isinstance(clock, OwnTime) else None

    @property
    def runtime(self) -> Runtime:
        """The runtime: emitters and sinks of one's own are added there."""
        return self._opened()[0]

    def status(self) -> BridgeStatus:
        """Returns what the bridge is doing, from any thread.

        Raises:
            BridgeError: The bridge is not open.
        """
        with self._lock:
            runtime, _ = self._opened()
            parts, clock = self._parts, self._clock
            assert parts is not None
            own = clock if isinstance(clock, OwnTime) else None
            return overview(
                self.plan,
                self._backend_name,
                runtime,
                parts.interfaces,
                parts.transforms,
                parts.descriptions,
                own,
            )

    def summary(self) -> str:
        """Returns one line for a log: how much of what is live.

        Raises:
            BridgeError: The bridge is not open.
        """
        self._opened()
        assert self._parts is not None
        return summary(self._parts.interfaces, self._parts.transforms)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        bind_installed(self._handlers, self._installed, self._reporter.report)
        # Before any node, so that a name that does not exist is all that is said.
        choice = None if self._backend == AUTO else choose(self.plan, self._backend, inform=self._inform)
        if self._domains is None:
            self._domains = self._make_domains()
        main = self._domains.main
        self._log.node = main.node
        if choice is None:
            follows = bool(main.node.get_clock().ros_time_is_active)
            choice = choose(self.plan, AUTO, follows_clock=follows, inform=self._inform)
        make = partial(
            GuardedRuntime, options=self._options, reporter=self._reporter, lock=self._lock, domains=self._domains
        )  # fmt: skip
        self.plan = choice.plan
        runtime, self._backend_name = open_chosen(choice, make, self._reporter.report)
        self._runtime = runtime
        clock, self._loop = find_time(runtime, self._domains, self._workers, self._time_options)
        self._clock = clock
        self._parts = self._make_parts(self.plan, self._domains, runtime)
        self._parts.open(clock.now_ns)
        self._live = Live(
            runtime, self._parts, self._domains, self._workers, self._live_options,
            own_time=clock if isinstance(clock, OwnTime) else None,
            lock=self._lock, adopt=self._adopt, inform=self._inform,
        )  # fmt: skip
        if isinstance(clock, OwnTime):
            clock.open()
            succession = find_succession(
                self.plan, runtime, self._spawning,
                edits=self._scene_edits, changes=self._live.changer, between_ticks=clock.between_ticks,
            )  # fmt: skip
            clock.offer(self._handlers, quit_process=self._quit, inform=self._inform, succession=succession)
        self._live.open()

    def _adopt(self, plan: BridgePlan) -> None:
        """Shows a plan that is live from here on; between two ticks."""
        self.plan = plan
        if isinstance(self._clock, OwnTime):
            self._clock.revise()

    def _quit(self) -> bool:
        """Ends `spin` soon, for whoever asks for it by a service; returns False where no `spin` runs."""
        if self._spinning:
            threading.Timer(QUIT_S, self.stop).start()
        return self._spinning

    def _opened(self) -> tuple[GuardedRuntime, RosClock | OwnTime]:
        if self._runtime is None or self._clock is None or self._closed:
            raise BridgeError("the bridge is not open")
        return self._runtime, self._clock
