"""Domains: one rclpy Context, node and executor thread for each DDS domain that a plan uses."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.ros.compat import ROS_ERRORS, make_executor, wake
from usd_ros_bridge.runtime.report import describe

MAX_DOMAINS = 16
MAX_DOMAIN_ID = 232
_SPIN_S = 0.1
_JOIN_S = 2.0
_POLL_ROUNDS = 100

Report = Callable[[str, str], None]


class DomainLimitError(Exception):
    """The plan uses more domains than one process serves."""


class Domain:
    """A node in one domain, and what runs its callbacks.

    Attributes:
        node: The node.
        owned: Whether the node, its context and its executor are the bridge's own.
    """

    def __init__(self, node: Any, *, owned: bool, report: Report, threaded: bool = True) -> None:
        """Stores a node that exists; `start` begins to run callbacks.

        Args:
            node: The node.
            owned: False for a host's node: its executor is the host's, and neither is ever ended here.
            report: For callbacks that raise.
            threaded: Run callbacks of an owned node in a background thread; else in `poll`.
        """
        self.node = node
        self.owned = owned
        self._report = report
        self._threaded = threaded and owned
        self._jobs: deque[Callable[[], None]] = deque()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._executor: Any = None
        self._poller: int | None = None

    @property
    def domain_id(self) -> int:
        """The DDS domain."""
        return int(self.node.context.get_domain_id())

    @property
    def threaded(self) -> bool:
        """Whether a thread of the bridge's own runs the callbacks."""
        return self._threaded

    @property
    def current(self) -> bool:
        """Whether it is the calling thread that runs the callbacks, as far as is known of a host's executor."""
        thread = self._thread
        return threading.get_ident() == (self._poller if thread is None else thread.ident)

    @property
    def ok(self) -> bool:
        """Whether the context still stands."""
        return bool(self.node.context.ok())

    def start(self) -> None:
        """Begins to run callbacks; nothing to do for a host's node."""
        if not self.owned or self._executor is not None:
            return
        self._executor = make_executor(self.node.context)
        self._executor.add_node(self.node)
        if self._threaded:
            name = f"usd_ros_bridge-domain-{self.domain_id}"
            self._thread = threading.Thread(target=self._spin, name=name, daemon=True)
            self._thread.start()

    def defer(self, job: Callable[[], None], *, urgent: bool = True) -> None:
        """Runs `job` soon, outside of any callback: there, entities may be made and destroyed.

        In the executor's thread where that is the bridge's own, else in the next `poll`.

        Args:
            job: What to run.
            urgent: False lets it wait for the executor's next turn, a tenth of a second at most.
        """
        self._jobs.append(job)
        executor = self._executor
        if urgent and executor is not None:
            wake(executor)

    @property
    def deferred(self) -> bool:
        """Whether jobs wait for the next `poll`."""
        return bool(self._jobs) and self._thread is None

    def poll(self, *, callbacks: bool = True) -> None:
        """Runs what waits and returns: deferred jobs and, where no thread does it, callbacks of an owned node."""
        if self._thread is not None:
            return
        if callbacks and self._executor is not None:
            self._poller = threading.get_ident()
            for _ in range(_POLL_ROUNDS):
                if not self.ok:
                    return
                self._executor.spin_once(timeout_sec=0.0)
        self._run_jobs()

    def stop(self) -> None:
        """Ends the thread: from here on no callback of the bridge's own nodes runs. Idempotent."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            wake(self._executor)
            thread.join(_JOIN_S)
        self._jobs.clear()

    def close(self) -> None:
        """Ends what is the bridge's own: thread, executor, node and context. Idempotent."""
        self.stop()
        if not self.owned:
            return
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.remove_node(self.node)
            executor.shutdown()
        # InvalidHandle: the context went down first and took the node along.
        with contextlib.suppress(InvalidHandle):
            self.node.destroy_node()
        self.node.context.try_shutdown()

    def _spin(self) -> None:
        while not self._stop.is_set() and self.ok:
            try:
                # A time-out on purpose: EventsExecutor.spin() without one runs no callback and burns a core.
                self._executor.spin_once(timeout_sec=_SPIN_S)
            except ExternalShutdownException:
                return
            except Exception as error:  # noqa: BLE001 - one callback must not end all others
                if self._stop.is_set() or not self.ok:
                    return
                self._report(
                    "ros.executor", f"a callback raised in domain {self.domain_id}: {describe(error)}"
                )
            self._run_jobs()

    def _run_jobs(self) -> None:
        for _ in range(len(self._jobs)):
            try:
                job = self._jobs.popleft()
            except IndexError:
                return
            try:
                job()
            except Exception as error:  # noqa: BLE001 - the thread serves all interfaces of the domain
                self._report("ros.job", f"an interface could not be changed: {describe(error)}")


class Domains:
    """All domains of a bridge. The main one holds the bridge's parameters and its clock.

    rclpy's default context, the process's signal handlers and its environment are left as they are: every context
    here is the bridge's own, made with SignalHandlerOptions.NO.
    """

    def __init__(
        self,
        *,
        node: Any = None,
        node_name: str = "usd_ros_bridge",
        namespace: str | None = None,
        domain_id: int | None = None,
        ros_args: Sequence[str] = (),
        parameter_overrides: Sequence[Any] = (),
        threaded: bool = True,
        report: Report,
    ) -> None:
        """Stores what nodes are made of.

        Args:
            node: A host's node: it serves its own domain, which then is the default one.
            node_name: Name of the main node; those of other domains get `_domain_<id>` behind it.
            namespace: Namespace of the bridge's own nodes.
            domain_id: The default domain; None for the process's (ROS_DOMAIN_ID).
            ros_args: Arguments for the bridge's own contexts (`--ros-args ...`).
            parameter_overrides: rclpy Parameters of the main node.
            threaded: Run callbacks of the bridge's own nodes in background threads.
            report: For callbacks that raise.
        """
        self._host_node = node
        self._node_name = node_name
        self._namespace = namespace
        self._default_id = domain_id
        self._ros_args = list(ros_args)
        self._parameter_overrides = list(parameter_overrides)
        self._threaded = threaded
        self._report = report
        self._main: Domain | None = None
        self._domains: dict[int, Domain] = {}
        self._polled: tuple[Domain, ...] = ()

    @property
    def main(self) -> Domain:
        """The default domain, opened at first use."""
        if self._main is None:
            if self._host_node is not None:
                self._main = Domain(self._host_node, owned=False, report=self._report)
            else:
                self._main = self._make(self._node_name, self._default_id, self._ros_args, main=True)
            self._add(self._main)
        return self._main

    def get(self, domain_id: int | None) -> Domain:
        """Returns the domain with that id, None for the default one, opened and started at first use.

        Raises:
            DomainLimitError: It would be one too many.
            BridgeError: ROS 2 refuses the arguments, a name or the domain.
        """
        main = self.main
        domain = main if domain_id is None else self._domains.get(domain_id)
        if domain is None:
            if len(self._domains) >= MAX_DOMAINS:
                raise DomainLimitError(
                    f"domain {domain_id} would be one more than the {MAX_DOMAINS} of a process"
                )
            name = f"{main.node.get_name()}_domain_{domain_id}"
            domain = self._make(name, domain_id, _without_node_name(self._ros_args), main=False)
            self._add(domain)
        domain.start()
        return domain

    @property
    def threaded(self) -> bool:
        """Whether threads of the bridge's own are wanted."""
        return self._threaded

    @property
    def opened(self) -> tuple[Domain, ...]:
        """All domains that are open."""
        return tuple(self._domains.values())

    def unused(self, wanted: Collection[int | None]) -> tuple[Domain, ...]:
        """Returns the domains that are open but for the main one and those that are wanted, by their ids."""
        main = self.main
        return tuple(
            domain for key, domain in self._domains.items() if domain is not main and key not in wanted
        )

    def release(self, domains: Iterable[Domain]) -> None:
        """Closes domains that nothing lives in any more; from no thread of theirs."""
        for domain in domains:
            self._domains.pop(domain.domain_id, None)
            self._polled = tuple(each for each in self._polled if each is not domain)
            domain.close()

    @property
    def deferred(self) -> bool:
        """Whether jobs wait for the next `poll` in any domain."""
        for domain in self._polled:  # noqa: SIM110 - asked at every step: a generator costs more
            if domain.deferred:
                return True
        return False

    def poll(self, *, callbacks: bool = True) -> None:
        """Runs what waits in domains that have no thread of their own."""
        for domain in self._polled:
            domain.poll(callbacks=callbacks)

    def stop(self) -> None:
        """Ends all threads of the bridge's own. Idempotent."""
        for domain in tuple(self._domains.values()):
            domain.stop()

    def close(self) -> None:
        """Closes all of them, the main one last. Idempotent; what is closed is not opened again."""
        domains = [domain for domain in self._domains.values() if domain is not self._main]
        for domain in (*domains, *([self._main] if self._main else ())):
            domain.close()
        self._domains.clear()

    def _add(self, domain: Domain) -> None:
        self._domains[domain.domain_id] = domain
        if not domain.threaded:
            self._polled = (*self._polled, domain)

    def _make(self, name: str, domain_id: int | None, ros_args: Sequence[str], *, main: bool) -> Domain:
        context = Context()
        try:
            rclpy.init(
                args=list(ros_args),
                context=context,
                domain_id=domain_id,
                signal_handler_options=SignalHandlerOptions.NO,
            )
            if context.get_domain_id() > MAX_DOMAIN_ID:
                # Fast DDS would end the process.
                raise BridgeError(
                    f"domain id {context.get_domain_id()} is not possible: 0 to {MAX_DOMAIN_ID}"
                )
            node = Node(
                name,
                context=context,
                namespace=self._namespace,
                parameter_overrides=self._parameter_overrides if main else None,
                start_parameter_services=main,
            )
        except BridgeError:
            context.try_shutdown()
            raise
        except ROS_ERRORS as error:
            context.try_shutdown()
            raise BridgeError(f"ROS 2 refuses to start: {describe(error)}") from error
        return Domain(node, owned=True, report=self._report, threaded=self._threaded)


def _without_node_name(ros_args: Sequence[str]) -> list[str]:
    """Drops remaps of the node's name: two nodes of one process must not share one (nor a rosout publisher)."""
    kept: list[str] = []
    for argument in ros_args:
        left = argument.partition(":=")[0].rpartition(":")[2]
        if ":=" in argument and left in {"__node", "__name"} and kept and kept[-1] in {"-r", "--remap"}:
            kept.pop()
            continue
        kept.append(argument)
    return kept
