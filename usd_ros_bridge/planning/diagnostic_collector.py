"""Collector of the diagnostics of planning, in the order in which they are found."""

from __future__ import annotations

from collections.abc import Iterable

from usd_ros_bridge.model.diagnostics import Diagnostic, Severity, internal_fault

MAX_MESSAGE = 1024
"""Longest message: it may name prims, whose paths have no end."""


class DiagnosticCollector:
    """A list of diagnostics that grows; each concept of planning adds to the one it is given."""

    def __init__(self, diagnostics: Iterable[Diagnostic] = ()) -> None:
        self._diagnostics = list(diagnostics)

    def __len__(self) -> int:
        return len(self._diagnostics)

    def error(self, code: str, path: str, message: str, remedy: str = "", *, attribute: str = "") -> None:
        """Add a fault that disables something."""
        self._add("error", code, path, message, remedy, attribute)

    def warning(self, code: str, path: str, message: str, remedy: str = "", *, attribute: str = "") -> None:
        """Add something that works, perhaps not as meant."""
        self._add("warning", code, path, message, remedy, attribute)

    def info(self, code: str, path: str, message: str, remedy: str = "", *, attribute: str = "") -> None:
        """Add a remark."""
        self._add("info", code, path, message, remedy, attribute)

    def internal(self, path: str, what: str, error: BaseException) -> None:
        """Add an exception that planning one part of the asset raised: see `internal_fault`."""
        self._diagnostics.append(internal_fault(path, what, error))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Add what was found elsewhere."""
        self._diagnostics.extend(diagnostics)

    def all(self) -> tuple[Diagnostic, ...]:
        """Return everything found so far."""
        return tuple(self._diagnostics)

    def _add(
        self, severity: Severity, code: str, path: str, message: str, remedy: str, attribute: str
    ) -> None:
        if len(message) > MAX_MESSAGE:
            message = message[:MAX_MESSAGE] + "..."
        self._diagnostics.append(
            Diagnostic(
                code=code, severity=severity, path=path, attribute=attribute, message=message, remedy=remedy
            )
        )
