"""What an open bridge consists of: acquired in order, given back in reverse, and moved from plan to plan in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, get_args

from usd_ros_bridge.backends.protocol import Backend, Report
from usd_ros_bridge.model.errors import BridgeError, OptionError, choices
from usd_ros_bridge.model.options import RemoteControl
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.ranges import RATE
from usd_ros_bridge.ros.backend_choice import AUTO, choose, open_chosen
from usd_ros_bridge.ros.clock import RosClock
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.graph_monitor import CHECK_RATE, GraphMonitor
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.handlers import Handlers
from usd_ros_bridge.ros.installed_handlers import bind_installed
from usd_ros_bridge.ros.live.live import Live, LiveOptions
from usd_ros_bridge.ros.node_log import NodeLog
from usd_ros_bridge.ros.own_time import OwnTime, find_time
from usd_ros_bridge.ros.plan_parts import PlanParts
from usd_ros_bridge.ros.simulation.spawn_options import SpawnOptions
from usd_ros_bridge.ros.succession import find_succession
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.loop import Loop
from usd_ros_bridge.runtime.options import RuntimeOptions
from usd_ros_bridge.runtime.report import Reporter
from usd_ros_bridge.runtime.time_control import TimeOptions
from usd_ros_bridge.runtime.timekeeper import OwnTimeLoop

QUIT_S = 0.2
"""So that the answer to who asked for the end still goes out."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AssemblyOptions:
    """What a bridge is assembled from.

    Attributes:
        backend: Name of an installed backend, `auto`, or a backend.
        runtime: Of the runtime.
        time: How time passes where the backend owns it.
        spawning: What may be spawned.
        live: What changes it while it runs.
        installed: Names of the installed packages' handlers that are asked to serve; None for all of them.
        remote_control: What other nodes may do.
        make_domains: Makes the domains, where none are handed over.
        make_parts: `make_parts(plan, domains, runtime)` makes what follows from the plan.
    """

    backend: str | Backend
    runtime: RuntimeOptions
    time: TimeOptions
    spawning: SpawnOptions
    live: LiveOptions
    installed: tuple[str, ...] | None
    remote_control: RemoteControl
    make_domains: Callable[[], Domains]
    make_parts: Callable[[BridgePlan, Domains, GuardedRuntime], PlanParts]


class Opened(NamedTuple):
    """What there is once a bridge is open."""

    domains: Domains
    runtime: GuardedRuntime
    parts: PlanParts
    clock: RosClock | OwnTime
    loop: Loop | OwnTimeLoop
    live: Live


class Assembly:
    """The parts of one bridge.

    Attributes:
        plan: The plan that is live.
        backend_name: For people; "" before.
        domains: Nodes and what runs their callbacks.
        runtime: Once open.
        parts: What follows from the plan; once open.
        clock: Whose time it is; once open.
        loop: Ticks; once open.
        live: Changes it; once open.
        opened: All of it, once it is open.
        lock: Held by ticks, and by whoever closes the bridge.
        closed: Whether it was closed.
        spinning: Whether `spin` runs.
    """

    def __init__(
        self,
        plan: BridgePlan,
        options: AssemblyOptions,
        *,
        handlers: Handlers,
        workers: Workers,
        domains: Domains | None,
        reporter: Reporter,
        inform: Report,
        log: NodeLog,
    ) -> None:
        """Stores what to acquire.

        Args:
            plan: The plan.
            options: What to do with it.
            handlers: What is bound to interfaces.
            workers: Where that runs.
            domains: Open already, and taken over; None to make them.
            reporter: Where warnings go.
            inform: Told what is worth knowing.
            log: Gets the node.
        """
        self.plan = plan
        self.backend_name = ""
        self.domains = domains
        self.runtime: GuardedRuntime | None = None
        self.parts: PlanParts | None = None
        self.clock: RosClock | OwnTime | None = None
        self.loop: Loop | OwnTimeLoop | None = None
        self.live: Live | None = None
        self.opened: Opened | None = None
        self.lock = threading.RLock()
        self.closed = False
        self.spinning = False
        self._options = options
        self._handlers = handlers
        self._workers = workers
        self._reporter = reporter
        self._inform = inform
        self._log = log

    def check(self) -> None:
        """Looks at what can be known to be impossible before anything is acquired.

        Raises:
            OptionError: A rate, or `remote_control`, is not possible.
            BridgeError: It was opened before.
        """
        if self.runtime is not None or self.closed:
            raise BridgeError("a bridge is opened once; make another one")
        tf_rate, controller_rate = self._options.live.tf_rate, self._options.runtime.controller_rate
        if tf_rate is not None:
            RATE.check("tf_rate", tf_rate)
        RATE.check("controller_rate", controller_rate)
        if self._options.remote_control not in get_args(RemoteControl):
            raise OptionError(
                f"remote_control {self._options.remote_control!r} is not possible; there are: "
                f"{choices(get_args(RemoteControl))}"
            )

    def open(self) -> None:
        """Acquires everything, in order; who called closes it where that fails.

        Raises:
            BackendError: The backend is unknown, not installed, or refuses its options.
            BridgeError: ROS 2 refuses something.
        """
        options = self._options
        bind_installed(self._handlers, options.installed, self._reporter.report)
        # Before any node, so that a name that does not exist is all that is said.
        choice = None if options.backend == AUTO else choose(self.plan, options.backend, inform=self._inform)
        if self.domains is None:
            self.domains = options.make_domains()
        domains, main = self.domains, self.domains.main
        self._log.node = main.node
        if choice is None:
            follows = bool(main.node.get_clock().ros_time_is_active)
            choice = choose(self.plan, AUTO, follows_clock=follows, inform=self._inform)
        make = partial(
            GuardedRuntime,
            options=options.runtime,
            reporter=self._reporter,
            lock=self.lock,
            domains=domains,
            remote_control=options.remote_control,
        )
        self.plan = choice.plan
        runtime, self.backend_name = open_chosen(choice, make, self._reporter.report)
        self.runtime = runtime
        clock, loop = find_time(runtime, domains, self._workers, options.time)
        self.clock, self.loop = clock, loop
        self.parts = options.make_parts(self.plan, domains, runtime)
        self.parts.open(clock.now_ns)
        own_time = clock if isinstance(clock, OwnTime) else None
        self.live = Live(
            runtime, self.parts, domains, self._workers, options.live,
            own_time=own_time, lock=self.lock, adopt=self._adopt, inform=self._inform,
        )  # fmt: skip
        if own_time is not None:
            own_time.open()
            succession = find_succession(
                self.plan, runtime, options.spawning,
                edits=options.live.edits, changes=self.live.changer, between_ticks=runtime.between.ask,
            )  # fmt: skip
            own_time.offer(
                self._handlers, quit_process=self._quit, inform=self._inform, succession=succession
            )
        self.live.open()
        monitor = GraphMonitor(lambda: self.plan, domains, report=self._reporter.report)
        runtime.add_emitter(monitor, name="graph monitor", rate=CHECK_RATE)
        self.opened = Opened(domains, runtime, self.parts, clock, loop, self.live)

    def close(self) -> None:
        """Gives everything back, and lets go of it. Idempotent, from any thread, also while callbacks run.

        What refers to one another here, and to the plan and its stage, is taken apart: it is freed at once, in the
        thread that lets go of it last. A stage that waits for the garbage collector is freed in any thread, while
        OpenUSD tells other stages of changes in another one: the process would end.
        """
        self.closed = True
        self._log.node = None
        # Another thread may be closing it, too.
        runtime, live, domains = self.runtime, self.live, self.domains
        self.stop()
        if runtime is not None:
            with self.lock:
                runtime.stopped = True
            runtime.between.close()
        if live is not None:
            live.stop()
        # Those who wait are told while there still is who tells them.
        self._workers.close()
        # Threads end before what they use goes away, and outside of the lock, which none of them needs to end.
        if domains is not None:
            domains.stop()
        with self.lock:
            for part in (self.live, self.clock, self.parts, self.runtime, self.domains):
                if part is not None:
                    part.close()
            self.opened = self.live = self.clock = self.parts = self.loop = self.runtime = self.domains = None
            self._handlers.close()

    def stop(self) -> None:
        """Ends `spin` after the tick in progress; from any thread or signal handler."""
        loop = self.loop
        if loop is not None:
            loop.stop()

    def _quit(self) -> bool:
        """Ends `spin` soon, for whoever asks for it by a service; returns False where no `spin` runs."""
        if self.spinning:
            threading.Timer(QUIT_S, self.stop).start()
        return self.spinning

    def _adopt(self, plan: BridgePlan) -> None:
        """Shows a plan that is live from here on; between two ticks."""
        self.plan = plan
        if isinstance(self.clock, OwnTime):
            self.clock.revise()
