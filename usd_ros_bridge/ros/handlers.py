"""Handlers: who serves which interface. Bound by the embedder or by installed packages, before or after the opening."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from usd_ros_bridge.model.diagnostics import quoted
from usd_ros_bridge.model.errors import BridgeError, OptionError, choices
from usd_ros_bridge.model.plan import BridgePlan, InterfaceKind, InterfacePlan
from usd_ros_bridge.model.ranges import TIMEOUT

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
    """What serves one interface.

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


class Binding:
    """A handler that is bound. `remove` unbinds it, as does the end of a `with` block."""

    def __init__(self, remove: Callable[[], None]) -> None:
        """Stores how to remove it."""
        self._remove = remove

    def remove(self) -> None:
        """Unbinds the handler, unless another has replaced it. Idempotent; what runs already goes on."""
        self._remove()

    def __enter__(self) -> Binding:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class HandlerRegistry:
    """Binds handlers to the interfaces of a plan.

    A target is a prim path or an absolute name of the plan. For installed packages, which meet assets that they do not
    know, it may also be an interface type (`std_srvs/srv/SetBool`) or the end of a name (`set_led`), and binds
    whatever there is, also nothing.

    Each method returns a `Binding`, or without a handler a decorator, which leaves the function as it is.
    """

    def __init__(self, handlers: Handlers, owner: str = EMBEDDER) -> None:
        """Stores whose handlers these are."""
        self._handlers = handlers
        self._owner = owner

    @property
    def plan(self) -> BridgePlan:
        """The plan, to look at what there is."""
        return self._handlers.plan

    @overload
    def on_service(self, target: str, handler: ServiceHandler, *, timeout: float | None = ...) -> Binding: ...
    @overload
    def on_service(self, target: str, *, timeout: float | None = ...) -> Callable[[HandlerT], HandlerT]: ...

    def on_service(
        self, target: str, handler: Any = None, *, timeout: float | None = DEFAULT_TIMEOUT_S
    ) -> Any:
        """Serves a service: `handler(request, response)`, off the tick.

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
        self, target: str, handler: ActionHandler, *, accept: AcceptGoal | None = ...,
        timeout: float | None = ..., concurrent: int = ...,
    ) -> Binding: ...  # fmt: skip
    @overload
    def on_action(
        self, target: str, *, accept: AcceptGoal | None = ..., timeout: float | None = ..., concurrent: int = ...
    ) -> Callable[[HandlerT], HandlerT]: ...  # fmt: skip

    def on_action(
        self, target: str, handler: Any = None, *, accept: AcceptGoal | None = None,
        timeout: float | None = None, concurrent: int = 1,
    ) -> Any:  # fmt: skip
        """Serves an action: `handler(goal)`, off the tick.

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
        """Takes the messages of a subscription, in order and off the tick, instead of the built-in sink.

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
        """Feeds a publisher at its rate, off the tick, instead of the built-in source.

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
        """Starts with none.

        Args:
            plan: What targets name.
        """
        self.changed: Callable[[InterfaceKind, str], None] | None = None
        """Called with kind and prim path after a binding came or went, from the thread that did it."""
        self._lock = threading.Lock()
        self._bound: dict[tuple[InterfaceKind, str], list[Bound[Any]]] = {}
        self.adopt(plan)

    def adopt(self, plan: BridgePlan) -> None:
        """Has targets name what another plan has; what is bound stays so, by prim path."""
        self.plan = plan
        self._interfaces: dict[InterfaceKind, Sequence[InterfacePlan]] = {
            "topic": plan.topics,
            "service": plan.services,
            "action": plan.actions,
        }

    def registry(self, owner: str = EMBEDDER) -> HandlerRegistry:
        """Returns what `owner` binds with."""
        return HandlerRegistry(self, owner)

    def get(self, kind: InterfaceKind, path: str) -> Bound[Any] | None:
        """Returns what serves the interface at a prim, from any thread; None where nothing does."""
        bound = self._bound.get((kind, path))
        return bound[0] if bound else None

    def find(self, key: RoleKey, target: str, owner: str = EMBEDDER) -> tuple[InterfacePlan, ...]:
        """Returns the interfaces that a target names; there may be several of one name, in several domains.

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
        raise BridgeError(f"{quoted(target)} {what}; there are: {choices(_listed(fitting))}")

    def bind(self, key: RoleKey, target: str, bound: Bound[Any]) -> Binding:
        """Binds a handler to all that a target names; the owner's earlier one is replaced.

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
        """Unbinds all that an owner bound."""
        for bound in [each for some in tuple(self._bound.values()) for each in some if each.owner == owner]:
            self._remove(tuple(self._bound), bound)

    def close(self) -> None:
        """Lets go of all that is bound: handlers often know the bridge, or whoever holds it. Idempotent."""
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
