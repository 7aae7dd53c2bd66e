"""Default handlers of services and actions: the backend, what is built in, or a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from usd_ros_bridge.backends.base import ActionBackend, ServiceBackend
from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.message_types import SET_BOOL, TRIGGER
from usd_ros_bridge.model.plan import ActionPlan, BridgePlan, ServicePlan
from usd_ros_bridge.ros.endpoints.handlers import DEFAULT_TIMEOUT_S, Bound, Handlers
from usd_ros_bridge.runtime.runtime import Runtime

if TYPE_CHECKING:
    from usd_ros_bridge.usd.session import SceneSwitches

NO_HANDLER = "no handler is bound to this service"
BUILT_IN = "built-in"
BACKEND = "backend"

_GOALS = 32
"""As many as there are threads for functions: a backend says itself what is too much."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A handler of requests, or the reason why there is none.

    Attributes:
        handler: `handler(request, response)`; None where nobody answers.
        owner: Name of the owner, "" for nobody.
        timeout: Seconds until a request is refused, None for no limit.
        reason: Why nobody answers.
    """

    handler: Callable[[Any, Any], Any] | None = None
    owner: str = ""
    timeout: float | None = DEFAULT_TIMEOUT_S
    reason: str = ""


class ServerFinder(Protocol):
    """Find the handler of a service."""

    def find(self, plan: ServicePlan) -> Server:
        """Return who answers requests to a server, from any thread."""
        ...

    def prepare(self, plan: ServicePlan) -> None:
        """Find the handler in advance; from the thread that opens."""
        ...


class Services:
    """Find the handler of each request: bound handlers first, then the backend, then what is built in."""

    def __init__(
        self, handlers: Handlers, runtime: Runtime, scene: SceneSwitches | None, no_scene: str = ""
    ) -> None:
        """Store where to look.

        Args:
            handlers: What is bound.
            runtime: Open.
            scene: The stage, where it may be edited.
            no_scene: Why it may not.
        """
        self._handlers = handlers
        self._runtime = runtime
        self._scene = scene
        self._no_scene = no_scene
        self._fallbacks: dict[str, Server] = {}

    def find(self, plan: ServicePlan) -> Server:
        """Return who answers requests to a server, from any thread."""
        bound = self._handlers.get("service", plan.path)
        if bound is not None:
            return Server(handler=bound.handler, owner=bound.owner, timeout=bound.timeout)
        fallback = self._fallbacks.get(plan.path)
        return Server(reason=NO_HANDLER) if fallback is None else fallback

    def prepare(self, plan: ServicePlan) -> None:
        """Find out who answers where no handler is bound; from the thread that opens."""
        self._fallbacks[plan.path] = self._fall_back(plan)

    def forget(self, plan: ServicePlan) -> None:
        """Drop a closed server."""
        self._fallbacks.pop(plan.path, None)

    def _fall_back(self, plan: ServicePlan) -> Server:
        backend = self._runtime.backend
        if plan.path in self._runtime.capabilities.services and isinstance(backend, ServiceBackend):
            return Server(handler=self._in_tick(partial(backend.serve, plan.path)), owner=BACKEND)
        if plan.type not in (SET_BOOL, TRIGGER):
            return Server(reason=NO_HANDLER)
        if self._scene is None:
            return Server(reason=f"{NO_HANDLER}, and {self._no_scene}")
        if not self._scene.is_switchable(plan.path):
            return Server(
                reason=f"{NO_HANDLER}, and neither a light nor visible geometry is at its prim or above it, short of "
                "the robot"
            )
        answer = self._in_tick(partial(_switch, self._scene, plan))
        return Server(handler=partial(_open_and_answer, self._scene, answer), owner=BUILT_IN)

    def _in_tick(self, answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Awaitable[Any]]:
        """Return a handler that has `answer` called in the tick's thread."""

        async def handle(request: Any, response: Any) -> Any:
            return await asyncio.wrap_future(run_in_tick(self._runtime, partial(answer, request, response)))

        return handle


def backend_handler(runtime: Runtime, plan: ActionPlan) -> Bound[Any] | None:
    """Return the backend as a handler of an action's goals, None where it follows none of them."""
    backend = runtime.backend
    if plan.path in runtime.capabilities.actions and isinstance(backend, ActionBackend):
        return Bound(handler=partial(backend.execute, plan.path), owner=BACKEND, concurrent=_GOALS)
    return None


def run_in_tick(runtime: Runtime, job: Callable[[], T]) -> Future[T]:
    """Run a job in the tick's thread; the future gets its result or exception."""
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(job())
        except Exception as error:  # noqa: BLE001 - it goes to the future
            future.set_exception(error)

    runtime.post(run)
    return future


def scene_access(plan: BridgePlan, *, edits: bool) -> tuple[SceneSwitches | None, str]:
    """Return the way to a plan's stage, or None and why there is none.

    Args:
        plan: The plan.
        edits: Whether a stage of the caller's may be edited.
    """
    if plan.stage is None:
        return None, "the plan has no stage to switch anything on"
    if not (plan.stage_owned or edits):
        return (
            None,
            "the stage is the host's and read only (scene_edits=True lets the bridge edit its session layer)",
        )
    from usd_ros_bridge.usd.session import StageSession

    return StageSession(plan.stage).switches(), ""


async def _open_and_answer(
    scene: SceneSwitches, answer: Callable[[Any, Any], Awaitable[Any]], request: Any, response: Any
) -> Any:
    """Answer with an open stage: opening it takes longer than a tick may."""
    try:
        await asyncio.to_thread(scene.open)
    except BridgeError as error:
        response.success, response.message = False, str(error)
        return response
    return await answer(request, response)


def _switch(scene: SceneSwitches, plan: ServicePlan, request: Any, response: Any) -> Any:
    """Answer SetBool and Trigger: REP 0158 section 2.5 names blinking lights."""
    visible = request.data if plan.type == SET_BOOL else None
    response.success, response.message = scene.switch(plan.path, visible)
    return response
