"""Diagnostics: what is wrong with an asset, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

MAX_QUOTED = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One fault or remark about an asset. It never stops the rest of the asset from working.

    Attributes:
        code: Stable identifier, the REP 0158 section first where there is one (`2.3.name`).
        severity: `error` (something is disabled), `warning` (works, perhaps not as meant) or `info`.
        path: Path of the prim, or "" for the stage as a whole.
        attribute: Name of the property at fault, or "".
        message: What is wrong, with the offending value quoted.
        remedy: What to do about it.
    """

    code: str
    severity: Severity
    path: str
    attribute: str = ""
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        where = f"{self.path}.{self.attribute}" if self.attribute else self.path
        text = (
            f"{self.severity} [{self.code}] {where}: {self.message}"
            if where
            else (f"{self.severity} [{self.code}] {self.message}")
        )
        return f"{text} ({self.remedy})" if self.remedy else text


def quoted(value: object) -> str:
    """Returns `value` in quotes, control characters escaped and bounded in length, for a message."""
    text = str(value)
    if len(text) > MAX_QUOTED:
        text = text[:MAX_QUOTED] + "..."
    return "'" + text.encode("unicode_escape").decode("ascii") + "'"


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Returns whether any diagnostic is an error."""
    return any(diagnostic.severity == "error" for diagnostic in diagnostics)
