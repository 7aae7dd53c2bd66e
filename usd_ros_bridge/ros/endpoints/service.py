"""Services of the plan: servers that answer honestly that nothing serves them, and clients."""

from __future__ import annotations

from typing import Any

from usd_ros_bridge.model.plan import ServicePlan
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.runtime.report import describe

NO_HANDLER = "no handler is bound to this service"


def refuse(response: Any, message: str) -> Any:
    """Makes `response` a refusal, where its type can say so: `success = false` and a `message`."""
    # A field counts by its type, too: `success` may be an enumeration and `message` a nested message elsewhere.
    if isinstance(getattr(response, "success", None), bool):
        response.success = False
    if isinstance(getattr(response, "message", None), str):
        response.message = message
    return response


class ServiceServer:
    """Answers every request, so that no client hangs: with a refusal while nothing serves it."""

    def __init__(self, plan: ServicePlan, service_class: Any, domain: Domain, report: Report) -> None:
        """Stores what to serve; `open` creates the server."""
        self.plan = plan
        self._class = service_class
        self._domain = domain
        self._report = report
        self._service: Any = None
        self._requests = 0

    def open(self) -> None:
        """Creates the server."""
        self._service = self._domain.node.create_service(self._class, self.plan.name, self._answer)

    def close(self) -> None:
        """Destroys the server. Idempotent."""
        service, self._service = self._service, None
        if service is not None:
            self._domain.node.destroy_service(service)

    def status(self) -> InterfaceStatus:
        """Returns a row."""
        return _row(self.plan, self._domain, count=self._requests, reason=NO_HANDLER)

    def _answer(self, request: Any, response: Any) -> Any:  # noqa: ARG002 - rclpy's signature
        self._requests += 1
        try:
            self._report(
                f"service.refused:{self.plan.path}",
                f"{self.plan.path}: a request to {self.plan.name} was refused: {NO_HANDLER}",
            )
            return refuse(response, NO_HANDLER)
        except Exception as error:  # noqa: BLE001 - an exception here would leave the client waiting for ever
            self._report(f"service.error:{self.plan.path}", f"{self.plan.path}: {describe(error)}")
            return self._class.Response()


class ServiceClient:
    """A client, there for whoever binds to its prim."""

    def __init__(self, plan: ServicePlan, service_class: Any, domain: Domain) -> None:
        """Stores what to call; `open` creates the client."""
        self.plan = plan
        self._class = service_class
        self._domain = domain
        self._client: Any = None

    def open(self) -> None:
        """Creates the client."""
        self._client = self._domain.node.create_client(self._class, self.plan.name)

    def close(self) -> None:
        """Destroys the client. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            self._domain.node.destroy_client(client)

    def status(self) -> InterfaceStatus:
        """Returns a row."""
        return _row(self.plan, self._domain, count=0, reason="nothing here calls it")


def _row(plan: ServicePlan, domain: Domain, *, count: int, reason: str) -> InterfaceStatus:
    node = domain.node
    name = node.resolve_service_name(plan.name)
    return InterfaceStatus(
        kind="service",
        role=plan.role,
        path=plan.path,
        name=name,
        type=plan.type,
        domain_id=domain.domain_id,
        matched=node.count_clients(name) if plan.role == "server" else node.count_services(name),
        count=count,
        state="silent",
        reason=reason,
    )
