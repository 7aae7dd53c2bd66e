"""Services of simulation time on the bridge's node: ~/set_paused, ~/step and ~/reset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from std_srvs.srv import SetBool, Trigger

from usd_ros_bridge.model.message_types import SET_BOOL, TRIGGER
from usd_ros_bridge.model.plan import ServicePlan
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.domains import Domain, Report
from usd_ros_bridge.ros.endpoints.service import ServiceServer
from usd_ros_bridge.ros.endpoints.service_handlers import BUILT_IN, Server
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.sim_time import TimeControl

SET_PAUSED, STEP, RESET = "~/set_paused", "~/step", "~/reset"
_CLASSES = {SET_BOOL: SetBool, TRIGGER: Trigger}
_TYPES = {SET_PAUSED: SET_BOOL, STEP: TRIGGER, RESET: TRIGGER}


class TimeServices:
    """Serves them on one node. What they ask for is done between two ticks; the answer comes when it is."""

    def __init__(self, control: TimeControl, domain: Domain, workers: Workers, report: Report) -> None:
        """Store the arguments.

        Args:
            control: Of bridge time.
            domain: Where, and on which node.
            workers: Where requests wait.
            report: For requests that fail.
        """
        self._control = control
        self._answers: Mapping[str, Callable[[Any, Any], Any]] = {
            SET_PAUSED: self._set_paused,
            STEP: self._step,
            RESET: self._reset,
        }
        self._servers = [
            ServiceServer(
                ServicePlan(path=name, role="server", name=name, type=type_name),
                _CLASSES[type_name],
                domain,
                services=self,
                workers=workers,
                report=report,
            )
            for name, type_name in _TYPES.items()
        ]

    def open(self) -> None:
        """Create the services."""
        for server in self._servers:
            server.open()

    def close(self) -> None:
        """Destroy them. Idempotent."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    def status(self) -> list[InterfaceStatus]:
        """Return a row for each."""
        return [server.status() for server in self._servers]

    def find(self, plan: ServicePlan) -> Server:
        """Return who answers requests to one of the services."""
        return Server(handler=self._answers[plan.name], owner=BUILT_IN)

    def prepare(self, plan: ServicePlan) -> None:
        """Do nothing: it is known who answers."""

    async def _set_paused(self, request: Any, response: Any) -> Any:
        if request.data:
            self._control.pause()
        else:
            self._control.resume()
        response.success, response.message = True, self._control.state
        return response

    async def _step(self, _request: Any, response: Any) -> Any:
        time_ns = await asyncio.wrap_future(self._control.step())
        response.success, response.message = True, _told(time_ns)
        return response

    async def _reset(self, _request: Any, response: Any) -> Any:
        time_ns = await asyncio.wrap_future(self._control.reset())
        response.success, response.message = True, _told(time_ns)
        return response


def _told(time_ns: int) -> str:
    return f"time is {time_ns * 1e-9:.9g} s"
