"""Services of the plan: servers that always answer, if only that nobody serves them, and clients."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakMethod

from usd_ros_bridge.errors import BridgeError, CallTimeoutError, HandlerTimeoutError, escaped
from usd_ros_bridge.model.plan import ServicePlan
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.compat import defer_responses
from usd_ros_bridge.ros.domains import Domain
from usd_ros_bridge.ros.endpoints.handlers import DEFAULT_TIMEOUT_S
from usd_ros_bridge.ros.endpoints.service_handlers import BUILT_IN, Server, ServerFinder
from usd_ros_bridge.ros.interface_types import make_message
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.schedule import RateMeter

_LOOK_S = 0.02
_OTHERS_S = 1.0
"""How often requests make a server look whether it is the only one."""


_FLAGS = ("success", "successful", "succeeded", "ok", "accepted")
_TEXTS = (
    "message",
    "status_message",
    "error_message",
    "error_msg",
    "error_string",
    "failure_reason",
    "reason",
    "error_reason",
)
_CODES = ("result", "error_code", "val")
_FAILED = ("RESULT_UNDEFINED_FAILURE", "RESULT_OPERATION_FAILED", "FAILURE", "UNKNOWN")
"""What standard services call their flag, their reason and their code, and how codes name any failure."""


def escape_texts(response: Any) -> None:
    """Escape the messages of a response of the bridge's own: they quote assets and requests."""
    for name in _TEXTS:
        text = getattr(response, name, None)
        if isinstance(text, str):
            setattr(response, name, escaped(text))
    if hasattr(getattr(response, "result", None), "error_message"):
        escape_texts(response.result)


def refuse(response: Any, message: str) -> Any:
    """Make `response` a refusal, as far as its type can say so: a flag, a reason, a code, or a message of these."""
    # A field counts by its type, too: `success` may be an enumeration elsewhere.
    for name in _FLAGS:
        if isinstance(getattr(response, name, None), bool):
            setattr(response, name, False)
    for name in _TEXTS:
        if isinstance(getattr(response, name, None), str):
            setattr(response, name, escaped(message))
    for name in _CODES:
        value = getattr(response, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            codes = (getattr(type(response), constant, None) for constant in _FAILED)
            setattr(response, name, next((code for code in codes if code is not None), value))
        elif hasattr(value, "get_fields_and_field_types"):
            refuse(value, message)
    return response


class ServiceServer:
    """Serve a service outside of the executor's thread: a slow handler delays no other interface.

    Whatever happens, the client gets an answer: with a refusal where nobody serves, or what does raises, takes too
    long or returns something else.
    """

    def __init__(
        self,
        plan: ServicePlan,
        service_class: Any,
        domain: Domain,
        *,
        services: ServerFinder,
        workers: Workers,
        report: Report,
    ) -> None:
        """Store what to serve; `open` creates the server.

        Args:
            plan: The service.
            service_class: Class of its type.
            domain: Where it lives.
            services: Who serves.
            workers: Where they run.
            report: For requests that are refused and handlers that fail.
        """
        self.plan = plan
        self._class = service_class
        self._domain = domain
        self._services = services
        self._workers = workers
        self._report = report
        self._service: Any = None
        self._send: Callable[[Any, Any], None]
        self._meter = RateMeter()
        self._errors = 0
        self._last_error = ""
        self._look_again = 0.0

    def open(self) -> None:
        """Create the server."""
        self._services.prepare(self.plan)
        # A pair: what the callback returns comes back with the header of the request.
        service = self._domain.node.create_service(
            self._class, self.plan.name, lambda request, response: (request, response)
        )
        self._send = defer_responses(service, _weakly(self._receive))
        self._service = service

    def close(self) -> None:
        """Destroy the server. Idempotent."""
        service, self._service = self._service, None
        if service is not None:
            self._domain.destroy(service)

    def status(self) -> InterfaceStatus:
        """Return a row."""
        server = self._services.find(self.plan)
        self._look_for_others()
        return _row(
            self.plan,
            self._domain,
            self._meter,
            errors=self._errors,
            last_error=self._last_error,
            reason=server.reason,
            served_by=server.owner,
        )

    def _receive(self, given: tuple[Any, Any], header: Any) -> None:
        request, response = given
        self._meter.mark(time.monotonic_ns())
        if time.monotonic() >= self._look_again:
            self._look_for_others()
        server = self._services.find(self.plan)
        if server.handler is None:
            self._report(
                f"service.refused:{self.plan.path}",
                f"{self.plan.path}: a request to {self.plan.name} was refused: {server.reason}",
            )
            self._answer(refuse(response, server.reason), header)
            return
        future = self._workers.submit(
            f"service {self.plan.path}", server.handler, request, response, timeout=server.timeout
        )
        future.add_done_callback(partial(self._finish, server, response, header))

    def _finish(self, server: Server, response: Any, header: Any, future: Future[Any]) -> None:
        """Answer with what a handler returned or raised, in the thread that ran it."""
        error: BaseException | None
        try:
            error = future.exception()
        except CancelledError as cancelled:
            error = cancelled
        if error is not None:
            self._fail(server, error, header)
            return
        result = future.result()
        answer = response if result is None else result
        if not isinstance(answer, self._class.Response):
            wanted = f"{self.plan.type.rpartition('/')[2]}.Response"
            error = TypeError(f"the handler returned {type(answer).__name__} instead of {wanted} or None")
            self._fail(server, error, header)
            return
        try:
            if server.owner == BUILT_IN:
                escape_texts(answer)
            self._answer(answer, header)
        except Exception as unsendable:  # noqa: BLE001 - the client is to hear of it
            self._fail(server, unsendable, header)

    def _fail(self, server: Server, error: BaseException, header: Any) -> None:
        if self._service is None:
            return
        self._errors += 1
        reason = self._last_error = str(error) if isinstance(error, BridgeError) else describe(error)
        message = f"{self.plan.path}: a request to {self.plan.name} was refused ({server.owner}): {reason}"
        if isinstance(error, HandlerTimeoutError):
            self._report(f"service.timeout:{self.plan.path}", message)
        else:
            self._report(f"service.error:{self.plan.path}", message)
        lines = "".join(traceback.format_exception(error))
        try:
            self._domain.node.get_logger().debug(escaped(f"{self.plan.path}: {lines}", keep="\n"))
            # A fresh one: a handler that is late still has the other.
            self._answer(refuse(self._class.Response(), reason), header)
        except Exception as unsendable:  # noqa: BLE001 - nothing is left to tell the client
            self._report(f"service.error:{self.plan.path}", f"{self.plan.path}: {describe(unsendable)}")

    def _look_for_others(self) -> None:
        self._look_again = time.monotonic() + _OTHERS_S
        node = self._domain.node
        if node.count_services(node.resolve_service_name(self.plan.name)) > 1:
            self._report(
                f"service.taken:{self.plan.path}",
                f"{self.plan.path}: another node serves {self.plan.name}, too: clients receive the first answer",
            )

    def _answer(self, response: Any, header: Any) -> None:
        if self._service is not None:
            self._send(response, header)


class _FixedServer:
    """Find one server, which never changes."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def find(self, plan: ServicePlan) -> Server:  # noqa: ARG002 - ServerFinder
        return self._server

    def prepare(self, plan: ServicePlan) -> None:
        pass


def make_built_in_server(
    name: str,
    type_name: str,
    service_class: Any,
    domain: Domain,
    handler: Callable[[Any, Any], Any],
    *,
    workers: Workers,
    report: Report,
    timeout: float | None = DEFAULT_TIMEOUT_S,
) -> ServiceServer:
    """Return a server of the bridge itself, which no plan has; to be opened.

    Args:
        name: Name of the service, as rclpy takes it.
        type_name: Name of its type.
        service_class: Class of its type.
        domain: Domain of the server.
        handler: `handler(request, response)`, a coroutine function.
        workers: Run the handler.
        report: For requests that fail.
        timeout: Seconds until a request is refused, None for no limit.
    """
    server = Server(handler=handler, owner=BUILT_IN, timeout=timeout)
    return ServiceServer(
        ServicePlan(path=name, role="server", name=name, type=type_name),
        service_class,
        domain,
        services=_FixedServer(server),
        workers=workers,
        report=report,
    )


class ServiceClient:
    """A client, for `Bridge.call`."""

    def __init__(self, plan: ServicePlan, service_class: Any, domain: Domain, *, workers: Workers) -> None:
        """Store what to call; `open` creates the client.

        Args:
            plan: The service.
            service_class: Class of its type.
            domain: Where it lives.
            workers: What waits for servers, and for the time to be over.
        """
        self.plan = plan
        self._class = service_class
        self._domain = domain
        self._workers = workers
        self._client: Any = None
        self._waiting: set[Future[Any]] = set()
        self._meter = RateMeter()
        self._errors = 0

    def open(self) -> None:
        """Create the client."""
        self._client = self._domain.node.create_client(self._class, self.plan.name)

    def close(self) -> None:
        """Fail calls in progress and destroys the client. Idempotent."""
        client, self._client = self._client, None
        for future in tuple(self._waiting):
            _fail(future, BridgeError("the bridge was closed"))
        if client is not None:
            self._domain.destroy(client)

    def status(self) -> InterfaceStatus:
        """Return a row."""
        return _row(self.plan, self._domain, self._meter, errors=self._errors)

    def call(self, request: Any, *, timeout: float) -> Future[Any]:
        """Send a request as soon as there is a server. From any thread.

        Args:
            request: A request, or a mapping of its fields.
            timeout: Seconds until the call fails.

        Returns:
            The response. It fails with CallTimeoutError where nobody answered.

        Raises:
            BridgeError: The request does not fit the type, or the bridge is closed.
        """
        message = make_message(self._class.Request, request)
        future: Future[Any] = Future()
        self._meter.mark(time.monotonic_ns())
        self._waiting.add(future)
        future.add_done_callback(self._count)
        self._workers.set_deadline(future, timeout, partial(self._expire, future, timeout))
        if not self._send(future, message):
            waiting = self._workers.submit(f"call {id(future)}", self._wait, future, message)
            waiting.add_done_callback(partial(_pass_on, future))
        return future

    async def _wait(self, future: Future[Any], message: Any) -> None:
        while not (future.done() or self._send(future, message)):
            await asyncio.sleep(_LOOK_S)

    def _send(self, future: Future[Any], message: Any) -> bool:
        """Send, unless there is no server; return whether there is nothing left to do."""
        client = self._client
        if client is None:
            _fail(future, BridgeError("the bridge was closed"))
            return True
        if not client.service_is_ready():
            return False
        try:
            sent = client.call_async(message)
        except Exception as error:  # noqa: BLE001 - whoever waits is told, wherever that is
            _fail(future, BridgeError(f"the request to {self.plan.name} cannot be sent: {describe(error)}"))
            return True
        sent.add_done_callback(partial(_receive, future))
        # Whoever gives up leaves nothing behind.
        future.add_done_callback(lambda _: client.remove_pending_request(sent))
        return True

    def _expire(self, future: Future[Any], timeout: float) -> None:
        name, client = f"{self.plan.name} ({self.plan.type})", self._client
        served = False
        with suppress(Exception):
            served = client is not None and client.service_is_ready()
        message = (
            f"the server of {name} gave no answer within {timeout:g} s"
            if served
            else f"no server of {name} answered within {timeout:g} s: there is none"
        )
        _fail(future, CallTimeoutError(message))

    def _count(self, future: Future[Any]) -> None:
        self._waiting.discard(future)
        self._errors += not future.cancelled() and future.exception() is not None


def _weakly(receive: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Return what calls a server's method as long as the server is there: the service holds it, and is held by it."""
    method = WeakMethod(receive)

    def answer(given: Any, header: Any) -> None:
        living = method()
        if living is not None:
            living(given, header)

    return answer


def _fail(future: Future[Any], error: Exception) -> None:
    with suppress(InvalidStateError):
        future.set_exception(error)


def _receive(future: Future[Any], sent: Any) -> None:
    with suppress(InvalidStateError):
        error = sent.exception()
        if error is not None:
            future.set_exception(error)
        elif not sent.cancelled():
            future.set_result(sent.result())


def _pass_on(future: Future[Any], waiting: Future[Any]) -> None:
    with suppress(InvalidStateError, CancelledError):
        error = waiting.exception()
        if error is not None:
            future.set_exception(error)


def _row(
    plan: ServicePlan,
    domain: Domain,
    meter: RateMeter,
    *,
    errors: int,
    last_error: str = "",
    reason: str = "",
    served_by: str = "",
) -> InterfaceStatus:
    node = domain.node
    name = node.resolve_service_name(plan.name)
    rate = meter.rate(time.monotonic_ns())
    return InterfaceStatus(
        kind="service",
        role=plan.role,
        path=plan.path,
        name=name,
        type=plan.type,
        domain_id=domain.domain_id,
        achieved_rate=rate,
        matched=node.count_clients(name) if plan.role == "server" else node.count_services(name),
        count=meter.count,
        errors=errors,
        last_error=last_error,
        state="silent" if reason else "active" if rate > 0.0 else "idle",
        reason=reason,
        served_by=served_by,
    )
