"""The facade: a plan and a backend as live ROS 2 interfaces, in a process of its own or in a host's loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from usd_ros_bridge.backends.protocol import Backend
from usd_ros_bridge.backends.registry import load_backend
from usd_ros_bridge.model.errors import BridgeError, OptionError
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.planning import disable_conflicts
from usd_ros_bridge.ros.clock import RosClock
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.guarded_runtime import GuardedRuntime
from usd_ros_bridge.ros.interfaces import Interfaces, input_topic
from usd_ros_bridge.ros.status import BridgeStatus
from usd_ros_bridge.ros.transforms import Transforms
from usd_ros_bridge.runtime.core import Runtime, RuntimeOptions
from usd_ros_bridge.runtime.loop import Loop
from usd_ros_bridge.runtime.report import Reporter, log_warning

NODE_NAME = "usd_ros_bridge"
DEFAULT_TF_RATE = 50.0
Show = Callable[[str, str], None]


class Bridge:
    """Live ROS 2 interfaces of a plan, moved by a backend.

    A process of its own calls `spin`. A host calls `step` from its own thread, as often as its simulation steps;
    subscriptions fill the inbox from background threads, or in `poll` with `threaded=False`. Use it as a context
    manager, or call `open` and `close`.

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
        publish_unmatched: bool = False,
        report: Show | None = None,
        inform: Show | None = None,
    ) -> None:
        """Stores what to run; `open` acquires.

        Args:
            plan: What to bring to life.
            backend: Name of an installed backend, or one made by the caller and not open yet.
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
            publish_unmatched: Publish also while nobody subscribes, as benchmarks must; else such topics stay idle.
            report: Shows a warning `(kind, message)`; the node's logger by default.
            inform: Shows something worth knowing `(kind, message)`; the node's logger by default.
        """
        self.plan = plan
        self._backend = backend
        self._backend_options = dict(backend_options or {})
        self._tf_rate = tf_rate
        self._seed = seed
        self._publish_unmatched = publish_unmatched
        self._reporter = Reporter(report or self._log_warning)
        self._inform = inform or self._log_info
        self._make_domains: Callable[[], Domains] = lambda: Domains(
            node=node,
            node_name=node_name,
            namespace=namespace,
            domain_id=domain_id,
            ros_args=ros_args,
            parameter_overrides=_with_sim_time(parameter_overrides, use_sim_time),
            threaded=threaded,
            report=self._reporter.report,
        )
        self._domains = domains
        self._runtime: GuardedRuntime | None = None
        self._interfaces: Interfaces | None = None
        self._transforms: Transforms | None = None
        self._clock: RosClock | None = None
        self._loop: Loop | None = None
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
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Ends everything that `open` began. Idempotent, from any thread, also while callbacks run."""
        self._closed = True
        if self._loop is not None:
            self._loop.stop()
        with self._lock:
            if self._runtime is not None:
                self._runtime.stopped = True
        # Threads end before what they use goes away, and outside of the lock, which none of them needs to end.
        if self._domains is not None:
            self._domains.stop()
        with self._lock:
            interfaces, self._interfaces = self._interfaces, None
            transforms, self._transforms = self._transforms, None
            for part in (self._clock, interfaces, transforms, self._runtime, self._domains):
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

        Returns:
            Whether the backend gave a state.

        Raises:
            BridgeError: The bridge is not open, or `spin` runs in another thread.
        """
        runtime = self._runtime
        if runtime is None or self._clock is None or self._closed:
            raise BridgeError("the bridge is not open")
        if self._spinning:
            raise BridgeError("step() while spin() runs: one of the two drives the bridge")
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
        """Takes the backend back to the state at rest; the next `step` may be at any time."""
        runtime, _ = self._opened()
        with self._lock:
            runtime.reset()

    # --- Looking in --------------------------------------------------------------------------------------------

    @property
    def node(self) -> Any:
        """The rclpy node of the default domain."""
        self._opened()
        assert self._domains is not None
        return self._domains.main.node

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
            interfaces, transforms = self._interfaces, self._transforms
            assert interfaces is not None
            assert transforms is not None
            counters = runtime.status()
            rows = [*interfaces.status(), *transforms.status(counters.time_ns or 0)]
            return BridgeStatus(
                asset=self.plan.asset,
                backend=self._backend if isinstance(self._backend, str) else type(self._backend).__name__,
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
            )

    def summary(self) -> str:
        """Returns one line for a log: how much of what is live.

        Raises:
            BridgeError: The bridge is not open.
        """
        self._opened()
        assert self._interfaces is not None
        assert self._transforms is not None
        counts = self._interfaces.counts()
        words = [_counted(counts[kind], kind) for kind in ("topic", "service", "action")]
        frames = f"{_counted(self._transforms.moving, 'moving frame')} and {self._transforms.static} static"
        return f"{', '.join(words)}, {frames}: ready"

    # --- Own ---------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        backend = load_backend(self._backend) if isinstance(self._backend, str) else self._backend
        if self._domains is None:
            self._domains = self._make_domains()
        main = self._domains.main
        runtime = GuardedRuntime(
            self.plan,
            backend,
            options=RuntimeOptions(backend_options=self._backend_options, seed=self._seed),
            reporter=self._reporter,
            lock=self._lock,
            domains=self._domains,
        )
        self._runtime = runtime
        runtime.open()
        self._clock = RosClock(main.node)
        self._clock.open()
        self._loop = Loop(runtime, self._clock.source)
        plan = disable_conflicts(self.plan, self._conflicts(runtime))
        self._transforms = Transforms(
            plan, self._domains, runtime, rate=self._tf_rate, publish_unmatched=self._publish_unmatched
        )
        self._interfaces = Interfaces(
            plan, self._domains, runtime, inform=self._inform, publish_unmatched=self._publish_unmatched
        )
        main.start()
        self._transforms.open(self._clock.now_ns() or 0)
        self._interfaces.open()

    def _conflicts(self, runtime: Runtime) -> Iterable[tuple[str, int | None]]:
        """Yields the topics that the backend listens to, and those of the plan that remaps turn into the same."""
        assert self._domains is not None
        main = self._domains.main
        default_id, resolve = main.domain_id, main.node.resolve_topic_name
        heard = set()
        for each in runtime.inputs:
            domain_id = self.plan.robots[each.robot].domain_id
            name = input_topic(self.plan, each)
            heard.add((resolve(name), default_id if domain_id is None else domain_id))
            yield name, domain_id
        for topic in self.plan.topics:
            if not heard or not topic.enabled or topic.role != "publisher":
                continue
            if (resolve(topic.name), default_id if topic.domain_id is None else topic.domain_id) in heard:
                yield topic.name, topic.domain_id

    def _opened(self) -> tuple[GuardedRuntime, RosClock]:
        if self._runtime is None or self._clock is None or self._closed:
            raise BridgeError("the bridge is not open")
        return self._runtime, self._clock

    def _logger(self) -> Any:
        return None if self._domains is None or self._closed else self._domains.main.node.get_logger()

    def _log_warning(self, kind: str, message: str) -> None:
        logger = self._logger()
        if logger is None:
            log_warning(kind, message)
        else:
            logger.warning(message)

    def _log_info(self, kind: str, message: str) -> None:
        logger = self._logger()
        if logger is None:
            logging.getLogger(NODE_NAME).info("%s [%s]", message, kind)
        else:
            logger.info(message)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _with_sim_time(overrides: Sequence[Any], use_sim_time: bool | None) -> list[Any]:
    if use_sim_time is None:
        return list(overrides)
    from rclpy.parameter import Parameter

    make: Any = Parameter
    return [*overrides, make("use_sim_time", value=use_sim_time)]
