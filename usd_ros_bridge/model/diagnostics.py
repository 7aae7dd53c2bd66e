"""Diagnostics: what is wrong with an asset, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from usd_ros_bridge.errors import error_text, escaped

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

CONTAINED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a fault of this package or of a library may raise for one part of an asset. Tf.ErrorException is a RuntimeError.

BridgeError is not among them: the caller has to know. Neither is what ends a reading on purpose.
"""


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
        return escaped(f"{text} ({self.remedy})" if self.remedy else text)


def internal_fault(path: str, what: str, error: BaseException) -> Diagnostic:
    """Return the diagnostic of an exception that reading, planning or exporting one part of an asset raised.

    Its code, `internal`, always stands for a bug of this package; tests fail where it appears.

    Args:
        path: Path of the prim.
        what: What was done and is left out: `reading this prim`.
        error: One of CONTAINED.
    """
    text = " ".join(error_text(error).split())[:200]
    return Diagnostic(
        code="internal",
        severity="error",
        path=path,
        message=f"{what} raised {type(error).__name__}: {text}; it is left out",
        remedy="report this bug of usd_ros_bridge, with the asset; change what is unusual about the prim until then",
    )


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Return whether any diagnostic is an error."""
    return any(diagnostic.severity == "error" for diagnostic in diagnostics)
