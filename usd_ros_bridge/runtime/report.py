"""Reports at run time: each kind is shown once and counted after that, from any thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

Show = Callable[[str, str], None]
"""`show(kind, message)`: shows a warning to people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What was reported under one kind.

    Attributes:
        kind: Stable identifier of what happened and to what.
        message: The first message of the kind.
        count: How often it was reported.
    """

    kind: str
    message: str
    count: int


def log_warning(kind: str, message: str) -> None:
    """Shows a report through the standard library's logging."""
    logging.getLogger("usd_ros_bridge").warning("%s [%s]", message, kind)


class Reporter:
    """Shows the first report of each kind and counts the rest, so that a fault at 1 kHz does not flood a log."""

    def __init__(self, show: Show | None = None) -> None:
        """Stores where reports go.

        Args:
            show: Called once per kind, from the thread that reports; `log_warning` by default.
        """
        self._show = show or log_warning
        self._lock = threading.Lock()
        self._first: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, kind: str, message: str) -> None:
        """Reports, as `report` does: a Reporter is itself a `Report` for backends."""
        self.report(kind, message)

    def report(self, kind: str, message: str) -> None:
        """Shows `message` if it is the first of its `kind`, and counts it."""
        with self._lock:
            count = self._counts.get(kind, 0) + 1
            self._counts[kind] = count
            if count == 1:
                self._first[kind] = message
        if count == 1:
            try:
                self._show(kind, message)
            except Exception as error:  # noqa: BLE001 - reports come from where nothing may raise
                log_warning(kind, f"{message} (showing this failed: {describe(error)})")

    def count(self, kind: str) -> int:
        """Returns how often `kind` was reported."""
        with self._lock:
            return self._counts.get(kind, 0)

    def reported(self) -> tuple[Reported, ...]:
        """Returns every kind that was reported, in order of its first report."""
        with self._lock:
            return tuple(
                Reported(kind=kind, message=message, count=self._counts[kind])
                for kind, message in self._first.items()
            )


def describe(error: BaseException) -> str:
    """Returns an exception as one line of bounded length for a report."""
    text = " ".join(str(error).split())[:200]
    name = type(error).__name__
    return f"{name}: {text}" if text else name
