"""Server link: calls of foxglove-sdk's server while it is open, and warnings for its clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from foxglove.websocket import StatusLevel

from usd_ros_bridge.errors import escaped
from usd_ros_bridge.reporting import Report, describe
from usd_ros_bridge.ros.domains import Domain

STATUS_S: Final = 1.0
"""How often one warning is sent, at most, seconds."""

_MOST_STATUSES = 1000
MOST_AT_ONCE: Final = 10
"""Warnings of all keys in a second."""


class ServerLink:
    """The server, or none. From any thread."""

    def __init__(self, main: Domain, *, report: Report) -> None:
        """Store the arguments.

        Args:
            main: Its executor sends warnings.
            report: For calls that fail.
        """
        self._main = main
        self._report = report
        self._server: Any = None
        self._lock = threading.Lock()
        self._statuses: dict[str, float] = {}
        self._room, self._filled_s = float(MOST_AT_ONCE), time.monotonic()

    def attach(self, server: Any) -> None:
        """Use a server from here on."""
        self._server = server

    def detach(self) -> Any:
        """Use no server from here on. Return the one that was used, None for none."""
        with self._lock:
            server, self._server = self._server, None
        return server

    def call(self, function: Callable[[Any], object]) -> None:
        """Call a function with the server, unless there is none."""
        server = self._server
        if server is None:
            return
        try:
            function(server)
        except RuntimeError as error:
            # foxglove-sdk refuses calls while it stops.
            if self._server is not None:
                self._report("foxglove.call", f"Foxglove is not notified of a change: {describe(error)}")

    def warn(self, key: str, message: str) -> None:
        """Show clients a warning, which replaces that of the same key.

        The executor's thread sends it. Sent by a thread of foxglove-sdk's, the connections of other clients would wait
        until that thread has no more to do for this one.
        """
        now = time.monotonic()
        with self._lock:
            if now - self._statuses.get(key, -STATUS_S) < STATUS_S:
                return
            # Of all keys, which are names that clients choose: each status goes to every client, and takes its room.
            self._room = min(MOST_AT_ONCE, self._room + (now - self._filled_s) * MOST_AT_ONCE)
            self._filled_s = now
            if self._room < 1.0:
                return
            self._room -= 1.0
            if len(self._statuses) > _MOST_STATUSES:
                self._statuses.clear()
            self._statuses[key] = now
        text = escaped(message)
        self._main.defer(
            lambda: self.call(lambda server: server.publish_status(text, StatusLevel.Warning, key))
        )
