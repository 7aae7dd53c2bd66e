"""Service buttons: call a SetBool or a Trigger, and show the answer."""

from __future__ import annotations

from functools import partial
from typing import Any

from usd_ros_bridge.model.message_types import SET_BOOL
from usd_ros_bridge.view.control_panel import JobQueue, RateLimit, markdown
from usd_ros_bridge.view.control_plans import ServiceControl
from usd_ros_bridge.view.graph_client import GraphClient
from usd_ros_bridge.view.page_component import PageContext

TIMEOUT_S = 5.0
"""How long a call waits for a server and its answer, seconds."""


class ServicePanel:
    """Buttons of one service: "On" and "Off" of a SetBool, "Call" of a Trigger."""

    def __init__(self, context: PageContext, jobs: JobQueue, plan: ServiceControl) -> None:
        """Store the arguments; `open` adds the GUI.

        Args:
            context: The page.
            jobs: Jobs of the page's thread.
            plan: The control.
        """
        self._gui = context.server.gui
        self._graph: GraphClient = context.graph
        self._jobs = jobs
        self._plan = plan
        self._limit = RateLimit()
        self._waiting: dict[str, bool] | None = None
        self._number = 0
        self._client: Any = None
        self._line: Any = None

    def open(self) -> None:
        """Add the GUI and make the client."""
        plan, gui, jobs = self._plan, self._gui, self._jobs
        self._client = self._graph.service_client(plan.name, plan.type, domain_id=plan.domain_id)
        buttons = (
            (("On", {"data": True}), ("Off", {"data": False})) if plan.type == SET_BOOL else (("Call", {}),)
        )
        for label, request in buttons:
            gui.add_button(label).on_click(jobs.callback(partial(self._call, request)))
        self._line = gui.add_markdown("Not called yet")

    def resume(self) -> None:
        """Do nothing: it has no subscription."""

    def update(self, now_s: float) -> None:
        """Send the newest request, within the limit of the rate."""
        if self._waiting is None or self._client is None or not self._limit.take(now_s):
            return
        request, self._waiting = self._waiting, None
        self._number += 1
        number = self._number
        self._line.content = "Called"
        self._jobs.when_done(
            self._client.call(request, timeout=TIMEOUT_S),
            lambda answer, fault: self._show(number, answer, fault),
        )

    def pause(self) -> None:
        """Do nothing: it has no subscription."""

    def close(self) -> None:
        """Destroy the client. Calls in progress fail. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            self._number += 1
            self._graph.destroy(client)

    def _call(self, request: dict[str, bool]) -> None:
        self._waiting = request

    def _show(self, number: int, answer: Any, fault: str) -> None:
        if number != self._number or self._line is None:
            return
        text = fault or f"{'Done' if answer.success else 'Refused'}: {answer.message}".rstrip(": ")
        self._line.content = markdown(text)
