"""Handlers: functions and coroutines that serve interfaces, of hosts and installed packages, off the tick."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar, overload

from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message

from usd_ros_bridge.errors import BridgeError, OptionError, alternatives, quoted
from usd_ros_bridge.model.plan import BridgePlan, InterfaceKind, InterfacePlan
from usd_ros_bridge.plugins import Registry
from usd_ros_bridge.ranges import TIMEOUT
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.inbox import DEFAULT_DEPTH
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.runtime.tick_access import JointCommandWriter, StateBuffer, TickState

EMBEDDER = "embedder"
DEFAULT_TIMEOUT_S = 10.0


ServiceHandler = Callable[[Any, Any], object]
"""`handler(request, response)` returns the response, or None where it filled in the one it got; or is `async`."""
ActionHandler = Callable[[Any], object]
"""`handler(goal)` returns the result message, or is `async`; `goal` is a `Goal`."""
AcceptGoal = Callable[[Any], object]
"""`accept(request)` returns True, or False or a reason (text) to reject a goal. Quick: it runs in a callback of ROS."""
MessageHandler = Callable[[Any], object]
"""`handler(message)`; what it returns is not used; or is `async`."""
SourceFunction = Callable[[int], object]
"""`function(time_ns)` returns a message, or None for nothing this time; or is `async`."""

HandlerT = TypeVar("HandlerT", bound=Callable[..., object])
RoleKey = tuple[InterfaceKind, str]

_SERVICE: RoleKey = ("service", "server")
_ACTION: RoleKey = ("action", "server")
_MESSAGE: RoleKey = ("topic", "subscription")
_SOURCE: RoleKey = ("topic", "publisher")


@dataclass(frozen=True, kw_only=True)
class Bound(Generic[HandlerT]):
    """A handler that is bound to an interface.

    Attributes:
        handler: What to run.
        owner: "embedder", or the name of the package that brought it.
        timeout: Seconds until a request or goal fails, None for no limit.
        accept: Whether to accept a goal, for actions.
        concurrent: How many goals run at the same time, for actions.
    """

    handler: HandlerT
    owner: str = EMBEDDER
    timeout: float | None = None
    accept: AcceptGoal | None = None
    concurrent: int = 1


class BridgeClock:
    """The time of a bridge. Thread-safe."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        """Store how to find the time."""
        self._now_ns = now_ns

    @property
    def now_ns(self) -> int:
        """Bridge time, nanoseconds: that of messages that are published now."""
        return self._now_ns()

    def to_msg(self) -> Time:
        """Return bridge time as a builtin_interfaces message, for a header."""
        seconds, nanoseconds = divmod(self._now_ns(), 1_000_000_000)
        return Time(sec=seconds, nanosec=nanoseconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerAccess:
    """What handlers see of an open bridge.

    Attributes:
        state: State of the last tick.
        commands: Commands of joints for the next tick.
        clock: Bridge time.
        post: Runs a job in the tick thread.
    """

    state: StateBuffer
    commands: JointCommandWriter
    clock: BridgeClock
    post: Callable[[Callable[[], None]], None]


class Binding:
    """A handler that is bound. `remove` unbinds it, as does the end of a `with` block."""

    def __init__(self, remove: Callable[[], None]) -> None:
        """Store how to remove it."""
        self._remove = remove

    def remove(self) -> None:
        """Unbind the handler, unless another has replaced it. Idempotent; running handlers continue."""
        self._remove()

    def __enter__(self) -> Binding:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class HandlerRegistry:
    """Bind handlers to the interfaces of a plan.

    A target is a prim path or an absolute name of the plan. For installed packages, which meet assets that they do not
    know, it may also be an interface type (`std_srvs/srv/SetBool`) or the end of a name (`set_led`), and binds
    whatever there is, also nothing.

    Each of these methods returns a `Binding`, or without a handler a decorator, which leaves the function as it is.

    Handlers that run see the bridge by `plan`, `state`, `commands`, `clock` and `post`.
    """

    def __init__(self, handlers: Handlers, owner: str = EMBEDDER) -> None:
        """Store whose handlers these are."""
        self._handlers = handlers
        self._owner = owner

    @property
    def plan(self) -> BridgePlan:
        """Return the plan."""
        return self._handlers.plan

    @property
    def state(self) -> TickState:
        """State of the last tick, from any thread: a copy, whose numbers are all of the same moment.

        Raises:
            BridgeError: The bridge is not open.
        """
        return self._handlers.access.state.read()

    @property
    def commands(self) -> JointCommandWriter:
        """Commands of joints by name, for the next tick, from any thread.

        Raises:
            BridgeError: The bridge is not open.
        """
        return self._handlers.access.commands

    @property
    def clock(self) -> BridgeClock:
        """Bridge time, from any thread.

        Raises:
            BridgeError: The bridge is not open.
        """
        return self._handlers.access.clock

    def post(self, job: Callable[[], None]) -> None:
        """Run a job once in the tick thread, at the start of the next tick. Thread-safe.

        Raises:
            BridgeError: The bridge is not open.
        """
        self._handlers.access.post(job)

    @overload
    def on_service(self, target: str, handler: ServiceHandler, *, timeout: float | None = ...) -> Binding: ...
    @overload
    def on_service(self, target: str, *, timeout: float | None = ...) -> Callable[[HandlerT], HandlerT]: ...

    def on_service(
        self, target: str, handler: Any = None, *, timeout: float | None = DEFAULT_TIMEOUT_S
    ) -> Any:
        """Serve a service: `handler(request, response)`, off the tick.

        Args:
            target: Which server.
            handler: Returns the response, or None where it filled in the one it got.
            timeout: Seconds until a request is answered with a refusal, None for no limit.

        Raises:
            BridgeError: The plan has no such server.
        """
        return self._bind(_SERVICE, target, handler, timeout=timeout)

    @overload
    def on_action(
        self,
        target: str,
        handler: ActionHandler,
        *,
        accept: AcceptGoal | None = ...,
        timeout: float | None = ...,
        concurrent: int = ...,
    ) -> Binding: ...
    @overload
    def on_action(
        self,
        target: str,
        *,
        accept: AcceptGoal | None = ...,
        timeout: float | None = ...,
        concurrent: int = ...,
    ) -> Callable[[HandlerT], HandlerT]: ...

    def on_action(
        self,
        target: str,
        handler: Any = None,
        *,
        accept: AcceptGoal | None = None,
        timeout: float | None = None,
        concurrent: int = 1,
    ) -> Any:
        """Serve an action: `handler(goal)`, off the tick.

        Args:
            target: Which server.
            handler: Returns the result of a `Goal`.
            accept: Called with the request; anything but True rejects the goal, a text being the reason.
            timeout: Seconds until a goal is aborted, None for no limit.
            concurrent: How many goals run at the same time; more are rejected.

        Raises:
            BridgeError: The plan has no such server.
        """
        if concurrent < 1:
            raise OptionError(f"concurrent {concurrent!r} is not possible: at least 1")
        return self._bind(_ACTION, target, handler, timeout=timeout, accept=accept, concurrent=concurrent)

    @overload
    def on_message(self, target: str, handler: MessageHandler) -> Binding: ...
    @overload
    def on_message(self, target: str) -> Callable[[HandlerT], HandlerT]: ...

    def on_message(self, target: str, handler: Any = None) -> Any:
        """Bind a handler to the messages of a subscription, in order and off the tick, instead of the built-in sink.

        Args:
            target: Which subscription.
            handler: Called with each message. Where it is slower than they come, the newest are kept.

        Raises:
            BridgeError: The plan has no such subscription.
        """
        return self._bind(_MESSAGE, target, handler)

    @overload
    def source(self, target: str, function: SourceFunction) -> Binding: ...
    @overload
    def source(self, target: str) -> Callable[[HandlerT], HandlerT]: ...

    def source(self, target: str, function: Any = None) -> Any:
        """Feed a publisher at its rate, off the tick, instead of the built-in source.

        Args:
            target: Which publisher.
            function: Called with the bridge time in nanoseconds, returns the message to publish, or None.

        Raises:
            BridgeError: The plan has no such publisher.
        """
        return self._bind(_SOURCE, target, function)

    def _bind(self, key: RoleKey, target: str, handler: Any, **options: Any) -> Any:
        timeout = options.get("timeout")
        if timeout is not None:
            TIMEOUT.check("timeout", timeout)
        if handler is None:
            # Found now, so that the fault shows where it is written.
            self._handlers.find(key, target, self._owner)

            def decorate(function: HandlerT) -> HandlerT:
                self._bind(key, target, function, **options)
                return function

            return decorate
        if not callable(handler):
            raise BridgeError(f"the handler for {quoted(target)} cannot be called: {type(handler).__name__}")
        return self._handlers.bind(key, target, Bound(handler=handler, owner=self._owner, **options))


class Handlers:
    """All handlers that are bound: the embedder's before those of packages, which keep the order of their names."""

    def __init__(self, plan: BridgePlan) -> None:
        """Start with none.

        Args:
            plan: What targets name.
        """
        self.changed: Callable[[InterfaceKind, str], None] | None = None
        """Called with kind and prim path after a binding came or went, from the thread that did it."""
        self._lock = threading.Lock()
        self._bound: dict[tuple[InterfaceKind, str], list[Bound[Any]]] = {}
        self._access: HandlerAccess | None = None
        self._set_plan(plan)

    @property
    def access(self) -> HandlerAccess:
        """Return what handlers see of the open bridge.

        Raises:
            BridgeError: The bridge is not open.
        """
        access = self._access
        if access is None:
            raise BridgeError("the bridge is not open")
        return access

    def open(self, runtime: Runtime, now_ns: Callable[[], int]) -> None:
        """Let handlers see an open runtime, and the time."""
        self._access = HandlerAccess(
            state=StateBuffer(runtime),
            commands=JointCommandWriter(runtime),
            clock=BridgeClock(now_ns),
            post=runtime.post,
        )

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Let targets name the interfaces of another plan, as `PlanComponent.prepare`; bindings stay, by prim path."""
        del plan
        return PreparedChange(commit=partial(self._set_plan, binding.plan))

    def _set_plan(self, plan: BridgePlan) -> None:
        self.plan = plan
        self._interfaces: dict[InterfaceKind, Sequence[InterfacePlan]] = {
            "topic": plan.topics,
            "service": plan.services,
            "action": plan.actions,
        }

    def registry(self, owner: str = EMBEDDER) -> HandlerRegistry:
        """Return what `owner` binds with."""
        return HandlerRegistry(self, owner)

    def get(self, kind: InterfaceKind, path: str) -> Bound[Any] | None:
        """Return what serves the interface at a prim, from any thread; None where nothing does."""
        bound = self._bound.get((kind, path))
        return bound[0] if bound else None

    def find(self, key: RoleKey, target: str, owner: str = EMBEDDER) -> tuple[InterfacePlan, ...]:
        """Return the interfaces that a target names; there may be several of one name, in several domains.

        Raises:
            BridgeError: The target names nothing, or an interface of another kind; it lists what there is.
        """
        kind, role = key
        fitting = [each for each in self._interfaces[kind] if each.role == role]
        found = [each for each in fitting if each.path == target] or [
            each for each in fitting if each.name == target
        ]
        if found:
            return tuple(found)
        if owner != EMBEDDER:
            return tuple(
                each for each in fitting if target and (each.type == target or _ends_with(each.name, target))
            )
        words = f"{kind} {role}" if kind != "topic" else role
        others = [
            f"{other_kind} {each.role}"
            for other_kind, interfaces in self._interfaces.items()
            for each in interfaces
            if target in (each.path, each.name)
        ]
        what = f"is a {others[0]}, no {words}" if others else f"names no {words} of {self.plan.asset}"
        raise BridgeError(f"{quoted(target)} {what}; {alternatives(target, _listed(fitting))}")

    def bind(self, key: RoleKey, target: str, bound: Bound[Any]) -> Binding:
        """Bind a handler to all that a target names; the owner's earlier one is replaced.

        Raises:
            BridgeError: As `find`.
        """
        places = [(key[0], each.path) for each in self.find(key, target, bound.owner)]
        for place in places:
            with self._lock:
                rest = [each for each in self._bound.get(place, ()) if each.owner != bound.owner]
                self._bound[place] = sorted([*rest, bound], key=_precedence)
            self._tell(place)
        return Binding(lambda: self._remove(places, bound))

    def drop(self, owner: str) -> None:
        """Unbind all that an owner bound."""
        for bound in [each for some in tuple(self._bound.values()) for each in some if each.owner == owner]:
            self._remove(tuple(self._bound), bound)

    def close(self) -> None:
        """Drop all bindings: handlers often refer to the bridge. Idempotent."""
        self._access = None
        with self._lock:
            self._bound = {}

    def _remove(self, places: Iterable[tuple[InterfaceKind, str]], bound: Bound[Any]) -> None:
        for place in places:
            with self._lock:
                before = self._bound.get(place, [])
                after = [each for each in before if each is not bound]
                self._bound[place] = after
            if len(after) != len(before):
                self._tell(place)

    def _tell(self, place: tuple[InterfaceKind, str]) -> None:
        changed = self.changed
        if changed is not None:
            changed(*place)


def _precedence(bound: Bound[Any]) -> tuple[bool, str]:
    return bound.owner != EMBEDDER, bound.owner


def _ends_with(name: str, end: str) -> bool:
    return not end.startswith("/") and name.endswith(f"/{end}")


def _listed(interfaces: Iterable[InterfacePlan]) -> list[str]:
    return [f"{each.path} ({each.name})" for each in interfaces]


class MessageFeed:
    """Pass the messages of one subscription to its handler, in order.

    Attributes:
        errors: How often the handler raised.
        last_error: One line, "" where it never did.
        dropped: How many messages gave way to newer ones.
    """

    def __init__(
        self, path: str, message_class: Any, *, handlers: Handlers, workers: Workers, report: Report
    ) -> None:
        """Store whose messages they are.

        Args:
            path: Prim path of the subscription.
            message_class: Class of its messages.
            handlers: The handlers.
            workers: Where.
            report: For handlers that raise.
        """
        self.errors = 0
        self.last_error = ""
        self.dropped = 0
        self._path = path
        self._class = message_class
        self._handlers = handlers
        self._workers = workers
        self._report = report
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._busy = False

    @property
    def bound(self) -> Bound[Any] | None:
        """Return the handler of the messages."""
        return self._handlers.get("topic", self._path)

    def put(self, data: bytes) -> bool:
        """Queue a serialized message; return whether there is a handler for it. Thread-safe."""
        if self.bound is None:
            return False
        with self._lock:
            full = len(self._waiting) >= DEFAULT_DEPTH
            if full:
                self._waiting.popleft()
            self._waiting.append(data)
            busy, self._busy = self._busy, True
        if full:
            self.dropped += 1
            self._report(
                f"message.dropped:{self._path}",
                f"{self._path}: messages come faster than they are handled: the oldest are dropped",
            )
        if not busy:
            self._next()
        return True

    def _next(self) -> None:
        with self._lock:
            bound = self.bound
            if bound is None:
                self._waiting.clear()
            if not self._waiting:
                self._busy = False
                return
            data = self._waiting.popleft()
        assert bound is not None
        try:
            message = deserialize_message(data, self._class)
        except Exception as error:  # noqa: BLE001 - the others are still to be handled
            self._fail(error)
            self._next()
            return
        future = self._workers.submit(f"message {self._path}", bound.handler, message)
        future.add_done_callback(self._finish)

    def _finish(self, future: Future[Any]) -> None:
        error = _error(future)
        if isinstance(error, BridgeError) and self._workers.closed:
            return
        if error is not None:
            self._fail(error)
        self._next()

    def _fail(self, error: BaseException) -> None:
        self.errors += 1
        self.last_error = describe(error)
        self._report(f"message.error:{self._path}", f"{self._path}: a message was lost: {self.last_error}")


class SourceFeed:
    """Get messages from the source of one publisher, and publish them.

    Attributes:
        errors: How often it raised or returned something else.
        last_error: One line, "" where it never did.
        skipped: How often it was not done with the time before.
        published: How many messages were sent.
    """

    def __init__(
        self, path: str, message_class: Any, *, handlers: Handlers, workers: Workers, report: Report
    ) -> None:
        """Store whose source it is.

        Args:
            path: Prim path of the publisher.
            message_class: Class of its messages.
            handlers: What its source is.
            workers: Where it runs.
            report: For sources that raise.
        """
        self.errors = 0
        self.last_error = ""
        self.skipped = 0
        self.published = 0
        self._path = path
        self._class = message_class
        self._handlers = handlers
        self._workers = workers
        self._report = report
        self._pending: Future[Any] | None = None

    @property
    def bound(self) -> Bound[Any] | None:
        """Return the source."""
        return self._handlers.get("topic", self._path)

    def ask(self, bound: Bound[Any], time_ns: int, publish: Callable[[Any], None]) -> bool:
        """Request a message, which `publish` gets in another thread; return whether the source was free."""
        if self._pending is not None and not self._pending.done():
            self.skipped += 1
            self._report(
                f"source.slow:{self._path}",
                f"{self._path}: its source is slower than its rate: times are skipped",
            )
            return False
        self._pending = self._workers.submit(f"source {self._path}", bound.handler, time_ns)
        self._pending.add_done_callback(lambda future: self._finish(future, publish))
        return True

    def _finish(self, future: Future[Any], publish: Callable[[Any], None]) -> None:
        error = _error(future)
        if isinstance(error, BridgeError) and self._workers.closed:
            return
        if error is None:
            message = future.result()
            if message is None:
                return
            try:
                if not isinstance(message, self._class):
                    raise TypeError(
                        f"it returned {type(message).__name__} instead of {self._class.__name__} or None"
                    )
                publish(message)
            except Exception as unsendable:  # noqa: BLE001 - reported as what the source raises is
                error = unsendable
            else:
                self.published += 1
                return
        if self._workers.closed:
            # The publisher is gone, too.
            return
        self.errors += 1
        self.last_error = describe(error)
        self._report(f"source.error:{self._path}", f"{self._path}: its source failed: {self.last_error}")


def _error(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as cancelled:
        return cancelled


def _binder_fault(found: object) -> str:
    return "" if callable(found) else f"it is a {type(found).__name__}, no function"


HANDLERS: Final[Registry[Callable[[HandlerRegistry], object]]] = Registry(
    "handlers", "handlers", {}, check=_binder_fault
)
"""Functions of installed packages that bind handlers, by the names of their entry points."""


def are_installed(selected: Sequence[str] | None) -> bool:
    """Return whether `bind_installed` has anything to bind; selected: as there. Imports nothing."""
    return bool(HANDLERS.names()) if selected is None else bool(selected)


def bind_installed(handlers: Handlers, selected: Sequence[str] | None, report: Report) -> None:
    """Call the entry points of installed packages, which bind handlers. One that fails is reported.

    Args:
        handlers: Where to bind.
        selected: Names of entry points, None for all.
        report: For those that fail.

    Raises:
        OptionError: A name is not installed.
    """
    names = HANDLERS.names()
    for name in selected or ():
        if name not in names:
            raise OptionError(f"handlers {quoted(name)} are not installed; {alternatives(name, names)}")
    for name in sorted(names if selected is None else set(selected)):
        owner = f"package {name}"
        bind = HANDLERS.get(name)
        if bind is None:
            report(f"handlers:{name}", HANDLERS.fault(name))
            continue
        try:
            bind(handlers.registry(owner))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - no package keeps a bridge from opening
            handlers.drop(owner)
            report(f"handlers:{name}", f"the handlers {name} bind nothing: {describe(error)}")
