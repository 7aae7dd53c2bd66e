"""Diagnostics: what is wrong with an asset, where, and what to do about it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from usd_ros_bridge.errors import StrictError, error_text, escaped, quoted

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

Reason = Literal["", "not implemented", "approximated", "vendor layer ignored"]
"""Why an authored property is not simulated as its schema says (REP 0158 section 1.4).

`not implemented`: it has no effect. `approximated`: it has another effect. `vendor layer ignored`: it is about the
engine whose prefix it has, or `schema_resolvers` leaves that engine out.
"""

MISSPELT = "schema.attribute"
"""Code of an attribute whose name no schema has."""

CONTAINED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Exceptions that a fault of this package or of a library may raise for one part of an asset.

Tf.ErrorException is a RuntimeError. BridgeError is not among them: the caller handles it. Neither are exceptions
that end a reading on purpose.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One fault or remark about an asset. It never stops the rest of the asset from working.

    Attributes:
        code: Stable identifier, the REP 0158 section first where there is one (`2.3.name`).
        severity: `error` (something is disabled), `warning` (works, perhaps not as meant) or `info`.
        path: Path of the prim, or "" for the stage as a whole.
        attribute: Name of the property at fault, or "".
        message: The fault, with the offending value quoted.
        remedy: How to correct it.
        reason: Why a property is not simulated as authored; "" for diagnostics about something else.
        value: The authored value in quotes, where `reason` is given: the message has none, so that diagnostics about
            many prims can be grouped.
        layer: File of the strongest layer that has the opinion at fault, with `[inner path]` in an archive, or the name
            of a layer without a file; "" if there is none. Diagnostics of an asset that was read again are equal
            wherever their layers and lines are.
        line: Line of the opinion in that file, from 1; 0 if the layer is no text, or was edited since it was read.
    """

    code: str
    severity: Severity
    path: str
    attribute: str = ""
    message: str
    remedy: str = ""
    reason: Reason = ""
    value: str = ""
    layer: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)

    @property
    def place(self) -> str:
        """Layer and line as editors read them: `rover.usda:12`, relative to the working directory if below it."""
        return f"{path_from_here(self.layer)}:{self.line}" if self.line else path_from_here(self.layer)

    def __str__(self) -> str:
        where = f"{self.path}.{self.attribute}" if self.attribute else self.path
        text = (
            f"{self.severity} [{self.code}] {where}: {self.message}"
            if where
            else (f"{self.severity} [{self.code}] {self.message}")
        )
        text = f"{text} ({self.remedy})" if self.remedy else text
        return escaped(f"{text} at {self.place}" if self.layer else text)


def path_from_here(file: str) -> str:
    """Return a file as seen from the working directory, if it is below it."""
    try:
        below = os.path.join(Path.cwd(), "")  # noqa: PTH118 - a path has no separator at its end
    except FileNotFoundError:
        return file
    return file.removeprefix(below)


_IN_ARCHIVE: Final = re.compile(r"(?P<archive>.*?\.usdz)\[(?P<inner>.*)\]", re.DOTALL | re.IGNORECASE)


def archive_and_inner(path: str) -> tuple[str, str]:
    """Return the file of a path, and the path inside, "" for none: OpenUSD writes `file.usdz[inner.usda]`."""
    match = _IN_ARCHIVE.fullmatch(path)
    return (match["archive"], match["inner"]) if match else (path, "")


NOT_UTF8_REMEDY: Final = "write the text in UTF-8"
PLUGIN_REMEDY: Final = "usd_ros_bridge plugins shows all plug-ins and their faults"


def internal_fault(path: str, what: str, error: BaseException) -> Diagnostic:
    """Return the diagnostic of an exception that reading, planning or exporting one part of an asset raised.

    Its code, `internal`, always stands for a bug of this package; tests fail where it appears.

    Args:
        path: Path of the prim.
        what: The action that is left out: `reading this prim`.
        error: One of CONTAINED.
    """
    if isinstance(error, UnicodeDecodeError):
        # On a stage of a host's: the bridge replaces such text in the layers that it opens itself.
        return Diagnostic(
            code="1.2.5.text",
            severity="error",
            path=path,
            message=f"{what} is not possible: the prim has text that is not UTF-8; it is left out",
            remedy=NOT_UTF8_REMEDY,
        )
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


def refuse(
    asset: str, diagnostics: Iterable[Diagnostic], *, strict: bool = False, degraded: str | None = None
) -> None:
    """Refuse an asset whose diagnostics the caller does not accept.

    Args:
        asset: The asset.
        diagnostics: What was found.
        strict: Refuse errors.
        degraded: `error`: refuse what is not simulated as authored.

    Raises:
        StrictError: There is such a diagnostic.
    """
    found = tuple(diagnostics)
    if strict and has_errors(found):
        raise StrictError(f"{asset} has errors, and strict was asked for")
    lost = [each for each in found if each.reason and each.severity != "info"] if degraded == "error" else []
    if lost:
        are = "1 property is" if len(lost) == 1 else f"{len(lost)} properties are"
        raise StrictError(
            f"{are} not simulated as authored in {asset}, and degraded is error: the first is "
            f"{grouped(lost[:1])[0]}"
        )


def worst_first(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics by severity, otherwise in their order.

    A misspelt attribute stands before the errors of its prim: they follow from it.
    """
    found = list(diagnostics)
    worst: dict[str, int] = {}
    for each in found:
        rank = SEVERITIES.index(each.severity)
        worst[each.path] = min(rank, worst.get(each.path, rank))

    def rank_of(diagnostic: Diagnostic) -> int:
        is_cause = diagnostic.code == MISSPELT and diagnostic.path
        return worst[diagnostic.path] if is_cause else SEVERITIES.index(diagnostic.severity)

    return sorted(found, key=rank_of)


MAX_MESSAGE = 1024
"""Longest message: it may name prims, whose paths have no end."""


MAX_SUGGESTED = 100
"""Diagnostics of an asset after which none searches similar names: nobody reads that many."""


DEGRADED: Final = "1.4.degraded"
"""Code of a property that is not simulated as authored, where no other code says it."""

_MAX_SHOWN: Final = 3
"""Prims that a text about a group of diagnostics shows."""

_MAX_ALIKE: Final = 2
"""Prims that a diagnostic about several of them shows after the first."""


class DiagnosticCollector:
    """A list of diagnostics that grows; each concept of planning adds to the one it is given."""

    def __init__(self, diagnostics: Iterable[Diagnostic] = ()) -> None:
        self._diagnostics = list(diagnostics)

    def __len__(self) -> int:
        return len(self._diagnostics)

    @property
    def suggests(self) -> bool:
        """Return whether the next message may suggest names: to look for them among thousands takes milliseconds."""
        return len(self._diagnostics) < MAX_SUGGESTED

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


def degraded(
    findings: DiagnosticCollector,
    authored: Mapping[str, object],
    attribute: str,
    instead: str,
    *,
    reason: Reason = "not implemented",
    code: str = DEGRADED,
    severity: Severity = "warning",
    remedy: str = "do not rely on it",
) -> None:
    """Add a property that is not simulated as authored (REP 0158 section 1.4): a diagnostic for each prim.

    Texts for people show those with the same reason and effect as one: see `grouped`.

    Args:
        findings: Collector of faults.
        authored: Value by path of each prim that has it; None for a prim as a whole.
        attribute: USD name.
        instead: What is done instead; without the value.
        reason: Why.
        code: Code of the diagnostics.
        severity: Of the diagnostics.
        remedy: How to avoid it.
    """
    findings.extend(
        Diagnostic(
            code=code,
            severity=severity,
            path=path,
            attribute=attribute,
            message=f"{reason}: {instead}",
            remedy=remedy,
            reason=reason,
            value="" if value is None else quoted(value),
        )
        for path, value in authored.items()
    )


@dataclass(frozen=True, slots=True)
class DiagnosticGroup:
    """Diagnostics that texts for people show as one: the first one, and where else it is the same.

    Attributes:
        first: The first one.
        paths: Paths of all prims, in order, each once.
        attributes: Names of all properties, in order, each once.
        count: Number of diagnostics.
    """

    first: Diagnostic
    paths: tuple[str, ...]
    attributes: tuple[str, ...]
    count: int

    @property
    def where(self) -> str:
        """Prim and property, as in a diagnostic; more of them with their number."""
        first = self.first
        names = first.attribute
        # A schema says more than the attribute that applies it.
        if first.value and (self.count == 1 or names == "apiSchemas"):
            names = f"{names} = {first.value}" if names else first.value
        others = len(self.attributes) - 1
        if others > 0:
            names += f" and {others} more attribute{'' if others == 1 else 's'}"
        return f"{first.path}.{names}" if first.path and names else names or first.path

    @property
    def message(self) -> str:
        """The message; of diagnostics about several prims with the first ones."""
        first = self.first
        if len(self.paths) == 1:
            return first.message
        shown = ", ".join(self.paths[:_MAX_SHOWN])
        more = ", ..." if len(self.paths) > _MAX_SHOWN else ""
        return f"{first.message}; on {len(self.paths)} prims: {shown}{more}"

    def __str__(self) -> str:
        attribute = self.where.removeprefix(self.first.path).removeprefix(".")
        return str(replace(self.first, attribute=attribute, message=self.message))


def grouped(diagnostics: Iterable[Diagnostic]) -> list[DiagnosticGroup]:
    """Return diagnostics as texts for people show them: those with a reason once for all prims; the order is kept."""
    found: dict[object, list[Diagnostic]] = {}
    for number, each in enumerate(diagnostics):
        key = (each.severity, each.code, each.message, each.remedy) if each.reason else number
        found.setdefault(key, []).append(each)
    return [
        DiagnosticGroup(
            members[0],
            tuple(dict.fromkeys(each.path for each in members)),
            tuple(dict.fromkeys(each.attribute for each in members if each.attribute)),
            len(members),
        )
        for members in found.values()
    ]


def alike(others: Sequence[str]) -> str:
    """Return the end of a message that is about other prims, too; "" for none."""
    if not others:
        return ""
    shown = ", ".join(others[:_MAX_ALIKE])
    return f"; also {len(others)} more: {shown}{', ...' if len(others) > _MAX_ALIKE else ''}"
