"""Whether the bridge answers: transforms that stop may mean a pause, or that nobody is there."""

from __future__ import annotations

import time
from typing import Any

from usd_ros_bridge.model.message_types import GET_PARAMETERS
from usd_ros_bridge.view.graph_client import GraphClient

SILENT_S = 1.0
"""Time without transforms after which the bridge is asked, seconds."""
ANSWER_S = 1.0
"""Time that it has for an answer, seconds."""


class BridgeMonitor:
    """Ask the bridge for a parameter, which it answers also while it is paused, where its transforms have stopped."""

    def __init__(self, graph: GraphClient, bridge: str) -> None:
        """Store the arguments.

        Args:
            graph: The client.
            bridge: Fully qualified name of the bridge's node.
        """
        self._graph = graph
        self._bridge = bridge
        self._client: Any = None
        self._answer: Any = None
        self._asked_s = 0.0
        self._answered_s = 0.0

    def resume(self) -> None:
        """Create the client of the service."""
        if self._client is None:
            self._client = self._graph.client(f"{self._bridge}/get_parameters", GET_PARAMETERS)
            self._answered_s = time.monotonic()

    def pause(self) -> None:
        """Destroy the client. Idempotent."""
        client, self._client, self._answer = self._client, None, None
        if client is not None:
            self._graph.destroy(client)

    def fault(self, heard_s: float) -> str:
        """Return what is wrong with the bridge, "" while it answers.

        Args:
            heard_s: Time (`time.monotonic`) of the last transforms, seconds.
        """
        now = time.monotonic()
        if self._client is None or now - heard_s < SILENT_S:
            return ""
        self._ask(now)
        latest = max(self._answered_s, heard_s)
        # A request may be lost while the two discover each other: two in a row are not.
        if now - latest < SILENT_S + 2.0 * ANSWER_S:
            return ""
        if not self._client.service_is_ready():
            return f"{self._bridge} is not running: waiting for it"
        return f"{self._bridge} does not answer: what is shown is {now - latest:.0f} s old"

    def _ask(self, now: float) -> None:
        """Take an answer that has come. Ask again if the last request is old, answered or not."""
        if self._answer is not None and self._answer.done():
            self._answer = None
            self._answered_s = now
        if now - self._asked_s < ANSWER_S or not self._client.service_is_ready():
            return
        self._asked_s = now
        if self._answer is not None:
            self._client.remove_pending_request(self._answer)
        request = self._graph.type_of(GET_PARAMETERS).Request(names=["asset"])
        self._answer = self._client.call_async(request)
