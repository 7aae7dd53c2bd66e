"""The facade: a plan and a backend as live ROS 2 interfaces, in a process of its own or in a host's loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from usd_ros_bridge.backends.protocol import Backend
from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.model.options import PlanOptions, RemoteControl, VariantSelection
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.ranges import TIMEOUT
from usd_ros_bridge.ros.assembly import Assembly, AssemblyOptions, Opened
from usd_ros_bridge.ros.calls import Call
from usd_ros_bridge.ros.clock import with_sim_time
from usd_ros_bridge.ros.description import DescriptionOptions
from usd_ros_bridge.ros.diagnostics import DEFAULT_RATE, DiagnosticsOptions
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.handlers import HandlerRegistry, Handlers
from usd_ros_bridge.ros.live.live import LiveOptions
from usd_ros_bridge.ros.live.protocol import Changes
from usd_ros_bridge.ros.node_log import NodeLog
from usd_ros_bridge.ros.overview import overview, summary
from usd_ros_bridge.ros.own_time import OwnTime
from usd_ros_bridge.ros.plan_parts import PlanParts
from usd_ros_bridge.ros.simulation.spawn_options import SpawnOptions
from usd_ros_bridge.ros.status import BridgeStatus
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.controllers import ControllerStatus
from usd_ros_bridge.runtime.core import Runtime
from usd_ros_bridge.runtime.options import RuntimeOptions
from usd_ros_bridge.runtime.report import Reporter, limited
from usd_ros_bridge.runtime.time_control import TimeControl, TimeOptions

NODE_NAME = "usd_ros_bridge"
DEFAULT_TF_RATE = 50.0
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
        remote_control: RemoteControl = "all",
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
                `mujoco` where that is installed and the asset has drives, actuators or bodies that fall, else
                `kinematic`.
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
            remote_control: What other nodes may do through the services and parameters of the bridge's node: `all`,
                `read_only` (ask, but change nothing) or `none`. Interfaces of the asset are not meant.
            publish_unmatched: Publish also while nobody subscribes, as benchmarks must; else such topics stay idle.
            publish_description: Describe each robot as URDF on `<its namespace>/robot_description`, once it is open.
            mesh_directory: Where mesh files for descriptions are put; None for the user's cache.
            publish_diagnostics: Tell on /diagnostics how every interface, the backend and the TF trees are.
            diagnostics_rate: How often, Hz of wall time, 10 at most.
            report: Shows a warning `(kind, message)`; the node's logger by default.
            inform: Shows something worth knowing `(kind, message)`; the node's logger by default.
        """
        super().__init__(Handlers(plan))
        log = NodeLog(NODE_NAME)
        reporter, inform = Reporter(report or log.warn), limited(inform or log.inform)
        self._workers = Workers()
        options = AssemblyOptions(
            backend=backend,
            runtime=RuntimeOptions(
                backend_options=dict(backend_options or {}), seed=seed, controller_rate=controller_rate
            ),
            time=time_options or TimeOptions(),
            spawning=spawning or SpawnOptions(),
            live=LiveOptions(edits=scene_edits, follow=follow_edits, watch=watch, tf_rate=tf_rate),
            installed=None if handlers is None else tuple(handlers),
            remote_control=remote_control,
            make_domains=lambda: Domains(
                node=node,
                node_name=node_name,
                namespace=namespace,
                domain_id=domain_id,
                ros_args=ros_args,
                parameter_overrides=with_sim_time(parameter_overrides, use_sim_time),
                threaded=threaded,
                report=reporter.report,
            ),
            make_parts=partial(
                PlanParts, handlers=self._handlers, workers=self._workers, tf_rate=tf_rate,
                scene_edits=scene_edits, publish_unmatched=publish_unmatched, inform=inform,
                description=DescriptionOptions(publish=publish_description, meshes=mesh_directory),
                diagnostics=DiagnosticsOptions(publish=publish_diagnostics, rate=diagnostics_rate),
            ),
        )  # fmt: skip
        self._assembly = Assembly(
            plan, options, handlers=self._handlers, workers=self._workers, domains=domains,
            reporter=reporter, inform=inform, log=log,
        )  # fmt: skip

    # --- Life cycle --------------------------------------------------------------------------------------------

    def open(self) -> Bridge:
        """Opens the backend and creates every enabled interface; returns itself.

        Raises:
            BackendError: The backend is unknown, not installed, or refuses its options.
            BridgeError: The bridge was opened before, or the ROS arguments are not valid.
        """
        self._assembly.check()
        try:
            self._assembly.open()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Ends everything that `open` began. Idempotent, from any thread, also while callbacks run."""
        self._assembly.close()

    def __enter__(self) -> Bridge:
        return self.open()

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- Running -----------------------------------------------------------------------------------------------

    def step(self, time_ns: int | None = None) -> bool:
        """Does everything once, from the host's thread: takes what arrived, steps the backend, sends what is due.

        Args:
            time_ns: Bridge time, nanoseconds, which stamps what is sent; None for the ROS time of the bridge's node.
                Where the backend owns time: the time to go to, the end of a step at or before it counts (one that is
                missed by less than a hundredth of a step, too); None for one step of the backend.

        Returns:
            Whether the backend gave a state; not where time that the backend owns is paused.

        Raises:
            BridgeError: The bridge is not open, or `spin` runs in another thread.
        """
        opened = self._opened()
        runtime, clock = opened.runtime, opened.clock
        if self._assembly.spinning:
            raise BridgeError("step() while spin() runs: one of the two drives the bridge")
        if isinstance(clock, OwnTime):
            return clock.step(None if time_ns is None else int(time_ns))
        now = clock.now_ns() if time_ns is None else int(time_ns)
        if now is None:
            return False
        runtime.follow_host(now)
        return runtime.tick(now)

    def poll(self) -> None:
        """Runs callbacks that wait, where no background thread does (`threaded=False`), and returns at once."""
        self._opened().domains.poll()

    def spin(self) -> None:
        """Runs until `stop` or `close`, in the calling thread.

        Raises:
            BridgeError: The bridge is not open.
        """
        loop = self._opened().loop
        self._assembly.spinning = True
        try:
            loop.run()
        finally:
            self._assembly.spinning = False

    def stop(self) -> None:
        """Ends `spin` after the tick in progress; from any thread or signal handler."""
        self._assembly.stop()

    def reset(self) -> None:
        """Takes the backend back to the state at rest; the next `step` may be at any time.

        Where the backend owns time, it starts over, while `spin` runs between two ticks: `time.reset` tells when.
        """
        opened = self._opened()
        runtime, clock = opened.runtime, opened.clock
        if isinstance(clock, OwnTime):
            clock.reset(spinning=self._assembly.spinning)
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
        parts = self._opened().parts
        if timeout is not None:
            TIMEOUT.check("timeout", timeout)
        return parts.interfaces.call(target, request, timeout=timeout, feedback=feedback)

    def controllers(self) -> tuple[ControllerStatus, ...]:
        """Returns which controllers there are, and which of them are active."""
        return self._opened().runtime.controllers.status()

    def switch_controllers(self, *, activate: Iterable[str] = (), deactivate: Iterable[str] = ()) -> Call:
        """Switches controllers by prim path, at the start of the next tick: all of them, or none.

        Returns:
            The switch under way: `await` it, or ask for its `result()`, to know that it happened.

        Raises:
            BridgeError: It is not possible: a path is unknown, a controller faulty, or a joint claimed twice.
        """
        return self._opened().parts.switch_controllers(tuple(activate), tuple(deactivate))

    # --- Change ------------------------------------------------------------------------------------------------

    @property
    def changes(self) -> Changes:
        """The way to change what runs: what parameters, services and watchers of files ask.

        Raises:
            BridgeError: The bridge is not open.
        """
        return self._opened().live.changer

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
        return self._opened().live.waited(future)

    def reload(self) -> Call:
        """Reads the files of the asset again, and goes on with what they are, as `change` does.

        Raises:
            BridgeError: The bridge is not open.
        """
        return self._opened().live.reload()

    # --- Looking in --------------------------------------------------------------------------------------------

    @property
    def node(self) -> Any:
        """The rclpy node of the default domain."""
        return self._opened().domains.main.node

    @property
    def time(self) -> TimeControl | None:
        """Pauses, steps and resets, from any thread; None where the backend does not own time."""
        clock = self._opened().clock
        return clock.control if isinstance(clock, OwnTime) else None

    @property
    def runtime(self) -> Runtime:
        """The runtime: emitters and sinks of one's own are added there."""
        return self._opened().runtime

    def status(self) -> BridgeStatus:
        """Returns what the bridge is doing, from any thread.

        Raises:
            BridgeError: The bridge is not open.
        """
        with self._assembly.lock:
            opened = self._opened()
            return overview(
                self.plan,
                self._assembly.backend_name,
                opened.runtime,
                opened.parts,
                opened.live,
                opened.clock if isinstance(opened.clock, OwnTime) else None,
            )

    def summary(self) -> str:
        """Returns one line for a log: how much of what is live.

        Raises:
            BridgeError: The bridge is not open.
        """
        parts = self._opened().parts
        return summary(parts.interfaces, parts.transforms)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _opened(self) -> Opened:
        opened = self._assembly.opened
        if opened is None or self._assembly.closed:
            raise BridgeError("the bridge is not open")
        return opened
