"""Reports at run time: each kind is logged once, then counted. Thread-safe.

A kind is `family` or `family:subject`. The family is a constant of the code. The subject is a prim path, a topic or
another name of the asset; what a peer writes (names of joints, frames) belongs into the message. Memory and log lines
are bounded for each family anyway: an asset may have any number of prims.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from usd_ros_bridge.errors import error_text, escaped

Report = Callable[[str, str], None]
"""`report(kind, message)`: warn people. From any thread."""

MAX_SUBJECTS = 200
"""Subjects of a family that are remembered; the oldest makes room for the newest."""
MAX_FAMILIES = 1000
"""Families that are remembered; the rest share one."""
MAX_MESSAGE = 4000
"""Characters of a message."""
MAX_KIND = 512
"""Characters of a kind."""
LINES_AT_ONCE = 50
"""Lines of a family that are shown without a pause."""
LINE_EVERY_S = 5.0
"""After that, one line of a family is shown in this time, seconds."""
_REST = "other"


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
    """Show a report through the standard library's logging."""
    logging.getLogger("usd_ros_bridge").warning("%s [%s]", escaped(message), escaped(kind))


def log_info(kind: str, message: str) -> None:
    """Show a piece of news through the standard library's logging."""
    logging.getLogger("usd_ros_bridge").info("%s [%s]", escaped(message), escaped(kind))


class LineBudget:
    """Limit the log lines of each family: LINES_AT_ONCE at once, then one every LINE_EVERY_S. Not thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Args: clock: Return seconds."""
        self._clock = clock
        self._families: dict[str, _Lines] = {}

    def take(self, family: str) -> str | None:
        """Return what is to be added to the line: "" mostly; None if the line must not be shown."""
        now = self._clock()
        lines = self._families.get(family)
        if lines is None:
            if len(self._families) >= MAX_FAMILIES:
                family = _REST
            lines = self._families.setdefault(family, _Lines(since=now))
        lines.left = min(LINES_AT_ONCE, lines.left + (now - lines.since) / LINE_EVERY_S)
        lines.since = now
        if lines.left < 1.0:
            lines.hidden += 1
            return None
        lines.left -= 1.0
        hidden, lines.hidden = lines.hidden, 0
        if hidden:
            return f" ({hidden} more of this kind were not shown)"
        return "" if lines.left >= 1.0 else " (more of this kind are counted, and hardly shown, from here on)"


@dataclass(slots=True)
class _Lines:
    """The lines of one family: how many may be shown, when that was counted, and how many were not shown."""

    since: float
    left: float = LINES_AT_ONCE
    hidden: int = 0


def limited(show: Report) -> Report:
    """Return `show` with a limit on the lines of each family. Call it from any thread."""
    lock, budget = threading.Lock(), LineBudget()

    def show_some(kind: str, message: str) -> None:
        with lock:
            added = budget.take(family_of(kind))
        if added is not None:
            show(kind[:MAX_KIND], message[:MAX_MESSAGE] + added)

    return show_some


def family_of(kind: str) -> str:
    """Return the part of a kind that does not depend on the asset."""
    return kind[:MAX_KIND].partition(":")[0]


class OnceReporter:
    """Show the first report of each kind and count the rest, so that a fault at 1 kHz does not flood a log."""

    def __init__(self, show: Report | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Store the arguments.

        Args:
            show: Called once per kind, from the thread that reports; `log_warning` by default. A family with very many
                subjects is shown in part: see `LineBudget`.
            clock: Return seconds.
        """
        self._show = show or log_warning
        self._lock = threading.Lock()
        self._budget = LineBudget(clock)
        self._first: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._subjects: dict[str, deque[str]] = {}

    def __call__(self, kind: str, message: str) -> None:
        """Report, as `report` does: an OnceReporter is itself a `Report` for backends."""
        self.report(kind, message)

    def report(self, kind: str, message: str) -> None:
        """Show `message` if it is the first of its `kind`, and count it."""
        kind = kind[:MAX_KIND]
        with self._lock:
            count = self._counts.get(kind, 0) + 1
            self._counts[kind] = count
            if count > 1:
                return
            message = message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "..."
            self._first[kind] = message
            self._remember(kind)
            added = self._budget.take(family_of(kind))
        if added is None:
            return
        try:
            self._show(kind, message + added)
        except Exception as error:  # noqa: BLE001 - reports come from where nothing may raise
            log_warning(kind, f"{message} (showing this failed: {describe(error)})")

    def count(self, kind: str) -> int:
        """Return how often `kind` was reported."""
        with self._lock:
            return self._counts.get(kind, 0)

    def reported(self) -> tuple[Reported, ...]:
        """Return every kind that was reported and is remembered, in order of its first report."""
        with self._lock:
            return tuple(
                Reported(kind=kind, message=message, count=self._counts[kind])
                for kind, message in self._first.items()
            )

    def _remember(self, kind: str) -> None:
        """Add a kind, and forget the oldest of its family if there are too many."""
        family = family_of(kind)
        if family not in self._subjects and len(self._subjects) >= MAX_FAMILIES:
            family = _REST
        kinds = self._subjects.setdefault(family, deque())
        kinds.append(kind)
        if len(kinds) > MAX_SUBJECTS:
            oldest = kinds.popleft()
            del self._first[oldest], self._counts[oldest]


def describe(error: BaseException) -> str:
    """Return an exception as one line of bounded length for a report."""
    text = escaped(" ".join(error_text(error)[:_DESCRIBED].split())[:200])
    name = type(error).__name__
    return f"{name}: {text}" if text else name


_DESCRIBED = 2000
"""Characters of an exception's text that are read."""


class NodeLog:
    """Log warnings and news through a node, or through the standard library as long as there is none.

    Attributes:
        node: The rclpy node whose logger shows them, None for none.
    """

    def __init__(self, name: str) -> None:
        """Args: name: Name of the standard library's logger."""
        self.node: Any = None
        self._name = name

    def warn(self, kind: str, message: str) -> None:
        """Log a warning."""
        node = self.node
        if node is None:
            log_warning(kind, message)
        else:
            node.get_logger().warning(escaped(message))

    def inform(self, kind: str, message: str) -> None:
        """Log a piece of news."""
        node = self.node
        if node is None:
            logging.getLogger(self._name).info("%s [%s]", escaped(message), escaped(kind))
        else:
            node.get_logger().info(escaped(message))
