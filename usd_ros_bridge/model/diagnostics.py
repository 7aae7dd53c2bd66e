"""Diagnostics: what is wrong with an asset, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

MAX_QUOTED = 128

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


def escaped(text: str, *, keep: str = "") -> str:
    r"""Return text from outside as text that is safe to show: what is not printable as `\x1b`.

    Assets, peers, files and errors that quote them may hold escape sequences, which a terminal obeys: C0 and C1
    control characters, DEL, marks of direction and of width 0, lone surrogates. All text that leaves the bridge for
    people (terminal, logs, answers of services, XML) goes through this function where it leaves.

    Args:
        text: The text. Applying the function twice gives the same as once.
        keep: Characters to leave as they are, such as line ends.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def quoted(value: object) -> str:
    """Returns `value` in quotes, control characters escaped and bounded in length, for a message."""
    text = str(value)
    if len(text) > MAX_QUOTED:
        text = text[:MAX_QUOTED] + "..."
    return "'" + text.encode("unicode_escape").decode("ascii") + "'"


def error_text(error: object, fallback: str = "its text cannot be shown") -> str:
    """Return what an error says.

    Args:
        error: An exception, or an error of OpenUSD's composition.
        fallback: Returned where the text itself raises. OpenUSD quotes what a file says, and Python cannot show it
            where it is not UTF-8.
    """
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a text that cannot be had must not hide that there was an error
        return fallback


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
    """Returns whether any diagnostic is an error."""
    return any(diagnostic.severity == "error" for diagnostic in diagnostics)
