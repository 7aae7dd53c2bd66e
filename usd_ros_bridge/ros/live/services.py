"""The service of the node that has the asset read again: ~/reload (std_srvs/Trigger)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from std_srvs.srv import Trigger

from usd_ros_bridge.model.errors import BridgeError
from usd_ros_bridge.model.plan import ServicePlan
from usd_ros_bridge.ros.calls import Call
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.service import ServiceServer
from usd_ros_bridge.ros.services import BUILT_IN, TRIGGER, Server
from usd_ros_bridge.ros.status import InterfaceStatus
from usd_ros_bridge.ros.workers import Workers

RELOAD = "~/reload"
TIMEOUT_S = 60.0
"""A large asset takes long to read; whoever asked hears of it at the end."""


class ReloadService:
    """Serves it on one node. The answer comes when the bridge has gone on: what changed, or why nothing did."""

    def __init__(self, reload: Callable[[], Call], domain: Domain, workers: Workers, report: Report) -> None:
        """Stores what to serve; `open` creates the service.

        Args:
            reload: Has the files read again (`Bridge.reload`).
            domain: Where, and on which node.
            workers: Where requests wait.
            report: For requests that fail in other ways than by a refusal.
        """
        self._reload = reload
        self._server: ServiceServer | None = ServiceServer(
            ServicePlan(path=RELOAD, role="server", name=RELOAD, type=TRIGGER),
            Trigger,
            domain,
            services=self,
            workers=workers,
            report=report,
        )

    def open(self) -> None:
        """Creates the service."""
        assert self._server is not None, "it was closed"
        self._server.open()

    def close(self) -> None:
        """Destroys it. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def status(self) -> list[InterfaceStatus]:
        """Returns a row for it."""
        return [] if self._server is None else [self._server.status()]

    def find(self, plan: ServicePlan) -> Server:
        """Returns who answers."""
        del plan
        return Server(handler=self._answer, owner=BUILT_IN, timeout=TIMEOUT_S)

    def prepare(self, plan: ServicePlan) -> None:
        """Does nothing: it is known who answers."""

    async def _answer(self, _request: Any, response: Any) -> Any:
        try:
            response.message = str(await self._reload())
            response.success = True
        except BridgeError as refusal:
            response.message, response.success = str(refusal), False
        return response
