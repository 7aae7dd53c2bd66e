"""Service calls: the bridge's services for clients of the server, called as any other ROS 2 node would call them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from foxglove import MessageSchema, Schema, Service, ServiceRequest, ServiceSchema
from rclpy.serialization import deserialize_message, serialize_message

from usd_ros_bridge.errors import BridgeError
from usd_ros_bridge.model.plan import ServicePlan
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.domains import Domain, Domains
from usd_ros_bridge.ros.endpoints.service import ServiceClient
from usd_ros_bridge.ros.interface_types import AmentCatalog, InterfaceTypeError, import_interface
from usd_ros_bridge.ros.recording.message_definitions import message_definition, type_name
from usd_ros_bridge.ros.workers import Workers

TIMEOUT_S: Final = 60.0
"""Longest time for an answer, seconds: that of ~/reload, the slowest service."""

_MARGIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedService:
    """A service that clients may call.

    Attributes:
        name: Resolved name.
        type: As `std_srvs/srv/SetBool`.
        domain_id: Its domain, None for the default one.
    """

    name: str
    type: str
    domain_id: int | None = None


def offered_services(
    planned: Iterable[ServicePlan], own: Iterable[InterfaceStatus], domains: Domains
) -> list[OfferedService]:
    """Return the services that clients may call.

    Args:
        planned: Services of the plan that are open; its clients are left out.
        own: Interfaces of the bridge itself; topics and actions are left out.
        domains: Domains of the services.
    """
    services = []
    for each in planned:
        if each.enabled and each.role == "server":
            node = domains.get(each.domain_id).node
            name = str(node.resolve_service_name(each.name))
            services.append(OfferedService(name=name, type=each.type, domain_id=each.domain_id))
    rows = [row for row in own if row.kind == "service" and row.role == "server"]
    return [*services, *(OfferedService(name=row.name, type=row.type) for row in rows)]


class ServiceCalls:
    """Services of foxglove-sdk that call those of the bridge. An rclpy client is created with the first call."""

    def __init__(self, domains: Domains, *, workers: Workers, report: Report) -> None:
        """Store the arguments.

        Args:
            domains: Domains of the services.
            workers: What waits for servers, and for the time to be over.
            report: For services that cannot be offered, and calls that fail.
        """
        self._domains = domains
        self._workers = workers
        self._report = report
        self._catalog = AmentCatalog()
        self._lock = threading.Lock()
        self._offered: dict[str, OfferedService] = {}
        self._clients: dict[str, ServiceClient] = {}
        self._pending: set[Future[Any]] = set()
        self._closed = False

    def change(self, offered: Iterable[OfferedService]) -> tuple[list[str], list[Service]]:
        """Change what is offered. Return the names of services that are gone, and the services that are new."""
        wanted: dict[str, OfferedService] = {}
        for each in offered:
            # A name has one service: that of the first domain.
            wanted.setdefault(each.name, each)
        gone = [name for name, each in self._offered.items() if wanted.get(name) != each]
        new = [each for name, each in wanted.items() if self._offered.get(name) != each]
        made = [(each, self._make(each)) for each in new]
        for name in gone:
            del self._offered[name]
            self._end_client(name)
        services = []
        for each, service in made:
            if service is not None:
                self._offered[each.name] = each
                services.append(service)
        return gone, services

    def close(self) -> None:
        """Fail calls in progress, and destroy the clients. Idempotent."""
        with self._lock:
            self._closed = True
            pending, self._pending = tuple(self._pending), set()
        for future in pending:
            future.cancel()
        for name in tuple(self._clients):
            self._end_client(name)

    # --- Own ---------------------------------------------------------------------------------------------------

    def _make(self, offered: OfferedService) -> Service | None:
        try:
            service_class = import_interface(offered.type, self._catalog)
            schema = ServiceSchema(
                offered.type,
                request=_schema(service_class.Request),
                response=_schema(service_class.Response),
            )
        except (InterfaceTypeError, ImportError, AttributeError) as error:
            self._report(
                f"foxglove.service:{offered.name}", f"{offered.name} is not offered to Foxglove: {error}"
            )
            return None
        return Service(offered.name, schema=schema, handler=partial(self._answer, offered, service_class))

    def _answer(self, offered: OfferedService, service_class: Any, request: ServiceRequest) -> bytes:
        """Call a service, in a thread of foxglove-sdk's. The client gets its exception."""
        try:
            message = _read(service_class.Request, bytes(request.payload))
        except Exception as error:  # noqa: BLE001 - bytes from a network; rclpy raises what it likes
            raise BridgeError(f"{offered.name}: the request cannot be read: {describe(error)}") from None
        response = self._call(offered, service_class, message)
        return bytes(serialize_message(response))

    def _call(self, offered: OfferedService, service_class: Any, message: Any) -> Any:
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise BridgeError("the bridge is closed")
            self._pending.add(future)
        domain = self._domains.get(offered.domain_id)
        domain.defer(partial(self._send, offered, service_class, domain, message, future))
        try:
            return future.result(TIMEOUT_S + _MARGIN_S)
        except CancelledError:
            raise BridgeError("the bridge was closed") from None
        except FutureTimeoutError:
            future.cancel()
            raise BridgeError(f"{offered.name} gave no answer within {TIMEOUT_S:g} s") from None
        finally:
            with self._lock:
                self._pending.discard(future)

    def _send(
        self,
        offered: OfferedService,
        service_class: Any,
        domain: Domain,
        message: Any,
        future: Future[Any],
    ) -> None:
        """Send a request, in the thread of the domain."""
        if future.cancelled():
            # The client was informed that it failed: it is not carried out later.
            return
        try:
            sent = self._client(offered, service_class, domain).call(message, timeout=TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            _settle(future, None, error)
            return

        def pass_on(done: Future[Any]) -> None:
            error = CancelledError() if done.cancelled() else done.exception()
            _settle(future, None if error else done.result(), error)

        sent.add_done_callback(pass_on)

    def _client(self, offered: OfferedService, service_class: Any, domain: Domain) -> ServiceClient:
        with self._lock:
            if self._closed or offered.name not in self._offered:
                raise BridgeError(f"{offered.name} is not there any more")
            client = self._clients.get(offered.name)
            if client is None:
                plan = ServicePlan(path="", role="client", name=offered.name, type=offered.type)
                client = ServiceClient(plan, service_class, domain, workers=self._workers)
                client.open()
                self._clients[offered.name] = client
        return client

    def _end_client(self, name: str) -> None:
        with self._lock:
            client = self._clients.pop(name, None)
        if client is not None:
            client.close()


def _schema(message_class: Any) -> MessageSchema:
    definition = message_definition(message_class)
    if not message_class.get_fields_and_field_types():
        definition = ""
    return MessageSchema(
        encoding="cdr",
        schema=Schema(name=type_name(message_class), encoding="ros2msg", data=definition.encode()),
    )


def _read(message_class: Any, payload: bytes) -> Any:
    """Return a request. One without fields may have no byte at all behind its header."""
    if not message_class.get_fields_and_field_types():
        return message_class()
    return deserialize_message(payload, message_class)


def _settle(future: Future[Any], result: Any, error: BaseException | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
