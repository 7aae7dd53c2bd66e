"""Findings in formats of code review: SARIF 2.1.0 for code scanning, and annotations of GitHub Actions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from usd_ros_bridge.errors import escaped
from usd_ros_bridge.model.diagnostics import (
    Diagnostic,
    DiagnosticGroup,
    Severity,
    archive_and_inner,
    grouped,
    path_from_here,
    worst_first,
)

REPOSITORY: Final = "https://github.com/usd-ros-bridge/usd_ros_bridge"
DIAGNOSTICS_PAGE: Final = f"{REPOSITORY}/blob/main/docs/reference/diagnostics.md"
SARIF_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
MAX_RESULTS: Final = 25_000
"""GitHub's code scanning refuses a log with more results."""

_SARIF_LEVELS: Final[Mapping[Severity, str]] = {"error": "error", "warning": "warning", "info": "note"}
_ANNOTATIONS: Final[Mapping[Severity, str]] = {"error": "error", "warning": "warning", "info": "notice"}
_INTERFACES: Final = "interfaces-22-to-26-29"
_FRAMES: Final = "frames-and-cameras-27-28"
_JOINTS: Final = "joints-13-210"
_PHYSICS: Final = "physics-13"
_SENSORS: Final = "sensors-14"
_ANCHORS: Final[Mapping[str, str]] = {
    "internal": "every-section",
    "schema": "names-of-attributes-and-schemas",
    "1.1": "units-axes-transforms-11",
    "1.2": "composition-12",
    "1.3": _PHYSICS,
    **dict.fromkeys(
        ("1.3.joint", "1.3.cycle", "1.3.articulation", "1.3.limits", "1.3.state", "1.3.pose", "1.3.mimic"),
        _JOINTS,
    ),
    **dict.fromkeys(("1.3.gear", "1.3.time_samples", "1.3.mesh.data", "1.3.material_binding"), _JOINTS),
    **dict.fromkeys(("1.3.collision_group", "1.3.point_instancer", "2.10"), _JOINTS),
    **dict.fromkeys(("1.3.joint.break", "1.3.joint.distance", "1.3.joint.solver"), _PHYSICS),
    "1.4": _SENSORS,
    **dict.fromkeys(
        ("1.4.degraded", "1.4.type", "1.4.camera", "1.4.ext_physics"), "what-is-not-simulated-14"
    ),
    "2.1": "contexts-21",
    **dict.fromkeys(("2.2", "2.3", "2.4", "2.5", "2.6", "2.9", "2.7.offered", "2.graph"), _INTERFACES),
    **dict.fromkeys(("2.7", "2.8", "isaac"), _FRAMES),
    "2.7.sensor": _SENSORS,
    "3.8": "urdf-38",
    "4.2.3": "controllers-423",
    "import": "robot-files-import",
}
"""Headings of the page of diagnostics, by code or its first parts; the longest one counts."""


def diagnostics_url(finding: str) -> str:
    """Return the address of the section about a code in the page of diagnostics."""
    parts = finding.split(".")
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    anchor = next((_ANCHORS[name] for name in names if name in _ANCHORS), "")
    return f"{DIAGNOSTICS_PAGE}#{anchor}" if anchor else DIAGNOSTICS_PAGE


# --- Places -------------------------------------------------------------------------------------------------------


def _place_of(diagnostic: Diagnostic, asset: str) -> tuple[str, int]:
    """Return the file to annotate, and its line, 0 for none.

    The file is the layer, the archive around it, which has no lines, or the asset where the layer is no file.
    """
    outer, inner = archive_and_inner(diagnostic.layer)
    if not outer or not Path(outer).is_absolute():
        return asset, 0
    return outer, 0 if inner else diagnostic.line


def _uri(file: str) -> str:
    """Return a file as a URI: relative if it is below the working directory."""
    if "://" in file:
        return _quoted(file, safe="/:@")
    try:
        path = os.path.abspath(file)  # noqa: PTH100 - links stay as they are
    except FileNotFoundError:
        # The working directory was removed.
        return _quoted(file)
    below = path_from_here(path)
    return f"file://{_quoted(path)}" if below == path else _quoted(below)


def _quoted(text: str, *, safe: str = "/") -> str:
    # The name of a file may have bytes that are not UTF-8.
    return quote(text, safe=safe, errors="surrogateescape")


def _message(diagnostic: Diagnostic) -> str:
    return _group_message(grouped([diagnostic])[0])


def _group_message(group: DiagnosticGroup) -> str:
    text = f"{group.where}: {group.message}" if group.where else group.message
    return escaped(f"{text} ({group.first.remedy})" if group.first.remedy else text)


# --- SARIF --------------------------------------------------------------------------------------------------------


def to_sarif(diagnostics: Iterable[Diagnostic], *, asset: str, version: str) -> dict[str, Any]:
    """Return findings as a SARIF 2.1.0 log, worst first, at most MAX_RESULTS.

    Args:
        diagnostics: The findings.
        asset: The asset, the place of findings without a file.
        version: Version of this package.
    """
    found = worst_first(diagnostics)[:MAX_RESULTS]
    codes = list(dict.fromkeys(each.code for each in found))
    rows = {code: row for row, code in enumerate(codes)}
    driver = {
        "name": "usd_ros_bridge",
        "version": version,
        "informationUri": REPOSITORY,
        "rules": [_rule(code) for code in codes],
    }
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "utf16CodeUnits",
                "results": [_result(each, rows[each.code], asset) for each in found],
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    section = ".".join(part for part in code.split(".") if part.isdigit())
    text = f"{escaped(code)}: REP 0158, section {section}" if section else escaped(code)
    url = diagnostics_url(code)
    return {
        "id": escaped(code),
        "shortDescription": {"text": text},
        "help": {"text": f"Meaning and remedy: {url}", "markdown": f"[Meaning and remedy]({url})"},
        "helpUri": url,
    }


def _result(diagnostic: Diagnostic, rule: int, asset: str) -> dict[str, Any]:
    file, line = _place_of(diagnostic, asset)
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    if line:
        place["region"] = {"startLine": line}
    location: dict[str, Any] = {"physicalLocation": place}
    if diagnostic.path:
        location["logicalLocations"] = [{"fullyQualifiedName": escaped(diagnostic.path), "kind": "object"}]
    key = "|".join((diagnostic.code, diagnostic.path, diagnostic.attribute, diagnostic.message))
    digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
    said = {"reason": diagnostic.reason, "value": diagnostic.value}
    properties = {name: escaped(value) for name, value in said.items() if value}
    return {
        "ruleId": escaped(diagnostic.code),
        "ruleIndex": rule,
        "level": _SARIF_LEVELS[diagnostic.severity],
        "message": {"text": _message(diagnostic)},
        "locations": [location],
        "partialFingerprints": {"usdRosBridgeFinding/v1": digest},
        **({"properties": properties} if properties else {}),
    }


# --- GitHub Actions -----------------------------------------------------------------------------------------------


def to_annotations(diagnostics: Iterable[Diagnostic], *, asset: str) -> Iterator[str]:
    """Yield findings as workflow commands of GitHub Actions, worst first: one line each, or for all that say the same.

    GitHub shows few annotations. A line about several prims stands at the first one.

    Args:
        diagnostics: The findings.
        asset: The asset, the place of findings without a file.
    """
    for group in grouped(worst_first(diagnostics)):
        each = group.first
        file, line = _place_of(each, asset)
        properties = {"file": path_from_here(file), "title": each.code}
        if line:
            properties["line"] = str(line)
        written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
        yield f"::{_ANNOTATIONS[each.severity]} {written}::{_data(_group_message(group))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(escaped(text, keep="\r\n")).replace(":", "%3A").replace(",", "%2C")
