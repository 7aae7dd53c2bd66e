"""Domains: one rclpy Context, node and executor thread for each DDS domain that a plan uses."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.plan import BridgePlan, InterfacePlan, ServicePlan, TopicPlan
from usd_ros_bridge.ranges import MAX_DOMAIN_ID
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.compat import (
    ROS_ERRORS,
    EntityRemoval,
    make_executor,
    wake,
)
from usd_ros_bridge.ros.message_tap import MessageTap
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.transport import has_discovery_thread, wait_until_sent

MAX_DOMAINS = 16
_SPIN_S = 0.1
_JOIN_S = 2.0
_POLL_ROUNDS = 100


class DomainLimitError(Exception):
    """The plan uses more domains than one process serves."""


class Domain:
    """A node in one domain, and the thread that runs its callbacks.

    Attributes:
        node: The node.
        owned: Whether the node, its context and its executor are the bridge's own.
        tap: Gets a copy of each message that is published here; None: nothing does.
    """

    def __init__(self, node: Any, *, owned: bool, report: Report, threaded: bool = True) -> None:
        """Store the arguments.

        Args:
            node: The node.
            owned: False for a host's node: its executor is the host's, and neither is ever ended here.
            report: For callbacks that raise.
            threaded: Run callbacks of an owned node in a background thread; else in `poll`.
        """
        self.node = node
        self.owned = owned
        self.tap: MessageTap | None = None
        self._report = report
        self._threaded = threaded and owned
        self._jobs: deque[Callable[[], None]] = deque()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._executor: Any = None
        self._poller: int | None = None
        # Held by the thread that polls, and by the one that closes. Re-entrant: a callback may close the bridge.
        self._polling = threading.RLock()
        self._removal = EntityRemoval(node, report)
        self._probed = False

    @property
    def domain_id(self) -> int:
        """The DDS domain."""
        return int(self.node.context.get_domain_id())

    @property
    def threaded(self) -> bool:
        """Return whether a thread of the bridge runs the callbacks."""
        return self._threaded

    @property
    def current(self) -> bool:
        """Return whether the calling thread runs the callbacks, as far as it is known of a host's executor."""
        thread = self._thread
        return threading.get_ident() == (self._poller if thread is None else thread.ident)

    @property
    def ok(self) -> bool:
        """Return whether the context is valid."""
        return bool(self.node.context.ok())

    def start(self) -> None:
        """Begin to run callbacks; nothing to do for a host's node."""
        if not self.owned:
            if not self._probed:
                self._probed = True
                self._removal.probe()
            return
        if self._executor is not None:
            return
        self._executor = make_executor(self.node.context)
        self._executor.add_node(self.node)
        if self._threaded:
            name = f"usd_ros_bridge-domain-{self.domain_id}"
            self._thread = threading.Thread(target=self._spin, name=name, daemon=True)
            self._thread.start()

    def open_publisher(
        self, message_class: Any, topic: str, profile: Any, *, event_callbacks: Any = None
    ) -> PublisherHandle:
        """Create a publisher, through the node so that remap rules apply. Return what sends its messages.

        Args:
            message_class: Class of the messages.
            topic: Name before remaps.
            profile: rclpy QoSProfile.
            event_callbacks: rclpy PublisherEventCallbacks; None: rclpy's own.
        """
        publisher = self.node.create_publisher(message_class, topic, profile, event_callbacks=event_callbacks)
        channel = None
        if self.tap is not None:
            channel = self.tap.open_channel(
                topic=publisher.topic_name,
                message_class=message_class,
                profile=profile,
                domain_id=self.domain_id,
            )
        return PublisherHandle(self.node, publisher, channel=channel)

    def resolve(self, topic: str) -> str:
        """Return the name of a topic after remaps."""
        return str(self.node.resolve_topic_name(topic))

    def resolve_interface(self, interface: InterfacePlan) -> str:
        """Return the name of a topic or service after remaps. Remap rules do not apply to actions."""
        if isinstance(interface, TopicPlan):
            return self.resolve(interface.name)
        if isinstance(interface, ServicePlan):
            return str(self.node.resolve_service_name(interface.name))
        return interface.name

    def defer(self, job: Callable[[], None], *, urgent: bool = True) -> None:
        """Run `job` soon, outside of any callback, where entities may be created and destroyed.

        It runs in the executor's thread if that is the bridge's own, else in the next `poll`.

        Args:
            job: The job.
            urgent: False if it may wait for the executor's next turn, a tenth of a second at most.
        """
        self._jobs.append(job)
        executor = self._executor
        if urgent and executor is not None:
            wake(executor)

    def destroy(self, entity: Any) -> None:
        """Destroy an entity of the node once its executor has let go of it. From any thread, at any time.

        This is the one way in which entities of the bridge are destroyed: rclpy's `destroy_...` ends the process where
        an EventsExecutor has queued events of the entity, and ends the executor where it waits in another thread.

        Args:
            entity: Publisher, subscription, service, client, timer, action server or action client.
        """
        self._removal.destroy(entity)

    @property
    def deferred(self) -> bool:
        """Return whether jobs wait for the next `poll`."""
        return bool(self._jobs) and self._thread is None

    def poll(self, *, callbacks: bool = True) -> None:
        """Run waiting jobs and, without a thread, callbacks of an owned node. Return at once."""
        if self._thread is not None or not self._polling.acquire(blocking=False):
            # A thread does it, or another poll is under way.
            return
        try:
            if callbacks and self._executor is not None:
                self._poller = threading.get_ident()
                for _ in range(_POLL_ROUNDS):
                    executor = self._executor
                    if executor is None or not self.ok:
                        return
                    executor.spin_once(timeout_sec=0.0)
            self._run_jobs()
        finally:
            self._polling.release()

    def stop(self) -> None:
        """End the thread: from here on no callback of the bridge's own nodes runs. Idempotent."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            wake(self._executor)
            thread.join(_JOIN_S)
        if self.owned:
            self._removal.hold()
        self._jobs.clear()

    def close(self) -> None:
        """Destroy the bridge's own thread, executor, node and context. Idempotent."""
        self.stop()
        if not self.owned:
            self._removal.leave()
            return
        executor, self._executor = self._executor, None
        polling = self._polling.acquire(timeout=_JOIN_S)
        try:
            if executor is not None:
                executor.remove_node(self.node)
                # It lets go of all entities here, unless a callback goes on for longer than that.
                executor.shutdown(_JOIN_S)
            self._removal.finish()
        finally:
            if polling:
                self._polling.release()
        # InvalidHandle: the context went down first and took the node along.
        with contextlib.suppress(InvalidHandle):
            _destroy_node(self.node)
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


def _destroy_node(node: Node) -> None:
    """Destroy the only node of a context. Its peers are notified of the end of all its endpoints.

    The last node of a context ends its participant, and what Fast DDS's discovery thread has not sent yet is lost. A
    second, empty node keeps the participant until all is sent.
    """
    if not (has_discovery_thread() and node.context.ok()):
        node.destroy_node()
        return
    keeper = None
    # The context may go down at any moment: then nothing is sent any more.
    with contextlib.suppress(*ROS_ERRORS):
        keeper = Node(
            "_usd_ros_bridge_closing",
            context=node.context,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
            parameter_overrides=[Parameter("start_type_description_service", value=False)],
        )
    node.destroy_node()
    if keeper is not None:
        wait_until_sent()
        keeper.destroy_node()


class Domains:
    """All domains of a bridge. The main one holds the bridge's parameters and its clock.

    rclpy's default context, the process's signal handlers and its environment are left as they are: every context
    here is the bridge's own, made with SignalHandlerOptions.NO.

    Attributes:
        polled: Domains without a thread of their own.
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
        """Store the arguments.

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
        self._tap: MessageTap | None = None
        self._main: Domain | None = None
        self._domains: dict[int, Domain] = {}
        self.polled: tuple[Domain, ...] = ()

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
        """Return the domain with that id, None for the default one, opened and started at first use.

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
        """Return whether the bridge runs threads of its own."""
        return self._threaded

    @property
    def opened(self) -> tuple[Domain, ...]:
        """All domains that are open."""
        return tuple(self._domains.values())

    def unused(self, plan: BridgePlan) -> tuple[Domain, ...]:
        """Return the open domains, except the main one, that a plan does not use."""
        interfaces = (*plan.topics, *plan.services, *plan.actions)
        wanted = {each.domain_id for each in interfaces if each.enabled}
        wanted |= {robot.domain_id for robot in plan.robots}
        main = self.main
        return tuple(
            domain for key, domain in self._domains.items() if domain is not main and key not in wanted
        )

    def close_unused(self, plan: BridgePlan) -> None:
        """Close the domains that a plan does not use; not from a callback."""
        for domain in self.unused(plan):
            self._domains.pop(domain.domain_id, None)
            self.polled = tuple(each for each in self.polled if each is not domain)
            domain.close()

    @property
    def deferred(self) -> bool:
        """Return whether jobs wait for the next `poll` in any domain."""
        for domain in self.polled:  # noqa: SIM110 - asked at every step: a generator costs more
            if domain.deferred:
                return True
        return False

    def poll(self, *, callbacks: bool = True) -> None:
        """Run waiting jobs and callbacks in domains without a thread."""
        for domain in self.polled:
            domain.poll(callbacks=callbacks)

    def stop(self) -> None:
        """End all threads of the bridge's own. Idempotent."""
        for domain in tuple(self._domains.values()):
            domain.stop()

    def close(self) -> None:
        """Close all domains, the main one last. Idempotent; none opens again."""
        domains = [domain for domain in self._domains.values() if domain is not self._main]
        for domain in (*domains, *([self._main] if self._main else ())):
            domain.close()
        self._domains.clear()

    @property
    def tap(self) -> MessageTap | None:
        """What gets a copy of each message, None if nothing does."""
        return self._tap

    def set_tap(self, tap: MessageTap | None) -> None:
        """Give a copy of each message to `tap`, of publishers that are opened from now on, in all domains."""
        self._tap = tap
        for domain in self._domains.values():
            domain.tap = tap

    def _add(self, domain: Domain) -> None:
        domain.tap = self._tap
        self._domains[domain.domain_id] = domain
        if not domain.threaded:
            self.polled = (*self.polled, domain)

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
            text = describe(error)
            remedy = "; ROS_LOG_DIR names another directory" if "create log directory" in text else ""
            raise BridgeError(f"ROS 2 refuses to start: {text}{remedy}") from error
        return Domain(node, owned=True, report=self._report, threaded=self._threaded)


def _without_node_name(ros_args: Sequence[str]) -> list[str]:
    """Drop remaps of the node's name: two nodes of one process must not share one (nor a rosout publisher)."""
    kept: list[str] = []
    for argument in ros_args:
        left = argument.partition(":=")[0].rpartition(":")[2]
        if ":=" in argument and left in {"__node", "__name"} and kept and kept[-1] in {"-r", "--remap"}:
            kept.pop()
            continue
        kept.append(argument)
    return kept
