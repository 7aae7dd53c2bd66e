"""Compatibility with rclpy: differences between releases, destruction of entities, all uses of private members."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from rclpy.action import ActionClient, ActionServer
from rclpy.client import Client
from rclpy.duration import Duration, Infinite
from rclpy.exceptions import InvalidHandle, NameValidationException
from rclpy.executors import SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import QoSCompatibility, qos_check_compatible, qos_policy_name_from_kind
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer

from usd_ros_bridge.reporting import Report, describe

ROS_ERRORS: tuple[type[Exception], ...] = (
    rclpy_implementation.RCLError,
    rclpy_implementation.UnknownROSArgsError,
    NameValidationException,
)
"""Exceptions of rclpy for invalid arguments, node names and namespaces."""
_NOT_ASKED = (InvalidHandle, rclpy_implementation.RCLError)
"""Exceptions of rclpy where a host has destroyed its node, or ended its context: the graph cannot be asked."""

_EVENTS_EXECUTORS = (
    ("rclpy.experimental", "EventsExecutor"),
    ("rclpy.experimental.events_executor", "EventsExecutor"),
    ("rclpy.executors", "EventsExecutor"),
)

_REPLACED = ("add_to_wait_set", "is_ready", "take_data")
"""Methods of a waitable that an executor may call in another thread while the waitable is destroyed."""
_CALLERS_S = 1.0
"""How long to wait for such a call to end: it takes microseconds, unless a debugger holds the thread."""
_reading_frames = threading.RLock()
"""Held while frames of other threads are read. Otherwise the first of two readers would enable collections for both."""

_ACTION_SERVER_CALLBACKS = tuple(
    f"rcl_action_server_set_{part}_callback" for part in ("goal_service", "cancel_service", "result_service")
)
_ACTION_CLIENT_CALLBACKS = tuple(
    f"rcl_action_client_set_{part}_callback"
    for part in (
        "goal_client",
        "cancel_client",
        "result_client",
        "feedback_subscription",
        "status_subscription",
    )
)

_DROPPED_S = 0.09
_SEND_TRIES = 3


def make_executor(context: Any) -> Any:
    """Return an EventsExecutor for `context` where this rclpy has one, else a SingleThreadedExecutor.

    The former costs a tenth per callback and does not slow down with the number of entities.
    """
    # Its Python wrapper enables faulthandler for the whole process, which is the host's to decide.
    enabled = faulthandler.is_enabled()
    try:
        for module, name in _EVENTS_EXECUTORS:
            try:
                events_executor = getattr(import_module(module), name)
            except (ImportError, AttributeError):
                continue
            return events_executor(context=context)
        return SingleThreadedExecutor(context=context)
    finally:
        if faulthandler.is_enabled() and not enabled:
            faulthandler.disable()


def wake(executor: Any) -> None:
    """End an executor's `spin_once`, from any thread. EventsExecutor's own `wake` has no effect on one that waits."""
    executor.create_task(_nothing)


def _nothing(*_: Any) -> None:
    pass


def queues_events(executor: Any) -> bool:
    """Return whether an executor is an EventsExecutor: it queues events of entities instead of waiting for them.

    Its queue refers to entities without owning them. An event that is still queued when the executor drops its entity
    ends the process: the last reference to a wait set goes away outside of the GIL.
    """
    kind = getattr(rclpy_implementation, "EventsExecutor", None)
    return kind is not None and isinstance(executor, kind)


def is_executed(entity: Any) -> bool:
    """Return whether an executor may hold an rclpy entity. Publishers without event handlers are never executed."""
    return not isinstance(entity, Publisher) or bool(entity.event_handlers)


def stop_events(entity: Any) -> None:
    """Clear the middleware's callbacks of an rclpy entity: no event of it is queued from here on. From any thread.

    rclpy has no call for this. Where librcl cannot be called, the entity continues to queue events.
    """
    for handle, setters in _event_sources(entity):
        with suppress(InvalidHandle), handle:
            for setter in setters:
                function = _rcl_function(setter)
                if function is not None:
                    function(handle.pointer, None, None)


def destroy_entity(node: Any, entity: Any) -> None:
    """Take an entity out of its node's lists and destroy it. An entity that is gone already is ignored.

    Executors that wait (SingleThreadedExecutor, MultiThreadedExecutor) may be about to use it in another thread. rclpy
    catches that for most entities, but not for timers and waitables (QoS events, actions): those would end the
    executor with an exception.

    Args:
        node: The node that it was created on.
        entity: Publisher, subscription, service, client, timer, action server or action client.
    """
    waitables = _waitables(entity)
    for waitable in waitables:
        waitable.add_to_wait_set = _nothing
        waitable.is_ready = _nothing
        waitable.take_data = dict
    if not queues_events(node.executor):
        _wait_for_callers(waitables)
    destroyers: tuple[tuple[type, Callable[[Any], bool]], ...] = (
        (Publisher, node.destroy_publisher),
        (Subscription, node.destroy_subscription),
        (Service, node.destroy_service),
        (Client, node.destroy_client),
        (Timer, node.destroy_timer),
    )
    _leave_callback_group(entity)
    with suppress(InvalidHandle):
        if isinstance(entity, Timer):
            # The executor asks the handle of a timer without care: it goes with the last reference to it. To cancel it
            # would end Jazzy's executors, if they are about to call it.
            entity.callback = entity.destroy = _nothing
        for kind, destroy in destroyers:
            if isinstance(entity, kind) and destroy(entity):
                return
        # An action is in no list but that of waitables, and a direct subscription has only its event handlers there.
        for waitable in _waitables(entity):
            with suppress(ValueError):
                node.remove_waitable(waitable)
        # ValueError: actions take themselves out once more, last.
        with suppress(ValueError):
            entity.destroy()


class EntityRemoval:
    """Destroy entities of one node, each when its executor has released it.

    An EventsExecutor must have no queued event of an entity when it drops the entity. So the middleware stops queueing
    its events, a task is queued behind the queued ones, and this task destroys the entity in the executor's thread.
    Other executors hold entities only while they wait for them: those are destroyed at once.
    """

    def __init__(self, node: Any, report: Report) -> None:
        """Store the arguments.

        Args:
            node: The node that the entities were created on.
            report: For entities that cannot be destroyed.
        """
        self._node = node
        self._report = report
        # Re-entrant: a collection of garbage within may end up here again.
        self._lock = threading.RLock()
        self._stopped: list[Any] = []
        self._queued: list[Any] = []
        self._idle: weakref.ref[Any] | None = None
        self._followed = False
        self._held = False

    def probe(self) -> None:
        """Find out whether the node's executor ever runs: one that never ran holds no entity."""
        executor = self._node.executor
        if queues_events(executor):
            self._idle = weakref.ref(executor)
            executor.create_task(self._note_run)

    def destroy(self, entity: Any) -> None:
        """Destroy an entity, from any thread; at once where no executor can be about to use it.

        Args:
            entity: Publisher, subscription, service, client, timer, action server or action client of the node.
        """
        node = self._node
        if node is None:
            # It is destroyed with its node.
            return
        executor = node.executor
        if not (queues_events(executor) and is_executed(entity)):
            self._destroy(entity)
            return
        stop_events(entity)
        idle = self._idle
        if node not in executor.get_nodes() or (idle is not None and idle() is executor):
            # It was shut down, or never run: it holds nothing.
            self._destroy(entity)
            return
        with self._lock:
            self._stopped.append(entity)
            if not (self._queued or self._held):
                self._queue(executor)

    def hold(self) -> None:
        """Let entities wait for `finish` from here on: nobody runs the executor any more. Idempotent.

        An EventsExecutor never frees a task that it did not run, nor what that holds.
        """
        self._held = True

    def finish(self) -> None:
        """Destroy what waits, where the executor is shut down, and let go of the node. Idempotent."""
        with self._lock:
            entities = self._queued + self._stopped
            self._queued, self._stopped = [], []
        for entity in entities:
            self._destroy(entity)
        # A task may have been left in the executor's queue.
        self._node = None

    def leave(self) -> None:
        """Let a host's executor finish by itself; at the latest its context's shutdown does. Idempotent."""
        with self._lock:
            if not self._queued or self._followed:
                return
            self._followed = True
        self._node.context.on_shutdown(self.finish)

    def _queue(self, executor: Any) -> None:
        self._queued, self._stopped = self._stopped, []
        executor.create_task(self._run)

    def _run(self) -> None:
        """Destroy what was queued; behind all events of it that were queued before. In the executor's thread."""
        with self._lock:
            entities, self._queued = self._queued, []
        for entity in entities:
            self._destroy(entity)
        with self._lock:
            if self._stopped and not (self._queued or self._held):
                self._queue(self._node.executor)

    def _note_run(self) -> None:
        self._idle = None

    def _destroy(self, entity: Any) -> None:
        try:
            destroy_entity(self._node, entity)
        except Exception as error:  # noqa: BLE001 - the others are to be destroyed all the same
            self._report("ros.destroy", f"an entity could not be destroyed: {describe(error)}")


def _wait_for_callers(waitables: Sequence[Any]) -> None:
    """Wait until no other thread is within a method of the kind that `destroy_entity` has just replaced.

    An executor that waits may be about to use the handle there, which raises once its destruction is requested. None of
    these methods waits.
    """
    codes = {
        method.__code__
        for each in waitables
        for name in _REPLACED
        if (method := getattr(type(each), name, None))
    }
    deadline = time.monotonic() + _CALLERS_S
    while codes and _has_caller(codes) and time.monotonic() < deadline:
        time.sleep(1e-4)


def _has_caller(codes: set[Any]) -> bool:
    # A collection within `f_back` may release the GIL. If the other thread then leaves the frame, `f_back` is garbage
    # (CPython 3.11), and the process ends. The same holds for what `f_locals` replaces: it is not read.
    with _reading_frames:
        collects = gc.isenabled()
        gc.disable()
        try:
            frames = sys._current_frames()
            # This frame would refer to itself, and be freed by a garbage collection only.
            del frames[threading.get_ident()]
            for top in frames.values():
                frame: Any = top
                while frame is not None:
                    if frame.f_code in codes:
                        return True
                    frame = frame.f_back
            return False
        finally:
            if collects:
                gc.enable()


def _leave_callback_group(entity: Any) -> None:
    """Let callback groups forget an entity and its waitables when they are gone: rclpy's never forget any.

    Not at once: an executor that is about to run one insists on finding it there.
    """
    for each in (entity, *_waitables(entity)):
        group = getattr(each, "callback_group", None)
        if group is not None:
            reference = weakref.ref(each)
            hash(reference)  # Kept by the reference; that of an entity that is gone cannot be made any more.
            weakref.finalize(each, group.entities.discard, reference).atexit = False


def _event_sources(entity: Any) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the handles of an entity that queue events, each with the librcl functions that set their callbacks."""
    if isinstance(entity, ActionServer):
        yield entity._handle, _ACTION_SERVER_CALLBACKS
    elif isinstance(entity, ActionClient):
        yield entity._client_handle, _ACTION_CLIENT_CALLBACKS
    elif isinstance(entity, Subscription):
        yield entity.handle, ("rcl_subscription_set_on_new_message_callback",)
    elif isinstance(entity, Service):
        yield entity.handle, ("rcl_service_set_on_new_request_callback",)
    elif isinstance(entity, Client):
        yield entity.handle, ("rcl_client_set_on_new_response_callback",)
    for handler in getattr(entity, "event_handlers", ()):
        handle = getattr(handler, "_EventHandler__event", None)
        if handle is not None:
            yield handle, ("rcl_event_set_callback",)


def _waitables(entity: Any) -> tuple[Any, ...]:
    if isinstance(entity, ActionServer | ActionClient):
        return (entity,)
    return tuple(getattr(entity, "event_handlers", ()))


@cache
def _rcl_function(name: str) -> Any:
    """Return a function of librcl that sets the callback of an entity, None where there is none."""
    library = "librcl_action.so" if name.startswith("rcl_action") else "librcl.so"
    try:
        # rclpy has loaded it already.
        function = getattr(ctypes.CDLL(library), name)
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    function.restype = ctypes.c_int
    return function


def parameter_overrides(node: Any) -> Mapping[str, Any]:
    """Return the values that a node was given for its parameters at the start, declared or not."""
    return getattr(node, "_parameter_overrides", {})


def take_integer_as_double(node: Any, name: str) -> None:
    """Let an integer that a node was given for a parameter at the start count as a number with a fraction.

    `-p rate:=3` is an integer for ROS 2, and rclpy takes none for a parameter whose default has a fraction.
    """
    given = parameter_overrides(node).get(name)
    if given is not None and given.type_ == Parameter.Type.INTEGER:
        node._parameter_overrides[name] = Parameter(name, Parameter.Type.DOUBLE, float(given.value))


def policy_name(kind: Any) -> str:
    """Return the name of a QoS policy as an event gives it, in lower case ("reliability")."""
    return str(qos_policy_name_from_kind(kind)).lower()


def type_name(message_class: Any) -> str:
    """Return the name of a message class's type ("std_msgs/msg/String")."""
    return f"{message_class.__module__.split('.')[0]}/msg/{message_class.__name__}"


def publisher_count(node: Any, subscription: Any) -> int:
    """Return how many publishers are matched with an rclpy subscription of `node`.

    Fast DDS loses a change where two of its threads match at once (mended by eProsima/Fast-DDS pull request 6371,
    after 3.2.3): rmw_fastrtps then counts a publisher that has gone, or none where there is one, until the entity ends.
    Where the graph knows another number of publishers, those of the type whose QoS fits count.
    """
    counted = int(subscription.get_publisher_count())
    with suppress(*_NOT_ASKED):
        topic = subscription.topic_name
        if counted != node.count_publishers(topic):
            found = node.get_publishers_info_by_topic(topic)
            return sum(_fits(subscription, each, offers=True) for each in found)
    return counted


def subscription_count(node: Any, publisher: Any, counted: int) -> int:
    """Return how many subscriptions are matched with an rclpy publisher of `node`; see `publisher_count`.

    Args:
        node: The publisher's node.
        publisher: The publisher.
        counted: What its handle counts, which others may have destroyed.
    """
    with suppress(*_NOT_ASKED):
        topic = publisher.topic_name
        if counted != node.count_subscribers(topic):
            found = node.get_subscriptions_info_by_topic(topic)
            return sum(_fits(publisher, each, offers=False) for each in found)
    return counted


def _fits(entity: Any, found: Any, *, offers: bool) -> bool:
    """Return whether an entity is compatible with an endpoint of the graph; `offers`: the endpoint is a publisher."""
    if found.topic_type != type_name(entity.msg_type):
        return False
    # The graph's own copy. It says Infinite where a profile says nothing, and the check takes the two for different.
    profile = found.qos_profile
    for policy in ("deadline", "liveliness_lease_duration"):
        if getattr(profile, policy) == Infinite:
            setattr(profile, policy, Duration())
    pair = (profile, entity.qos_profile) if offers else (entity.qos_profile, profile)
    return bool(qos_check_compatible(*pair)[0] != QoSCompatibility.ERROR)


def defer_responses(service: Any, answer: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Defer the answers of a service, whatever executor runs its callback.

    rclpy awaits coroutine callbacks in some executors and refuses them in others (Jazzy's EventsExecutor). All of them
    pass the callback's result and the request's header to the service's `send_response`.

    Args:
        service: An rclpy service.
        answer: Called instead, with the callback's result and the header.

    Returns:
        `send(response, header)`, for any thread. rmw_fastrtps waits 0.1 s for a client whose reader it has not
        discovered yet, and then drops the response with a warning; a client that sends its request the moment it sees
        the server would wait for ever. A response that took that long is sent again; clients ignore a second one.
    """
    send_once: Callable[[Any, Any], None] = service.send_response
    service.send_response = answer

    def send(response: Any, header: Any) -> None:
        for _ in range(_SEND_TRIES):
            began = time.monotonic()
            # Where the service is being closed, nobody waits for an answer.
            with suppress(InvalidHandle):
                send_once(response, header)
            if time.monotonic() - began < _DROPPED_S:
                return
            time.sleep(_DROPPED_S)

    return send
